"""Regressors: the dynamics are linear in the ten inertial parameters of each body.

The parameters of a body are (m, m c, I) about the body origin, as `Model.parameters` lists them;
reflected inertia is not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    acceleration_fields,
    joint_kinematics,
    per_body,
    subspace_rates,
    velocities,
    zeros,
)
from qddot.model.model import WORLD, Model
from qddot.spatial.algebra import Force, Inertia, Motion, Subspace, Transform, Vec3
from qddot.spatial.scalar import Scalar

__all__ = [
    "kinetic_energy_regressor",
    "momentum_rate_regressor",
    "momentum_regressor",
    "potential_energy_regressor",
    "torque_regressor",
]

_Moving = TypeVar("_Moving")
_Joints = tuple[Transform, list[tuple[int, Motion]]]
"""Pose of a body in a frame, and motions of joints in that frame with their velocity index."""
_UNITS = [Inertia.of([1.0 if k == i else 0.0 for k in range(10)]) for i in range(10)]


def _joints_of_bodies(
    model: Model, X: Sequence[Transform], S: Sequence[Subspace]
) -> list[list[_Joints]]:
    """The joints that move each body: its pose in some frame, with their motions in that frame.

    Motions come to the body: one takes fewer operations than ten forces. Only a root with several
    freedoms, such as a free base, is left where its motions are unit vectors.
    """
    near: list[list[tuple[int, Motion]]] = per_body(model, [])
    base: list[list[_Joints]] = per_body(model, [])
    # root to leaves: the motions of the parent, then those of the own joint
    for i, body in enumerate(model.bodies):
        own = list(zip(body.dofs, S[i], strict=True))
        if body.parent == WORLD and body.joint.kind.nv > 1:
            base[i] = [(Transform.identity(), own)]
        else:
            base[i] = [(pose @ X[i], motions) for pose, motions in base[body.parent]]
            near[i] = [(dof, X[i].to_child(s)) for dof, s in near[body.parent]] + own
    return [[(Transform.identity(), near[i]), *base[i]] for i in range(model.nb)]


def _add_projections(
    Y: Matrix, column: int, joints: Sequence[_Joints], forces: Sequence[Force]
) -> None:
    """Add the projections of forces on the joints that move a body to columns from this one on."""
    for pose, motions in joints:
        moved = [pose.to_parent(F) for F in forces]
        for dof, s in motions:
            for k, F in enumerate(moved, start=column):
                Y[dof][k] = Y[dof][k] + s.dot(F)


def _project_unit_forces(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    motions: Iterable[_Moving],
    force: Callable[[Inertia, _Moving], Force],
) -> Matrix:
    """nv × 10 nb matrix Jᵀ F: generalised forces of the force of each unit parameter."""
    Y: Matrix = zeros(model.nv, 10 * model.nb)
    for i, (motion, joints) in enumerate(zip(motions, _joints_of_bodies(model, X, S), strict=True)):
        _add_projections(Y, 10 * i, joints, [force(unit, motion) for unit in _UNITS])
    return Y


def torque_regressor(model: Model, q: Vector, v: Vector, a: Vector) -> Matrix:
    """Regressor Y (nv × 10 nb) with Y π + armature · a = inverse dynamics.

    The forward pass of RNEA with unit parameters in place of the inertia (Atkeson et al. 1986).
    """
    X, S = joint_kinematics(model, q)
    fields = acceleration_fields(model, X, S, v, a, -model.gravity)
    return _project_unit_forces(model, X, S, fields, Inertia.newton_euler)


def momentum_regressor(model: Model, q: Vector, v: Vector) -> Matrix:
    """Regressor (nv × 10 nb) of the generalised momentum: Y π + armature · v = M v."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)[: model.nb]
    return _project_unit_forces(model, X, S, V, Inertia.apply)


def momentum_rate_regressor(model: Model, q: Vector, v: Vector) -> Matrix:
    """Regressor (nv × 10 nb) of the momentum rate without torques: Y π = Cᵀ v − g.

    With the momentum regressor it gives d/dt (Y_p π + armature · v) = Y π + τ, the dynamics
    without accelerations. A freedom feels Ṡᵀ of the momentum beyond it, and Sᵀ of the weight.
    """
    X, S = joint_kinematics(model, q)
    # root to leaves: velocities, joint motions and their rates
    V = velocities(model, X, S, v)
    J, dJ = (_joints_of_bodies(model, X, x) for x in (S, subspace_rates(S, V)))
    fall = per_body(model, Motion(model.gravity, Vec3.zero()))
    Y: Matrix = zeros(model.nv, 10 * model.nb)
    for i, body in enumerate(model.bodies):
        fall[i] = X[i].to_child(fall[body.parent])
        # rates of joint motions feel the momentum of each unit parameter, the motions its weight
        _add_projections(Y, 10 * i, dJ[i], [unit.apply(V[i]) for unit in _UNITS])
        _add_projections(Y, 10 * i, J[i], [unit.apply(fall[i]) for unit in _UNITS])
    return Y


def kinetic_energy_regressor(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Regressor (10 nb) of the kinetic energy of the bodies, reflected inertia left out."""
    V = velocities(model, *joint_kinematics(model, q), v)
    return [unit.kinetic_energy(V[i]) for i in range(model.nb) for unit in _UNITS]


def potential_energy_regressor(model: Model, q: Vector) -> list[Scalar]:
    """Regressor (10 nb) of the potential energy in gravity."""
    poses = world_poses(model, joint_kinematics(model, q)[0])
    return [
        -model.gravity.dot(poses[i].R.apply(unit.h) + poses[i].p * unit.mass)
        for i in range(model.nb)
        for unit in _UNITS
    ]
