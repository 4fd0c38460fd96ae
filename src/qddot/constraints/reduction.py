"""The dynamics of independent velocities alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.constraints.given import (
    DEPENDENT,
    ROUNDING,
    Constraints,
    Names,
    apply,
    finite,
    jacobian,
    largest,
    scaled,
    velocity_indices,
)
from qddot.errors import NotUnderstood
from qddot.robot import Robot

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
    q, v = finite("q", q), finite("v", v)
    J = jacobian(robot, q, constraints)
    chosen = _independent(robot, J) if independent is None else independent
    own = velocity_indices(robot, chosen, "independent")
    rest = np.setdiff1d(np.arange(robot.nv), own)
    unit, rows = scaled(J)
    back = np.linalg.pinv(unit[..., rest], rcond=DEPENDENT) * rows[..., None, :]
    T = np.zeros((*J.shape[:-2], robot.nv, len(own)))
    T[..., own, np.arange(len(own))] = 1.0
    T[..., rest, :] = -(back @ J[..., own])
    _check_determined(robot, J, unit[..., rest], T, chosen)
    rates = robot.constraint_jacobian_rate(q, v, constraints=constraints)
    dT = np.zeros((*rates.shape[:-2], robot.nv, len(own)))
    dT[..., rest, :] = -(back @ rates @ T)
    M, C = robot.mass_matrix(q), robot.coriolis_matrix(q, v)
    Tt = T.swapaxes(-1, -2)
    names = tuple(robot.model.velocity_names[k] for k in own)
    return Reduced(names, T, dT, Tt @ M @ T, Tt @ (C @ T + M @ dT), apply(Tt, robot.gravity(q)))


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
    u = finite("v", v)[..., velocity_indices(robot, r.independent, "independent")]
    push = apply(r.T.swapaxes(-1, -2), finite("tau", tau)) - apply(r.C, u) - r.g
    rate = np.linalg.solve(r.M, push[..., None])[..., 0]
    return apply(r.T, rate) + apply(r.dT, u)


def _independent(robot: Robot, J: np.ndarray) -> tuple[str, ...]:
    """Velocities that determine the others best: those that pivoting leaves to the last."""
    # scipy.linalg takes a tenth of a second to import
    from scipy.linalg import qr

    first = J.reshape(-1, *J.shape[-2:])[:1].sum(axis=0)
    triangle, order = qr(first, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    rank = int((sizes > DEPENDENT * sizes.max(initial=0.0)).sum())
    return tuple(robot.model.velocity_names[k] for k in sorted(order[rank:]))


def _check_determined(
    robot: Robot, J: np.ndarray, dependent: np.ndarray, T: np.ndarray, chosen: Names
) -> None:
    """Refuse independent velocities that leave others free, or that contradict the constraints."""
    many = dependent.shape[-1]
    sizes = np.linalg.svd(dependent, compute_uv=False)
    tight = many <= dependent.shape[-2] and bool((sizes[..., many - 1 :] > DEPENDENT).all())
    loose = not tight and many > 0
    clash = largest((J @ T).reshape(*J.shape[:-2], -1)) > ROUNDING * (
        1.0 + np.abs(T).max(initial=0)
    )
    if loose or clash.any():
        reason = "leave other joints free" if loose else "cannot all be independent"
        better = ", ".join(map(repr, _independent(robot, J)))
        raise NotUnderstood("independent", chosen, f"they {reason} here; {better} would do")
