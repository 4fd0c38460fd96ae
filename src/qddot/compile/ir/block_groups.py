"""Groups of blocks, as LLVM IR: blocks of states that go through the pieces of a tape together.

In a batch larger than the caches, the arrays of the next group are prefetched while a group is
computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.ir.block import Array, BlockFrame
from qddot.compile.ir.calls import FunctionCall
from qddot.compile.ir.types import VectorType

__all__ = ["Prefetch", "block_groups_ir", "blocks_per_group"]

_STACK_BYTES = 1 << 16
_GROUP_BYTES = 1 << 16
_PREFETCH_BYTES = 1 << 15
"""Bytes of an array up to which its share of a group is prefetched: part of the second cache."""
_NEAR_BYTES = 1 << 21
"""A batch that stays near after it was written, with room for code."""
_LINE = 64
_MOST_BLOCKS = 8
_PIECES_A_PART = 64
_PIECES_NEAR = 128
"""Pieces whose code fits into the second cache."""
_GROUP_ARGUMENTS = "ptr %frames, i64 %group, ptr %rows"
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


def blocks_per_group(frame: BlockFrame, pieces: int, outputs: Sequence[Array]) -> int:
    """How many blocks go through the pieces together.

    Code longer than the instruction cache is fetched again for every run; a group of blocks shares
    that, as long as its frames and what it writes stay in the nearer caches. Two are worth it
    already if their frames do, and for code that comes from far away every time.
    """
    if pieces == 1:
        return 1
    room = _GROUP_BYTES // frame.vector.bytes
    least = 2 if pieces > _PIECES_NEAR or 2 * frame.vector_count <= room else 1
    vectors = frame.vector_count + sum(array.count for array in outputs)
    return max(least, min(_MOST_BLOCKS, room // vectors))


@dataclass(frozen=True)
class Prefetch:
    """Prefetch of the next group: arrays that are read, and arrays that are written.

    A few lines of the cache are asked for with each piece, since all at once would wait for each
    other, and in the order of memory, which the machine's own guesses follow. Arrays of which a
    group takes up much of the nearer caches stay where they are.
    """

    read: tuple[Array, ...]
    written: tuple[Array, ...]
    blocks: int
    pieces: int

    @property
    def arrays(self) -> list[tuple[Array, int]]:
        """The arrays that are prefetched, and whether they are written."""
        both = [(a, int(a in self.written)) for a in (*self.read, *self.written)]
        return [(a, w) for a, w in both if self.blocks * _block_bytes(a) <= _PREFETCH_BYTES]

    def detect_far_batch(self) -> list[str]:
        """Whether the batch is larger than the caches and the rows of some array follow."""
        state = sum(a.bytes for a in (*self.read, *self.written))
        lines, any_follow = [f"  %large = icmp ugt i64 %n, {_NEAR_BYTES // max(1, state)}"], "false"
        for a, _ in self.arrays:
            k, row = a.number, a.bytes
            lines += [
                f"  %dense{k} = icmp eq i64 %step{k}, {row}",
                f"  %follows{k} = and i1 %whole{k}, %dense{k}",
                f"  %any{k} = or i1 {any_follow}, %follows{k}",
            ]
            any_follow = f"%any{k}"
        return [*lines, f"  %far = and i1 %large, {any_follow}"]

    def locate_next_group(self) -> list[str]:
        """Where the next group has its rows; the same place every time where they do not follow."""
        lines = []
        for place, (a, _) in enumerate(self.arrays):
            k, states = a.number, self.blocks * a.vector.lanes
            lines += [
                f"  %next{k} = add i64 %i, {states}",
                f"  %skip{k} = mul i64 %next{k}, %step{k}",
                f"  %some{k} = select i1 %follows{k}, i64 %skip{k}, i64 0",
                f"  %there{k} = getelementptr i8, ptr %base{k}, i64 %some{k}",
                f"  %slot{k} = getelementptr ptr, ptr %ahead, i64 {place}",
                f"  store ptr %there{k}, ptr %slot{k}",
            ]
        return lines

    def prefetch_lines(self, piece: int) -> list[str]:
        """Ask for the lines of the cache that come with a piece of block %b."""
        lines = []
        for place, (a, writes) in enumerate(self.arrays):
            count, tag = -(-_block_bytes(a) // _LINE), f"{piece}_{place}"
            share = range(piece * count // self.pieces, (piece + 1) * count // self.pieces)
            if not share:
                continue
            lines += [
                f"  %slot{tag} = getelementptr ptr, ptr %ahead, i64 {place}",
                f"  %group{tag} = load ptr, ptr %slot{tag}",
                f"  %away{tag} = mul i64 %b{piece}, {len(share) * _LINE}",
                f"  %from{tag} = getelementptr i8, ptr %group{tag}, i64 %away{tag}",
            ]
            for k in range(len(share)):
                at, line = f"%line{tag}_{k}", self.blocks * share.start + k
                lines += [
                    f"  {at} = getelementptr i8, ptr %from{tag}, i64 {line * _LINE}",
                    f"  call void @llvm.prefetch.p0(ptr {at}, i32 {writes}, i32 3, i32 1)",
                ]
        return lines

    def run_pieces(self) -> list[str]:
        """IR from the label run to the label ran: the pieces, with prefetches for a far batch."""
        return [
            "run:",
            "  br i1 %far, label %run_far, label %run_near",
            "run_near:",
            f"  call void @kernel({_GROUP_ARGUMENTS})",
            "  br label %ran",
            "run_far:",
            f"  call void @kernel_far({_GROUP_ARGUMENTS}, ptr %ahead)",
            "  br label %ran",
            "ran:",
            "  br label %each_out",
        ]


def _block_bytes(array: Array) -> int:
    """Bytes of the rows of a block."""
    return array.vector.lanes * array.bytes


def _kernel_ir(
    frame: BlockFrame, calls: Sequence[FunctionCall], rows: int, prefetch: Prefetch | None = None
) -> str:
    """The function @kernel: each piece or region in turn on all frames of a group.

    @kernel_far prefetches.
    """
    tag, given = ("_far", f"{_GROUP_ARGUMENTS}, ptr %ahead") if prefetch else ("", _GROUP_ARGUMENTS)
    t, lines, parts = frame.vector.type, list[str](), list[str]()
    for k, call in enumerate(calls):
        # a function has some of the pieces only: compilers climb through all loops of a function
        part, first = divmod(k, _PIECES_A_PART)
        if not first:
            lines += [f"define internal void @part{part}{tag}({given}) noinline {{", "entry:"]
            parts.append(f"  call void @part{part}{tag}({given})")
        # the piece on each frame of the group
        lines += [
            f"  br label %test{k}",
            f"test{k}:",
            f"  %b{k} = phi i64 [0, %{f'after{k - 1}' if first else 'entry'}], [%next{k}, %ran{k}]",
            f"  %more{k} = icmp slt i64 %b{k}, %group",
            f"  br i1 %more{k}, label %run{k}, label %after{k}",
            f"run{k}:",
            f"  %at{k} = mul i64 %b{k}, {frame.vector_count}",
            f"  %in{k} = getelementptr {t}, ptr %frames, i64 %at{k}",
            f"  %ws{k} = getelementptr {t}, ptr %in{k}, i64 {frame.inputs + frame.outputs}",
            f"  %first{k} = mul i64 %b{k}, {rows}",
            f"  %rows{k} = getelementptr ptr, ptr %rows, i64 %first{k}",
            *(prefetch.prefetch_lines(k) if prefetch else ()),
            *call.lines(f"{k}", (f"%in{k}", f"%ws{k}", f"%rows{k}")),
            f"  br label %ran{k}",
            f"ran{k}:",
            f"  %next{k} = add i64 %b{k}, 1",
            f"  br label %test{k}",
            f"after{k}:",
        ]
        if k + 1 == len(calls) or first + 1 == _PIECES_A_PART:
            lines += ["  ret void", "}"]
    head = f"define internal void @kernel{tag}({given}) {{"
    return "\n".join([*lines, head, *parts, "  ret void", "}"])


def _frame_memory(v: VectorType, vectors: int) -> tuple[list[str], list[str]]:
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


def _staging_area(outputs: Sequence[Array], states: int) -> tuple[list[str], list[str]]:
    """The staging area, if an output has strides, and where each output has its rows there.

    It begins with zeros, for those that a function does not write.
    """
    sizes = [states * a.bytes for a in outputs]
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
        "  br i1 %no_area, label %no_stage, label %wipe",
        "wipe:",
        f"  call void @llvm.memset.p0.i64(ptr %area, i8 0, i64 {max(sum(sizes), 1)}, i1 false)",
        "  br label %staged",
        "no_stage:",
        "  call void @no_memory()",
        "  br label %done",
        "staged:",
        "  %staging = phi ptr [null, %choose], [%area, %wipe]",
    ]
    for k, a in enumerate(outputs):
        lines += a.locate_rows(sum(sizes[:k]))
    return lines, [
        "  %used = phi ptr [null, %no_stage], [%staging, %test]",
        "  call void @free(ptr %used)",
    ]


def block_groups_ir(
    name: str,
    frame: BlockFrame,
    group: int,
    calls: Sequence[FunctionCall],
    outputs: Sequence[Array],
    setup: Sequence[str],
    start: Sequence[str],
    body: Sequence[str],
    prefetch: Prefetch | None = None,
    internal: bool = False,
) -> str:
    """The function (args, dimensions, steps, data) that counts through a batch, group by group.

    `setup` comes before all states and `start` before each group; `body` begins at the label
    each_in and leaves to next_group. An internal function is called in its module only.
    """
    linkage = "internal " if internal else ""
    v = frame.vector
    allocate, release = _frame_memory(v, group * frame.vector_count)
    stage, unstage = _staging_area(outputs, group * v.lanes)
    rows = len(outputs) * v.lanes
    lines = [
        _NO_MEMORY,
        *(_kernel_ir(frame, calls, rows, each) for each in dict.fromkeys((None, prefetch))),
        f"define {linkage}void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
        "entry:",
        "  %n = load i64, ptr %dims",
        "  %last = sub i64 %n, 1",
        # addresses of the rows of a group, and of the arrays that are prefetched
        f"  %rows = alloca [{group * rows} x ptr]",
        *([f"  %ahead = alloca [{max(1, len(prefetch.arrays))} x ptr]"] if prefetch else []),
        *allocate,
        *setup,
        *stage,
        "  br label %test",
        "test:",
        "  %i = phi i64 [0, %staged], [%i_next, %next_group]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %start, label %done",
        "start:",
        *start,
        "  %left = sub i64 %n, %i",
        f"  %rounded = add i64 %left, {v.lanes - 1}",
        f"  %blocks = udiv i64 %rounded, {v.lanes}",
        f"  %group = call i64 @llvm.umin.i64(i64 %blocks, i64 {group})",
        "  br label %each_in",
        *body,
        "next_group:",
        f"  %i_next = add i64 %i, {group * v.lanes}",
        "  br label %test",
        "done:",
        *unstage,
        *release,
        "  ret void",
        *(["failed:", "  call void @no_memory()", "  ret void"] if release else []),
        "}",
    ]
    return "\n".join(lines)
