"""Ellipsoids of what a robot can do, as data and as pictures."""

from qddot.analysis.ellipsoids.plot import KINDS, Kind, plot_ellipsoids, plot_joint_ellipsoids
from qddot.analysis.ellipsoids.shapes import (
    Bounds,
    Ellipsoid,
    acceleration_ellipsoid,
    force_ellipsoid,
    mass_ellipsoid,
    tool_acceleration_ellipsoid,
    torque_ellipsoid,
    velocity_ellipsoid,
)

__all__ = [
    "KINDS",
    "Bounds",
    "Ellipsoid",
    "Kind",
    "acceleration_ellipsoid",
    "force_ellipsoid",
    "mass_ellipsoid",
    "plot_ellipsoids",
    "plot_joint_ellipsoids",
    "tool_acceleration_ellipsoid",
    "torque_ellipsoid",
    "velocity_ellipsoid",
]
