"""The machine that code is made for: forced vector widths, and object code of other systems."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import platform
import re
import struct
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from native_cases import DETOURS, cold_cache, moved, mover, mover_inputs, robots  # noqa: F401

from qddot.algorithms.catalogue import CATALOGUE
from qddot.compile import kernel as kernel_module
from qddot.compile.ir import fast_call as direct_module
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime import native
from qddot.compile.runtime.cache import Cache
from qddot.compile.runtime.native import Target
from qddot.errors import InvalidArgument
from qddot.robot.native import source_of
from qddot.robot.robot import Robot

pytestmark = pytest.mark.native_core
X86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="a test of x86 processors"
)


# forced widths


@pytest.mark.parametrize("width", native.WIDTHS)
def test_the_width_of_vectors_can_be_forced(monkeypatch, width):
    monkeypatch.setenv("QDDOT_VECTOR_BYTES", str(width))
    kernel = compile_kernel(mover(f"forced {width}"))
    assert kernel.facts["lanes"] == width // 8
    assert f"{width // 8} states of float64 on {native.host().cpu}" in str(kernel)
    arrays = mover_inputs((11,))
    for found, expected in zip(kernel.gufunc(*arrays), moved(*arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("wrong", ["8", "0", "128", "32.0", "wide", " 32"])
def test_other_widths_are_refused(monkeypatch, wrong):
    monkeypatch.setenv("QDDOT_VECTOR_BYTES", wrong)
    with pytest.raises(InvalidArgument, match=r"QDDOT_VECTOR_BYTES.*16, 32 or 64"):
        compile_kernel(mover())


def test_an_empty_width_is_none(monkeypatch):
    monkeypatch.delenv("QDDOT_VECTOR_BYTES", raising=False)
    own = native.host()
    monkeypatch.setenv("QDDOT_VECTOR_BYTES", "")
    assert native.host() == own


def test_widths_have_files_of_their_own(monkeypatch, tmp_path):
    cache, files = Cache(tmp_path / "objects"), set()
    for width in native.WIDTHS:
        monkeypatch.setenv("QDDOT_VECTOR_BYTES", str(width))
        kernel = compile_kernel(mover(), cache)
        assert not kernel.facts["cached"]
        files.add(kernel.facts["file"])
    assert len(files) == len(cache.entries()) == 3


def test_the_key_has_every_field_of_the_target(monkeypatch):
    target, keys = native.host(), set()
    changes = [{f.name: "other"} for f in dataclasses.fields(Target)]
    for change in ({}, *changes):
        changed = dataclasses.replace(target, **change)
        monkeypatch.setattr(native, "host", lambda changed=changed: changed)
        keys.add(kernel_module._cache_key(mover(), "float64"))
    assert len(keys) == 1 + len(changes)


def ir_of(monkeypatch, source: KernelSource) -> str:
    """The IR of the float64 loop of a source, for the target that is set."""
    taken = []

    def take(ir: str, target: Target) -> bytes:
        taken.append(ir)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, "emit_object_code", take)
        with pytest.raises(KeyboardInterrupt):
            compile_kernel(dataclasses.replace(source, key=f"{source.key} for its IR"))
    return taken[0]


def assembly(ir: str, target: Target) -> str:
    module = llvm.parse_assembly(ir)
    module.triple = target.triple
    return native._target_machine(target).emit_assembly(module)


@X86
@pytest.mark.parametrize("width", [16, 32])
def test_narrow_code_has_no_instruction_of_wider_processors(monkeypatch, width):
    """Registers, multiply-adds and the encoding of AVX, in what is made for a robot."""
    monkeypatch.setenv("QDDOT_VECTOR_BYTES", str(width))
    source = robots("planar_2r")[0].explain("forward_dynamics").source
    text = assembly(ir_of(monkeypatch, source), native.host())
    used = {name for name in ("xmm", "ymm", "zmm") if f"%{name}" in text}
    widest = native._make_target(0).register_bytes
    assert used == ({"xmm"} if min(width, widest) == 16 else {"xmm", "ymm"})
    has_fused = re.search(r"\tvfn?m(add|sub)", text) is not None
    assert has_fused == native.host().fuses
    if width == 16:
        assert not re.search(r"\tv[a-z]", text)


def test_results_of_all_widths_agree(monkeypatch):
    model = robots("ur5e")[0].model
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 13, 6))
    found = {}
    for width in native.WIDTHS:
        monkeypatch.setenv("QDDOT_VECTOR_BYTES", str(width))
        found[width] = Robot(model, native=True).inverse_dynamics(q, v, a)
    for width in (16, 32):
        np.testing.assert_allclose(found[width], found[64], rtol=1e-12, atol=1e-12)


# objects of other systems

SYSTEMS = {
    "Linux on ARM": ("aarch64-unknown-linux-gnu", "generic", 16),
    "macOS on ARM": ("arm64-apple-macosx11.0.0", "apple-m1", 16),
    "macOS on x86": ("x86_64-apple-macosx10.15", "x86-64-v3", 32),
    "Windows": ("x86_64-pc-windows-msvc-elf", "x86-64-v3", 32),
    "Windows with AVX-512": ("x86_64-pc-windows-msvc-elf", "x86-64-v4", 64),
    "Windows without FMA": ("x86_64-pc-windows-msvc-elf", "x86-64-v2", 16),
}
PYTHON = {
    "PyErr_NoMemory", "PyErr_Occurred", "PyGILState_Ensure", "PyGILState_Release",
    "PyObject_CallObject", "PyTuple_New", "PyTuple_SetItem", "Py_DecRef", "Py_IncRef",
}  # fmt: skip
# for batches into given arrays, which Windows leaves to the gufunc
FLAGS = {"feclearexcept", "fetestexcept", "PyEval_RestoreThread", "PyEval_SaveThread"}


@pytest.fixture(scope="module")
def all_targets():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def symbols(code: bytes) -> tuple[set[str], set[str]]:
    """The names that an ELF or Mach-O object defines for others, and those that it needs."""
    table = _elf_symbols(code) if code[:4] == b"\x7fELF" else _macho_symbols(code)
    table = [(name, is_there) for name, is_there in table if name]
    return {n for n, is_there in table if is_there}, {n for n, is_there in table if not is_there}


def _name(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


def _elf_symbols(code: bytes) -> list[tuple[str, bool]]:
    (first,), (size, count) = (
        struct.unpack_from("<Q", code, 40),
        struct.unpack_from("<HH", code, 58),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, first + size * k) for k in range(count)]
    (table,) = (s for s in sections if s[1] == 2)
    names = sections[table[6]][4]
    found = []
    for at in range(table[4], table[4] + table[5], 24):
        name, info, _, section = struct.unpack_from("<IBBH", code, at)
        if info >> 4:
            found.append((_name(code, names + name), section != 0))
    return found


def _macho_symbols(code: bytes) -> list[tuple[str, bool]]:
    assert code[:4] == b"\xcf\xfa\xed\xfe"
    (commands,), at, found = struct.unpack_from("<I", code, 16), 32, []
    for _ in range(commands):
        command, size = struct.unpack_from("<II", code, at)
        if command == 2:
            table, count, names, _ = struct.unpack_from("<IIII", code, at + 8)
            for k in range(count):
                name, kind, section = struct.unpack_from("<IBB", code, table + 16 * k)
                if kind & 1:
                    found.append((_name(code, names + name), section != 0))
        at += size
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_objects_of_other_systems(monkeypatch, all_targets, system):
    """They are made, define two functions and need what Python and the C library have."""
    triple, cpu, width = SYSTEMS[system]
    target = Target(triple, cpu, "", width, fuses=cpu != "x86-64-v2")
    monkeypatch.setattr(native, "host", lambda: target)
    is_windows, prefix = "windows" in triple, "_" if "apple" in triple else ""
    monkeypatch.setattr(direct_module, "RAISED", 0 if is_windows else 0x1D)
    # frames of more than a page, which Windows wants to be told of
    source = source_of(CATALOGUE["mass_matrix"], robots("quadruped")[0].model, {})
    defined, needed = symbols(native.emit_object_code(ir_of(monkeypatch, source), target))
    assert defined == {f"{prefix}qddot_loop", f"{prefix}qddot_direct"}
    expected = {f"{prefix}{name}" for name in (*PYTHON, "sin", "cos", "malloc", "free", "memcpy")}
    expected |= {"memset"} if not prefix else {"_bzero"} if "arm64" in triple else {"___bzero"}
    expected |= {"__chkstk"} if is_windows else {f"{prefix}{name}" for name in FLAGS}
    expected |= set() if target.fuses else {"fma"}
    assert needed == expected


WINDOWS_CALLS = """
define void @run(ptr %args, ptr %dims, ptr %steps, ptr %data) {
  call win64cc void @qddot_loop(ptr %args, ptr %dims, ptr %steps, ptr %data)
  ret void
}
declare win64cc void @qddot_loop(ptr, ptr, ptr, ptr)
declare ptr @calloc(i64, i64)
define win64cc ptr @malloc(i64 %size) {
  %memory = call ptr @calloc(i64 %size, i64 1)
  ret ptr %memory
}
define win64cc void @free(ptr %memory) {
  ret void
}
define win64cc ptr @memset(ptr %memory, i32 %byte, i64 %size) {
  ret ptr %memory
}
define win64cc void @PyErr_NoMemory() { unreachable }
define win64cc void @PyGILState_Ensure() { unreachable }
define win64cc void @PyGILState_Release() { unreachable }
define void @__chkstk() nounwind { ret void }
"""
"""Called as this system does, the loop of Windows; its memory comes zeroed from ours."""


@X86
@pytest.mark.skipif(sys.platform != "linux", reason="Windows' calls are made beside those of Linux")
@pytest.mark.parametrize("detours", [0, DETOURS])
@pytest.mark.parametrize("width", native.WIDTHS)
def test_code_for_windows_runs(monkeypatch, width, detours):
    """Its calling convention among our functions, with arrays dense and with strides."""
    own = native.host()
    windows = Target("x86_64-pc-windows-msvc-elf", own.cpu, own.features, width, own.fuses)
    source = mover("for Windows", detours)
    monkeypatch.setattr(native, "host", lambda: windows)
    code = native.emit_object_code(ir_of(monkeypatch, source), windows)
    monkeypatch.undo()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    builder.add_object_img(native.emit_object_code(WINDOWS_CALLS, own)).export_symbol("run")
    library = builder.link(native._linker(), f"windows {width} {detours}")
    loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(library["run"])
    for n, spread in itertools.product((1, 9, 70), (1, 2)):
        arrays = mover_inputs((n,))
        expected = moved(*arrays)
        wide = [np.zeros((*x.shape[:-1], spread * x.shape[-1])) for x in expected]
        out = [x[..., ::spread] for x in wide]
        every = [np.ascontiguousarray(x) for x in arrays] + out
        addresses = (ctypes.c_void_p * 9)(*(x.ctypes.data for x in every))
        sizes = (ctypes.c_ssize_t * 8)(n, 5, 2, 3, 37, 4, 117, 0)
        core = [s for x in every for s in x.strides[1:]]
        strides = (ctypes.c_ssize_t * (9 + len(core)))(*(x.strides[0] for x in every), *core)
        loop(addresses, sizes, strides, None)
        for found, right in zip(out, expected, strict=True):
            np.testing.assert_array_equal(found, right)
