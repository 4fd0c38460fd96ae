"""Memory that this process can still take, and the refusal of work that does not fit in it.

A system that promises more memory than it has ends the process when the pages are touched, so
the comparison comes before the allocation.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from qddot.errors import NotEnoughMemory

__all__ = ["SMALL", "available_memory", "require_batch", "require_memory", "total_memory"]

SMALL = 64 * 2**20
"""Bytes below which no question is asked."""

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def require_memory(needed: int, purpose: str, remedy: str | Callable[[int], str]) -> None:
    """Refuse work that needs more bytes than are available.

    `remedy` says what to do instead, or makes that sentence from the bytes that are available.
    """
    if needed < SMALL:
        return
    found = available_memory()
    available = sys.maxsize if found is None else found
    if needed > available:
        advice = remedy if isinstance(remedy, str) else remedy(available)
        raise NotEnoughMemory(purpose, needed, available, advice)


def require_batch(purpose: str, batch: tuple[int, ...], bytes_a_state: int) -> None:
    """Refuse a batch whose results, at `bytes_a_state`, need more memory than there is."""

    def remedy(available: int) -> str:
        return f"a batch of at most {available // bytes_a_state} states fits"

    needed = math.prod(batch) * bytes_a_state
    if needed >= SMALL:
        require_memory(needed, f"{purpose} on a batch of shape {batch}", remedy)


def available_memory() -> int | None:
    """Bytes that can be taken without swapping, by the tightest limit; None where unknown."""
    if sys.platform == "win32":
        return _windows_memory("available_physical")
    groups = (most - used for most, used in _group_memory())
    limits = (_system_memory(), *groups, _address_space())
    return min((max(0, x) for x in limits if x is not None), default=None)


@cache
def total_memory() -> int | None:
    """Bytes that this process could ever have, by the tightest limit; None where unknown."""
    if sys.platform == "win32":
        return _windows_memory("total_physical")
    limits = (_pages("SC_PHYS_PAGES"), *(most for most, _ in _group_memory()))
    return min((x for x in limits if x is not None), default=None)


def _system_memory() -> int | None:
    """Memory of the machine: MemAvailable on Linux, else its free or all pages."""
    # only Linux has the file, and not every kernel the line
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return _pages("SC_AVPHYS_PAGES") or _pages("SC_PHYS_PAGES")


def _pages(count: str) -> int | None:
    """Bytes of a count of pages that the system knows by this name."""
    try:
        found = os.sysconf(count) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    return found if found > 0 else None


def _group_memory() -> list[tuple[int, int]]:
    """Limits of the control groups of this process, of either version, and bytes used of them."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = (line + "::").split(":")[:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        root, names = (
            (_CGROUP / "memory", names)
            if controllers
            else (_CGROUP, ("memory.max", "memory.current", "inactive_file"))
        )
        folder = root / path.strip("/")
        # a group is bounded by all groups it is part of
        for group in (folder, *folder.parents):
            if group == root or root in group.parents:
                found += _memory_of_group(group, *names)
    return found


def _memory_of_group(
    group: Path, limit: str, usage: str, reclaimable: str
) -> list[tuple[int, int]]:
    """Limit and use of memory of a control group, without file pages that can be reclaimed."""
    try:
        most, used = (int((group / name).read_text()) for name in (limit, usage))
    except (OSError, ValueError):
        # the root has no files, and a group without a limit says "max"
        return []
    # without statistics, none of what is used counts as reclaimable
    with contextlib.suppress(OSError, ValueError, IndexError):
        rows = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        used -= next((int(row[1]) for row in rows if row[0] == reclaimable), 0)
    return [(most, used)]


def _address_space() -> int | None:
    """Address space that `ulimit -v` leaves."""
    try:
        resource = importlib.import_module("resource")
        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int((_PROC / "self" / "statm").read_text().split()[0])
    except (ImportError, AttributeError, OSError, ValueError, IndexError):
        return None
    return None if most == resource.RLIM_INFINITY else most - pages * resource.getpagesize()


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("available_physical", ctypes.c_uint64),
        ("total_page_file", ctypes.c_uint64),
        ("available_page_file", ctypes.c_uint64),
        ("total_virtual", ctypes.c_uint64),
        ("available_virtual", ctypes.c_uint64),
        ("available_extended_virtual", ctypes.c_uint64),
    )


def _windows_memory(field: str) -> int | None:
    """Physical memory, all of it or what is free, by GlobalMemoryStatusEx."""
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    try:
        ask = getattr(ctypes, "windll").kernel32.GlobalMemoryStatusEx  # noqa: B009
    except (AttributeError, OSError):
        return None
    return int(getattr(status, field)) if ask(ctypes.byref(status)) else None
