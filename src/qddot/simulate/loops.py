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
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["ClosedLoops", "close_start", "find_loops"]

START = 1e-6
"""How far (m, rad; m/s, rad/s) a start may be open: what the digits of a file leave."""
_SINGLE_START = 1e-4
_ITERATIONS = 3


@dataclass(frozen=True)
class ClosedLoops:
    """The loop closures that a step keeps closed, their redundant rows marked.

    Accelerations are those with multipliers, M q̈ + h = τ + Jᵀ λ with J q̈ + J̇ v = 0. At the end
    of the step q and v are projected on closure in the metric of M: so many `iterations` of
    Newton's method, with J of the first and of the last one, then J v = 0.
    """

    loops: tuple[Loop, ...]
    iterations: int = _ITERATIONS

    def rows(self, model: Model, q: Vector) -> Matrix:
        """Independent rows of the Jacobian J."""
        J = constraint_jacobian(model, q, constraints=self.loops)
        return [J[k] for k in independent_rows(model, self.loops)]

    def bias(self, model: Model, q: Vector, v: Vector) -> list[Scalar]:
        """J̇ v of the independent rows."""
        found = constraint_bias(model, q, v, constraints=self.loops)
        return [found[k] for k in independent_rows(model, self.loops)]

    def accelerations(
        self, model: Model, q: Vector, v: Vector, M: Matrix, tau: Vector, forces: Sequence[Force]
    ) -> list[Scalar]:
        """Accelerations under torques and forces on bodies; M may have more than the mass."""
        h = newton_euler(model, q, v, zeros(model.nv), forces)
        held = ConstraintMobility.of(self.rows(model, q), factorise(M))
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
        self, model: Model, q: Vector, v: Vector
    ) -> tuple[list[Scalar], list[Scalar], Scalar]:
        """The nearest closed state, and by how much (m, rad) its loops are still open."""
        mass: Factor = factorise(mass_matrix(model, q))
        kept, q1 = independent_rows(model, self.loops), list(q)
        held = ConstraintMobility.of(self.rows(model, q1), mass)
        for k in range(self.iterations):
            # openings are small: the Jacobian of the start is good enough, but for the last step
            if k and k == self.iterations - 1:
                held = ConstraintMobility.of(self.rows(model, q1), mass)
            phi = constraint_residual(model, q1, constraints=self.loops)
            q1 = integrate(model, q1, held.least_motion([-phi[k] for k in kept]))
        v1 = held.remove_motion(v)
        violation: Scalar = 0.0
        for x in constraint_residual(model, q1, constraints=self.loops):
            size = where(less(x, 0.0), -x, x)
            violation = where(less(violation, size), size, violation)
        return q1, v1, violation


def find_loops(robot: Robot) -> ClosedLoops | None:
    """The loops of a robot with redundant rows marked, of which a warning tells once; or None."""
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
    closed = all(np.abs(np.nan_to_num(gap)).max(initial=0.0) <= 1e-12 for _, gap in gaps)
    sound = np.isfinite(states).all(axis=-1) & np.isfinite(speeds).all(axis=-1)
    if closed or single or not sound.any():
        return q, v
    states, speeds = states.astype(float), speeds.astype(float)
    states[sound], speeds[sound] = project(robot, states[sound], speeds[sound])
    return states, speeds
