"""Logs for tests of identification: of virtual robots, and real ones beside the repository."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import qddot
from qddot import identify
from qddot.identify import Log, Shaft
from qddot.robot.robot import Robot

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
STANDARD = ("armature", "viscous", "coulomb", "offset")
WRIST = Shaft("motor6", {"joint_5": 1.0, "joint_6": 1.0})


@lru_cache
def native(name: str) -> Robot:
    """A robot by name or file, compiled."""
    return Robot(qddot.load(name).model, native=True)


def require(*parts: str) -> Path:
    """A file of the shared data, or the test is skipped with a printed reason."""
    file = DATA.joinpath(*parts)
    if not file.exists():
        pytest.skip(f"no {file.name}: ../shared/data is not beside the repository")
    return file


@lru_cache
def tx40() -> tuple[Robot, Log]:
    """The Stäubli TX40 and its log, from the motors' side of the gears."""
    folder = require("staubli_tx40", "pos_read_data.csv").parent
    robot = native(str(folder / "tx40_mdh_modified.urdf"))
    gear = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    gear[5, 4] = 32.0
    log = identify.read(
        {"q": folder / "pos_read_data.csv", "tau": folder / "curr_data.csv"},
        robot,
        columns={"q": "Joint_{i}", "tau": "Joint_{i}"},
        units={"q": "motor rad", "tau": "motor N m"},
        gear=gear,
        offset=[0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0],
        rate=5000.0,
    )
    return robot, log


@lru_cache
def ur10() -> tuple[Robot, Log]:
    """The UR10 and its log, a rosbag2 database."""
    pytest.importorskip("rosbags")
    robot = native("ur10_robot")
    return robot, identify.read(require("ur10_unisa", "ur10_exciting_trajectory.db3"), robot)


@lru_cache
def virtual(name: str = "planar_2r", seed: int = 0, **options: float) -> tuple[Robot, Robot, Log]:
    """Description, truth and log of a virtual robot along a random motion."""
    robot = native(name)
    truth = identify.perturb_robot(robot, 0.15, seed)
    rng = np.random.default_rng(seed)
    box = identify.motion_limits(robot, velocity=1.5)
    bounds = (box.lower, box.upper, box.velocity, box.acceleration)
    motion = identify.random_motion(robot.joint_names, 10.0, 5, *bounds, rng)
    settings = {"duration": 20.0, "rate": 200.0, "noise": 0.005, "seed": seed, **options}
    return robot, truth, identify.virtual_log(truth, motion, **settings)
