"""The dynamics of independent velocities alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import REDUCED_DYNAMICS
from qddot.algorithms.constraints import Constraints
from qddot.analysis.constraints.arguments import (
    Names,
    hashable,
    require_finite,
    velocity_indices,
)
from qddot.analysis.constraints.compiled import evaluate
from qddot.analysis.constraints.linear_algebra import (
    DEPENDENT,
    apply_matrix,
    constraint_jacobian,
    normalise_rows,
    overall_size,
)
from qddot.display.text import Readable
from qddot.errors import InvalidArgument
from qddot.robot.robot import Robot

__all__ = ["ReducedDynamics", "reduce", "reduced_forward_dynamics"]


@dataclass(frozen=True, repr=False)
class ReducedDynamics(Readable):
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
) -> ReducedDynamics:
    """The dynamics of independent velocities alone: T, Ṫ, M̄, C̄ and ḡ at a state.

    `independent` names joints or velocities; without it, those that leave the rest best
    determined. With J_d the columns of the others, T = −J_d⁻¹ J_i there and Ṫ = −J_d⁻¹ J̇ T.
    """
    if independent is None:
        chosen = _choose_independent(robot, constraint_jacobian(robot, q, constraints))
    else:
        chosen = (independent,) if isinstance(independent, str) else tuple(independent)
    names = tuple(name for name in robot.model.velocity_names if name in chosen)
    if len(names) != len(chosen):
        own = velocity_indices(robot, chosen, "independent")
        names = tuple(robot.model.velocity_names[k] for k in own)
    try:
        given = hashable(constraints)
        T, dT, M, C, g = evaluate(
            robot, REDUCED_DYNAMICS, q, v, independent=names, constraints=given
        )
        found = overall_size(M.ravel()) < np.inf and overall_size(C.ravel()) < np.inf
    except InvalidArgument as error:
        if error.what != "independent":
            raise
        found = False
    # a choice that leaves others free, or contradicts the constraints, has no T
    if not found:
        for name, x in (("q", q), ("v", v)):
            require_finite(name, x)
        # the error of a choice of velocities that the others do not follow
        J = constraint_jacobian(robot, q, constraints)
        better = _choose_independent(robot, J)
        own = velocity_indices(robot, chosen, "independent")
        rest = np.setdiff1d(np.arange(robot.nv), own)
        sizes = np.linalg.svd(normalise_rows(J)[0][..., rest], compute_uv=False)
        tight = len(rest) <= J.shape[-2] and bool((sizes[..., len(rest) - 1 :] > DEPENDENT).all())
        reason = (
            "cannot all be independent" if tight or not len(rest) else "leave other joints free"
        )
        listed = ", ".join(map(repr, better))
        raise InvalidArgument("independent", chosen, f"they {reason} here; {listed} would do")
    return ReducedDynamics(names, T=T, dT=dT, M=M, C=C, g=g)


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
