"""The safety shell: guards around any law, and what it falls back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.gains import gravity_damping
from qddot.control.law import Gain, Law, Memory, Reference, State, gain
from qddot.control.wrappers import Wrapper, require_not_negative
from qddot.robot.robot import Robot

__all__ = ["TRIPS", "SafetyShell"]

TRIPS = (
    "running",
    "state is not a number",
    "stale state",
    "joint limit",
    "velocity limit",
    "workspace limit",
    "contact force limit",
    "torque is not a number",
    "torque limit",
)
"""Reasons to trip, by their number in memory; the first is none."""
_HUGE = 1e12


@dataclass(frozen=True, eq=False)
class SafetyShell(Wrapper):
    """Runs a law as long as its guards hold; then gravity compensation with damping, for good.

    A state that is not a number, or that does not change its time for longer than `stale` seconds,
    joints outside `lower` and `upper`, speeds above `velocity`, the `frame` out of the box from
    `lowest` to `highest`, a measured force above `most_force` and torques above `effort` or not
    numbers trip it. Memory has the number of the first trip ("trip", see TRIPS), which traces show
    as an event. The torques after a trip are clipped to ± `effort`.
    """

    law: Law
    damping: Gain = gain("nv")
    lower: Gain = gain("nq", default=-_HUGE)
    upper: Gain = gain("nq", default=_HUGE)
    velocity: Gain = gain("nv", default=_HUGE)
    effort: Gain = gain("nv", default=_HUGE)
    stale: Gain = gain(default=0.02)
    frame: str | None = None
    lowest: Gain = gain(3, default=-_HUGE)
    highest: Gain = gain(3, default=_HUGE)
    most_force: Gain = gain(default=_HUGE)
    own_labels: ClassVar[Mapping[str, Mapping[int, str]]] = {"trip": dict(enumerate(TRIPS))}

    def __post_init__(self) -> None:
        require_not_negative(self, "damping", "effort")

    @staticmethod
    def from_limits(
        robot: Robot, law: Law, q: ArrayLike, *, margin: float = 0.05, **guards: Any
    ) -> SafetyShell:
        """A shell with the limits of a robot, `margin` (rad, m) inside those of its joints.

        In the fallback each joint's speed falls by e in 0.1 s, by its inertia at q.
        """
        limits = robot.limits
        bounded = {
            "lower": np.maximum(limits.lower + margin, -_HUGE),
            "upper": np.minimum(limits.upper - margin, _HUGE),
            "velocity": np.minimum(limits.velocity, _HUGE),
            "effort": np.minimum(limits.effort, _HUGE),
            "damping": gravity_damping(robot, q, 0.1),
        }
        return SafetyShell(law, **{**bounded, **guards})

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The trip, time and age of the last sample, and the last sound configuration."""
        return {"trip": 0.0, "last_time": -_HUGE, "age": 0.0, "last_q": robot.neutral()}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law, or of the fallback after a trip."""
        # what is not a number compares as false
        sound = _all(np.abs(state.q) < _HUGE) & _all(np.abs(state.v) < _HUGE)
        q = np.where(sound, state.q, memory["last_q"])
        v = np.where(sound, state.v, 0.0)
        age = np.where(state.time > memory["last_time"], 0.0, memory["age"] + state.dt)
        seen = State(q, v, state.dt, state.time, state.wrenches)
        tau, kept = self.command_inside(robot, seen, reference, memory)
        checks = [sound, age <= self.stale]
        checks += [_all(q >= self.lower) & _all(q <= self.upper), _all(np.abs(v) <= self.velocity)]
        checks += [self._inside(robot, q), self._gentle(robot, state)]
        checks += [_all(np.abs(tau) < _HUGE), _all(np.abs(tau) <= self.effort)]
        # the first guard that fails, unless it has tripped before
        trip = memory["trip"]
        for code, holds in reversed(list(enumerate(checks, start=1))):
            trip = np.where((memory["trip"] < 0.5) & ~holds, 1.0 * code, trip)
        tripped = trip > 0.5
        safe = np.clip(robot.gravity(q) - self.damping * v, -self.effort, self.effort)
        kept = {name: np.where(tripped, memory[name], kept[name]) for name in kept}
        own: dict[str, Any] = {"trip": trip, "last_time": 1.0 * state.time, "age": age, "last_q": q}
        return np.where(tripped, safe, tau), {**kept, **own}

    def _inside(self, robot: Robot, q: Any) -> Any:
        """Whether the frame is within the box."""
        if self.frame is None:
            return q[0] == q[0]
        p = robot.frame_pose(q, self.frame)[:3, 3]
        return _all(p >= self.lowest) & _all(p <= self.highest)

    def _gentle(self, robot: Robot, state: State) -> Any:
        """Whether all measured forces are small."""
        forces = [state.wrenches[f] for f in self.senses(robot)]
        checks = [
            np.sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]) <= self.most_force for f in forces
        ]
        return _all(checks) if checks else state.q[0] == state.q[0]


def _all(conditions: Sequence[Any]) -> Any:
    """Whether every one of some conditions holds, on floats and on symbols."""
    result = conditions[0]
    for k in range(1, len(conditions)):
        result = result & conditions[k]
    return result
