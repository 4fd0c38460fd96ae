"""The inner loop of a gufunc as LLVM IR: counts through the batch, a gang of blocks at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.block import (
    Array,
    Frame,
    Shape,
    constants_ir,
    each_block,
    gang_size,
    kernel_ir,
    memory_ir,
    output_places,
    split,
    tables_ir,
)
from qddot.compile.tape import Tape
from qddot.compile.types import Vector

__all__ = ["loop_ir"]


def loop_ir(
    tape: Tape,
    v: Vector,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    workspace: int,
    pieces: int,
    name: str,
) -> str:
    """The function (args, dimensions, steps, data) around @kernel, and its tables."""
    places = output_places(tape)
    frame = Frame(sum(math.prod(s) for s in inputs), len(places), workspace, v)
    gang = gang_size(frame, pieces)
    allocate, release = memory_ir(v, gang * frame.vectors)
    parts = split(tape.outputs, outputs)
    tables = [line for k, part in enumerate(parts) for line in tables_ir(part, places, v.lanes, k)]
    setup, before, after = _transfers(v, inputs, parts, outputs)
    lines = [
        *(*tables, kernel_ir(frame, pieces)),
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
        "entry:",
        "  %n = load i64, ptr %dims",
        *allocate,
        *constants_ir(frame, places, gang),
        *setup,
        "  br label %test",
        "test:",
        f"  %i = phi i64 [0, %{'ready' if release else 'entry'}], [%i_next, %next_gang]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %start, label %done",
        "start:",
        "  %left = sub i64 %n, %i",
        f"  %rounded = add i64 %left, {v.lanes - 1}",
        f"  %blocks = udiv i64 %rounded, {v.lanes}",
        f"  %gang = call i64 @llvm.umin.i64(i64 %blocks, i64 {gang})",
        "  br label %each_in",
        *each_block("in", "start", "run", frame, before, 0),
        "run:",
        "  call void @kernel(ptr %frames, i64 %gang)",
        "  br label %each_out",
        *each_block("out", "run", "next_gang", frame, after, frame.inputs),
        "next_gang:",
        f"  %i_next = add i64 %i, {gang * v.lanes}",
        "  br label %test",
        "done:",
        *release,
        "  ret void",
        *(["failed:", "  ret void"] if release else []),
        "}",
    ]
    return "\n".join(lines)


def _transfers(
    v: Vector,
    inputs: Sequence[Shape],
    parts: Sequence[Sequence[int | float]],
    outputs: Sequence[Shape],
) -> tuple[list[str], list[str], list[str]]:
    """What moves all arrays: set up once, before each run of the kernel, and after it."""
    setup: list[str] = []
    before: list[str] = []
    after: list[str] = []
    core, offset = len(inputs) + len(outputs), 0
    for k, shape in enumerate((*inputs, *outputs)):
        array = Array(k, shape, core, v)
        setup += array.setup()
        if k < len(inputs):
            before += array.gather("in", offset)
        else:
            after += array.scatter("out", k - len(inputs), parts[k - len(inputs)])
        core += array.axes
        offset += math.prod(shape)
    return setup, before, after
