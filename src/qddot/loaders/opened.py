"""The files that loaders open: what a record of a run has to keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["note_opened", "watch_opened"]

_watched: ContextVar[dict[Path, None] | None] = ContextVar("watched", default=None)


@contextmanager
def watch_opened() -> Iterator[dict[Path, None]]:
    """The files that are opened inside of this context, in the order in which that happened."""
    opened: dict[Path, None] = {}
    token = _watched.set(opened)
    try:
        yield opened
    finally:
        _watched.reset(token)


def note_opened(*files: str | Path) -> None:
    """Report files to whoever watches, absolute but with their links."""
    opened = _watched.get()
    if opened is not None:
        opened.update(dict.fromkeys(Path(file).absolute() for file in files))
