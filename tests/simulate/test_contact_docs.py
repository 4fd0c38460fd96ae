"""The code of docs/contact.md runs, and its table shows what it prints."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.robot.robot import Robot

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "contact.md").read_text(encoding="utf-8")


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


def test_the_table_beside_mujoco_is_what_its_program_found():
    program = runpy.run_path(str(DOCS / "contact.py"))
    kept = json.loads((DOCS / "contact.json").read_text(encoding="utf-8"))
    assert set(kept) == set(program["CASES"])
    _, table = PAGE.split(program["MARK"])
    assert table.strip().splitlines() == program["rows"](kept)


def test_the_program_measures_what_it_kept():
    """The cases that take no time, once more: a tool that slides, and ratios of masses."""
    program = runpy.run_path(str(DOCS / "contact.py"))
    kept = json.loads((DOCS / "contact.json").read_text(encoding="utf-8"))
    for name in ("tool", "mass ratios"):
        found = program["CASES"][name]()
        # ours to what the page shows
        assert found["qddot"] == pytest.approx(kept[name]["qddot"], abs=1e-4)
    least, most, lost = kept["tool"]["qddot"][:3]
    assert (least, most, lost) == pytest.approx((5.0, 5.0, 0.0), abs=1e-6)
    assert kept["tool"]["MuJoCo"][2] > 5.0


_load = qddot.load
