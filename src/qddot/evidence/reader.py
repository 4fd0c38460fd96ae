"""Reading a record: whole, cut short, or damaged; in bounded memory, and never a foreign file."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import RecordError
from qddot.evidence.chain import Chain
from qddot.evidence.record import Claim, Input, Metric, Record, RecordTrace, Run, StepMark, Verdict
from qddot.evidence.scan import (
    CUT_SHORT,
    MAGIC,
    Attached,
    ChannelSeen,
    MessageSeen,
    open_regular,
    scan_parts,
)
from qddot.evidence.schema import (
    MOST_BYTES,
    MOST_COLUMNS,
    MOST_INPUT_BYTES,
    MOST_MESSAGE,
    MOST_MESSAGES,
    MOST_NUMBERS,
    MOST_OF_A_KIND,
    MOST_WORDS,
    PROFILE,
    SCHEMAS,
    TRACE_SCHEMAS,
    find_fault,
    parse_json,
)

__all__ = ["CUT_SHORT", "MOST_BYTES", "is_record", "read_record"]

_MOST_DAMAGE = 50
"""Reasons that are told."""
_MOST_DAMAGED = 200_000
"""Parts that may be damaged; a lost chunk may leave all rows of a trace without their channel."""
_BLOCK_ROWS, _BLOCK_BYTES = 1024, 2**20


def read_record(file: str | Path) -> Record:
    """The record in a file; what cannot be read is listed in its `damage`.

    Every message is checked against its schema, and the chain is computed over all of them. Refused
    are files that cannot be opened, are no record, or have more than the limits of
    `qddot.evidence.schema`.
    """
    reading = _Reading(Path(file))
    with open_regular(file) as (stream, size):
        for part in scan_parts(file, stream, size, PROFILE, reading.note_damage):
            reading.take(part)
    return reading.record()


class _TraceRows:
    """The rows of a trace, taken into arrays a block at a time."""

    def __init__(self, facts: dict[str, str]) -> None:
        given: dict[str, Any] = {}
        for name, schema in TRACE_SCHEMAS.items():
            text = facts[name]
            value = parse_json(text.encode()) if schema["type"] == "object" else text
            if fault := find_fault(value, schema, name):
                raise ValueError(fault)
            given[name] = value
        self.units, self.shapes = given["units"], given["shapes"]
        self.frame, self.step = given["frame"], given["step"]
        self.width = sum(_product(shape) for shape in self.shapes.values())
        if self.width > MOST_MESSAGE:
            raise ValueError(f"a row of {self.width} numbers")
        self.columns: dict[str, list[np.ndarray]] = {name: [] for name in self.shapes}
        self.labels: list[str] = []
        self.pending: list[dict[str, Any]] = []
        self.pending_bytes, self.length = 0, 0

    def add(self, row: Any, size: int) -> None:
        """Add a row; ValueError where its names are not those of the columns."""
        if not isinstance(row, dict) or row.keys() - {"label"} != self.shapes.keys() - {"label"}:
            raise ValueError("a row has other columns")
        labelled = "label" in row and "label" not in self.shapes
        if labelled != bool(self.labels) and self.length:
            raise ValueError("some rows have no label")
        if labelled:
            if fault := find_fault(row["label"], {"type": "string"}, "label"):
                raise ValueError(fault)
            self.labels.append(row["label"])
        self.pending.append(row)
        self.length, self.pending_bytes = self.length + 1, self.pending_bytes + size
        if len(self.pending) >= _BLOCK_ROWS or self.pending_bytes >= _BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Turn the rows that wait into arrays; ValueError where one has another shape."""
        rows, self.pending, self.pending_bytes = self.pending, [], 0
        for name, shape in self.shapes.items():
            values: list[Any] = [row[name] for row in rows]
            for length in shape:
                if any(type(x) is not list or len(x) != length for x in values):
                    raise ValueError(f"column {name!r} has another shape in some row")
                values = list(chain.from_iterable(values))
            if set(map(type, values)) - {int, float, type(None)}:
                raise ValueError(f"column {name!r} has something that is no number")
            block = np.array(values, dtype=float)
            if np.isinf(block).any():
                raise ValueError(f"column {name!r} has a number that is not finite")
            self.columns[name].append(block)

    def trace(self, name: str) -> RecordTrace:
        """The trace of the rows so far."""
        self.flush()
        columns = {}
        for column, shape in self.shapes.items():
            blocks = self.columns.pop(column)
            columns[column] = np.concatenate([*blocks, []]).reshape(self.length, *shape)
        return RecordTrace(name, columns, self.units, tuple(self.labels), self.frame, self.step)


def _product(shape: list[int]) -> int:
    found = 1
    for n in shape:
        found *= n
    return found


