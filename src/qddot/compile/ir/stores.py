"""Outputs as rows: a vector has a number of each state of a block, an output array a row a state.

Numbers that stand side by side in an output are turned, as many as a vector has lanes, or half as
many, and written to the rows of their states, in the middle of the computation, as soon as the last
of them is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qddot.compile.ir.types import VectorType
from qddot.compile.trace.tape import Tape

__all__ = [
    "RowWriter",
    "Shape",
    "Write",
    "Writes",
    "split_outputs",
    "transpose_vectors",
    "writer_ir",
    "writes_after",
    "writes_of",
]

Shape = tuple[int, ...]
_LINE = 64
_MOST_BYTES_ACROSS = 32
"""Bytes of a store to rows that are whole halves of lines of the cache, but not whole lines: stores
of a line would touch two of them in every other row, those of half a line never do."""
_LONGEST_ACROSS, _OPERATIONS_ACROSS = 512, 4
"""Bytes of a row, and entries of the tape for a number, up to which that pays for twice as many
stores: mass matrices of six joints gain, their derivatives and matrices of legged robots lose."""


@dataclass(frozen=True)
class Write:
    """Numbers of an output array, side by side from the first: operands of a tape."""

    array: int
    first: int
    values: tuple[int | float, ...]

    @property
    def last_entry(self) -> int:
        """The entry of the tape after which all are known; -1 where all are constants."""
        return max((x for x in self.values if type(x) is int), default=-1)

    @property
    def is_zero(self) -> bool:
        """Whether there is nothing but zeros."""
        return self.last_entry < 0 and not any(self.values)


Writes = Mapping[int, tuple[Write, ...]]


def split_outputs(
    outputs: Sequence[int | float], shapes: Sequence[Shape]
) -> list[Sequence[int | float]]:
    """The outputs of each array."""
    parts, start = [], 0
    for shape in shapes:
        parts.append(outputs[start : start + math.prod(shape)])
        start += math.prod(shape)
    return parts


def writes_of(
    parts: Sequence[Sequence[int | float]], v: VectorType, operations: int = 0
) -> list[Write]:
    """Writes that cover all arrays, some numbers at a time, the last overlapping the one before.

    A write has as many numbers as a vector has lanes, half as many where there are no more or where
    short rows of few operations begin in the middle of a line of the cache, or all. Constants are
    not turned: they fill vectors.
    """
    found = []
    stores_dominate = operations <= _OPERATIONS_ACROSS * sum(map(len, parts))
    for array, part in enumerate(parts):
        count = len(part)
        row = count * v.number_bytes
        across = row % _LINE == _MOST_BYTES_ACROSS and row <= _LONGEST_ACROSS
        halves = across and stores_dominate
        most = v.lanes // 2 if halves and v.bytes > _MOST_BYTES_ACROSS else v.lanes
        width = next((n for n in (most, v.lanes // 2) if 1 < n <= count), count)
        first = 0
        while first < count:
            ahead = part[first : first + v.lanes]
            constant = len(ahead) == v.lanes and all(type(x) is float for x in ahead)
            size = v.lanes if constant and width > 1 else width
            start = min(first, count - size)
            found.append(Write(array, start, tuple(part[start : start + size])))
            first = start + size
    return found


def writes_after(
    tape: Tape, parts: Sequence[Sequence[int | float]], v: VectorType, zeros: bool = True
) -> Writes:
    """The writes that follow each entry of a tape, those of nothing but zeros if wanted.

    Those of constants are spread evenly, from before the first entry (-1) on; none in regions.
    """
    writes = writes_of(parts, v, len(tape.code))
    found = [write for write in writes if zeros or not write.is_zero]
    constant = [write for write in found if write.last_entry < 0]
    after: dict[int, list[Write]] = {}
    for write in found:
        if write.last_entry >= 0:
            after.setdefault(write.last_entry, []).append(write)
    for k, write in enumerate(constant):
        place = -1 if tape.regions else k * len(tape.code) // len(constant) - 1
        after.setdefault(place, []).append(write)
    return {entry: tuple(some) for entry, some in after.items()}


class RowWriter:
    """Writes to rows, as IR; `%rows` points to their addresses, those of an array lane by lane."""

    def __init__(self, v: VectorType) -> None:
        self.v, self.count = v, 0

    def load_row_pointers(self, arrays: Iterable[int]) -> list[str]:
        """Load the addresses of the rows of these arrays."""
        lines = []
        for array in arrays:
            for k in range(self.v.lanes):
                at = array * self.v.lanes + k
                lines += [
                    f"  %rp{at} = getelementptr ptr, ptr %rows, i64 {at}",
                    f"  %row{at} = load ptr, ptr %rp{at}",
                ]
        return lines

    def write(self, write: Write, names: Sequence[str]) -> list[str]:
        """Write values that stand in the vectors of these names."""
        self.count += 1
        lines: list[str] = []
        if len(names) not in (self.v.lanes, self.v.lanes // 2) or len(names) == 1:
            return self._write_by_number(write, names)
        if len(set(names)) > 1 or write.last_entry >= 0:
            lines, names = transpose_vectors(self.v, names, f"w{self.count}_")
        if len(names) < self.v.lanes:
            return lines + self._write_halves(write, names)
        for k, name in enumerate(names):
            lines += self._store_at(write, k, write.first, f"{self.v.type} {name}", f"{k}")
        return lines

    def _write_halves(self, write: Write, names: Sequence[str]) -> list[str]:
        """Write vectors of which each half belongs to a row."""
        v, width, lines = self.v, len(names), []
        for k, name in enumerate(names):
            for lane in (k, k + width):
                half, first = f"%wh{self.count}_{lane}", lane - k
                mask = ", ".join(f"i32 {first + j}" for j in range(width))
                lines.append(
                    f"  {half} = shufflevector {v.type} {name}, {v.type} undef, "
                    f"<{width} x i32> <{mask}>"
                )
                typed = f"<{width} x {v.scalar}> {half}"
                lines += self._store_at(write, lane, write.first, typed, f"{lane}")
        return lines

    def _write_by_number(self, write: Write, names: Sequence[str]) -> list[str]:
        v, lines = self.v, []
        for j, name in enumerate(names):
            for k in range(v.lanes):
                x = f"%we{self.count}_{j}_{k}"
                lines.append(f"  {x} = extractelement {v.type} {name}, i32 {k}")
                lines += self._store_at(write, k, write.first + j, f"{v.scalar} {x}", f"{j}_{k}")
        return lines

    def _store_at(self, write: Write, lane: int, at: int, typed: str, tag: str) -> list[str]:
        place = f"%wp{self.count}_{tag}"
        row = f"%row{write.array * self.v.lanes + lane}"
        return [
            f"  {place} = getelementptr {self.v.scalar}, ptr {row}, i64 {at}",
            f"  store {typed}, ptr {place}, align {self.v.number_bytes}",
        ]


def writer_ir(name: str, v: VectorType, writes: Sequence[Write], places: Mapping[int, int]) -> str:
    """IR of a function (buffer, rows) that writes values from their places in a buffer to rows."""
    rows, names = RowWriter(v), dict[int | float, str]()
    lines = rows.load_row_pointers(sorted({write.array for write in writes}))
    for x in dict.fromkeys(x for write in writes for x in write.values if type(x) is int):
        names[x] = f"%x{x}"
        lines += [
            f"  %at{x} = getelementptr {v.type}, ptr %buffer, i64 {places[x]}",
            f"  %x{x} = load {v.type}, ptr %at{x}, align {v.bytes}",
        ]
    for write in writes:
        values = [names[x] if type(x) is int else v.constant(x) for x in write.values]
        lines += rows.write(write, values)
    head = f"define internal void @{name}(ptr noalias %buffer, ptr noalias %rows)"
    return "\n".join([f"{head} {{", *lines, "  ret void", "}"])


def transpose_vectors(v: VectorType, names: Sequence[str], tag: str) -> tuple[list[str], list[str]]:
    """Butterflies that transpose squares of vectors: at each distance, blocks change places.

    Fewer vectors than lanes are several squares side by side.
    """
    lines, distance, names = [], 1, list(names)
    while distance < len(names):
        new = list(names)
        for i in (k for k in range(len(names)) if not k & distance):
            near = [j - distance + v.lanes if j & distance else j for j in range(v.lanes)]
            far = [j + v.lanes if j & distance else j + distance for j in range(v.lanes)]
            for target, picks in ((i, near), (i + distance, far)):
                new[target] = f"%{tag}{distance}_{target}"
                mask = ", ".join(f"i32 {p}" for p in picks)
                lines.append(
                    f"  {new[target]} = shufflevector {v.type} {names[i]}, "
                    f"{v.type} {names[i + distance]}, <{v.lanes} x i32> <{mask}>"
                )
        names, distance = new, distance * 2
    return lines, names
