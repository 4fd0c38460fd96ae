"""From command to joint: delay, current, motor, gear."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.simulate.batch_parameters import may_be_nonzero
from qddot.simulate.drivetrain.parameters import (
    JointParameter,
    check_not_negative,
    check_parameter,
    check_positive,
    check_whole,
    value_at_dof,
    values_by_dof,
)
from qddot.simulate.implicit_torques import DampingTorque, ImplicitTorque, VelocityConstraint, clip
from qddot.simulate.plant import Effect, ImplicitEffect, StatelessEffect, StepContext
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["Delay", "Gear", "Limit", "MotorConstant", "TorqueSpeedLimit", "with_rotors"]


@dataclass(frozen=True)
class MotorConstant(StatelessEffect):
    """A current in A becomes a torque in N m: τ = constant · i."""

    constant: JointParameter

    def __post_init__(self) -> None:
        check_positive("motor constant", self.constant)

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """Torques of the currents."""
        tau = list(context.tau)
        for dof, constant in values_by_dof(context.model, self.constant).items():
            tau[dof] = tau[dof] * constant
        return tau, None


@dataclass(frozen=True)
class Limit(StatelessEffect):
    """No more than this in either direction: of a current before a motor, of a torque after it.

    Without `most` it is the effort limit that each joint of the model has.
    """

    most: JointParameter | None = None

    def __post_init__(self) -> None:
        if self.most is not None:
            check_not_negative("limit", self.most)

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """The torques, clipped to the limits."""
        tau = list(context.tau)
        for dof, most in values_by_dof(context.model, self._limits(context.model)).items():
            if not isinstance(most, float | int) or most < math.inf:
                tau[dof] = clip(tau[dof], -most, most)
        return tau, None

    def _limits(self, model: Model) -> JointParameter:
        if self.most is not None:
            return self.most
        bodies = (b for b in model.independent if b.joint.kind.nv == 1)
        return {b.joint.name: b.joint.limits.effort for b in bodies}


@dataclass(frozen=True)
class TorqueSpeedLimit(StatelessEffect):
    """The torques that a motor can give at a speed: stall · (±1 − v / no_load_speed).

    These are the lines of a supply of ± full voltage: at the no-load speed nothing is left to push
    with, and beyond it the motor brakes whatever is asked for.
    """

    stall: JointParameter
    no_load_speed: JointParameter

    def __post_init__(self) -> None:
        check_positive("stall", self.stall)
        check_positive("no_load_speed", self.no_load_speed)
        a, b = self.stall, self.no_load_speed
        if isinstance(a, Mapping) and isinstance(b, Mapping) and set(a) != set(b):
            odd = ", ".join(repr(name) for name in sorted(set(a) ^ set(b)))
            raise InvalidArgument("stall, no_load_speed", odd, "both name the same joints")

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """The torques, clipped to the lines."""
        tau, speeds = list(context.tau), values_by_dof(context.model, self.no_load_speed)
        for dof, stall in values_by_dof(context.model, self.stall).items():
            if dof in speeds:
                drop = context.v[dof] * (stall / speeds[dof])
                tau[dof] = clip(tau[dof], -stall - drop, stall - drop)
        return tau, None


@dataclass(frozen=True)
class Delay:
    """A delay of torques by whole steps; the first torques are zero."""

    steps: int | Mapping[str, int]

    def __post_init__(self) -> None:
        check_whole("delay", self.steps)

    def state_size(self, model: Model) -> int:
        """The torques of the last steps."""
        return sum(values_by_dof(model, self.steps).values())

    def initial_state(self, model: Model) -> list[float]:
        """Zero torques."""
        return [0.0] * self.state_size(model)

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """The delayed torques."""
        tau, first = list(context.tau), 0
        for dof, steps in values_by_dof(context.model, self.steps).items():
            if steps:
                tau[dof] = state[first]
            first += steps
        return tau, None

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """The delay line, moved on by one step."""
        line: list[Scalar] = []
        first = 0
        for dof, steps in values_by_dof(context.model, self.steps).items():
            if steps:
                line += [*state[first + 1 : first + steps], context.tau[dof]]
            first += steps
        return line


@dataclass(frozen=True)
class Gear:
    """A gear: the motor turns `ratio` times as fast as the joint, which feels ratio · its torque.

    Torques go through the effects of `motor` first: they stand on the motor's side,
    with its speed, angle and torque. `efficiency` is the part of the motor's power that the joint
    gets, `backdriving` the part of the load's power that the motor gets when it brakes (the
    efficiency again where it is None). The loss is friction in proportion to the motor's torque:
    it holds at rest.
    """

    ratio: JointParameter
    efficiency: JointParameter = 1.0
    backdriving: JointParameter | None = None
    motor: tuple[Effect, ...] = ()

    def __post_init__(self) -> None:
        check_parameter(
            "ratio", self.ratio, "it is a number, not 0", lambda x: 0.0 < abs(x) < math.inf
        )
        for what, x in (("efficiency", self.efficiency), ("backdriving", self.backdriving)):
            if x is not None:
                accepted = "it is a number above 0, up to 1"
                check_parameter(what, x, accepted, lambda part: 0.0 < part <= 1.0)
        if not isinstance(self.motor, tuple):
            raise InvalidArgument("motor", self.motor, "it is a tuple of effects")

    def state_size(self, model: Model) -> int:
        """Length of the states of the motor's effects."""
        return sum(effect.state_size(model) for effect in self.motor)

    def initial_state(self, model: Model) -> list[float]:
        """Initial states of the motor's effects."""
        return [x for effect in self.motor for x in effect.initial_state(model)]

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """Torques after the gear, without its friction."""
        ratios, (_, tau) = (
            values_by_dof(context.model, self.ratio),
            self._motor_effects(context, state),
        )
        return [t * ratios.get(k, 1.0) for k, t in enumerate(tau)], None

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """States of the motor's effects after a step."""
        effects, _ = self._motor_effects(context, state)
        return [x for effect, inner, part in effects for x in effect.update(inner, part)]

    def implicit_torques(self, context: StepContext, state: Vector) -> list[ImplicitTorque]:
        """Implicit torques of the motor's effects at the joint, and friction of the gear."""
        ratios = values_by_dof(context.model, self.ratio)
        effects, _ = self._motor_effects(context, state)
        implicit: list[ImplicitTorque] = [
            _reflect_to_joint(x, ratios.get(x.dof, 1.0))
            for effect, inner, part in effects
            if isinstance(effect, ImplicitEffect)
            for x in effect.implicit_torques(inner, part)
        ]
        # friction of the gear: less torque comes out when it drives, more when it is driven
        model, (tau, _) = context.model, self.act(context, state)
        backdriving = self.efficiency if self.backdriving is None else self.backdriving
        for dof in ratios:
            driving = 1.0 - value_at_dof(model, self.efficiency, dof, 1.0)
            braking = 1.0 / value_at_dof(model, backdriving, dof, 1.0) - 1.0
            if may_be_nonzero(driving) or may_be_nonzero(braking):
                forward = less(0.0, tau[dof])
                lower = where(forward, -driving * tau[dof], braking * tau[dof])
                upper = where(forward, braking * tau[dof], -driving * tau[dof])
                implicit.append(VelocityConstraint(dof, lower, upper))
        return implicit

    def _motor_effects(
        self, context: StepContext, state: Vector
    ) -> tuple[list[tuple[Effect, StepContext, Vector]], list[Scalar]]:
        """The motor's effects, each with its context and state, and the torques after them."""
        inner, effects, first = self._motor_side(context), [], 0
        for effect in self.motor:
            part = state[first : first + effect.state_size(context.model)]
            first += len(part)
            effects.append((effect, inner, part))
            inner = dataclasses.replace(inner, tau=effect.act(inner, part)[0])
        return effects, inner.tau

    def _motor_side(self, context: StepContext) -> StepContext:
        """The context with the angles and speeds of the motors."""
        q, v, v_end = list(context.q), list(context.v), list(context.v_end)
        ratios = values_by_dof(context.model, self.ratio)
        for body in context.model.independent:
            if body.iv.start in ratios and body.joint.kind.nv == 1:
                ratio = ratios[body.iv.start]
                q[body.iq.start] = q[body.iq.start] * ratio
                for speeds in (v, v_end):
                    if speeds:
                        speeds[body.iv.start] = speeds[body.iv.start] * ratio
        return dataclasses.replace(context, q=q, v=v, v_end=v_end)


