"""The dynamics of independent velocities alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.analysis.constraints.arguments import (
    Constraints,
    Names,
    require_finite,
    velocity_indices,
)
from qddot.analysis.constraints.linear_algebra import (
    DEPENDENT,
    ROUNDING,
    apply_matrix,
    constraint_jacobian,
    largest_magnitude,
    normalise_rows,
)
from qddot.errors import InvalidArgument
from qddot.robot.robot import Robot

__all__ = ["Reduced", "reduce", "reduced_forward_dynamics"]


@dataclass(frozen=True)
class Reduced:
    """The dynamics M a + C u + g = Tᵀ τ of the independent velocities u, v = T u.

    M̄ = Tᵀ M T, C̄ = Tᵀ (C T + M Ṫ), ḡ = Tᵀ g; Ṁ̄ − 2 C̄ is skew as Ṁ − 2 C is.
    """

    independent: tuple[str, ...]
    T: np.ndarray
    dT: np.ndarray
    M: np.ndarray
    C: np.ndarray
    g: np.ndarray


def reduce(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    independent: Names | None = None,
    constraints: Constraints = None,
) -> Reduced:
    """The dynamics of independent velocities alone: T, Ṫ, M̄, C̄ and ḡ at a state.

    `independent` names joints or velocities; without it, those that leave the rest best
    determined. With J_d the columns of the others, T = −J_d⁻¹ J_i there and Ṫ = −J_d⁻¹ J̇ T.
    """
    q, v = require_finite("q", q), require_finite("v", v)
    J = constraint_jacobian(robot, q, constraints)
    chosen = _choose_independent(robot, J) if independent is None else independent
    # columns of the independent velocities and of the rest
    own = velocity_indices(robot, chosen, "independent")
    rest = np.setdiff1d(np.arange(robot.nv), own)
    unit, rows = normalise_rows(J)
    back = np.linalg.pinv(unit[..., rest], rcond=DEPENDENT) * rows[..., None, :]
    # v = T u with T = −J_d⁻¹ J_i at the dependent velocities
    T = np.zeros((*J.shape[:-2], robot.nv, len(own)))
    T[..., own, np.arange(len(own))] = 1.0
    T[..., rest, :] = -(back @ J[..., own])
    # refuse a choice that leaves others free, or that contradicts the constraints
    sizes = np.linalg.svd(unit[..., rest], compute_uv=False)
    tight = len(rest) <= J.shape[-2] and bool((sizes[..., len(rest) - 1 :] > DEPENDENT).all())
    loose = len(rest) > 0 and not tight
    gap = largest_magnitude((J @ T).reshape(*J.shape[:-2], -1))
    if loose or (gap > ROUNDING * (1.0 + np.abs(T).max(initial=0))).any():
        reason = "leave other joints free" if loose else "cannot all be independent"
        better = ", ".join(map(repr, _choose_independent(robot, J)))
        raise InvalidArgument("independent", chosen, f"they {reason} here; {better} would do")
    # Ṫ = −J_d⁻¹ J̇ T
    rates = robot.constraint_jacobian_rate(q, v, constraints=constraints)
    dT = np.zeros((*rates.shape[:-2], robot.nv, len(own)))
    dT[..., rest, :] = -(back @ rates @ T)
    # projection of M, C and g on the independent velocities
    M, C = robot.mass_matrix(q), robot.coriolis_matrix(q, v)
    Tt = T.swapaxes(-1, -2)
    names = tuple(robot.model.velocity_names[k] for k in own)
    return Reduced(
        independent=names,
        T=T,
        dT=dT,
        M=Tt @ M @ T,
        C=Tt @ (C @ T + M @ dT),
        g=apply_matrix(Tt, robot.gravity(q)),
    )


def reduced_forward_dynamics(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    independent: Names | None = None,
    constraints: Constraints = None,
) -> np.ndarray:
    """Accelerations of all joints by the reduced dynamics, without multipliers: T u̇ + Ṫ u."""
    r = reduce(robot, q, v, independent, constraints)
    u = require_finite("v", v)[..., velocity_indices(robot, r.independent, "independent")]
    push = (
        apply_matrix(r.T.swapaxes(-1, -2), require_finite("tau", tau)) - apply_matrix(r.C, u) - r.g
    )
    rate = np.linalg.solve(r.M, push[..., None])[..., 0]
    return apply_matrix(r.T, rate) + apply_matrix(r.dT, u)


def _choose_independent(robot: Robot, J: np.ndarray) -> tuple[str, ...]:
    """Velocities that determine the others best: those that pivoting leaves to the last."""
    # scipy.linalg takes a tenth of a second to import
    from scipy.linalg import qr

    first = J.reshape(-1, *J.shape[-2:])[:1].sum(axis=0)
    triangle, order = qr(first, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    rank = int((sizes > DEPENDENT * sizes.max(initial=0.0)).sum())
    return tuple(robot.model.velocity_names[k] for k in sorted(order[rank:]))
