"""The tape: a straight line of operations on numbers, recorded by running a function on symbols.

A `Symbol` is a number that is not known yet. Arithmetic on symbols appends to their tape; constants
stay Python floats and fold away, and equal operations are recorded once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

__all__ = [
    "Recorder",
    "Symbol",
    "SymbolComparison",
    "Tape",
    "atan2",
    "cos",
    "floor",
    "if_else",
    "record",
    "sign",
    "sin",
    "sqrt",
]

_PYTHON: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
    "fms": lambda a, b, c: a * b - c,
    "fnma": lambda a, b, c: c - a * b,
    "neg": lambda a: -a,
    "sin": math.sin,
    "cos": math.cos,
    "sqrt": math.sqrt,
    "floor": lambda a: float(math.floor(a)) if math.isfinite(a) else a,
    "atan2": math.atan2,
    "select": lambda x, y, a, b: a if x < y else b,
}


@dataclass(frozen=True)
class Tape:
    """Operations in order; an operand is the index of an earlier one (int) or a constant (float).

    An entry is (operation, operands…), for an input ("input", its number). "select" has four
    operands: x, y, a, b stands for a where x < y, else b.
    """

    code: tuple[tuple[Any, ...], ...]
    inputs: int
    outputs: tuple[int | float, ...]

    def operation_counts(self) -> dict[str, int]:
        """How often each operation occurs."""
        return dict(Counter(entry[0] for entry in self.code if entry[0] != "input"))

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
        return "\n".join([*lines, f"return {', '.join(map(operand_text, self.outputs))}"])

    def run(self, values: Sequence[float]) -> list[float]:
        """The tape in plain Python: the definition that generated code must match."""
        done: list[Any] = []

        def value(x: int | float) -> Any:
            return done[x] if type(x) is int else x

        for name, *args in self.code:
            done.append(
                values[args[0]] if name == "input" else _PYTHON[name](*(value(x) for x in args))
            )
        return [value(x) for x in self.outputs]


def record(function: Callable[..., Sequence[Any]], sizes: Sequence[int]) -> Tape:
    """The tape of a function of vectors of these sizes that returns a flat list of numbers."""
    recorder = Recorder()
    return recorder.make_tape(function(*(recorder.append_inputs(n) for n in sizes)))


class Recorder:
    """Records a tape: `append_inputs` gives its symbols, `make_tape` the tape of the outputs."""

    def __init__(self) -> None:
        self.code: list[tuple[Any, ...]] = []
        self.symbols: list[Symbol] = []
        self.known: dict[Any, Symbol] = {}
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
            symbol = self.known[key] = Symbol(self, len(self.code), entry[0])
            self.code.append(entry)
            self.symbols.append(symbol)
        return symbol

    def make_tape(self, outputs: Sequence[Any]) -> Tape:
        """The tape of these outputs, without the operations that they do not need."""
        # backwards from the outputs: the entries that they need
        ends = [_as_operand(x) for x in outputs]
        needed = [entry[0] == "input" for entry in self.code]
        stack = [x for x in ends if type(x) is int]
        while stack:
            i = stack.pop()
            if not needed[i]:
                needed[i] = True
                stack += [x for x in self.code[i][1:] if type(x) is int]
        # those entries, with operands renumbered
        place: dict[Any, int] = {}
        code: list[tuple[Any, ...]] = []
        for i, (name, *args) in enumerate(self.code):
            if needed[i]:
                moved = args if name == "input" else [_renumber(x, place) for x in args]
                place[i] = len(code)
                code.append((name, *moved))
        return Tape(tuple(code), self.count, tuple(_renumber(x, place) for x in ends))


def _as_operand(x: Any) -> int | float:
    return x.index if type(x) is Symbol else float(x)


def _renumber(x: int | float, place: dict[Any, int]) -> int | float:
    return place[x] if type(x) is int else x


class Symbol:
    """A number of a tape; its operators record."""

    __slots__ = ("index", "name", "recorder")
    __array_ufunc__ = None

    def __init__(self, recorder: Recorder, index: int, name: str) -> None:
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

    def __lt__(self, other: Any) -> SymbolComparison:
        return SymbolComparison(self, other)

    def __gt__(self, other: Any) -> SymbolComparison:
        return SymbolComparison(other, self)


@dataclass(frozen=True)
class SymbolComparison:
    """The truth of a < b."""

    a: Any
    b: Any

    def __bool__(self) -> bool:
        raise TypeError("a comparison of symbols has no truth yet; choose with scalar.where")


def _unary_operation(name: str) -> Callable[[Symbol], Symbol]:
    def operation(x: Symbol) -> Symbol:
        return x.recorder.emit(name, x.index)

    operation.__doc__ = f"Record a {name}."
    return operation


sqrt, floor = _unary_operation("sqrt"), _unary_operation("floor")
_sin, _cos = _unary_operation("sin"), _unary_operation("cos")


def sin(x: Symbol) -> Any:
    """Record a sine; an odd function."""
    return -_sin(x._operand_at(1)) if x.name == "neg" else _sin(x)


def cos(x: Symbol) -> Any:
    """Record a cosine; an even function."""
    return _cos(x._operand_at(1)) if x.name == "neg" else _cos(x)


def atan2(y: Any, x: Any) -> Symbol:
    """Record the angle of the point (x, y)."""
    recorder = (y if type(y) is Symbol else x).recorder
    return recorder.emit("atan2", _as_operand(y), _as_operand(x))


def if_else(condition: SymbolComparison, a: Any, b: Any) -> Any:
    """Record a choice."""
    parts = (condition.a, condition.b, a, b)
    recorder = next(x for x in parts if type(x) is Symbol).recorder
    return recorder.emit("select", *(_as_operand(x) for x in parts))


def sign(x: Symbol) -> Any:
    """Record the sign: -1, 0 or 1; that of NaN is NaN."""
    return if_else(x < 0.0, -1.0, if_else(x > 0.0, 1.0, x))