def _reflect_to_joint(x: ImplicitTorque, ratio: Scalar) -> ImplicitTorque:
    """An implicit torque at a motor, as it acts at the joint."""
    if isinstance(x, DampingTorque):
        return DampingTorque(x.dof, x.offset * ratio, x.slope * (ratio * ratio))
    forward = less(0.0, ratio)
    low, high = where(forward, x.lower, x.upper), where(forward, x.upper, x.lower)
    compliance = x.compliance if x.rigid else x.compliance / (ratio * ratio)
    return VelocityConstraint(x.dof, low * ratio, high * ratio, compliance, x.speed / ratio)


def with_rotors(robot: Robot, inertia: JointParameter, ratio: JointParameter = 1.0) -> Robot:
    """The same robot with rotors: each adds inertia · ratio² to M at its joint.

    `inertia` (kg m² at the rotor) and `ratio` are one for all joints of one freedom, or by joint;
    they take the place of the reflected inertia that those joints have.
    """
    check_not_negative("rotor inertia", inertia)
    check_parameter("ratio", ratio, "it is a number, not 0", lambda x: 0.0 < abs(x) < math.inf)
    model = robot.model
    rotors = values_by_dof(model, inertia)
    bodies = []
    for body in model.bodies:
        if body.joint.leader is None and body.iv.start in rotors and body.joint.kind.nv == 1:
            dof = body.iv.start
            drive = dataclasses.replace(
                body.joint.drivetrain,
                armature=0.0,
                rotor_inertia=float(rotors[dof]),
                gear_ratio=float(value_at_dof(model, ratio, dof, 1.0)),
            )
            joint = dataclasses.replace(body.joint, drivetrain=drive)
            body = dataclasses.replace(body, joint=joint)
        bodies.append(body)
    return Robot(dataclasses.replace(model, bodies=tuple(bodies)), robot.native)
