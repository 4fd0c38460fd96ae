"""Arrays over batch and time as lists of scalars, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["columns", "nested_lists", "nested_over_time", "stack_scalars"]


def columns(x: np.ndarray) -> list[np.ndarray]:
    """One array over the leading axes for each entry of the last axis."""
    return list(np.moveaxis(x, -1, 0))


def nested_lists(x: np.ndarray, core: int) -> Any:
    """Nested lists over the last `core` axes, of arrays over the leading ones."""
    if not core:
        return np.asarray(x)
    return [nested_lists(part, core - 1) for part in np.moveaxis(x, x.ndim - core, 0)]


def nested_over_time(x: np.ndarray, core: int) -> Any:
    """A constant as nested lists of arrays that broadcast over batch and time."""
    return nested_lists(np.expand_dims(x, np.ndim(x) - core), core)


def stack_scalars(values: Sequence[Any], shape: tuple[int, ...] = ()) -> np.ndarray:
    """Scalars, broadcast with each other and `shape`, as one array with a last axis for them."""
    shape = np.broadcast_shapes(shape, *(np.shape(x) for x in values))
    if not values:
        return np.empty((*shape, 0))
    return np.stack([np.broadcast_to(x, shape) for x in values], axis=-1, dtype=float)
