"""A variational step: the discrete Lagrangian of the midpoint, on the charts of the joints.

A step from q0 to q1 = q0 ⊕ u has the action Δt L(q0 ⊕ u/2, u/Δt), which is that of a motion with
a constant velocity of the charts; where a body turns in space, ⊕ is the exponential map of its
rotation group. Stationary sums of it are the discrete Euler–Lagrange equations (Marsden & West
2001; on groups Bou-Rabee & Marsden 2009). The action is symmetric in time, so the order is 2, and
it sees no turn or shift of the world, so a robot in free flight keeps its momentum exactly.
"""

from __future__ import annotations

from qddot.algorithms.hamiltonian import coriolis_transpose_product, momentum
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.linear import factorise, factorise_unsymmetric, solve, solve_unsymmetric
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Model
from qddot.simulate.implicit import ITERATIONS, step_matrix
from qddot.simulate.motion import (
    ImplicitPlant,
    SolvedState,
    advance,
    align,
    share_of_speed,
    turning_parts,
    unalign,
)
from qddot.spatial.algebra import Force, Vec3
from qddot.spatial.manifold import cot_remainder
from qddot.spatial.scalar import Scalar, cos, less, sin, sqrt, where

__all__ = ["variational_step"]

_NEAR_ZERO = 1e-6


def variational_step(plant: ImplicitPlant, q: Vector, w: Vector, dt: Scalar) -> SolvedState:
    """Configuration and chart velocities after a time dt, and the residual of the iteration.

    Effects of the plant act at an explicit guess of the midpoint.
    """
    model, reach = plant.model, dt * 0.5
    # explicit guess of the displacement u, with the loads at the midpoint
    v, x = unalign(model, q, w), plant.rate(q, w, 0.0)
    start = align(model, q, momentum(model, q, v))
    u = [dt * (a + reach * b) for a, b in zip(w, x, strict=True)]
    q_mid = _halfway(model, q, u)
    tau, forces = plant.loads(q_mid, unalign(model, q_mid, [d / dt for d in u]), 0.5)
    factor = factorise_unsymmetric(step_matrix(model, q, w, x, reach))
    # Newton's method for u: the momentum at the start is that of the state
    for _ in range(ITERATIONS):
        left, _ = _ends(model, q, u, dt, tau, forces)
        residual = unalign(model, q, [a - b for a, b in zip(start, left, strict=True)])
        change = solve_unsymmetric(factor, residual)
        u = [a + b * dt for a, b in zip(u, change, strict=True)]
    # velocity from the momentum at the end
    _, right = _ends(model, q, u, dt, tau, forces)
    q1 = advance(model, q, u)
    v1 = solve(factorise(mass_matrix(model, q1)), unalign(model, q1, right))
    return q1, align(model, q1, v1), share_of_speed(change, [d / dt for d in u])


def _halfway(model: Model, q: Vector, u: Vector) -> list[Scalar]:
    return advance(model, q, [d * 0.5 for d in u])


def _ends(
    model: Model, q: Vector, u: Vector, dt: Scalar, tau: Vector, forces: list[Force]
) -> tuple[list[Scalar], list[Scalar]]:
    """Momenta of the charts at both ends of a step: the discrete Legendre transforms.

    With P = ∂L/∂w and F = ∂L/∂q + loads at the midpoint they are P ∓ ½ Δt F. Where a body turns by
    u, P becomes P ± ½ u × P + c u × (u × P) and F becomes F ± k u × F, k = tan(θ/4)/θ at an angle
    θ: the transposed derivatives of u and of the midpoint by the two ends.
    """
    # momentum P of the charts at the midpoint, and F = ∂L/∂q with the loads added
    q_mid, w = _halfway(model, q, u), [d / dt for d in u]
    v = unalign(model, q_mid, w)
    momenta = momentum(model, q_mid, v)
    weight = newton_euler(model, q_mid, zeros(model.nv), zeros(model.nv), forces)
    inner = coriolis_transpose_product(model, q_mid, v)
    rate = [c - g + t for c, g, t in zip(inner, weight, tau, strict=True)]
    P, F = align(model, q_mid, momenta), list(rate)
    # charts only turn, so momenta change with them as velocities do
    for body in model.independent:
        kind = body.joint.kind
        parts = zip(kind.angular, v[body.iv], momenta[body.iv], strict=True)
        turned = [a if angular else b for angular, a, b in parts]
        F[body.iv] = kind.chart.rate(q_mid[body.iq], turned, rate[body.iv])
    # the derivative is the rate of P without the gyroscopic torque P × ω
    for part in turning_parts(model):
        F[part] = list(Vec3(*F[part]) + Vec3(*w[part]).cross(Vec3(*P[part])))
    # P ∓ ½ Δt F, and the turn of the charts
    left, right = ([p + f * h for p, f in zip(P, F, strict=True)] for h in (-0.5 * dt, 0.5 * dt))
    for part in turning_parts(model):
        turn, p, f = Vec3(*u[part]), Vec3(*P[part]), Vec3(*F[part]) * dt
        angle2 = turn.dot(turn)
        once = turn.cross(p)
        lever = turn.cross(f)
        # k = tan(θ/4) / θ, near zero by its series
        near = less(angle2, _NEAR_ZERO)
        angle = sqrt(where(near, 1.0 + 0.0 * angle2, angle2))
        series = 0.25 + angle2 * (1.0 / 192.0) + angle2 * angle2 * (1.0 / 7680.0)
        k = where(near, series, sin(angle * 0.25) / (cos(angle * 0.25) * angle))
        twist = lever * (0.5 * k)
        even = turn.cross(once) * cot_remainder(angle2) - twist
        left[part] = list(Vec3(*left[part]) + once * 0.5 + even)
        right[part] = list(Vec3(*right[part]) - once * 0.5 + even)
    return left, right
