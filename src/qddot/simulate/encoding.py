"""Steps as plain data, and back: frozen dataclasses of qddot by name and fields.

Files are untrusted: only dataclasses of the packages that have components are made, each through
its own validation, and nothing else of a file is ever called.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from qddot.model.joints import JOINTS, JointKind
from qddot.robot.law import record_law
from qddot.robot.robot import Robot
from qddot.simulate.batch_parameters import insert_inputs
from qddot.simulate.feedback import Controller
from qddot.simulate.step import Step

__all__ = ["NotPlainData", "decode_step", "encode_step", "part_digests"]

_PACKAGES = ("qddot.spatial.", "qddot.model.", "qddot.simulate.", "qddot.control.")


class NotPlainData(Exception):
    """A part that is no plain data of qddot; the message names it."""


def part_digests(step: Step) -> dict[str, str]:
    """Digests of the robot and of each other part of a step, by name."""
    texts = {f.name: repr(getattr(step, f.name)) for f in fields(step) if f.name != "immutable"}
    texts["model"] = step.model.digest
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def encode_step(step: Step) -> dict[str, Any]:
    """A step as plain data; of the law its text is recorded anew when it is read."""
    parts = {f.name: getattr(step, f.name) for f in fields(step) if f.name != "immutable"}
    law: Controller | None = parts.pop("feedback")
    if law:
        gains = tuple(law.recorded.gains)
        parts["feedback"] = (law.recorded.law, gains, int(law.period), law.feels_contact, law.time)
    seen: dict[int, int] = {}
    return {name: _encode(part, seen) for name, part in parts.items()}


def decode_step(data: Mapping[str, Any], arrays: Sequence[np.ndarray] = ()) -> Step:
    """The step that was encoded; `arrays` are the array parameters of its parts."""
    made: list[Any] = []
    parts = {name: _decode(part, made, arrays) for name, part in data.items()}
    if "feedback" in parts:
        law, gains, *choices = parts["feedback"]
        recorded = record_law(Robot(parts["model"]), law, gains)
        parts["feedback"] = Controller(recorded, *choices)
    return Step(**parts)


def _encode(part: Any, seen: dict[int, int]) -> Any:
    """A part as numbers, texts, lists and dictionaries, exactly; paths of files are left out.

    A dataclass that was `seen` before is its number: laws may ask whether two parts are one object.
    """
    if part is None or type(part) in (bool, int, float, str):
        return part
    if isinstance(part, Path):
        return None
    if isinstance(part, JointKind):
        return {"joint": part.name}
    if isinstance(part, slice):
        return {"slice": [part.start, part.stop]}
    if isinstance(part, np.ndarray | np.generic) and part.dtype.kind in "fiub":
        return {"array": part.tolist(), "dtype": part.dtype.str, "shape": list(part.shape)}
    if type(part) in (list, tuple):
        return {type(part).__name__: [_encode(x, seen) for x in part]}
    if isinstance(part, Mapping):
        return {"dict": [[_encode(key, seen), _encode(x, seen)] for key, x in part.items()]}
    if id(part) in seen:
        return {"same": seen[id(part)]}
    kind = type(part)
    if not dataclasses.is_dataclass(part) or not kind.__module__.startswith(_PACKAGES):
        raise NotPlainData(f"{kind.__module__}.{kind.__qualname__}")
    values = {f.name: _encode(getattr(part, f.name), seen) for f in fields(kind)}
    seen[id(part)] = len(seen)
    return {"class": [kind.__module__, kind.__qualname__], "fields": values}


def _decode(data: Any, made: list[Any], arrays: Sequence[np.ndarray]) -> Any:
    """The part that was encoded, after those `made` before; an error where it is none of qddot.

    A part with slots is validated with the arrays in them.
    """
    if not isinstance(data, dict):
        return data
    if "joint" in data:
        return JOINTS[data["joint"]]
    if "slice" in data:
        return slice(*data["slice"])
    if "array" in data:
        return np.array(data["array"], np.dtype(data["dtype"])).reshape(data["shape"])[()]
    for sequence in (list, tuple):
        if sequence.__name__ in data:
            return sequence(_decode(x, made, arrays) for x in data[sequence.__name__])
    if "dict" in data:
        pairs = ([_decode(x, made, arrays) for x in pair] for pair in data["dict"])
        return dict(pairs)
    if "same" in data:
        return made[data["same"]]
    module, name = data["class"]
    if not module.startswith(_PACKAGES) or not module.replace(".", "_").isidentifier():
        raise ValueError(f"{module}.{name} is no part of a step")
    kind = getattr(importlib.import_module(module), name)
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise ValueError(f"{module}.{name} is no part of a step")
    values = {key: _decode(x, made, arrays) for key, x in data["fields"].items()}
    given = insert_inputs(values, arrays)
    part = kind(**{f.name: given[f.name] for f in fields(kind) if f.init})
    # validation may round anew, such as the length of an axis; slots come back
    for f in fields(kind):
        object.__setattr__(part, f.name, values[f.name])
    made.append(part)
    return part
