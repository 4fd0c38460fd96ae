"""Calls without NumPy's gufunc machinery: a built-in function that runs a kernel at once.

Given float64 arrays of just the core shapes it checks them, makes the results and runs the loop.
Given arrays for the results too, of one state or a batch, float64 or float32, it writes to those.
Given anything else it hands the call on. Its code, in `ir/fast_call.py`, knows where CPython and
NumPy keep the fields of their objects; `make_fast_call` measures that before it relies on it. With
versions of either that it was never run on, a child process tries it first
(`fast_call_probe.py`).
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from qddot.compile.ir import fast_call as ir
from qddot.compile.runtime import native
from qddot.compile.runtime.cache import Cache, Entry, cache_folder
from qddot.compile.runtime.gufunc import Loops, numpy_functions
from qddot.errors import InvalidArgument

__all__ = ["make_fast_call"]

# versions that all tests were run on
_PYTHONS = frozenset((3, minor) for minor in range(10, 14))
_NUMPYS = frozenset((2, minor) for minor in range(5))
_PROBE = "from qddot.compile.runtime.fast_call_probe import prove_fast_call; prove_fast_call()"
_PROBE_SECONDS = 60.0
# entries of the table of NumPy's C functions
_ARRAY_TYPE, _ARRAY_NEW = 2, 93


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x0080
# a built-in function points into its definition to its very end
_kept: list[Any] = []


class _Context(bytes):
    """The addresses, and what they belong to; the loops keep the code of the function alive."""

    alive: tuple[Any, ...]


@cache
def _numpy_addresses() -> tuple[int, int] | None:
    """The array type and PyArray_New, if objects look as they should here."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return None
    table = numpy_functions("_ARRAY_API")
    array_type, new = table[_ARRAY_TYPE], table[_ARRAY_NEW]
    # the fields of an array, of its shape and of a bytes object, where the IR expects them
    probe = np.arange(6.0).reshape(2, 3)
    fields = {
        ir.TYPE: array_type,
        ir.DATA: probe.ctypes.data,
        ir.DTYPE: id(np.dtype(np.float64)),
    }
    read = ctypes.c_uint64.from_address
    looks = all(read(id(probe) + offset).value == value for offset, value in fields.items())
    shape = ctypes.c_uint64.from_address(id(probe) + ir.SHAPE).value
    looks = looks and array_type == id(np.ndarray) and probe.dtype.num == ir.FLOAT64
    looks = looks and ctypes.c_int.from_address(id(probe) + ir.AXES).value == 2
    looks = looks and [read(shape + 8 * k).value for k in range(2)] == [2, 3]
    flags = ctypes.c_int.from_address(id(probe) + ir.FLAGS).value
    expected = ir.CONTIGUOUS_ALIGNED | ir.WRITEABLE
    looks = looks and flags & expected == expected
    probe.flags.writeable = False
    flags = ctypes.c_int.from_address(id(probe) + ir.FLAGS).value
    looks = looks and flags & expected == ir.CONTIGUOUS_ALIGNED
    text = b"where bytes keep their bytes"
    looks = looks and ctypes.string_at(id(text) + ir.BYTES, len(text)) == text
    return (int(array_type or 0), int(new or 0)) if looks else None


def _is_trusted() -> bool:
    """Whether the built-in function may run in this process.

    QDDOT_FAST_CALL=0 says no, and 1 that there is no need to ask.
    """
    asked = os.environ.get("QDDOT_FAST_CALL", "")
    if asked not in ("", "0", "1"):
        raise InvalidArgument("QDDOT_FAST_CALL", asked, "it is 0 (off), 1 (on), or not set")
    if asked:
        return asked == "1"
    is_plain = not sysconfig.get_config_var("Py_GIL_DISABLED")
    numpy = tuple(int(part) for part in np.__version__.split(".")[:2])
    if is_plain and sys.version_info[:2] in _PYTHONS and numpy in _NUMPYS:
        return True
    # everything that the outcome of a probe depends on
    here, ir_folder = Path(__file__).parent, Path(ir.__file__).parent
    files = (here / "fast_call.py", here / "fast_call_probe.py", here / "gufunc.py")
    code = b"".join(file.read_bytes() for file in (*files, ir_folder / "fast_call.py"))
    build = (sys.version, sysconfig.get_config_var("SOABI"), np.__version__)
    digest = hashlib.sha256(code).hexdigest()
    key = json.dumps(["fast call", *build, *astuple(native.host()), digest])
    return _is_proved(key, cache_folder())


@cache
def _is_proved(key: str, folder: Path) -> bool:
    """Whether a child process has run the built-in function without a fault, now or before."""
    known = Cache(folder)
    entry = known.read(key)
    if entry is not None:
        return bool(entry.facts.get("sound"))
    is_python = "python" in Path(sys.executable or "").name.lower()
    if not is_python or getattr(sys, "frozen", False):
        # another program that has Python inside cannot be started as Python
        return False
    # the probe in a child process, which may crash or hang
    paths = [str(Path(__file__).parents[3]), *map(os.path.abspath, sys.path)]
    try:
        with tempfile.TemporaryDirectory(prefix="qddot-", ignore_cleanup_errors=True) as own:
            settings = {"QDDOT_FAST_CALL": "1", "QDDOT_CACHE_DIR": own}
            settings["PYTHONPATH"] = os.pathsep.join(paths)
            run = subprocess.run(
                [sys.executable, "-c", _PROBE],
                cwd=own,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
            )
            sound = run.returncode == 0
    except subprocess.TimeoutExpired:
        sound = False
    except OSError:
        return False
    known.write(key, Entry({"name": "fast call", "sound": sound}, b""))
    return sound


def make_fast_call(
    address: int, loops: Loops, other: Callable[..., Any], name: str, doc: str
) -> Callable[..., Any] | None:
    """The built-in function at an address; None for none, and where it cannot be trusted.

    What it does not take goes to the other function.
    """
    known = _numpy_addresses() if address else None
    if known is None or not _is_trusted():
        return None
    array_type, new = known
    kinds = (id(np.dtype(np.float64)), id(np.dtype(np.float32)))
    addresses = (array_type, *kinds, new, id(other), loops.made_address)
    context = _Context(struct.pack(f"{len(ir.CONTEXT)}Q", *addresses))
    context.alive = (loops, other)
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
    _kept.append(definition)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.addressof(definition), context, None)
