"""Parameters of a drivetrain: one for every joint of one freedom, or by the names of joints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from qddot.errors import InvalidArgument, InvalidModel
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar

__all__ = [
    "JointParameter",
    "check_not_negative",
    "check_parameter",
    "check_positive",
    "check_whole",
    "value_at_dof",
    "values_by_dof",
]

_T = TypeVar("_T")
JointParameter = Scalar | Mapping[str, Scalar]
"""A number, or an array with one for each motion of a batch; or such by the names of joints."""


def values_by_dof(model: Model, parameter: _T | Mapping[str, _T]) -> dict[int, _T]:
    """Values by velocity index: of the joints named, or of all joints of one freedom."""
    if not isinstance(parameter, Mapping):
        return {b.iv.start: parameter for b in model.independent if b.joint.kind.nv == 1}
    values = {}
    for name, x in parameter.items():
        body = model.body_of_joint(name)
        joint = body.joint
        if joint.leader is not None:
            raise InvalidModel(f"joint {name!r}", f"follows {joint.leader!r}; drive that one")
        if joint.kind.nv != 1:
            reason = f"is a {joint.kind.name} joint; drivetrains have joints of one freedom"
            raise InvalidModel(f"joint {name!r}", reason)
        values[body.iv.start] = x
    return values


def value_at_dof(model: Model, parameter: _T | Mapping[str, _T], dof: int, default: _T) -> _T:
    """The value at a velocity index, or the default where only other joints are named."""
    return values_by_dof(model, parameter).get(dof, default)


def check_parameter(what: str, given: Any, accepted: str, holds: Callable[[Any], bool]) -> None:
    """Refuse all but accepted numbers, arrays of them, and non-empty {joint: number}."""
    if isinstance(given, Mapping) and not given:
        raise InvalidArgument(what, given, f"it names no joint; {accepted}, or {{joint: number}}")
    named = given.items() if isinstance(given, Mapping) else (("", given),)
    for name, x in named:
        number = isinstance(x, float | int | np.number | np.ndarray)
        number = number and np.asarray(x).dtype.kind in "iuf"
        if not (number and all(map(holds, np.ravel(x) if isinstance(x, np.ndarray) else [x]))):
            label = f"{what} of joint {name!r}" if name else what
            raise InvalidArgument(label, x, accepted)


def check_positive(what: str, given: Any) -> None:
    """Refuse numbers that are not above zero and finite."""
    check_parameter(what, given, "it is a number above 0", lambda x: 0.0 < x < math.inf)


def check_not_negative(what: str, given: Any) -> None:
    """Refuse numbers below zero or not finite."""
    check_parameter(what, given, "it is a number, 0 or more", lambda x: 0.0 <= x < math.inf)


def check_whole(what: str, given: Any) -> None:
    """Refuse all but whole numbers of steps, one for all motions of a batch."""
    check_parameter(
        what,
        given,
        "it is a whole number of steps, 0 or more",
        lambda x: isinstance(x, int | np.integer) and bool(x >= 0),
    )
    for x in given.values() if isinstance(given, Mapping) else (given,):
        if isinstance(x, np.ndarray):
            raise InvalidArgument(what, x, "it is one number of steps for all motions of a batch")
