"""Tapes as C99 text: straight-line functions that need no heap and no library but libm.

A long tape is cut into parts, one static function each. Inside a part a few local variables are
used again and again; values that outlive a part are kept in a workspace on the stack of the
caller. So stack use stays small at every optimisation level, and compile time in proportion to the
tape.
"""

from __future__ import annotations

import heapq
import math
import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qddot.compile.ir.schedule import Schedule, schedule_pieces
from qddot.compile.trace.tape import Tape

__all__ = [
    "MARKER",
    "ArrayParameter",
    "Routine",
    "argument_name",
    "ascii_text",
    "c_identifier",
    "comment_text",
    "function_definition",
    "function_prototype",
    "header_text",
    "number_literal",
    "string_literal",
]

MARKER = "made by qddot export_c"
"""The text in the first line of every file written here, by which it is known again."""

_PART = 1000
_MANY_ZEROS = 8
_OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}",
    "select": "{} < {} ? {} : {}", "select_le": "{} <= {} ? {} : {}",
    "select_eq": "{} == {} ? {} : {}",
    # the first operand is no constant, and NaN if it is NaN
    "min": "{0} < {1} || {0} != {0} ? {0} : {1}", "max": "{0} > {1} || {0} != {0} ? {0} : {1}",
}  # fmt: skip
"""Operations of a tape that C writes with operators; the others are functions of libm."""
_OWN_NAMES = re.compile(r"w|k|r\d+")
_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while bool catch class delete explicit export false friend mutable namespace new operator
private protected public template this throw true try typeid typename using virtual and or not xor
"""
"""Words that are no names in C or C++."""
_SYMBOLS = {
    "q̈": "qdd", "q̇": "qd", "Ṁ": "Mdot", "J̇": "Jdot", "Ȧ": "Adot", "⁻¹": "^-1", "ᵀ": "^T", "²": "^2",
    "½": "1/2", "⊕": "(+)", "−": "-", "–": "-", "·": "*", "×": "x", "τ": "tau", "ω": "omega",
    "π": "pi", "∂": "d", "Λ": "Lambda", "μ": "mu", "J̄": "Jbar", "ẍ": "xdd", "ḣ": "hdot",
    "√": "root ", "λ": "lambda", "φ": "phi", "ι": "iota", "⁺": "+",
}  # fmt: skip


@dataclass(frozen=True)
class ArrayParameter:
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
    inputs: tuple[ArrayParameter, ...]
    outputs: tuple[ArrayParameter, ...]
    tape: Tape

    def __post_init__(self) -> None:
        names = [p.name for p in (*self.inputs, *self.outputs)]
        if len(set(names)) < len(names) or any(_OWN_NAMES.fullmatch(n) for n in names):
            raise ValueError(f"{self.name}: arguments {names} are not distinct names of their own")
        if self.tape.regions:
            raise ValueError(f"{self.name}: the parts of a tape that are run again have no C text")

    @property
    def plan(self) -> Schedule:
        """The parts of the tape and the workspace between them."""
        return schedule_pieces(self.tape, piece=_PART)


def c_identifier(text: str, empty: str = "robot") -> str:
    """A valid C and C++ identifier that looks like this text."""
    # accents are dropped, everything else that is no letter or digit becomes an underscore
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")
    return f"{empty}_{name}".rstrip("_") if not name or name[0].isdigit() else name


def argument_name(text: str, taken: Collection[str]) -> str:
    """A name for an argument that no keyword, local variable or other argument has."""
    name = c_identifier(text, "x")
    while name in _KEYWORDS.split() or name in taken or _OWN_NAMES.fullmatch(name):
        name += "_"
    return name


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


def comment_text(lines: Iterable[str]) -> str:
    """Lines as a C comment; nothing in them can end it."""
    return "\n".join(["/*", *(f" * {_comment_characters(line)}".rstrip() for line in lines), " */"])


def _comment_characters(text: str) -> str:
    """Text for a comment: printable ASCII without the marks of comments and trigraphs."""
    printable = re.sub(r"[^\x20-\x7e]", " ", ascii_text(text))
    return re.sub(r"(?<=[*/?])(?=[*/?])", " ", printable)


def string_literal(text: str) -> str:
    """A C string literal, of UTF-8 where the text is not ASCII."""
    escaped = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in text.encode("utf-8", "replace")
    )
    return '"' + "".join(escaped) + '"'


def number_literal(x: float, scalar: str) -> str:
    """A constant of type double or float, exact to the last bit of its type."""
    suffix = "f" if scalar == "float" else ""
    with np.errstate(over="ignore", under="ignore"):
        number = np.float32(x) if suffix else np.float64(x)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return ("-" if number < 0 else "") + "HUGE_VAL" + suffix.upper()
    return str(number) + suffix


def function_prototype(routine: Routine, scalar: str) -> str:
    """The declaration of a function, without its semicolon."""
    arguments = [f"const {scalar} {p.name}[{p.extent}]" for p in routine.inputs]
    arguments += [f"{scalar} {p.name}[{p.extent}]" for p in routine.outputs]
    line = f"void {routine.name}({', '.join(arguments)})"
    return (
        line if len(line) <= 99 else f"void {routine.name}(\n    " + ",\n    ".join(arguments) + ")"
    )


def header_text(
    name: str,
    conventions: Sequence[str],
    constants: Mapping[str, tuple[int, str]],
    declarations: Sequence[str],
    routines: Sequence[Routine],
    scalar: str,
) -> str:
    """The header: conventions, constants (value and meaning), and every function described."""
    guard = f"{name.upper()}_H"
    lines = [f"/* {MARKER}: do not edit */", comment_text(conventions)]
    lines += [f"#ifndef {guard}", f"#define {guard}", ""]
    width = max((len(key) for key in constants), default=0)
    for key, (value, meaning) in constants.items():
        lines.append(f"#define {key:{width}} {value:<4} /* {_comment_characters(meaning)} */")
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *declarations]
    for routine in routines:
        # its documentation, arguments and size, then its declaration
        arguments = [("in", p) for p in routine.inputs] + [("out", p) for p in routine.outputs]
        width = max(len(p.name) for _, p in arguments)
        documentation = [
            *routine.doc,
            *(f"  {way:3}  {p.name:{width}}  {p.doc}" for way, p in arguments),
            f"{routine.tape.operations} operations, workspace of {routine.plan.workspace} numbers",
        ]
        lines += ["", comment_text(documentation), f"{function_prototype(routine, scalar)};"]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def function_definition(routine: Routine, scalar: str) -> str:
    """The definition of a function, with the static functions of its parts before it."""
    tape, plan = routine.tape, routine.plan
    # outputs that are mostly zero are cleared by loops
    cleared, start = set(), 0
    for p in routine.outputs:
        values = tape.outputs[start : start + p.size]
        if sum(type(x) is float and x == 0.0 for x in values) > _MANY_ZEROS:
            cleared.add(p.name)
        start += p.size
    # each output entry is computed by an operation, or is an input or a constant
    computed: dict[int, list[str]] = {}
    copies, used = [], set()
    inputs = _entry_names(routine.inputs)
    for entry, x in zip(_entry_names(routine.outputs), tape.outputs, strict=True):
        if type(x) is not int:
            if x != 0.0 or entry.split("[")[0] not in cleared:
                copies.append(f"{entry} = {number_literal(x, scalar)};")
        elif tape.code[x][0] == "input":
            source = inputs[tape.code[x][1]]
            copies.append(f"{entry} = {source};")
            used.add(source.split("[")[0])
        else:
            computed.setdefault(x, []).append(entry)
    parts = [_part_statements(routine, part, plan.slots, computed, scalar) for part in plan.pieces]
    # one part is the body; several are static functions, which the body calls
    if len(parts) == 1:
        before, body = [], parts[0].body(scalar)
    else:
        names = [f"part{k}_{routine.name}" for k in range(1, len(parts) + 1)]
        before = [part.function(routine, n, scalar) for part, n in zip(parts, names, strict=True)]
        calls = [", ".join(part.arguments(routine)) for part in parts]
        body = [f"{n}({c});" for n, c in zip(names, calls, strict=True)]
        if plan.workspace:
            body.insert(0, f"{scalar} w[{plan.workspace}];")
    zero = number_literal(0.0, scalar)
    loops = [
        f"for (int k = 0; k < {p.extent}; k++) {p.name}[k] = {zero};"
        for p in routine.outputs
        if p.name in cleared
    ]
    used = used.union(*(part.used for part in parts))
    unused = [f"(void){p.name};" for p in routine.inputs if p.name not in used]
    lines = [*unused, *loops, *body, *copies]
    return "\n".join([*before, _function_text(function_prototype(routine, scalar), lines)])


def _function_text(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}", ""])


@dataclass(frozen=True)
class _CodePart:
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
        head = f"static void {name}({', '.join(arguments) or 'void'})"
        return _function_text(head, self.body(scalar))


def _part_statements(
    routine: Routine,
    part: range,
    slots: Mapping[int, int],
    outputs: Mapping[int, Sequence[str]],
    scalar: str,
) -> _CodePart:
    """The statements of a range of the tape; a variable is free again after its last use here."""
    code = routine.tape.code
    last = {x: i for i in part if code[i][0] != "input" for x in code[i][1:] if type(x) is int}
    inputs = _entry_names(routine.inputs)
    # the variable of each value that is still needed, and the variables that are free
    held: dict[int, int] = {}
    free: list[int] = []
    lines, variables, touched = [], 0, []

    def operand(x: int | float) -> str:
        if type(x) is not int:
            return number_literal(x, scalar)
        if x in held:
            return f"r{held[x]}"
        touched.append(inputs[code[x][1]] if code[x][0] == "input" else f"w[{slots[x]}]")
        return touched[-1]

    for i in part:
        name, *args = code[i]
        if name == "input":
            continue
        # the expression, then the variables that are free after it
        operands = [operand(x) for x in args]
        call = f"{name}{'f' if scalar == 'float' else ''}({', '.join(operands)})"
        value = _OPERATORS[name].format(*operands) if name in _OPERATORS else call
        for x in dict.fromkeys(args):
            if type(x) is int and x in held and last[x] == i:
                heapq.heappush(free, held.pop(x))
        # it goes to outputs, to the workspace, and to a variable if this part uses it again
        targets = [*outputs.get(i, ()), *([f"w[{slots[i]}]"] if i in slots else [])]
        touched += targets
        if i in last:
            held[i] = heapq.heappop(free) if free else variables
            variables = max(variables, held[i] + 1)
            targets.append(f"r{held[i]}")
        lines.append(" = ".join([*targets, value]) + ";")
    return _CodePart(lines, variables, {t.split("[")[0] for t in touched})


def _entry_names(parameters: Sequence[ArrayParameter]) -> list[str]:
    """C expressions of the entries of all parameters, in order."""
    return [f"{p.name}[{k}]" for p in parameters for k in range(p.size)]
