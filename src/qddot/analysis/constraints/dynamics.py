"""Forward and inverse dynamics and impacts under constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import function
from qddot.algorithms.constraints import Constraints, independent_rows
from qddot.analysis.constraints.arguments import (
    Names,
    hashable,
    list_constraints,
    require_finite,
    row_names,
    velocity_indices,
)
from qddot.analysis.constraints.linear_algebra import (
    DEPENDENT,
    ROUNDING,
    apply_matrix,
    constraint_jacobian,
    inverse_mass_root,
    largest_entries,
    largest_magnitude,
    normalise_rows,
)
from qddot.analysis.constraints.rank import analyse
from qddot.display.text import Readable
from qddot.errors import ActuatorsTooFew, InvalidArgument, RedundantConstraints
from qddot.robot.robot import Robot, with_marked_rows

_ROW = function("constrained_inverse_dynamics")

__all__ = ["Actuation", "forward_dynamics", "impact", "inverse_dynamics"]


@dataclass(frozen=True, repr=False)
class Actuation(Readable):
    """Torques of the joints, zero where none is actuated, and multipliers of the constraints."""

    tau: np.ndarray
    multipliers: np.ndarray


@np.errstate(all="ignore")
def forward_dynamics(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """`robot.constrained_dynamics`, which names the redundant equations where there are any.

    Options are those of the method: f_ext, friction, stabilisation.
    """
    q, v, tau = (require_finite(name, x) for name, x in (("q", q), ("v", v), ("tau", tau)))
    a, multipliers = robot.constrained_dynamics(q, v, tau, constraints=constraints, **options)
    _refuse_dependent(robot, q, constraints)
    return a, multipliers


@np.errstate(all="ignore")
def impact(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    constraints: Constraints = None,
    restitution: ArrayLike = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """`robot.impact`, with one restitution for all equations or one each; names redundant ones."""
    size = len(row_names(list_constraints(robot, constraints)))
    e = require_finite("restitution", restitution)
    try:
        e = np.broadcast_to(e, (*e.shape[:-1], size))
    except ValueError:
        accepted = f"it is one number, or one for each of {size} equations"
        raise InvalidArgument("restitution", restitution, accepted) from None
    after, impulse = robot.impact(
        require_finite("q", q), require_finite("v", v), e, constraints=constraints
    )
    _refuse_dependent(robot, q, constraints)
    return after, impulse


def _refuse_dependent(robot: Robot, q: ArrayLike, constraints: Constraints) -> None:
    """Name the equations that depend on each other where they leave multipliers open."""
    given = hashable(constraints)
    marked = with_marked_rows(robot, _ROW, {} if given is None else {"constraints": given})
    kept = independent_rows(robot.model, marked["constraints"])
    states = require_finite("q", q)
    J = constraint_jacobian(robot, states, constraints)[..., kept, :]
    rows, _ = normalise_rows(J @ inverse_mass_root(robot, states))
    sizes = np.linalg.svd(rows, compute_uv=False)
    lost = (sizes <= DEPENDENT).any(axis=-1) | (len(kept) > robot.nv)
    for state in states[lost][:1]:
        rank = analyse(robot, state, constraints)
        raise RedundantConstraints(robot.name, rank.redundant, row_names(rank.independent))


def inverse_dynamics(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    actuated: Names,
    constraints: Constraints = None,
    **options: Any,
) -> Actuation:
    """Torques of the actuated joints and multipliers that make a motion: B τ + Jᵀ λ = M a + h.

    Nakamura & Ghodoussi 1989: the motions that the constraints leave decide the torques, of which
    the least are taken where actuators are more than freedoms; what is left is carried by the
    constraints, by least multipliers where these are redundant. Options: f_ext, friction. It is
    `robot.constrained_inverse_dynamics`, and singular values where rows or motors depend on each
    other.
    """
    names = (actuated,) if isinstance(actuated, str) else tuple(actuated)
    if constraints is None and not robot.model.loops:
        list_constraints(robot, constraints)
    given = hashable(constraints)
    try:
        tau, multipliers, rest = robot.constrained_inverse_dynamics(
            q, v, a, actuated=names, constraints=given, **options
        )
    except InvalidArgument:
        velocity_indices(robot, names, "actuated")
        raise
    if rest.any():
        return _least_actuation(robot, q, v, a, names, constraints, options)
    marked = with_marked_rows(robot, _ROW, {} if given is None else {"constraints": given})
    if any(c.redundant for c in marked["constraints"]):
        # redundant rows share what the others carry
        J = constraint_jacobian(robot, q, constraints)
        unit, rows = normalise_rows(J)
        back = np.linalg.pinv(unit.swapaxes(-1, -2), rcond=DEPENDENT)
        multipliers = rows * apply_matrix(back, apply_matrix(J.swapaxes(-1, -2), multipliers))
    return Actuation(tau, multipliers)


def _least_actuation(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    actuated: Names,
    constraints: Constraints,
    options: dict[str, Any],
) -> Actuation:
    """Least torques and multipliers by singular values, also where rows or motors are dependent."""
    driven = velocity_indices(robot, actuated, "actuated")
    # J and M a + h by velocities of unit energy
    load = robot.inverse_dynamics(q, v, a, **options)
    root = inverse_mass_root(robot, q)
    J, rows = normalise_rows(constraint_jacobian(robot, q, constraints) @ root)
    back = np.linalg.pinv(J, rcond=DEPENDENT)
    # the projector on the motions that the constraints leave, which decide the torques
    freedom = np.eye(robot.nv) - back @ J
    force = apply_matrix(root.swapaxes(-1, -2), load)
    drives = root.swapaxes(-1, -2)[..., driven]
    torque = apply_matrix(
        np.linalg.pinv(freedom @ drives, rcond=1e-9), apply_matrix(freedom, force)
    )
    carried = force - apply_matrix(drives, torque)
    left = apply_matrix(freedom, carried)
    failed = largest_magnitude(left) > ROUNDING * largest_magnitude(force)
    if failed.any():
        rest = apply_matrix(np.linalg.inv(root).swapaxes(-1, -2), left)[failed][0]
        names = robot.model.velocity_names
        loads = largest_entries(names, rest)
        raise ActuatorsTooFew(robot.name, (names[k] for k in driven), loads)
    tau = np.zeros((*torque.shape[:-1], robot.nv))
    tau[..., driven] = torque
    return Actuation(tau, rows * apply_matrix(back.swapaxes(-1, -2), carried))
