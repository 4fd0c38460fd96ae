"""A law as one compiled function: the same text in a microsecond, in batches, and as C."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from qddot.control.law import Law, Memory, Reference, State
from qddot.robot.functions import CompiledFunction
from qddot.robot.law import LawMemory, record_law
from qddot.robot.robot import Robot

if TYPE_CHECKING:
    import casadi

__all__ = ["CompiledLaw", "compile_law"]

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledLaw:
    """A law for one robot, compiled; itself a law, with the same references, senses and memory.

    `function` is the compiled function behind it, of q, v, the clock (dt, time) if the law reads
    it, wrenches by frame, references, gains that are inputs, and memory as one vector.
    """

    law: Law
    robot: Robot
    function: CompiledFunction
    shapes: Mapping[str, Shape]
    gains: Mapping[str, np.ndarray]
    reads_clock: bool
    frames: tuple[str, ...]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<CompiledLaw {type(self.law).__name__} of {self.robot.name!r}>"

    def references(self, robot: Robot) -> Mapping[str, Shape]:
        """Names and shapes of the references."""
        return self.law.references(robot)

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """Frames whose measured wrench it reads."""
        return self.frames

    def memory(self, robot: Robot) -> Memory:
        """Memory before the first sample."""
        return LawMemory(self.shapes, self._pack(self.law.memory(robot)))

    @property
    def labels(self) -> Mapping[str, Mapping[int, str]]:
        """Labels of the law, for events."""
        return getattr(self.law, "labels", {})

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[np.ndarray, Memory]:
        """Joint torques and the memory of the next sample, of one state or a batch."""
        # a cycle is as short as these lines are
        given = (state.q, state.v, *self._sense(state), *self._pick(reference), *self._gain_arrays)
        if not self.shapes:
            return self.function(*given), {}
        kept = memory.vector if type(memory) is LawMemory else self._pack(memory)
        tau, kept = self.function(*given, kept)
        return tau, LawMemory(self.shapes, kept)

    @cached_property
    def _sense(self) -> Callable[[State], tuple[Any, ...]]:
        """A function from a state to the further inputs of the law: the clock, then wrenches."""
        if not self.reads_clock and not self.frames:
            return lambda state: ()
        if not self.reads_clock:
            return lambda state: tuple(state.wrenches[frame] for frame in self.frames)
        return lambda state: (_clock(state), *(state.wrenches[frame] for frame in self.frames))

    @cached_property
    def _pick(self) -> Callable[[Reference], tuple[Any, ...]]:
        """The references in the order of the function."""
        if len(self.names) > 1:
            return itemgetter(*self.names)
        return lambda reference: tuple(reference[name] for name in self.names)

    @cached_property
    def _gain_arrays(self) -> tuple[np.ndarray, ...]:
        return tuple(self.gains.values())

    def evaluate(
        self, robot: Robot, law: Law, state: State, reference: Reference, memory: Memory
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The command in place of that of the law itself, for `control.run(…, evaluate=…)`."""
        tau, kept = self.command(robot, state, reference, memory)
        return tau, dict(kept)

    def _pack(self, memory: Memory) -> np.ndarray:
        """Memory as one vector, the parts in the order of their names in the law."""
        parts = {name: np.asarray(memory[name], float) for name in self.shapes}
        batch = np.broadcast_shapes(
            *(x.shape[: x.ndim - len(self.shapes[name])] for name, x in parts.items())
        )
        flat = [
            np.broadcast_to(x, batch + self.shapes[n]).reshape((*batch, -1))
            for n, x in parts.items()
        ]
        return np.concatenate([np.empty((*batch, 0)), *flat], axis=-1)

    @property
    def gufunc(self) -> np.ufunc:
        """The law as a NumPy gufunc."""
        return self.function.gufunc

    def explain(self) -> Any:
        """The kernel, with facts about its code; print it for a summary."""
        return self.function.explain()

    def casadi(self) -> casadi.Function:
        """The law as a casadi.Function; memory is a vector."""
        return self.function.casadi()

    def export_c(self, folder: str | os.PathLike[str], dtype: Any = "float64") -> Any:
        """Write the law as C99, with its memory as a struct, test vectors over several samples."""
        return self.function.export_c(folder, dtype)


def compile_law(robot: Robot, law: Law, gains: Sequence[str] | str | None = None) -> CompiledLaw:
    """Compile a law for a robot.

    Gains are constants of the code, unless they have batch axes or are named in `gains` ("all" for
    all of them): those are inputs, so that each state of a batch may have its own. Gains of a law
    inside another are named with a dot, as "law.kp".
    """
    recorded = record_law(robot, law, gains)
    _ = recorded.function.compiled
    return CompiledLaw(
        law=law,
        robot=robot,
        function=recorded.function,
        shapes=recorded.memory_shapes,
        gains=recorded.gains,
        reads_clock=recorded.reads_clock,
        frames=recorded.frames,
        names=tuple(recorded.references),
    )


def _clock(state: State) -> np.ndarray:
    """The time step and the time, of one state or of a batch."""
    if isinstance(state.dt, float) and isinstance(state.time, float):
        return np.array((state.dt, state.time))
    return np.stack(np.broadcast_arrays(state.dt, state.time), axis=-1)
