"""Operational space: the dynamics that is felt at a frame, along chosen axes of its twist.

Khatib 1987, "A unified approach for motion and force control of robot manipulators". The task is
the rows of the frame Jacobian that `axes` names, in that order; all six without `axes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from qddot.algorithms.configuration import integrate
from qddot.algorithms.inverse_dynamics import bias, gravity
from qddot.algorithms.kinematics import (
    TASK_AXES,
    ReferenceAxes,
    frame_acceleration,
    frame_classical_acceleration,
    frame_jacobian,
)
from qddot.algorithms.linear import dot, factorise, inverse, mobility, solve
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.errors import InvalidArgument, Unsupported
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "manipulability",
    "operational_space",
    "task_inertia",
    "task_jacobian",
    "task_mobility",
]

Axes = Sequence[str] | None
_DEPENDENT = 1e-9
"""The share of a row below which what is left of it is rounding."""


def _axis_indices(axes: Axes) -> list[int]:
    """The rows of a twist that axes name."""
    chosen = TASK_AXES if axes is None else tuple(axes)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidArgument("axes", chosen, "a task has at least one axis, and each only once")
    return [TASK_AXES.index(axis) for axis in chosen]


def task_jacobian(
    model: Model, q: Vector, *, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> Matrix:
    """Jacobian J (nt × nv) of a task: the rows of the frame Jacobian that the axes name."""
    J = frame_jacobian(model, q, frame=frame, reference=reference)
    return [J[i] for i in _axis_indices(axes)]


def _check_possible(model: Model, frame: str, reference: ReferenceAxes, axes: Axes) -> None:
    """Refuse a task with an axis that is never free: at no configuration could it be inverted.

    Gram–Schmidt on the rows of the Jacobian at a configuration without symmetries.
    """
    # a configuration without symmetries
    tangent = [math.sin(k + 1.0) for k in range(model.nv)]
    q = integrate(model, model.neutral, tangent)
    basis: Matrix = []
    bound: list[str] = []
    J = task_jacobian(model, q, frame=frame, reference=reference, axes=axes)
    # Gram–Schmidt: a row of which nothing is left depends on those before it
    for axis, row in zip(TASK_AXES if axes is None else axes, J, strict=True):
        rest = row
        for unit in basis:
            share = dot(rest, unit)
            rest = [x - share * u for x, u in zip(rest, unit, strict=True)]
        if dot(rest, rest) <= _DEPENDENT**2 * dot(row, row):
            bound.append(axis)
        else:
            basis.append([x / sqrt(dot(rest, rest)) for x in rest])
    if bound:
        reason = f"the joints never move {frame!r} along {', '.join(bound)} by itself"
        raise Unsupported("axes", tuple(axes or TASK_AXES), f"{reason}: leave such axes out")


def task_mobility(
    model: Model, q: Vector, *, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> Matrix:
    """Mobility Λ⁻¹ = J M⁻¹ Jᵀ (nt × nt): acceleration of the task by force (also if singular).

    Hogan 1985. Its entries are 1/kg and 1/(kg m²); where the task is singular so is this matrix,
    but it stays finite.
    """
    J = task_jacobian(model, q, frame=frame, reference=reference, axes=axes)
    return mobility(factorise(mass_matrix(model, q)), J)


def task_inertia(
    model: Model, q: Vector, *, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> Matrix:
    """Inertia Λ = (J M⁻¹ Jᵀ)⁻¹ (nt × nt) that is felt at the task; infinite or NaN if singular."""
    _check_possible(model, frame, reference, axes)
    W = task_mobility(model, q, frame=frame, reference=reference, axes=axes)
    return inverse(factorise(W))


def operational_space(
    model: Model, q: Vector, v: Vector, *, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> tuple[Matrix, Matrix, list[Scalar], list[Scalar]]:
    """Λ, J̄, μ and p of F = Λ ẍ + μ + p, the dynamics that is felt at a task.

    Khatib 1987: Λ = (J M⁻¹ Jᵀ)⁻¹, J̄ = M⁻¹ Jᵀ Λ, μ = J̄ᵀ C v − Λ J̇ v, p = J̄ᵀ g. ẍ is the rate of
    J v: the classical acceleration in "local_world_aligned", the spatial one in "local" and
    "world". Where J loses rank they are infinite or NaN; see `qddot.task_space.damped_inverse`.
    """
    _check_possible(model, frame, reference, axes)
    J = task_jacobian(model, q, frame=frame, reference=reference, axes=axes)
    factor = factorise(mass_matrix(model, q))
    # inertia and dynamically consistent inverse
    Lambda = inverse(factorise(mobility(factor, J)))
    columns = zip(*(solve(factor, row) for row in J), strict=True)
    Jbar = [[dot(x, row) for row in Lambda] for x in columns]
    # velocity and gravity terms
    g = gravity(model, q)
    coriolis = [x - y for x, y in zip(bias(model, q, v), g, strict=True)]
    # J̇ v: the acceleration of the frame while the joints do not accelerate
    fixed_axes = reference == "local_world_aligned"
    acceleration = frame_classical_acceleration if fixed_axes else frame_acceleration
    A = [*acceleration(model, q, v, zeros(model.nv), frame=frame, reference=reference)]
    drift = [A[i] for i in _axis_indices(axes)]
    transposed = [list(column) for column in zip(*Jbar, strict=True)]
    mu = [dot(x, coriolis) - dot(row, drift) for x, row in zip(transposed, Lambda, strict=True)]
    return Lambda, Jbar, mu, [dot(x, g) for x in transposed]


def manipulability(
    model: Model, q: Vector, *, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> Scalar:
    """Manipulability √det(J Jᵀ) of a task, zero where it is singular (Yoshikawa 1985)."""
    J = task_jacobian(model, q, frame=frame, reference=reference, axes=axes)
    # columns of the joints that move the frame
    above = (model.bodies[i] for i in model.ancestors(model.frame(frame).body))
    dofs = sorted({dof for body in above for dof in body.dofs})
    moving = [[row[dof] for dof in dofs] for row in J]
    # det J for as many freedoms as axes, else √det(J Jᵀ)
    if len(dofs) < len(J):
        return 0.0
    if len(dofs) == len(J):
        volume = _determinant(moving)
        return where(less(volume, 0.0), -volume, volume)
    square = _determinant([[dot(a, b) for b in moving] for a in moving])
    return sqrt(where(less(square, 0.0), 0.0, square))


def _determinant(A: Matrix) -> Scalar:
    """Determinant without a division: minors of the last rows, which those above them share."""
    n = len(A)
    # bottom to top: minors of each choice of columns
    minors: dict[tuple[int, ...], Scalar] = {(): 1.0}
    for size, row in enumerate(reversed(A), start=1):
        minors = {
            columns: sum(
                (
                    row[c] * minors[columns[:k] + columns[k + 1 :]] * (-1.0) ** k
                    for k, c in enumerate(columns)
                ),
                0.0,
            )
            for columns in combinations(range(n), size)
        }
    return minors[tuple(range(n))]
