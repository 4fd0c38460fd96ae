"""A pinocchio.Model.

A planar joint, and a revolute joint without bounds, has an angle here where Pinocchio has its
cosine and sine. A joint that the joint table lacks becomes a chain of simple ones, named
"joint.x" and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qddot.errors import InvalidModel
from qddot.loaders.description import Description
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
from qddot.model.links import Coupling, Finding, FrameDraft, Link
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

if TYPE_CHECKING:
    import pinocchio

__all__ = ["describe_pinocchio"]

_X, _Y, _Z = Mat3.identity()
_WHOLE = {"Spherical": "ball", "FreeFlyer": "free"}
_CHAINS: dict[str, tuple[str, tuple[tuple[str, Vec3], ...]]] = {
    "SphericalZYX": ("revolute", (("z", _Z), ("y", _Y), ("x", _X))),
    "Translation": ("prismatic", (("x", _X), ("y", _Y), ("z", _Z))),
}
_ONE_AXIS = {
    **{f"R{a}": "revolute" for a in "XYZ"},
    **{f"RUB{a}": "continuous" for a in "XYZ"},
    **{f"P{a}": "prismatic" for a in "XYZ"},
    **{f"H{a}": "helical" for a in "XYZ"},
    "RevoluteUnaligned": "revolute",
    "RevoluteUnboundedUnaligned": "continuous",
    "PrismaticUnaligned": "prismatic",
    "HelicalUnaligned": "helical",
}
_UNLIMITED = 1e300


@dataclass(frozen=True)
class _ChainLink:
    """One joint of the chain that a Pinocchio joint becomes, and where its q and v begin there."""

    placement: Transform
    joint: Joint
    iq: int
    iv: int


def describe_pinocchio(model: pinocchio.Model) -> Description:
    """The description in a pinocchio.Model, joints and bodies by the names they have there."""
    names = _link_names(model)
    links: list[Link] = []
    steps: list[_ChainLink] = []
    # the body that is fixed to the world
    if 0 in names:
        held = Joint(f"{names[0]} (fixed)", JOINTS["fixed"])
        inertia = _read_inertia(model.inertias[0])
        links.append(Link(names[0], None, Transform.identity(), held, inertia))
    # a link for each step of the chain of each joint, all but the last without mass
    for i in range(1, model.njoints):
        name, X = str(model.names[i]), _transform(model.jointPlacements[i])
        if model.joints[i].shortname() == "JointModelMimic":
            # Pinocchio tells the axis of a mimic joint only through how it moves
            mimic, leader = model.joints[i].extract(), model.joints[_find_leader(model, i)]
            if leader.nv != 1:
                reason = f"mimics {leader.shortname()}, of several freedoms"
                raise InvalidModel(f"joint {name!r}", reason)
            axis, pitch, row = _screw_motion(name, _unit_velocity(model, mimic, leader.idx_v))
            axis = -axis if mimic.scaling < 0 else axis
            chain = [_ChainLink(X, Joint(name, JOINTS[row], (axis,), pitch), -1, -1)]
        else:
            chain = list(_split_joint(model, name, model.joints[i], X))
        parent = names.get(model.parents[i])
        for step in chain:
            last = step is chain[-1]
            link = names[i] if last else f"{names[i]}/{step.joint.name}"
            inertia = _read_inertia(model.inertias[i]) if last else Inertia.zero()
            links.append(Link(link, parent, step.placement, step.joint, inertia))
            parent = link
        steps += chain
    # mimic joints follow a leader
    couplings = []
    for i in getattr(model, "mimicking_joints", ()):
        mimic, leads = model.joints[i].extract(), str(model.names[_find_leader(model, i)])
        ratio, offset = float(mimic.scaling), float(mimic.offset)
        couplings.append(Coupling(str(model.names[i]), leads, ratio, offset))
    # rotors, which Pinocchio keeps beside its dynamics
    findings = []
    for i in range(1, model.njoints):
        joint = model.joints[i]
        at = slice(joint.idx_v, joint.idx_v + joint.nv)
        if (model.rotorInertia[at] * model.rotorGearRatio[at]).any():
            message = "rotorInertia is ignored, as in Pinocchio's dynamics, which use the armature"
            findings.append(Finding("info", "ignored", f"joint {model.names[i]!r}", message))
    return Description(
        model.name or "pinocchio",
        tuple(links),
        tuple(_read_frames(model, names, {link.name for link in links})),
        tuple(couplings),
        gravity=_vector(model.gravity.linear),
        configurations={
            entry.key(): {s.joint.name: _read_coordinates(s, entry.data()) for s in steps}
            for entry in model.referenceConfigurations
        },
        findings=tuple(findings),
    )


def _vector(v: Any) -> Vec3:
    return Vec3(*(float(c) for c in v))


def _transform(X: Any) -> Transform:
    return Transform(Mat3(*(_vector(row) for row in X.rotation)), _vector(X.translation))


def _read_inertia(Y: Any) -> Inertia:
    I = Y.inertia
    tensor = Sym3(*(float(I[r, c]) for r, c in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))))
    return Inertia.at_com(float(Y.mass), _vector(Y.lever), tensor)


def _link_names(model: pinocchio.Model) -> dict[int, str]:
    """A name for the body of each joint: that of its body frame at the origin, or the joint's."""
    import pinocchio

    found: dict[int, str] = {}
    taken = {f.name for f in model.frames if f.type == pinocchio.FrameType.BODY}
    for frame in model.frames:
        origin = frame.placement.isIdentity(1e-15)
        if frame.type == pinocchio.FrameType.BODY and origin and frame.name not in found.values():
            found.setdefault(frame.parentJoint, frame.name)
    for i in range(model.njoints):
        if i not in found and (i or model.inertias[0].mass):
            name = str(model.names[i])
            while name in taken:
                name += " (body)"
            found[i] = name
            taken.add(name)
    return found


