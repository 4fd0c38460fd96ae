"""The code of docs/contact.md runs, and its table shows what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.robot.robot import Robot

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "contact.md").read_text()


def shown(text: str) -> list[float]:
    """The numbers of a table that the solver's tolerance does not make up: forces and ratios."""
    numbers = map(float, re.findall(r"-?\d+\.\d{3,4}\b", text))
    return [number for number in numbers if abs(number) > 0.05]


def test_the_page_runs(monkeypatch, capsys):
    monkeypatch.setattr(qddot, "load", lambda name: Robot(_load(name).model, native=True))
    scope: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(block, scope)
    (table,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    assert shown(capsys.readouterr().out) == pytest.approx(shown(table), abs=0.02)
    assert scope["soft"].status.label == "ok"


_load = qddot.load
