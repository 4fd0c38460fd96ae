"""Two qddot robots of one machine: other names, another order, other zero positions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qddot.adapt.adapter import Adapter, make_adapter
from qddot.adapt.forms import family
from qddot.adapt.layout import Layout, Place
from qddot.errors import NotUnderstood
from qddot.robot import Robot
from qddot.spatial import Transform

__all__ = ["twin"]

_FORMS = {"one": "one", "planar": "planar", "ball": "ball xyzw", "free": "free xyzw"}


def twin(
    robot: Robot,
    other: Robot,
    names: Mapping[str, str] | None = None,
    partial: bool = False,
    check: bool = True,
    reversed_joints: tuple[str, ...] = (),
    frames: Mapping[str, Transform] | None = None,
    zeros: Mapping[str, float] | None = None,
) -> Adapter:
    """The adapter of a robot and another qddot robot of the same machine.

    `names` has the names there of joints that are called otherwise. `reversed_joints` (there) turn
    the other way; `frames` has, for ball and free joints (there), the frame of their body as seen
    from that of ours. `zeros` has joints (there) that stand so far from where their file places
    them while ours stands as its own file does.
    """
    if not isinstance(other, Robot):
        raise NotUnderstood("other", other, "needs a Robot, as qddot.load gives")
    model, turned, moved = other.model, frames or {}, zeros or {}
    places = tuple(
        Place(
            body.joint.name,
            _FORMS[family(body.joint.kind.name)],
            body.iq.start,
            body.iv.start,
            body.name,
            index,
            zero=moved.get(body.joint.name, 0.0) - float(body.joint.offset),
            sign=-1.0 if body.joint.name in reversed_joints else 1.0,
            placement=body.placement,
            frame=turned.get(body.joint.name, Transform.identity()),
        )
        for index, body in enumerate(model.bodies)
        if body.joint.leader is None
    )
    followers = tuple(b.joint.name for b in model.bodies if b.joint.leader is not None)
    layout = Layout(
        repr(other.name), places, np.array(model.neutral), model.nv, model.nb, followers,
        local_forces=True,
    )  # fmt: skip
    return make_adapter(robot, layout, names, partial, check)
