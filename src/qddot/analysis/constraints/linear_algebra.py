"""Linear algebra of constraint Jacobians, in the metric of the mass matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.constraints import Constraints
from qddot.analysis.constraints.arguments import (
    list_constraints,
    require_finite,
    row_names,
)
from qddot.errors import CannotAssemble, SingularInertia
from qddot.robot.robot import Robot

__all__ = [
    "DEPENDENT",
    "ROUNDING",
    "apply_matrix",
    "constraint_jacobian",
    "inverse_mass_root",
    "largest_entries",
    "largest_magnitude",
    "normalise_rows",
    "overall_size",
]

DEPENDENT = 1e-6
"""Relative singular value below which a row of a Jacobian depends on the others."""

ROUNDING = 1e-7
"""Relative residual below which an equation holds up to rounding."""


def constraint_jacobian(robot: Robot, q: ArrayLike, constraints: Constraints) -> np.ndarray:
    """The Jacobian J of the constraints; an error where it is not defined."""
    names = row_names(list_constraints(robot, constraints))
    with np.errstate(all="ignore"):
        J = robot.constraint_jacobian(require_finite("q", q), constraints=constraints)
    undefined = np.flatnonzero(~np.isfinite(J).all(axis=(*range(J.ndim - 2), -1)))
    if undefined.size:
        residuals = {names[k]: np.nan for k in undefined}
        hint = "two frames are half a turn apart, where nothing tells the way back"
        raise CannotAssemble(robot.name, 1, 1, residuals, hint)
    return J


def inverse_mass_root(robot: Robot, q: ArrayLike, free: np.ndarray | None = None) -> np.ndarray:
    """The matrix L⁻ᵀ with M = L Lᵀ: motions of one unit of energy, of the free velocities only."""
    M = robot.mass_matrix(require_finite("q", q))
    if free is not None and not free.all():
        # rows and columns of fixed velocities become those of the identity
        M = M * free * free[:, None] + np.diag(1.0 - free)
    try:
        root = np.linalg.inv(np.linalg.cholesky(M)).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        # name the joints that move in the eigenvector of the smallest eigenvalue
        energies, motions = np.linalg.eigh(M.reshape(-1, *M.shape[-2:]))
        massless = np.abs(motions[energies[:, 0].argmin(), :, 0])
        names = (robot.model.velocity_names[k] for k in np.flatnonzero(massless > 0.1))
        raise SingularInertia(robot.name, names) from None
    return root if free is None else root * free[:, None]


def normalise_rows(J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """J with rows of unit length, and the factor of each row; zero for rows that move nothing."""
    size = np.linalg.norm(J, axis=-1)
    least = np.maximum(DEPENDENT * size.max(axis=-1, initial=0.0, keepdims=True), 1e-12)
    factors = np.where(size > least, 1.0 / np.maximum(size, least), 0.0)
    return J * factors[..., None], factors


def apply_matrix(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The product A x over leading axes."""
    return (A @ x[..., None])[..., 0]


def largest_magnitude(x: np.ndarray) -> np.ndarray:
    """Largest magnitude over the last axis, NaN if there is one."""
    return np.abs(x).max(axis=-1, initial=0.0)


def overall_size(x: np.ndarray) -> float:
    """The norm of the numbers of one state, or the largest magnitude of a batch; NaN stays NaN."""
    # one state in plain Python: a reduction of NumPy takes longer than what it checks
    return math.hypot(*x.tolist()) if x.ndim == 1 else float(np.abs(x).max(initial=0.0))


def largest_entries(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
    """The three largest values by name, zeros left out."""
    order = np.argsort(-np.abs(np.nan_to_num(values, nan=np.inf)))[:3]
    return {names[k]: float(values[k]) for k in order if values[k] != 0.0}
