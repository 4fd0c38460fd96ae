"""Types and help of the methods of a robot: the stub is current, and a user's script is checked."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.robot.docstrings import INPUTS, OPTIONS, OUTPUTS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(qddot.__file__).parent

SCRIPT = """\
import numpy as np
import qddot

robot = qddot.load("panda")
q = robot.random(0, 10)
M: np.ndarray = robot.mass_matrix(q)
a, lam = robot.constrained_dynamics(q, 0.0 * q, 0.0 * q)
J = robot.frame_jacobian(q, "panda_hand", "world", out=np.empty((10, 6, 7)))
tau = robot.inverse_dynamics(q, q, q, qddot.Wrench("panda_hand", "world", [0.0] * 6))
"""
WRONG = {
    "robot.typo(q)": 'has no attribute "typo"',
    "robot.mass_matrix()": 'Missing positional argument "q"',
    "robot.mass_matrix(q, friction=True)": 'Unexpected keyword argument "friction"',
    'robot.frame_jacobian(q, "panda_hand", "elsewhere")': "incompatible type",
    "text: str = robot.gravity(q)": "Incompatible types in assignment",
}


@pytest.fixture
def generate(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import generate

    return generate


def test_the_stub_is_what_the_catalogue_says(generate):
    assert generate.STUB.read_text(encoding="utf-8") == generate.stub_text()


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_mypy_checks_a_script(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "".join(f"{line}\n" for line in WRONG))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent",
         "--cache-dir", str(tmp_path / "cache"), "--config-file=", str(script)],
        capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    first = SCRIPT.count("\n") + 1
    assert len(errors) == len(WRONG), done.stdout
    for number, (error, message) in enumerate(zip(errors, WRONG.values(), strict=True), first):
        assert f"script.py:{number}:" in error
        assert message in error


@pytest.mark.parametrize("name", CATALOGUE)
def test_help_names_arguments_and_results(name):
    """Every argument of the signature in its order, and every result, each once."""
    method = getattr(qddot.Robot, name)
    doc = inspect.getdoc(method)
    described, returned = doc.split("Args:\n")[1].split("\n\nReturns:\n")
    arguments = [line.strip().partition(":")[0] for line in described.splitlines()]
    assert arguments == list(inspect.signature(method).parameters)[1:]
    results = [line.strip().partition(":")[0] for line in returned.splitlines()]
    assert results == [output.name for output in CATALOGUE[name].outputs]


def test_no_description_is_unused():
    rows = CATALOGUE.values()
    assert set(INPUTS) == {a.name for row in rows for a in row.inputs} - {"f_ext"}
    options = {o.name for row in rows for o in row.options}
    assert set(OPTIONS) == options - {"forces"} | {"f_ext"}
    names = {o.name for row in rows for o in row.outputs}
    assert {key.rpartition(": ")[2] for key in OUTPUTS} == names
