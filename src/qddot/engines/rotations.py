"""Quaternions (x, y, z, w), rotation matrices and roll-pitch-yaw angles, over batches."""

from __future__ import annotations

import numpy as np

from qddot.spatial import so3
from qddot.spatial.algebra import rotation_from_quaternion

__all__ = [
    "quaternion_of_matrix",
    "quaternion_of_rpy",
    "quaternion_product",
    "rotation_matrix",
    "rpy_of_quaternion",
]


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """The rotation matrix of a quaternion of any length."""
    rows = rotation_from_quaternion(*np.moveaxis(quaternion, -1, 0))
    return np.stack([np.stack(list(row), axis=-1) for row in rows], axis=-2)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion of rotation b followed, in the axes outside, by rotation a."""
    u, s, v, t = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    scalar = s * t - (u * v).sum(axis=-1, keepdims=True)
    return np.concatenate([v * s + u * t + np.cross(u, v), scalar], axis=-1)


def quaternion_of_matrix(R: np.ndarray) -> np.ndarray:
    """The unit quaternion of a rotation matrix (Shepperd 1978: from its largest component)."""
    # four times the square of each component
    trace = np.trace(R)
    squares = np.array([*(1.0 + 2.0 * np.diag(R) - trace), 1.0 + trace])
    first = int(squares.argmax())
    if first == 3:
        q = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], squares[3]])
    else:
        q = np.empty(4)
        i, j, k = first, (first + 1) % 3, (first + 2) % 3
        q[i], q[3] = squares[i], R[k, j] - R[j, k]
        q[j], q[k] = R[j, i] + R[i, j], R[k, i] + R[i, k]
    return q / np.linalg.norm(q)


def rpy_of_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """Roll, pitch and yaw: turns about the fixed x, y and z axes, in this order."""
    return so3.to_rpy(rotation_matrix(quaternion))


def quaternion_of_rpy(rpy: np.ndarray) -> np.ndarray:
    """The unit quaternion of roll, pitch and yaw."""
    # a quaternion for each turn about an axis
    turns = []
    for axis in range(3):
        turn = np.zeros((*rpy.shape[:-1], 4))
        turn[..., axis], turn[..., 3] = np.sin(0.5 * rpy[..., axis]), np.cos(0.5 * rpy[..., axis])
        turns.append(turn)
    roll, pitch, yaw = turns
    return quaternion_product(yaw, quaternion_product(pitch, roll))
