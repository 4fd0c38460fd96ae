"""Cut a tape into pieces: short functions, with the values that outlive a piece in a workspace.

A compiler's time grows faster than the length of a function; pieces keep it in proportion, and a
workspace whose slots are used again keeps the live values in the first-level cache.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from qddot.compile.ir.stores import Writes
from qddot.compile.ir.variables import Variables, find_variables
from qddot.compile.trace.regions import Region, split_at_regions
from qddot.compile.trace.tape import Tape

__all__ = ["RegionCalls", "Schedule", "schedule_pieces"]


@dataclass(frozen=True)
class RegionCalls:
    """The pieces (by number) and regions inside a region, and the carries to copy after a run."""

    number: int
    region: Region
    calls: tuple[Call, ...]
    copies: Mapping[int, int | float]

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"region{self.number}"


Call = int | RegionCalls


@dataclass(frozen=True)
class Schedule:
    """Pieces of a tape (ranges of entries), slots of the values that cross, writes to outputs.

    `calls` are the pieces by number and the regions, in the order in which they are run. `silent`
    entries of regions need no code.
    """

    pieces: tuple[range, ...]
    slots: dict[int, int]
    workspace: int
    writes: Writes
    calls: tuple[Call, ...]
    silent: frozenset[int] = frozenset()

    @property
    def regions(self) -> list[RegionCalls]:
        """All regions, those inside others before them."""
        return _inner_regions(self.calls)


def _inner_regions(calls: Collection[Call]) -> list[RegionCalls]:
    inside = [x for x in calls if isinstance(x, RegionCalls)]
    return [y for x in inside for y in (*_inner_regions(x.calls), x)]


def schedule_pieces(
    tape: Tape,
    writes: Writes | None = None,
    piece: int = 200,
    places: Collection[int] = (),
) -> Schedule:
    """Equal pieces of about this many entries, with workspace slots assigned by last use.

    Entries of `places` are stored elsewhere too.
    """
    after, variables = writes or {}, find_variables(tape)
    cutter = _Cutter(tape, variables, {*after, *places}, piece)
    calls = cutter.cut_entries(range(len(tape.code)))
    slots, size = _assign_slots(tape, cutter, variables, after)
    return Schedule(tuple(cutter.pieces), slots, size, after, calls, variables.silent)


@dataclass
class _Cutter:
    """Cuts a tape into pieces; `ends` has the last piece of each region by its start."""

    tape: Tape
    variables: Variables
    stored: Collection[int]
    length: int
    pieces: list[range] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)

    def cut_entries(self, entries: range, parent: Region | None = None) -> tuple[Call, ...]:
        """The calls that run some entries."""
        calls: list[Call] = []
        for part in split_at_regions(self.tape.regions, entries, parent):
            if isinstance(part, Region):
                inside = self.cut_entries(part.entries, part)
                copies = self.variables.copies[part.start]
                calls.append(RegionCalls(len(self.ends), part, inside, copies))
                self.ends[part.start] = len(self.pieces) - 1
                continue
            count = max(1, -(-len(part) // self.length))
            bounds = [part.start + round(k * len(part) / count) for k in range(count + 1)]
            for a, b in pairwise(bounds):
                # entries that are places of variables only need no code
                if any(i not in self.variables.silent or i in self.stored for i in range(a, b)):
                    calls.append(len(self.pieces))
                self.pieces.append(range(a, b))
        if not self.pieces:
            calls.append(0)
            self.pieces.append(range(0))
        return tuple(calls)


def _assign_slots(
    tape: Tape, cutter: _Cutter, variables: Variables, writes: Writes
) -> tuple[dict[int, int], int]:
    """Slots of the values that outlive a piece, and how many there are."""
    home = {i: k for k, part in enumerate(cutter.pieces) for i in part}
    root, loops = variables.root, [r for r in tape.regions if r.times > 1]
    # the last piece that uses each value from another piece; in a loop, its last piece
    last: dict[int, int] = {}

    def use_value(x: int | float, i: int, piece: int) -> None:
        if type(x) is not int or tape.code[x][0] == "input":
            return
        for loop in loops:
            if i in loop.entries and x not in loop.entries:
                piece = max(piece, cutter.ends[loop.start])
        x = root.get(x, x)
        last[x] = max(last.get(x, -1), piece)

    for i, (name, *args) in enumerate(tape.code):
        used = [] if name == "input" else args
        for x in (*used, *(x for write in writes.get(i, ()) for x in write.values)):
            if type(x) is int and (x in root or home[x] != home[i]):
                use_value(x, i, home[i])
    for region in tape.regions:
        end = cutter.ends[region.start]
        use_value(region.flag, region.start - 1, home[region.start])
        for x in (*region.carries, *region.nexts):
            if type(x) is int and (
                x in root or x in cutter.variables.copies[region.start].values()
            ):
                use_value(x, region.stop - 1, end)
    # slots of the workspace, free again after the last piece that uses their value
    slots: dict[int, int] = {}
    free: list[int] = []
    ends: list[tuple[int, int]] = []
    size = 0
    for k, part in enumerate(cutter.pieces):
        while ends and ends[0][0] < k:
            heapq.heappush(free, heapq.heappop(ends)[1])
        for i in part:
            x = root.get(i, i)
            if x in last and x not in slots:
                if free:
                    slots[x] = heapq.heappop(free)
                else:
                    slots[x], size = size, size + 1
                heapq.heappush(ends, (last[x], slots[x]))
            if x in slots:
                slots[i] = slots[x]
    return slots, size
