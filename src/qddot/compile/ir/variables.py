"""Variables of regions: entries of a tape that share one place in memory, without copies.

A carry has the place of its result. It takes over that of its initial number where nothing reads
this afterwards, and its next number is written there at once where nothing reads the carry any
more. All other next numbers are copied after a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qddot.compile.trace.regions import innermost_regions
from qddot.compile.trace.tape import Tape

__all__ = ["Variables", "find_variables", "last_uses"]


@dataclass(frozen=True)
class Variables:
    """The variable of each entry that belongs to one, named after its root.

    `silent` entries need no code. `copies` has, by the start of a region, the next operand of each
    carry that is copied after a run.
    """

    root: Mapping[int, int]
    silent: frozenset[int]
    copies: Mapping[int, Mapping[int, int | float]]


def find_variables(tape: Tape) -> Variables:
    """The variables of the regions of a tape."""
    if not tape.regions:
        return Variables({}, frozenset(), {})
    around = innermost_regions(tape.regions, len(tape.code))
    last = last_uses(tape)
    last |= {x: len(tape.code) for x in tape.outputs if type(x) is int}
    group: dict[int, list[int]] = {}
    # a carry, its result, and its initial number where that ends there
    silent: set[int] = set()
    for i, (name, *args) in enumerate(tape.code):
        if name == "result":
            _unite(group, args[0], i)
            silent.add(i)
        elif name == "carry":
            group.setdefault(i, [i])
            if not args:
                silent.add(i)
                continue
            # a carry takes over the place of its initial number
            x, region = args[0], around[i]
            ends = type(x) is int and tape.code[x][0] != "input" and last.get(x, x) <= i
            if ends and (around[x] is region or (region is not None and x in region.carries)):
                _unite(group, x, i)
                silent.add(i)
    # next numbers that can be written at once
    copies: dict[int, dict[int, int | float]] = {}
    for region in tape.regions:
        rest = copies[region.start] = {}
        for c, x in zip(region.carries, region.nexts, strict=True):
            if type(x) is int and group.get(x) is group[c]:
                continue
            inside = [y for y in group[c] if y in region.entries or y == c]
            free = type(x) is int and x not in group and around[x] is region
            if free and region.nexts.count(x) == 1 and all(last.get(y, y) <= x for y in inside):
                _unite(group, c, int(x))
            else:
                rest[c] = x
    root = {i: some[0] for i, some in group.items()}
    return Variables(root, frozenset(silent), copies)


def last_uses(tape: Tape) -> dict[int, int]:
    """The last entry that reads each entry; a region reads what it hands on at its end."""
    last: dict[int, int] = {}
    for i, (name, *args) in enumerate(tape.code):
        # a result is what its carry has become, not a copy of it
        if name not in ("input", "result"):
            last |= {x: i for x in args if type(x) is int}
    for region in tape.regions:
        for x in region.nexts:
            if type(x) is int:
                last[x] = max(last.get(x, x), region.stop)
        last[region.flag] = max(last.get(region.flag, region.flag), region.start)
    return last


def _unite(group: dict[int, list[int]], a: int, b: int) -> None:
    """Make one variable of two."""
    one, other = group.setdefault(a, [a]), group.setdefault(b, [b])
    if one is not other:
        one += other
        group.update(dict.fromkeys(other, one))
