"""One engine in a process of its own: what it makes of a file, and what it computes there.

The process writes what it finds as it goes, so that something is left if the engine ends it.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qddot.adapt import Adapter
from qddot.errors import QddotError
from qddot.loaders.description import Base, to_model
from qddot.model import WORLD, Model
from qddot.robot import Robot
from qddot.verify.compare.align import Alignment, align, held_at
from qddot.verify.compare.engines import ENGINES, CannotOpen, Engine, said
from qddot.verify.compare.sources import Source
from qddot.verify.invariants import sample

__all__ = ["Finding", "Request", "ask", "main"]

_PROGRAM = "import sys; from qddot.verify.compare.worker import main; main(*sys.argv[1:])"


@dataclass(frozen=True)
class Request:
    """What is asked of an engine: a file, and values at random states of a reference model."""

    engine: str
    source: Source
    base: Base
    exact: Model
    free: Model
    states: int
    seed: int


@dataclass
class Finding:
    """What an engine made of a file: its model with and without couplings, and its values.

    `failure` says why there is no model, or why values are missing.
    """

    exact: Model | None = None
    free: Model | None = None
    notes: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


def ask(request: Request, timeout: float) -> Finding:
    """An engine's finding, whatever becomes of its process."""
    title, found = ENGINES[request.engine].title, Finding()
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "question", Path(folder) / "answer"
        question.write_bytes(pickle.dumps(request))
        answer.touch()
        command = [sys.executable, "-c", _PROGRAM, str(question), str(answer)]
        paths = os.pathsep.join(str(Path(p).resolve()) for p in sys.path)
        environment = {**os.environ, "QDDOT_NATIVE": "0", "PYTHONPATH": paths}
        try:
            # in the folder, where logs that an engine leaves behind go with it
            done = subprocess.run(
                command, capture_output=True, timeout=timeout, env=environment, cwd=folder
            )
            code, heard = done.returncode, done.stderr
        except subprocess.TimeoutExpired:
            code, heard = 0, b""
            found.failure = f"{title} was stopped after {timeout:g} s"
        for name, value in _read(answer):
            if name in ("exact", "free", "notes", "failure"):
                setattr(found, name, value)
            else:
                found.values[name] = value
    if code and not found.failure:
        found.failure = f"{title} ended its process ({_ending(code)})" + _last_line(heard)
    return found


def _read(file: Path) -> Iterator[tuple[str, Any]]:
    """The pairs that a process has written, up to where it stopped."""
    with file.open("rb") as stream:
        while True:
            try:
                yield pickle.load(stream)
            except (EOFError, pickle.UnpicklingError):
                return


def _ending(code: int) -> str:
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _last_line(heard: bytes) -> str:
    lines = [line for line in heard.decode(errors="replace").splitlines() if line.strip()]
    return f": {said(lines[-1])}" if lines else ""


def main(question: str, answer: str) -> None:
    """Answer a request from one file into another."""
    request: Request = pickle.loads(Path(question).read_bytes())
    with Path(answer).open("wb") as stream:
        for pair in _answers(request):
            pickle.dump(pair, stream)
            stream.flush()


def _answers(request: Request) -> Iterator[tuple[str, Any]]:
    engine = ENGINES[request.engine]
    free = request.base == "free"
    if request.source.format == "sdf":
        free = any(b.parent == WORLD and b.joint.kind.name == "free" for b in request.exact.bodies)
    try:
        opened = engine.open(request.source, request.base, free)
        yield "notes", opened.notes
        models = [to_model(opened.description, None, c, False) for c in ("exact", "free")]
    except (CannotOpen, QddotError) as error:
        yield "failure", str(error)
        return
    yield "exact", models[0]
    yield "free", models[1]
    alignment = align(request.exact, request.free, models[1])
    robot = Robot(alignment.a, native=False)
    if not robot.nv:
        return
    at, twin = sample(robot, request.states, request.seed), alignment.adapter()
    adapter = _with_joints_held(request, engine, opened.model, models[1], alignment)
    q, v = twin.to_q(at.q), twin.to_v(at.q, at.v)
    yield from engine.values(opened.model, adapter, q, v, twin.to_tau(at.q, at.a))


def _with_joints_held(
    request: Request, engine: Engine, there: Any, whole: Model, alignment: Alignment
) -> Adapter:
    """The adapter of the engine's model, joints that only it has held as in the alignment."""
    held = held_at(whole, alignment.only_b, request.exact)
    q = [x for b in whole.independent for x in held.get(b.joint.name, b.joint.kind.neutral)]
    neutral = engine.adapter(Robot(whole, native=False), there, check=False).to_q(q)
    adapter = engine.adapter(Robot(alignment.b, native=False), there, partial=True, check=False)
    return dataclasses.replace(adapter, layout=dataclasses.replace(adapter.layout, neutral=neutral))
