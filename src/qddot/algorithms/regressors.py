"""Regressors: the dynamics are linear in the ten inertial parameters of each body.

The parameters of a body are (m, m c, I) about the body origin, as `Model.parameters` lists them;
reflected inertia is not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    acceleration_fields,
    ancestors_with_forces,
    joint_kinematics,
    per_body,
    subspace_rates,
    velocities,
    zeros,
)
from qddot.model.model import WORLD, Body, Model
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
_UNITS = [Inertia.of([1.0 if k == i else 0.0 for k in range(10)]) for i in range(10)]


def _project_unit_forces(
    model: Model,
    q: Vector,
    motions: Iterable[_Moving],
    force: Callable[[Inertia, _Moving], Force],
) -> Matrix:
    """nv × 10 nb matrix of the generalised forces of the force of each unit parameter."""
    Y: Matrix = zeros(model.nv, 10 * model.nb)
    X, S = joint_kinematics(model, q)
    # force of each unit parameter of each body
    for i, motion in enumerate(motions):
        path = list(_force_path(model, X, S, i))
        for column, unit in enumerate(_UNITS, start=10 * i):
            F = force(unit, motion)
            # leaves to root: project on each joint, then on to the ancestor
            for felt, onward in path:
                for dof, s in felt:
                    Y[dof][column] = Y[dof][column] + s.dot(F)
                F = onward.to_parent(F)
    return Y


def _force_path(
    model: Model, X: Sequence[Transform], S: Sequence[Subspace], i: int
) -> Iterator[tuple[list[tuple[int, Motion]], Transform]]:
    """The path of a force from body i to the world, in steps.

    A step has the joint motions on which the force is projected, with their velocity index, and the
    pose in the ancestor that comes next. Joints with parallel axes are one step: their motions are
    taken to the frame of the force.
    """
    felt: list[tuple[int, Motion]] = []
    at = Transform.identity()
    # body to root
    while i != WORLD:
        body = model.bodies[i]
        felt += [(dof, at.to_child(s)) for dof, s in zip(body.dofs, S[i], strict=True)]
        at = X[i] @ at
        # a step ends where the next axis is not parallel
        if body.parent == WORLD or not _keeps_axis_parallel(body, model.bodies[body.parent]):
            yield felt, at
            felt, at = [], Transform.identity()
        i = body.parent


def _keeps_axis_parallel(body: Body, parent: Body) -> bool:
    """Whether two joints of one freedom leave each other's axis as it is."""
    if body.joint.kind.nv != 1 or parent.joint.kind.nv != 1:
        return False
    axis = body.placement.R.apply(body.joint.axes[0])
    return body.joint.kind.slides or not any(axis.cross(parent.joint.axes[0]))


def torque_regressor(model: Model, q: Vector, v: Vector, a: Vector) -> Matrix:
    """Regressor Y (nv × 10 nb) with Y π + armature · a = inverse dynamics.

    The forward pass of RNEA with unit parameters in place of the inertia (Atkeson et al. 1986).
    """
    X, S = joint_kinematics(model, q)
    fields = acceleration_fields(model, X, S, v, a, -model.gravity)
    return _project_unit_forces(model, q, fields, Inertia.newton_euler)


def momentum_regressor(model: Model, q: Vector, v: Vector) -> Matrix:
    """Regressor (nv × 10 nb) of the generalised momentum: Y π + armature · v = M v."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)[: model.nb]
    return _project_unit_forces(model, q, V, Inertia.apply)


def momentum_rate_regressor(model: Model, q: Vector, v: Vector) -> Matrix:
    """Regressor (nv × 10 nb) of the momentum rate without torques: Y π = Cᵀ v − g.

    With the momentum regressor it gives d/dt (Y_p π + armature · v) = Y π + τ, the dynamics
    without accelerations. A freedom feels Ṡᵀ of the momentum beyond it, and Sᵀ of the weight.
    """
    X, S = joint_kinematics(model, q)
    # root to leaves: velocities and rates of motion subspaces
    V = velocities(model, X, S, v)
    dS = subspace_rates(S, V)
    fall = per_body(model, Motion(model.gravity, Vec3.zero()))
    Y: Matrix = zeros(model.nv, 10 * model.nb)
    for i, body in enumerate(model.bodies):
        # root to leaves: gravity in body coordinates, momenta and weights of unit parameters
        fall[i] = X[i].to_child(fall[body.parent])
        momenta = [unit.apply(V[i]) for unit in _UNITS]
        weights = [unit.apply(fall[i]) for unit in _UNITS]
        # leaves to root: project momentum and weight of each unit parameter on each joint
        for j, P, W in ancestors_with_forces(model, X, i, momenta, weights):
            for dof, s, ds in zip(model.bodies[j].dofs, S[j], dS[j], strict=True):
                for column, (p, w) in enumerate(zip(P, W, strict=True), start=10 * i):
                    Y[dof][column] = Y[dof][column] + ds.dot(p) + s.dot(w)
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
