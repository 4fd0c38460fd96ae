"""Friction of joints, found with the velocity at the end of a step, so that it can hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.algorithms.friction import friction as losses
from qddot.algorithms.recursion import Vector, zeros
from qddot.errors import InvalidArgument
from qddot.model.friction_models import FrictionModel
from qddot.model.model import Model
from qddot.simulate.drivetrain.figures import (
    Figures,
    Memoryless,
    driven,
    not_negative,
    positive,
    share,
)
from qddot.simulate.lifted import present
from qddot.simulate.plant import Moment
from qddot.simulate.resistance import Drag, Grip
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = ["Friction", "LuGre", "ModelLosses"]

Laws = FrictionModel | Mapping[str, FrictionModel]


@dataclass(frozen=True)
class Friction(Memoryless):
    """Friction by speed: a law of `friction_models` for all joints of one freedom, or by joint.

    It is set-valued: a joint at rest is held, without creep, by any torque up to the static level.
    With `smoothing`, a speed, the law is F(|v|) v / √(v² + smoothing²) in place of F(|v|) sign v: a
    joint under load never quite stops.
    """

    law: Laws
    smoothing: Scalar | None = None

    def __post_init__(self) -> None:
        _check_law(self.law)
        if self.smoothing is not None:
            positive("smoothing", self.smoothing)

    def resist(self, at: Moment, memory: Vector) -> list[Drag | Grip]:
        """Viscous drag, and a grip as strong as the law says at the speed of the joint."""
        parts: list[Drag | Grip] = []
        for dof, law in driven(at.model, self.law).items():
            v = at.v[dof]
            speed = _size(v)
            ahead, back = law.forward.level(speed), law.backward.level(speed)
            slope = _of_way(v, law.forward.viscous, law.backward.viscous)
            if self.smoothing is None:
                parts.append(Grip(dof, -ahead, back))
            else:
                softened = sqrt(v * v + self.smoothing * self.smoothing)
                slope = slope + _of_way(v, ahead, back) / softened
            parts.append(Drag(dof, 0.0, slope))
        return parts


@dataclass(frozen=True)
class LuGre:
    """Friction as bristles that bend before they slip (Canudas de Wit et al. 1995).

    F = σ₀ z + σ₁ ż + σ₂ v and ż = v − σ₀ |v| z / g(v), with g the level of the `law` at a speed and
    σ₂ its viscous part; at steady speed it is the law. `stiffness` is σ₀, `damping` σ₁. The
    bristles are stepped with the velocity at the end of the step, which is stable at any stiffness.
    Above the speed 4 g / σ₁, where bristles would give energy, σ₁ falls to 4 g / |v|.
    """

    law: Laws
    stiffness: Figures
    damping: Figures = 0.0

    def __post_init__(self) -> None:
        for label, law in _check_law(self.law):
            if not np.all(np.minimum(law.forward.coulomb, law.backward.coulomb)):
                raise InvalidArgument(label, law, "bristles need a Coulomb level above 0")
        positive("stiffness", self.stiffness)
        not_negative("damping", self.damping)

    def memory(self, model: Model) -> int:
        """The deflection of each joint's bristles, and by how much its velocity last changed."""
        return 2 * len(driven(model, self.law))

    def start(self, model: Model) -> list[float]:
        """Bristles at ease."""
        return [0.0] * self.memory(model)

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """Torques pass as they are."""
        return at.tau, None

    def resist(self, at: Moment, memory: Vector) -> list[Drag | Grip]:
        """Drag of the bristles as they will be at the end of the step."""
        parts: list[Drag | Grip] = []
        for dof, law, z, change in self._joints(at.model, memory):
            stiffness, v = self._stiffness(at.model, dof), at.v[dof] + change
            micro: Scalar = share(at.model, self.damping, dof, 0.0)
            level, kept = self._bristles(at, dof, law, change)
            if present(micro):
                fast = less(level * 4.0, _size(v) * micro)
                micro = where(fast, level * 4.0 / where(fast, _size(v), 1.0), micro)
            offset = kept * z * stiffness - (1.0 - kept) * z * micro / at.dt
            slope = kept * (at.dt * stiffness + micro)
            loss = _of_way(v, law.forward.viscous, law.backward.viscous)
            parts.append(Drag(dof, offset, slope + loss))
        return parts

    def renew(self, at: Moment, memory: Vector) -> list[Scalar]:
        """Bristles bent by the motion of the step, less what slipped."""
        bent, changes = [], []
        for dof, law, z, change in self._joints(at.model, memory):
            _, kept = self._bristles(at, dof, law, change)
            bent.append(kept * (z + at.v_end[dof] * at.dt))
            changes.append(at.v_end[dof] - at.v[dof])
        return [*bent, *changes]

    def _joints(
        self, model: Model, memory: Vector
    ) -> Iterator[tuple[int, FrictionModel, Scalar, Scalar]]:
        """Velocities with their law, deflection and last change."""
        laws = driven(model, self.law)
        kept = zip(memory[: len(laws)], memory[len(laws) :], strict=True)
        for (dof, law), (z, change) in zip(laws.items(), kept, strict=True):
            yield dof, law, z, change

    def _bristles(
        self, at: Moment, dof: int, law: FrictionModel, change: Scalar
    ) -> tuple[Scalar, Scalar]:
        """Level of the friction, and the part of the deflection that does not slip.

        With the slip rate of a speed s, z at the end is (z + Δt v) / (1 + Δt σ₀ s / g(s)), which
        gives no energy whatever s is; s is the speed that the last change leads to.
        """
        v = at.v[dof] + change
        speed = _size(v)
        level = _of_way(v, law.forward.level(speed), law.backward.level(speed))
        return level, level / (level + speed * (at.dt * self._stiffness(at.model, dof)))

    def _stiffness(self, model: Model, dof: int) -> Scalar:
        found = share(model, self.stiffness, dof, 0.0)
        if not present(found):
            name = model.velocity_names[dof]
            accepted = f"joint {name!r} has a law, so it needs a stiffness"
            raise InvalidArgument("stiffness", self.stiffness, accepted)
        return found


