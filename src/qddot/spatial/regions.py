"""Parts of an algorithm that run only where they are needed, over any scalar.

On floats these are an `if` and a `while`. On arrays and in compiled code a part is run for all
states of a block as long as one of them needs it, and skipped where none does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from qddot.spatial.scalar import Scalar, less, where

__all__ = ["run_where", "run_while"]

Body = Callable[[list[Scalar]], Sequence[Scalar]]


def run_where(flag: Scalar, body: Body, state: Sequence[Scalar | None]) -> list[Scalar]:
    """body(state) where the flag (0 or 1) is 1, the state elsewhere.

    Where a number of the state is None, the result without the flag is not specified: whoever reads
    it must choose something else there.
    """
    recorder = getattr(flag, "recorder", None)
    if recorder is not None:
        found: list[Scalar] = recorder.record_region(body, state, 1, flag)
        return found
    before = [math.nan if x is None else x for x in state]
    runs = less(0.5, flag)
    if isinstance(runs, bool):
        return list(body(before)) if runs else before
    if isinstance(runs, np.ndarray | np.generic) and not np.any(runs):
        return before
    return [where(runs, x, y) for x, y in zip(body(before), before, strict=True)]


def run_while(body: Body, state: Sequence[Scalar], times: int) -> list[Scalar]:
    """body(body(…(state))), at most `times` times, while the first number of the state is 1.

    Where that is 0, the body must leave all numbers as they are: other states may still need it.
    """
    recorder = next((x.recorder for x in state if hasattr(x, "recorder")), None)
    if recorder is not None:
        found: list[Scalar] = recorder.record_region(body, state, times)
        return found
    now = list(state)
    for _ in range(times):
        runs = less(0.5, now[0])
        if isinstance(runs, bool | np.ndarray | np.generic) and not np.any(runs):
            break
        now = list(body(now))
    return now
