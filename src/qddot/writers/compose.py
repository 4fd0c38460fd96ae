"""Joints that a format does not have, as chains of joints that it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from qddot.joints import JOINTS, Drivetrain, Joint
from qddot.spatial import Mat3, Vec3

__all__ = ["free_parts", "helical_parts", "planar_parts"]


def helical_parts(joint: Joint) -> list[Joint]:
    """A turning joint with the coordinate of a helical one, and a sliding one coupled to it."""
    pitch = float(joint.pitch)
    slide = Joint(
        f"{joint.name}.advance", JOINTS["prismatic"], joint.axes,
        leader=joint.leader or joint.name, ratio=pitch * joint.ratio, offset=pitch * joint.offset,
    )  # fmt: skip
    return [dataclasses.replace(joint, kind=JOINTS["revolute"], pitch=0.0), slide]


def planar_parts(joint: Joint) -> list[Joint]:
    """Two slides in the plane and a turn: the coordinates stay, velocities leave body axes."""
    return _parts(joint, ("prismatic", "prismatic", "revolute"), joint.axes, ("x", "y", "angle"))


def free_parts(joint: Joint) -> list[Joint]:
    """Three slides and a ball: the coordinates stay, velocities leave body axes."""
    axes = (*Mat3.identity(), None)
    return _parts(joint, ("prismatic",) * 3 + ("ball",), axes, ("x", "y", "z", "turn"))


def _parts(
    joint: Joint, kinds: Sequence[str], axes: Sequence[Vec3 | None], suffixes: Sequence[str]
) -> list[Joint]:
    losses = Drivetrain(damping=joint.drivetrain.damping, friction=joint.drivetrain.friction)
    return [
        Joint(f"{joint.name}.{suffix}", JOINTS[kind], (axis,) if axis else (), drivetrain=losses)
        for kind, axis, suffix in zip(kinds, axes, suffixes, strict=True)
    ]
