"""Arrays with more rows than memory should hold, in temporary files.

Pages of a file that a process has looked at count as its memory until they are released. Work on
such arrays therefore goes by slices of rows, and releases the pages after each.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["release_pages", "row_slices", "stack_rows"]

_HELD = 128 * 2**20
"""Bytes of an array that stay in memory; more go to a temporary file."""
_SLICE_BYTES = 16 * 2**20


def stack_rows(pieces: Iterable[np.ndarray]) -> np.ndarray:
    """Pieces one below the other: in memory, or in a temporary file where they are many."""
    held: list[np.ndarray] = []
    size, spill, last = 0, None, np.zeros((0, 0))
    for piece in pieces:
        last = np.ascontiguousarray(piece)
        size += last.nbytes
        if spill is None and size > _HELD:
            spill = tempfile.TemporaryFile()  # noqa: SIM115 (the array keeps it)
            for earlier in held:
                earlier.tofile(spill)
            held = []
        held.append(last) if spill is None else last.tofile(spill)
    if spill is None:
        return np.concatenate(held) if held else last
    spill.flush()
    return np.memmap(spill, dtype=last.dtype, mode="r+").reshape(-1, *last.shape[1:])


def row_slices(*arrays: np.ndarray) -> Iterator[slice]:
    """Slices of rows that cover arrays of one length; pages of files are released on the way."""
    # a few columns of a table touch all its pages, so rows are as wide as they lie apart
    count = len(arrays[0])
    width = sum(max(abs(x.strides[0]), x.itemsize) for x in arrays)
    step = max(_SLICE_BYTES // width, 1)
    for k in range(0, count, step):
        yield slice(k, min(k + step, count))
        release_pages(*arrays)


def release_pages(*arrays: np.ndarray | None) -> None:
    """Give back the pages of arrays that lie in files; their contents stay in the files."""
    for array in arrays:
        # a map of mode "c" has changes that are in no file
        owner: Any = array
        shared = False
        while owner is not None and not isinstance(owner, mmap.mmap):
            shared |= isinstance(owner, np.memmap) and owner.mode != "c"
            owner = getattr(owner, "base", None)
        # where a process cannot say so, the system takes the pages back by itself
        if owner is not None and shared and hasattr(mmap, "MADV_DONTNEED"):
            owner.madvise(mmap.MADV_DONTNEED)
