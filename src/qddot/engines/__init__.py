"""Adapters: a robot's states, forces and matrices in the conventions of other engines, and back."""

from qddot.engines.adapter import Adapter
from qddot.engines.drake import drake
from qddot.engines.mujoco import full_mass_matrix, mass_matrix_reader, mujoco
from qddot.engines.pinocchio import pinocchio
from qddot.engines.twin import twin

__all__ = [
    "Adapter",
    "drake",
    "full_mass_matrix",
    "mass_matrix_reader",
    "mujoco",
    "pinocchio",
    "twin",
]
