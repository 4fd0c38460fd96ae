"""Tapes as C99 text: straight-line functions that need no heap and no library but libm.

A long tape is cut into parts, one static function each. Inside a part a few local variables are
used again and again; what outlives a part is kept in a workspace on the stack of the caller. So
stack use stays small at every optimisation level, and compile time in proportion to the tape.
"""

from __future__ import annotations

import heapq
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qddot.compile.schedule import Schedule, schedule
from qddot.compile.tape import Tape

__all__ = [
    "MARKER",
    "Parameter",
    "Routine",
    "ascii_text",
    "comment",
    "definition",
    "header",
    "identifier",
    "literal",
    "prototype",
    "string",
]

MARKER = "made by qddot export_c"
"""What the first line of every file written here holds."""

_PART = 1000
_MANY_ZEROS = 8
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_OWN_NAMES = re.compile(r"w|k|r\d+")
_SYMBOLS = {
    "q̈": "qdd", "q̇": "qd", "Ṁ": "Mdot", "J̇": "Jdot", "Ȧ": "Adot", "⁻¹": "^-1", "ᵀ": "^T", "²": "^2",
    "½": "1/2", "⊕": "(+)", "−": "-", "–": "-", "·": "*", "×": "x", "τ": "tau", "ω": "omega",
    "π": "pi", "∂": "d", "Λ": "Lambda", "μ": "mu", "J̄": "Jbar", "ẍ": "xdd", "ḣ": "hdot",
    "√": "root ", "λ": "lambda", "φ": "phi", "ι": "iota", "⁺": "+",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """An array argument: its name, its number of entries, how the header writes it, its meaning."""

    name: str
    size: int
    extent: str
    doc: str


@dataclass(frozen=True)
class Routine:
    """A C function to write: the inputs of its tape, in order, are the entries of `inputs`."""

    name: str
    doc: tuple[str, ...]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    tape: Tape

    def __post_init__(self) -> None:
        names = [p.name for p in (*self.inputs, *self.outputs)]
        if len(set(names)) < len(names) or any(_OWN_NAMES.fullmatch(n) for n in names):
            raise ValueError(f"{self.name}: arguments {names} are not distinct names of their own")

    @property
    def plan(self) -> Schedule:
        """The parts of the tape and the workspace between them."""
        return schedule(self.tape, piece=_PART)


def identifier(text: str, empty: str = "robot") -> str:
    """A valid C and C++ identifier that looks like this text."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")
    return f"{empty}_{name}".rstrip("_") if not name or name[0].isdigit() else name


def ascii_text(text: str) -> str:
    """Text in ASCII, with symbols spelled out and accents dropped."""
    text = unicodedata.normalize("NFC", text)
    for symbol, spelled in _SYMBOLS.items():
        text = text.replace(unicodedata.normalize("NFC", symbol), spelled)
    parts = unicodedata.normalize("NFKD", text)
    return (
        "".join(c for c in parts if not unicodedata.combining(c))
        .encode("ascii", "replace")
        .decode()
    )


def comment(lines: Iterable[str]) -> str:
    """Lines as a C comment; nothing in them can end it."""
    return "\n".join(["/*", *(f" * {_harmless(line)}".rstrip() for line in lines), " */"])


def _harmless(text: str) -> str:
    """Text for a comment: printable ASCII without the marks of comments and trigraphs."""
    printable = re.sub(r"[^\x20-\x7e]", " ", ascii_text(text))
    return re.sub(r"(?<=[*/?])(?=[*/?])", " ", printable)


def string(text: str) -> str:
    """A C string literal, of UTF-8 where the text is not ASCII."""
    escaped = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in text.encode("utf-8", "replace")
    )
    return '"' + "".join(escaped) + '"'


def literal(x: float, scalar: str) -> str:
    """A constant of type double or float, exact to the last bit of its type."""
    suffix = "f" if scalar == "float" else ""
    with np.errstate(over="ignore", under="ignore"):
        number = np.float32(x) if suffix else np.float64(x)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return ("-" if number < 0 else "") + "HUGE_VAL" + suffix.upper()
    return str(number) + suffix


def prototype(routine: Routine, scalar: str) -> str:
    """The declaration of a function, without its semicolon."""
    arguments = [f"const {scalar} {p.name}[{p.extent}]" for p in routine.inputs]
    arguments += [f"{scalar} {p.name}[{p.extent}]" for p in routine.outputs]
    line = f"void {routine.name}({', '.join(arguments)})"
    return (
        line if len(line) <= 99 else f"void {routine.name}(\n    " + ",\n    ".join(arguments) + ")"
    )


def header(
    name: str,
    conventions: Sequence[str],
    constants: Mapping[str, tuple[int, str]],
    declarations: Sequence[str],
    routines: Sequence[Routine],
    scalar: str,
) -> str:
    """The header: conventions, constants (value and meaning), and every function described."""
    guard = f"{name.upper()}_H"
    lines = [f"/* {MARKER}: do not edit */", comment(conventions)]
    lines += [f"#ifndef {guard}", f"#define {guard}", ""]
    width = max((len(key) for key in constants), default=0)
    for key, (value, meaning) in constants.items():
        lines.append(f"#define {key:{width}} {value:<4} /* {_harmless(meaning)} */")
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *declarations]
    for routine in routines:
        lines += ["", comment(_described(routine)), prototype(routine, scalar) + ";"]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _described(routine: Routine) -> list[str]:
    """What the header says about a function."""
    listed = [("in", p) for p in routine.inputs] + [("out", p) for p in routine.outputs]
    width = max(len(p.name) for _, p in listed)
    plan = routine.plan
    return [
        *routine.doc,
        *(f"  {way:3}  {p.name:{width}}  {p.doc}" for way, p in listed),
        f"{routine.tape.operations} operations, workspace of {plan.workspace} numbers",
    ]


def definition(routine: Routine, scalar: str) -> str:
    """The definition of a function, with the static functions of its parts before it."""
    plan, outputs = routine.plan, _computed(routine)
    parts = [_part(routine, part, plan.slots, outputs, scalar) for part in plan.pieces]
    given = _given(routine, scalar)
    if len(parts) == 1:
        before, body = [], parts[0].body(scalar)
    else:
        names = [f"part{k}_{routine.name}" for k in range(1, len(parts) + 1)]
        before = [part.function(routine, n, scalar) for part, n in zip(parts, names, strict=True)]
        calls = [", ".join(part.arguments(routine)) for part in parts]
        body = [f"{n}({c});" for n, c in zip(names, calls, strict=True)]
        if plan.workspace:
            body.insert(0, f"{scalar} w[{plan.workspace}];")
    used = given.used.union(*(part.used for part in parts))
    unused = [f"(void){p.name};" for p in routine.inputs if p.name not in used]
    lines = [*unused, *_zeros(routine, scalar), *body, *given.lines]
    return "\n".join([*before, _function(prototype(routine, scalar), lines)])


def _function(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}", ""])


@dataclass(frozen=True)
class _Part:
    """Statements, the number of local variables they need, and the arrays they touch."""

    lines: list[str]
    variables: int
    used: set[str]

    def body(self, scalar: str) -> list[str]:
        """The statements with the declaration of their variables."""
        listed = ", ".join(f"r{k}" for k in range(self.variables))
        declared = textwrap.wrap(f"{scalar} {listed};", 95, subsequent_indent="    ")
        return [*(declared if self.variables else []), *self.lines]

    def arguments(self, routine: Routine) -> list[str]:
        """Names of the arrays, in the order of the function; the workspace last."""
        names = [p.name for p in (*routine.inputs, *routine.outputs)]
        return [n for n in (*names, "w") if n in self.used]

    def function(self, routine: Routine, name: str, scalar: str) -> str:
        """The part as a static function."""
        constant = {p.name for p in routine.inputs}
        arguments = [
            f"{'const ' if n in constant else ''}{scalar} *{n}" for n in self.arguments(routine)
        ]
        return _function(f"static void {name}({', '.join(arguments) or 'void'})", self.body(scalar))


def _part(
    routine: Routine,
    part: range,
    slots: Mapping[int, int],
    outputs: Mapping[int, Sequence[str]],
    scalar: str,
) -> _Part:
    """The statements of a range of the tape; a variable is free again after its last use here."""
    code = routine.tape.code
    last = {x: i for i in part if code[i][0] != "input" for x in code[i][1:] if type(x) is int}
    inputs = _places(routine.inputs)
    held: dict[int, int] = {}
    free: list[int] = []
    lines, variables, touched = [], 0, []

    def place(x: int | float) -> str:
        if type(x) is not int:
            return literal(x, scalar)
        if x in held:
            return f"r{held[x]}"
        touched.append(inputs[code[x][1]] if code[x][0] == "input" else f"w[{slots[x]}]")
        return touched[-1]

    for i in part:
        name, *args = code[i]
        if name == "input":
            continue
        value = _expression(name, [place(x) for x in args], scalar)
        for x in dict.fromkeys(args):
            if type(x) is int and x in held and last[x] == i:
                heapq.heappush(free, held.pop(x))
        targets = [*outputs.get(i, ()), *([f"w[{slots[i]}]"] if i in slots else [])]
        touched += targets
        if i in last:
            held[i] = heapq.heappop(free) if free else variables
            variables = max(variables, held[i] + 1)
            targets.append(f"r{held[i]}")
        lines.append(" = ".join([*targets, value]) + ";")
    return _Part(lines, variables, {t.split("[")[0] for t in touched})


def _expression(name: str, args: Sequence[str], scalar: str) -> str:
    """An operation in C."""
    if name in _INFIX:
        return f"{args[0]} {_INFIX[name]} {args[1]}"
    if name == "neg":
        return f"-{args[0]}"
    if name == "select":
        return "{} < {} ? {} : {}".format(*args)
    return f"{name}{'f' if scalar == 'float' else ''}({', '.join(args)})"


def _places(parameters: Sequence[Parameter]) -> list[str]:
    """How C names the entries of all parameters, in order."""
    return [f"{p.name}[{k}]" for p in parameters for k in range(p.size)]


def _computed(routine: Routine) -> dict[int, list[str]]:
    """The output entries that an operation is for."""
    found: dict[int, list[str]] = {}
    for place, x in zip(_places(routine.outputs), routine.tape.outputs, strict=True):
        if type(x) is int and routine.tape.code[x][0] != "input":
            found.setdefault(x, []).append(place)
    return found


def _given(routine: Routine, scalar: str) -> _Part:
    """Output entries that are an input or a constant."""
    lines, used, inputs = [], set(), _places(routine.inputs)
    empty = {p.name for p in routine.outputs if _many_zeros(routine, p)}
    for place, x in zip(_places(routine.outputs), routine.tape.outputs, strict=True):
        if type(x) is not int:
            if x != 0.0 or place.split("[")[0] not in empty:
                lines.append(f"{place} = {literal(x, scalar)};")
        elif routine.tape.code[x][0] == "input":
            source = inputs[routine.tape.code[x][1]]
            lines.append(f"{place} = {source};")
            used.add(source.split("[")[0])
    return _Part(lines, 0, used)


def _zeros(routine: Routine, scalar: str) -> list[str]:
    """Loops that clear the outputs that are mostly empty."""
    return [
        f"for (int k = 0; k < {p.extent}; k++) {p.name}[k] = {literal(0.0, scalar)};"
        for p in routine.outputs
        if _many_zeros(routine, p)
    ]


def _many_zeros(routine: Routine, parameter: Parameter) -> bool:
    """Whether an output has so many constant zeros that a loop writes them best."""
    start = 0
    for p in routine.outputs:
        if p is parameter:
            break
        start += p.size
    values = routine.tape.outputs[start : start + parameter.size]
    return sum(type(x) is float and x == 0.0 for x in values) > _MANY_ZEROS
