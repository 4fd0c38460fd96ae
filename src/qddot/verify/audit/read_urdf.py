"""URDF as written, for an audit: odd numbers are kept, so that they can be reported."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from qddot.loaders.shapes import shapes_of_urdf
from qddot.loaders.urdf_document import read_urdf_document
from qddot.loaders.xml import Element
from qddot.spatial.algebra import rotation_from_rpy
from qddot.verify.audit.records import (
    Inertial,
    JointRecord,
    LinkRecord,
    RobotRecord,
    identity_pose,
    pose_of,
    shapes_by_link,
)

__all__ = ["read_urdf"]

_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def read_urdf(root: Element, file: Path, text: str | None, trust: bool = False) -> RobotRecord:
    """The record of the <robot> element of a URDF file."""
    document = read_urdf_document(root)
    elements = document.links_by_name
    # the joint that carries each link, and the link that it is carried by
    carriers: dict[str, Element] = {}
    parents: dict[str, str] = {}
    for element in document.joints:
        parent, child = document.parent_and_child(element)
        if child not in elements:
            raise element.error(f"link {child!r} does not exist")
        carriers[child], parents[child] = element, parent
    # a file may hang its links on a world that it does not declare
    if all(parents.get(name) in elements for name in elements):
        raise root.error("has no root link: its joints form a cycle")
    shapes = shapes_of_urdf(root, file, trust)
    links = {}
    for name, element in elements.items():
        carrier = carriers.get(name)
        # a joint with its friction and limits as they stand
        joints: tuple[JointRecord, ...] = ()
        if carrier is not None:
            dynamics, limit = carrier.first("dynamics"), carrier.first("limit")
            record = JointRecord(
                name=carrier.get("name"),
                kind=carrier.get("type"),
                damping=_read_number(dynamics, "damping", 0.0),
                friction=_read_number(dynamics, "friction", 0.0),
                effort=_read_number(limit, "effort", math.inf),
                velocity=_read_number(limit, "velocity", math.inf),
            )
            joints = (record,)
        # the <inertial> as it stands, NaN where it gives no number
        inertial, given = None, element.first("inertial")
        if given is not None:
            R, p, origin = np.eye(3), np.zeros(3), given.first("origin")
            if origin is not None:
                rpy, p = origin.vector_as_written("rpy"), np.array(origin.vector_as_written("xyz"))
                R = np.full((3, 3), math.nan)
                if all(map(math.isfinite, rpy)):
                    R = np.array([list(row) for row in rotation_from_rpy(*rpy)], float)
            tensor = given.first("inertia")
            xx, xy, xz, yy, yz, zz = (_read_number(tensor, k, 0.0) for k in _ENTRIES)
            written = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            inertial = Inertial(_read_number(given.first("mass"), "value", 0.0), p, R, written)
        links[name] = LinkRecord(
            name=element.get("name"),
            parent=parents.get(name),
            pose=identity_pose() if carrier is None else pose_of(carrier.origin()),
            joints=joints,
            inertial=inertial,
            line=element.line,
        )
    name = root.attributes.get("name") or file.stem
    return RobotRecord(name, "urdf", file, shapes_by_link(links, shapes.found), text, shapes.unread)


def _read_number(element: Element | None, attribute: str, default: float) -> float:
    """A number as it stands, NaN where it is none; the default without the element."""
    return default if element is None else element.number_as_written(attribute, default)
