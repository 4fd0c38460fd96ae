"""URDF, and xacro that expands to URDF. Mesh files are never needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qddot.errors import DescriptionError, MissingPackage
from qddot.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
from qddot.loaders.description import Description
from qddot.loaders.find import find_package
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.model import Coupling, Finding, Link
from qddot.spatial import Inertia, Sym3, Transform, Vec3

__all__ = ["describe_urdf", "expand_xacro"]

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
_UNDERSTOOD = {
    "robot": {"link", "joint", "drake:joint", "material", "transmission", "gazebo"},
    "link": {"inertial", "visual", "collision"},
    "joint": {
        "parent", "child", "origin", "axis", "limit", "dynamics", "mimic", "calibration",
        "safety_controller",
    },
}  # fmt: skip
_SPEAKS_OF_PHYSICS = {"contact", "self_collision_checking", "drake:bushing", "loop_joint"}


def describe_urdf(content: bytes, file: str) -> Description:
    """The description in a URDF document."""
    robot = parse_xml(content, file)
    if robot.tag != "robot":
        raise robot.error("a URDF begins with <robot>")
    links = {}
    lines: dict[str, int] = {}
    for element in robot.all("link"):
        name = element.get("name")
        if name in links:
            raise element.error(f"the name is used twice, first on line {links[name].line}")
        links[name] = element
        lines[element.label] = element.line
    if not links:
        raise robot.error("has no <link>")
    carried: dict[str, Link] = {}
    joints = list(robot.all("joint", "drake:joint"))
    for element in joints:
        lines[f"joint {element.get('name')!r}"] = element.line
        link = _carried(element, links)
        if link.name in carried:
            raise element.error(
                f"link {link.name!r} is the child of joint {carried[link.name].joint.name!r} too"
            )
        carried[link.name] = link
    held = [
        Link(
            name, None, Transform.identity(),
            Joint(f"{name} (fixed)", JOINTS["fixed"]), _inertia(element),
        )
        for name, element in links.items()
        if name not in carried
    ]  # fmt: skip
    roots = [link.name for link in (*held, *carried.values()) if link.parent is None]
    if len(roots) != 1:
        found = ", ".join(repr(r) for r in roots) or "none (the joints form a cycle)"
        raise robot.error(f"needs exactly one root link, found {found}")
    return Description(
        robot.attributes.get("name", Path(file).stem),
        (*held, *carried.values()),
        couplings=tuple(filter(None, map(_mimic, joints))),
        findings=tuple(_ignored(robot)),
        file=file,
        lines=lines,
    )


def _inertia(link: Element) -> Inertia:
    inertial = link.first("inertial")
    if inertial is None:
        return Inertia.zero()
    mass = inertial.need("mass").number("value")
    if mass < 0:
        raise link.error(f"negative mass {mass:g}")
    tensor = inertial.first("inertia")
    entries = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    moments = [tensor.number(k, 0.0) for k in entries] if tensor else [0.0] * 6
    X = inertial.origin()
    return X.to_parent(Inertia(mass, Vec3.zero(), Sym3(*moments)))


def _carried(element: Element, links: dict[str, Element]) -> Link:
    """The child link of a joint, with the joint."""
    parent, child = (element.need(tag).get("link") for tag in ("parent", "child"))
    for name in (parent, child):
        if name not in links and (name, parent) != ("world", "world"):
            raise element.error(f"link {name!r} does not exist")
    return Link(child, parent if parent in links else None, element.origin(), _joint(element), _inertia(links[child]))


def _joint(element: Element) -> Joint:
    given = element.get("type")
    if given not in _KINDS:
        raise element.error(f"type {given!r} is not one of {', '.join(_KINDS)}")
    kind = JOINTS[_KINDS[given]]
    axis = element.first("axis")
    direction = axis.vector("xyz", Vec3(1.0, 0.0, 0.0)) if axis else Vec3(1.0, 0.0, 0.0)
    axes: tuple[Vec3, ...] = ()
    if kind.name == "universal":
        axes = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0))
    elif kind.axes:
        unit = element.unit(direction)
        axes = plane_basis(unit) if kind.name == "planar" else (unit,)
    pitch = 0.0
    if kind.name == "helical":
        thread = element.need("drake:screw_thread_pitch").number("value")
        pitch = thread / math.tau
    limits = _limits(element) if kind.nq == 1 else Limits()
    return Joint(element.get("name"), kind, axes, pitch, limits=limits, drivetrain=_drivetrain(element))


def _limits(element: Element) -> Limits:
    limit = element.first("limit")
    if limit is None:
        return Limits()
    bounded = element.get("type") != "continuous" and (
        "lower" in limit.attributes or "upper" in limit.attributes
    )
    lower, upper = (limit.number(k, 0.0) if bounded else math.inf for k in ("lower", "upper"))
    return Limits(
        lower if bounded else -math.inf,
        upper,
        limit.number("velocity", math.inf),
        limit.number("effort", math.inf),
    )


def _drivetrain(element: Element) -> Drivetrain:
    dynamics = element.first("dynamics")
    if dynamics is None:
        return Drivetrain()
    values = {}
    for key in ("damping", "friction"):
        given = dynamics.attributes.get(key, "0").split()
        if len(set(given)) != 1:
            raise element.error(f"{key} differs between the freedoms of one joint: {given}")
        values[key] = dynamics.numbers(given[0], 1)[0]
        if values[key] < 0:
            raise element.error(f"negative {key} {given[0]}")
    return Drivetrain(**values)


def _mimic(element: Element) -> Coupling | None:
    mimic = element.first("mimic")
    if mimic is None:
        return None
    ratio, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
    return Coupling(element.get("name"), mimic.get("joint"), ratio, offset)


def _ignored(robot: Element) -> list[Finding]:
    """Elements that speak of physics and are not taken up."""
    findings = []
    for element in (robot, *robot.children):
        kind = element.tag.removeprefix("drake:")
        for child in element.children:
            if kind in _UNDERSTOOD and child.tag in _SPEAKS_OF_PHYSICS:
                message = f"<{child.tag}> on line {child.line} is ignored"
                findings.append(Finding("info", "ignored", element.label, message))
    return findings


def expand_xacro(path: Path, arguments: dict[str, str] | None = None) -> bytes:
    """The URDF text that a xacro file expands to; `$(find package)` needs no ROS."""
    try:
        import xacro
        from xacro import substitution_args
    except ImportError as error:
        raise MissingPackage("xacro", "loading a .xacro file") from error

    def find(package: str) -> str:
        return str(find_package(package, path.parent))

    kept: dict[str, Callable[..., Any]] = {"_eval_find": substitution_args._eval_find}
    substitution_args._eval_find = find
    try:
        return xacro.process_file(str(path), mappings=arguments or {}).toxml("utf-8")
    except DescriptionError:
        raise
    except Exception as error:  # xacro lets errors of any kind through
        raise DescriptionError(path, f"xacro: {error}") from error
    finally:
        substitution_args._eval_find = kept["_eval_find"]
