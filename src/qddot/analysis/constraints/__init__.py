"""Robots with loops and contacts: which constraints count, configurations that meet them, dynamics.

Everything here is of a Robot and a list of constraints, `Loop` and `Contact`; without one, of the
loops of its model. The functions that compile (`robot.constraint_residual`, `constraint_jacobian`,
`constrained_dynamics`, `impact`) are in `qddot.algorithms.constraints`, with the equations of each
kind. Where a nearest solution is meant, distances are those of the mass matrix.
"""

from qddot.analysis.constraints.dynamics import (
    Actuation,
    forward_dynamics,
    impact,
    inverse_dynamics,
)
from qddot.analysis.constraints.projection import (
    assemble,
    consistent_acceleration,
    consistent_velocity,
    hold,
    project,
)
from qddot.analysis.constraints.rank import Rank, analyse, independent, mark_redundant, with_loops
from qddot.analysis.constraints.reduction import ReducedDynamics, reduce, reduced_forward_dynamics
from qddot.model.links import Contact, Loop

__all__ = [
    "Actuation",
    "Contact",
    "Loop",
    "Rank",
    "ReducedDynamics",
    "analyse",
    "assemble",
    "consistent_acceleration",
    "consistent_velocity",
    "forward_dynamics",
    "hold",
    "impact",
    "independent",
    "inverse_dynamics",
    "mark_redundant",
    "project",
    "reduce",
    "reduced_forward_dynamics",
    "with_loops",
]
