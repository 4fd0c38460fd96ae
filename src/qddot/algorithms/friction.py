"""Losses and springs of the joints; part of the dynamics only when asked for."""

from __future__ import annotations

from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar, less, sign, where

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
            # Coulomb friction of the direction of motion, zero at rest
            ahead, back = drive.friction_levels
            forward = sign(rate) * ahead
            coulomb = forward if back is ahead else where(less(rate, 0.0), -back, forward)
            torque = rate * drive.damping + coulomb + x * drive.stiffness
            tau[dof] = tau[dof] + torque * joint.ratio
    return tau
