"""What a step of a rollout consists of: its text, its shapes, and the compiled loop of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from qddot.algorithms.catalogue import sizes
from qddot.compile.ir.scan import ScanShapes
from qddot.compile.kernel import Kernel, KernelSource
from qddot.model.model import Model
from qddot.model.reframing import condense
from qddot.robot.native import PARAMETERS
from qddot.simulate.compiled import kept_kernel
from qddot.simulate.feedback import Feedback, Sensor, Shapes
from qddot.simulate.integrators import find_integrator
from qddot.simulate.lifted import fill
from qddot.simulate.motion import align, unalign
from qddot.simulate.plant import ContactLaw, Effect, Resisting, RobotPlant, Striking
from qddot.simulate.resistance import largest
from qddot.spatial.scalar import less, where

__all__ = ["CLOCK", "Hold", "StepPlan"]

CLOCK = 2
"""The place in the carry of the number of steps since the last sample."""
Hold = Literal["zero", "linear"]


@dataclass(frozen=True)
class StepPlan:
    """All that the text of a step depends on besides numbers."""

    model: Model
    integrator: str = "semi_implicit"
    hold: Hold = "zero"
    effects: tuple[Effect, ...] = ()
    parameters: tuple[str, ...] = ()
    feedback: Feedback | None = None
    sensors: tuple[Sensor, ...] = ()
    contact: ContactLaw | None = None
    record: bool = False
    figures: int = 0
    lasting: bool = field(default=False, compare=False, repr=False)
    """Whether none of the parts can be changed."""

    @cached_property
    def keepers(self) -> tuple[Effect | Sensor | ContactLaw, ...]:
        """All that keeps a memory: effects, then sensors, then the contact."""
        return (*self.effects, *self.sensors, *((self.contact,) if self.contact else ()))

    @cached_property
    def kept(self) -> list[int]:
        """How many numbers each of them keeps; what keeps none is not carried."""
        return [keeper.memory(self.model) for keeper in self.keepers]

    @cached_property
    def iterations(self) -> tuple[str, ...]:
        """What a step iterates for, and so may not reach; contact keeps an account of its own."""
        if self.contact:
            return ()
        solver = (self.integrator,) if find_integrator(self.integrator).iterates else ()
        grips = [x for x in self.effects if isinstance(x, Resisting) and self.model.nv > 1]
        names = {"stops" if isinstance(x, Striking) else "friction" for x in grips}
        return (*solver, *((" and ".join(sorted(names)),) if grips else ()))

    @property
    def torque_rows(self) -> int:
        """How many rows of torques a step reads: that of its sample, and the next to lead to."""
        return 2 if self.hold == "linear" else 1

    @cached_property
    def shapes(self) -> ScanShapes:
        """Carry q, v, a clock, misses and memories; read torques and references; tell q and v.

        The misses of what is iterated for, the largest so far, are told at each sample as well,
        and with `record` the memories, which else are left at the end.
        """
        m, dims = self.model, sizes(self.model, {})
        memories = tuple((n,) for n in self.kept if n)
        inputs = [
            tuple(dims[s] if s in dims else int(s) for s in PARAMETERS[p][0])
            for p in self.parameters
        ]
        torques = ((m.nv,),) * self.torque_rows
        references, gains = self.law
        misses = ((len(self.iterations),),) if self.iterations else ()
        carry = ((m.nq,), (m.nv,), (), *misses, *memories)
        kept = tuple(range(len(carry) - len(memories), len(carry)))
        always = (0, 1, *range(3, 3 + len(misses)))
        return ScanShapes(
            carry=carry,
            sampled=(*torques, *references.values()),
            constants=((), (), *inputs, *gains.values(), *((),) * self.figures),
            path_places=(*always, *kept) if self.record else always,
            end_places=() if self.record else kept,
        )

    @cached_property
    def numbers(self) -> tuple[int, int, int]:
        """How many numbers are told at a sample, of q and v among them, and left at the end."""
        carry = [math.prod(shape) for shape in self.shapes.carry]
        told, left = (
            sum(carry[k] for k in at) for at in (self.shapes.path_places, self.shapes.end_places)
        )
        return told, carry[0] + carry[1], left

    @cached_property
    def law(self) -> tuple[Shapes, Shapes]:
        """References and gains of the feedback."""
        law, model = self.feedback, self.model
        return (law.references(model), law.gains(model)) if law else ({}, {})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the arguments of the loop are called."""
        keepers = zip(self.keepers, self.kept, strict=True)
        kept = [f"memory of {type(x).__name__}" for x, n in keepers if n]
        references, gains = self.law
        return (
            *("q0", "v0", "clock", *(("misses",) if self.iterations else ()), *kept),
            *(*("tau",) * self.torque_rows, *references, "dt", "every"),
            *(*self.parameters, *gains, *("figures of effects",) * self.figures, "every"),
        )

    def step(self, *values: Any) -> list[Any]:
        """One step, from the numbers of the shapes to those of the carry."""
        plant, q, v, clock, memories, seen = self.opened(*values)
        misses: list[Any] = []
        model, damped = plant.model, self.integrator == "implicit_damping"
        if plant.contact:
            q1, v1, impulses = plant.contact.step(plant, q, v, memories[-1], damped)
            seen.append(impulses)
        else:
            plant = plant.resisted(q, v, damped)
            step = find_integrator(self.integrator).step
            q1, w1, *misses = step(plant, q, align(model, q, v), plant.dt)
            q1, v1 = plant.settled(q, q1, unalign(model, q1, w1))
            plant, q1, v1 = plant.struck(q, q1, v1)
        kept = [x for memory in (*plant.renewed(q, v, v1), *seen) for x in memory]
        if len(misses) < len(self.iterations):
            misses.append(plant.missed)
        if misses:
            misses = [largest(a, b) for a, b in zip(values[3], misses, strict=True)]
        return [*q1, *v1, clock, *misses, *kept]

    def opened(self, *values: Any) -> tuple[RobotPlant, Any, Any, Any, list[Any], list[Any]]:
        """The plant at the start of a step, the state, the clock after it, and the memories.

        Last come those of the sensors after the step.
        """
        shapes, rows = self.shapes, self.torque_rows
        carried, read = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
        (q, v, clock, *carry), sampled = values[:carried], values[carried:read]
        del carry[: bool(self.iterations)]
        memories = [carry.pop(0) if n else [] for n in self.kept]
        dt, every, *constants = values[read:]
        model = self.with_parameters(self._model, constants)
        parts, sensing, contact = self.filled(constants)
        start, end, clock = self._torques(sampled[:rows], clock, every)
        effects, sensors = len(self.effects), len(self.effects) + len(self.sensors)
        q_read, v_read, seen = _readings(sensing, model, q, v, dt, memories[effects:sensors])
        if self.feedback:
            gains = constants[len(self.parameters) : len(constants) - self.figures]
            more = self.feedback.torque(model, q_read, v_read, sampled[rows:], gains)
            start, end = ([a + b for a, b in zip(x, more, strict=True)] for x in (start, end))
        plant = RobotPlant(model, start, end, dt, parts, tuple(memories[:effects]), contact=contact)
        return plant, q, v, clock, memories, seen

    def with_parameters(self, model: Model, given: Sequence[Any]) -> Model:
        """The model with the constants of the robot that are inputs; further ones are gains."""
        for name, value in zip(self.parameters, given, strict=False):
            model = PARAMETERS[name][1](model, value)
        return model

    def filled(
        self, constants: Sequence[Any]
    ) -> tuple[tuple[Effect, ...], tuple[Sensor, ...], ContactLaw | None]:
        """Effects, sensors and contact with those of their figures that are inputs."""
        given = list(constants[len(constants) - self.figures :])
        effects, sensors, contact = fill((self.effects, self.sensors, self.contact), given)
        return effects, sensors, contact

    def _torques(self, torques: Sequence[Any], clock: Any, every: Any) -> tuple[Any, Any, Any]:
        """Torques at the start and end of a step, and the clock after it."""
        if self.hold == "zero":
            return torques[0], torques[0], clock
        first, last = torques
        slope = [(b - a) / every for a, b in zip(first, last, strict=True)]
        start = [a + s * clock for a, s in zip(first, slope, strict=True)]
        end = [a + s * (clock + 1.0) for a, s in zip(first, slope, strict=True)]
        # the clock counts the steps of a sample, and the last one sets it back
        ahead = clock + 1.0
        return start, end, where(less(ahead, every - 0.5), ahead, 0.0 * ahead)

    @cached_property
    def _model(self) -> Model:
        """The model in its shortest form, unless inertias are inputs."""
        return self.model if "inertia" in self.parameters else condense(self.model)

    def kernel(self) -> Kernel:
        """The compiled loop of this step."""
        return kept_kernel(self._lasting_key if self.lasting else self._key(), self._source)

    def _key(self) -> str:
        """All that the text of the step depends on, in words."""
        parts = [getattr(self, f.name) for f in fields(self) if f.compare and f.name != "model"]
        return repr((self.model.digest, *parts))

    @cached_property
    def _lasting_key(self) -> str:
        return self._key()

    def _source(self, key: str) -> KernelSource:
        name, doc, shapes = f"rollout_{self.integrator}", "A robot stepped in time.", self.shapes
        return KernelSource(name, doc, self.step, shapes.inputs, shapes.carry, key, shapes)


def _readings(
    sensors: Sequence[Sensor], model: Model, q: Any, v: Any, dt: Any, memories: Sequence[Any]
) -> tuple[Any, Any, list[Any]]:
    """What the feedback takes for the state, and the memories of the sensors after it."""
    kept = []
    for sensor, memory in zip(sensors, memories, strict=True):
        q, v, renewed = sensor.read(model, q, v, dt, memory)
        kept.append(renewed)
    return q, v, kept
