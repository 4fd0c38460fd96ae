"""The machine's bound: how many fused multiply-adds one core does in a second.

One fused multiply-add on one lane counts as one operation, as one operation of a tape counts as one
whatever it is. A multiplication and an addition of a tape that fuse are therefore two operations in
the time of one, and a sine is one in the time of many.
"""

from __future__ import annotations

import ctypes
import time

from qddot.compile.ir.types import VectorType, vector_type
from qddot.compile.runtime import native

__all__ = ["multiply_add_peak"]

# more than latency × units of any common core, and few enough for 16 registers
_CHAINS = 12
_UNROLLED = 4
_NAME = "qddot_peak"


def multiply_add_peak(dtype: str = "float64", rounds: int = 20, sample: float = 0.005) -> float:
    """Operations a second on one core: lanes × independent fused multiply-adds, best of rounds."""
    v = vector_type(dtype, native.host().register_bytes)
    code = native.emit_object_code(_peak_ir(v), native.host())
    library, addresses = native.link([code], f"{_NAME}_{dtype}_{time.perf_counter_ns()}", (_NAME,))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(addresses[_NAME])
    out = ctypes.create_string_buffer(_CHAINS * v.bytes)
    target = ctypes.cast(out, ctypes.c_void_p)
    loops, best = 1000, float("inf")
    while (elapsed := _time_loop(run, loops, target)) < sample:
        loops = max(2 * loops, int(loops * sample / max(elapsed, 1e-9)))
    for _ in range(rounds):
        best = min(best, _time_loop(run, loops, target) / loops)
    del library
    return _CHAINS * _UNROLLED * v.lanes / best


def _time_loop(run: ctypes._FuncPointer, loops: int, target: ctypes.c_void_p) -> float:
    start = time.perf_counter()
    run(loops, target)
    return time.perf_counter() - start


def _peak_ir(v: VectorType) -> str:
    """A loop over chains of fused multiply-adds that do not depend on each other."""
    t = v.type
    factor, term = v.constant(0.5), v.constant(0.25)
    phis, steps, stores = [], [], []
    for k in range(_CHAINS):
        last = f"%x{k}_{_UNROLLED}"
        phis.append(f"  %x{k}_0 = phi {t} [{v.constant(float(k))}, %entry], [{last}, %loop]")
        stores += [
            f"  %p{k} = getelementptr {t}, ptr %out, i64 {k}",
            f"  store {t} {last}, ptr %p{k}, align {v.number_bytes}",
        ]
    for j in range(_UNROLLED):
        for k in range(_CHAINS):
            value = f"{t} %x{k}_{j}, {t} {factor}, {t} {term}"
            steps.append(f"  %x{k}_{j + 1} = call {t} @llvm.fma.{v.intrinsic_suffix}({value})")
    body = "\n".join([*phis, "  %i = phi i64 [0, %entry], [%next, %loop]", *steps])
    return f"""
declare {t} @llvm.fma.{v.intrinsic_suffix}({t}, {t}, {t})
define void @{_NAME}(i64 %n, ptr %out) {{
entry:
  br label %loop
loop:
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{chr(10).join(stores)}
  ret void
}}
"""
