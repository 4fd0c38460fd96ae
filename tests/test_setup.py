"""Set-up on other systems: one test command everywhere, and oracles that have no wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_every_machine_runs_the_command_of_the_readme():
    assert re.search(r"^    make test\b", text("README.md"), re.M)
    assert re.search(r"^make test$", text(".ci/run"), re.M)
    assert re.search(r"run: make test\b", text(".github/workflows/test.yml"))


def test_the_workflow_and_nox_have_the_same_versions():
    pattern = r'"(3\.\d+)"'
    (listed,) = re.findall(r"python: \[(.*)\]", text(".github/workflows/test.yml"))
    (by_hand,) = re.findall(r"PYTHONS = \[(.*)\]", text("noxfile.py"))
    versions = re.findall(pattern, listed)
    assert versions == re.findall(pattern, by_hand)
    assert f'requires-python = ">={versions[0]}"' in text("pyproject.toml")


@pytest.mark.parametrize("file", ["Makefile", "noxfile.py"])
def test_the_native_core_runs_for_every_width(file):
    assert "native_core" in text(file)
    assert all(re.search(rf"\b{width}\b", text(file)) for width in (16, 32, 64))


def test_the_native_core_is_in_the_folder_that_the_widths_run():
    files = set((ROOT / "tests").rglob("test_*.py")) - {Path(__file__).resolve()}
    marked = {f for f in files if "mark.native_core" in f.read_text(encoding="utf-8")}
    assert {f.relative_to(ROOT).parts[:-1] for f in marked} == {("tests", "compile")}


@pytest.mark.parametrize(
    ("marker", "outcome", "code"),
    [
        ("sys_platform == 'nowhere'", "pin has no wheels for this system", 5),
        ("sys_platform != 'nowhere'", "No module named 'pinocchio", 2),
    ],
)
def test_a_missing_oracle_is_skipped_only_where_it_has_no_wheels(tmp_path, marker, outcome, code):
    """In a folder with a file that needs an oracle, and a record of what is to be installed."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text("import pinocchio.nowhere\n\ndef test_it(): pass\n")
    record = tmp_path / "qddot-0.dist-info" / "METADATA"
    record.parent.mkdir()
    needs = f"Requires-Dist: pin; ({marker}) and extra == 'oracles'"
    record.write_text(f"Metadata-Version: 2.1\nName: qddot\nVersion: 0\n{needs}\n")
    # of the packages on the path only the oracle is hidden
    hidden = (
        "import importlib.util as u; f = u.find_spec; import sys; sys.modules['pinocchio'] = None"
    )
    hidden += "; u.find_spec = lambda n, *a: None if n == 'pinocchio' else f(n, *a)"
    run = subprocess.run(
        [sys.executable, "-c", f"{hidden}; import pytest; sys.exit(pytest.main(['-rs', '.']))"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert outcome in run.stdout
    assert run.returncode == code
