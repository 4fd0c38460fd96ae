"""From IR to object code, and from object code to functions in this process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

__all__ = ["Target", "assemble", "host", "link"]


@dataclass(frozen=True)
class Target:
    """What code is made for: triple, CPU, features, bytes of a vector register, multiply-adds."""

    triple: str
    cpu: str
    features: str
    register_bytes: int
    fuses: bool


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def host() -> Target:
    """This machine."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features()
    register = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    flags = features.flatten() + (",-prefer-256-bit" if register == 64 else "")
    fuses = bool(features.get("fma") or features.get("neon"))
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), flags, register, fuses)


@cache
def _machine(target: Target) -> Any:
    llvm = _llvm()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


def assemble(ir: str, target: Target) -> bytes:
    """Object code of a module of IR."""
    module = _llvm().parse_assembly(ir)
    module.triple = target.triple
    module.verify()
    return _machine(target).emit_object(module)


@cache
def _linker() -> Any:
    return _llvm().create_lljit_compiler(_machine(host()))


def link(code: bytes, library: str, names: tuple[str, ...]) -> tuple[Any, dict[str, int]]:
    """Load object code; what it returns first must live as long as the addresses are used."""
    builder = _llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in names:
        builder.export_symbol(name)
    loaded = builder.link(_linker(), library)
    return loaded, {name: loaded[name] for name in names}
