"""Any description file, or a robot by name, as a record for an audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qddot.errors import DescriptionError, Unsupported
from qddot.loaders.description import suppress_warnings
from qddot.loaders.formats import detect_format, needs_expansion
from qddot.loaders.load import locate_source
from qddot.loaders.sdf import describe_sdf
from qddot.loaders.shapes import shapes_of_sdf
from qddot.loaders.urdf import expand_xacro
from qddot.loaders.xml import parse_xml, read_file
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


def read_robot(source: str | Path, trust: bool = False) -> RobotRecord:
    """The record of a URDF, xacro, MJCF or SDF file, or of a robot by name.

    The text of a file is kept for fixes where its own values are the robot's: in URDF and MJCF.
    """
    path = locate_source(source)
    content = read_file(path)
    root = parse_xml(content, str(path))
    form = detect_format(root).name
    if form == "urdf":
        if needs_expansion(path, root, trust):
            text = expand_xacro(path, trust=trust)
            return read_urdf(parse_xml(text, f"{path} (expanded)"), path, None, trust)
        return read_urdf(root, path, _decode_text(path, content), trust)
    if form == "mjcf":
        with suppress_warnings():
            return read_mjcf(path, _decode_text(path, content), trust)
    if form != "sdf":
        raise Unsupported("audit", form, "the format has no audit")
    description, shapes = describe_sdf(root, path, trust), shapes_of_sdf(root, path, trust)
    # links with their joints; inertias are in the axes of the links
    links = {}
    for link in description.links:
        inertia, joint = link.inertia, link.joint
        drive, limits = joint.drivetrain, joint.limits
        tensor = np.array([list(row) for row in inertia.tensor_at_com.rows], float)
        inertial = Inertial(float(inertia.mass), np.array(list(inertia.com)), np.eye(3), tensor)
        record = JointRecord(
            name=joint.name,
            kind=joint.kind.name,
            damping=float(drive.damping),
            friction=float(drive.friction),
            armature=float(drive.reflected_inertia),
            effort=limits.effort,
            velocity=limits.velocity,
        )
        links[link.name] = LinkRecord(
            name=link.name,
            parent=link.parent,
            pose=pose_of(link.placement),
            joints=(record,) if joint.kind.nv else (),
            inertial=inertial if inertia.mass else None,
        )
    links = shapes_by_link(links, shapes.found)
    return RobotRecord(description.name, form, path, links, None, shapes.unread)


def _decode_text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DescriptionError(path, "is not UTF-8 text; save it as such") from error
