"""Arrays that are filled again: zeros of every state are written once and then left alone.

Most numbers of a regressor of a tree are such zeros, and to write them takes longer than to compute
the others. Only arrays that have them may be filled, so no call goes by way of memory of NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from qddot.compile.runtime.chunks import run_batch
from qddot.compile.runtime.gufunc import aligned_zeros
from qddot.compile.runtime.memory import require_batch
from qddot.compile.runtime.results import overlaps_itself, refuse_masked
from qddot.compile.runtime.threads import broadcast_batch, leading_axes
from qddot.errors import InvalidArgument

__all__ = ["refill_arrays"]

Shape = tuple[int, ...]


def refill_arrays(
    gufunc: np.ufunc,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    cost: int,
    compile_float32: Callable[[], None],
    *given: Any,
) -> Any:
    """A gufunc that leaves zeros alone on input arrays, into the arrays that follow them, or new.

    Its float32 loop must be there first: where it cannot be compiled, nothing may be written.
    """
    for x in given:
        refuse_masked(gufunc.__name__, x)
    arrays, out = [np.asarray(x) for x in given[: len(inputs)]], given[len(inputs) :]
    cores = [len(shape) for shape in inputs]
    batch = broadcast_batch(leading_axes(arrays, cores))
    narrow = all(x.dtype.char == "f" for x in arrays)
    dtype, wanted = np.dtype("f4" if narrow else "f8"), [batch + shape for shape in outputs]
    # refuse arrays that NumPy would copy: its copies have no zeros
    for x, shape in zip(out, wanted, strict=False):
        if type(x) is not np.ndarray or (x.shape, x.dtype) != (shape, dtype):
            raise InvalidArgument("out", x, f"an array of {dtype} of shape {shape} is needed")
        if not (x.flags.writeable and x.flags.aligned):
            raise InvalidArgument("out", x, "it must be aligned and not read-only")
    pairs = [*combinations(out, 2), *((x, y) for x in out for y in arrays)]
    if any(np.may_share_memory(x, y) for x, y in pairs) or any(map(overlaps_itself, out)):
        raise InvalidArgument("out", list(out), "numbers share memory, with each other or an input")
    if narrow:
        compile_float32()
    if not out:
        numbers = sum(map(math.prod, outputs))
        require_batch(gufunc.__name__, batch, numbers * dtype.itemsize)
    results = out or tuple(aligned_zeros(shape, dtype) for shape in wanted)
    return run_batch(gufunc, arrays, cores, outputs, results, cost)
