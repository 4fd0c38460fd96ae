"""Blocks of states in frames of vectors, as LLVM IR: moves in, rows to write to.

An output array whose states are contiguous is written in place, one with strides by way of a
staging area.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.ir.stores import Shape
from qddot.compile.ir.types import VectorType

__all__ = ["Array", "BlockFrame", "Places", "for_each_block"]

Places = dict[int, int]


@dataclass(frozen=True)
class BlockFrame:
    """The vectors that one block of states needs: inputs, outputs, workspace, in this order."""

    inputs: int
    outputs: int
    workspace: int
    vector: VectorType

    @property
    def vector_count(self) -> int:
        """How many vectors that are, at least one."""
        return max(self.inputs + self.outputs + self.workspace, 1)


def for_each_block(
    way: str, before: str, after: str, frame: BlockFrame, moves: Sequence[str], rows: int
) -> list[str]:
    """IR of a loop over the blocks of a group, of `rows` states each, with `moves` as its body."""
    return [
        f"each_{way}:",
        f"  %k_{way} = phi i64 [0, %{before}], [%next_{way}, %moved_{way}]",
        f"  %more_{way} = icmp slt i64 %k_{way}, %group",
        f"  br i1 %more_{way}, label %move_{way}, label %{after}",
        f"move_{way}:",
        f"  %at_{way} = mul i64 %k_{way}, {frame.vector_count}",
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


@dataclass(frozen=True)
class Array:
    """An argument of a loop: its number, the shape of one sample, and where its core strides begin.

    An array with a time has a first core axis more, along which its samples stand; that is the
    value which says at which of them the loop is.
    """

    number: int
    shape: Shape
    first_stride: int
    vector: VectorType
    time: str = ""

    @property
    def axis_count(self) -> int:
        """Number of core axes."""
        return len(self.shape) + bool(self.time)

    def load_layout(self) -> list[str]:
        """Load base, step and core strides, and find whether the samples are contiguous."""
        k, size = self.number, self.vector.number_bytes
        lines = [
            f"  %ap{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %base{k} = load ptr, ptr %ap{k}",
            f"  %sp{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"  %step{k} = load i64, ptr %sp{k}",
        ]
        # strides of the core axes, that of time first
        names = [*(["t"] if self.time else []), *map(str, range(len(self.shape)))]
        for place, name in enumerate(names, start=self.first_stride):
            lines += [
                f"  %cp{k}_{name} = getelementptr i64, ptr %steps, i64 {place}",
                f"  %c{k}_{name} = load i64, ptr %cp{k}_{name}",
            ]
        # contiguous: each stride is the size of the axes after it
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

    @property
    def bytes(self) -> int:
        """Bytes of one sample."""
        return self.count * self.vector.number_bytes

    def locate_rows(self, offset: int) -> list[str]:
        """Where rows lie: in the array, or from an offset on in the staging area."""
        k = self.number
        return [
            f"  %staged{k} = getelementptr i8, ptr %staging, i64 {offset}",
            f"  %rstep{k} = select i1 %whole{k}, i64 %step{k}, i64 {self.bytes}",
            f"  %rlast{k} = select i1 %whole{k}, i64 %last, i64 {2**62}",
        ]

    def store_row_addresses(self, way: str, first: int) -> list[str]:
        """Keep the addresses of the rows of a block, from this entry of their table on.

        Lanes beyond the end of a batch repeat its last state.
        """
        k, label = self.number, f"{self.number}_{way}"
        lines, base = self._sample_base(way)
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

    def prefetch_rows(self, way: str) -> list[str]:
        """Bring the rows of a block, whose addresses are known, near: they are written soon."""
        lines = []
        for lane in range(self.vector.lanes):
            at = f"{self.number}_{way}_{lane}"
            for k, byte in enumerate(range(0, self.bytes + 63, 64)):
                lines += [
                    f"  %pf{at}_{k} = getelementptr i8, ptr %ra{at}, i64 {byte}",
                    f"  call void @llvm.prefetch.p0(ptr %pf{at}_{k}, i32 1, i32 3, i32 1)",
                ]
        return lines

    def copy_staged_rows(self, way: str) -> list[str]:
        """Move a block of states on from the staging area, if its rows are there."""
        k, label = self.number, f"{self.number}_{way}"
        lines, base = self._sample_base(way)
        return [
            *lines,
            f"  br i1 %whole{k}, label %placed{label}, label %unstage{label}",
            f"unstage{label}:",
            f"  %so{label} = mul i64 %states_{way}, {self.bytes}",
            f"  %sa{label} = getelementptr i8, ptr %staged{k}, i64 %so{label}",
            f"  call void @scatter_any({self._stride_arguments(base, way)}, ptr %sa{label})",
            f"  br label %placed{label}",
            f"placed{label}:",
        ]

    def gather_block(self, way: str, offset: int) -> list[str]:
        """Move a block of states into a frame, the fast way if the samples are contiguous."""
        k, label = self.number, f"{self.number}_{way}"
        lines, base = self._sample_base(way)
        place = f"ptr {base}, i64 %step{k}, i64 %i_{way}, i64 %n"
        return [
            *lines,
            f"  %buf{label} = getelementptr {self.vector.type}, ptr %buffer_{way}, i64 {offset}",
            f"  br i1 %whole{k}, label %fast{label}, label %slow{label}",
            f"fast{label}:",
            f"  call void @gather({place}, i64 {self.count}, ptr %buf{label})",
            f"  br label %moved{label}",
            f"slow{label}:",
            f"  call void @gather_any({self._stride_arguments(base, way)}, ptr %buf{label})",
            f"  br label %moved{label}",
            f"moved{label}:",
        ]

    def _sample_base(self, way: str) -> tuple[list[str], str]:
        """Where the samples of all states begin, at this time."""
        k, label = self.number, f"{self.number}_{way}"
        if not self.time:
            return [], f"%base{k}"
        return [
            f"  %away{label} = mul i64 {self.time}, %c{k}_t",
            f"  %now{label} = getelementptr i8, ptr %base{k}, i64 %away{label}",
        ], f"%now{label}"

    def _stride_arguments(self, base: str, way: str) -> str:
        """Arguments that describe a block of any strides."""
        k, missing = self.number, 3 - len(self.shape)
        strides = [f"%c{k}_{axis}" for axis in range(len(self.shape))]
        sizes = ", ".join(f"i64 {d}" for d in (*[1] * missing, *self.shape))
        steps = ", ".join(f"i64 {s}" for s in (*["0"] * missing, *strides))
        return f"ptr {base}, i64 %step{k}, i64 %i_{way}, i64 %n, {sizes}, {steps}"
