"""One step of inverse kinematics for a frame: damped least squares within the joint limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from qddot.algorithms.configuration import integrate
from qddot.algorithms.kinematics import frame_jacobian, frame_pose
from qddot.algorithms.linear import dot, factorise, solve
from qddot.algorithms.recursion import Vector
from qddot.errors import UnknownName
from qddot.model.model import Model
from qddot.spatial.algebra import Mat3, Transform, Vec3
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = ["Task", "body_pose_error", "inverse_kinematics_step", "rotation_chord", "task_rows"]

Task = Literal["pose", "position", "orientation"]
_LEAST_DAMPING = 1e-9
"""Keeps J Jᵀ + λ regular at a solution where J has lost rank."""
_HALF_TURN = 1e-12
"""Square of the cosine of half an angle that is π to rounding."""


def task_rows(task: Task) -> slice:
    """Rows of a twist that a task prescribes."""
    rows = {"pose": slice(0, 6), "position": slice(0, 3), "orientation": slice(3, 6)}
    if not isinstance(task, str) or task not in rows:
        raise UnknownName("task", str(task), get_args(Task))
    return rows[task]


def rotation_chord(R: Mat3) -> Vec3:
    """Axis of a rotation matrix times 2 sin(angle / 2): its rotation vector where that is short.

    It grows up to half a turn, as the angle does, and needs no inverse trigonometric function.
    """
    # sin(angle) · axis is in the skew part, cos(angle) in the trace
    sine_axis = R.axial_vector() * 0.5
    cosine = (R.trace() + 1.0) * 0.25
    # about half a turn R + 1 is 2 axis axisᵀ, whose longest column is a good axis
    columns = [row + unit for row, unit in zip(R.T, Mat3.identity(), strict=True)]
    longest = columns[0]
    for column in columns[1:]:
        longer = less(longest.dot(longest), column.dot(column))
        longest = Vec3(*(where(longer, a, b) for a, b in zip(column, longest, strict=True)))
    turned = less(cosine, _HALF_TURN)
    straight = 1.0 / sqrt(where(turned, 1.0, cosine))
    opposite = 2.0 / sqrt(where(turned, longest.dot(longest), 1.0))
    pairs = zip(longest, sine_axis, strict=True)
    return Vec3(*(where(turned, a * opposite, b * straight) for a, b in pairs))


def body_pose_error(pose: Transform, target: Transform) -> list[Scalar]:
    """Displacement and rotation chord from a pose to a target, in axes of the pose (6)."""
    away = pose.R.apply_transpose(target.p - pose.p)
    return [*away, *rotation_chord(pose.R.T @ target.R)]


def inverse_kinematics_step(
    model: Model,
    q: Vector,
    target: Transform,
    lower: Vector,
    upper: Vector,
    *,
    frame: str,
    task: Task,
    joints: Sequence[str] | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """The error of a frame at q, and the configuration one Levenberg–Marquardt step further.

    The step is Jᵀ (J Jᵀ + λ)⁻¹ e with λ = e² + a little (Sugihara 2011, equation 23 with unit
    weights): never longer than half a radian or metre, and quadratic near a solution. A joint at
    a limit that the error pushes against takes no part in it (two-metric projection, Bertsekas
    1982); what still passes a limit stops there. `lower` and `upper` are bounds of q (nq); only
    `joints` move, all where none are named.
    """
    rows = task_rows(task)
    error = body_pose_error(frame_pose(model, q, frame=frame), target)
    e = error[rows]
    J = frame_jacobian(model, q, frame=frame, reference="local")[rows]
    # joints that do not move, and those that are held at a limit
    for body in model.independent:
        if joints is not None and body.joint.name not in joints:
            for row in J:
                row[body.iv] = [0.0] * body.joint.kind.nv
        elif body.joint.kind.quaternion is None and body.joint.kind.nv == 1:
            i, k = body.iq.start, body.iv.start
            push = dot([row[k] for row in J], e)
            room = where(less(push, 0.0), q[i] - lower[i], upper[i] - q[i])
            for row in J:
                row[k] = where(less(0.0, room), row[k], 0.0)
    # damped least squares, in the space of the task
    damping = dot(e, e) + _LEAST_DAMPING
    A = [
        [dot(a, b) + (damping if i == j else 0.0) for j, b in enumerate(J)] for i, a in enumerate(J)
    ]
    y = solve(factorise(A), e)
    moved = integrate(model, q, [dot(column, y) for column in zip(*J, strict=True)])
    # back into the limits
    bounded = [
        where(less(x, a), a, where(less(b, x), b, x))
        for x, a, b in zip(moved, lower, upper, strict=True)
    ]
    return error, bounded
