"""The plant: a robot under torques and effects, as the rates that integrators need.

An effect is frozen data and functions of scalars: a drivetrain changes the torque that reaches a
joint, a contact exerts forces on bodies. It may have a state, numbers that it updates once a step:
the deflection of bristles, a delay line, the impulses of the step before. Torques that depend on
the velocity at the end of a step (friction, stops) are solved for at its start, and held.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from qddot.algorithms.hybrid_dynamics import solve_accelerations
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.kinematics import ReferenceAxes, external_forces, world_poses
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, joint_kinematics, per_body, zeros
from qddot.model.model import WORLD, Model
from qddot.simulate.implicit_torques import (
    ImplicitTorque,
    ImplicitTorques,
    VelocityConstraint,
    largest,
    solve_implicit_torques,
)
from qddot.simulate.loops import ClosedLoops
from qddot.simulate.motion import chart_rate, unalign
from qddot.spatial.algebra import Force
from qddot.spatial.regions import run_where
from qddot.spatial.scalar import Scalar, less, where

__all__ = [
    "AfterImpulses",
    "ContactLaw",
    "ContactLoads",
    "Effect",
    "ElasticEffect",
    "ImpactEffect",
    "ImplicitEffect",
    "JointSprings",
    "RobotPlant",
    "StatelessEffect",
    "StepContext",
    "StepLaw",
    "felt_wrench",
]


StepLaw = Callable[[Vector, Vector, Scalar], list[Scalar]]
"""Torques of a feedback law at a state, a share of the step after its start."""


@dataclass(frozen=True)
class StepContext:
    """Inputs of an effect: the model, a state, the torques before the effect, the step length.

    `v_end` is the velocity at the end of the step, known when states of effects are updated.
    """

    model: Model
    q: Vector
    v: Vector
    tau: list[Scalar]
    dt: Scalar
    v_end: Vector = ()


class Effect(Protocol):
    """An effect between motors and world, with a state of `state_size` numbers."""

    def state_size(self, model: Model) -> int:
        """Length of the state."""

    def initial_state(self, model: Model) -> list[float]:
        """The state before the first step: a pure function of the effect and the model.

        That of an effect whose fields cannot be changed is found once for all rollouts.
        """

    def act(
        self, context: StepContext, state: Vector
    ) -> tuple[list[Scalar], Sequence[Force] | None]:
        """Torques after the effect, and forces on the bodies in body coordinates (or None)."""

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """The state after a step; q and v are at its start."""


class StatelessEffect:
    """The methods of an effect without a state that leaves torques as they are."""

    def state_size(self, model: Model) -> int:
        """No state."""
        return 0

    def initial_state(self, model: Model) -> list[float]:
        """No state."""
        return []

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """The torques, unchanged."""
        return context.tau, None

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """No state."""
        return []


@runtime_checkable
class ImplicitEffect(Protocol):
    """An effect with torques that depend on the velocity at the end of a step."""

    def implicit_torques(self, context: StepContext, state: Vector) -> Sequence[ImplicitTorque]:
        """The implicit torques of the step that starts at a state."""


@runtime_checkable
class ElasticEffect(Protocol):
    """An effect with springs."""

    def elastic_energy(self, model: Model, q: Vector, state: Vector) -> Scalar:
        """Energy (J) in its springs."""


@runtime_checkable
class JointSprings(ElasticEffect, Protocol):
    """An effect with springs of joints, at the stages of an integrator or at the end of a step."""

    @property
    def springs_at_end(self) -> bool:
        """Whether the springs are those at the end of the step, which damps them."""

    def spring_torques(self, context: StepContext) -> list[Scalar]:
        """Torques of the springs, by velocity: at a state, or at the end of a step with v_end."""


@runtime_checkable
class ContactLoads(Protocol):
    """Something that pushes on bodies, which a sensor of force feels."""

    def contact_loads(self, context: StepContext, state: Vector) -> Sequence[Force]:
        """Forces on the bodies at the start of a step, in body coordinates."""


def felt_wrench(
    context: StepContext, frame: str, parts: Sequence[tuple[ContactLoads, Vector]]
) -> list[Scalar]:
    """Contact wrench [f; n] on the body of a frame, at its origin, in axes of the world.

    `parts` are what pushes, with their states.
    """
    model, place = context.model, context.model.frame(frame)
    if place.body == WORLD:
        return [0.0] * 6
    total = Force.zero()
    for part, state in parts:
        total = total + part.contact_loads(context, state)[place.body]
    moment = total.ang - place.placement.p.cross(total.lin)
    R = world_poses(model, joint_kinematics(model, context.q)[0])[place.body].R
    return [*R.apply(total.lin), *R.apply(moment)]


@dataclass(frozen=True)
class AfterImpulses:
    """The end of a step after impulses: q, v, the state of the effect, residual velocity."""

    q: list[Scalar]
    v: list[Scalar]
    state: list[Scalar]
    residual: Scalar


@runtime_checkable
class ImpactEffect(Protocol):
    """An effect that holds joints at their stops, and gives impulses at the end of a step."""

    def joints_at_stops(self, model: Model, q: Vector) -> Mapping[int, tuple[Scalar, Scalar]]:
        """By velocity: 1 where a stop can push it backward, and where forward, else 0."""

    def apply_impulses(
        self, plant: RobotPlant, q: Vector, q_end: Vector, v_end: Vector, state: Vector
    ) -> AfterImpulses:
        """The end of a step from q after the impulses."""


@dataclass(frozen=True)
class RobotPlant:
    """A robot during one step: torques at its start and end, effects and states, contact, loops.

    `wrenches` are external wrenches at frames, with the axes that they are given in, constant
    during the step. A `law` adds its torques at each state; `law_damping` K adds −K (v − v₀), with
    v the velocity at the end of the step and v₀ that at its start: `law_reaction`, one of the
    implicit torques.
    `implicit` are the torques that depend on the velocity at the end of the step, `sticking` is 1
    at the velocities that friction holds at zero, `implicit_end` the velocities at the end of the
    step that they are solved for, and `residual` the largest velocity by which they
    violate their constraints. `acceleration` is that at the start of the step with them, if it was
    found with them.
    """

    model: Model
    tau_start: Vector
    tau_end: Vector
    dt: Scalar
    effects: tuple[Effect, ...] = ()
    states: tuple[Vector, ...] = ()
    implicit: Vector = ()
    implicit_end: Vector = ()
    sticking: Mapping[int, Scalar] = field(default_factory=dict)
    residual: Scalar = 0.0
    contact: ContactLaw | None = None
    loops: ClosedLoops | None = None
    wrenches: tuple[tuple[str, ReferenceAxes, Vector], ...] = ()
    law: StepLaw | None = None
    law_damping: Matrix | None = None
    law_reaction: Vector = ()
    acceleration: Vector = ()

    def torque(self, q: Vector, v: Vector, share: Scalar) -> list[Scalar]:
        """Torques at a state before all effects, a share of the step after its start."""
        pairs = zip(self.tau_start, self.tau_end, strict=True)
        given = [a + (b - a) * share for a, b in pairs]
        if self.law is None:
            return given
        return [a + b for a, b in zip(given, self.law(q, v, share), strict=True)]

    def external_forces(self, q: Vector) -> list[Force]:
        """Forces of the external wrenches on the bodies, in body coordinates."""
        if not self.wrenches:
            return per_body(self.model, Force.zero())
        places = [(frame, reference) for frame, reference, _ in self.wrenches]
        return external_forces(self.model, q, places, [value for *_, value in self.wrenches])

    def loads(self, q: Vector, v: Vector, share: Scalar) -> tuple[list[Scalar], list[Force]]:
        """Torques on the joints and forces on the bodies at a state, after all effects."""
        _, tau, forces = self._apply_effects(q, v, share)
        if self.implicit:
            tau = [a + b for a, b in zip(tau, self.implicit, strict=True)]
        return tau, forces

    def _apply_effects(
        self, q: Vector, v: Vector, share: Scalar
    ) -> tuple[list[StepContext], list[Scalar], list[Force]]:
        """The context of each effect, and torques and forces after all of them."""
        tau, forces = self.torque(q, v, share), self.external_forces(q)
        contexts = []
        for effect, state in zip(self.effects, self.states, strict=True):
            contexts.append(StepContext(self.model, q, v, tau, self.dt))
            tau, added = effect.act(contexts[-1], state)
            if added is not None:
                forces = [a + b for a, b in zip(forces, added, strict=True)]
        return contexts, tau, forces

    def update_states(self, q: Vector, v: Vector, v_end: Vector) -> list[list[Scalar]]:
        """The states of the effects after the step."""
        contexts, _, _ = self._apply_effects(q, v, 0.0)
        contexts = [dataclasses.replace(context, v_end=v_end) for context in contexts]
        rows = zip(self.effects, contexts, self.states, strict=True)
        return [effect.update(context, state) for effect, context, state in rows]

    def implicit_torques(self, q: Vector, v: Vector) -> list[ImplicitTorque]:
        """The implicit torques of all effects, for a step from a state."""
        contexts, _, _ = self._apply_effects(q, v, 0.0)
        rows = zip(self.effects, contexts, self.states, strict=True)
        return [
            torque
            for effect, context, state in rows
            if isinstance(effect, ImplicitEffect)
            for torque in effect.implicit_torques(context, state)
        ]

    def with_implicit_torques(self, q: Vector, v: Vector, damped: bool = False) -> RobotPlant:
        """This plant with its implicit torques solved for, during a step from a state.

        `damped` says that the step takes the damping of the model's joints at its end.
        """
        implicit = any(isinstance(effect, ImplicitEffect) for effect in self.effects)
        if not implicit and self.law_damping is None:
            return self
        torques = self.implicit_torques(q, v)
        dofs = [x.dof for x in torques if isinstance(x, VelocityConstraint) and x.rigid]
        sticks, nv = list(dict.fromkeys(dofs)), self.model.nv
        acts = self._needs_implicit_torques(torques)
        if type(acts) is float and acts == 1.0:
            solution = self._solve_implicit_torques(q, v, torques, damped)
        else:
            # stops only, at which no joint may be

            def solve(_: list[Scalar]) -> list[Scalar]:
                found = self._solve_implicit_torques(q, v, torques, damped)
                return [*found.torque, *(found.sticking[k] for k in sticks), found.residual]

            numbers = run_where(acts, solve, zeros(nv + len(sticks) + 1))
            flags = dict(zip(sticks, numbers[nv:-1], strict=True))
            solution = ImplicitTorques(numbers[:nv], flags, numbers[-1])
        # joints at their stops come to rest by impulses, which move other joints: they do not stick
        sticking = dict(solution.sticking)
        for effect in self.effects:
            if isinstance(effect, ImpactEffect):
                for dof, (backward, forward) in effect.joints_at_stops(self.model, q).items():
                    stopped = less(0.5, largest(backward, forward))
                    sticking[dof] = where(stopped, 0.0, sticking[dof])
        return dataclasses.replace(
            self,
            implicit=solution.torque,
            implicit_end=solution.v_end,
            sticking=sticking,
            residual=solution.residual,
            law_reaction=solution.by_gains,
            acceleration=solution.acceleration,
        )

    def _needs_implicit_torques(self, torques: Sequence[ImplicitTorque]) -> Scalar:
        """1 where an implicit torque can be other than zero, else 0."""
        if self.law_damping is not None:
            return 1.0
        acts: Scalar = 0.0
        for torque in torques:
            if isinstance(torque, VelocityConstraint):
                acts = where(less(torque.lower, torque.upper), 1.0, acts)
            else:
                acts = 1.0
            if type(acts) is float and acts == 1.0:
                return 1.0
        return acts

    def _solve_implicit_torques(
        self, q: Vector, v: Vector, torques: Sequence[ImplicitTorque], damped: bool
    ) -> ImplicitTorques:
        """Solve for the implicit torques during a step from a state."""
        # M, and the torques that accelerate the robot: τ − h
        model, (_, tau, forces) = self.model, self._apply_effects(q, v, 0.0)
        h = newton_euler(model, q, v, zeros(model.nv), forces)
        drive = [t - x for t, x in zip(tau, h, strict=True)]
        damping = self._damping() if damped else zeros(model.nv)
        closure = None
        if self.loops:
            closure = self.loops.rows(model, q), self.loops.bias(model, q, v)
        return solve_implicit_torques(
            mass_matrix(model, q),
            v=v,
            drive=drive,
            dt=self.dt,
            implicit=torques,
            damping=damping,
            loops=closure,
            gains=self.law_damping,
        )

    def hold_sticking(
        self, q: Vector, q_end: Vector, v_end: Vector
    ) -> tuple[list[Scalar], list[Scalar]]:
        """The end of a step from q with sticking joints where they were, and exactly at rest."""
        q1, v1 = list(q_end), list(v_end)
        for body in self.model.independent:
            for dof in body.dofs:
                if dof in self.sticking:
                    sticks = less(0.5, self.sticking[dof])
                    v1[dof] = where(sticks, 0.0, v1[dof])
                    if body.joint.kind.nq == 1:
                        k = body.iq.start
                        q1[k] = where(sticks, q[k], q1[k])
        return q1, v1

    @property
    def keeps_end(self) -> bool:
        """Whether the end of a step stays as it is: no joint can stick, or be at a stop."""
        return not self.sticking and not any(isinstance(x, ImpactEffect) for x in self.effects)

    def apply_impulses(
        self, q: Vector, q_end: Vector, v_end: Vector
    ) -> tuple[RobotPlant, list[Scalar], list[Scalar]]:
        """The plant after the impulses at the end of a step from q, and the state after them."""
        q1, v1, states, residual = list(q_end), list(v_end), list(self.states), self.residual
        for k, effect in enumerate(self.effects):
            if isinstance(effect, ImpactEffect):
                end = effect.apply_impulses(self, q, q1, v1, states[k])
                q1, v1, states[k] = end.q, end.v, end.state
                residual = largest(residual, end.residual)
        return dataclasses.replace(self, states=tuple(states), residual=residual), q1, v1

    def rate(self, q: Vector, w: Vector, share: Scalar) -> list[Scalar]:
        """Rate of the chart velocities at a state."""
        v = unalign(self.model, q, w)
        if self.acceleration and type(share) is float and share == 0.0:
            return chart_rate(self.model, q, v, self.acceleration)
        tau, forces = self.loads(q, v, share)
        a = self._accelerations(self.model, q, v, tau, forces)
        return chart_rate(self.model, q, v, a)

    def _accelerations(
        self, model: Model, q: Vector, v: Vector, tau: Vector, forces: list[Force]
    ) -> list[Scalar]:
        """Accelerations of a model, this one or a heavier one, with its loops closed."""
        if self.loops:
            return self.loops.accelerations(model, q, v, mass_matrix(model, q), tau, forces)
        a, _ = solve_accelerations(model, q, v, zeros(model.nv), tau, forces)
        return a

    def damped_rate(self, q: Vector, w: Vector, dt: Scalar) -> list[Scalar]:
        """The rate with the damping of the model's joints taken at the end of the step.

        (M + Δt D) a = τ − C v − g − D v, which MuJoCo's Euler and implicitfast integrators solve:
        the robot with Δt D more reflected inertia.
        """
        v, model = unalign(self.model, q, w), self.model
        if self.acceleration:
            return chart_rate(model, q, v, self.acceleration)
        tau, forces = self.loads(q, v, 0.0)
        rest = [t - d * s for t, d, s in zip(tau, self._damping(), v, strict=True)]
        bodies = []
        for body in model.bodies:
            drive = body.joint.drivetrain
            heavier = replace(drive, armature=drive.armature + drive.damping * dt)
            bodies.append(replace(body, joint=replace(body.joint, drivetrain=heavier)))
        heavy = replace(model, bodies=tuple(bodies))
        return chart_rate(model, q, v, self._accelerations(heavy, q, v, rest, forces))

    def equation_of_motion(self, q: Vector, v: Vector, dt: Scalar) -> tuple[Matrix, list[Scalar]]:
        """M + Δt D and τ − C v − g − D v, D the damping of the joints; without it where Δt is 0."""
        model = self.model
        tau, forces = self.loads(q, v, 0.0)
        h, M = newton_euler(model, q, v, zeros(model.nv), forces), mass_matrix(model, q)
        rest = [t - x for t, x in zip(tau, h, strict=True)]
        if self.law_damping is not None:
            # gains of the law at the end of the step: (M + Δt K) a = τ − h
            pairs = zip(M, self.law_damping, strict=True)
            M = [[m + k * self.dt for m, k in zip(*rows, strict=True)] for rows in pairs]
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
                added = body.joint.drivetrain.damping * body.joint.ratio**2
                damping[dof] = damping[dof] + added
        return damping


class ContactLaw(Protocol):
    """Contact that takes the place of an integrator: a step with impulses, which are its state."""

    def state_size(self, model: Model) -> int:
        """Length of the state."""

    def initial_state(self, model: Model) -> list[float]:
        """The state before the first step: a pure function of the law and the model."""

    def step(
        self, plant: RobotPlant, q: Vector, v: Vector, state: Vector, damped: bool
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Configuration, velocities and state after a step; `damped`: with implicit damping."""
