"""From a tape to LLVM IR on vectors: one lane is one state of the batch.

The module has a function a piece, `@kernel` that runs them on a block of states, and `@loop`, the
inner loop of a NumPy gufunc, which moves states in and out and counts through the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.schedule import Schedule
from qddot.compile.tape import Tape
from qddot.compile.transpose import moves_ir
from qddot.compile.trigonometry import sincos_ir
from qddot.compile.types import Vector

__all__ = ["lower"]

Shape = tuple[int, ...]
Places = dict[tuple[type, int | float], int]

_POINTERS = "ptr noalias %in, ptr noalias %out, ptr noalias %ws"
_PASSED = "ptr %in, ptr %out, ptr %ws"
_BINARY = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}
_STACK_BYTES = 1 << 16


def lower(
    tape: Tape,
    plan: Schedule,
    v: Vector,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    name: str,
) -> str:
    """The IR of a tape whose inputs and outputs are arrays of these core shapes."""
    places = _places(tape)
    pieces = [_Piece(tape, plan, v, k, places).text() for k in range(len(plan.pieces))]
    calls = "\n".join(f"  call void @piece{k}({_PASSED})" for k in range(len(pieces)))
    kernel = f"define internal void @kernel({_POINTERS}) {{\n{calls}\n  ret void\n}}"
    return "\n".join(
        [
            _declarations(v),
            sincos_ir(v),
            moves_ir(v),
            *pieces,
            kernel,
            *_indices(tape, places, outputs, v.lanes),
            _loop(tape, v, inputs, outputs, places, plan.workspace, name),
        ]
    )


def _tagged(x: int | float) -> tuple[type, int | float]:
    """An operand as a key: an index and a constant of the same value differ."""
    return type(x), x


def _places(tape: Tape) -> Places:
    """A place in the output buffer for each different output."""
    return {x: k for k, x in enumerate(dict.fromkeys(map(_tagged, tape.outputs)))}


def _indices(tape: Tape, places: Places, outputs: Sequence[Shape], lanes: int) -> list[str]:
    """For each output array: where its numbers stand in the output buffer, and its blocks."""
    lines, start = [], 0
    for k, shape in enumerate(outputs):
        part = tape.outputs[start : start + math.prod(shape)]
        start += len(part)
        dense, flat = _blocks(part, lanes)
        for name, values in (
            ("index", [places[_tagged(x)] for x in part]),
            ("dense", dense),
            ("flat", flat),
        ):
            listed = ", ".join(f"i32 {x}" for x in values)
            lines.append(f"@{name}{k} = internal constant [{len(values)} x i32] [{listed}]")
    return lines


def _blocks(part: Sequence[int | float], lanes: int) -> tuple[list[int], list[int]]:
    """Starts of the blocks that cover an array: of numbers that differ, and of one constant."""
    if len(part) < lanes:
        return [], []
    starts = [*range(0, len(part) - lanes, lanes), len(part) - lanes]
    flat = [k for k in starts if type(part[k]) is float and len(set(part[k : k + lanes])) == 1]
    return sorted(set(starts) - set(flat)), flat


def _declarations(v: Vector) -> str:
    letter = "f" if v.scalar == "float" else ""
    vector = [f"declare {v.type} @llvm.{f}.{v.suffix}({v.type})" for f in ("rint", "fabs", "sqrt")]
    return "\n".join(
        [
            *vector,
            f"declare {v.type} @llvm.fma.{v.suffix}({v.type}, {v.type}, {v.type})",
            *(f"declare {v.scalar} @{f}{letter}({v.scalar})" for f in ("sin", "cos")),
            f"declare {v.scalar} @atan2{letter}({v.scalar}, {v.scalar})",
            "declare i64 @llvm.umin.i64(i64, i64)",
            "declare i64 @llvm.smin.i64(i64, i64)",
            "declare ptr @malloc(i64)",
            "declare void @free(ptr)",
        ]
    )


class _Piece:
    """Writes the function of one piece."""

    def __init__(self, tape: Tape, plan: Schedule, v: Vector, number: int, places: Places) -> None:
        self.tape, self.plan, self.v, self.number, self.places = tape, plan, v, number, places
        self.lines: list[str] = []
        self.values: dict[int, str] = {}
        self.count = 0

    def text(self) -> str:
        """The function."""
        for i in self.plan.pieces[self.number]:
            self._entry(i)
        body = "\n".join(self.lines)
        head = f"define internal void @piece{self.number}({_POINTERS}) noinline"
        return f"{head} {{\n{body}\n  ret void\n}}"

    def _fresh(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def _load(self, base: str, index: int) -> str:
        at = self._fresh(f"getelementptr {self.v.type}, ptr {base}, i64 {index}")
        return self._fresh(f"load {self.v.type}, ptr {at}, align {self.v.bytes}")

    def _store(self, base: str, index: int, value: str) -> None:
        at = self._fresh(f"getelementptr {self.v.type}, ptr {base}, i64 {index}")
        self.lines.append(f"  store {self.v.type} {value}, ptr {at}, align {self.v.bytes}")

    def _value(self, x: int | float) -> str:
        """The IR name of an operand, loaded at its first use in this piece."""
        if type(x) is float:
            return self.v.constant(x)
        x = int(x)
        if x not in self.values:
            name, *args = self.tape.code[x]
            where = ("%in", args[0]) if name == "input" else ("%ws", self.plan.slots[x])
            self.values[x] = self._load(*where)
        return self.values[x]

    def _entry(self, i: int) -> None:
        name, *args = self.tape.code[i]
        if name == "input":
            if _tagged(i) not in self.places:
                return
            value = self._value(i)
        elif i in self.values:
            value = self.values[i]
        else:
            value = self.values[i] = self._operation(name, args)
        if i in self.plan.slots:
            self._store("%ws", self.plan.slots[i], value)
        if _tagged(i) in self.places:
            self._store("%out", self.places[_tagged(i)], value)

    def _operation(self, name: str, args: Sequence[int | float]) -> str:
        t, v = self.v.type, [self._value(x) for x in args]
        if name in _BINARY:
            return self._fresh(f"{_BINARY[name]} {t} {v[0]}, {v[1]}")
        if name == "neg":
            return self._fresh(f"fneg {t} {v[0]}")
        if name == "sqrt":
            return self._fresh(f"call {t} @llvm.sqrt.{self.v.suffix}({t} {v[0]})")
        if name == "select":
            test = self._fresh(f"fcmp olt {t} {v[0]}, {v[1]}")
            return self._fresh(f"select <{self.v.lanes} x i1> {test}, {t} {v[2]}, {t} {v[3]}")
        if name == "atan2":
            return self._lane_by_lane("atan2", v)
        pair = self._fresh(f"call {{ {t}, {t} }} @sincos({t} {v[0]})")
        both = {
            f: self._fresh(f"extractvalue {{ {t}, {t} }} {pair}, {k}")
            for k, f in enumerate(("sin", "cos"))
        }
        self._share_partner(name, args[0], both)
        return both[name]

    def _share_partner(self, name: str, x: int | float, both: dict[str, str]) -> None:
        """Let the cosine of the same angle, if it comes in this piece, use the same call."""
        other = "cos" if name == "sin" else "sin"
        for i in self.plan.pieces[self.number]:
            if self.tape.code[i] == (other, x) and i not in self.values:
                self.values[i] = both[other]

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


def _loop(
    tape: Tape,
    v: Vector,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    places: Places,
    workspace: int,
    name: str,
) -> str:
    """The gufunc inner loop: (args, dimensions, steps, data)."""
    shapes = [*inputs, *outputs]
    n_in, n_out = sum(math.prod(s) for s in inputs), len(places)
    vectors = n_in + n_out + workspace
    allocate, release = _memory(v, vectors)
    lines = [
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
        "entry:",
        "  %n = load i64, ptr %dims",
        *allocate,
        f"  %out = getelementptr {v.type}, ptr %in, i64 {n_in}",
        f"  %ws = getelementptr {v.type}, ptr %out, i64 {n_out}",
    ]
    for (kind, x), k in places.items():
        if kind is float:
            lines += [
                f"  %const{k} = getelementptr {v.type}, ptr %out, i64 {k}",
                f"  store {v.type} {v.constant(x)}, ptr %const{k}, align {v.bytes}",
            ]
    core, offset = len(shapes), 0
    before: list[str] = []
    after: list[str] = []
    for k, shape in enumerate(shapes):
        inward = k < len(inputs)
        buffer = f"%in, i64 {offset}" if inward else "%out, i64 0"
        tables = [] if inward else _tables(tape, k - len(inputs), outputs, v.lanes)
        prologue, move = _transfer(v, k, shape, core, buffer, tables)
        lines += prologue
        (before if inward else after).extend(move)
        core += len(shape)
        offset += math.prod(shape)
    lines += [
        "  br label %test",
        "test:",
        "  %i = phi i64 [0, %entry], [%i_next, %state_end]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %state, label %done",
        "state:",
        *before,
        f"  call void @kernel({_PASSED})",
        *after,
        "  br label %state_end",
        "state_end:",
        f"  %i_next = add i64 %i, {v.lanes}",
        "  br label %test",
        "done:",
        *release,
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _tables(tape: Tape, k: int, outputs: Sequence[Shape], lanes: int) -> list[str]:
    """The tables of output array k as arguments: index, blocks that differ, blocks of one value."""
    start = sum(math.prod(s) for s in outputs[:k])
    dense, flat = _blocks(tape.outputs[start : start + math.prod(outputs[k])], lanes)
    return [
        *(f"ptr @index{k}", f"ptr @dense{k}", f"i64 {len(dense)}"),
        *(f"ptr @flat{k}", f"i64 {len(flat)}"),
    ]


def _memory(v: Vector, vectors: int) -> tuple[list[str], list[str]]:
    """Buffers on the stack while they are small, else on the heap."""
    size = max(vectors, 1) * v.bytes
    if size <= _STACK_BYTES:
        return [f"  %in = alloca [{max(vectors, 1)} x {v.type}], align 64"], []
    allocate = [
        f"  %raw = call ptr @malloc(i64 {size + 64})",
        "  %address = ptrtoint ptr %raw to i64",
        "  %up = add i64 %address, 63",
        "  %aligned = and i64 %up, -64",
        "  %in = inttoptr i64 %aligned to ptr",
    ]
    return allocate, ["  call void @free(ptr %raw)"]


def _transfer(
    v: Vector, k: int, shape: Shape, core: int, buffer: str, tables: Sequence[str]
) -> tuple[list[str], list[str]]:
    """How array k gets in or out: what is set up once, and what is done for each block."""
    three = (1,) * (3 - len(shape)) + shape
    prologue = [
        f"  %ap{k} = getelementptr ptr, ptr %args, i64 {k}",
        f"  %base{k} = load ptr, ptr %ap{k}",
        f"  %sp{k} = getelementptr i64, ptr %steps, i64 {k}",
        f"  %step{k} = load i64, ptr %sp{k}",
    ]
    strides: list[str] = []
    contiguous: list[str] = []
    wanted = v.size
    for axis in reversed(range(3)):
        place = axis - (3 - len(shape))
        if place < 0:
            strides.insert(0, "0")
            continue
        prologue += [
            f"  %cp{k}_{axis} = getelementptr i64, ptr %steps, i64 {core + place}",
            f"  %c{k}_{axis} = load i64, ptr %cp{k}_{axis}",
            f"  %q{k}_{axis} = icmp eq i64 %c{k}_{axis}, {wanted}",
        ]
        strides.insert(0, f"%c{k}_{axis}")
        # the stride of an axis of length one says nothing
        if three[axis] > 1:
            contiguous.append(f"%q{k}_{axis}")
        wanted *= three[axis]
    flag = "true"
    for j, test in enumerate(contiguous):
        prologue.append(f"  %f{k}_{j} = and i1 {flag}, {test}")
        flag = f"%f{k}_{j}"
    verb = "scatter" if tables else "gather"
    index, all_tables = ("".join(f", {t}" for t in part) for part in (tables[:1], tables))
    dims = ", ".join(f"i64 {d}" for d in three)
    listed = ", ".join(f"i64 {s}" for s in strides)
    place_ = f"ptr %base{k}, i64 %step{k}, i64 %i, i64 %n"
    move = [
        f"  %buf{k} = getelementptr {v.type}, ptr {buffer}",
        f"  br i1 {flag}, label %fast{k}, label %slow{k}",
        f"fast{k}:",
        f"  call void @{verb}({place_}, i64 {math.prod(shape)}, ptr %buf{k}{all_tables})",
        f"  br label %moved{k}",
        f"slow{k}:",
        f"  call void @{verb}_any({place_}, {dims}, {listed}, ptr %buf{k}{index})",
        f"  br label %moved{k}",
        f"moved{k}:",
    ]
    return prologue, move
