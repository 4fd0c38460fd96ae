"""Velocities and displacements in the charts of the joints, on which integrators work.

A chart has the linear velocity of a free body along the axes that it moves in, so that a body in
free flight keeps it; that is also what MuJoCo integrates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from qddot.algorithms.linear import dot
from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Model
from qddot.spatial.algebra import Force, Vec3
from qddot.spatial.scalar import Scalar, sqrt

__all__ = [
    "ChartState",
    "ExplicitPlant",
    "ImplicitPlant",
    "advance",
    "align",
    "chart_rate",
    "displacement_rate",
    "share_of_speed",
    "turning_parts",
    "unalign",
]

ChartState = tuple[list[Scalar], list[Scalar]]
"""Configuration q and velocities w of the charts."""
SolvedState = tuple[list[Scalar], list[Scalar], Scalar]
"""A state from an iteration, and its residual: the relative change of w in the last round."""


class ExplicitPlant(Protocol):
    """The interface of a plant to explicit steps: the model, and its rates at a state."""

    @property
    def model(self) -> Model:
        """The robot."""

    def rate(self, q: Vector, w: Vector, share: Scalar) -> list[Scalar]:
        """Rate of the chart velocities at a state, a share of the step after its start."""


class ImplicitPlant(ExplicitPlant, Protocol):
    """The interface of a plant to implicit steps: also the loads at a state."""

    def loads(self, q: Vector, v: Vector, share: Scalar) -> tuple[list[Scalar], list[Force]]:
        """Torques on the joints and forces on the bodies, a share of the step after its start."""


def align(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Velocities w of the charts."""
    w = list(v)
    for body in model.independent:
        w[body.iv] = body.joint.kind.chart.align(q[body.iq], v[body.iv])
    return w


def unalign(model: Model, q: Vector, w: Vector) -> list[Scalar]:
    """Velocities v of the model from chart velocities."""
    v = list(w)
    for body in model.independent:
        v[body.iv] = body.joint.kind.chart.unalign(q[body.iq], w[body.iv])
    return v


def chart_rate(model: Model, q: Vector, v: Vector, a: Vector) -> list[Scalar]:
    """Rates of the velocities of the charts, from velocities and accelerations of the model."""
    rate = list(a)
    for body in model.independent:
        rate[body.iv] = body.joint.kind.chart.rate(q[body.iq], v[body.iv], a[body.iv])
    return rate


def advance(model: Model, q: Vector, d: Vector) -> list[Scalar]:
    """Configuration after a displacement in the charts."""
    result = zeros(model.nq)
    for body in model.independent:
        result[body.iq] = body.joint.kind.chart.advance(q[body.iq], d[body.iv])
    return result


def displacement_rate(model: Model, u: Vector, w: Vector) -> list[Scalar]:
    """Rate of the displacement u from where a step began, where the velocity is w.

    A rotation vector u of a body that turns with ω changes by ω + ½ u × ω + 1/12 u × (u × ω) −
    1/720 u × (u × (u × (u × ω))) and terms of sixth order (Iserles et al. 2000, section 3).
    """
    rate = list(w)
    for part in turning_parts(model):
        turn, spin = Vec3(*u[part]), Vec3(*w[part])
        once = turn.cross(spin)
        twice = turn.cross(once)
        fourth = turn.cross(turn.cross(twice))
        rate[part] = list(spin + once * 0.5 + twice * (1.0 / 12.0) - fourth * (1.0 / 720.0))
    return rate


def share_of_speed(change: Vector, w: Vector) -> Scalar:
    """The norm of a change of velocities, relative to their own and 1 m/s, 1 rad/s."""
    return sqrt(dot(change, change) / (dot(w, w) + 1.0))


def turning_parts(model: Model) -> Iterator[slice]:
    """Slices of the rotation vectors in a vector of the charts, of bodies that turn in space."""
    for body in model.independent:
        turning = body.joint.kind.chart.turning
        if turning:
            yield slice(body.iv.start + turning.start, body.iv.start + turning.stop)
