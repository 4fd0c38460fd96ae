"""Logs and saved motions that no program should trust, small files by name; and their trial.

`python hostile_logs.py FOLDER` writes them, lets every reader of their format read them in this
process, and prints what came of it as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sqlite3
import struct
import sys
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fuzz import logs  # noqa: E402
from qddot.errors import QddotError  # noqa: E402

MOST_BYTES, MOST_SECONDS = 2**30, 10
Write = Callable[[Path], Any]
CASES: dict[str, Write] = {}
HEAD = ",".join(logs.HEADER) + "\n"
TERA = 7 * 2**40


def table(t: str = "{k}", q: str = "0.{k}", tau: str = "1.{k}", rows: int = 40) -> str:
    """A log in text, values made of the number of the row."""
    return HEAD + "".join(
        ",".join(x.format(k=k) for x in (t, q, q, tau, tau)) + "\n" for k in range(rows)
    )


def text(name: str, content: str | bytes) -> None:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    CASES[name] = lambda file: file.write_bytes(data)


# text
for _name, _content in {
    "empty": "", "blank": "\n" * 9, "comments": "# a\n# b\n", "NUL": "\0" * 5000,
    "words": "hello world\n" * 50, "header": HEAD, "one row": HEAD + "0,1,2,3,4\n",
    "utf-16": ("\ufeff" + table()).encode("utf-16"), "BOM": "\ufeff" + table(),
    "binary": bytes(range(256)) * 40, "zip": b"PK\3\4" + bytes(400), "markup": "<a>" * 3000,
    "JSON": json.dumps([{"time": k} for k in range(50)]), "brackets": "[" * 100_000,
    "quotes": '"' * 5000 + "\n" + '","' * 5000, "only commas": "," * 4000 + "\n" + "," * 4000,
    "wide": ",".join(f"c{k}" for k in range(6000)) + "\n" + ",".join("1" * 6000) + "\n",
    "long line": "1," * 3_000_000, "long header": "a" * 3_000_000 + "\n1,2\n",
    "long last line": table() + "1" * 3_000_000,
    "long digits": HEAD + ("1" * 100_000 + ",1,2,3,4\n") * 20,
    "spaces": " " * 3_000_000, "line ends": "\r" * 500_000, "vertical": table().replace("\n", "\v"),
    "uneven": HEAD + "".join("1," * (k % 7) + "1\n" for k in range(90)),
    "NaN": table(t="nan"), "NaN q": table(q="nan"), "inf": table(q="inf"),
    "huge t": table("{k}e300"),
    "huge step": table("1e308").replace("1e308", "-1e308", 20), "tiny t": table("{k}e-323"),
    "huge q": table(q="1e308"), "mixed q": table(q="-1e{k}00"), "huge tau": table(tau="{k}e307"),
    "constant": table(q="1", tau="1"), "zero": table(q="0", tau="0"), "back": table("-{k}"),
    "same t": table("1"), "far t": table("{k}").replace("39,", "1e17,"),
    "hexadecimal": table(q="0x1p3"), "underscores": table(q="1_{k}"), "complex": table(q="1j"),
    "digits": table(q="१{k}"), "surrogates": table().replace("q_1", "\ud800"),
    "twice": table().replace("q_2", "q_1"), "many headers": HEAD * 300,
    "turning": table().replace("q_1", "\u202e\x9b31m"),
}.items():  # fmt: skip
    text(f"{_name}.csv", _content)
text("words.tsv", "\t".join("abcde") + "\n")
text("long line.txt", "1 " * 3_000_000)


# NumPy files
def array_file(shape: str, dtype: str = "'<f8'", data: bytes = b"", order: bool = False) -> bytes:
    """A .npy file with a header that may claim anything."""
    header = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header = header.ljust(118 if len(header) < 118 else len(header) + 1) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def pack(file: Path, entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, data in entries:
            archive.writestr(name, data)


def plain_array(x: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(x), allow_pickle=True)
    return stream.getvalue()


def motion(**changes: bytes | None) -> list[tuple[str, bytes]]:
    """Entries of an archive of a motion, some of them others or left out."""
    t = np.arange(40) * 0.01
    q = np.column_stack([np.sin(t), np.cos(t)])
    facts = np.array(["0.01", "law", "plant", "joint1", "joint2"])
    arrays = {"time": t, "q": q, "v": q, "tau": q, "facts": facts, "events": np.array([], str),
              "event_times": np.array([])}  # fmt: skip
    made = {name: plain_array(x) for name, x in arrays.items()} | changes
    return [(f"{name}.npy", data) for name, data in made.items() if data is not None]


ROWS = np.zeros((40, 2))
CLAIMS = {
    "7 TiB": array_file(f"({TERA // 16}, 2)"), "one more": array_file("(41, 2)", data=bytes(640)),
    "one less": array_file("(39, 2)", data=bytes(640)), "negative": array_file("(-1, 2)"),
    "endless": array_file(f"({10**40}, 2)"), "no axis": array_file("()", data=bytes(8)),
    "many axes": array_file("(1,) * 60"), "90 axes": array_file(str((1,) * 90), data=bytes(8)),
    "true axes": array_file("(True, True)", data=bytes(8)), "text axes": array_file("('a', 2)"),
    "no elements": array_file(f"({10**17}, 0)"), "empty": array_file("(0, 2)"),
    "void": array_file(f"({10**17}, 2)", "'|V0'"), "no text": array_file(f"({10**17}, 2)", "'<U0'"),
    "long text": array_file("(1, 1)", "'<U536870000'"), "object": array_file("(40, 2)", "'|O'"),
    "pickled": plain_array(np.array([[{}] * 2] * 40, object)),
    "record": plain_array(np.zeros(40, [("a", float), ("b", float)])),
    "record of objects": array_file("(40,)", "[('a', '|O'), ('b', [('c', '|O')])]"),
    "dates": plain_array(np.zeros((40, 2), "M8[s]")), "text": plain_array(np.full((40, 2), "x")),
    "complex": plain_array(ROWS * 1j), "booleans": plain_array(ROWS > 1),
    "by columns": plain_array(np.asfortranarray(ROWS + 1)), "vector": plain_array(np.zeros(40)),
    "big-endian": plain_array(ROWS.astype(">f8") + 1), "half": plain_array(ROWS.astype("f2")),
    "long double": plain_array(ROWS.astype(np.longdouble)),
    "cube": plain_array(np.zeros((2, 40, 2))),
    "no batch": plain_array(np.zeros((0, 40, 2))), "NaN": plain_array(ROWS * np.nan),
    "infinite": plain_array(ROWS + np.inf), "huge": plain_array(ROWS + 1e308),
    "other rows": plain_array(np.zeros((7, 2))), "other columns": plain_array(np.zeros((40, 3))),
    "wide": plain_array(np.zeros((40, 5000))), "integers": plain_array(np.zeros((40, 2), "u8") - 1),
    "call": array_file("__import__('os').system('true')"), "deep": array_file("(" * 1900),
    "minus": array_file("-" * 1900 + "1"), "no keys": b"\x93NUMPY\1\0\3\0{}\n",
    "long header": b"\x93NUMPY\2\0\xff\xff\xff\x7f" + bytes(500), "version": b"\x93NUMPY\x09\0" * 9,
    "text header": b"\x93NUMPY\1\0\6\0hello\n", "no header": b"nothing", "nothing": b"",
}  # fmt: skip
for _name, _data in CLAIMS.items():
    text(f"{_name}.npy", _data)
    CASES[f"{_name} in q.npz"] = lambda file, data=_data: pack(file, motion(q=data))
for _name in ("7 TiB", "text", "no axis", "cube", "NaN", "huge", "empty", "object", "no elements"):
    CASES[f"{_name} in time.npz"] = lambda file, data=CLAIMS[_name]: pack(file, motion(time=data))
    CASES[f"{_name} in tau.npz"] = lambda file, data=CLAIMS[_name]: pack(file, motion(tau=data))
for _name in ("time", "q", "v", "tau", "facts", "events", "event_times"):
    CASES[f"without {_name}.npz"] = lambda file, name=_name: pack(file, motion(**{name: None}))
text("text.npz", b"no archive")
text("none.npz", b"")
CASES["no entries.npz"] = lambda file: pack(file, [])
CASES["two q.npz"] = lambda file: pack(file, motion() + motion()[1:2])
CASES["lzma.npz"] = lambda file: pack(file, motion(), zipfile.ZIP_LZMA)
CASES["bzip2.npz"] = lambda file: pack(file, motion(), zipfile.ZIP_BZIP2)
CASES["many.npz"] = lambda file: pack(file, [(f"a{k}.npy", CLAIMS["vector"]) for k in range(5000)])
CASES["no arrays.npz"] = lambda file: pack(file, [("readme.txt", b"x"), ("q", b"y")])
CASES["paths.npz"] = lambda file: pack(file, [("../../q.npy", b"x"), ("/time.npy", b"y")])
CASES["header.npz"] = lambda file: pack(file, motion(header=plain_array(b"[1,")))
CASES["deep header.npz"] = lambda file: pack(file, motion(header=plain_array(b"[" * 200_000)))
CASES["facts.npz"] = lambda file: pack(file, motion(facts=plain_array(["x"])))


def _changed(before: Write, old: bytes, new: bytes, count: int = -1) -> Write:
    """A file whose bytes are exchanged after it was written."""

    def write(file: Path) -> None:
        before(file)
        file.write_bytes(file.read_bytes().replace(old, new, count))

    return write


def _cut(before: Write, share: float) -> Write:
    def write(file: Path) -> None:
        before(file)
        data = file.read_bytes()
        file.write_bytes(data[: int(share * len(data))])

    return write


def bomb(file: Path) -> None:
    """An archive of an array of zeros, 8 GiB in 8 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    part = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = part * 512
    entry = zipfile.ZipInfo("q.npy")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(entry, data)
    size = struct.pack("<LL", len(data), len(data))
    claim = struct.pack("<LL", len(data), 2**32 - 2)
    file.write_bytes(file.read_bytes().replace(size, claim))
    with file.open("r+b") as stream:
        raw = stream.read()
        for mark, at in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
            stream.seek(raw.rindex(mark) + at)
            stream.write(struct.pack("<H", zipfile.ZIP_DEFLATED))


