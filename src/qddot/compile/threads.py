"""Large batches on several threads: the loops of a gufunc hold no lock of the interpreter."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from qddot.errors import NotUnderstood

__all__ = ["SETTING", "Setting", "run_split", "run_whole", "set_threads", "threads"]

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
    batch = np.broadcast_shapes(
        *(x.shape[: x.ndim - n] for x, n in zip(arrays, cores, strict=True))
    )
    worth = math.prod(batch) * cost // _WORTH_A_THREAD
    parts = min(SETTING.threads, max(batch, default=1), worth)
    if parts < 2:
        return run_whole(gufunc, arrays, out)
    axis = int(np.argmax(batch)) - len(batch)
    dtype = np.float32 if all(x.dtype.char == "f" for x in arrays) else np.float64
    given = out if isinstance(out, tuple) else (out,) * len(outputs) if out is None else (out,)
    wanted = [batch + s for s in outputs]
    if not _splittable(arrays, given, wanted):
        return run_whole(gufunc, arrays, out)
    results = [
        np.empty(batch + s, dtype) if o is None else o for s, o in zip(outputs, given, strict=True)
    ]
    shares = _shares(batch[axis], parts, _WORTH_A_SHARE * batch[axis] // (cost * math.prod(batch)))
    sizes = [len(s) for s in outputs]

    def work(first: slice) -> None:
        try:
            for part in chain([first], shares):
                given = [_part(x, axis - n, part) for x, n in zip(arrays, cores, strict=True)]
                made = [_part(x, axis - n, part) for x, n in zip(results, sizes, strict=True)]
                gufunc(*given, out=tuple(made))
        finally:
            # what fails in one thread leaves nothing to the others
            deque(shares, maxlen=0)

    # what np.errstate says holds in the threads too
    first, *others = islice(shares, parts)
    running = [_pool(parts - 1).submit(copy_context().run, work, part) for part in others]
    try:
        work(first)
    finally:
        # nothing may write to the results any more when this one has failed
        wait(running)
    for one in running:
        one.result()
    return results[0] if len(results) == 1 else tuple(results)


def _shares(length: int, parts: int, worth: int) -> Iterator[slice]:
    """Parts of an axis for threads to take when they are done with another: the last are small.

    A core that others use too then does less, and none waits long for it. Where there are states
    enough, none is smaller than what is worth it and fills vectors and gangs. Threads may share
    the iterator, as it is one of a list.
    """
    least, bounds = max(worth, min(_FULL, length // (4 * parts))), [0]
    while bounds[-1] < length:
        left = length - bounds[-1]
        share = max(least, left // (2 * parts))
        whole = -(-share // _WHOLE) * _WHOLE if length > _WHOLE * parts else share
        bounds.append(min(length, bounds[-1] + max(1, whole)))
    return iter([slice(a, b) for a, b in pairwise(bounds)])


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


def _part(x: np.ndarray, axis: int, part: slice) -> np.ndarray:
    """A part of an array along an axis counted from the end, if the array has that axis."""
    if x.ndim < -axis or x.shape[axis] == 1:
        return x
    index = [slice(None)] * x.ndim
    index[axis] = part
    return x[tuple(index)]
