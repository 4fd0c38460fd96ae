"""The IR of a built-in function that runs a kernel without NumPy's gufunc machinery.

It is a function (self, args, nargs) of CPython's; `self` is a bytes object of addresses, in the
order of CONTEXT. The offsets of fields are those of PyObject, PyArrayObject and PyBytesObject.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

__all__ = [
    "AXES",
    "BYTES",
    "CONTEXT",
    "CONTIGUOUS_ALIGNED",
    "DATA",
    "DTYPE",
    "FAST_CALL",
    "FLAGS",
    "FLOAT64",
    "RAISED",
    "SHAPE",
    "TYPE",
    "WRITEABLE",
    "fast_call_ir",
]

Shape = tuple[int, ...]
FAST_CALL = "qddot_direct"
TYPE, DATA, AXES, SHAPE, DTYPE, FLAGS, BYTES = 8, 16, 24, 32, 56, 64, 32
CONTIGUOUS_ALIGNED, WRITEABLE = 0x101, 0x400
FLOAT64 = 12
MOST_STATES = 2**15
"""States of a batch from which on it is handed on, to what sees to interrupts in between."""
CONTEXT = ("type", "float64", "float32", "new", "other", "table")
"""Addresses of a process; the table of loops has null for one that is not compiled yet."""
RAISED = {"x86_64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}.get(platform.machine(), 0)
"""Flags for invalid, divided by zero, overflow and underflow in C libraries but Windows'."""
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


def _join_lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def _load_entry(name: str, base: str, index: str, kind: str = "ptr") -> str:
    """Load an entry of an array."""
    return f"""\
  %{name}_at = getelementptr {kind}, ptr {base}, i64 {index}
  %{name} = load {kind}, ptr %{name}_at"""


def _load_field(name: str, base: str, offset: int, kind: str) -> str:
    """Load a field of an object."""
    return f"""\
  %{name}_at = getelementptr i8, ptr {base}, i64 {offset}
  %{name} = load {kind}, ptr %{name}_at"""


def _store_entry(name: str, base: str, index: str, kind: str = "ptr") -> str:
    """Store a value, by its name, as an entry of an array."""
    return f"""\
  %{name}_slot = getelementptr {kind}, ptr {base}, i64 {index}
  store {kind} %{name}, ptr %{name}_slot"""


def _for_each(name: str, before: str, count: int | str, then: str, body: str) -> str:
    """From the label each_name: a loop over %name, from the label before, to name_done and then."""
    return f"""\
each_{name}:
  %{name} = phi i64 [0, %{before}], [%{name}_next, %{name}_done]
  %{name}_more = icmp slt i64 %{name}, {count}
  br i1 %{name}_more, label %{name}_body, label %{then}
{name}_body:
{body}
{name}_done:
  %{name}_next = add i64 %{name}, 1
  br label %each_{name}"""


@dataclass(frozen=True)
class _FastCall:
    """Writes the function, a method a label; arguments are inputs, then arrays for the results."""

    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    loop: str

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Core shapes of all arguments."""
        return (*self.inputs, *self.outputs)

    def shape_tables(self) -> str:
        """Constants of each array: number of axes, place of its first size, numbers at a state.

        Strides are those of contiguous batches, then those of contiguous cores.
        """
        shapes = self.shapes
        cells = [math.prod(shape) for shape in shapes]
        cores = [math.prod(shape[axis + 1 :]) for shape in shapes for axis in range(len(shape))]
        tables = {
            "ranks": [len(shape) for shape in shapes],
            "firsts": list(accumulate((len(shape) for shape in shapes[:-1]), initial=0)),
            "sizes": [size for shape in shapes for size in shape],
            "cells": cells,
            **{f"strides{k}": [k * x for x in (*cells, *cores)] for k in (8, 4)},
        }
        return _join_lines(
            f"@{name} = internal constant [{len(x)} x i64] [{', '.join(f'i64 {n}' for n in x)}]"
            for name, x in tables.items()
        )

    def is_array(self) -> str:
        """Whether an object is an array of the core shape of argument %k after %batch axes."""
        same_size = f"""\
{_load_entry("own_size", "%own_sizes", "%axis", "i64")}
{_load_entry("size", "%sizes", "%axis", "i64")}
  %fits = icmp eq i64 %own_size, %size
  br i1 %fits, label %axis_done, label %no"""
        return f"""\