def _split_joint(
    model: pinocchio.Model, name: str, joint: Any, X: Transform
) -> Iterator[_ChainLink]:
    """The joints of the table that make up a joint of Pinocchio, from placement X on."""
    kind, iq, iv = joint.shortname().removeprefix("JointModel"), joint.idx_q, joint.idx_v
    if kind == "Composite":
        composite = joint.extract()
        for k, (part, placement) in enumerate(
            zip(composite.joints, composite.jointPlacements, strict=True), 1
        ):
            yield from _split_joint(model, f"{name}.{k}", part, X @ _transform(placement))
            X = Transform.identity()
        return
    if kind in _CHAINS or kind == "Universal":
        row, parts = _CHAINS.get(kind, ("revolute", ()))
        if kind == "Universal":
            whole = joint.extract()
            first, second = _vector(whole.axis1), _vector(whole.axis2)
            parts = (("1", first), ("2", second))
        for k, (suffix, axis) in enumerate(parts):
            limits = _read_limits(model, iq + k, iv + k)
            drive = _read_drivetrain(model, f"{name}.{suffix}", iv + k, 1)
            made = Joint(f"{name}.{suffix}", JOINTS[row], (axis,), limits=limits, drivetrain=drive)
            yield _ChainLink(X, made, iq + k, iv + k)
            X = Transform.identity()
        return
    # a joint of one step
    drive = _read_drivetrain(model, name, iv, joint.nv)
    if kind in _WHOLE:
        made = Joint(name, JOINTS[_WHOLE[kind]], drivetrain=drive)
    elif kind == "Planar":
        made = Joint(name, JOINTS["planar"], plane_basis(_Z), drivetrain=drive)
    elif kind in _ONE_AXIS:
        limits = _read_limits(model, iq if joint.nq == 1 else None, iv)
        axis, pitch, _ = _screw_motion(name, _unit_velocity(model, joint, iv))
        one_axis = JOINTS[_ONE_AXIS[kind]]
        made = Joint(name, one_axis, (axis,), pitch, limits=limits, drivetrain=drive)
    else:
        known = ", ".join((*_ONE_AXIS, *_WHOLE, *_CHAINS, "Planar", "Universal", "Composite"))
        raise InvalidModel(f"joint {name!r}", f"type {kind} is not one of {known}, Mimic")
    yield _ChainLink(X, made, iq, iv)


def _unit_velocity(model: pinocchio.Model, joint: Any, iv: int) -> Any:
    """The motion that a joint gives at unit velocity, in its own frame."""
    import numpy as np
    import pinocchio

    data = joint.createData()
    v = np.zeros(model.nv)
    v[iv] = 1.0
    joint.calc(data, pinocchio.neutral(model), v)
    return data.v


