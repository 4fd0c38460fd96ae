"""A robot as MJCF that MuJoCo compiles.

Links in a row that only joints part, named as the loader names them, become one body with several
joints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from qddot.joints import Joint
from qddot.loaders.description import Description
from qddot.loaders.shapes import Shape
from qddot.parts import FrameDraft, Link
from qddot.spatial import Transform
from qddot.writers.losses import Loss, loss
from qddot.writers.markup import Node, child, document, number, numbers, settled, turn_of
from qddot.writers.mjcf_shapes import (
    Meshes,
    add_assets,
    add_classes,
    add_geoms,
    mesh_names,
    readable,
)
from qddot.writers.mjcf_tree import Tree, tree_of
from qddot.writers.moments import LEAST, capped, principal
from qddot.writers.sayable import POLYNOMIAL_TERMS

__all__ = ["mjcf_text"]

_STILL = Transform.identity()
_TYPES = {"prismatic": "slide", "ball": "ball", "free": "free"}
_MOST_DOFS = 6


@dataclass
class _Sheet:
    """What is being written: links by parent, sites and shapes by link; joints as they come."""

    children: dict[str | None, list[Link]]
    sites: dict[str | None, list[FrameDraft]]
    shapes: dict[str | None, list[Shape]]
    meshes: Meshes
    starts: dict[str, Transform]
    joints: list[Joint] = field(default_factory=list)
    light: list[str] = field(default_factory=list)


def mjcf_text(
    robot: Description, shapes: Sequence[Shape], folder: Path, remark: str
) -> tuple[str, list[Loss]]:
    """The MJCF of a robot that MJCF can say, for a file in this folder, and remarks on it."""
    shapes, losses = readable(shapes)
    tree, remarks = tree_of(robot, shapes)
    sheet = _Sheet(
        _by(tree.links, "parent"), _by(tree.sites, "link"), _by(tree.shapes, "link"),
        mesh_names(shapes), _starts(robot),
    )  # fmt: skip
    root = ElementTree.Element("mujoco", model=robot.name)
    child(root, "compiler", angle="radian", inertiafromgeom="false")
    child(root, "option", gravity=numbers(robot.gravity))
    if shapes:
        add_classes(root)
    add_assets(root, sheet.meshes, folder)
    _contents(sheet, child(root, "worldbody"), None)
    _equalities(root, robot, tree)
    _keyframes(root, robot, tree, sheet.joints)
    message = f"MuJoCo moves nothing without inertia: {LEAST:g} kg or kg m² stand in"
    losses += [*remarks, *loss("massless links", False, message, sheet.light)]
    homes = {None, *(x.name for x in tree.links)}
    lost = (f"{s.role} {s.kind} of {s.link!r}" for s in tree.shapes if s.link not in homes)
    losses += loss("shapes", False, "the link is not in the file", lost)
    return document(root, remark), losses


def _by(items: Sequence[Any], key: str) -> dict[str | None, list[Any]]:
    """Items by the link they belong to."""
    found: dict[str | None, list[Any]] = {}
    for item in items:
        found.setdefault(getattr(item, key), []).append(item)
    return found


def _starts(robot: Description) -> dict[str, Transform]:
    """Where links with free joints stand at first."""
    named = robot.configurations.get("qpos0", {})
    starts = dict(robot.root_poses)
    for link in robot.links:
        q = named.get(link.joint.name)
        if link.joint.kind.name == "free" and q is not None:
            starts[link.name] = link.joint.kind.transform(link.joint, q)
    return starts


def _contents(sheet: _Sheet, node: Node, link: str | None) -> None:
    """Geoms, sites and bodies that are fixed to a link or hang on it."""
    add_geoms(node, sheet.shapes.get(link, []), sheet.meshes)
    for frame in sheet.sites.get(link, []):
        child(node, "site", name=frame.name, **_place(frame.placement))
    for below in sheet.children.get(link, []):
        _body(sheet, node, below)


def _place(X: Transform) -> dict[str, str | None]:
    return {"pos": numbers(X.p) if any(X.p) else None, "quat": turn_of(X.R)}


def _body(sheet: _Sheet, parent: Node, link: Link) -> None:
    row = _row(sheet, link)
    last = row[-1]
    free = last.joint.kind.name == "free"
    X = sheet.starts.get(last.name, _STILL) if free else link.placement
    body = child(parent, "body", name=last.name, **_place(X))
    moving = [x.joint for x in row if x.joint.kind.nv]
    _inertial(sheet, body, last, bool(moving))
    for joint in moving:
        _joint(body, joint)
    sheet.joints += moving
    _contents(sheet, body, last.name)


def _row(sheet: _Sheet, link: Link) -> list[Link]:
    """Links in a row that one body with several joints stands for."""
    row, dofs = [link], link.joint.kind.nv
    while row[-1].joint.kind.nv == 1 and not any(row[-1].inertia):
        name = row[-1].name
        below = sheet.children.get(name, [])
        if len(below) != 1 or name in sheet.sites or name in sheet.shapes:
            break
        dofs += below[0].joint.kind.nv
        if below[0].placement != _STILL or not below[0].joint.kind.nv or dofs > _MOST_DOFS:
            break
        row.append(below[0])
    while any(x.name != f"{row[-1].name}/{x.joint.name}" for x in row[:-1]):
        row.pop()
    return row


def _inertial(sheet: _Sheet, body: Node, link: Link, moving: bool) -> None:
    inertia, least = link.inertia, LEAST if moving else 0.0
    if not any(inertia):
        if moving and not _carries(sheet, link):
            sheet.light.append(f"link {link.name!r}")
            child(
                body, "inertial", pos="0 0 0", mass=number(least), diaginertia=numbers([least] * 3)
            )
        return
    moments, axes = principal(inertia)
    if moving and min(moments) < least:
        sheet.light.append(f"link {link.name!r} (its tensor)")
    # rounded before they are capped: MuJoCo compares them to the last digit
    near = settled(moments, max(map(abs, inertia.I)))
    child(
        body, "inertial",
        pos=numbers(settled(inertia.com)),
        quat=turn_of(axes),
        mass=number(max(inertia.mass, least)),
        diaginertia=numbers(capped(near, least)),
    )  # fmt: skip


def _carries(sheet: _Sheet, link: Link) -> bool:
    """Whether something fixed to a link has inertia enough for MuJoCo."""
    fixed = [x for x in sheet.children.get(link.name, []) if not x.joint.kind.nv]
    return any(
        (x.inertia.mass >= LEAST and min(principal(x.inertia)[0]) >= LEAST) or _carries(sheet, x)
        for x in fixed
    )


def _joint(body: Node, joint: Joint) -> None:
    drive, limits = joint.drivetrain, joint.limits
    single = joint.kind.nq == 1
    shift = -joint.offset if single and joint.leader is None else 0.0
    texts = {
        "damping": drive.damping,
        "armature": drive.reflected_inertia,
        "frictionloss": drive.friction,
        "stiffness": drive.stiffness,
        "ref": shift,
        "springref": joint.rest[0] + shift if single and drive.stiffness else 0.0,
    }
    bounded = limits.lower > -math.inf or limits.upper < math.inf
    effort = limits.effort
    child(
        body, "joint", name=joint.name, type=_TYPES.get(joint.kind.name, "hinge"),
        axis=numbers(joint.axes[0]) if joint.axes else None,
        range=numbers([limits.lower, limits.upper]) if bounded and single else None,
        actuatorfrcrange=numbers([-effort, effort]) if effort < math.inf and single else None,
        **{key: number(x) if x else None for key, x in texts.items()},
    )  # fmt: skip


def _equalities(root: Node, robot: Description, tree: Tree) -> None:
    joints = {x.joint.name: x.joint for x in tree.links}
    followers = [j for j in joints.values() if j.leader is not None]
    if not (followers or robot.polynomial_couplings or tree.loops):
        return
    equality = child(root, "equality")
    for j in followers:
        # MJCF couples displacements, a joint names the coordinate of its leader
        shift = j.offset - j.ratio * joints[str(j.leader)].offset
        terms = numbers([shift, j.ratio, 0.0, 0.0, 0.0])
        child(equality, "joint", joint1=j.name, joint2=j.leader, polycoef=terms)
    for c in robot.polynomial_couplings:
        terms = numbers([*c.coefficients, *[0.0] * POLYNOMIAL_TERMS][:POLYNOMIAL_TERMS])
        leader = c.leader if c.leader != c.follower else None
        child(equality, "joint", name=c.name, joint1=c.follower, joint2=leader, polycoef=terms)
    for held in tree.loops:
        tag = "weld" if held.loop.kind == "weld" else "connect"
        child(equality, tag, name=held.loop.name, site1=held.site1, site2=held.site2)


def _keyframes(root: Node, robot: Description, tree: Tree, joints: Sequence[Joint]) -> None:
    """The named configurations, coordinates in the order of the joints of the file."""
    named = {name: q for name, q in robot.configurations.items() if name != "qpos0"}
    keys = child(root, "keyframe") if named else root
    for name, values in named.items():
        qpos: list[float] = []
        for joint in joints:
            origin, own = tree.origins[joint.leader or joint.name]
            q = values[origin][own]
            if joint.leader is not None:
                q = (joint.ratio * q[0] + joint.offset,)
            qpos += _reordered(q)
        child(keys, "key", name=name, qpos=numbers(qpos))


def _reordered(q: Sequence[float]) -> Sequence[float]:
    """Coordinates of a joint with the w of a quaternion first."""
    return [*q[:-4], q[-1], *q[-4:-1]] if len(q) >= 4 else q
