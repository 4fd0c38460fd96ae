"""Configurations, velocities and accelerations that meet constraints, nearest to given ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import CONSTRAINT_PROJECTION
from qddot.algorithms.constraints import Constraints
from qddot.analysis.constraints.arguments import (
    Names,
    hashable,
    list_constraints,
    require_finite,
    row_names,
    velocity_indices,
)
from qddot.analysis.constraints.compiled import evaluate
from qddot.analysis.constraints.linear_algebra import (
    DEPENDENT,
    ROUNDING,
    apply_matrix,
    constraint_jacobian,
    inverse_mass_root,
    largest_entries,
    largest_magnitude,
    normalise_rows,
    overall_size,
)
from qddot.display.progress import OnStep
from qddot.errors import CannotAssemble, InvalidArgument
from qddot.model.links import Contact
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Mat3, Transform, Vec3

__all__ = ["assemble", "consistent_acceleration", "consistent_velocity", "hold", "project"]

CLOSED = 1e-12
"""Residual (m, rad) of constraints that are closed."""


def assemble(
    robot: Robot,
    q: ArrayLike,
    constraints: Constraints = None,
    fixed: Names = (),
    *,
    tolerance: float = CLOSED,
    iterations: int = 100,
    strict: bool = True,
    on_step: OnStep | None = None,
) -> np.ndarray:
    """Configurations that meet the constraints, from guesses q, by damped Gauss–Newton steps.

    Levenberg 1944, on the manifold: each step is the least in the metric of M. The joints in
    `fixed` stay as they are. Where the constraints cannot be met to the tolerance, in metres and
    radians, an error says what stays open; with `strict=False` such configurations are NaN.
    `on_step` is told how many are closed.
    """
    list_constraints(robot, constraints)
    x: np.ndarray
    guess, free = require_finite("q", q), _free_mask(robot, fixed)
    phi = _closure_residual(robot, guess, constraints)
    x, phi = guess.reshape(-1, robot.nq), phi.reshape(-1, phi.shape[-1])
    # frames half a turn apart have no residual: a small step leaves that place
    lost = ~np.isfinite(phi).all(axis=-1)
    x = np.where(lost[:, None], robot.integrate(x, 1e-3 * free), x)
    phi[lost] = _closure_residual(robot, x[lost], constraints)
    damping = np.full(len(x), 1e-6)
    for _ in range(iterations):
        # the states that are still open
        left = np.flatnonzero(~(largest_magnitude(phi) <= tolerance))
        if on_step:
            on_step("assemble", len(x) - len(left), len(x))
        if not left.size:
            break
        # the damped step of the free velocities towards a zero residual
        root = inverse_mass_root(robot, x[left], free)
        J = robot.constraint_jacobian(x[left], constraints=constraints)
        J, rows = normalise_rows(J @ root)
        square = J @ J.swapaxes(-1, -2) + damping[left, None, None] * np.eye(J.shape[-2])
        weights = np.linalg.solve(square, (rows * phi[left])[..., None])
        step = -(root @ J.swapaxes(-1, -2) @ weights)[..., 0]
        # keep it where the residual shrinks; there damp less, elsewhere more
        trial = robot.integrate(x[left], step)
        there = _closure_residual(robot, trial, constraints)
        better = np.linalg.norm(there, axis=-1) < np.linalg.norm(phi[left], axis=-1)
        x[left[better]], phi[left[better]] = trial[better], there[better]
        damping[left] = np.clip(damping[left] * np.where(better, 1 / 30, 10.0), 1e-15, 1e6)
    failed = ~(largest_magnitude(phi) <= tolerance)
    if strict and failed.any():
        hint = "guess otherwise, fix fewer joints, or leave out rows that are redundant (analyse)"
        raise _still_open(robot, failed, phi, constraints, hint)
    return np.where(failed[:, None], np.nan, x).reshape(guess.shape)


@np.errstate(all="ignore")
def _closure_residual(robot: Robot, q: np.ndarray, constraints: Constraints) -> np.ndarray:
    """Residual φ of the constraints, NaN where it is not defined."""
    return robot.constraint_residual(q, constraints=constraints)


def _still_open(
    robot: Robot, failed: np.ndarray, phi: np.ndarray, constraints: Constraints, hint: str
) -> CannotAssemble:
    """The error that names the largest residuals of the first state that fails."""
    left = largest_entries(row_names(list_constraints(robot, constraints)), phi[failed][0])
    return CannotAssemble(robot.name, int(failed.sum()), failed.size, left, hint)


def consistent_velocity(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    constraints: Constraints = None,
    fixed: Names = (),
) -> np.ndarray:
    """The velocity nearest to v that keeps the constraints, J v = 0, by kinetic energy.

    The velocities of the joints in `fixed` stay as they are; an error says what of them cannot be.
    """
    return _nearest_motion(robot, q, require_finite("v", v), 0.0, constraints, fixed)


def consistent_acceleration(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    constraints: Constraints = None,
    fixed: Names = (),
) -> np.ndarray:
    """The acceleration nearest to a that keeps the constraints, J a + J̇ v = 0 (Gauss 1829).

    The accelerations of the joints in `fixed` stay as they are.
    """
    drift = robot.constraint_bias(q, require_finite("v", v), constraints=constraints)
    return _nearest_motion(robot, q, require_finite("a", a), -drift, constraints, fixed)


def _nearest_motion(
    robot: Robot,
    q: ArrayLike,
    x: np.ndarray,
    target: ArrayLike,
    constraints: Constraints,
    fixed: Names,
) -> np.ndarray:
    """The velocity or acceleration nearest to x, in the metric of M, with J x = target."""
    J = constraint_jacobian(robot, q, constraints)
    root = inverse_mass_root(robot, q, _free_mask(robot, fixed))
    # the least correction in the metric of M that closes the gap
    unit, rows = normalise_rows(J @ root)
    gap = target - apply_matrix(J, x)
    result = x + apply_matrix(root @ np.linalg.pinv(unit, rcond=DEPENDENT), rows * gap)
    left = apply_matrix(J, result) - target
    # rounding is that of the sums which make up each row
    size = 1.0 + largest_magnitude(gap) + largest_magnitude(apply_matrix(np.abs(J), np.abs(result)))
    failed = largest_magnitude(left) > ROUNDING * size
    if failed.any():
        hint = "the fixed joints contradict the constraints: fix fewer"
        raise _still_open(robot, failed, left, constraints, hint)
    return result


def project(
    robot: Robot, q: ArrayLike, v: ArrayLike, constraints: Constraints = None
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest q and v that meet the constraints, as after each step of an integrator.

    Both are nearest in the metric of M, so that energy changes only in second order. A compiled
    function takes three Newton steps; where these do not close all constraints, `assemble` does.
    """
    if constraints is None and not robot.model.loops:
        list_constraints(robot, constraints)
    q1, v1, phi = evaluate(robot, CONSTRAINT_PROJECTION, q, v, constraints=hashable(constraints))
    # NaN and infinities are no less than any bound
    if overall_size(phi) <= CLOSED and overall_size(v1) < np.inf:
        return q1, v1
    closed = assemble(robot, q, constraints)
    return closed, consistent_velocity(robot, closed, v, constraints)


def hold(robot: Robot, q: ArrayLike, frame: str, kind: str = "point") -> Contact:
    """A contact that holds a frame where it is at q: its origin in axes of the world, or its pose.

    The place is a constant of the functions compiled for it; where only velocities and forces are
    wanted, `Contact(frame)` without a place serves every foothold.
    """
    X = robot.frame_pose(q, frame)
    if X.shape != (4, 4):
        raise InvalidArgument("q", np.shape(q), "a contact is held at one configuration")
    R = Mat3.identity() if kind == "point" else Mat3(*(Vec3(*row) for row in X[:3, :3].tolist()))
    return Contact(frame, kind, Transform(R, Vec3(*X[:3, 3].tolist())))


def _free_mask(robot: Robot, fixed: Names) -> np.ndarray:
    """Ones for velocities that may change, zeros for those of fixed joints."""
    free = np.ones(robot.nv)
    if fixed:
        free[velocity_indices(robot, fixed, "fixed")] = 0.0
    return free
