"""Backlash: play between a motor and its link, which are two coordinates of a flexible robot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument, UnknownName
from qddot.model.flexible import spong_map
from qddot.model.model import Body, Model
from qddot.simulate.drivetrain.figures import Figures, Memoryless, not_negative, positive
from qddot.simulate.plant import Moment
from qddot.simulate.resistance import Drag, Grip, largest
from qddot.spatial.scalar import Scalar

__all__ = ["Backlash"]


@dataclass(frozen=True)
class Backlash(Memoryless):
    """Teeth that touch only at the ends of a gap between the motor and the link of a joint.

    It needs a robot of `robot.with_flexible_joints`, and takes the place of its springs: within
    ± gap / 2 motor and link move freely of each other, beyond it they push with
    stiffness · depth + damping · rate, never pull. `stiffness` is that of the flexible joint where
    it is None. Figures are one for all flexible joints, or by joint (its name before it was made
    flexible). Contact is found with the velocity at the end of a step: stable at any stiffness.
    """

    gap: Figures
    stiffness: Figures | None = None
    damping: Figures = 0.0

    def __post_init__(self) -> None:
        positive("gap", self.gap)
        not_negative("damping", self.damping)
        if self.stiffness is not None:
            positive("stiffness", self.stiffness)

    def memory(self, model: Model) -> int:
        """No numbers."""
        return 0

    def resist(self, at: Moment, memory: Vector) -> list[Drag | Grip]:
        """A stop at each end of the gap."""
        parts: list[Drag | Grip] = []
        for name, body in self._springs(at.model).items():
            gap, damping = _of(name, self.gap), _of(name, self.damping, 0.0)
            stiffness = self._stiffness(name, body)
            twist, dof = at.q[body.iq.start], body.iv.start
            give = 1.0 / (at.dt * stiffness + damping)
            for lower, upper, end in ((-math.inf, 0.0, gap / 2), (0.0, math.inf, -gap / 2)):
                parts.append(Grip(dof, lower, upper, give, (twist - end) * stiffness * give))
        return parts

    def stored(self, model: Model, q: Vector, memory: Vector) -> Scalar:
        """Energy (J) in teeth that push."""
        total: Scalar = 0.0
        for name, body in self._springs(model).items():
            twist = q[body.iq.start]
            depth = largest(largest(twist, -twist) - _of(name, self.gap) / 2, 0.0)
            total = total + depth * depth * self._stiffness(name, body) * 0.5
        return total

    def _stiffness(self, name: str, body: Body) -> Scalar:
        own = body.joint.drivetrain.stiffness
        return own if self.stiffness is None else _of(name, self.stiffness, own)

    def _springs(self, model: Model) -> dict[str, Body]:
        """The bodies that move against their motors, by the name of the joint."""
        flexible, remedy = spong_map(model).joints, "make it so with robot.with_flexible_joints"
        if not flexible:
            raise InvalidArgument(
                "backlash", self.gap, f"no joint of {model.name!r} is flexible; {remedy}"
            )
        for given in (self.gap, self.stiffness, self.damping):
            for name in given if isinstance(given, Mapping) else ():
                if name not in flexible:
                    raise UnknownName("flexible joint", name, flexible, model.name)
        wanted = self.gap if isinstance(self.gap, Mapping) else flexible
        return {name: model.body_of_joint(f"{name}.spring") for name in wanted}


def _of(name: str, given: Figures, default: Scalar = 0.0) -> Scalar:
    """The figure of a joint."""
    return given.get(name, default) if isinstance(given, Mapping) else given
