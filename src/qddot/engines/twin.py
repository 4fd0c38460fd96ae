"""Two qddot robots of one machine: other names, another order, other zero positions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qddot.engines.adapter import Adapter, make_adapter
from qddot.engines.forms import joint_family
from qddot.engines.layout import Layout, Place
from qddot.errors import WrongType
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Transform

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
        raise WrongType("other", other, "needs a Robot, as qddot.load gives")
    model, turned, moved = other.model, frames or {}, zeros or {}
    # joints that follow others have no coordinates of their own
    places = tuple(
        Place(
            body.joint.name,
            _FORMS[joint_family(body.joint.kind)],
            iq=body.iq.start,
            iv=body.iv.start,
            body=body.name,
            row=index,
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
        repr(other.name),
        places=places,
        neutral=np.array(model.neutral),
        nv=model.nv,
        rows=model.nb,
        followers=followers,
        local_forces=True,
    )
    return make_adapter(robot, layout, names, partial, check)
