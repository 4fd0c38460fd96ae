"""Two models of one robot made comparable: the same joints, and B as seen from the frames of A.

Joints that only one model has are locked. Of every body it is found where the frame of B lies in
that of A, so that all of B can be expressed in A's frames: a model of the structure of A with the
numbers of B, which is compared entry by entry.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from qddot import adapt
from qddot.adapt.forms import family
from qddot.adapt.rotations import quaternion_of_matrix
from qddot.edit import without_joint
from qddot.joints import Joint
from qddot.model import WORLD, Body, Frame, Model
from qddot.robot import Robot
from qddot.spatial import Transform, Vec3, rotation_about
from qddot.verify.compare.names import Pairing, pair_joints

__all__ = ["Alignment", "align", "arrays", "extent", "held_at"]

_IDENTITY = Transform.identity()
_SAME, _CLOSE = 1e-6, 0.03
"""What is nearer than this, relative to its size, is the same but for rounding, or close."""


@dataclass(frozen=True)
class Alignment:
    """Models with the same joints, where B's frames lie in A's, and B in the frames of A.

    `frames`, `zeros` and `reversed_joints` are by joint of A. A joint that has a zero stands so far
    from its placement in B while it stands at it in A. `torn` are joints whose parents differ.
    """

    a: Model
    b: Model
    pairing: Pairing
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    frames: dict[str, Transform]
    reversed_joints: tuple[str, ...]
    torn: tuple[str, ...]
    zeros: dict[str, float] = field(default_factory=dict)

    @cached_property
    def seen(self) -> Model:
        """A with every number of B, expressed in the frames of A."""
        return _expressed(self)

    def adapter(self) -> adapt.Adapter:
        """The map of states and terms from A to B."""
        names = self.pairing.names
        return adapt.twin(
            Robot(self.a, native=False),
            Robot(self.b, native=False),
            names,
            check=False,
            reversed_joints=tuple(names[x] for x in self.reversed_joints),
            frames={names[x]: D for x, D in self.frames.items()},
            zeros={names[x]: d for x, d in self.zeros.items()},
        )


def align(exact: Model, free: Model, other: Model) -> Alignment:
    """The alignment of A, as it is and with its couplings left free, with B (couplings free)."""
    pairing = pair_joints(exact, other)
    only_a = tuple(b.joint.name for b in exact.bodies if b.joint.name not in pairing.names)
    matched = set(pairing.names.values())
    only_b = tuple(b.joint.name for b in other.bodies if b.joint.name not in matched)
    follows = {b.joint.name for b in exact.bodies if b.joint.leader is not None}
    whole = free if follows & set(only_a) else exact
    a = _locked(whole, held_at(whole, only_a, other))
    b = _locked(other, held_at(other, only_b, whole))
    torn = tuple(_torn(a, b, pairing.names))
    draft = Alignment(a, b, pairing, only_a, only_b, {}, (), torn)
    frames, zeros = _frames(draft)
    draft = dataclasses.replace(draft, frames=frames, zeros=zeros)
    return dataclasses.replace(draft, reversed_joints=tuple(_reversed(draft)))


def extent(model: Model) -> float:
    """A length of the order of the robot's size: the farthest joint or centre of mass."""
    poses = [np.eye(4)] * (model.nb + 1)
    reach = [0.0]
    for i, body in enumerate(model.bodies):
        poses[i] = poses[body.parent] @ arrays(body.placement)
        com = body.inertia.com if float(body.inertia.mass) else (0.0, 0.0, 0.0)
        reach.append(float(np.linalg.norm(poses[i][:3, 3])))
        reach.append(float(np.linalg.norm([float(c) for c in com])))
    return max(*reach, 1e-3)


def arrays(X: Transform) -> np.ndarray:
    """A transform as a 4×4 array."""
    return np.array([[float(c) for c in row] for row in X])


def held_at(model: Model, joints: Sequence[str], other: Model) -> dict[str, tuple[float, ...]]:
    """Where joints that only this model has are locked: as their file places them.

    A free root is held where the other model has the same link fixed to the world.
    """
    fixed = {f.name: f.placement for f in other.frames if f.body == WORLD}
    held = {}
    for body in (b for b in model.independent if b.joint.name in joints):
        joint, value = body.joint, body.joint.kind.neutral
        if joint.kind.nq == 1:
            value = (-float(joint.offset) / joint.ratio,)
        elif joint.kind.name == "free" and body.parent == WORLD and body.name in fixed:
            X = arrays(body.placement.inverse() @ fixed[body.name])
            value = (*X[:3, 3].tolist(), *quaternion_of_matrix(X[:3, :3]).tolist())
        held[joint.name] = value
    return held


