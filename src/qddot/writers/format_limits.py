"""The limits of a format: a robot restricted to the properties it can express, and the rest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qddot.errors import count_text
from qddot.loaders.description import Description
from qddot.loaders.formats import FormatName
from qddot.model.joints import Joint
from qddot.model.links import Link
from qddot.model.model import STANDARD_GRAVITY
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.mujoco_inertias import make_inertias_valid

__all__ = ["POLYNOMIAL_TERMS", "restrict_to_format"]

POLYNOMIAL_TERMS = 5
"""Coefficients of a coupling in MJCF."""
_LOOP_EQUATIONS = {"spherical": 3, "weld": 6}
"""Equations of the loop closures that MJCF has: <connect> of points and <weld> of poses."""


@dataclass(frozen=True)
class _JointLimit:
    """A property of joints that a format cannot express.

    `describe` gives the property of a joint as text, "" where it has none; `remove` gives the
    joint without it.
    """

    kind: str
    dynamics: bool
    message: str
    describe: Callable[[Joint], str]
    remove: Callable[[Joint], Joint]


def _replace_drivetrain(joint: Joint, **values: Any) -> Joint:
    return dataclasses.replace(joint, drivetrain=dataclasses.replace(joint.drivetrain, **values))


def _replace_limits(joint: Joint, **values: Any) -> Joint:
    return dataclasses.replace(joint, limits=dataclasses.replace(joint.limits, **values))


def _spring_text(joint: Joint) -> str:
    drive, unit = joint.drivetrain, "N/m" if joint.kind.slides else "N m/rad"
    rest = f" about {', '.join(f'{x:g}' for x in drive.rest)}" if drive.rest else ""
    return f"{drive.stiffness:g} {unit}{rest}" if drive.stiffness else ""


def _asymmetry_text(joint: Joint) -> str:
    """Coulomb friction that differs between the two directions."""
    ahead, back = joint.drivetrain.friction_levels
    return f"{ahead:g} forward, {back:g} backward" if ahead != back else ""


def _average_friction(joint: Joint) -> Joint:
    """The mean Coulomb friction for both directions."""
    mean = sum(joint.drivetrain.friction_levels) / 2.0
    return _replace_drivetrain(joint, friction=mean, backward_friction=None)


def _moves_in_body_axes(joint: Joint) -> bool:
    """Whether the velocities of a joint are along axes that turn with the body: planar, free."""
    kind = joint.kind
    return kind.floats or (kind.nv > 1 and kind.quaternion is None and not kind.chain)


_JOINT_LIMITS: dict[FormatName, tuple[_JointLimit, ...]] = {
    "urdf": (
        _JointLimit(
            "armature", True, "URDF has no reflected inertia: M lacks it",
            lambda j: f"{j.drivetrain.reflected_inertia:g} {'kg' if j.kind.slides else 'kg m²'}"
            if j.drivetrain.reflected_inertia else "",
            lambda j: _replace_drivetrain(j, armature=0.0, rotor_inertia=0.0, gear_ratio=1.0),
        ),
        _JointLimit(
            "springs", True, "URDF has none", _spring_text,
            lambda j: _replace_drivetrain(j, stiffness=0.0, rest=None),
        ),
        _JointLimit(
            "friction", True, "URDF has one for both directions: the mean is written",
            _asymmetry_text, _average_friction,
        ),
    ),
    "mjcf": (
        _JointLimit(
            "rotors", False, "written as armature, one number",
            lambda j: f"rotor {j.drivetrain.rotor_inertia:g}, "
            f"gear ratio {j.drivetrain.gear_ratio:g}" if j.drivetrain.rotor_inertia else "",
            lambda j: _replace_drivetrain(
                j, armature=j.drivetrain.reflected_inertia, rotor_inertia=0.0, gear_ratio=1.0
            ),
        ),
        _JointLimit(
            "springs", True, "MuJoCo has none on free joints, and none on a plane",
            lambda j: _spring_text(j) if _moves_in_body_axes(j) else "",
            lambda j: _replace_drivetrain(j, stiffness=0.0, rest=None),
        ),
        _JointLimit(
            "spring rest", True, "MuJoCo relaxes a ball joint at the identity",
            lambda j: _spring_text(j) if j.kind.quaternion and not j.kind.floats
            and j.drivetrain.rest not in (None, j.kind.neutral) else "",
            lambda j: _replace_drivetrain(j, rest=None),
        ),
        _JointLimit(
            "friction", True, "MJCF has one for both directions: the mean is written",
            _asymmetry_text, _average_friction,
        ),
        _JointLimit(
            "friction", True, "no Coulomb friction along axes that turn with the body",
            lambda j: f"{j.drivetrain.friction:g}"
            if j.drivetrain.friction and _moves_in_body_axes(j) else "",
            lambda j: _replace_drivetrain(j, friction=0.0),
        ),
        _JointLimit(
            "speed limits", False, "MJCF has none",
            lambda j: f"{j.limits.velocity:g} {'m/s' if j.kind.slides else 'rad/s'}"
            if j.limits.velocity < math.inf else "",
            lambda j: _replace_limits(j, velocity=math.inf),
        ),
        _JointLimit(
            "effort limits", False, "MJCF cannot say a limit of zero: none is written",
            lambda j: "0" if j.limits.effort == 0 and j.kind.nv else "",
            lambda j: _replace_limits(j, effort=math.inf),
        ),
        _JointLimit(
            "position limits", False, "MuJoCo refuses a range without extent: none is written",
            lambda j: f"[{j.limits.lower:g}, {j.limits.upper:g}]"
            if j.limits.lower == j.limits.upper else "",
            lambda j: _replace_limits(j, lower=-math.inf, upper=math.inf),
        ),
    ),
}  # fmt: skip


def restrict_to_format(
    robot: Description, form: FormatName
) -> tuple[Description, list[ConversionLoss]]:
    """The robot restricted to the properties that a format can express, and its losses by that."""
    losses: list[ConversionLoss] = []
    links: Sequence[Link] = robot.links
    for limit in _JOINT_LIMITS[form]:
        texts = {x.joint.name: text for x in links if (text := limit.describe(x.joint))}
        # joints with the same numbers are listed together
        items = []
        for text in dict.fromkeys(texts.values()):
            names = ", ".join(repr(name) for name in texts if texts[name] == text)
            items.append(f"{text} at {names}")
        losses += conversion_loss(limit.kind, limit.dynamics, limit.message, items)
        links = [
            dataclasses.replace(x, joint=limit.remove(x.joint)) if x.joint.name in texts else x
            for x in links
        ]
    robot = dataclasses.replace(robot, links=tuple(links))
    if form == "urdf":
        # gravity, loops, polynomials and named configurations
        if robot.gravity != STANDARD_GRAVITY:
            vector = f"({', '.join(f'{x:g}' for x in robot.gravity)}) m/s²"
            message = "URDF has none: readers take (0, 0, -9.81)"
            losses += conversion_loss("gravity", True, message, [vector])
        # a frame on a link is written by that link
        home = {f.name: f.link or "world" for f in robot.frames}
        loops = []
        for x in robot.loops:
            a, b = home.get(x.frame1, x.frame1), home.get(x.frame2, x.frame2)
            loops.append(f"loop {x.name!r} ({x.kind}) between {a!r} and {b!r}")
        losses += conversion_loss("loops", True, "URDF is a tree: the robot is open there", loops)
        losses += conversion_loss(
            "couplings", True, "URDF's mimic is linear: these joints are independent",
            (f"{c.follower!r} of {c.leader!r}, {c.coefficients}"
             for c in robot.polynomial_couplings),
        )  # fmt: skip
        named = [f"{name!r}" for name in robot.configurations if name != "qpos0"]
        losses += conversion_loss("configurations", False, "URDF names none", named)
        return dataclasses.replace(
            robot, gravity=STANDARD_GRAVITY, loops=(), polynomial_couplings=(), configurations={}
        ), losses
    # MuJoCo refuses impossible inertias
    valid, more = make_inertias_valid(robot.links)
    losses += more
    # MJCF holds points and poses together, nothing between
    open_loops = [x for x in robot.loops if _LOOP_EQUATIONS.get(x.kind) != x.size]
    items = [f"loop {x.name!r} ({x.kind}, {count_text(x.size, 'equation')})" for x in open_loops]
    message = "MJCF connects points and welds poses only: open there"
    losses += conversion_loss("loops", True, message, items)
    # its polynomials end at the fourth power
    long = [c for c in robot.polynomial_couplings if any(c.coefficients[POLYNOMIAL_TERMS:])]
    losses += conversion_loss(
        "couplings", True, "MJCF has no power above four: these joints are independent",
        (f"{c.follower!r} of {c.leader!r}, {c.coefficients}" for c in long),
    )  # fmt: skip
    return dataclasses.replace(
        robot,
        links=valid,
        loops=tuple(x for x in robot.loops if x not in open_loops),
        polynomial_couplings=tuple(c for c in robot.polynomial_couplings if c not in long),
    ), losses
