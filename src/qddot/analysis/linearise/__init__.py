"""Linear models about a state, equilibria, modes of vibration, linear-quadratic regulators."""

from qddot.analysis.linearise.mechanics import Equilibrium, equilibrium, linearise, natural_modes
from qddot.analysis.linearise.modes import Modes
from qddot.analysis.linearise.system import Directions, LinearModel, Lqr

__all__ = [
    "Directions",
    "Equilibrium",
    "LinearModel",
    "Lqr",
    "Modes",
    "equilibrium",
    "linearise",
    "natural_modes",
]
