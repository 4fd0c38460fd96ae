"""Reading a record: whole, cut short, or damaged; in bounded memory, and never a foreign file."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import MissingPackage, RecordError, format_bytes
from qddot.evidence.record import Claim, Input, Metric, Record, RecordTrace, Run, StepMark, Verdict
from qddot.evidence.recorder import PROFILE

__all__ = ["CUT_SHORT", "MOST_BYTES", "is_record", "read_record"]

MOST_BYTES = 2**30
"""Largest file that is read, and the most that its chunks may unfold to in all."""
_MOST_CHUNK = 64 * 2**20
CUT_SHORT = "the file ends before its index: the run was cut short"
"""The damage of a record whose run was killed: all that comes before the cut is there."""


def read_record(file: str | Path) -> Record:
    """The record in a file; what cannot be read is listed in its `damage`.

    Refused are files that cannot be opened, are no record, or are larger than 1 GiB.
    """
    path = Path(file)
    try:
        size = path.stat().st_size
        with open(path, "rb") as stream:
            if path.is_dir() or size > MOST_BYTES:
                kept = f"it has {format_bytes(size)}; records up to {format_bytes(MOST_BYTES)}"
                raise RecordError(file, f"{kept} are read")
            reading = _Reading(path)
            for topic, message, facts in reading.messages(stream):
                reading.take(topic, message, facts)
    except FileNotFoundError as error:
        accepted = "a record is a file that a command wrote with --record FILE"
        raise RecordError(file, f"no such file; {accepted}") from error
    except OSError as error:
        raise RecordError(file, error.strerror or str(error)) from error
    return reading.record()


class _Reading:
    """A record in the making: messages by topic, and what was wrong with the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.damage = path, list[str]()
        self.run: Run | None = None
        self.contents: dict[str, bytes] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.facts: dict[str, dict[str, str]] = {}
        self.ends: dict[str, dict[str, Any]] = {}
        self.metrics: dict[str, Metric] = {}
        self.claims: list[Claim] = []
        self.marks: list[StepMark] = []
        self.log: list[str] = []
        self.stated = ""

    def messages(self, stream: Any) -> Iterator[tuple[str, Any, dict[str, str]]]:
        """Messages with their topics and the metadata of their channels, as far as they go."""
        try:
            from mcap.exceptions import McapError
            from mcap.records import Attachment, Channel, Chunk, Footer, Header, Message
            from mcap.stream_reader import CRCValidationError, StreamReader
        except ImportError as error:
            raise MissingPackage("mcap", "reading records", "'qddot[log]'") from error
        channels: dict[int, Channel] = {}
        unfolded, ended, first = 0, False, True
        broken = (McapError, ValueError, struct.error, MemoryError, RuntimeError, IndexError)
        try:
            reader = StreamReader(
                stream, emit_chunks=True, validate_crcs=True, record_size_limit=_MOST_CHUNK
            )
            for found in reader.records:
                if first and (not isinstance(found, Header) or found.profile != PROFILE):
                    raise RecordError(self.path, "an MCAP file of another kind, not a record")
                first = False
                if isinstance(found, Attachment):
                    self.contents[found.name] = found.data
                ended = ended or isinstance(found, Footer)
                if not isinstance(found, Chunk):
                    continue
                try:
                    inner = _unfold(found)
                except Exception as error:  # what a decompressor raises is its own affair
                    self.damage.append(f"a chunk is damaged ({type(error).__name__})")
                    continue
                unfolded += found.uncompressed_size
                if unfolded > MOST_BYTES:
                    reason = f"it unfolds to more than {format_bytes(MOST_BYTES)}"
                    raise RecordError(self.path, reason)
                for item in inner:
                    if isinstance(item, Channel):
                        channels[item.id] = item
                    elif isinstance(item, Message) and item.channel_id in channels:
                        channel = channels[item.channel_id]
                        try:
                            yield channel.topic, json.loads(item.data), channel.metadata
                        except (ValueError, RecursionError):
                            self.damage.append(f"a message on {channel.topic} is no JSON")
        except RecordError:
            raise
        except CRCValidationError:
            self.damage.append("the check sum of the file is not that of its bytes")
            ended = True
        except broken as error:
            if first:
                raise RecordError(self.path, "not a record (no MCAP file)") from error
        if first:
            raise RecordError(self.path, "not a record (an empty MCAP file)")
        if not ended:
            self.damage.append(CUT_SHORT)

    def take(self, topic: str, message: Any, facts: dict[str, str]) -> None:
        """Sort a message in; one that is not as it should be is damage."""
        try:
            if topic == "/run":
                inputs = tuple(Input(**x) for x in message.pop("inputs"))
                arguments = tuple(map(str, message.pop("arguments")))
                self.run = Run(**message, inputs=inputs, arguments=arguments)
            elif topic.startswith("/trace/"):
                name = topic.removeprefix("/trace/")
                self.rows.setdefault(name, []).append(message)
                self.facts[name] = facts
            elif topic == "/traces":
                self.ends[str(message["trace"])] = message
            elif topic == "/metric":
                value = message.pop("value")
                operands = tuple(map(str, message.pop("operands")))
                number = float("nan") if value is None else float(value)
                self.metrics[message["name"]] = Metric(**message, value=number, operands=operands)
            elif topic == "/claim":
                verdict = Verdict(message.pop("verdict"))
                # a value that is no number is written as null
                judged = message["relation"] and verdict is not Verdict.NOT_EVALUATED
                if message["value"] is None and judged:
                    message["value"] = float("nan")
                self.claims.append(Claim(**message, verdict=verdict))
            elif topic == "/step":
                counts = {str(n): int(x) for n, x in message.pop("counts", {}).items()}
                self.marks.append(StepMark(**message, counts=counts))
            elif topic == "/log":
                self.log.append(str(message["message"]))
            elif topic == "/end":
                self.stated = str(message["digest"])
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            self.damage.append(f"a message on {topic[:60]} is not as it should be ({error})"[:200])

    def record(self) -> Record:
        """The record, with what there is of traces that are not whole."""
        if self.run is None:
            if set(self.damage) - {CUT_SHORT}:
                raise RecordError(self.path, "the part that says what was run is damaged")
            raise RecordError(self.path, "the file was cut before the run began; nothing is in it")
        traces = {}
        for name in dict.fromkeys([*self.ends, *self.rows]):
            rows, of = self.rows.get(name, []), self.ends.get(name, {}).get("rows")
            try:
                facts = self.facts.get(name, {})
                # null is NaN
                columns = {
                    column: np.array([row[column] for row in rows], dtype=float).reshape(
                        len(rows), *shape
                    )
                    for column, shape in json.loads(facts["shapes"]).items()
                }
                traces[name] = RecordTrace(
                    name,
                    columns,
                    units=json.loads(facts["units"]),
                    labels=tuple(str(row["label"]) for row in rows if "label" in row),
                    frame=facts.get("frame", ""),
                    step=facts.get("step", ""),
                )
            except (TypeError, KeyError, ValueError) as error:
                self.damage.append(f"trace {name!r} cannot be read ({error})"[:200])
                continue
            if of != len(rows):
                self.damage.append(f"trace {name!r} has {len(rows)} rows of {of or 'more'}")
        run = self.run
        inputs = tuple(
            Input(**{**vars(x), "content": self.contents.get(x.place)}) for x in run.inputs
        )
        return Record(
            run=Run(**{**vars(run), "inputs": inputs}),
            traces=traces,
            metrics=self.metrics,
            claims=tuple(self.claims),
            marks=tuple(self.marks),
            log=tuple(self.log),
            digests={name: str(end.get("digest")) for name, end in self.ends.items()},
            stated=self.stated,
            damage=tuple(dict.fromkeys(self.damage)),
        )


def _unfold(chunk: Any) -> list[Any]:
    """Records of a chunk, after its check sum; one that would unfold to more than it says fails."""
    import zstandard
    from mcap.stream_reader import breakup_chunk

    if chunk.uncompressed_size > _MOST_CHUNK:
        raise ValueError("too large")
    if chunk.compression == "zstd":
        stated = zstandard.get_frame_parameters(chunk.data).content_size
        if stated != chunk.uncompressed_size:
            raise ValueError("sizes differ")
    elif chunk.compression:
        raise ValueError("unknown compression")
    return breakup_chunk(chunk, validate_crc=True)


def is_record(file: str | os.PathLike[str]) -> bool:
    """Whether a file begins as MCAP does."""
    try:
        with open(file, "rb") as stream:
            return stream.read(8) == b"\x89MCAP0\r\n"
    except OSError:
        return False
