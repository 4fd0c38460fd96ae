"""Tables of numbers with named columns, read from log files in pieces and within limits.

CSV, NumPy files, and what `parsers` reads in a child process: Parquet, MATLAB files, JointState
messages in MCAP and rosbag2 files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from qddot.display.progress import OnStep
from qddot.errors import DescriptionError, QddotError, UnusableLog, count_text, format_bytes
from qddot.identify.parsers import TIME, check_columns, choose_columns, rows_of_array
from qddot.identify.spill import row_slices, stack_rows
from qddot.loaders.arrays import ArrayArchive, check_regular, read_header
from qddot.loaders.isolation import ChildLimits, stream_isolated

__all__ = [
    "TIME",
    "Table",
    "gather_rows",
    "lost_rows_note",
    "open_table",
    "parse_apart",
    "squeeze_name",
]

MOST_BYTES = 2**36
"""Bytes of a file of a log."""
MOST_NUMBERS = 2**30
"""Numbers in the columns of a log that are asked for."""
_LINES = 40_000
"""Rows of arrays that are read at a time, unless they have more than `_NUMBERS` numbers."""
_NUMBERS = 2**21
_FIRST_LINES = 60
"""Lines of text from which delimiter and columns are found."""
_BLOCK = 2**21
"""Letters of text that are read at a time."""
_LONGEST_LINE = 2**20
_UNFOLDING = 100
"""Bytes to which each byte of an archive may unfold, whose rows are not held at once."""
_MOST_LOST = 0.2
_MIB = 2**20
_PARSER_MEMORY = (1024 * _MIB, 2048 * _MIB)
"""Bytes of memory for a parser besides those of its file, and of all."""
_PARSER_SECONDS = 8
"""Seconds of the processor for a parser, besides those for its file."""
_PARSER_SPEED = _MIB // 4
"""Bytes of a file that a parser reads in a second at least."""


@dataclass
class Table:
    """Names of columns and an iterator of rows in pieces; `lost` counts rows that were no rows.

    `expected` is about the number of rows, where the file tells it before it is read.
    """

    source: str
    names: tuple[str, ...]
    pieces: Iterator[np.ndarray]
    lost: int = 0
    found: int = 0
    expected: int = 0
    notes: list[str] = field(default_factory=list)


def open_table(file: str | Path, topic: str | None = None) -> Table:
    """The table in a file, by the end of its name."""
    path = Path(file).expanduser()
    readers: dict[str, Callable[[Path], Table]] = {
        ".parquet": lambda p: _parsed_apart("parquet_table", p, [p]),
        ".npz": _archive,
        ".npy": _array,
        ".mat": lambda p: _parsed_apart("matlab_table", p, [p]),
        ".mcap": lambda p: _parsed_apart("joint_states", p, [p], topic),
        ".db3": lambda p: _parsed_apart("joint_states", p, [p], topic),
    }
    with _errors_of_logs(path.name):
        if path.is_dir():
            databases, caps = sorted(path.glob("*.db3")), sorted(path.glob("*.mcap"))
            if not databases and not caps:
                raise UnusableLog(path.name, "the folder has no .db3 or .mcap file")
            return _parsed_apart("joint_states", path, databases or caps, topic)
        return readers.get(path.suffix.lower(), _text)(path)


@contextmanager
def _errors_of_logs(name: str, doing: str = "it cannot be read") -> Iterator[None]:
    """Make whatever a parser raises an error that names the log."""
    try:
        yield
    except DescriptionError as error:
        raise UnusableLog(name, error.reason) from error
    except QddotError:
        raise
    except Exception as error:  # parsers of other libraries fail in ways of their own
        raise UnusableLog(name, f"{doing}: {str(error)[:500]}") from error


def parse_apart(task: str, *arguments: Any, name: str, size: int) -> Iterator[bytes]:
    """The answers of a task of `parsers` on files of `size` bytes, from a child with limits."""
    cpu = _PARSER_SECONDS + size // _PARSER_SPEED
    limits = ChildLimits(
        seconds=10.0 + 4.0 * cpu,
        cpu_seconds=cpu,
        memory=min(_PARSER_MEMORY[0] + size, _PARSER_MEMORY[1]),
    )
    return stream_isolated(f"qddot.identify.parsers:{task}", *arguments, file=name, limits=limits)


def gather_rows(table: Table, columns: Sequence[int], on_step: OnStep | None = None) -> np.ndarray:
    """All rows of some columns: in memory, or in a temporary file where they are many."""
    _check_room(table, table.expected * len(columns))

    def pieces() -> Iterator[np.ndarray]:
        count = 0
        for piece in table.pieces:
            count += len(piece) * len(columns)
            _check_room(table, count)
            if on_step:
                on_step(f"reading {table.source}", table.found + table.lost, table.expected)
            yield np.asarray(piece[:, list(columns)], dtype=float)

    with _errors_of_logs(table.source, "it is damaged"):
        rows = stack_rows(pieces())
    total = table.found + table.lost
    if table.lost > _MOST_LOST * max(total, 1):
        raise UnusableLog(
            table.source,
            f"{table.lost} of {total} rows are no rows of {len(table.names)} numbers; "
            "is it a table of numbers, with the same columns all along?",
        )
    if not rows.size:
        raise UnusableLog(table.source, "it has no row of numbers")
    return rows


def _check_room(table: Table, count: int) -> None:
    """Refuse more numbers than are read at most."""
    if count > MOST_NUMBERS:
        reason = f"it has more than {MOST_NUMBERS:,} numbers in the columns that are read"
        raise UnusableLog(table.source, f"{reason}; split it")


def _text(path: Path) -> Table:
    """A table of text: delimiter and header found from the first lines.

    A header is the first line that is no comment and no numbers, or else the last comment before
    the numbers.
    """
    size = check_regular(path, MOST_BYTES)
    stream = path.open(encoding="utf-8", errors="replace", newline=None)
    blocks = _line_blocks(path, stream)
    block = next(blocks, [])
    first = block[:_FIRST_LINES]
    start = [line for line in first if line.strip() and not line.startswith("#")]
    if not start:
        raise UnusableLog(path.name, "it is empty")
    delimiter = max(",;\t", key=lambda d: sum(line.count(d) for line in start))
    if not any(delimiter in line for line in start):
        delimiter = " "

    def cells(line: str) -> list[str]:
        parts = line.split() if delimiter == " " else line.rstrip("\n").split(delimiter)
        return [p.strip().strip('"') for p in parts]

    heads = cells(start[0])
    header = not all(_is_number(x) for x in heads)
    body = start[1:] if header else start
    widths = [len(cells(line)) for line in body] or [len(heads)]
    width = len(heads) if header else max(set(widths), key=widths.count)
    check_columns(path.name, width)
    comments = [cells(line[1:]) for line in first[: first.index(start[0])] if line.startswith("#")]
    named = comments and len(comments[-1]) == width and not any(map(_is_number, comments[-1]))
    names = heads if header else comments[-1] if named else [str(k) for k in range(width)]
    mean = sum(len(line) for line in start) / len(start)
    table = Table(path.name, tuple(names), iter(()), expected=round(size / mean))
    lines = block[first.index(start[0]) + header :]
    table.pieces = _text_pieces(
        table, stream, chain([lines], blocks), cells, width, None if delimiter == " " else delimiter
    )
    return table


def _line_blocks(path: Path, stream: TextIO) -> Iterator[list[str]]:
    """The lines of a text in blocks of bounded size."""
    while text := stream.read(_BLOCK):
        # up to the end of the line that the block cuts
        text += stream.readline(_LONGEST_LINE)
        lines = text.split("\n")
        if max(map(len, lines)) >= _LONGEST_LINE:
            reason = f"a line has more than {_LONGEST_LINE:,} letters"
            raise UnusableLog(path.name, f"{reason}; is it a table of numbers?")
        yield lines


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


def _text_pieces(
    table: Table,
    stream: TextIO,
    blocks: Iterable[list[str]],
    cells: Callable[[str], list[str]],
    width: int,
    delimiter: str | None,
) -> Iterator[np.ndarray]:
    """Rows of numbers; a line that is cut short or has a word in it is lost, an empty cell NaN."""
    with stream:
        for lines in blocks:
            given = [line for line in lines if line]
            if not given:
                continue
            try:
                fast = np.loadtxt(given, delimiter=delimiter, ndmin=2, comments="#")
            except ValueError:
                fast = np.zeros((0, 0))
            if fast.shape[1] == width and len(fast):
                table.found += len(fast)
                yield fast
                continue
            # a line that is not like the others: one by one
            rows = []
            for line in given:
                parts = cells(line)
                if len(parts) != width:
                    table.lost += bool(line.strip())
                    continue
                try:
                    rows.append([float(x) if x else math.nan for x in parts])
                except ValueError:
                    table.lost += 1
            if rows:
                table.found += len(rows)
                yield np.array(rows)


def _count(table: Table, pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for piece in pieces:
        table.found += len(piece)
        yield piece


def _archive(path: Path) -> Table:
    archive = ArrayArchive(path, _UNFOLDING, MOST_BYTES)
    shapes = {n: x.shape for n, x in archive.headers.items() if x.dtype.kind in "biuf"}
    names, length, used = choose_columns(path.name, shapes)
    table = Table(path.name, tuple(names), iter(()), expected=length)
    headers = {name: archive.headers[name] for name in used}
    in_rows = {n: x.shape[0] == length and not x.by_columns for n, x in headers.items()}
    whole = sum(x.nbytes for n, x in headers.items() if not in_rows[n])
    if whole > archive.most_held:
        reason = f"{format_bytes(whole)} of its arrays do not lie row after row"
        raise UnusableLog(path.name, f"{reason}; {format_bytes(archive.most_held)} at most do")

    def pieces() -> Iterator[np.ndarray]:
        with archive:
            takers = [_row_taker(archive, name, length, in_rows[name]) for name in used]
            for first, last in _parts(length, len(names)):
                yield np.hstack([take(first, last) for take in takers])

    table.pieces = _count(table, pieces())
    return table


_TakeRows = Callable[[int, int], np.ndarray]
"""Rows of an array from one index up to another; calls go on where the last one ended."""


def _row_taker(archive: ArrayArchive, name: str, length: int, in_rows: bool) -> _TakeRows:
    """Rows of an array of an archive, read as they are asked for where they lie `in_rows`."""
    header = archive.headers[name]
    if not in_rows:
        x = rows_of_array(archive.read(name), length)
        return lambda first, last: np.asarray(x[first:last], dtype=float)
    stream, width = archive.open(name), math.prod(header.shape[1:])

    def take(first: int, last: int) -> np.ndarray:
        raw = stream.read((last - first) * width * header.dtype.itemsize)
        return np.frombuffer(raw, header.dtype).reshape(last - first, width)

    return take


def _parts(length: int, columns: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that are read at a time."""
    step = max(min(_LINES, _NUMBERS // columns), 1)
    for first in range(0, length, step):
        yield first, min(first + step, length)


def _array(path: Path) -> Table:
    size = check_regular(path, MOST_BYTES)
    with path.open("rb") as stream:
        header = read_header(path.name, stream, size)
    if len(header.shape) != 2 or header.dtype.kind not in "iuf":
        raise UnusableLog(path.name, "it is no matrix of numbers")
    check_columns(path.name, header.shape[1])
    rows = np.load(path, mmap_mode="r", allow_pickle=False)
    table = Table(path.name, tuple(str(k) for k in range(rows.shape[1])), iter(()))
    table.expected = len(rows)
    table.pieces = _count(table, (np.asarray(rows[part]) for part in row_slices(rows)))
    return table


def _parsed_apart(task: str, path: Path, files: Sequence[Path], *arguments: Any) -> Table:
    """The table of a task of `parsers`, which runs in a child process with limits."""
    size = sum(check_regular(file, MOST_BYTES) for file in files)
    given = [str(f.absolute()) for f in files]
    answers = parse_apart(task, given, *arguments, name=path.name, size=size)
    head = json.loads(next(answers))
    table = Table(path.name, tuple(head["names"]), iter(()), expected=head.get("expected", 0))
    table.notes += head.get("notes", ())

    def pieces() -> Iterator[np.ndarray]:
        rest: Iterator[bytes] = answers
        while (piece := next(rest, None)) is not None:
            yield np.frombuffer(piece).reshape(-1, len(table.names))

    table.pieces = _count(table, pieces())
    return table


def lost_rows_note(table: Table) -> str:
    """How many rows were no rows, in words; empty where there were none."""
    return f"{count_text(table.lost, 'broken row')} left out" if table.lost else ""


def squeeze_name(text: str) -> str:
    """A name without case and punctuation, for comparison."""
    return re.sub(r"[^a-z0-9]", "", text.lower())
