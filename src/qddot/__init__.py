"""qddot: every term of M q̈ + C q̇ + g + τ_f = τ + Jᵀ F, and proof that they are right."""

import importlib
from typing import TYPE_CHECKING, Any

from qddot.compile.runtime.threads import set_threads, threads
from qddot.errors import QddotError
from qddot.loaders import robot_names
from qddot.model.dh import DHRow
from qddot.model.specs import FrameSpec, LinkSpec
from qddot.robot.robot import Robot, Terms, Wrench, load

if TYPE_CHECKING:
    from qddot.analysis.inverse_kinematics import inverse_kinematics
    from qddot.export.export_c import export_c

__all__ = [
    "DHRow",
    "FrameSpec",
    "LinkSpec",
    "QddotError",
    "Robot",
    "Terms",
    "Wrench",
    "__version__",
    "export_c",
    "inverse_kinematics",
    "load",
    "robot_names",
    "set_threads",
    "threads",
]

__version__ = "0.1.0"

_FUNCTIONS = {
    "export_c": "export.export_c",
    "inverse_kinematics": "analysis.inverse_kinematics",
}
_MODULES = {
    "adapt": "engines",
    "control": "control",
    "view": "view",
    "engines": "engines",
    "identify": "identify",
    "simulate": "simulate",
    "so3": "spatial.so3",
    "verify": "verify",
    "writers": "writers",
    **{
        name: f"analysis.{name}"
        for name in (
            "balance",
            "constraints",
            "ellipsoids",
            "lagrange",
            "linearise",
            "port_hamiltonian",
            "sizing",
            "task_space",
            "trajectory",
        )
    },
}


def __getattr__(name: str) -> Any:
    """Import a module such as `qddot.simulate`, or a function, when it is first used."""
    if name in _MODULES:
        return importlib.import_module(f"qddot.{_MODULES[name]}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f"qddot.{_FUNCTIONS[name]}"), name)
    raise AttributeError(f"module 'qddot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS, *_MODULES})
