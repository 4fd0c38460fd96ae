"""The same joint-space dynamics with fewer numbers: what no joint can tell apart is made zero.

Three freedoms of every description cost operations and change no torque. The axes of a body may
point anywhere: they can be those of its parent at some angle of the joint, so that bodies turn
against each other about coordinate axes. The origin of a body may stand anywhere on the axis of its
joint. And a rod on that axis, of any mass and spread, may belong to the body or to its parent, for
turning it about itself moves nothing (Khalil & Dombre 2002, section 9.4: the base parameters). A
condensed model has its axes and origins where rotations and offsets between joints have most zeros,
and no mass on the axes. It has the same M, C, g and torques; poses of its bodies and their
parameters are its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

from qddot.model.joints import Joint
from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3, rotation_about

__all__ = ["condense"]

_BITS = 50

Choice = Callable[[int, Transform], tuple[Transform, Joint, Transform]]
"""Placement and joint of a body that is placed in its parent, and its new frame in the old one."""


def condense(model: Model) -> Model:
    """The model with axes turned, origins slid along them, and mass handed to the parents."""
    # axes first: offsets along them can then be slid away, and mass on them moved
    return _move_mass_to_parents(_slide_origins(_rotate_bodies(model)))


def _change_frames(model: Model, choose: Choice) -> Model:
    """The model with other frames of its bodies."""
    # root to leaves: the new frame of each body in its old one
    moves = {WORLD: Transform.identity()}
    bodies = []
    for i, body in enumerate(model.bodies):
        placement, joint, moves[i] = choose(i, moves[body.parent].inverse() @ body.placement)
        inertia = body.inertia.to_parent(moves[i].inverse())
        inertia = dataclasses.replace(inertia, h=_drop_noise(inertia.h))
        bodies.append(dataclasses.replace(body, placement=placement, joint=joint, inertia=inertia))
    frames = tuple(
        dataclasses.replace(f, placement=moves[f.body].inverse() @ f.placement)
        for f in model.frames
    )
    return dataclasses.replace(model, bodies=tuple(bodies), frames=frames)


def _rotate_bodies(model: Model) -> Model:
    """The model with bodies turned so that they stand like their parents, their joints apart."""
    inertias = [body.inertia for body in _move_mass_to_parents(model).bodies]
    carried: list[list[Body]] = [[] for _ in (*model.bodies, WORLD)]
    for body in model.bodies:
        carried[body.parent].append(body)

    def choose(i: int, X: Transform) -> tuple[Transform, Joint, Transform]:
        joint, p = model.bodies[i].joint, _drop_noise(X.p)
        if not (joint.kind.turns or joint.kind.slides):
            return Transform(X.R, p), joint, Transform.identity()
        along = _drop_noise(X.R.apply(joint.axes[0]))
        if joint.kind.slides:
            R, axis = Mat3.identity(), along
        else:
            R, axis = _nearest_coordinate_axis(along)
            angle = _best_angle(axis, X.R.T @ R, inertias[i], carried[i])
            R = R @ rotation_about(axis, angle)
        joint = dataclasses.replace(joint, axes=(axis,))
        return Transform(R, p), joint, Transform(X.R.T @ R, Vec3.zero())

    return _change_frames(model, choose)


def _drop_noise(p: Vec3) -> Vec3:
    """The vector without parts that are noise of rounding."""
    return Vec3(*_without_noise(p))


def _without_noise(parts: Iterable[float]) -> list[float]:
    """Numbers that belong together; those that only rounding has made are zero."""
    given = list(parts)
    noise = math.ldexp(max(map(abs, given)), -_BITS)
    return [0.0 if abs(x) <= noise else x for x in given]


def _nearest_coordinate_axis(along: Vec3) -> tuple[Mat3, Vec3]:
    """The least turn that brings a coordinate axis to a direction, and that axis."""
    parts = list(along)
    k = max(range(3), key=lambda i: abs(parts[i]))
    axis = Vec3(*(math.copysign(1.0, x) if i == k else 0.0 for i, x in enumerate(parts)))
    across = axis.cross(along)
    sine = math.sqrt(across.dot(across))
    if sine == 0.0:
        return Mat3.identity(), axis
    return rotation_about(across * (1.0 / sine), math.atan2(sine, axis.dot(along))), axis


def _best_angle(axis: Vec3, turn: Mat3, inertia: Inertia, carried: Sequence[Body]) -> float:
    """The angle by which a turned body, turned on about its axis, costs least.

    Worth a trial are those at which its inertia, the offset of a joint on it, or the axis of one
    stands along coordinate axes.
    """
    lines = [turn.apply_transpose(b.placement.R.apply(x)) for b in carried for x in b.joint.axes]
    lines += [turn.apply_transpose(b.placement.p) for b in carried]
    across = next(e for e in Mat3.identity() if e.dot(axis) == 0.0)
    third = axis.cross(across)
    # angles that bring an axis, an offset or a principal axis to coordinate axes
    angles = [math.atan2(third.dot(x), across.dot(x)) for x in lines]
    x, y = (inertia.second_moment.rotate(turn.T).apply(e) for e in (across, third))
    angles.append(0.5 * math.atan2(2.0 * third.dot(x), across.dot(x) - third.dot(y)))
    right = 0.5 * math.pi
    trials = [0.0, *(angle - right * round(angle / right) for angle in angles)]

    def cost(angle: float) -> int:
        """About how many operations of inverse dynamics the numbers of the turned body cost."""
        R = turn @ rotation_about(axis, angle)
        # sine and cosine of an angle and a constant take six operations more
        total = 6 * (angle != 0.0) + 4 * _count_nonzero(inertia.second_moment.rotate(R.T))
        total += 6 * _count_nonzero(R.apply_transpose(inertia.h))
        for body in carried:
            X = Transform(R.T @ body.placement.R, R.apply_transpose(body.placement.p))
            total += 50 * sum(_count_nonzero(X.R.apply(e)) - 1 for e in body.joint.axes)
            total += 10 * _count_nonzero(X.p + X.R.apply(_origin_shift(body.joint, X)))
        return total

    return min(trials, key=cost)


def _count_nonzero(parts: Iterable[float]) -> int:
    """How many parts of a vector or tensor are not zero."""
    return sum(x != 0.0 for x in _without_noise(parts))


def _slide_origins(model: Model) -> Model:
    """The model with the origin of each body where it is least far from that of its parent."""

    def choose(i: int, X: Transform) -> tuple[Transform, Joint, Transform]:
        joint = model.bodies[i].joint
        move = Transform(Mat3.identity(), _origin_shift(joint, X))
        return X @ move, joint, move

    return _change_frames(model, choose)


def _origin_shift(joint: Joint, placement: Transform) -> Vec3:
    """How far an origin moves, in body coordinates, without the joint changing."""
    if joint.kind.slides:
        return -placement.R.apply_transpose(placement.p)
    if joint.kind.turns:
        (axis,) = joint.axes
        along = placement.R.apply(axis)
        # off the coordinate axes a slide makes no offset zero
        if sum(x == 0.0 for x in along) == 2:
            return axis * -along.dot(placement.p)
    return Vec3.zero()


def _move_mass_to_parents(model: Model) -> Model:
    """The model with the inertia that no joint can tell apart moved to the parents."""
    inertias = [body.inertia for body in model.bodies]
    # leaves to root: what must stay with the body stays, the rest goes to its parent
    for i, body in reversed(list(enumerate(model.bodies))):
        inertia, kind = inertias[i], body.joint.kind
        if kind.slides:
            # a body that does not turn against its parent may leave it all turning
            kept = Inertia(inertia.mass, inertia.h, Sym3.diagonal(0.0, 0.0, 0.0))
        elif kind.nv == 3 and all(kind.angular):
            # the mass at the centre of a ball joint moves with the parent
            kept = Inertia(0.0, inertia.h, inertia.I)
        elif kind.turns and sum(x == 0.0 for x in body.joint.axes[0]) == 2:
            # the inertia without the rod on a coordinate axis that has its mass, moment and spread
            moments, h = inertia.second_moment, inertia.h
            step = math.frexp(max(map(abs, moments)))[1] - _BITS
            cut = Sym3(*(math.ldexp(round(math.ldexp(x, -step)), step) for x in moments))
            x, y, z = (1.0 - abs(part) for part in body.joint.axes[0])
            spread = Sym3(cut.xx * x, cut.xy, cut.yy * y, cut.xz, cut.yz, cut.zz * z)
            trace = spread.trace()
            tensor = Sym3.diagonal(trace, trace, trace) - spread
            kept = Inertia(0.0, Vec3(h.x * x, h.y * y, h.z * z), tensor)
        else:
            kept = inertia
        inertias[i] = kept
        if body.parent != WORLD:
            moved = body.placement.to_parent(inertia - kept)
            inertias[body.parent] = inertias[body.parent] + moved
    bodies = tuple(
        dataclasses.replace(body, inertia=inertia)
        for body, inertia in zip(model.bodies, inertias, strict=True)
    )
    return dataclasses.replace(model, bodies=bodies)
