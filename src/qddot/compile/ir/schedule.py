"""Cut a tape into pieces: short functions, with the values that outlive a piece in a workspace.

A compiler's time grows faster than the length of a function; pieces keep it in proportion, and a
workspace whose slots are used again keeps the live values in the first-level cache.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise

from qddot.compile.ir.stores import Writes
from qddot.compile.trace.tape import Tape

__all__ = ["Schedule", "schedule_pieces"]


@dataclass(frozen=True)
class Schedule:
    """Pieces of a tape (ranges of entries), slots of the values that cross, writes to outputs."""

    pieces: tuple[range, ...]
    slots: dict[int, int]
    workspace: int
    writes: Writes


def schedule_pieces(tape: Tape, writes: Writes | None = None, piece: int = 200) -> Schedule:
    """Equal pieces of about this many entries, with workspace slots assigned by last use."""
    after = writes or {}
    n = len(tape.code)
    parts = max(1, -(-n // piece))
    bounds = [round(k * n / parts) for k in range(parts + 1)]
    pieces = tuple(range(a, b) for a, b in pairwise(bounds))
    # the last piece that uses each value from another piece
    home = {i: k for k, part in enumerate(pieces) for i in part}
    last: dict[int, int] = {}
    for i, (name, *args) in enumerate(tape.code):
        used = [] if name == "input" else args
        for x in (*used, *(x for write in after.get(i, ()) for x in write.values)):
            if type(x) is int and tape.code[x][0] != "input" and home[x] != home[i]:
                last[x] = home[i]
    # slots of the workspace, free again after the last piece that uses their value
    slots: dict[int, int] = {}
    free: list[int] = []
    ends: list[tuple[int, int]] = []
    size = 0
    for k, part in enumerate(pieces):
        while ends and ends[0][0] < k:
            heapq.heappush(free, heapq.heappop(ends)[1])
        for i in part:
            if i in last:
                if free:
                    slots[i] = heapq.heappop(free)
                else:
                    slots[i], size = size, size + 1
                heapq.heappush(ends, (last[i], slots[i]))
    return Schedule(pieces, slots, size, after)
