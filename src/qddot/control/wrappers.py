"""Laws around laws: friction compensation, and bounds on torques and their rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.law import Gain, Law, Memory, Reference, State, gain
from qddot.robot.robot import Robot

__all__ = ["FrictionCompensation", "Saturation", "Wrapper"]


class Wrapper:
    """A law around another: it reads what that one reads, unless it says more."""

    law: Law

    def references(self, robot: Robot) -> Mapping[str, tuple[int, ...]]:
        """Those of the law inside."""
        return self.law.references(robot)

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """Those of the law inside."""
        return self.law.senses(robot)

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """That of the law inside."""
        return self.law.memory(robot)

    def command_inside(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """Torques and memory of the law inside, which sees its own memory only."""
        own = {name: memory[name] for name in self.law.memory(robot)}
        return self.law.command(robot, state, reference, own)

    @property
    def labels(self) -> Mapping[str, Mapping[int, str]]:
        """Labels of the law inside, for events."""
        return getattr(self.law, "labels", {})


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
        """The torques of the law inside, and those of friction."""
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

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """That of the law inside; with a bound on the rate also the last torques."""
        own: dict[str, Any] = (
            {} if self.rate is None else {"last_torque": np.zeros(robot.nv), "begun": 0.0}
        )
        return {**self.law.memory(robot), **own}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law inside within their bounds."""
        tau, kept = self.command_inside(robot, state, reference, memory)
        tau = np.clip(tau, -self.effort, self.effort)
        if self.rate is None:
            return tau, kept
        # the first sample has none before it
        last = np.where(memory["begun"] > 0.5, memory["last_torque"], tau)
        step = self.rate * state.dt
        tau = last + np.clip(tau - last, -step, step)
        return tau, {**kept, "last_torque": tau, "begun": memory["begun"] * 0.0 + 1.0}
