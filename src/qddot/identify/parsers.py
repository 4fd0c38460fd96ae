"""Tables in files that other libraries parse, as these run in a child process of `isolation`.

Parquet, MATLAB files, and messages in MCAP and rosbag2 files. Each task yields first a head as
JSON (names of columns, notes, about how many rows there are), then rows as bytes of float64, and
returns how many rows were lost. Only NumPy and the parser are imported.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sqlite3
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import DescriptionError, MissingPackage

__all__ = [
    "MOST_COLUMNS",
    "TIME",
    "check_columns",
    "choose_columns",
    "joint_states",
    "matlab_table",
    "parquet_table",
    "recorded_motion",
    "rows_of_array",
]

_NUMBERS = 2**21
"""Numbers of a piece."""
_PARQUET_BUFFER = 1 << 20
"""Bytes of a column of a Parquet file that are read at a time."""
MOST_COLUMNS = 4096
_LONGEST_NAME = 1000
_JOINT_STATE = "JointState"
_TRACE = "/trace/"
TIME = "time"
"""Name of the column of time."""
_Message = tuple[str, float, Any]
Pieces = Generator[bytes, None, Any]


def _head(file: str, names: Sequence[str], **facts: Any) -> bytes:
    """The first piece: names of columns, and facts on the table."""
    check_columns(file, len(names))
    long = next((n for n in names if len(n) > _LONGEST_NAME), None)
    if long is not None:
        reason = f"a column's name has {len(long)} letters; {_LONGEST_NAME} at most are read"
        raise DescriptionError(file, reason)
    return json.dumps({"names": list(names), **facts}).encode()


def check_columns(file: str, count: int) -> None:
    """Refuse a table of too many columns."""
    if count > MOST_COLUMNS:
        raise DescriptionError(file, f"it has {count} columns; {MOST_COLUMNS} at most are read")


def parquet_table(files: Sequence[str]) -> Pieces:
    """The columns of a Parquet file; one that is no numbers is NaN."""
    (file,) = files
    # other pools of memory reserve more than they use
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingPackage("pyarrow", "reading Parquet", "qddot[identify]") from error
    try:
        # buffered ahead, all column chunks of the file would be held at once
        table = parquet.ParquetFile(file, pre_buffer=False, buffer_size=_PARQUET_BUFFER)
    except Exception as error:  # pyarrow has its own family of errors
        raise DescriptionError(file, f"it is no Parquet file: {error}") from error
    names = table.schema_arrow.names
    yield _head(file, names, expected=table.metadata.num_rows)
    rows = max(_NUMBERS // 8 // max(len(names), 1), 1)
    for batch in table.iter_batches(batch_size=rows, use_threads=False):
        columns = [_numbers(c.to_numpy(zero_copy_only=False)) for c in batch.columns]
        yield np.stack(columns, axis=1).tobytes()
    return 0


def _numbers(column: np.ndarray) -> np.ndarray:
    """A column as floats; NaN where it is no numbers."""
    if column.dtype.kind == "M":
        return column.astype("datetime64[ns]").astype(np.int64) * 1e-9
    try:
        return column.astype(float)
    except (TypeError, ValueError):
        return np.full(len(column), np.nan)


def matlab_table(files: Sequence[str]) -> Pieces:
    """The vectors and matrices of one length of a MATLAB file."""
    (file,) = files
    from scipy.io import loadmat

    try:
        content = loadmat(file)
    except NotImplementedError as error:
        reason = "it is a MATLAB 7.3 file; save it with '-v7'"
        raise DescriptionError(file, reason) from error
    arrays = {
        name: x
        for name, x in content.items()
        if not name.startswith("__") and isinstance(x, np.ndarray) and x.dtype.kind in "iuf"
    }
    names, length, used = choose_columns(file, {name: x.shape for name, x in arrays.items()})
    yield _head(file, names, expected=length)
    rows = [rows_of_array(arrays[name], length) for name in used]
    step = max(_NUMBERS // len(names), 1)
    for k in range(0, length, step):
        yield np.hstack([np.asarray(x[k : k + step], dtype=float) for x in rows]).tobytes()
    return 0


def choose_columns(
    file: str, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[str], int, dict[str, int]]:
    """Columns of the vectors and matrices of one length, which is that of most of them.

    These are their names, "name" or "name_1", "name_2" and so on; the length; and how many columns
    each array is.
    """
    lengths = [max(s) for s in shapes.values() if 0 < len(s) <= 2 and 0 not in s]
    if not lengths:
        raise DescriptionError(file, "it has no vectors or matrices of numbers")
    length = max(set(lengths), key=lambda n: (lengths.count(n), n))
    used = {n: math.prod(s) // length for n, s in shapes.items() if len(s) <= 2 and length in s}
    check_columns(file, sum(used.values()))
    names = [
        name if count == 1 else f"{name}_{k + 1}" for name, count in used.items()
        for k in range(count)
    ]  # fmt: skip
    return names, length, used


def rows_of_array(x: np.ndarray, length: int) -> np.ndarray:
    """Rows of a vector or matrix whose axis of this length is time."""
    return x.reshape(length, -1) if x.shape[0] == length else x.T.reshape(length, -1)


def joint_states(files: Sequence[str], topic: str | None) -> Pieces:
    """JointState messages as columns time, position_{joint}, velocity_{joint}, effort_{joint}.

    Files are rosbag2 databases (.db3) or MCAP files. Messages are those of one topic: the first
    where none is named.
    """
    file = files[0]
    read = _sqlite_messages if file.endswith(".db3") else _mcap_messages
    messages = read(files)
    start = next((m for m in messages if topic is None or m[0] == topic), None)
    if start is None:
        wanted = f" on {topic!r}" if topic else ""
        raise DescriptionError(file, f"it has no {_JOINT_STATE} messages{wanted}")
    chosen, origin, joints = start[0], start[1], tuple(map(str, start[2].name))
    parts = [p for p in ("position", "velocity", "effort") if len(getattr(start[2], p))]
    names = [TIME, *(f"{p}_{j}" for p in parts for j in joints)]
    yield _head(file, names, notes=[f"{_JOINT_STATE} messages of {chosen[:_LONGEST_NAME]}"])
    rows, lost = array("d"), 0
    while start is not None:
        row = _row(start[2], joints, parts)
        if row is None:
            lost += 1
        else:
            rows.append(start[1] - origin)
            rows.extend(row)
        if len(rows) >= _NUMBERS // 8:
            yield rows.tobytes()
            rows = array("d")
        start = next((m for m in messages if m[0] == chosen), None)
    yield rows.tobytes()
    return lost


def _row(content: Any, joints: tuple[str, ...], parts: Sequence[str]) -> list[float] | None:
    """The numbers of a message in the order of the joints; None where one is not there."""
    order = {name: k for k, name in enumerate(content.name)}
    values: list[float] = []
    for part in parts:
        numbers = getattr(content, part)
        if len(numbers) != len(order) or not all(j in order for j in joints):
            return None
        values += [float(numbers[order[j]]) for j in joints]
    return values


def _ros_decoder() -> Callable[[bytes], Any]:
    try:
        typesys = importlib.import_module("rosbags.typesys")
    except ImportError as error:
        raise MissingPackage("rosbags", "reading ROS messages", "qddot[identify]") from error
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    return lambda data: store.deserialize_cdr(data, "sensor_msgs/msg/JointState")


def _sqlite_messages(files: Sequence[str]) -> Iterator[_Message]:
    """Topic, time and content of the JointState messages of rosbag2 databases."""
    decode: Callable[[bytes], Any] | None = None
    query = (
        "select t.name, m.timestamp, m.data from messages m join topics t on m.topic_id = t.id "
        f"where t.type like '%{_JOINT_STATE}'"
    )
    for file in files:
        # no file is written: what does not fit in memory cannot be sorted
        address = f"{Path(file).absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True)
        try:
            connection.execute("pragma trusted_schema = off")
            connection.execute("pragma temp_store = memory")
            kinds = (
                "select name from sqlite_master where type = 'table' and sql not like '%virtual%'"
            )
            tables = {str(row[0]) for row in connection.execute(kinds)}
            missing = {"messages", "topics"} - tables
            if missing:
                reason = f"it has no table {min(missing)!r}, as rosbag2 writes it"
                raise DescriptionError(file, reason)
            ordered = f"{query} order by m.timestamp"
            plan = [str(row[3]) for row in connection.execute(f"explain query plan {ordered}")]
            sorted_by_index = not any("TEMP B-TREE" in step for step in plan)
            for name, stamp, data in connection.execute(ordered if sorted_by_index else query):
                decode = decode or _ros_decoder()
                message = decode(data)
                yield str(name), _stamp(message, stamp * 1e-9), message
        finally:
            connection.close()


def _stamp(message: Any, received: float) -> float:
    """Time of the header, or of reception where it is not set."""
    sent = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
    return float(sent if sent > 0.0 else received)


class _Plain:
    """A JSON object with its fields as attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        for name in ("name", "position", "velocity", "effort"):
            setattr(self, name, fields.get(name, []))


