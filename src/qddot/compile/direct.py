"""Calls without NumPy's gufunc machinery: a built-in function that runs a kernel at once.

Given float64 arrays of just the core shapes it checks them, makes the results and runs the loop.
Given arrays for the results too, of one state or a batch, it writes to those. Given anything else
it hands the call on. This is the one place that knows where CPython and NumPy keep the fields of
their objects; `make_direct` measures that before it relies on it.
"""

from __future__ import annotations

import ctypes
import math
import platform
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from qddot.compile.gufunc import numpy_functions

__all__ = ["DIRECT", "direct_ir", "make_direct"]

DIRECT = "qddot_direct"
Shape = tuple[int, ...]

# offsets in PyObject, PyArrayObject and PyBytesObject
_TYPE, _DATA, _AXES, _SHAPE, _DTYPE, _FLAGS, _BYTES = 8, 16, 24, 32, 56, 64, 32
_CONTIGUOUS_ALIGNED, _WRITEABLE = 0x101, 0x400
_FLOAT64, _SIZE = 12, 8
# entries of the table of NumPy's C functions
_ARRAY_TYPE, _ARRAY_NEW = 2, 93
# what C libraries other than Windows' call invalid, divided by zero, overflow and underflow
_RAISED = {"x86_64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}.get(platform.machine(), 0)
_DECLARED = """\
declare ptr @PyErr_Occurred()
declare ptr @PyObject_CallObject(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @feclearexcept(i32)
declare i32 @fetestexcept(i32)"""


def direct_ir(inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str, makes: bool) -> str:
    """The function (self, args, nargs); `self` is a bytes object of four addresses.

    Only if it `makes` results are they made for one state; else that call is handed on too.
    """
    n_in, arrays = len(inputs), (*inputs, *outputs)
    axes = sum(map(len, arrays))
    one = "one0" if makes else "general"
    into = "many0" if _RAISED else "general"
    lines = [
        _DECLARED,
        f"define ptr @{DIRECT}(ptr %self, ptr %given, i64 %count) {{",
        "entry:",
        f"  %arrays = alloca [{len(arrays)} x ptr]",
        "  %dims = alloca i64",
        f"  %steps = alloca [{len(arrays) + max(axes, 1)} x i64]",
        *_context(),
        *_strides(arrays),
        f"  switch i64 %count, label %general [i64 {n_in}, label %{one} "
        f"i64 {len(arrays)}, label %{into}]",
    ]
    if makes:
        lines += _one_state(inputs, outputs, loop)
    if _RAISED:
        lines += _into("many", 1, inputs, outputs, loop, other="just0")
        lines += _into("just", 0, inputs, outputs, loop, other="general")
    return "\n".join([*lines, "failed:", "  ret ptr null", *_handed_on(), "}"])


def _one_state(inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str) -> list[str]:
    """From the label one0: check one state, make its results, run the loop, return them."""
    n_in, n_out, lines = len(inputs), len(outputs), list[str]()
    for k, shape in enumerate(inputs):
        lines += _checked("one", k, shape, 0, _CONTIGUOUS_ALIGNED, "general")
    lines += [f"one{n_in}:", "  store i64 1, ptr %dims", "  br label %make0"]
    for k, shape in enumerate(outputs):
        lines += _made_output(k, n_in + k, shape)
    return [
        *lines,
        f"make{n_out}:",
        f"  call void @{loop}(ptr %arrays, ptr %dims, ptr %steps, ptr null)",
        "  %error = call ptr @PyErr_Occurred()",
        "  %computed = icmp eq ptr %error, null",
        f"  br i1 %computed, label %give, label %release{n_out}",
        "give:",
        *_returned("made", [f"%made{k}" for k in range(n_out)], f"release{n_out}"),
        *_released(n_out),
    ]


def _into(
    way: str, batch: int, inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str, other: str
) -> list[str]:
    """From the label way0: check states and where they go, run the loop, return the results.

    There is one axis more for a batch; arrays without it go to the other label. What NumPy may
    warn of is left to the gufunc, which computes it again.
    """
    n_in, shapes, lines = len(inputs), (*inputs, *outputs), list[str]()
    for k, shape in enumerate(shapes):
        wanted = _CONTIGUOUS_ALIGNED | (_WRITEABLE if k >= n_in else 0)
        lines += _checked(way, k, shape, batch, wanted, "general" if k else other)
    results = [f"%{way}_array{k}" for k in range(n_in, len(shapes))]
    length = f"%{way}_n" if batch else "1"
    return [
        *lines,
        f"{way}{len(shapes)}:",
        f"  store i64 {length}, ptr %dims",
        *_apart(way, shapes, n_in, length),
        f"{way}_apart:",
        f"  %{way}_cleared = call i32 @feclearexcept(i32 {_RAISED})",
        f"  %{way}_thread = call ptr @PyEval_SaveThread()",
        f"  call void @{loop}(ptr %arrays, ptr %dims, ptr %steps, ptr null)",
        f"  %{way}_raised = call i32 @fetestexcept(i32 {_RAISED})",
        f"  call void @PyEval_RestoreThread(ptr %{way}_thread)",
        f"  %{way}_error = call ptr @PyErr_Occurred()",
        f"  %{way}_ran = icmp eq ptr %{way}_error, null",
        f"  br i1 %{way}_ran, label %{way}_look, label %failed",
        f"{way}_look:",
        f"  %{way}_quiet = icmp eq i32 %{way}_raised, 0",
        f"  br i1 %{way}_quiet, label %{way}_give, label %general",
        f"{way}_give:",
        *(f"  call void @Py_IncRef(ptr {x})" for x in results),
        *_returned(way, results, f"{way}_drop"),
        f"{way}_drop:",
        *(f"  call void @Py_DecRef(ptr {x})" for x in results),
        "  br label %failed",
    ]


def _context() -> list[str]:
    """The four addresses that differ from process to process."""
    lines = []
    for k, name in enumerate(("type", "dtype", "new", "other")):
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


def _checked(way: str, k: int, shape: Shape, batch: int, flags: int, other: str) -> list[str]:
    """Go on to the next check if argument k is an array of this core shape, else hand on.

    With a batch axis it is as long as that of the first argument, and not empty. Arrays of other
    numbers of axes go to the other label.
    """
    at, tests = f"{way}_{{}}{k}".format, list[str]()
    lines = [
        f"{way}{k}:",
        f"  %{at('slot')} = getelementptr ptr, ptr %given, i64 {k}",
        f"  %{at('array')} = load ptr, ptr %{at('slot')}",
        *_field(at("type"), f"%{at('array')}", _TYPE, "ptr"),
        f"  %{at('exact')} = icmp eq ptr %{at('type')}, %type",
        f"  br i1 %{at('exact')}, label %{at('ranks')}, label %general",
        f"{at('ranks')}:",
        *_field(at("axes"), f"%{at('array')}", _AXES, "i32"),
        f"  %{at('ranked')} = icmp eq i32 %{at('axes')}, {len(shape) + batch}",
        f"  br i1 %{at('ranked')}, label %{at('cores')}, label %{other}",
        f"{at('cores')}:",
        *_field(at("dtype"), f"%{at('array')}", _DTYPE, "ptr"),
        f"  %{at('typed')} = icmp eq ptr %{at('dtype')}, %dtype",
        *_field(at("flags"), f"%{at('array')}", _FLAGS, "i32"),
        f"  %{at('bits')} = and i32 %{at('flags')}, {flags}",
        f"  %{at('plain')} = icmp eq i32 %{at('bits')}, {flags}",
        *_field(at("shape"), f"%{at('array')}", _SHAPE, "ptr"),
    ]
    tests += [f"%{at('typed')}", f"%{at('plain')}"]
    if batch:
        length = f"{way}_n" if k == 0 else at("n")
        test, than = ("sgt", "0") if k == 0 else ("eq", f"%{way}_n")
        lines += [
            *_field(length, f"%{at('shape')}", 0, "i64"),
            f"  %{at('long')} = icmp {test} i64 %{length}, {than}",
        ]
        tests.append(f"%{at('long')}")
    for axis, size in enumerate(shape):
        name = at(f"size{axis}_")
        lines += [
            *_field(name, f"%{at('shape')}", _SIZE * (axis + batch), "i64"),
            f"  %{name}fits = icmp eq i64 %{name}, {size}",
        ]
        tests.append(f"%{name}fits")
    verdict = tests[0]
    for j, test in enumerate(tests[1:]):
        lines.append(f"  %{at('good')}_{j} = and i1 {verdict}, {test}")
        verdict = f"%{at('good')}_{j}"
    return [
        *lines,
        *_field(at("data"), f"%{at('array')}", _DATA, "ptr"),
        f"  %{at('put')} = getelementptr ptr, ptr %arrays, i64 {k}",
        f"  store ptr %{at('data')}, ptr %{at('put')}",
        f"  br i1 {verdict}, label %{way}{k + 1}, label %general",
    ]


def _apart(way: str, shapes: Sequence[Shape], n_in: int, length: str) -> list[str]:
    """Go on to the label way_apart if no result shares memory with another array, else hand on."""
    lines, verdict = [], "true"
    for k, shape in enumerate(shapes):
        lines += [
            f"  %{way}_first{k} = ptrtoint ptr %{way}_data{k} to i64",
            f"  %{way}_bytes{k} = mul i64 {length}, {_SIZE * math.prod(shape)}",
            f"  %{way}_end{k} = add i64 %{way}_first{k}, %{way}_bytes{k}",
        ]
        for j in range(k if k >= n_in else 0):
            at = f"{k}_{j}"
            lines += [
                f"  %{way}_below{at} = icmp ule i64 %{way}_end{k}, %{way}_first{j}",
                f"  %{way}_above{at} = icmp ule i64 %{way}_end{j}, %{way}_first{k}",
                f"  %{way}_clear{at} = or i1 %{way}_below{at}, %{way}_above{at}",
                f"  %{way}_apart{at} = and i1 {verdict}, %{way}_clear{at}",
            ]
            verdict = f"%{way}_apart{at}"
    return [*lines, f"  br i1 {verdict}, label %{way}_apart, label %general"]


def _strides(shapes: Sequence[Shape]) -> list[str]:
    """Strides of contiguous batches, then those of contiguous cores."""
    values = [_SIZE * math.prod(shape) for shape in shapes]
    for shape in shapes:
        values += [_SIZE * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
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


def _returned(tag: str, results: Sequence[str], failed: str) -> list[str]:
    """The only result, or a tuple of several."""
    if len(results) == 1:
        return [f"  ret ptr {results[0]}"]
    return [
        f"  %{tag}_tuple = call ptr @PyTuple_New(i64 {len(results)})",
        f"  %{tag}_none = icmp eq ptr %{tag}_tuple, null",
        f"  br i1 %{tag}_none, label %{failed}, label %{tag}_fill",
        f"{tag}_fill:",
        *(
            f"  %{tag}_set{k} = call i32 @PyTuple_SetItem(ptr %{tag}_tuple, i64 {k}, ptr {x})"
            for k, x in enumerate(results)
        ),
        f"  ret ptr %{tag}_tuple",
    ]


def _released(outputs: int) -> list[str]:
    """Give up the outputs that were made, from the last to the first, and fail."""
    lines = []
    for k in reversed(range(outputs)):
        lines += [
            f"release{k + 1}:",
            f"  call void @Py_DecRef(ptr %made{k})",
            f"  br label %release{k}",
        ]
    return [*lines, "release0:", "  br label %failed"]


def _handed_on() -> list[str]:
    """Call the other function with the arguments as they came."""
    return [
        "general:",
        "  %all = call ptr @PyTuple_New(i64 %count)",
        "  %no_all = icmp eq ptr %all, null",
        "  br i1 %no_all, label %failed, label %each",
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
        "  %result = call ptr @PyObject_CallObject(ptr %other, ptr %all)",
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
    """The four addresses, and the other function, which keeps the code of this one alive."""

    other: Callable[..., Any]


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
    expected = _CONTIGUOUS_ALIGNED | _WRITEABLE
    looks = looks and flags & expected == expected
    probe.flags.writeable = False
    flags = ctypes.c_int.from_address(id(probe) + _FLAGS).value
    looks = looks and flags & expected == _CONTIGUOUS_ALIGNED
    text = b"where bytes keep their bytes"
    looks = looks and ctypes.string_at(id(text) + _BYTES, len(text)) == text
    return (int(array_type or 0), id(np.dtype(np.float64)), int(new or 0)) if looks else None


def make_direct(
    address: int, other: Callable[..., Any], name: str, doc: str
) -> Callable[..., Any] | None:
    """The built-in function at an address; None for none, and if objects look unexpectedly.

    What it does not take goes to the other function, with which the code must live.
    """
    known = _addresses()
    if not address or known is None:
        return None
    context = _Context(struct.pack("4Q", *known, id(other)))
    context.other = other
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
    _kept.append(definition)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.addressof(definition), context, None)
