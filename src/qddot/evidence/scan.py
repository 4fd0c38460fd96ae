"""The parts of an MCAP file as they stand in it, each checked before it is used.

The reader of the `mcap` package takes lengths that a file states for true and keeps indexes in
memory; a file of a stranger costs it gigabytes. This one follows the same format, takes the parts
that a record has, and passes over the others in bounded memory.
"""

from __future__ import annotations

import itertools
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from qddot.errors import MissingPackage, RecordError, format_bytes
from qddot.evidence.schema import (
    MOST_BYTES,
    MOST_CHUNK,
    MOST_INPUT_BYTES,
    MOST_OF_A_KIND,
    MOST_UNFOLDED,
)

__all__ = [
    "CUT_SHORT",
    "MAGIC",
    "Attached",
    "ChannelSeen",
    "MessageSeen",
    "open_regular",
    "scan_parts",
]

MAGIC = b"\x89MCAP0\r\n"
CUT_SHORT = "the file ends before its index: the run was cut short"
"""The damage of a record whose run was killed: all that comes before the cut is there."""
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _ATTACHMENT = 1, 2, 3, 4, 5, 6, 9
_DATA_END = 15
_MOST_PART = {
    _HEADER: 1000,
    _FOOTER: 1000,
    _DATA_END: 1000,
    _CHUNK: MOST_CHUNK + 1000,
    _ATTACHMENT: MOST_INPUT_BYTES + 10_000,
}
"""The parts of a file that are taken, with the most bytes that each may have."""
_MOST_PARTS = 1_000_000
_MOST_UNFOLDED = MOST_UNFOLDED + 2**26
"""Bytes that all chunks unfold to, with what stands around the messages."""
_SOURCE = "the check sum of {} is not that of its bytes"


@dataclass(frozen=True)
class Attached:
    """An attachment: its name and content."""

    name: str
    data: bytes


@dataclass(frozen=True)
class ChannelSeen:
    """The channel of a topic: metadata, and name and text of its schema."""

    number: int
    topic: str
    facts: dict[str, str]
    schema: tuple[str, bytes]


@dataclass(frozen=True)
class MessageSeen:
    """A message: number of its channel, sequence number, times, content."""

    channel: int
    sequence: int
    times: tuple[int, int]
    data: bytes


