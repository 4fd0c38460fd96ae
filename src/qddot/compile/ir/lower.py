"""From a tape to LLVM IR on vectors: one lane is one state of the batch.

The module has a function a piece, and the inner loop of a NumPy gufunc that runs them.
"""

from __future__ import annotations

from collections.abc import Sequence

from qddot.compile.ir.block import Places
from qddot.compile.ir.calls import region_ir
from qddot.compile.ir.elementary import ELEMENTARY, elementary_ir
from qddot.compile.ir.modules import KernelIR
from qddot.compile.ir.schedule import Schedule
from qddot.compile.ir.stores import RowWriter, Write
from qddot.compile.ir.transpose import moves_ir
from qddot.compile.ir.trigonometry import sincos_ir
from qddot.compile.ir.types import VectorType
from qddot.compile.trace.tape import Tape

__all__ = ["lower_tape"]


_POINTERS = "ptr noalias %in, ptr noalias %ws, ptr noalias %rows"
_KEPT = 16
"""For how many entries a value that is in memory also stays in a register."""
_MOST_WRITTEN = 1536
"""Numbers that a piece writes itself: a compiler's time grows with the square of them."""
_WRITES, _MOST_PASSED = 32, 8
"""Writes of a function of nothing else, and vectors that are passed to it."""
_NEGATED = {"fma": None, "fms": 2, "fnma": 0}
_UNARY = ("fabs", "sqrt", "floor")
_BOUNDS = {"min": "minimum", "max": "maximum"}
_CHOICES = {"select": "olt", "select_le": "ole", "select_eq": "oeq"}
_BINARY = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}


def lower_tape(tape: Tape, plan: Schedule, v: VectorType, loop: str, places: Places) -> KernelIR:
    """The IR of a tape, with the loop that runs it; entries with a place go there in the frame."""
    letter = "f" if v.scalar == "float" else ""
    declarations = [
        *(f"declare {v.type} @llvm.{f}.{v.intrinsic_suffix}({v.type})" for f in _UNARY),
        *(
            f"declare {v.type} @llvm.{f}.{v.intrinsic_suffix}({v.type}, {v.type})"
            for f in _BOUNDS.values()
        ),
        f"declare {v.type} @llvm.fma.{v.intrinsic_suffix}({v.type}, {v.type}, {v.type})",
        *(f"declare {v.scalar} @{f}{letter}({v.scalar})" for f in ("sin", "cos")),
        f"declare i1 @llvm.vector.reduce.or.v{v.lanes}i1(<{v.lanes} x i1>)",
        "declare i64 @llvm.umin.i64(i64, i64)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare ptr @malloc(i64)",
        "declare void @free(ptr)",
    ]
    used = {entry[0] for entry in tape.code}
    elementary = elementary_ir(v, [name for name in ELEMENTARY if name in used])
    pieces = [_Piece(tape, plan, v, k, places).write_function() for k in range(len(plan.pieces))]
    helpers = (sincos_ir(v), elementary, moves_ir(v))
    rest = "\n".join([region_ir(tape, plan, v), loop])
    return KernelIR("\n".join(declarations), helpers, tuple(pieces), rest)