def _locked(model: Model, held: Mapping[str, tuple[float, ...]]) -> Model:
    """A model with joints locked, followers with them; loops are left out."""
    model = dataclasses.replace(model, loops=(), polynomial_couplings=())
    for name, value in held.items():
        model = without_joint(model, name, value)
    return model


def _torn(a: Model, b: Model, names: dict[str, str]) -> Iterator[str]:
    """Joints that hang on different bodies in A and B."""
    for body in a.bodies:
        there = b.body_of_joint(names[body.joint.name])
        above = a.bodies[body.parent].joint.name if body.parent != WORLD else None
        expected = names[above] if above else None
        found = b.bodies[there.parent].joint.name if there.parent != WORLD else None
        if found != expected:
            yield body.joint.name


def _frames(al: Alignment) -> tuple[dict[str, Transform], dict[str, float]]:
    """Where the frame of each body in B lies in that of the same body in A, and zeros of joints."""
    found: dict[str, Transform] = {}
    zeros: dict[str, float] = {}
    size = extent(al.a)
    children: dict[int, list[Body]] = {}
    for body in al.a.bodies:
        children.setdefault(body.parent, []).append(body)
    for i, body in enumerate(al.a.bodies):
        there = _twin(al, body)
        above = al.a.bodies[body.parent].joint.name if body.parent != WORLD else ""
        Z = body.placement.inverse() @ found.get(above, _IDENTITY) @ there.placement
        zero = float(there.joint.offset) - float(body.joint.offset)
        if zero and _nearness(_distance(Z @ _moved(there.joint, zero)), 1.0) == 1.0:
            zeros[body.joint.name] = zero
            Z = Z @ _moved(there.joint, zero)
        candidates = [_IDENTITY, *_turned(body.joint, there.joint, Z)]
        pairs = [(c, _twin(al, c)) for c in children.get(i, [])]
        if family(body.joint.kind.name) == "free":
            candidates += [c.placement @ d.placement.inverse() for c, d in pairs]
        elif body.joint.kind.nq == 1:
            axis = body.joint.axes[0]
            candidates += [D for X in candidates[:2] for D in _with_joints_met(axis, X, pairs)]
        scores = [_score(al, body, D, children.get(i, []), size) for D in candidates]
        found[body.joint.name] = candidates[scores.index(max(scores))]
    return found, zeros


def _moved(joint: Joint, displacement: float) -> Transform:
    """The motion of a joint of one freedom."""
    return joint.kind.transform(joint, [displacement]) if joint.kind.nq == 1 else _IDENTITY


def _distance(X: Transform) -> float:
    """How far a pose is from none: its largest entry that should not be there."""
    return float(np.abs(arrays(X) - np.eye(4)).max())


def _twin(al: Alignment, body: Body) -> Body:
    return al.b.body_of_joint(al.pairing.names[body.joint.name])


def _turned(a: Joint, b: Joint, Z: Transform) -> Iterator[Transform]:
    """Where a body's frame of B would lie in that of A if only the frames differed.

    Z is where it lies with both joints at zero. What is across the axis of the joint is no matter
    of frames, as both have their origin on it.
    """
    group = family(a.kind.name)
    if group == "ball":
        yield Transform(Z.R, Vec3.zero())
    if group != "one":
        return
    axis = a.axes[0]
    if _nearness(_across(axis, Z.R.apply(b.axes[0])), 1.0):
        sliding = a.kind.name == "prismatic"
        yield Transform(Z.R, Z.p if sliding else axis * axis.dot(Z.p))


def _with_joints_met(
    axis: Vec3, X: Transform, children: list[tuple[Body, Body]]
) -> Iterator[Transform]:
    """The frame of a body turned about its joint until an axis that it carries is as in A."""
    for child, twin in children:
        if not (child.joint.axes and twin.joint.axes):
            continue
        ours = child.placement.R.apply(child.joint.axes[0])
        theirs = X.R.apply(twin.placement.R.apply(twin.joint.axes[0]))
        sine, cosine = axis.dot(theirs.cross(ours)), _flat(axis, ours).dot(_flat(axis, theirs))
        if math.hypot(float(sine), float(cosine)) > _CLOSE:
            turn = Transform(rotation_about(axis, math.atan2(sine, cosine)), Vec3.zero())
            yield turn @ X


def _flat(axis: Vec3, v: Vec3) -> Vec3:
    return v - axis * axis.dot(v)


def _across(axis: Vec3, v: Vec3) -> float:
    """How much of a vector is across an axis."""
    return math.sqrt(sum(float(c) ** 2 for c in axis.cross(v)))


def _parallel(axis: Vec3, other: Vec3) -> float:
    """How nearly two axes are parallel; a little less if they point in opposite directions."""
    return _nearness(_across(axis, other), 1.0) * (1.0 if float(axis.dot(other)) > 0.0 else 0.9)


