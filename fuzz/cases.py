"""The cases of a run: each follows from the seed of the run and its own number."""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np

import qddot
from fuzz.calls import call_hostile
from fuzz.evidence import genuine_record, use_record
from fuzz.functions import call_function
from fuzz.log_mutations import mutate_log
from fuzz.logs import use_log, write_logs
from fuzz.mutate import mutate_bytes, mutate_structure
from fuzz.records import mutate_record
from qddot.algorithms.catalogue import function
from qddot.errors import QddotError
from qddot.loaders.named_robots import named_files
from qddot.robot import Robot

__all__ = ["KINDS", "kind_of", "run_case", "write_case"]

KINDS = ("bytes", "structure", "structure", "calls", "logs", "logs", "records", "functions")
"""What a case does: changes bytes or elements of a description, makes a hostile call, changes a log
or saved motion, changes a record, or records a function of a user."""
_CALLS = {"calls": call_hostile, "functions": call_function}
_LARGEST_SEED = 40_000
_MOST_BODIES = 40
_FUNCTIONS = ("mass_matrix", "bias", "gravity", "forward_dynamics", "kinetic_energy", "body_poses")


@lru_cache(maxsize=1)
def seeds() -> list[Path]:
    """Files that are mutated: this folder's, the built-in robots', some of example-robot-data."""
    own = sorted((Path(__file__).parent / "seeds").iterdir())
    named = sorted(f for f in named_files().values() if f.stat().st_size < _LARGEST_SEED)
    # those of this folder have more features in fewer bytes
    return own * 8 + named


@lru_cache(maxsize=1)
def logs() -> list[tuple[str, bytes]]:
    """Logs and saved motions that are mutated, by name."""
    with tempfile.TemporaryDirectory() as folder:
        return [(file.name, file.read_bytes()) for file in write_logs(Path(folder))]


def _random(seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{number}")


def kind_of(seed: int, number: int) -> str:
    """The kind of a case, one of `KINDS`."""
    return _random(seed, number).choice(KINDS)


def write_case(seed: int, number: int, folder: Path) -> Path | None:
    """The file of a case; None where a case is a call."""
    rng = _random(seed, number)
    kind = rng.choice(KINDS)
    if kind in _CALLS:
        return None
    if kind == "logs":
        name, content = rng.choice(logs())
        file = folder / f"case{Path(name).suffix}"
        mutate_log(file, content, rng)
        return file
    if kind == "records":
        file = folder / "case.mcap"
        file.write_bytes(mutate_record(genuine_record(), rng))
        return file
    source = rng.choice(seeds())
    mutate = mutate_bytes if kind == "bytes" else mutate_structure
    file = folder / f"case{source.suffix}"
    file.write_bytes(mutate(source.read_bytes(), rng))
    return file


def run_case(seed: int, number: int, folder: Path) -> str:
    """Run a case: "accepted", or the class of the error of the library that refused it.

    Any other exception is a finding, and left to the caller.
    """
    file = write_case(seed, number, folder)
    rng = random.Random(f"{seed}/{number}/use")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if file is None:
            _CALLS[kind_of(seed, number)](_random(seed, number))
            return "called"
        try:
            _USES.get(kind_of(seed, number), _use)(file, rng)
        except QddotError as error:
            str(error).encode()
            return type(error).__name__
    return "accepted"


_USES = {"logs": use_log, "records": use_record}


def _use(file: Path, rng: random.Random) -> None:
    """Load a file, ask for facts, evaluate functions, and now and then write, audit, compile."""
    base = rng.choice((None, None, "fixed", "free"))
    robot = qddot.load(file, base, rng.choice(("exact", "exact", "free")))
    repr(robot)
    facts = (robot.health, robot.configurations, robot.inertial_parameters, robot.frame_names)
    repr(facts)
    if robot.model.nb > _MOST_BODIES:
        return
    robot = Robot(robot.model, native=rng.random() < 0.01)
    q, v = rng.choice((robot.neutral(), robot.random(1))), np.ones(robot.nv)
    for name in _FUNCTIONS:
        inputs = {"q": q, "v": v, "tau": v, "a": v}
        row = function(name)
        try:
            robot.call(name, *(inputs[a.name] for a in row.inputs if a.name != "f_ext"))
        except QddotError:
            continue
    if rng.random() < 0.05:
        _read_further(file, rng)


def _read_further(file: Path, rng: random.Random) -> None:
    """The other readers of description files."""
    from qddot.verify.audit import audit
    from qddot.writers import convert

    if rng.random() < 0.5:
        audit(file)
    else:
        suffix = rng.choice((".urdf", ".xml"))
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            convert(file, Path(folder) / f"converted{suffix}")
