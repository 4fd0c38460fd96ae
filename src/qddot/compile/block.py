"""Blocks of states in frames of vectors, as LLVM IR: memory, gangs, moves in, rows to write to.

An output array whose states are contiguous is written in place, one with strides by way of a
staging area.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.rows import Shape
from qddot.compile.types import Vector

__all__ = ["Array", "Frame", "Places", "each_block", "gangs_ir"]

Places = dict[int, int]

_STACK_BYTES = 1 << 16
_GANG_BYTES = 1 << 16
_MOST_BLOCKS = 8
_PIECES_A_PART = 64
_PIECES_NEAR = 128
"""Pieces whose code fits into the second cache."""
_GANG = "ptr %frames, i64 %gang, ptr %rows"
_NO_MEMORY = """\
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyErr_NoMemory()
define internal void @no_memory() noinline cold {
  %state = call i32 @PyGILState_Ensure()
  %none = call ptr @PyErr_NoMemory()
  call void @PyGILState_Release(i32 %state)
  ret void
}"""
"""Loops hold no lock of the interpreter, but an error of Python's is raised under it."""


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


def _gang(frame: Frame, pieces: int, outputs: Sequence[Array]) -> int:
    """How many blocks go through the pieces together.

    Code longer than the instruction cache is fetched again for every run; a gang of blocks shares
    that, as long as its frames and what it writes stay in the nearer caches. Code that comes from
    far away every time is worth two at least.
    """
    if pieces == 1:
        return 1
    vectors = frame.vectors + sum(array.count for array in outputs)
    least = 1 if pieces <= _PIECES_NEAR else 2
    return max(least, min(_MOST_BLOCKS, _GANG_BYTES // (vectors * frame.vector.bytes)))


def _kernel(frame: Frame, pieces: int, rows: int) -> str:
    """The function @kernel: each piece in turn on every frame of a gang."""
    parts = [range(k, min(k + _PIECES_A_PART, pieces)) for k in range(0, pieces, _PIECES_A_PART)]
    calls = [f"  call void @part{k}({_GANG})" for k in range(len(parts))]
    lines = [_part(frame, k, part, rows) for k, part in enumerate(parts)]
    return "\n".join(
        [*lines, f"define internal void @kernel({_GANG}) {{", *calls, "  ret void", "}"]
    )


def _part(frame: Frame, number: int, pieces: range, rows: int) -> str:
    """A function that runs some of the pieces; compilers climb through all loops of a function."""
    t, lines, before = frame.vector.type, [], "entry"
    lines += [f"define internal void @part{number}({_GANG}) noinline {{", "entry:"]
    for k in pieces:
        lines += [
            f"  br label %test{k}",
            f"test{k}:",
            f"  %b{k} = phi i64 [0, %{before}], [%next{k}, %run{k}]",
            f"  %more{k} = icmp slt i64 %b{k}, %gang",
            f"  br i1 %more{k}, label %run{k}, label %after{k}",
            f"run{k}:",
            f"  %at{k} = mul i64 %b{k}, {frame.vectors}",
            f"  %in{k} = getelementptr {t}, ptr %frames, i64 %at{k}",
            f"  %ws{k} = getelementptr {t}, ptr %in{k}, i64 {frame.inputs + frame.outputs}",
            f"  %first{k} = mul i64 %b{k}, {rows}",
            f"  %rows{k} = getelementptr ptr, ptr %rows, i64 %first{k}",
            f"  call void @piece{k}(ptr %in{k}, ptr %ws{k}, ptr %rows{k})",
            f"  %next{k} = add i64 %b{k}, 1",
            f"  br label %test{k}",
            f"after{k}:",
        ]
        before = f"after{k}"
    return "\n".join([*lines, "  ret void", "}"])


def each_block(
    way: str, before: str, after: str, frame: Frame, moves: Sequence[str], rows: int
) -> list[str]:
    """Do something with the blocks of a gang, one after the other; each has so many rows."""
    return [
        f"each_{way}:",
        f"  %k_{way} = phi i64 [0, %{before}], [%next_{way}, %moved_{way}]",
        f"  %more_{way} = icmp slt i64 %k_{way}, %gang",
        f"  br i1 %more_{way}, label %move_{way}, label %{after}",
        f"move_{way}:",
        f"  %at_{way} = mul i64 %k_{way}, {frame.vectors}",
        f"  %buffer_{way} = getelementptr {frame.vector.type}, ptr %frames, i64 %at_{way}",
        f"  %states_{way} = mul i64 %k_{way}, {frame.vector.lanes}",
        f"  %i_{way} = add i64 %i, %states_{way}",
        f"  %at_rows_{way} = mul i64 %k_{way}, {rows}",
        f"  %rows_{way} = getelementptr ptr, ptr %rows, i64 %at_rows_{way}",
        *moves,
        f"  br label %moved_{way}",
        f"moved_{way}:",
        f"  %next_{way} = add i64 %k_{way}, 1",
        f"  br label %each_{way}",
    ]


def _memory(v: Vector, vectors: int) -> tuple[list[str], list[str]]:
    """Buffers on the stack while they are small, else on the heap."""
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

    @property
    def count(self) -> int:
        """Numbers of one sample."""
        return math.prod(self.shape)

    def stage(self, offset: int) -> list[str]:
        """Where rows lie: in the array, or from an offset on in the staging area."""
        k = self.number
        return [
            f"  %staged{k} = getelementptr i8, ptr %staging, i64 {offset}",
            f"  %rstep{k} = select i1 %whole{k}, i64 %step{k}, i64 {self.count * self.vector.size}",
            f"  %rlast{k} = select i1 %whole{k}, i64 %last, i64 {2**62}",
        ]

    def rows(self, way: str, first: int) -> list[str]:
        """Keep the addresses of the rows of a block, from this entry of their table on.

        Lanes beyond the end of a batch repeat its last state.
        """
        k, label = self.number, f"{self.number}_{way}"
        lines, base = self._base(way)
        lines += [
            f"  %rbase{label} = select i1 %whole{k}, ptr {base}, ptr %staged{k}",
            f"  %rfirst{label} = select i1 %whole{k}, i64 %i_{way}, i64 %states_{way}",
        ]
        for lane in range(self.vector.lanes):
            at = f"{label}_{lane}"
            lines += [
                f"  %ri{at} = add i64 %rfirst{label}, {lane}",
                f"  %rm{at} = call i64 @llvm.umin.i64(i64 %ri{at}, i64 %rlast{k})",
                f"  %ro{at} = mul i64 %rm{at}, %rstep{k}",
                f"  %ra{at} = getelementptr i8, ptr %rbase{label}, i64 %ro{at}",
                f"  %rt{at} = getelementptr ptr, ptr %rows_{way}, i64 {first + lane}",
                f"  store ptr %ra{at}, ptr %rt{at}",
            ]
        return lines

    def fetch(self, way: str) -> list[str]:
        """Bring the rows of a block, whose addresses are known, near: they are written soon."""
        lines = []
        for lane in range(self.vector.lanes):
            at = f"{self.number}_{way}_{lane}"
            for k, byte in enumerate(range(0, self.count * self.vector.size + 63, 64)):
                lines += [
                    f"  %pf{at}_{k} = getelementptr i8, ptr %ra{at}, i64 {byte}",
                    f"  call void @llvm.prefetch.p0(ptr %pf{at}_{k}, i32 1, i32 3, i32 1)",
                ]
        return lines

    def unstage(self, way: str) -> list[str]:
        """Move a block of states on from the staging area, if its rows are there."""
        k, label = self.number, f"{self.number}_{way}"
        lines, base = self._base(way)
        return [
            *lines,
            f"  br i1 %whole{k}, label %placed{label}, label %unstage{label}",
            f"unstage{label}:",
            f"  %so{label} = mul i64 %states_{way}, {self.count * self.vector.size}",
            f"  %sa{label} = getelementptr i8, ptr %staged{k}, i64 %so{label}",
            f"  call void @scatter_any({self._strided(base, way)}, ptr %sa{label})",
            f"  br label %placed{label}",
            f"placed{label}:",
        ]

    def gather(self, way: str, offset: int) -> list[str]:
        """Move a block of states into a frame, the fast way if the samples are contiguous."""
        k, label = self.number, f"{self.number}_{way}"
        lines, base = self._base(way)
        place = f"ptr {base}, i64 %step{k}, i64 %i_{way}, i64 %n"
        return [
            *lines,
            f"  %buf{label} = getelementptr {self.vector.type}, ptr %buffer_{way}, i64 {offset}",
            f"  br i1 %whole{k}, label %fast{label}, label %slow{label}",
            f"fast{label}:",
            f"  call void @gather({place}, i64 {self.count}, ptr %buf{label})",
            f"  br label %moved{label}",
            f"slow{label}:",
            f"  call void @gather_any({self._strided(base, way)}, ptr %buf{label})",
            f"  br label %moved{label}",
            f"moved{label}:",
        ]

    def _base(self, way: str) -> tuple[list[str], str]:
        """Where the samples of all states begin, at this time."""
        k, label = self.number, f"{self.number}_{way}"
        if not self.timed:
            return [], f"%base{k}"
        return [
            f"  %away{label} = mul i64 %t, %c{k}_t",
            f"  %now{label} = getelementptr i8, ptr %base{k}, i64 %away{label}",
        ], f"%now{label}"

    def _strided(self, base: str, way: str) -> str:
        """Arguments that describe a block of any strides."""
        k, missing = self.number, 3 - len(self.shape)
        strides = [f"%c{k}_{axis}" for axis in range(len(self.shape))]
        sizes = ", ".join(f"i64 {d}" for d in (*[1] * missing, *self.shape))
        steps = ", ".join(f"i64 {s}" for s in (*["0"] * missing, *strides))
        return f"ptr {base}, i64 %step{k}, i64 %i_{way}, i64 %n, {sizes}, {steps}"


def _staging(outputs: Sequence[Array], states: int) -> tuple[list[str], list[str]]:
    """The staging area, if an output has strides, and where each output has its rows there."""
    sizes = [states * a.count * a.vector.size for a in outputs]
    lines, direct = [], "true"
    for a in outputs:
        lines.append(f"  %direct{a.number} = and i1 {direct}, %whole{a.number}")
        direct = f"%direct{a.number}"
    lines += [
        "  br label %choose",
        "choose:",
        f"  br i1 {direct}, label %staged, label %stage",
        "stage:",
        f"  %area = call ptr @malloc(i64 {max(sum(sizes), 1)})",
        "  %no_area = icmp eq ptr %area, null",
        "  br i1 %no_area, label %no_stage, label %staged",
        "no_stage:",
        "  call void @no_memory()",
        "  br label %done",
        "staged:",
        "  %staging = phi ptr [null, %choose], [%area, %stage]",
    ]
    for k, a in enumerate(outputs):
        lines += a.stage(sum(sizes[:k]))
    return lines, [
        "  %used = phi ptr [null, %no_stage], [%staging, %test]",
        "  call void @free(ptr %used)",
    ]


def gangs_ir(
    name: str,
    frame: Frame,
    pieces: int,
    outputs: Sequence[Array],
    setup: Sequence[str],
    start: Sequence[str],
    body: Sequence[str],
) -> str:
    """The function (args, dimensions, steps, data) that counts through a batch, gang by gang.

    `setup` comes before all states and `start` before each gang; `body` begins at the label
    each_in and leaves to next_gang.
    """
    v, gang = frame.vector, _gang(frame, pieces, outputs)
    allocate, release = _memory(v, gang * frame.vectors)
    stage, unstage = _staging(outputs, gang * v.lanes)
    rows = len(outputs) * v.lanes
    lines = [
        _NO_MEMORY,
        _kernel(frame, pieces, rows),
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
        "entry:",
        "  %n = load i64, ptr %dims",
        "  %last = sub i64 %n, 1",
        f"  %rows = alloca [{gang * rows} x ptr]",
        *allocate,
        *setup,
        *stage,
        "  br label %test",
        "test:",
        "  %i = phi i64 [0, %staged], [%i_next, %next_gang]",
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
        *unstage,
        *release,
        "  ret void",
        *(["failed:", "  call void @no_memory()", "  ret void"] if release else []),
        "}",
    ]
    return "\n".join(lines)
