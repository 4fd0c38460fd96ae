"""What is asked: a robot, a payload at a frame, bounds of speed and acceleration.

The torque at a state is affine in the mass of a payload: that of the bare robot, plus the mass
times that of a massless robot which carries one kilogram. So nothing is compiled again for another
mass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import NotUnderstood
from qddot.kernels import PARAMETERS
from qddot.model import WORLD, Model
from qddot.robot import Robot

__all__ = ["Bound", "Task", "make_task"]

Bound = float | str | Sequence[float]
"""A bound of each joint: one number for all, one a joint, or a share of the limits as "50%"."""


@dataclass(frozen=True)
class Task:
    """The question, checked: the bare robot, one that is only a kilogram, bounds and ratings."""

    bare: Robot
    per_kg: Robot
    payload: float
    frame: str
    com: tuple[float, float, float]
    speed: np.ndarray
    acceleration: np.ndarray
    rating: np.ndarray
    notes: tuple[str, ...]

    @property
    def model(self) -> Model:
        """The model of the bare robot."""
        return self.bare.model

    @cached_property
    def armature(self) -> np.ndarray:
        """Reflected inertia at each velocity, that of followers included."""
        reflected = np.zeros(self.model.nv)
        for body in self.model.bodies:
            reflected[body.iv] += float(body.armature)
        return reflected

    def loaded(self, pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """What a bare robot and a kilogram give, at the payload."""
        return pair[0] + self.payload * pair[1]

    def at(self, name: str, *state: np.ndarray) -> tuple[Any, Any]:
        """A function linear in the inertias: of the bare robot, and of a kilogram."""
        return getattr(self.bare, name)(*state), getattr(self.per_kg, name)(*state)


def make_task(
    robot: Robot,
    payload: float,
    frame: str | None,
    com: Sequence[float],
    speed: Bound,
    acceleration: Bound,
) -> Task:
    """The question in the form that the survey takes."""
    model = robot.model
    if not model.nv:
        raise NotUnderstood("size: robot", model.name, "it has no joint that moves")
    if any(b.joint.kind.name == "free" for b in model.independent):
        accepted = "its base is free, so nothing holds it: load it with base='fixed' (--base fixed)"
        raise NotUnderstood("size: robot", model.name, accepted)
    if not (_is_number(payload) and payload >= 0.0):
        raise NotUnderstood("size: payload", payload, "it needs a mass in kg, 0 or more")
    frame = _end(model) if frame is None else frame
    if model.frame(frame).body == WORLD:
        accepted = "it is fixed to the world, where a payload loads no joint"
        raise NotUnderstood("size: frame", frame, accepted)
    limits, reachable = _effective_limits(model)
    bounds = _bounds("speed", speed, model, limits)
    notes = (*_speed_notes(model, bounds, limits), *_model_notes(model, reachable))
    return Task(
        robot,
        _kilogram(robot, frame, com),
        float(payload),
        frame,
        _triple(com),
        np.minimum(bounds, limits),
        _bounds("acceleration", acceleration, model, None),
        reachable,
        notes,
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | np.number) and math.isfinite(x)


def _triple(com: Sequence[float]) -> tuple[float, float, float]:
    x, y, z = (float(c) for c in com)
    return x, y, z


def _kilogram(robot: Robot, frame: str, com: Sequence[float]) -> Robot:
    """The robot without any inertia but that of a point of 1 kg at the frame."""
    model = robot.with_parameters(np.zeros((robot.model.nb, 10))).model
    massless = PARAMETERS["armature"][1](model, [(0.0,)] * model.nb)
    return Robot(massless, robot.native).with_payload(frame, 1.0, com)


def _end(model: Model) -> str:
    """The last frame of the last body, where the robot has one end."""
    parents = {b.parent for b in model.bodies}
    ends = [i for i in range(model.nb) if i not in parents]
    if len(ends) > 1:
        names = ", ".join(model.bodies[i].name for i in ends)
        accepted = f"name the frame that carries the payload; the robot ends at {names}"
        raise NotUnderstood("size: frame", None, accepted)
    return [f.name for f in model.frames if f.body == ends[0]][-1]


def _effective_limits(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Limits of speed and effort by velocity; infinite where there is none, or zero."""
    speed, effort = np.full((2, model.nv), np.inf)
    for body in model.independent:
        if body.joint.kind.nv == 1:
            limits = body.joint.limits
            speed[body.iv], effort[body.iv] = limits.velocity or np.inf, limits.effort or np.inf
    return speed, effort


def _bounds(what: str, given: Bound, model: Model, limits: np.ndarray | None) -> np.ndarray:
    """A bound of each velocity from a number, a number a joint, or a share of the limits."""
    if isinstance(given, str):
        return _share(what, given, model, limits)
    accepted = f"it needs a number of 0 or more, or {model.nv} of them"
    try:
        bounds: ArrayLike = np.asarray(given, dtype=float)
        bounds = np.broadcast_to(bounds, (model.nv,))
    except (TypeError, ValueError) as error:
        raise NotUnderstood(f"size: {what}", given, accepted) from error
    if not (np.isfinite(bounds) & (bounds >= 0.0)).all():
        raise NotUnderstood(f"size: {what}", given, accepted)
    return bounds


def _share(what: str, given: str, model: Model, limits: np.ndarray | None) -> np.ndarray:
    """A share such as "50%" of the limits of the description."""
    if limits is None:
        accepted = "descriptions hold no such limits, so it needs numbers"
        raise NotUnderstood(f"size: {what}", given, accepted)
    try:
        share = float(given.removesuffix("%")) / 100.0 if given.endswith("%") else math.nan
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        accepted = 'a share of the limits is written as "50%", 100% at most'
        raise NotUnderstood(f"size: {what}", given, accepted)
    if not np.isfinite(limits).all():
        accepted = f"there is no {what} limit at {_listed(model, ~np.isfinite(limits))}"
        raise NotUnderstood(f"size: {what}", given, f"{accepted}; give numbers")
    return share * limits


def _listed(model: Model, chosen: np.ndarray) -> str:
    """Names of the velocities that are chosen."""
    names = [n for n, yes in zip(model.velocity_names, chosen, strict=True) if yes]
    return "every joint" if len(names) == model.nv > 1 else ", ".join(names)


def _speed_notes(model: Model, asked: np.ndarray, limits: np.ndarray) -> list[str]:
    over = asked > limits
    if not over.any():
        return []
    return [f"the speed is held at the limit of the description at {_listed(model, over)}"]


def _model_notes(model: Model, rating: np.ndarray) -> list[str]:
    """What a reader must know of the model to trust the figures."""
    notes = []
    unrated = ~np.isfinite(rating)
    if unrated.any():
        where = _listed(model, unrated)
        notes.append(f"the description has no effort limit at {where}: torque only")
    several = [b.joint.name for b in model.independent if b.joint.kind.nv > 1]
    if several:
        notes.append(f"the worst state keeps the coordinates drawn for {', '.join(several)}")
    losses = [b.joint.drivetrain for b in model.bodies]
    if any(d.friction or d.damping or d.stiffness for d in losses):
        notes.append("friction, damping and springs of the description are not in these torques")
    return notes + [f.message for f in model.health if f.kind == "loop"]
