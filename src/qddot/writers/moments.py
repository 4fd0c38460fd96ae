"""Principal moments of an inertia, and what MuJoCo asks of them."""

from __future__ import annotations

import numpy as np

from qddot.spatial import Inertia, Mat3, Sym3, Transform, Vec3

__all__ = ["LEAST", "balanced", "capped", "excess_of", "principal"]

LEAST = 2e-15
"""Mass and moments that MuJoCo takes for a moving body: more than its 1e-15."""


def principal(inertia: Inertia) -> tuple[list[float], Mat3]:
    """Moments about the centre of mass, and the axes they are about as columns of a rotation."""
    tensor, scale = inertia.tensor_at_com, max(map(abs, inertia.I))
    if max(abs(tensor.xy), abs(tensor.xz), abs(tensor.yz)) <= 1e-16 * scale:
        return [tensor.xx, tensor.yy, tensor.zz], Mat3.identity()
    moments, axes = np.linalg.eigh([list(row) for row in tensor.rows])
    axes[:, 0] *= np.linalg.det(axes)
    return moments.tolist(), Mat3(*(Vec3(*row) for row in axes.tolist()))


def excess_of(inertia: Inertia) -> float:
    """By how much the largest moment exceeds the sum of the other two.

    It is a part of the largest entry about the origin, of which rounding leaves about 1e-16.
    """
    low, middle, high = sorted(principal(inertia)[0])
    scale = max(map(abs, inertia.I))
    return (high - low - middle) / scale if scale else 0.0


def capped(moments: list[float], least: float = 0.0) -> list[float]:
    """Moments that no rounding makes impossible: none too small, none more than the other two."""
    raised = [max(x, least) for x in moments]
    k = raised.index(max(raised))
    others = sum(x for i, x in enumerate(raised) if i != k)
    raised[k] = min(raised[k], others)
    return raised


def balanced(inertia: Inertia) -> Inertia:
    """The inertia with its largest moment lowered to the sum of the other two."""
    moments, axes = principal(inertia)
    body = Inertia(inertia.mass, Vec3.zero(), Sym3.diagonal(*capped(moments)))
    return body.to_parent(Transform(axes, inertia.com))
