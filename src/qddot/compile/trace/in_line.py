"""Regions of a tape written in line, for targets that have none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qddot.compile.trace.tape import Tape

__all__ = ["write_in_line"]


def write_in_line(tape: Tape) -> Tape:
    """The tape with the regions that run once in line, so that they always run."""
    if not tape.regions or any(region.times > 1 for region in tape.regions):
        return tape
    last = {c: x for r in tape.regions for c, x in zip(r.carries, r.nexts, strict=True)}
    code: list[tuple[Any, ...]] = []
    place: dict[int, int | float] = {}

    def moved(x: int | float) -> int | float:
        return place[x] if type(x) is int else x

    for i, (name, *args) in enumerate(tape.code):
        if name in ("carry", "result"):
            # a number that the region is given, and the one that it leaves
            source = args[0] if name == "carry" and args else last.get(args[0]) if args else 0.0
            place[i] = moved(0.0 if source is None else source)
        else:
            place[i] = len(code)
            code.append((name, *(args if name == "input" else map(moved, args))))
    return replace(tape, code=tuple(code), outputs=tuple(map(moved, tape.outputs)), regions=())
