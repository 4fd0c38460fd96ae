"""Write docs/api.md and the stub of the robot's methods: `python docs/generate.py`.

Both come from the catalogue and the docstrings.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import qddot
from qddot.algorithms.catalogue import CATALOGUE, Function
from qddot.robot.docstrings import method_docstring
from qddot.robot.methods import method_signature
from qddot.robot.robot import Robot

PAGE = Path(__file__).parent / "api.md"
STUB = Path(__file__).parents[1] / "src/qddot/robot/catalogue_methods.pyi"
STUB_HEAD = '''\
"""The methods of a robot, written from the catalogue by `docs/generate.py`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.constraints import Constraints
from qddot.algorithms.kinematics import Reference
from qddot.algorithms.task_space import Axes
from qddot.robot.wrenches import Wrench

__all__ = ["CatalogueMethods"]

class CatalogueMethods:
    """Every catalogue function as a method of a robot."""
'''
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
    "identify",
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
            bound = isinstance(member, classmethod)
            shown = f"Robot.{name}" if bound else name
            lines.append(_line(shown, getattr(Robot, name) if bound else member))
    for name in MODULES:
        module = getattr(qddot, name)
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


def stub_text() -> str:
    """The stub: a signature with types and the docstring of each method."""
    return STUB_HEAD + "".join(_stub_method(row) for row in CATALOGUE.values())


def _stub_method(row: Function) -> str:
    """A method in the stub, one argument a line."""
    lines, keywords_only = ["self"], False
    for p in list(method_signature(row).parameters.values())[1:]:
        if p.kind is p.KEYWORD_ONLY and not keywords_only:
            lines.append("*")
            keywords_only = True
        default = "" if p.default is p.empty else f" = {p.default!r}"
        lines.append(f"{p.name}: {_stub_type(row, p)}{default}")
    count = len(row.outputs)
    result = "np.ndarray" if count == 1 else f"tuple[{', '.join(['np.ndarray'] * count)}]"
    arguments = "".join(f"        {line},\n" for line in lines)
    doc = textwrap.indent(f'"""{method_docstring(row)}\n"""', " " * 8)
    return f"\n    def {row.name}(\n{arguments}    ) -> {result}:\n{doc}\n"


def _stub_type(row: Function, parameter: inspect.Parameter) -> str:
    """The type of an argument: an array, unless it is an option."""
    if parameter.name == "out":
        several = "tuple[np.ndarray | None, ...]"
        return f"{'np.ndarray' if len(row.outputs) == 1 else several} | None"
    if parameter.name == "f_ext":
        return "Wrench | Sequence[Wrench] | None"
    return "ArrayLike" if parameter.annotation is parameter.empty else str(parameter.annotation)


if __name__ == "__main__":
    PAGE.write_text(api_page(), encoding="utf-8")
    STUB.write_text(stub_text(), encoding="utf-8")
