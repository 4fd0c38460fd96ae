"""qddot: every term of M q̈ + C q̇ + g + τ_f = τ + Jᵀ F, and proof that they are right."""

from qddot.compile.threads import set_threads, threads
from qddot.errors import QddotError
from qddot.export import export_c
from qddot.loaders import robot_names
from qddot.robot import Robot, Terms, Wrench, load

__all__ = [
    "QddotError",
    "Robot",
    "Terms",
    "Wrench",
    "__version__",
    "export_c",
    "load",
    "robot_names",
    "set_threads",
    "threads",
]

__version__ = "0.1.0"
