"""Forward dynamics by the articulated-body algorithm (ABA), and the inverse of the mass matrix."""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.friction import friction as joint_friction
from qddot.algorithms.inverse_dynamics import inverse_dynamics
from qddot.algorithms.kinematics import Reference, external_forces
from qddot.algorithms.linear import Factor, factorise, inverse, solve, solve_upper
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    inward,
    joint_kinematics,
    per_body,
    velocities,
    zeros,
)
from qddot.model import WORLD, Model
from qddot.scalar import Scalar
from qddot.spatial import ArticulatedInertia, Force, Motion, Vec3

__all__ = ["forward_dynamics", "inverse_mass_matrix"]

Forces = Sequence[tuple[str, Reference]]


def forward_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    tau: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    forces: Forces = (),
    friction: bool = False,
) -> list[Scalar]:
    """Joint accelerations q̈ = M⁻¹ (τ + Jᵀ F − C v − g) (ABA, or M factorised where that is less).

    `f_ext` holds one wrench on the robot for each (frame, reference) in `forces`; with `friction`
    the joint losses are subtracted. Deep trees take the articulated-body algorithm; where joints
    have few others before them, or follow others, factorising M costs fewer operations.
    """
    if friction:
        tau = [t - f for t, f in zip(tau, joint_friction(model, q, v), strict=True)]
    if model.coupled or _shallow(model):
        h = inverse_dynamics(model, q, v, zeros(model.nv), f_ext, forces=forces)
        return solve(factorise(mass_matrix(model, q)), [t - b for t, b in zip(tau, h, strict=True)])
    return _articulated_body(model, q, v, tau, external_forces(model, q, forces, f_ext))


def _shallow(model: Model) -> bool:
    """Whether factorising M costs less than articulated bodies, by operations counted on chains."""
    before = [len(model.ancestors(i)) for i in range(model.nb)]
    return sum(before) < 7.5 * model.nb


def _articulated_body(
    model: Model, q: Vector, v: Vector, tau: Vector, pushes: Sequence[Force]
) -> list[Scalar]:
    """Featherstone 2008, table 7.1, for joints of any number of freedoms."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    A = per_body(model, Motion(-model.gravity, Vec3.zero()))
    c = [V[i].cross(S[i] * v[body.iv]) for i, body in enumerate(model.bodies)]
    inertia = [body.inertia.articulated() for body in model.bodies]
    force = [
        V[i].cross_force(body.inertia.apply(V[i])) - pushes[i]
        for i, body in enumerate(model.bodies)
    ]
    U: list[list[Force]] = [[]] * model.nb
    D: list[Factor] = [([], [])] * model.nb
    u: list[list[Scalar]] = [[]] * model.nb
    # leaves to root: what a body weighs with all joints beyond it free
    for i, body in inward(model):
        U[i] = [inertia[i].apply(s) for s in S[i]]
        D[i] = factorise(_joint_inertia(S[i].columns, U[i], body.armature))
        u[i] = [t - f for t, f in zip(tau[body.iv], S[i].project(force[i]), strict=True)]
        if body.parent != WORLD:
            L, d = D[i]
            held, push = inertia[i], force[i]
            for y, e, w in zip(solve_upper(L, U[i]), d, solve_upper(L, u[i]), strict=True):
                held = held - ArticulatedInertia.square(y) * (1.0 / e)
                push = push + y * (w / e)
            push = push + held.apply(c[i])
            inertia[body.parent] = inertia[body.parent] + X[i].to_parent(held)
            force[body.parent] = force[body.parent] + X[i].to_parent(push)
    # root to leaves: the accelerations
    a: list[Scalar] = zeros(model.nv)
    for i, body in enumerate(model.bodies):
        A[i] = X[i].to_child(A[body.parent]) + c[i]
        a[body.iv] = solve(D[i], [t - A[i].dot(f) for t, f in zip(u[i], U[i], strict=True)])
        A[i] = A[i] + S[i] * a[body.iv]
    return a


def _joint_inertia(S: Sequence[Motion], U: Sequence[Force], armature: Scalar) -> Matrix:
    """Sᵀ U, with the reflected inertia on the diagonal."""
    return [
        [s.dot(f) + armature if a == b else s.dot(f) for b, f in enumerate(U)]
        for a, s in enumerate(S)
    ]


def inverse_mass_matrix(model: Model, q: Vector) -> Matrix:
    """Inverse M⁻¹ of the mass matrix (nv × nv), through its factorisation."""
    return inverse(factorise(mass_matrix(model, q)))
