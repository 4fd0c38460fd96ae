"""The compiler: from a Python function of numbers to a NumPy gufunc. It knows no mechanics.

`compile_kernel` in `kernel.py` runs the stages in this order:

1. record     `trace/tape.py`        run the function on symbols: a tape of operations;
                                     `trace/arrays.py` has NumPy's functions on symbols
2. fuse       `trace/fuse.py`        sums of products become chains of multiply-adds
3. place      `ir/stores.py`         where and when outputs are written
4. schedule   `ir/schedule.py`       short pieces, and a workspace for values that outlive one
5. lower      `ir/lower.py`          pieces as LLVM IR; `ir/loop.py` counts through the batch,
                                     `ir/scan.py` through time, `ir/fast_call.py` passes NumPy by,
                                     `ir/elementary.py` has exp, log and their kin
6. emit       `runtime/native.py`    LLVM IR to object code, kept by `runtime/cache.py`
7. link       `runtime/native.py`    object code to addresses in this process
8. gufunc     `runtime/gufunc.py`    addresses to a gufunc; `runtime/calls.py`, `chunks.py` and
                                     `threads.py` guard and split a large batch
"""

from qddot.compile.kernel import Kernel, KernelSource, compile_kernel

__all__ = ["Kernel", "KernelSource", "compile_kernel"]
