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
_PARTS = 4
"""Parts of the list of calls in a module: they take LLVM as long as half as many pieces each."""
_INTERNAL, _HIDDEN, _DECLARED = "define internal void @", "define hidden void @", "declare hidden "
_PART = re.compile(r"^define internal (void @part\w*\(.*\)) noinline {\n(?:.*\n)*?}$", re.MULTILINE)
"""A function that calls some of the pieces, one after the other."""
_FOREIGN_CALL = re.compile(r"call \w+ @(?!piece\d|llvm\.)")


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
        declared = [f"declare hidden void @piece{k}(ptr, ptr, ptr)" for k in numbers]
        # the loops over pieces, apart from those that call regions
        parts = [x for x in _PART.finditer(self.rest) if not _FOREIGN_CALL.search(x[0])]
        rest = self.rest
        if len(parts) <= _PARTS:
            parts = []
        for part in parts:
            rest = rest.replace(part[0], _DECLARED + part[1])
        texts = ["\n".join([self.declarations, *self.helpers, *declared, rest])]
        for k in range(0, len(parts), _PARTS):
            several = [x[0].replace(_INTERNAL, _HIDDEN, 1) for x in parts[k : k + _PARTS]]
            texts.append("\n".join([self.declarations, *declared, *several]))
        for k in numbers[::_PIECES]:
            pieces = [
                x.replace(f"{_INTERNAL}piece", f"{_HIDDEN}piece")
                for x in self.pieces[k : k + _PIECES]
            ]
            helpers = [x for x in self.helpers if _defines_any(x, pieces)]
            texts.append("\n".join([self.declarations, *helpers, *pieces]))
        return texts


def _defines_any(helper: str, pieces: Sequence[str]) -> bool:
    """Whether pieces call a function that this text defines."""
    names = re.findall(r"^define [^@]*(@[\w.]+\()", helper, re.MULTILINE)
    return any(name in piece for name in names for piece in pieces)
