"""A tape run on arrays in a chosen precision: what rounding does to a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qddot.compile.tape import Tape

__all__ = ["evaluate", "relative_errors", "sizes"]

_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "atan2": np.arctan2,
    "select": lambda x, y, a, b: np.where(x < y, a, b),
}
_NUMBERS_AT_ONCE = 4_000_000


def evaluate(tape: Tape, values: np.ndarray, dtype: str) -> np.ndarray:
    """The outputs, shape (n, outputs), at n rows of inputs; every operation rounds to the dtype."""
    step = max(1, _NUMBERS_AT_ONCE // len(tape.code))
    parts = [values[k : k + step] for k in range(0, len(values), step)]
    with np.errstate(all="ignore"):
        return np.concatenate([_rows(tape, part, dtype) for part in parts])


def _rows(tape: Tape, values: np.ndarray, dtype: str) -> np.ndarray:
    number = np.dtype(dtype).type
    columns = np.ascontiguousarray(values.T, dtype)
    done: list[Any] = []

    def value(x: int | float) -> Any:
        return done[x] if type(x) is int else number(x)

    for name, *args in tape.code:
        done.append(columns[args[0]] if name == "input" else _NUMPY[name](*map(value, args)))
    result = np.empty((len(values), len(tape.outputs)), dtype)
    for k, x in enumerate(tape.outputs):
        result[:, k] = value(x)
    return result


def sizes(expected: np.ndarray) -> np.ndarray:
    """The size of an output in each row: its largest entry, or the rms of those if that is more.

    So an output that passes through zero is measured against its usual size.
    """
    largest = np.abs(expected).max(axis=1)
    return np.maximum(largest, np.sqrt(np.mean(largest**2)))


def relative_errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The largest error in each row over the size of the output there."""
    error = np.abs(found - expected).max(axis=1)
    with np.errstate(all="ignore"):
        return np.where(error == 0.0, 0.0, error / sizes(expected))
