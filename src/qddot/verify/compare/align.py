"""Two models of one robot made comparable: the same joints, and B as seen from the frames of A.

Joints that only one model has are locked. Of every body it is found where the frame of B lies in
that of A, so that all of B can be expressed in A's frames: a model of the structure of A with the
numbers of B, which is compared entry by entry.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from qddot import engines
from qddot.engines.rotations import quaternion_of_matrix
from qddot.model.edit import without_joint
from qddot.model.joints import Joint
from qddot.model.model import WORLD, Body, Frame, Model
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Transform, Vec3, rotation_about
from qddot.verify.compare.pairing import Pairing, pair_joints

__all__ = ["Alignment", "align", "locked_coordinates", "pose_matrix", "robot_extent"]

_IDENTITY = Transform.identity()
_SAME, _CLOSE = 1e-6, 0.03
"""Relative distances below which two quantities are the same but for rounding, or close."""


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
    def b_in_frames_of_a(self) -> Model:
        """A with every number of B, expressed in the frames of A."""
        bodies = []
        for body in self.a.bodies:
            there, D = _body_in_b(self, body), self.frames[body.joint.name]
            above = self.a.bodies[body.parent].joint.name if body.parent != WORLD else ""
            before = self.frames.get(above, _IDENTITY)
            X = there.placement @ _joint_motion(there.joint, self.zeros.get(body.joint.name, 0.0))
            placement = before @ X @ D.inverse()
            # the joint of B; its coupling stays that of A
            joint = there.joint
            sign = -1.0 if body.joint.name in self.reversed_joints else 1.0
            flip = sign if len(joint.axes) == 1 else 1.0
            rest, (ahead, back) = joint.drivetrain.rest, joint.drivetrain.friction_levels
            if rest is not None and len(rest) == 1:
                rest = (sign * (rest[0] - self.zeros.get(body.joint.name, 0.0)),)
            if sign < 0.0:
                ahead, back = back, ahead
            drive = dataclasses.replace(
                joint.drivetrain,
                rest=rest,
                friction=ahead,
                backward_friction=back if back != ahead else None,
            )
            bodies.append(
                dataclasses.replace(
                    body,
                    placement=body.placement if body.joint.kind.floats else placement,
                    joint=dataclasses.replace(
                        body.joint,
                        kind=joint.kind,
                        axes=tuple(D.R.apply(axis) * flip for axis in joint.axes),
                        pitch=joint.pitch,
                        drivetrain=drive,
                    ),
                    inertia=D.to_parent(there.inertia),
                )
            )
        # frames that B has too, as they lie in B
        frames = {frame.name: frame for frame in self.a.frames}
        for frame, other, same in _shared_frames(self):
            if same:
                name = self.a.bodies[frame.body].joint.name if frame.body != WORLD else ""
                D = self.frames[name] if name else _IDENTITY
                moved = dataclasses.replace(frame, placement=D @ other.placement)
                frames[frame.name] = moved
        return dataclasses.replace(
            self.a,
            bodies=tuple(bodies),
            frames=tuple(frames[f.name] for f in self.a.frames),
            gravity=self.b.gravity,
            base_inertia=self.b.base_inertia,
        )

    @property
    def moved_frames(self) -> Iterator[tuple[str, int]]:
        """Frames that are fixed to another body in B, and to which; those of bodies left out."""
        for frame, other, same in _shared_frames(self):
            if not same:
                yield frame.name, other.body

    def adapter(self) -> engines.Adapter:
        """The map of states and terms from A to B."""
        names = self.pairing.names
        return engines.twin(
            Robot(self.a, native=False),
            Robot(self.b, native=False),
            names,
            check=False,
            reversed_joints=tuple(names[x] for x in self.reversed_joints),
            frames={names[x]: D for x, D in self.frames.items()},
            zeros={names[x]: d for x, d in self.zeros.items()},
        )


def align(
    exact: Model, free: Model, other: Model, joints: Mapping[str, str] | None = None
) -> Alignment:
    """The alignment of A, as it is and with its couplings left free, with B (couplings free).

    `joints` are pairs that are known, {joint of A: joint of B}.
    """
    pairing = pair_joints(exact, other, joints)
    only_a = tuple(b.joint.name for b in exact.bodies if b.joint.name not in pairing.names)
    matched = set(pairing.names.values())
    only_b = tuple(b.joint.name for b in other.bodies if b.joint.name not in matched)
    # lock the joints that only one model has
    follows = {b.joint.name for b in exact.bodies if b.joint.leader is not None}
    whole = free if follows & set(only_a) else exact
    a = _lock_joints(whole, locked_coordinates(whole, only_a, other))
    b = _lock_joints(other, locked_coordinates(other, only_b, whole))
    # joints that hang on different bodies in A and B
    torn = []
    for body in a.bodies:
        there = b.body_of_joint(pairing.names[body.joint.name])
        above = a.bodies[body.parent].joint.name if body.parent != WORLD else None
        expected = pairing.names[above] if above else None
        found = b.bodies[there.parent].joint.name if there.parent != WORLD else None
        if found != expected:
            torn.append(body.joint.name)
    draft = Alignment(
        a,
        b,
        pairing,
        only_a=only_a,
        only_b=only_b,
        frames={},
        reversed_joints=(),
        torn=tuple(torn),
    )
    frames, zeros = _align_frames(draft)
    # joints whose axis points the other way in B
    reversed_joints = [
        body.joint.name
        for body in a.bodies
        if body.joint.kind.nv == 1
        and float(
            body.joint.axes[0].dot(
                frames[body.joint.name].R.apply(_body_in_b(draft, body).joint.axes[0])
            )
        )
        < 0.0
    ]
    return dataclasses.replace(
        draft, frames=frames, zeros=zeros, reversed_joints=tuple(reversed_joints)
    )


def robot_extent(model: Model) -> float:
    """A length of the order of the robot's size: the farthest joint or centre of mass."""
    poses = [np.eye(4)] * (model.nb + 1)
    reach = [0.0]
    for i, body in enumerate(model.bodies):
        poses[i] = poses[body.parent] @ pose_matrix(body.placement)
        com = body.inertia.com if float(body.inertia.mass) else (0.0, 0.0, 0.0)
        reach.append(float(np.linalg.norm(poses[i][:3, 3])))
        reach.append(float(np.linalg.norm([float(c) for c in com])))
    return max(*reach, 1e-3)


