"""Any description file, or a robot by name, as a record for an audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qddot.errors import DescriptionError
from qddot.loaders.dispatch import locate_source, uses_xacro
from qddot.loaders.sdf import describe_sdf
from qddot.loaders.shapes import shapes_of_sdf
from qddot.loaders.urdf import expand_xacro
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.parts import Link
from qddot.verify.audit.read_mjcf import read_mjcf
from qddot.verify.audit.read_urdf import read_urdf
from qddot.verify.audit.records import (
    Inertial,
    JointRecord,
    LinkRecord,
    RobotRecord,
    pose_of,
    shapes_by_link,
)

__all__ = ["read_robot"]


def read_robot(source: str | Path) -> RobotRecord:
    """The record of a URDF, xacro, MJCF or SDF file, or of a robot by name.

    The text of a file is kept for fixes where its own values are the robot's: in URDF and MJCF.
    """
    path = locate_source(source)
    content = read_file(path)
    root = parse_xml(content, str(path))
    if root.tag == "robot":
        if path.suffix == ".xacro" or uses_xacro(root):
            return read_urdf(parse_xml(expand_xacro(path), f"{path} (expanded)"), path, None)
        return read_urdf(root, path, _text(path, content))
    if root.tag in ("mujoco", "mujocoinclude"):
        return read_mjcf(path, _text(path, content))
    if root.tag == "sdf":
        return _read_sdf(root, path)
    raise root.error("is neither URDF (<robot>), MJCF (<mujoco>) nor SDF (<sdf>)")


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DescriptionError(path, "is not UTF-8 text; save it as such") from error


def _read_sdf(root: Element, path: Path) -> RobotRecord:
    description, shapes = describe_sdf(root, path), shapes_of_sdf(root, path)
    links = {link.name: _link(link) for link in description.links}
    return RobotRecord(
        description.name, "sdf", path, shapes_by_link(links, shapes.found), None, shapes.unread
    )


def _link(link: Link) -> LinkRecord:
    """A link of a description, whose inertia is in the axes of the link."""
    inertia, drive, limits = link.inertia, link.joint.drivetrain, link.joint.limits
    tensor = np.array([list(row) for row in inertia.tensor_at_com.rows], float)
    inertial = Inertial(float(inertia.mass), np.array(list(inertia.com)), np.eye(3), tensor)
    joint = JointRecord(
        link.joint.name, link.joint.kind.name, float(drive.damping), float(drive.friction),
        float(drive.reflected_inertia), limits.effort, limits.velocity,
    )  # fmt: skip
    joints = (joint,) if joint.kind != "fixed" else ()
    pose = pose_of(link.placement)
    return LinkRecord(link.name, link.parent, pose, joints, inertial if inertia.mass else None)
