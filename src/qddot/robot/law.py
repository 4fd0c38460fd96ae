"""Laws: controllers as frozen data and one pure function, and their text as recorded operations.

The text of a law is plain NumPy and the robot's methods. So it runs on floats in a loop, and traced
as one kernel: it has no `if` on a value (`np.where` chooses) and writes into no array.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import Argument
from qddot.errors import (
    InvalidArgument,
    JointsDiffer,
    ShapeMismatch,
    UnknownName,
    WrongType,
    refuse_endless_recursion,
)
from qddot.robot.content import content_of
from qddot.robot.functions import CompiledFunction, record_arguments
from qddot.robot.robot import Robot

__all__ = [
    "Law",
    "LawMemory",
    "Memory",
    "RecordedLaw",
    "Reference",
    "State",
    "gain",
    "gain_shapes",
    "record_law",
    "split_command",
    "validate_law",
]

Shape = tuple[int, ...]
Memory = Mapping[str, Any]
"""Numbers that a law keeps from sample to sample, by name: filters, integrals, phases."""
Reference = Mapping[str, Any]
"""Values that a law follows at a sample, by name."""
_REQUIRED: Any = dataclasses.MISSING


@dataclass(frozen=True, eq=False)
class State:
    """The measured state of a robot at a sample, the input of a law.

    `q` (nq) and `v` (nv) are measured, `dt` is the time between samples and `time` that of the
    measurement. `wrenches` has the measured wrench on the robot, [f; n], at frames by name, in
    "local_world_aligned" axes.
    """

    q: Any
    v: Any
    dt: Any = 1e-3
    time: Any = 0.0
    wrenches: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Law(Protocol):
    """A controller: its references and sensors, its memory, and the torques it commands."""

    def references(self, robot: Robot) -> Mapping[str, Shape]:
        """Names and shapes of the references."""

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """Frames whose measured wrench it reads."""

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Memory before the first sample."""

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """Joint torques (nv), and the memory of the next sample, of the same names and shapes."""


def gain(*shape: str | int, default: Any = _REQUIRED) -> Any:
    """A field of a law that holds a gain of this shape: sizes by name (nq, nv, nb) or number.

    A number stands for the same gain everywhere. Gains may have batch axes: a compiled law has
    those as inputs, so that each state of a batch has its own.
    """
    metadata = {"shape": shape}
    if default is _REQUIRED:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def gain_shapes(robot: Robot, law: Any) -> dict[str, Shape]:
    """The shape of each gain of a law on a robot, of those that are given."""
    sizes = {"nq": robot.nq, "nv": robot.nv, "nb": len(robot.body_names)}
    return {
        f.name: tuple(sizes[n] if isinstance(n, str) else n for n in f.metadata["shape"])
        for f in dataclasses.fields(law)
        if "shape" in f.metadata and getattr(law, f.name) is not None
    }


class LawMemory(Mapping[str, Any]):
    """Memory of a recorded law: one vector, with the names and shapes of its parts.

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


class _Gain(NamedTuple):
    """A gain of a law: its shape, and its value as an array of that shape, maybe with a batch."""

    shape: Shape
    value: np.ndarray


class _Command(NamedTuple):
    """The results of a law with memory."""

    tau: Any
    memory_out: Any


@dataclass(frozen=True, eq=False)
class RecordedLaw:
    """The text of a law for one robot as a function of arrays.

    Its arguments are q, v, the clock (dt, time) if the law reads it, wrenches by frame, references,
    gains that are inputs, and memory as one vector, if it has any.
    """

    law: Law
    function: CompiledFunction
    frames: tuple[str, ...]
    references: Mapping[str, Shape]
    gains: Mapping[str, np.ndarray]
    start: Mapping[str, np.ndarray]
    reads_clock: bool

    @property
    def memory_shapes(self) -> dict[str, Shape]:
        """Shapes of the parts of the memory, by name."""
        return {name: x.shape for name, x in self.start.items()}


def validate_law(robot: Robot, law: Any) -> None:
    """Refuse what is no law, gains that do not fit the robot, and frames that it does not have."""
    if not isinstance(law, Law) or isinstance(law, type):
        needed = "it is an object with references, senses, memory and command; see docs/control.md"
        raise WrongType("law", law, needed)
    made_for = getattr(law, "robot", None)
    if isinstance(made_for, Robot) and made_for.joint_names != robot.joint_names:
        reason = f"the law was compiled for {made_for.name!r}, not for {robot.name!r}"
        raise JointsDiffer("the law", robot.name, reason=reason)
    # wrappers name the law inside them in a field of that name
    if dataclasses.is_dataclass(law):
        if isinstance(getattr(law, "law", None), Law):
            validate_law(robot, law.law)
        for name, shape in gain_shapes(robot, law).items():
            given = np.asarray(getattr(law, name))
            label = f"{type(law).__name__}: {name}"
            # of a batch, members without a number are found by their results
            batched = given.ndim > len(shape)
            if given.dtype.kind not in "iuf" or not (batched or np.isfinite(given).all()):
                raise InvalidArgument(label, getattr(law, name), "it needs finite numbers")
            core = given.shape[max(0, given.ndim - len(shape)) :]
            if given.ndim and core != shape:
                raise ShapeMismatch(type(law).__name__, name, f"{shape} or a number", given.shape)
        frame = getattr(law, "frame", None)
        if frame is not None and frame not in robot.frame_names:
            raise UnknownName("frame", frame, robot.frame_names, robot.name)
    _validate_answers(robot, law)
    for frame in law.senses(robot):
        if frame not in robot.frame_names:
            raise UnknownName("frame", frame, robot.frame_names, robot.name)


def _validate_answers(robot: Robot, law: Law) -> None:
    """Refuse a law whose frames, references or memory are of other kinds than a law's are."""
    name, senses = type(law).__name__, law.senses(robot)
    if not isinstance(senses, list | tuple) or not all(isinstance(x, str) for x in senses):
        raise WrongType(f"{name}.senses: result", senses, "it is a tuple of names of frames")
    references = law.references(robot)
    if not isinstance(references, Mapping):
        raise WrongType(f"{name}.references: result", references, "it is {name: shape}")
    for key, shape in references.items():
        sizes = shape if isinstance(shape, tuple) else (None,)
        if not isinstance(key, str) or not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise WrongType(f"{name}.references: {key}", shape, "a shape is a tuple of sizes")
    memory = law.memory(robot)
    if not isinstance(memory, Mapping) or not all(isinstance(key, str) for key in memory):
        raise WrongType(f"{name}.memory: result", memory, "it is {name: numbers}")
    for key, x in memory.items():
        try:
            np.asarray(x, float)
        except (TypeError, ValueError) as error:
            raise WrongType(f"{name}.memory: {key}", x, "it is an array of numbers") from error