def _screw_motion(name: str, motion: Any) -> tuple[Vec3, float, str]:
    """Axis, pitch and row of the joint table of a motion along or about an axis."""
    lin, ang = _vector(motion.linear), _vector(motion.angular)
    speed, rate = math.sqrt(lin.dot(lin)), math.sqrt(ang.dot(ang))
    if not speed and not rate:
        raise InvalidModel(f"joint {name!r}", "does not move, so that its axis cannot be read")
    if not rate:
        return lin * (1.0 / speed), 0.0, "prismatic"
    axis = ang * (1.0 / rate)
    return axis, lin.dot(axis) / rate, "helical" if speed else "revolute"


def _upper_limits(model: pinocchio.Model, name: str) -> Any:
    """An upper limit by its name before version 4, which has both limits under longer names."""
    longer = {"friction": "upperDryFrictionLimit"}.get(name, f"upper{name[0].upper()}{name[1:]}")
    return getattr(model, longer) if hasattr(model, longer) else getattr(model, name)


def _find_leader(model: pinocchio.Model, i: int) -> int:
    return int(list(model.mimicked_joints)[list(model.mimicking_joints).index(i)])


def _read_limits(model: pinocchio.Model, iq: int | None, iv: int) -> Limits:
    def finite_bound(values: Any, k: int) -> float:
        x = float(values[k])
        return math.copysign(math.inf, x) if abs(x) >= _UNLIMITED else x

    speed, effort = (
        finite_bound(_upper_limits(model, key), iv) for key in ("velocityLimit", "effortLimit")
    )
    if iq is None:
        return Limits(velocity=speed, effort=effort)
    lower, upper = (
        finite_bound(model.lowerPositionLimit, iq),
        finite_bound(model.upperPositionLimit, iq),
    )
    return Limits(lower, upper, speed, effort)


def _read_drivetrain(model: pinocchio.Model, name: str, iv: int, nv: int) -> Drivetrain:
    """Armature and losses, which must be the same for all freedoms of a joint."""

    def common_value(key: str, values: Any) -> float:
        own = {float(x) for x in values[iv : iv + nv]}
        if len(own) > 1:
            listed = ", ".join(f"{x:g}" for x in sorted(own))
            reason = f"{key} differs between the freedoms of one joint: {listed}"
            raise InvalidModel(f"joint {name!r}", reason)
        return own.pop()

    upper = _upper_limits(model, "friction")
    ahead = common_value("friction", upper)
    back = -common_value("friction", getattr(model, "lowerDryFrictionLimit", -upper))
    return Drivetrain(
        armature=common_value("armature", model.armature),
        damping=common_value("damping", model.damping),
        friction=ahead,
        backward_friction=back if back != ahead else None,
    )


def _read_frames(
    model: pinocchio.Model, names: dict[int, str], taken: set[str]
) -> Iterator[FrameDraft]:
    """Frames of bodies, tools and sensors that are not those of the links."""
    import pinocchio

    kinds = pinocchio.FrameType
    links = set(names.items())
    for frame in model.frames:
        own = frame.type == kinds.BODY and (frame.parentJoint, frame.name) in links
        if own or frame.type not in (kinds.BODY, kinds.OP_FRAME, kinds.SENSOR):
            continue
        name = str(frame.name)
        while name in taken:
            name += " (frame)"
        taken.add(name)
        yield FrameDraft(name, names.get(frame.parentJoint), _transform(frame.placement))


def _read_coordinates(step: _ChainLink, q: Any) -> tuple[float, ...]:
    """The coordinates of a joint in a configuration of Pinocchio; none for a follower."""
    kind = step.joint.kind
    if step.iq < 0:
        return ()
    if kind is JOINTS["planar"]:
        x, y, c, s = (float(x) for x in q[step.iq : step.iq + 4])
        return x, y, math.atan2(s, c)
    if kind is JOINTS["continuous"]:
        return (math.atan2(float(q[step.iq + 1]), float(q[step.iq])),)
    return tuple(float(x) for x in q[step.iq : step.iq + kind.nq])
