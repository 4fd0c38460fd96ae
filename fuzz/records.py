"""Hostile records of evidence: genuine ones taken apart, changed in one place, and put together.

`hostile_records` lists mutants of a genuine record, the same ones each time, and `mutate_record`
makes a random one. Check sums and indexes of the files are right unless the mutant is about them.
"""

from __future__ import annotations

import copy
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import zstandard
from mcap.records import Attachment, Channel, DataEnd, Header, Message, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import Writer

__all__ = ["Part", "hostile_records", "mutate_record", "put_together", "take_apart"]


@dataclass
class Part:
    """An attachment (with a `place`) or a message (with a topic) of a record."""

    data: bytes
    topic: str = ""
    place: str = ""
    stamp: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    schema: tuple[str, bytes] = ("", b"")

    @property
    def message(self) -> Any:
        """The JSON of a message."""
        return json.loads(self.data)

    @message.setter
    def message(self, value: Any) -> None:
        self.data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def take_apart(content: bytes) -> tuple[str, list[Part]]:
    """The profile of a record, and its attachments and messages in their order."""
    parts: list[Part] = []
    profile, channels, schemas = "", dict[int, Channel](), dict[int, Schema]()
    for found in StreamReader(BytesIO(content)).records:
        if isinstance(found, Header):
            profile = found.profile
        elif isinstance(found, Attachment):
            parts.append(Part(found.data, place=found.name, stamp=found.log_time))
        elif isinstance(found, Schema):
            schemas[found.id] = found
        elif isinstance(found, Channel):
            channels[found.id] = found
        elif isinstance(found, Message):
            of = channels[found.channel_id]
            schema = schemas[of.schema_id]
            parts.append(
                Part(
                    found.data.rstrip(),
                    of.topic,
                    stamp=found.log_time,
                    facts=dict(of.metadata),
                    schema=(schema.name, schema.data),
                )
            )
        elif isinstance(found, DataEnd):
            break
    return profile, parts


def put_together(profile: str, parts: list[Part]) -> bytes:
    """The file of attachments and messages, with right check sums and index."""
    stream, ids = BytesIO(), dict[Any, int]()
    writer = Writer(stream, chunk_size=16 * 1024, enable_data_crcs=True)
    writer.start(profile=profile, library="qddot")
    for p in parts:
        if p.place:
            writer.flush()
            kind = "application/octet-stream"
            writer.add_attachment(0, p.stamp, p.place, kind, p.data)
            continue
        key = (p.topic, *sorted(p.facts.items()), *p.schema)
        if key not in ids:
            number = writer.register_schema(p.schema[0], "jsonschema", p.schema[1])
            ids[key] = writer.register_channel(p.topic, "json", number, p.facts)
        writer.add_message(ids[key], log_time=p.stamp, publish_time=p.stamp, data=p.data)
    writer.finish()
    return stream.getvalue()


_NESTED: Any = 0
for _ in range(40):
    _NESTED = [_NESTED]
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 2**53, 10**30, 1e308, "", "x", "\x1b[31m", "\ud800", "9" * 70),
    *("x" * 200_000, [], {}, [[]], _NESTED, {"a": {"b": None}}, ["x"] * 3, [1e308], "NaN"),
)
"""What a field of a message becomes; each is wrong for most fields."""
TOKENS = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b"[" * 100_000,
    b"{",
    b"",
    b"\xff",
)
"""Bytes that stand for a value and are no JSON, or none that is taken."""


def _fields(parts: list[Part]) -> Iterator[tuple[int, str]]:
    """The place of the first message of each topic, with each of its fields."""
    seen = set()
    for k, p in enumerate(parts):
        if p.topic and p.topic not in seen:
            seen.add(p.topic)
            for name in p.message:
                yield k, name


def _set_field(parts: list[Part], k: int, name: str, value: Any) -> None:
    parts[k].message = {**parts[k].message, name: value}


def _replace_token(parts: list[Part], k: int, name: str, token: bytes) -> None:
    """Bytes in place of the value of a field."""
    _set_field(parts, k, name, "@@")
    parts[k].data = parts[k].data.replace(b'"@@"', token)


def _remove_field(parts: list[Part], k: int, name: str) -> None:
    parts[k].message = {n: x for n, x in parts[k].message.items() if n != name}


def _repeat_key(parts: list[Part], k: int, name: str) -> None:
    """The same key twice in an object."""
    again = json.dumps({name: None}).encode()[1:-1]
    parts[k].data = parts[k].data.rstrip()[:-1] + b"," + again + b"}"


