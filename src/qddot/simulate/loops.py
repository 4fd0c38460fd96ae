"""Closed loops in a step: multipliers while it lasts, and a projection on closure at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import function
from qddot.algorithms.configuration import integrate
from qddot.algorithms.constraints import (
    ConstraintMobility,
    add_constraint_forces,
    constraint_bias,
    constraint_jacobian,
    constraint_residual,
    independent_rows,
)
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.linear import Factor, dot, factorise, solve
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.analysis.constraints import project
from qddot.errors import OpenLoops
from qddot.model.links import Loop
from qddot.model.model import Model
from qddot.robot.robot import Robot, with_marked_rows
from qddot.spatial.algebra import Force
from qddot.spatial.scalar import Scalar, absolute, maximum, sqrt

__all__ = ["ClosedLoops", "ClosedState", "close_moved", "close_start", "find_loops"]

START = 1e-6
"""How far (m, rad; m/s, rad/s) a start may be open: what the digits of a file leave."""
_SINGLE_START = 1e-4
_CLOSED, _SINGLE_CLOSED = 1e-12, 1e-6
"""How far a start may be open that is not projected."""
_MOVED = 1e-9
"""How far (m, rad) the end of a rollout may be open in any case, and be resumed as it is."""
_ITERATIONS = 4
_TOLERANCE, _ATTEMPTS = 1e-10, 1000
_BRANCHING = 1e-10
"""The least pivot: 1e-5 rad from a branch of the closed configurations, rounding hides its rows."""
_SLOW = 1e-3
"""Speed (m/s, rad/s) below which corrections of velocities are shares of this one."""


@dataclass(frozen=True)
class ClosedState:
    """A projected state: q, v, how far (m, rad) it is still open, and the correction of v.

    The correction is a share of the speed, or of 1 mm/s and 1 mrad/s, in the metric of M.
    """

    q: list[Scalar]
    v: list[Scalar]
    violation: Scalar
    correction: Scalar


@dataclass(frozen=True)
class ClosedLoops:
    """The loop closures that a step keeps closed, their redundant rows marked.

    Accelerations are those with multipliers, M q̈ + h = τ + Jᵀ λ with J q̈ + J̇ v = 0. At the end
    of the step q and v are projected on closure in the metric of M: by `iterations` steps of
    Newton's method, the last one with J of its own and those before with J and M of the start of
    the step, which are at hand; then J v = 0 with J of the end. Where that corrects the velocities
    by more than `tolerance` of their size, steps of integrators of fourth order and more are taken
    in parts, in at most `attempts` attempts.
    """

    loops: tuple[Loop, ...]
    iterations: int = _ITERATIONS
    tolerance: float = _TOLERANCE
    attempts: int = _ATTEMPTS

    def rows(self, model: Model, q: Vector) -> Matrix:
        """Independent rows of the Jacobian J."""
        J = constraint_jacobian(model, q, constraints=self.loops)
        return [J[k] for k in independent_rows(model, self.loops)]

    def bias(self, model: Model, q: Vector, v: Vector) -> list[Scalar]:
        """J̇ v of the independent rows."""
        found = constraint_bias(model, q, v, constraints=self.loops)
        return [found[k] for k in independent_rows(model, self.loops)]

    def _hold(self, model: Model, q: Vector, mass: Factor) -> ConstraintMobility:
        """The mobility of the rows at q, without those that others make up there."""
        return ConstraintMobility.of(self.rows(model, q), mass, _BRANCHING)

    def admit(self, model: Model, q: Vector, v: Vector) -> tuple[list[Scalar], Scalar]:
        """The velocities nearest to v that the loops admit at q, and the least pivot there.

        They have J v = 0 and are nearest in the metric of M.
        """
        mass: Factor = factorise(mass_matrix(model, q))
        held = self._hold(model, q, mass)
        return held.remove_motion(v), held.pivot

    def accelerations(
        self, model: Model, q: Vector, v: Vector, M: Matrix, tau: Vector, forces: Sequence[Force]
    ) -> list[Scalar]:
        """Accelerations under torques and forces on bodies; M may have more than the mass."""
        h = newton_euler(model, q, v, zeros(model.nv), forces)
        held = self._hold(model, q, factorise(M))
        free = solve(held.mass, [t - x for t, x in zip(tau, h, strict=True)])
        return self.constrain(model, q, v, held, free)

    def constrain(
        self, model: Model, q: Vector, v: Vector, held: ConstraintMobility, free: Vector
    ) -> list[Scalar]:
        """Accelerations that keep the loops closed, nearest to those of the open tree."""
        bias = self.bias(model, q, v)
        opening = [-(dot(row, free) + b) for row, b in zip(held.J, bias, strict=True)]
        return [a + b for a, b in zip(free, held.least_motion(opening), strict=True)]

    def project(
        self, model: Model, start: Vector, q: Vector, v: Vector, *, accurate: bool = False
    ) -> ClosedState:
        """The closed state nearest to the end (q, v) of a step from a configuration.

        The end of an `accurate` step is so near to closure that the last correction of q leaves J
        as it is.
        """
        M = mass_matrix(model, start)
        mass: Factor = factorise(M)
        kept, q1 = independent_rows(model, self.loops), list(q)
        held = self._hold(model, start, mass)
        for k in range(self.iterations):
            if k == self.iterations - 1:
                held = self._hold(model, q1, mass)
            phi = constraint_residual(model, q1, constraints=self.loops)
            q1 = integrate(model, q1, held.least_motion([-phi[k] for k in kept]))
        # velocities, and the length of their correction
        if not accurate:
            held = self._hold(model, q1, mass)
        opening = [dot(row, v) for row in held.J]
        multipliers = held.multipliers(opening)
        change = solve(mass, add_constraint_forces(held.J, multipliers, zeros(model.nv)))
        v1 = [a - b for a, b in zip(v, change, strict=True)]
        speed = dot(v1, [dot(row, v1) for row in M])
        slow = sum(M[k][k] for k in range(model.nv)) * (_SLOW * _SLOW)
        # rounding may make the square of a length negative
        correction = sqrt(maximum(dot(opening, multipliers), 0.0) / (speed + slow))
        # the largest opening that is left
        violation: Scalar = 0.0
        for x in constraint_residual(model, q1, constraints=self.loops):
            violation = maximum(violation, absolute(x))
        return ClosedState(q1, v1, violation, correction)


def find_loops(robot: Robot) -> ClosedLoops | None:
    """The loops of a robot with redundant rows marked (warned of once), or None."""
    if not robot.model.loops:
        return None
    marked = with_marked_rows(robot, function("constrained_dynamics"), {})["constraints"]
    return ClosedLoops(marked)


def close_start(robot: Robot, q: ArrayLike, v: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Start states of a robot with loops, closed to rounding; an error where they are open.

    States within what the digits of a file leave are projected on closure; those that are no
    numbers stay as they are, and the status of the rollout tells.
    """
    q, v = np.asarray(q), np.asarray(v)
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    states, speeds = np.broadcast_to(q, (*batch, robot.nq)), np.broadcast_to(v, (*batch, robot.nv))
    with np.errstate(all="ignore"):
        phi = robot.constraint_residual(states)
        rate = np.einsum("...ij,...j->...i", robot.constraint_jacobian(states), speeds)
    single = np.float32 in (q.dtype, v.dtype)
    size = 1.0 + np.abs(speeds).max(axis=-1, initial=0.0, keepdims=True)
    gaps = (("q0", phi), ("v0", rate / size))
    names = [name for loop in robot.model.loops for name in loop.row_names]
    for what, gap in gaps:
        if (np.abs(gap) > (_SINGLE_START if single else START)).any():
            flat = np.abs(np.nan_to_num(gap.reshape(-1, len(names))))
            worst = flat[flat.max(axis=-1).argmax()]
            unit = "m or rad" if what == "q0" else "of the speed, m/s or rad/s"
            raise OpenLoops(robot.name, what, names[int(worst.argmax())], worst.max(), unit)
    near = _SINGLE_CLOSED if single else _CLOSED
    closed = all(np.abs(np.nan_to_num(gap)).max(initial=0.0) <= near for _, gap in gaps)
    sound = np.isfinite(states).all(axis=-1) & np.isfinite(speeds).all(axis=-1)
    if closed or not sound.any():
        return q, v
    return _project_some(robot, states, speeds, sound)


def close_moved(
    model: Model, loops: ClosedLoops, q: np.ndarray, v: np.ndarray, left_open: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """States to resume from, those closed again whose q was moved after the last step.

    These are open by more than the steps before have `left_open` (m, rad; by batch). All others
    stay as they are, to the last bit.
    """
    robot = Robot(model, native=False)
    with np.errstate(all="ignore"):
        phi = np.abs(robot.constraint_residual(q, constraints=loops.loops)).max(axis=-1)
    bound = max(_MOVED, 100.0 * float(np.finfo(q.dtype).eps))
    moved = (phi > np.fmax(bound, left_open)) & np.isfinite(v).all(axis=-1)
    return _project_some(robot, q, v, moved, loops.loops) if moved.any() else (q, v)


def _project_some(
    robot: Robot,
    q: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray,
    loops: Sequence[Loop] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The states of a batch, projected on closure in double precision where the mask says so."""
    states, speeds = np.array(q), np.array(v)
    states[mask], speeds[mask] = project(
        robot, states[mask].astype(float), speeds[mask].astype(float), loops
    )
    return states, speeds
