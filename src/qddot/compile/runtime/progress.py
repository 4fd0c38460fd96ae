"""A line on stderr about work that takes more than two seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

__all__ = ["announce_long_work", "write_line"]

_PATIENCE = 2.0
"""Seconds after which a caller wants to know."""


@contextlib.contextmanager
def announce_long_work(what: str, patience: float = _PATIENCE) -> Iterator[None]:
    """Announce work on stderr when it has taken `patience` seconds, and when it is done."""
    start, said = time.perf_counter(), threading.Event()

    def say() -> None:
        said.set()
        write_line(f"qddot: {what}, once for this machine …")

    timer = threading.Timer(patience, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if said.is_set():
            write_line(f"qddot: {what}: {time.perf_counter() - start:.1f} s")


def write_line(text: str) -> None:
    """Write to stderr, if there is one that takes it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
