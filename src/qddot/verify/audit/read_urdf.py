"""URDF as written, for an audit: odd numbers are kept, so that they can be reported."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from qddot.loaders.shapes import shapes_of_urdf
from qddot.loaders.xml import Element
from qddot.spatial import rotation_from_rpy
from qddot.verify.audit.records import (
    Inertial,
    JointRecord,
    LinkRecord,
    Pose,
    RobotRecord,
    identity,
    pose_of,
    shapes_by_link,
)
from qddot.verify.audit.solids import Array

__all__ = ["read_urdf"]

_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def read_urdf(root: Element, file: Path, text: str | None) -> RobotRecord:
    """The record of the <robot> element of a URDF file."""
    elements = {x.get("name"): x for x in root.all("link")}
    if not elements:
        raise root.error("has no <link>")
    carriers: dict[str, Element] = {}
    for element in root.all("joint", "drake:joint"):
        child = element.need("child").get("link")
        if child not in elements:
            raise element.error(f"link {child!r} does not exist")
        carriers[child] = element
    if len(carriers) == len(elements):
        raise root.error("has no root link: its joints form a cycle")
    shapes = shapes_of_urdf(root, file.parent)
    links = {name: _link(x, carriers.get(name)) for name, x in elements.items()}
    name = root.attributes.get("name") or file.stem
    return RobotRecord(name, "urdf", file, shapes_by_link(links, shapes.found), text, shapes.unread)


def _link(element: Element, carrier: Element | None) -> LinkRecord:
    name, inertial = element.get("name"), _inertial(element)
    if carrier is None:
        return LinkRecord(name, None, identity(), (), inertial, line=element.line)
    parent = carrier.need("parent").get("link")
    joints = (_joint(carrier),)
    pose = pose_of(carrier.origin())
    return LinkRecord(name, parent, pose, joints, inertial, line=element.line)


def _number(element: Element | None, attribute: str, default: float) -> float:
    """A number as it stands, NaN where it is none."""
    if element is None or attribute not in element.attributes:
        return default
    try:
        return float(element.attributes[attribute])
    except ValueError:
        return math.nan


def _inertial(link: Element) -> Inertial | None:
    inertial = link.first("inertial")
    if inertial is None:
        return None
    pose, tensor = _pose(inertial), inertial.first("inertia")
    xx, xy, xz, yy, yz, zz = (_number(tensor, k, 0.0) for k in _ENTRIES)
    written = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertial(_number(inertial.first("mass"), "value", 0.0), pose.p, pose.R, written)


def _pose(element: Element) -> Pose:
    origin = element.first("origin")
    if origin is None:
        return identity()
    return Pose(_rotation(_three(origin, "rpy")), np.array(_three(origin, "xyz")))


def _rotation(rpy: tuple[float, ...]) -> Array:
    if not all(map(math.isfinite, rpy)):
        return np.full((3, 3), math.nan)
    return np.array([list(row) for row in rotation_from_rpy(*rpy)], float)


def _three(element: Element, attribute: str) -> tuple[float, ...]:
    """Three numbers as they stand, NaN where they are none; zeros where nothing is given."""
    try:
        given = tuple(float(x) for x in element.attributes.get(attribute, "0 0 0").split())
    except ValueError:
        given = ()
    return given if len(given) == 3 else (math.nan,) * 3


def _joint(element: Element) -> JointRecord:
    dynamics, limit = element.first("dynamics"), element.first("limit")
    damping, friction = (_number(dynamics, k, 0.0) for k in ("damping", "friction"))
    effort, velocity = (_number(limit, k, math.inf) for k in ("effort", "velocity"))
    kind = element.get("type")
    return JointRecord(element.get("name"), kind, damping, friction, 0.0, effort, velocity)
