"""The schemas and limits of records: written into files, and checked when files are read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from qddot.errors import control_character

__all__ = [
    "MOST_BYTES",
    "MOST_CHUNK",
    "MOST_COLUMNS",
    "MOST_INPUT_BYTES",
    "MOST_MESSAGE",
    "MOST_MESSAGES",
    "MOST_NUMBERS",
    "MOST_OF_A_KIND",
    "MOST_UNFOLDED",
    "MOST_WORDS",
    "PROFILE",
    "SCHEMAS",
    "TRACE_SCHEMAS",
    "find_fault",
    "parse_json",
    "publish_schema",
]

PROFILE = "qddot-evidence-2"
"""The MCAP profile of records: layout 2."""
MOST_BYTES = 2**30
"""Largest file that is read."""
MOST_INPUT_BYTES = 64 * 2**20
"""Bytes of all inputs that a record keeps."""
MOST_UNFOLDED = 2**28
"""Bytes of all messages."""
MOST_WORDS = 32 * 2**20
"""Bytes of all messages but rows of traces, and of the labels of rows."""
MOST_MESSAGE = 4 * 2**20
"""Bytes of a message."""
MOST_CHUNK = 16 * 2**20
"""Bytes of the messages of a chunk."""
MOST_MESSAGES = 750_000
MOST_COLUMNS = 100_000
"""Columns of all traces."""
MOST_NUMBERS = 16_000_000
"""Numbers of all traces."""
MOST_OF_A_KIND = 10_000
"""Claims, metrics, marks, topics; inputs of a run, columns of traces."""
_MOST_DEPTH = 12
_MOST_LETTERS = 100_000
_LONGEST_INTEGER = 20

Schema = Mapping[str, Any]


def _object(title: str, /, **properties: Any) -> dict[str, Any]:
    """The schema of an object that has just these properties."""
    return {
        "type": "object",
        "title": title,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _map(values: Schema) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, "maxProperties": MOST_OF_A_KIND}


def _list(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MOST_OF_A_KIND}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 1000, "format": "line"}
_WORD: Schema = {**_NAME, "minLength": 0}
_NUMBER: Schema = {"type": "number"}
_MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**53}
_DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_FACT: Schema = {"type": ["string", "number", "boolean", "null"]}
_COUNTS = _object("qddot.Counts", traces=_COUNT, metrics=_COUNT, claims=_COUNT)
_INPUT = _object("qddot.Input", name=_WORD, sha256=_DIGEST, size=_COUNT, place=_NAME, uri=_WORD)
_RELATION = _one_of("", "<", "≤", ">", "≥", "=")
_LABEL = _one_of(
    *("", "perception", "state", "planning", "control", "evaluation", "model", "contact")
)

SCHEMAS: dict[str, dict[str, Any]] = {
    "/run": _object(
        "qddot.Run",
        command=_WORD,
        arguments=_list(_TEXT),
        configuration={"type": "object", "maxProperties": 1000},
        inputs=_list(_INPUT),
        seed={"type": ["integer", "null"]},
        versions=_map(_WORD),
        machine=_map(_FACT),
        units=_TEXT,
        frames=_TEXT,
        latency=_map(_NUMBER),
        started=_WORD,
    ),
    "/step": _object(
        "qddot.Step",
        step=_NAME,
        event=_one_of("begin", "end"),
        title=_WORD,
        seconds=_NUMBER,
        counts=_COUNTS,
        chain=_DIGEST,
    ),
    "/traces": _object("qddot.TraceEnd", trace=_NAME, rows=_COUNT, digest=_DIGEST, step=_WORD),
    "/metric": _object(
        "qddot.Metric",
        name=_NAME,
        value=_MAYBE_NUMBER,
        unit=_WORD,
        definition=_NAME,
        operands=_list(_NAME),
        parameters=_map(_NUMBER),
        step=_WORD,
    ),
    "/claim": _object(
        "qddot.Claim",
        step=_WORD,
        name=_NAME,
        verdict=_one_of("PASS", "FAIL", "NOT EVALUATED"),
        compared=_TEXT,
        value=_MAYBE_NUMBER,
        unit=_WORD,
        relation=_RELATION,
        bound=_MAYBE_NUMBER,
        detail=_TEXT,
        fix=_TEXT,
        metric=_WORD,
        label=_LABEL,
        cause=_TEXT,
    ),
    "/log": _object(
        "foxglove.Log",
        timestamp=_object("time", sec=_COUNT, nsec=_COUNT),
        level=_COUNT,
        message=_TEXT,
        name=_WORD,
        file=_WORD,
        line=_COUNT,
    ),
    "/end": _object("qddot.End", digest=_DIGEST, chain=_DIGEST, **_COUNTS["properties"]),
}
"""The messages of a record by topic, but for rows of traces, which have topics of their own."""
TRACE_SCHEMAS: dict[str, Schema] = {
    "units": _map(_TEXT),
    "shapes": {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": MOST_NUMBERS},
            "maxItems": 8,
        },
        "maxProperties": 1000,
    },
    "frame": _TEXT,
    "step": _WORD,
}
"""The metadata of the topic of a trace; units and shapes are JSON."""
_KINDS = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
_SURROGATE = re.compile("[\ud800-\udfff]")


def publish_schema(schema: Schema) -> bytes:
    """The JSON of a schema; members of several types have none, for readers that know only one."""

    def plain(x: Any) -> Any:
        if isinstance(x, Mapping):
            return {
                k: plain(v) for k, v in x.items() if k != "type" or isinstance(v, str | Mapping)
            }
        return x

    return json.dumps(plain(schema)).encode()


def parse_json(data: bytes) -> Any:
    """The value of a JSON text; ValueError where it is none, or one that no record has."""
    try:
        return json.loads(
            str(data, "utf-8"),
            parse_constant=_refuse_constant,
            parse_int=_parse_integer,
            object_pairs_hook=_pairs_once,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _parse_integer(text: str) -> int:
    # Python takes quadratic time for long ones
    if len(text) > _LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def _pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def find_fault(value: Any, schema: Schema, place: str = "", depth: int = 0) -> str:
    """The first way in which a value does not fit its schema, in words; empty where it fits.

    Understood are the words of JSON Schema that the table of this module uses. A schema without a
    type takes any value, within bounds of depth and length.
    """
    kinds, known = _KINDS.get(type(value), ()), schema.get("type")
    accepted = () if known is None else (known,) if isinstance(known, str) else tuple(known)
    if accepted and not set(kinds) & set(accepted):
        return f"{place or 'it'} is {kinds[0] if kinds else type(value)}, not {accepted[0]}"
    if depth > _MOST_DEPTH:
        return f"{place[:80]} is nested too deep"
    if isinstance(value, str):
        return _fault_of_text(value, schema, place)
    if isinstance(value, dict):
        return _fault_of_object(value, schema, place, depth)
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", MOST_OF_A_KIND):
            return f"{place} has {len(value)} items"
        items = schema.get("items", {})
        each = (find_fault(x, items, f"{place}[{k}]", depth + 1) for k, x in enumerate(value))
        return next(filter(None, each), "")
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} is not finite"
    if isinstance(value, int) and not schema.get("minimum", value) <= value:
        return f"{place} is {value}"
    if isinstance(value, int) and not value <= schema.get("maximum", value):
        return f"{place} is {value}"
    return ""


def _fault_of_text(value: str, schema: Schema, place: str) -> str:
    if not value.isascii() and _SURROGATE.search(value):
        return f"{place} has half of a letter"
    lowest, highest = schema.get("minLength", 0), schema.get("maxLength", _MOST_LETTERS)
    if not lowest <= len(value) <= highest:
        return f"{place} has {len(value)} letters"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place} is {value[:40]!r}"
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        return f"{place} is {value[:40]!r}"
    if schema.get("format") == "line" and (mark := control_character(value)):
        return f"{place} has the control character {mark}"
    return ""


def _fault_of_object(value: dict[str, Any], schema: Schema, place: str, depth: int) -> str:
    if missing := set(schema.get("required", ())) - set(value):
        return f"it has no {min(missing)}"
    if len(value) > schema.get("maxProperties", MOST_OF_A_KIND):
        return f"{place} has {len(value)} members"
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, x in value.items():
        of = properties.get(name, others)
        if of is False:
            return f"it has {name[:40]!r}, which is unknown"
        fault = _fault_of_text(name, _WORD, "a name") or find_fault(
            x, of, f"{place}.{name}" if place else name, depth + 1
        )
        if fault:
            return fault
    return ""
