"""A tape evaluated on arrays in a chosen precision: the rounding errors of a function."""

from __future__ import annotations

import numpy as np

from qddot.compile.trace.tape import Tape

__all__ = ["evaluate_tape", "output_sizes", "relative_errors"]

_NUMBERS_AT_ONCE = 4_000_000


def evaluate_tape(tape: Tape, values: np.ndarray, dtype: str) -> np.ndarray:
    """The outputs, shape (n, outputs), at n rows of inputs; every operation rounds to the dtype."""
    result = np.empty((len(values), len(tape.outputs)), dtype)
    # a few rows at once, so that all intermediate values fit into memory
    step = max(1, _NUMBERS_AT_ONCE // len(tape.code))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        columns = np.ascontiguousarray(values[rows].T, dtype)
        with np.errstate(all="ignore"):
            for k, x in enumerate(tape.run(list(columns), np.dtype(dtype).type)):
                result[rows, k] = x
    return result


def output_sizes(expected: np.ndarray) -> np.ndarray:
    """The size of an output in each row: its largest entry, or the rms of those if that is more.

    So an output that passes through zero is measured against its usual size.
    """
    largest = np.abs(expected).max(axis=1)
    return np.maximum(largest, np.sqrt(np.mean(largest**2)))


def relative_errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The largest error in each row over the size of the output there."""
    error = np.abs(found - expected).max(axis=1)
    with np.errstate(all="ignore"):
        return np.where(error == 0.0, 0.0, error / output_sizes(expected))
