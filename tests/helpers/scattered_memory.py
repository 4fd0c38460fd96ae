"""Compile kernels in a process whose free address space lies in small holes, far apart.

Run `python tests/helpers/scattered_memory.py KERNELS GIB`: before each kernel, GIB of address space
are mapped, and holes of two pages are left above them. A loader that takes memory for each section
of a kernel by itself puts the constants into a hole and the code below the mapping.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import time
from typing import Any

import numpy as np

from qddot.compile.kernel import Kernel, KernelSource, compile_kernel
from qddot.spatial import scalar

__all__ = ["compile_scattered"]

_PAGE, _HOLES, _SMALL = 4096, 64, 4 * 4096
_PRIVATE, _ANONYMOUS, _NO_RESERVE = 0x02, 0x20, 0x4000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _map_memory(size: int, protection: int = 0) -> int:
    """The address of a new mapping, which takes address space only."""
    flags = _PRIVATE | _ANONYMOUS | _NO_RESERVE
    address: int = _libc.mmap(None, size, protection, flags, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"no {size} bytes of address space")
    return address


def _scatter_memory(size: int) -> None:
    """Map `size` bytes, fill what is free above them, and leave holes of two pages there."""
    # neighbours of one protection would be one mapping
    small = [_map_memory(2 * _PAGE, k % 2) for k in range(2 * _HOLES)]
    large = _map_memory(size)
    while _map_memory(_SMALL) > large:
        pass
    for address in small[::2]:
        _libc.munmap(address, 2 * _PAGE)


def _numbered_kernel(number: int) -> Kernel:
    """A kernel with code and constants of its own."""

    def function(x: list[Any]) -> list[Any]:
        y = x[0]
        for k in range(40):
            y = scalar.sin(y + (number + k) / 7.0) * 1.25 + scalar.exp(x[1] * 0.125)
        return [y, x[1] + number]

    source = KernelSource("numbered", "A number.", function, ((2,),), ((2,),), f"number {number}")
    return compile_kernel(source)


def _expected(number: int, x: np.ndarray) -> list[float]:
    y = x[0]
    for k in range(40):
        y = np.sin(y + (number + k) / 7.0) * 1.25 + np.exp(x[1] * 0.125)
    return [y, x[1] + number]


def compile_scattered(kernels: int, size: int) -> dict[str, float]:
    """Compile kernels and compare their numbers, all of them again at the end."""
    start, made, x = time.perf_counter(), [], np.array([0.3, -0.7])
    for number in range(kernels):
        _scatter_memory(size)
        made.append(_numbered_kernel(number))
        np.testing.assert_allclose(made[-1].call(x), _expected(number, x), rtol=1e-9)
    for number, kernel in enumerate(made):
        np.testing.assert_allclose(kernel.call(x), _expected(number, x), rtol=1e-9)
    return {
        "kernels": len(made),
        "mapped GiB": kernels * size / 2**30,
        "seconds": time.perf_counter() - start,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(compile_scattered(int(sys.argv[1]), int(float(sys.argv[2]) * 2**30))))
