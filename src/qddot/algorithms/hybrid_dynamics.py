"""Hybrid dynamics: some joints given by acceleration, the others by torque."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from qddot.algorithms.friction import friction as joint_friction
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.kinematics import Reference, external_forces
from qddot.algorithms.linear import Factor, factorise, solve, solve_upper
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    acceleration_fields,
    joint_kinematics,
    leaves_to_root,
    per_body,
    zeros,
)
from qddot.errors import InvalidModel
from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import ArticulatedInertia, Force, Motion, Subspace
from qddot.spatial.scalar import Scalar

__all__ = ["hybrid_dynamics", "solve_accelerations"]

Solution = tuple[list[Scalar], list[Scalar]]


def hybrid_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    tau: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    prescribed: Sequence[str] | None = None,
    forces: Sequence[tuple[str, Reference]] = (),
    friction: bool = False,
) -> Solution:
    """All accelerations and torques, from a of the `prescribed` joints and τ of the others.

    The other entries of a and τ are ignored. With nothing prescribed it is forward dynamics, with
    all joints inverse dynamics. Deep trees take the articulated-body algorithm; where joints have
    few free ones before them, or follow others, factorising M of the free joints costs fewer
    operations. `forces` and `friction` are those of forward and inverse dynamics.
    """
    # indices of the velocities of the joints that are prescribed
    bodies = [model.body_of_joint(name) for name in prescribed or ()]
    for joint in (body.joint for body in bodies):
        if joint.leader is not None:
            reason = f"follows {joint.leader!r}; prescribe that one"
            raise InvalidModel(f"joint {joint.name!r}", reason)
    held = {dof for body in bodies for dof in body.dofs}
    losses = joint_friction(model, q, v) if friction else zeros(model.nv)
    given = [a[k] if k in held else 0.0 for k in range(model.nv)]
    drive = [0.0 if k in held else tau[k] - losses[k] for k in range(model.nv)]
    a, needed = solve_accelerations(
        model, q, v, given, drive, external_forces(model, q, forces, f_ext), held
    )
    return a, [needed[k] + losses[k] if k in held else tau[k] for k in range(model.nv)]


def solve_accelerations(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    tau: Vector,
    wrenches: Sequence[Force],
    held: Collection[int] = (),
) -> Solution:
    """Accelerations, and torques of the held joints, under wrenches on the bodies.

    The forces of the motion whose free joints do not accelerate leave a rest of τ to accelerate
    them, in a robot without velocity or weight: that is linear.
    """
    if not (model.has_couplings or _is_shallow(model, held)):
        return _articulated_body(model, q, v, a, tau, wrenches, held)
    # forces of the motion whose free joints do not accelerate, and what they leave of τ
    h = newton_euler(model, q, v, a, wrenches)
    every = range(model.nv)
    free = [k for k in every if k not in held]
    rest = [tau[k] - h[k] for k in free]
    # M of the free joints gives their accelerations, M of all the torques that hold the others
    M = mass_matrix(model, q) if free else zeros(model.nv, model.nv)
    factor = factorise([[M[i][j] for j in free] for i in free])
    change = dict(zip(free, solve(factor, rest), strict=True))
    reaction = [sum((M[k][j] * x for j, x in change.items()), 0.0) for k in every]
    return [a[k] + change.get(k, 0.0) for k in every], [h[k] + reaction[k] for k in every]


def _is_shallow(model: Model, held: Collection[int]) -> bool:
    """Whether factorising M costs less than articulated bodies, by operations counted on chains.

    What counts is how many velocities stand before the joint of a body, up to the last free one.
    """
    steps = 0
    for i in range(model.nb):
        before = [dof for j in model.ancestors(i)[1:] for dof in model.bodies[j].dofs]
        steps += max((k for k, dof in enumerate(before, start=1) if dof not in held), default=0)
    return steps < 7 * model.nb


def _articulated_body(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    tau: Vector,
    wrenches: Sequence[Force],
    held: Collection[int],
) -> Solution:
    """Accelerations by articulated bodies, and the torques that hold the others.

    Featherstone 2008, table 7.1 and section 9.2, for any joints.
    """
    X, S = joint_kinematics(model, q)
    # root to leaves: forces for the accelerations that are given, velocity terms and weight
    force, A = per_body(model, Force.zero()), per_body(model, Motion.zero())
    for i, field in enumerate(acceleration_fields(model, X, S, v, a, -model.gravity)):
        force[i] = model.bodies[i].inertia.newton_euler(field) - wrenches[i]
    free = [_NO_FREEDOM if b.iv.start in held else (S[i], b.iv) for i, b in enumerate(model.bodies)]
    inertia = [body.inertia.to_articulated() for body in model.bodies]
    U: list[list[Force]] = [[]] * model.nb
    D: list[Factor] = [([], [])] * model.nb
    u: list[list[Scalar]] = [[]] * model.nb
    # leaves to root: articulated inertia and bias force
    for i, body in leaves_to_root(model):
        s, iv = free[i]
        U[i] = [inertia[i].apply(x) for x in s]
        D[i] = factorise(_joint_inertia(s.columns, U[i], body.armature))
        u[i] = [t - f for t, f in zip(tau[iv], s.project(force[i]), strict=True)]
        if body.parent != WORLD:
            rigid, push = _seen_through_joint(body, s, inertia[i], force[i], U[i], D[i], u[i])
            inertia[body.parent] = inertia[body.parent] + X[i].to_parent(rigid)
            force[body.parent] = force[body.parent] + X[i].to_parent(push)
    # root to leaves: accelerations, and torques of the joints that are held
    total, needed = list(a), zeros(model.nv)
    for i, body in enumerate(model.bodies):
        s, iv = free[i]
        A[i] = X[i].to_child(A[body.parent])
        change = solve(D[i], [t - A[i].dot(f) for t, f in zip(u[i], U[i], strict=True)])
        total[iv] = [x + y for x, y in zip(total[iv], change, strict=True)]
        A[i] = A[i] + s * change
        if body.iv.start in held:
            torques = S[i].project(inertia[i].apply(A[i]) + force[i])
            needed[body.iv] = [
                t + a[k] * body.armature for t, k in zip(torques, body.dofs, strict=True)
            ]
    return total, needed


def _seen_through_joint(
    body: Body,
    S: Subspace,
    inertia: ArticulatedInertia,
    force: Force,
    U: Sequence[Force],
    D: Factor,
    u: Sequence[Scalar],
) -> tuple[ArticulatedInertia, Force]:
    """Inertia and force of a body as felt before its joint, which gives way to its torques u."""
    L, d = D
    # subtract the response of the joint, one eliminated freedom at a time
    for y, e, w in zip(solve_upper(L, U), d, solve_upper(L, u), strict=True):
        inertia = inertia - ArticulatedInertia.rank_one(y, 1.0 / e)
        force = force + y * (w / e)
    if type(body.armature) is float and body.armature == 0.0:
        inertia = reduce(ArticulatedInertia.zero_along, S, inertia)
    return inertia, force


_NO_FREEDOM = Subspace(()), slice(0)


def _joint_inertia(S: Sequence[Motion], U: Sequence[Force], armature: Scalar) -> Matrix:
    """Sᵀ U, with the reflected inertia on the diagonal."""
    return [
        [s.dot(f) + armature if a == b else s.dot(f) for b, f in enumerate(U)]
        for a, s in enumerate(S)
    ]
