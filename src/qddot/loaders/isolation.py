"""Tasks in a child process with limits, for work on files of strangers.

A task is a function named "module:function" with plain arguments; its result is plain data (JSON)
or bytes, and what a generator yields is passed on piece by piece. The child is a fresh interpreter
that imports neither the program that asks nor NumPy, so it costs about 0.1 s. A crash, a time-out,
a lack of memory or too much output is a DescriptionError. On Windows only time and output are
limited.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from qddot.errors import DescriptionError, MissingPackage, QddotError

__all__ = ["ChildLimits", "Enclosure", "run_isolated", "stream_isolated"]

_SCRIPT = Path(__file__).with_name("isolation_child.py")
_ENVIRONMENT = (
    "AMENT_PREFIX_PATH", "DYLD_LIBRARY_PATH", "GZ_SIM_RESOURCE_PATH", "HOME",
    "LD_LIBRARY_PATH", "ROS_PACKAGE_PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "USERPROFILE",
)  # fmt: skip
"""Variables that a child needs to find libraries and packages; it sees no others."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_MOST_MESSAGES = 64 * 2**10
_LONGEST_END = 2**20
"""Bytes of what a task that yields pieces returns."""
_MIB = 2**20


@dataclass(frozen=True)
class ChildLimits:
    """Bounds of a child: seconds, seconds of processor time, bytes of memory, output, files."""

    seconds: float = 15.0
    cpu_seconds: int = 10
    memory: int = 1024 * _MIB
    output: int = 64 * _MIB
    file_size: int = 0


@dataclass(frozen=True)
class Enclosure:
    """The folder that a child works in and alone may write into, and places that it may read.

    Linux sees to it (Landlock, from 5.13 on), for all that the child starts too. A child in an
    enclosure imports the whole package.
    """

    folder: Path
    readable: tuple[Path, ...]


def run_isolated(
    task: str,
    *arguments: Any,
    file: str | Path,
    limits: ChildLimits | None = None,
    environment: Mapping[str, str] | None = None,
    enclosure: Enclosure | None = None,
) -> Any:
    """The result of a task "module:function" that ran in a child process.

    `file` is what errors name. `environment` replaces the few variables that a child sees.
    """
    limits = limits or ChildLimits()
    answer, status, messages = _run_child(
        _request(task, arguments, limits, enclosure), limits, environment, file
    )
    if len(answer) > limits.output + 1:
        answer = b"o"
    return _result(answer, status, messages, limits, file)


def stream_isolated(
    task: str,
    *arguments: Any,
    file: str | Path,
    limits: ChildLimits | None = None,
    environment: Mapping[str, str] | None = None,
) -> Generator[bytes, None, Any]:
    """The bytes that a task yields in a child process, piece by piece; returns what it returns.

    The output is bounded for each piece. The child waits while a piece is used, and ends with the
    generator.
    """
    limits = limits or ChildLimits()
    child = _start_child(environment, file)
    assert child.stdout is not None
    messages, late = bytearray(), threading.Event()

    def end_late() -> None:
        late.set()
        _end_child(child)

    threads = [
        threading.Timer(limits.seconds, end_late),
        threading.Thread(
            target=_read_bounded, args=(child.stderr, messages, _MOST_MESSAGES, child)
        ),
        threading.Thread(
            target=_send_request, args=(child.stdin, _request(task, arguments, limits))
        ),
    ]
    try:
        for thread in threads:
            thread.daemon = True
            thread.start()
        with child.stdout:
            while (kind := child.stdout.read(1)) == b"p":
                size = int.from_bytes(child.stdout.read(8), "little")
                answer = child.stdout.read(size) if size <= limits.output else b""
                if len(answer) < size:
                    kind = b"" if answer else b"o"
                    break
                yield answer
            answer = kind + (child.stdout.read(_LONGEST_END) if kind not in b"op" else b"")
        child.wait()
    finally:
        threads[0].cancel()  # type: ignore[attr-defined]
        _end_child(child)
        threads[1].join()
    if late.is_set():
        raise DescriptionError(file, f"takes more than {limits.seconds:g} s to read")
    return _result(answer, child.returncode, bytes(messages), limits, file)


