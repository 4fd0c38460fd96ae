"""From command to joint: delay, current, motor, gear."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.simulate.drivetrain.figures import (
    Figures,
    Memoryless,
    check_numbers,
    check_whole,
    driven,
    not_negative,
    positive,
    share,
)
from qddot.simulate.lifted import present
from qddot.simulate.plant import Effect, Moment, Resisting
from qddot.simulate.resistance import Drag, Grip, clip
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["Delay", "Gear", "Limit", "MotorConstant", "TorqueSpeedLimit", "with_rotors"]


@dataclass(frozen=True)
class MotorConstant(Memoryless):
    """A current in A becomes a torque in N m: τ = constant · i."""

    constant: Figures

    def __post_init__(self) -> None:
        positive("motor constant", self.constant)

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """Torques of the currents."""
        tau = list(at.tau)
        for dof, constant in driven(at.model, self.constant).items():
            tau[dof] = tau[dof] * constant
        return tau, None


@dataclass(frozen=True)
class Limit(Memoryless):
    """No more than this in either direction: of a current before a motor, of a torque after it.

    Without `most` it is the effort limit that each joint of the model has.
    """

    most: Figures | None = None

    def __post_init__(self) -> None:
        if self.most is not None:
            not_negative("limit", self.most)

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """What is asked for, as far as it goes."""
        tau = list(at.tau)
        for dof, most in driven(at.model, self._limits(at.model)).items():
            if not isinstance(most, float | int) or most < math.inf:
                tau[dof] = clip(tau[dof], -most, most)
        return tau, None

    def _limits(self, model: Model) -> Figures:
        if self.most is not None:
            return self.most
        bodies = (b for b in model.independent if b.joint.kind.nv == 1)
        return {b.joint.name: b.joint.limits.effort for b in bodies}


@dataclass(frozen=True)
class TorqueSpeedLimit(Memoryless):
    """The torques that a motor can give at a speed: stall · (±1 − v / no_load_speed).

    These are the lines of a supply of ± full voltage: at the no-load speed nothing is left to push
    with, and beyond it the motor brakes whatever is asked for.
    """

    stall: Figures
    no_load_speed: Figures

    def __post_init__(self) -> None:
        positive("stall", self.stall)
        positive("no_load_speed", self.no_load_speed)
        _check_same_joints(self.stall, self.no_load_speed, "stall", "no_load_speed")

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """What is asked for, between the lines."""
        tau, speeds = list(at.tau), driven(at.model, self.no_load_speed)
        for dof, stall in driven(at.model, self.stall).items():
            if dof in speeds:
                drop = at.v[dof] * (stall / speeds[dof])
                tau[dof] = clip(tau[dof], -stall - drop, stall - drop)
        return tau, None


@dataclass(frozen=True)
class Delay:
    """What is asked for arrives whole steps later; until then nothing does."""

    steps: int | Mapping[str, int]

    def __post_init__(self) -> None:
        check_whole("delay", self.steps)

    def memory(self, model: Model) -> int:
        """All that is on its way."""
        return sum(driven(model, self.steps).values())

    def start(self, model: Model) -> list[float]:
        """Nothing on its way."""
        return [0.0] * self.memory(model)

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """What arrives."""
        tau, first = list(at.tau), 0
        for dof, steps in driven(at.model, self.steps).items():
            if steps:
                tau[dof] = memory[first]
            first += steps
        return tau, None

    def renew(self, at: Moment, memory: Vector) -> list[Scalar]:
        """The line moved on by one."""
        kept: list[Scalar] = []
        first = 0
        for dof, steps in driven(at.model, self.steps).items():
            if steps:
                kept += [*memory[first + 1 : first + steps], at.tau[dof]]
            first += steps
        return kept


@dataclass(frozen=True)
class Gear:
    """A gear: the motor turns `ratio` times as fast as the joint, which feels ratio · its torque.

    What is asked for goes through the effects of `motor` first: they stand on the motor's side,
    with its speed, angle and torque. `efficiency` is the part of the motor's power that the joint
    gets, `backdriving` the part of the load's power that the motor gets when it brakes (the
    efficiency again where it is None). The loss is friction in proportion to the motor's torque:
    it holds at rest.
    """

    ratio: Figures
    efficiency: Figures = 1.0
    backdriving: Figures | None = None
    motor: tuple[Effect, ...] = ()

    def __post_init__(self) -> None:
        check_numbers(
            "ratio", self.ratio, "it is a number, not 0", lambda x: 0.0 < abs(x) < math.inf
        )
        for what, x in (("efficiency", self.efficiency), ("backdriving", self.backdriving)):
            if x is not None:
                accepted = "it is a number above 0, up to 1"
                check_numbers(what, x, accepted, lambda part: 0.0 < part <= 1.0)
        if not isinstance(self.motor, tuple):
            raise InvalidArgument("motor", self.motor, "it is a tuple of effects")

    def memory(self, model: Model) -> int:
        """The numbers of the effects of the motor."""
        return sum(effect.memory(model) for effect in self.motor)

    def start(self, model: Model) -> list[float]:
        """Those numbers before the first step."""
        return [x for effect in self.motor for x in effect.start(model)]

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """Torques after the gear, without its losses."""
        ratios, (_, tau) = driven(at.model, self.ratio), self._passage(at, memory)
        return [t * ratios.get(k, 1.0) for k, t in enumerate(tau)], None

    def renew(self, at: Moment, memory: Vector) -> list[Scalar]:
        """The numbers of the effects of the motor."""
        seen, _ = self._passage(at, memory)
        return [x for effect, moment, part in seen for x in effect.renew(moment, part)]

    def resist(self, at: Moment, memory: Vector) -> list[Drag | Grip]:
        """What resists on the motor's side, as the joint feels it, and the loss of the gear."""
        ratios, (seen, _) = driven(at.model, self.ratio), self._passage(at, memory)
        parts: list[Drag | Grip] = [
            _reflected(part, ratios.get(part.dof, 1.0))
            for effect, moment, kept in seen
            if isinstance(effect, Resisting)
            for part in effect.resist(moment, kept)
        ]
        return parts + self._losses(at, memory)

    def _losses(self, at: Moment, memory: Vector) -> list[Drag | Grip]:
        """Friction of the gear: less comes out when it drives, more when it is driven."""
        model, (tau, _) = at.model, self.act(at, memory)
        backdriving = self.efficiency if self.backdriving is None else self.backdriving
        parts: list[Drag | Grip] = []
        for dof in driven(model, self.ratio):
            ahead = 1.0 - share(model, self.efficiency, dof, 1.0)
            back = 1.0 / share(model, backdriving, dof, 1.0) - 1.0
            if present(ahead) or present(back):
                pushes = less(0.0, tau[dof])
                lower = where(pushes, -ahead * tau[dof], back * tau[dof])
                upper = where(pushes, back * tau[dof], -ahead * tau[dof])
                parts.append(Grip(dof, lower, upper))
        return parts

    def _passage(
        self, at: Moment, memory: Vector
    ) -> tuple[list[tuple[Effect, Moment, Vector]], list[Scalar]]:
        """The effects of the motor, with what each sees and keeps, and the torques after them."""
        moment, seen, first = self._motor_side(at), [], 0
        for effect in self.motor:
            part = memory[first : first + effect.memory(at.model)]
            first += len(part)
            seen.append((effect, moment, part))
            moment = dataclasses.replace(moment, tau=effect.act(moment, part)[0])
        return seen, moment.tau

    def _motor_side(self, at: Moment) -> Moment:
        """A moment with the angles and speeds of the motors."""
        q, v, v_end = list(at.q), list(at.v), list(at.v_end)
        ratios = driven(at.model, self.ratio)
        for body in at.model.independent:
            if body.iv.start in ratios and body.joint.kind.nv == 1:
                ratio = ratios[body.iv.start]
                q[body.iq.start] = q[body.iq.start] * ratio
                for speeds in (v, v_end):
                    if speeds:
                        speeds[body.iv.start] = speeds[body.iv.start] * ratio
        return dataclasses.replace(at, q=q, v=v, v_end=v_end)