define internal i1 @is_array(ptr %array, ptr %type, ptr %dtype, i32 %flags, i64 %batch, i64 %n,
                             i64 %k) noinline {{
entry:
{_load_field("own_type", "%array", TYPE, "ptr")}
  %exact = icmp eq ptr %own_type, %type
  br i1 %exact, label %fields, label %no
fields:
{_load_entry("rank", "@ranks", "%k", "i64")}
  %axes = add i64 %rank, %batch
{_load_field("own_axes32", "%array", AXES, "i32")}
  %own_axes = sext i32 %own_axes32 to i64
  %ranked = icmp eq i64 %own_axes, %axes
{_load_field("own_dtype", "%array", DTYPE, "ptr")}
  %typed = icmp eq ptr %own_dtype, %dtype
{_load_field("own_flags", "%array", FLAGS, "i32")}
  %set = and i32 %own_flags, %flags
  %plain = icmp eq i32 %set, %flags
  %both = and i1 %ranked, %typed
  %all = and i1 %both, %plain
  br i1 %all, label %lengths, label %no
lengths:
{_load_field("shape", "%array", SHAPE, "ptr")}
  %length = load i64, ptr %shape
  %same = icmp eq i64 %length, %n
  %alone = icmp eq i64 %batch, 0
  %long = or i1 %same, %alone
  br i1 %long, label %core, label %no
core:
  %own_sizes = getelementptr i64, ptr %shape, i64 %batch
{_load_entry("first", "@firsts", "%k", "i64")}
  %sizes = getelementptr i64, ptr @sizes, i64 %first
  br label %each_axis
{_for_each("axis", "core", "%rank", "yes", same_size)}
yes:
  ret i1 true
no:
  ret i1 false
}}"""

    def one_state(self) -> str:
        """From the label one_state: check one state, make its results, run the loop."""
        check = f"""\
{_load_entry("i_array", "%given", "%i")}
  %i_good = call i1 @is_array(ptr %i_array, ptr %type, ptr %float64, i32 {CONTIGUOUS_ALIGNED},
                              i64 0, i64 1, i64 %i)
  br i1 %i_good, label %i_take, label %general
i_take:
{_load_field("i_data", "%i_array", DATA, "ptr")}
{_store_entry("i_data", "%data", "%i")}
  br label %i_done"""
        make = f"""\
  %place = add i64 %m, {len(self.inputs)}
{_load_entry("rank", "@ranks", "%place", "i64")}
  %axes = trunc i64 %rank to i32
{_load_entry("first_size", "@firsts", "%place", "i64")}
  %sizes = getelementptr i64, ptr @sizes, i64 %first_size
  %m_array = call ptr %new(ptr %type, i32 %axes, ptr %sizes, i32 {FLOAT64}, ptr null, ptr null,
                           i32 0, i32 0, ptr null)
  %null = icmp eq ptr %m_array, null
  br i1 %null, label %release, label %m_take
m_take:
{_store_entry("m_array", "%results", "%m")}
{_load_field("m_data", "%m_array", DATA, "ptr")}
{_store_entry("m_data", "%data", "%place")}
  br label %m_done"""
        return f"""\
