"""Arguments that every function here takes: constraints, names of joints, finite arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms import closed_chains
from qddot.algorithms.constraints import Constraints
from qddot.errors import InvalidArgument, WrongType
from qddot.model.links import Contact, Loop
from qddot.robot.interpret import as_floats
from qddot.robot.robot import Robot

__all__ = [
    "Names",
    "hashable",
    "list_constraints",
    "require_finite",
    "row_names",
    "velocity_indices",
]

Names = str | Sequence[str]


def list_constraints(robot: Robot, constraints: Constraints) -> tuple[Loop | Contact, ...]:
    """The constraints as a tuple: the loops of the model where none are given."""
    if isinstance(constraints, Sequence) and not isinstance(constraints, str):
        return tuple(constraints)
    if constraints is not None:
        raise WrongType("constraints", constraints, "it is a list of Loop or Contact")
    if not robot.model.loops:
        accepted = f"{robot.name!r} has no loops: give a list of Loop or Contact"
        raise InvalidArgument("constraints", None, accepted)
    return robot.model.loops


def row_names(constraints: Iterable[Loop | Contact]) -> tuple[str, ...]:
    """The names of all rows (equations), in order."""
    return tuple(name for c in constraints for name in c.row_names)


def hashable(constraints: Constraints) -> tuple[Loop | Contact, ...] | None:
    """The constraints as compiled functions are found by them."""
    return None if constraints is None else tuple(constraints)


def require_finite(name: str, x: ArrayLike) -> np.ndarray:
    """An argument as an array of floats, all finite."""
    array = as_floats(name, x)
    if not np.isfinite(array).all():
        raise InvalidArgument(name, x, "it needs finite numbers")
    return array


def velocity_indices(robot: Robot, names: Names, role: str) -> np.ndarray:
    """Indices of velocities from names of joints or of velocities, in the order of v."""
    listed = (names,) if isinstance(names, str) else tuple(names)
    return np.array(closed_chains.velocity_indices(robot.model, listed, role), dtype=int)
