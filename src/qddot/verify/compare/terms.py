"""The stages that compare terms of the equation, as both sides compute them at the same states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.adapt import Adapter
from qddot.errors import QddotError
from qddot.model import Body, Model
from qddot.robot import Robot
from qddot.verify.compare.align import Alignment, extent
from qddot.verify.compare.result import Difference, Stage, joined
from qddot.verify.invariants import Sample

__all__ = ["Side", "measured_poses", "numbers_of", "term_stages"]

_TERMS = ("M", "g", "bias", "passive", "q̈")
_EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Side:
    """B: its model with its couplings, and its values at states in its coordinates.

    A value is an array, or the reason why there is none. `no_friction` says why its passive forces
    lack dry friction, empty if they have it.
    """

    exact: Model
    values: Mapping[str, Any]
    no_friction: str = ""


def numbers_of(model: Model, at: Sample, no_friction: str = "") -> dict[str, Any]:
    """What qddot computes of a model at states: an array a term, or why there is none."""
    robot = Robot(model, native=False)
    lossy = Robot(_without_dry_friction(model), native=False) if no_friction else robot
    found: dict[str, Any] = {
        "M": robot.mass_matrix(at.q),
        "g": robot.gravity(at.q),
        "bias": robot.bias(at.q, at.v),
        "passive": lossy.friction(at.q, at.v),
    }
    for name, tau in (("q̈", at.a - found["passive"]), ("q̈ without losses", at.a)):
        try:
            found[name] = robot.forward_dynamics(at.q, at.v, tau)
        except QddotError as error:
            found[name] = str(error)
    return found


def _without_dry_friction(model: Model) -> Model:
    def change(body: Body) -> Body:
        drive = dataclasses.replace(body.joint.drivetrain, friction=0.0)
        return dataclasses.replace(body, joint=dataclasses.replace(body.joint, drivetrain=drive))

    return dataclasses.replace(model, bodies=tuple(map(change, model.bodies)))


def term_stages(
    alignment: Alignment,
    side: Side,
    steps: Sequence[Model],
    causes: Sequence[str],
    at: Sample,
    tolerance: float,
) -> Iterator[Stage]:
    """The terms, A's also with one cause after the other aligned (`steps`)."""
    theirs = _seen_by_a(alignment.adapter(), at, side.values)
    ours = [numbers_of(model, at, side.no_friction) for model in steps]
    lossless = isinstance(theirs.get("passive"), str)
    condition = float(np.linalg.cond(ours[-1]["M"]).max())
    differing: list[str] = []
    for name in _TERMS:
        rows = [x["q̈ without losses" if name == "q̈" and lossless else name] for x in ours]
        bound = max(tolerance, 10.0 * _EPSILON * condition) if name == "q̈" else tolerance
        floor = _floor(name, alignment.a)
        stage = _judged(name, rows, theirs[name], causes, floor, bound, alignment.a.velocity_names)
        if stage.verdict == "differ":
            left = _unexplained(name, ours[-1], theirs, at.a, floor)
            if differing and left <= bound:
                message = f"{stage.size:.2g} apart, as {joined(differing)} of @B would have it"
                stage = dataclasses.replace(
                    stage, verdict="consequence", message=message, left=left, because=(*differing,)
                )
            else:
                differing.append(name)
        yield stage


def _unexplained(
    name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], tau: np.ndarray, floor: float
) -> float:
    """What is left of the difference of a term that follows from B's terms before it."""
    if name == "bias" and not isinstance(theirs["g"], str):
        return _relative(ours["bias"] - ours["g"] + theirs["g"], theirs["bias"], floor)
    if name == "q̈" and not any(isinstance(theirs[k], str) for k in ("M", "bias")):
        losses = 0.0 if isinstance(theirs["passive"], str) else theirs["passive"]
        force = (tau - theirs["bias"] - losses)[..., None]
        return _relative(np.linalg.solve(theirs["M"], force)[..., 0], theirs["q̈"], floor)
    return float("inf")


