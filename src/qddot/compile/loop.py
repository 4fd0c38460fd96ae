"""The inner loop of a gufunc as LLVM IR: moves states in and out, counts through the batch.

Outputs that are equal, or constant, share one vector of the output buffer; tables of constants say
which number of an output array stands where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.tape import Tape
from qddot.compile.types import Vector

__all__ = ["Places", "Shape", "loop_ir", "output_places", "tagged"]

Shape = tuple[int, ...]
Places = dict[tuple[type, int | float], int]

_STACK_BYTES = 1 << 16
_GANG_BYTES = 1 << 16
_MOST_BLOCKS = 8


def tagged(x: int | float) -> tuple[type, int | float]:
    """An operand as a key: an index and a constant of the same value differ."""
    return type(x), x


def output_places(tape: Tape) -> Places:
    """A place in the output buffer for each different output."""
    return {x: k for k, x in enumerate(dict.fromkeys(map(tagged, tape.outputs)))}


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
    frame = _Frame(sum(math.prod(s) for s in inputs), len(places), workspace, v)
    gang = _gang(frame, pieces)
    allocate, release = _memory(v, gang * frame.vectors)
    parts = _split(tape.outputs, outputs)
    tables = [line for k, part in enumerate(parts) for line in _tables(part, places, v.lanes, k)]
    setup, before, after = _transfers(v, inputs, parts, outputs)
    lines = [
        *(*tables, _kernel(frame, pieces)),
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
        "entry:",
        "  %n = load i64, ptr %dims",
        *allocate,
        *_constants(frame, places, gang),
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
        *_each("in", "start", "run", frame, before, 0),
        "run:",
        "  call void @kernel(ptr %frames, i64 %gang)",
        "  br label %each_out",
        *_each("out", "run", "next_gang", frame, after, frame.inputs),
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


@dataclass(frozen=True)
class _Frame:
    """The vectors that one block of states needs: inputs, outputs, workspace, in this order."""

    inputs: int
    outputs: int
    workspace: int
    vector: Vector

    @property
    def vectors(self) -> int:
        """How many vectors that are, at least one."""
        return max(self.inputs + self.outputs + self.workspace, 1)


def _gang(frame: _Frame, pieces: int) -> int:
    """How many blocks go through the pieces together.

    Code longer than the instruction cache is fetched again for every run; a gang of blocks shares
    that, as long as its frames stay in the nearer caches.
    """
    if pieces == 1:
        return 1
    return max(1, min(_MOST_BLOCKS, _GANG_BYTES // (frame.vectors * frame.vector.bytes)))


def _kernel(frame: _Frame, pieces: int) -> str:
    """The function @kernel: each piece in turn on every frame of a gang."""
    t, lines, before = frame.vector.type, [], "entry"
    lines += ["define internal void @kernel(ptr %frames, i64 %gang) {", "entry:"]
    for k in range(pieces):
        lines += [
            f"  br label %test{k}",
            f"test{k}:",
            f"  %b{k} = phi i64 [0, %{before}], [%next{k}, %run{k}]",
            f"  %more{k} = icmp slt i64 %b{k}, %gang",
            f"  br i1 %more{k}, label %run{k}, label %after{k}",
            f"run{k}:",
            f"  %at{k} = mul i64 %b{k}, {frame.vectors}",
            f"  %in{k} = getelementptr {t}, ptr %frames, i64 %at{k}",
            f"  %out{k} = getelementptr {t}, ptr %in{k}, i64 {frame.inputs}",
            f"  %ws{k} = getelementptr {t}, ptr %out{k}, i64 {frame.outputs}",
            f"  call void @piece{k}(ptr %in{k}, ptr %out{k}, ptr %ws{k})",
            f"  %next{k} = add i64 %b{k}, 1",
            f"  br label %test{k}",
            f"after{k}:",
        ]
        before = f"after{k}"
    return "\n".join([*lines, "  ret void", "}"])


def _each(
    way: str, before: str, after: str, frame: _Frame, moves: Sequence[str], offset: int
) -> list[str]:
    """Move the blocks of a gang in or out, one after the other."""
    return [
        f"each_{way}:",
        f"  %k_{way} = phi i64 [0, %{before}], [%next_{way}, %moved_{way}]",
        f"  %more_{way} = icmp slt i64 %k_{way}, %gang",
        f"  br i1 %more_{way}, label %move_{way}, label %{after}",
        f"move_{way}:",
        f"  %at_{way} = mul i64 %k_{way}, {frame.vectors}",
        f"  %from_{way} = add i64 %at_{way}, {offset}",
        f"  %buffer_{way} = getelementptr {frame.vector.type}, ptr %frames, i64 %from_{way}",
        f"  %states_{way} = mul i64 %k_{way}, {frame.vector.lanes}",
        f"  %i_{way} = add i64 %i, %states_{way}",
        *moves,
        f"  br label %moved_{way}",
        f"moved_{way}:",
        f"  %next_{way} = add i64 %k_{way}, 1",
        f"  br label %each_{way}",
    ]


def _split(outputs: Sequence[int | float], shapes: Sequence[Shape]) -> list[Sequence[int | float]]:
    """The outputs of each array."""
    parts, start = [], 0
    for shape in shapes:
        parts.append(outputs[start : start + math.prod(shape)])
        start += math.prod(shape)
    return parts


def _blocks(part: Sequence[int | float], lanes: int) -> tuple[list[int], list[int]]:
    """Starts of the blocks that cover an array: of numbers that differ, and of one constant."""
    if len(part) < lanes:
        return [], []
    starts = [*range(0, len(part) - lanes, lanes), len(part) - lanes]
    flat = [
        k
        for k in starts
        if type(part[k]) is float and len(set(map(tagged, part[k : k + lanes]))) == 1
    ]
    return sorted(set(starts) - set(flat)), flat


def _tables(part: Sequence[int | float], places: Places, lanes: int, k: int) -> list[str]:
    """Where the numbers of output array k stand in the output buffer, and its blocks."""
    dense, flat = _blocks(part, lanes)
    lines = []
    for name, values in (
        ("index", [places[tagged(x)] for x in part]),
        ("dense", dense),
        ("flat", flat),
    ):
        listed = ", ".join(f"i32 {x}" for x in values)
        lines.append(f"@{name}{k} = internal constant [{len(values)} x i32] [{listed}]")
    return lines


def _constants(frame: _Frame, places: Places, gang: int) -> list[str]:
    """Write the constant outputs into the frames, once for all states."""
    v, lines = frame.vector, []
    for b in range(gang):
        for (kind, x), k in places.items():
            if kind is float:
                at = b * frame.vectors + frame.inputs + k
                lines += [
                    f"  %const{at} = getelementptr {v.type}, ptr %frames, i64 {at}",
                    f"  store {v.type} {v.constant(x)}, ptr %const{at}, align {v.bytes}",
                ]
    return lines


def _memory(v: Vector, vectors: int) -> tuple[list[str], list[str]]:
    """Buffers on the stack while they are small, else on the heap; without memory, no results."""
    size = vectors * v.bytes
    if size <= _STACK_BYTES:
        return [f"  %frames = alloca [{vectors} x {v.type}], align 64"], []
    allocate = [
        f"  %raw = call ptr @malloc(i64 {size + 64})",
        "  %none = icmp eq ptr %raw, null",
        "  br i1 %none, label %failed, label %ready",
        "ready:",
        "  %address = ptrtoint ptr %raw to i64",
        "  %up = add i64 %address, 63",
        "  %aligned = and i64 %up, -64",
        "  %frames = inttoptr i64 %aligned to ptr",
    ]
    return allocate, ["  call void @free(ptr %raw)"]


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
        lines, strides, flag = _strides(v, k, shape, core)
        setup += lines
        if k < len(inputs):
            before += _move(v, k, shape, strides, flag, offset, [])
        else:
            j = k - len(inputs)
            dense, flat = _blocks(parts[j], v.lanes)
            tables = [
                *(f"ptr @index{j}", f"ptr @dense{j}", f"i64 {len(dense)}"),
                *(f"ptr @flat{j}", f"i64 {len(flat)}"),
            ]
            after += _move(v, k, shape, strides, flag, 0, tables)
        core += len(shape)
        offset += math.prod(shape)
    return setup, before, after


def _strides(v: Vector, k: int, shape: Shape, core: int) -> tuple[list[str], list[str], str]:
    """Load base, step and core strides of array k; and whether its cores are contiguous."""
    lines = [
        f"  %ap{k} = getelementptr ptr, ptr %args, i64 {k}",
        f"  %base{k} = load ptr, ptr %ap{k}",
        f"  %sp{k} = getelementptr i64, ptr %steps, i64 {k}",
        f"  %step{k} = load i64, ptr %sp{k}",
    ]
    strides: list[str] = []
    flag, wanted = "true", v.size
    for axis in reversed(range(len(shape))):
        lines += [
            f"  %cp{k}_{axis} = getelementptr i64, ptr %steps, i64 {core + axis}",
            f"  %c{k}_{axis} = load i64, ptr %cp{k}_{axis}",
        ]
        strides.insert(0, f"%c{k}_{axis}")
        # the stride of an axis of length one says nothing
        if shape[axis] > 1:
            lines += [
                f"  %q{k}_{axis} = icmp eq i64 %c{k}_{axis}, {wanted}",
                f"  %f{k}_{axis} = and i1 {flag}, %q{k}_{axis}",
            ]
            flag = f"%f{k}_{axis}"
        wanted *= shape[axis]
    return lines, strides, flag


def _move(
    v: Vector,
    k: int,
    shape: Shape,
    strides: Sequence[str],
    flag: str,
    offset: int,
    tables: Sequence[str],
) -> list[str]:
    """Move a block of states of array k, the fast way if its cores are contiguous."""
    verb, way = ("scatter", "out") if tables else ("gather", "in")
    index, everything = ("".join(f", {t}" for t in part) for part in (tables[:1], tables))
    missing = 3 - len(shape)
    dims = ", ".join(f"i64 {d}" for d in (*[1] * missing, *shape))
    steps = ", ".join(f"i64 {s}" for s in (*["0"] * missing, *strides))
    place = f"ptr %base{k}, i64 %step{k}, i64 %i_{way}, i64 %n"
    return [
        f"  %buf{k} = getelementptr {v.type}, ptr %buffer_{way}, i64 {offset}",
        f"  br i1 {flag}, label %fast{k}, label %slow{k}",
        f"fast{k}:",
        f"  call void @{verb}({place}, i64 {math.prod(shape)}, ptr %buf{k}{everything})",
        f"  br label %moved{k}",
        f"slow{k}:",
        f"  call void @{verb}_any({place}, {dims}, {steps}, ptr %buf{k}{index})",
        f"  br label %moved{k}",
        f"moved{k}:",
    ]
