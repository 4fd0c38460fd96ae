"""Calls without NumPy's gufunc machinery: a built-in function that runs a kernel at once.

Given float64 arrays of just the core shapes it checks them, makes the results and runs the loop.
Given arrays for the results too, of one state or a batch, float64 or float32, it writes to those.
Given anything else it hands the call on. Its code, in `direct_ir.py`, knows where CPython and NumPy
keep the fields of their objects; `make_direct` measures that before it relies on it.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from qddot.compile import direct_ir as ir
from qddot.compile.gufunc import Loops, numpy_functions

__all__ = ["make_direct"]

# entries of the table of NumPy's C functions
_ARRAY_TYPE, _ARRAY_NEW = 2, 93


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x0080
# a built-in function points into its definition to its very end
_kept: list[Any] = []


class _Context(bytes):
    """The addresses, and what they belong to; the loops keep the code of the function alive."""

    alive: tuple[Any, ...]


@cache
def _addresses() -> tuple[int, int] | None:
    """The array type and PyArray_New, if objects look as they should here."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return None
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    table = numpy_functions("_ARRAY_API")
    array_type, new = table[_ARRAY_TYPE], table[_ARRAY_NEW]
    probe = np.arange(6.0).reshape(2, 3)
    fields = {
        ir.TYPE: array_type,
        ir.DATA: probe.ctypes.data,
        ir.DTYPE: id(np.dtype(np.float64)),
    }
    read = ctypes.c_uint64.from_address
    looks = all(read(id(probe) + offset).value == value for offset, value in fields.items())
    shape = ctypes.c_uint64.from_address(id(probe) + ir.SHAPE).value
    looks = looks and array_type == id(np.ndarray) and probe.dtype.num == ir.FLOAT64
    looks = looks and ctypes.c_int.from_address(id(probe) + ir.AXES).value == 2
    looks = looks and [read(shape + 8 * k).value for k in range(2)] == [2, 3]
    flags = ctypes.c_int.from_address(id(probe) + ir.FLAGS).value
    expected = ir.CONTIGUOUS_ALIGNED | ir.WRITEABLE
    looks = looks and flags & expected == expected
    probe.flags.writeable = False
    flags = ctypes.c_int.from_address(id(probe) + ir.FLAGS).value
    looks = looks and flags & expected == ir.CONTIGUOUS_ALIGNED
    text = b"where bytes keep their bytes"
    looks = looks and ctypes.string_at(id(text) + ir.BYTES, len(text)) == text
    return (int(array_type or 0), int(new or 0)) if looks else None


def make_direct(
    address: int, loops: Loops, other: Callable[..., Any], name: str, doc: str
) -> Callable[..., Any] | None:
    """The built-in function at an address; None for none, and if objects look unexpectedly.

    What it does not take goes to the other function.
    """
    known = _addresses()
    if not address or known is None:
        return None
    array_type, new = known
    kinds = (id(np.dtype(np.float64)), id(np.dtype(np.float32)))
    addresses = (array_type, *kinds, new, id(other), loops.made_address)
    context = _Context(struct.pack(f"{len(ir.CONTEXT)}Q", *addresses))
    context.alive = (loops, other)
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
    _kept.append(definition)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.addressof(definition), context, None)
