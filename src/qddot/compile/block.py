"""Blocks of states in frames of vectors, as LLVM IR: memory, gangs, moves in and out.

Outputs that are equal, or constant, share one vector of the output buffer; tables of constants say
which number of an output array stands where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.tape import Tape
from qddot.compile.types import Vector

__all__ = [
    "Array",
    "Frame",
    "Places",
    "Shape",
    "each_block",
    "gangs_ir",
    "output_places",
    "split",
    "tables_ir",
    "tagged",
]

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


@dataclass(frozen=True)
class Frame:
    """The vectors that one block of states needs: inputs, outputs, workspace, in this order."""

    inputs: int
    outputs: int
    workspace: int
    vector: Vector

    @property
    def vectors(self) -> int:
        """How many vectors that are, at least one."""
        return max(self.inputs + self.outputs + self.workspace, 1)


def _gang(frame: Frame, pieces: int) -> int:
    """How many blocks go through the pieces together.

    Code longer than the instruction cache is fetched again for every run; a gang of blocks shares
    that, as long as its frames stay in the nearer caches.
    """
    if pieces == 1:
        return 1
    return max(1, min(_MOST_BLOCKS, _GANG_BYTES // (frame.vectors * frame.vector.bytes)))


def _kernel(frame: Frame, pieces: int) -> str:
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


def each_block(
    way: str, before: str, after: str, frame: Frame, moves: Sequence[str], offset: int
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


def split(outputs: Sequence[int | float], shapes: Sequence[Shape]) -> list[Sequence[int | float]]:
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


def tables_ir(part: Sequence[int | float], places: Places, lanes: int, k: int) -> list[str]:
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


def _constants(frame: Frame, places: Places, gang: int) -> list[str]:
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


@dataclass(frozen=True)
class Array:
    """An argument of a loop: its number, the shape of one sample, and where its core strides begin.

    A timed array has a first core axis more, along which its samples stand.
    """

    number: int
    shape: Shape
    first_stride: int
    vector: Vector
    timed: bool = False

    @property
    def axes(self) -> int:
        """Number of core axes."""
        return len(self.shape) + self.timed

    def setup(self) -> list[str]:
        """Load base, step and core strides, and find whether the samples are contiguous."""
        k, size = self.number, self.vector.size
        lines = [
            f"  %ap{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %base{k} = load ptr, ptr %ap{k}",
            f"  %sp{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"  %step{k} = load i64, ptr %sp{k}",
        ]
        names = [*(["t"] if self.timed else []), *map(str, range(len(self.shape)))]
        for place, name in enumerate(names, start=self.first_stride):
            lines += [
                f"  %cp{k}_{name} = getelementptr i64, ptr %steps, i64 {place}",
                f"  %c{k}_{name} = load i64, ptr %cp{k}_{name}",
            ]
        flag, wanted = "true", size
        for axis in reversed(range(len(self.shape))):
            # the stride of an axis of length one says nothing
            if self.shape[axis] > 1:
                lines += [
                    f"  %q{k}_{axis} = icmp eq i64 %c{k}_{axis}, {wanted}",
                    f"  %f{k}_{axis} = and i1 {flag}, %q{k}_{axis}",
                ]
                flag = f"%f{k}_{axis}"
            wanted *= self.shape[axis]
        return [*lines, f"  %whole{k} = or i1 {flag}, false"]

    def gather(self, way: str, offset: int) -> list[str]:
        """Move a block of states into a frame."""
        return self._move("gather", way, offset, [])

    def scatter(self, way: str, table: int, part: Sequence[int | float]) -> list[str]:
        """Move a block of states out of a frame, by the tables of this number."""
        dense, flat = _blocks(part, self.vector.lanes)
        tables = [
            *(f"ptr @index{table}", f"ptr @dense{table}", f"i64 {len(dense)}"),
            *(f"ptr @flat{table}", f"i64 {len(flat)}"),
        ]
        return self._move("scatter", way, 0, tables)

    def _move(self, verb: str, way: str, offset: int, tables: Sequence[str]) -> list[str]:
        """The fast way if the samples are contiguous."""
        k, label, lines = self.number, f"{self.number}_{way}", []
        index, everything = ("".join(f", {t}" for t in part) for part in (tables[:1], tables))
        missing = 3 - len(self.shape)
        dims = ", ".join(f"i64 {d}" for d in (*[1] * missing, *self.shape))
        strides = [f"%c{k}_{axis}" for axis in range(len(self.shape))]
        steps = ", ".join(f"i64 {s}" for s in (*["0"] * missing, *strides))
        base = f"%base{k}"
        if self.timed:
            base = f"%now{label}"
            lines = [
                f"  %away{label} = mul i64 %t, %c{k}_t",
                f"  {base} = getelementptr i8, ptr %base{k}, i64 %away{label}",
            ]
        place = f"ptr {base}, i64 %step{k}, i64 %i_{way}, i64 %n"
        count = math.prod(self.shape)
        return [
            *lines,
            f"  %buf{label} = getelementptr {self.vector.type}, ptr %buffer_{way}, i64 {offset}",
            f"  br i1 %whole{k}, label %fast{label}, label %slow{label}",
            f"fast{label}:",
            f"  call void @{verb}({place}, i64 {count}, ptr %buf{label}{everything})",
            f"  br label %moved{label}",
            f"slow{label}:",
            f"  call void @{verb}_any({place}, {dims}, {steps}, ptr %buf{label}{index})",
            f"  br label %moved{label}",
            f"moved{label}:",
        ]


def gangs_ir(
    name: str,
    frame: Frame,
    places: Places,
    pieces: int,
    setup: Sequence[str],
    start: Sequence[str],
    body: Sequence[str],
) -> str:
    """The function (args, dimensions, steps, data) that counts through a batch, gang by gang.

    `setup` comes before all states and `start` before each gang; `body` begins at the label
    each_in and leaves to next_gang.
    """
    v, gang = frame.vector, _gang(frame, pieces)
    allocate, release = _memory(v, gang * frame.vectors)
    lines = [
        _kernel(frame, pieces),
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
        *start,
        "  %left = sub i64 %n, %i",
        f"  %rounded = add i64 %left, {v.lanes - 1}",
        f"  %blocks = udiv i64 %rounded, {v.lanes}",
        f"  %gang = call i64 @llvm.umin.i64(i64 %blocks, i64 {gang})",
        "  br label %each_in",
        *body,
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
