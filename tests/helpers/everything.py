"""A robot with every kind of joint, coupling, loop and drivetrain."""

from __future__ import annotations

from random_models import Part, build

from qddot.model.model import WORLD
from qddot.robot.robot import Robot


def everything_robot() -> Robot:
    """One robot with every joint type and a coupling."""
    return Robot(
        build(
            [
                Part("free", WORLD, False, False, False, None),
                Part("revolute", 0, True, False, True, None),
                Part("universal", 1, False, False, True, None),
                Part("ball", 2, False, False, True, None),
                Part("helical", 0, False, False, False, 1),
                Part("planar", 4, True, False, False, None),
                Part("prismatic", 5, False, False, True, None),
                Part("fixed", 6, False, False, False, None),
                Part("continuous", 7, False, False, False, None),
            ],
            11,
        )
    )
