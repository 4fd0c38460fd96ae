"""Timing: contenders in turns, the best of all rounds; agreement before anything is timed."""

from __future__ import annotations

import gc
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.bench.contender import Contender, Job
from qddot.robot import Robot

__all__ = [
    "FULL",
    "QUICK",
    "TOLERANCE",
    "Clock",
    "Settings",
    "compile_seconds",
    "difference",
    "fresh_cache",
    "one_core",
]

TOLERANCE = 1e-8
"""How far two engines may differ, relative to the largest entry of a result."""
# runs of fewer samples than this feel a cold start
_COLD = 10


@dataclass(frozen=True)
class Settings:
    """How long is measured.

    `sample` is the least time of one measurement in seconds; `rounds` how often each contender has
    its turn in each of the `passes` through all rows, so that no row has a slow minute of the
    machine to itself; `bytes` what a batch may take up, inputs and outputs; `states` the most it
    may have.
    """

    rounds: int = 20
    passes: int = 2
    sample: float = 0.004
    bytes: int = 768 * 1024
    states: int = 4096
    threaded_bytes: int = 512 * 2**20
    chains: tuple[int, ...] = (5, 10, 20, 40, 80)


FULL = Settings()
QUICK = Settings(rounds=5, passes=1, sample=0.003, threaded_bytes=32 * 2**20)


class Clock:
    """Times contenders, and remembers the best of each from pass to pass."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._best: dict[tuple[str, str, str], float] = {}
        self._first: dict[str, Any] = {}

    def interleaved(self, row: str, contenders: Sequence[Contender], cores: int = 1) -> list[float]:
        """Seconds a state of each, the best of rounds in which each has its turn.

        What needs several cores has as many times the rounds: all must be left alone at once.
        """
        once = [_seconds(c) for c in contenders]
        repeats = [max(1, round(self.settings.sample / max(s, 1e-9))) for s in once]
        keys = [(row, c.engine, c.call) for c in contenders]
        with _no_collection():
            for _ in range(self.settings.rounds * cores):
                for key, c, n, s in zip(keys, contenders, repeats, once, strict=True):
                    if s < _COLD * self.settings.sample:
                        # what ran before has the caches
                        c.run()
                    self._best[key] = min(self._best.get(key, math.inf), _timed(c, n))
        return [self._best[key] for key in keys]

    def first(self, row: str, measure: Callable[[], Any]) -> Any:
        """What is measured in the first pass only."""
        if row not in self._first:
            self._first[row] = measure()
        return self._first[row]


def _timed(c: Contender, repeats: int) -> float:
    """Seconds a state over so many runs."""
    run = c.run
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / (repeats * c.states)


def _seconds(c: Contender) -> float:
    """How long a run takes, after one to warm up."""
    c.run()
    return _timed(c, 1) * c.states


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
def fresh_cache() -> Iterator[None]:
    """An empty folder for compiled code, so that what is compiled first is compiled cold."""
    before = os.environ.get("QDDOT_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="qddot-bench-") as folder:
        os.environ["QDDOT_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["QDDOT_CACHE_DIR"]
            else:
                os.environ["QDDOT_CACHE_DIR"] = before


def compile_seconds(job: Job) -> dict[str, Any]:
    """Seconds until a function is ready, first compiled and then from the cache, and its facts."""
    cold, kernel = _ready(job.robot, job)
    warm = min(_ready(Robot(job.robot.model), job)[0] for _ in range(3))
    return {
        "cold_s": cold,
        "warm_s": warm,
        "cached": kernel.facts["cached"],
        "operations": sum(kernel.facts["operations"].values()),
        "code_bytes": kernel.facts["bytes"],
        "lanes": kernel.facts["lanes"],
    }


def _ready(robot: Robot, job: Job) -> tuple[float, Any]:
    start = time.perf_counter()
    kernel = robot.explain(job.function, **job.options)
    return time.perf_counter() - start, kernel
