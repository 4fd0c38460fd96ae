"""A NumPy gufunc around native loops, and the tables of NumPy's C interface.

`fast_call.py` reads the array type and PyArray_New from them, for the IR of `ir/fast_call.py`.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

__all__ = ["Loops", "aligned_zeros", "make_gufunc", "numpy_functions"]

_LINE_BYTES = 64

_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31
_NO_IDENTITY = -1

# offsets in PyUFuncObject: the table of loops, the name, and two fields that are null at first,
# the second of which NumPy releases with the gufunc
_FUNCTIONS, _NAME, _POINTER, _OBJECT = 32, 56, 80, 88
# what gufuncs of another build of NumPy, whose objects look otherwise, point into
_kept: list[Any] = []


def numpy_functions(capsule: str) -> Any:
    """A table of NumPy's C interface: "_UFUNC_API" or "_ARRAY_API"."""
    umath = importlib.import_module("numpy._core._multiarray_umath")
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(getattr(umath, capsule), None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))


@cache
def _gufunc_constructor() -> Any:
    table = numpy_functions("_UFUNC_API")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        # functions, data and types of the loops
        pointer,
        pointer,
        pointer,
        # counts of loops, inputs and outputs; identity
        number,
        number,
        number,
        number,
        # name, docstring, unused, signature
        text,
        text,
        number,
        text,
    )
    return kind(table[_FROM_FUNC_AND_DATA_AND_SIGNATURE])


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of zeros that begins with a line of the cache.

    A vector is then written to one line where rows are as long as whole vectors; arrays of
    NumPy's own begin a quarter of a line later.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = np.zeros(size + _LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % _LINE_BYTES
    return memory[start : start + size].view(kind).reshape(shape)


class Loops:
    """The table of native loops of a gufunc, one a dtype; NumPy reads it at every call."""

    def __init__(self, dtypes: Sequence[str], inputs: int, outputs: int) -> None:
        self.dtypes, self.inputs, self.outputs = tuple(dtypes), inputs, outputs
        self.ready = False
        self._functions = (ctypes.c_void_p * len(dtypes))()
        self._made = (ctypes.c_void_p * len(dtypes))()
        self._data = (ctypes.c_void_p * len(dtypes))()
        codes = [np.dtype(d).num for d in dtypes for _ in range(inputs + outputs)]
        self._types = (ctypes.c_char * len(codes))(*(bytes([code]) for code in codes))
        self._alive: list[Any] = []

    def set_loop(self, k: int, address: int, alive: Any, made: bool = True) -> None:
        """Put a loop into the table and keep its owner alive; one not `made` compiles itself."""
        self._alive.append(alive)
        self._functions[k] = address
        if made:
            self._made[k] = address

    @property
    def made_address(self) -> int:
        """Where the addresses of the loops are that are made, and nulls for others."""
        return ctypes.addressof(self._made)

    def loop_address(self, k: int) -> int:
        """The address of a loop."""
        return self._functions[k] or 0

    def numpy_pointers(self) -> list[ctypes.c_void_p]:
        """The arrays as NumPy wants them: functions, data, types."""
        arrays = (self._functions, self._data, self._types)
        return [ctypes.cast(x, ctypes.c_void_p) for x in arrays]


def make_gufunc(loops: Loops, name: str, doc: str, signature: str) -> np.ufunc:
    """The gufunc of a table of loops, which lives as long as the gufunc does."""
    texts = (name.encode(), doc.encode(), signature.encode())
    counts = (len(loops.dtypes), loops.inputs, loops.outputs)
    gufunc = _gufunc_constructor()(
        *loops.numpy_pointers(), *counts, _NO_IDENTITY, texts[0], texts[1], 0, texts[2]
    )
    # hand the objects that the gufunc points into to a field that NumPy releases with it
    kept = (loops, texts)
    field = {
        offset: ctypes.c_void_p.from_address(id(gufunc) + offset)
        for offset in (_FUNCTIONS, _NAME, _POINTER, _OBJECT)
    }
    expected = {
        _FUNCTIONS: loops.numpy_pointers()[0].value,
        _NAME: ctypes.cast(ctypes.c_char_p(texts[0]), ctypes.c_void_p).value,
        _POINTER: None,
        _OBJECT: None,
    }
    if any(field[offset].value != value for offset, value in expected.items()):
        # another build of NumPy, whose objects look otherwise: keep them for ever
        _kept.append(kept)
    else:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        field[_OBJECT].value = id(kept)
    return gufunc