one_state:
  br label %each_i
{_for_each("i", "one_state", len(self.inputs), "each_m", check)}
{_for_each("m", "each_i", len(self.outputs), "run_one", make)}
run_one:
  store i64 1, ptr %dims
  call void @{self.loop}(ptr %data, ptr %dims, ptr @strides8, ptr null)
  %one_error = call ptr @PyErr_Occurred()
  %one_ran = icmp eq ptr %one_error, null
  br i1 %one_ran, label %give, label %release"""

    def batch_into_results(self) -> str:
        """From the label into: check states and where they go, run the loop, take the results.

        There is one axis for a batch or none. What NumPy may warn of is left to the gufunc, which
        computes it again.
        """
        take = f"""\
  %r_place = add i64 %r, {len(self.inputs)}
{_load_entry("r_array", "%given", "%r_place")}
  call void @Py_IncRef(ptr %r_array)
{_store_entry("r_array", "%results", "%r")}
  br label %r_done"""
        return f"""\
into:
  %first = load ptr, ptr %given
{_load_field("first_type", "%first", TYPE, "ptr")}
  %is_array = icmp eq ptr %first_type, %type
  br i1 %is_array, label %kind, label %general
kind:
{_load_field("first_axes32", "%first", AXES, "i32")}
  %first_axes = sext i32 %first_axes32 to i64
  %batch = sub i64 %first_axes, {len(self.inputs[0])}
  %one_axis = icmp ule i64 %batch, 1
{_load_field("dtype", "%first", DTYPE, "ptr")}
  %wide = icmp eq ptr %dtype, %float64
  %narrow = icmp eq ptr %dtype, %float32
  %known = or i1 %wide, %narrow
  %usual = and i1 %one_axis, %known
  br i1 %usual, label %length, label %general
length:
  %number = select i1 %wide, i64 0, i64 1
{_load_entry("loop", "%table", "%number")}
  %has_loop = icmp ne ptr %loop, null
  %strides = select i1 %wide, ptr @strides8, ptr @strides4
  %size = select i1 %wide, i64 8, i64 4
{_load_field("shape", "%first", SHAPE, "ptr")}
  %long = load i64, ptr %shape
  %is_batch = icmp eq i64 %batch, 1
  %n = select i1 %is_batch, i64 %long, i64 1
  %before = sub i64 %n, 1
  %some = icmp ult i64 %before, {MOST_STATES}
  %ready = and i1 %has_loop, %some
  br i1 %ready, label %each_k, label %general
{_for_each("k", "length", len(self.shapes), "run_many", self.check_argument())}
run_many:
  store i64 %n, ptr %dims
  %cleared = call i32 @feclearexcept(i32 {RAISED})
  %thread = call ptr @PyEval_SaveThread()
  call void %loop(ptr %data, ptr %dims, ptr %strides, ptr null)
  %raised = call i32 @fetestexcept(i32 {RAISED})
  call void @PyEval_RestoreThread(ptr %thread)
  %error = call ptr @PyErr_Occurred()
  %ran = icmp eq ptr %error, null
  br i1 %ran, label %look, label %failed
look:
  %quiet = icmp eq i32 %raised, 0
  br i1 %quiet, label %each_r, label %general
{_for_each("r", "look", len(self.outputs), "give", take)}"""

    def check_argument(self) -> str:
        """Check argument %k, and that no result shares memory with an array before it."""
        apart = f"""\
{_load_entry("j_data", "%data", "%j")}
  %j_begin = ptrtoint ptr %j_data to i64
{_load_entry("j_end", "%ends", "%j", "i64")}
  %below = icmp ule i64 %end, %j_begin
  %above = icmp ule i64 %j_end, %begin
  %clear = or i1 %below, %above
  br i1 %clear, label %j_done, label %general"""
        return f"""\
{_load_entry("k_array", "%given", "%k")}
  %is_result = icmp sge i64 %k, {len(self.inputs)}
  %k_flags = select i1 %is_result, i32 {CONTIGUOUS_ALIGNED | WRITEABLE}, i32 {CONTIGUOUS_ALIGNED}
  %k_good = call i1 @is_array(ptr %k_array, ptr %type, ptr %dtype, i32 %k_flags, i64 %batch,
                              i64 %n, i64 %k)
  br i1 %k_good, label %k_take, label %general
