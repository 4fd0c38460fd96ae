"""The first stage: a robot, a payload at a frame, bounds of speed and acceleration, all checked.

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

from qddot.errors import InvalidArgument, Unsupported
from qddot.model.model import WORLD, Model
from qddot.model.tool_frame import tool_frame
from qddot.robot.native import PARAMETERS
from qddot.robot.robot import Robot

__all__ = ["Bound", "SizingProblem", "make_problem"]

Bound = float | str | Sequence[float]
"""A bound of each joint: one number for all, one a joint, or a share of the limits as "50%"."""


@dataclass(frozen=True)
class SizingProblem:
    """A sizing problem: the bare robot, a massless one with 1 kg at the frame, bounds, ratings."""

    bare: Robot
    per_kg: Robot
    payload: float
    frame: str
    com: tuple[float, float, float]
    speed: np.ndarray
    acceleration: np.ndarray
    rating: np.ndarray
    notes: tuple[str, ...]
    friction: bool = False

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

    def at_payload(self, pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """A quantity of the bare robot plus the payload times that of a kilogram."""
        return pair[0] + self.payload * pair[1]

    def evaluate(self, name: str, *state: np.ndarray) -> tuple[Any, Any]:
        """A function linear in the inertias: of the bare robot, and of a kilogram.

        Friction, damping and springs are part of the bare robot where they are asked for.
        """
        own, per_kg = getattr(self.bare, name)(*state), getattr(self.per_kg, name)(*state)
        if self.friction and name in ("inverse_dynamics", "bias"):
            own = own + self.bare.friction(*state[:2])
        elif self.friction and name == "inverse_dynamics_derivatives":
            stiffness, damping = (np.diag(x) for x in self._friction_slopes)
            own = (own[0] + stiffness, own[1] + damping, own[2])
        return own, per_kg

    @cached_property
    def _friction_slopes(self) -> np.ndarray:
        """Stiffness and damping at each velocity, those of followers included (2, nv)."""
        slopes = np.zeros((2, self.model.nv))
        for body in self.model.bodies:
            drive = body.joint.drivetrain
            own = np.array([drive.stiffness, drive.damping], dtype=float)
            slopes[:, body.iv] += (own * body.joint.ratio**2)[:, None]
        return slopes


def make_problem(
    robot: Robot,
    payload: float,
    frame: str | None,
    com: Sequence[float],
    speed: Bound,
    acceleration: Bound,
    friction: bool = False,
) -> SizingProblem:
    """Check the arguments of `size` and put them into a problem for the survey."""
    model = robot.model
    if not model.nv:
        raise InvalidArgument("size: robot", model.name, "it has no joint that moves")
    if any(b.joint.kind.floats for b in model.independent):
        accepted = "its base is free, so nothing holds it: load it with base='fixed' (--base fixed)"
        raise Unsupported("size: robot", model.name, accepted)
    if not (isinstance(payload, int | float | np.number) and 0.0 <= payload < math.inf):
        raise InvalidArgument("size: payload", payload, "it needs a mass in kg, 0 or more")
    # at the end of the chain, not at a finger
    if frame is None:
        frame = tool_frame(model)
        parents = {b.parent for b in model.bodies}
        ends = [i for i in range(model.nb) if i not in parents]
        if frame is None or any(model.frame(frame).body not in model.ancestors(i) for i in ends):
            names = ", ".join(model.bodies[i].name for i in ends)
            accepted = f"name the frame that carries the payload; the robot ends at {names}"
            raise InvalidArgument("size: frame", None, accepted)
    if model.frame(frame).body == WORLD:
        accepted = "it is fixed to the world, where a payload loads no joint"
        raise InvalidArgument("size: frame", frame, accepted)
    # limits of speed and effort by velocity: infinite where there is none, or zero
    limits, rating = np.full((2, model.nv), np.inf)
    for body in model.independent:
        if body.joint.kind.nv == 1:
            limits[body.iv] = body.joint.limits.velocity or np.inf
            rating[body.iv] = body.joint.limits.effort or np.inf
    bounds = _velocity_bounds("speed", speed, model, limits)
    # the robot without any inertia but that of a point of 1 kg at the frame
    massless = robot.with_parameters(np.zeros((model.nb, 10))).model
    massless = PARAMETERS["armature"][1](massless, [(0.0,)] * model.nb)
    per_kg = Robot(massless, robot.native).with_payload(frame, 1.0, com)
    x, y, z = (float(c) for c in com)
    return SizingProblem(
        bare=robot,
        per_kg=per_kg,
        payload=float(payload),
        frame=frame,
        com=(x, y, z),
        speed=np.minimum(bounds, limits),
        acceleration=_velocity_bounds("acceleration", acceleration, model, None),
        rating=rating,
        notes=tuple(_problem_notes(model, rating, bounds > limits, friction)),
        friction=friction,
    )


def _velocity_bounds(
    what: str, given: Bound, model: Model, limits: np.ndarray | None
) -> np.ndarray:
    """A bound of each velocity from a number, a number a joint, or a share of the limits."""
    # a share such as "50%" of the limits of the description
    if isinstance(given, str):
        if limits is None:
            accepted = "descriptions hold no such limits, so it needs numbers"
            raise InvalidArgument(f"size: {what}", given, accepted)
        try:
            share = float(given.removesuffix("%")) / 100.0 if given.endswith("%") else math.nan
        except ValueError:
            share = math.nan
        if not 0.0 <= share <= 1.0:
            accepted = 'a share of the limits is written as "50%", 100% at most'
            raise InvalidArgument(f"size: {what}", given, accepted)
        if not np.isfinite(limits).all():
            accepted = f"there is no {what} limit at {_velocity_list(model, ~np.isfinite(limits))}"
            raise InvalidArgument(f"size: {what}", given, f"{accepted}; give numbers")
        return share * limits
    # one number for all, or one a joint
    accepted = f"it needs a number of 0 or more, or {model.nv} of them"
    try:
        bounds: ArrayLike = np.asarray(given, dtype=float)
        bounds = np.broadcast_to(bounds, (model.nv,))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"size: {what}", given, accepted) from error
    if not (np.isfinite(bounds) & (bounds >= 0.0)).all():
        raise InvalidArgument(f"size: {what}", given, accepted)
    return bounds


def _velocity_list(model: Model, chosen: np.ndarray) -> str:
    """Names of the chosen velocities, as text."""
    names = [n for n, yes in zip(model.velocity_names, chosen, strict=True) if yes]
    return "every joint" if len(names) == model.nv > 1 else ", ".join(names)


def _problem_notes(
    model: Model, rating: np.ndarray, clipped: np.ndarray, friction: bool
) -> list[str]:
    """Assumptions of the answer: clipped speeds, missing ratings, effects left out."""
    notes = []
    if clipped.any():
        where = _velocity_list(model, clipped)
        notes.append(f"the speed is held at the limit of the description at {where}")
    unrated = ~np.isfinite(rating)
    if unrated.any():
        where = "any joint" if unrated.all() else _velocity_list(model, unrated)
        notes.append(f"the description has no effort limit at {where}: torque only")
    several = [b.joint.name for b in model.independent if b.joint.kind.nv > 1]
    if several:
        notes.append(f"the worst state keeps the coordinates drawn for {', '.join(several)}")
    drives = [b.joint.drivetrain for b in model.bodies]
    if any(any((*d.friction_levels, d.damping, d.stiffness)) for d in drives):
        place = "" if friction else "not "
        notes.append(
            f"friction, damping and springs of the description are {place}in these torques"
        )
    return notes + [f.message for f in model.health if f.kind == "loop"]
