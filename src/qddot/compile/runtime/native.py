"""From IR to object code, and from object code to functions in this process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

from qddot.errors import InvalidArgument

__all__ = ["WIDTHS", "Target", "emit_object_code", "host", "link", "llvm_version"]

WIDTHS = (16, 32, 64)
"""Bytes of the vector registers there are: SSE and NEON, AVX2, AVX-512."""
_LEVELS = {16: "x86-64-v2", 32: "x86-64-v3"}
"""x86 processors by the bytes of their widest registers: without and with AVX2 and FMA."""
_STACK_BYTES = 1 << 26
"""Stack of a thread that calls LLVM, which recurses through large functions."""
_WAIT = 0.1
"""Seconds of a wait for such a thread, after which signals are looked at."""
_starting = threading.Lock()
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Target:
    """A machine to compile for: triple, CPU, features, vector register, multiply-adds."""

    triple: str
    cpu: str
    features: str
    register_bytes: int
    fuses: bool


_loading = threading.RLock()


@cache
def _llvm() -> Any:
    with _loading:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    return llvm


@cache
def llvm_version() -> str:
    """Version of llvmlite, on which object code depends.

    It is imported under the lock that forks wait for: a child would wait for ever for a module
    that another thread of its parent was importing.
    """
    with _loading:
        import llvmlite

        return str(llvmlite.__version__)


_held = threading.local()


def _hold_locks() -> None:
    """Wait until no other thread loads or calls LLVM: a child could not wait for it."""
    _loading.acquire()
    ffi = sys.modules.get("llvmlite.binding.ffi")
    # each call of LLVM is made under a lock of llvmlite
    lock = getattr(getattr(getattr(ffi, "lib", None), "_lock", None), "_lock", None)
    _held.locks = [_loading, *([lock] if hasattr(lock, "acquire") else [])]
    for other in _held.locks[1:]:
        other.acquire()


def _release_locks() -> None:
    for lock in reversed(_held.locks):
        lock.release()


def _renew_property_locks() -> None:
    """Locks of cached properties, which Python has up to 3.11, one a property of a class."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "qddot":
            continue
        classes = [x for x in vars(module).values() if isinstance(x, type)]
        for value in (value for kind in classes for value in vars(kind).values()):
            if isinstance(value, cached_property) and hasattr(value, "lock"):
                value.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_locks, after_in_parent=_release_locks, after_in_child=_release_locks
    )
    if sys.version_info < (3, 12):
        os.register_at_fork(after_in_child=_renew_property_locks)


def host() -> Target:
    """This machine, or an older one of its kind: QDDOT_VECTOR_BYTES sets the bytes of a vector."""
    asked = os.environ.get("QDDOT_VECTOR_BYTES", "")
    if asked and asked not in map(str, WIDTHS):
        raise InvalidArgument("QDDOT_VECTOR_BYTES", asked, "it is 16, 32 or 64, or not set")
    return _make_target(int(asked or 0))


@cache
def _make_target(asked: int) -> Target:
    """This machine with vectors of the bytes asked for, or of its own for 0.

    Narrower vectors come with the instructions of processors that have no wider ones; vectors
    wider than the registers are split by LLVM.
    """
    # the widest registers of this processor
    llvm = _llvm()
    features = llvm.get_host_cpu_features()
    register = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    triple = llvm.get_process_triple()
    if triple.startswith("x86_64") and "windows" in triple:
        # LLVM's linker in memory finds no floating-point constants of COFF objects
        triple += "-elf"
    if asked and asked < register:
        return Target(triple, _LEVELS[asked], "", asked, fuses=asked == 32)
    flags = features.flatten() + (",-prefer-256-bit" if register == 64 else "")
    fuses = bool(features.get("fma")) or triple.startswith(("aarch64", "arm64"))
    return Target(triple, llvm.get_host_cpu_name(), flags, asked or register, fuses)


@cache
def _target_machine(target: Target) -> Any:
    llvm = _llvm()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


def _call_llvm(function: Callable[[], _Result]) -> _Result:
    """The result of a function that calls LLVM, in a thread of its own.

    That thread has a stack that is large enough, whatever the caller's is. An interrupt is seen by
    the caller at once; the call that runs is finished then, and its result dropped.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []
    # not the thread itself: Python 3.11 takes one whose join is interrupted for finished
    done = threading.Event()

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    # the size of stacks is a setting of the process
    with _starting:
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread = threading.Thread(target=run, name="qddot LLVM")
            thread.start()
        except RuntimeError:
            thread = None  # no more threads, or none any more at the end of the process
        finally:
            threading.stack_size(before)
    if thread is None:
        return function()
    # a signal that comes just before a wait is seen after it only, so waits are short
    while not done.wait(_WAIT):
        pass
    if errors:
        raise errors[0]
    return results[0]


def emit_object_code(ir: str, target: Target) -> bytes:
    """Object code of a module of IR."""

    def emit() -> bytes:
        module = _llvm().parse_assembly(ir)
        module.triple = target.triple
        module.verify()
        return _target_machine(target).emit_object(module)

    return _call_llvm(emit)


@cache
def _linker() -> Any:
    """LLVM's JITLink, which keeps all sections of an object in one block of memory.

    The other linker, RuntimeDyld, takes memory for each section by itself, and ends the process
    where code and constants come to lie more than 2 GiB apart.
    """
    return _llvm().create_lljit_compiler(_target_machine(host()), use_jit_link=True)


_inherited: list[Any] = []
"""Linkers of parent processes: held for good, since to end one takes locks of its threads."""


def _renew_after_fork() -> None:
    """A child process must not wait for locks that threads of its parent held."""
    global _starting
    _starting = threading.Lock()
    if _linker.cache_info().currsize:
        _inherited.append(_linker())
        _linker.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


def link(
    objects: Sequence[bytes], library: str, names: tuple[str, ...]
) -> tuple[Any, dict[str, int]]:
    """Link object code: a library that must live as long as its functions, and their addresses."""

    def load() -> tuple[Any, dict[str, int]]:
        builder = _llvm().JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        loaded = builder.link(_linker(), library)
        return loaded, {name: loaded[name] for name in names}

    return _call_llvm(load)
