"""A step repeated in time as LLVM IR: states stay in the cache from the first step to the last.

The loop takes a carry (what a step hands to the next), sampled arrays (one entry a sample),
constants and a number of steps a sample; it gives what the steps say at each sample, and the carry
at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.block import (
    Array,
    Frame,
    Shape,
    each_block,
    gangs_ir,
    output_places,
    split,
    tables_ir,
    tagged,
)
from qddot.compile.tape import Tape
from qddot.compile.types import Vector

__all__ = ["ScanShapes", "scan_ir"]


Axes = tuple[int | str, ...]


def _timed(shape: Shape) -> Axes:
    """Core axes of an array that has a sample of this shape at each time."""
    return ("t", *shape)


@dataclass(frozen=True)
class ScanShapes:
    """Core shapes of one step: what it carries, reads a sample, always reads, and says a sample."""

    carry: tuple[Shape, ...]
    sampled: tuple[Shape, ...]
    constants: tuple[Shape, ...]
    samples: tuple[Shape, ...]

    @property
    def inputs(self) -> tuple[Shape, ...]:
        """Inputs of a step."""
        return (*self.carry, *self.sampled, *self.constants)

    @property
    def outputs(self) -> tuple[Shape, ...]:
        """Outputs of a step: the carry again, and what it says."""
        return (*self.carry, *self.samples)

    @property
    def arguments(self) -> tuple[Axes, ...]:
        """Core axes of the inputs of the gufunc; the last is the number of steps a sample."""
        return (*self.carry, *map(_timed, self.sampled), *self.constants, ())

    @property
    def results(self) -> tuple[Axes, ...]:
        """Core axes of the outputs of the gufunc."""
        return (*map(_timed, self.samples), *self.carry)


def scan_ir(
    tape: Tape, v: Vector, shapes: ScanShapes, workspace: int, pieces: int, name: str
) -> str:
    """The function (args, dimensions, steps, data) that runs @kernel again and again."""
    places, every = output_places(tape), len(shapes.arguments) - 1
    frame = Frame(sum(math.prod(s) for s in shapes.inputs), len(places), workspace, v)
    moves = _Moves(tape, shapes, v)
    time_axis = list(dict.fromkeys(itertools.chain(*shapes.arguments))).index("t") + 1
    setup = [
        f"  %tp = getelementptr i64, ptr %dims, i64 {time_axis}",
        "  %samples = load i64, ptr %tp",
        *moves.setup,
    ]
    start = [
        f"  %every_x = load {v.scalar}, ptr %base{every}",
        f"  %every = fptosi {v.scalar} %every_x to i64",
    ]
    body = [
        *each_block("in", "start", "time", frame, moves.before, 0),
        *_time(tape, frame, shapes, moves),
        *each_block("end", "ended", "next_gang", frame, moves.last, 0),
    ]
    return "\n".join([*moves.tables, gangs_ir(name, frame, places, pieces, setup, start, body)])


def _time(tape: Tape, frame: Frame, shapes: ScanShapes, moves: _Moves) -> list[str]:
    """All samples of a gang: read, step as often as asked, say."""
    return [
        "time:",
        "  %t = phi i64 [0, %each_in], [%t_next, %sampled]",
        "  %t_more = icmp slt i64 %t, %samples",
        "  br i1 %t_more, label %sample, label %ended",
        "sample:",
        "  br label %each_xs",
        *each_block("xs", "sample", "repeat", frame, moves.sampled, 0),
        "repeat:",
        "  %s = phi i64 [0, %each_xs], [%s_next, %each_copy]",
        "  %s_more = icmp slt i64 %s, %every",
        "  br i1 %s_more, label %run, label %said",
        "run:",
        "  call void @kernel(ptr %frames, i64 %gang)",
        "  %s_next = add i64 %s, 1",
        "  br label %each_copy",
        *each_block("copy", "run", "repeat", frame, _copies(tape, frame, shapes), 0),
        "said:",
        "  br label %each_out",
        *each_block("out", "said", "sampled", frame, moves.after, frame.inputs),
        "sampled:",
        "  %t_next = add i64 %t, 1",
        "  br label %time",
        "ended:",
        "  br label %each_end",
    ]


class _Moves:
    """What moves all arrays: once a gang, at each sample before and after, and at the end."""

    def __init__(self, tape: Tape, shapes: ScanShapes, v: Vector) -> None:
        self.tables: list[str] = []
        self.setup: list[str] = []
        self.before: list[str] = []
        self.sampled: list[str] = []
        self.after: list[str] = []
        self.last: list[str] = []
        carried, timed = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
        every = [*shapes.inputs, (), *shapes.samples, *shapes.carry]
        core, offset = len(every), 0
        parts = split(tape.outputs, shapes.outputs)[carried:]
        for k, shape in enumerate(every):
            said = k - len(shapes.inputs) - 1
            is_timed = carried <= k < timed or 0 <= said < len(shapes.samples)
            array = Array(k, shape, core, v, is_timed)
            core += array.axes
            self.setup += array.setup()
            if said < -1:
                moves, way = (self.sampled, "xs") if is_timed else (self.before, "in")
                moves += array.gather(way, offset)
                offset += math.prod(shape)
            elif 0 <= said < len(shapes.samples):
                self.tables += tables_ir(parts[said], output_places(tape), v.lanes, said)
                self.after += array.scatter("out", said, parts[said])
            elif said >= 0:
                start = sum(math.prod(s) for s in shapes.carry[: said - len(shapes.samples)])
                here = range(start, start + math.prod(shape))
                self.tables += tables_ir(here, {tagged(x): x for x in here}, v.lanes, said)
                self.last += array.scatter("end", said, here)


def _copies(tape: Tape, frame: Frame, shapes: ScanShapes) -> Sequence[str]:
    """The carry of a frame from its outputs to its inputs, for the next step."""
    t, size, places = frame.vector.type, frame.vector.bytes, output_places(tape)
    lines = []
    for k, x in enumerate(tape.outputs[: sum(math.prod(s) for s in shapes.carry)]):
        source = frame.inputs + places[tagged(x)]
        lines += [
            f"  %cf{k} = getelementptr {t}, ptr %buffer_copy, i64 {source}",
            f"  %cx{k} = load {t}, ptr %cf{k}, align {size}",
            f"  %ct{k} = getelementptr {t}, ptr %buffer_copy, i64 {k}",
            f"  store {t} %cx{k}, ptr %ct{k}, align {size}",
        ]
    return lines
