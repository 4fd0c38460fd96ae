"""Drake: quaternion (w, x, y, z) before position; angular parts first; world axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from qddot.engines.adapter import Adapter, make_adapter
from qddot.engines.layout import Layout, Place
from qddot.errors import InvalidArgument, JointsDiffer, WrongType
from qddot.loaders.drake import reference_position
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Vec3

__all__ = ["drake"]

_FORMS = {
    "revolute": "one",
    "prismatic": "one",
    "screw": "one",
    "planar": "planar, parent axes",
    "ball_rpy": "ball rpy",
    "quaternion_floating": "wxyz free",
    "rpy_floating": "rpy free",
}


def drake(
    robot: Robot,
    plant: Any,
    names: Mapping[str, str] | None = None,
    partial: bool = False,
    check: bool = True,
) -> Adapter:
    """The adapter of a robot and a finalised MultibodyPlant of it.

    `names` has the names there of joints that are called otherwise; `partial` leaves joints that
    only the plant has at their defaults; `check=False` takes any quaternion.
    """
    if not hasattr(plant, "GetJointIndices"):
        raise WrongType("plant", plant, "needs a MultibodyPlant")
    if not plant.is_finalized():
        raise InvalidArgument("plant", plant, "needs to be finalised first")
    # the joints that move; a universal joint is two revolute ones
    places = []
    for joint in (plant.get_joint(j) for j in plant.GetJointIndices()):
        kind, name, body = joint.type_name(), joint.name(), joint.child_body()
        iq, iv, row = joint.position_start(), joint.velocity_start(), int(body.index())
        if joint.num_velocities() == 0:
            continue
        if kind == "universal":
            places += [
                Place(f"{name}.1", "one", iq=iq, iv=iv, body=body.name()),
                Place(f"{name}.2", "one", iq=iq + 1, iv=iv + 1, body=body.name(), row=row),
            ]
            continue
        if kind not in _FORMS:
            known = ", ".join((*_FORMS, "universal"))
            reason = f"{name!r} is of type {kind}, not one of {known}"
            raise JointsDiffer("Drake", "", reason=reason)
        # the frame of the joint on its child has our origin; a plane has axes of its own
        frame = joint.frame_on_child().GetFixedPoseInBodyFrame()
        axes = frame.rotation().matrix().T.tolist() if kind == "planar" else []
        place = Place(
            name,
            _FORMS[kind],
            iq=iq,
            iv=iv,
            body=body.name(),
            row=row,
            zero=reference_position(joint),
            point=tuple(float(c) for c in -frame.translation()),
            plane=tuple(Vec3(*axis) for axis in axes),
        )
        places.append(place)
    layout = Layout(
        "Drake",
        places=tuple(places),
        neutral=np.array(plant.GetDefaultPositions()),
        nv=plant.num_velocities(),
        rows=plant.num_bodies(),
        angular_first=True,
    )
    return make_adapter(robot, layout, names, partial, check)