def _seen_by_a(adapter: Adapter, at: Sample, values: Mapping[str, Any]) -> dict[str, Any]:
    """B's values in the coordinates of A; reasons as they are."""
    convert: dict[str, Callable[[Any], Any]] = {
        "M": lambda x: adapter.from_mass_matrix(at.q, x),
        "g": lambda x: adapter.from_tau(at.q, x),
        "bias": lambda x: adapter.from_bias(at.q, at.v, x, values["M"]),
        "passive": lambda x: adapter.from_tau(at.q, x),
        "q̈": lambda x: adapter.from_a(at.q, at.v, x),
    }
    found = {}
    for name in _TERMS:
        value = values.get(name, "@B did not come that far")
        found[name] = value if isinstance(value, str) else convert[name](value)
    if adapter.layout.nv != adapter.robot.nv:
        found["q̈"] = "joints that follow others in @A move on their own in @B"
    return found


def _floor(name: str, model: Model) -> float:
    """A size below which differences of a term mean nothing, from the robot's own."""
    mass, length = max(float(model.mass), 1e-9), extent(model)
    weight = mass * length * max(float(np.linalg.norm([float(c) for c in model.gravity])), 1.0)
    return 1e-6 * {"M": mass * length**2, "q̈": 1.0}.get(name, weight)


def _judged(
    name: str,
    ours: Sequence[Any],
    theirs: Any,
    causes: Sequence[str],
    floor: float,
    bound: float,
    names: Sequence[str],
) -> Stage:
    reason = next((x for x in (theirs, *ours) if isinstance(x, str)), "")
    if reason:
        return Stage(name, "not evaluated", reason)
    raw, left = (_relative(x, theirs, floor) for x in (ours[0], ours[-1]))
    if raw <= bound:
        return Stage(name, "agree", f"to {raw:.1e}", raw, left)
    if left <= bound:
        moves = zip(causes, ours, ours[1:], strict=False)
        because = tuple(c for c, x, y in moves if _relative(x, y, floor) > bound)
        made = f"with {joined(because)} made equal it agrees to {left:.1e}"
        return Stage(name, "consequence", f"{raw:.2g} apart; {made}", raw, left, (), because)
    message = f"{raw:.2g} apart"
    if causes:
        message += f", and still {left:.2g} with {joined(causes)} made equal"
    off = np.abs(ours[-1] - theirs)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
    place = " and ".join(dict.fromkeys(repr(names[int(k)]) for k in worst[1:]))
    values = (float(x[worst]) for x in (ours[-1], theirs))
    message += "; most at {}: {:.6g} in @A, {:.6g} in @B".format(place, *values)
    return Stage(name, "differ", message, raw, left)


def _relative(x: np.ndarray, y: np.ndarray, floor: float) -> float:
    """Largest difference relative to the largest entry; infinite where one is not a number."""
    off = float(np.abs(x - y).max(initial=0.0))
    scale = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0)), floor)
    return off / scale if np.isfinite(off) else float("inf")


def measured_poses(
    alignment: Alignment, side: Side, at: Sample, tolerance: float
) -> Iterator[Difference]:
    """Bodies that B itself puts elsewhere than the model that was read from it says."""
    poses = side.values.get("poses")
    if not isinstance(poses, dict):
        return
    robot = Robot(alignment.b, native=False)
    found = robot.frame_poses(alignment.adapter().to_q(at.q))
    ours = dict(zip(robot.frame_names, np.moveaxis(found, -3, 0), strict=True))
    for name in (n for n in poses if n in ours):
        off = float(np.abs(ours[name] - poses[name]).max(initial=0.0))
        if not off <= tolerance * max(extent(alignment.b), 1.0):
            message = f"is {off:.3g} away from where @B's own numbers put it"
            yield Difference(f"body {name!r}", message, off)
