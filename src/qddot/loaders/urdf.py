"""URDF, and xacro that expands to URDF. Mesh files are never needed."""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path

from qddot.errors import MissingPackage
from qddot.loaders import isolation
from qddot.loaders.description import Description
from qddot.loaders.left_out import left_out_of_urdf
from qddot.loaders.opened import note_opened
from qddot.loaders.urdf_document import UrdfDocument, read_urdf_document
from qddot.loaders.xml import Element
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
from qddot.model.links import Coupling, Finding, Link
from qddot.spatial.algebra import Inertia, Sym3, Transform, Vec3

__all__ = ["describe_urdf", "expand_xacro"]

_LIMITS = isolation.ChildLimits(output=32 * 2**20)
_KINDS = {
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "floating": "free",
    "planar": "planar",
    "spherical": "ball",
    "ball": "ball",
    "universal": "universal",
    "screw": "helical",
}
_ONCE = {
    "link": {"inertial"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic"},
}
_UNDERSTOOD = {
    "robot": {"link", "joint", "drake:joint", "material", "transmission", "gazebo"},
    "link": _ONCE["link"] | {"visual", "collision"},
    "inertial": _ONCE["inertial"],
    "joint": _ONCE["joint"] | {"calibration", "safety_controller", "drake:screw_thread_pitch"},
    "actuator": {"mechanicalReduction", "hardwareInterface"},
}
_MOST_LINKS = 20_000


def describe_urdf(robot: Element, file: str) -> Description:
    """The description in the <robot> element of a URDF document."""
    document = read_urdf_document(robot)
    if len(document.links) > _MOST_LINKS:
        raise robot.error(f"has more than {_MOST_LINKS} links")
    links: dict[str, Element] = {}
    lines: dict[str, int] = {}
    for element in document.links:
        name = element.get("name")
        _check_element(element)
        if name in links:
            raise element.error(f"the name is used twice, first on line {links[name].line}")
        links[name] = element
        lines[element.label] = element.line
    # each joint carries its child link
    carried: dict[str, Link] = {}
    for element in document.joints:
        lines[f"joint {element.get('name')!r}"] = element.line
        _check_element(element)
        parent, child = document.parent_and_child(element)
        for name in (parent, child):
            if name not in links and (name != "world" or name == child):
                raise element.error(f"link {name!r} does not exist")
        base = parent if parent in links else None
        placement, joint = element.origin(), _read_joint(element)
        link = Link(child, base, placement, joint, _read_inertia(links[child]))
        if child in carried:
            first = carried[child].joint.name
            raise element.error(f"link {child!r} is the child of joint {first!r} too")
        carried[child] = link
    # links without a joint are fixed to the world: there is one, the root
    held = [
        Link(
            name, None, Transform.identity(),
            Joint(f"{name} (fixed)", JOINTS["fixed"]), _read_inertia(element),
        )
        for name, element in links.items()
        if name not in carried
    ]  # fmt: skip
    roots = [link.name for link in (*held, *carried.values()) if link.parent is None]
    if len(roots) != 1:
        found = ", ".join(repr(r) for r in roots) or "none (the joints form a cycle)"
        raise robot.error(f"needs exactly one root link, found {found}")
    couplings = []
    for element in document.joints:
        mimic = element.first("mimic")
        if mimic and element.get("type") != "fixed":
            ratio, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
            couplings.append(Coupling(element.get("name"), mimic.get("joint"), ratio, offset))
    return Description(
        robot.attributes.get("name") or Path(file).stem,
        (*held, *carried.values()),
        couplings=tuple(couplings),
        findings=(*_ignored_features(document), *left_out_of_urdf(document)),
        file=file,
        lines=lines,
    )


def _check_element(element: Element) -> None:
    """A link or joint has a name, and has each thing that can be said of it once."""
    if not element.get("name").strip():
        raise element.error("its name is empty")
    for part in (element, *element.all("inertial")):
        for tag in _ONCE[part.tag.removeprefix("drake:")]:
            if len(list(part.all(tag))) > 1:
                raise element.error(f"has more than one <{tag}>")


def _read_inertia(link: Element) -> Inertia:
    inertial = link.first("inertial")
    if inertial is None:
        return Inertia.zero()
    mass = inertial.need("mass").number("value")
    if mass < 0:
        raise link.error(f"negative mass {mass:g}")
    tensor = inertial.need("inertia")
    entries = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    moments = [tensor.number(k, None if k[1] == k[2] else 0.0) for k in entries]
    X = inertial.origin()
    return X.to_parent(Inertia(mass, Vec3.zero(), Sym3(*moments)))


def _read_joint(element: Element) -> Joint:
    given = element.get("type")
    if given not in _KINDS:
        raise element.error(f"type {given!r} is not one of {', '.join(_KINDS)}")
    row = _KINDS[given]
    kind = JOINTS[row]
    # axes and pitch
    axis = element.first("axis")
    direction = axis.vector("xyz") if axis else Vec3(1.0, 0.0, 0.0)
    axes: tuple[Vec3, ...] = ()
    if row == "universal":
        axes = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0))
    elif kind.axes:
        unit = element.unit(direction)
        axes = plane_basis(unit) if row == "planar" else (unit,)
    pitch = 0.0
    if row == "helical":
        thread = element.need("drake:screw_thread_pitch").number("value")
        pitch = thread / math.tau
    # a position limit that is not given is zero where the other one is given
    limits, limit = Limits(), element.first("limit")
    if limit and kind.nq == 1:
        speed, effort = (limit.read_limit(k, math.inf) for k in ("velocity", "effort"))
        limits = Limits(velocity=speed, effort=effort)
        if given != "continuous" and limit.attributes.keys() & {"lower", "upper"}:
            lower, upper = (limit.read_limit(k, 0.0) for k in ("lower", "upper"))
            limits = Limits(lower, upper, speed, effort)
    # damping and friction: one value, or one for each freedom if they are equal
    dynamics = element.first("dynamics")
    drivetrain = Drivetrain()
    if dynamics is not None:
        values = {}
        for key in ("damping", "friction"):
            text = dynamics.attributes.get(key, "0")
            count = len(text.split())
            numbers = dynamics.numbers(text, count if count == kind.nv else 1, key)
            if len(set(numbers)) > 1:
                raise element.error(f"{key} differs between the freedoms of one joint: {text}")
            values[key] = numbers[0] if numbers else 0.0
            if values[key] < 0:
                raise element.error(f"negative {key} {values[key]:g}")
        drivetrain = Drivetrain(damping=values["damping"], friction=values["friction"])
    return Joint(element.get("name"), kind, axes, pitch, limits=limits, drivetrain=drivetrain)


