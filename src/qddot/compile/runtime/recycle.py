"""Memory of large results, used again when the last array of an earlier result is gone.

The system hands out new memory page by page, as it is first written, which takes longer than most
functions compute. Memory that this process has written before costs nothing.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any

import numpy as np

from qddot.compile.runtime.memory import total_memory
from qddot.errors import InvalidArgument

__all__ = ["LARGE", "drop_recycled", "new_array", "recycled_bytes"]

LARGE = 1 << 20
"""Bytes from which memory is recycled; less comes from the system's own lists at once."""
_SHARE = 16
"""Memory that waits to be used again is at most this part of what the machine has."""
_MOST_BUFFERS = 32
_SLACK = 1.5
"""A buffer is used again for results that are smaller by this factor at most."""
_LINE = 64

_lock = threading.Lock()
_free: list[np.ndarray] = []
"""Buffers without an array, the last one used at the end."""


def _renew_after_fork() -> None:
    """A child must not wait for a thread that only its parent has."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


def _most_bytes() -> int:
    """Bytes that may wait: QDDOT_RECYCLE_BYTES, or a part of the machine's memory."""
    asked = os.environ.get("QDDOT_RECYCLE_BYTES", "")
    if not asked:
        return (total_memory() or 0) // _SHARE
    if not asked.isdecimal():
        raise InvalidArgument("QDDOT_RECYCLE_BYTES", asked, "it is a number of bytes, 0 for none")
    return int(asked)


class _Lease:
    """A buffer that arrays refer to; the last of them gives it back."""

    __slots__ = ("__array_interface__", "buffer", "most")

    def __init__(self, buffer: np.ndarray, size: int, most: int) -> None:
        self.buffer, self.most = buffer, most
        start = buffer.ctypes.data
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (start + -start % _LINE, False),
            "version": 3,
        }

    def __del__(self) -> None:
        # this may run at any moment of any thread, also of one that has the lock: never wait
        if self.buffer.nbytes > self.most or not _lock.acquire(blocking=False):
            return
        try:
            _free.append(self.buffer)
            while len(_free) > _MOST_BUFFERS or sum(x.nbytes for x in _free) > self.most:
                _free.pop(0)
        finally:
            _lock.release()


def new_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array whose numbers are not set, of recycled memory where it is large."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < LARGE or not (most := _most_bytes()):
        return np.empty(shape, kind)
    buffer = _take_buffer(size + _LINE)
    if buffer is None:
        buffer = np.empty(size + _LINE, np.uint8)
    return np.asarray(_Lease(buffer, size, most)).view(kind).reshape(shape)


def _take_buffer(size: int) -> np.ndarray | None:
    """The smallest buffer that is large enough, and not much larger; of several the last used."""
    if not _lock.acquire(blocking=False):
        return None
    try:
        fitting = [k for k, x in enumerate(_free) if size <= x.nbytes <= _SLACK * size]
        return _free.pop(min(fitting, key=lambda k: (_free[k].nbytes, -k))) if fitting else None
    finally:
        _lock.release()


def recycled_bytes() -> int:
    """Bytes that wait to be used again."""
    return sum(x.nbytes for x in list(_free))


def drop_recycled() -> None:
    """Give all memory that waits back to the system."""
    with _lock:
        _free.clear()
