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

from qddot.errors import Unsupported
from qddot.loaders.description import Description
from qddot.loaders.shapes import Shape
from qddot.loaders.xml import DEEPEST
from qddot.model.joints import Joint
from qddot.model.links import FrameDraft, Link
from qddot.spatial.algebra import Transform
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.format_limits import POLYNOMIAL_TERMS
from qddot.writers.mjcf_shapes import (
    Meshes,
    add_assets,
    add_classes,
    add_geoms,
    mesh_names,
    readable_shapes,
)
from qddot.writers.mjcf_tree import mjcf_tree
from qddot.writers.principal_moments import LEAST, cap_moments, principal_moments
from qddot.writers.xml_text import (
    Node,
    add_element,
    document_text,
    format_number,
    format_numbers,
    quaternion_text,
    round_noise,
)

__all__ = ["mjcf_text"]

_IDENTITY = Transform.identity()
_TYPES = {"prismatic": "slide", "ball": "ball", "free": "free"}
_MOST_DOFS = 6
_MOST_NESTED = DEEPEST - 3
"""Bodies in one another; <mujoco> and <worldbody> are around them, <inertial> is in the last."""


@dataclass
class _Draft:
    """A file being written: links by parent, sites and shapes by link, poses of free links.

    `joints` are those written so far, in the order of the file; `light` names links that got the
    least inertia that MuJoCo accepts.
    """

    children: dict[str | None, list[Link]]
    sites: dict[str | None, list[FrameDraft]]
    shapes: dict[str | None, list[Shape]]
    meshes: Meshes
    free_poses: dict[str, Transform]
    joints: list[Joint] = field(default_factory=list)
    light: list[str] = field(default_factory=list)


def mjcf_text(
    robot: Description, shapes: Sequence[Shape], folder: Path, remark: str
) -> tuple[str, list[ConversionLoss]]:
    """The MJCF of a robot restricted to that format, for a file in this folder, and remarks."""
    shapes, losses = readable_shapes(shapes)
    tree, remarks = mjcf_tree(robot, shapes)
    # links with free joints stand where qpos0 has them
    free_poses = dict(robot.root_poses)
    start = robot.configurations.get("qpos0", {})
    for link in robot.links:
        if link.joint.kind.floats and link.joint.name in start:
            free_poses[link.name] = link.joint.kind.transform(link.joint, start[link.joint.name])
    draft = _Draft(
        children=_group_by(tree.links, "parent"),
        sites=_group_by(tree.sites, "link"),
        shapes=_group_by(tree.shapes, "link"),
        meshes=mesh_names(shapes),
        free_poses=free_poses,
    )
    # the sections of the file, in the order of the MuJoCo documentation
    root = ElementTree.Element("mujoco", model=robot.name)
    add_element(root, "compiler", angle="radian", inertiafromgeom="false")
    add_element(root, "option", gravity=format_numbers(robot.gravity))
    if shapes:
        add_classes(root)
    add_assets(root, draft.meshes, folder)
    _add_contents(draft, add_element(root, "worldbody"), None)
    # coupled joints and loop closures
    joints = {x.joint.name: x.joint for x in tree.links}
    followers = [j for j in joints.values() if j.leader is not None]
    coupled = bool(followers or robot.polynomial_couplings or tree.loops)
    equality = add_element(root, "equality") if coupled else root
    for j in followers:
        # MJCF couples displacements, a joint names the coordinate of its leader
        shift = j.offset - j.ratio * joints[str(j.leader)].offset
        terms = format_numbers([shift, j.ratio, 0.0, 0.0, 0.0])
        add_element(equality, "joint", joint1=j.name, joint2=j.leader, polycoef=terms)
    for c in robot.polynomial_couplings:
        terms = format_numbers([*c.coefficients, *[0.0] * POLYNOMIAL_TERMS][:POLYNOMIAL_TERMS])
        ends = {"joint1": c.follower, "joint2": c.leader if c.leader != c.follower else None}
        add_element(equality, "joint", name=c.name, **ends, polycoef=terms)
    for x in tree.loops:
        tag = "weld" if x.loop.kind == "weld" else "connect"
        add_element(equality, tag, name=x.loop.name, site1=x.site1, site2=x.site2)
    # named configurations, coordinates in the order of the joints of the file
    named = {name: q for name, q in robot.configurations.items() if name != "qpos0"}
    keys = add_element(root, "keyframe") if named else root
    for name, values in named.items():
        qpos: list[float] = []
        for joint in draft.joints:
            origin, own = tree.origins[joint.leader or joint.name]
            q = values[origin][own]
            if joint.leader is not None:
                q = (joint.ratio * q[0] + joint.offset,)
            # MuJoCo has the w of a quaternion first
            qpos += [*q[:-4], q[-1], *q[-4:-1]] if joint.kind.quaternion else q
        add_element(keys, "key", name=name, qpos=format_numbers(qpos))
    # remarks on the changes that MuJoCo needs
    message = f"MuJoCo moves nothing without inertia: {LEAST:g} kg or kg m² stand in"
    losses += [*remarks, *conversion_loss("massless links", False, message, draft.light)]
    homes = {None, *(x.name for x in tree.links)}
    lost = (f"{s.role} {s.kind} of {s.link!r}" for s in tree.shapes if s.link not in homes)
    losses += conversion_loss("shapes", False, "the link is not in the file", lost)
    return document_text(root, remark), losses


