"""Large batches on several threads: the loops of a gufunc hold no lock of the interpreter."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, lru_cache
from itertools import chain, pairwise, product
from typing import Any

import numpy as np

from qddot.compile.runtime.recycle import new_array
from qddot.errors import InvalidArgument

__all__ = [
    "SETTING",
    "Setting",
    "batch_slicer",
    "broadcast_batch",
    "cut_batch",
    "leading_axes",
    "run_shares",
    "run_split",
    "run_whole",
    "set_threads",
    "threads",
]

_WORTH_A_THREAD = 4_000_000
"""Operations that take longer than it takes to wake a thread."""
_WORTH_A_SHARE = 500_000
"""Operations that take longer than it takes to come back for more."""
_MOST_BROADCAST_AXES = 32
"""Most axes that np.broadcast_shapes takes; arrays have up to 64."""
_FULL, _WHOLE = 32, 8
"""States that fill the groups of most functions, and the vectors of any."""


_own: ContextVar[int | None] = ContextVar("qddot_threads", default=None)


class Setting:
    """How many threads a large batch is split over.

    `single` holds while nobody in this process has asked for several: a call that finds it has
    nothing else to ask.
    """

    __slots__ = ("default", "single")

    def __init__(self) -> None:
        self.default, self.single = 1, True

    @property
    def threads(self) -> int:
        """The number of the block that this thread or task is in, else of the process."""
        return _own.get() or self.default


SETTING = Setting()


def _validate_threads(n: int) -> int:
    """Validate a number of threads, and note in the setting if it is several."""
    if not isinstance(n, int) or n < 1:
        raise InvalidArgument("set_threads", n, "needs a whole number from 1")
    SETTING.single = SETTING.single and n == 1
    return n


def set_threads(n: int) -> None:
    """Split large batches over n threads from here on, in the whole process."""
    SETTING.default = _validate_threads(n)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Split large batches over n threads inside a with block, of this thread or task only.

    The number is a context variable: tasks of asyncio started inside have it, other threads
    do not.
    """
    before = _own.get()
    _own.set(_validate_threads(n))
    try:
        yield
    finally:
        _own.set(before)


@cache
def _pool(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="qddot")


if hasattr(os, "register_at_fork"):
    # threads do not follow into a child process
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_whole(
    gufunc: Callable[..., Any],
    arrays: Sequence[Any],
    cores: Sequence[int],
    outputs: Sequence[tuple[int, ...]],
    out: Any = None,
) -> Any:
    """The gufunc on arrays, with memory for large results that was used before."""
    if out is None and all(isinstance(x, np.ndarray) and x.dtype.char in "fd" for x in arrays):
        batch = broadcast_batch(leading_axes(arrays, cores))
        out = tuple(new_array(batch + core, _result_type(arrays)) for core in outputs)
    return gufunc(*arrays) if out is None else gufunc(*arrays, out=out)


def _result_type(arrays: Sequence[np.ndarray]) -> type[np.floating]:
    """The type of the results: float32 only where all arrays are."""
    return np.float32 if all(x.dtype.char == "f" for x in arrays) else np.float64


def leading_axes(arrays: Sequence[np.ndarray], cores: Sequence[int]) -> list[tuple[int, ...]]:
    """Batch shape of each array: its shape without its core axes, counted in `cores`."""
    return [x.shape[: x.ndim - n] for x, n in zip(arrays, cores, strict=True)]


def broadcast_batch(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which batch shapes broadcast; most often those with axes are equal."""
    different = {shape for shape in shapes if shape}
    if len(different) < 2:
        return next(iter(different), ())
    most = max(map(len, different))
    if most <= _MOST_BROADCAST_AXES:
        return np.broadcast_shapes(*different)
    # axis by axis, each as if it were alone
    columns = zip(*((1,) * (most - len(s)) + s for s in different), strict=True)
    return tuple(np.broadcast_shapes(*((n,) for n in axis))[0] for axis in columns)


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
        return run_whole(gufunc, arrays, cores, outputs, out)
    batch = broadcast_batch(leading_axes(arrays, cores))
    states, longest = math.prod(batch), max(batch, default=1)
    parts = min(SETTING.threads, longest, states * cost // _WORTH_A_THREAD)
    if parts < 2:
        return run_whole(gufunc, arrays, cores, outputs, out)
    ready = cut_batch(arrays, cores, outputs, out, batch)
    if ready is None:
        return run_whole(gufunc, arrays, cores, outputs, out)
    results, read, written = ready
    shares = _split_axis(longest, parts, _WORTH_A_SHARE * longest // (cost * states))
    run_shares(lambda part: gufunc(*read(part), out=tuple(written(part))), shares, parts)
    return results[0] if len(results) == 1 else tuple(results)


Cutter = Callable[[slice], list[np.ndarray]]
"""Cuts the same part out of several arrays."""


def cut_batch(
    arrays: Sequence[np.ndarray],
    cores: Sequence[int],
    outputs: Sequence[tuple[int, ...]],
    out: Any,
    batch: tuple[int, ...],
) -> tuple[list[np.ndarray], Cutter, Cutter] | None:
    """Results for a batch, and functions that slice arrays and results along its longest axis.

    None where results have other shapes, or share memory with the arrays.
    """
    given = out if isinstance(out, tuple) else (out,) * len(outputs) if out is None else (out,)
    wanted = [batch + core for core in outputs]
    targets = [o for o in given if o is not None]
    # results have just the shapes wanted, and no thread writes what another one reads
    if len(given) != len(wanted) or not all(isinstance(o, np.ndarray) for o in targets):
        return None
    if any(o is not None and o.shape != s for o, s in zip(given, wanted, strict=True)):
        return None
    pairs = product(targets, arrays)
    if any(np.may_share_memory(o, x) and not _same_place(o, x) for o, x in pairs):
        return None
    dtype = _result_type(arrays)
    results = [new_array(s, dtype) if o is None else o for s, o in zip(wanted, given, strict=True)]
    axis = batch.index(max(batch)) - len(batch)
    written = batch_slicer(results, [len(core) for core in outputs], axis)
    return results, batch_slicer(arrays, cores, axis), written


def batch_slicer(arrays: Sequence[np.ndarray], cores: Sequence[int], axis: int) -> Cutter:
    """A function that slices arrays along a batch axis, where they have it and do not broadcast."""
    before = [
        None
        if x.ndim < n - axis or x.shape[axis - n] == 1
        else (slice(None),) * (x.ndim + axis - n)
        for x, n in zip(arrays, cores, strict=True)
    ]
    places = list(zip(arrays, before, strict=True))
    return lambda part: [x if at is None else x[(*at, part)] for x, at in places]


def run_shares(run: Callable[[slice], Any], shares: tuple[slice, ...], parts: int) -> None:
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
def _split_axis(length: int, parts: int, worth: int) -> tuple[slice, ...]:
    """Parts of an axis for threads to take when they are done with another: the last are small.

    A core that others use too then does less, and none waits long for it. Where there are states
    enough, none is smaller than what is worth it and fills vectors and groups.
    """
    least, bounds = max(worth, min(_FULL, length // (4 * parts)), 1), [0]
    whole = _FULL if length > 4 * _FULL * parts else _WHOLE if length > _WHOLE * parts else 1
    while bounds[-1] < length:
        share = max(least, (length - bounds[-1]) // (2 * parts))
        bounds.append(min(length, bounds[-1] + -(-share // whole) * whole))
    return tuple(slice(a, b) for a, b in pairwise(bounds))


def _same_place(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are one: their parts then overlap part by part."""
    return a.__array_interface__["data"] == b.__array_interface__["data"] and (
        (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )
