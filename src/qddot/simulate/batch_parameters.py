"""Array parameters of effects, sensors and contact, as further inputs of a step.

An effect is frozen data. A parameter that is an array has one value for each motion of a batch.
The step is compiled for the effect with an `InputSlot` in place of the array; the values come back
as inputs of the step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from qddot.model.model import Model
from qddot.spatial.scalar import Scalar

__all__ = ["InputSlot", "extract_arrays", "insert_inputs", "is_immutable", "may_be_nonzero"]


@dataclass(frozen=True)
class InputSlot:
    """The index of an array parameter among the inputs of a step."""

    index: int


def extract_arrays(part: Any) -> tuple[Any, list[np.ndarray]]:
    """A part with slots in place of its arrays, and the arrays; equal objects share a slot."""
    arrays: dict[int, np.ndarray] = {}

    def make_slot(x: np.ndarray) -> InputSlot:
        arrays.setdefault(id(x), x)
        return InputSlot(list(arrays).index(id(x)))

    return _replace_instances(part, np.ndarray, make_slot), list(arrays.values())


def insert_inputs(part: Any, inputs: Sequence[Scalar]) -> Any:
    """A part with the inputs of a step in its slots."""
    if not inputs:
        return part
    return _replace_instances(part, InputSlot, lambda slot: inputs[slot.index])


def may_be_nonzero(x: Scalar) -> bool:
    """Whether a parameter is an input, or a number other than zero."""
    return not (isinstance(x, float | int) and x == 0.0)


def _replace_instances(part: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """A part with all instances of a kind replaced; a part without any is returned as it is.

    Tuples, mappings and dataclasses are searched. Fields that are not compared, such as the seeds
    of noise, are not parameters.
    """
    if isinstance(part, kind):
        return replace(part)
    if type(part) is tuple:
        items = tuple(_replace_instances(x, kind, replace) for x in part)
        return items if any(a is not b for a, b in zip(items, part, strict=True)) else part
    if isinstance(part, Mapping):
        named = {name: _replace_instances(x, kind, replace) for name, x in part.items()}
        return named if any(named[name] is not x for name, x in part.items()) else part
    if not is_dataclass(part) or isinstance(part, type):
        return part
    result = part
    for field in (f for f in fields(part) if f.compare):
        before = getattr(part, field.name)
        after = _replace_instances(before, kind, replace)
        if after is not before:
            result = copy.copy(part) if result is part else result
            object.__setattr__(result, field.name, after)
    return result


def is_immutable(part: Any) -> bool:
    """Whether a part cannot be changed; arrays and attributes that a subclass adds can be."""
    if type(part) is tuple:
        return all(map(is_immutable, part))
    if is_dataclass(part) and not isinstance(part, Model | type):
        params = vars(type(part)).get("__dataclass_params__")
        values = {x.name: getattr(part, x.name) for x in fields(part)}
        added = getattr(part, "__dict__", {}).keys() - values.keys()
        return bool(params and params.frozen) and not added and is_immutable((*values.values(),))
    return part is None or isinstance(part, Model | str | float | int)
