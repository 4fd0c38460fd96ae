"""Hybrid dynamics: some joints given by acceleration, the others by torque."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from qddot.algorithms.articulated_body import Solution, articulated_body
from qddot.algorithms.friction import friction as joint_friction
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.kinematics import ReferenceAxes, external_forces
from qddot.algorithms.linear import factorise, solve
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Vector, zeros
from qddot.errors import InvalidModel
from qddot.model.model import Model
from qddot.spatial.algebra import Force

__all__ = ["hybrid_dynamics", "solve_accelerations"]


def hybrid_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    tau: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    prescribed: Sequence[str] | None = None,
    forces: Sequence[tuple[str, ReferenceAxes]] = (),
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
    # articulated bodies, unless factorising M costs less, by operations counted on chains: what
    # counts is how many velocities stand before the joint of a body, up to the last free one
    steps = 0
    for i in range(model.nb):
        before = [dof for j in model.ancestors(i)[1:] for dof in model.bodies[j].dofs]
        steps += max((k for k, dof in enumerate(before, start=1) if dof not in held), default=0)
    if steps >= 7 * model.nb and not model.has_couplings:
        return articulated_body(model, q, v, a, tau, wrenches, held)
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