def _reflected(part: Drag | Grip, ratio: Scalar) -> Drag | Grip:
    """What resists at a motor, as it is felt at the joint."""
    if isinstance(part, Drag):
        return Drag(part.dof, part.offset * ratio, part.slope * (ratio * ratio))
    forward = less(0.0, ratio)
    low, high = where(forward, part.lower, part.upper), where(forward, part.upper, part.lower)
    give = part.compliance if part.rigid else part.compliance / (ratio * ratio)
    return Grip(part.dof, low * ratio, high * ratio, give, part.speed / ratio)


def with_rotors(robot: Robot, inertia: Figures, ratio: Figures = 1.0) -> Robot:
    """The same robot with rotors: each adds inertia · ratio² to M at its joint.

    `inertia` (kg m² at the rotor) and `ratio` are one for all joints of one freedom, or by joint;
    they take the place of the reflected inertia that those joints have.
    """
    not_negative("rotor inertia", inertia)
    check_numbers("ratio", ratio, "it is a number, not 0", lambda x: 0.0 < abs(x) < math.inf)
    model = robot.model
    rotors = driven(model, inertia)
    bodies = []
    for body in model.bodies:
        if body.joint.leader is None and body.iv.start in rotors and body.joint.kind.nv == 1:
            dof = body.iv.start
            drive = dataclasses.replace(
                body.joint.drivetrain,
                armature=0.0,
                rotor_inertia=float(rotors[dof]),
                gear_ratio=float(share(model, ratio, dof, 1.0)),
            )
            joint = dataclasses.replace(body.joint, drivetrain=drive)
            body = dataclasses.replace(body, joint=joint)
        bodies.append(body)
    return Robot(dataclasses.replace(model, bodies=tuple(bodies)), robot.native)


def _check_same_joints(a: Any, b: Any, first: str, second: str) -> None:
    """Refuse two mappings of which one lacks joints of the other."""
    if isinstance(a, Mapping) and isinstance(b, Mapping) and set(a) != set(b):
        odd = ", ".join(repr(name) for name in sorted(set(a) ^ set(b)))
        raise InvalidArgument(f"{first}, {second}", odd, "both name the same joints")