def pose_matrix(X: Transform) -> np.ndarray:
    """A transform as a 4×4 array."""
    return np.array([[float(c) for c in row] for row in X])


def locked_coordinates(
    model: Model, joints: Sequence[str], other: Model
) -> dict[str, tuple[float, ...]]:
    """Coordinates at which joints that only this model has are locked: as their file places them.

    A free root is held where the other model has the same link fixed to the world.
    """
    fixed = {f.name: f.placement for f in other.frames if f.body == WORLD}
    held = {}
    for body in (b for b in model.independent if b.joint.name in joints):
        joint, value = body.joint, body.joint.kind.neutral
        if joint.kind.nq == 1:
            value = (-float(joint.offset) / joint.ratio,)
        elif joint.kind.floats and body.parent == WORLD and body.name in fixed:
            X = pose_matrix(body.placement.inverse() @ fixed[body.name])
            value = (*X[:3, 3].tolist(), *quaternion_of_matrix(X[:3, :3]).tolist())
        held[joint.name] = value
    return held


def _lock_joints(model: Model, held: Mapping[str, tuple[float, ...]]) -> Model:
    """A model with joints locked, followers with them; loops are left out."""
    model = dataclasses.replace(model, loops=(), polynomial_couplings=())
    for name, value in held.items():
        model = without_joint(model, name, value)
    return model


def _align_frames(al: Alignment) -> tuple[dict[str, Transform], dict[str, float]]:
    """Where the frame of each body in B lies in that of the same body in A, and zeros of joints."""
    found: dict[str, Transform] = {}
    zeros: dict[str, float] = {}
    size = robot_extent(al.a)
    children: dict[int, list[Body]] = {}
    for body in al.a.bodies:
        children.setdefault(body.parent, []).append(body)
    for i, body in enumerate(al.a.bodies):
        there, kind = _body_in_b(al, body), body.joint.kind
        above = al.a.bodies[body.parent].joint.name if body.parent != WORLD else ""
        # Z: the joint frame of B in that of A, both joints at zero
        Z = body.placement.inverse() @ found.get(above, _IDENTITY) @ there.placement
        zero = float(there.joint.offset) - float(body.joint.offset)
        if zero:
            X = Z @ _joint_motion(there.joint, zero)
            if _nearness(float(np.abs(pose_matrix(X) - np.eye(4)).max()), 1.0) == 1.0:
                zeros[body.joint.name] = zero
                Z = X
        # candidates: the same frame; that of B if only frames differ
        candidates = [_IDENTITY]
        if kind.quaternion is not None and not kind.floats:
            candidates.append(Transform(Z.R, Vec3.zero()))
        elif kind.nv == 1:
            axis = body.joint.axes[0]
            # an offset across the axis is no matter of frames: both have their origin on it
            if _nearness(_length_across(axis, Z.R.apply(there.joint.axes[0])), 1.0):
                candidates.append(Transform(Z.R, Z.p if kind.slides else axis * axis.dot(Z.p)))
        # candidates: the frame turned until a joint that it carries is as in A
        pairs = [(c, _body_in_b(al, c)) for c in children.get(i, [])]
        if kind.floats:
            candidates += [c.placement @ d.placement.inverse() for c, d in pairs]
        elif kind.nq == 1:
            axis, turns = body.joint.axes[0], []
            for X, (child, twin) in itertools.product(candidates[:2], pairs):
                if not (child.joint.axes and twin.joint.axes):
                    continue
                ours = child.placement.R.apply(child.joint.axes[0])
                theirs = X.R.apply(twin.placement.R.apply(twin.joint.axes[0]))
                # the angle between the parts of both across the axis
                flat, other = (v - axis * axis.dot(v) for v in (ours, theirs))
                sine, cosine = axis.dot(theirs.cross(ours)), flat.dot(other)
                if math.hypot(float(sine), float(cosine)) > _CLOSE:
                    turn = rotation_about(axis, math.atan2(sine, cosine))
                    turns.append(Transform(turn, Vec3.zero()) @ X)
            candidates += turns
        scores = [_score_frame(body, there, D, pairs, size) for D in candidates]
        found[body.joint.name] = candidates[scores.index(max(scores))]
    return found, zeros


