"""Robots and states at which rollouts begin."""

from __future__ import annotations

import dataclasses

import numpy as np
from native_cases import cold_cache  # noqa: F401
from random_models import Part, build

from qddot.control import PD
from qddot.model.joints import Drivetrain
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.simulate.drivetrain import (
    Backlash,
    Delay,
    DifferencedVelocity,
    Friction,
    Gear,
    Latency,
    LuGre,
    ModelLosses,
    Noise,
    Quantisation,
    coulomb,
    stribeck,
)

IMPLICIT = ("backward_euler", "implicit_midpoint", "variational")


def tree(*kinds: str) -> Robot:
    """A chain of these joints."""
    parts = [
        Part(kind, k - 1 if k else WORLD, True, False, False, None) for k, kind in enumerate(kinds)
    ]
    return Robot(build(parts, 7))


def undamped(robot: Robot) -> Robot:
    """The robot without losses at its joints."""
    bodies = tuple(
        dataclasses.replace(b, joint=dataclasses.replace(b.joint, drivetrain=Drivetrain()))
        for b in robot.model.bodies
    )
    return Robot(dataclasses.replace(robot.model, bodies=bodies))


def start(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return robot.random(rng), rng.normal(size=robot.nv)


def parts(robot: Robot) -> dict:
    """Effects, sensors and a law with states, for a flexible robot with motors."""
    return {
        "effects": (
            Delay(3),
            Gear(2.0, 0.8, motor=(Delay({"joint2.motor": 2}), LuGre(coulomb(0.1, 0.01), 1e3, 1.0))),
            ModelLosses(),
            Backlash(0.02),
            Friction(stribeck(0.4, 0.2, 0.05, 0.1)),
        ),
        "sensors": (
            Noise(1e-3, 1e-2, seed=np.arange(3)),
            Quantisation(1e-4),
            DifferencedVelocity(200.0),
            Latency(2),
        ),
        "feedback": PD(np.array([[5.0], [8.0], [3.0]]) * np.ones(robot.nv), 0.2),
    }