def rollout_with(**changes: Any) -> Write:
    """A saved rollout whose header says something else."""

    def write(file: Path) -> None:
        motion = logs.arm().rollout([0.1, 0.2], [0.0, 0.0], dt=1e-3, steps=8)
        motion.save(file)
        with np.load(file) as archive:
            arrays = dict(archive)
        header = json.loads(arrays["header"].item()) | changes
        np.savez(file, **{**arrays, "header": np.array(json.dumps(header).encode())})

    return write


def columns_bomb(file: Path) -> None:
    """An archive of 500 MB of zeros in columns, which would be held at once."""
    zeros = array_file("(31250000, 2)", data=b"", order=True)
    entry = zipfile.ZipInfo("q.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open(entry, "w") as stream:
            stream.write(zeros)
            for _ in range(500):
                stream.write(bytes(10**6))
        # noise lets an archive unfold to more
        archive.writestr("noise", np.random.default_rng(0).bytes(3 * 10**6))


CASES["bomb.npz"] = bomb
CASES["columns.npz"] = columns_bomb
CASES["sum.npz"] = _changed(lambda f: pack(f, motion()), np.float64(0.39).tobytes(), b"12345678", 1)
CASES["encrypted.npz"] = _changed(
    lambda f: pack(f, motion()), b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0"
)
CASES["directory.npz"] = _changed(
    lambda f: pack(f, motion()), b"PK\5\6\0\0\0\0\7\0\7\0", b"PK\5\6\0\0\0\0\xff\xff\xff\xff"
)
for _share in (0.1, 0.5, 0.9, 0.999):
    CASES[f"cut at {_share}.npz"] = _cut(lambda f: pack(f, motion()), _share)
CASES["repeated.npz"] = rollout_with(shapes={"tau": [10**14, 2]})
CASES["shapes.npz"] = rollout_with(shapes={"q": "ab", "none": [1]})
CASES["no shapes.npz"] = rollout_with(shapes=None)
CASES["counts.npz"] = rollout_with(counts={"input": 10**12, "state": -1})
CASES["every.npz"] = rollout_with(every=0)
CASES["dt.npz"] = rollout_with(dt="nan")
CASES["tiny dt.npz"] = rollout_with(dt="1e-320")
CASES["parts.npz"] = rollout_with(parts=7)
CASES["step.npz"] = rollout_with(step={"array_count": 10**9})


# MATLAB and Parquet
def write_parquet(**columns: Any) -> Write:
    def write(file: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), file, compression="zstd")

    return write


