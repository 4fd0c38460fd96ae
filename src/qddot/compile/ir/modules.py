"""The IR of a kernel as one module, or as several that LLVM compiles one after the other.

A call of LLVM cannot be interrupted, so that code of many pieces is handed over in parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KernelIR"]

_PIECES = 24
"""Pieces of a module where there are several: about half a second of LLVM's time."""
_INTERNAL, _HIDDEN = "define internal void @piece", "define hidden void @piece"


@dataclass(frozen=True)
class KernelIR:
    """Declarations, functions that pieces call, the pieces, and what calls the pieces."""

    declarations: str
    helpers: tuple[str, ...]
    pieces: tuple[str, ...]
    rest: str

    def __str__(self) -> str:
        return "\n".join([self.declarations, *self.helpers, *self.pieces, self.rest])

    def modules(self) -> list[str]:
        """The text of each module; pieces of several modules are visible to the others."""
        if len(self.pieces) <= _PIECES:
            return [str(self)]
        numbers = range(len(self.pieces))
        declared = (f"declare hidden void @piece{k}(ptr, ptr, ptr)" for k in numbers)
        texts = ["\n".join([self.declarations, *self.helpers, *declared, self.rest])]
        for k in numbers[::_PIECES]:
            part = [x.replace(_INTERNAL, _HIDDEN) for x in self.pieces[k : k + _PIECES]]
            helpers = [x for x in self.helpers if _defines_any(x, part)]
            texts.append("\n".join([self.declarations, *helpers, *part]))
        return texts


def _defines_any(helper: str, pieces: Sequence[str]) -> bool:
    """Whether pieces call a function that this text defines."""
    names = re.findall(r"^define [^@]*(@[\w.]+\()", helper, re.MULTILINE)
    return any(name in piece for name in names for piece in pieces)
