"""Figures of effects, sensors and contact that carry batch axes, as inputs of a step.

A part is frozen data. Arrays in it are figures with one number for each motion of a batch: they
leave the part, which the text of a step depends on, and come in again as scalars of the step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from qddot.spatial.scalar import Scalar

__all__ = ["Lifted", "fill", "lift", "present"]


@dataclass(frozen=True)
class Lifted:
    """The place of a figure among the inputs of a step."""

    place: int


def lift(part: Any) -> tuple[Any, list[np.ndarray]]:
    """A part with places where it has arrays, and the arrays; the same array has one place."""
    found: dict[int, np.ndarray] = {}

    def place(x: np.ndarray) -> Lifted:
        found.setdefault(id(x), x)
        return Lifted(list(found).index(id(x)))

    return _mapped(part, np.ndarray, place), list(found.values())


def fill(part: Any, figures: Sequence[Scalar]) -> Any:
    """A part with scalars at its places."""
    return _mapped(part, Lifted, lambda x: figures[x.place]) if figures else part


def present(x: Scalar) -> bool:
    """Whether a figure may be other than zero."""
    return not (isinstance(x, float | int) and x == 0.0)


def _mapped(part: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """A part with all that is of a kind changed; what does not change is the same object.

    Fields that are not compared are no figures: the seeds of noise.
    """
    if isinstance(part, kind):
        return change(part)
    if type(part) is tuple:
        each = tuple(_mapped(x, kind, change) for x in part)
        return each if any(a is not b for a, b in zip(each, part, strict=True)) else part
    if not is_dataclass(part) or isinstance(part, type):
        return _mapped_values(part, kind, change) if isinstance(part, Mapping) else part
    result = part
    for x in (f for f in fields(part) if f.compare):
        before = getattr(part, x.name)
        after = _mapped(before, kind, change)
        if after is not before:
            result = copy.copy(part) if result is part else result
            object.__setattr__(result, x.name, after)
    return result


def _mapped_values(
    part: Mapping[Any, Any], kind: type, change: Callable[[Any], Any]
) -> Mapping[Any, Any]:
    named = {name: _mapped(x, kind, change) for name, x in part.items()}
    return named if any(named[name] is not x for name, x in part.items()) else part
