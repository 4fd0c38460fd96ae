"""The tape: a straight line of operations on numbers, recorded by running a function on symbols.

A `Symbol` is a number that is not known yet. Arithmetic on symbols appends to their tape; constants
stay Python floats and fold away, and equal operations are recorded once.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Number, Real
from typing import Any

from qddot.compile.trace.arrays import NumpyOperand
from qddot.compile.trace.definitions import DEFINITIONS, NO_OPERATIONS
from qddot.compile.trace.regions import Region, split_at_regions
from qddot.errors import CannotTrace, TooLarge
from qddot.spatial import scalar
from qddot.spatial.scalar import Scalar

__all__ = [
    "MOST_RECORDED",
    "Condition",
    "Symbol",
    "Tape",
    "TapeRecorder",
    "acos",
    "asin",
    "atan2",
    "cos",
    "exp",
    "fabs",
    "floor",
    "fmax",
    "fmin",
    "if_else",
    "log",
    "power",
    "record",
    "sign",
    "sin",
    "sqrt",
    "tanh",
]

MOST_RECORDED = 800_000
"""Entries of a recording, those that its outputs do not need included: about 1 GB."""


@dataclass(frozen=True)
class Tape:
    """Operations in order; an operand is the index of an earlier one (int) or a constant (float).

    An entry is (operation, operands…), for an input ("input", its number). "select" has four
    operands: x, y, a, b stands for a where x < y, else b; likewise "select_le" for x ≤ y and
    "select_eq" for x = y. Regions are run again, or skipped where no state needs them.
    """

    code: tuple[tuple[Any, ...], ...]
    inputs: int
    outputs: tuple[int | float, ...]
    regions: tuple[Region, ...] = ()

    def operation_counts(self) -> dict[str, int]:
        """How often each operation occurs; those of a region that is run again count once."""
        return dict(Counter(entry[0] for entry in self.code if entry[0] not in NO_OPERATIONS))

    @property
    def operations(self) -> int:
        """Number of operations."""
        return sum(self.operation_counts().values())

    def __str__(self) -> str:
        def operand_text(x: int | float) -> str:
            return f"%{x}" if isinstance(x, int) else repr(x)

        lines = [
            f"%{i} = {name} "
            + (str(args[0]) if name == "input" else ", ".join(map(operand_text, args)))
            for i, (name, *args) in enumerate(self.code)
        ]
        regions = [
            f"%{r.start} to %{r.stop - 1} while %{r.flag}, {r.times} times: "
            + ", ".join(
                f"%{c} = {operand_text(x)}" for c, x in zip(r.carries, r.nexts, strict=True)
            )
            for r in self.regions
        ]
        ends = f"return {', '.join(map(operand_text, self.outputs))}"
        return "\n".join([*lines, *regions, ends])

    @property
    def used_inputs(self) -> set[int]:
        """The inputs, by number, on which outputs depend."""
        operands = {x for name, *args in self.code if name != "input" for x in args}
        operands |= set(self.outputs)
        entries = enumerate(self.code)
        used = {x for x in operands if type(x) is int}
        return {entry[1] for i, entry in entries if entry[0] == "input" and i in used}

    @property
    def digest(self) -> str:
        """Digest of the operations, constants to the last bit included."""
        parts = (self.code, self.inputs, self.outputs, *self.regions)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def run(
        self, values: Sequence[Scalar], number: Callable[[float], Scalar] = float
    ) -> list[Scalar]:
        """The tape on scalars of any type: the definition that generated code must match.

        `number` makes a scalar of a constant. Regions are run as often as they can be: a state that
        needs no more runs is not changed by them.
        """
        done: list[Any] = [math.nan] * len(self.code)

        def value(x: int | float) -> Any:
            return done[x] if type(x) is int else number(x)

        def run_entries(entries: range, parent: Region | None = None) -> None:
            for part in split_at_regions(self.regions, entries, parent):
                if isinstance(part, Region):
                    for _ in range(part.times):
                        run_entries(part.entries, part)
                        after = [value(x) for x in part.nexts]
                        for carry, x in zip(part.carries, after, strict=True):
                            done[carry] = x
                    continue
                for i in part:
                    name, *args = self.code[i]
                    if name == "input":
                        done[i] = values[args[0]]
                    elif args:
                        done[i] = DEFINITIONS[name](*(value(x) for x in args))

        run_entries(range(len(self.code)))
        return [value(x) for x in self.outputs]


def record(function: Callable[..., Sequence[Any]], sizes: Sequence[int]) -> Tape:
    """The tape of a function of vectors of these sizes that returns a flat list of numbers."""
    recorder = TapeRecorder()
    return recorder.make_tape(function(*(recorder.append_inputs(n) for n in sizes)))


class TapeRecorder:
    """Records a tape: `append_inputs` gives its symbols, `make_tape` the tape of the outputs."""

    def __init__(self) -> None:
        self.code: list[tuple[Any, ...]] = []
        self.symbols: list[Symbol] = []
        self.known: dict[Any, Symbol] = {}
        self.regions: list[Region] = []
        self.count = 0

    def append_inputs(self, n: int) -> list[Symbol]:
        """Append n inputs."""
        first, self.count = self.count, self.count + n
        return [self.emit("input", first + i) for i in range(n)]

    def emit(self, *entry: Any) -> Symbol:
        """The symbol of an operation, recorded unless it was before."""
        # 2 (an index) and 2.0 (a constant) are equal keys to a dict, so types are part of the key;
        # so are 0.0 and -0.0, which text tells apart
        key = repr(entry) if 0.0 in entry else (*entry, *map(type, entry))
        symbol = self.known.get(key)
        if symbol is None:
            symbol = self.known[key] = self._append(entry)
        return symbol

    def _append(self, entry: tuple[Any, ...]) -> Symbol:
        """The symbol of a new entry."""
        if len(self.code) >= MOST_RECORDED:
            raise TooLarge("the function", len(self.code), MOST_RECORDED)
        symbol = Symbol(self, len(self.code), entry[0])
        self.code.append(entry)
        self.symbols.append(symbol)
        return symbol

    def record_region(
        self,
        body: Callable[[list[Any]], Sequence[Any]],
        state: Sequence[Any],
        times: int,
        flag: Symbol | None = None,
    ) -> list[Any]:
        """The state after at most `times` runs of a body, while a flag is set.

        With a flag the body changes numbers only where that is set. Without one the flag is the
        first number of the state, and the body is trusted with that. None stands for a number that
        has no value where the body is not run.
        """
        carries = [
            self._append(("carry", *(() if x is None else (_as_operand(x),)))) for x in state
        ]
        # what is recorded inside is not known after it
        start, known = len(self.code), len(self.known)
        new = list(body([None if x is None else c for x, c in zip(state, carries, strict=True)]))
        if flag is not None:
            for k, (x, c) in enumerate(zip(state, carries, strict=True)):
                if x is not None and new[k] is not c:
                    new[k] = if_else(flag > 0.5, new[k], c)
        while len(self.known) > known:
            self.known.popitem()
        # numbers that the body leaves alone, and unspecified ones that it takes from outside
        results, changed = list[Any](state), dict[int, int | float]()
        for k, (x, c) in enumerate(zip(state, carries, strict=True)):
            inside = type(new[k]) is Symbol and new[k].index >= start
            if x is None and not inside:
                results[k] = new[k]
            elif new[k] is not c:
                changed[c.index], results[k] = _as_operand(new[k]), None
        which = carries[0] if flag is None else flag
        self.regions.append(
            Region(
                start,
                stop=len(self.code),
                times=times,
                flag=which.index,
                carries=tuple(changed),
                nexts=tuple(changed.values()),
            )
        )
        for k, c in enumerate(carries):
            if c.index in changed:
                results[k] = self._append(("result", c.index))
        return results

    def make_tape(self, outputs: Sequence[Any]) -> Tape:
        """The tape of these outputs, without the operations that they do not need."""
        # backwards from the outputs: the entries that they need
        ends = [_as_operand(x) for x in outputs]
        needed = [entry[0] == "input" for entry in self.code]
        carried: dict[int, tuple[Any, ...]] = {}
        for region in self.regions:
            for c, x in zip(region.carries, region.nexts, strict=True):
                carried[c] = (x, region.flag)
        stack = [x for x in ends if type(x) is int]
        while stack:
            i = stack.pop()
            if not needed[i]:
                needed[i] = True
                operands = (*self.code[i][1:], *carried.get(i, ()))
                stack += [x for x in operands if type(x) is int]
        # those entries, with operands renumbered
        place: dict[Any, int] = {}
        code: list[tuple[Any, ...]] = []
        for i, (name, *args) in enumerate(self.code):
            if needed[i]:
                moved = args if name == "input" else [_renumber(x, place) for x in args]
                place[i] = len(code)
                code.append((name, *moved))
        before = [0, *accumulate(needed)]
        regions = []
        for region in self.regions:
            pairs = zip(region.carries, region.nexts, strict=True)
            kept = [(place[c], _renumber(x, place)) for c, x in pairs if needed[c]]
            if kept:
                start, stop = before[region.start], before[region.stop]
                carries, nexts = (tuple(some) for some in zip(*kept, strict=True))
                flag = place[region.flag]
                regions.append(Region(start, stop, region.times, flag, carries, nexts))
        outputs = tuple(_renumber(x, place) for x in ends)
        return Tape(tuple(code), self.count, outputs, tuple(regions))


def _as_operand(x: Any) -> int | float:
    return x.index if type(x) is Symbol else float(x)


def _renumber(x: int | float, place: dict[Any, int]) -> int | float:
    return place[x] if type(x) is int else x


class Symbol(NumpyOperand):
    """A number of a tape; its operators record."""

    __slots__ = ("index", "name", "recorder")
    __hash__ = object.__hash__

    def __init__(self, recorder: TapeRecorder, index: int, name: str) -> None:
        self.recorder, self.index, self.name = recorder, index, name

    def _operand_at(self, k: int) -> Any:
        """An operand of this symbol, as a symbol or a float."""
        x = self.recorder.code[self.index][k]
        return self.recorder.symbols[x] if type(x) is int else x

    def __neg__(self) -> Any:
        if self.name == "neg":
            return self._operand_at(1)
        if self.name == "sub":
            return self.recorder.emit("sub", *self.recorder.code[self.index][:0:-1])
        return self.recorder.emit("neg", self.index)

    def __add__(self, other: Any) -> Any:
        if type(other) is not Symbol:
            if not isinstance(other, Real):
                return NotImplemented
            return self if other == 0.0 else self.recorder.emit("add", self.index, float(other))
        if other.name == "neg":
            return self - other._operand_at(1)
        if self.name == "neg":
            return other - self._operand_at(1)
        return self.recorder.emit("add", *sorted((self.index, other.index)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if type(other) is not Symbol:
            if not isinstance(other, Real):
                return NotImplemented
            return self if other == 0.0 else self.recorder.emit("add", self.index, -float(other))
        if other is self:
            return 0.0
        if other.name == "neg":
            return self + other._operand_at(1)
        if self.name == "neg":
            return -(other + self._operand_at(1))
        return self.recorder.emit("sub", self.index, other.index)

    def __rsub__(self, other: Any) -> Any:
        if other == 0.0:
            return -self
        return self.recorder.emit("sub", float(other), self.index)

    def __mul__(self, other: Any) -> Any:
        if type(other) is not Symbol:
            return self._scale_by(float(other)) if isinstance(other, Real) else NotImplemented
        if self.name == "neg":
            return -(self._operand_at(1) * other)
        if other.name == "neg":
            return -(self * other._operand_at(1))
        return self.recorder.emit("mul", *sorted((self.index, other.index)))

    __rmul__ = __mul__

    def _scale_by(self, factor: float) -> Any:
        """The product with a constant."""
        if factor in (0.0, 1.0):
            return self if factor else 0.0
        if factor == -1.0:
            return -self
        if self.name == "neg":
            return self._operand_at(1) * -factor
        if self.name == "mul" and type(self._operand_at(2)) is float:
            return self._operand_at(1) * (self._operand_at(2) * factor)
        return self.recorder.emit("mul", self.index, factor)

    def __truediv__(self, other: Any) -> Any:
        return 1.0 if other is self else self * (1.0 / other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.recorder.emit("div", 1.0, self.index) * other

    def __pow__(self, other: Any) -> Any:
        return power(self, other) if isinstance(other, Symbol | Real) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return power(other, self) if isinstance(other, Real) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self - scalar.floor(self / other) * other

    def __abs__(self) -> Any:
        return fabs(self)

    def __pos__(self) -> Symbol:
        return self

    def __lt__(self, other: Any) -> Any:
        return _compare("select", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare("select", other, self)

    def __le__(self, other: Any) -> Any:
        return _compare("select_le", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare("select_le", other, self)

    def __eq__(self, other: Any) -> Any:
        return _compare("select_eq", self, other)

    def __ne__(self, other: Any) -> Any:
        equal = _compare("select_eq", self, other)
        return equal if equal is NotImplemented else ~equal

    def __bool__(self) -> bool:
        raise CannotTrace(_NO_TRUTH)

    def __float__(self) -> float:
        raise CannotTrace(
            "a symbol has no value while a function is recorded: use NumPy's functions instead of "
            "float(x) and those of `math`, and make arrays of symbols with np.stack or "
            "np.concatenate instead of writing into an array of floats"
        )

    __int__ = __index__ = __complex__ = __float__


Number.register(Symbol)
_NO_TRUTH = (
    "`if`, `and`, `or`, `not`, min and max ask for the truth of a value that is not known while a "
    "function is recorded; use np.where(condition, a, b), &, |, ~, np.minimum and np.maximum, on "
    "arrays made by np.stack or np.concatenate rather than np.array"
)


def _compare(name: str, a: Any, b: Any) -> Any:
    known = isinstance(a, Symbol | Real) and isinstance(b, Symbol | Real)
    return Condition(name, a, b) if known else NotImplemented


@dataclass(frozen=True, eq=False)
class Condition(NumpyOperand):
    """The truth of a comparison, by the name of its choice, or of "and", "or", "not" of others."""

    name: str
    a: Any
    b: Any = None

    def __and__(self, other: Any) -> Any:
        if isinstance(other, bool):
            return self if other else False
        return Condition("and", self, other) if isinstance(other, Condition) else NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        if isinstance(other, bool):
            return True if other else self
        return Condition("or", self, other) if isinstance(other, Condition) else NotImplemented

    __ror__ = __or__

    def __invert__(self) -> Condition:
        return self.a if self.name == "not" else Condition("not", self)

    def __bool__(self) -> bool:
        raise CannotTrace(_NO_TRUTH)

    def __eq__(self, other: Any) -> Any:
        return if_else(self, 1.0, 0.0) == other

    def __ne__(self, other: Any) -> Any:
        return if_else(self, 1.0, 0.0) != other

    # as in NumPy, a condition in a sum or product is 0 or 1
    def __add__(self, other: Any) -> Any:
        return if_else(self, 1.0, 0.0) + other

    def __sub__(self, other: Any) -> Any:
        return if_else(self, 1.0, 0.0) - other

    def __rsub__(self, other: Any) -> Any:
        return other - if_else(self, 1.0, 0.0)

    def __mul__(self, other: Any) -> Any:
        return if_else(self, 1.0, 0.0) * other

    __radd__, __rmul__ = __add__, __mul__


def _unary_operation(name: str) -> Callable[[Symbol], Symbol]:
    def operation(x: Symbol) -> Symbol:
        return x.recorder.emit(name, x.index)

    operation.__doc__ = f"Record a {name}."
    return operation


sqrt, floor = _unary_operation("sqrt"), _unary_operation("floor")
exp, log, tanh = map(_unary_operation, ("exp", "log", "tanh"))
acos, asin, _fabs = map(_unary_operation, ("acos", "asin", "fabs"))
_sin, _cos = _unary_operation("sin"), _unary_operation("cos")


def sin(x: Symbol) -> Any:
    """Record a sine; an odd function."""
    return -_sin(x._operand_at(1)) if x.name == "neg" else _sin(x)


def cos(x: Symbol) -> Any:
    """Record a cosine; an even function."""
    return _cos(x._operand_at(1)) if x.name == "neg" else _cos(x)


def fabs(x: Symbol) -> Any:
    """Record a magnitude; an even function."""
    return _fabs(x._operand_at(1)) if x.name == "neg" else _fabs(x)


def _emit(name: str, *operands: Any) -> Symbol:
    """Record an operation of numbers, of which some are symbols."""
    recorder = next(x for x in operands if type(x) is Symbol).recorder
    return recorder.emit(name, *(_as_operand(x) for x in operands))


def atan2(y: Any, x: Any) -> Symbol:
    """Record the angle of the point (x, y)."""
    return _emit("atan2", y, x)


def power(a: Any, b: Any) -> Any:
    """Record a power; whole and half ones of a small constant as products and roots."""
    if type(b) is Symbol or not abs(b) <= _MOST_PRODUCTS or (2.0 * b) % 1.0:
        return _emit("pow", a, b)
    whole = math.floor(abs(b))
    root = sqrt(a) if whole != abs(b) else 1.0
    # square and multiply
    result, square = root, a
    while whole:
        result, square, whole = (
            (square * result if whole % 2 else result),
            square * square,
            whole // 2,
        )
    return 1.0 / result if b < 0 else result


_MOST_PRODUCTS = 8
"""The largest power that is written as products."""


def fmin(a: Any, b: Any) -> Any:
    """Record the smaller of two numbers."""
    return _emit_bound("min", a, b, math.inf)


def fmax(a: Any, b: Any) -> Any:
    """Record the larger of two numbers."""
    return _emit_bound("max", a, b, -math.inf)


def _emit_bound(name: str, a: Any, b: Any, none: float) -> Any:
    """Record a bound; a constant comes second, and one that bounds nothing leaves the number."""
    if type(a) is not Symbol:
        a, b = b, a
    return a if type(b) is not Symbol and b == none else _emit(name, a, b)


def if_else(condition: Condition, a: Any, b: Any) -> Any:
    """Record a choice."""
    first, second = condition.a, condition.b
    if condition.name == "and":
        return if_else(first, if_else(second, a, b), b)
    if condition.name == "or":
        return if_else(first, a, if_else(second, a, b))
    if condition.name == "not":
        return if_else(first, b, a)
    return _emit(condition.name, first, second, a, b)


def sign(x: Symbol) -> Any:
    """Record the sign: -1, 0 or 1; that of NaN is NaN."""
    return if_else(x < 0.0, -1.0, if_else(x > 0.0, 1.0, x))
