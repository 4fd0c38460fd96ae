"""Derivatives of the dynamics with respect to the tangent space, by recursion over the tree.

A step along a freedom s of a joint moves everything beyond the joint rigidly. Seen from there,
velocities change by ψ̇ = V × s and accelerations by ψ̈ = A × s + V × ψ̇, with V and A those of the
body before the joint; the rest is linear in the composite inertia I, Coriolis operator B and force
F beyond it (Singh, Russell & Wensing 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from qddot.algorithms.inverse_dynamics import bias
from qddot.algorithms.kinematics import ReferenceAxes, pose_in_reference
from qddot.algorithms.linear import factorise, inverse, solve, solve_columns
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    accelerations,
    add_block,
    ancestors_with_forces,
    jacobian_from_columns,
    joint_kinematics,
    leaves_to_root,
    velocities,
    zeros,
)
from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import Motion, Subspace, Transform, Vec3
from qddot.spatial.dual import Dual, partials_of
from qddot.spatial.scalar import Scalar

__all__ = [
    "forward_dynamics_derivatives",
    "frame_velocity_derivatives",
    "gravity_derivatives",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_second_derivatives",
]

Steps = list[tuple[Motion, ...]]
Place = tuple[int, int]
"""A column of forward dynamics: by positions (0) or velocities (1), of a freedom."""


def _motion_derivatives(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    V: Sequence[Motion],
    A: Sequence[Motion],
) -> tuple[Steps, Steps]:
    """ψ̇ and ψ̈ of every freedom, in body coordinates."""
    first: Steps = []
    second: Steps = []
    # from the motion of the body before each joint
    for i, body in enumerate(model.bodies):
        V0, A0 = X[i].to_child(V[body.parent]), X[i].to_child(A[body.parent])
        first.append(tuple(V0.cross(s) for s in S[i]))
        second.append(tuple(A0.cross(s) + V0.cross(d) for s, d in zip(S[i], first[i], strict=True)))
    return first, second


def inverse_dynamics_derivatives(
    model: Model, q: Vector, v: Vector, a: Vector
) -> tuple[Matrix, Matrix, Matrix]:
    """∂τ/∂q, ∂τ/∂v and ∂τ/∂a = M of inverse dynamics (each nv × nv)."""
    by_q, by_v, M = (zeros(model.nv, model.nv) for _ in range(3))
    for _ in _fill_derivatives(model, q, v, a, by_q, by_v, M):
        pass
    return by_q, by_v, M


def _fill_derivatives(
    model: Model, q: Vector, v: Vector, a: Vector, by_q: Matrix, by_v: Matrix, M: Matrix
) -> Iterator[int]:
    """Fill the derivatives from leaves to root; yields each freedom when its column is complete."""
    first = {dof: i for i, body in leaves_to_root(model) for dof in body.dofs}
    X, S = joint_kinematics(model, q)
    V, A = accelerations(model, X, S, v, a, -model.gravity)
    d1, d2 = _motion_derivatives(model, X, S, V, A)
    I = [body.inertia for body in model.bodies]
    B = [body.inertia.coriolis(V[i]) for i, body in enumerate(model.bodies)]
    # particles accelerate by the spatial acceleration, and by turning with their velocity
    F = [I[i].apply(A[i]) + B[i].apply(V[i]) for i in range(model.nb)]
    turns = [[d + V[i].cross(s) for s, d in zip(S[i], d1[i], strict=True)] for i in range(model.nb)]
    # leaves to root: row and column of each joint, then the composites of its parent
    for i, body in leaves_to_root(model):
        own = list(zip(S[i], d1[i], d2[i], turns[i], strict=True))
        P = [I[i].apply(s) for s in S[i]]
        N = [B[i].apply_transpose(s) * 2.0 for s in S[i]]
        Q = [I[i].apply(b) + B[i].apply(a) * 2.0 + s.cross_force(F[i]) for s, a, b, _ in own]
        R = [I[i].apply(r) + B[i].apply(s) * 2.0 for s, _, _, r in own]
        # row i: torques of joint i by freedoms before it
        for j, p, n in ancestors_with_forces(model, X, i, P, N):
            at = list(zip(S[j], d1[j], d2[j], turns[j], strict=True))
            pairs = list(zip(p, n, strict=True))
            rows = [[b.dot(f) + a.dot(g) for _, a, b, _ in at] for f, g in pairs]
            add_block(model, by_q, i, j, rows)
            rows = [[r.dot(f) + s.dot(g) for s, _, _, r in at] for f, g in pairs]
            add_block(model, by_v, i, j, rows)
            rows = [[s.dot(f) for s in S[j]] for f in p]
            add_block(model, M, i, j, rows)
            if j != i:
                add_block(model, M, j, i, [list(column) for column in zip(*rows, strict=True)])
        # column i: torques of joints before it by freedoms of joint i
        for matrix, own_forces in ((by_q, Q), (by_v, R)):
            for j, forces in islice(ancestors_with_forces(model, X, i, own_forces), 1, None):
                add_block(model, matrix, j, i, [[s.dot(f) for f in forces] for s in S[j]])
        for dof in body.dofs:
            M[dof][dof] = M[dof][dof] + body.armature
        if body.parent != WORLD:
            I[body.parent] = I[body.parent] + X[i].to_parent(I[i])
            B[body.parent] = B[body.parent] + X[i].to_parent(B[i])
            F[body.parent] = F[body.parent] + X[i].to_parent(F[i])
        yield from (dof for dof in body.dofs if first[dof] == i)


def gravity_derivatives(model: Model, q: Vector) -> Matrix:
    """∂g/∂q of the gravity torques (nv × nv): the stiffness that gravity gives."""
    still = zeros(model.nv)
    return inverse_dynamics_derivatives(model, q, still, still)[0]


def forward_dynamics_derivatives(
    model: Model, q: Vector, v: Vector, tau: Vector
) -> tuple[Matrix, Matrix, Matrix]:
    """∂q̈/∂q, ∂q̈/∂v and ∂q̈/∂τ = M⁻¹ of forward dynamics (each nv × nv)."""
    # accelerations, by the factors of M
    factor = factorise(mass_matrix(model, q))
    mobility = inverse(factor)
    a = solve(factor, [t - h for t, h in zip(tau, bias(model, q, v), strict=True)])
    # derivatives of q̈ by the freedoms of free bodies, which are known without a solve
    found: dict[Place, list[Scalar]] = {}
    for body in model.bodies:
        if body.parent == WORLD and body.joint.kind.floats:
            X, S = body.kinematics(q)
            g, V = X.to_child(Motion(model.gravity, Vec3.zero())), S * v[body.iv]
            for dof, s, turns in zip(body.dofs, S, body.joint.kind.angular, strict=True):
                found[0, dof] = _column_of_body(model, body, g.cross(s))
                if not turns:
                    found[1, dof] = _column_of_body(model, body, -V.cross(s))
    # M⁻¹ times the columns of −∂τ/∂q and −∂τ/∂v that are left
    torques_by_q, torques_by_v, M = (zeros(model.nv, model.nv) for _ in range(3))
    columns = (
        ((k, dof), [-row[dof] for row in matrix])
        for dof in _fill_derivatives(model, q, v, a, torques_by_q, torques_by_v, M)
        for k, matrix in enumerate((torques_by_q, torques_by_v))
        if (k, dof) not in found
    )
    found.update(solve_columns(factor, columns))
    n = range(model.nv)
    by_q, by_v = ([[found[k, j][i] for j in n] for i in n] for k in range(2))
    return by_q, by_v, mobility


def _column_of_body(model: Model, body: Body, motion: Motion) -> list[Scalar]:
    """A column in which only one free body moves."""
    column: list[Scalar] = zeros(model.nv)
    column[body.iv] = motion
    return column


def frame_velocity_derivatives(
    model: Model, q: Vector, v: Vector, *, frame: str, reference: ReferenceAxes
) -> tuple[Matrix, Matrix]:
    """∂V/∂q and ∂V/∂v = J of the velocity of a frame, seen from a reference (each 6 × nv)."""
    at = model.frame(frame)
    X_parent, S = joint_kinematics(model, q)
    V = velocities(model, X_parent, S, v)
    seen, X, V_frame = (
        pose_in_reference(model, q, at, reference),
        at.placement,
        V[at.body].to_child(at.placement),
    )
    by_q: list[tuple[int, Motion]] = []
    by_v: list[tuple[int, Motion]] = []
    # frame to root: a step turns the velocities beyond it, and the reference where that moves
    for i in model.ancestors(at.body):
        body = model.bodies[i]
        before = X_parent[i].to_child(V[body.parent])
        for dof, s in zip(body.dofs, S[i], strict=True):
            local = X.to_child(s)
            turned = {
                "local": Motion.zero(),
                "world": local,
                "local_world_aligned": Motion(Vec3.zero(), local.ang),
            }[reference]
            step = X.to_child(before.cross(s)) + turned.cross(V_frame)
            by_q.append((dof, seen.to_parent(step)))
            by_v.append((dof, seen.to_parent(local)))
        X = X_parent[i] @ X
    return jacobian_from_columns(model, by_q), jacobian_from_columns(model, by_v)


def inverse_dynamics_second_derivatives(
    model: Model, q: Vector, v: Vector, a: Vector
) -> tuple[list[Matrix], list[Matrix], list[Matrix], list[Matrix]]:
    """∂²τ/∂q², ∂²τ/∂v∂q, ∂²τ/∂v² and ∂M/∂q of inverse dynamics (each nv × nv × nv).

    The first derivatives, run on dual numbers; the last axis is the second variable.
    """
    n = model.nv

    def partials(M: Matrix) -> list[Matrix]:
        return [[partials_of(x, n) for x in row] for row in M]

    # the configuration with its derivatives by the tangent space
    moved: list[Dual] = [Dual(x) for x in q]
    for body in model.independent:
        rows = body.joint.kind.tangent(q[body.iq])
        for k, row in zip(range(body.iq.start, body.iq.stop), rows, strict=True):
            moved[k] = Dual(q[k], dict(zip(body.dofs, row, strict=True)))
    # first derivatives along that step, then along one of the velocity
    by_q, by_v, M = inverse_dynamics_derivatives(model, moved, v, a)
    fast: list[Scalar] = [Dual(x, {k: 1.0}) for k, x in enumerate(v)]
    _, by_vv, _ = inverse_dynamics_derivatives(model, q, fast, a)
    return partials(by_q), partials(by_v), partials(by_vv), partials(M)
