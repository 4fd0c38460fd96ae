"""Rotations in the text of laws: logarithm and exponential on SO(3) without branches."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["pose_error", "rotation_exp", "rotation_log"]


def rotation_log(R: Any) -> Any:
    """Rotation vector (3) of a rotation matrix, of an angle up to π (log map of SO(3)).

    By the unit quaternion, whose largest component is chosen by `where` (Shepperd 1978): accurate
    to rounding at every angle, also close to 0 and to π.
    """
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    skew = [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]
    # four quaternions (w, x, y, z), each scaled by its own component
    rows = [[1.0 + trace, *skew]]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        row = [skew[i], 0.0, 0.0, 0.0]
        row[1 + i] = 1.0 + 2.0 * R[i, i] - trace
        row[1 + j], row[1 + k] = R[i, j] + R[j, i], R[i, k] + R[k, i]
        rows.append(row)
    best, size = rows[0], rows[0][0]
    for i, row in enumerate(rows[1:]):
        larger = row[1 + i] > size
        best = [np.where(larger, a, b) for a, b in zip(row, best, strict=True)]
        size = np.where(larger, row[1 + i], size)
    # the shorter way round: w ≥ 0
    sign = np.where(best[0] < 0.0, -1.0, 1.0)
    w, x, y, z = (sign * c for c in best)
    length = np.sqrt(x * x + y * y + z * z)
    small = length < 1e-10 * w
    angle = 2.0 * np.arctan2(length, w)
    scale = np.where(small, 2.0, angle) / np.where(small, w, length)
    return np.stack([x * scale, y * scale, z * scale])


def rotation_exp(w: Any) -> Any:
    """Rotation matrix of a rotation vector (exponential map of SO(3), Rodrigues)."""
    square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    small = square < 1e-8
    safe = np.where(small, 1.0, square)
    angle = np.sqrt(safe)
    a = np.where(small, 1.0 - square / 6.0, np.sin(angle) / angle)
    b = np.where(small, 0.5 - square / 24.0, (1.0 - np.cos(angle)) / safe)
    x, y, z = w[0], w[1], w[2]
    zero = 0.0 * x
    K = np.stack([np.stack([zero, -z, y]), np.stack([z, zero, -x]), np.stack([-y, x, zero])])
    return np.eye(3) + a * K + b * (K @ K)


def pose_error(X_ref: Any, X: Any) -> Any:
    """Way (6) from a pose to its reference: [p_ref − p; log(R_ref Rᵀ)], in world axes."""
    return np.concatenate([X_ref[:3, 3] - X[:3, 3], rotation_log(X_ref[:3, :3] @ X[:3, :3].T)])
