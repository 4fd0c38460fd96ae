"""Figures of a drivetrain: one for every joint of one freedom, or by the names of joints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument, InvalidModel
from qddot.model.model import Body, Model
from qddot.simulate.plant import Moment
from qddot.spatial.scalar import Scalar

__all__ = [
    "Figures",
    "Memoryless",
    "check_numbers",
    "check_whole",
    "driven",
    "not_negative",
    "positive",
    "share",
]

_T = TypeVar("_T")
Figures = Scalar | Mapping[str, Scalar]
"""A number, or an array with one for each motion of a batch; or such by the names of joints."""


class Memoryless:
    """What effects have in common that keep nothing from step to step."""

    def memory(self, model: Model) -> int:
        """No numbers."""
        return 0

    def start(self, model: Model) -> list[float]:
        """No numbers."""
        return []

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """Torques pass as they are."""
        return at.tau, None

    def renew(self, at: Moment, memory: Vector) -> list[Scalar]:
        """No numbers."""
        return []


def driven(model: Model, given: _T | Mapping[str, _T]) -> dict[int, _T]:
    """The figure of each velocity that has one: of the joints named, or of all of one freedom."""
    if not isinstance(given, Mapping):
        return {b.iv.start: given for b in model.independent if b.joint.kind.nv == 1}
    return {_single(model, name).iv.start: x for name, x in given.items()}


def _single(model: Model, name: str) -> Body:
    """The body of a joint of one freedom that has its own coordinate."""
    body = model.body_of_joint(name)
    joint = body.joint
    if joint.leader is not None:
        raise InvalidModel(f"joint {name!r}", f"follows {joint.leader!r}; drive that one")
    if joint.kind.nv != 1:
        reason = f"is a {joint.kind.name} joint; drivetrains have joints of one freedom"
        raise InvalidModel(f"joint {name!r}", reason)
    return body


def share(model: Model, given: _T | Mapping[str, _T], dof: int, default: _T) -> _T:
    """The figure of a velocity, or the default where other joints are named."""
    return driven(model, given).get(dof, default)


def check_numbers(what: str, given: Any, accepted: str, holds: Callable[[Any], bool]) -> None:
    """Refuse what is not a number as accepted, or a mapping of joints to such numbers."""
    if isinstance(given, Mapping) and not given:
        raise InvalidArgument(what, given, f"it names no joint; {accepted}, or {{joint: number}}")
    named = given.items() if isinstance(given, Mapping) else (("", given),)
    for name, x in named:
        number = isinstance(x, float | int | np.number | np.ndarray)
        number = number and np.asarray(x).dtype.kind in "iuf"
        if not (number and all(map(holds, np.ravel(x) if isinstance(x, np.ndarray) else [x]))):
            label = f"{what} of joint {name!r}" if name else what
            raise InvalidArgument(label, x, accepted)


def positive(what: str, given: Any) -> None:
    """Refuse what is not above zero and finite."""
    check_numbers(what, given, "it is a number above 0", lambda x: 0.0 < x < math.inf)


def not_negative(what: str, given: Any) -> None:
    """Refuse what is below zero or not finite."""
    check_numbers(what, given, "it is a number, 0 or more", lambda x: 0.0 <= x < math.inf)


def check_whole(what: str, given: Any) -> None:
    """Refuse what is not a whole number of steps."""
    check_numbers(
        what,
        given,
        "it is a whole number of steps, 0 or more",
        lambda x: isinstance(x, int | np.integer) and bool(x >= 0),
    )
    for x in given.values() if isinstance(given, Mapping) else (given,):
        if isinstance(x, np.ndarray):
            raise InvalidArgument(what, x, "it is one number of steps for all motions of a batch")
