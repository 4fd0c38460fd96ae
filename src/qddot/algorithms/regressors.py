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
    climb,
    joint_kinematics,
    velocities,
    zeros,
)
from qddot.model import Model
from qddot.scalar import Scalar
from qddot.spatial import Force, Inertia, Subspace, Transform

__all__ = [
    "kinetic_energy_regressor",
    "momentum_regressor",
    "potential_energy_regressor",
    "torque_regressor",
]

_Moving = TypeVar("_Moving")
_UNITS = [Inertia.of([1.0 if k == i else 0.0 for k in range(10)]) for i in range(10)]


def _projected(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    motions: Iterable[_Moving],
    force: Callable[[Inertia, _Moving], Force],
) -> Matrix:
    """nv × 10 nb matrix of what each joint feels of the force of each unit parameter."""
    Y: Matrix = zeros(model.nv, 10 * model.nb)
    for i, motion in enumerate(motions):
        for k, unit in enumerate(_UNITS, start=10 * i):
            for j, F in climb(model, X, i, [force(unit, motion)]):
                for dof, s in zip(model.bodies[j].dofs, S[j], strict=True):
                    Y[dof][k] = Y[dof][k] + s.dot(F[0])
    return Y


def torque_regressor(model: Model, q: Vector, v: Vector, a: Vector) -> Matrix:
    """Regressor Y (nv × 10 nb) with Y π + armature · a = inverse dynamics.

    The forward pass of RNEA with unit parameters in place of the inertia (Atkeson et al. 1986).
    """
    X, S = joint_kinematics(model, q)
    fields = acceleration_fields(model, X, S, v, a, -model.gravity)
    return _projected(model, X, S, fields, Inertia.newton_euler)


def momentum_regressor(model: Model, q: Vector, v: Vector) -> Matrix:
    """Regressor (nv × 10 nb) of the generalised momentum: Y π + armature · v = M v."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)[: model.nb]
    return _projected(model, X, S, V, Inertia.apply)


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
