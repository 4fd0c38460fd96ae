"""Size a robot: survey random states, refine the worst, and put the answer together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import NotUnderstood
from qddot.model import Model
from qddot.robot import Robot
from qddot.sizing.refine import refine
from qddot.sizing.result import (
    MARGIN,
    SPEED_CLASSES,
    JointInertia,
    JointSizing,
    Sizing,
    SpeedClass,
    Worst,
)
from qddot.sizing.survey import Case, OnStep, Survey, survey
from qddot.sizing.task import Bound, Task, make_task

__all__ = ["size"]

_PEAKS = (Case(False, None), Case(True, None))
_PAYLOADS = (Case(False, 1.0), Case(True, 1.0), Case(True, MARGIN))

_ANY_MASS = 1e9
"""A payload in kg that stands for all: it comes of rounding where a payload loads no joint."""


def size(
    robot: Robot,
    payload: float,
    frame: str | None = None,
    com: Sequence[float] = (0.0, 0.0, 0.0),
    speed: Bound = 1.0,
    acceleration: Bound = 1.4,
    samples: int = 10**6,
    seed: int = 0,
    rotor_inertia: ArrayLike | None = None,
    on_step: OnStep | None = None,
) -> Sizing:
    """The torques that a robot needs to carry a payload over its workspace, against its ratings.

    The payload is a point of `payload` kg at `com` in coordinates of `frame` (by default the last
    frame of the last body). Every joint moves within its limits, with at most `speed` in rad/s (or
    m/s) and `acceleration` in rad/s²; either may be a number a joint, and a speed a share of the
    limits of the description, "50%". `samples` random states, the same for a seed, find the worst
    ones, which are then refined by local optimisation. `rotor_inertia` in kg m² is for the table
    of gear ratios where the description has none.
    """
    for what, n, least in (("samples", samples, 1), ("seed", seed, 0)):
        if not isinstance(n, int | np.integer) or n < least:
            raise NotUnderstood(f"size: {what}", n, f"it needs a whole number from {least}")
    task = make_task(robot, payload, frame, com, speed, acceleration)
    rotors = _rotors(task.model, rotor_inertia)
    cases = (*_PEAKS, *_PAYLOADS)
    seen = survey(task, cases, int(samples), int(seed), on_step)
    if on_step:
        on_step("worst states", int(samples), int(samples))
    found = refine(task, cases, seen)
    joints = [_joint(task, seen, found, i) for i in range(task.model.nv)]
    return Sizing(
        robot.name,
        task.payload,
        task.frame,
        task.com,
        task.speed,
        task.acceleration,
        int(samples),
        int(seed),
        tuple(joints),
        _speed_classes(seen),
        _inertias(task, seen, rotors),
        task.notes,
        seen.static,
        seen.dynamic,
    )


def _joint(
    task: Task, seen: Survey, found: Sequence[tuple[np.ndarray, np.ndarray]], i: int
) -> JointSizing:
    """What a joint needs and what it carries."""
    static, dynamic = (
        _worst(task, i, states[i], float(seen.scores[:, k, i].max()))
        for k, (_, states) in enumerate(found[: len(_PEAKS)])
    )
    scores = [float(score[i]) for score, _ in found[len(_PEAKS) :]]
    payloads = [1.0 / score if score > 1.0 / _ANY_MASS else np.inf for score in scores]
    angular = [yes for b in task.model.independent for yes in b.joint.kind.angular]
    return JointSizing(
        task.model.velocity_names[i],
        "N m" if angular[i] else "N",
        float(task.rating[i]),
        static,
        dynamic,
        float(seen.rms[i]),
        *payloads,
    )


def _worst(task: Task, i: int, state: np.ndarray, sampled: float) -> Worst:
    nq, nv = task.model.nq, task.model.nv
    q, v, a = np.split(state, [nq, nq + nv])
    torque, gravity = (
        float(task.loaded(task.at(name, *x))[i])
        for name, x in (("inverse_dynamics", (q, v, a)), ("gravity", (q,)))
    )
    return Worst(torque, gravity, q, v, a, sampled)


def _speed_classes(seen: Survey) -> tuple[SpeedClass, ...]:
    """C v grows with the square of the speed, g does not depend on it."""
    peak, rms = (
        c / g if g > 1e-12 else None for c, g in zip(seen.coriolis, seen.gravity, strict=True)
    )
    return tuple(
        SpeedClass(name, s, *(x if x is None else s**2 * x for x in (peak, rms)))
        for name, s in SPEED_CLASSES
    )


def _rotors(model: Model, given: ArrayLike | None) -> list[float | None]:
    """The rotor inertia of each velocity: as given, or of the description, or unknown."""
    if given is None:
        drives = [b.joint.drivetrain for b in model.independent for _ in b.dofs]
        return [float(d.rotor_inertia) or None for d in drives]
    try:
        rotors = np.broadcast_to(np.asarray(given, dtype=float), (model.nv,))
    except (TypeError, ValueError):
        rotors = np.array([np.nan])
    if not (np.isfinite(rotors) & (rotors > 0.0)).all():
        accepted = f"it needs a positive number in kg m², or {model.nv} of them"
        raise NotUnderstood("size: rotor_inertia", given, accepted)
    return rotors.tolist()


def _inertias(task: Task, seen: Survey, rotors: Sequence[float | None]) -> tuple[JointInertia, ...]:
    least, median, most = seen.link.tolist()
    names = task.model.velocity_names
    rows = zip(
        names,
        zip(least, median, most, strict=True),
        task.armature.tolist(),
        seen.dominated.tolist(),
        rotors,
        strict=True,
    )
    return tuple(JointInertia(*row) for row in rows)