def _ignored_features(document: UrdfDocument) -> list[Finding]:
    """Findings on elements that the loader ignores, or that are likely not to be meant."""
    findings = []
    links, joints = document.links, document.joints
    for element in (document.robot, *links, *document.inertials, *joints, *document.actuators):
        understood = _UNDERSTOOD[element.tag.removeprefix("drake:")]
        for child in element.children:
            if child.tag not in understood:
                message = f"<{child.tag}> on line {child.line} is ignored"
                findings.append(Finding("info", "ignored", element.label, message))
    for joint in joints:
        if joint.attributes.get("type") == "planar" and joint.first("axis") is None:
            message = "has no <axis>: the normal of its plane is x, the default of URDF"
            findings.append(Finding("warning", "axis", joint.label, message))
        if joint.attributes.get("type") == "fixed" and joint.first("mimic"):
            message = "<mimic> on a fixed joint is ignored"
            findings.append(Finding("info", "ignored", joint.label, message))
        for dynamics in joint.all("dynamics"):
            for key in sorted(dynamics.attributes.keys() - {"damping", "friction"}):
                message = f"{key} of <dynamics> on line {dynamics.line} is ignored"
                findings.append(Finding("info", "ignored", joint.label, message))
    return findings


def expand_xacro(path: Path, arguments: dict[str, str] | None = None, trust: bool = False) -> bytes:
    """The URDF text that a xacro file expands to; `$(find package)` needs no ROS.

    It is expanded in a child process. Without trust its expressions are a bounded part of Python,
    and it reads no environment and no file outside its folder and packages.
    """
    if importlib.util.find_spec("xacro") is None:
        raise MissingPackage("xacro", "loading a .xacro file")
    task, file = "qddot.loaders.xacro_expansion:expand", str(path.absolute())
    environment = dict(os.environ) if trust else None
    answer = isolation.run_isolated(
        task, file, arguments or {}, trust, file=path, environment=environment, limits=_LIMITS
    )
    note_opened(*answer["opened"])
    text: str = answer["text"]
    return text.encode()