def split_command(name: str, result: Any) -> tuple[Any, Mapping[str, Any]]:
    """Torques and memory that a law returned, refused where it did not return two."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        needed = "a law returns its torques and its memory: return tau, memory"
        raise WrongType(f"{name}.command: result", type(result).__name__, needed)
    return result


def record_law(robot: Robot, law: Law, gains: Sequence[str] | str | None = None) -> RecordedLaw:
    """Record a law for a robot, once where neither it nor its gains have changed.

    Gains are constants, unless they have batch axes or are named in `gains` ("all" for all of
    them): those are inputs. Gains of a law inside another are named with a dot, as "law.kp".
    """
    named = gains if isinstance(gains, str) or gains is None else tuple(gains)
    with refuse_endless_recursion(type(law).__name__):
        validate_law(robot, law)
        return _record_once(_LawKey((id(robot), content_of(law), named), robot, law))


@dataclass(frozen=True)
class _LawKey:
    """A law by its content; it keeps the objects alive whose identity is part of that."""

    content: tuple[Any, ...]
    robot: Robot = field(compare=False)
    law: Any = field(compare=False)


@lru_cache(maxsize=32)
def _record_once(key: _LawKey) -> RecordedLaw:
    return _record(key.robot, key.law, key.content[2])


def _record(robot: Robot, law: Law, gains: Any) -> RecordedLaw:
    known = dict(_list_gains(robot, law))
    # the names of the gains that are inputs
    names = (gains,) if isinstance(gains, str) and gains != "all" else gains or ()
    for name in names if names != "all" else ():
        if name not in known:
            raise UnknownName("gain", name, known, type(law).__name__)
    batched = {n for n, x in known.items() if x.value.ndim > len(x.shape or (1,))}
    wanted = tuple(n for n in known if names == "all" or n in names or n in batched)
    start = {name: np.asarray(x, float) for name, x in law.memory(robot).items()}
    shapes = {n: known[n].shape for n in wanted}
    function = _record_text(robot, law, shapes, start, clock=True)
    reads_clock = function.reads("clock")
    if not reads_clock:
        # a law that reads neither dt nor the time is not told them
        function = _record_text(robot, law, shapes, start, clock=False)
    return RecordedLaw(
        law=law,
        function=function,
        frames=tuple(law.senses(robot)),
        references=dict(law.references(robot)),
        gains={n: known[n].value for n in wanted},
        start=start,
        reads_clock=reads_clock,
    )


def _record_text(
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
        result = _with_gains(law, inputs).command(robot, state, reference, before)
        torque, kept = split_command(type(law).__name__, result)
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


def _list_gains(robot: Robot, law: Any, prefix: str = "") -> Iterator[tuple[str, _Gain]]:
    """The gains of a law, and of the laws inside it, by name."""
    if not dataclasses.is_dataclass(law):
        return
    for name, shape in gain_shapes(robot, law).items():
        # a number is an array of one
        value = np.asarray(getattr(law, name), float)
        value = value if shape else value[..., None]
        full = value if value.ndim > len(shape) else np.broadcast_to(value, shape)
        yield prefix + name, _Gain(shape, np.array(full))
    for f in dataclasses.fields(law):
        inside = getattr(law, f.name)
        if isinstance(inside, Law):
            yield from _list_gains(robot, inside, f"{prefix}{f.name}.")


def _with_gains(law: Any, values: Mapping[str, Any]) -> Any:
    """The law with other values of some gains."""
    changed: dict[str, Any] = {n: x for n, x in values.items() if "." not in n}
    for name in {n.split(".", 1)[0] for n in values if "." in n}:
        inside = {n.split(".", 1)[1]: x for n, x in values.items() if n.startswith(f"{name}.")}
        changed[name] = _with_gains(getattr(law, name), inside)
    return dataclasses.replace(law, **changed) if changed else law
