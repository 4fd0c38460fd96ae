"""Arrays of a call, refused alike by every way of computing: those for results, and masked ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np

from qddot.compile.runtime.threads import broadcast_batch
from qddot.errors import InvalidArgument, ShapeMismatch, WrongType

__all__ = ["overlaps_itself", "refuse_masked", "refuse_shared_results", "validate_out"]

Shape = tuple[int, ...]
_KINDS = "fcO"
"""Kinds of numbers that results can be written as; NumPy would write them as text too."""
_EFFORT = 10_000
"""Work that NumPy may put into the question whether two arrays share a number."""


def refuse_masked(label: str, given: Any) -> None:
    """Refuse an array with masked entries, which have no value to compute with."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        accepted = "masked entries have no value: give x.filled(value) or x.compressed()"
        raise WrongType(label, "a masked array", accepted)


def validate_out(
    function: str, out: Any, cores: Sequence[Shape], batch: Shape, dtype: np.dtype[Any]
) -> tuple[np.ndarray, ...]:
    """The arrays of `out`, one an output, each of which can take results of the dtype.

    Their leading axes are those of the batch, or more, to which results are broadcast. In the
    place of None in a tuple an array is made.
    """
    label, count = f"{function}: out", len(cores)
    given = out if isinstance(out, tuple) else (out,)
    accepted = "it is an array" if count == 1 else f"it is a tuple of {count} arrays"
    if len(given) != count or (count > 1 and not isinstance(out, tuple)):
        raise InvalidArgument(label, _kind(out), accepted)
    for x in given:
        if x is not None and not isinstance(x, np.ndarray):
            raise InvalidArgument(label, _kind(x), f"{accepted} of NumPy")
    targets = [(x, core) for x, core in zip(given, cores, strict=True) if x is not None]
    # the leading axes of all of them are the same, and the batch fits in
    full = next((x.shape[: x.ndim - len(core)] for x, core in targets), batch)
    try:
        fits = broadcast_batch([batch, full]) == full
    except ValueError:
        fits = False
    for x, core in targets:
        if not fits or x.shape != full + core:
            raise ShapeMismatch(function, "out", str((*batch, *core)), x.shape)
        if x.dtype.kind not in _KINDS or not np.can_cast(dtype, x.dtype, "same_kind"):
            raise InvalidArgument(label, f"an array of {x.dtype}", f"results are {dtype}")
        if not x.flags.writeable:
            raise InvalidArgument(label, "a read-only array", "it must be writeable")
    refuse_shared_results(function, [x for x, _ in targets])
    return tuple(
        np.empty(full + core, dtype) if x is None else x
        for x, core in zip(given, cores, strict=True)
    )


def _kind(x: Any) -> str:
    """Name of the type of an object, without reading its entries, for messages."""
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of {len(x)}"
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")


def refuse_shared_results(function: str, results: Sequence[np.ndarray]) -> None:
    """Refuse arrays of which one place would have to hold two results."""
    pairs = combinations(results, 2)
    if any(_share_memory(x, y) for x, y in pairs) or any(map(overlaps_itself, results)):
        accepted = "each result needs its own memory"
        raise InvalidArgument(f"{function}: out", "arrays that share memory", accepted)


def _share_memory(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether arrays have a number in common, or may have one that is hard to find."""
    try:
        return bool(np.shares_memory(x, y, max_work=cast(Any, _EFFORT)))
    except RuntimeError:  # too hard a question
        return True


def overlaps_itself(x: np.ndarray) -> bool:
    """Whether two places of an array may be one in memory."""
    extent = x.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if stride < extent:
            return True
        extent += stride * (n - 1)
    return False
