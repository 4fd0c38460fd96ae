"""Files and logs of virtual hardware that are right, and the change of one thing in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from qddot.errors import QddotError
from qddot.loaders.load import locate_source
from qddot.loaders.locate import resolve_uri
from qddot.pipeline.context import BANDWIDTH, PipelineSettings
from qddot.pipeline.virtual import (
    DELAY,
    ENCODER,
    TORQUE_NOISE,
    VELOCITY_NOISE,
    VirtualHardware,
    VirtualLog,
    fourier_motion,
    holding_torques,
)
from qddot.robot.robot import Robot, load
from qddot.writers import convert

__all__ = [
    "FRICTION",
    "PERIOD",
    "SPEED",
    "Fault",
    "SignalChange",
    "clean_case",
    "make_log_fault",
    "write_file",
    "write_log",
]

_SECONDS, PERIOD, SPEED = 12.0, 6.0, 1.5
"""Length of a log, period of its motion, and its largest speed (s, s, rad/s or m/s)."""
_UNSURE = 0.03
"""Share by which the bodies of a robot differ from a file that is right."""
FRICTION = 0.05
"""Friction of the joints as a share of the torque that holds them, in the file and on the robot."""
_POSES = 100
"""Random poses at which holding torques are computed."""
_ASTRAY = 5.0
"""Times the speed of the motion from which the virtual hardware does not follow it."""
_COARSE = 64
"""Steps of a fine encoder in one of a coarse encoder, which every third seed has."""
SignalChange = Callable[[Robot, VirtualLog], VirtualLog]
"""Signals in the place of those that were measured."""


@dataclass(frozen=True)
class Fault:
    """A case for the pipeline: what was done, the steps that should see it, causes to be named.

    A case without a fault has no steps and no causes: nothing should fail.
    """

    kind: str
    detail: str
    source: str
    settings: PipelineSettings
    steps: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()


def write_file(folder: Path, name: str, friction: bool = True) -> tuple[Path, Robot]:
    """A robot as a URDF file of its own whose joints have friction, and the robot in it.

    Meshes keep their places.
    """
    source = locate_source(name)
    file = folder / f"{source.stem}.urdf"
    if source.suffix == ".xml":
        convert(source, file, force=True)
    tree = ElementTree.parse(file if source.suffix == ".xml" else source)
    robot = load(file if source.suffix == ".xml" else source)
    for mesh in tree.iter("mesh"):
        try:
            mesh.set("filename", str(resolve_uri(mesh.get("filename", ""), source.parent)))
        except QddotError:
            continue
    friction_torques = FRICTION * holding_torques(robot, _POSES)
    for joint_name, torque in zip(robot.joint_names, friction_torques, strict=True):
        joint = tree.find(f"joint[@name='{joint_name}']")
        assert joint is not None
        for old in joint.findall("dynamics"):
            joint.remove(old)
        text = f"{torque if friction else 0.0:.6g}"
        ElementTree.SubElement(joint, "dynamics", damping=text, friction=text)
    tree.write(file)
    return file, load(file)


def write_log(file: Path, robot: Robot, seed: int, change: SignalChange | None = None) -> Path:
    """A log of a periodic motion of virtual hardware like a robot; `change` gives other signals.

    Bodies differ by a few per cent from those of the robot, as they do in reality.
    """
    rng = np.random.default_rng([seed, 11])
    shares = 1.0 + _UNSURE * rng.uniform(-1.0, 1.0, (robot.model.nb, 1))
    truth = robot.with_parameters(robot.inertial_parameters * shares)
    hardware = VirtualHardware(
        truth=truth,
        delay=DELAY,
        resolution=ENCODER * (1 if seed % 3 else _COARSE),
        noise=(VELOCITY_NOISE, TORQUE_NOISE * holding_torques(robot, _POSES)),
        seed=seed,
    )
    motion = fourier_motion(robot, seed, PERIOD, speed=SPEED)
    still = np.ptp(motion(np.linspace(0.0, PERIOD, 100))[0], axis=0) == 0.0
    if still.any():
        names = ", ".join(np.array(robot.joint_names)[still])
        raise QddotError(f"the limits of {names} leave no room for a motion")
    q0, v0, _ = motion(0.0)
    law = hardware.controller(robot, motion, BANDWIDTH)
    found = hardware.run(law, q0, v0, _SECONDS, every=2)
    if not np.abs(found.v).max() < _ASTRAY * SPEED:
        raise QddotError(f"{robot.name!r} does not follow its motion: no log of a robot at work")
    found = found if change is None else change(truth, found)
    kinds = ("position", "velocity", "effort")
    heads = ["time", *(f"{kind}_{n}" for kind in kinds for n in robot.joint_names)]
    table = np.column_stack([found.time, found.q, found.v, found.tau])
    np.savetxt(file, table, "%.9g", ",", header=",".join(heads), comments="")
    return file


def clean_case(folder: Path, name: str, seed: int, log: bool = True) -> Fault:
    """A right file, with a log of a robot that is like it."""
    if not log:
        return Fault("none", f"{name}, virtual hardware", name, PipelineSettings(seed=seed))
    file, robot = write_file(folder, name)
    settings = PipelineSettings(log=write_log(folder / "log.csv", robot, seed), seed=seed)
    return Fault("none", f"{Path(name).stem}, log {seed}", str(file), settings)


def make_log_fault(
    folder: Path, name: str, seed: int, detail: str, change: SignalChange
) -> dict[str, Any]:
    """A right file with a log of which a change was made."""
    file, robot = write_file(folder, name)
    log = write_log(folder / "log.csv", robot, seed, change)
    return {"detail": detail, "source": file, "settings": PipelineSettings(log=log, seed=seed)}
