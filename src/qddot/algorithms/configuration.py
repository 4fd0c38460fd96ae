"""The configuration manifold: integrate, difference, interpolate."""

from __future__ import annotations

from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar

__all__ = ["difference", "integrate", "interpolate"]


def integrate(model: Model, q: Vector, dv: Vector) -> list[Scalar]:
    """Configuration q ⊕ dv: from q along the tangent dv for unit time."""
    result = zeros(model.nq)
    for body in model.independent:
        result[body.iq] = body.joint.kind.integrate(q[body.iq], dv[body.iv])
    return result


def difference(model: Model, q0: Vector, q1: Vector) -> list[Scalar]:
    """Tangent dv with q0 ⊕ dv = q1; the shorter way round for ball, free and planar joints."""
    result = zeros(model.nv)
    for body in model.independent:
        result[body.iv] = body.joint.kind.difference(q0[body.iq], q1[body.iq])
    return result


def interpolate(model: Model, q0: Vector, q1: Vector, t: Scalar) -> list[Scalar]:
    """Configuration a share t of the way from q0 to q1 along the manifold."""
    return integrate(model, q0, [d * t for d in difference(model, q0, q1)])
