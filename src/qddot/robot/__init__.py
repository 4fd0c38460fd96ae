"""Robot: a model with its catalogue functions as methods; the public face."""

from qddot.robot.robot import Robot, Terms, Wrench, load

__all__ = ["Robot", "Terms", "Wrench", "load"]
