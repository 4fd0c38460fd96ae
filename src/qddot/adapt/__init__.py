"""Adapters: a robot's states, forces and matrices in the conventions of other engines, and back."""

from qddot.adapt.adapter import Adapter
from qddot.adapt.drake import drake
from qddot.adapt.mujoco import full_mass_matrix, mass_matrix_reader, mujoco
from qddot.adapt.pinocchio import pinocchio
from qddot.adapt.twin import twin

__all__ = [
    "Adapter",
    "drake",
    "full_mass_matrix",
    "mass_matrix_reader",
    "mujoco",
    "pinocchio",
    "twin",
]
