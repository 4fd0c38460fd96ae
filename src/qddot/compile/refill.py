"""Arrays that are filled again: what is zero at every state is written once and then left alone.

Most numbers of a regressor of a tree are such zeros, and to write them takes longer than to compute
the others. Only arrays that have them may be filled, so no call goes by way of memory of NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from qddot.compile.gufunc import zeros
from qddot.compile.threads import broadcast, leading_axes, run_split
from qddot.errors import NotUnderstood

__all__ = ["refill"]

Shape = tuple[int, ...]


def refill(
    gufunc: np.ufunc,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    cost: int,
    make_narrow: Callable[[], None],
    *given: Any,
) -> Any:
    """The gufunc, which leaves zeros alone, on arrays, and into those that follow them, or new.

    Its float32 loop must be there first: what cannot be computed may not be written to either.
    """
    arrays, out = [np.asarray(x) for x in given[: len(inputs)]], given[len(inputs) :]
    cores = [len(shape) for shape in inputs]
    batch = broadcast(leading_axes(arrays, cores))
    narrow = all(x.dtype.char == "f" for x in arrays)
    dtype, wanted = np.dtype("f4" if narrow else "f8"), [batch + shape for shape in outputs]
    _check(out, wanted, dtype, arrays)
    if narrow:
        make_narrow()
    results = out or tuple(zeros(shape, dtype) for shape in wanted)
    return run_split(gufunc, arrays, cores, outputs, results, cost)


def _check(
    out: Sequence[Any], wanted: Sequence[Shape], dtype: np.dtype[Any], arrays: Sequence[np.ndarray]
) -> None:
    """Refuse what NumPy would copy: its copies have no zeros."""
    for x, shape in zip(out, wanted, strict=False):
        if type(x) is not np.ndarray or (x.shape, x.dtype) != (shape, dtype):
            raise NotUnderstood("out", x, f"an array of {dtype} of shape {shape} is needed")
        if not (x.flags.writeable and x.flags.aligned):
            raise NotUnderstood("out", x, "it must be aligned and not read-only")
    pairs = [*combinations(out, 2), *((x, y) for x in out for y in arrays)]
    if any(np.may_share_memory(x, y) for x, y in pairs) or any(map(_overlaps_itself, out)):
        raise NotUnderstood("out", list(out), "numbers share memory, with each other or an input")


def _overlaps_itself(x: np.ndarray) -> bool:
    """Whether two places of an array may be one in memory."""
    extent = x.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if stride < extent:
            return True
        extent += stride * (n - 1)
    return False
