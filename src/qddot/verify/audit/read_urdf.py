"""URDF as written, for an audit: odd numbers are kept, so that they can be reported."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from qddot.loaders.shapes import shapes_of_urdf
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


def read_urdf(root: Element, file: Path, text: str | None) -> RobotRecord:
    """The record of the <robot> element of a URDF file."""
    elements = {x.get("name"): x for x in root.all("link")}
    if not elements:
        raise root.error("has no <link>")
    # the joint that carries each link
    carriers: dict[str, Element] = {}
    for element in root.all("joint", "drake:joint"):
        child = element.need("child").get("link")
        if child not in elements:
            raise element.error(f"link {child!r} does not exist")
        carriers[child] = element
    parents = {name: x.need("parent").get("link") for name, x in carriers.items()}
    # a file may hang its links on a world that it does not declare
    if all(parents.get(name) in elements for name in elements):
        raise root.error("has no root link: its joints form a cycle")
    shapes = shapes_of_urdf(root, file.parent)
    links = {}
    for name, element in elements.items():
        carrier = carriers.get(name)
        links[name] = LinkRecord(
            name=element.get("name"),
            parent=parents.get(name),
            pose=identity_pose() if carrier is None else pose_of(carrier.origin()),
            joints=() if carrier is None else (_read_joint(carrier),),
            inertial=_read_inertial(element.first("inertial")),
            line=element.line,
        )
    name = root.attributes.get("name") or file.stem
    return RobotRecord(name, "urdf", file, shapes_by_link(links, shapes.found), text, shapes.unread)


def _read_inertial(inertial: Element | None) -> Inertial | None:
    """An <inertial> as it stands, NaN where it gives no number."""
    if inertial is None:
        return None
    R, p, origin = np.eye(3), np.zeros(3), inertial.first("origin")
    if origin is not None:
        rpy, p = _read_vector(origin, "rpy"), np.array(_read_vector(origin, "xyz"))
        R = np.full((3, 3), math.nan)
        if all(map(math.isfinite, rpy)):
            R = np.array([list(row) for row in rotation_from_rpy(*rpy)], float)
    tensor = inertial.first("inertia")
    xx, xy, xz, yy, yz, zz = (_read_number(tensor, k, 0.0) for k in _ENTRIES)
    written = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertial(_read_number(inertial.first("mass"), "value", 0.0), p, R, written)


def _read_joint(element: Element) -> JointRecord:
    """A joint with its losses and limits as they stand."""
    dynamics, limit = element.first("dynamics"), element.first("limit")
    return JointRecord(
        name=element.get("name"),
        kind=element.get("type"),
        damping=_read_number(dynamics, "damping", 0.0),
        friction=_read_number(dynamics, "friction", 0.0),
        effort=_read_number(limit, "effort", math.inf),
        velocity=_read_number(limit, "velocity", math.inf),
    )


def _read_number(element: Element | None, attribute: str, default: float) -> float:
    """A number as it stands, NaN where it is none."""
    if element is None or attribute not in element.attributes:
        return default
    try:
        return float(element.attributes[attribute])
    except ValueError:
        return math.nan


def _read_vector(element: Element, attribute: str) -> tuple[float, ...]:
    """Three numbers as they stand, NaN where they are none; zeros where nothing is given."""
    try:
        values = tuple(float(x) for x in element.attributes.get(attribute, "0 0 0").split())
    except ValueError:
        values = ()
    return values if len(values) == 3 else (math.nan,) * 3
