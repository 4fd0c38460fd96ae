"""From a tape to LLVM IR on vectors: one lane is one state of the batch.

The module has a function a piece, and the inner loop of a NumPy gufunc that runs them.
"""

from __future__ import annotations

from collections.abc import Sequence

from qddot.compile.block import Places
from qddot.compile.rows import RowWriter
from qddot.compile.schedule import Schedule
from qddot.compile.tape import Tape
from qddot.compile.transpose import moves_ir
from qddot.compile.trigonometry import sincos_ir
from qddot.compile.types import Vector

__all__ = ["lower"]


_POINTERS = "ptr noalias %in, ptr noalias %ws, ptr noalias %rows"
_KEPT = 16
"""For how many entries a value that is in memory also stays in a register."""
_NEGATED = {"fma": None, "fms": 2, "fnma": 0}
_BINARY = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}


def lower(tape: Tape, plan: Schedule, v: Vector, loop: str, places: Places) -> str:
    """The IR of a tape, with the loop that runs it; what has a place goes there in the frame."""
    pieces = [_Piece(tape, plan, v, k, places).text() for k in range(len(plan.pieces))]
    return "\n".join(
        [
            _declarations(v),
            sincos_ir(v),
            moves_ir(v),
            *pieces,
            loop,
        ]
    )


def _declarations(v: Vector) -> str:
    letter = "f" if v.scalar == "float" else ""
    names = ("fabs", "sqrt", "floor")
    vector = [f"declare {v.type} @llvm.{f}.{v.suffix}({v.type})" for f in names]
    return "\n".join(
        [
            *vector,
            f"declare {v.type} @llvm.fma.{v.suffix}({v.type}, {v.type}, {v.type})",
            *(f"declare {v.scalar} @{f}{letter}({v.scalar})" for f in ("sin", "cos")),
            f"declare {v.scalar} @atan2{letter}({v.scalar}, {v.scalar})",
            "declare i64 @llvm.umin.i64(i64, i64)",
            "declare i64 @llvm.smin.i64(i64, i64)",
            "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            "declare ptr @malloc(i64)",
            "declare void @free(ptr)",
        ]
    )


