"""Laws judged: what is none, gains and frames that do not fit, torques of another shape.

The protocol itself is in `robot.law`, where rollouts find it too.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName, WrongType
from qddot.robot.law import Law, Memory, Reference, State, gain, gain_shapes
from qddot.robot.robot import Robot

__all__ = [
    "Gain",
    "Law",
    "Memory",
    "Reference",
    "State",
    "evaluate_law",
    "gain",
    "gain_shapes",
    "validate_law",
]

Gain = Any
"""A gain of a law: a number, or an array with the shape of its field."""


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
