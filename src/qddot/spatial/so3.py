"""Rotations: exponential, logarithm, quaternions, angles and Jacobians of SO(3).

Functions of arrays whose last axes are vectors (3), matrices (3, 3) or quaternions (x, y, z, w);
all leading axes are batch. They choose by `where`, never by `if`, so they also run on symbols
inside a function that is compiled, and are accurate to rounding at every angle, 0 and π included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qddot.errors import ShapeMismatch
from qddot.spatial.manifold import cot_remainder, sin_remainder, sinc

__all__ = [
    "exp",
    "from_quaternion",
    "from_rpy",
    "hat",
    "left_jacobian",
    "left_jacobian_inverse",
    "log",
    "right_jacobian",
    "right_jacobian_inverse",
    "to_quaternion",
    "to_rpy",
    "vee",
]


def hat(w: Any) -> Any:
    """Skew-symmetric matrix of a vector, whose product with x is w × x."""
    x, y, z = _entries("hat", "w", w, (3,))
    zero = 0.0 * x
    return _matrix([[zero, -z, y], [z, zero, -x], [-y, x, zero]])


def vee(W: Any) -> Any:
    """Vector of the skew-symmetric part of a matrix; inverse of `hat`."""
    R = _rows("vee", W)
    return np.stack([0.5 * x for x in _twice_axis(R)], axis=-1)


def exp(w: Any) -> Any:
    """Rotation matrix of a rotation vector: a turn by |w| about w (Rodrigues)."""
    x, y, z = _entries("exp", "w", w, (3,))
    square = x * x + y * y + z * z
    half = sinc(0.25 * square)
    a, b = sinc(square), 0.5 * half * half
    # 1 + a W + b W², W² = w wᵀ − |w|²
    return _matrix(
        [
            [1.0 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y],
            [b * x * y + a * z, 1.0 - b * (x * x + z * z), b * y * z - a * x],
            [b * x * z - a * y, b * y * z + a * x, 1.0 - b * (x * x + y * y)],
        ]
    )


def log(R: Any) -> Any:
    """Rotation vector of a rotation matrix, of an angle from 0 to π."""
    quaternion = to_quaternion(R)
    x, y, z, w = (quaternion[..., k] for k in range(4))
    length = np.sqrt(x * x + y * y + z * z)
    zero = length == 0.0
    scale = np.where(zero, 2.0, 2.0 * np.arctan2(length, w) / np.where(zero, 1.0, length))
    return np.stack([x * scale, y * scale, z * scale], axis=-1)


def from_quaternion(quaternion: Any) -> Any:
    """Rotation matrix of a quaternion (x, y, z, w) of any length."""
    x, y, z, w = _entries("from_quaternion", "quaternion", quaternion, (4,))
    s = 2.0 / (x * x + y * y + z * z + w * w)
    return _matrix(
        [
            [1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
            [s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)],
            [s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)],
        ]
    )


def to_quaternion(R: Any) -> Any:
    """Unit quaternion (x, y, z, w) of a rotation matrix, w ≥ 0 (Shepperd 1978)."""
    rows = _rows("to_quaternion", R)
    trace = rows[0][0] + rows[1][1] + rows[2][2]
    axis = _twice_axis(rows)
    # the quaternion scaled by each of its components in turn: that of the largest is accurate
    best, size = [*axis, 1.0 + trace], 1.0 + trace
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        own = 1.0 + 2.0 * rows[i][i] - trace
        scaled: list[Any] = [own, own, own, axis[i]]
        scaled[j], scaled[k] = rows[i][j] + rows[j][i], rows[i][k] + rows[k][i]
        larger = own > size
        best = [np.where(larger, a, b) for a, b in zip(scaled, best, strict=True)]
        size = np.where(larger, own, size)
    x, y, z, w = best
    length = np.sqrt(x * x + y * y + z * z + w * w)
    scale = np.where(w < 0.0, -1.0, 1.0) / length
    return np.stack([x * scale, y * scale, z * scale, w * scale], axis=-1)


def from_rpy(rpy: Any) -> Any:
    """Rotation matrix of roll, pitch and yaw: turns about the fixed x, y and z axes, in order."""
    roll, pitch, yaw = _entries("from_rpy", "rpy", rpy, (3,))
    (sr, sp, sy), (cr, cp, cy) = (
        [function(angle) for angle in (roll, pitch, yaw)] for function in (np.sin, np.cos)
    )
    return _matrix(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def to_rpy(R: Any) -> Any:
    """Roll, pitch and yaw of a rotation matrix; pitch from −π/2 to π/2."""
    rows = _rows("to_rpy", R)
    level = np.sqrt(rows[0][0] * rows[0][0] + rows[1][0] * rows[1][0])
    roll = np.arctan2(rows[2][1], rows[2][2])
    yaw = np.arctan2(rows[1][0], rows[0][0])
    return np.stack([roll, np.arctan2(-rows[2][0], level), yaw], axis=-1)


def left_jacobian(w: Any) -> Any:
    """J with exp(w + dw) ≈ exp(J dw) exp(w): world angular velocity by rate of w."""
    x, y, z = _entries("left_jacobian", "w", w, (3,))
    square = x * x + y * y + z * z
    half = sinc(0.25 * square)
    W = hat(w)
    return np.eye(3) + _scale(0.5 * half * half, W) + _scale(sin_remainder(square), W @ W)


def right_jacobian(w: Any) -> Any:
    """J with exp(w + dw) ≈ exp(w) exp(J dw): body angular velocity by rate of w."""
    return left_jacobian(-np.asanyarray(w))


def left_jacobian_inverse(w: Any) -> Any:
    """Inverse of the left Jacobian, for angles below a full turn."""
    x, y, z = _entries("left_jacobian_inverse", "w", w, (3,))
    W = hat(w)
    return np.eye(3) - 0.5 * W + _scale(cot_remainder(x * x + y * y + z * z), W @ W)


def right_jacobian_inverse(w: Any) -> Any:
    """Inverse of the right Jacobian, for angles below a full turn."""
    return left_jacobian_inverse(-np.asanyarray(w))


def _entries(function: str, name: str, x: Any, core: tuple[int, ...]) -> list[Any]:
    """The entries of an array along its last axis, each over the batch."""
    array = np.asanyarray(x)
    if array.shape[-len(core) :] != core or array.ndim < len(core):
        expected = f"(..., {', '.join(map(str, core))})"
        raise ShapeMismatch(f"so3.{function}", name, expected, array.shape)
    if type(array) is np.ndarray and array.dtype == object:
        # a plain array of symbols becomes an array that knows NumPy's functions
        array = np.stack(list(array.flat)).reshape(array.shape)
    if array.dtype.kind in "iub":
        array = array.astype(float)
    return [array[..., k] for k in range(core[-1])]


def _rows(function: str, R: Any) -> list[list[Any]]:
    """The entries of a matrix, row by row."""
    columns = _entries(function, "R", R, (3, 3))
    return [[column[..., i] for column in columns] for i in range(3)]


def _twice_axis(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Twice the vector of the skew-symmetric part of a matrix."""
    return [rows[2][1] - rows[1][2], rows[0][2] - rows[2][0], rows[1][0] - rows[0][1]]


def _matrix(rows: Sequence[Sequence[Any]]) -> Any:
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _scale(factor: Any, matrix: Any) -> Any:
    """A matrix times a number a state."""
    return np.asanyarray(factor)[..., None, None] * matrix
