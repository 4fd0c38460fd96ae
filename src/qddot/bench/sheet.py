"""Tables of measurements, and how their numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Sheet", "format_number", "format_ratio"]


@dataclass(frozen=True)
class Sheet:
    """A table with the words that say what its measurements are."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"## {self.title}\n\n{self.text}\n\n{table}\n"


def format_number(x: float | None) -> str:
    """Three significant digits without an exponent."""
    if x is None:
        return "–"
    digits = 2 - math.floor(math.log10(abs(x))) if x else 0
    return f"{x:.{min(max(digits, 0), 6)}f}"


def format_ratio(x: float | None) -> str:
    """Two digits after the point, and a cross."""
    return "–" if x is None else f"{x:.2f}×"
