"""Size a robot: survey random states, refine the worst, and put the answer together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.analysis.sizing.problem import Bound, SizingProblem, make_problem
from qddot.analysis.sizing.refine import refine
from qddot.analysis.sizing.result import (
    MARGIN,
    SPEED_CLASSES,
    JointInertia,
    JointSizing,
    Sizing,
    SpeedClass,
    Worst,
)
from qddot.analysis.sizing.survey import LoadCase, Survey, survey
from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.robot.robot import Robot

__all__ = ["size"]

_PEAKS = (LoadCase(False, None), LoadCase(True, None))
_PAYLOADS = (LoadCase(False, 1.0), LoadCase(True, 1.0), LoadCase(True, MARGIN))

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
    friction: bool = False,
) -> Sizing:
    """The torques that a robot needs to carry a payload over its workspace, against its ratings.

    The payload is a point of `payload` kg at `com` in coordinates of `frame` (by default the end
    of the chain, before its fingers). Every joint moves within its limits, with at most `speed` in
    rad/s (or m/s) and `acceleration` in rad/s²; either may be a number a joint, and a speed a share
    of the limits of the description, "50%". `samples` random states, the same for a seed, find the
    worst ones, which are then refined by local optimisation. `rotor_inertia` in kg m² is for the
    table of gear ratios where the description has none. With `friction` the losses and springs of
    the description are part of the torques.
    """
    for what, n, least in (("samples", samples, 1), ("seed", seed, 0)):
        if not isinstance(n, int | np.integer) or n < least:
            raise InvalidArgument(f"size: {what}", n, f"it needs a whole number from {least}")
    problem = make_problem(
        robot,
        payload,
        frame=frame,
        com=com,
        speed=speed,
        acceleration=acceleration,
        friction=friction,
    )
    rotors = _rotor_inertias(problem.model, rotor_inertia)
    cases = (*_PEAKS, *_PAYLOADS)
    seen = survey(problem, cases, int(samples), int(seed), on_step)
    if on_step:
        on_step("worst states", int(samples), int(samples))
    refined = refine(problem, cases, seen)
    inertias = [
        JointInertia(
            name=name,
            link=(least, median, most),
            armature=float(problem.armature[k]),
            dominated=float(seen.dominated[k]),
            rotor_inertia=rotors[k],
        )
        for k, (name, least, median, most) in enumerate(
            zip(problem.model.velocity_names, *seen.link.tolist(), strict=True)
        )
    ]
    return Sizing(
        robot=robot.name,
        payload=problem.payload,
        frame=problem.frame,
        com=problem.com,
        speed=problem.speed,
        acceleration=problem.acceleration,
        samples=int(samples),
        seed=int(seed),
        joints=tuple(_size_joint(problem, seen, refined, i) for i in range(problem.model.nv)),
        speed_classes=_speed_classes(seen),
        inertias=tuple(inertias),
        notes=problem.notes,
        static=seen.static,
        dynamic=seen.dynamic,
    )


def _speed_classes(seen: Survey) -> tuple[SpeedClass, ...]:
    """Coriolis torques beside gravity by class of speed: C v grows with its square, g does not."""
    peak, rms = (
        c / g if g > 1e-12 else None for c, g in zip(seen.coriolis, seen.gravity, strict=True)
    )
    return tuple(
        SpeedClass(name, s, *(x if x is None else s**2 * x for x in (peak, rms)))
        for name, s in SPEED_CLASSES
    )


def _size_joint(
    problem: SizingProblem,
    seen: Survey,
    refined: Sequence[tuple[np.ndarray, np.ndarray]],
    i: int,
) -> JointSizing:
    """The largest torques of joint i, and its largest payloads."""
    model, worst = problem.model, []
    for k, (_, states) in enumerate(refined[: len(_PEAKS)]):
        q, v, a = np.split(states[i], [model.nq, model.nq + model.nv])
        torque = problem.at_payload(problem.evaluate("inverse_dynamics", q, v, a))
        gravity = problem.at_payload(problem.evaluate("gravity", q))
        sampled = float(seen.scores[:, k, i].max())
        worst.append(Worst(float(torque[i]), float(gravity[i]), q, v, a, sampled))
    # a score of a payload case is the inverse of a mass
    scores = [float(score[i]) for score, _ in refined[len(_PEAKS) :]]
    static, dynamic, margin = (
        1.0 / score if score > 1.0 / _ANY_MASS else np.inf for score in scores
    )
    return JointSizing(
        name=model.velocity_names[i],
        unit="N m" if model.angular[i] else "N",
        rating=float(problem.rating[i]),
        static=worst[0],
        dynamic=worst[1],
        rms=float(seen.rms[i]),
        payload_static=static,
        payload_dynamic=dynamic,
        payload_with_margin=margin,
    )


def _rotor_inertias(model: Model, given: ArrayLike | None) -> list[float | None]:
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
        raise InvalidArgument("size: rotor_inertia", given, accepted)
    return rotors.tolist()
