"""Long native loops in chunks: between two of them an interrupt is seen and progress is told.

A chunk takes a fraction of a second, so its own overhead is not seen. Results are those of one
loop, bit by bit: states do not depend on each other, and what a step hands to the next is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from qddot.compile.ir.scan import ScanShapes
from qddot.compile.runtime.threads import (
    SETTING,
    batch_slicer,
    broadcast_batch,
    cut_batch,
    leading_axes,
    run_split,
    run_whole,
)

__all__ = ["CHUNK", "run_batch", "run_scan"]

CHUNK = 400_000_000
"""Operations of a chunk on one thread: about a tenth of a second."""
_FULL = 32
"""States that fill the groups of most functions: fewer take as long."""
_FEWEST = 256
"""States that a chunk of a batch has at least; fewer are split in time."""
_MOST_STEPS = 2**20
"""Steps of a chunk: a count that float32 has exactly."""

OnChunk = Callable[[int, int], None]
"""Told how much of the work is done, and of how much."""


def run_batch(
    gufunc: Callable[..., Any],
    arrays: Sequence[Any],
    cores: Sequence[int],
    outputs: Sequence[tuple[int, ...]],
    out: Any,
    cost: int,
) -> Any:
    """The gufunc on arrays, as `run_split` does, but a batch that takes long in chunks."""
    parts = []
    if all(isinstance(x, np.ndarray) for x in arrays):
        batch = broadcast_batch(leading_axes(arrays, cores))
        parts = _batch_parts(math.prod(batch), max(batch, default=1), cost)
    ready = cut_batch(arrays, cores, outputs, out, batch) if len(parts) > 1 else None
    if ready is None:
        if SETTING.threads == 1:
            return run_whole(gufunc, arrays, cores, outputs, out)
        return run_split(gufunc, arrays, cores, outputs, out, cost)
    results, read, written = ready
    for part in parts:
        run_split(gufunc, read(part), cores, outputs, tuple(written(part)), cost)
    return results[0] if len(results) == 1 else tuple(results)


def _batch_parts(states: int, longest: int, cost: int, fewest: int = 1) -> list[slice]:
    """Parts of the longest axis of a batch that take a chunk each."""
    if states * cost <= CHUNK * SETTING.threads:
        return [slice(0, longest)]
    length = states // longest * cost
    least = -(-fewest * longest // states)
    share = max(1, least, CHUNK * SETTING.threads // length)
    # groups are filled where there are states enough
    share -= share % _FULL if share > _FULL else 0
    return [slice(a, min(a + share, longest)) for a in range(0, longest, share)]


def run_scan(
    gufunc: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    shapes: ScanShapes,
    batch: tuple[int, ...],
    every: int,
    results: Sequence[np.ndarray],
    cost: int,
    clock: int,
    on_chunk: OnChunk | None = None,
) -> None:
    """A scan into its results, in chunks of the batch, and of time where those are long.

    `every` is the number of steps of a sample, `cost` the operations of a step, `clock` the place
    in the carry of the number of steps since the last sample.
    """
    states, longest = math.prod(batch), max(batch, default=1)
    steps = (results[0].shape[-2] - 1) * every
    most = CHUNK * SETTING.threads
    short = max(states, _FULL) * steps * cost <= most and every <= _MOST_STEPS
    if short or not states * steps:
        _run_once(gufunc, arrays, shapes, results, steps * cost)
        if on_chunk:
            on_chunk(states * steps, states * steps)
        return
    cores = [len(axes) for axes in shapes.arguments]
    axis = batch.index(longest) - len(batch) if batch else -1
    # later chunks read what earlier ones may have written to
    arrays = [x.copy() if any(np.may_share_memory(x, r) for r in results) else x for x in arrays]
    read = batch_slicer(arrays, cores, axis)
    written = batch_slicer(results, [len(axes) for axes in shapes.results], axis)
    done = 0
    for part in _batch_parts(states, longest, steps * cost, _FEWEST):
        inside = states // longest * (part.stop - part.start)
        count = min(_MOST_STEPS, max(1, most // (cost * max(inside, _FULL))))
        run = partial(_run_once, gufunc, shapes=shapes, cost=count * cost)
        for taken in _run_times(run, read(part), written(part), shapes, every, count, clock):
            done += taken * inside
            if on_chunk:
                on_chunk(done, states * steps)


def _run_once(
    gufunc: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    shapes: ScanShapes,
    results: Sequence[np.ndarray],
    cost: int,
) -> None:
    """One call, over the threads where the batch is worth it."""
    if SETTING.threads == 1:
        gufunc(*arrays, out=tuple(results))
        return
    cores = [len(axes) for axes in shapes.arguments]
    pairs = zip(results, shapes.results, strict=True)
    outputs = [x.shape[x.ndim - len(axes) :] for x, axes in pairs]
    run_split(gufunc, arrays, cores, outputs, tuple(results), cost)


def _run_times(
    run: Callable[..., None],
    arrays: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    shapes: ScanShapes,
    every: int,
    most: int,
    clock: int,
) -> Iterator[int]:
    """Run a scan in calls of at most `most` steps; yields the number of steps of each call."""
    carried, read, told = (
        len(shapes.carry),
        len(shapes.carry + shapes.sampled),
        len(shapes.path_places),
    )
    carry, sampled, constants = list(arrays[:carried]), arrays[carried:read], arrays[read:-1]
    paths, ends = results[:told], results[told:]
    samples, kind = paths[0].shape[-2] - 1, paths[0].dtype
    together = max(1, most // every)
    for first in range(0, samples, together):
        last = min(first + together, samples)
        rows = [x[..., first:last, :] for x in sampled]
        for done in range(0, every, most):
            count = min(most, every - done)
            # part of a sample goes to arrays of its own: the loop writes where it starts, too
            targets = [
                x[..., first : last + 1, :]
                if count == every
                else np.empty((*x.shape[:-2], 2, x.shape[-1]), kind)
                for x in paths
            ]
            carry[clock] = np.array(done, kind)
            run([*carry, *rows, *constants, np.array(count, kind)], results=[*targets, *ends])
            for path, target in zip(paths, targets, strict=True):
                if not done:
                    path[..., first, :] = target[..., 0, :]
                path[..., last, :] = target[..., -1, :]
            # copies: a loop may not read what it writes
            for place, path in zip(shapes.path_places, paths, strict=True):
                carry[place] = path[..., last, :].copy()
            for place, end in zip(shapes.end_places, ends, strict=True):
                carry[place] = end.copy()
            yield count * (last - first)
