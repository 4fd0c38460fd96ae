"""The inner loop of a gufunc as LLVM IR: counts through the batch, a group of blocks at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.ir.block import Array, BlockFrame, for_each_block
from qddot.compile.ir.block_groups import Prefetch, block_groups_ir, blocks_per_group
from qddot.compile.ir.calls import FunctionCall
from qddot.compile.ir.stores import Shape
from qddot.compile.ir.types import VectorType

__all__ = ["loop_ir"]


def loop_ir(
    v: VectorType,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    workspace: int,
    calls: Sequence[FunctionCall],
    name: str,
    internal: bool = False,
) -> str:
    """The function (args, dimensions, steps, data) around @kernel, which writes the outputs."""
    frame = BlockFrame(sum(math.prod(s) for s in inputs), 0, workspace, v)
    arrays, core = [], len(inputs) + len(outputs)
    for k, shape in enumerate((*inputs, *outputs)):
        arrays.append(Array(k, shape, core, v))
        core += arrays[-1].axis_count
    read, written = arrays[: len(inputs)], arrays[len(inputs) :]
    # before the pieces: gather the inputs, and note the rows of the outputs
    rows, before, offset = len(written) * v.lanes, [], 0
    for array in read:
        before += array.gather_block("in", offset)
        offset += array.count
    for k, array in enumerate(written):
        before += array.store_row_addresses("in", k * v.lanes)
    group = blocks_per_group(frame, len(calls), written)
    prefetch = Prefetch(tuple(read), tuple(written), group, len(calls))
    # after them: move outputs with strides out of the staging area
    after = [line for array in written for line in array.copy_staged_rows("out")]
    body = [
        *for_each_block("in", "start", "run", frame, before, rows),
        *prefetch.run_pieces(),
        *for_each_block("out", "ran", "next_group", frame, after, rows),
    ]
    setup = [
        *(line for array in arrays for line in array.load_layout()),
        *prefetch.detect_far_batch(),
    ]
    return block_groups_ir(
        name,
        frame,
        group,
        calls,
        written,
        setup,
        prefetch.locate_next_group(),
        body,
        prefetch,
        internal,
    )
