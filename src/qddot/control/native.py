"""A law as one kernel: its inputs flattened, its memory one row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qddot.control.law import Law, State
from qddot.robot.robot import Robot

__all__ = ["native_evaluator"]

Shapes = Mapping[str, tuple[int, ...]]


def native_evaluator(robot: Robot, law: Law) -> Callable[..., Any]:
    """A function (robot, law, state, reference, memory) → (τ, memory) that runs compiled code.

    Arrays may have leading batch axes, all the same.
    """
    shapes = dict(law.references(robot))
    kept = {name: np.shape(x) for name, x in law.memory(robot).items()}
    frames = tuple(law.senses(robot))
    felt: Shapes = dict.fromkeys(frames, (6,))

    def command(robot: Any, q: Any, v: Any, clock: Any, rest: Any) -> tuple[Any, Any]:
        parts = _unpack(rest, [felt, shapes, kept])
        state = State(q, v, clock[0], clock[1], parts[0])
        tau, memory = law.command(robot, state, parts[1], parts[2])
        rows = [np.reshape(memory[name], (-1,)) for name in kept]
        return (tau, np.concatenate(rows)) if kept else (tau, 0.0 * q)

    size = sum(math.prod(s) for part in (felt, shapes, kept) for s in part.values())
    command.__name__ = type(law).__name__
    compiled = robot.compile(command, clock=2, rest=max(size, 1))

    def evaluate(
        _: Robot, law: Law, state: State, reference: Mapping[str, Any], memory: Mapping[str, Any]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        batch = state.q.shape[:-1]
        clock = np.empty((*batch, 2))
        clock[..., 0], clock[..., 1] = state.dt, state.time
        rest = np.zeros((*batch, max(size, 1)))
        place = 0
        for part, values in ((felt, state.wrenches), (shapes, reference), (kept, memory)):
            for name, shape in part.items():
                n = math.prod(shape)
                x = np.asarray(values[name], float)
                rest[..., place : place + n] = x.reshape(*x.shape[: x.ndim - len(shape)], n)
                place += n
        tau, row = compiled(state.q, state.v, clock, rest)
        new, place = {}, 0
        for name, shape in kept.items():
            n = math.prod(shape)
            new[name] = row[..., place : place + n].reshape((*batch, *shape))
            place += n
        return tau, new

    return evaluate


def _unpack(flat: Any, parts: Sequence[Shapes]) -> list[dict[str, Any]]:
    """Arrays by name from one row of numbers."""
    found, place = [], 0
    for part in parts:
        named = {}
        for name, shape in part.items():
            n = math.prod(shape)
            x = flat[place : place + n]
            named[name] = np.reshape(x, shape) if shape else x[0]
            place += n
        found.append(named)
    return found
