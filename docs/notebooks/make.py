"""Write the notebooks, with outputs, from the scripts beside: `python docs/notebooks/make.py`.

A cell begins with `# %%`, one of text with `# %% [markdown]`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def read_cells(text: str) -> list[nbformat.NotebookNode]:
    """Cells of a script."""
    cells = []
    for head, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", text, re.M):
        if "markdown" in head:
            lines = [
                line.removeprefix("# ").removeprefix("#") for line in body.strip().splitlines()
            ]
            cells.append(nbformat.v4.new_markdown_cell("\n".join(lines)))
        else:
            cells.append(nbformat.v4.new_code_cell(body.strip()))
    for k, cell in enumerate(cells):
        cell["id"] = f"cell{k}"
    return cells


def make_notebook(script: Path) -> None:
    """Run a script as a notebook and keep what it shows."""
    notebook = nbformat.v4.new_notebook(cells=read_cells(script.read_text("utf-8")))
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    for script in sorted(FOLDER.glob("[0-9]*.py")):
        print(script.stem, file=sys.stderr)
        make_notebook(script)