def _request(
    task: str,
    arguments: tuple[Any, ...],
    limits: ChildLimits,
    enclosure: Enclosure | None = None,
) -> bytes:
    """What a child reads: the task, and its limits."""
    request = {
        "task": task,
        "arguments": arguments,
        # an empty entry is the working folder, whose files are not to be imported
        "path": [entry for entry in sys.path if os.path.isabs(entry)],
        "seconds": limits.seconds,
        "cpu_seconds": limits.cpu_seconds,
        "memory": limits.memory,
        "output": limits.output,
        "file_size": limits.file_size,
        "folder": str(enclosure.folder) if enclosure else None,
        "readable": [str(path) for path in enclosure.readable] if enclosure else [],
    }
    return json.dumps(request).encode()


def _result(
    answer: bytes, status: int, messages: bytes, limits: ChildLimits, file: str | Path
) -> Any:
    """The result of a task from its answer, or the error that it ended with."""
    kind, content = answer[:1], answer[1:]
    if kind == b"o":
        raise DescriptionError(file, f"gives more than {limits.output / _MIB:.3g} MiB of output")
    if status != 0 or not answer:
        raise DescriptionError(file, _failure_reason(status, limits, messages))
    if kind == b"b":
        return content
    if kind == b"m":
        raise DescriptionError(file, f"needs more than {limits.memory / _MIB:.4g} MiB of memory")
    try:
        plain = json.loads(content)
        if kind == b"j":
            return plain
        name, text, fields = plain["class"], plain["text"], plain["fields"]
        failure: QddotError = DescriptionError(file, f"{name}: {text}")
        if name == "DescriptionError":
            place, reason = fields["file"], fields["reason"]
            failure = DescriptionError(place, reason, fields["element"], fields["line"])
        elif name == "MissingPackage":
            failure = MissingPackage(fields["package"], fields["feature"], fields["install"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DescriptionError(file, "its reader gave an answer that makes no sense") from error
    raise failure


def _run_child(
    request: bytes,
    limits: ChildLimits,
    environment: Mapping[str, str] | None,
    file: str | Path,
) -> tuple[bytes, int, bytes]:
    """The answer of a child, its exit status, and what it printed."""
    child = _start_child(environment, file)
    answer, messages = bytearray(), bytearray()
    tasks: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (_read_bounded, (child.stdout, answer, limits.output + 1, child)),
        (_read_bounded, (child.stderr, messages, _MOST_MESSAGES, child)),
        (_send_request, (child.stdin, request)),
    ]
    threads = [threading.Thread(target=run, args=given, daemon=True) for run, given in tasks]
    deadline = time.monotonic() + limits.seconds
    try:
        for thread in threads:
            thread.start()
        # its output ends with the child, which is seen sooner than its end
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise DescriptionError(file, f"takes more than {limits.seconds:g} s to read") from error
    finally:
        _end_child(child)
    return bytes(answer), child.returncode, bytes(messages)


def _start_child(
    environment: Mapping[str, str] | None, file: str | Path
) -> subprocess.Popen[bytes]:
    """A fresh interpreter that waits for its request."""
    if environment is None:
        environment = {k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | _ONE_THREAD
    options = ["-I", "-S", "-X", "utf8", *(["-B"] if sys.dont_write_bytecode else [])]
    try:
        # a session of its own: an interrupt comes here, and its children end with it
        return subprocess.Popen(
            [sys.executable, *options, str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, TypeError, ValueError) as error:
        reason = f"cannot be read in a process of its own: {error}"
        raise DescriptionError(file, reason) from error


def _send_request(stream: IO[bytes], request: bytes) -> None:
    """Send a request; a child that ended before it read it says so by its exit status."""
    with contextlib.suppress(OSError), stream:
        stream.write(request)


def _read_bounded(
    stream: IO[bytes], piece: bytearray, most: int, child: subprocess.Popen[bytes]
) -> None:
    """Fill a piece from a stream; a child that writes more is killed."""
    with contextlib.suppress(OSError, ValueError), stream:
        while part := os.read(stream.fileno(), 2**16):
            piece += part
            if len(piece) > most:
                _end_child(child)
                return


def _end_child(child: subprocess.Popen[bytes]) -> None:
    """End a child and, where there are process groups, whatever it started."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
    child.wait()


def _failure_reason(status: int, limits: ChildLimits, messages: bytes) -> str:
    """Why a child gave no answer."""
    if status == -getattr(signal, "SIGXCPU", 0):
        return f"takes more than {limits.cpu_seconds} s of processor time to read"
    if len(messages) > _MOST_MESSAGES:
        return "makes its reader print without end"
    try:
        name = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
    except ValueError:
        name = f"exit code {status}"
    lines = [x for x in messages.decode("utf-8", "replace").splitlines() if x.strip()]
    last = "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""
    return f"crashes its reader ({name}{': ' if last else ''}{last})"
