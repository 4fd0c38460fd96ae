"""A pinocchio.Model.

A planar joint, and a revolute joint without bounds, has an angle here where Pinocchio has its
cosine and sine. A joint that the joint table lacks becomes a chain of simple ones, named
"joint.x" and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qddot.errors import InvalidModel
from qddot.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
from qddot.loaders.description import Description
from qddot.parts import Coupling, Finding, FrameDraft, Link
from qddot.spatial import Inertia, Mat3, Sym3, Transform, Vec3

if TYPE_CHECKING:
    import pinocchio

__all__ = ["describe_pinocchio"]

_X, _Y, _Z = Mat3.identity()
_WHOLE = {"Spherical": "ball", "FreeFlyer": "free"}
_CHAINS = {
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
class _Step:
    """One joint of the chain that a Pinocchio joint becomes, and where its q and v begin there."""

    placement: Transform
    joint: Joint
    iq: int
    iv: int


def describe_pinocchio(model: pinocchio.Model) -> Description:
    """The description in a pinocchio.Model, joints and bodies by the names they have there."""
    names = _link_names(model)
    chains = {i: _chain(model, i) for i in range(1, model.njoints)}
    links = [] if 0 not in names else [_base(model, names[0])]
    for i, chain in chains.items():
        links += _links(model, i, names, chain)
    steps = [step for chain in chains.values() for step in chain]
    return Description(
        model.name or "pinocchio",
        tuple(links),
        tuple(_frames(model, names, {link.name for link in links})),
        tuple(_couplings(model)),
        gravity=_vector(model.gravity.linear),
        configurations={
            entry.key(): {s.joint.name: _coordinates(s, entry.data()) for s in steps}
            for entry in model.referenceConfigurations
        },
        findings=tuple(_ignored(model)),
    )


def _vector(v: Any) -> Vec3:
    return Vec3(*(float(c) for c in v))


def _transform(X: Any) -> Transform:
    return Transform(Mat3(*(_vector(row) for row in X.rotation)), _vector(X.translation))


def _inertia(Y: Any) -> Inertia:
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


def _base(model: pinocchio.Model, name: str) -> Link:
    """What is fixed to the world."""
    held = Joint(f"{name} (fixed)", JOINTS["fixed"])
    return Link(name, None, Transform.identity(), held, _inertia(model.inertias[0]))


def _links(
    model: pinocchio.Model, i: int, names: dict[int, str], chain: Sequence[_Step]
) -> Iterator[Link]:
    """The links of one joint: one for each step of its chain, all but the last without mass."""
    parent = names.get(model.parents[i])
    for step in chain:
        last = step is chain[-1]
        link = names[i] if last else f"{names[i]}/{step.joint.name}"
        inertia = _inertia(model.inertias[i]) if last else Inertia.zero()
        yield Link(link, parent, step.placement, step.joint, inertia)
        parent = link


def _chain(model: pinocchio.Model, i: int) -> list[_Step]:
    name, joint = str(model.names[i]), model.joints[i]
    if joint.shortname() == "JointModelMimic":
        return [_Step(_transform(model.jointPlacements[i]), _follower(model, i), -1, -1)]
    return list(_steps(model, name, joint, _transform(model.jointPlacements[i])))


def _steps(model: pinocchio.Model, name: str, joint: Any, X: Transform) -> Iterator[_Step]:
    """The joints of the table that make up a joint of Pinocchio, from placement X on."""
    kind, iq, iv = joint.shortname().removeprefix("JointModel"), joint.idx_q, joint.idx_v
    if kind == "Composite":
        composite = joint.extract()
        for k, (part, placement) in enumerate(
            zip(composite.joints, composite.jointPlacements, strict=True), 1
        ):
            yield from _steps(model, f"{name}.{k}", part, X @ _transform(placement))
            X = Transform.identity()
        return
    if kind in _CHAINS or kind == "Universal":
        row, parts = _CHAINS.get(kind) or ("revolute", _universal_axes(joint))
        for k, (suffix, axis) in enumerate(parts):
            limits = _limits(model, iq + k, iv + k)
            drive = _drivetrain(model, f"{name}.{suffix}", iv + k, 1)
            made = Joint(f"{name}.{suffix}", JOINTS[row], (axis,), limits=limits, drivetrain=drive)
            yield _Step(X, made, iq + k, iv + k)
            X = Transform.identity()
        return
    yield _Step(X, _joint(model, name, joint, kind), iq, iv)


def _universal_axes(joint: Any) -> tuple[tuple[str, Vec3], ...]:
    """The two axes of a universal joint, by the suffix of their names."""
    whole = joint.extract()
    return (("1", _vector(whole.axis1)), ("2", _vector(whole.axis2)))


def _joint(model: pinocchio.Model, name: str, joint: Any, kind: str) -> Joint:
    iq, iv = joint.idx_q, joint.idx_v
    drive = _drivetrain(model, name, iv, joint.nv)
    if kind in _WHOLE:
        return Joint(name, JOINTS[_WHOLE[kind]], drivetrain=drive)
    if kind == "Planar":
        return Joint(name, JOINTS["planar"], plane_basis(_Z), drivetrain=drive)
    if kind not in _ONE_AXIS:
        known = ", ".join((*_ONE_AXIS, *_WHOLE, *_CHAINS, "Planar", "Universal", "Composite"))
        raise InvalidModel(f"joint {name!r}", f"type {kind} is not one of {known}, Mimic")
    limits = _limits(model, iq if joint.nq == 1 else None, iv)
    axis, pitch, _ = _screw(name, _unit_velocity(model, joint, iv))
    row = JOINTS[_ONE_AXIS[kind]]
    return Joint(name, row, (axis,), pitch, limits=limits, drivetrain=drive)


def _unit_velocity(model: pinocchio.Model, joint: Any, iv: int) -> Any:
    """The motion that a joint gives at unit velocity, in its own frame."""
    import numpy as np
    import pinocchio

    data = joint.createData()
    v = np.zeros(model.nv)
    v[iv] = 1.0
    joint.calc(data, pinocchio.neutral(model), v)
    return data.v


def _screw(name: str, motion: Any) -> tuple[Vec3, float, str]:
    """Axis, pitch and row of the joint table of a motion along or about an axis."""
    lin, ang = _vector(motion.linear), _vector(motion.angular)
    speed, rate = math.sqrt(lin.dot(lin)), math.sqrt(ang.dot(ang))
    if not speed and not rate:
        raise InvalidModel(f"joint {name!r}", "does not move, so that its axis cannot be read")
    if not rate:
        return lin * (1.0 / speed), 0.0, "prismatic"
    axis = ang * (1.0 / rate)
    return axis, lin.dot(axis) / rate, "helical" if speed else "revolute"


def _upper(model: pinocchio.Model, name: str) -> Any:
    """An upper limit by its name before version 4, which has both limits under longer names."""
    longer = {"friction": "upperDryFrictionLimit"}.get(name, f"upper{name[0].upper()}{name[1:]}")
    return getattr(model, longer) if hasattr(model, longer) else getattr(model, name)


def _leader(model: pinocchio.Model, i: int) -> int:
    return int(list(model.mimicked_joints)[list(model.mimicking_joints).index(i)])


def _follower(model: pinocchio.Model, i: int) -> Joint:
    """A mimic joint; Pinocchio tells its axis only through how it moves."""
    name, leader = str(model.names[i]), model.joints[_leader(model, i)]
    if leader.nv != 1:
        raise InvalidModel(f"joint {name!r}", f"mimics {leader.shortname()}, of several freedoms")
    axis, pitch, row = _screw(name, _unit_velocity(model, model.joints[i].extract(), leader.idx_v))
    if model.joints[i].extract().scaling < 0:
        axis = -axis
    return Joint(name, JOINTS[row], (axis,), pitch)


def _couplings(model: pinocchio.Model) -> Iterator[Coupling]:
    for i in getattr(model, "mimicking_joints", ()):
        mimic, leader = model.joints[i].extract(), str(model.names[_leader(model, i)])
        yield Coupling(str(model.names[i]), leader, float(mimic.scaling), float(mimic.offset))


def _limits(model: pinocchio.Model, iq: int | None, iv: int) -> Limits:
    def bound(values: Any, k: int) -> float:
        x = float(values[k])
        return math.copysign(math.inf, x) if abs(x) >= _UNLIMITED else x

    speed, effort = (bound(_upper(model, key), iv) for key in ("velocityLimit", "effortLimit"))
    if iq is None:
        return Limits(velocity=speed, effort=effort)
    lower, upper = bound(model.lowerPositionLimit, iq), bound(model.upperPositionLimit, iq)
    return Limits(lower, upper, speed, effort)


def _drivetrain(model: pinocchio.Model, name: str, iv: int, nv: int) -> Drivetrain:
    """Armature and losses, which must be the same for all freedoms of a joint."""

    def common(key: str, values: Any) -> float:
        own = {float(x) for x in values[iv : iv + nv]}
        if len(own) > 1:
            listed = ", ".join(f"{x:g}" for x in sorted(own))
            reason = f"{key} differs between the freedoms of one joint: {listed}"
            raise InvalidModel(f"joint {name!r}", reason)
        return own.pop()

    return Drivetrain(
        armature=common("armature", model.armature),
        damping=common("damping", model.damping),
        friction=common("friction", _upper(model, "friction")),
    )


def _frames(model: pinocchio.Model, names: dict[int, str], taken: set[str]) -> Iterator[FrameDraft]:
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


def _coordinates(step: _Step, q: Any) -> tuple[float, ...]:
    """The coordinates of a joint in a configuration of Pinocchio; none for a follower."""
    kind = step.joint.kind
    if step.iq < 0:
        return ()
    if kind.name == "planar":
        x, y, c, s = (float(x) for x in q[step.iq : step.iq + 4])
        return x, y, math.atan2(s, c)
    if kind.name == "continuous":
        return (math.atan2(float(q[step.iq + 1]), float(q[step.iq])),)
    return tuple(float(x) for x in q[step.iq : step.iq + kind.nq])


def _ignored(model: pinocchio.Model) -> Iterator[Finding]:
    """What Pinocchio keeps beside its dynamics."""
    for i in range(1, model.njoints):
        joint = model.joints[i]
        at = slice(joint.idx_v, joint.idx_v + joint.nv)
        subject = f"joint {model.names[i]!r}"
        if (model.rotorInertia[at] * model.rotorGearRatio[at]).any():
            message = "rotorInertia is ignored, as in Pinocchio's dynamics, which use the armature"
            yield Finding("info", "ignored", subject, message)
        lower = getattr(model, "lowerDryFrictionLimit", -_upper(model, "friction"))
        if (_upper(model, "friction")[at] != -lower[at]).any():
            message = "dry friction differs between directions: the upper limit is taken for both"
            yield Finding("warning", "ignored", subject, message)
