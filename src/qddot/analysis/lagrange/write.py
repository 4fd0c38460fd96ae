"""A closed form with its proof as text, LaTeX, Markdown, Python or plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import sympy

from qddot.analysis.lagrange.closed_form import ClosedForm
from qddot.analysis.lagrange.proof import Proof
from qddot.analysis.lagrange.write_python import python_module
from qddot.errors import UnknownName

__all__ = ["FORMATS", "Format", "as_data", "write"]

Format = Literal["text", "latex", "markdown", "python"]

_DIGITS = 6
_LINE = 80


@dataclass(frozen=True)
class _Section:
    """Equations of one kind: a title, and pairs of a name with indices and its expression."""

    title: str
    equations: tuple[tuple[str, tuple[int, ...], sympy.Expr], ...]


def write(form: ClosedForm, proof: Proof, format: Format = "text") -> str:
    """The closed form with its parameters, notes and proof in one of the formats."""
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    return FORMATS[format](form, proof)


def as_data(form: ClosedForm, proof: Proof) -> dict[str, Any]:
    """The closed form and its proof as plain data, expressions as Python text."""
    n = range(len(form.coordinates))
    return {
        "robot": form.name,
        "coordinates": [
            {"q": str(x.q), "rate": str(x.v), "meaning": x.meaning, "passive": x.passive}
            for x in form.coordinates
        ],
        "parameters": [asdict(p) for p in form.parameters],
        "T": str(form.T),
        "V": str(form.V),
        "M": [[str(form.M[i, j]) for j in n] for i in n],
        "Gamma": [[[str(x) for x in row] for row in plane] for plane in form.Gamma],
        "C": [[str(form.C[i, j]) for j in n] for i in n],
        "c": [str(x) for x in form.c],
        "g": [str(x) for x in form.g],
        "notes": list(form.notes),
        "proof": {**asdict(proof), "largest": proof.largest, "passed": proof.holds},
    }


def _make_sections(form: ClosedForm) -> Iterator[_Section]:
    """The terms in the order of the derivation; of what is symmetric, one half."""
    n = range(len(form.coordinates))
    yield _Section("Energies", (("T", (), form.T), ("V", (), form.V)))
    mass = tuple(("M", (i, j), form.M[i, j]) for i in n for j in n if i <= j)
    yield _Section("Mass matrix, symmetric", mass)
    gamma = [("Γ", (i, j, k), form.Gamma[i][j][k]) for i in n for j in n for k in n if j <= k]
    yield _Section("Christoffel symbols, Γijk = Γikj", _drop_zeros(gamma))
    coriolis = [("C", (i, j), form.C[i, j]) for i in n for j in n]
    yield _Section("Coriolis matrix, Cij = Σ Γijk q̇k", _drop_zeros(coriolis))
    yield _Section("Coriolis and centrifugal torques, c = C q̇", _column_equations("c", form.c))
    yield _Section("Gravity torques", _column_equations("g", form.g))


def _column_equations(
    name: str, vector: sympy.Matrix
) -> tuple[tuple[str, tuple[int, ...], Any], ...]:
    return tuple((name, (i,), x) for i, x in enumerate(vector))


def _drop_zeros(
    equations: Sequence[tuple[str, tuple[int, ...], Any]],
) -> tuple[tuple[str, tuple[int, ...], Any], ...]:
    return tuple(e for e in equations if e[2] != 0)


def _round_numbers(expression: sympy.Expr) -> sympy.Expr:
    """Numbers as a reader wants them: few digits, and decimals for all but plain fractions."""
    numbers = [x for x in expression.atoms(sympy.Number) if x.is_Float or x.q not in (1, 2, 4, 8)]
    return expression.xreplace({x: sympy.Float(x, _DIGITS) for x in numbers})


def _verdict_text(proof: Proof) -> str:
    word = "passed" if proof.holds else "FAILED"
    return (
        f"Proof {word}: at {proof.states} random states (seed {proof.seed}) the terms differ from "
        f"those of the recursive algorithms by at most {proof.largest:.1e} of their size "
        f"(bound {proof.bound:.0e})."
    )


def _write_text(form: ClosedForm, proof: Proof) -> str:
    torques = ["0" if x.passive else f"τ{k + 1}" for k, x in enumerate(form.coordinates)]
    lines = [f"{form.name}: M(q) q̈ + C(q, q̇) q̇ + g(q) = ({', '.join(torques)})", ""]
    # tables of coordinates and parameters, the terms, then notes and proof
    rows = [(f"{x.q}", f"rate {x.v}", x.meaning) for x in form.coordinates]
    lines += ["Coordinates", *_align_columns(rows), ""]
    if form.parameters:
        values = [(p.name, f"{p.value:.6g}", p.unit, p.meaning) for p in form.parameters]
        lines += ["Parameters", *_align_columns(values), ""]
    for section in _make_sections(form):
        lines += [section.title]
        for name, index, x in section.equations:
            label = name + "".join(str(i + 1) for i in index)
            lines.append(f"  {label} = {sympy.sstr(_round_numbers(x), full_prec=False)}")
        lines += [] if section.equations else ["  all zero"]
        lines.append("")
    lines += [f"Note: {note}" for note in form.notes]
    checks = [(r.term, r.against, f"{r.difference:.1e}") for r in proof.rows]
    return "\n".join([*lines, _verdict_text(proof), *_align_columns(checks)]) + "\n"


def _align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as columns of text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _write_latex(form: ClosedForm, proof: Proof) -> str:
    parts = [
        rf"\section*{{Closed form of {_escape_latex(form.name)}}}",
        f"\\[\n{_motion_equation(form)}\n\\]",
    ]
    rows = [
        (f"${_latex_symbol(x.q)}$", "coordinate", "", _escape_latex(x.meaning))
        for x in form.coordinates
    ] + [
        (
            f"${_latex_symbol(p.name)}$",
            f"{p.value:.6g}",
            _escape_latex(p.unit),
            _escape_latex(p.meaning),
        )
        for p in form.parameters
    ]
    body = " \\\\\n".join(" & ".join(row) for row in rows)
    parts.append(f"\\begin{{tabular}}{{llll}}\n{body}\n\\end{{tabular}}")
    for section in _make_sections(form):
        parts.append(rf"\subsection*{{{_escape_latex(section.title)}}}")
        parts.append(_display_equations(form, section, r"\begin{align*}", r"\end{align*}"))
    parts += [_escape_latex(f"Note: {note}.") for note in form.notes]
    return "\n\n".join([*parts, _escape_latex(_verdict_text(proof))]) + "\n"


def _write_markdown(form: ClosedForm, proof: Proof) -> str:
    parts = [f"# Closed form of {form.name}", f"$${_motion_equation(form)}$$"]
    rows = [f"| ${_latex_symbol(x.q)}$ | | | {x.meaning} |" for x in form.coordinates]
    rows += [
        f"| ${_latex_symbol(p.name)}$ | {p.value:.6g} | {p.unit} | {p.meaning} |"
        for p in form.parameters
    ]
    parts.append(
        "\n".join(["| symbol | value | unit | what |", "| --- | --- | --- | --- |", *rows])
    )
    for section in _make_sections(form):
        parts.append(f"## {section.title}")
        parts.append(_display_equations(form, section, r"$$\begin{aligned}", r"\end{aligned}$$"))
    checks = [f"| {r.term} | `{r.against}` | {r.difference:.1e} |" for r in proof.rows]
    table = ["| term | against | largest difference |", "| --- | --- | --- |", *checks]
    notes = [f"Note: {note}." for note in form.notes]
    return "\n\n".join([*parts, *notes, "## Proof", _verdict_text(proof), "\n".join(table)]) + "\n"


FORMATS: dict[str, Callable[[ClosedForm, Proof], str]] = {
    "text": _write_text,
    "latex": _write_latex,
    "markdown": _write_markdown,
    "python": lambda form, proof: python_module(
        form, [*(f"Note: {note}." for note in form.notes), _verdict_text(proof)]
    ),
}


def _motion_equation(form: ClosedForm) -> str:
    torques = " \\\\ ".join(
        "0" if x.passive else rf"\tau_{{{k + 1}}}" for k, x in enumerate(form.coordinates)
    )
    return (
        r"M(q)\,\ddot{q} + C(q, \dot{q})\,\dot{q} + g(q) = "
        rf"\begin{{pmatrix}} {torques} \end{{pmatrix}}"
    )


def _display_equations(form: ClosedForm, section: _Section, begin: str, end: str) -> str:
    """The equations of a section in LaTeX, between the marks that display them."""
    if not section.equations:
        return "All zero."
    rates = {c.v: rf"\dot{{q}}_{{{k + 1}}}" for k, c in enumerate(form.coordinates)}
    lines: list[str] = []
    for name, index, x in section.equations:
        label = name.replace("Γ", r"\Gamma")
        label += f"_{{{''.join(str(i + 1) for i in index)}}}" if index else ""
        lines.append(f"{label} &= ")
        # a long equation is broken between terms
        length = 0
        for k, term in enumerate(_round_numbers(x).as_ordered_terms()):
            text = sympy.latex(term, symbol_names=rates, full_prec=False, fold_func_brackets=True)
            size = len(sympy.sstr(term, full_prec=False))
            if length and length + size > _LINE:
                lines.append(r"&\quad")
                length = 0
            minus = text[0] == "-"
            signed = f" - {text[1:].lstrip()}" if minus else f" + {text}"
            lines[-1] += signed if k else text
            length += size
    equations = " \\\\\n".join(lines)
    return f"{begin}\n{equations}\n{end}"


def _latex_symbol(name: Any) -> str:
    return str(sympy.latex(sympy.Symbol(str(name))))


def _escape_latex(text: str) -> str:
    """Text for LaTeX."""
    for plain, latex in _LATEX.items():
        text = text.replace(plain, latex)
    return text


_LATEX = {
    "_": r"\_",
    "²": "$^2$",
    "−": "$-$",
    "Γijk = Γikj": r"$\Gamma_{ijk} = \Gamma_{ikj}$",
    "Cij = Σ Γijk q̇k": r"$C_{ij} = \sum_k \Gamma_{ijk} \dot{q}_k$",
    "c = C q̇": r"$c = C \dot{q}$",
}
