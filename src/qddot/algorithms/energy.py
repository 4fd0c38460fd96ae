"""Kinetic and potential energy."""

from __future__ import annotations

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import Vector, joint_kinematics, velocities
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar

__all__ = ["kinetic_energy", "potential_energy"]


def kinetic_energy(model: Model, q: Vector, v: Vector) -> Scalar:
    """Kinetic energy ½ vᵀ M v, that of reflected inertias included."""
    # root to leaves: velocities
    V = velocities(model, *joint_kinematics(model, q), v)
    total = 0.0
    for i, body in enumerate(model.bodies):
        # reflected inertia of the rotor
        rotor = sum((v[dof] * v[dof] for dof in body.dofs), 0.0) * (0.5 * body.armature)
        total = total + body.inertia.kinetic_energy(V[i]) + rotor
    return total


def potential_energy(model: Model, q: Vector) -> Scalar:
    """Potential energy in gravity, zero with all mass at the world's origin; no springs."""
    poses = world_poses(model, joint_kinematics(model, q)[0])
    total = 0.0
    # − g · (m c) of each body, in the world
    for i, body in enumerate(model.bodies):
        moment = poses[i].R.apply(body.inertia.h) + poses[i].p * body.inertia.mass
        total = total - model.gravity.dot(moment)
    return total
