"""Kernels of a step, compiled once a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from qddot.compile.kernel import Kernel, KernelSource, compile_kernel

__all__ = ["kept_kernel"]


def kept_kernel(key: str, source: Callable[[str], KernelSource]) -> Kernel:
    """The kernel of a source that its key determines."""
    return _compiled(_Keyed(key, source))


@dataclass(frozen=True)
class _Keyed:
    """A source that is the same as another where its key is."""

    key: str
    source: Callable[[str], KernelSource] = field(compare=False)


@lru_cache(maxsize=64)
def _compiled(keyed: _Keyed) -> Kernel:
    return compile_kernel(keyed.source(keyed.key))
