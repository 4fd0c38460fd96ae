"""Losses and springs of the joints; part of the dynamics only when asked for."""

from __future__ import annotations

from qddot.algorithms.recursion import Vector, zeros
from qddot.model import Model
from qddot.scalar import Scalar, sign

__all__ = ["friction"]


def friction(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Joint losses τ_f to overcome: damping · v + Coulomb friction · sign v + spring."""
    tau = zeros(model.nv)
    for body in model.bodies:
        joint, drive = body.joint, body.joint.drivetrain
        stretch = joint.kind.difference(joint.rest, joint.displacement(q[body.iq]))
        # a follower moves by ratio · v and passes its torque back through the same ratio
        for dof, x in zip(body.dofs, stretch, strict=True):
            rate = v[dof] * joint.ratio
            torque = rate * drive.damping + sign(rate) * drive.friction + x * drive.stiffness
            tau[dof] = tau[dof] + torque * joint.ratio
    return tau
