"""The inner loop of a gufunc as LLVM IR: counts through the batch, a gang of blocks at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.block import Array, Frame, each_block
from qddot.compile.gang import Ahead, gang_size, gangs_ir
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
    gang = gang_size(frame, pieces, written)
    ahead = Ahead(tuple(read), tuple(written), gang, pieces)
    after = [line for array in written for line in array.unstage("out")]
    body = [
        *each_block("in", "start", "run", frame, before, rows),
        *ahead.run(),
        *each_block("out", "ran", "next_gang", frame, after, rows),
    ]
    setup = [*(line for array in arrays for line in array.setup()), *ahead.setup()]
    return gangs_ir(name, frame, gang, pieces, written, setup, ahead.start(), body, ahead)
