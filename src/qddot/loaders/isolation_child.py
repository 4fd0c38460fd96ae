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


def _run_task(request: dict[str, Any], stream: BinaryIO) -> tuple[bytes, bytes]:
    """The letter and the content of the answer, after the pieces of a generator."""
    try:
        # parents without their __init__: a task imports only the modules that it names
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        module, _, function = request["task"].partition(":")
        for name in filter(None, (*_PACKAGES, module.rpartition(".")[0])):
            package = ModuleType(name)
            package.__path__ = [os.path.join(root, *name.split("."))]
            sys.modules.setdefault(name, package)
        task = getattr(importlib.import_module(module), function)
        # no file may grow from here on; imports before it may have stored their bytecode
        with contextlib.suppress(ImportError):
            import resource

            _set_limit(resource.RLIMIT_FSIZE, 0)
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
