"""The inner loop of a gufunc as LLVM IR: counts through the batch, a gang of blocks at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.block import (
    Array,
    Frame,
    Shape,
    each_block,
    gangs_ir,
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
    parts = split(tape.outputs, outputs)
    tables = [line for k, part in enumerate(parts) for line in tables_ir(part, places, v.lanes, k)]
    setup, before, after = _transfers(v, inputs, parts, outputs)
    body = [
        *each_block("in", "start", "run", frame, before, 0),
        "run:",
        "  call void @kernel(ptr %frames, i64 %gang)",
        "  br label %each_out",
        *each_block("out", "run", "next_gang", frame, after, frame.inputs),
    ]
    return "\n".join([*tables, gangs_ir(name, frame, places, pieces, setup, [], body)])


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
