"""The law protocol: a controller as frozen data and one pure function.

The text of a law is plain NumPy and the robot's methods. So it runs on floats in a loop, and traced
as one kernel: it has no `if` on a value (`np.where` chooses) and writes into no array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName, WrongType
from qddot.robot.robot import Robot

__all__ = [
    "Law",
    "Memory",
    "Reference",
    "State",
    "evaluate_law",
    "gain",
    "gain_shapes",
    "validate_law",
]

Memory = Mapping[str, Any]
"""Numbers that a law keeps from sample to sample, by name: filters, integrals, phases."""
Reference = Mapping[str, Any]
"""What a law is to follow at a sample, by name."""
_REQUIRED: Any = dataclasses.MISSING


@dataclass(frozen=True, eq=False)
class State:
    """What a law is told at a sample.

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
    """A controller: what it reads, what it keeps, and the torques it commands."""

    def references(self, robot: Robot) -> Mapping[str, tuple[int, ...]]:
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

    A number stands for the same gain everywhere. Arrays in such fields are inputs of a compiled
    law, so that each state of a batch can have its own.
    """
    metadata = {"shape": shape}
    if default is _REQUIRED:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def gain_shapes(robot: Robot, law: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each gain of a law on a robot, of those that are given."""
    sizes = {"nq": robot.nq, "nv": robot.nv, "nb": len(robot.body_names)}
    return {
        f.name: tuple(sizes[n] if isinstance(n, str) else n for n in f.metadata["shape"])
        for f in dataclasses.fields(law)
        if "shape" in f.metadata and getattr(law, f.name) is not None
    }


def validate_law(robot: Robot, law: Any) -> None:
    """Refuse what is no law, gains that do not fit the robot, and frames that it does not have."""
    if not isinstance(law, Law) or isinstance(law, type):
        needed = "it is an object with references, senses, memory and command; see docs/control.md"
        raise WrongType("law", law, needed)
    # wrappers name the law inside them in a field of that name
    if dataclasses.is_dataclass(law):
        if isinstance(getattr(law, "law", None), Law):
            validate_law(robot, law.law)
        for name, shape in gain_shapes(robot, law).items():
            given = np.asarray(getattr(law, name))
            label = f"{type(law).__name__}: {name}"
            if given.dtype.kind not in "iuf" or not np.isfinite(given).all():
                raise InvalidArgument(label, getattr(law, name), "it needs finite numbers")
            core = given.shape[max(0, given.ndim - len(shape)) :]
            if given.ndim and core != shape:
                raise ShapeMismatch(type(law).__name__, name, f"{shape} or a number", given.shape)
        frame = getattr(law, "frame", None)
        if frame is not None and frame not in robot.frame_names:
            raise UnknownName("frame", frame, robot.frame_names, robot.name)
    for frame in law.senses(robot):
        if frame not in robot.frame_names:
            raise UnknownName("frame", frame, robot.frame_names, robot.name)


def evaluate_law(
    robot: Robot, law: Law, state: State, reference: Reference, memory: Memory
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Torques and memory of a law at one state, refused where they have another shape."""
    name = type(law).__name__
    tau, kept = law.command(robot, state, reference, memory)
    torque = np.asarray(tau, float)
    if torque.shape != (robot.nv,):
        raise ShapeMismatch(f"{name}.command", "torque", f"({robot.nv},)", torque.shape)
    if set(kept) != set(memory):
        accepted = f"it returns memory of the names {sorted(memory)}"
        raise InvalidArgument(f"{name}.command: memory", sorted(kept), accepted)
    result = {}
    for key, before in memory.items():
        value = np.asarray(kept[key], float)
        if value.shape != np.shape(before):
            expected = f"{np.shape(before)}, as before"
            raise ShapeMismatch(f"{name}.command", f"memory {key!r}", expected, value.shape)
        result[key] = value
    return torque, result
