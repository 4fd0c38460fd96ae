"""Laws and sensors inside the loop of a rollout.

A law is recorded once (`robot.law`); the step runs its operations on its own scalars, so the same
text is part of native rollouts. It is evaluated at the start of a step, as a controller that runs
at that rate would be, or of every `period`-th step; its velocity gains may act on the velocity at
the end of the step, or all of it at the stages of the integrator, as a law without a clock would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.robot.law import RecordedLaw
from qddot.spatial.dual import Dual, partials_of
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["Controller", "FeedbackTime", "LawInputs", "Sensor", "Shapes"]

FeedbackTime = Literal["start", "end", "stages"]
"""When a law is evaluated in a step; "end" is its start with the velocity gains at the end."""

Shapes = Mapping[str, tuple[int, ...]]


class Sensor(Protocol):
    """A sensor between the state and a law, with a state of `state_size` numbers."""

    def state_size(self, model: Model) -> int:
        """Length of the state."""

    def initial_state(self, model: Model) -> ArrayLike:
        """The state before the first step, with batch axes before the last if it has any.

        A pure function of the sensor and the model: that of a sensor whose fields cannot be changed
        is found once for all rollouts.
        """

    def read(
        self, model: Model, q: Vector, v: Vector, dt: Scalar, state: Vector
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Measured q and v at the start of a step, and the state of the sensor after it."""


@dataclass(frozen=True, eq=False)
class Controller:
    """A law in the loop of a rollout, evaluated every `period` steps; between, torques are held.

    The wrenches that it senses are those of contact, with `feels_contact`, or else references,
    `wrench_` and the name of the frame. Its state is the time, if the law reads the clock; with a
    longer period the number of steps since the last sample and the torques that are held; and the
    memory of the law.
    """

    recorded: RecordedLaw
    period: int = 1
    feels_contact: bool = False
    time: FeedbackTime = "start"

    def __post_init__(self) -> None:
        whole = isinstance(self.period, int | np.integer) and not isinstance(self.period, bool)
        if not whole or self.period < 1:
            raise InvalidArgument("control_every", self.period, "it is a whole number from 1")

    @property
    def content(self) -> tuple[Any, ...]:
        """What the code of a step depends on: the operations of the law, whatever made them."""
        tape = self.recorded.function.source.record_tape()
        return (tape.digest, int(self.period), self.feels_contact, self.time)

    def __repr__(self) -> str:
        return f"Controller{self.content}"

    def references(self, model: Model) -> Shapes:
        """Names and shapes of the inputs with a row a sample: given wrenches, references."""
        law = self.recorded
        given = () if self.feels_contact else law.frames
        wrenches: dict[str, tuple[int, ...]] = {f"wrench_{frame}": (6,) for frame in given}
        return {**wrenches, **law.references}

    def gains(self, model: Model) -> Shapes:
        """Names and shapes of the gains that are inputs."""
        arguments = [a for a in self.recorded.function.row.inputs if a.name.startswith("gain_")]
        pairs = zip(self.recorded.gains, arguments, strict=True)
        return {name: a.shape_in({}) for name, a in pairs}

    def _memory_size(self) -> int:
        return sum(map(math.prod, self.recorded.memory_shapes.values()))

    def state_size(self, model: Model) -> int:
        """Length of the state."""
        held = 1 + model.nv if self.period > 1 else 0
        return int(self.recorded.reads_clock) + held + self._memory_size()

    def initial_state(self, model: Model) -> np.ndarray:
        """Time zero, a sample due, and the memory that the law starts with."""
        memory = [x.ravel() for x in self.recorded.start.values()]
        ahead = self.state_size(model) - self._memory_size()
        return np.concatenate([np.zeros(ahead), *memory])

    def command(self, inputs: LawInputs, q: Vector, v: Vector) -> tuple[list[Scalar], list[Scalar]]:
        """Torques at the start of a step from a state, and the state of the law after the step."""
        nv, dt, (time, count, held, memory) = (
            len(v),
            inputs.dt,
            self._split_state(inputs.state, len(v)),
        )
        results = self._evaluate(inputs, q, v, 0.0)
        tau, kept = results[:nv], results[nv:]
        if self.period > 1:
            # between samples torques and memory stay
            due, ahead = less(count, 0.5), count + 1.0
            tau = [where(due, a, b) for a, b in zip(tau, held, strict=True)]
            kept = [where(due, a, b) for a, b in zip(kept, memory, strict=True)]
            next_count = where(less(ahead, self.period - 0.5), ahead, 0.0 * ahead)
            return tau, [*(t + dt for t in time), next_count, *tau, *kept]
        return tau, [*(t + dt for t in time), *kept]

    def torque(self, inputs: LawInputs, q: Vector, v: Vector, share: Scalar) -> list[Scalar]:
        """Torques at a stage, a share of the step after its start, with the memory of its start."""
        return self._evaluate(inputs, q, v, share)[: len(v)]

    def velocity_gains(self, inputs: LawInputs, q: Vector, v: Vector) -> list[list[Scalar]]:
        """K: the symmetric part of −∂τ/∂v at a state."""
        n = range(len(v))
        duals: list[Scalar] = [Dual(x, {k: 1.0}) for k, x in enumerate(v)]
        rows = [partials_of(t, len(v)) for t in self._evaluate(inputs, q, duals, 0.0)[: len(v)]]
        return [[(rows[i][j] + rows[j][i]) * -0.5 for j in n] for i in n]

    def _split_state(
        self, state: Vector, nv: int
    ) -> tuple[list[Scalar], Scalar, list[Scalar], list[Scalar]]:
        """Time, steps since the last sample, torques that are held, and memory."""
        rest = list(state)
        time = [rest.pop(0)] if self.recorded.reads_clock else []
        if self.period == 1:
            return time, 0.0, [], rest
        count = rest.pop(0)
        return time, count, rest[:nv], rest[nv:]

    def _evaluate(self, inputs: LawInputs, q: Vector, v: Vector, share: Scalar) -> list[Scalar]:
        """The operations of the law: torques, then memory."""
        time, _, _, memory = self._split_state(inputs.state, len(v))
        period = inputs.dt * float(self.period)
        clock = [period, *(t + inputs.dt * share for t in time)] if time else []
        gains = inputs.gains
        rows = (row for gain in gains for row in (gain if type(gain[0]) is list else [gain]))
        parts = (*inputs.wrenches, *inputs.references, *rows, memory)
        flat = [*q, *v, *clock, *(x for part in parts for x in part)]
        return self.recorded.function.source.record_tape().run(flat)


@dataclass(frozen=True)
class LawInputs:
    """Inputs of a law in a step beside q and v."""

    dt: Scalar
    wrenches: Sequence[Vector]
    references: Sequence[Vector]
    gains: Sequence[Any]
    state: Vector
