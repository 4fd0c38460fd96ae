"""Write docs/api.md, docs/algorithms.md and the stub of a robot: `python docs/generate.py`.

They come from the catalogue, the docstrings and the text of the algorithms.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import qddot
from qddot.algorithms import (
    articulated_body,
    coriolis,
    energy,
    hybrid_dynamics,
    inverse_dynamics,
    inverse_kinematics,
    kinematics,
    mass_matrix,
    regressors,
)
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
from qddot.algorithms.kinematics import ReferenceAxes
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
    "simulate.contact",
    "simulate.drivetrain",
    "control",
    "identify",
    "adapt",
    "writers",
    "verify",
    "view",
    "so3",
)
CLASSES = ("simulate.contact", "simulate.drivetrain", "control")
"""Modules whose classes users make themselves."""
ABOUT_ALGORITHMS = """
    Equations beside the code that computes them. The code is that of the library, put here by
    `docs/generate.py`: one text that runs on floats, complex numbers, 50-digit numbers, CasADi
    symbols and, recorded once, as machine code.

    Symbols are those of Featherstone's *Rigid Body Dynamics Algorithms*: body i has parent λ(i),
    motion subspace S, spatial velocity V, acceleration A, force F and inertia I, all in
    coordinates of the body. In the equations X takes motions from parent to body, and Xᵀ forces
    back. In the code `X` is the pose of the body in its parent: `X.to_child` is that X for
    motions, `X.to_parent` that Xᵀ for forces. `S * v` is the motion of a joint, `S.project(F)`
    the force along its axes.
"""
ALGORITHMS = (
    (
        "Kinematics",
        "T_i = T_λ(i) T_joint(q_i),      T_i the pose of body i in the world\n"
        "V_i = X_i V_λ(i) + S_i q̇_i\n"
        "J = [ X S_1   X S_2   … ]  with X from each joint to the frame,      V_frame = J q̇",
        (kinematics.world_poses, kinematics.frame_jacobian),
    ),
    (
        "Inverse dynamics: recursive Newton–Euler (RNEA)",
        "V_i = X_i V_λ(i) + S_i q̇_i\n"
        "A_i = X_i A_λ(i) + S_i q̈_i + V_i × S_i q̇_i,      A_0 = −gravity\n"
        "F_i = I_i A_i + V_i ×* I_i V_i − f_ext,i + Σ_children Xᵀ F_child\n"
        "τ_i = S_iᵀ F_i",
        (inverse_dynamics.newton_euler,),
    ),
    (
        "Mass matrix: composite rigid bodies (CRBA)",
        "Iᶜ_i = I_i + Σ_children Xᵀ Iᶜ_child X\n"
        "M_ii = S_iᵀ Iᶜ_i S_i + armature\n"
        "M_ji = S_jᵀ (Xᵀ … Xᵀ Iᶜ_i S_i)  for every j before i",
        (mass_matrix.mass_matrix,),
    ),
    (
        "Forward dynamics: a solve at rest, by factors of M or by articulated bodies (ABA)",
        "M q̈ = τ − h: what a motion without acceleration needs comes off first (Newton–Euler);\n"
        "the rest accelerates a robot at rest without weight, inward along the tree:\n"
        "Iᴬ_i = I_i + Σ_children Xᵀ (Iᴬ − U D⁻¹ Uᵀ) X,      U = Iᴬ S,   D = Sᵀ U + armature\n"
        "q̈_i = D⁻¹ (u_i − Uᵀ A_λ(i)),      u_i = τ_i − Sᵀ p_i",
        (hybrid_dynamics.solve_accelerations, articulated_body.articulated_body),
    ),
    (
        "Coriolis matrix, Christoffel form",
        "C = Σ_i J_iᵀ (I_i J̇_i + B_i J_i),      C q̇ + g = h,      Ṁ − 2C skew",
        (coriolis.coriolis_matrix,),
    ),
    (
        "Energies",
        "T = ½ Σ V_iᵀ I_i V_i = ½ q̇ᵀ M q̇,      V = −Σ m_i gravityᵀ c_i",
        (energy.kinetic_energy, energy.potential_energy),
    ),
    (
        "Regressor",
        "τ = Y(q, q̇, q̈) π: the forward pass of Newton–Euler with unit parameters, ten a body",
        (regressors.torque_regressor,),
    ),
    (
        "Inverse kinematics: one step",
        "e = error of the frame\n"
        "Δ = Jᵀ (J Jᵀ + λ)⁻¹ e,   λ = ‖e‖² + a little\n"
        "q ← q ⊕ Δ within the limits",
        (inverse_kinematics.inverse_kinematics_step,),
    ),
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
        module = attrgetter(name)(qddot)
        about = (inspect.getdoc(module) or "").splitlines()[0]
        # the heading is what `import` takes; after `import qddot` the attribute is there too
        short = "" if module.__name__ == f"qddot.{name}" else f" As an attribute: `qddot.{name}`."
        lines += ["", f"## `{module.__name__}`", "", about + short, "", *TABLE]
        members = {n: getattr(module, n) for n in module.__all__}
        # results are shown where they are described; laws, effects and shapes are made by users
        made = inspect.isclass if name in CLASSES else lambda x: False
        lines += [_line(n, x) for n, x in members.items() if inspect.isfunction(x) or made(x)]
    return "\n".join(lines) + "\n"


def _public() -> list[str]:
    """Public names, loading first."""
    first = ["load", "robot_names", "Robot"]
    return [*first, *(n for n in qddot.__all__ if n not in first and not n.startswith("_"))]


def _line(name: str, member: Any) -> str:
    """A row: the call, and the whole docstring on one line."""
    doc = " ".join((inspect.getdoc(member) or "").split()).replace("|", "\\|")
    # a protocol is a list of methods, which nobody makes an object of
    if isinstance(member, property | cached_property) or getattr(member, "_is_protocol", False):
        return f"| `{name}` | {doc} |"
    return f"| `{name}({_arguments(member)})` | {doc} |"


def _arguments(member: Any, leave_out: Iterable[str] = ("self",)) -> str:
    """Arguments with their defaults."""
    if inspect.isclass(member) and issubclass(member, Exception):
        return "…"
    shown = []
    for p in inspect.signature(member).parameters.values():
        if p.name not in leave_out:
            text = str(p.replace(annotation=p.empty))
            # defaults without a text of their own: classes by name, other objects left out
            default = p.default.__name__ if inspect.isclass(p.default) else "…"
            shown.append(f"{p.name}={default}" if "=<" in text else text)
    return ", ".join(shown)


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


def algorithms_page() -> str:
    """The page of the algorithms: equations, then the text that computes them."""
    lines = ["# The algorithms", "", textwrap.dedent(ABOUT_ALGORITHMS).strip()]
    for title, equations, functions in ALGORITHMS:
        lines += ["", f"## {title}", "", textwrap.indent(equations, " " * 4)]
        for function in functions:
            file = Path(inspect.getfile(function)).relative_to(Path(qddot.__file__).parents[1])
            lines += ["", f"`{file.as_posix()}`", "", "```py"]
            lines += [inspect.getsource(function).rstrip(), "```"]
    return "\n".join(lines) + "\n"


PAGES = {PAGE: api_page, PAGE.with_name("algorithms.md"): algorithms_page}

if __name__ == "__main__":
    for page, write in PAGES.items():
        page.write_text(write(), encoding="utf-8")
    STUB.write_text(stub_text(), encoding="utf-8")
