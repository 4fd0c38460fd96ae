"""Inverse dynamics by the recursive Newton–Euler algorithm (RNEA), and its special cases."""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.friction import friction as joint_friction
from qddot.algorithms.kinematics import ReferenceAxes, external_forces
from qddot.algorithms.recursion import (
    Vector,
    joint_kinematics,
    leaves_to_root,
    per_body,
    zeros,
)
from qddot.model.model import Model
from qddot.spatial.algebra import AccelerationField, Force
from qddot.spatial.scalar import Scalar

__all__ = ["bias", "gravity", "inverse_dynamics", "newton_euler"]


def inverse_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    forces: Sequence[tuple[str, ReferenceAxes]] = (),
    friction: bool = False,
) -> list[Scalar]:
    """Joint torques τ = M a + C v + g − Jᵀ F of a motion (RNEA).

    `f_ext` holds one wrench on the robot for each (frame, reference) in `forces`; with `friction`
    the joint losses are added.
    """
    tau = newton_euler(model, q, v, a, external_forces(model, q, forces, f_ext))
    # joint losses on top
    losses = joint_friction(model, q, v) if friction else zeros(model.nv)
    return [t + loss for t, loss in zip(tau, losses, strict=True)]


def newton_euler(
    model: Model, q: Vector, v: Vector, a: Vector, wrenches: Sequence[Force]
) -> list[Scalar]:
    """Joint torques of a motion under wrenches on the bodies, each in body coordinates.

    Featherstone 2008, table 5.1, with acceleration fields for spatial accelerations: they need
    no linear velocities and fewer operations (Luh, Walker & Paul 1980).
    """
    X, S = joint_kinematics(model, q)
    A = per_body(model, AccelerationField.of_translation(-model.gravity))
    F = per_body(model, Force.zero())
    # root to leaves: acceleration, and the net force that it takes of the joints
    for i, body in enumerate(model.bodies):
        A[i] = A[body.parent].to_child(X[i], S[i] * v[body.iv], S[i] * a[body.iv])
        F[i] = body.inertia.newton_euler(A[i]) - wrenches[i]
    # leaves to root: torque of the joint and its rotor, and the reaction on the parent
    tau = zeros(model.nv)
    for i, body in leaves_to_root(model):
        for dof, torque in zip(body.dofs, S[i].project(F[i]), strict=True):
            tau[dof] = tau[dof] + torque + body.armature * a[dof]
        F[body.parent] = F[body.parent] + X[i].to_parent(F[i])
    return tau


def bias(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Bias h = C v + g: the torques of a motion without acceleration."""
    return inverse_dynamics(model, q, v, zeros(model.nv))


def gravity(model: Model, q: Vector) -> list[Scalar]:
    """Gravity torques g, which hold the robot still."""
    return inverse_dynamics(model, q, zeros(model.nv), zeros(model.nv))
