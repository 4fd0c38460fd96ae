"""One state, one call: a built-in function that runs a kernel without NumPy's gufunc machinery.

Given float64 arrays of just the core shapes it checks them, makes the results and runs the loop;
given anything else it hands the call to the gufunc. This is the one place that knows where CPython
and NumPy keep the fields of their objects; `make_single` measures that before it relies on it.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from qddot.compile.gufunc import numpy_functions

__all__ = ["SINGLE", "make_single", "single_ir"]

SINGLE = "qddot_single"
Shape = tuple[int, ...]

# offsets in PyObject, PyArrayObject and PyBytesObject
_TYPE, _DATA, _AXES, _SHAPE, _DTYPE, _FLAGS, _BYTES = 8, 16, 24, 32, 56, 64, 32
_CONTIGUOUS_ALIGNED = 0x101
_FLOAT64 = 12
# entries of the table of NumPy's C functions
_ARRAY_TYPE, _ARRAY_NEW = 2, 93


def single_ir(inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str) -> str:
    """The function (self, args, nargs); `self` is a bytes object of four addresses."""
    n_in, n_out = len(inputs), len(outputs)
    arrays, axes = n_in + n_out, sum(map(len, (*inputs, *outputs)))
    lines = [
        "declare ptr @PyErr_Occurred()",
        "declare ptr @PyObject_CallObject(ptr, ptr)",
        "declare void @Py_IncRef(ptr)",
        "declare void @Py_DecRef(ptr)",
        "declare ptr @PyTuple_New(i64)",
        "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
        f"define ptr @{SINGLE}(ptr %self, ptr %given, i64 %count) {{",
        "entry:",
        f"  %arrays = alloca [{arrays} x ptr]",
        "  %dims = alloca i64",
        f"  %steps = alloca [{arrays + max(axes, 1)} x i64]",
        *_context(),
        f"  %counted = icmp eq i64 %count, {n_in}",
        "  br i1 %counted, label %check0, label %general",
    ]
    for k, shape in enumerate(inputs):
        lines += _checked_input(k, shape)
    lines += [f"check{n_in}:", "  store i64 1, ptr %dims", *_strides(inputs, outputs)]
    lines += ["  br label %make0"]
    for k, shape in enumerate(outputs):
        lines += _made_output(k, n_in + k, shape)
    lines += [
        f"make{n_out}:",
        f"  call void @{loop}(ptr %arrays, ptr %dims, ptr %steps, ptr null)",
        "  %error = call ptr @PyErr_Occurred()",
        "  %computed = icmp eq ptr %error, null",
        f"  br i1 %computed, label %give, label %release{n_out}",
        "give:",
        *_returned(n_out),
        *_released(n_out),
        *_handed_on(),
        "}",
    ]
    return "\n".join(lines)


def _context() -> list[str]:
    """The four addresses that differ from process to process."""
    lines = []
    for k, name in enumerate(("type", "dtype", "new", "gufunc")):
        lines += [
            f"  %at_{name} = getelementptr i8, ptr %self, i64 {_BYTES + 8 * k}",
            f"  %{name} = load ptr, ptr %at_{name}",
        ]
    return lines


def _field(name: str, base: str, offset: int, kind: str) -> list[str]:
    return [
        f"  %at_{name} = getelementptr i8, ptr {base}, i64 {offset}",
        f"  %{name} = load {kind}, ptr %at_{name}",
    ]


def _checked_input(k: int, shape: Shape) -> list[str]:
    """Go on to the next check if argument k is an array of this core shape, else to the gufunc."""
    tests: list[str] = []
    lines = [
        f"check{k}:",
        f"  %slot{k} = getelementptr ptr, ptr %given, i64 {k}",
        f"  %array{k} = load ptr, ptr %slot{k}",
        *_field(f"type{k}", f"%array{k}", _TYPE, "ptr"),
        f"  %exact{k} = icmp eq ptr %type{k}, %type",
        f"  br i1 %exact{k}, label %array_check{k}, label %general",
        f"array_check{k}:",
        *_field(f"axes{k}", f"%array{k}", _AXES, "i32"),
        f"  %ranked{k} = icmp eq i32 %axes{k}, {len(shape)}",
        f"  br i1 %ranked{k}, label %core_check{k}, label %general",
        f"core_check{k}:",
        *_field(f"dtype{k}", f"%array{k}", _DTYPE, "ptr"),
        f"  %typed{k} = icmp eq ptr %dtype{k}, %dtype",
        *_field(f"flags{k}", f"%array{k}", _FLAGS, "i32"),
        f"  %bits{k} = and i32 %flags{k}, {_CONTIGUOUS_ALIGNED}",
        f"  %plain{k} = icmp eq i32 %bits{k}, {_CONTIGUOUS_ALIGNED}",
        *_field(f"shape{k}", f"%array{k}", _SHAPE, "ptr"),
    ]
    tests += [f"%typed{k}", f"%plain{k}"]
    for axis, size in enumerate(shape):
        lines += [
            *_field(f"size{k}_{axis}", f"%shape{k}", 8 * axis, "i64"),
            f"  %fits{k}_{axis} = icmp eq i64 %size{k}_{axis}, {size}",
        ]
        tests.append(f"%fits{k}_{axis}")
    verdict = tests[0]
    for j, test in enumerate(tests[1:]):
        lines.append(f"  %good{k}_{j} = and i1 {verdict}, {test}")
        verdict = f"%good{k}_{j}"
    return [
        *lines,
        *_field(f"data{k}", f"%array{k}", _DATA, "ptr"),
        f"  %put{k} = getelementptr ptr, ptr %arrays, i64 {k}",
        f"  store ptr %data{k}, ptr %put{k}",
        f"  br i1 {verdict}, label %check{k + 1}, label %general",
    ]


def _strides(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> list[str]:
    """Strides of contiguous cores behind those of the batch, which one state does not use."""
    values = [0] * (len(inputs) + len(outputs))
    for shape in (*inputs, *outputs):
        stride = 8
        found: list[int] = []
        for size in reversed(shape):
            found.insert(0, stride)
            stride *= size
        values += found
    lines = []
    for k, value in enumerate(values):
        lines += [
            f"  %stride{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"  store i64 {value}, ptr %stride{k}",
        ]
    return lines


def _made_output(k: int, place: int, shape: Shape) -> list[str]:
    """A new array for output k."""
    lines = [f"make{k}:", f"  %lengths{k} = alloca [{len(shape)} x i64]"]
    for axis, size in enumerate(shape):
        lines += [
            f"  %length{k}_{axis} = getelementptr i64, ptr %lengths{k}, i64 {axis}",
            f"  store i64 {size}, ptr %length{k}_{axis}",
        ]
    arguments = (
        f"ptr %type, i32 {len(shape)}, ptr %lengths{k}, i32 {_FLOAT64}, ptr null, ptr null, "
        "i32 0, i32 0, ptr null"
    )
    return [
        *lines,
        f"  %made{k} = call ptr %new({arguments})",
        f"  %null{k} = icmp eq ptr %made{k}, null",
        f"  br i1 %null{k}, label %release{k}, label %have{k}",
        f"have{k}:",
        *_field(f"result{k}", f"%made{k}", _DATA, "ptr"),
        f"  %keep{k} = getelementptr ptr, ptr %arrays, i64 {place}",
        f"  store ptr %result{k}, ptr %keep{k}",
        f"  br label %make{k + 1}",
    ]


def _returned(outputs: int) -> list[str]:
    """The only result, or a tuple of several."""
    if outputs == 1:
        return ["  ret ptr %made0"]
    lines = [
        f"  %tuple = call ptr @PyTuple_New(i64 {outputs})",
        "  %no_tuple = icmp eq ptr %tuple, null",
        f"  br i1 %no_tuple, label %release{outputs}, label %fill",
        "fill:",
    ]
    for k in range(outputs):
        lines.append(f"  %set{k} = call i32 @PyTuple_SetItem(ptr %tuple, i64 {k}, ptr %made{k})")
    return [*lines, "  ret ptr %tuple"]


def _released(outputs: int) -> list[str]:
    """Give up the outputs that were made, from the last to the first, and fail."""
    lines = []
    for k in reversed(range(outputs)):
        lines += [
            f"release{k + 1}:",
            f"  call void @Py_DecRef(ptr %made{k})",
            f"  br label %release{k}",
        ]
    return [*lines, "release0:", "  ret ptr null"]


def _handed_on() -> list[str]:
    """Call the gufunc with the arguments as they came."""
    return [
        "general:",
        "  %all = call ptr @PyTuple_New(i64 %count)",
        "  %no_all = icmp eq ptr %all, null",
        "  br i1 %no_all, label %release0, label %each",
        "each:",
        "  %k = phi i64 [0, %general], [%k1, %pass]",
        "  %left = icmp slt i64 %k, %count",
        "  br i1 %left, label %pass, label %run",
        "pass:",
        "  %source = getelementptr ptr, ptr %given, i64 %k",
        "  %argument = load ptr, ptr %source",
        "  call void @Py_IncRef(ptr %argument)",
        "  %taken = call i32 @PyTuple_SetItem(ptr %all, i64 %k, ptr %argument)",
        "  %k1 = add i64 %k, 1",
        "  br label %each",
        "run:",
        "  %result = call ptr @PyObject_CallObject(ptr %gufunc, ptr %all)",
        "  call void @Py_DecRef(ptr %all)",
        "  ret ptr %result",
    ]


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
    """The four addresses, and the gufunc, in which the code of the built-in function lives too."""

    gufunc: np.ufunc


@cache
def _addresses() -> tuple[int, int, int] | None:
    """The array type, the dtype float64 and PyArray_New, if objects look as they should here."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return None
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    table = numpy_functions("_ARRAY_API")
    array_type, new = table[_ARRAY_TYPE], table[_ARRAY_NEW]
    probe = np.arange(6.0).reshape(2, 3)
    fields = {
        _TYPE: array_type,
        _DATA: probe.ctypes.data,
        _DTYPE: id(np.dtype(np.float64)),
    }
    read = ctypes.c_uint64.from_address
    looks = all(read(id(probe) + offset).value == value for offset, value in fields.items())
    shape = ctypes.c_uint64.from_address(id(probe) + _SHAPE).value
    looks = looks and array_type == id(np.ndarray) and probe.dtype.num == _FLOAT64
    looks = looks and ctypes.c_int.from_address(id(probe) + _AXES).value == 2
    looks = looks and [read(shape + 8 * k).value for k in range(2)] == [2, 3]
    flags = ctypes.c_int.from_address(id(probe) + _FLAGS).value
    looks = looks and flags & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
    text = b"where bytes keep their bytes"
    looks = looks and ctypes.string_at(id(text) + _BYTES, len(text)) == text
    return (int(array_type or 0), id(np.dtype(np.float64)), int(new or 0)) if looks else None


def make_single(address: int, gufunc: np.ufunc, name: str, doc: str) -> Callable[..., Any] | None:
    """The built-in function at an address; None where objects do not look as expected."""
    known = _addresses()
    if known is None:
        return None
    context = _Context(struct.pack("4Q", *known, id(gufunc)))
    context.gufunc = gufunc
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
    _kept.append(definition)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.addressof(definition), context, None)