class _Piece:
    """Writes the function of one piece."""

    def __init__(self, tape: Tape, plan: Schedule, v: Vector, number: int, places: Places) -> None:
        self.tape, self.plan, self.v, self.number, self.places = tape, plan, v, number, places
        self.rows = RowWriter(v)
        self.lines: list[str] = []
        self.values: dict[int, str] = {}
        self.last_use: dict[int, int] = {}
        self.count = self.now = 0

    def text(self) -> str:
        """The function."""
        part = self.plan.pieces[self.number]
        written = {write.array for i in (-1, *part) for write in self.plan.writes.get(i, ())}
        self.lines += self.rows.pointers(sorted(written))
        for i in (*((-1,) if self.number == 0 else ()), *part):
            if i >= 0:
                self._entry(i)
            for write in self.plan.writes.get(i, ()):
                self.lines += self.rows.write(write, [self._value(x) for x in write.values])
        body = "\n".join(self.lines)
        head = f"define internal void @piece{self.number}({_POINTERS}) noinline"
        return f"{head} {{\n{body}\n  ret void\n}}"

    def _fresh(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def _load(self, base: str, index: int) -> str:
        at = self._fresh(f"getelementptr {self.v.type}, ptr {base}, i64 {index}")
        # volatile: else compilers join loads, and keep what was loaded on the stack
        return self._fresh(f"load volatile {self.v.type}, ptr {at}, align {self.v.bytes}")

    def _store(self, base: str, index: int, value: str) -> None:
        at = self._fresh(f"getelementptr {self.v.type}, ptr {base}, i64 {index}")
        self.lines.append(f"  store {self.v.type} {value}, ptr {at}, align {self.v.bytes}")

    def _value(self, x: int | float) -> str:
        """The IR name of an operand, loaded again if it was not used for a while."""
        if type(x) is float:
            return self.v.constant(x)
        x = int(x)
        name, *args = self.tape.code[x]
        in_memory = name == "input" or x in self.plan.slots
        stale = self.now - self.last_use.get(x, self.now) > _KEPT
        if x not in self.values or (stale and in_memory):
            home = ("%in", args[0]) if name == "input" else ("%ws", self.plan.slots[x])
            self.values[x] = self._load(*home)
        self.last_use[x] = self.now
        return self.values[x]

    def _entry(self, i: int) -> None:
        self.now = i
        name, *args = self.tape.code[i]
        if name == "input":
            if self.places.get(i, args[0]) == args[0]:
                return
            value = self._value(i)
        elif i in self.values:
            value = self.values[i]
        else:
            value = self.values[i] = self._operation(name, args)
        self.last_use[i] = i
        if i in self.plan.slots:
            self._store("%ws", self.plan.slots[i], value)
        if i in self.places:
            self._store("%in", self.places[i], value)

    def _operation(self, name: str, args: Sequence[int | float]) -> str:
        t, v = self.v.type, [self._value(x) for x in args]
        if name in _BINARY:
            return self._fresh(f"{_BINARY[name]} {t} {v[0]}, {v[1]}")
        if name in _NEGATED:
            return self._fused(name, v)
        if name == "neg":
            return self._fresh(f"fneg {t} {v[0]}")
        if name in ("sqrt", "floor"):
            return self._fresh(f"call {t} @llvm.{name}.{self.v.suffix}({t} {v[0]})")
        if name == "select":
            test = self._fresh(f"fcmp olt {t} {v[0]}, {v[1]}")
            return self._fresh(f"select <{self.v.lanes} x i1> {test}, {t} {v[2]}, {t} {v[3]}")
        if name == "atan2":
            return self._lane_by_lane("atan2", v)
        self._sines_and_cosines()
        return self.values[self.now]

    def _fused(self, name: str, operands: Sequence[str]) -> str:
        """A multiply-add; the compiler knows instructions for those with a sign."""
        t, v = self.v.type, list(operands)
        k = _NEGATED[name]
        if k is not None:
            v[k] = self._fresh(f"fneg {t} {v[k]}")
        given = ", ".join(f"{t} {x}" for x in v)
        return self._fresh(f"call {t} @llvm.fma.{self.v.suffix}({given})")

    def _sines_and_cosines(self) -> None:
        """Those of the angle of this entry, and of the next angle of the piece that is known."""
        asked = [
            (i, name, args[0])
            for i in range(self.now, self.plan.pieces[self.number].stop)
            for name, *args in [self.tape.code[i]]
            if name in ("sin", "cos") and i not in self.values
        ]
        angles = list(dict.fromkeys(y for _, _, y in asked if self._is_known(y)))[:2]
        result = f"{{ {', '.join([self.v.type] * 2 * len(angles))} }}"
        given = ", ".join(f"{self.v.type} {self._value(y)}" for y in angles)
        found = self._fresh(f"call {result} @sincos{len(angles)}({given})")
        places = [(name, y) for y in angles for name in ("sin", "cos")]
        for i, name, y in asked:
            if y in angles:
                k = places.index((name, y))
                self.values[i] = self._fresh(f"extractvalue {result} {found}, {k}")

    def _is_known(self, x: int) -> bool:
        """Whether an entry has its value before the one that is written now."""
        return x < self.now or bool(self.tape.code[x][0] == "input")

    def _lane_by_lane(self, name: str, operands: Sequence[str]) -> str:
        """A function of the C library on each lane."""
        letter = "f" if self.v.scalar == "float" else ""
        result = "undef"
        for k in range(self.v.lanes):
            parts = [self._fresh(f"extractelement {self.v.type} {x}, i32 {k}") for x in operands]
            given = ", ".join(f"{self.v.scalar} {p}" for p in parts)
            one = self._fresh(f"call {self.v.scalar} @{name}{letter}({given})")
            text = f"insertelement {self.v.type} {result}, {self.v.scalar} {one}, i32 {k}"
            result = self._fresh(text)
        return result