def _group_by(items: Sequence[Any], key: str) -> dict[str | None, list[Any]]:
    """Items by the link that this attribute names."""
    groups: dict[str | None, list[Any]] = {}
    for item in items:
        groups.setdefault(getattr(item, key), []).append(item)
    return groups


def _pose_attributes(X: Transform) -> dict[str, str | None]:
    return {"pos": format_numbers(X.p) if any(X.p) else None, "quat": quaternion_text(X.R)}


def _add_contents(draft: _Draft, node: Node, link: str | None, depth: int = 0) -> None:
    """Add the geoms and sites of a link at this depth of bodies, and the bodies below it."""
    if depth > _MOST_NESTED:
        accepted = f"at most {_MOST_NESTED} bodies can be in one another"
        raise Unsupported("MJCF", f"link {link!r}", accepted)
    add_geoms(node, draft.shapes.get(link, []), draft.meshes)
    for frame in draft.sites.get(link, []):
        add_element(node, "site", name=frame.name, **_pose_attributes(frame.placement))
    for below in draft.children.get(link, []):
        # one body with several joints stands for links in a row
        row, dofs = [below], below.joint.kind.nv
        # a link between two joints has no inertia, no site and no shape
        while row[-1].joint.kind.nv == 1 and not any(row[-1].inertia):
            name = row[-1].name
            after = draft.children.get(name, [])
            if len(after) != 1 or name in draft.sites or name in draft.shapes:
                break
            dofs += after[0].joint.kind.nv
            if after[0].placement != _IDENTITY or not after[0].joint.kind.nv or dofs > _MOST_DOFS:
                break
            row.append(after[0])
        # and the name that the loader will give it
        while any(x.name != f"{row[-1].name}/{x.joint.name}" for x in row[:-1]):
            row.pop()
        last = row[-1]
        free = last.joint.kind.floats
        X = draft.free_poses.get(last.name, _IDENTITY) if free else below.placement
        body = add_element(node, "body", name=last.name, **_pose_attributes(X))
        joints = [x.joint for x in row if x.joint.kind.nv]
        # add the <inertial> of a link; a moving body has at least the inertia that MuJoCo needs
        moving = bool(joints)
        inertia, least = last.inertia, LEAST if moving else 0.0
        if not any(inertia):
            if moving and not _has_fixed_inertia(draft, last):
                draft.light.append(f"link {last.name!r}")
                texts = {"mass": format_number(least), "diaginertia": format_numbers([least] * 3)}
                add_element(body, "inertial", pos="0 0 0", **texts)
        else:
            moments, axes = principal_moments(inertia)
            if moving and min(moments) < least:
                draft.light.append(f"link {last.name!r} (its tensor)")
            # rounded before they are capped: MuJoCo compares them to the last digit
            near = round_noise(moments, max(map(abs, inertia.I)))
            add_element(
                body,
                "inertial",
                pos=format_numbers(round_noise(inertia.com)),
                quat=quaternion_text(axes),
                mass=format_number(max(inertia.mass, least)),
                diaginertia=format_numbers(cap_moments(near, least)),
            )
        for joint in joints:
            _add_joint(body, joint)
        draft.joints += joints
        _add_contents(draft, body, last.name, depth + 1)


def _has_fixed_inertia(draft: _Draft, link: Link) -> bool:
    """Whether some link fixed to this one has inertia enough for MuJoCo."""
    stack = [link.name]
    while stack:
        for x in draft.children.get(stack.pop(), []):
            if x.joint.kind.nv:
                continue
            if x.inertia.mass >= LEAST and min(principal_moments(x.inertia)[0]) >= LEAST:
                return True
            stack.append(x.name)
    return False


def _add_joint(body: Node, joint: Joint) -> None:
    """Add a <joint>; attributes at their defaults are left out."""
    drive, limits, effort = joint.drivetrain, joint.limits, joint.limits.effort
    single = joint.kind.nq == 1
    shift = -joint.offset if single and joint.leader is None else 0.0
    texts: dict[str, str] = {}
    if single and (limits.lower > -math.inf or limits.upper < math.inf):
        texts["range"] = format_numbers([limits.lower, limits.upper])
    if single and effort < math.inf:
        texts["actuatorfrcrange"] = format_numbers([-effort, effort])
    values = {
        "damping": drive.damping,
        "armature": drive.reflected_inertia,
        "frictionloss": drive.friction,
        "stiffness": drive.stiffness,
        "ref": shift,
        "springref": joint.rest[0] + shift if single and drive.stiffness else 0.0,
    }
    texts |= {key: format_number(x) for key, x in values.items() if x}
    axis = format_numbers(joint.axes[0]) if joint.axes else None
    kind = "hinge" if joint.kind.turns else _TYPES.get(joint.kind.name, "")
    if not kind:
        accepted = f"MJCF has hinge, {', '.join(_TYPES.values())}"
        raise Unsupported(f"joint {joint.name!r} of kind", joint.kind.name, accepted)
    add_element(body, "joint", name=joint.name, type=kind, axis=axis, **texts)
