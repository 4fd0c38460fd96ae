"""Write docs/api.md from the catalogue: `python docs/generate.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

from qddot.algorithms.catalogue import CATALOGUE
from qddot.robot import Robot

PAGE = Path(__file__).parent / "api.md"


def api_page() -> str:
    """The page: one line a function."""
    lines = [
        "# Functions of a robot",
        "",
        "Written from the catalogue by `docs/generate.py`. Sizes: nq coordinates, nv velocities,",
        "nb bodies, nf frames, np = 10 nb inertial parameters, nw external wrenches. Each function",
        "is a method of `Robot`, takes any leading batch axes, writes into your array by `out=`,",
        "and is a CasADi function by `robot.casadi(name)`.",
        "",
        "| call | shapes | what it is |",
        "| --- | --- | --- |",
    ]
    for name, row in CATALOGUE.items():
        parameters = inspect.signature(getattr(Robot, name)).parameters.values()
        shown = [
            p.name if p.default is p.empty else f"{p.name}={p.default}"
            for p in parameters
            if p.name not in ("self", "out")
        ]
        lines.append(f"| `{name}({', '.join(shown)})` | `{row.signature}` | {row.doc} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(api_page())
