"""Arrays over batch and time as lists of scalars, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["columns", "nested", "over_time", "stacked"]


def columns(x: np.ndarray) -> list[np.ndarray]:
    """One array for each number of the last axis."""
    return list(np.moveaxis(x, -1, 0))


def nested(x: np.ndarray, core: int) -> Any:
    """Nested lists over the last axes, so many of them; the batch stays in arrays."""
    if not core:
        return np.asarray(x)
    return [nested(part, core - 1) for part in np.moveaxis(x, x.ndim - core, 0)]


def over_time(x: np.ndarray, core: int) -> Any:
    """What is constant as nested lists of arrays by batch and time."""
    return nested(np.expand_dims(x, np.ndim(x) - core), core)


def stacked(values: Sequence[Any], shape: tuple[int, ...] = ()) -> np.ndarray:
    """Scalars as one array with a last axis for them; before it is this shape, or theirs."""
    shape = np.broadcast_shapes(shape, *(np.shape(x) for x in values))
    if not values:
        return np.empty((*shape, 0))
    return np.stack([np.broadcast_to(x, shape) for x in values], axis=-1, dtype=float)
