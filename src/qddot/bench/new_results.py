"""Results of many numbers: new at every call, in arrays used again, and beside a plain fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qddot.bench.contender import CHECKED, Contender, Job, Skipped, make_job
from qddot.bench.measure import TOLERANCE, Clock, difference, environment, one_core
from qddot.bench.peers import pinocchio
from qddot.bench.subjects import Subject
from qddot.compile.runtime.recycle import drop_recycled
from qddot.errors import QddotError
from qddot.robot.robot import Robot

__all__ = ["BATCHES", "has_many_numbers", "keep_last", "measure_new_results"]

BATCHES = (2048, 30_000)
"""States of a batch: a short log, and a minute at 500 Hz."""
_MANY = 100
"""Numbers of a state from which stores take more of the time than arithmetic."""
_MOST_BYTES = 600 * 2**20
"""Bytes of the results of a batch; the batch is shorter where a state has many."""
_FEW = 64
"""States that a loop over Pinocchio goes over: its turns are as short as ours."""


def has_many_numbers(subject: Subject, name: str) -> bool:
    """Whether a function of a robot has more than a hundred numbers a state."""
    return _count_numbers(make_job(subject, name, 64, 1)) > _MANY


def _count_numbers(job: Job) -> int:
    """Numbers of the results of a state."""
    made = job.robot.empty(job.function, **job.options)
    return sum(x.size for x in (made if isinstance(made, tuple) else (made,)))


@one_core()
def measure_new_results(clock: Clock, subject: Subject, name: str) -> dict[str, Any]:
    """The row of a function: µs a state of new results, in memory used again, of a plain fill.

    New results of the longer batch are measured with vectors of 32 and of 64 bytes too, and those
    of the shorter one in arrays that are used again, which stay in the cache.
    """
    title = f"{subject.title} {name}, new results"
    row: dict[str, Any] = {"robot": subject.title, "kind": subject.kind, "function": name}
    loop = _stored_loop(subject, name)
    batches = []
    for states in BATCHES:
        job = _job_of(subject, name, states)
        made = job.robot.empty(name, job.states, **job.options)
        turns = [
            _turn(job, "used again", partial(_method(job), out=made)),
            _turn(job, "new", keep_last(_method(job))),
            _turn(job, "fill", partial(_fill, made)),
            *([loop] if loop and states == BATCHES[0] else []),
        ]
        times = [1e6 * t for t in clock.time_interleaved(f"{title}, {states}", turns)]
        names = ("again_us", "new_us", "fill_us", "pinocchio_us")
        batches.append({"states": job.states, **dict(zip(names, times, strict=False))})
        drop_recycled()
    theirs = batches[0].get("pinocchio_us")
    row |= {"batches": batches, "pinocchio_us": theirs}
    row["ratio"] = None if theirs is None else theirs / batches[-1]["new_us"]
    # vectors of 32 and 64 bytes, in the cache and of new results
    in_cache, new = [], []
    small = make_job(subject, name, clock.settings.states, clock.settings.bytes)
    # both write to the same pages: where these lie in a shared cache makes up to a fifth
    made = small.robot.empty(name, small.states, **small.options)
    for width in ("32", "64"):
        with environment("QDDOT_VECTOR_BYTES", width):
            robot = Robot(subject.robot.model, subject.robot.native)
            robot.explain(name, **small.options)
        narrow = replace(small, subject=replace(subject, robot=robot))
        in_cache.append(_turn(narrow, f"{width} bytes", partial(_method(narrow), out=made)))
        large = _job_of(narrow.subject, name, BATCHES[-1])
        new.append(_turn(large, f"{width} bytes", keep_last(_method(large))))
    near = clock.time_interleaved(f"{title}, widths in the cache", in_cache)
    far = clock.time_interleaved(f"{title}, widths", new)
    drop_recycled()
    row["widths"] = {
        "cache_us": {k: 1e6 * t for k, t in zip(("32", "64"), near, strict=True)},
        "new_us": {k: 1e6 * t for k, t in zip(("32", "64"), far, strict=True)},
    }
    return row


def _job_of(subject: Subject, name: str, states: int) -> Job:
    """The function at this number of random states, or at as many as the memory is for."""
    job = make_job(subject, name, 64, 1)
    count = min(states, _MOST_BYTES // (8 * _count_numbers(job)))
    inputs = {n: np.resize(x, (count, *x.shape[1:])) for n, x in job.inputs.items()}
    return replace(job, inputs=inputs)


def _method(job: Job) -> Callable[..., Any]:
    return partial(getattr(job.robot, job.function), *job.inputs.values(), **job.options)


def _turn(job: Job, call: str, run: Callable[[], Any]) -> Contender:
    return Contender("qddot", call, job.states, run, lambda: ())


def keep_last(method: Callable[[], Any]) -> Callable[[], None]:
    """A call whose results live until those of the next are there, as in a user's loop."""
    last: list[Any] = [None]

    def run() -> None:
        last[0] = method()

    return run


def _fill(arrays: np.ndarray | tuple[np.ndarray, ...]) -> None:
    """Write one number to all places: what memory allows."""
    for x in arrays if isinstance(arrays, tuple) else (arrays,):
        x.fill(1.0)


def _stored_loop(subject: Subject, name: str) -> Contender | None:
    """A loop over Pinocchio's call that stores its results, if it agrees with ours."""
    if name not in pinocchio.FUNCTIONS:
        return None
    try:
        job = _job_of(subject, name, _FEW)
        call, columns, values = pinocchio.prepare_call(job)
    except (ImportError, QddotError, Skipped, ValueError):
        return None
    expected = _method(replace(job, inputs=job.first(CHECKED)))()
    mine = expected if isinstance(expected, tuple) else (expected,)
    if difference(mine, values()) > TOLERANCE:
        return None
    first = call(*(c[0] for c in columns))
    parts = first if isinstance(first, tuple) else (first,)
    stored = [np.empty((_FEW, *np.shape(x))) for x in parts]

    def run() -> None:
        for k in range(_FEW):
            found = call(*(c[k] for c in columns))
            for target, x in zip(
                stored, found if isinstance(found, tuple) else (found,), strict=True
            ):
                target[k] = x

    return Contender("Pinocchio", "stored", _FEW, run, lambda: ())
