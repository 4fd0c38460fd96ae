"""What constraints and states are given, and the linear algebra that the package shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import CannotAssemble, NotUnderstood, SingularInertia, UnknownName
from qddot.evaluate import floats
from qddot.parts import Contact, Loop
from qddot.robot import Robot

__all__ = [
    "DEPENDENT",
    "ROUNDING",
    "Constraints",
    "Names",
    "apply",
    "finite",
    "heaviest",
    "inverse_root",
    "jacobian",
    "largest",
    "listed",
    "row_names",
    "scaled",
    "velocity_indices",
]

Constraints = Sequence[Loop | Contact] | None
Names = str | Sequence[str]

DEPENDENT = 1e-6
"""The share of a motion below which rows of a Jacobian count as made up by others."""

ROUNDING = 1e-7
"""The share of what equations are made of below which their rest counts as rounding."""


def listed(robot: Robot, constraints: Constraints) -> tuple[Loop | Contact, ...]:
    """The constraints asked for, or the loops of the model."""
    if isinstance(constraints, Sequence) and not isinstance(constraints, str):
        return tuple(constraints)
    if constraints is not None:
        raise NotUnderstood("constraints", constraints, "it is a list of Loop or Contact")
    if not robot.model.loops:
        accepted = f"{robot.name!r} has no loops: give a list of Loop or Contact"
        raise NotUnderstood("constraints", None, accepted)
    return robot.model.loops


def row_names(given: Iterable[Loop | Contact]) -> tuple[str, ...]:
    """The names of all equations, in order."""
    return tuple(name for c in given for name in c.row_names)


def finite(what: str, x: ArrayLike) -> np.ndarray:
    """Finite floats."""
    array = floats(what, x)
    if not np.isfinite(array).all():
        raise NotUnderstood(what, x, "it needs finite numbers")
    return array


def velocity_indices(robot: Robot, names: Names, what: str) -> np.ndarray:
    """Indices of velocities from names of joints or of velocities, in the order of v."""
    model, found = robot.model, set()
    velocities = {name: [k] for k, name in enumerate(model.velocity_names)}
    joints = {b.joint.name: list(b.dofs) for b in model.independent}
    known = joints | velocities
    for name in (names,) if isinstance(names, str) else tuple(names):
        if not isinstance(name, str) or name not in known:
            raise UnknownName(f"{what} joint or velocity", name, known, robot.name)
        found |= set(known[name])
    return np.array(sorted(found), dtype=int)


def jacobian(robot: Robot, q: ArrayLike, constraints: Constraints) -> np.ndarray:
    """The Jacobian of constraints, of which there must be some, where it is defined."""
    given = listed(robot, constraints)
    with np.errstate(all="ignore"):
        J = robot.constraint_jacobian(finite("q", q), constraints=constraints)
    lost = np.flatnonzero(~np.isfinite(J).all(axis=(*range(J.ndim - 2), -1)))
    if lost.size:
        left = {row_names(given)[k]: np.nan for k in lost}
        hint = "two frames are half a turn apart, where nothing tells the way back"
        raise CannotAssemble(robot.name, 1, 1, left, hint)
    return J


def inverse_root(robot: Robot, q: ArrayLike, free: np.ndarray | None = None) -> np.ndarray:
    """The matrix L⁻ᵀ with M = L Lᵀ: motions of one unit of energy, of the free velocities only."""
    M = robot.mass_matrix(finite("q", q))
    if free is not None and not free.all():
        M = M * free * free[:, None] + np.diag(1.0 - free)
    try:
        root = np.linalg.inv(np.linalg.cholesky(M)).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        energies, motions = np.linalg.eigh(M.reshape(-1, *M.shape[-2:]))
        still = np.abs(motions[energies[:, 0].argmin(), :, 0])
        names = (robot.model.velocity_names[k] for k in np.flatnonzero(still > 0.1))
        raise SingularInertia(robot.name, names) from None
    return root if free is None else root * free[:, None]


def scaled(J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unit length, and by what each was multiplied; zero for rows that move nothing."""
    size = np.linalg.norm(J, axis=-1)
    least = np.maximum(DEPENDENT * size.max(axis=-1, initial=0.0, keepdims=True), 1e-12)
    rows = np.where(size > least, 1.0 / np.maximum(size, least), 0.0)
    return J * rows[..., None], rows


def apply(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x over leading axes."""
    return (A @ x[..., None])[..., 0]


def largest(x: np.ndarray) -> np.ndarray:
    """Largest magnitude over the last axis, NaN if there is one."""
    return np.abs(x).max(axis=-1, initial=0.0)


def heaviest(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
    """Up to three names whose values are largest."""
    order = np.argsort(-np.abs(np.nan_to_num(values, nan=np.inf)))[:3]
    return {names[k]: float(values[k]) for k in order if values[k] != 0.0}
