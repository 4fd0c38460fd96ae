"""Large batches on several threads: the loops of a gufunc hold no lock of the interpreter."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from qddot.errors import NotUnderstood

__all__ = [
    "SETTING",
    "Setting",
    "broadcast",
    "leading_axes",
    "run_split",
    "run_whole",
    "set_threads",
    "threads",
]

_WORTH_A_THREAD = 4_000_000
"""Operations that take longer than it takes to wake a thread."""
_WORTH_A_SHARE = 500_000
"""Operations that take longer than it takes to come back for more."""
_FULL, _WHOLE = 32, 8
"""States that fill the gangs of most functions, and the vectors of any."""


class Setting:
    """How many threads a large batch is split over."""

    __slots__ = ("threads",)

    def __init__(self, threads: int) -> None:
        self.threads = threads


SETTING = Setting(1)


def set_threads(n: int) -> None:
    """Split large batches over n threads from here on."""
    if not isinstance(n, int) or n < 1:
        raise NotUnderstood("set_threads", n, "needs a whole number from 1")
    SETTING.threads = n


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Split large batches over n threads inside a with block."""
    before = SETTING.threads
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


@cache
def _pool(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="qddot")


if hasattr(os, "register_at_fork"):
    # threads do not follow into a child process
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_whole(gufunc: Callable[..., Any], arrays: Sequence[Any], out: Any) -> Any:
    """The gufunc on arrays; NumPy takes None for out only where there is one output."""
    return gufunc(*arrays) if out is None else gufunc(*arrays, out=out)


def leading_axes(arrays: Sequence[np.ndarray], cores: Sequence[int]) -> list[tuple[int, ...]]:
    """The axes of arrays before their core axes, of which each has so many."""
    return [x.shape[: x.ndim - n] for x, n in zip(arrays, cores, strict=True)]


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What shapes broadcast to; most often all that have axes have the same."""
    different = {shape for shape in shapes if shape}
    return np.broadcast_shapes(*different) if len(different) > 1 else next(iter(different), ())


def run_split(
    gufunc: Callable[..., Any],
    arrays: Sequence[Any],
    cores: Sequence[int],
    outputs: Sequence[tuple[int, ...]],
    out: Any,
    cost: int,
) -> Any:
    """The gufunc on arrays, its longest batch axis split over the threads if it is worth it.

    `cores` is the number of core axes of each input, `outputs` the core shapes of the outputs,
    `cost` what a state takes, in operations.
    """
    if not all(isinstance(x, np.ndarray) for x in arrays):
        return run_whole(gufunc, arrays, out)
    batch = broadcast(leading_axes(arrays, cores))
    states, longest = math.prod(batch), max(batch, default=1)
    parts = min(SETTING.threads, longest, states * cost // _WORTH_A_THREAD)
    if parts < 2:
        return run_whole(gufunc, arrays, out)
    given = out if isinstance(out, tuple) else (out,) * len(outputs) if out is None else (out,)
    wanted = [batch + core for core in outputs]
    if not _splittable(arrays, given, wanted):
        return run_whole(gufunc, arrays, out)
    dtype = np.float32 if all(x.dtype.char == "f" for x in arrays) else np.float64
    results = [np.empty(s, dtype) if o is None else o for s, o in zip(wanted, given, strict=True)]
    axis = batch.index(longest) - len(batch)
    read = _cutter(arrays, cores, axis)
    written = _cutter(results, [len(core) for core in outputs], axis)
    shares = _shares(longest, parts, _WORTH_A_SHARE * longest // (cost * states))
    _run_shares(lambda part: gufunc(*read(part), out=tuple(written(part))), shares, parts)
    return results[0] if len(results) == 1 else tuple(results)


def _cutter(
    arrays: Sequence[np.ndarray], cores: Sequence[int], axis: int
) -> Callable[[slice], list[np.ndarray]]:
    """What cuts a part along an axis, counted from the core axes, out of arrays that have it."""
    before = [
        None
        if x.ndim < n - axis or x.shape[axis - n] == 1
        else (slice(None),) * (x.ndim + axis - n)
        for x, n in zip(arrays, cores, strict=True)
    ]
    places = list(zip(arrays, before, strict=True))
    return lambda part: [x if at is None else x[(*at, part)] for x, at in places]


def _run_shares(run: Callable[[slice], Any], shares: tuple[slice, ...], parts: int) -> None:
    """All shares, by this thread and others that take the next one when they are done.

    The last is this one's: while it runs the others finish, and nobody has to be woken.
    """
    (mine, *others), more = shares[:parts], shares[parts:]
    # threads may share the iterator of a tuple
    left = iter(more[:-1])

    def work(*own: slice) -> None:
        try:
            for part in chain(own[:1], left, own[1:]):
                run(part)
        finally:
            # what fails in one thread leaves nothing to the others
            deque(left, maxlen=0)

    # what np.errstate says holds in the threads too
    running = [_pool(parts - 1).submit(copy_context().run, work, part) for part in others]
    try:
        work(mine, *more[-1:])
    finally:
        # nothing may write to the results any more when this one has failed
        failures = [one.exception() for one in running]
    for failure in filter(None, failures):
        raise failure


@lru_cache(maxsize=64)
def _shares(length: int, parts: int, worth: int) -> tuple[slice, ...]:
    """Parts of an axis for threads to take when they are done with another: the last are small.

    A core that others use too then does less, and none waits long for it. Where there are states
    enough, none is smaller than what is worth it and fills vectors and gangs.
    """
    least, bounds = max(worth, min(_FULL, length // (4 * parts)), 1), [0]
    whole = _FULL if length > 4 * _FULL * parts else _WHOLE if length > _WHOLE * parts else 1
    while bounds[-1] < length:
        share = max(least, (length - bounds[-1]) // (2 * parts))
        bounds.append(min(length, bounds[-1] + -(-share // whole) * whole))
    return tuple(slice(a, b) for a, b in pairwise(bounds))


def _splittable(
    arrays: Sequence[np.ndarray], given: Sequence[Any], wanted: Sequence[tuple[int, ...]]
) -> bool:
    """Whether results have just the shapes wanted, and no thread writes what another one reads."""
    targets = [o for o in given if o is not None]
    return (
        len(given) == len(wanted)
        and all(isinstance(o, np.ndarray) for o in targets)
        and all(o is None or o.shape == s for o, s in zip(given, wanted, strict=True))
        and not any(
            np.may_share_memory(o, x) and not _same_place(o, x) for o in targets for x in arrays
        )
    )


def _same_place(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are one: their parts then overlap part by part."""
    return a.__array_interface__["data"] == b.__array_interface__["data"] and (
        (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )
