"""Control laws as C: the exported code, compiled by the C compiler of the machine, in a loop."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from qddot.bench.contender import Contender
from qddot.control import CompiledLaw

__all__ = ["c_contender", "find_compiler"]

_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared")
_LOOP = """
#include "{header}"

void run_cycles(long n, const double *const *in, double *const *out)
{{
    long i;
    for (i = 0; i < n; i++) {{
        {function}({arguments});
    }}
}}
"""


def find_compiler() -> str | None:
    """The C compiler of the machine, if it has one."""
    return shutil.which("gcc") or shutil.which("cc")


def c_contender(
    compiler: str, law: CompiledLaw, inputs: Sequence[Sequence[np.ndarray]]
) -> Contender:
    """The C code of a law, one cycle after another; `inputs` are its arguments at each state."""
    columns = [np.ascontiguousarray(np.stack(x), float) for x in zip(*inputs, strict=True)]
    sizes = [column[0].size for column in columns]
    n, nv = len(inputs), law.robot.nv
    results = [np.empty((n, nv))]
    if law.shapes:
        results.append(np.empty((n, sizes[-1])))
    # the exported law with a loop over states around it, as a function of pointers
    with tempfile.TemporaryDirectory(prefix="qddot-bench-") as name:
        folder = Path(name)
        report = law.export_c(folder)
        header = next(x for x in report.files if x.endswith(".h") and "_vectors" not in x)
        pointers = [f"in[{k}] + {size} * i" for k, size in enumerate(sizes)]
        pointers += [f"out[{k}] + {x[0].size} * i" for k, x in enumerate(results)]
        text = _LOOP.format(
            header=header,
            function=report.accuracy[0].function,
            arguments=", ".join(pointers),
        )
        (folder / "loop.c").write_text(text)
        sources = ["loop.c", header.removesuffix(".h") + ".c"]
        command = [compiler, *_FLAGS, *sources, "-lm", "-o", "loop.so"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        # the loaded code stays when the folder goes
        run_cycles = ctypes.CDLL(str(folder / "loop.so")).run_cycles
    run_cycles.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    run_cycles.restype = None
    # addresses for C, and the arrays, which live as long as the function that holds them
    arguments = [
        (arrays, (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays)))
        for arrays in (columns, results)
    ]

    def run() -> None:
        run_cycles(n, *(table for _, table in arguments))

    def values() -> tuple[np.ndarray, ...]:
        run()
        return (results[0].copy(),)

    return Contender("C", "a cycle", n, run, values)
