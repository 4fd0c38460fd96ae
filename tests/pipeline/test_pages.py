"""The pages on evidence and the pipeline: their code runs and prints what they say."""

from __future__ import annotations

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
