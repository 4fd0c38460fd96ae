"""Laws around laws: friction compensation, and bounds on torques and their rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.law import Gain, Law, Memory, Reference, State, gain
from qddot.errors import DuplicateMemory, InvalidArgument
from qddot.robot.robot import Robot

__all__ = ["FrictionCompensation", "Saturation", "Wrapper", "require_not_negative"]


def require_not_negative(law: Law, *names: str) -> None:
    """Refuse gains of a law that are below zero, where their values are known.

    While a law is recorded, gains that are inputs are symbols, which have no value.
    """
    for name in names:
        given = getattr(law, name)
        values = np.asanyarray(given)
        if given is not None and values.dtype.kind in "iuf" and (values < 0).any():
            label, place = f"{type(law).__name__}: {name}", tuple(np.argwhere(values < 0)[0])
            if values.ndim:
                label += f"[{', '.join(map(str, place))}]"
            raise InvalidArgument(label, float(values[place]), "it is 0 or more")


class Wrapper:
    """A law around an inner law, with the references and sensors of that one unless it has its own.

    A subclass has the field `law`, names what it remembers itself in `own_memory`, and calls
    `command_inside` in its `command`; `own_labels` are labels of its memory, for events.
    """

    law: Law
    own_labels: ClassVar[Mapping[str, Mapping[int, str]]] = {}

    def references(self, robot: Robot) -> Mapping[str, tuple[int, ...]]:
        """References of the inner law."""
        return self.law.references(robot)

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """Frames whose wrenches the inner law reads."""
        return self.law.senses(robot)

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Memory of this law without that of the inner one."""
        return {}

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Memory of the inner law and of this one, under names that differ."""
        inside, own = self.law.memory(robot), self.own_memory(robot)
        for name in sorted(inside.keys() & own.keys()):
            # the law inside that has the name too
            owner: Any = self.law
            while isinstance(owner, Wrapper) and name not in owner.own_memory(robot):
                owner = owner.law
            raise DuplicateMemory(name, type(self).__name__, type(owner).__name__)
        return {**inside, **own}

    def command_inside(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """Torques and memory of the inner law, which sees its own memory only."""
        own = {name: memory[name] for name in self.law.memory(robot)}
        return self.law.command(robot, state, reference, own)

    @property
    def labels(self) -> Mapping[str, Mapping[int, str]]:
        """Labels of the memory of the inner law and of this one, for events."""
        return {**getattr(self.law, "labels", {}), **self.own_labels}


@dataclass(frozen=True, eq=False)
class FrictionCompensation(Wrapper):
    """Adds the friction of the joints: coulomb · tanh(v / smoothing) + viscous · v.

    v is the velocity to follow where the law has one (`v_ref`), else the measured one: the sign of
    a measured velocity chatters at rest.
    """

    law: Law
    coulomb: Gain = gain("nv", default=0.0)
    viscous: Gain = gain("nv", default=0.0)
    smoothing: Gain = gain("nv", default=0.01)

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law, and those of friction."""
        tau, kept = self.command_inside(robot, state, reference, memory)
        v = reference["v_ref"] if "v_ref" in self.references(robot) else state.v
        return tau + self.coulomb * np.tanh(v / self.smoothing) + self.viscous * v, kept


@dataclass(frozen=True, eq=False)
class Saturation(Wrapper):
    """Clips torques to ± `effort`, and their change to `rate` (N m/s) if that is given.

    Give laws with an integral the same `limit`, so that it does not wind up behind the bound.
    """

    law: Law
    effort: Gain = gain("nv")
    rate: Gain = gain("nv", default=None)

    def __post_init__(self) -> None:
        require_not_negative(self, "effort", "rate")

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """With a bound on the rate the last torques, and whether there were any."""
        if self.rate is None:
            return {}
        return {"last_torque": np.zeros(robot.nv), "has_last_torque": 0.0}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law within their bounds."""
        tau, kept = self.command_inside(robot, state, reference, memory)
        tau = np.clip(tau, -self.effort, self.effort)
        if self.rate is None:
            return tau, kept
        # the first sample has none before it
        last = np.where(memory["has_last_torque"] > 0.5, memory["last_torque"], tau)
        step = self.rate * state.dt
        tau = last + np.clip(tau - last, -step, step)
        known = memory["has_last_torque"] * 0.0 + 1.0
        return tau, {**kept, "last_torque": tau, "has_last_torque": known}
