"""A robot as URDF that Pinocchio, Drake, MuJoCo and ROS read.

A helical joint is a turning joint and a sliding one that mimics it. A planar joint has its normal
along z, the only one that Pinocchio knows. A root that moves, or several, hang on a link `world`.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from qddot.errors import Unsupported
from qddot.loaders.description import Description
from qddot.loaders.shapes import Shape
from qddot.model.assembly import chain_links, fixed_joint
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import Link
from qddot.spatial.algebra import Mat3, Transform, Vec3
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.joint_chains import helical_parts
from qddot.writers.xml_text import (
    Node,
    add_element,
    document_text,
    format_number,
    format_numbers,
    format_rounded,
    round_noise,
    rpy_from_rotation,
    unique_name,
)

__all__ = ["urdf_text"]

_UNLIMITED = 1e16
_TYPES = {
    "fixed": "fixed",
    "prismatic": "prismatic",
    "planar": "planar",
    "free": "floating",
    "ball": "spherical",
}


def urdf_text(
    robot: Description, shapes: Sequence[Shape], folder: Path, remark: str
) -> tuple[str, list[ConversionLoss]]:
    """The URDF of a robot restricted to that format, for a file in this folder, and remarks."""
    # links on joints that URDF has, then frames as links without mass, below one root
    links = [part for link in robot.links for part in _split_link(link)]
    links += [Link(f.name, f.link, f.placement, _fixed_joint(f.name)) for f in robot.frames]
    origin = Transform.identity()
    fixed = (x for x in links if x.parent is None and not x.joint.kind.nv)
    base = next((x for x in fixed if x.placement == origin), None)
    if base is None:
        name = unique_name("world", {x.name for x in links})
        base = Link(name, None, origin, _fixed_joint(name))
    tree = [base]
    for link in links:
        if link.name != base.name:
            parent = base.name if link.parent is None else link.parent
            tree.append(dataclasses.replace(link, parent=parent))
    shapes_of_link: dict[str | None, list[Shape]] = {}
    for shape in shapes:
        shapes_of_link.setdefault(shape.link, []).append(shape)
    # a <joint> and a <link> for each link
    root = ElementTree.Element("robot", name=robot.name)
    taken = {link.joint.name for link in tree if link.joint.kind.nv}
    pairs = ((x.joint.leader, x.joint.name) for x in tree if x.joint.leader)
    coupled = {name for pair in pairs for name in pair}
    for link in tree:
        if link.parent is not None:
            name = link.joint.name
            if not link.joint.kind.nv:
                name = unique_name(name.replace(" (fixed)", "_fixed"), taken)
            _add_joint(root, name, link, name in coupled)
        element = add_element(root, "link", name=link.name)
        # add the <inertial> of a link, in the axes of the link
        if any(link.inertia):
            inertial, c = add_element(element, "inertial"), link.inertia.com
            add_element(inertial, "origin", xyz=format_numbers(round_noise(c)), rpy="0 0 0")
            add_element(inertial, "mass", value=format_number(link.inertia.mass))
            tensor, scale = link.inertia.tensor_at_com, max(map(abs, link.inertia.I))
            entries = ("xx", "xy", "xz", "yy", "yz", "zz")
            texts = {
                f"i{k}": format_numbers(round_noise([getattr(tensor, k)], scale)) for k in entries
            }
            add_element(inertial, "inertia", **texts)
        for shape in shapes_of_link.pop(link.name, []):
            _add_shape(element, shape, folder)
    # remarks; shapes that remain are on links that the file does not have
    homeless = [shape for group in shapes_of_link.values() for shape in group]
    missing = [f"{s.role} {s.kind} of {s.link!r}" for s in shapes if not _urdf_shapes(s)]
    lost = [f"{s.role} {s.kind} of {s.link or 'world'!r}" for s in homeless]
    return document_text(root, remark), [
        *_joint_losses(robot.links),
        *conversion_loss("shapes", False, "URDF has no ellipsoid", missing),
        *conversion_loss("shapes", False, "the link is not in the file", lost),
    ]


def _fixed_joint(name: str) -> Joint:
    return fixed_joint(f"{name} (fixed)")


def _joint_losses(links: Sequence[Link]) -> list[ConversionLoss]:
    """Remarks on joints that are written otherwise, so that a reader of the file finds them."""
    kinds: dict[str, list[str]] = {}
    for link in links:
        kinds.setdefault(link.joint.kind.name, []).append(f"joint {link.joint.name!r}")
    messages = {
        "ball": "written as type 'spherical', which qddot, MuJoCo and PyBullet read; plain URDF "
        "has no ball joint, and Pinocchio, Drake and ROS refuse the file",
        "helical": "written as a continuous joint and a prismatic one that mimics it",
        "free": "written as floating joints; for readers that free the root themselves write the "
        "robot with its base fixed (--base fixed)",
    }
    return [
        loss
        for kind, message in messages.items()
        for loss in conversion_loss(f"{kind} joints", False, message, kinds.get(kind, []))
    ]


def _split_link(link: Link) -> list[Link]:
    """A link on joints that URDF has; the links between have no mass."""
    joint, placement = link.joint, link.placement
    if joint.offset and joint.leader is None:
        # the offset of a coordinate is a displacement before the joint
        placement = placement @ joint.kind.transform(joint, [joint.offset])
        joint = dataclasses.replace(joint, offset=0.0)
    link = dataclasses.replace(link, placement=placement, joint=joint)
    if joint.kind is JOINTS["helical"]:
        return chain_links(link, helical_parts(joint))
    if joint.kind is JOINTS["planar"] and joint.axes != tuple(Mat3.identity()):
        # turn the plane so that its normal is along z, and turn back behind the joint
        turned = Transform(Mat3(*joint.axes).T, Vec3.zero())
        flat = dataclasses.replace(joint, axes=tuple(Mat3.identity()))
        between = f"{link.name}/{joint.name}"
        return [
            Link(between, link.parent, placement @ turned, flat),
            Link(link.name, between, turned.inverse(), _fixed_joint(link.name), link.inertia),
        ]
    return [link]


def _add_origin(
    element: Node, X: Transform, format_values: Callable[[Iterable[float]], str] = format_numbers
) -> None:
    """Add an <origin>, unless it is the identity, its default."""
    turn = None if Mat3.identity() == X.R else format_values(rpy_from_rotation(X.R))
    if turn is not None or X.p != Vec3.zero():
        add_element(element, "origin", xyz=format_values(X.p), rpy=turn or "0 0 0")


def _add_joint(robot: Node, name: str, link: Link, coupled: bool) -> None:
    """Add a <joint>; Pinocchio couples no continuous joint, so one that is coupled has limits."""
    joint, limits = link.joint, link.joint.limits
    bounded = coupled or limits.lower > -math.inf or limits.upper < math.inf
    kind = "revolute" if bounded else "continuous"
    if not joint.kind.turns:
        kind = _TYPES.get(joint.kind.name, "")
    if not kind:
        accepted = f"URDF has joints that turn, {', '.join(_TYPES.values())}"
        raise Unsupported(f"joint {joint.name!r} of kind", joint.kind.name, accepted)
    element = add_element(robot, "joint", name=name, type=kind)
    _add_origin(element, link.placement)
    add_element(element, "parent", link=str(link.parent))
    add_element(element, "child", link=link.name)
    if joint.axes:
        # the normal of a plane is its last axis
        add_element(element, "axis", xyz=format_numbers(joint.axes[-1]))

    def limit_text(x: float) -> str:
        # 1e16 stands for none, as in SDF, since urdfdom reads no infinity
        return format_number(math.copysign(min(abs(x), _UNLIMITED), x))

    ranged = bounded or joint.kind.slides
    if joint.kind.nq == 1 and (ranged or min(limits.velocity, limits.effort) < math.inf):
        add_element(
            element, "limit",
            lower=limit_text(limits.lower) if ranged else None,
            upper=limit_text(limits.upper) if ranged else None,
            effort=limit_text(limits.effort),
            velocity=limit_text(limits.velocity),
        )  # fmt: skip
    damping, friction = joint.drivetrain.damping, joint.drivetrain.friction
    if damping or friction:
        texts = {"damping": format_number(damping), "friction": format_number(friction)}
        add_element(element, "dynamics", **texts)
    if joint.leader is not None:
        ratio, offset = format_number(joint.ratio), format_number(joint.offset)
        add_element(element, "mimic", joint=joint.leader, multiplier=ratio, offset=offset)


def _add_shape(link: Node, shape: Shape, folder: Path) -> None:
    """Add the <visual> or <collision> elements of a shape."""
    z = shape.placement.R.T.c
    for kind, size, along in _urdf_shapes(shape):
        element = add_element(link, shape.role)
        X = Transform(shape.placement.R, shape.placement.p + z * along)
        _add_origin(element, X, format_rounded)
        geometry = add_element(element, "geometry")
        if kind == "mesh":
            # a mesh as the source calls it, where that holds everywhere; else from the folder
            everywhere = "://" in shape.address or shape.file is None
            address = shape.address if everywhere else os.path.relpath(str(shape.file), folder)
            scale = None if set(size) == {1.0} else format_rounded(size)
            add_element(geometry, "mesh", filename=address, scale=scale)
        elif kind == "box":
            add_element(geometry, "box", size=format_rounded(size))
        else:
            texts = zip(("radius", "length"), (format_rounded([x]) for x in size), strict=False)
            add_element(geometry, kind, **dict(texts))
        if shape.rgba is not None and shape.role == "visual":
            rgba = format_rounded(shape.rgba)
            add_element(add_element(element, "material", name=f"rgba {rgba}"), "color", rgba=rgba)


def _urdf_shapes(shape: Shape) -> list[tuple[str, tuple[float, ...], float]]:
    """Kind, size and place along z of the URDF shapes that a shape is written as.

    A capsule is a cylinder and two spheres; there is no ellipsoid but the sphere.
    """
    if shape.kind == "capsule":
        radius, length = shape.size
        ends: list[tuple[str, tuple[float, ...], float]]
        ends = [("sphere", (radius,), end * length) for end in (-0.5, 0.5)]
        return [("cylinder", shape.size, 0.0), *ends]
    if shape.kind == "ellipsoid":
        return [("sphere", shape.size[:1], 0.0)] if len(set(shape.size)) == 1 else []
    return [(shape.kind, shape.size, 0.0)]
