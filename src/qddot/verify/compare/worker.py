"""One engine in a process of its own: its model of a file, and its values at random states.

The process writes what it finds as it goes, so that something is left if the engine ends it.
"""

from __future__ import annotations

import contextlib
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

from qddot.errors import QddotError
from qddot.loaders.description import Base, to_model
from qddot.model.model import WORLD, Model
from qddot.robot.robot import Robot
from qddot.verify.compare.align import align, locked_coordinates
from qddot.verify.compare.engines import ENGINES, CannotOpen, format_message
from qddot.verify.compare.sources import ComparisonSource
from qddot.verify.invariants import random_states

__all__ = ["EngineResult", "Request", "ask_engine", "main"]

_PROGRAM = "import sys; from qddot.verify.compare.worker import main; main(*sys.argv[1:])"


@dataclass(frozen=True)
class Request:
    """A request to an engine: a file, and random states of a reference model."""

    engine: str
    source: ComparisonSource
    base: Base
    exact: Model
    free: Model
    states: int
    seed: int


@dataclass
class EngineResult:
    """The result of an engine: its model of a file with and without couplings, and its values.

    `failure` says why there is no model, or why values are missing.
    """

    exact: Model | None = None
    free: Model | None = None
    notes: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


def ask_engine(request: Request, timeout: float) -> EngineResult:
    """The result of an engine, also when its process crashes or runs out of time."""
    title, found = ENGINES[request.engine].title, EngineResult()
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
            code, errors = done.returncode, done.stderr
        except subprocess.TimeoutExpired:
            code, errors = 0, b""
            found.failure = f"{title} was stopped after {timeout:g} s"
        # the pairs that the process has written, up to where it stopped
        with answer.open("rb") as stream, contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                name, value = pickle.load(stream)
                if name in ("exact", "free", "notes", "failure"):
                    setattr(found, name, value)
                else:
                    found.values[name] = value
    if code and not found.failure:
        ending = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        found.failure = f"{title} ended its process ({ending})"
        lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
        if lines:
            found.failure += f": {format_message(lines[-1])}"
    return found


def main(question: str, answer: str) -> None:
    """Answer a request from one file into another."""
    request: Request = pickle.loads(Path(question).read_bytes())
    with Path(answer).open("wb") as stream:
        for pair in _answer_request(request):
            pickle.dump(pair, stream)
            stream.flush()


def _answer_request(request: Request) -> Iterator[tuple[str, Any]]:
    """The models of an engine, then its values at random states, by name."""
    engine = ENGINES[request.engine]
    free = request.base == "free"
    if request.source.format == "sdf":
        free = any(b.parent == WORLD and b.joint.kind.floats for b in request.exact.bodies)
    try:
        opened = engine.open(request.source, request.base, free)
        yield "notes", opened.notes
        models = [to_model(opened.description, None, c, False) for c in ("exact", "free")]
    except (CannotOpen, QddotError) as error:
        yield "failure", str(error)
        return
    yield "exact", models[0]
    yield "free", models[1]
    model = models[1]
    alignment = align(request.exact, request.free, model)
    robot = Robot(alignment.a, native=False)
    if not robot.nv:
        return
    at, twin = random_states(robot, request.states, request.seed), alignment.adapter()
    # the adapter of the engine's model, joints that only it has held as in the alignment
    held = locked_coordinates(model, alignment.only_b, request.exact)
    start = [x for b in model.independent for x in held.get(b.joint.name, b.joint.kind.neutral)]
    whole = engine.adapter(Robot(model, native=False), opened.model, check=False)
    adapter = engine.adapter(
        Robot(alignment.b, native=False), opened.model, partial=True, check=False
    )
    layout = dataclasses.replace(adapter.layout, neutral=whole.to_q(start))
    adapter = dataclasses.replace(adapter, layout=layout)
    q, v = twin.to_q(at.q), twin.to_v(at.q, at.v)
    yield from engine.values(opened.model, adapter, q, v, twin.to_tau(at.q, at.a))