@dataclass(frozen=True)
class ModelLosses(Memoryless):
    """What the joints of the model itself have, as `robot.friction`: springs, damping, friction.

    Friction holds as `Friction` does. The integrator "implicit_damping" has the damping already:
    with it, give `damping=False`.
    """

    springs: bool = True
    damping: bool = True

    @property
    def model_damping(self) -> bool:
        """Whether the damping of the model is part of this effect."""
        return self.damping

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """Torques less those of the springs."""
        if not self.springs:
            return at.tau, None
        pull = losses(at.model, at.q, zeros(at.model.nv))
        return [t - p for t, p in zip(at.tau, pull, strict=True)], None

    def stored(self, model: Model, q: Vector, memory: Vector) -> Scalar:
        """Energy (J) in the springs of the joints."""
        total: Scalar = 0.0
        for body in model.bodies if self.springs else ():
            joint = body.joint
            stretch = joint.kind.difference(joint.rest, joint.displacement(q[body.iq]))
            total = total + sum(x * x for x in stretch) * joint.drivetrain.stiffness * 0.5
        return total

    def resist(self, at: Moment, memory: Vector) -> list[Drag | Grip]:
        """Damping and friction of the joints, at the velocities that drive them."""
        parts: list[Drag | Grip] = []
        for body in at.model.bodies:
            drive, ratio = body.joint.drivetrain, body.joint.ratio
            ahead, back = (level * abs(ratio) for level in drive.friction_levels)
            if ratio < 0.0:
                # a follower that moves against its leader
                ahead, back = back, ahead
            for dof in body.dofs:
                if self.damping and present(drive.damping):
                    parts.append(Drag(dof, 0.0, drive.damping * ratio**2))
                if present(ahead) or present(back):
                    parts.append(Grip(dof, -ahead, back))
        return parts


def _size(v: Scalar) -> Scalar:
    return where(less(v, 0.0), -v, v)


def _of_way(v: Scalar, ahead: Scalar, back: Scalar) -> Scalar:
    """What belongs to the direction of a velocity."""
    return ahead if ahead is back else where(less(v, 0.0), back, ahead)


def _check_law(laws: Any) -> list[tuple[str, FrictionModel]]:
    """The laws with a label, all of them laws."""
    named = laws.items() if isinstance(laws, Mapping) else (("", laws),)
    found = [(f"law of joint {name!r}" if name else "law", law) for name, law in named]
    accepted = "a law comes from viscous, coulomb, stiction, stribeck or asymmetric"
    if not found:
        raise InvalidArgument("law", laws, f"it names no joint; {accepted}")
    for label, law in found:
        if not isinstance(law, FrictionModel):
            raise InvalidArgument(label, law, accepted)
    return found
