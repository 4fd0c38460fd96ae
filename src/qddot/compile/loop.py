"""The inner loop of a gufunc as LLVM IR: counts through the batch, a gang of blocks at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.block import Array, Frame, each_block, gangs_ir
from qddot.compile.rows import Shape
from qddot.compile.types import Vector

__all__ = ["loop_ir"]


def loop_ir(
    v: Vector,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    workspace: int,
    pieces: int,
    name: str,
) -> str:
    """The function (args, dimensions, steps, data) around @kernel, which writes the outputs."""
    frame = Frame(sum(math.prod(s) for s in inputs), 0, workspace, v)
    arrays, core = [], len(inputs) + len(outputs)
    for k, shape in enumerate((*inputs, *outputs)):
        arrays.append(Array(k, shape, core, v))
        core += arrays[-1].axes
    read, written = arrays[: len(inputs)], arrays[len(inputs) :]
    rows, before, offset = len(written) * v.lanes, [], 0
    for array in read:
        before += array.gather("in", offset)
        offset += array.count
    for k, array in enumerate(written):
        before += array.rows("in", k * v.lanes)
    after = [line for array in written for line in array.unstage("out")]
    body = [
        *each_block("in", "start", "run", frame, before, rows),
        "run:",
        "  call void @kernel(ptr %frames, i64 %gang, ptr %rows)",
        "  br label %each_out",
        *each_block("out", "run", "next_gang", frame, after, rows),
    ]
    setup = [line for array in arrays for line in array.setup()]
    return gangs_ir(name, frame, pieces, written, setup, [], body)
