"""Laws evaluated on floats: torques and memory of another shape are refused.

The protocol itself is in `robot.law`, where rollouts find it too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.robot.law import (
    Law,
    Memory,
    Reference,
    State,
    gain,
    gain_shapes,
    split_command,
    validate_law,
)
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


def evaluate_law(
    robot: Robot, law: Law, state: State, reference: Reference, memory: Memory
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Torques and memory of a law at one state, refused where they have another shape."""
    name = type(law).__name__
    tau, kept = split_command(name, law.command(robot, state, reference, memory))
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
