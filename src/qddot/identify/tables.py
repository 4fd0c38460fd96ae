"""Tables of numbers with named columns, read from log files in pieces.

CSV, Parquet, NumPy archives, MATLAB files, and JointState messages in MCAP and rosbag2 files.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from qddot.display.progress import OnStep
from qddot.errors import MissingPackage, QddotError, UnusableLog, count_text
from qddot.identify.spill import row_slices, stack_rows

__all__ = ["TIME", "Table", "gather_rows", "lost_rows_note", "open_table", "squeeze_name"]

TIME = "time"
_LINES = 40_000
"""Lines of text that are read at a time."""
_BUFFER = 1 << 20
"""Bytes of a column of a Parquet file that are read at a time."""
_MOST_LOST = 0.2
_JOINT_STATE = "JointState"


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
    if not path.exists():
        raise UnusableLog(path, "there is no such file")
    readers: dict[str, Callable[[Path], Table]] = {
        ".parquet": _parquet,
        ".npz": _archive,
        ".npy": _array,
        ".mat": _matlab,
        ".mcap": lambda p: _messages(p, _mcap_messages([p]), topic),
        ".db3": lambda p: _messages(p, _sqlite_messages([p]), topic),
    }
    try:
        if path.is_dir():
            databases, caps = sorted(path.glob("*.db3")), sorted(path.glob("*.mcap"))
            if not databases and not caps:
                raise UnusableLog(path.name, "the folder has no .db3 or .mcap file")
            messages = _sqlite_messages(databases) if databases else _mcap_messages(caps)
            return _messages(path, messages, topic)
        return readers.get(path.suffix.lower(), _text)(path)
    except QddotError:
        raise
    except Exception as error:  # parsers of other libraries fail in ways of their own
        raise UnusableLog(path.name, f"it cannot be read: {error}") from error


def gather_rows(table: Table, columns: Sequence[int], on_step: OnStep | None = None) -> np.ndarray:
    """All rows of some columns: in memory, or in a temporary file where they are many."""

    def pieces() -> Iterator[np.ndarray]:
        for piece in _guard_pieces(table):
            if on_step:
                on_step(f"reading {table.source}", table.found + table.lost, table.expected)
            yield np.asarray(piece[:, list(columns)], dtype=float)

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


def _guard_pieces(table: Table) -> Iterator[np.ndarray]:
    """The pieces of a table; a parser that fails on the way has read a damaged file."""
    try:
        yield from table.pieces
    except QddotError:
        raise
    except Exception as error:  # parsers of other libraries fail in ways of their own
        raise UnusableLog(table.source, f"it is damaged: {error}") from error


def _text(path: Path) -> Table:
    """A table of text: delimiter and header found from the first lines."""
    stream = path.open(encoding="utf-8", errors="replace", newline=None)
    start = [line for line in islice(stream, 60) if line.strip() and not line.startswith("#")]
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
    names = tuple(heads) if header else tuple(str(k) for k in range(width))
    mean = sum(len(line) for line in start) / len(start)
    table = Table(path.name, names, iter(()), expected=round(path.stat().st_size / mean))
    table.pieces = _text_pieces(
        table, stream, body, cells, width, None if delimiter == " " else delimiter
    )
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


def _text_pieces(
    table: Table,
    stream: TextIO,
    first: list[str],
    cells: Callable[[str], list[str]],
    width: int,
    delimiter: str | None,
) -> Iterator[np.ndarray]:
    """Rows of numbers; a line that is cut short or has a word in it is lost, an empty cell NaN."""
    with stream:
        lines = first
        while lines:
            try:
                fast = np.loadtxt(lines, delimiter=delimiter, ndmin=2, comments="#")
            except ValueError:
                fast = np.zeros((0, 0))
            if fast.shape[1] == width and len(fast):
                table.found += len(fast)
                yield fast
                lines = list(islice(stream, _LINES))
                continue
            # a line that is not like the others: one by one
            rows = []
            for line in lines:
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
            lines = list(islice(stream, _LINES))


def _count(table: Table, pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for piece in pieces:
        table.found += len(piece)
        yield piece


def _parquet(path: Path) -> Table:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingPackage("pyarrow", "reading Parquet", "qddot[identify]") from error
    try:
        # buffered ahead, all column chunks of the file would be held at once
        file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    except Exception as error:  # pyarrow has its own family of errors
        raise UnusableLog(path.name, f"it is no Parquet file: {error}") from error
    names = file.schema_arrow.names

    def pieces() -> Iterator[np.ndarray]:
        for batch in file.iter_batches(batch_size=_LINES):
            columns = [
                _numbers(batch.column(k).to_numpy(zero_copy_only=False)) for k in range(len(names))
            ]
            yield np.stack(columns, axis=1)

    table = Table(path.name, tuple(names), iter(()), expected=file.metadata.num_rows)
    table.pieces = _count(table, pieces())
    return table


def _numbers(column: np.ndarray) -> np.ndarray:
    """A column as floats; one that is no numbers is NaN, and refused if it is asked for."""
    if column.dtype.kind == "M":
        return column.astype("datetime64[ns]").astype(np.int64) * 1e-9
    try:
        return column.astype(float)
    except (TypeError, ValueError):
        return np.full(len(column), np.nan)


def _archive(path: Path) -> Table:
    archive = zipfile.ZipFile(path)
    shapes: dict[str, tuple[int, ...]] = {}
    for file in archive.namelist():
        with archive.open(file) as stream:
            shape, _, dtype = _read_header(stream)
        if dtype.kind in "biuf":
            shapes[file.removesuffix(".npy")] = shape

    def rows_of(name: str, length: int) -> _TakeRows:
        stream = archive.open(f"{name}.npy")
        shape, by_columns, dtype = _read_header(stream)
        if by_columns or shape[0] != length:
            # its rows do not lie one after the other
            with archive.open(f"{name}.npy") as again:
                return _rows_of_array(np.lib.format.read_array(again, allow_pickle=False), length)
        width = math.prod(shape[1:])

        def take(first: int, last: int) -> np.ndarray:
            raw = stream.read((last - first) * width * dtype.itemsize)
            return np.frombuffer(raw, dtype).reshape(last - first, width)

        return take

    return _from_arrays(path.name, shapes, rows_of)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order (whether by columns) and type of the array that begins here."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)


def _array(path: Path) -> Table:
    rows = np.load(path, mmap_mode="r", allow_pickle=False)
    if rows.ndim != 2 or rows.dtype.kind not in "iuf":
        raise UnusableLog(path.name, "it is no matrix of numbers")
    table = Table(path.name, tuple(str(k) for k in range(rows.shape[1])), iter(()))
    table.expected = len(rows)
    table.pieces = _count(table, (np.asarray(rows[part]) for part in row_slices(rows)))
    return table


def _matlab(path: Path) -> Table:
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError as error:
        reason = "it is a MATLAB 7.3 file; save it with '-v7'"
        raise UnusableLog(path.name, reason) from error
    arrays = {k: v for k, v in content.items() if not k.startswith("__") and v.dtype.kind in "iuf"}
    shapes = {name: a.shape for name, a in arrays.items()}
    return _from_arrays(path.name, shapes, lambda name, n: _rows_of_array(arrays[name], n))


_TakeRows = Callable[[int, int], np.ndarray]
"""Rows of an array from one index up to another; calls go on where the last one ended."""


def _from_arrays(
    source: str, shapes: Mapping[str, tuple[int, ...]], rows_of: Callable[[str, int], _TakeRows]
) -> Table:
    """Vectors and matrices of one length as columns, "name" or "name_1", "name_2" and so on."""
    lengths = [max(s) for s in shapes.values() if 0 < len(s) <= 2 and 0 not in s]
    if not lengths:
        raise UnusableLog(source, "it has no vectors or matrices of numbers")
    length = max(set(lengths), key=lambda n: (lengths.count(n), n))
    used = {n: math.prod(s) // length for n, s in shapes.items() if len(s) <= 2 and length in s}
    names = [
        name if count == 1 else f"{name}_{k + 1}" for name, count in used.items()
        for k in range(count)
    ]  # fmt: skip

    def pieces() -> Iterator[np.ndarray]:
        takers = [rows_of(name, length) for name in used]
        for first in range(0, length, _LINES):
            last = min(first + _LINES, length)
            yield np.hstack([take(first, last) for take in takers])

    table = Table(source, tuple(names), iter(()), expected=length)
    table.pieces = _count(table, pieces())
    return table


def _rows_of_array(array: np.ndarray, length: int) -> _TakeRows:
    """Rows of a vector or matrix in memory whose axis of this length is time."""
    x = array.reshape(length, -1) if array.shape[0] == length else array.T.reshape(length, -1)
    return lambda first, last: np.asarray(x[first:last], dtype=float)


_Message = tuple[str, float, Any]


def _ros_decoder() -> Callable[[bytes], Any]:
    try:
        typesys = importlib.import_module("rosbags.typesys")
    except ImportError as error:
        raise MissingPackage("rosbags", "reading ROS messages", "qddot[identify]") from error
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    return lambda data: store.deserialize_cdr(data, "sensor_msgs/msg/JointState")


def _sqlite_messages(files: Sequence[Path]) -> Iterator[_Message]:
    """Topic, time and content of the JointState messages of rosbag2 databases."""
    decode = _ros_decoder()
    query = (
        "select t.name, m.timestamp, m.data from messages m join topics t on m.topic_id = t.id "
        f"where t.type like '%{_JOINT_STATE}' order by m.timestamp"
    )
    for file in files:
        connection = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
        try:
            for name, stamp, data in connection.execute(query):
                message = decode(bytes(data))
                yield name, _stamp(message, stamp * 1e-9), message
        finally:
            connection.close()


def _stamp(message: Any, received: float) -> float:
    """Time of the header, or of reception where it is not set."""
    sent = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
    return sent if sent > 0.0 else received


class _Plain:
    """A JSON object with its fields as attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        for name in ("name", "position", "velocity", "effort"):
            setattr(self, name, fields.get(name, []))


