"""Mutations of logs and saved motions: of their bytes, their numbers, and their parts."""

from __future__ import annotations

import io
import json
import random
import sqlite3
import struct
import warnings
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.logs import arm, write_joint_states
from fuzz.mutate import mutate_bytes

__all__ = ["mutate_log"]

TOKENS = (
    "nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e999", "0", "-1", "1e16", "", " ", "a",
    "1j", "0x10", "1_0", "१", '"', '""', "# ", "\0", "\x9b", "1" * 5000, "1," * 5000, "\n" * 50,
    ",", ";", "\t", "99999999999999999999", "true", "null", "[]", "{}", "\r", "\u2028", "\ufeff",
)  # fmt: skip
"""Texts in place of a number or a name."""
_NUMBERS = (
    np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 0.0, 1e9, -1.0, 1e155, 1e-9, 7e17, 1e3,
)  # fmt: skip
_JSON = (
    None, [], {}, "a", "", 1e999, -1e308, 10**400, True, [[0.0]], [None, None], [1.0], [1.0] * 3,
    ["a", "b"], {"a": 1}, "x" * 10_000, 0, -1, [1e308, 1e308],
)  # fmt: skip
_SQL = ("null", "'words'", "zeroblob(5000000)", "-9223372036854775808", "1e300", "x'00'", "''", "7")


def mutate_log(file: Path, content: bytes, rng: random.Random) -> None:
    """Write into a file the content with a few changes, of the kind that suits its suffix."""
    file.write_bytes(content)
    if rng.random() < 0.25:
        file.write_bytes(mutate_bytes(content, rng))
    elif file.suffix in (".csv", ".tsv", ".txt"):
        file.write_bytes(_change_text(content.decode(), rng).encode("utf-8", "surrogatepass"))
    elif file.suffix == ".npz":
        _change_archive(file, content, rng)
    elif file.suffix == ".npy":
        file.write_bytes(_change_array(content, rng))
    elif file.suffix == ".db3":
        _change_database(file, rng)
    elif file.suffix == ".mcap" and rng.random() < 0.6:
        _write_states(file, rng)
    elif file.suffix in (".parquet", ".mat"):
        _write_arrays(file, rng)
    else:
        file.write_bytes(_change_few(content, rng))


def _change_few(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 2, 8))):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(data)


def _change_text(text: str, rng: random.Random) -> str:
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 3, 40))):
        k = rng.choice((0, rng.randrange(len(lines)), rng.randrange(len(lines))))
        action = rng.randrange(6)
        if action < 3:
            mark = next((d for d in ",\t " if d in lines[k]), ",")
            cells = lines[k].split(mark)
            cells[rng.randrange(len(cells))] = rng.choice(TOKENS)
            lines[k] = mark.join(cells)
        elif action == 3:
            lines.insert(k, rng.choice((*TOKENS, lines[0], lines[-1])))
        elif action == 4 and len(lines) > 2:
            del lines[k]
        else:
            lines[k:k] = lines[k : k + 30] * rng.choice((1, 3))
    return rng.choice(("\n", "\n", "\n", "\r\n", "\r", "\v")).join(lines)