class _Piece:
    """Writes the function of one piece."""

    def __init__(
        self, tape: Tape, plan: Schedule, v: VectorType, number: int, places: Places
    ) -> None:
        self.tape, self.plan, self.v, self.number, self.places = tape, plan, v, number, places
        self.rows = RowWriter(v)
        self.lines: list[str] = []
        self.values: dict[int, str] = {}
        self.last_use: dict[int, int] = {}
        self.count = self.now = self.written = 0
        # writes by functions of their own: those that wait, vectors passed to them, functions
        self.waiting: list[tuple[Write, list[str]]] = []
        self.passed: dict[str, str] = {}
        self.writers: list[str] = []

    def write_function(self) -> str:
        """The function."""
        # entries in order; outputs are written as soon as their last number is known
        part = self.plan.pieces[self.number]
        written = {write.array for i in (-1, *part) for write in self.plan.writes.get(i, ())}
        self.lines += self.rows.load_row_pointers(sorted(written))
        for i in (*((-1,) if self.number == 0 else ()), *part):
            if i >= 0:
                self._write_entry(i)
            for write in self.plan.writes.get(i, ()):
                self._write_output(write)
        self._call_writer()
        body = "\n".join(self.lines)
        head = f"define internal void @piece{self.number}({_POINTERS}) noinline"
        return "\n".join([f"{head} {{\n{body}\n  ret void\n}}", *self.writers])

    def _write_output(self, write: Write) -> None:
        """Write numbers to an output, those beyond many by functions of their own."""
        names = [self._operand_name(x) for x in write.values]
        self.written += len(write.values)
        if self.written <= _MOST_WRITTEN:
            self.lines += self.rows.write(write, names)
            return
        known = {name for x, name in zip(write.values, names, strict=True) if type(x) is int}
        if len(self.waiting) == _WRITES or len(known | self.passed.keys()) > _MOST_PASSED:
            self._call_writer()
        for name in sorted(known):
            self.passed.setdefault(name, f"%v{len(self.passed)}")
        self.waiting.append((write, [self.passed.get(x, x) for x in names]))

    def _call_writer(self) -> None:
        """Write what waits by a function, to which vectors that are no constants are passed."""
        if not self.waiting:
            return
        name, rows = f"write{self.number}_{len(self.writers)}", RowWriter(self.v)
        lines = rows.load_row_pointers(sorted({write.array for write, _ in self.waiting}))
        for write, values in self.waiting:
            lines += rows.write(write, values)
        taken = ", ".join(
            ["ptr noalias %rows", *(f"{self.v.type} {x}" for x in self.passed.values())]
        )
        given = ", ".join(["ptr %rows", *(f"{self.v.type} {x}" for x in self.passed)])
        body = "\n".join(lines)
        self.writers.append(
            f"define internal void @{name}({taken}) noinline {{\n{body}\n  ret void\n}}"
        )
        self.lines.append(f"  call void @{name}({given})")
        self.waiting, self.passed = [], {}

    def _new_value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def _load_vector(self, base: str, index: int) -> str:
        at = self._new_value(f"getelementptr {self.v.type}, ptr {base}, i64 {index}")
        # volatile: else compilers join loads, and keep what was loaded on the stack
        return self._new_value(f"load volatile {self.v.type}, ptr {at}, align {self.v.bytes}")

    def _store_vector(self, base: str, index: int, value: str) -> None:
        at = self._new_value(f"getelementptr {self.v.type}, ptr {base}, i64 {index}")
        self.lines.append(f"  store {self.v.type} {value}, ptr {at}, align {self.v.bytes}")

    def _operand_name(self, x: int | float) -> str:
        """The IR name of an operand, loaded again if it was not used for a while."""
        if type(x) is float:
            return self.v.constant(x)
        x = int(x)
        name, *args = self.tape.code[x]
        in_memory = name == "input" or x in self.plan.slots
        stale = self.now - self.last_use.get(x, self.now) > _KEPT
        if x not in self.values or (stale and in_memory):
            home = ("%in", args[0]) if name == "input" else ("%ws", self.plan.slots[x])
            self.values[x] = self._load_vector(*home)
        self.last_use[x] = self.now
        return self.values[x]

    def _write_entry(self, i: int) -> None:
        self.now = i
        name, *args = self.tape.code[i]
        if name == "input":
            if self.places.get(i, args[0]) == args[0]:
                return
            value = self._operand_name(i)
        elif name in ("carry", "result"):
            # a variable has its number in memory: nothing to do, or a number to put there
            if i not in self.places and i in self.plan.silent:
                return
            value = self._operand_name(args[0] if name == "carry" else i)
        elif i in self.values:
            value = self.values[i]
        else:
            value = self.values[i] = self._write_operation(name, args)
        self.last_use[i] = i
        if i in self.plan.slots and name != "result":
            self._store_vector("%ws", self.plan.slots[i], value)
        if i in self.places:
            self._store_vector("%in", self.places[i], value)

    def _write_operation(self, name: str, args: Sequence[int | float]) -> str:
        t, v = self.v.type, [self._operand_name(x) for x in args]
        if name in _BINARY:
            return self._new_value(f"{_BINARY[name]} {t} {v[0]}, {v[1]}")
        if name in _NEGATED:
            return self._multiply_add(name, v)
        if name == "neg":
            return self._new_value(f"fneg {t} {v[0]}")
        if name in _UNARY or name in _BOUNDS:
            given = ", ".join(f"{t} {x}" for x in v)
            intrinsic = f"{_BOUNDS.get(name, name)}.{self.v.intrinsic_suffix}"
            return self._new_value(f"call {t} @llvm.{intrinsic}({given})")
        if name in _CHOICES:
            test = self._new_value(f"fcmp {_CHOICES[name]} {t} {v[0]}, {v[1]}")
            return self._new_value(f"select <{self.v.lanes} x i1> {test}, {t} {v[2]}, {t} {v[3]}")
        if name in ELEMENTARY:
            given = ", ".join(f"{t} {x}" for x in v)
            suffix = f"{self.v.lanes}{'f' if self.v.scalar == 'float' else ''}"
            return self._new_value(f"call {t} @{name}.{suffix}({given})")
        self._sines_and_cosines()
        return self.values[self.now]

    def _multiply_add(self, name: str, operands: Sequence[str]) -> str:
        """A multiply-add; the compiler knows instructions for those with a sign."""
        t, v = self.v.type, list(operands)
        k = _NEGATED[name]
        if k is not None:
            v[k] = self._new_value(f"fneg {t} {v[k]}")
        given = ", ".join(f"{t} {x}" for x in v)
        return self._new_value(f"call {t} @llvm.fma.{self.v.intrinsic_suffix}({given})")

    def _sines_and_cosines(self) -> None:
        """Sine and cosine of the angle of this entry, and of the next known angle of the piece."""
        # sines and cosines that this piece has not computed yet; two angles go in one call
        asked = [
            (i, name, args[0])
            for i in range(self.now, self.plan.pieces[self.number].stop)
            for name, *args in [self.tape.code[i]]
            if name in ("sin", "cos") and i not in self.values
        ]
        angles = list(dict.fromkeys(y for _, _, y in asked if self._is_known(y)))[:2]
        result = f"{{ {', '.join([self.v.type] * 2 * len(angles))} }}"
        given = ", ".join(f"{self.v.type} {self._operand_name(y)}" for y in angles)
        found = self._new_value(f"call {result} @sincos{len(angles)}({given})")
        places = [(name, y) for y in angles for name in ("sin", "cos")]
        for i, name, y in asked:
            if y in angles:
                k = places.index((name, y))
                self.values[i] = self._new_value(f"extractvalue {result} {found}, {k}")

    def _is_known(self, x: int) -> bool:
        """Whether an entry has its value before the one that is written now."""
        return x < self.now or bool(self.tape.code[x][0] == "input")
