"""Timing: contenders in turns, of which the best counts; agreement before anything is timed."""

from __future__ import annotations

import gc
import math
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.bench.contender import BRIEF, Contender, Job
from qddot.robot.robot import Robot

__all__ = [
    "FULL",
    "QUICK",
    "TOLERANCE",
    "BenchmarkSettings",
    "Clock",
    "compile_seconds",
    "difference",
    "environment",
    "fresh_cache",
    "one_core",
]

TOLERANCE = 1e-8
"""How far two engines may differ, relative to the largest entry of a result."""
# runs of fewer samples than this feel a cold start
_COLD = 10
# seconds; shorter compilations are repeated, and the best counts
_QUICKLY = 1.0


@dataclass(frozen=True)
class BenchmarkSettings:
    """Durations of the measurements.

    `sample` is about the time of one measurement in seconds, where a run is no longer; `seconds`
    how long each contender has its turns in each of the `passes` through all rows, so that no row
    has a slow minute of the machine to itself, and `rounds` how often at least; `bytes` what a
    batch may take up, inputs and outputs; `states` the most it may have. What is split over
    threads may take up `threaded_bytes`, and has its turns for `threaded_seconds`: the cores must
    be left alone at the same time. Rollouts, of which one takes longer than a sample, have theirs
    for `rollout_seconds`.
    """

    rounds: int = 20
    passes: int = 2
    seconds: float = 0.1
    sample: float = BRIEF
    bytes: int = 768 * 1024
    states: int = 4096
    threaded_bytes: int = 512 * 2**20
    threaded_seconds: float = 8.0
    rollout_seconds: float = 2.0
    chains: tuple[int, ...] = (5, 10, 20, 40, 80)


FULL = BenchmarkSettings()
QUICK = BenchmarkSettings(
    rounds=5,
    passes=1,
    seconds=0.02,
    threaded_bytes=32 * 2**20,
    threaded_seconds=0.2,
    rollout_seconds=0.1,
)


class Clock:
    """Times contenders, and remembers the best of each from pass to pass."""

    def __init__(self, settings: BenchmarkSettings) -> None:
        self.settings = settings
        self._best: dict[tuple[str, str, str], float] = {}
        self._first: dict[str, Any] = {}

    def time_interleaved(
        self, row: str, contenders: Sequence[Contender], seconds: float | None = None
    ) -> list[float]:
        """Seconds a state of each, the best of turns of `seconds` in all for each."""
        lasting = self.settings.seconds if seconds is None else seconds
        once = [_time_once(c) for c in contenders]
        repeats = [max(1, round(self.settings.sample / max(s, 1e-9))) for s in once]
        keys = [(row, c.engine, c.call) for c in contenders]
        # whose turn it is: contenders with few rounds have them far apart
        rounds = [self._count_rounds(s, lasting) for s in once]
        most = max(rounds)
        turns = [
            i
            for k in range(most)
            for i, n in enumerate(rounds)
            if (k + 1) * n // most > k * n // most
        ]
        with _no_collection():
            for k in turns:
                c = contenders[k]
                if once[k] < _COLD * self.settings.sample:
                    # what ran before has the caches
                    c.run()
                best = self._best.get(keys[k], math.inf)
                self._best[keys[k]] = min(best, _seconds_per_state(c, repeats[k]))
        return [self._best[key] for key in keys]

    def _count_rounds(self, once: float, seconds: float) -> int:
        """The number of turns that fit into a time, from the time of one run."""
        turn = max(once, self.settings.sample)
        return max(self.settings.rounds, round(seconds / turn))

    def first(self, row: str, measure: Callable[[], Any]) -> Any:
        """The result of a measurement that only the first pass makes."""
        if row not in self._first:
            self._first[row] = measure()
        return self._first[row]


def _time_once(c: Contender) -> float:
    """Seconds of one run, after one to warm up."""
    c.run()
    return _seconds_per_state(c, 1) * c.states


def _seconds_per_state(c: Contender, repeats: int) -> float:
    """Seconds a state, averaged over `repeats` runs."""
    run = c.run
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / (repeats * c.states)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection while timing."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def one_core() -> Iterator[None]:
    """This thread, and those that it starts, on one core where the system allows to say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest entry of each output; NaN is infinite."""
    worst = 0.0
    for x, y in zip(ours, theirs, strict=True):
        if x.shape != y.shape or not np.all(np.isfinite(x - y)):
            return float("inf")
        scale = max(float(np.abs(y).max(initial=0.0)), 1e-3)
        worst = max(worst, float(np.abs(x - y).max(initial=0.0)) / scale)
    return worst


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """An environment variable with another value."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def fresh_cache() -> Iterator[None]:
    """An empty folder for compiled code, so that what is compiled first is compiled cold."""
    with (
        tempfile.TemporaryDirectory(prefix="qddot-bench-") as folder,
        environment("QDDOT_CACHE_DIR", folder),
    ):
        yield


def compile_seconds(job: Job) -> dict[str, Any]:
    """Seconds until a function is ready, compiled and from the cache, and its facts.

    What is compiled quickly is compiled again, by copies that know nothing, and the best counts.
    """
    cold, kernel = _time_first(job.robot, job)
    for _ in range(2 if cold < _QUICKLY else 0):
        with fresh_cache():
            cold = min(cold, _time_first(pickle.loads(pickle.dumps(job.robot)), job)[0])
    warm = min(_time_first(Robot(job.robot.model), job)[0] for _ in range(3))
    return {
        "cold_s": cold,
        "warm_s": warm,
        "cached": kernel.facts["cached"],
        "operations": kernel.operations,
        "code_bytes": kernel.facts["bytes"],
        "lanes": kernel.facts["lanes"],
    }


def _time_first(robot: Robot, job: Job) -> tuple[float, Any]:
    start = time.perf_counter()
    kernel = robot.explain(job.function, **job.options)
    return time.perf_counter() - start, kernel
