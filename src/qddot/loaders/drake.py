"""A finalised MultibodyPlant of Drake.

Its joints keep their names and coordinates but for the order and axes of floating and ball joints;
springs and other force elements are not read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from qddot.errors import InvalidModel
from qddot.loaders.description import Description
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
from qddot.model.links import Link
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

if TYPE_CHECKING:
    from pydrake.multibody.plant import MultibodyPlant

__all__ = ["describe_drake", "drake_messages", "reference_position"]

_X, _Y, _Z = Mat3.identity()
_ROUNDING = 1e-9


def describe_drake(plant: MultibodyPlant) -> Description:
    """The description in a plant, joints and bodies by the names they have there."""
    from pydrake.multibody.tree import ModelInstanceIndex

    # the name of the first model that is neither the world nor the default one
    count = plant.num_model_instances()
    instances = (plant.GetModelInstanceName(ModelInstanceIndex(i)) for i in range(count))
    name = next((n for n in instances if not n.endswith("ModelInstance")), "plant")
    # reflected inertia of the actuators by joint
    armature: dict[str, float] = {}
    for index in plant.GetJointActuatorIndices():
        actuator = plant.get_joint_actuator(index)
        driven = actuator.joint().name()
        armature[driven] = armature.get(driven, 0.0) + float(actuator.default_reflected_inertia())
    # bodies in the order of their numbers, each with the joint that carries it
    joints = {}
    for index in plant.GetJointIndices():
        joint = plant.get_joint(index)
        joints[int(joint.child_body().index())] = joint
    links = []
    for _, joint in sorted(joints.items()):
        body, parent = joint.child_body(), joint.parent_body()
        above = None if parent.index() == plant.world_body().index() else parent.name()
        placement = _transform(joint.frame_on_parent().GetFixedPoseInBodyFrame())
        made = _read_joint(joint, armature.get(joint.name(), 0.0))
        # the frame of the body in that of the joint on it, which may be the same
        held = _transform(joint.frame_on_child().GetFixedPoseInBodyFrame()).inverse()
        if made.kind.nq == 1 and made.offset:
            held = made.kind.transform(made, [-made.offset]) @ held
        pairs = zip(held, Transform.identity(), strict=True)
        same = all(abs(a - b) < 1e-15 for row in pairs for a, b in zip(*row, strict=True))
        if made.kind.nv == 0:
            placement = placement @ _transform(joint.X_FM()) @ held
        elif not same:
            # a link of the joint, with the body fixed to it
            links.append(Link(f"{body.name()}/{joint.name()}", above, placement, made))
            above, placement = links[-1].name, held
            made = Joint(f"{body.name()} (fixed)", JOINTS["fixed"])
        # the inertia of the body about its origin
        M = body.default_spatial_inertia()
        mass, unit = float(M.get_mass()), M.get_unit_inertia().CopyToFullMatrix3()
        entries = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
        tensor = Sym3(*(mass * float(unit[i, j]) for i, j in entries))
        inertia = Inertia(mass, _vector(M.get_com()) * mass, tensor)
        links.append(Link(body.name(), above, placement, made, inertia))
    gravity = _vector(plant.gravity_field().gravity_vector())
    return Description(name, tuple(links), gravity=gravity)


def reference_position(joint: Any) -> float:
    """The coordinate at which the body of a joint stands as its file places it.

    Drake keeps the reference position of an MJCF joint as its default and as an offset of its
    frame on the child; an offset alone is that of a frame that the file places elsewhere.
    """
    X = joint.frame_on_child().GetFixedPoseInBodyFrame()
    kind, offset = joint.type_name(), 0.0
    if kind == "prismatic":
        offset = joint.translation_axis() @ X.translation()
    elif kind == "revolute":
        R = X.rotation().matrix()
        spin = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
        offset = np.arctan2(joint.revolute_axis() @ spin, np.trace(R) - 1.0)
    default = float(joint.default_positions()[0]) if joint.num_positions() else 0.0
    return default if abs(offset - default) < _ROUNDING else 0.0


@contextmanager
def drake_messages() -> Iterator[list[str]]:
    """Collect the messages of Drake while it reads a file."""
    logger, heard = logging.getLogger("drake"), []

    def keep_message(record: logging.LogRecord) -> bool:
        heard.append(record.getMessage())
        return False

    logger.addFilter(keep_message)
    try:
        yield heard
    finally:
        logger.removeFilter(keep_message)


def _vector(v: Any) -> Vec3:
    return Vec3(*(float(c) for c in v))


def _transform(X: Any) -> Transform:
    return Transform(
        Mat3(*(_vector(row) for row in X.rotation().matrix())), _vector(X.translation())
    )


def _read_joint(joint: Any, armature: float) -> Joint:
    kind, name = joint.type_name(), joint.name()
    if kind == "weld":
        return Joint(f"{name} (fixed)", JOINTS["fixed"])
    damping = float(joint.default_damping_vector()[0]) if joint.num_velocities() else 0.0
    drive = Drivetrain(armature=armature, damping=damping)
    if kind in ("quaternion_floating", "rpy_floating"):
        return Joint(name, JOINTS["free"], drivetrain=drive)
    if kind == "ball_rpy":
        return Joint(name, JOINTS["ball"], drivetrain=drive)
    if kind == "planar":
        return Joint(name, JOINTS["planar"], plane_basis(_Z), drivetrain=drive)
    if kind == "universal":
        return Joint(name, JOINTS["universal"], (_X, _Y), drivetrain=drive)
    axes = {"revolute": "revolute_axis", "prismatic": "translation_axis", "screw": "screw_axis"}
    if kind not in axes:
        raise InvalidModel(f"joint {name!r}", f"type {kind} of Drake is not known here")
    limits = Limits(
        float(joint.position_lower_limits()[0]), float(joint.position_upper_limits()[0])
    )
    endless = kind == "revolute" and math.isinf(limits.lower) and math.isinf(limits.upper)
    row = "continuous" if endless else {"screw": "helical"}.get(kind, kind)
    pitch = float(joint.screw_pitch()) / (2.0 * math.pi) if kind == "screw" else 0.0
    axis = _vector(getattr(joint, axes[kind])())
    zero = reference_position(joint)
    return Joint(name, JOINTS[row], (axis,), pitch, offset=-zero, limits=limits, drivetrain=drive)
