"""A job (a function of a robot at given states) and the contenders that do it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import function, sizes
from qddot.algorithms.kinematics import ReferenceAxes
from qddot.bench.subjects import Subject
from qddot.errors import QddotError
from qddot.model.links import Contact
from qddot.robot.robot import Robot

__all__ = [
    "BRIEF",
    "CHECKED",
    "Contender",
    "Job",
    "Skipped",
    "can_move_freely",
    "loop_over_states",
    "make_job",
    "ours",
    "ours_refilled",
    "ours_single",
    "stack_states",
    "states_in_brief_time",
    "urdf_of",
]

Arrays = tuple[np.ndarray, ...]

BRIEF = 5e-4
"""Seconds that a measurement should take: machines are left alone for no longer than that."""
CHECKED = 3
"""How many states are compared before anything is timed."""
_REFERENCE: ReferenceAxes = "local_world_aligned"
_MOST_CALLS = 512


class Skipped(QddotError):
    """An engine that cannot take part in a job, and why."""


@dataclass(frozen=True)
class Job:
    """A catalogue function of a robot, its options, and the states at which it is evaluated."""

    subject: Subject
    function: str
    options: dict[str, Any]
    inputs: dict[str, np.ndarray]

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self.subject.robot

    @property
    def states(self) -> int:
        """The number of states."""
        return len(next(iter(self.inputs.values())))

    def first(self, most: int = _MOST_CALLS) -> dict[str, np.ndarray]:
        """The inputs at the first few states, for engines that are called state by state."""
        return {name: x[:most] for name, x in self.inputs.items()}


@dataclass(frozen=True)
class Contender:
    """One way to do a job: `run` does it at `states` states.

    `values` gives the outputs at the first states that are compared, in the coordinates of qddot.
    """

    engine: str
    call: str
    states: int
    run: Callable[[], Any]
    values: Callable[[], Arrays]


def make_job(subject: Subject, name: str, most_states: int, most_bytes: int, seed: int = 0) -> Job:
    """A job at random states: a power of two from 64, within a number of bytes."""
    row, robot = function(name), subject.robot
    given = {
        "frame": _deepest_frame(robot),
        "reference": _REFERENCE,
        "prescribed": robot.joint_names[::2],
        "constraints": (Contact(_deepest_frame(robot)),),
    }
    options = {o.name: given[o.name] for o in row.options if o.name in given}
    dims = sizes(robot.model, options)
    arguments = [a for a in row.inputs if a.name != "f_ext"]
    shapes = [a.shape_in(dims) for a in (*arguments, *row.outputs)]
    size = 8 * sum(int(np.prod(s)) for s in shapes)
    states = min(most_states, 1 << (max(64, most_bytes // size).bit_length() - 1))
    rng = np.random.default_rng(seed)
    inputs = {
        a.name: robot.random(rng, states)
        if a.shape == ("nq",)
        else rng.normal(size=(states, *a.shape_in(dims)))
        for a in arguments
    }
    return Job(subject, name, options, inputs)


def _deepest_frame(robot: Robot) -> str:
    """The first frame, in the order of the model, of a body with the most joints above it."""
    model = robot.model
    depth = [len(model.ancestors(i)) for i in range(model.nb)]
    return max(model.frames, key=lambda f: depth[f.body] if f.body >= 0 else -1).name


def can_move_freely(robot: Robot) -> bool:
    """Whether the frame of the jobs can move along and about all axes."""
    J = robot.frame_jacobian(robot.random(0), _deepest_frame(robot), _REFERENCE)
    return bool(np.linalg.matrix_rank(J) == len(J))


def states_in_brief_time(run: Callable[[], Any], states: int, most: int) -> int:
    """The number of states that take a brief time, given a run of some of them; at most `most`."""
    run()
    times = [time.perf_counter()]
    for _ in range(5):
        run()
        times.append(time.perf_counter())
    seconds = min(after - before for before, after in pairwise(times))
    return max(1, min(most, round(BRIEF * states / seconds)))


def loop_over_states(
    call: Callable[..., Any], *columns: Iterable[Any]
) -> tuple[int, Callable[[], Any]]:
    """How many states take a brief time, and a call for each, in a loop that costs next to nothing.

    What is called state by state has turns as short as a batch has, and quiet moments as often.
    """
    kept = [list(column) for column in columns]
    n = states_in_brief_time(lambda: call(*(column[0] for column in kept)), 1, len(kept[0]))
    few = [column[:n] for column in kept]
    return n, lambda: deque(map(call, *few), maxlen=0)


def ours(job: Job, dtype: str = "float64") -> Contender:
    """The method with the whole batch, into arrays that are used again."""
    arrays = [x.astype(dtype) for x in job.inputs.values()]
    made = job.robot.empty(job.function, job.states, dtype, **job.options)
    method = getattr(job.robot, job.function)
    run = partial(method, *arrays, **job.options, out=made)

    def values() -> Arrays:
        return tuple(x[:CHECKED].astype(float) for x in _as_tuple(run()))

    return Contender("qddot", f"batch, {dtype}", job.states, run, values)


def ours_refilled(job: Job) -> Contender:
    """The function on the whole batch, into arrays that keep their zeros."""
    fill = job.robot.compile(job.function, zeros="kept", **job.options)
    made = job.robot.empty(job.function, job.states, **job.options)
    run = partial(fill, *job.inputs.values(), out=made)

    def values() -> Arrays:
        return tuple(x[:CHECKED] for x in _as_tuple(run()))

    return Contender("qddot", "batch, zeros kept", job.states, run, values)


def ours_single(job: Job) -> Contender:
    """The method with one state at a time."""
    call = partial(getattr(job.robot, job.function), **job.options)
    columns = list(job.first().values())

    def values() -> Arrays:
        return stack_states([call(*x) for x in zip(*(c[:CHECKED] for c in columns), strict=True)])

    return Contender("qddot", "single call", *loop_over_states(call, *columns), values)


def urdf_of(subject: Subject) -> Path:
    """The file of a robot, for engines that read URDF."""
    if subject.file is None or subject.file.suffix != ".urdf":
        raise Skipped("not a URDF")
    return subject.file


def _as_tuple(results: Any) -> Arrays:
    return results if isinstance(results, tuple) else (results,)


def stack_states(results: Sequence[Any]) -> Arrays:
    """Results of single states (an array or several) as arrays over the states."""
    return tuple(np.array(column) for column in zip(*map(_as_tuple, results), strict=True))
