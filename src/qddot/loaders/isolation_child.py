"""The far side of `isolation`: a script that limits its own process, runs one task, and answers.

It is started by path, so that neither the program that asks nor the package itself is imported:
NumPy and LLVM would cost more than most tasks. The answer is a letter and plain data, never pickle;
before it come the pieces of a task that yields bytes, each with its size.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Generator
from types import GeneratorType, ModuleType
from typing import Any, BinaryIO

__all__ = ["main"]

_PACKAGES = ("qddot", "qddot.loaders")
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys", "/dev", "/nix/store")
"""Where programs of the system are, and what they read of it."""
_EXECUTE_READ_LIST, _WRITE, _OF_FILES = 0b1101, 0b10, 0b1100000000000111
"""Rights of Landlock: to run, read and list; to write; all those that a file can have."""
_LONGEST = 4000
"""Letters of an error that are answered."""


def main() -> None:
    """Read a request from standard input, run its task, write the answer to standard output."""
    request = json.loads(sys.stdin.buffer.read())
    # what libraries print must not reach the answer
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = request["path"]
    # bound memory, processor time, time and core dumps; there is no such thing on Windows
    try:
        import resource
    except ImportError:
        pass
    else:
        _set_limit(resource.RLIMIT_CORE, 0)
        _set_limit(resource.RLIMIT_AS, request["memory"])
        # SIGXCPU at the first, SIGKILL at the second
        _set_limit(resource.RLIMIT_CPU, request["cpu_seconds"], spare=1)
        # a child whose parent was killed ends too
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 5)
    if request["folder"]:
        os.chdir(request["folder"])
        _enclose(request["folder"], request["readable"])
    with os.fdopen(answer, "wb") as stream:
        kind, content = _run_task(request, stream)
        if len(content) > request["output"]:
            kind, content = b"o", b""
        stream.write(kind + content)
        stream.flush()
    # no destructor of a library may spoil an answer that is given
    os._exit(0)


def _set_limit(which: int, value: int, spare: int = 0) -> None:
    """Lower a limit of the process; one that the system or the user set lower stays."""
    import resource

    soft, hard = (value if x == resource.RLIM_INFINITY else x for x in resource.getrlimit(which))
    with contextlib.suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(which, (min(value, soft, hard), min(value, hard) + spare))


def _enclose(folder: str, readable: list[str]) -> None:
    """Keep this process and its children from other files and from connections, on Linux.

    By Landlock: the numbers are those of linux/landlock.h, the same on all processors.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    version = system.syscall(444, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return
    # rights on files, TCP, other processes, as far as the system knows them
    rights = 2 ** {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16) - 1
    handled = (ctypes.c_uint64 * 3)(rights, 0b11, 0b11)
    size = ctypes.c_size_t(8 if version < 4 else 16 if version < 6 else 24)
    rules = system.syscall(444, handled, size, 0)
    look = _EXECUTE_READ_LIST
    places = [(path, look) for path in (*_SYSTEM, *readable)]
    for path, allowed in (*places, (folder, rights), (os.devnull, _WRITE | look)):
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed &= rights if os.path.isdir(path) else _OF_FILES
        rule = allowed.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        system.syscall(445, rules, 1, ctypes.c_char_p(rule), 0)
        os.close(place)
    # PR_SET_NO_NEW_PRIVS, without which no process may restrict itself
    system.prctl(38, 1, 0, 0, 0)
    if system.syscall(446, rules, 0) != 0:
        raise OSError(ctypes.get_errno(), "the process cannot be enclosed")
    os.close(rules)


def _run_task(request: dict[str, Any], stream: BinaryIO) -> tuple[bytes, bytes]:
    """The letter and the content of the answer, after the pieces of a generator."""
    try:
        # parents without their __init__: a task imports only the modules that it names
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        module, _, function = request["task"].partition(":")
        parents = filter(None, (*_PACKAGES, module.rpartition(".")[0]))
        for name in () if request["folder"] else parents:
            package = ModuleType(name)
            package.__path__ = [os.path.join(root, *name.split("."))]
            sys.modules.setdefault(name, package)
        task = getattr(importlib.import_module(module), function)
        # bound files from here on; imports before it may have stored their bytecode
        with contextlib.suppress(ImportError):
            import resource

            _set_limit(resource.RLIMIT_FSIZE, request["file_size"])
        result = task(*request["arguments"])
        if isinstance(result, GeneratorType):
            result = _write_pieces(result, stream)
        if isinstance(result, bytes):
            return b"b", result
        return b"j", json.dumps(result).encode()
    except MemoryError:
        return b"m", b""
    except Exception as error:
        # as plain data: its class, its text, and the fields of errors of descriptions
        fields = {k: v for k, v in vars(error).items() if isinstance(v, str | int | None)}
        short = {k: v[:_LONGEST] if isinstance(v, str) else v for k, v in fields.items()}
        plain = {"class": type(error).__name__, "text": str(error)[:_LONGEST], "fields": short}
        return b"e", json.dumps(plain).encode()


def _write_pieces(pieces: Generator[bytes, None, Any], stream: BinaryIO) -> Any:
    """Write each piece with its size; returns what the generator returns."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            return end.value
        stream.write(b"p" + len(piece).to_bytes(8, "little") + piece)
        stream.flush()


if __name__ == "__main__":
    main()
