"""The plant: a robot under torques and effects, as the rates that integrators need.

An effect is frozen data with the text of what it does at a state: drivetrains change the torque
that reaches a joint, contacts push bodies. It may keep a memory, numbers that it renews once a
step: the deflection of bristles, a delay line, the impulses of the step before. Torques that depend
on the velocity at the end of a step (friction, stops) are solved for at its start, and held.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from qddot.algorithms.hybrid_dynamics import solve_accelerations
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, per_body, zeros
from qddot.model.model import Model
from qddot.simulate.motion import chart_rate, unalign
from qddot.simulate.resistance import Drag, Grip, largest, resistance
from qddot.spatial.algebra import Force
from qddot.spatial.scalar import Scalar, less, where

__all__ = [
    "ContactLaw",
    "Effect",
    "Moment",
    "Resisting",
    "RobotPlant",
    "Storing",
    "Striking",
    "Struck",
]


@dataclass(frozen=True)
class Moment:
    """What an effect sees: the model, a state, the torques asked for, the length of the step.

    `v_end` is the velocity at the end of the step, which is known when memories are renewed.
    """

    model: Model
    q: Vector
    v: Vector
    tau: list[Scalar]
    dt: Scalar
    v_end: Vector = ()


class Effect(Protocol):
    """Something between motor and world. `memory` is how many numbers it keeps for a model."""

    def memory(self, model: Model) -> int:
        """How many numbers are kept from step to step."""

    def start(self, model: Model) -> list[float]:
        """Those numbers before the first step."""

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], Sequence[Force] | None]:
        """Torques that reach the joints, and forces on the bodies in body coordinates (or None)."""

    def renew(self, at: Moment, memory: Vector) -> list[Scalar]:
        """The numbers to keep, from the state at the start of a step."""


@runtime_checkable
class Resisting(Protocol):
    """An effect with torques that depend on the velocity at the end of a step."""

    def resist(self, at: Moment, memory: Vector) -> Sequence[Drag | Grip]:
        """What resists during the step that starts at a state."""


@runtime_checkable
class Storing(Protocol):
    """An effect with springs."""

    def stored(self, model: Model, q: Vector, memory: Vector) -> Scalar:
        """Energy (J) in its springs."""


@dataclass(frozen=True)
class Struck:
    """The end of a step after impulses: state, memory, and by what velocity their law is missed."""

    q: list[Scalar]
    v: list[Scalar]
    memory: list[Scalar]
    miss: Scalar


@runtime_checkable
class Striking(Protocol):
    """An effect that holds joints where they stand, and gives impulses at the end of a step."""

    def standing(self, model: Model, q: Vector) -> Mapping[int, tuple[Scalar, Scalar]]:
        """By velocity, 1 where it can be pushed backward and where forward, else 0."""

    def strike(
        self, plant: RobotPlant, q: Vector, q_end: Vector, v_end: Vector, memory: Vector
    ) -> Struck:
        """The end of a step from q after the impulses."""


@dataclass(frozen=True)
class RobotPlant:
    """A robot during one step: torques at its start and end, effects and their memories, contact.

    `held` are the torques that resist during the step, `stuck` tells the velocities that they hold,
    and `missed` by what velocity those torques miss their laws.
    """

    model: Model
    start: Vector
    end: Vector
    dt: Scalar
    effects: tuple[Effect, ...] = ()
    memories: tuple[Vector, ...] = ()
    held: Vector = ()
    stuck: Mapping[int, Scalar] = field(default_factory=dict)
    missed: Scalar = 0.0
    contact: ContactLaw | None = None

    def torque(self, share: Scalar) -> list[Scalar]:
        """Torques asked for, a share of the step after its start."""
        return [a + (b - a) * share for a, b in zip(self.start, self.end, strict=True)]

    def loads(self, q: Vector, v: Vector, share: Scalar) -> tuple[list[Scalar], list[Force]]:
        """Torques on the joints and forces on the bodies at a state, all effects in turn."""
        _, tau, pushes = self._passage(q, v, share)
        if self.held:
            tau = [a + b for a, b in zip(tau, self.held, strict=True)]
        return tau, pushes

    def _passage(
        self, q: Vector, v: Vector, share: Scalar
    ) -> tuple[list[Moment], list[Scalar], list[Force]]:
        """What each effect sees, and the torques and forces after all of them."""
        tau, pushes = self.torque(share), per_body(self.model, Force.zero())
        seen = []
        for effect, memory in zip(self.effects, self.memories, strict=True):
            seen.append(Moment(self.model, q, v, tau, self.dt))
            tau, more = effect.act(seen[-1], memory)
            if more is not None:
                pushes = [a + b for a, b in zip(pushes, more, strict=True)]
        return seen, tau, pushes

    def renewed(self, q: Vector, v: Vector, v_end: Vector) -> list[list[Scalar]]:
        """The memories of the effects for the next step."""
        seen, _, _ = self._passage(q, v, 0.0)
        moments = [dataclasses.replace(at, v_end=v_end) for at in seen]
        each = zip(self.effects, moments, self.memories, strict=True)
        return [effect.renew(at, memory) for effect, at, memory in each]

    def resisting(self, q: Vector, v: Vector) -> list[Drag | Grip]:
        """All that resists during a step from a state, by the velocity at its end."""
        seen, _, _ = self._passage(q, v, 0.0)
        each = zip(self.effects, seen, self.memories, strict=True)
        return [
            part
            for effect, at, memory in each
            if isinstance(effect, Resisting)
            for part in effect.resist(at, memory)
        ]

    def resisted(self, q: Vector, v: Vector, damped: bool = False) -> RobotPlant:
        """This plant with the torques that resist from a state to the end of the step.

        `damped` says that the step takes the damping of the model's joints at its end.
        """
        if not any(isinstance(effect, Resisting) for effect in self.effects):
            return self
        model, (_, tau, pushes) = self.model, self._passage(q, v, 0.0)
        h = newton_euler(model, q, v, zeros(model.nv), pushes)
        drive = [t - x for t, x in zip(tau, h, strict=True)]
        damping = self._damping() if damped else zeros(model.nv)
        parts, M = self.resisting(q, v), mass_matrix(model, q)
        found = resistance(M, v, drive, self.dt, parts, damping)
        stuck = dict(found.stuck)
        # joints at their stops come to rest by impulses, which others feel
        for effect in self.effects:
            if isinstance(effect, Striking):
                for dof, (back, ahead) in effect.standing(model, q).items():
                    stuck[dof] = where(less(0.5, largest(back, ahead)), 0.0, stuck[dof])
        return dataclasses.replace(self, held=found.torque, stuck=stuck, missed=found.miss)

    def settled(self, q: Vector, q_end: Vector, v_end: Vector) -> tuple[list[Scalar], list[Scalar]]:
        """The end of a step from q with joints that stick where they were, and quite at rest."""
        q1, v1 = list(q_end), list(v_end)
        for body in self.model.independent:
            for dof in body.dofs:
                if dof in self.stuck:
                    sticks = less(0.5, self.stuck[dof])
                    v1[dof] = where(sticks, 0.0, v1[dof])
                    if body.joint.kind.nq == 1:
                        k = body.iq.start
                        q1[k] = where(sticks, q[k], q1[k])
        return q1, v1

    def struck(
        self, q: Vector, q_end: Vector, v_end: Vector
    ) -> tuple[RobotPlant, list[Scalar], list[Scalar]]:
        """The plant after the impulses at the end of a step from q, and the state after them."""
        q1, v1, memories, missed = list(q_end), list(v_end), list(self.memories), self.missed
        for k, effect in enumerate(self.effects):
            if isinstance(effect, Striking):
                found = effect.strike(self, q, q1, v1, memories[k])
                q1, v1, memories[k] = found.q, found.v, found.memory
                missed = largest(missed, found.miss)
        return dataclasses.replace(self, memories=tuple(memories), missed=missed), q1, v1

    def rate(self, q: Vector, w: Vector, share: Scalar) -> list[Scalar]:
        """Rate of the chart velocities at a state."""
        v = unalign(self.model, q, w)
        tau, pushes = self.loads(q, v, share)
        a, _ = solve_accelerations(self.model, q, v, zeros(self.model.nv), tau, pushes)
        return chart_rate(self.model, q, v, a)

    def damped_rate(self, q: Vector, w: Vector, dt: Scalar) -> list[Scalar]:
        """The rate with the damping of the model's joints taken at the end of the step.

        (M + Δt D) a = τ − C v − g − D v, which MuJoCo's Euler and implicitfast integrators solve:
        the robot with Δt D more reflected inertia.
        """
        v, model = unalign(self.model, q, w), self.model
        tau, pushes = self.loads(q, v, 0.0)
        rest = [t - d * s for t, d, s in zip(tau, self._damping(), v, strict=True)]
        a, _ = solve_accelerations(_heavier(model, dt), q, v, zeros(model.nv), rest, pushes)
        return chart_rate(model, q, v, a)

    def balance(self, q: Vector, v: Vector, dt: Scalar) -> tuple[Matrix, list[Scalar]]:
        """M + Δt D and τ − C v − g − D v, D the damping of the joints; without it where Δt is 0."""
        model = self.model
        tau, pushes = self.loads(q, v, 0.0)
        h, M = newton_euler(model, q, v, zeros(model.nv), pushes), mass_matrix(model, q)
        rest = [t - x for t, x in zip(tau, h, strict=True)]
        if type(dt) is float and dt == 0.0:
            return M, rest
        damping = self._damping()
        for k, d in enumerate(damping):
            M[k][k] = M[k][k] + d * dt
        return M, [r - d * s for r, d, s in zip(rest, damping, v, strict=True)]

    def _damping(self) -> list[Scalar]:
        """Damping of the model's joints, by velocity."""
        damping = zeros(self.model.nv)
        for body in self.model.bodies:
            for dof in body.dofs:
                loss = body.joint.drivetrain.damping * body.joint.ratio**2
                damping[dof] = damping[dof] + loss
        return damping


class ContactLaw(Protocol):
    """Contact that takes the place of an integrator: a step with impulses, kept to the next."""

    def memory(self, model: Model) -> int:
        """How many numbers are kept from step to step."""

    def start(self, model: Model) -> list[float]:
        """Those numbers before the first step."""

    def step(
        self, plant: RobotPlant, q: Vector, v: Vector, memory: Vector, damped: bool
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Configuration, velocities and memory after a step; `damped`: with implicit damping."""


def _heavier(model: Model, dt: Scalar) -> Model:
    """The model with the damping of its joints, times dt, as reflected inertia."""
    bodies = []
    for body in model.bodies:
        drive = body.joint.drivetrain
        more = replace(drive, armature=drive.armature + drive.damping * dt)
        bodies.append(replace(body, joint=replace(body.joint, drivetrain=more)))
    return replace(model, bodies=tuple(bodies))