def _mcap_messages(files: Sequence[Path]) -> Iterator[_Message]:
    """Topic, time and content of the JointState messages, CDR or JSON, of MCAP files."""
    try:
        reader = importlib.import_module("mcap.reader")
    except ImportError as error:
        raise MissingPackage("mcap", "reading MCAP", "qddot[log]") from error
    decode: Callable[[bytes], Any] | None = None
    for file in files:
        with file.open("rb") as stream:
            for schema, channel, message in reader.make_reader(stream).iter_messages():
                if schema is None or not schema.name.endswith(_JOINT_STATE):
                    continue
                if channel.message_encoding == "json":
                    content = _Plain(json.loads(message.data))
                    yield channel.topic, message.log_time * 1e-9, content
                    continue
                decode = decode or _ros_decoder()
                made = decode(message.data)
                yield channel.topic, _stamp(made, message.log_time * 1e-9), made


def _messages(path: Path, messages: Iterator[_Message], topic: str | None) -> Table:
    """JointState messages as columns time, position_{joint}, velocity_{joint}, effort_{joint}."""
    start = next((m for m in messages if topic is None or m[0] == topic), None)
    if start is None:
        wanted = f" on {topic!r}" if topic else ""
        raise UnusableLog(path.name, f"it has no {_JOINT_STATE} messages{wanted}")
    chosen, origin, joints = start[0], start[1], tuple(start[2].name)
    parts = [p for p in ("position", "velocity", "effort") if len(getattr(start[2], p))]
    names = [TIME, *(f"{p}_{j}" for p in parts for j in joints)]
    table = Table(path.name, tuple(names), iter(()))
    table.notes.append(f"{_JOINT_STATE} messages of {chosen}")

    def row(message: _Message) -> list[float] | None:
        _, stamp, content = message
        order = {name: k for k, name in enumerate(content.name)}
        values = [stamp - origin]
        for p in parts:
            numbers = getattr(content, p)
            if len(numbers) != len(order) or not all(j in order for j in joints):
                return None
            values += [float(numbers[order[j]]) for j in joints]
        return values

    def pieces() -> Iterator[np.ndarray]:
        rows = [row(start)]
        for message in messages:
            if message[0] == chosen:
                rows.append(row(message))
            if len(rows) >= _LINES:
                yield from _rows(table, rows)
                rows = []
        yield from _rows(table, rows)

    table.pieces = pieces()
    return table


def _rows(table: Table, rows: Sequence[list[float] | None]) -> Iterator[np.ndarray]:
    whole = [r for r in rows if r is not None]
    table.lost += len(rows) - len(whole)
    table.found += len(whole)
    if whole:
        yield np.array(whole)


def lost_rows_note(table: Table) -> str:
    """How many rows were no rows, in words; empty where there were none."""
    return f"{count_text(table.lost, 'broken row')} left out" if table.lost else ""


def squeeze_name(text: str) -> str:
    """A name without case and punctuation, for comparison."""
    return re.sub(r"[^a-z0-9]", "", text.lower())
