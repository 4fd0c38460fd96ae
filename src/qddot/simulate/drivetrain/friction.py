"""Friction of joints, by the velocity at the end of a step, so that it can hold them at rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from qddot.algorithms.friction import friction
from qddot.algorithms.recursion import Vector, zeros
from qddot.errors import InvalidArgument
from qddot.model.friction_models import FrictionModel
from qddot.model.model import Body, Model
from qddot.simulate.batch_parameters import may_be_nonzero
from qddot.simulate.drivetrain.parameters import (
    JointParameter,
    check_not_negative,
    check_positive,
    value_at_dof,
    values_by_dof,
)
from qddot.simulate.implicit_torques import DampingTorque, ImplicitTorque, VelocityConstraint
from qddot.simulate.plant import StatelessEffect, StepContext
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = ["Friction", "LuGre", "ModelLosses"]

Laws = FrictionModel | Mapping[str, FrictionModel]


@dataclass(frozen=True)
class Friction(StatelessEffect):
    """Friction by speed: a law of `friction_models` for all joints of one freedom, or by joint.

    It is set-valued: a joint at rest is held, without creep, by any torque up to the static level.
    With `smoothing`, a speed, the law is F(|v|) v / √(v² + smoothing²) in place of F(|v|) sign v: a
    joint under load never quite stops. Rollouts take the viscous part at the stages of the
    integrator (`at_stages`), which keeps its order, while that is stable for the step; else it is
    taken by the velocity at the end of the step, which is stable at any size.
    """

    law: Laws
    smoothing: Scalar | None = None
    at_stages: bool = False

    def __post_init__(self) -> None:
        _check_law(self.law)
        if self.smoothing is not None:
            check_positive("smoothing", self.smoothing)

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """Torques less those of viscous friction at the stages."""
        tau = list(context.tau)
        for dof, law in values_by_dof(context.model, self.law).items() if self.at_stages else ():
            v = context.v[dof]
            tau[dof] = tau[dof] - v * _by_direction(v, law.forward.viscous, law.backward.viscous)
        return tau, None

    def implicit_torques(self, context: StepContext, state: Vector) -> list[ImplicitTorque]:
        """Viscous damping, and a constraint bounded by the law at the speed of the joint."""
        implicit: list[ImplicitTorque] = []
        for dof, law in values_by_dof(context.model, self.law).items():
            v = context.v[dof]
            speed = _magnitude(v)
            forward, backward = law.forward.level(speed), law.backward.level(speed)
            viscous = _by_direction(v, law.forward.viscous, law.backward.viscous)
            slope = 0.0 if self.at_stages else viscous
            if self.smoothing is None:
                if may_be_nonzero(forward) or may_be_nonzero(backward):
                    implicit.append(VelocityConstraint(dof, -forward, backward))
            else:
                softened = sqrt(v * v + self.smoothing * self.smoothing)
                slope = slope + _by_direction(v, forward, backward) / softened
            if may_be_nonzero(slope):
                implicit.append(DampingTorque(dof, 0.0, slope))
        return implicit


@dataclass(frozen=True)
class LuGre:
    """Friction as bristles that bend before they slip (Canudas de Wit et al. 1995).

    F = σ₀ z + σ₁ ż + σ₂ v and ż = v − σ₀ |v| z / g(v), with g the level of the `law` at a speed and
    σ₂ its viscous part; at steady speed it is the law. `stiffness` is σ₀, `damping` σ₁. The
    bristles are stepped with the velocity at the end of the step, which is stable at any stiffness.
    Above the speed 4 g / σ₁, where bristles would give energy, σ₁ falls to 4 g / |v|.
    """

    law: Laws
    stiffness: JointParameter
    damping: JointParameter = 0.0

    def __post_init__(self) -> None:
        for label, law in _check_law(self.law):
            if not np.all(np.minimum(law.forward.coulomb, law.backward.coulomb)):
                raise InvalidArgument(label, law, "bristles need a Coulomb level above 0")
        check_positive("stiffness", self.stiffness)
        check_not_negative("damping", self.damping)

    def state_size(self, model: Model) -> int:
        """Deflection of the bristles and last change of the velocity, of each joint."""
        return 2 * len(values_by_dof(model, self.law))

    def initial_state(self, model: Model) -> list[float]:
        """Bristles that are not bent."""
        return [0.0] * self.state_size(model)

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """The torques, unchanged."""
        return context.tau, None

    def implicit_torques(self, context: StepContext, state: Vector) -> list[ImplicitTorque]:
        """Torque of the bristles at the end of the step, linear in the velocity there."""
        implicit: list[ImplicitTorque] = []
        for dof, law, z, change in self._joints(context.model, state):
            stiffness, v = self._stiffness(context.model, dof), context.v[dof] + change
            micro: Scalar = value_at_dof(context.model, self.damping, dof, 0.0)
            level, share = self._bristles(context, dof, law, change)
            # σ₁ falls where bristles would give energy
            if may_be_nonzero(micro):
                fast = less(level * 4.0, _magnitude(v) * micro)
                micro = where(fast, level * 4.0 / where(fast, _magnitude(v), 1.0), micro)
            offset = share * z * stiffness - (1.0 - share) * z * micro / context.dt
            slope = share * (context.dt * stiffness + micro)
            loss = _by_direction(v, law.forward.viscous, law.backward.viscous)
            implicit.append(DampingTorque(dof, offset, slope + loss))
        return implicit

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """Bristles bent by the motion of the step, less their slip."""
        bent, changes = [], []
        for dof, law, z, change in self._joints(context.model, state):
            _, share = self._bristles(context, dof, law, change)
            bent.append(share * (z + context.v_end[dof] * context.dt))
            changes.append(context.v_end[dof] - context.v[dof])
        return [*bent, *changes]

    def _joints(
        self, model: Model, state: Vector
    ) -> Iterator[tuple[int, FrictionModel, Scalar, Scalar]]:
        """Velocity indices with law, deflection, and last change of the velocity."""
        laws = values_by_dof(model, self.law)
        states = zip(state[: len(laws)], state[len(laws) :], strict=True)
        for (dof, law), (z, change) in zip(laws.items(), states, strict=True):
            yield dof, law, z, change

    def _bristles(
        self, context: StepContext, dof: int, law: FrictionModel, change: Scalar
    ) -> tuple[Scalar, Scalar]:
        """Level of the friction, and the share of the deflection that does not slip.

        With the slip rate of a speed s, z at the end is (z + Δt v) / (1 + Δt σ₀ s / g(s)), which
        gives no energy whatever s is; s is the speed that the last change leads to.
        """
        v = context.v[dof] + change
        speed = _magnitude(v)
        level = _by_direction(v, law.forward.level(speed), law.backward.level(speed))
        return level, level / (level + speed * (context.dt * self._stiffness(context.model, dof)))

    def _stiffness(self, model: Model, dof: int) -> Scalar:
        found = value_at_dof(model, self.stiffness, dof, 0.0)
        if not may_be_nonzero(found):
            name = model.velocity_names[dof]
            accepted = f"joint {name!r} has a law, so it needs a stiffness"
            raise InvalidArgument("stiffness", self.stiffness, accepted)
        return found


@dataclass(frozen=True)
class ModelLosses(StatelessEffect):
    """Springs, damping and friction of the joints of the model itself, as `robot.friction`.

    Rollouts have it by themselves; one that is given takes its place. Friction holds as `Friction`
    does. Damping and springs of `at_stages` act at each stage of the integrator, the others by the
    velocity at the end of the step, which is stable at any size. Joints of `teeth` have a backlash
    in place of their spring. The integrator "implicit_damping" has the damping already: with it,
    give `damping=False`.
    """

    springs: bool = True
    damping: bool = True
    friction: bool = True
    at_stages: tuple[str, ...] = ("springs",)
    teeth: tuple[str, ...] = ()
    in_place_of: ClassVar[tuple[str, ...]] = ("springs", "damping", "friction")

    @property
    def model_damping(self) -> bool:
        """Whether the damping of the model is part of this effect."""
        return self.damping

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """Torques plus those of springs and damping at the stages."""
        tau = list(context.tau)
        if self.springs and "springs" in self.at_stages:
            tau = [t - p for t, p in zip(tau, self._spring_torques(context), strict=True)]
        if self.damping and "damping" in self.at_stages:
            for body in context.model.bodies:
                slope = self._damping(body)
                for dof in body.dofs if may_be_nonzero(slope) else ():
                    tau[dof] = tau[dof] - slope * context.v[dof]
        return tau, None

    def elastic_energy(self, model: Model, q: Vector, state: Vector) -> Scalar:
        """Energy (J) in the springs of the joints."""
        total: Scalar = 0.0
        for body in model.bodies if self.springs else ():
            joint = body.joint
            if joint.name not in self.teeth:
                stretch = joint.kind.difference(joint.rest, joint.displacement(q[body.iq]))
                total = total + sum(x * x for x in stretch) * joint.drivetrain.stiffness * 0.5
        return total

    @property
    def springs_at_end(self) -> bool:
        """Whether the springs are those at the end of the step."""
        return self.springs and "springs" not in self.at_stages

    def spring_torques(self, context: StepContext) -> list[Scalar]:
        """Torques of the springs, at the stages or at the end of a step with velocity v_end."""
        if not self.springs:
            return zeros(context.model.nv)
        torques = [-x for x in self._spring_torques(context)]
        for body in context.model.bodies if self.springs_at_end else ():
            stiffness = self._stiffness(body) * body.joint.ratio**2
            for dof in body.dofs:
                torques[dof] = torques[dof] - stiffness * context.dt * context.v_end[dof]
        return torques

    def implicit_torques(self, context: StepContext, state: Vector) -> list[ImplicitTorque]:
        """Damping, friction and springs at the end of the step, at the velocities driving them."""
        implicit: list[ImplicitTorque] = []
        for body in context.model.bodies:
            drive, ratio = body.joint.drivetrain, body.joint.ratio
            forward, backward = (level * abs(ratio) for level in drive.friction_levels)
            if ratio < 0.0:
                # a follower that moves against its leader
                forward, backward = backward, forward
            slope = self._damping(body)
            for dof in body.dofs:
                if self.damping and "damping" not in self.at_stages and may_be_nonzero(slope):
                    implicit.append(DampingTorque(dof, 0.0, slope))
                if self.friction and (may_be_nonzero(forward) or may_be_nonzero(backward)):
                    implicit.append(VelocityConstraint(dof, -forward, backward))
        if self.springs_at_end:
            torques = self._spring_torques(context)
            for body in context.model.bodies:
                stiffness = self._stiffness(body) * body.joint.ratio**2
                for dof in body.dofs if may_be_nonzero(stiffness) else ():
                    # of coupled joints, the sum stands at the first
                    offset, torques[dof] = torques[dof], 0.0
                    implicit.append(DampingTorque(dof, offset, stiffness * context.dt))
        return implicit

    def _spring_torques(self, context: StepContext) -> list[Scalar]:
        """Torques that the springs take, by velocity."""
        model = context.model
        if self.teeth:
            bodies = []
            for body in model.bodies:
                drive = replace(body.joint.drivetrain, stiffness=self._stiffness(body))
                bodies.append(replace(body, joint=replace(body.joint, drivetrain=drive)))
            model = replace(model, bodies=tuple(bodies))
        return friction(model, context.q, zeros(model.nv))

    def _stiffness(self, body: Body) -> Scalar:
        return 0.0 if body.joint.name in self.teeth else body.joint.drivetrain.stiffness

    def _damping(self, body: Body) -> Scalar:
        """Damping at the velocity that drives a joint; teeth have their own."""
        own = body.joint.drivetrain.damping * body.joint.ratio**2
        return 0.0 if body.joint.name in self.teeth else own


def _magnitude(v: Scalar) -> Scalar:
    return where(less(v, 0.0), -v, v)


def _by_direction(v: Scalar, forward: Scalar, backward: Scalar) -> Scalar:
    """The value for the direction of a velocity."""
    same = isinstance(forward, float) and isinstance(backward, float) and forward == backward
    return forward if same or forward is backward else where(less(v, 0.0), backward, forward)


def _check_law(laws: Any) -> list[tuple[str, FrictionModel]]:
    """The laws, validated, each with a label."""
    named = laws.items() if isinstance(laws, Mapping) else (("", laws),)
    found = [(f"law of joint {name!r}" if name else "law", law) for name, law in named]
    accepted = "a law comes from viscous, coulomb, stiction, stribeck or asymmetric"
    if not found:
        raise InvalidArgument("law", laws, f"it names no joint; {accepted}")
    for label, law in found:
        if not isinstance(law, FrictionModel):
            raise InvalidArgument(label, law, accepted)
    return found