k_take:
{_load_field("k_data", "%k_array", DATA, "ptr")}
{_store_entry("k_data", "%data", "%k")}
  %begin = ptrtoint ptr %k_data to i64
{_load_entry("cells", "@cells", "%k", "i64")}
  %numbers = mul i64 %cells, %n
  %bytes = mul i64 %numbers, %size
  %end = add i64 %begin, %bytes
{_store_entry("end", "%ends", "%k", "i64")}
  %others = select i1 %is_result, i64 %k, i64 0
  br label %each_j
{_for_each("j", "k_take", "%others", "k_done", apart)}"""

    def return_results(self) -> str:
        """From the label give: return the only result, or a tuple of several.

        From the label release: give up the results that there are so far, the last first, and fail.
        """
        count = len(self.outputs)
        fill = f"""\
{_load_entry("f_array", "%results", "%f")}
  %f_set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %f, ptr %f_array)
  br label %f_done"""
        return f"""\
give:
  %is_only = icmp eq i64 {len(self.outputs)}, 1
  br i1 %is_only, label %give_one, label %give_all
give_one:
  %only = load ptr, ptr %results
  ret ptr %only
give_all:
  %tuple = call ptr @PyTuple_New(i64 {len(self.outputs)})
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %release, label %each_f
{_for_each("f", "give_all", len(self.outputs), "filled", fill)}
filled:
  ret ptr %tuple
release:
  %left = phi i64 [%m, %m_body], [{count}, %run_one], [{count}, %give_all], [%last, %drop]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %failed, label %drop
drop:
  %last = sub i64 %left, 1
{_load_entry("dropped", "%results", "%last")}
  call void @Py_DecRef(ptr %dropped)
  br label %release
failed:
  ret ptr null"""

    def call_general(self) -> str:
        """From the label general: call the other function with the arguments as they came."""
        hand = f"""\
{_load_entry("g_object", "%given", "%g")}
  call void @Py_IncRef(ptr %g_object)
  %g_set = call i32 @PyTuple_SetItem(ptr %all, i64 %g, ptr %g_object)
  br label %g_done"""
        return f"""\
general:
  %all = call ptr @PyTuple_New(i64 %nargs)
  %no_all = icmp eq ptr %all, null
  br i1 %no_all, label %failed, label %each_g
{_for_each("g", "general", "%nargs", "call", hand)}
call:
  %answer = call ptr @PyObject_CallObject(ptr %other, ptr %all)
  call void @Py_DecRef(ptr %all)
  ret ptr %answer"""


def fast_call_ir(inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str, makes: bool) -> str:
    """The function for arrays of these core shapes, and a loop.

    Only if it `makes` results are they made for one state; else that call is handed on too.
    """
    call = _FastCall(inputs, outputs, loop)
    shapes, n_in, n_out = call.shapes, len(inputs), len(outputs)
    one = "one_state" if makes else "general"
    into = "into" if RAISED else "general"
    return f"""\
{_DECLARED}
{call.shape_tables()}
{call.is_array()}
define ptr @{FAST_CALL}(ptr %self, ptr %given, i64 %nargs) {{
entry:
  %data = alloca [{len(shapes)} x ptr]
  %ends = alloca [{len(shapes)} x i64]
  %results = alloca [{n_out} x ptr]
  %dims = alloca i64
{_join_lines(_load_field(name, "%self", BYTES + 8 * k, "ptr") for k, name in enumerate(CONTEXT))}
  switch i64 %nargs, label %general [i64 {n_in}, label %{one} i64 {len(shapes)}, label %{into}]
{call.one_state()}
{call.batch_into_results() if RAISED else ""}
{call.return_results()}
{call.call_general()}
}}"""