def _mcap_records(file: str) -> Iterator[tuple[Any, Any, Any]]:
    """Schemas, channels and messages of an MCAP file."""
    try:
        reader = importlib.import_module("mcap.reader")
    except ImportError as error:
        raise MissingPackage("mcap", "reading MCAP", "qddot[log]") from error
    with open(file, "rb") as stream:
        yield from reader.make_reader(stream).iter_messages()


def _mcap_messages(files: Sequence[str]) -> Iterator[_Message]:
    """Topic, time and content of the JointState messages, CDR or JSON, of MCAP files."""
    decode: Callable[[bytes], Any] | None = None
    for file in files:
        for schema, channel, message in _mcap_records(file):
            if schema is None or not schema.name.endswith(_JOINT_STATE):
                continue
            if channel.message_encoding == "json":
                content = _Plain(json.loads(message.data))
                yield channel.topic, message.log_time * 1e-9, content
                continue
            decode = decode or _ros_decoder()
            made = decode(message.data)
            yield channel.topic, _stamp(made, message.log_time * 1e-9), made


def recorded_motion(files: Sequence[str], trace: str | None) -> Pieces:
    """Time and q, with v and tau where they are known, of an MCAP file: the rows of one motion.

    Motions are the messages on /state, and the traces of a record of evidence that have time and
    q: `trace` names one, else it is the longest. The head has the `widths` of the columns and the
    names of all motions; it has no columns where `trace` is none of them.
    """
    (file,) = files
    motions: dict[str, tuple[dict[str, int], array[float]]] = {}
    for _, channel, message in _mcap_records(file):
        if channel.topic != "/state" and not channel.topic.startswith(_TRACE):
            continue
        row = json.loads(message.data)
        if not isinstance(row, dict) or not {"time", "q"} <= row.keys():
            continue
        name = channel.topic.rpartition(_TRACE)[2]
        numbers = {n: _as_floats(row[n]) for n in ("time", "q", "v", "tau") if n in row}
        widths, rows = motions.setdefault(
            name, ({n: len(x) for n, x in numbers.items()}, array("d"))
        )
        if widths["time"] != 1 or widths != {n: len(x) for n, x in numbers.items()}:
            raise DescriptionError(file, f"rows of {channel.topic[:60]!r} differ in their columns")
        for x in numbers.values():
            rows.extend(x)
    if not motions:
        raise DescriptionError(file, "has no message on /state, and no trace with time and q")
    if trace is not None and trace not in motions:
        yield _head(file, [], motions=list(motions))
        return 0
    longest = max(motions, key=lambda n: len(motions[n][1]) // sum(motions[n][0].values()))
    widths, rows = motions[longest if trace is None else trace]
    names = [name for name, count in widths.items() for _ in range(count)]
    yield _head(file, names, widths=widths, motions=list(motions))
    step = max(_NUMBERS // len(names), 1) * len(names)
    for k in range(0, len(rows), step):
        yield rows[k : k + step].tobytes()
    return 0


def _as_floats(value: Any) -> list[float]:
    """A number or a list of them; null is NaN."""
    values = value if isinstance(value, list) else [value]
    return [math.nan if x is None else float(x) for x in values]
