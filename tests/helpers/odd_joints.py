"""A robot with a joint type that the joint table does not have."""

from __future__ import annotations

from qddot.model.assembly import assemble
from qddot.model.joints import Joint, JointKind
from qddot.model.links import Link
from qddot.robot.robot import Robot
from qddot.spatial.algebra import (
    Inertia,
    Motion,
    Subspace,
    Sym3,
    Transform,
    Vec3,
    rotation_about,
)

__all__ = ["cylindrical_robot"]

_CYLINDRICAL = JointKind(
    "cylindrical", 2, 2, 1,
    lambda j, q: Transform(rotation_about(j.axes[0], q[0]), j.axes[0] * q[1]),
    lambda j: Subspace((Motion(Vec3.zero(), j.axes[0]), Motion(j.axes[0], Vec3.zero()))),
    neutral=(0.0, 0.0), angular=(True, False), suffixes=("angle", "way"),
)  # fmt: skip


def cylindrical_robot() -> Robot:
    """One body that turns about an axis and slides along it."""
    inertia = Inertia.at_com(1.0, Vec3(0.1, 0.0, 0.0), Sym3.diagonal(0.1, 0.1, 0.1))
    joint = Joint("sleeve", _CYLINDRICAL, (Vec3(0.0, 0.0, 1.0),))
    links = [Link("rod", None, Transform.identity(), joint, inertia)]
    return Robot(assemble("odd", links), native=False)
