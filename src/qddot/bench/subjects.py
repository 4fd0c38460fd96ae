"""Subjects of the benchmark: its robots, any other robot by name, and random chains."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from qddot.errors import MissingPackage
from qddot.loaders.description import Base
from qddot.loaders.named_robots import named_files
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import Link
from qddot.robot.robot import Robot, load
from qddot.spatial.algebra import Inertia, Transform, Vec3, rotation_from_quaternion

__all__ = ["SUITE", "Subject", "bare_urdf", "chain", "find_subject"]

Kind = Literal["arm", "quadruped", "humanoid", "robot"]

SUITE: dict[str, tuple[str, str, Base, Kind]] = {
    "ur5": ("UR5", "ur_description/urdf/ur5_robot.urdf", None, "arm"),
    "panda": ("Panda", "panda_description/urdf/panda.urdf", None, "arm"),
    "anymal": ("ANYmal C", "anymal_c_simple_description/urdf/anymal.urdf", "free", "quadruped"),
    "talos": ("Talos", "talos_data/robots/talos_reduced.urdf", "free", "humanoid"),
    "g1": ("G1", "g1_description/urdf/g1_29dof_rev_1_0.urdf", "free", "humanoid"),
}
"""The robots of the benchmark: title, file in example-robot-data, base, kind."""

_SHAPES = ("visual", "collision")
_EXTRAS = ("transmission", "gazebo", "mujoco", "ros2_control")
_DRIVES = ("dynamics", "mimic", "safety_controller", "calibration")


@dataclass(frozen=True)
class Subject:
    """A robot that is measured, and the file from which other engines load it."""

    title: str
    kind: Kind
    robot: Robot
    file: Path | None
    base: Base

    @property
    def free(self) -> bool:
        """Whether its root moves freely."""
        return self.base == "free"


def find_subject(name: str) -> Subject:
    """A robot of the benchmark, or any other by file or name, with mimic joints independent."""
    if name.lower() in SUITE:
        title, path, base, kind = SUITE[name.lower()]
        # the folder of example-robot-data
        folders = (folder for file in named_files().values() for folder in file.parents)
        found = (x for x in folders if x.parts[-2:] == ("example-robot-data", "robots"))
        folder = next(found, None)
        if folder is None:
            raise MissingPackage("example-robot-data", "the benchmark's robots")
        file: Path | None = folder / path
    else:
        title, base, kind = name, None, "robot"
        file = Path(name) if Path(name).is_file() else named_files().get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = load(file or name, base, "free")
    return Subject(title, kind, robot, file, base)


def bare_urdf(file: Path) -> str:
    """The text of a URDF without shapes, drives and extras: mass, joints and nothing else."""
    root = ET.parse(file).getroot()
    for parent, names in ((root, _EXTRAS), *((x, _SHAPES + _DRIVES) for x in root)):
        for child in [c for c in parent if c.tag in names]:
            parent.remove(child)
    return ET.tostring(root, encoding="unicode")


def chain(joints: int, seed: int = 0) -> Robot:
    """A chain of revolute joints with random axes, placements and inertias."""
    rng = np.random.default_rng(seed)
    links = []
    for i in range(joints):
        axis, turn = rng.normal(size=3), rng.normal(size=4)
        joint = Joint(f"j{i}", JOINTS["revolute"], (Vec3(*(axis / np.linalg.norm(axis)).tolist()),))
        R = rotation_from_quaternion(*(turn / np.linalg.norm(turn)).tolist())
        placement = Transform(R, Vec3(*rng.uniform(-0.5, 0.5, 3).tolist()))
        parent = f"b{i - 1}" if i else None
        # the inertia of five random points
        total, identity = Inertia.zero(), Transform.identity().R
        for mass, *point in rng.uniform(0.05, 0.35, (5, 4)).tolist():
            at = Transform(identity, Vec3(*point))
            total = total + at.to_parent(Inertia(mass, Vec3.zero(), Inertia.zero().I))
        links.append(Link(f"b{i}", parent, placement, joint, total))
    return Robot(assemble(f"chain of {joints}", links))
