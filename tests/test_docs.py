"""The documentation runs: README blocks, and the API page is what the catalogue says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_readme_python_runs_from_top_to_bottom(tmp_path):
    code = "\n".join(blocks("python"))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert "(1000, 7, 7)" in result.stdout


def test_readme_commands_run(tmp_path):
    commands = [line.split("#")[0].split() for line in "".join(blocks("sh")).splitlines() if line]
    assert commands
    for command in commands:
        assert command[0] == "qddot"
        result = subprocess.run(
            [sys.executable, "-c", "from qddot.cli import main; main()", *command[1:]],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr


def test_api_page_is_current():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from generate import PAGE, api_page
    finally:
        sys.path.pop(0)
    assert PAGE.read_text() == api_page(), "run python docs/generate.py"


def test_settings_are_documented():
    sources = (ROOT / "src" / "qddot").rglob("*.py")
    named = {x for file in sources for x in re.findall(r"QDDOT_[A-Z_]+", file.read_text("utf-8"))}
    assert named
    assert named == set(
        re.findall(r"QDDOT_[A-Z_]+", (ROOT / "docs" / "machines.md").read_text("utf-8"))
    )


def test_no_registry_or_machine_path_is_named():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    for name in listed.stdout.split():
        text = (
            (ROOT / name).read_bytes().decode("utf-8", "ignore") if (ROOT / name).is_file() else ""
        )
        assert not re.search(r"(?<![\w.])/(work|root|home)/\w", text), name


PAGES = ["start", "view", "inverse-kinematics", "door-controls", "door-research", "door-learning"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_run_from_top_to_bottom(page, tmp_path):
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    assert code
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr


def test_the_site_has_every_page_and_every_picture():
    listed = set(re.findall(r"([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M))
    assert listed == {file.name for file in (ROOT / "docs").glob("*.md")}
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        named = re.findall(r"(?:\]\(|src=\")([\w/.-]+\.(?:png|gif))", file.read_text("utf-8"))
        assert all((file.parent / name).is_file() for name in named), file


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("[0-9]*.py"))


@pytest.mark.parametrize("script", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run_and_are_those_of_their_scripts(script, tmp_path):
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    # the notebook has the code of the script, with what it shows
    cells = json.loads(script.with_suffix(".ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    text = script.read_text("utf-8")
    assert all(part in text for part in code)
    assert len(code) == len(re.findall(r"^# %%$", text, re.M))
    assert any(cell.get("outputs") for cell in cells)
