"""See a robot: in the browser, as pictures, as animations."""

from qddot.view.geometry import Part, RobotGeometry, robot_geometry
from qddot.view.pictures import animate_motion, plot_motion, plot_robot

__all__ = [
    "Part",
    "RobotGeometry",
    "animate_motion",
    "plot_motion",
    "plot_robot",
    "robot_geometry",
]
