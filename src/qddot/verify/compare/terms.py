"""The stages that compare terms of the equation, as both sides compute them at the same states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from qddot.errors import QddotError
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.verify.compare.align import Alignment, robot_extent
from qddot.verify.compare.result import ModelDifference, Stage, join_names
from qddot.verify.invariants import RandomStates

__all__ = [
    "TERMS",
    "Side",
    "acceleration_shares",
    "evaluate_terms",
    "pose_differences",
    "term_stages",
]

TERMS = ("M", "g", "bias", "passive", "q̈")
"""Stages that compare terms of the equation."""
_EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Side:
    """B: its model with its couplings, and its values at states in its coordinates.

    A value is an array, or the reason why there is none. `no_friction` says why its passive forces
    lack dry friction, empty if they have it; `unread` why stages cannot tell that both agree.
    """

    exact: Model
    values: Mapping[str, Any]
    no_friction: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)


def evaluate_terms(model: Model, at: RandomStates, no_friction: str = "") -> dict[str, Any]:
    """The terms of a model at states as qddot computes them: an array, or why there is none."""
    robot = lossy = Robot(model, native=False)
    if no_friction:
        bodies = []
        for body in model.bodies:
            drive = dataclasses.replace(body.joint.drivetrain, friction=0.0, backward_friction=None)
            joint = dataclasses.replace(body.joint, drivetrain=drive)
            bodies.append(dataclasses.replace(body, joint=joint))
        lossy = Robot(dataclasses.replace(model, bodies=tuple(bodies)), native=False)
    found: dict[str, Any] = {
        "M": robot.mass_matrix(at.q),
        "g": robot.gravity(at.q),
        "bias": robot.bias(at.q, at.v),
        "passive": lossy.friction(at.q, at.v),
    }
    for name, tau in (("q̈", at.a - found["passive"]), ("q̈ without friction", at.a)):
        try:
            found[name] = robot.forward_dynamics(at.q, at.v, tau)
        except QddotError as error:
            found[name] = str(error)
    return found


def term_stages(
    alignment: Alignment,
    side: Side,
    ours: Sequence[Mapping[str, Any]],
    causes: Sequence[str],
    at: RandomStates,
    tolerance: float,
) -> Iterator[Stage]:
    """The terms, A's (`ours`) also with one cause after the other aligned."""
    # B's values in the coordinates of A; reasons as they are
    adapter, values = alignment.adapter(), side.values
    convert: dict[str, Callable[[Any], Any]] = {
        "M": lambda x: adapter.from_mass_matrix(at.q, x),
        "g": lambda x: adapter.from_tau(at.q, x),
        "bias": lambda x: adapter.from_bias(at.q, at.v, x, values["M"]),
        "passive": lambda x: adapter.from_tau(at.q, x),
        "q̈": lambda x: adapter.from_a(at.q, at.v, x),
    }
    theirs: dict[str, Any] = {}
    for name in TERMS:
        value = values.get(name, "@B did not come that far")
        theirs[name] = value if isinstance(value, str) else convert[name](value)
    if adapter.layout.nv != adapter.robot.nv:
        theirs["q̈"] = "joints that follow others in @A have coordinates of their own in @B"
    frictionless = isinstance(theirs.get("passive"), str)
    condition = float(np.linalg.cond(ours[-1]["M"]).max())
    # sizes below which differences mean nothing, from the mass and size of the robot
    mass, length = max(float(alignment.a.mass), 1e-9), robot_extent(alignment.a)
    g = max(float(np.linalg.norm([float(c) for c in alignment.a.gravity])), 1.0)
    floors = {"M": 1e-6 * (mass * length**2), "q̈": 1e-6}
    differing: list[str] = []
    for name in TERMS:
        rows = [x["q̈ without friction" if name == "q̈" and frictionless else name] for x in ours]
        bound = max(tolerance, 10.0 * _EPSILON * condition) if name == "q̈" else tolerance
        floor = floors.get(name, 1e-6 * (mass * length * g))
        stage = _judge_term(
            name=name,
            ours=rows,
            theirs=theirs[name],
            causes=causes,
            floor=floor,
            bound=bound,
            names=alignment.a.velocity_names,
        )
        if stage.verdict == "differ":
            # the term that follows from B's terms before it
            expected = None
            if name == "bias" and not isinstance(theirs["g"], str):
                expected = ours[-1]["bias"] - ours[-1]["g"] + theirs["g"]
            if name == "q̈" and not any(isinstance(theirs[k], str) for k in ("M", "bias")):
                force = (at.a - theirs["bias"] - (0.0 if frictionless else theirs["passive"]))[
                    ..., None
                ]
                expected = np.linalg.solve(theirs["M"], force)[..., 0]
            left = float("inf")
            if expected is not None:
                left = _relative_difference(expected, theirs[name], floor)
            if differing and left <= bound:
                message = f"{stage.size:.2g} apart, as {join_names(differing)} of @B would have it"
                stage = dataclasses.replace(
                    stage, verdict="consequence", message=message, left=left, because=(*differing,)
                )
            else:
                differing.append(name)
        yield stage


