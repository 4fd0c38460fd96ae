"""Seeded faults of units, clocks, sensors and drives, and of inertials in another place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from qddot.loaders.load import locate_source
from qddot.pipeline.context import PipelineSettings
from qddot.pipeline.fault_cases import (
    PERIOD,
    SPEED,
    make_log_fault,
    write_file,
    write_log,
)
from qddot.pipeline.virtual import VirtualLog, fourier_motion
from qddot.robot.robot import Robot, load
from qddot.writers import convert

__all__ = ["SENSOR_FAULTS"]

_DEGREES, _POUND, _HOUR = 180.0 / np.pi, 0.45359237, 3600.0
_SEEN = 0.1
"""Share of the torque of a joint that a mistake changes at least; one below it nobody sees."""


def _write_degrees(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, _ = write_file(folder, name)
    tree = ElementTree.parse(file)
    for joint in tree.findall("joint"):
        limit = joint.find("limit")
        if limit is None or joint.get("type") != "revolute":
            continue
        for key in ("lower", "upper"):
            limit.set(key, f"{float(limit.get(key, '0')) * _DEGREES:.6g}")
    tree.write(file)
    settings = PipelineSettings(seed=seed)
    return {"detail": "limits in degrees", "source": file, "settings": settings}


def _scale_torques(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    return make_log_fault(
        folder, name, seed, "all torques × 1.25", lambda _, log: replace(log, tau=1.25 * log.tau)
    )


def _flip_all(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    return make_log_fault(
        folder, name, seed, "all torques × −1", lambda _, log: replace(log, tau=-log.tau)
    )


def _jump_clock(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    share = float(rng.uniform(0.1, 0.9))

    def change(robot: Robot, log: VirtualLog) -> VirtualLog:
        return replace(log, time=log.time + _HOUR * (log.time > share * log.time[-1]))

    detail = f"clock an hour ahead after {100 * share:.0f} % of the log"
    return make_log_fault(folder, name, seed, detail, change)


def _loaded_joint(robot: Robot, seed: int, rng: np.random.Generator) -> int:
    """A joint that carries something: a gain or offset of next to nothing cannot be seen."""
    weight = np.abs(robot.gravity(robot.random(rng, 50))).mean(axis=0)
    return int(rng.choice(np.flatnonzero(weight > _SEEN * weight.max())))


def _change_gain(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    robot = load(locate_source(name))
    joint, gain = _loaded_joint(robot, seed, rng), float(rng.choice([0.5, 0.7, 1.4, 2.0]))
    gains = np.where(np.arange(robot.nv) == joint, gain, 1.0)
    detail = f"torque {joint + 1} × {gain:g}"
    return make_log_fault(
        folder, name, seed, detail, lambda _, log: replace(log, tau=log.tau * gains)
    )


def _shift_encoder(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    robot = load(locate_source(name))
    q, v, a = fourier_motion(robot, seed, PERIOD, speed=SPEED)(np.linspace(0.0, PERIOD, 100))
    own = robot.inverse_dynamics(q, v, a)
    shift = float(rng.choice([-1.0, 1.0]) * rng.uniform(0.2, 0.4))
    effects = []
    for unit in shift * np.eye(robot.nv):
        changed = robot.inverse_dynamics(q + unit, v, a) - own
        effects.append(np.sqrt(np.mean(changed**2) / np.mean(own**2)))
    joint = int(rng.choice(np.flatnonzero(np.array(effects) >= min(_SEEN, max(effects)))))
    offset = np.where(np.arange(robot.nv) == joint, shift, 0.0)
    detail = f"encoder {joint + 1} off by {shift:.2g}"
    return make_log_fault(folder, name, seed, detail, lambda _, log: replace(log, q=log.q + offset))


def _freeze_encoder(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    joint = int(rng.integers(load(locate_source(name)).nv))
    share = float(rng.uniform(0.2, 0.7))

    def change(robot: Robot, log: VirtualLog) -> VirtualLog:
        q, k = log.q.copy(), int(share * len(log.q))
        q[k:, joint] = q[k, joint]
        return replace(log, q=q)

    detail = f"encoder {joint + 1} stands still after {100 * share:.0f} % of the log"
    return make_log_fault(folder, name, seed, detail, change)


def _exchange_inertials(
    folder: Path, name: str, seed: int, rng: np.random.Generator
) -> dict[str, Any]:
    file, robot = write_file(folder, name)
    log = write_log(folder / "log.csv", robot, seed)
    q, v, a = fourier_motion(robot, seed, PERIOD, speed=SPEED)(np.linspace(0.0, PERIOD, 100))
    own = robot.inverse_dynamics(q, v, a)
    tree = ElementTree.parse(file)
    links = [x for x in tree.findall("link") if x.get("name") in robot.body_names]
    links = [x for x in links if x.find("inertial") is not None]
    pairs = [(i, j) for i in range(len(links)) for j in range(i)]
    for k in rng.permutation(len(pairs)):
        first, second = (links[i] for i in pairs[k])
        one, other = first.find("inertial"), second.find("inertial")
        assert one is not None
        assert other is not None
        _swap_inertials(first, second)
        tree.write(file)
        changed = load(file).inverse_dynamics(q, v, a) - own
        # links whose exchange changes next to nothing are twins
        if np.sqrt(np.mean(changed**2) / np.mean(own**2)) >= _SEEN:
            detail = f"inertials of {first.get('name')} and {second.get('name')} exchanged"
            settings = PipelineSettings(log=log, seed=seed)
            return {"detail": detail, "source": file, "settings": settings}
        _swap_inertials(first, second)
    raise ValueError(f"no two links of {name} have inertials that differ")


def _swap_inertials(first: ElementTree.Element, second: ElementTree.Element) -> None:
    """Exchange the inertials of two links."""
    one, other = first.find("inertial"), second.find("inertial")
    assert one is not None
    assert other is not None
    first.remove(one)
    second.remove(other)
    first.append(other)
    second.append(one)


def _turn_gravity(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, _ = write_file(folder, name)
    turned = folder / f"{file.stem}.xml"
    convert(file, turned, force=True)
    tree = ElementTree.parse(turned)
    option = tree.find("option")
    if option is None:
        option = ElementTree.SubElement(tree.getroot(), "option")
    gravity = str(rng.choice(["0 0 0", "9.81 0 0", "0 -9.81 0"]))
    option.set("gravity", gravity)
    tree.write(turned)
    settings = PipelineSettings(seed=seed)
    return {"detail": f"gravity {gravity}", "source": turned, "settings": settings}


def _write_pounds(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, robot = write_file(folder, name)
    log = write_log(folder / "log.csv", robot, seed)
    tree = ElementTree.parse(file)
    for mass in tree.iter("mass"):
        mass.set("value", f"{float(mass.get('value', '0')) / _POUND:.9g}")
    tree.write(file)
    settings = PipelineSettings(log=log, seed=seed)
    return {"detail": "masses in pounds", "source": file, "settings": settings}


_AUDITED = ("tensor does not fit", "centre of mass", "power of ten", "units", "twin", "density")
"""Words of the audit on an inertial that is that of another link or unit."""
SENSOR_FAULTS: Mapping[
    str,
    tuple[
        Callable[[Path, str, int, np.random.Generator], dict[str, Any]],
        tuple[int, ...],
        tuple[str, ...],
    ],
] = {
    "limits in degrees": (_write_degrees, (1,), ("limits in other units",)),
    "gravity 0 or sideways": (_turn_gravity, (4,), ("no gravity", "gravity in another frame")),
    "masses in pounds": (_write_pounds, (2, 7), ("masses in pounds", *_AUDITED)),
    "inertials exchanged": (_exchange_inertials, (2, 7), ("inertials exchanged", *_AUDITED)),
    "all torques × 1.25": (_scale_torques, (7,), ("inertias under-estimated or torques",)),
    "all torques × −1": (_flip_all, (7,), ("sign of all torques",)),
    "gain of a torque": (_change_gain, (7,), ("gain of a torque",)),
    "offset of an encoder": (_shift_encoder, (7,), ("offset of an encoder",)),
    "frozen encoder": (_freeze_encoder, (7,), ("frozen encoder",)),
    "clock jump": (_jump_clock, (7,), ("clock jump",)),
}
"""Maker, steps that should see it, and how the doctor may begin to name it, by kind."""