def _messages(parts: list[Part], topic: str) -> list[int]:
    return [k for k, p in enumerate(parts) if p.topic.startswith(topic)]


def _change_facts(parts: list[Part], name: str, text: str | None) -> None:
    """Another text of a channel of a trace, or none."""
    for k in _messages(parts, "/trace/"):
        facts = {n: x for n, x in parts[k].facts.items() if n != name}
        parts[k].facts = facts if text is None else {**facts, name: text}


def _repeat(parts: list[Part], topic: str, times: int) -> None:
    k = _messages(parts, topic)[0]
    parts[k : k + 1] = [copy.deepcopy(parts[k]) for _ in range(times)]


def _number_names(parts: list[Part], topic: str, times: int) -> None:
    """Many messages of a kind, each with a name of its own."""
    _repeat(parts, topic, times)
    for n, k in enumerate(_messages(parts, topic)[:times]):
        message = parts[k].message
        parts[k].message = {**message, "name": f"{message['name']} {n}"}


def _widen_row(parts: list[Part], value: Any) -> None:
    k = _messages(parts, "/trace/")[0]
    parts[k].message = dict.fromkeys(parts[k].message, value)


def _add_topic(parts: list[Part], topic: str, data: bytes, times: int = 1) -> None:
    parts[-1:-1] = [Part(data, topic, schema=("x", b"{}")) for _ in range(times)]


def _fill_rows(parts: list[Part], data: bytes, times: int) -> None:
    """Rows of few bytes, many of them."""
    k = _messages(parts, "/trace/")[0]
    parts[k : k + 1] = [Part(data, p.topic, "", 0, p.facts, p.schema) for p in [parts[k]] * times]


def _cross_operands(parts: list[Part]) -> None:
    """Two columns whose difference would broadcast to a table of 10¹⁰ numbers."""
    for k in _messages(parts, "/metric"):
        message = parts[k].message
        operands = ["wide.a", "wide.b"]
        parts[k].message = {**message, "definition": "largest_difference", "operands": operands}
    n = 100_000
    facts = {"units": "{}", "shapes": f'{{"a":[{n},1],"b":[1,{n}]}}', "frame": "", "step": ""}
    zeros = b"0," * (n - 1) + b"0"
    row = b'{"a":[' + zeros.replace(b"0", b"[0]") + b'],"b":[[' + zeros + b"]]}"
    end = copy.deepcopy(parts[_messages(parts, "/traces")[0]])
    end.message = {**end.message, "trace": "wide", "rows": 1}
    parts[-1:-1] = [Part(row, "/trace/wide", facts=facts, schema=("x", b"{}")), end]


def _swap(parts: list[Part], a: int, b: int) -> None:
    parts[a], parts[b] = parts[b], parts[a]


_SHAPES = (
    *(
        '{"a":[1000000000]}',
        '{"a":[-1]}',
        '{"a":[4294967296,4294967296]}',
        '{"a":"x"}',
        "[]",
        "null",
    ),
    *("{", "", '{"a":[' + "1," * 70 + "1]}", "[" * 5000, '{"a":[1.5]}', '{"a":[true]}', "{}"),
    "{" + ",".join(f'"c{i}":[]' for i in range(3000)) + "}",
)
Change = Callable[[list[Part]], None]


