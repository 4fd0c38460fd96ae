"""Run the code of the start page and the tutorials; write what it prints and draws into them.

`python docs/outputs.py` does all of them, `python docs/outputs.py NAME…` some. A block of text
below a block of code is what that code printed; pictures that the code saved go to docs/images.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
PAGES = [FOLDER / "start.md", *sorted((FOLDER / "tutorials").glob("*.md"))]
_BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n?```text\n(.*?)```\n)?", re.S)
_WIDTH = "110"
_MOST_LINES = 20


def run_page(text: str, whole: bool = False) -> Iterator[tuple[str, str, str, str]]:
    """Language, code, output that the page has, and output of a run, of each block of a page.

    Output of many lines is cut unless the `whole` is wanted.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    for language, code, expected in _BLOCK.findall(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if language == "python":
                exec(compile(code, "a page", "exec"), names)
            else:
                run_commands(code)
        lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
        if len(lines) > _MOST_LINES and not whole:
            lines = [*lines[: _MOST_LINES - 1], "…"]
        yield language, code, expected, "".join(f"{line}\n" for line in lines)


def run_commands(code: str) -> None:
    """The commands of a block, one a line, in this process; each must end with exit code 0."""
    from qddot.cli import app

    os.environ["COLUMNS"] = _WIDTH
    for line in code.splitlines():
        command = line.split("#")[0].split()
        if not command:
            continue
        if command[0] != "qddot":
            raise ValueError(f"not a command of qddot: {line}")
        try:
            ended = app(command[1:], standalone_mode=False)
        except SystemExit as end:
            ended = end.code
        if ended not in (0, None):
            raise RuntimeError(f"{line}: exit code {ended}")


def write_outputs(page: Path) -> None:
    """Run a page and put what it prints and draws in its place."""
    text = page.read_text("utf-8")
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            blocks = iter(list(run_page(text)))
        finally:
            os.chdir(here)
        for name in re.findall(r"\]\(\.\./images/([\w.-]+)\)", text):
            if (Path(folder) / name).is_file():
                shutil.copy(Path(folder) / name, FOLDER / "images" / name)

    def fill(_: re.Match[str]) -> str:
        language, code, _, printed = next(blocks)
        shown = f"\n```text\n{printed}```\n" if printed else ""
        return f"```{language}\n{code}```\n{shown}"

    page.write_text(_BLOCK.sub(fill, text), "utf-8")


if __name__ == "__main__":
    for page in PAGES:
        if len(sys.argv) == 1 or page.stem in sys.argv[1:]:
            print(page.stem)
            write_outputs(page)
