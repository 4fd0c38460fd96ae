"""Sizing: the torques that a robot needs over its workspace, and the payload that it can carry.

The stages are modules: `problem` checks the arguments, `survey` evaluates random states, `refine`
maximises from the worst of them, `result` holds the answer; `run` calls them in this order.
"""

from qddot.analysis.sizing.plot import plot
from qddot.analysis.sizing.result import (
    GEAR_RATIOS,
    MARGIN,
    SPEED_CLASSES,
    JointInertia,
    JointSizing,
    Sizing,
    SpeedClass,
    Worst,
)
from qddot.analysis.sizing.run import size
from qddot.analysis.sizing.torque_terms import Breakdown, breakdown

__all__ = [
    "GEAR_RATIOS",
    "MARGIN",
    "SPEED_CLASSES",
    "Breakdown",
    "JointInertia",
    "JointSizing",
    "Sizing",
    "SpeedClass",
    "Worst",
    "breakdown",
    "plot",
    "size",
]