def _part_changes(parts: list[Part]) -> Iterator[tuple[str, Change]]:
    """Changes of messages, by name."""
    for n, (k, name) in enumerate(_fields(parts)):
        topic = parts[k].topic
        # a few values a field, other ones at the next
        for m in range(3):
            value = VALUES[(3 * n + m) % len(VALUES)]
            yield (
                f"{topic} {name} = {value!r:.20}",
                lambda p, k=k, x=name, v=value: _set_field(p, k, x, v),
            )
        token = TOKENS[n % len(TOKENS)]
        yield (
            f"{topic} {name} = {token[:9]!r}",
            lambda p, k=k, x=name, t=token: _replace_token(p, k, x, t),
        )
        yield f"{topic} without {name}", lambda p, k=k, x=name: _remove_field(p, k, x)
        yield f"{topic} {name} twice", lambda p, k=k, x=name: _repeat_key(p, k, x)
    for text in _SHAPES:
        yield f"shapes {text[:20]}", lambda p, t=text: _change_facts(p, "shapes", t)
    for name in ("units", "shapes", "step", "frame"):
        yield f"no {name}", lambda p, n=name: _change_facts(p, n, None)
        yield f"{name} of another type", lambda p, n=name: _change_facts(p, n, '{"q":[1]}')
    for value in VALUES:
        yield f"row of {value!r:.20}", lambda p, v=value: _widen_row(p, v)
    for topic in ("/run", "/traces", "/metric", "/claim", "/step", "/log", "/end"):
        yield f"{topic} twice", lambda p, t=topic: _repeat(p, t, 2)
        yield f"no {topic}", lambda p, t=topic: p.pop(_messages(p, t)[0])
        yield f"{topic} first", lambda p, t=topic: p.insert(0, p.pop(_messages(p, t)[0]))
        yield f"{topic} last", lambda p, t=topic: p.append(p.pop(_messages(p, t)[0]))
        for data in (b"[]", b"1", b'"x"', b"{}", b"null"):
            yield (
                f"{topic} is {data!r}",
                lambda p, t=topic, d=data: setattr(p[_messages(p, t)[0]], "data", d),
            )
    for topic in ("/x", "", "/trace/", "/trace/\x1b[31m", "/trace/" + "x" * 60_000, "/claim/x"):
        yield f"topic {topic[:12]!r}", lambda p, t=topic: _add_topic(p, t, b"{}")
    yield "12 000 claims", lambda p: _number_names(p, "/claim", 12_000)
    yield "12 000 metrics", lambda p: _number_names(p, "/metric", 12_000)
    yield (
        "9000 metrics and claims",
        lambda p: (
            _number_names(p, "/metric", 9000),
            _number_names(p, "/claim", 9000),
        ),
    )
    yield "12 000 marks", lambda p: _repeat(p, "/step", 12_000)
    yield "20 000 lines of the log", lambda p: _repeat(p, "/log", 20_000)
    yield "20 000 empty rows", lambda p: _fill_rows(p, b"{}", 20_000)
    yield "nested lists", lambda p: _fill_rows(p, b'{"q":[' + b"[]," * 300_000 + b"[]]}", 2)
    yield "a long number", lambda p: _fill_rows(p, b'{"q":' + b"1" * 2_000_000 + b".5}", 2)
    yield "a long label", lambda p: _fill_rows(p, '{"label":"\U0001f916'.encode() + b'x"}', 2)
    yield "crossed operands", _cross_operands
    yield "no attachment", lambda p: p.pop(0)
    yield "attachments in a circle", lambda p: p.append(p.pop(0))
    yield "an attachment twice", lambda p: p.insert(0, p[0])
    yield "a foreign attachment", lambda p: p.insert(0, Part(b"x", place="../../x"))


def _record(opcode: int, content: bytes) -> bytes:
    """A part of a file of MCAP: opcode, length, content."""
    return struct.pack("<BQ", opcode, len(content)) + content


def _sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _chunk(data: bytes, size: int | None = None, kind: bytes = b"zstd") -> bytes:
    """A chunk that holds compressed bytes; `size` is what it says that it unfolds to."""
    packed = zstandard.compress(data) if kind == b"zstd" else data
    head = struct.pack(
        "<QQQII", 0, 0, len(data) if size is None else size, zlib.crc32(data), len(kind)
    )
    return _record(6, head + kind + struct.pack("<Q", len(packed)) + packed)