def _judge_term(
    name: str,
    ours: Sequence[Any],
    theirs: Any,
    causes: Sequence[str],
    floor: float,
    bound: float,
    names: Sequence[str],
) -> Stage:
    """The verdict on a term from A's values before and after each cause was aligned."""
    reason = next((x for x in (theirs, *ours) if isinstance(x, str)), "")
    if reason:
        return Stage(name, "not evaluated", reason)
    raw, left = (_relative_difference(x, theirs, floor) for x in (ours[0], ours[-1]))
    if raw <= bound:
        return Stage(name, "agree", f"to {raw:.1e}", raw, left)
    if left <= bound:
        moves = zip(causes, ours, ours[1:], strict=False)
        because = tuple(c for c, x, y in moves if _relative_difference(x, y, floor) > bound)
        made = f"with {join_names(because)} made equal it agrees to {left:.1e}"
        return Stage(name, "consequence", f"{raw:.2g} apart; {made}", raw, left, (), because)
    message = f"{raw:.2g} apart"
    if causes:
        message += f", and still {left:.2g} with {join_names(causes)} made equal"
    # the entry that differs most
    off = np.abs(ours[-1] - theirs)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
    place = " and ".join(dict.fromkeys(repr(names[int(k)]) for k in worst[1:]))
    values = (float(x[worst]) for x in (ours[-1], theirs))
    message += "; most at {}: {:.6g} in @A, {:.6g} in @B".format(place, *values)
    return Stage(name, "differ", message, raw, left)


def acceleration_shares(
    causes: Sequence[str], ours: Sequence[Mapping[str, Any]], side: Side
) -> dict[str, float]:
    """By how much each cause changes q̈ when it is aligned, as shares of all these changes.

    Causes are aligned one after the other, so that the shares depend on their order.
    """
    frictionless = isinstance(side.values.get("passive"), str)
    rows = [x["q̈ without friction" if frictionless else "q̈"] for x in ours]
    if any(isinstance(x, str) for x in rows):
        return {}
    changes = [float(np.linalg.norm(y - x)) for x, y in pairwise(rows)]
    total = sum(changes)
    if not 0.0 < total < np.inf:
        return {}
    return {cause: change / total for cause, change in zip(causes, changes, strict=True)}


def _relative_difference(x: np.ndarray, y: np.ndarray, floor: float) -> float:
    """Largest difference relative to the largest entry; infinite where one is not a number."""
    off = float(np.abs(x - y).max(initial=0.0))
    scale = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0)), floor)
    return off / scale if np.isfinite(off) else float("inf")


def pose_differences(
    alignment: Alignment, side: Side, at: RandomStates, tolerance: float
) -> Iterator[ModelDifference]:
    """Bodies that B itself puts elsewhere than the model that was read from it says."""
    poses = side.values.get("poses")
    if not isinstance(poses, dict):
        return
    robot = Robot(alignment.b, native=False)
    found = robot.frame_poses(alignment.adapter().to_q(at.q))
    ours = dict(zip(robot.frame_names, np.moveaxis(found, -3, 0), strict=True))
    for name in (n for n in poses if n in ours):
        off = float(np.abs(ours[name] - poses[name]).max(initial=0.0))
        if not off <= tolerance * max(robot_extent(alignment.b), 1.0):
            message = f"is {off:.3g} away from where @B's own numbers put it"
            yield ModelDifference(f"body {name!r}", message, off)
