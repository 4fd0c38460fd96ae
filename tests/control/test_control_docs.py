"""The page on control runs from top to bottom, and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "control.md"


def test_the_page_runs(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "QDDOT_NATIVE": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for line in re.findall(r"^    (\(Event.*)$", text, re.M):
        assert line in result.stdout
