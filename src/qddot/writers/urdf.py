"""A robot as URDF that Pinocchio, Drake, MuJoCo and ROS read.

A helical joint is a turning joint and a sliding one that mimics it. A planar joint has its normal
along z, the only one that Pinocchio knows. A root that moves, or several, hang on a link `world`.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from qddot.assembly import chained, fixed_joint
from qddot.joints import Joint, Limits
from qddot.loaders.description import Description
from qddot.loaders.shapes import Shape
from qddot.parts import Link
from qddot.spatial import Inertia, Mat3, Transform, Vec3
from qddot.writers.compose import helical_parts
from qddot.writers.losses import Loss, loss
from qddot.writers.markup import (
    Node,
    child,
    document,
    number,
    numbers,
    rounded,
    rpy_of,
    settled,
    unique,
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
) -> tuple[str, list[Loss]]:
    """The URDF of a robot that URDF can say, for a file in this folder, and remarks on it."""
    losses = _remarks(robot.links)
    links = [part for link in robot.links for part in _composed(link)]
    frames = [Link(f.name, f.link, f.placement, _held(f.name)) for f in robot.frames]
    links = _rooted([*links, *frames])
    root = ElementTree.Element("robot", name=robot.name)
    seen: dict[str | None, list[Shape]] = {}
    for shape in shapes:
        seen.setdefault(shape.link, []).append(shape)
    taken = {link.joint.name for link in links if link.joint.kind.nv}
    pairs = ((x.joint.leader, x.joint.name) for x in links if x.joint.leader)
    tied = {name for pair in pairs for name in pair}
    for link in links:
        if link.parent is not None:
            name = link.joint.name
            if not link.joint.kind.nv:
                name = unique(name.replace(" (fixed)", "_fixed"), taken)
            _joint(root, name, link, name in tied)
        element = child(root, "link", name=link.name)
        _inertial(element, link.inertia)
        for shape in seen.pop(link.name, []):
            _shape(element, shape, folder)
    losses += _unsayable(shapes, seen)
    return document(root, remark), losses


def _held(name: str) -> Joint:
    return fixed_joint(f"{name} (fixed)")


def _remarks(links: Sequence[Link]) -> list[Loss]:
    """What is said in another way, so that somebody looking for it finds it."""
    kinds: dict[str, list[str]] = {}
    for link in links:
        kinds.setdefault(link.joint.kind.name, []).append(f"joint {link.joint.name!r}")
    return [
        *loss(
            "ball joints", False,
            "written as type 'spherical', which qddot, MuJoCo and PyBullet read; plain URDF has no "
            "ball joint, and Pinocchio, Drake and ROS refuse the file", kinds.get("ball", []),
        ),
        *loss(
            "helical joints", False,
            "written as a continuous joint and a prismatic one that mimics it",
            kinds.get("helical", []),
        ),
        *loss(
            "free joints", False,
            "written as floating joints; for readers that free the root themselves write the robot "
            "with its base fixed (--base fixed)", kinds.get("free", []),
        ),
    ]  # fmt: skip


def _composed(link: Link) -> list[Link]:
    """A link on joints that URDF has; the ones between have no mass."""
    joint, placement = link.joint, link.placement
    if joint.offset and joint.leader is None:
        # the offset of a coordinate is a displacement before the joint
        placement = placement @ joint.kind.transform(joint, [joint.offset])
        joint = dataclasses.replace(joint, offset=0.0)
    link = dataclasses.replace(link, placement=placement, joint=joint)
    if joint.kind.name == "helical":
        return chained(link, helical_parts(joint))
    if joint.kind.name == "planar" and joint.axes != tuple(Mat3.identity()):
        turned = Transform(Mat3(*joint.axes).T, Vec3.zero())
        flat = dataclasses.replace(joint, axes=tuple(Mat3.identity()))
        between = f"{link.name}/{joint.name}"
        return [
            Link(between, link.parent, placement @ turned, flat),
            Link(link.name, between, turned.inverse(), _held(link.name), link.inertia),
        ]
    return [link]


def _rooted(links: list[Link]) -> list[Link]:
    """Links with one root: the first that is fixed at the origin, or a link for the world."""
    origin = Transform.identity()
    still = (x for x in links if x.parent is None and not x.joint.kind.nv and x.placement == origin)
    base = next(still, None)
    if base is None:
        name = unique("world", {x.name for x in links})
        base = Link(name, None, origin, _held(name))
    rest = [
        dataclasses.replace(x, parent=base.name) if x.parent is None else x
        for x in links
        if x.name != base.name
    ]
    return [base, *rest]


def _origin(element: Node, X: Transform, texts: Callable[[Iterable[float]], str] = numbers) -> None:
    """An <origin>, unless it is where it would be without."""
    turned = None if Mat3.identity() == X.R else texts(rpy_of(X.R))
    moved = None if X.p == Vec3.zero() and turned is None else texts(X.p)
    if moved is not None:
        child(element, "origin", xyz=moved, rpy=turned or "0 0 0")


def _inertial(element: Node, inertia: Inertia) -> None:
    if not any(inertia):
        return
    inertial, c = child(element, "inertial"), inertia.com
    child(inertial, "origin", xyz=numbers(settled(c)), rpy="0 0 0")
    child(inertial, "mass", value=number(inertia.mass))
    tensor, scale = inertia.tensor_at_com, max(map(abs, inertia.I))
    entries = ("xx", "xy", "xz", "yy", "yz", "zz")
    texts = {f"i{k}": numbers(settled([getattr(tensor, k)], scale)) for k in entries}
    child(inertial, "inertia", **texts)


def _joint(robot: Node, name: str, link: Link, tied: bool) -> None:
    """A <joint>; Pinocchio ties no joint of type continuous, so one that is tied has limits."""
    joint, limits = link.joint, link.joint.limits
    bounded = tied or limits.lower > -math.inf or limits.upper < math.inf
    kind = _TYPES.get(joint.kind.name) or ("revolute" if bounded else "continuous")
    element = child(robot, "joint", name=name, type=kind)
    _origin(element, link.placement)
    child(element, "parent", link=str(link.parent))
    child(element, "child", link=link.name)
    if joint.axes:
        # the normal of a plane is its last axis
        child(element, "axis", xyz=numbers(joint.axes[-1]))
    if joint.kind.nq == 1:
        _limit(element, limits, bounded or kind == "prismatic")
    drive = joint.drivetrain
    if drive.damping or drive.friction:
        losses = {"damping": number(drive.damping), "friction": number(drive.friction)}
        child(element, "dynamics", **losses)
    if joint.leader is not None:
        ratio, offset = number(joint.ratio), number(joint.offset)
        child(element, "mimic", joint=joint.leader, multiplier=ratio, offset=offset)


def _limit(element: Node, limits: Limits, positions: bool) -> None:
    """A <limit>; 1e16 stands for none, as in SDF, since urdfdom reads no infinity."""
    if not positions and limits.velocity == limits.effort == math.inf:
        return

    def text(x: float) -> str:
        return number(math.copysign(min(abs(x), _UNLIMITED), x))

    bounds = {"lower": text(limits.lower), "upper": text(limits.upper)} if positions else {}
    child(element, "limit", **bounds, effort=text(limits.effort), velocity=text(limits.velocity))


def _shape(link: Node, shape: Shape, folder: Path) -> None:
    """A <visual> or <collision>; a capsule is a cylinder and two balls."""
    z = shape.placement.R.T.c
    for kind, size, along in _spelled(shape):
        element = child(link, shape.role)
        _origin(element, Transform(shape.placement.R, shape.placement.p + z * along), rounded)
        geometry = child(element, "geometry")
        if kind == "mesh":
            scale = None if set(size) == {1.0} else rounded(size)
            child(geometry, "mesh", filename=_address(shape, folder), scale=scale)
        elif kind == "box":
            child(geometry, "box", size=rounded(size))
        else:
            texts = zip(("radius", "length"), (rounded([x]) for x in size), strict=False)
            child(geometry, kind, **dict(texts))
        if shape.rgba is not None and shape.role == "visual":
            rgba = rounded(shape.rgba)
            child(child(element, "material", name=f"rgba {rgba}"), "color", rgba=rgba)


def _spelled(shape: Shape) -> list[tuple[str, tuple[float, ...], float]]:
    """Kind, size and place along z of the shapes of URDF that a shape is made of."""
    if shape.kind == "capsule":
        radius, length = shape.size
        ends: list[tuple[str, tuple[float, ...], float]]
        ends = [("sphere", (radius,), end * length) for end in (-0.5, 0.5)]
        return [("cylinder", shape.size, 0.0), *ends]
    if shape.kind == "ellipsoid":
        return [("sphere", shape.size[:1], 0.0)] if len(set(shape.size)) == 1 else []
    return [(shape.kind, shape.size, 0.0)]


def _address(shape: Shape, folder: Path) -> str:
    """A mesh as the source calls it, where that holds everywhere; else from the folder."""
    if "://" in shape.address or shape.file is None:
        return shape.address
    return os.path.relpath(shape.file, folder)


def _unsayable(shapes: Sequence[Shape], homeless: Mapping[str | None, list[Shape]]) -> list[Loss]:
    """Shapes that URDF does not have, and those of the world, which is no link of URDF."""
    items = [f"{s.role} {s.kind} of {s.link!r}" for s in shapes if not _spelled(s)]
    lost = [f"{s.role} {s.kind} of {s.link or 'world'!r}" for one in homeless.values() for s in one]
    return [
        *loss("shapes", False, "URDF has no ellipsoid", items),
        *loss("shapes", False, "the link is not in the file", lost),
    ]
