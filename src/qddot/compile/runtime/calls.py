"""The general call of a kernel: no batch beyond the memory, and long batches in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from qddot.compile.runtime.chunks import CHUNK, run_batch
from qddot.compile.runtime.memory import require_batch
from qddot.compile.runtime.recycle import LARGE
from qddot.compile.runtime.results import refuse_shared_results
from qddot.compile.runtime.threads import broadcast_batch, leading_axes, run_whole

__all__ = ["guard_memory"]

Shape = tuple[int, ...]


def guard_memory(
    gufunc: np.ufunc, inputs: Sequence[Shape], outputs: Sequence[Shape], cost: int
) -> Callable[..., Any]:
    """The gufunc, with batches refused before their results are made if those do not fit in memory.

    A batch that takes long, at `cost` operations a state, runs in chunks. Arrays so small that the
    results of all combinations of their states are, and are quick, are not looked at further.
    """
    cores, numbers = [len(shape) for shape in inputs], sum(map(math.prod, outputs))
    states = min(LARGE // (8 * max(1, numbers)), CHUNK // max(1, cost))
    small = states * math.prod(map(math.prod, inputs))

    def run_guarded(*given: Any) -> Any:
        if len(given) == gufunc.nargs:
            results = given[len(cores) :]
            # results that NumPy would accept, and should not: foreign, of text, or shared
            own = [x for x in results if isinstance(x, ndarray)]
            others = [x for x in results if not isinstance(x, ndarray)]
            foreign = any(hasattr(x, "__array_ufunc__") for x in others)
            if foreign or any(x.dtype.kind in "SUV" for x in own):
                raise TypeError("results are written to arrays of NumPy, of numbers")
            refuse_shared_results(gufunc.__name__, own)
        most, lists = 1, False
        for x in given:
            if type(x) is ndarray:
                most *= x.size
            elif isinstance(x, ndarray):
                # NumPy would give results its class, with rules of its own for shapes
                raise TypeError("arrays of a class of their own take the general way")
            else:
                lists = True
        if lists:
            # a list takes more memory than its numbers
            return gufunc(*given)
        if most >= small:
            arrays, results = given[: len(cores)], given[len(cores) :]
            try:
                batch = broadcast_batch(leading_axes(arrays, cores))
            except ValueError:
                # NumPy says what does not fit
                return gufunc(*given)
            if not results:
                narrow = all(x.dtype.char == "f" for x in arrays)
                require_batch(gufunc.__name__, batch, numbers * (4 if narrow else 8))
            if len(results) in (0, len(outputs)) and math.prod(batch) * cost > CHUNK:
                return run_batch(gufunc, arrays, cores, outputs, results or None, cost)
            if not results:
                return run_whole(gufunc, arrays, cores, outputs)
        return gufunc(*given)

    return run_guarded
