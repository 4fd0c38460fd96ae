"""The stages that compare numbers of the models: masses to poses, each with what aligns it.

A model is compared with one of the same structure (B as seen from the frames of A), body by body;
aligning a stage copies its numbers from there. In messages the sides are written @A and @B, to be
replaced by what they are called.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from qddot.model import Body, Model
from qddot.spatial import Inertia, Vec3
from qddot.verify.compare.align import arrays, extent
from qddot.verify.compare.explain import explain_inertia, explain_ratio
from qddot.verify.compare.result import Difference, both, shown

__all__ = ["PARAMETER_STAGES", "ParameterStage"]

Finder = Callable[[Model, Model, float], Iterator[Difference]]


@dataclass(frozen=True)
class ParameterStage:
    """A stage: what differs between two models beyond a tolerance, and A with that aligned."""

    name: str
    differences: Finder
    align: Callable[[Model, Model], Model]


def _pairs(a: Model, b: Model) -> Iterator[tuple[Body, Body]]:
    return zip(a.bodies, b.bodies, strict=True)


def _with_bodies(a: Model, b: Model, change: Callable[[Body, Body], Body]) -> Model:
    return dataclasses.replace(a, bodies=tuple(change(x, y) for x, y in _pairs(a, b)))


def _moving_mass(model: Model) -> float:
    return sum(float(body.inertia.mass) for body in model.bodies)


def _numbers(v: object) -> list[float]:
    return [float(c) for c in v]  # type: ignore[attr-defined]


def _total_mass(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
    ours, theirs = _moving_mass(a), _moving_mass(b)
    scale = max(ours, theirs)
    if abs(ours - theirs) <= tolerance * scale:
        return
    message = f"weighs {both(ours, theirs, 'kg')}, what is fixed not counted"
    yield Difference("the robot", message, abs(ours - theirs) / scale, ours, theirs)
    yield from _masses(a, b, tolerance)


def _masses(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
    for x, y in _pairs(a, b):
        ours, theirs = float(x.inertia.mass), float(y.inertia.mass)
        scale = max(ours, theirs)
        if abs(ours - theirs) > tolerance * scale:
            why = explain_inertia(x, y)
            message = f"weighs {both(ours, theirs, 'kg')}{why}"
            yield Difference(_body(x), message, abs(ours - theirs) / scale, ours, theirs)


def _body(body: Body) -> str:
    return f"body {body.name!r}"


def _joint(body: Body) -> str:
    return f"joint {body.joint.name!r}"


def _align_masses(a: Model, b: Model) -> Model:
    """Masses, and all of an inertia that differs as by a load."""

    def change(x: Body, y: Body) -> Body:
        if x.inertia.mass == y.inertia.mass:
            return x
        if not float(x.inertia.mass) or explain_inertia(x, y):
            return dataclasses.replace(x, inertia=y.inertia)
        heavier = Inertia.at_com(y.inertia.mass, x.inertia.com, x.inertia.tensor_at_com)
        return dataclasses.replace(x, inertia=heavier)

    return _with_bodies(a, b, change)


def _coms(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
    size = extent(a)
    for x, y in _pairs(a, b):
        if not float(x.inertia.mass) or not float(y.inertia.mass):
            continue
        ours, theirs = (np.array(_numbers(i.com)) for i in (x.inertia, y.inertia))
        off = float(np.linalg.norm(ours - theirs))
        if off > tolerance * size:
            why = _explain_com(ours, theirs)
            message = f"has its centre of mass at {shown(ours)} m in @A, {shown(theirs)} in @B: "
            message += f"{off:.3g} m apart{why}"
            yield Difference(_body(x), message, off / size, ours.tolist(), theirs.tolist())


def _explain_com(ours: np.ndarray, theirs: np.ndarray) -> str:
    near = 1e-3 * float(np.abs(ours - theirs).max())
    same = np.abs(ours - theirs) <= near
    if (same | (np.abs(ours + theirs) <= near)).all():
        flipped = " and ".join(c for c, kept in zip("xyz", same, strict=True) if not kept)
        return f", the sign of {flipped} differs"
    if (np.abs(np.sort(np.abs(ours)) - np.sort(np.abs(theirs))) <= near).all():
        return ", the same numbers along other axes: its frame is turned"
    return explain_ratio(float(np.linalg.norm(ours)), float(np.linalg.norm(theirs)), "millimetres")


def _align_coms(a: Model, b: Model) -> Model:
    def change(x: Body, y: Body) -> Body:
        if not float(x.inertia.mass) or not float(y.inertia.mass):
            return x
        if x.inertia.com == y.inertia.com:
            return x
        moved = Inertia.at_com(x.inertia.mass, y.inertia.com, x.inertia.tensor_at_com)
        return dataclasses.replace(x, inertia=moved)

    return _with_bodies(a, b, change)


def _tensors(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
    for x, y in _pairs(a, b):
        if not float(x.inertia.mass) and not float(y.inertia.mass):
            continue
        ours, theirs = (np.array([*i.tensor_at_com]) for i in (x.inertia, y.inertia))
        # taking a tensor to the centre of mass costs digits of the one about the origin
        scale = max(float(np.abs(np.array([*i.I])).max()) for i in (x.inertia, y.inertia))
        off = float(np.abs(ours - theirs).max())
        if off > tolerance * scale:
            why = explain_inertia(x, y)
            names = ("xx", "xy", "yy", "xz", "yz", "zz")
            k = int(np.abs(ours - theirs).argmax())
            entries = both(float(ours[k]), float(theirs[k]), "kg m²")
            message = f"has I{names[k]} {entries} (about the centre of mass){why}"
            size = off / max(float(np.abs(ours).max()), float(np.abs(theirs).max()), 1e-300)
            yield Difference(_body(x), message, size, ours.tolist(), theirs.tolist())


def _align_tensors(a: Model, b: Model) -> Model:
    return _with_bodies(a, b, lambda x, y: dataclasses.replace(x, inertia=y.inertia))


def _gravity(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
    ours, theirs = np.array(_numbers(a.gravity)), np.array(_numbers(b.gravity))
    off = float(np.linalg.norm(ours - theirs))
    scale = max(float(np.linalg.norm(ours)), float(np.linalg.norm(theirs)))
    if off > tolerance * scale:
        message = f"is {shown(ours)} m/s² in @A, {shown(theirs)} in @B"
        yield Difference("gravity", message, off / scale, ours.tolist(), theirs.tolist())


def _align_gravity(a: Model, b: Model) -> Model:
    return dataclasses.replace(a, gravity=b.gravity)


_TOGETHER = {
    "armature": ("armature", "rotor_inertia", "gear_ratio"),
    "stiffness": ("stiffness", "rest"),
}


def _drive(field: str, what: str, unit: str) -> tuple[Finder, Callable[[Model, Model], Model]]:
    """The stage of a quantity of the drivetrain."""

    def value(body: Body) -> float:
        drive = body.joint.drivetrain
        return float(drive.reflected_inertia if field == "armature" else getattr(drive, field))

    def find(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
        for x, y in _pairs(a, b):
            ours, theirs = value(x), value(y)
            scale = max(abs(ours), abs(theirs))
            if abs(ours - theirs) > tolerance * scale:
                message = f"{what} {both(ours, theirs, unit)}"
                if not ours or not theirs:
                    side, there = ("@A", ours) if ours else ("@B", theirs)
                    message = f"{what} {there:.6g} {unit} only in {side}"
                yield Difference(_joint(x), message, abs(ours - theirs) / scale, ours, theirs)

    def align(a: Model, b: Model) -> Model:
        fields = _TOGETHER.get(field, (field,))

        def change(x: Body, y: Body) -> Body:
            taken = {f: getattr(y.joint.drivetrain, f) for f in fields}
            drive = dataclasses.replace(x.joint.drivetrain, **taken)
            return dataclasses.replace(x, joint=dataclasses.replace(x.joint, drivetrain=drive))

        return _with_bodies(a, b, change)

    return find, align


def _poses(a: Model, b: Model, tolerance: float) -> Iterator[Difference]:
    size = extent(a)
    for x, y in _pairs(a, b):
        yield from _placement(x, y, tolerance, size)
        for ours, theirs in zip(x.joint.axes[-1:], y.joint.axes[-1:], strict=False):
            angle = _angle_between(ours, theirs)
            if angle > tolerance:
                message = f"has its axis at {shown(ours)} in @A, {shown(theirs)} in @B: "
                message += f"{math.degrees(angle):.4g}° apart"
                pair = _numbers(ours), _numbers(theirs)
                yield Difference(_joint(x), message, angle, *pair)
        pitches = float(x.joint.pitch), float(y.joint.pitch)
        if abs(pitches[0] - pitches[1]) > tolerance * max(map(abs, pitches)):
            message = f"advances by {both(*pitches, 'm/rad')}"
            yield Difference(_joint(x), message, abs(pitches[0] - pitches[1]), *pitches)
    for here, there in zip(a.frames, b.frames, strict=True):
        X, Y = arrays(here.placement), arrays(there.placement)
        shift, angle = _apart(X, Y)
        if shift > tolerance * size or angle > tolerance:
            message = (
                f"lies {shift:.4g} m and {math.degrees(angle):.4g}° elsewhere on its body in @B"
            )
            message += " (no term of the dynamics depends on it)"
            yield Difference(f"frame {here.name!r}", message, max(shift / size, angle))


def _placement(x: Body, y: Body, tolerance: float, size: float) -> Iterator[Difference]:
    """How the joint of a body is placed in its parent."""
    X, Y = arrays(x.placement), arrays(y.placement)
    shift, angle = _apart(X, Y)
    if shift <= tolerance * size and angle <= tolerance:
        return
    difference = np.linalg.inv(X) @ Y
    along = _about_axis(x, difference)
    if along is not None:
        message = (
            f"stands {along} further in @B at the same q: another zero position, or another base"
        )
    else:
        parts = []
        if shift > tolerance * size:
            parts.append(f"{shift:.4g} m apart ({shown(X[:3, 3])} in @A, {shown(Y[:3, 3])} in @B)")
        if angle > tolerance:
            parts.append(f"turned by {math.degrees(angle):.4g}°")
        message = f"is placed otherwise on its parent: {', '.join(parts)}"
    pair = X[:3, 3].tolist(), Y[:3, 3].tolist()
    yield Difference(_joint(x), message, max(shift / size, angle), *pair)


def _about_axis(x: Body, difference: np.ndarray) -> str | None:
    """A motion of the joint itself, in words, if the difference of placements is one."""
    if x.joint.kind.nq != 1:
        return None
    axis, (shift, angle) = np.array(_numbers(x.joint.axes[0])), _apart(np.eye(4), difference)
    turned = np.linalg.norm(difference[:3, :3] @ axis - axis) < 1e-6
    if x.joint.kind.name == "prismatic":
        sliding = np.linalg.norm(np.cross(axis, difference[:3, 3])) < 1e-6 * max(shift, 1e-3)
        return f"{shift:.4g} m along its axis" if angle < 1e-6 and sliding else None
    if turned and shift < 1e-6:
        return f"{math.degrees(angle):.4g}° about its axis"
    return None


def _apart(X: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Distance and angle between two poses."""
    R = X[:3, :3].T @ Y[:3, :3]
    spin = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    angle = math.atan2(0.5 * float(np.linalg.norm(spin)), 0.5 * (float(np.trace(R)) - 1.0))
    return float(np.linalg.norm(X[:3, 3] - Y[:3, 3])), angle


