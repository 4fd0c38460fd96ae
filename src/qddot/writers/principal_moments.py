"""Principal moments of inertia, and the bounds that MuJoCo sets on them."""

from __future__ import annotations

import numpy as np

from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

__all__ = ["LEAST", "cap_largest_moment", "cap_moments", "moment_excess", "principal_moments"]

LEAST = 2e-15
"""Smallest mass and moment of a moving body written for MuJoCo, whose own bound is 1e-15."""


def principal_moments(inertia: Inertia) -> tuple[list[float], Mat3]:
    """Principal moments about the centre of mass, and their axes as columns of a rotation."""
    tensor, scale = inertia.tensor_at_com, max(map(abs, inertia.I))
    if max(abs(tensor.xy), abs(tensor.xz), abs(tensor.yz)) <= 1e-16 * scale:
        return [tensor.xx, tensor.yy, tensor.zz], Mat3.identity()
    moments, axes = np.linalg.eigh([list(row) for row in tensor.rows])
    axes[:, 0] *= np.linalg.det(axes)
    return moments.tolist(), Mat3(*(Vec3(*row) for row in axes.tolist()))


def moment_excess(inertia: Inertia) -> float:
    """The largest principal moment less the sum of the other two.

    It is relative to the largest entry about the origin, of which rounding leaves about 1e-16.
    """
    low, middle, high = sorted(principal_moments(inertia)[0])
    scale = max(map(abs, inertia.I))
    return (high - low - middle) / scale if scale else 0.0


def cap_moments(moments: list[float], least: float = 0.0) -> list[float]:
    """Raise moments to `least`, and lower the largest to the sum of the other two."""
    raised = [max(x, least) for x in moments]
    k = raised.index(max(raised))
    others = sum(x for i, x in enumerate(raised) if i != k)
    raised[k] = min(raised[k], others)
    return raised


def cap_largest_moment(inertia: Inertia) -> Inertia:
    """The inertia with its largest principal moment lowered to the sum of the other two."""
    moments, axes = principal_moments(inertia)
    body = Inertia(inertia.mass, Vec3.zero(), Sym3.diagonal(*cap_moments(moments)))
    return body.to_parent(Transform(axes, inertia.com))
