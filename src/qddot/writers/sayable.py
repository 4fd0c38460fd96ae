"""What is left of a robot when a format has said what it can, and what it cannot say."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from qddot.joints import Joint
from qddot.loaders.description import Description
from qddot.model import STANDARD_GRAVITY
from qddot.parts import Link, PolynomialCoupling
from qddot.writers.losses import Loss, loss
from qddot.writers.possible import possible

__all__ = ["POLYNOMIAL_TERMS", "Format", "sayable"]

Format = Literal["urdf", "mjcf"]
POLYNOMIAL_TERMS = 5
"""Coefficients of a coupling in MJCF."""


@dataclass(frozen=True)
class _Rule:
    """What a format cannot say of a joint: how it reads ("" for nothing), and what is left."""

    kind: str
    dynamics: bool
    message: str
    reads: Callable[[Joint], str]
    left: Callable[[Joint], Joint]


def _drive(**values: Any) -> Callable[[Joint], Joint]:
    """A joint with other fields of its drivetrain."""
    return lambda j: dataclasses.replace(j, drivetrain=dataclasses.replace(j.drivetrain, **values))


def _bounds(**values: Any) -> Callable[[Joint], Joint]:
    """A joint with other limits."""
    return lambda j: dataclasses.replace(j, limits=dataclasses.replace(j.limits, **values))


def _of_motion(joint: Joint, turning: str, sliding: str) -> str:
    return sliding if joint.kind.name == "prismatic" else turning


def _armature(joint: Joint) -> str:
    reflected = joint.drivetrain.reflected_inertia
    return f"{reflected:g} {_of_motion(joint, 'kg m²', 'kg')}" if reflected else ""


def _rotor(joint: Joint) -> str:
    drive = joint.drivetrain
    if not drive.rotor_inertia:
        return ""
    return f"rotor {drive.rotor_inertia:g}, gear ratio {drive.gear_ratio:g}"


def _as_armature(joint: Joint) -> Joint:
    return _drive(armature=joint.drivetrain.reflected_inertia, rotor_inertia=0.0, gear_ratio=1.0)(
        joint
    )


def _spring(joint: Joint) -> str:
    drive = joint.drivetrain
    if not drive.stiffness:
        return ""
    rest = f" about {', '.join(f'{x:g}' for x in drive.rest)}" if drive.rest else ""
    return f"{drive.stiffness:g} {_of_motion(joint, 'N m/rad', 'N/m')}{rest}"


def _spring_of_many(joint: Joint) -> str:
    return _spring(joint) if joint.kind.name in ("free", "planar") else ""


def _rest_of_ball(joint: Joint) -> str:
    turned = joint.kind.name == "ball" and joint.drivetrain.rest not in (None, joint.kind.neutral)
    return _spring(joint) if turned else ""


def _friction_of_slides(joint: Joint) -> str:
    friction = joint.drivetrain.friction
    return f"{friction:g}" if friction and joint.kind.name in ("planar", "free") else ""


def _speed_limit(joint: Joint) -> str:
    speed = joint.limits.velocity
    return f"{speed:g} {_of_motion(joint, 'rad/s', 'm/s')}" if speed < math.inf else ""


def _no_effort(joint: Joint) -> str:
    return "0" if joint.limits.effort == 0 and joint.kind.nv else ""


def _point_range(joint: Joint) -> str:
    limits = joint.limits
    return f"[{limits.lower:g}, {limits.upper:g}]" if limits.lower == limits.upper else ""


_RULES: dict[Format, tuple[_Rule, ...]] = {
    "urdf": (
        _Rule(
            "armature", True, "URDF has no reflected inertia: M lacks it", _armature,
            _drive(armature=0.0, rotor_inertia=0.0, gear_ratio=1.0),
        ),
        _Rule("springs", True, "URDF has none", _spring, _drive(stiffness=0.0, rest=None)),
    ),
    "mjcf": (
        _Rule("rotors", False, "written as armature, one number", _rotor, _as_armature),
        _Rule(
            "springs", True, "MuJoCo has none on free joints, and none on a plane",
            _spring_of_many, _drive(stiffness=0.0, rest=None),
        ),
        _Rule(
            "spring rest", True, "MuJoCo relaxes a ball joint at the identity",
            _rest_of_ball, _drive(rest=None),
        ),
        _Rule(
            "friction", True, "no Coulomb friction along axes that turn with the body",
            _friction_of_slides, _drive(friction=0.0),
        ),
        _Rule(
            "speed limits", False, "MJCF has none", _speed_limit, _bounds(velocity=math.inf)
        ),
        _Rule(
            "effort limits", False, "MJCF cannot say a limit of zero: none is written",
            _no_effort, _bounds(effort=math.inf),
        ),
        _Rule(
            "position limits", False, "MuJoCo refuses a range without extent: none is written",
            _point_range, _bounds(lower=-math.inf, upper=math.inf),
        ),
    ),
}  # fmt: skip


def sayable(description: Description, form: Format) -> tuple[Description, list[Loss]]:
    """The robot as far as a format can say it, and what it cannot."""
    losses: list[Loss] = []
    links: Sequence[Link] = description.links
    for rule in _RULES[form]:
        found = {x.joint.name: text for x in links if (text := rule.reads(x.joint))}
        alike = [(t, [n for n in found if found[n] == t]) for t in dict.fromkeys(found.values())]
        items = (f"{text} at {', '.join(map(repr, names))}" for text, names in alike)
        losses += loss(rule.kind, rule.dynamics, rule.message, items)
        links = [
            dataclasses.replace(x, joint=rule.left(x.joint)) if x.joint.name in found else x
            for x in links
        ]
    left = dataclasses.replace(description, links=tuple(links))
    if form == "urdf":
        return _without_world(left, losses)
    accepted, more = possible(left.links)
    return _with_simple_laws(dataclasses.replace(left, links=accepted), losses + more)


def _said(c: PolynomialCoupling) -> str:
    return f"{c.follower!r} of {c.leader!r}, {c.coefficients}"


def _without_world(d: Description, losses: list[Loss]) -> tuple[Description, list[Loss]]:
    """What URDF cannot say of a robot as a whole."""
    if d.gravity != STANDARD_GRAVITY:
        given = f"({', '.join(f'{x:g}' for x in d.gravity)}) m/s²"
        losses += loss("gravity", True, "URDF has none: readers take (0, 0, -9.81)", [given])
    home = {f.name: f.link or "world" for f in d.frames}
    ends = [(x, home.get(x.frame1, x.frame1), home.get(x.frame2, x.frame2)) for x in d.loops]
    kept = [f"loop {x.name!r} ({x.kind}) between {a!r} and {b!r}" for x, a, b in ends]
    losses += loss("loops", True, "URDF is a tree: the robot is open there", kept)
    losses += loss(
        "couplings", True, "URDF's mimic is linear: these joints are independent",
        map(_said, d.polynomial_couplings),
    )  # fmt: skip
    named = [f"{name!r}" for name in d.configurations if name != "qpos0"]
    losses += loss("configurations", False, "URDF names none", named)
    return dataclasses.replace(
        d, gravity=STANDARD_GRAVITY, loops=(), polynomial_couplings=(), configurations={}
    ), losses


def _with_simple_laws(d: Description, losses: list[Loss]) -> tuple[Description, list[Loss]]:
    """What MJCF cannot say of loops and couplings.

    It holds points and poses together, nothing between; its polynomials end at the fourth power.
    """
    sayable_kinds = {"spherical": 3, "weld": 6}
    lost = [x for x in d.loops if sayable_kinds.get(x.kind) != x.size]
    items = [f"loop {x.name!r} ({x.kind}, {x.size} equations)" for x in lost]
    losses += loss("loops", True, "MJCF connects points and welds poses only: open there", items)
    long = [c for c in d.polynomial_couplings if any(c.coefficients[POLYNOMIAL_TERMS:])]
    losses += loss(
        "couplings", True, "MJCF has no power above four: these joints are independent",
        map(_said, long),
    )  # fmt: skip
    return dataclasses.replace(
        d,
        loops=tuple(x for x in d.loops if x not in lost),
        polynomial_couplings=tuple(c for c in d.polynomial_couplings if c not in long),
    ), losses
