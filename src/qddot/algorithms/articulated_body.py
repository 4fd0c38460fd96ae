"""The articulated-body algorithm (ABA), for any joints, some of which may be held."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from qddot.algorithms.linear import Factor, factorise, solve, solve_upper
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    acceleration_fields,
    joint_kinematics,
    leaves_to_root,
    per_body,
    zeros,
)
from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import ArticulatedInertia, Force, Motion, Subspace
from qddot.spatial.scalar import Scalar

__all__ = ["Solution", "articulated_body"]

Solution = tuple[list[Scalar], list[Scalar]]
"""Accelerations of all joints, and torques of those that are held."""
_NO_FREEDOM = Subspace(()), slice(0)


def articulated_body(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    tau: Vector,
    wrenches: Sequence[Force],
    held: Collection[int],
) -> Solution:
    """Accelerations by articulated bodies, and the torques of the joints that are held.

    Featherstone 2008, table 7.1 and section 9.2, with one difference: velocity terms, weight and
    the given accelerations a are in a Newton-Euler pass before, so that pA begins with all of them
    and dA, the acceleration of a body beyond that motion, needs none.
    """
    X, S = joint_kinematics(model, q)
    # root to leaves: rigid inertias, and forces for the accelerations that are given
    IA = [body.inertia.to_articulated() for body in model.bodies]
    pA = per_body(model, Force.zero())
    for i, field in enumerate(acceleration_fields(model, X, S, v, a, -model.gravity)):
        pA[i] = model.bodies[i].inertia.newton_euler(field) - wrenches[i]
    free = [_NO_FREEDOM if b.iv.start in held else (S[i], b.iv) for i, b in enumerate(model.bodies)]
    U: list[list[Force]] = [[]] * model.nb
    D: list[Factor] = [([], [])] * model.nb
    u: list[list[Scalar]] = [[]] * model.nb
    # leaves to root: articulated inertia and bias force
    for i, body in leaves_to_root(model):
        s, iv = free[i]
        # U = IA S, D = Sᵀ U + armature, u = τ − Sᵀ pA
        U[i] = [IA[i].apply(x) for x in s]
        D[i] = factorise(_joint_inertia(s.columns, U[i], body.armature))
        u[i] = [t - f for t, f in zip(tau[iv], s.project(pA[i]), strict=True)]
        if body.parent != WORLD:
            Ia, pa = _through_joint(body, s, IA[i], pA[i], U[i], D[i], u[i])
            IA[body.parent] = IA[body.parent] + X[i].to_parent(Ia)
            pA[body.parent] = pA[body.parent] + X[i].to_parent(pa)
    # root to leaves: accelerations, and torques of the joints that are held
    dA, total, needed = per_body(model, Motion.zero()), list(a), zeros(model.nv)
    for i, body in enumerate(model.bodies):
        s, iv = free[i]
        dA[i] = X[i].to_child(dA[body.parent])
        change = solve(D[i], [t - dA[i].dot(f) for t, f in zip(u[i], U[i], strict=True)])
        total[iv] = [x + y for x, y in zip(total[iv], change, strict=True)]
        dA[i] = dA[i] + s * change
        if body.iv.start in held:
            torques = S[i].project(IA[i].apply(dA[i]) + pA[i])
            needed[body.iv] = [
                t + a[k] * body.armature for t, k in zip(torques, body.dofs, strict=True)
            ]
    return total, needed


def _joint_inertia(S: Sequence[Motion], U: Sequence[Force], armature: Scalar) -> Matrix:
    """Sᵀ U, with the reflected inertia on the diagonal."""
    return [
        [s.dot(f) + armature if a == b else s.dot(f) for b, f in enumerate(U)]
        for a, s in enumerate(S)
    ]


def _through_joint(
    body: Body,
    S: Subspace,
    IA: ArticulatedInertia,
    pA: Force,
    U: Sequence[Force],
    D: Factor,
    u: Sequence[Scalar],
) -> tuple[ArticulatedInertia, Force]:
    """Ia = IA − U D⁻¹ Uᵀ and pa = pA + U D⁻¹ u: a body as its parent feels it through the joint."""
    L, d = D
    # subtract the response of the joint, one eliminated freedom at a time
    for y, e, w in zip(solve_upper(L, U), d, solve_upper(L, u), strict=True):
        IA = IA - ArticulatedInertia.rank_one(y, 1.0 / e)
        pA = pA + y * (w / e)
    # without armature a body has no inertia along its own joint
    if type(body.armature) is float and body.armature == 0.0:
        IA = reduce(ArticulatedInertia.zero_along, S, IA)
    return IA, pA
