"""Inverse dynamics by the recursive Newton–Euler algorithm (RNEA), and its special cases."""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.friction import friction as joint_friction
from qddot.algorithms.kinematics import Reference, external_forces
from qddot.algorithms.recursion import (
    Vector,
    acceleration_fields,
    inward,
    joint_kinematics,
    per_body,
    zeros,
)
from qddot.model import Model
from qddot.scalar import Scalar
from qddot.spatial import Force, Subspace, Transform

__all__ = ["bias", "carried", "gravity", "inverse_dynamics", "net_forces", "newton_euler"]


def inverse_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    forces: Sequence[tuple[str, Reference]] = (),
    friction: bool = False,
) -> list[Scalar]:
    """Joint torques τ = M a + C v + g − Jᵀ F of a motion (RNEA).

    `f_ext` holds one wrench on the robot for each (frame, reference) in `forces`; with `friction`
    the joint losses are added.
    """
    tau = newton_euler(model, q, v, a, external_forces(model, q, forces, f_ext))
    losses = joint_friction(model, q, v) if friction else zeros(model.nv)
    return [t + loss for t, loss in zip(tau, losses, strict=True)]


def newton_euler(
    model: Model, q: Vector, v: Vector, a: Vector, pushes: Sequence[Force]
) -> list[Scalar]:
    """Joint torques of a motion under forces on the bodies, each in body coordinates.

    Luh, Walker & Paul 1980, in body coordinates: the force that each body needs, from the root to
    the leaves, then what the joints carry, from the leaves to the root.
    """
    X, S = joint_kinematics(model, q)
    return carried(model, X, S, a, net_forces(model, X, S, v, a, pushes))


def net_forces(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    v: Vector,
    a: Vector,
    pushes: Sequence[Force],
) -> list[Force]:
    """What each body needs from the joints around it, in body coordinates; the world nothing."""
    F = per_body(model, Force.zero())
    for i, field in enumerate(acceleration_fields(model, X, S, v, a, -model.gravity)):
        F[i] = model.bodies[i].inertia.newton_euler(field) - pushes[i]
    return F


def carried(
    model: Model, X: Sequence[Transform], S: Sequence[Subspace], a: Vector, forces: Sequence[Force]
) -> list[Scalar]:
    """Torques of the joints that give the bodies their forces, and the rotors their turn."""
    F, tau = list(forces), zeros(model.nv)
    for i, body in inward(model):
        for dof, torque in zip(body.dofs, S[i].project(F[i]), strict=True):
            tau[dof] = tau[dof] + torque + body.armature * a[dof]
        F[body.parent] = F[body.parent] + X[i].to_parent(F[i])
    return tau


def bias(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Bias h = C v + g: the torques of a motion without acceleration."""
    return inverse_dynamics(model, q, v, zeros(model.nv))


def gravity(model: Model, q: Vector) -> list[Scalar]:
    """Gravity torques g: what holds the robot still."""
    return inverse_dynamics(model, q, zeros(model.nv), zeros(model.nv))
