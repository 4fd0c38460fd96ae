"""The numbers of a model by name: masses, lengths, moments, angles, as a textbook would write them.

A zero has no name; a placement along one axis is a length, a centre of mass along one axis
a distance; a point mass is at the end of its link. Right angles and axes stay numbers.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from qddot.model.joints import Drivetrain, Joint
from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3, rotation_from_rpy
from qddot.spatial.scalar import Scalar

__all__ = ["Number", "Parameter", "collect_parameters", "named_model", "tensor_label"]

_ZERO = 1e-12
_RIGHT_ANGLE = 1e-4
_QUARTER = 0.5 * math.pi
_AXES = "xyz"
_MOMENTS = ("xx", "xy", "yy", "xz", "yz", "zz")


@dataclass(frozen=True)
class Parameter:
    """A named number of a model."""

    name: str
    value: float
    unit: str
    meaning: str


Number = Callable[[str, float, str, str], Scalar]
"""The scalar for a number, by its name (empty if it stays a number), value, unit and meaning."""


def collect_parameters(model: Model) -> tuple[Model, tuple[Parameter, ...], tuple[str, ...]]:
    """The model with tidy numbers, its parameters, and notes on angles that were rounded."""
    found: dict[str, Parameter] = {}
    notes: list[str] = []

    def number(name: str, value: float, unit: str, meaning: str) -> float:
        if not name:
            return value
        tidy = float(f"{value:.14g}")
        return found.setdefault(name, Parameter(name, tidy, unit, meaning)).value

    tidy = named_model(model, number, notes.append)
    return tidy, tuple(found.values()), tuple(notes)


def named_model(
    model: Model, number: Number, on_note: Callable[[str], None] = lambda note: None
) -> Model:
    """The model with every number passed through `number`."""
    # symbols of a body end in its name where names are short words, else in its number
    names = [b.name for b in model.bodies]
    short = all(name.isascii() and name.isalpha() and len(name) <= 8 for name in names)
    labels = [f"_{name}" if short else str(i + 1) for i, name in enumerate(names)]
    bodies = []
    for i, (body, label) in enumerate(zip(model.bodies, labels, strict=True)):
        # the pose of the joint in the body before it: a length or components, and angles
        base = body.parent == WORLD
        place = "0" if base else labels[body.parent]
        if sum(b.parent == body.parent for b in model.bodies) > 1:
            place += label if label.startswith("_") else f"_{label}"
        before = "the world" if base else model.bodies[body.parent].name
        p = _name_vector(
            number, body.placement.p, f"l{place}", f"l{{axis}}{place}", body.joint.name, before
        )
        named = dataclasses.replace(
            body,
            placement=Transform(_name_rotation(body, label, number, on_note), p),
            joint=_name_joint(body, label, number, on_note),
            inertia=_name_inertia(model, i, label, number),
        )
        bodies.append(named)
    gravity = _name_vector(number, model.gravity, "g", "g{axis}", "gravity", "the world", "m/s²")
    return dataclasses.replace(model, bodies=tuple(bodies), gravity=gravity)


def tensor_label(name: str) -> str | None:
    """The label of the body whose moment of inertia has this name."""
    match = re.fullmatch(r"I(?:xx|xy|yy|xz|yz|zz)(.+)", name)
    return match[1] if match else None


def _name_vector(
    number: Number, v: Vec3, single: str, several: str, what: str, of: str, unit: str = "m"
) -> Vec3:
    """A vector by names: one magnitude where it lies along an axis, else its components."""
    parts = [0.0 if abs(x) < _ZERO else x for x in v]
    used = [k for k, x in enumerate(parts) if x]
    for k in used:
        if len(used) == 1:
            sign = math.copysign(1.0, parts[k])
            distance = "distance to " if unit == "m" else ""
            along = f"{distance}{what}, along {'−' if sign < 0 else ''}{_AXES[k]} of {of}"
            parts[k] = number(single, abs(parts[k]), unit, along) * sign
        else:
            along = f"{_AXES[k]} of {what} in {of}"
            parts[k] = number(several.format(axis=_AXES[k]), parts[k], unit, along)
    return Vec3(*parts)


def _name_rotation(body: Body, label: str, number: Number, on_note: Callable[[str], None]) -> Mat3:
    """A rotation by right angles and at most one other, which has a name; else the numbers."""
    R = body.placement.R
    if all(x in (-1.0, 0.0, 1.0) for row in R for x in row):
        return R
    # R = Rz(yaw) Ry(pitch) Rx(roll); no roll where the pitch is a right angle
    flat = math.hypot(R.a.x, R.b.x)
    roll, pitch, yaw = 0.0, math.atan2(-R.c.x, flat), math.atan2(-R.a.y, R.b.y)
    if flat >= _RIGHT_ANGLE:
        roll, yaw = math.atan2(R.c.y, R.c.z), math.atan2(R.b.x, R.a.x)
    angles = [(x, round(x / _QUARTER) * _QUARTER) for x in (roll, pitch, yaw)]
    # at most one angle that is not a right one has a name
    tilted = [k for k, (angle, right) in enumerate(angles) if abs(angle - right) > _RIGHT_ANGLE]
    if len(tilted) > 1:
        return R
    turns: list[Scalar] = []
    for k, (angle, right) in enumerate(angles):
        letter, word = _RPY[k]
        what, off = f"{word} of {body.joint.name}", abs(angle - right)
        if k not in tilted and off > 1e-9:
            on_note(f"{what} taken as a right angle: {off:.1e} rad off")
        # a right angle is a scalar of the same kind as the other numbers, whose cosine is exact
        name, value = (f"{letter}{label}", angle) if k in tilted else ("", right)
        turns.append(number(name, value, "rad", what))

    # plain entries that rounding keeps from 0, 1 or −1 become exact
    def exact(x: Scalar) -> Scalar:
        return float(round(x)) if isinstance(x, float) and abs(x - round(x)) < _ZERO else x

    return Mat3(*(Vec3(*map(exact, row)) for row in rotation_from_rpy(*turns)))


_RPY = (("alpha", "roll"), ("beta", "pitch"), ("gamma", "yaw"))


def _name_joint(body: Body, label: str, number: Number, on_note: Callable[[str], None]) -> Joint:
    """The joint with its pitch, offset and reflected inertia by name; ratios stay numbers."""
    joint, drive = body.joint, body.joint.drivetrain
    angular = joint.kind.angular[0]
    offset, pitch, reflected = joint.offset, joint.pitch, drive.reflected_inertia
    if offset:
        unit = "rad" if angular else "m"
        quarters = offset / _QUARTER
        right = angular and abs(quarters - round(quarters)) < _ZERO
        offset = number("" if right else f"o{label}", offset, unit, f"offset of {joint.name}")
    if pitch:
        pitch = number(f"h{label}", pitch, "m/rad", f"pitch of {joint.name}")
    if reflected:
        unit = "kg m²" if angular else "kg"
        meaning = f"reflected inertia at {joint.name}"
        reflected = number(f"Ir{label}", reflected, unit, meaning)
    # an axis that nearly is x, y or z becomes exact
    axes = []
    for axis in joint.axes:
        near = Vec3(*(float(round(x)) for x in axis))
        off = max(abs(x - y) for x, y in zip(axis, near, strict=True))
        if 1e-9 < off < _RIGHT_ANGLE:
            on_note(f"axis of {joint.name} taken along x, y or z: {off:.1e} off")
        axes.append(near if 0.0 < off < _RIGHT_ANGLE else axis)
    return dataclasses.replace(
        joint,
        axes=tuple(axes),
        offset=offset,
        pitch=pitch,
        drivetrain=Drivetrain(armature=reflected),
    )


def _name_inertia(model: Model, i: int, label: str, number: Number) -> Inertia:
    """Mass, centre of mass and moments about it by name."""
    body = model.bodies[i]
    given, name = body.inertia, body.name
    if not any(given):
        return Inertia.zero()
    rounding = _ZERO * max(map(abs, given.I))
    tensor = [0.0 if abs(x) <= rounding else x for x in given.tensor_at_com]
    children = [b.placement.p for b in model.bodies if b.parent == i]
    com = given.com
    tips = all(max(map(abs, com - p)) < _ZERO for p in children)
    # the length of a link that is a point mass is the way to that mass
    letter = "l" if not any(tensor) and tips and len(children) < 2 else "r"
    mass = number(f"m{label}", given.mass, "kg", f"mass of {name}") if given.mass else 0.0
    what = "the point mass" if letter == "l" else "the centre of mass"
    c = _name_vector(number, com, f"{letter}{label}", f"c{{axis}}{label}", what, name)
    moments = [
        number(
            f"I{axes}{label}",
            x,
            "kg m²",
            f"moment of inertia {axes} of {name}, at its centre of mass",
        )
        if x
        else 0.0
        for axes, x in zip(_MOMENTS, tensor, strict=True)
    ]
    return Inertia.at_com(mass, c, Sym3(*moments))
