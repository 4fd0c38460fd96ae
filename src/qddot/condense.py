"""The same joint-space dynamics with fewer numbers: what no joint can tell apart is made zero.

Two freedoms of every description cost operations and change no torque. The origin of a body may
stand anywhere on the axis of its joint. And a rod on that axis, of any mass and spread, may belong
to the body or to its parent, for turning it about itself moves nothing (Khalil & Dombre 2002,
section 9.4: the base parameters). A condensed model has its origins where the offsets between
joints have most zeros, and no mass on the axes. It has the same M, C, g and torques; poses of its
bodies and their parameters are its own.
"""

from __future__ import annotations

import dataclasses
import math

from qddot.joints import Joint
from qddot.model import WORLD, Body, Model
from qddot.spatial import Inertia, Mat3, Sym3, Transform, Vec3

__all__ = ["condensed"]

_TURNING = ("revolute", "continuous")
_BITS = 50


def condensed(model: Model) -> Model:
    """The model with origins slid along the axes and mass handed to the parents."""
    return _lightened(_slid(model))


def _slid(model: Model) -> Model:
    """The model with the origin of each body where it is least far from that of its parent."""
    moves = {WORLD: Transform.identity()}
    bodies = []
    for i, body in enumerate(model.bodies):
        placement = moves[body.parent].inverse() @ body.placement
        moves[i] = Transform(Mat3.identity(), _slide(body.joint, placement))
        inertia = body.inertia.to_parent(moves[i].inverse())
        bodies.append(dataclasses.replace(body, placement=placement @ moves[i], inertia=inertia))
    frames = tuple(
        dataclasses.replace(f, placement=moves[f.body].inverse() @ f.placement)
        for f in model.frames
    )
    return dataclasses.replace(model, bodies=tuple(bodies), frames=frames)


def _slide(joint: Joint, placement: Transform) -> Vec3:
    """How far an origin moves, in body coordinates, without the joint changing."""
    if joint.kind.name == "prismatic":
        return -placement.R.apply_transpose(placement.p)
    if joint.kind.name in _TURNING:
        (axis,) = joint.axes
        along = placement.R.apply(axis)
        # off the coordinate axes a slide makes no offset zero
        if sum(x == 0.0 for x in along) == 2:
            return axis * -along.dot(placement.p)
    return Vec3.zero()


def _lightened(model: Model) -> Model:
    """The model with what no joint can tell apart handed from each body to its parent."""
    inertias = [body.inertia for body in model.bodies]
    for i, body in reversed(list(enumerate(model.bodies))):
        inertias[i], handed = _divided(body, inertias[i])
        if body.parent != WORLD:
            inertias[body.parent] = inertias[body.parent] + body.placement.to_parent(handed)
    bodies = tuple(
        dataclasses.replace(body, inertia=inertia)
        for body, inertia in zip(model.bodies, inertias, strict=True)
    )
    return dataclasses.replace(model, bodies=bodies)


def _divided(body: Body, inertia: Inertia) -> tuple[Inertia, Inertia]:
    """What must stay with a body, and what may go to its parent."""
    kind, nothing = body.joint.kind.name, Sym3.diagonal(0.0, 0.0, 0.0)
    if kind == "prismatic":
        # a body that does not turn against its parent may leave it all turning
        kept = Inertia(inertia.mass, inertia.h, nothing)
    elif kind == "ball":
        kept = Inertia(0.0, inertia.h, inertia.I)
    elif kind in _TURNING and sum(x == 0.0 for x in body.joint.axes[0]) == 2:
        kept = _off_axis(inertia, body.joint.axes[0])
    else:
        return inertia, Inertia.zero()
    return kept, inertia - kept


def _off_axis(inertia: Inertia, axis: Vec3) -> Inertia:
    """The inertia without the rod on a coordinate axis that has its mass, moment and spread.

    Second moments are cut to 50 bits, so that sums of them are exact and a zero among them stays
    one when they are found again from the tensor; the rest goes with the rod.
    """
    unit = max((abs(x) for x in inertia.spread), default=0.0)
    step = math.frexp(unit)[1] - _BITS
    cut = Sym3(*(math.ldexp(round(math.ldexp(x, -step)), step) for x in inertia.spread))
    x, y, z = (1.0 - abs(part) for part in axis)
    spread = Sym3(cut.xx * x, cut.xy, cut.yy * y, cut.xz, cut.yz, cut.zz * z)
    trace = spread.trace()
    h = inertia.h
    return Inertia(
        0.0, Vec3(h.x * x, h.y * y, h.z * z), Sym3.diagonal(trace, trace, trace) - spread
    )