def _byte_changes(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Files whose bytes are changed, not their messages."""
    rng = random.Random(0)
    for n in range(40):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 4, 30))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        yield f"bytes {n}", bytes(changed)
    for n in range(20):
        yield f"cut {n}", content[: int(len(content) * n / 20)]
        at = rng.randrange(len(content))
        yield f"gap {n}", content[:at] + content[at + rng.randrange(1, 200) :]
    # after the magic and the header
    at = 8 + 9 + struct.unpack_from("<Q", content, 9)[0]
    head, tail = content[:at], content[at:]
    zeros = bytes(16 * 2**20)
    row = _record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + b"{}")
    # rows of a trace of their own: as many, or as wide, as are taken
    names = [b"/trace/bomb", b"json", b"units", b"{}", b"shapes", b'{"a":[1000000]}', b"frame", b""]
    texts = [struct.pack("<I", len(x)) + x for x in (*names, b"step", b"")]
    facts = b"".join(texts[2:])
    schema = _record(3, struct.pack("<H", 60_000) + bytes(12))
    of = _record(4, b"".join((struct.pack("<HH", 60_000, 60_000), *texts[:2], _sized(facts))))
    wide = _record(5, struct.pack("<HIQQ", 60_000, 0, 0, 0) + b'{"a":[' + b"0," * 999_999 + b"0]}")
    short = _record(5, struct.pack("<HIQQ", 60_000, 0, 0, 0) + b'{"a":0}')
    thousand = ",".join(f'"c{i}":[]' for i in range(1000)).encode()
    many = [
        _record(4, b"".join((struct.pack("<HH", n, 60_000), _sized(b"/trace/%d" % n), *rest)))
        for n in range(300)
        for rest in [(texts[1], _sized(facts.replace(texts[5], _sized(b"{%s}" % thousand))))]
    ]
    narrow = of.replace(b"[1000000]", b"[]     ")
    parts: tuple[tuple[str, bytes], ...] = (
        ("a bomb of zeros", _chunk(zeros)),
        ("64 bombs of zeros", 64 * _chunk(zeros)),
        ("a bomb of messages", _chunk(row * 400_000)),
        ("wide rows", _chunk(schema + of + wide * 5) + 2 * _chunk(wide * 5)),
        ("too many wide rows", _chunk(schema + of.replace(b"1000000", b"4000000") + short * 9)),
        ("many rows", _chunk(schema + narrow + short * 350_000) + _chunk(short * 350_000)),
        ("40 bombs of messages", 40 * _chunk(row * 400_000)),
        ("a bomb of blanks", _chunk(_record(5, bytes(22) + b" " * (15 * 2**20))) * 30),
        ("a chunk that lies", _chunk(zeros, 10)),
        ("a chunk of all memory", _chunk(b"x", 2**62)),
        ("an unknown compression", _chunk(b"x", kind=b"lz9")),
        ("a chunk without compression", _chunk(row * 3, kind=b"")),
        ("a part of all memory", struct.pack("<BQ", 6, 2**63)),
        ("an attachment of all memory", struct.pack("<BQ", 9, 2**40)),
        ("an attachment that lies", _record(9, bytes(16) + struct.pack("<IIQ", 0, 0, 2**62))),
        ("a long index", _record(7, struct.pack("<HI", 1, 2**20) + bytes(2**20))),
        ("long metadata", _record(12, struct.pack("<II", 0, 2**20) + bytes(2**20))),
        ("a channel without text", _chunk(_record(4, b"\1\0\1\0\xff\xff\xff\xff"))),
        ("a channel of bad letters", _chunk(_record(4, b"\1\0\1\0\1\0\0\0\xff" + bytes(8)))),
        ("70 000 channels", _chunk(_record(4, b"\1\0\1\0\1\0\0\0x" + bytes(8)) * 70_000)),
        ("a channel without a schema", _chunk(_record(4, b"\1\0\7\0\1\0\0\0x" + bytes(8)) + row)),
        ("a message of no channel", _chunk(_record(5, b"\xff" * 22))),
        ("a short message", _chunk(_record(5, b"\1"))),
        ("a footer", _record(2, bytes(20))),
        ("a second header", _record(1, bytes(8))),
        ("an end of data", _record(15, bytes(4))),
        ("a million parts", _record(0, b"") * 1_000_100),
        ("bombs of all memory", 5000 * _chunk(zeros)),
        ("columns without end", _chunk(schema + b"".join(many))),
        ("an opcode of zero", _record(0, b"")),
    )
    for name, between in parts:
        yield name, head + between + tail
        if len(between) < 10_000:
            yield f"{name} at the end", content[:-37] + between + content[-37:]


def hostile_records(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Mutants of a genuine record by name; the same ones each time."""
    profile, genuine = take_apart(content)
    for name, change in _part_changes(genuine):
        parts = copy.deepcopy(genuine)
        change(parts)
        yield name, put_together(profile, parts)
    for other in ("", "qddot-evidence-0", "qddot-evidence-99", "ros2"):
        yield f"profile {other!r}", put_together(other, genuine)
    yield from _byte_changes(content)


def mutate_record(content: bytes, rng: random.Random) -> bytes:
    """A random mutant of a genuine record: a field, an order, or bytes changed."""
    profile, parts = take_apart(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        action = rng.randrange(6)
        k, name = rng.choice(list(_fields(parts)))
        if action < 2:
            _set_field(parts, k, name, rng.choice(VALUES))
        elif action == 2:
            _replace_token(parts, k, name, rng.choice(TOKENS))
            break
        elif action == 3:
            _swap(parts, rng.randrange(len(parts)), rng.randrange(len(parts)))
        elif action == 4:
            del parts[rng.randrange(len(parts))]
        else:
            parts.insert(rng.randrange(len(parts)), rng.choice(parts))
    changed = bytearray(put_together(profile, parts))
    if rng.random() < 0.2:
        for _ in range(rng.choice((1, 4, 30))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)
