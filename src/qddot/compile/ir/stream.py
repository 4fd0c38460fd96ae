"""Large results, as LLVM IR: blocks of a batch computed in the cache and moved to memory in order.

Rows of many numbers are written a vector here and a vector there, which is fast in the cache. Where
lines of a result are not in it, each would first be read from memory, and lines of many pages would
wait for each other. So a loop around the loop computes a block of states into a buffer that stays
in the cache, and moves it in the order of memory: a result that the caches can hold by a copy, a
larger one with stores that pass the caches by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.ir.stores import Shape
from qddot.compile.ir.types import VectorType

__all__ = ["stream_ir", "worth_streaming"]

_FEWEST_NUMBERS = 100
"""Numbers of a state from which stores take more of the time than arithmetic."""
_AWAY_BYTES = 1 << 23
"""Results whose memory is often not in the caches: with the one before, or others that are kept,
they fill them."""
_FAR_BYTES = 1 << 25
"""Results that do not stay in the caches until they are read."""
_BUFFER_BYTES = 1 << 18
"""A buffer that stays in the second cache, beside code and frames."""
_WHOLE_GROUPS = 16
"""States of which every block has a multiple: groups of blocks fill their vectors."""
_LINE = 64


def worth_streaming(outputs: Sequence[Shape]) -> bool:
    """Whether rows are so long that large results are streamed."""
    return sum(map(math.prod, outputs)) > _FEWEST_NUMBERS


def stream_ir(
    v: VectorType, inputs: Sequence[Shape], outputs: Sequence[Shape], loop: str, name: str
) -> str:
    """The function `name` (args, dimensions, steps, data) around the function `loop` like it.

    Small batches, and results with strides, are left to the loop; so is a batch for whose buffer
    there is no memory.
    """
    rows = [math.prod(shape) * v.number_bytes for shape in outputs]
    states = max(1, _BUFFER_BYTES // sum(rows) // _WHOLE_GROUPS) * _WHOLE_GROUPS
    arrays, axes = len(inputs) + len(outputs), sum(map(len, (*inputs, *outputs)))
    # rows so long that a buffer of them leaves the second cache are not worth a copy
    away = _AWAY_BYTES if states * sum(rows) <= 2 * _BUFFER_BYTES else _FAR_BYTES
    arguments = "ptr %args, ptr %dims, ptr %steps, ptr %data"
    return "\n".join(
        [
            _MOVES.format(vector=v.type, bytes=v.bytes, mask=v.bytes - 1, size=v.number_bytes),
            f"define void @{name}({arguments}) {{",
            "  %n = load i64, ptr %dims",
            f"  %stay0 = icmp ule i64 %n, {away // sum(rows)}",
            *_compare_strides(v, inputs, outputs),
            "near:",
            f"  call void @{loop}({arguments})",
            "  ret void",
            "away:",
            f"  %far = icmp ugt i64 %n, {_FAR_BYTES // sum(rows)}",
            "  %move = select i1 %far, ptr @stream, ptr @copy",
            f"  %raw = call ptr @malloc(i64 {states * sum(rows) + _LINE})",
            "  %none = icmp eq ptr %raw, null",
            "  br i1 %none, label %near, label %begin",
            "begin:",
            "  %address = ptrtoint ptr %raw to i64",
            f"  %up = add i64 %address, {_LINE - 1}",
            f"  %aligned = and i64 %up, -{_LINE}",
            "  %buffer = inttoptr i64 %aligned to ptr",
            f"  %block_args = alloca [{arrays} x ptr]",
            f"  %block_dims = alloca [{1 + axes} x i64]",
            # the sizes of core axes are those of the whole batch
            "  call void @llvm.memcpy.p0.p0.i64(ptr %block_dims, ptr %dims, "
            f"i64 {8 * (1 + axes)}, i1 false)",
            "  br label %test",
            "test:",
            "  %i = phi i64 [0, %begin], [%next, %block]",
            "  %more = icmp ult i64 %i, %n",
            "  br i1 %more, label %block, label %done",
            *_run_block(len(inputs), rows, states, loop),
            "  br label %test",
            "done:",
            # stores that pass the caches by are seen by other threads only after a fence
            "  fence seq_cst",
            "  call void @free(ptr %raw)",
            "  ret void",
            "}",
        ]
    )


def _compare_strides(v: VectorType, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> list[str]:
    """To the label away if the batch is, and rows of results stand as in the buffer, else near."""
    expected: dict[int, int] = {}
    core = len(inputs) + len(outputs) + sum(map(len, inputs))
    for k, shape in enumerate(outputs, len(inputs)):
        expected[k] = math.prod(shape) * v.number_bytes
        for axis in range(len(shape)):
            expected[core + axis] = math.prod(shape[axis + 1 :]) * v.number_bytes
        core += len(shape)
    lines, stay = list[str](), "%stay0"
    for k, stride in expected.items():
        lines += [
            f"  %at{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"  %step{k} = load i64, ptr %at{k}",
            f"  %other{k} = icmp ne i64 %step{k}, {stride}",
            f"  %stay_{k} = or i1 {stay}, %other{k}",
        ]
        stay = f"%stay_{k}"
    return [*lines, f"  br i1 {stay}, label %near, label %away"]


def _run_block(inputs: int, rows: Sequence[int], states: int, loop: str) -> list[str]:
    """The loop on the block of states from %i on, into the buffer, and from there to memory."""
    lines = [
        "block:",
        "  %left = sub i64 %n, %i",
        f"  %count = call i64 @llvm.umin.i64(i64 %left, i64 {states})",
        "  store i64 %count, ptr %block_dims",
    ]
    # inputs move on with the block, outputs are parts of the buffer
    for k in range(inputs):
        lines += [
            f"  %from{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %base{k} = load ptr, ptr %from{k}",
            f"  %stride_at{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"  %stride{k} = load i64, ptr %stride_at{k}",
            f"  %skip{k} = mul i64 %i, %stride{k}",
            f"  %part{k} = getelementptr i8, ptr %base{k}, i64 %skip{k}",
        ]
    offset = 0
    for k, row in enumerate(rows, inputs):
        lines.append(f"  %part{k} = getelementptr i8, ptr %buffer, i64 {offset}")
        offset += states * row
    for k in range(inputs + len(rows)):
        lines += [
            f"  %to{k} = getelementptr ptr, ptr %block_args, i64 {k}",
            f"  store ptr %part{k}, ptr %to{k}",
        ]
    lines.append(f"  call void @{loop}(ptr %block_args, ptr %block_dims, ptr %steps, ptr %data)")
    for k, row in enumerate(rows, inputs):
        lines += [
            f"  %from{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %base{k} = load ptr, ptr %from{k}",
            f"  %skip{k} = mul i64 %i, {row}",
            f"  %target{k} = getelementptr i8, ptr %base{k}, i64 %skip{k}",
            f"  %bytes{k} = mul i64 %count, {row}",
            f"  call void %move(ptr %target{k}, ptr %part{k}, i64 %bytes{k})",
        ]
    return [*lines, f"  %next = add i64 %i, {states}"]


_MOVES = """\
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @copy(ptr %target, ptr %source, i64 %bytes) {{
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  ret void
}}
define internal void @stream(ptr %target, ptr %source, i64 %bytes) {{
  %address = ptrtoint ptr %target to i64
  %negative = sub i64 0, %address
  %gap = and i64 %negative, {mask}
  %head = call i64 @llvm.umin.i64(i64 %gap, i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %head, i1 false)
  br label %test
test:
  %k = phi i64 [%head, %0], [%next, %move]
  %next = add i64 %k, {bytes}
  %more = icmp ule i64 %next, %bytes
  br i1 %more, label %move, label %tail
move:
  %from = getelementptr i8, ptr %source, i64 %k
  %to = getelementptr i8, ptr %target, i64 %k
  %x = load {vector}, ptr %from, align {size}
  store {vector} %x, ptr %to, align {bytes}, !nontemporal !0
  br label %test
tail:
  %rest = sub i64 %bytes, %k
  %last = getelementptr i8, ptr %source, i64 %k
  %end = getelementptr i8, ptr %target, i64 %k
  call void @llvm.memcpy.p0.p0.i64(ptr %end, ptr %last, i64 %rest, i1 false)
  ret void
}}
!0 = !{{i32 1}}"""
