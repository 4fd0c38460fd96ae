"""Sizing: the torques that a robot needs over its workspace, and the payload that it can carry."""

from qddot.sizing.motion import Breakdown, breakdown
from qddot.sizing.plot import plot
from qddot.sizing.result import (
    GEAR_RATIOS,
    MARGIN,
    SPEED_CLASSES,
    JointInertia,
    JointSizing,
    Sizing,
    SpeedClass,
    Worst,
)
from qddot.sizing.run import size

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
