"""Drake: quaternion (w, x, y, z) before position; angular parts first; world axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from qddot.adapt.adapter import Adapter, make_adapter
from qddot.adapt.layout import Layout, Place
from qddot.errors import JointsDiffer, NotUnderstood
from qddot.loaders.drake import reference_position
from qddot.robot import Robot
from qddot.spatial import Vec3

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
        raise NotUnderstood("plant", plant, "needs a MultibodyPlant")
    if not plant.is_finalized():
        raise NotUnderstood("plant", plant, "needs to be finalised first")
    joints = [plant.get_joint(j) for j in plant.GetJointIndices()]
    neutral = np.array(plant.GetDefaultPositions())
    layout = Layout(
        "Drake",
        tuple(p for joint in joints for p in _places(joint)),
        neutral,
        plant.num_velocities(),
        plant.num_bodies(),
        angular_first=True,
    )
    return make_adapter(robot, layout, names, partial, check)


def _places(joint: Any) -> list[Place]:
    """A joint that moves, or the two revolute ones of a universal joint."""
    kind, name, body = joint.type_name(), joint.name(), joint.child_body()
    iq, iv, row = joint.position_start(), joint.velocity_start(), int(body.index())
    if joint.num_velocities() == 0:
        return []
    if kind == "universal":
        return [
            Place(f"{name}.1", "one", iq, iv, body.name()),
            Place(f"{name}.2", "one", iq + 1, iv + 1, body.name(), row),
        ]
    if kind not in _FORMS:
        known = ", ".join((*_FORMS, "universal"))
        raise JointsDiffer("Drake", "", reason=f"{name!r} is of type {kind}, not one of {known}")
    frame = joint.frame_on_child().GetFixedPoseInBodyFrame()
    point = tuple(float(c) for c in -frame.translation())
    zero = reference_position(joint)
    axes = frame.rotation().matrix().T.tolist() if kind == "planar" else []
    plane = tuple(Vec3(*axis) for axis in axes)
    return [Place(name, _FORMS[kind], iq, iv, body.name(), row, zero, point=point, plane=plane)]
