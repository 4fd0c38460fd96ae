"""Coordinates of a robot as sliders: one a number, quaternions as roll, pitch and yaw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from scipy.spatial.transform import Rotation

from qddot.model.model import WORLD, Model
from qddot.robot.robot import Robot

__all__ = [
    "Slider",
    "coordinates_from_sliders",
    "sliders_from_coordinates",
    "sliders_of",
    "start_configuration",
]


@dataclass(frozen=True)
class Slider:
    """A slider: its limb, label, bounds and unit; `index` is the place in q.

    Those of a rotation have the place of its quaternion and `angle`, 0 to 2 for roll, pitch, yaw.
    """

    group: str
    label: str
    lower: float
    upper: float
    unit: str
    index: int
    angle: int | None = None


def start_configuration(robot: Robot) -> np.ndarray:
    """The first configuration that the file names, or the neutral one.

    Joints whose neutral value is out of their limits are in the middle of those.
    """
    named = robot.configurations
    q = named.get("home", next(iter(named.values()), robot.neutral()))
    lower, upper = robot.limits.lower, robot.limits.upper
    out = (q < lower) | (q > upper)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower + upper), 0.5 * (lower + upper), q.clip(lower, upper))
    return np.where(out, middle, q)


def sliders_of(robot: Robot) -> list[Slider]:
    """The sliders of a robot in the order of q, grouped by limb."""
    found = []
    groups = _limb_names(robot.model)
    for body in robot.model.independent:
        kind, name, group = body.joint.kind, body.joint.name, groups[body.name]
        turning = kind.quaternion
        numbers = [
            i for i in range(kind.nq) if turning is None or not turning.start <= i < turning.stop
        ]
        suffixes = kind.suffixes if len(kind.suffixes) > 1 else ("",)
        for i in numbers:
            k = body.iq.start + i
            angular = bool(kind.angular[i]) if i < len(kind.angular) else False
            reach = math.pi if angular else 2.0 if kind.nv > 1 else 1.0
            lower, upper = float(robot.limits.lower[k]), float(robot.limits.upper[k])
            label = f"{name} {suffixes[i].removeprefix('v')}".strip()
            low, high = (x if math.isfinite(x) else s * reach for x, s in ((lower, -1), (upper, 1)))
            unit = "rad" if angular else "m"
            found.append(Slider(group, label, low, max(high, low + 1e-6), unit, k))
        if turning is not None:
            for angle, word in enumerate(("roll", "pitch", "yaw")):
                most = 0.5 * math.pi if word == "pitch" else math.pi
                at = body.iq.start + turning.start
                found.append(Slider(group, f"{name} {word}", -most, most, "rad", at, angle))
    return found


def _limb_names(model: Model) -> dict[str, str]:
    """Name of the limb of each body: chains between branches, by what their joints' names share."""
    children: dict[int, int] = {}
    for body in model.bodies:
        children[body.parent] = children.get(body.parent, 0) + 1
    first: list[int] = []
    for i, body in enumerate(model.bodies):
        begins = (
            body.parent == WORLD
            or children[body.parent] > 1
            or model.bodies[body.parent].joint.kind.nv > 1
        )
        first.append(i if begins else first[body.parent])
    limbs: dict[int, list[str]] = {}
    for i, start in enumerate(first):
        limbs.setdefault(start, []).append(model.bodies[i].joint.name)
    if len(limbs) == 1:
        return {body.name: "joints" for body in model.bodies}
    names: dict[int, str] = {}
    for start, joints in limbs.items():
        # the letters with which the names of all its joints begin
        letters = takewhile(lambda same: len(set(same)) == 1, zip(*joints, strict=False))
        prefix = "".join(same[0] for same in letters).rstrip("_-. 0123456789")
        shared = prefix if len(joints) > 1 else joints[0]
        names[start] = shared if len(shared) > 1 else joints[0]
    # limbs that share a name are told apart by their first joints
    every = list(names.values())
    names = {k: n if every.count(n) == 1 else f"{limbs[k][0]} …" for k, n in names.items()}
    return {model.bodies[i].name: names[start] for i, start in enumerate(first)}


def sliders_from_coordinates(sliders: Sequence[Slider], q: np.ndarray) -> Iterator[float]:
    """Values of sliders at a configuration, within their bounds."""
    for s in sliders:
        value = float(q[s.index])
        if s.angle is not None:
            turn = Rotation.from_quat(q[s.index : s.index + 4])
            value = float(turn.as_euler("ZYX")[2 - s.angle])
        yield min(max(value, s.lower), s.upper)


def coordinates_from_sliders(
    sliders: Sequence[Slider], values: Sequence[float], q: np.ndarray
) -> np.ndarray:
    """The configuration of sliders."""
    moved, turns = np.array(q, dtype=float), dict[int, list[float]]()
    for s, value in zip(sliders, values, strict=True):
        if s.angle is None:
            moved[s.index] = value
        else:
            turns.setdefault(s.index, [0.0, 0.0, 0.0])[s.angle] = value
    for index, (roll, pitch, yaw) in turns.items():
        moved[index : index + 4] = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_quat()
    return moved
