"""The examples run as a newcomer runs them, one after the other."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


def test_examples_are_numbered():
    assert [file.name[:2] for file in EXAMPLES] == [f"{k + 1:02d}" for k in range(len(EXAMPLES))]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs_and_says_something(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QDDOT_NATIVE")
    runpy.run_path(str(file), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 90
