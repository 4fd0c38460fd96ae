"""Write docs/api.md from the catalogue and the docstrings: `python docs/generate.py`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.robot import Robot

PAGE = Path(__file__).parent / "api.md"
MODULES = (
    "constraints",
    "task_space",
    "ellipsoids",
    "balance",
    "linearise",
    "lagrange",
    "port_hamiltonian",
    "trajectory",
    "sizing",
    "simulate",
    "adapt",
    "writers",
)
TABLE = ["| call | what it is |", "| --- | --- |"]


def api_page() -> str:
    """The page: one line a function."""
    lines = [
        "# API",
        "",
        "Written from the catalogue and the docstrings by `docs/generate.py`.",
        "",
        "## The package",
        "",
        *TABLE,
        *(_line(f"qddot.{name}", getattr(qddot, name)) for name in _public()),
        "",
        "## Functions of a robot",
        "",
        "Sizes: nq coordinates, nv velocities,",
        "nb bodies, nf frames, np = 10 nb inertial parameters, nw external wrenches, nt axes of a",
        "task, nc rows of constraints. Each function is a method of `Robot`, takes any leading",
        "batch axes, writes into your array by `out=`, and is a CasADi function by",
        "`robot.casadi(name)`.",
        "",
        "| call | shapes | what it is |",
        "| --- | --- | --- |",
    ]
    for name, row in CATALOGUE.items():
        shown = _arguments(getattr(Robot, name), leave_out=("self", "out"))
        lines.append(f"| `{name}({shown})` | `{row.signature}` | {row.doc} |")
    lines += ["", "## The rest of a robot", "", *TABLE]
    for name, member in vars(Robot).items():
        if not name.startswith("_") and name not in CATALOGUE:
            lines.append(_line(name, member))
    for name in MODULES:
        module = importlib.import_module(f"qddot.{name}")
        about = (inspect.getdoc(module) or "").splitlines()[0]
        lines += ["", f"## `qddot.{name}`", "", about, "", *TABLE]
        members = {n: getattr(module, n) for n in module.__all__}
        lines += [_line(n, x) for n, x in members.items() if inspect.isfunction(x)]
    return "\n".join(lines) + "\n"


def _public() -> list[str]:
    """Public names, loading first."""
    first = ["load", "robot_names", "Robot"]
    return [*first, *(n for n in qddot.__all__ if n not in first and not n.startswith("_"))]


def _line(name: str, member: Any) -> str:
    """A row: the call, and the whole docstring on one line."""
    doc = " ".join((inspect.getdoc(member) or "").split()).replace("|", "\\|")
    if isinstance(member, property | cached_property):
        return f"| `{name}` | {doc} |"
    return f"| `{name}({_arguments(member)})` | {doc} |"


def _arguments(member: Any, leave_out: Iterable[str] = ("self",)) -> str:
    """Arguments with their defaults."""
    if inspect.isclass(member) and issubclass(member, Exception):
        return "…"
    return ", ".join(
        str(p.replace(annotation=p.empty))
        for p in inspect.signature(member).parameters.values()
        if p.name not in leave_out
    )


if __name__ == "__main__":
    PAGE.write_text(api_page())
