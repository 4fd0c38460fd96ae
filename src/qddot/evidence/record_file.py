"""The file of a record while it is written: locked, chained, and readable up to where it stops.

A record that is there is kept until the new one is whole. Until then the new one is beside it, as
NAME.part, a record like any other that was cut short.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qddot.errors import CannotWrite, InvalidArgument, MissingPackage, RecordError
from qddot.evidence.chain import Chain
from qddot.evidence.reader import read_record
from qddot.evidence.record import canonical_json
from qddot.evidence.schema import (
    MOST_INPUT_BYTES,
    MOST_MESSAGE,
    MOST_MESSAGES,
    MOST_NUMBERS,
    MOST_UNFOLDED,
    MOST_WORDS,
    PROFILE,
    SCHEMAS,
    find_fault,
    parse_json,
    publish_schema,
)
from qddot.files import check_target

__all__ = ["RecordFile", "part_beside", "take_over_part"]

_CHUNK = 16 * 1024
_LIMITS = {
    "inputs": MOST_INPUT_BYTES,
    "messages": MOST_MESSAGES,
    "bytes": MOST_UNFOLDED,
    "words": MOST_WORDS,
    "numbers": MOST_NUMBERS,
}


def part_beside(file: str | Path) -> Path:
    """The file in which a run writes while the record that it will replace is kept: NAME.part."""
    return Path(f"{file}.part")


class RecordFile:
    """Writes the messages of a record; what is written is the system's at once.

    Only one process writes a record: the others are refused until it has ended, however it ends.
    """

    def __init__(self, file: str | Path, force: bool) -> None:
        try:
            from mcap.writer import Writer
        except ImportError as error:
            raise MissingPackage("mcap", "writing records", "'qddot[log]'") from error
        self.file, self.target = Path(file), check_target(file, force)
        self.origin, self.chain = time.time_ns(), Chain(PROFILE)
        self._channels: dict[str, int] = {}
        self._sums = dict.fromkeys(_LIMITS, 0)
        with self._naming_the_file(), contextlib.ExitStack() as opened:
            special = self.target.exists() and not self.target.is_file()
            if not special:
                opened.enter_context(_hold_lock(self.target, self.file))
                _remove_drafts(self.target)
            # another process may have written it before the lock was free
            kept = check_target(file, force).is_file()
            self.path = part_beside(self.target) if kept else self.target
            if kept:
                self.path.unlink(missing_ok=True)
            # what appears meanwhile, a link too, is not written into
            self._stream = opened.enter_context(open(self.path, "wb" if special else "xb"))
            self._writer = Writer(self._stream, chunk_size=_CHUNK, enable_data_crcs=True)
            self._writer.start(profile=PROFILE, library="qddot")
            self._closing = opened.pop_all()

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        """Errors of the disk as errors that name the record."""
        try:
            yield
        except OSError as error:
            raise CannotWrite(self.file, error.strerror or str(error)) from error

    def _count(self, name: str, more: int) -> None:
        """Refuse what no reader would take."""
        self._sums[name] += more
        if self._sums[name] > _LIMITS[name]:
            self._sums[name] -= more
            accepted = (
                f"a record has room for {_LIMITS[name]} {name}; keep fewer rows (--every) or inputs"
            )
            raise InvalidArgument("record", str(self.file), accepted)

    def head_before(self, topic: str) -> str:
        """The head of the chain that a message on a topic is to state."""
        self.channel(topic, SCHEMAS[topic], {})
        return self.chain.head

    def attach(self, place: str, data: bytes) -> None:
        """Write the content of an input."""
        self._count("inputs", len(data))
        self.chain.add_input(place, data)
        with self._naming_the_file():
            kind = "application/octet-stream"
            self._writer.add_attachment(0, self.origin, place, kind, data)

    def send(self, topic: str, text: str, end: bool = True) -> None:
        """Write a message by the schema of its topic; `end` closes its chunk."""
        # a name of a file that is no text has letters that no encoding knows
        data = text.encode("utf-8", "replace")
        if fault := find_fault(parse_json(data), SCHEMAS[topic]):
            raise InvalidArgument("record", topic.strip("/"), f"{fault}, which no record may have")
        self._count("words", len(data))
        channel = self.channel(topic, SCHEMAS[topic], {})
        # the end states the head before it, and is no part of the chain
        self._write(channel, time.time_ns(), data, chained=topic != "/end")
        if end:
            with self._naming_the_file():
                self._writer.flush()

    def reserve(self, rows: int, numbers: int) -> None:
        """Refuse a trace for which there is no room, before anything of it is written."""
        self._count("numbers", numbers)
        self._count("messages", rows)
        self._sums["messages"] -= rows

    def send_row(self, channel: int, row: Mapping[str, Any], stamp: int) -> None:
        """Write a row of a trace."""
        if isinstance(label := row.get("label"), str):
            self._count("words", len(label))
        text = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
        self._write(channel, stamp, text.encode("utf-8", "replace"))

    def channel(self, topic: str, schema: Mapping[str, Any], facts: Mapping[str, str]) -> int:
        """The number of the channel of a topic, which begins where there is none."""
        if topic not in self._channels:
            text, facts = publish_schema(schema), dict(facts)
            with self._naming_the_file():
                number = self._writer.register_schema(schema["title"], "jsonschema", text)
                number = self._writer.register_channel(topic, "json", number, facts)
            self.chain.add_channel(number, topic, facts, (schema["title"], text))
            self._channels[topic] = number
        return self._channels[topic]

    def _write(self, channel: int, stamp: int, data: bytes, chained: bool = True) -> None:
        self._count("messages", 1)
        self._count("bytes", len(data))
        if len(data) > MOST_MESSAGE:
            accepted = f"a message has up to {MOST_MESSAGE} bytes"
            raise InvalidArgument("record", len(data), accepted)
        if chained:
            self.chain.add_message(channel, 0, (stamp, stamp), data)
        with self._naming_the_file():
            self._writer.add_message(channel, log_time=stamp, publish_time=stamp, data=data)

    def close(self, whole: bool) -> None:
        """End the file with its index; a whole one takes its name."""
        try:
            with self._naming_the_file():
                self._writer.finish()
                self._stream.flush()
                with contextlib.suppress(OSError):
                    # pipes cannot
                    os.fsync(self._stream.fileno())
                self._stream.close()
                if whole and self.path != self.target:
                    os.replace(self.path, self.target)
                elif whole and self.target.is_file():
                    part_beside(self.target).unlink(missing_ok=True)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        # a stream that cannot be written fails to close, too
        with contextlib.suppress(OSError):
            self._closing.close()


def take_over_part(file: Path) -> None:
    """Give NAME.part its name where it goes further than the record, which is not complete either.

    It is left where it is of another run. CannotWrite where a process is writing it.
    """
    part = part_beside(file)
    if not part.is_file():
        return
    with _hold_lock(file.resolve(), file):
        try:
            here, there = read_record(file), read_record(part)
        except RecordError:
            return
        facts = ((r.inputs, r.seed, canonical_json(r.configuration)) for r in (here.run, there.run))
        further = len(there.whole_steps) > len(here.whole_steps)
        if further and not here.complete and next(facts) == next(facts):
            os.replace(part, file)


@contextmanager
def _hold_lock(target: Path, named: Path) -> Iterator[None]:
    """Hold the lock of a record, a hidden file beside it that the system frees with its process."""
    path = target.with_name(f".{target.name}.lock")
    while True:
        # a link would lead to a file that is no lock
        flags = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
        stream = open(descriptor, "r+b")  # noqa: SIM115
        if not _try_lock(stream):
            with stream:
                stream.seek(0)
                holder = stream.read(20).decode("ascii", "replace").strip()
            raise CannotWrite(
                named,
                f"process {holder or 'unknown'} is writing it; wait for it, or take another name",
            )
        # the last holder may have removed the file between opening and locking
        try:
            if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                break
        except FileNotFoundError:
            pass
        stream.close()
    with stream:
        stream.seek(0)
        stream.write(f"{os.getpid():<19}\n".encode())
        stream.flush()
        try:
            yield
        finally:
            # Windows removes no file that is open
            with contextlib.suppress(OSError):
                path.unlink()


def _try_lock(stream: Any) -> bool:
    """Lock a file unless another process has; True also where the system has no locks."""
    try:
        import fcntl
    except ImportError:
        return _try_lock_on_windows(stream)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # some network disks have no locks
        return True
    return True


def _try_lock_on_windows(stream: Any) -> bool:
    import importlib

    msvcrt: Any = importlib.import_module("msvcrt")
    # a byte beyond the text, which others may read
    stream.seek(1000)
    try:
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def _remove_drafts(target: Path) -> None:
    """Remove hidden drafts of a record that processes left which were killed.

    A draft is written like any record; one whose lock is free has no process.
    """
    pattern = re.compile(rf"\.{re.escape(target.stem)}-[0-9a-f]{{8}}{re.escape(target.suffix)}")
    for draft in target.parent.iterdir():
        if pattern.fullmatch(draft.name):
            with contextlib.suppress(OSError, CannotWrite), _hold_lock(draft, draft):
                draft.unlink()
