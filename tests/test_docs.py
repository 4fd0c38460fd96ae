"""The documentation runs: README blocks, and the API page is what the catalogue says."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


sys.path.insert(0, str(ROOT / "docs"))
import outputs  # noqa: E402  the program that writes the pages is the one that tests them

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")


@pytest.fixture(autouse=True)
def _native(monkeypatch):
    """Pages run as their readers run them."""
    monkeypatch.delenv("QDDOT_NATIVE")


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text("utf-8"), re.S)


def run_python(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of a page from top to bottom, in this process and an empty folder."""
    monkeypatch.chdir(folder)
    exec(compile(code, "a page", "exec"), {"__name__": "__main__"})


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def test_readme_runs_from_top_to_bottom_and_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown_lines = 0
    for language, code, shown, printed in outputs.run_page(text_of("README.md"), whole=True):
        lines = [line.strip() for line in shown.splitlines() if line != "…"]
        # frames of tables are left out in the page: rows have other strokes there
        rows = [line.strip().replace("┃", "│") for line in printed.splitlines()]
        assert all(line in rows for line in lines), (language, code, printed)
        shown_lines += len(lines)
    assert shown_lines > 10


@pytest.mark.parametrize("page", outputs.PAGES, ids=lambda page: page.stem)
def test_tutorials_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, code, shown, printed in outputs.run_page(page.read_text("utf-8")):
        # words are the same, numbers to two digits, what is zero to rounding is zero
        assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed).split(), code
        pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
        assert all(float(a) == pytest.approx(float(b), rel=0.02, abs=1e-7) for a, b in pairs), code


def test_api_page_is_current():
    import generate

    for page, write in generate.PAGES.items():
        assert page.read_text("utf-8") == write(), "run python docs/generate.py"


def test_modules_on_the_api_page_can_be_imported():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    named = re.findall(r"^## `([\w.]+)`$", page, re.MULTILINE)
    assert len(named) > 10
    for name in named:
        assert importlib.import_module(name).__name__ == name


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


PAGES = ["start", "view", "inverse-kinematics"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    code = "\n".join(blocks("python", f"docs/{page}.md"))
    assert code
    run_python(code, tmp_path, monkeypatch)


def test_the_site_has_every_page_and_every_picture():
    listed = set(re.findall(r"([\w/-]+\.md)$", text_of("mkdocs.yml"), re.M))
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert listed == {file.relative_to(ROOT / "docs").as_posix() for file in pages}
    for file in [ROOT / "README.md", *pages]:
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