def _angle_between(u: Vec3, v: Vec3) -> float:
    x, y = np.array(_numbers(u)), np.array(_numbers(v))
    return math.atan2(float(np.linalg.norm(np.cross(x, y))), float(x @ y))


def _align_poses(a: Model, b: Model) -> Model:
    def change(x: Body, y: Body) -> Body:
        joint = dataclasses.replace(x.joint, axes=y.joint.axes, pitch=y.joint.pitch)
        return dataclasses.replace(x, placement=y.placement, joint=joint)

    return dataclasses.replace(_with_bodies(a, b, change), frames=b.frames)


PARAMETER_STAGES = (
    ParameterStage("total mass", _total_mass, _align_masses),
    ParameterStage("mass of bodies", _masses, _align_masses),
    ParameterStage("centre of mass", _coms, _align_coms),
    ParameterStage("inertia tensor", _tensors, _align_tensors),
    ParameterStage("gravity", _gravity, _align_gravity),
    ParameterStage("armature", *_drive("armature", "armature", "kg m²")),
    ParameterStage("damping", *_drive("damping", "damping", "N m s/rad")),
    ParameterStage("friction", *_drive("friction", "dry friction", "N m")),
    ParameterStage("spring", *_drive("stiffness", "stiffness", "N m/rad")),
    ParameterStage("pose", _poses, _align_poses),
)
"""The stages in the order of the waterfall."""
