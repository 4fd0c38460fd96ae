"""Calls without NumPy's gufunc machinery: a built-in function that runs a kernel at once.

Given float64 arrays of just the core shapes it checks them, makes the results and runs the loop.
Given arrays for the results too, of one state or a batch, float64 or float32, it writes to those.
Given anything else it hands the call on. This is the one place that knows where CPython and NumPy
keep the fields of their objects; `make_direct` measures that before it relies on it.
"""

from __future__ import annotations

import ctypes
import math
import platform
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from qddot.compile.gufunc import Loops, numpy_functions

__all__ = ["DIRECT", "direct_ir", "make_direct"]

DIRECT = "qddot_direct"
Shape = tuple[int, ...]

# offsets in PyObject, PyArrayObject and PyBytesObject
_TYPE, _DATA, _AXES, _SHAPE, _DTYPE, _FLAGS, _BYTES = 8, 16, 24, 32, 56, 64, 32
_CONTIGUOUS_ALIGNED, _WRITEABLE = 0x101, 0x400
_FLOAT64 = 12
# entries of the table of NumPy's C functions
_ARRAY_TYPE, _ARRAY_NEW = 2, 93
# what C libraries other than Windows' call invalid, divided by zero, overflow and underflow
_RAISED = {"x86_64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}.get(platform.machine(), 0)
# what differs from process to process; the table of loops has null for one that is not made yet
_CONTEXT = ("type", "float64", "float32", "new", "other", "table")


def direct_ir(inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str, makes: bool) -> str:
    """The function (self, args, nargs); `self` is a bytes object of addresses.

    Only if it `makes` results are they made for one state; else that call is handed on too.
    """
    shapes = (*inputs, *outputs)
    numbers = {
        "arrays": len(shapes), "n_in": len(inputs), "n_out": len(outputs), "rank": len(inputs[0]),
        "read": _CONTIGUOUS_ALIGNED, "written": _CONTIGUOUS_ALIGNED | _WRITEABLE,
        "kind": _FLOAT64, "raised": _RAISED, "loop": loop, "name": DIRECT,
        "one": "one_state" if makes else "general", "into": "into" if _RAISED else "general",
        "type": _TYPE, "data": _DATA, "axes": _AXES, "shape": _SHAPE, "dtype": _DTYPE,
        "flags": _FLAGS,
    }  # fmt: skip
    context = [
        f"  %at_{name} = getelementptr i8, ptr %self, i64 {_BYTES + 8 * k}\n"
        f"  %{name} = load ptr, ptr %at_{name}"
        for k, name in enumerate(_CONTEXT)
    ]
    parts = [_tables(shapes), _IS_ARRAY, _BEGIN, *context, _CHOICE, _ONE]
    text = "\n".join([*parts, *([_INTO] if _RAISED else []), _GIVE, _GENERAL])
    for key, value in numbers.items():
        text = text.replace(f"<{key}>", str(value))
    return text


def _tables(shapes: Sequence[Shape]) -> str:
    """Constants: of each array the number of axes, where its sizes begin, how many numbers it has.

    Strides are those of contiguous batches, then those of contiguous cores.
    """
    cells = [math.prod(shape) for shape in shapes]
    cores = [math.prod(shape[axis + 1 :]) for shape in shapes for axis in range(len(shape))]
    tables = {
        "ranks": [len(shape) for shape in shapes],
        "firsts": list(accumulate((len(shape) for shape in shapes[:-1]), initial=0)),
        "sizes": [size for shape in shapes for size in shape],
        "cells": cells,
        **{f"strides{k}": [k * x for x in (*cells, *cores)] for k in (8, 4)},
    }
    return "\n".join(
        f"@{name} = internal constant [{len(x)} x i64] [{', '.join(f'i64 {n}' for n in x)}]"
        for name, x in tables.items()
    )


# whether an object is an array of the core shape of argument %k behind so many axes for a batch
_IS_ARRAY = """
define internal i1 @is_array(ptr %array, ptr %type, ptr %dtype, i32 %flags, i64 %batch, i64 %n,
                             i64 %k) noinline {
entry:
  %type_at = getelementptr i8, ptr %array, i64 <type>
  %own_type = load ptr, ptr %type_at
  %exact = icmp eq ptr %own_type, %type
  br i1 %exact, label %fields, label %no
fields:
  %rank_at = getelementptr i64, ptr @ranks, i64 %k
  %rank = load i64, ptr %rank_at
  %axes = add i64 %rank, %batch
  %axes_at = getelementptr i8, ptr %array, i64 <axes>
  %own_axes32 = load i32, ptr %axes_at
  %own_axes = sext i32 %own_axes32 to i64
  %ranked = icmp eq i64 %own_axes, %axes
  %dtype_at = getelementptr i8, ptr %array, i64 <dtype>
  %own_dtype = load ptr, ptr %dtype_at
  %typed = icmp eq ptr %own_dtype, %dtype
  %flags_at = getelementptr i8, ptr %array, i64 <flags>
  %own_flags = load i32, ptr %flags_at
  %set = and i32 %own_flags, %flags
  %plain = icmp eq i32 %set, %flags
  %both = and i1 %ranked, %typed
  %all = and i1 %both, %plain
  br i1 %all, label %lengths, label %no
lengths:
  %shape_at = getelementptr i8, ptr %array, i64 <shape>
  %shape = load ptr, ptr %shape_at
  %length = load i64, ptr %shape
  %same = icmp eq i64 %length, %n
  %alone = icmp eq i64 %batch, 0
  %long = or i1 %same, %alone
  br i1 %long, label %core, label %no
core:
  %own_sizes = getelementptr i64, ptr %shape, i64 %batch
  %first_at = getelementptr i64, ptr @firsts, i64 %k
  %first = load i64, ptr %first_at
  %sizes = getelementptr i64, ptr @sizes, i64 %first
  br label %test
test:
  %axis = phi i64 [0, %core], [%next, %each]
  %more = icmp slt i64 %axis, %rank
  br i1 %more, label %each, label %yes
each:
  %own_size_at = getelementptr i64, ptr %own_sizes, i64 %axis
  %own_size = load i64, ptr %own_size_at
  %size_at = getelementptr i64, ptr %sizes, i64 %axis
  %size = load i64, ptr %size_at
  %fits = icmp eq i64 %own_size, %size
  %next = add i64 %axis, 1
  br i1 %fits, label %test, label %no
yes:
  ret i1 true
no:
  ret i1 false
}"""

_BEGIN = """
declare ptr @PyErr_Occurred()
declare ptr @PyObject_CallObject(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @feclearexcept(i32)
declare i32 @fetestexcept(i32)
define ptr @<name>(ptr %self, ptr %given, i64 %count) {
entry:
  %data = alloca [<arrays> x ptr]
  %ends = alloca [<arrays> x i64]
  %results = alloca [<n_out> x ptr]
  %dims = alloca i64"""

_CHOICE = """\
  switch i64 %count, label %general [i64 <n_in>, label %<one> i64 <arrays>, label %<into>]"""

# one state: check it, make its results, run the loop
_ONE = """\
one_state:
  br label %one
one:
  %i = phi i64 [0, %one_state], [%i_next, %one_next]
  %i_more = icmp slt i64 %i, <n_in>
  br i1 %i_more, label %one_check, label %make
one_check:
  %i_at = getelementptr ptr, ptr %given, i64 %i
  %i_array = load ptr, ptr %i_at
  %i_good = call i1 @is_array(ptr %i_array, ptr %type, ptr %float64, i32 <read>, i64 0, i64 1,
                              i64 %i)
  br i1 %i_good, label %one_next, label %general
one_next:
  %i_data_at = getelementptr i8, ptr %i_array, i64 <data>
  %i_data = load ptr, ptr %i_data_at
  %i_slot = getelementptr ptr, ptr %data, i64 %i
  store ptr %i_data, ptr %i_slot
  %i_next = add i64 %i, 1
  br label %one
make:
  %m = phi i64 [0, %one], [%m_next, %made]
  %m_more = icmp slt i64 %m, <n_out>
  br i1 %m_more, label %make_one, label %one_run
make_one:
  %place = add i64 %m, <n_in>
  %rank_at = getelementptr i64, ptr @ranks, i64 %place
  %rank = load i64, ptr %rank_at
  %axes = trunc i64 %rank to i32
  %sizes_first_at = getelementptr i64, ptr @firsts, i64 %place
  %sizes_first = load i64, ptr %sizes_first_at
  %sizes = getelementptr i64, ptr @sizes, i64 %sizes_first
  %array = call ptr %new(ptr %type, i32 %axes, ptr %sizes, i32 <kind>, ptr null, ptr null, i32 0,
                         i32 0, ptr null)
  %null = icmp eq ptr %array, null
  br i1 %null, label %release, label %made
made:
  %m_at = getelementptr ptr, ptr %results, i64 %m
  store ptr %array, ptr %m_at
  %m_data_at = getelementptr i8, ptr %array, i64 <data>
  %m_data = load ptr, ptr %m_data_at
  %m_slot = getelementptr ptr, ptr %data, i64 %place
  store ptr %m_data, ptr %m_slot
  %m_next = add i64 %m, 1
  br label %make
one_run:
  store i64 1, ptr %dims
  call void @<loop>(ptr %data, ptr %dims, ptr @strides8, ptr null)
  %one_error = call ptr @PyErr_Occurred()
  %one_ran = icmp eq ptr %one_error, null
  br i1 %one_ran, label %give, label %release"""

# states and where they go: check them, that no result shares memory with another array, and run
# the loop; what NumPy may warn of is left to the gufunc, which computes it again
_INTO = """\
into:
  %first = load ptr, ptr %given
  %first_type_at = getelementptr i8, ptr %first, i64 <type>
  %first_type = load ptr, ptr %first_type_at
  %is_array = icmp eq ptr %first_type, %type
  br i1 %is_array, label %kind, label %general
kind:
  %first_axes_at = getelementptr i8, ptr %first, i64 <axes>
  %first_axes32 = load i32, ptr %first_axes_at
  %first_axes = sext i32 %first_axes32 to i64
  %batch = sub i64 %first_axes, <rank>
  %one_axis = icmp ule i64 %batch, 1
  %dtype_at = getelementptr i8, ptr %first, i64 <dtype>
  %dtype = load ptr, ptr %dtype_at
  %wide = icmp eq ptr %dtype, %float64
  %narrow = icmp eq ptr %dtype, %float32
  %known = or i1 %wide, %narrow
  %usual = and i1 %one_axis, %known
  br i1 %usual, label %length, label %general
length:
  %loop_number = select i1 %wide, i64 0, i64 1
  %loop_at = getelementptr ptr, ptr %table, i64 %loop_number
  %loop = load ptr, ptr %loop_at
  %has_loop = icmp ne ptr %loop, null
  %strides = select i1 %wide, ptr @strides8, ptr @strides4
  %size = select i1 %wide, i64 8, i64 4
  %shape_at = getelementptr i8, ptr %first, i64 <shape>
  %shape = load ptr, ptr %shape_at
  %long = load i64, ptr %shape
  %is_batch = icmp eq i64 %batch, 1
  %n = select i1 %is_batch, i64 %long, i64 1
  %some = icmp sgt i64 %n, 0
  %ready = and i1 %has_loop, %some
  br i1 %ready, label %check, label %general
check:
  %k = phi i64 [0, %length], [%k_next, %checked]
  %k_more = icmp slt i64 %k, <arrays>
  br i1 %k_more, label %check_one, label %run_many
check_one:
  %k_at = getelementptr ptr, ptr %given, i64 %k
  %k_array = load ptr, ptr %k_at
  %is_result = icmp sge i64 %k, <n_in>
  %k_flags = select i1 %is_result, i32 <written>, i32 <read>
  %k_good = call i1 @is_array(ptr %k_array, ptr %type, ptr %dtype, i32 %k_flags, i64 %batch,
                              i64 %n, i64 %k)
  br i1 %k_good, label %put, label %general
put:
  %k_data_at = getelementptr i8, ptr %k_array, i64 <data>
  %k_data = load ptr, ptr %k_data_at
  %k_slot = getelementptr ptr, ptr %data, i64 %k
  store ptr %k_data, ptr %k_slot
  %begin = ptrtoint ptr %k_data to i64
  %cells_at = getelementptr i64, ptr @cells, i64 %k
  %cells = load i64, ptr %cells_at
  %numbers = mul i64 %cells, %n
  %bytes = mul i64 %numbers, %size
  %end = add i64 %begin, %bytes
  %end_slot = getelementptr i64, ptr %ends, i64 %k
  store i64 %end, ptr %end_slot
  %others = select i1 %is_result, i64 %k, i64 0
  br label %apart
apart:
  %j = phi i64 [0, %put], [%j_next, %apart_one]
  %j_more = icmp slt i64 %j, %others
  br i1 %j_more, label %apart_one, label %checked
apart_one:
  %j_slot = getelementptr ptr, ptr %data, i64 %j
  %j_data = load ptr, ptr %j_slot
  %j_begin = ptrtoint ptr %j_data to i64
  %j_end_slot = getelementptr i64, ptr %ends, i64 %j
  %j_end = load i64, ptr %j_end_slot
  %below = icmp ule i64 %end, %j_begin
  %above = icmp ule i64 %j_end, %begin
  %clear = or i1 %below, %above
  %j_next = add i64 %j, 1
  br i1 %clear, label %apart, label %general
checked:
  %k_next = add i64 %k, 1
  br label %check
run_many:
  store i64 %n, ptr %dims
  %cleared = call i32 @feclearexcept(i32 <raised>)
  %thread = call ptr @PyEval_SaveThread()
  call void %loop(ptr %data, ptr %dims, ptr %strides, ptr null)
  %raised = call i32 @fetestexcept(i32 <raised>)
  call void @PyEval_RestoreThread(ptr %thread)
  %error = call ptr @PyErr_Occurred()
  %ran = icmp eq ptr %error, null
  br i1 %ran, label %look, label %failed
look:
  %quiet = icmp eq i32 %raised, 0
  br i1 %quiet, label %take, label %general
take:
  %r = phi i64 [0, %look], [%r_next, %take_one]
  %r_more = icmp slt i64 %r, <n_out>
  br i1 %r_more, label %take_one, label %give
take_one:
  %r_place = add i64 %r, <n_in>
  %r_at = getelementptr ptr, ptr %given, i64 %r_place
  %r_array = load ptr, ptr %r_at
  call void @Py_IncRef(ptr %r_array)
  %r_slot = getelementptr ptr, ptr %results, i64 %r
  store ptr %r_array, ptr %r_slot
  %r_next = add i64 %r, 1
  br label %take"""

# the only result, or a tuple of several; or nothing, and the results that there were are given up
_GIVE = """\
give:
  %only = icmp eq i64 <n_out>, 1
  br i1 %only, label %give_one, label %give_all
give_one:
  %result = load ptr, ptr %results
  ret ptr %result
give_all:
  %tuple = call ptr @PyTuple_New(i64 <n_out>)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %release, label %fill
fill:
  %f = phi i64 [0, %give_all], [%f_next, %fill_one]
  %f_more = icmp slt i64 %f, <n_out>
  br i1 %f_more, label %fill_one, label %filled
fill_one:
  %f_at = getelementptr ptr, ptr %results, i64 %f
  %f_array = load ptr, ptr %f_at
  %f_set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %f, ptr %f_array)
  %f_next = add i64 %f, 1
  br label %fill
filled:
  ret ptr %tuple
release:
  %left = phi i64 [%m, %make_one], [<n_out>, %one_run], [<n_out>, %give_all], [%last, %drop]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %failed, label %drop
drop:
  %last = sub i64 %left, 1
  %d_at = getelementptr ptr, ptr %results, i64 %last
  %d_array = load ptr, ptr %d_at
  call void @Py_DecRef(ptr %d_array)
  br label %release
failed:
  ret ptr null"""

# the other function, with the arguments as they came
_GENERAL = """\
general:
  %tuple_in = call ptr @PyTuple_New(i64 %count)
  %no_tuple_in = icmp eq ptr %tuple_in, null
  br i1 %no_tuple_in, label %failed, label %pass
pass:
  %g = phi i64 [0, %general], [%g_next, %pass_one]
  %g_more = icmp slt i64 %g, %count
  br i1 %g_more, label %pass_one, label %hand_on
pass_one:
  %g_at = getelementptr ptr, ptr %given, i64 %g
  %g_object = load ptr, ptr %g_at
  call void @Py_IncRef(ptr %g_object)
  %g_set = call i32 @PyTuple_SetItem(ptr %tuple_in, i64 %g, ptr %g_object)
  %g_next = add i64 %g, 1
  br label %pass
hand_on:
  %handed = call ptr @PyObject_CallObject(ptr %other, ptr %tuple_in)
  call void @Py_DecRef(ptr %tuple_in)
  ret ptr %handed
}"""


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
    context = _Context(struct.pack("6Q", array_type, *kinds, new, id(other), loops.made_address))
    context.alive = (loops, other)
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
    _kept.append(definition)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.addressof(definition), context, None)
