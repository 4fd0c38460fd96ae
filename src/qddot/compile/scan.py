"""A step repeated in time as LLVM IR: states stay in the cache from the first step to the last.

The loop takes a carry (what a step hands to the next), sampled arrays (one entry a sample),
constants and a number of steps a sample. Of the carry it gives some parts at the start and at each
sample, and some at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from qddot.compile.block import Array, Frame, Places, each_block
from qddot.compile.gang import gang_size, gangs_ir
from qddot.compile.rows import Shape, split, writer_ir, writes_of
from qddot.compile.tape import Tape
from qddot.compile.types import Vector

__all__ = ["ScanShapes", "scan_ir", "step_places"]


Axes = tuple[int | str, ...]


@dataclass(frozen=True)
class ScanShapes:
    """Core shapes of one step: what it carries, reads a sample, and always reads.

    `told` and `left` are the places in the carry of what is given at the start and at each sample,
    and of what is given at the end.
    """

    carry: tuple[Shape, ...]
    sampled: tuple[Shape, ...]
    constants: tuple[Shape, ...]
    told: tuple[int, ...]
    left: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[Shape, ...]:
        """Inputs of a step; its outputs are the carry again."""
        return (*self.carry, *self.sampled, *self.constants)

    @cached_property
    def arguments(self) -> tuple[Axes, ...]:
        """Core axes of the inputs of the gufunc; the last is the number of steps a sample."""
        sampled: list[Axes] = [("t", *shape) for shape in self.sampled]
        return (*self.carry, *sampled, *self.constants, ())

    @cached_property
    def results(self) -> tuple[Axes, ...]:
        """Core axes of the outputs of the gufunc; what is told has one entry more than samples."""
        told: list[Axes] = [("s", *self.carry[k]) for k in self.told]
        return (*told, *(self.carry[k] for k in self.left))


def scan_ir(
    tape: Tape,
    places: Places,
    v: Vector,
    shapes: ScanShapes,
    workspace: int,
    pieces: int,
    name: str,
) -> str:
    """The function (args, dimensions, steps, data) that runs @kernel again and again."""
    inputs, every = _count(shapes.inputs), len(shapes.arguments) - 1
    frame = Frame(inputs, sum(place >= inputs for place in places.values()), workspace, v)
    moves = _Moves(shapes, frame)
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
    rows = len(moves.written) * v.lanes
    body = [
        *each_block("in", "start", "each_first", frame, moves.before, rows),
        *each_block("first", "each_in", "time", frame, moves.first, rows),
        *_time(frame, moves, _copies(tape, places, frame)),
        *each_block("end", "ended", "next_gang", frame, moves.last, rows),
    ]
    gang = gang_size(frame, pieces, moves.written)
    loop = gangs_ir(name, frame, gang, pieces, moves.written, setup, start, body)
    return "\n".join([*_writers(shapes, v), loop])


def _count(shapes: Sequence[Shape]) -> int:
    """How many numbers arrays of these shapes have."""
    return sum(map(math.prod, shapes))


def step_places(tape: Tape, shapes: ScanShapes) -> Places:
    """Where in a frame the outputs of a step go.

    What is carried goes at once to where the next step reads it, if this step does not read that
    place any more; the rest goes behind the inputs.
    """
    inputs = {number[0]: i for i, (name, *number) in enumerate(tape.code) if name == "input"}
    last = {
        x: i
        for i, (name, *args) in enumerate(tape.code)
        for x in args
        if name != "input" and type(x) is int
    }
    # an input that is handed on is read at the end
    ends = [x for x in tape.outputs if type(x) is int]
    last |= {x: len(tape.code) for x in ends if tape.code[x][0] == "input"}
    places: Places = {}
    behind = itertools.count(_count(shapes.inputs))
    for k, x in enumerate(tape.outputs):
        if type(x) is int and x not in places:
            own = inputs[k]
            at_once = x == own or (last.get(own, -1) <= x and tape.code[x][0] != "input")
            places[x] = k if at_once else next(behind)
    return places


def _writers(shapes: ScanShapes, v: Vector) -> list[str]:
    """The functions @tell and @leave, from the carry."""
    carried = range(_count(shapes.carry))
    parts, places = split(carried, shapes.carry), {k: k for k in carried}
    told, left = ([parts[k] for k in some] for some in (shapes.told, shapes.left))
    return [
        writer_ir("tell", v, writes_of(told, v.lanes), places),
        writer_ir("leave", v, writes_of([*([()] * len(told)), *left], v.lanes), places),
    ]


def _time(frame: Frame, moves: _Moves, copies: Sequence[str]) -> list[str]:
    """All samples of a gang: read, step as often as asked, tell."""
    rows = len(moves.written) * frame.vector.lanes
    return [
        "time:",
        "  %t = phi i64 [0, %each_first], [%t_next, %each_out]",
        "  %t_more = icmp slt i64 %t, %samples",
        "  br i1 %t_more, label %sample, label %ended",
        "sample:",
        "  %t_next = add i64 %t, 1",
        "  br label %each_xs",
        *each_block("xs", "sample", "repeat", frame, moves.sampled, rows),
        "repeat:",
        "  %s = phi i64 [0, %each_xs], [%s_next, %each_copy]",
        "  %s_more = icmp slt i64 %s, %every",
        "  br i1 %s_more, label %run, label %told",
        "run:",
        "  call void @kernel(ptr %frames, i64 %gang, ptr %rows)",
        "  %s_next = add i64 %s, 1",
        "  br label %each_copy",
        *each_block("copy", "run", "repeat", frame, copies, rows),
        "told:",
        "  br label %each_out",
        *each_block("out", "told", "time", frame, moves.after, rows),
        "ended:",
        "  br label %each_end",
    ]


class _Moves:
    """What moves all arrays: to start a gang, before and after each sample, and at the end."""

    def __init__(self, shapes: ScanShapes, frame: Frame) -> None:
        self.setup: list[str] = []
        self.before: list[str] = []
        self.sampled: list[str] = []
        told, v, offset = len(shapes.told), frame.vector, 0
        arrays = _arrays(shapes, v)
        for array in arrays:
            self.setup += array.setup()
        read, self.written = arrays[: len(shapes.inputs)], arrays[len(shapes.inputs) + 1 :]
        for array in read:
            if array.time:
                self.sampled += _unless_still(array, array.gather("xs", offset))
            else:
                self.before += array.gather("in", offset)
            offset += array.count
        paths, ends = self.written[:told], self.written[told:]
        starts = [replace(array, time="0") for array in paths]
        self.before += _rows("in", starts, 0)
        self.first = _written("first", starts, "tell", "%buffer_first")
        # the rows of a sample come from far away while its steps are computed
        self.sampled += _rows("xs", paths, 0)
        self.sampled += [line for array in paths for line in array.fetch("xs")]
        self.after = _written("out", paths, "tell", "%buffer_out")
        self.last = _rows("end", ends, told * v.lanes)
        self.last += _written("end", ends, "leave", "%buffer_end")


def _arrays(shapes: ScanShapes, v: Vector) -> list[Array]:
    """The arguments of the gufunc; what is told after a sample is one entry ahead of it."""
    counts, arrays = {"t": "%t", "s": "%t_next"}, list[Array]()
    every = (*shapes.arguments, *shapes.results)
    first = len(every)
    for k, axes in enumerate(every):
        core = tuple(n for n in axes if isinstance(n, int))
        time = "".join(counts[name] for name in axes if isinstance(name, str))
        arrays.append(Array(k, core, first, v, time))
        first += len(axes)
    return arrays


def _unless_still(array: Array, moves: Sequence[str]) -> list[str]:
    """Moves that are needed once if an array is the same at all times."""
    k = array.number
    return [
        f"  %moves{k} = icmp ne i64 %c{k}_t, 0",
        f"  %new{k} = icmp eq i64 %t, 0",
        f"  %read{k} = or i1 %moves{k}, %new{k}",
        f"  br i1 %read{k}, label %take{k}, label %taken{k}",
        f"take{k}:",
        *moves,
        f"  br label %taken{k}",
        f"taken{k}:",
    ]


def _rows(way: str, arrays: Sequence[Array], first: int) -> list[str]:
    """Keep the addresses of the rows of a block, from this entry of their table on."""
    places = (first + k * array.vector.lanes for k, array in enumerate(arrays))
    return [line for array, k in zip(arrays, places, strict=True) for line in array.rows(way, k)]


def _written(way: str, arrays: Sequence[Array], writer: str, buffer: str) -> list[str]:
    """Write a block to its rows, whose addresses are kept, by this function."""
    call = f"  call void @{writer}(ptr {buffer}, ptr %rows_{way})"
    return [call, *(line for array in arrays for line in array.unstage(way))]


def _copies(tape: Tape, places: Places, frame: Frame) -> Sequence[str]:
    """What is carried from its place in a frame to its inputs, if it is not there already."""
    t, size = frame.vector.type, frame.vector.bytes
    lines = []
    for k, x in enumerate(tape.outputs):
        value = f"%cx{k}" if type(x) is int else frame.vector.constant(x)
        if type(x) is int:
            if places[x] == k:
                continue
            lines += [
                f"  %cf{k} = getelementptr {t}, ptr %buffer_copy, i64 {places[x]}",
                f"  {value} = load {t}, ptr %cf{k}, align {size}",
            ]
        lines += [
            f"  %ct{k} = getelementptr {t}, ptr %buffer_copy, i64 {k}",
            f"  store {t} {value}, ptr %ct{k}, align {size}",
        ]
    return lines