def _change_values(x: np.ndarray, rng: random.Random) -> np.ndarray:
    """An array with other numbers, shape, type or order."""
    flat = x.ravel().copy()
    if x.dtype.kind == "f" and flat.size:
        flat[rng.randrange(flat.size) :: rng.choice((1, 2, flat.size))] = rng.choice(_NUMBERS)
    changes = (
        lambda: flat.reshape(x.shape), lambda: flat.reshape(x.shape), lambda: x[: len(x) // 2],
        lambda: x.T, lambda: np.asfortranarray(x), lambda: x[None], lambda: x[..., None],
        lambda: x.astype(rng.choice((">f8", "f2", "i1", "u8", "?", "c16", "U5", "S3", "f4", "O"))),
        lambda: flat, lambda: x[:0], lambda: np.zeros(()),
        lambda: np.broadcast_to(x, (3, *x.shape)),
        lambda: x[::-1], lambda: np.zeros((1,) * rng.choice((1, 33, 64))), lambda: np.array(["a"]),
    )  # fmt: skip
    return np.asarray(rng.choice(changes)())


def _packed(x: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, x, allow_pickle=True)
    return stream.getvalue()


def _change_array(data: bytes, rng: random.Random) -> bytes:
    """A .npy file with other elements, or with a header that says something else."""
    try:
        x = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # what was changed before may be no array
        return data
    if rng.random() < 0.6:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return _packed(_change_values(x, rng))
            except (ValueError, TypeError, IndexError, OverflowError):
                return data
    length = struct.unpack("<H", data[8:10])[0]
    header = data[10 : 10 + length].decode("latin1")
    old, new = rng.choice((
        (str(x.shape), "(-1, 2)"), (str(x.shape), f"({10**12}, 2)"), (str(x.shape), "()"),
        (str(x.shape), f"({10**17}, 0)"), (str(x.shape), "(" * 99), (x.dtype.str, "|O"),
        (x.dtype.str, "<U0"), (x.dtype.str, ">f8"), (x.dtype.str, "<U99999999"), ("False", "True"),
        ("shape", "shop"), ("{", "["),
    ))  # fmt: skip
    changed = header.replace(old, new).encode("latin1")
    return data[:8] + struct.pack("<H", len(changed)) + changed + data[10 + length :]


def _change_archive(file: Path, content: bytes, rng: random.Random) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    for _ in range(rng.choice((1, 1, 2, 4))):
        k = rng.randrange(len(entries))
        name, data = entries[k]
        action = rng.randrange(8)
        if action == 0 and len(entries) > 1:
            del entries[k]
        elif action == 1:
            entries.append((name, rng.choice(entries)[1]))
        elif action == 2:
            entries[k] = (name, rng.choice(entries)[1])
        elif action == 3:
            entries[k] = (rng.choice(("q.npy", "time.npy", "x", "../q.npy", "header.npy")), data)
        elif name == "header.npy" and action < 7:
            entries[k] = (name, _change_header(data, rng))
        else:
            entries[k] = (name, _change_array(data, rng))
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, data in entries:
            # without a date, so that a case is the same each time
            archive.writestr(zipfile.ZipInfo(name), data, method)
    if rng.random() < 0.2:
        file.write_bytes(_change_few(file.read_bytes(), rng))


def _change_header(data: bytes, rng: random.Random) -> bytes:
    """The JSON of a saved rollout with other values."""
    try:
        header = json.loads(np.load(io.BytesIO(data)).item())
    except Exception:  # what was changed before may be no header
        return data
    place: Any = header
    for _ in range(6):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = rng.choice(keys)
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
            place[key] = rng.choice(_JSON)
            break
        place = place[key]
    return _packed(np.array(json.dumps(header).encode()))


def _write_states(file: Path, rng: random.Random) -> None:
    """JointState messages with odd fields."""
    names = list(arm().joint_names)
    messages = []
    for k in range(rng.choice((0, 1, 40))):
        state = {"name": names, "position": [0.1 * k, 0.2], "velocity": [], "effort": [1.0, k]}
        if rng.random() < 0.2:
            state[rng.choice(list(state))] = rng.choice(_JSON)
        messages.append(json.dumps(state).encode())
    write_joint_states(file, messages, rng.choice(("json", "json", "json", "cdr", "xml")))
    if rng.random() < 0.3:
        file.write_bytes(_change_few(file.read_bytes(), rng))


def _change_database(file: Path, rng: random.Random) -> None:
    value, row = rng.choice(_SQL), rng.randrange(1, 160)
    column = rng.choice(("data", "timestamp", "topic_id", "id"))
    where = rng.choice(("", f" where id = {row}"))
    statements = (
        f"update messages set {column} = {value}{where}", f"update topics set type = {value}",
        f"update messages set data = substr(data, 1, {row}){where}", "delete from messages",
        f"update messages set data = replace(data, x'02000000', x'ffffff7f'){where}",
        f"update messages set timestamp = timestamp * {rng.choice((-1, 0, 1000))}{where}",
        "drop table topics", f"alter table messages rename column {column} to other",
        "create index i on messages (timestamp)", f"update topics set name = {value}",
        "alter table messages add column topic_id2 as (topic_id + 1)",
    )  # fmt: skip
    with closing(sqlite3.connect(file)) as connection:
        for _ in range(rng.choice((1, 1, 2))):
            try:
                connection.execute(rng.choice(statements))
            except sqlite3.Error:
                continue
        connection.commit()
    if rng.random() < 0.3:
        file.write_bytes(_change_few(file.read_bytes(), rng))


def _write_arrays(file: Path, rng: random.Random) -> None:
    """Columns of odd types in a Parquet or MATLAB file."""
    time = np.arange(40.0)
    columns: dict[str, Any] = {
        "time": time, "q_1": time, "q_2": -time, "tau_1": np.sin(time), "tau_2": time * 0.0,
    }  # fmt: skip
    for _ in range(rng.choice((0, 1, 2))):
        name = rng.choice(list(columns))
        columns[name] = rng.choice((
            time * np.nan, time.astype("M8[s]"), time.astype(str), time > 3, time * 1e306,
            np.zeros(40, "u8") - 1, time.astype("f2"), np.where(time > 9, np.inf, time),
        ))  # fmt: skip
    if file.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), file, compression=rng.choice(("none", "zstd")))
    else:
        from scipy.io import savemat

        plain = {n: x for n, x in columns.items() if x.dtype.kind != "M"}
        savemat(file, plain, do_compression=rng.random() < 0.5)
        # without a date, so that a case is the same each time
        file.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + file.read_bytes()[116:])
    if rng.random() < 0.4:
        file.write_bytes(_change_few(file.read_bytes(), rng))
