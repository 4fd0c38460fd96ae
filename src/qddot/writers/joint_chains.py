"""Joints that a format does not have, as chains of joints that it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from qddot.model.joints import JOINTS, Drivetrain, Joint
from qddot.spatial.algebra import Mat3, Vec3

__all__ = ["PART_SUFFIXES", "free_parts", "helical_parts", "planar_parts"]

PART_SUFFIXES = {"planar": ("x", "y", "angle"), "free": ("x", "y", "z", "turn")}
"""Endings of the names of the joints that a joint of this kind is written as."""


def helical_parts(joint: Joint) -> list[Joint]:
    """A revolute joint with the coordinate of a helical one, and a prismatic one coupled to it."""
    pitch = float(joint.pitch)
    slide = Joint(
        f"{joint.name}.advance", JOINTS["prismatic"], joint.axes,
        leader=joint.leader or joint.name, ratio=pitch * joint.ratio, offset=pitch * joint.offset,
    )  # fmt: skip
    return [dataclasses.replace(joint, kind=JOINTS["revolute"], pitch=0.0), slide]


def planar_parts(joint: Joint) -> list[Joint]:
    """Two prismatic joints in the plane and a revolute one, with the same coordinates.

    Velocities are along axes of the plane instead of the body's.
    """
    kinds = ("prismatic", "prismatic", "revolute")
    return _chain_parts(joint, kinds, joint.axes)


def free_parts(joint: Joint) -> list[Joint]:
    """Three prismatic joints and a ball joint, with the same coordinates.

    Linear velocities are along axes of the parent instead of the body's.
    """
    kinds = ("prismatic", "prismatic", "prismatic", "ball")
    return _chain_parts(joint, kinds, (*Mat3.identity(), None))


def _chain_parts(joint: Joint, kinds: Sequence[str], axes: Sequence[Vec3 | None]) -> list[Joint]:
    """Joints of these kinds, each with the damping and friction of the joint they stand for."""
    drive, suffixes = joint.drivetrain, PART_SUFFIXES[joint.kind.name]
    friction = Drivetrain(
        damping=drive.damping, friction=drive.friction, backward_friction=drive.backward_friction
    )
    return [
        Joint(f"{joint.name}.{suffix}", JOINTS[kind], (axis,) if axis else (), drivetrain=friction)
        for kind, axis, suffix in zip(kinds, axes, suffixes, strict=True)
    ]
