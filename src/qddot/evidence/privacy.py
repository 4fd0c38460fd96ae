"""Texts without the places of the machine: no home, no user, no absolute path in a record."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["hide_home", "home_folder", "names_home", "shorten_paths"]

_ABSOLUTE = re.compile(
    r"(?:(?<=file://)|(?<![\w./:~\\<-]))(?:/|[A-Za-z]:[\\/])(?:[^\s/\\'\":;,<>|()]+[/\\])+"
)
"""The folders of an absolute path, of POSIX or Windows; file addresses have one too."""


def home_folder() -> Path | None:
    """The home of the user; None without one, or where it is the root of the system."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home if len(home.parts) > 1 else None


def names_home(content: bytes) -> bool:
    """Whether a content has the path of the user's home in it."""
    return any(pattern.search(content) for pattern in _home_patterns())


def _home_patterns() -> list[re.Pattern[bytes]]:
    """The home as texts have it: as it is set, and where links lead."""
    home = home_folder()
    forms = {os.fsencode(x) for x in (home, home.resolve())} if home else set()
    # not "</root>", nor a folder of the same name somewhere else
    return [re.compile(rb"(?<![\w.<~-])" + re.escape(form) + rb"(?![\w.>-])") for form in forms]


def hide_home(text: str) -> str:
    """A text with ~ in the place of the user's home."""
    content = text.encode(errors="replace")
    for pattern in _home_patterns():
        content = pattern.sub(b"~", content)
    return content.decode()


def shorten_paths(text: str) -> str:
    """A text whose absolute paths have lost their folders."""
    return _ABSOLUTE.sub("…/", hide_home(text))
