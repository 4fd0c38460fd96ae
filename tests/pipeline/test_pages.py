"""The pages on evidence and the pipeline: their code prints what they say, totals mix no runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["evidence.md", "pipeline.md"])
def test_code_prints_what_the_page_says(page, tmp_path):
    text = (DOCS / page).read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    said = "".join(re.findall(r"```text\n(.*?)```", text, re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == said


def test_rates_of_faults_are_of_one_code_and_robots_of_one_half():
    rows = json.loads((DOCS / "faults.json").read_text("utf-8"))
    halves = {half: [x for x in rows if x["half"] == half] for half in ("looked", "judged")}
    for part in halves.values():
        assert len({x["code"] for x in part}) == 1
        assert len({x["seed"] for x in part}) == len(part)
    robots, others = ({x["robot"] for x in part} for part in halves.values())
    assert not robots & others
    # robots of which thresholds were chosen
    assert not {"ur5e", "planar_2r", "xarm7", "z1", "so101"} & (robots | others)