def _nearness(off: float, scale: float) -> float:
    """1 for what is the same but for rounding, ½ for what is close, 0 for what is not."""
    return 1.0 if off < _SAME * scale else 0.5 if off < _CLOSE * scale else 0.0


def _score(al: Alignment, body: Body, D: Transform, children: list[Body], size: float) -> float:
    """How much agrees if B's frame of a body lies at D in A's: its axis, its inertia, its joints.

    Frames that are the same score a little more, as most files of one robot share them.
    """
    there = _twin(al, body)
    score = 0.05 if D == _IDENTITY else 0.0
    for axis, other in zip(body.joint.axes[:1], there.joint.axes[:1], strict=False):
        score += _parallel(axis, D.R.apply(other))
    if float(there.inertia.mass) and float(body.inertia.mass):
        apart = D.point(there.inertia.com) - body.inertia.com
        score += _nearness(math.sqrt(float(apart.dot(apart))), size)
        tensor, turned = body.inertia.tensor_at_com, there.inertia.tensor_at_com.rotated(D.R)
        off = max(abs(float(x - y)) for x, y in zip(tensor, turned, strict=True))
        score += _nearness(off, max(abs(float(x)) for x in body.inertia.I))
    for child in children:
        twin = _twin(al, child)
        Z = child.placement.inverse() @ D @ twin.placement
        score += _joint_nearness(child.joint, twin.joint, Z, size)
    return score


def _joint_nearness(a: Joint, b: Joint, Z: Transform, size: float) -> float:
    """How nearly two joints move about the same axis or point, B's frame being at Z in A's."""
    group = family(a.kind.name)
    if group == "ball":
        return _nearness(math.sqrt(float(Z.p.dot(Z.p))), size)
    if group != "one":
        return 0.0
    parallel = _parallel(a.axes[0], Z.R.apply(b.axes[0]))
    through = a.kind.name == "prismatic" or _nearness(_across(a.axes[0], Z.p), size)
    return min(parallel, float(through))


def _reversed(al: Alignment) -> Iterator[str]:
    """Joints of A whose axis points the other way in B."""
    for body in al.a.bodies:
        there, D = _twin(al, body), al.frames[body.joint.name]
        if family(body.joint.kind.name) != "one":
            continue
        if float(body.joint.axes[0].dot(D.R.apply(there.joint.axes[0]))) < 0.0:
            yield body.joint.name


def _expressed(al: Alignment) -> Model:
    bodies = []
    for body in al.a.bodies:
        there, D = _twin(al, body), al.frames[body.joint.name]
        above = al.a.bodies[body.parent].joint.name if body.parent != WORLD else ""
        before = al.frames.get(above, _IDENTITY)
        free = family(body.joint.kind.name) == "free"
        X = there.placement @ _moved(there.joint, al.zeros.get(body.joint.name, 0.0))
        bodies.append(
            dataclasses.replace(
                body,
                placement=body.placement if free else before @ X @ D.inverse(),
                joint=_joint(al, body.joint, there.joint, D),
                inertia=D.to_parent(there.inertia),
            )
        )
    return dataclasses.replace(
        al.a,
        bodies=tuple(bodies),
        frames=tuple(_named_frames(al)),
        gravity=al.b.gravity,
        base_inertia=al.b.base_inertia,
    )


def _joint(al: Alignment, a: Joint, b: Joint, D: Transform) -> Joint:
    """The joint of B in the frames of A; its coupling stays that of A."""
    sign = -1.0 if a.name in al.reversed_joints else 1.0
    axes = tuple(D.R.apply(axis) * (sign if len(b.axes) == 1 else 1.0) for axis in b.axes)
    rest = b.drivetrain.rest
    if rest is not None and len(rest) == 1:
        rest = (sign * (rest[0] - al.zeros.get(a.name, 0.0)),)
    drive = dataclasses.replace(b.drivetrain, rest=rest)
    return dataclasses.replace(a, kind=b.kind, axes=axes, pitch=b.pitch, drivetrain=drive)


def _named_frames(al: Alignment) -> Iterator[Frame]:
    """The frames of A, those that B has too as they lie in B."""
    there = {f.name: f for f in al.b.frames}
    joints = {b.joint.name: i for i, b in enumerate(al.b.bodies)}
    bodies = {b.name for b in al.a.bodies} | {b.name for b in al.b.bodies}
    for frame in al.a.frames:
        joint = al.a.bodies[frame.body].joint.name if frame.body != WORLD else ""
        expected = joints[al.pairing.names[joint]] if joint else WORLD
        other = there.get(frame.name)
        if other is None or frame.name in bodies or other.body != expected:
            yield frame
            continue
        D = al.frames[joint] if joint else _IDENTITY
        yield dataclasses.replace(frame, placement=D @ other.placement)
