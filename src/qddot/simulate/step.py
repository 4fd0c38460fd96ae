"""One step of a rollout: its shapes, the function of scalars that it is, and its compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

import numpy as np

from qddot.algorithms.catalogue import sizes
from qddot.algorithms.kinematics import ReferenceAxes
from qddot.algorithms.recursion import Matrix, Vector
from qddot.compile.ir.scan import ScanShapes
from qddot.compile.kernel import Kernel, KernelSource, compile_kernel
from qddot.model.model import Model
from qddot.model.reframing import condense
from qddot.robot.content import content_digest, content_of, is_portable
from qddot.robot.native import PARAMETERS
from qddot.simulate.batch_parameters import insert_inputs, is_immutable
from qddot.simulate.feedback import Controller, LawInputs, Sensor, Shapes
from qddot.simulate.integrators import find_integrator
from qddot.simulate.loops import ClosedLoops
from qddot.simulate.motion import align, unalign
from qddot.simulate.plant import (
    ContactLaw,
    ContactLoads,
    Effect,
    ImpactEffect,
    ImplicitEffect,
    RobotPlant,
    StepContext,
    StepLaw,
    felt_wrench,
)
from qddot.simulate.substeps import DividedStep, take_substeps
from qddot.spatial.scalar import Scalar, less, maximum, where

__all__ = [
    "CLOCK",
    "DIVISION",
    "LOOPS",
    "Hold",
    "KeyedSource",
    "Step",
    "StepStart",
    "find_kernel",
]

LOOPS = "loops"
"""The residual of loop closures: the largest opening after a step, m or rad."""
DIVISION = "division of steps"
"""The residual of steps that are taken in parts: the largest error, as a share of the speed."""
DIVIDED_ORDER = 4
"""The least order of integrators whose steps are taken in parts."""
CLOCK = 2
"""The place in the carry of the number of steps since the last sample."""
Hold = Literal["zero", "linear"]


@dataclass(frozen=True)
class StepStart:
    """The start of a step: the plant under its torques, the state, and the states of effects.

    `states` belong to effects, sensors, the law and contact, before the step, `sensor_states` to
    sensors and the law, after it; `clock` is the number of steps since the last sample, after it.
    """

    plant: RobotPlant
    q: Vector
    v: Vector
    clock: Scalar
    states: Sequence[Vector]
    sensor_states: Sequence[Vector]


@dataclass(frozen=True)
class Step:
    """A step of a robot with its integrator, effects, feedback law, sensors and contact.

    `parameters` names the constants of the robot that are inputs, `array_count` is the number of
    array parameters of effects, sensors and contact that are. With `record` the states of these
    are outputs at each sample. `loops` are kept closed. `damped` says that a semi-implicit step has
    the damping of the model's joints at its end. `notes` tell of physics that is not part of it.
    `wrenches` are the frames of external wrenches, with the axes these are given in. `immutable`
    says that no component can be changed.
    """

    model: Model
    integrator: str = "semi_implicit"
    hold: Hold = "zero"
    effects: tuple[Effect, ...] = ()
    parameters: tuple[str, ...] = ()
    feedback: Controller | None = None
    sensors: tuple[Sensor, ...] = ()
    contact: ContactLaw | None = None
    record: bool = False
    array_count: int = 0
    loops: ClosedLoops | None = None
    damped: bool = False
    notes: tuple[str, ...] = field(default=(), compare=False)
    wrenches: tuple[tuple[str, ReferenceAxes], ...] = ()
    immutable: bool = field(default=False, compare=False, repr=False)

    def evaluate(self, *values: Any) -> list[Any]:
        """One step, from the inputs of `shapes` to the numbers of the carry after it."""
        # torques: samples, sensors, feedback
        start = self.begin(*values)
        plant, q, v, model = start.plant, start.q, start.v, start.plant.model
        residuals: list[Any] = []
        parts: DividedStep | None = None
        states_after = list(start.sensor_states)
        if plant.contact:
            # contact by complementarity: impulses and motion are one problem
            q1, v1, impulses = plant.contact.step(
                plant, q, v, start.states[-1], self.implicit_damping
            )
            states_after.append(impulses)
        else:
            # effects: torques that depend on the velocity at the end of the step
            plant = plant.with_implicit_torques(q, v, self.implicit_damping)
            # integrator, on the charts of the joints
            row = find_integrator(self.integrator)
            integrate = (self.implicit_damping and row.damped_step) or row.step
            if plant.loops and self.divides_steps:
                parts = take_substeps(plant, plant.loops, integrate, q, v, plant.dt)
                q1, v1 = parts.q, parts.v
            else:
                q1, w1, *residuals = integrate(plant, q, align(model, q, v), plant.dt)
                v1 = unalign(model, q1, w1)
            # joints that stick stay where they are; stops give impulses
            q1, v1 = plant.hold_sticking(q, q1, v1)
            plant, q1, v1 = plant.apply_impulses(q, q1, v1)
        # loops: the nearest state where they are closed, unless the last part ended there
        violation = parts.violation if parts else 0.0
        if plant.loops and not (parts and plant.keeps_end):
            end = plant.loops.project(model, q, q1, v1)
            q1, v1, violation = end.q, end.v, end.violation
        # states of effects, sensors and contact for the next step
        states_after = [*plant.update_states(q, v, v1), *states_after]
        # residuals of the iterations, the largest so far
        if len(residuals) < len(self.residual_names) - bool(self.loops) - self.divides_steps:
            residuals.append(plant.residual)
        residuals += [parts.error] if parts else []
        residuals += [violation] if self.loops else []
        if residuals:
            residuals = [maximum(a, b) for a, b in zip(values[CLOCK + 1], residuals, strict=True)]
        return [*q1, *v1, start.clock, *residuals, *(x for state in states_after for x in state)]

    def begin(self, *values: Any) -> StepStart:
        """The plant at the start of a step, under the torques of its sample and of the law."""
        # inputs by name
        shapes, rows = self.shapes, self.torque_rows
        carried, read = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
        (q, v, clock, *carry), sampled = values[:carried], values[carried:read]
        del carry[: bool(self.residual_names)]
        states = [carry.pop(0) if n else [] for n in self.state_sizes]
        dt, every, *constants = values[read:]
        model = self.with_parameters(self._loop_model, constants)
        effects, sensors, contact = self.insert_constants(constants)
        first_sensor = len(effects)

        # torques of the sample, at the start and the end of the step
        tau_start = tau_end = sampled[0]
        if self.hold == "linear":
            slope = [(b - a) / every for a, b in zip(*sampled[:rows], strict=True)]
            ahead = clock + 1.0
            tau_start = [a + s * clock for a, s in zip(sampled[0], slope, strict=True)]
            tau_end = [a + s * ahead for a, s in zip(sampled[0], slope, strict=True)]
            # the last step of a sample sets the clock back
            clock = where(less(ahead, every - 0.5), ahead, 0.0 * ahead)

        # sensors: the state that the law reads
        q_read, v_read = q, v
        sensor_states = []
        for sensor, state in zip(sensors, states[first_sensor:], strict=False):
            q_read, v_read, after = sensor.read(model, q_read, v_read, dt, state)
            sensor_states.append(after)

        # feedback: its torque is held during the step, unless it acts at the stages
        law: StepLaw | None = None
        damping: Matrix | None = None
        if self.feedback:
            gains = constants[len(self.parameters) : len(constants) - self.array_count]
            controller, given = self.feedback, sampled[rows : len(sampled) - len(self.wrenches)]
            pairs: list[Any] = [*zip(effects, states, strict=False), (contact, states[-1])]
            parts = [pair for pair in pairs if isinstance(pair[0], ContactLoads)]
            context = StepContext(model, q, v, tau_start, dt)
            frames = controller.recorded.frames if controller.feels_contact else ()
            felt = [felt_wrench(context, frame, parts) for frame in frames]
            state = states[first_sensor + len(sensors)]
            inputs = LawInputs(dt, felt, given, gains, state)
            tau, after = controller.command(inputs, q_read, v_read)
            sensor_states.append(after)
            if controller.time == "stages":
                law = partial(controller.torque, inputs)
            else:
                tau_start = [a + b for a, b in zip(tau_start, tau, strict=True)]
                tau_end = [a + b for a, b in zip(tau_end, tau, strict=True)]
            if controller.time == "end":
                damping = controller.velocity_gains(inputs, q_read, v_read)

        external = sampled[len(sampled) - len(self.wrenches) :]
        plant = RobotPlant(
            model,
            tau_start,
            tau_end,
            dt,
            effects=effects,
            states=tuple(states[:first_sensor]),
            contact=contact,
            loops=self.loops,
            wrenches=tuple((*place, x) for place, x in zip(self.wrenches, external, strict=True)),
            law=law,
            law_damping=damping,
        )
        return StepStart(plant, q, v, clock, states, sensor_states)

    @property
    def implicit_damping(self) -> bool:
        """Whether the damping of the joints is taken at the end of the step."""
        return self.damped or find_integrator(self.integrator).damping_at_end

    @cached_property
    def components(self) -> tuple[Effect | Sensor | Controller | ContactLaw, ...]:
        """All that has a state: effects, then sensors, the law, and the contact."""
        last = [x for x in (self.feedback, self.contact) if x is not None]
        return (*self.effects, *self.sensors, *last)

    @cached_property
    def state_sizes(self) -> list[int]:
        """Length of the state of each component; empty states are not in the carry."""
        return [component.state_size(self.model) for component in self.components]

    def initial_states(self) -> list[np.ndarray]:
        """States of the components that have one, before the first step."""
        sized = [k for k, n in enumerate(self.state_sizes) if n]
        fixed, parts = self._fixed_starts, self.components
        starts = (fixed[k] if k in fixed else parts[k].initial_state(self.model) for k in sized)
        return [np.array(start, float) for start in starts]

    @cached_property
    def _fixed_starts(self) -> dict[int, Any]:
        """Initial states by place, of components that cannot be changed, such as contact."""
        fixed = ((k, x) for k, x in enumerate(self.components) if is_immutable(x))
        return {k: x.initial_state(self.model) for k, x in fixed if self.state_sizes[k]}

    @cached_property
    def residual_names(self) -> tuple[str, ...]:
        """The iterations of a step whose residual is reported; contact has one in its state."""
        loops = (LOOPS,) if self.loops else ()
        if self.contact:
            return loops
        solver = (self.integrator,) if find_integrator(self.integrator).iterates else ()
        implicit = [x for x in self.effects if isinstance(x, ImplicitEffect) and self.model.nv > 1]
        names = {"stops" if isinstance(x, ImpactEffect) else "friction" for x in implicit}
        loops = (DIVISION, *loops) if self.divides_steps else loops
        return (*solver, *((" and ".join(sorted(names)),) if implicit else ()), *loops)

    @property
    def divides_steps(self) -> bool:
        """Whether steps with loops are taken in parts where they are inaccurate."""
        accurate = find_integrator(self.integrator).order >= DIVIDED_ORDER
        return self.loops is not None and self.contact is None and accurate

    @property
    def torque_rows(self) -> int:
        """Rows of torques that a step reads: one, or two to interpolate between."""
        return 2 if self.hold == "linear" else 1

    @cached_property
    def shapes(self) -> ScanShapes:
        """Shapes of the loop: carry (q, v, clock, residuals, states), samples, constants, outputs.

        q, v and residuals are outputs at each sample; states are so with `record`, and else
        outputs at the end.
        """
        m, dims = self.model, sizes(self.model, {})
        states = tuple((n,) for n in self.state_sizes if n)
        parameters = [
            tuple(dims[s] if s in dims else int(s) for s in PARAMETERS[p][0])
            for p in self.parameters
        ]
        references, gains = self.law_shapes
        residuals = ((len(self.residual_names),),) if self.residual_names else ()
        carry = ((m.nq,), (m.nv,), (), *residuals, *states)
        state_places = tuple(range(len(carry) - len(states), len(carry)))
        sample_places = (0, 1, *range(CLOCK + 1, CLOCK + 1 + len(residuals)))
        return ScanShapes(
            carry=carry,
            sampled=(
                *((m.nv,),) * self.torque_rows,
                *((math.prod(shape),) for shape in references.values()),
                *((6,),) * len(self.wrenches),
            ),
            constants=((), (), *parameters, *gains.values(), *((),) * self.array_count),
            path_places=(*sample_places, *state_places) if self.record else sample_places,
            end_places=() if self.record else state_places,
        )

    @cached_property
    def output_sizes(self) -> tuple[int, int, int]:
        """Numbers written at each sample, the numbers of q and v, and numbers at the end."""
        carry = [math.prod(shape) for shape in self.shapes.carry]
        sample = sum(carry[k] for k in self.shapes.path_places)
        end = sum(carry[k] for k in self.shapes.end_places)
        return sample, carry[0] + carry[1], end

    @cached_property
    def law_shapes(self) -> tuple[Shapes, Shapes]:
        """Shapes of the references and of the gains of the feedback law, by name."""
        law, model = self.feedback, self.model
        return (law.references(model), law.gains(model)) if law else ({}, {})

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the arguments of the loop, for messages."""
        components = zip(self.components, self.state_sizes, strict=True)
        references, gains = self.law_shapes
        return (
            "q0",
            "v0",
            "clock",
            *(("residuals",) if self.residual_names else ()),
            *(f"state of {type(x).__name__}" for x, n in components if n),
            *("tau",) * self.torque_rows,
            *references,
            *(f"wrench at {frame!r}" for frame, _ in self.wrenches),
            "dt",
            "every",
            *self.parameters,
            *gains,
            *("parameters of effects",) * self.array_count,
            "every",
        )

    def with_parameters(self, model: Model, constants: Sequence[Any]) -> Model:
        """The model with the parameters at the head of the constants in place of its own."""
        for name, value in zip(self.parameters, constants, strict=False):
            model = PARAMETERS[name][1](model, value)
        return model

    def insert_constants(
        self, constants: Sequence[Any]
    ) -> tuple[tuple[Effect, ...], tuple[Sensor, ...], ContactLaw | None]:
        """Effects, sensors and contact with their array parameters, the last of the constants."""
        arrays = list(constants[len(constants) - self.array_count :])
        effects, sensors, contact = insert_inputs(
            (self.effects, self.sensors, self.contact), arrays
        )
        return effects, sensors, contact

    @cached_property
    def _loop_model(self) -> Model:
        """The model reframed for fewer operations, unless inertias are inputs."""
        return self.model if "inertia" in self.parameters else condense(self.model)

    def kernel(self) -> Kernel:
        """The compiled loop of this step, compiled once a process for equal steps."""
        key = self._fixed_key if self.immutable else self._key()
        return find_kernel(KeyedSource(key, self._source))

    def _key(self) -> Hashable:
        """The content of the step: the digest of the model, and all other fields."""
        fixed = self._fixed_contents
        values = ((name, getattr(self, name)) for name in self._key_fields)
        parts = (fixed[name] if name in fixed else content_of(x) for name, x in values)
        return (self.model.digest, *parts)

    @cached_property
    def _fixed_contents(self) -> dict[str, Hashable]:
        """Contents of the fields that cannot be changed, such as a scene of many shapes."""
        values = {name: getattr(self, name) for name in self._key_fields}
        return {name: content_of(x) for name, x in values.items() if is_immutable(x)}

    @property
    def _key_fields(self) -> list[str]:
        """Names of the fields that are in the key; the model is there by its digest."""
        return [f.name for f in fields(self) if f.compare and f.name != "model"]

    @cached_property
    def _fixed_key(self) -> Hashable:
        return self._key()

    def _source(self, key: Hashable) -> KernelSource:
        source = KernelSource(
            name=f"rollout_{self.integrator}",
            doc="A robot stepped in time.",
            function=self.evaluate,
            inputs=self.shapes.inputs,
            outputs=self.shapes.carry,
            key=content_digest(key),
            scan=self.shapes,
        )
        if is_portable(key):
            return source
        # parts of somebody else are known by what they record, which an edit changes
        tape = source.record_tape()
        return replace(source, key=tape.digest, tape=tape)


@dataclass(frozen=True)
class KeyedSource:
    """The source of a kernel, made from its key on demand; equal to another where the key is."""

    key: Hashable
    make: Callable[[Any], KernelSource] = field(compare=False)


@lru_cache(maxsize=64)
def find_kernel(source: KeyedSource) -> Kernel:
    """The kernel of a source, one of the last 64 where the key is the same."""
    return compile_kernel(source.make(source.key))