def _joint_motion(joint: Joint, displacement: float) -> Transform:
    """The motion of a joint of one freedom."""
    return joint.kind.transform(joint, [displacement]) if joint.kind.nq == 1 else _IDENTITY


def _body_in_b(al: Alignment, body: Body) -> Body:
    return al.b.body_of_joint(al.pairing.names[body.joint.name])


def _length_across(axis: Vec3, v: Vec3) -> float:
    """The length of the part of a vector across an axis."""
    return math.sqrt(sum(float(c) ** 2 for c in axis.cross(v)))


def _parallelism(axis: Vec3, other: Vec3) -> float:
    """How nearly two axes are parallel; a little less if they point in opposite directions."""
    sign = 1.0 if float(axis.dot(other)) > 0.0 else 0.9
    return _nearness(_length_across(axis, other), 1.0) * sign


def _nearness(off: float, scale: float) -> float:
    """1 where equal but for rounding, ½ where close, 0 elsewhere."""
    return 1.0 if off < _SAME * scale else 0.5 if off < _CLOSE * scale else 0.0


def _score_frame(
    body: Body, there: Body, D: Transform, children: list[tuple[Body, Body]], size: float
) -> float:
    """How much agrees if B's frame of a body lies at D in A's: its axis, its inertia, its joints.

    Frames that are the same score a little more, as most files of one robot share them.
    """
    score = 0.05 if D == _IDENTITY else 0.0
    for axis, other in zip(body.joint.axes[:1], there.joint.axes[:1], strict=False):
        score += _parallelism(axis, D.R.apply(other))
    # centre of mass and tensor
    if float(there.inertia.mass) and float(body.inertia.mass):
        apart = D.point(there.inertia.com) - body.inertia.com
        score += _nearness(math.sqrt(float(apart.dot(apart))), size)
        tensor, turned = body.inertia.tensor_at_com, there.inertia.tensor_at_com.rotate(D.R)
        off = max(abs(float(x - y)) for x, y in zip(tensor, turned, strict=True))
        score += _nearness(off, max(abs(float(x)) for x in body.inertia.I))
    # joints that it carries: the same point, or the same axis
    for child, twin in children:
        Z, kind = child.placement.inverse() @ D @ twin.placement, child.joint.kind
        if kind.quaternion is not None and not kind.floats:
            score += _nearness(math.sqrt(float(Z.p.dot(Z.p))), size)
        elif kind.nv == 1:
            axis = child.joint.axes[0]
            through = kind.slides or _nearness(_length_across(axis, Z.p), size)
            score += min(_parallelism(axis, Z.R.apply(twin.joint.axes[0])), float(through))
    return score


def _shared_frames(al: Alignment) -> Iterator[tuple[Frame, Frame, bool]]:
    """Frames of A and B of one name, and whether their bodies are the same; not those of bodies."""
    there = {f.name: f for f in al.b.frames}
    joints = {b.joint.name: i for i, b in enumerate(al.b.bodies)}
    bodies = {b.name for b in al.a.bodies} | {b.name for b in al.b.bodies}
    for frame in al.a.frames:
        if frame.name in there and frame.name not in bodies:
            joint = al.a.bodies[frame.body].joint.name if frame.body != WORLD else ""
            expected = joints[al.pairing.names[joint]] if joint else WORLD
            yield frame, there[frame.name], there[frame.name].body == expected
