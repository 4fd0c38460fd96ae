"""Backlash: play between a motor and its link, which are two coordinates of a flexible robot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qddot.algorithms.recursion import Vector, zeros
from qddot.errors import InvalidArgument, UnknownName
from qddot.model.flexible import spong_map
from qddot.model.model import Body, Model
from qddot.simulate.drivetrain.parameters import (
    JointParameter,
    check_not_negative,
    check_positive,
)
from qddot.simulate.implicit_torques import ImplicitTorque, VelocityConstraint, largest
from qddot.simulate.plant import StatelessEffect, StepContext
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["Backlash"]


@dataclass(frozen=True)
class Backlash(StatelessEffect):
    """Teeth that touch only at the ends of a gap between the motor and the link of a joint.

    It needs a robot of `robot.with_flexible_joints`, and takes the place of its springs: within
    ± gap / 2 motor and link move freely of each other, beyond it they push with
    stiffness · depth + damping · rate, never pull. `stiffness` is that of the flexible joint where
    it is None. Parameters are one for all flexible joints, or by joint (its name before it was made
    flexible). Contact depends on the velocity at the end of a step, which is stable at any
    stiffness and damps the vibration of the teeth. With `at_stages` it acts at the stages of the
    integrator; rollouts choose that for the implicit ones that keep energy.
    """

    gap: JointParameter
    stiffness: JointParameter | None = None
    damping: JointParameter = 0.0
    at_stages: bool = False

    def __post_init__(self) -> None:
        check_positive("gap", self.gap)
        check_not_negative("damping", self.damping)
        if self.stiffness is not None:
            check_positive("stiffness", self.stiffness)

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """Torques plus those of the teeth that touch, at the stages; teeth never pull."""
        tau = list(context.tau)
        for name, body in self._springs(context.model).items() if self.at_stages else ():
            dof, stiffness = body.iv.start, self._stiffness(name, body)
            forward, backward = self._depths(name, context.q[body.iq.start])
            drag = context.v[dof] * _of_joint(name, self.damping)
            ahead = where(less(0.0, forward), largest(forward * stiffness + drag, 0.0), 0.0)
            behind = where(less(0.0, backward), largest(backward * stiffness - drag, 0.0), 0.0)
            tau[dof] = tau[dof] - ahead + behind
        return tau, None

    def implicit_torques(self, context: StepContext, state: Vector) -> list[ImplicitTorque]:
        """A compliant stop at each end of the gap."""
        stops: list[ImplicitTorque] = []
        for name, body in () if self.at_stages else self._springs(context.model).items():
            gap, damping = _of_joint(name, self.gap), _of_joint(name, self.damping)
            stiffness = self._stiffness(name, body)
            twist, dof = context.q[body.iq.start], body.iv.start
            compliance = 1.0 / (context.dt * stiffness + damping)
            for lower, upper, end in ((-math.inf, 0.0, gap / 2), (0.0, math.inf, -gap / 2)):
                speed = (twist - end) * stiffness * compliance
                stops.append(VelocityConstraint(dof, lower, upper, compliance, speed))
        return stops

    def stiffness_by_dof(self, model: Model) -> dict[int, float]:
        """The largest stiffness of the teeth of each joint, by velocity index."""
        springs = self._springs(model).items()
        return {b.iv.start: float(np.max(self._stiffness(name, b))) for name, b in springs}

    def joints(self, model: Model) -> list[str]:
        """Names of the joints whose springs have teeth in their place."""
        return [body.joint.name for body in self._springs(model).values()]

    def elastic_energy(self, model: Model, q: Vector, state: Vector) -> Scalar:
        """Energy (J) in the teeth that touch."""
        total: Scalar = 0.0
        for name, body in self._springs(model).items():
            forward, backward = self._depths(name, q[body.iq.start])
            depth = forward + backward
            total = total + depth * depth * self._stiffness(name, body) * 0.5
        return total

    @property
    def springs_at_end(self) -> bool:
        """Whether teeth touch by the velocity at the end of the step."""
        return not self.at_stages

    def spring_torques(self, context: StepContext) -> list[Scalar]:
        """Torques of teeth that touch, at a stage or at the end of a step with velocity v_end."""
        torques = zeros(context.model.nv)
        for name, body in self._springs(context.model).items():
            dof, twist = body.iv.start, context.q[body.iq.start]
            if not self.at_stages:
                twist = twist + context.v_end[dof] * context.dt
            forward, backward = self._depths(name, twist)
            torques[dof] = (backward - forward) * self._stiffness(name, body)
        return torques

    def _depths(self, name: str, twist: Scalar) -> tuple[Scalar, Scalar]:
        """How deep teeth are pressed at the forward and at the backward end of the gap."""
        half = _of_joint(name, self.gap) / 2
        return largest(twist - half, 0.0), largest(-twist - half, 0.0)

    def _stiffness(self, name: str, body: Body) -> Scalar:
        own = body.joint.drivetrain.stiffness
        return own if self.stiffness is None else _of_joint(name, self.stiffness, own)

    def _springs(self, model: Model) -> dict[str, Body]:
        """The bodies that move relative to their motors, by the name of the joint."""
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


def _of_joint(name: str, parameter: JointParameter, default: Scalar = 0.0) -> Scalar:
    """The value at a joint."""
    return parameter.get(name, default) if isinstance(parameter, Mapping) else parameter
