"""Sums of products as chains of multiply-adds: fewer instructions for the same tape.

A sum is gathered from the additions near its end. What is no product comes first; each product
then costs one multiply-add and nothing of its own. A product that several sums share is multiplied
again in each, which is one operation less than to keep it. Differences of two values stay as they
are, for they may be exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from qddot.compile.trace.regions import innermost_regions
from qddot.compile.trace.tape import Tape

__all__ = ["fuse_multiply_adds"]

_REACH = 64
"""How many entries before its end a sum is gathered; terms from far away would have to be kept."""

_SIGNS = {"add": (1, 1), "sub": (1, -1)}

Operand = int | float
Term = tuple[int, Operand]
Sums = Mapping[int, Sequence[Term]]


def fuse_multiply_adds(tape: Tape) -> Tape:
    """The tape with multiply-adds: fma is a · b + c, fms a · b − c, fnma c − a · b."""
    operands = [x for name, *args in tape.code if name != "input" for x in args]
    operands += [x for region in tape.regions for x in (*region.nexts, region.flag)]
    uses = Counter(x for x in (*operands, *tape.outputs) if type(x) is int)
    sums, inner = _gather_sums(tape, uses)
    # products with an entry of their own: used outside of sums, or with which a sum begins
    inside = Counter(x for terms in sums.values() for _, x in terms if type(x) is int)
    kept = {i for i, entry in enumerate(tape.code) if entry[0] == "mul" and uses[i] > inside[i]}
    for terms in sums.values():
        if all(_is_fused(tape, kept, x) for _, x in terms):
            kept.add(max((int(x) for sign, x in terms if sign > 0), key=lambda x: uses[x]))
    # the new tape: sums as chains, products inside them without an entry of their own
    writer = _Writer(tape, kept)
    position = []
    for i, (name, *args) in enumerate(tape.code):
        position.append(len(writer.code))
        if i in sums:
            writer.place[i] = writer.write_sum(sums[i])
        elif name == "input":
            writer.place[i] = writer.emit(name, *args)
        elif i not in inner and (name != "mul" or i in kept):
            writer.place[i] = writer.emit(name, *map(writer.new_operand, args))
    position.append(len(writer.code))
    regions = tuple(
        replace(
            region,
            start=position[region.start],
            stop=position[region.stop],
            flag=writer.place[region.flag],
            carries=tuple(writer.place[c] for c in region.carries),
            nexts=tuple(map(writer.new_operand, region.nexts)),
        )
        for region in tape.regions
    )
    outputs = tuple(map(writer.new_operand, tape.outputs))
    return Tape(tuple(writer.code), tape.inputs, outputs, regions)


def _gather_sums(tape: Tape, uses: Mapping[int, int]) -> tuple[Sums, set[int]]:
    """The terms of each sum, by the entry that ends it, and the sums that are part of others."""
    sums: dict[int, list[Term]] = {}
    inner: set[int] = set()
    # what is computed once is not brought into a region that is run again
    around = innermost_regions(tape.regions, len(tape.code))
    for end in reversed(range(len(tape.code))):
        if tape.code[end][0] not in _SIGNS or end in inner:
            continue
        terms, todo = [], [(1, end)]
        while todo:
            sign, i = todo.pop()
            name, *args = tape.code[i]
            for own, x in zip(_SIGNS[name], args, strict=True):
                near = type(x) is int and uses[x] == 1 and end - x < _REACH
                near = near and around[int(x)] is around[end]
                # a difference of two values may be exact: only sums with rounding are taken apart
                if (
                    near
                    and tape.code[x][0] in _SIGNS
                    and any(
                        type(y) is int and tape.code[y][0] in ("mul", *_SIGNS)
                        for y in tape.code[x][1:]
                    )
                ):
                    inner.add(x)
                    todo.append((sign * own, x))
                else:
                    terms.append((sign * own, x))
        sums[end] = terms
    return sums, inner


def _is_fused(tape: Tape, kept: set[int], x: Operand) -> bool:
    """Whether an operand is a product without an entry of its own."""
    return type(x) is int and tape.code[x][0] == "mul" and x not in kept


class _Writer:
    """The new tape as it grows."""

    def __init__(self, tape: Tape, kept: set[int]) -> None:
        self.tape, self.kept = tape, kept
        self.code: list[tuple[Any, ...]] = []
        self.place: dict[int, int] = {}

    def emit(self, name: str, *args: Operand) -> int:
        """Append an entry; its index."""
        self.code.append((name, *args))
        return len(self.code) - 1

    def new_operand(self, x: Operand) -> Operand:
        """An operand in the new tape."""
        return self.place[x] if type(x) is int else x

    def write_sum(self, terms: Sequence[Term]) -> int:
        """A sum, from the oldest term to the newest; one that is not taken away comes first."""
        ordered = sorted(terms, key=lambda term: term[1] if type(term[1]) is int else -1)
        plain, products = (
            [term for term in ordered if _is_fused(self.tape, self.kept, term[1]) is wanted]
            for wanted in (False, True)
        )
        # terms that are no products first, then one multiply-add a product
        given, x = plain.pop(_first_positive(plain))
        total = self.new_operand(x)
        for sign, x in plain:
            total = self.emit("add" if sign == given else "sub", total, self.new_operand(x))
        if given < 0:
            _, x = products.pop(_first_positive(products))
            total = self.emit("fms", *self._new_factors(x), total)
        for sign, x in products:
            total = self.emit("fma" if sign > 0 else "fnma", *self._new_factors(x), total)
        return int(total)

    def _new_factors(self, x: Operand) -> list[Operand]:
        return [self.new_operand(factor) for factor in self.tape.code[int(x)][1:]]


def _first_positive(terms: Sequence[Term]) -> int:
    """The place of the first term that is not taken away, or of the first."""
    return next((k for k, (sign, _) in enumerate(terms) if sign > 0), 0)