@contextmanager
def open_regular(file: str | Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file, open for reading, and its size; others are refused without waiting for them.

    A FIFO would keep a reader waiting, and a device has no end.
    """
    flags = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
    try:
        if Path(file).is_dir():
            raise RecordError(file, "it is a folder; a record is a file")
        descriptor = os.open(file, os.O_RDONLY | flags)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise RecordError(file, "it is a device or a pipe; a record is a regular file")
            yield stream, status.st_size
    except FileNotFoundError as error:
        accepted = "a record is a file that a command wrote with --record FILE"
        raise RecordError(file, f"no such file; {accepted}") from error
    except (OSError, ValueError) as error:
        raise RecordError(file, getattr(error, "strerror", None) or str(error)) from error


class _Part:
    """The content of a part, taken from its begin to its end; ValueError where it is too short."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise ValueError("a part is shorter than it says")
        self.at += count
        return found

    def numbers(self, form: str) -> tuple[int, ...]:
        """The next numbers, in a format of `struct`."""
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def text(self) -> str:
        """The next text, which follows its length."""
        return str(self.take(*self.numbers("I")), "utf-8")

    def end(self) -> None:
        """Refuse a part with bytes that are left."""
        if self.at != len(self.data):
            raise ValueError("a part is longer than it says")


def scan_parts(
    file: str | Path, stream: BinaryIO, size: int, profile: str, damage: Callable[[str], None]
) -> Iterator[Attached | ChannelSeen | MessageSeen]:
    """Attachments, channels and messages in their order, as far as the file can be read.

    `damage` is told what is wrong. Files that are no record of this profile are refused.
    """
    if size > MOST_BYTES:
        kept = f"it has {format_bytes(size)}; records up to {format_bytes(MOST_BYTES)}"
        raise RecordError(file, f"{kept} are read")
    channels, schemas = dict[int, ChannelSeen](), dict[int, tuple[str, bytes]]()
    first, over, unfolded = True, False, 0
    for opcode, content in _file_parts(file, stream, damage):
        try:
            if first:
                _require_profile(file, opcode, content, profile)
                first = False
            elif opcode == _DATA_END:
                over = True
            elif opcode == _HEADER or (over and opcode != _FOOTER):
                damage("a part of the file is where none may be")
            elif opcode == _ATTACHMENT:
                yield _read_attachment(content)
            elif opcode == _CHUNK:
                data = _unfold(content)
                unfolded += len(data)
                if unfolded > _MOST_UNFOLDED:
                    reason = f"it unfolds to more than {format_bytes(_MOST_UNFOLDED)}"
                    raise RecordError(file, reason)
                yield from _read_chunk(data, channels, schemas, damage)
        except (ValueError, struct.error) as error:
            damage(f"a part of the file is damaged ({error})")
    if first:
        raise RecordError(file, "not a record (an empty MCAP file)")


def _file_parts(
    file: str | Path, stream: BinaryIO, damage: Callable[[str], None]
) -> Iterator[tuple[int, bytes]]:
    """Opcode and content of the parts that a record has, with the sums of the file checked."""
    if stream.read(8) != MAGIC:
        raise RecordError(file, "not a record (no MCAP file)")
    total = zlib.crc32(MAGIC)
    for count in itertools.count():
        if len(head := stream.read(9)) < 9:
            break
        if count > _MOST_PARTS:
            raise RecordError(file, f"it has more than {_MOST_PARTS} parts, which is the limit")
        opcode, length = struct.unpack("<BQ", head)
        if length > _MOST_PART.get(opcode, MOST_BYTES):
            return damage(f"a part of the file claims {format_bytes(length)}")
        before, total = total, zlib.crc32(head, total)
        blocks, left = list[bytes](), length
        while left and (block := stream.read(min(left, 2**20))):
            left -= len(block)
            if opcode != _FOOTER:
                total = zlib.crc32(block, total)
            if opcode in _MOST_PART:
                blocks.append(block)
        if left:
            break
        content = b"".join(blocks)
        if opcode == _DATA_END and length == 4:
            if content != struct.pack("<I", before):
                damage(_SOURCE.format("the file"))
            # the sum of the index begins after this part
            total = 0
        if opcode in _MOST_PART:
            yield opcode, content
        if opcode == _FOOTER:
            if content[16:] != struct.pack("<I", zlib.crc32(content[:16], total)):
                damage(_SOURCE.format("the index"))
            if stream.read(9) != MAGIC:
                damage("the file goes on after its end, or its end is cut")
            return None
    return damage(CUT_SHORT)


def _require_profile(file: str | Path, opcode: int, content: bytes, profile: str) -> None:
    found = _Part(content).text() if opcode == _HEADER else ""
    if found == profile:
        return
    stem, _, layout = profile.rpartition("-")
    if found.startswith(f"{stem}-"):
        reason = f"a record of layout {found[len(stem) + 1 :][:10]}; this version reads layout"
        raise RecordError(file, f"{reason} {layout}: run the command again to have one")
    raise RecordError(file, "an MCAP file of another kind, not a record")


def _read_attachment(content: bytes) -> Attached:
    part = _Part(content)
    part.numbers("QQ")
    name, _ = part.text(), part.text()
    data = part.take(*part.numbers("Q"))
    if part.numbers("I") != (zlib.crc32(content[:-4]),):
        raise ValueError(_SOURCE.format("an attachment"))
    part.end()
    return Attached(name, data)


def _unfold(content: bytes) -> bytes:
    """The bytes of a chunk; one that would unfold to more than it says is refused."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingPackage("mcap", "reading records", "'qddot[log]'") from error
    part = _Part(content)
    _, _, size, total = part.numbers("QQQI")
    kind = part.text()
    data = part.take(*part.numbers("Q"))
    part.end()
    if size > MOST_CHUNK:
        raise ValueError(f"a chunk of {format_bytes(size)}")
    if kind == "zstd":
        try:
            if zstandard.get_frame_parameters(data).content_size != size:
                raise ValueError("a chunk of another size")
            unpack = zstandard.ZstdDecompressor(max_window_size=MOST_CHUNK)
            data = unpack.decompress(data, max_output_size=size)
        except (zstandard.ZstdError, MemoryError) as error:
            raise ValueError(str(error)) from error
    elif kind:
        raise ValueError(f"an unknown compression {kind[:20]!r}")
    if len(data) != size or zlib.crc32(data) != total:
        raise ValueError(_SOURCE.format("a chunk"))
    return data


def _read_chunk(
    data: bytes,
    channels: dict[int, ChannelSeen],
    schemas: dict[int, tuple[str, bytes]],
    damage: Callable[[str], None],
) -> Iterator[ChannelSeen | MessageSeen]:
    """Channels and messages of a chunk; schemas are kept for the channels that name them."""
    at = 0
    while at < len(data):
        opcode, length = struct.unpack_from("<BQ", data, at)
        at += 9 + length
        if at > len(data):
            raise ValueError("a part is shorter than it says")
        if opcode == _MESSAGE and length >= 22:
            begin = at - length
            number, sequence, *times = struct.unpack_from("<HIQQ", data, begin)
            if number in channels:
                yield MessageSeen(number, sequence, (times[0], times[1]), data[begin + 22 : at])
            else:
                damage("a message has no channel")
            continue
        part = _Part(data[at - length : at])
        if opcode == _SCHEMA:
            (number,) = part.numbers("H")
            name, _ = part.text(), part.text()
            new = name, part.take(*part.numbers("I"))
            if schemas.setdefault(number, new) != new or len(schemas) > MOST_OF_A_KIND:
                raise ValueError("too many schemas, or one is there twice")
        elif opcode == _CHANNEL:
            number, schema = part.numbers("HH")
            topic, _ = part.text(), part.text()
            (end,) = part.numbers("I")
            facts, end = dict[str, str](), end + part.at
            while part.at < end:
                name = part.text()
                facts[name] = part.text()
            if schema not in schemas or len(channels) >= MOST_OF_A_KIND:
                raise ValueError("a channel has no schema, or there are too many")
            new_channel = ChannelSeen(number, topic, facts, schemas[schema])
            if number not in channels:
                channels[number] = new_channel
                yield new_channel
            elif channels[number] != new_channel:
                raise ValueError("a channel is there twice")
        else:
            raise ValueError("a part of a chunk is of another kind")
        part.end()
