"""Laws of force at a frame: hybrid force/position control, and the phases of a contact task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.law import Gain, Memory, Reference, State, gain
from qddot.control.task_space import damped_task_inertia, pose_error
from qddot.robot.robot import Robot

__all__ = ["PHASES", "ContactTask", "Hybrid"]

Shapes = Mapping[str, tuple[int, ...]]
PHASES = ("approach", "settle", "trace", "hold", "retract")
"""Phases of a contact task in their order; memory has the number of the present one."""


@dataclass(frozen=True, eq=False)
class Hybrid:
    """Force along some axes, motion along the others (Raibert & Craig 1981, Khatib 1987).

    `selection` (6) is 1 where force is controlled, along and about the columns of `axes` (3 × 3),
    a frame of any orientation in the world. Motion: Λ (A_ref + kp e + kd ė − J̇ v), and a share
    `feedforward` of the force measured along its axes is answered at once, so that friction
    at the tool is not an error first (below 1: where the tool sticks, all of it would integrate).
    Force: F_ref (wrench on the robot) is commanded outright, the error is closed by `force_kp` and
    `force_ki` (1/s), and `force_damping` (N s/m, N m s/rad) damps motion along those axes. The
    integral stops at ± `windup`.
    """

    frame: str
    selection: Gain = gain(6)
    kp: Gain = gain(6)
    kd: Gain = gain(6)
    force_kp: Gain = gain(default=0.2)
    force_ki: Gain = gain(default=10.0)
    force_damping: Gain = gain(default=300.0)
    axes: Gain = gain(3, 3, default=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
    feedforward: Gain = gain(default=0.97)
    windup: Gain = gain(default=50.0)

    def references(self, robot: Robot) -> Shapes:
        """Pose, twist, acceleration, and the wrench on the robot to reach."""
        return {"X_ref": (4, 4), "V_ref": (6,), "A_ref": (6,), "F_ref": (6,)}

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """The wrench at the frame."""
        return (self.frame,)

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The integral of the force error, in axes of the task."""
        return {"force_integral": np.zeros(6)}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        q, v = state.q, state.v
        at = damped_task_inertia(robot, q, v, self.frame)
        E, S = np.asarray(self.axes), np.asarray(self.selection)
        zero = np.zeros((3, 3))
        T = np.concatenate([np.concatenate([E, zero], 1), np.concatenate([zero, E], 1)])
        # motion along the axes that are free
        e = pose_error(reference["X_ref"], robot.frame_pose(q, self.frame))
        speed = reference["V_ref"] - at.J @ v
        a = reference["A_ref"] + self.kp * e + self.kd * speed
        motion = T @ ((1.0 - S) * (T.T @ a)) - at.drift
        # force along the others
        wrench = T.T @ state.wrenches[self.frame]
        error = S * (T.T @ reference["F_ref"] - wrench)
        gathered = memory["force_integral"] + self.force_ki * error * state.dt
        integral = np.clip(gathered, -self.windup, self.windup)
        push = S * (T.T @ reference["F_ref"]) + self.force_kp * error + integral
        drag = self.force_damping * S * (T.T @ speed)
        along = drag - push - self.feedforward * (1.0 - S) * wrench
        tau = at.J.T @ (at.force(motion) + T @ along) + at.bias
        return tau, {"force_integral": integral}


@dataclass(frozen=True, eq=False)
class ContactTask:
    """Approach a surface, press on it, trace a line, hold, and leave: a `Hybrid` with phases.

    The tool moves against the `normal` of the surface (world, from the surface to the tool) at
    `speed` until it feels `threshold` N; it presses with `force`, settles for `settle` s, follows
    the minimum-jerk line of `way` (3) in `trace` s, holds for `hold` s, and moves off at `speed`.
    The reference `X_start` is the pose over the place of contact: the line starts below it.
    """

    labels: ClassVar[Mapping[str, Mapping[int, str]]] = {"phase": dict(enumerate(PHASES))}
    hybrid: Hybrid
    way: Gain = gain(3)
    normal: Gain = gain(3, default=(0.0, 0.0, 1.0))
    force: Gain = gain(default=5.0)
    speed: Gain = gain(default=0.02)
    threshold: Gain = gain(default=1.0)
    settle: Gain = gain(default=1.0)
    trace: Gain = gain(default=2.5)
    hold: Gain = gain(default=1.0)

    def references(self, robot: Robot) -> Shapes:
        """The pose of the tool over the place of contact."""
        return {"X_start": (4, 4)}

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """The wrench at the frame."""
        return self.hybrid.senses(robot)

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Phase, time in it, depth of approach, position to be at, and the integral of force."""
        own: dict[str, Any] = {"phase": 0.0, "clock": 0.0, "depth": 0.0, "target": np.zeros(3)}
        return {**own, **self.hybrid.memory(robot)}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        dt, n = state.dt, np.asarray(self.normal)
        felt = state.wrenches[self.hybrid.frame][:3] @ n
        # the phase ends by contact, or by the clock
        phase, clock = memory["phase"], memory["clock"] + dt
        lasts = np.where(phase < 1.5, self.settle, np.where(phase < 2.5, self.trace, self.hold))
        touched = (phase < 0.5) & (felt > self.threshold)
        over = (phase > 0.5) & (phase < 3.5) & (clock >= lasts)
        moves = touched | over
        phase, clock = np.where(moves, phase + 1.0, phase), np.where(moves, 0.0, clock)
        # the way down and up again along the normal
        approaches, retracts = phase < 0.5, phase > 3.5
        pressed = (phase > 0.5) & (phase < 3.5)
        rate = np.where(approaches, self.speed, np.where(retracts, -self.speed, 0.0))
        depth = memory["depth"] + rate * dt
        # minimum-jerk line: s, ds/dt, d²s/dt²
        u = np.where(
            phase < 1.5, 0.0, np.where(phase < 2.5, np.minimum(clock / self.trace, 1.0), 1.0)
        )
        s = u * u * u * (10.0 - 15.0 * u + 6.0 * u * u)
        ds = 30.0 * u * u * (1.0 - u) * (1.0 - u) / self.trace
        dds = 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / (self.trace * self.trace)
        way, none = np.asarray(self.way), np.zeros(3)
        X = reference["X_start"]
        p = X[:3, 3] + way * s - n * depth
        upper = np.concatenate([X[:3, :3], np.reshape(p, (3, 1))], axis=1)
        # force is controlled in contact only
        task = {
            "X_ref": np.concatenate([upper, X[3:, :]]),
            "V_ref": np.concatenate([way * ds - n * rate, none]),
            "A_ref": np.concatenate([way * dds, none]),
            "F_ref": np.concatenate([n * self.force, none]),
        }
        on = np.asarray(self.hybrid.selection) * np.where(pressed, 1.0, 0.0)
        hybrid = dataclasses.replace(self.hybrid, selection=on)
        tau, kept = hybrid.command(robot, state, task, memory)
        integral = np.where(pressed, kept["force_integral"], 0.0)
        own: dict[str, Any] = {"phase": phase, "clock": clock, "depth": depth, "target": p}
        return tau, {**own, "force_integral": integral}
