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

from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import Inertia
from qddot.verify.compare.align import pose_matrix, robot_extent
from qddot.verify.compare.explain import explain_inertia, explain_ratio
from qddot.verify.compare.result import ModelDifference, format_both, format_both_vectors

__all__ = ["PARAMETER_STAGES", "ParameterStage"]

Finder = Callable[[Model, Model, float], Iterator[ModelDifference]]


@dataclass(frozen=True)
class ParameterStage:
    """A stage: differences of two models above a tolerance, and A with them aligned.

    `of_bodies` says that it compares bodies that move, and nothing where none does.
    """

    name: str
    differences: Finder
    align: Callable[[Model, Model], Model]
    of_bodies: bool = True


def _body_pairs(a: Model, b: Model) -> Iterator[tuple[Body, Body]]:
    return zip(a.bodies, b.bodies, strict=True)


def _with_bodies(a: Model, b: Model, change: Callable[[Body, Body], Body]) -> Model:
    return dataclasses.replace(a, bodies=tuple(change(x, y) for x, y in _body_pairs(a, b)))


def _to_floats(v: object) -> list[float]:
    return [float(c) for c in v]  # type: ignore[attr-defined]


def _compare_total_mass(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    """The mass of all moving bodies, then of each."""
    ours, theirs = (sum(float(body.inertia.mass) for body in m.bodies) for m in (a, b))
    scale = max(ours, theirs)
    if abs(ours - theirs) <= tolerance * scale:
        return
    message = f"weighs {format_both(ours, theirs, 'kg')}, what is fixed not counted"
    yield ModelDifference("the robot", message, abs(ours - theirs) / scale, ours, theirs)
    yield from _compare_masses(a, b, tolerance)


def _compare_masses(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    for x, y in _body_pairs(a, b):
        ours, theirs = float(x.inertia.mass), float(y.inertia.mass)
        scale = max(ours, theirs)
        if abs(ours - theirs) > tolerance * scale:
            why = explain_inertia(x, y)
            message = f"weighs {format_both(ours, theirs, 'kg')}{why}"
            yield ModelDifference(_body_label(x), message, abs(ours - theirs) / scale, ours, theirs)


def _body_label(body: Body) -> str:
    return f"body {body.name!r}"


def _joint_label(body: Body) -> str:
    return f"joint {body.joint.name!r}"


def _align_masses(a: Model, b: Model) -> Model:
    """Masses, and all of an inertia that differs as by a load."""

    def change_body(x: Body, y: Body) -> Body:
        if x.inertia.mass == y.inertia.mass:
            return x
        if not float(x.inertia.mass) or explain_inertia(x, y):
            return dataclasses.replace(x, inertia=y.inertia)
        heavier = Inertia.at_com(y.inertia.mass, x.inertia.com, x.inertia.tensor_at_com)
        return dataclasses.replace(x, inertia=heavier)

    return _with_bodies(a, b, change_body)


def _compare_coms(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    """Centres of mass, relative to the size of the robot."""
    size = robot_extent(a)
    for x, y in _body_pairs(a, b):
        if not float(x.inertia.mass) or not float(y.inertia.mass):
            continue
        ours, theirs = (np.array(_to_floats(i.com)) for i in (x.inertia, y.inertia))
        off = float(np.linalg.norm(ours - theirs))
        if off <= tolerance * size:
            continue
        # signs, axes or units that explain it
        near = 1e-3 * float(np.abs(ours - theirs).max())
        same = np.abs(ours - theirs) <= near
        if (same | (np.abs(ours + theirs) <= near)).all():
            flipped = " and ".join(c for c, equal in zip("xyz", same, strict=True) if not equal)
            why = f", the sign of {flipped} differs"
        elif (np.abs(np.sort(np.abs(ours)) - np.sort(np.abs(theirs))) <= near).all():
            why = ", the same numbers along other axes: its frame is turned"
        else:
            here, there = (float(np.linalg.norm(c)) for c in (ours, theirs))
            why = explain_ratio(here, there, "millimetres")
        message = f"has its centre of mass at {format_both_vectors(ours, theirs, 'm')}: "
        message += f"{off:.3g} m apart{why}"
        yield ModelDifference(_body_label(x), message, off / size, ours.tolist(), theirs.tolist())


def _align_coms(a: Model, b: Model) -> Model:
    def change_body(x: Body, y: Body) -> Body:
        if not float(x.inertia.mass) or not float(y.inertia.mass):
            return x
        if x.inertia.com == y.inertia.com:
            return x
        moved = Inertia.at_com(x.inertia.mass, y.inertia.com, x.inertia.tensor_at_com)
        return dataclasses.replace(x, inertia=moved)

    return _with_bodies(a, b, change_body)


def _compare_tensors(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    for x, y in _body_pairs(a, b):
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
            entries = format_both(float(ours[k]), float(theirs[k]), "kg m²")
            message = f"has I{names[k]} {entries} (about the centre of mass){why}"
            size = off / max(float(np.abs(ours).max()), float(np.abs(theirs).max()), 1e-300)
            yield ModelDifference(_body_label(x), message, size, ours.tolist(), theirs.tolist())


def _compare_gravity(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    ours, theirs = np.array(_to_floats(a.gravity)), np.array(_to_floats(b.gravity))
    off = float(np.linalg.norm(ours - theirs))
    scale = max(float(np.linalg.norm(ours)), float(np.linalg.norm(theirs)))
    if off > tolerance * scale:
        message = f"is {format_both_vectors(ours, theirs, 'm/s²')}"
        yield ModelDifference("gravity", message, off / scale, ours.tolist(), theirs.tolist())


_TOGETHER = {
    "armature": ("armature", "rotor_inertia", "gear_ratio"),
    "stiffness": ("stiffness", "rest"),
    "friction": ("friction", "backward_friction"),
}


def _compare_joint_value(
    x: Body, what: str, unit: str, ours: float, theirs: float, tolerance: float
) -> Iterator[ModelDifference]:
    """The difference of a quantity of a joint, where it exceeds the tolerance."""
    scale = max(abs(ours), abs(theirs))
    if abs(ours - theirs) > tolerance * scale:
        message = f"{what} {format_both(ours, theirs, unit)}"
        if not ours or not theirs:
            side, there = ("@A", ours) if ours else ("@B", theirs)
            message = f"{what} {there:.6g} {unit} only in {side}"
        yield ModelDifference(_joint_label(x), message, abs(ours - theirs) / scale, ours, theirs)


def _drivetrain_stage(
    field: str, what: str, unit: str
) -> tuple[Finder, Callable[[Model, Model], Model]]:
    """The stage of a quantity of the drivetrain."""

    def value_of(body: Body) -> float:
        drive = body.joint.drivetrain
        return float(drive.reflected_inertia if field == "armature" else getattr(drive, field))

    def compare_values(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
        for x, y in _body_pairs(a, b):
            ours, theirs = value_of(x), value_of(y)
            yield from _compare_joint_value(x, what, unit, ours, theirs, tolerance)
            alike = abs(ours - theirs) <= tolerance * max(abs(ours), abs(theirs))
            if field != "stiffness" or not ours or not alike:
                continue
            # displacements at which springs of the same stiffness are relaxed
            here, there = (np.array([float(c) for c in body.joint.rest]) for body in (x, y))
            off = float(np.abs(here - there).max())
            if off > tolerance * max(1.0, float(np.abs(here).max())):
                places = format_both_vectors(here, there, "")
                if len(here) == 1:
                    places = format_both(here[0], there[0], "m" if x.joint.kind.slides else "rad")
                message = f"spring is relaxed at {places}"
                yield ModelDifference(_joint_label(x), message, off, here.tolist(), there.tolist())

    def align_values(a: Model, b: Model) -> Model:
        fields = _TOGETHER.get(field, (field,))

        def change_body(x: Body, y: Body) -> Body:
            taken = {f: getattr(y.joint.drivetrain, f) for f in fields}
            drive = dataclasses.replace(x.joint.drivetrain, **taken)
            return dataclasses.replace(x, joint=dataclasses.replace(x.joint, drivetrain=drive))

        return _with_bodies(a, b, change_body)

    return compare_values, align_values


def _compare_friction(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    """Coulomb friction, that of the directions apart where either side tells them apart."""
    for x, y in _body_pairs(a, b):
        pairs = [[float(f) for f in z.joint.drivetrain.friction_levels] for z in (x, y)]
        apart = any(ahead != back for ahead, back in pairs)
        labels = ("dry friction forward", "dry friction backward") if apart else ("dry friction",)
        for what, ours, theirs in zip(labels, *pairs, strict=False):
            yield from _compare_joint_value(x, what, "N m", ours, theirs, tolerance)


def _compare_poses(a: Model, b: Model, tolerance: float) -> Iterator[ModelDifference]:
    """Placements, axes and pitches of joints, and placements of frames."""
    size = robot_extent(a)
    for x, y in _body_pairs(a, b):
        # the placement on the parent
        X, Y = pose_matrix(x.placement), pose_matrix(y.placement)
        shift, angle = _pose_distance(X, Y)
        if shift > tolerance * size or angle > tolerance:
            parts = []
            if shift > tolerance * size:
                places = format_both_vectors(X[:3, 3], Y[:3, 3], "m")
                parts.append(f"{shift:.4g} m apart ({places})")
            if angle > tolerance:
                parts.append(f"turned by {math.degrees(angle):.4g}°")
            message = f"is placed otherwise on its parent: {', '.join(parts)}"
            along = _motion_along_axis(x, np.linalg.inv(X) @ Y, tolerance, size)
            if along is not None:
                message = f"stands {along} further in @B at the same q: "
                message += "another zero position, or another base"
            pair = X[:3, 3].tolist(), Y[:3, 3].tolist()
            yield ModelDifference(_joint_label(x), message, max(shift / size, angle), *pair)
        # the axis and the pitch of a screw
        for axes in zip(x.joint.axes[-1:], y.joint.axes[-1:], strict=False):
            ours, theirs = (np.array(_to_floats(axis)) for axis in axes)
            angle = math.atan2(float(np.linalg.norm(np.cross(ours, theirs))), float(ours @ theirs))
            if angle > tolerance:
                message = f"has its axis at {format_both_vectors(ours, theirs, '')}: "
                message += f"{math.degrees(angle):.4g}° apart"
                yield ModelDifference(
                    _joint_label(x), message, angle, ours.tolist(), theirs.tolist()
                )
        pitches = float(x.joint.pitch), float(y.joint.pitch)
        if abs(pitches[0] - pitches[1]) > tolerance * max(map(abs, pitches)):
            message = f"advances by {format_both(*pitches, 'm/rad')}"
            yield ModelDifference(_joint_label(x), message, abs(pitches[0] - pitches[1]), *pitches)
    for here, there in zip(a.frames, b.frames, strict=True):
        shift, angle = _pose_distance(pose_matrix(here.placement), pose_matrix(there.placement))
        parts = [f"{shift:.4g} m"] if shift > tolerance * size else []
        parts += [f"{math.degrees(angle):.4g}°"] if angle > tolerance else []
        if parts:
            where = "in the world" if here.body == WORLD else "on its body"
            message = f"lies {' and '.join(parts)} elsewhere {where} in @B"
            message += " (no term of the dynamics depends on it)"
            yield ModelDifference(f"frame {here.name!r}", message, max(shift / size, angle))


def _motion_along_axis(
    x: Body, difference: np.ndarray, tolerance: float, size: float
) -> str | None:
    """A motion of the joint itself, in words, if the difference of placements is one."""
    if x.joint.kind.nq != 1:
        return None
    axis, (shift, angle) = (
        np.array(_to_floats(x.joint.axes[0])),
        _pose_distance(np.eye(4), difference),
    )
    turned = np.linalg.norm(difference[:3, :3] @ axis - axis) < 1e-6
    if x.joint.kind.slides:
        sliding = np.linalg.norm(np.cross(axis, difference[:3, 3])) < 1e-6 * max(shift, 1e-3)
        moved = shift > tolerance * size and angle < 1e-6 and sliding
        return f"{axis @ difference[:3, 3]:.4g} m along its axis" if moved else None
    if turned and shift < 1e-6 and angle > tolerance:
        spin = difference[:3, :3] - difference[:3, :3].T
        sign = -1.0 if axis @ [spin[2, 1], spin[0, 2], spin[1, 0]] < -1e-9 else 1.0
        return f"{math.degrees(sign * angle):.4g}° about its axis"
    return None


def _pose_distance(X: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Distance and angle between two poses."""
    R = X[:3, :3].T @ Y[:3, :3]
    spin = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    angle = math.atan2(0.5 * float(np.linalg.norm(spin)), 0.5 * (float(np.trace(R)) - 1.0))
    return float(np.linalg.norm(X[:3, 3] - Y[:3, 3])), angle


def _align_poses(a: Model, b: Model) -> Model:
    def change_body(x: Body, y: Body) -> Body:
        joint = dataclasses.replace(x.joint, axes=y.joint.axes, pitch=y.joint.pitch)
        return dataclasses.replace(x, placement=y.placement, joint=joint)

    return dataclasses.replace(_with_bodies(a, b, change_body), frames=b.frames)


PARAMETER_STAGES = (
    ParameterStage("total mass", _compare_total_mass, _align_masses),
    ParameterStage("mass of bodies", _compare_masses, _align_masses),
    ParameterStage("centre of mass", _compare_coms, _align_coms),
    ParameterStage(
        "inertia tensor",
        _compare_tensors,
        lambda a, b: _with_bodies(a, b, lambda x, y: dataclasses.replace(x, inertia=y.inertia)),
    ),
    ParameterStage(
        "gravity",
        _compare_gravity,
        lambda a, b: dataclasses.replace(a, gravity=b.gravity),
        of_bodies=False,
    ),
    ParameterStage("armature", *_drivetrain_stage("armature", "armature", "kg m²")),
    ParameterStage("damping", *_drivetrain_stage("damping", "damping", "N m s/rad")),
    ParameterStage(
        "friction", _compare_friction, _drivetrain_stage("friction", "dry friction", "N m")[1]
    ),
    ParameterStage("spring", *_drivetrain_stage("stiffness", "stiffness", "N m/rad")),
    ParameterStage("pose", _compare_poses, _align_poses, of_bodies=False),
)
"""The stages in the order of the waterfall."""
