"""A step repeated in time as LLVM IR: states stay in the cache from the first step to the last.

The loop takes a carry (the state that a step hands to the next), sampled arrays (one entry a
sample), constants and a number of steps a sample. It returns parts of the carry: paths, at the
start and at each sample, and ends, after the last step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from qddot.compile.ir.block import Array, BlockFrame, Places, for_each_block
from qddot.compile.ir.block_groups import block_groups_ir, blocks_per_group
from qddot.compile.ir.calls import FunctionCall
from qddot.compile.ir.stores import Shape, split_outputs, writer_ir, writes_of
from qddot.compile.ir.types import VectorType
from qddot.compile.ir.variables import last_uses
from qddot.compile.trace.tape import Tape

__all__ = ["ScanShapes", "scan_ir", "step_places"]


Axes = tuple[int | str, ...]


@dataclass(frozen=True)
class ScanShapes:
    """Core shapes of one step: its carry, its inputs by sample, and its constants.

    `path_places` are the places in the carry of the arrays that are given at the start and at each
    sample, `end_places` those of the arrays that are given at the end.
    """

    carry: tuple[Shape, ...]
    sampled: tuple[Shape, ...]
    constants: tuple[Shape, ...]
    path_places: tuple[int, ...]
    end_places: tuple[int, ...] = ()

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
        """Core axes of the outputs of the gufunc; paths have one entry more than samples."""
        told: list[Axes] = [("s", *self.carry[k]) for k in self.path_places]
        return (*told, *(self.carry[k] for k in self.end_places))


def scan_ir(
    tape: Tape,
    places: Places,
    v: VectorType,
    shapes: ScanShapes,
    workspace: int,
    calls: Sequence[FunctionCall],
    name: str,
) -> str:
    """The function (args, dimensions, steps, data) that runs @kernel again and again."""
    # a frame: inputs, outputs that cannot go to their inputs at once, workspace
    inputs, every = _count_numbers(shapes.inputs), len(shapes.arguments) - 1
    frame = BlockFrame(inputs, sum(place >= inputs for place in places.values()), workspace, v)
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
        *for_each_block("in", "start", "each_first", frame, moves.before, rows),
        *for_each_block("first", "each_in", "time", frame, moves.first, rows),
        *_time_loop(tape, places, frame, moves),
        *for_each_block("end", "ended", "next_group", frame, moves.last, rows),
    ]
    group = blocks_per_group(frame, len(calls), moves.written)
    loop = block_groups_ir(name, frame, group, calls, moves.written, setup, start, body)
    # the functions that write the carry to the rows of paths and ends
    carried = range(_count_numbers(shapes.carry))
    parts, at = split_outputs(carried, shapes.carry), {k: k for k in carried}
    paths, ends = ([parts[k] for k in some] for some in (shapes.path_places, shapes.end_places))
    writers = [
        writer_ir("write_paths", v, writes_of(paths, v), at),
        writer_ir("write_ends", v, writes_of([*([()] * len(paths)), *ends], v), at),
    ]
    return "\n".join([*writers, loop])


def _count_numbers(shapes: Sequence[Shape]) -> int:
    """How many numbers arrays of these shapes have."""
    return sum(map(math.prod, shapes))


def step_places(tape: Tape, shapes: ScanShapes) -> Places:
    """Where in a frame the outputs of a step go.

    What is carried goes at once to where the next step reads it, if this step does not read that
    place any more; the rest goes behind the inputs.
    """
    inputs = {number[0]: i for i, (name, *number) in enumerate(tape.code) if name == "input"}
    last = last_uses(tape)
    # an input that is handed on is read at the end
    ends = [x for x in tape.outputs if type(x) is int]
    last |= {x: len(tape.code) for x in ends if tape.code[x][0] == "input"}
    places: Places = {}
    behind = itertools.count(_count_numbers(shapes.inputs))
    for k, x in enumerate(tape.outputs):
        if type(x) is int and x not in places:
            own = inputs[k]
            at_once = x == own or (last.get(own, -1) <= x and tape.code[x][0] != "input")
            places[x] = k if at_once else next(behind)
    return places


def _time_loop(tape: Tape, places: Places, frame: BlockFrame, moves: _Moves) -> list[str]:
    """All samples of a group: read the inputs, repeat the step, write the paths."""
    # copies of the carry from its places in a frame to its inputs, where those differ
    t, size = frame.vector.type, frame.vector.bytes
    copies = []
    for k, x in enumerate(tape.outputs):
        value = f"%cx{k}" if type(x) is int else frame.vector.constant(x)
        if type(x) is int:
            if places[x] == k:
                continue
            copies += [
                f"  %cf{k} = getelementptr {t}, ptr %buffer_copy, i64 {places[x]}",
                f"  {value} = load {t}, ptr %cf{k}, align {size}",
            ]
        copies += [
            f"  %ct{k} = getelementptr {t}, ptr %buffer_copy, i64 {k}",
            f"  store {t} {value}, ptr %ct{k}, align {size}",
        ]
    rows = len(moves.written) * frame.vector.lanes
    return [
        "time:",
        "  %t = phi i64 [0, %each_first], [%t_next, %each_out]",
        "  %t_more = icmp slt i64 %t, %samples",
        "  br i1 %t_more, label %sample, label %ended",
        "sample:",
        "  %t_next = add i64 %t, 1",
        "  br label %each_xs",
        *for_each_block("xs", "sample", "repeat", frame, moves.sampled, rows),
        "repeat:",
        "  %s = phi i64 [0, %each_xs], [%s_next, %each_copy]",
        "  %s_more = icmp slt i64 %s, %every",
        "  br i1 %s_more, label %run, label %told",
        "run:",
        "  call void @kernel(ptr %frames, i64 %group, ptr %rows)",
        "  %s_next = add i64 %s, 1",
        "  br label %each_copy",
        *for_each_block("copy", "run", "repeat", frame, copies, rows),
        "told:",
        "  br label %each_out",
        *for_each_block("out", "told", "time", frame, moves.after, rows),
        "ended:",
        "  br label %each_end",
    ]


class _Moves:
    """Moves of all arrays: to start a group, before and after each sample, and at the end."""

    def __init__(self, shapes: ScanShapes, frame: BlockFrame) -> None:
        self.setup: list[str] = []
        self.before: list[str] = []
        self.sampled: list[str] = []
        told, v, offset = len(shapes.path_places), frame.vector, 0
        # the arguments of the gufunc; a path is one sample ahead of the sampled inputs
        times, arrays, all_axes = (
            {"t": "%t", "s": "%t_next"},
            [],
            (*shapes.arguments, *shapes.results),
        )
        first = len(all_axes)
        for k, axes in enumerate(all_axes):
            core = tuple(n for n in axes if isinstance(n, int))
            time = "".join(times[name] for name in axes if isinstance(name, str))
            arrays.append(Array(k, core, first, v, time))
            first += len(axes)
        for array in arrays:
            self.setup += array.load_layout()
        read, self.written = arrays[: len(shapes.inputs)], arrays[len(shapes.inputs) + 1 :]
        for array in read:
            if array.time:
                # an array that is the same at all times is gathered once
                k = array.number
                self.sampled += [
                    f"  %moves{k} = icmp ne i64 %c{k}_t, 0",
                    f"  %new{k} = icmp eq i64 %t, 0",
                    f"  %read{k} = or i1 %moves{k}, %new{k}",
                    f"  br i1 %read{k}, label %take{k}, label %taken{k}",
                    f"take{k}:",
                    *array.gather_block("xs", offset),
                    f"  br label %taken{k}",
                    f"taken{k}:",
                ]
            else:
                self.before += array.gather_block("in", offset)
            offset += array.count
        paths, ends = self.written[:told], self.written[told:]
        starts = [replace(array, time="0") for array in paths]
        self.before += _row_addresses("in", starts, 0)
        self.first = _write_rows("first", starts, "write_paths", "%buffer_first")
        # the rows of a sample come from far away while its steps are computed
        self.sampled += _row_addresses("xs", paths, 0)
        self.sampled += [line for array in paths for line in array.prefetch_rows("xs")]
        self.after = _write_rows("out", paths, "write_paths", "%buffer_out")
        self.last = _row_addresses("end", ends, told * v.lanes)
        self.last += _write_rows("end", ends, "write_ends", "%buffer_end")


def _row_addresses(way: str, arrays: Sequence[Array], first: int) -> list[str]:
    """Keep the addresses of the rows of a block, from this entry of their table on."""
    places = (first + k * array.vector.lanes for k, array in enumerate(arrays))
    return [
        line
        for array, k in zip(arrays, places, strict=True)
        for line in array.store_row_addresses(way, k)
    ]


def _write_rows(way: str, arrays: Sequence[Array], writer: str, buffer: str) -> list[str]:
    """Write a block to its rows, whose addresses are kept, by this function."""
    call = f"  call void @{writer}(ptr {buffer}, ptr %rows_{way})"
    return [call, *(line for array in arrays for line in array.copy_staged_rows(way))]
