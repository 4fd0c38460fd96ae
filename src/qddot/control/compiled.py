"""A law as one compiled function: the same text in a microsecond, in batches, and as C."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qddot.algorithms.catalogue import Argument
from qddot.control.law import Law, Memory, Reference, State, gain_shapes, validate_law
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.functions import CompiledFunction, record_arguments
from qddot.robot.robot import Robot

if TYPE_CHECKING:
    import casadi

__all__ = ["CompiledLaw", "LawMemory", "compile_law"]

Shape = tuple[int, ...]


class _Command(NamedTuple):
    """The results of a law with memory."""

    tau: Any
    memory_out: Any


class LawMemory(Mapping[str, Any]):
    """Memory of a compiled law: one vector, with the names and shapes of its parts.

    One is made at every sample, so it is no dataclass, whose frozen fields take as long as a law.
    """

    __slots__ = ("shapes", "vector")

    def __init__(self, shapes: Mapping[str, Shape], vector: Any) -> None:
        self.shapes, self.vector = shapes, vector

    def __getitem__(self, name: str) -> Any:
        start = 0
        for key, shape in self.shapes.items():
            stop = start + math.prod(shape)
            if key == name:
                part = self.vector[..., start:stop]
                return part.reshape(self.vector.shape[:-1] + shape)[()]
            start = stop
        raise UnknownName("memory", name, self.shapes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __repr__(self) -> str:
        return f"LawMemory({dict(self)})"


@dataclass(frozen=True, eq=False)
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
        given = [state.q, state.v]
        if self.reads_clock:
            given.append(_clock(state))
        for frame in self.frames:
            given.append(state.wrenches[frame])
        for name in self.names:
            given.append(reference[name])
        given += self._gain_arrays
        if not self.shapes:
            return self.function(*given), {}
        given.append(memory.vector if type(memory) is LawMemory else self._pack(memory))
        tau, kept = self.function(*given)
        return tau, LawMemory(self.shapes, kept)

    @cached_property
    def _gain_arrays(self) -> list[np.ndarray]:
        return list(self.gains.values())

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
    validate_law(robot, law)
    known = dict(_list_gains(robot, law))
    wanted = _choose_gains(known, gains, law)
    start = {name: np.asarray(x, float) for name, x in law.memory(robot).items()}
    function = _record_law(robot, law, {n: known[n].shape for n in wanted}, start, clock=True)
    reads_clock = function.reads("clock")
    if not reads_clock:
        # a law that reads neither dt nor the time is not told them
        function = _record_law(robot, law, {n: known[n].shape for n in wanted}, start, clock=False)
    if robot.native:
        _ = function.kernel
    return CompiledLaw(
        law=law,
        robot=robot,
        function=function,
        shapes={name: x.shape for name, x in start.items()},
        gains={n: known[n].value for n in wanted},
        reads_clock=reads_clock,
        frames=tuple(law.senses(robot)),
        names=tuple(law.references(robot)),
    )


def _record_law(
    robot: Robot,
    law: Law,
    gains: Mapping[str, Shape],
    start: Mapping[str, np.ndarray],
    clock: bool,
) -> CompiledFunction:
    """The text of a law as a function of arrays: state, wrenches, references, gains, memory."""
    frames, references = law.senses(robot), law.references(robot)
    shapes = {name: x.shape for name, x in start.items()}
    size = sum(map(math.prod, shapes.values()))
    # arguments in order; those that are numbers are arrays of one
    rest = {
        **({"clock": (2,)} if clock else {}),
        **{f"wrench_{_as_identifier(frame)}": (6,) for frame in frames},
        **references,
        **{f"gain_{_as_identifier(name)}": shape for name, shape in gains.items()},
        **({"memory": (size,)} if size else {}),
    }
    arguments = [Argument("q", ("nq",)), Argument("v", ("nv",))]
    arguments += [Argument(n, tuple(map(str, shape or (1,)))) for n, shape in rest.items()]

    def command(robot: Robot, q: Any, v: Any, *values: Any) -> Any:
        given = list(values)
        dt, time = given.pop(0) if clock else (0.0, 0.0)
        wrenches = {frame: given.pop(0) for frame in frames}
        reference = {n: np.reshape(given.pop(0), s)[()] for n, s in references.items()}
        inputs = {n: np.reshape(given.pop(0), s)[()] for n, s in gains.items()}
        before = LawMemory(shapes, given.pop(0)) if size else {}
        state = State(q, v, dt, time, wrenches)
        torque, kept = _with_gains(law, inputs).command(robot, state, reference, before)
        tau = _require_shape(law, "torque", torque, (robot.nv,))
        if set(kept) != set(shapes):
            accepted = f"it returns memory of the names {sorted(shapes)}"
            raise InvalidArgument(f"{type(law).__name__}.command: memory", sorted(kept), accepted)
        parts = [_require_shape(law, f"memory {n!r}", kept[n], s) for n, s in shapes.items()]
        flat = [np.reshape(x, (-1,)) for x in parts]
        return _Command(tau, np.concatenate(flat)) if size else tau

    return record_arguments(
        robot,
        command,
        tuple(arguments),
        name=type(law).__name__,
        doc=(type(law).__doc__ or type(law).__name__).strip(),
        origin=type(law).command,
        memory=start,
    )


def _require_shape(law: Law, what: str, value: Any, shape: Shape) -> Any:
    array = np.asanyarray(value)
    if array.shape != shape:
        raise ShapeMismatch(f"{type(law).__name__}.command", what, str(shape), array.shape)
    return array


def _as_identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _clock(state: State) -> np.ndarray:
    """The time step and the time, of one state or of a batch."""
    if isinstance(state.dt, float) and isinstance(state.time, float):
        return np.array((state.dt, state.time))
    return np.stack(np.broadcast_arrays(state.dt, state.time), axis=-1)


class _Gain(NamedTuple):
    """A gain of a law: its shape, and its value as an array of that shape, maybe with a batch."""

    shape: Shape
    value: np.ndarray


def _list_gains(robot: Robot, law: Any, prefix: str = "") -> Iterator[tuple[str, _Gain]]:
    """The gains of a law, and of the laws inside it, by name."""
    if not dataclasses.is_dataclass(law):
        return
    for name, shape in gain_shapes(robot, law).items():
        value = np.asarray(getattr(law, name), float)
        full = value if value.ndim > len(shape) else np.broadcast_to(value, shape or (1,))
        yield prefix + name, _Gain(shape, np.array(full))
    for f in dataclasses.fields(law):
        inside = getattr(law, f.name)
        if isinstance(inside, Law):
            yield from _list_gains(robot, inside, f"{prefix}{f.name}.")


def _choose_gains(known: Mapping[str, _Gain], given: Any, law: Law) -> tuple[str, ...]:
    """The names of the gains that are inputs."""
    names = (given,) if isinstance(given, str) and given != "all" else given or ()
    for name in names if names != "all" else ():
        if name not in known:
            raise UnknownName("gain", name, known, type(law).__name__)
    batched = {n for n, x in known.items() if x.value.ndim > max(1, len(x.shape))}
    return tuple(n for n in known if names == "all" or n in names or n in batched)


def _with_gains(law: Any, values: Mapping[str, Any]) -> Any:
    """The law with other values of some gains."""
    changed: dict[str, Any] = {n: x for n, x in values.items() if "." not in n}
    for field in {n.split(".", 1)[0] for n in values if "." in n}:
        inside = {n.split(".", 1)[1]: x for n, x in values.items() if n.startswith(f"{field}.")}
        changed[field] = _with_gains(getattr(law, field), inside)
    return dataclasses.replace(law, **changed) if changed else law
