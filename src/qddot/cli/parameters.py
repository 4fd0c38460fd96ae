"""The part that a parameter of a command has in its result, declared beside the parameter.

A record keeps what results depend on, and replay takes from a record only that: values of the
parameter's own type, texts of the form that is declared here, files that the record has in it.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "INPUT",
    "NUMBERS",
    "NUMBERS_OR_FILE",
    "OUTPUT",
    "RESULT",
    "TRUST",
    "WORDS",
    "ParameterRole",
    "one_of",
    "parameter_roles",
]


@dataclass(frozen=True)
class ParameterRole:
    """The role of a parameter.

    `kept` says whether results depend on it. With `file` its value is a file or a robot; `text` is
    the form of its texts and `names` has the words of it; with neither it takes no free text.
    `trusts` lets a file run code.
    """

    kept: bool = True
    file: bool = False
    text: str = ""
    names: frozenset[str] = frozenset()
    trusts: bool = False

    def accepts(self, text: str) -> bool:
        """Whether a text of a record may stand for a value."""
        if self.names:
            words = (word.strip().lower() for word in text.split(","))
            return all(word in self.names for word in words if word)
        return re.fullmatch(self.text, text) is not None and _LIKE_PATH.search(text) is None


_LIKE_PATH = re.compile(r"^\s*(?:[/\\~]|[A-Za-z]:[\\/])|[\x00-\x1f]|(?:^|/)\.\.(?:/|$)|://")
_NUMBERS = r"[-+0-9.,; eE%]{1,20000}"
RESULT = ParameterRole()
"""A number, a flag or a choice."""
OUTPUT = ParameterRole(kept=False)
"""Says where or how results are shown, and has no part in them."""
INPUT = ParameterRole(file=True)
"""A file, or the name of a robot, which stands for one."""
TRUST = ParameterRole(trusts=True)
"""Lets files run their code, as no record may."""
NUMBERS = ParameterRole(text=_NUMBERS)
"""Numbers with commas between, or a share."""
WORDS = ParameterRole(text=r"[^\x00-\x1f]{0,20000}")
"""Names and words that are looked up, and never opened."""
NUMBERS_OR_FILE = ParameterRole(file=True, text=_NUMBERS)
"""Numbers, or a file that has them."""


def one_of(names: Iterable[str]) -> ParameterRole:
    """A text that is one of these names, or several with commas between."""
    return ParameterRole(names=frozenset(names))


def parameter_roles(command: Any) -> dict[str, ParameterRole]:
    """The roles of a command's parameters by name, of those that have one."""
    hints = typing.get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    found = {}
    for name, hint in hints.items():
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, ParameterRole):
                found[name] = mark
    return found
