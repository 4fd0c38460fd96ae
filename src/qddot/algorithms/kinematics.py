"""Poses, velocities, accelerations and Jacobians of bodies and frames.

References: "local" is the frame itself; "world" is the world frame, so linear parts belong to the
body point at the world's origin; "local_world_aligned" has the frame's origin and the world's axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    accelerations,
    jacobian_from_columns,
    joint_kinematics,
    per_body,
    subspace_rates,
    velocities,
)
from qddot.errors import UnknownName
from qddot.model.model import Frame, Model
from qddot.spatial.algebra import Force, Motion, Transform, Vec3

__all__ = [
    "TASK_AXES",
    "ReferenceAxes",
    "body_accelerations",
    "body_poses",
    "body_velocities",
    "external_forces",
    "frame_acceleration",
    "frame_classical_acceleration",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_pose",
    "frame_poses",
    "frame_velocity",
    "pose_in_reference",
    "world_poses",
]

ReferenceAxes = Literal["local", "world", "local_world_aligned"]
"""Axes, and the point, in which a twist, wrench or Jacobian is expressed."""
TASK_AXES = ("x", "y", "z", "rx", "ry", "rz")
"""The rows of a twist by name: along the axes, and about them."""


def world_poses(model: Model, X: Sequence[Transform]) -> list[Transform]:
    """Pose of each body in the world from the poses in the parents; the last entry is the world."""
    poses = per_body(model, Transform.identity())
    # root to leaves
    for i, body in enumerate(model.bodies):
        poses[i] = poses[body.parent] @ X[i]
    return poses


def body_poses(model: Model, q: Vector) -> list[Transform]:
    """Pose of every body in the world, as 4×4 matrices."""
    X, _ = joint_kinematics(model, q)
    return world_poses(model, X)[: model.nb]


def body_velocities(model: Model, q: Vector, v: Vector) -> list[Motion]:
    """Velocity of every body in body coordinates."""
    return velocities(model, *joint_kinematics(model, q), v)[: model.nb]


def _body_motions(
    model: Model, q: Vector, v: Vector, a: Vector
) -> tuple[list[Motion], list[Motion]]:
    """Velocity and acceleration of each body in body coordinates, gravity not included."""
    return accelerations(model, *joint_kinematics(model, q), v, a, Vec3.zero())


def body_accelerations(model: Model, q: Vector, v: Vector, a: Vector) -> list[Motion]:
    """Spatial acceleration of every body in body coordinates, gravity not included."""
    return _body_motions(model, q, v, a)[1][: model.nb]


def _frame_in_world(model: Model, q: Vector, frame: Frame) -> Transform:
    pose = frame.placement
    # frame to root
    for i in model.ancestors(frame.body):
        pose = model.bodies[i].kinematics(q)[0] @ pose
    return pose


def frame_pose(model: Model, q: Vector, *, frame: str) -> Transform:
    """Pose of a frame in the world, as a 4×4 matrix."""
    return _frame_in_world(model, q, model.frame(frame))


def frame_poses(model: Model, q: Vector) -> list[Transform]:
    """Pose of every frame in the world, as 4×4 matrices."""
    X, _ = joint_kinematics(model, q)
    poses = world_poses(model, X)
    return [poses[frame.body] @ frame.placement for frame in model.frames]


def pose_in_reference(model: Model, q: Vector, frame: Frame, reference: ReferenceAxes) -> Transform:
    """Pose of a frame in the reference from which its motion is seen."""
    if reference == "local":
        return Transform.identity()
    pose = _frame_in_world(model, q, frame)
    if reference == "world":
        return pose
    if reference == "local_world_aligned":
        return Transform(pose.R, Vec3.zero())
    raise UnknownName("reference", str(reference), get_args(ReferenceAxes))


def frame_velocity(
    model: Model, q: Vector, v: Vector, *, frame: str, reference: ReferenceAxes
) -> Motion:
    """Velocity of a frame, seen from a reference."""
    at = model.frame(frame)
    V = velocities(model, *joint_kinematics(model, q), v)[at.body].to_child(at.placement)
    return pose_in_reference(model, q, at, reference).to_parent(V)


def frame_acceleration(
    model: Model, q: Vector, v: Vector, a: Vector, *, frame: str, reference: ReferenceAxes
) -> Motion:
    """Spatial acceleration of a frame, seen from a reference, gravity not included."""
    at = model.frame(frame)
    A = _body_motions(model, q, v, a)[1][at.body].to_child(at.placement)
    return pose_in_reference(model, q, at, reference).to_parent(A)


def frame_classical_acceleration(
    model: Model, q: Vector, v: Vector, a: Vector, *, frame: str, reference: ReferenceAxes
) -> Motion:
    """Classical acceleration of a frame: of the point that the reference names, gravity left out.

    That point of the body is the frame's origin ("local", "local_world_aligned") or the one at the
    world's origin ("world"); its acceleration is the spatial one plus ω × v.
    """
    at = model.frame(frame)
    # spatial velocity and acceleration in the reference
    seen = pose_in_reference(model, q, at, reference)
    V, A = (
        seen.to_parent(x[at.body].to_child(at.placement)) for x in _body_motions(model, q, v, a)
    )
    return Motion(A.lin + V.ang.cross(V.lin), A.ang)


def frame_jacobian(model: Model, q: Vector, *, frame: str, reference: ReferenceAxes) -> Matrix:
    """Jacobian J (6 × nv) with J v = velocity of the frame, seen from a reference."""
    at = model.frame(frame)
    seen, X = pose_in_reference(model, q, at, reference), at.placement
    columns: list[tuple[int, Motion]] = []
    # frame to root: columns of the joints that move the frame
    for body in (model.bodies[i] for i in model.ancestors(at.body)):
        X_parent, S = body.kinematics(q)
        columns += zip(body.dofs, (seen.to_parent(X.to_child(s)) for s in S), strict=True)
        X = X_parent @ X
    return jacobian_from_columns(model, columns)


def frame_jacobian_rate(
    model: Model, q: Vector, v: Vector, *, frame: str, reference: ReferenceAxes
) -> Matrix:
    """Rate J̇ of the frame Jacobian: the time derivative of that matrix along v."""
    at = model.frame(frame)
    X_parent, S = joint_kinematics(model, q)
    # root to leaves: velocities and rates of motion subspaces
    V = velocities(model, X_parent, S, v)
    dS = subspace_rates(S, V)
    seen, X, columns = pose_in_reference(model, q, at, reference), at.placement, []
    V_frame = V[at.body].to_child(X)
    # how the reference itself moves, in coordinates of the frame
    drift = {
        "local": V_frame,
        "world": Motion.zero(),
        "local_world_aligned": Motion(V_frame.lin, Vec3.zero()),
    }[reference]
    # frame to root: columns of the joints that move the frame
    for i in model.ancestors(at.body):
        for dof, s, ds in zip(model.bodies[i].dofs, S[i], dS[i], strict=True):
            columns.append((dof, seen.to_parent(X.to_child(ds) - drift.cross(X.to_child(s)))))
        X = X_parent[i] @ X
    return jacobian_from_columns(model, columns)


def external_forces(
    model: Model,
    q: Vector,
    forces: Sequence[tuple[str, ReferenceAxes]],
    f_ext: Sequence[Vector] | None,
) -> list[Force]:
    """Sum of the wrenches on each body in body coordinates, from wrenches at named frames."""
    total = per_body(model, Force.zero())
    # each wrench in the frame of its body
    for (name, reference), wrench in zip(forces, f_ext or (), strict=True):
        frame = model.frame(name)
        local = pose_in_reference(model, q, frame, reference).to_child(Force.of(wrench))
        total[frame.body] = total[frame.body] + frame.placement.to_parent(local)
    return total