class _Reading:
    """A record in the making: messages by topic, and what was wrong with the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.damage = path, dict[str, None]()
        self.chain = Chain(PROFILE)
        self.run: Run | None = None
        self.contents: dict[str, bytes] = {}
        self.channels: dict[int, ChannelSeen] = {}
        self.rows: dict[str, _TraceRows] = {}
        self.current = ""
        self.traces: dict[str, RecordTrace] = {}
        self.digests: dict[str, str] = {}
        self.metrics: dict[str, Metric] = {}
        self.claims: list[Claim] = []
        self.marks: list[StepMark] = []
        self.log: list[str] = []
        self.begun, self.open = set[str](), set[str]()
        self.end: dict[str, Any] = {}
        self.sums = Counter[str]()

    def note_damage(self, words: str) -> None:
        """Keep the reason why something could not be read; only the first ones."""
        self.count("damaged parts", 1, _MOST_DAMAGED)
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.setdefault(words[:200])
        elif len(self.damage) == _MOST_DAMAGE:
            self.damage["and more"] = None

    def count(self, name: str, more: int, most: int) -> None:
        """Add to a sum that has a limit; a record beyond it is refused."""
        self.sums[name] += more
        if self.sums[name] > most:
            raise RecordError(self.path, f"it holds more than {most} {name}, which is the limit")

    def take(self, part: Attached | ChannelSeen | MessageSeen) -> None:
        """Sort a part in; a message that is not as it should be is damage."""
        if isinstance(part, Attached):
            self.count("inputs", len(part.data), MOST_INPUT_BYTES)
            self.chain.add_input(part.name, part.data)
            if self.run is not None or part.name in self.contents:
                self.note_damage(f"input {part.name[:60]!r} is where none may be")
            self.contents.setdefault(part.name, part.data)
        elif isinstance(part, ChannelSeen):
            self.chain.add_channel(part.number, part.topic, part.facts, part.schema)
            self.count("words", len(part.schema[1]) + len(str(part.facts)), MOST_WORDS)
            self.channels[part.number] = part
            if part.topic.startswith("/trace/"):
                self.begin_trace(part)
        else:
            channel = self.channels[part.channel]
            self.count("messages", 1, MOST_MESSAGES)
            try:
                self.take_message(channel, part)
            except ValueError as error:
                self.note_damage(f"a message on {channel.topic[:60]!r}: {error}")
            # the end states the head before it
            if channel.topic != "/end":
                self.chain.add_message(part.channel, part.sequence, part.times, part.data)

    def take_message(self, channel: ChannelSeen, part: MessageSeen) -> None:
        """Check a message against its schema and the order of a record, and keep it."""
        topic, size = channel.topic, len(part.data)
        if size > MOST_MESSAGE:
            raise ValueError(f"it has {size} bytes")
        if self.end:
            self.note_damage("there are messages after the end")
        if self.run is None and topic != "/run":
            self.note_damage("there are messages before the run")
        if topic.startswith("/trace/"):
            self.take_row(channel, part.data)
            return
        if topic not in SCHEMAS:
            raise ValueError("no record has this topic")
        self.count("words", size, MOST_WORDS)
        message = parse_json(part.data)
        if fault := find_fault(message, SCHEMAS[topic]):
            raise ValueError(fault)
        if (step := message.get("step")) and topic != "/step" and step not in self.open:
            self.note_damage(f"a message on {topic} is of step {step[:60]!r}, which is not open")
        getattr(self, f"take_{topic[1:]}")(message)

    def take_run(self, message: dict[str, Any]) -> None:
        """Keep what was run, with the contents of its inputs."""
        if self.run is not None:
            raise ValueError("a record has one run")
        inputs = []
        for given in message["inputs"]:
            content = self.contents.get(given["place"])
            if content is not None:
                same = hashlib.sha256(content).hexdigest() == given["sha256"]
                if not same or len(content) != given["size"]:
                    self.note_damage(f"input {given['place'][:60]!r} is not the file that was read")
            inputs.append(Input(**given, content=content))
        places = [x.place for x in inputs]
        if len(set(places)) < len(places) or set(self.contents) - set(places):
            self.note_damage("inputs and their contents do not belong together")
        fields = {**message, "inputs": tuple(inputs), "arguments": tuple(message["arguments"])}
        self.run = Run(**fields)

    def begin_trace(self, channel: ChannelSeen) -> None:
        """Begin the trace of a channel; that of another one is then over."""
        self.close_trace()
        name = channel.topic.removeprefix("/trace/")
        try:
            if fault := find_fault(name, SCHEMAS["/traces"]["properties"]["trace"], "its name"):
                raise ValueError(fault)
            if name in self.rows:
                raise ValueError("it is there twice")
            self.rows[name] = rows = _TraceRows(channel.facts)
            self.count("columns", len(rows.shapes), MOST_COLUMNS)
        except (ValueError, KeyError) as error:
            self.note_damage(f"trace {name[:60]!r} cannot be read ({error})")
            return
        self.current = name
        if rows.step and rows.step not in self.open:
            self.note_damage(f"trace {name[:60]!r} is of a step that is not open")

    def take_row(self, channel: ChannelSeen, data: bytes) -> None:
        """Keep a row of the trace that is open."""
        name = channel.topic.removeprefix("/trace/")
        if not name or name != self.current:
            raise ValueError("a row that is not with the others of its trace")
        rows = self.rows[name]
        self.count("numbers", rows.width, MOST_NUMBERS)
        row = parse_json(data)
        if isinstance(row, dict) and isinstance(label := row.get("label"), str):
            self.count("words", len(label), MOST_WORDS)
        rows.add(row, len(data))

    def close_trace(self) -> None:
        """Make the trace whose rows are over; without its end it has what came."""
        name, self.current = self.current, ""
        if not name:
            return
        try:
            self.traces[name] = self.rows[name].trace(name)
        except ValueError as error:
            self.note_damage(f"trace {name[:60]!r} cannot be read ({error})")

    def take_traces(self, message: dict[str, Any]) -> None:
        """Keep the end of a trace: its digest and the number of its rows."""
        name, current = message["trace"], self.current
        self.close_trace()
        if name in self.digests or name != current:
            raise ValueError(f"trace {name[:60]!r} ends where it is not written")
        self.digests[name] = message["digest"]
        rows = self.rows[name]
        if rows.length != message["rows"] or rows.step != message["step"]:
            self.note_damage(f"trace {name[:60]!r} has {rows.length} rows of {message['rows']}")

    def take_metric(self, message: dict[str, Any]) -> None:
        """Keep a metric; names are there once."""
        name, value = message["name"], message["value"]
        if name in self.metrics or len(self.metrics) >= MOST_OF_A_KIND:
            raise ValueError(f"metric {name[:60]!r} is there twice, or there are too many")
        # a number that is not finite is written as null
        number = float("nan") if value is None else float(value)
        fields = {**message, "value": number, "operands": tuple(message["operands"])}
        self.metrics[name] = Metric(**fields)

    def take_claim(self, message: dict[str, Any]) -> None:
        """Keep a claim."""
        if len(self.claims) >= MOST_OF_A_KIND:
            raise ValueError("too many claims")
        verdict, value, bound = (message[x] for x in ("verdict", "value", "bound"))
        if value is None and message["relation"] and verdict != Verdict.NOT_EVALUATED.value:
            value = float("nan")
        numbers = {
            n: None if x is None else float(x) for n, x in (("value", value), ("bound", bound))
        }
        self.claims.append(Claim(**{**message, **numbers, "verdict": Verdict(verdict)}))

    def take_step(self, message: dict[str, Any]) -> None:
        """Keep a mark, and whether the chain holds up to it."""
        step, begins = message["step"], message["event"] == "begin"
        if len(self.marks) >= MOST_OF_A_KIND:
            raise ValueError("too many marks")
        if begins and step in self.begun:
            self.note_damage(f"step {step[:60]!r} begins twice")
        if not begins and step not in self.open:
            self.note_damage(f"step {step[:60]!r} ends, but does not begin")
        self.begun.add(step)
        (self.open.add if begins else self.open.discard)(step)
        self.marks.append(StepMark(**message, holds=message["chain"] == self.chain.head))

    def take_log(self, message: dict[str, Any]) -> None:
        """Keep a line of the log."""
        self.log.append(message["message"])

    def take_end(self, message: dict[str, Any]) -> None:
        """Keep the end: digest, head of the chain, counts."""
        if self.end:
            raise ValueError("a record has one end")
        self.end = message
        counts = {"traces": len(self.digests), "metrics": len(self.metrics)}
        for name, n in {**counts, "claims": len(self.claims)}.items():
            if message[name] != n:
                self.note_damage(f"the end counts {message[name]} {name}, {n} are there")

    def record(self) -> Record:
        """The record, with what there is of traces that are not whole."""
        if self.run is None:
            if set(self.damage) - {CUT_SHORT}:
                first = next(x for x in self.damage if x != CUT_SHORT)
                reason = f"the part that says what was run is damaged ({first})"
                raise RecordError(self.path, reason)
            raise RecordError(self.path, "the file was cut before the run began; nothing is in it")
        self.close_trace()
        for name in self.rows.keys() - self.digests.keys():
            self.note_damage(f"trace {name[:60]!r} has no end")
        return Record(
            run=self.run,
            traces=self.traces,
            metrics=self.metrics,
            claims=tuple(self.claims),
            marks=tuple(self.marks),
            log=tuple(self.log),
            digests=self.digests,
            stated=self.end.get("digest", ""),
            damage=tuple(self.damage),
            chain=self.chain.head,
            stated_chain=self.end.get("chain", ""),
        )


def is_record(file: str | os.PathLike[str]) -> bool:
    """Whether a regular file begins as MCAP does."""
    try:
        with open_regular(Path(file)) as (stream, _):
            return stream.read(8) == MAGIC
    except RecordError:
        return False
