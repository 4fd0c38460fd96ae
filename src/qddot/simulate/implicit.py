"""Implicit steps by inverse dynamics: the rate of one state within the step holds for all of it.

At the solution inverse dynamics gives the applied torques. Newton's method finds it with the
analytic derivatives of inverse dynamics, taken once a step: their change within the step is of
second order in Δt, so that a fixed number of iterations is enough. The last one gives the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

from qddot.algorithms.derivatives import inverse_dynamics_derivatives
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.linear import dot, factorise_unsymmetric, solve_unsymmetric
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.model.model import Model
from qddot.simulate.motion import (
    ImplicitPlant,
    SolvedState,
    advance,
    chart_rate,
    share_of_speed,
    turning_parts,
    unalign,
)
from qddot.spatial.algebra import Vec3
from qddot.spatial.dual import Dual, partials_of
from qddot.spatial.scalar import Scalar, atan2, less, sqrt, where

__all__ = ["ITERATIONS", "OneStage", "step_matrix"]

ITERATIONS = 5
_NEAR_ZERO = 1e-6


@dataclass(frozen=True)
class OneStage:
    """A step by the rate that is found a share of it after its start.

    A share of ½ is the implicit midpoint rule, 1 is backward Euler. Bodies turn by the Cayley map
    of the velocity at the stage, with which the midpoint rule keeps the angular momentum of a body
    that turns freely about its origin. Effects of the plant are taken at an explicit guess of the
    stage, and so are no part of the iteration.
    """

    share: float

    def step(self, plant: ImplicitPlant, q: Vector, w: Vector, dt: Scalar) -> SolvedState:
        """Configuration and chart velocities after a time dt, and the residual of the iteration."""
        model, reach = plant.model, dt * self.share
        # explicit guess of the stage, with the loads there
        x = plant.rate(q, w, 0.0)
        q_stage, v, _ = self._stage(model, q, w, x, dt)
        tau, forces = plant.loads(q_stage, v, self.share)
        factor = factorise_unsymmetric(
            step_matrix(model, q_stage, _add_scaled(w, x, reach), x, reach)
        )
        # Newton's method for the rate x of the chart velocities
        for _ in range(ITERATIONS):
            q_stage, v, a = self._stage(model, q, w, x, dt)
            needed = newton_euler(model, q_stage, v, a, forces)
            residual = [t - n for t, n in zip(tau, needed, strict=True)]
            change = solve_unsymmetric(factor, residual)
            x = _add_scaled(x, change, 1.0)
        w_end, q_end = (
            _add_scaled(w, x, dt),
            advance(model, q, _cayley_displacement(model, _add_scaled(w, x, reach), dt)),
        )
        return q_end, w_end, share_of_speed([c * dt for c in change], w_end)

    def _stage(
        self, model: Model, q: Vector, w: Vector, x: Vector, dt: Scalar
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Configuration, velocity and acceleration at the stage where the rate of w is x."""
        w_stage = _add_scaled(w, x, dt * self.share)
        u = [d * self.share for d in _cayley_displacement(model, w_stage, dt)]
        q_stage = advance(model, q, u)
        return q_stage, *_motion(model, q_stage, w_stage, x)


def step_matrix(model: Model, q: Vector, w: Vector, x: Vector, reach: Scalar) -> Matrix:
    """Change of the torques of inverse dynamics by the rate x of the chart velocities.

    A change of x changes w by `reach` times as much, and the configuration by reach² as much.
    """
    n = model.nv
    # derivatives of v and a by x, from dual numbers
    rates: list[Scalar] = [Dual(y, {k: 1.0}) for k, y in enumerate(x)]
    speeds: list[Scalar] = [Dual(y, {k: reach}) for k, y in enumerate(w)]
    v, a = _motion(model, q, w, x)
    v_by_x, a_by_x = (
        [partials_of(y, n) for y in part] for part in _motion(model, q, speeds, rates)
    )
    # chain rule with the derivatives of inverse dynamics by q, v and a
    matrices = inverse_dynamics_derivatives(model, q, v, a)
    J: Matrix = zeros(n, n)
    for body in model.independent:
        dofs = body.dofs
        for k in dofs:
            by_x = [[rows[i][k] for i in dofs] for rows in (v_by_x, v_by_x, a_by_x)]
            by_x[0] = [y * reach for y in by_x[0]]
            for i in range(n):
                parts = zip(matrices, by_x, strict=True)
                J[i][k] = sum((dot([A[i][j] for j in dofs], y) for A, y in parts), 0.0)
    return J


def _motion(model: Model, q: Vector, w: Vector, x: Vector) -> tuple[list[Scalar], list[Scalar]]:
    """Velocity and acceleration of the model from chart velocities w and their rate x."""
    v = unalign(model, q, w)
    turning = chart_rate(model, q, v, zeros(model.nv))
    return v, unalign(model, q, [a - b for a, b in zip(x, turning, strict=True)])


def _add_scaled(x: Vector, y: Vector, scale: Scalar) -> list[Scalar]:
    return [a + b * scale for a, b in zip(x, y, strict=True)]


def _cayley_displacement(model: Model, w: Vector, dt: Scalar) -> list[Scalar]:
    """Displacement by a velocity, with the rotation vectors of Cayley's map of w dt."""
    u = [x * dt for x in w]
    for part in turning_parts(model):
        turn = Vec3(*u[part])
        # arctan x / x of x = |turn| / 2, by its series near 0
        x2 = turn.dot(turn) * 0.25
        near = less(x2, _NEAR_ZERO)
        x = sqrt(where(near, 1.0 + 0.0 * x2, x2))
        series = 1.0 - x2 * (1.0 / 3.0) + x2 * x2 * 0.2 - x2 * x2 * x2 * (1.0 / 7.0)
        u[part] = list(turn * where(near, series, atan2(x, 1.0 + 0.0 * x) / x))
    return u