def null_columns(file: Path, rows: int) -> None:
    """Columns of so many rows, none of which takes a byte."""
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({n: pa.nulls(rows) for n in logs.HEADER}), file)


def write_matlab(**content: Any) -> Write:
    def write(file: Path) -> None:
        from scipy.io import savemat

        savemat(file, content)

    return write


def _nest(depth: int) -> Any:
    cell: Any = np.zeros(3)
    for _ in range(depth):
        box = np.empty(1, object)
        box[0] = cell
        cell = box
    return cell


def matlab_bomb(file: Path) -> None:
    """A compressed vector of zeros, 2 GiB in 2 MB."""
    part = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = part.compress(bytes(2**24)) + part.flush(zlib.Z_FULL_FLUSH)
    size = 2**31
    start = struct.pack("<LL", 14, size + 48) + struct.pack("<LLLL", 6, 8, 6, 0)
    start += struct.pack("<LLll", 5, 8, size // 8, 1) + struct.pack("<HH", 1, 1) + b"x\0\0\0"
    packer = zlib.compressobj(9)
    data = packer.compress(start + struct.pack("<LL", 9, size)) + packer.flush(zlib.Z_FULL_FLUSH)
    data += zeros * (size >> 24)
    head = b"MATLAB 5.0".ljust(124) + b"\0\1IM"
    file.write_bytes(head + struct.pack("<LL", 15, len(data)) + data)


_MAT = write_matlab(time=np.arange(40.0), q=np.ones((40, 2)), tau=np.ones((40, 2)))
_DIMENSIONS = struct.pack("<ll", 40, 2)
for _name, _dims in {"huge": (2**31 - 1, 2**31 - 1), "negative": (-40, 2), "none": (0, 0)}.items():
    CASES[f"{_name}.mat"] = _changed(_MAT, _DIMENSIONS, struct.pack("<ll", *_dims))
for _share in (0.2, 0.6, 0.95):
    CASES[f"cut at {_share}.mat"] = _cut(_MAT, _share)
CASES["bomb.mat"] = matlab_bomb
CASES["nested.mat"] = write_matlab(x=_nest(150))
CASES["words.mat"] = write_matlab(x="some words", s={"a": {"b": 1}})
CASES["wide.mat"] = write_matlab(x=np.zeros((40, 5000)))
text("7.3.mat", b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + b"\x89HDF\r\n\x1a\n" + bytes(900))
text("none.mat", b"")
_PARQUET = write_parquet(**dict(zip(logs.HEADER, np.ones((5, 60)), strict=True)))
for _share in (0.2, 0.6, 0.95):
    CASES[f"cut at {_share}.parquet"] = _cut(_PARQUET, _share)
CASES["end.parquet"] = _changed(_PARQUET, b"PAR1", b"\xff\xff\xff\x7fPAR1")
CASES["words.parquet"] = write_parquet(**{n: ["a"] * 40 for n in logs.HEADER})
CASES["lists.parquet"] = write_parquet(**{n: [[1.0]] * 40 for n in logs.HEADER})
CASES["no rows.parquet"] = write_parquet(**{n: np.zeros(0) for n in logs.HEADER})
CASES["wide.parquet"] = write_parquet(**{f"c{k}": [1.0] for k in range(5000)})
CASES["rows.parquet"] = lambda file: null_columns(file, 2**29)
CASES["long names.parquet"] = write_parquet(**{"a" * 9000 + str(k): [1.0] for k in range(20)})


# messages
def states(*messages: Any, encoding: str = "json") -> Write:
    plain = [x if isinstance(x, bytes) else json.dumps(x).encode() for x in messages]
    return lambda file: logs.write_joint_states(file, plain, encoding)


def mcap_chunk(compression: bytes, data: bytes, size: int) -> Write:
    """An MCAP file of one chunk that claims a size."""

    def block(code: int, content: bytes) -> bytes:
        return bytes([code]) + struct.pack("<Q", len(content)) + content

    name = struct.pack("<L", len(compression)) + compression
    chunk = struct.pack("<QQQL", 0, 1, size, 0) + name + struct.pack("<Q", len(data)) + data
    magic = b"\x89MCAP0\r\n"
    header = block(1, struct.pack("<L", 0) * 2)
    end = block(15, struct.pack("<L", 0)) + block(2, bytes(20))
    return lambda file: file.write_bytes(magic + header + block(6, chunk) + end + magic)


def zstd_bomb() -> bytes:
    """A frame of zeros, 2 GiB."""
    import zstandard

    packer = zstandard.ZstdCompressor().compressobj(size=2**31)
    part = bytes(2**24)
    return b"".join(packer.compress(part) for _ in range(128)) + packer.flush()


_STATE = {"name": ["joint1", "joint2"], "position": [0.1, 0.2], "effort": [1, 2]}
_NAMES = [f"j{k}" for k in range(6000)]
for _name, _messages in {
    "no message": (), "no object": ([1],), "no JSON": (b"{",), "nested": (b"[" * 200_000,),
    "one": (_STATE,), "words": ({**_STATE, "position": ["a", "b"]},) * 40,
    "null": ({**_STATE, "effort": [None, None]},) * 40, "no names": ({**_STATE, "name": 7},) * 40,
    "no effort": ({**_STATE, "effort": []},) * 40,
    "short": (_STATE, {**_STATE, "effort": [1]}) * 30,
    "huge": ({**_STATE, "effort": [10**400, 1]},) * 40,
    "NaN": ({**_STATE, "effort": [1e999, 1]},) * 40,
    "wide": ({"name": _NAMES, "position": [0.0] * 6000, "effort": [0.0] * 6000},) * 3,
    "names": ({**_STATE, "name": ["a" * 100_000, "b"]},) * 3,
    "dictionary": ({**_STATE, "position": {"a": 1}},) * 40,
    "text": ({**_STATE, "name": "ab"},) * 40,
}.items():  # fmt: skip
    CASES[f"{_name}.mcap"] = states(*_messages)
CASES["garbage CDR.mcap"] = states(*[b"\0\1\0\0" + b"\xff" * 60] * 5, encoding="cdr")
CASES["empty CDR.mcap"] = states(b"", encoding="cdr")
CASES["other encoding.mcap"] = states(_STATE, encoding="xml")
CASES["claim.mcap"] = mcap_chunk(b"", b"x" * 90, 2**50)
CASES["zstd claim.mcap"] = mcap_chunk(b"zstd", b"(\xb5/\xfd" + bytes(90), 2**50)
CASES["zstd bomb.mcap"] = lambda file: mcap_chunk(b"zstd", zstd_bomb(), 2**31)(file)
CASES["lz4 claim.mcap"] = mcap_chunk(b"lz4", b"\x04\x22\x4d\x18" + bytes(90), 2**50)
CASES["odd chunk.mcap"] = mcap_chunk(b"rar", b"", 0)
text("start.mcap", b"\x89MCAP0\r\n")
text("length.mcap", b"\x89MCAP0\r\n\1" + struct.pack("<Q", 2**60) + bytes(99))
for _share in (0.3, 0.8):
    CASES[f"cut at {_share}.mcap"] = _cut(states(*[_STATE] * 50), _share)


def motion_states(*rows: Any) -> Write:
    """Messages on /state, as `save_trajectory` writes them."""
    from mcap.writer import Writer

    def write(file: Path) -> None:
        with file.open("wb") as stream:
            writer = Writer(stream)
            writer.start()
            channel = writer.register_channel("/state", "json", 0)
            for k, row in enumerate(rows):
                writer.add_message(channel, k, json.dumps(row).encode(), k)
            writer.finish()

    return write


_ROW = {"time": 0.0, "q": [0.0, 0.0], "v": [0.0, 0.0], "tau": [0.0, 0.0]}
MOTIONS = {
    "rows differ.mcap": motion_states(_ROW, {**_ROW, "q": [0.0]}),
    "no q.mcap": motion_states({"time": 1.0}),
    "null q.mcap": motion_states({**_ROW, "q": [None, None]}, _ROW),
    "words in q.mcap": motion_states({**_ROW, "q": ["a", {}]}),
    "nested q.mcap": motion_states({**_ROW, "q": [[[0.0]]]}),
    "list.mcap": motion_states([1, 2]),
    "empty q.mcap": motion_states({"time": [], "q": []}, {"time": [], "q": []}),
    "start of a motion.mcap": lambda file: file.write_bytes(b"\x89MCAP0\r\n"),
}
CASES |= MOTIONS


# rosbag2 databases
def database(*statements: str, messages: bool = True) -> Write:
    return lambda file: logs.write_database(file, *statements, messages=messages)


def endless_database(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("create table topics (id integer primary key, name, type)")
    connection.execute("insert into topics values (1, '/j', 'sensor_msgs/msg/JointState')")
    connection.execute(
        "create view messages as with recursive n(x) as (select 1 union all select x + 1 from n) "
        "select 1 as topic_id, x as timestamp, x'00010000' as data from n"
    )
    connection.commit()
    connection.close()


_UPDATE = "update messages set "
CASES["endless view.db3"] = endless_database
CASES["no messages.db3"] = database(messages=False)
CASES["no topics.db3"] = database("drop table topics")
CASES["no data.db3"] = database(_UPDATE + "data = null")
CASES["text data.db3"] = database(_UPDATE + "data = 'words'")
CASES["large data.db3"] = database(_UPDATE + "data = zeroblob(30000000) where id = 1")
CASES["cut data.db3"] = database(_UPDATE + "data = substr(data, 1, 40)")
CASES["changed data.db3"] = database(_UPDATE + "data = replace(data, x'02000000', x'ffffff7f')")
CASES["text times.db3"] = database(_UPDATE + "timestamp = 'soon'")
CASES["huge times.db3"] = database(_UPDATE + "timestamp = 9223372036854775807")
CASES["many topics.db3"] = database("insert into topics select id + 1, id, type from topics")
CASES["another type.db3"] = database("update topics set type = 'x/msg/JointState'")
CASES["number topic.db3"] = database("update topics set name = 7")
CASES["generated.db3"] = database(
    "drop table messages",
    "create table messages (topic_id, timestamp, data as (hex(zeroblob(400000000))))",
    "insert into messages values (1, 1)",
)
text("words.db3", b"SQLite format 3\0" + b"words" * 200)
text("none.db3", b"")
for _share in (0.3, 0.8):
    CASES[f"cut at {_share}.db3"] = _cut(database(), _share)

# what is no file
for _end in ("csv", "npz", "npy", "mat", "parquet", "mcap", "db3"):
    CASES[f"pipe.{_end}"] = os.mkfifo
    CASES[f"device.{_end}"] = lambda file: file.symlink_to("/dev/zero")
    CASES[f"folder.{_end}"] = Path.mkdir
    CASES[f"circle.{_end}"] = lambda file: file.symlink_to(file)


def _folder_of_pipe(file: Path) -> None:
    file.mkdir()
    os.mkfifo(file / "a.db3")


CASES["pipe in a folder"] = _folder_of_pipe


class TooLong(BaseException):
    """A case that takes more than its time."""


def _stop(*_: object) -> None:
    raise TooLong


def trial(file: Path) -> dict[str, Any]:
    """What came of the readers of a file, with the longest time and the largest memory."""
    outcomes, longest = {}, 0.0
    Path("/proc/self/clear_refs").write_text("5")
    readers = logs.readers(file)
    if file.suffix == ".mcap":
        # each reader has a child process, and the other one refuses the file at once
        readers = readers[1:] if file.name in MOTIONS else readers[:1]
    for reader in readers:
        began = time.process_time()
        signal.alarm(4 * MOST_SECONDS)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                reader(file)
            outcome = "accepted"
        except QddotError as error:
            outcome = f"refused: {error}"
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            outcome = f"failed: {type(error).__name__} {error} at {place.filename}:{place.lineno}"
        finally:
            signal.alarm(0)
        outcomes[reader.__name__] = outcome
        longest = max(longest, time.process_time() - began)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    return {"outcomes": outcomes, "seconds": longest, "bytes": peak}


def main(folder: Path) -> None:
    """Write the files, try each, print the results by name."""
    signal.signal(signal.SIGALRM, _stop)
    for name, write in CASES.items():
        with contextlib.suppress(ImportError):  # a writer that is not installed
            write(folder / name)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found = {name: trial(folder / name) for name in CASES}
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    sys.stdout.write(json.dumps({"cases": found, "children": largest}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
