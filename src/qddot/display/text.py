"""Results as readable text, HTML and LaTeX, for terminals and notebooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from qddot.display.markup import element

__all__ = [
    "Readable",
    "Tabular",
    "html_table",
    "joint_units",
    "latex_matrix",
    "range_text",
    "text_table",
    "value_text",
]

_MOST_SHOWN = 64


def joint_units(angular: Iterable[bool]) -> tuple[str, str, str]:
    """Units of positions, velocities and forces of joints, from whether each is a rotation."""
    kinds = set(angular)
    if kinds == {True}:
        return "rad", "rad/s", "N m"
    return ("m", "m/s", "N") if kinds == {False} else ("rad or m", "rad/s or m/s", "N m or N")


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in columns of equal width; the first to the left, the others to the right."""
    table = [list(heads), *map(list, rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(heads))]
    lines = [
        "  ".join(x.ljust(w) if k == 0 else x.rjust(w) for k, (x, w) in enumerate(cells)).rstrip()
        for cells in (list(zip(row, widths, strict=True)) for row in table)
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """An HTML table; text in it is data."""
    head = element("thead", element("tr", (element("th", x) for x in heads)))
    body = (element("tr", (element("td", x) for x in row)) for row in rows)
    top = element("caption", caption) if caption else None
    return str(element("table", top, head, element("tbody", body)))


def latex_matrix(A: np.ndarray, digits: int = 4) -> str:
    """A vector (as a column) or matrix in LaTeX."""
    rows = A[:, None] if A.ndim == 1 else A
    lines = (" & ".join(f"{x:.{digits}g}" for x in row) for row in rows)
    return r"\begin{bmatrix}" + r" \\ ".join(lines) + r"\end{bmatrix}"


def range_text(array: np.ndarray) -> str:
    """Shape and range of an array in words."""
    if array.dtype.kind == "f" and np.isfinite(array).any():
        sound = array[np.isfinite(array)]
        bad = "" if sound.size == array.size else f", {array.size - sound.size} not finite"
        return f"{array.shape}, {sound.min():.4g} … {sound.max():.4g}{bad}"
    return f"{array.shape} of {array.dtype}"


def value_text(x: Any) -> str:
    """A value in words: small arrays by their numbers, large ones by shape and range."""
    if isinstance(x, np.ndarray | np.generic):
        array = np.asarray(x)
        if array.ndim == 0 and array.dtype.kind == "f":
            return f"{float(array):.6g}"
        if array.ndim <= 2 and array.size <= _MOST_SHOWN:
            # entries that four decimals do not show are zero, not -0.
            fixed = array.dtype.kind == "f" and np.abs(array).max(initial=0.0) >= 0.01
            if fixed:
                array = np.where(np.abs(array) < 5e-5, 0.0, array)
            return np.array2string(array, precision=4, suppress_small=fixed, max_line_width=100)
        return range_text(array)
    if isinstance(x, float):
        return f"{x:.6g}"
    if isinstance(x, Mapping):
        return "\n".join(f"{name}: {value_text(value)}" for name, value in x.items())
    if isinstance(x, tuple | list) and x and not isinstance(x[0], str | int | float):
        return f"{len(x)} × {type(x[0]).__name__}"
    return str(x)


def _is_shown(x: Any) -> bool:
    """Whether a value says something to a reader: no empty lists, no machinery."""
    if x is None or (isinstance(x, tuple | list | Mapping) and not x):
        return False
    return isinstance(x, Readable) or not dataclasses.is_dataclass(x)


class Readable:
    """A dataclass that shows its fields in words, as text and as an HTML table.

    Take it as the base of `@dataclass(repr=False)`.
    """

    def _shown_fields(self) -> list[tuple[str, str]]:
        """Names and values of the fields that are worth showing."""
        return [
            (f.name, value_text(getattr(self, f.name)))
            for f in dataclasses.fields(self)  # type: ignore[arg-type]
            if f.repr and _is_shown(getattr(self, f.name))
        ]

    def __repr__(self) -> str:
        shown = self._shown_fields()
        width = max((len(name) for name, _ in shown), default=0)
        lines = [type(self).__name__]
        for name, text in shown:
            more = text.replace("\n", "\n" + " " * (width + 4))
            lines.append(f"  {name.ljust(width)}  {more}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = (
            element("tr", element("th", name), element("td", element("pre", text)))
            for name, text in self._shown_fields()
        )
        return str(element("table", element("caption", type(self).__name__), rows))


class Tabular:
    """A dataclass that shows itself as a sentence and a table, as text and as HTML.

    Take it as the base of `@dataclass(repr=False)`.
    """

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """A sentence, the heads of the columns, and the rows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        sentence, heads, rows = self._table()
        return f"{sentence}\n{text_table(heads, rows)}"

    def _repr_html_(self) -> str:
        sentence, heads, rows = self._table()
        return html_table(heads, rows, caption=sentence)
