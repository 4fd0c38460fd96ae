"""Another model from a model: other parameters, a payload, a locked joint, a tool."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qddot.errors import InvalidArgument, InvalidModel
from qddot.model.assembly import assemble, fixed_joint, lock_link
from qddot.model.inputs import parse_scalars, parse_tensor, parse_transform, warn_of_degrees
from qddot.model.links import Coupling, FrameDraft, Link, check_inertia, inertia_defect
from qddot.model.model import WORLD, Model, massless_leaves
from qddot.spatial.algebra import Inertia, Sym3, Vec3
from qddot.spatial.scalar import Scalar

__all__ = [
    "attach",
    "extra_frames",
    "link_drafts",
    "rebuild",
    "with_gravity",
    "with_parameters",
    "with_payload",
    "without_joint",
]

_OF_THE_TREE = ("massless", "loop")
"""Findings that depend on how bodies hang together."""


def with_parameters(model: Model, parameters: Sequence[Sequence[Scalar]]) -> Model:
    """The same robot with other inertial parameters, ten a body, over any scalar."""
    if len(parameters) != model.nb or any(len(row) != 10 for row in parameters):
        found = [len(row) for row in parameters]
        raise InvalidArgument("with_parameters: rows of", found, f"needs {model.nb} rows of ten")
    bodies = tuple(
        dataclasses.replace(body, inertia=Inertia.of(list(row)))
        for body, row in zip(model.bodies, parameters, strict=True)
    )
    findings = [f for f in model.health if f.kind not in ("inertia", "massless")]
    findings += [d for b in bodies for d in inertia_defect(f"body {b.name!r}", b.inertia)]
    findings += massless_leaves(bodies)
    return dataclasses.replace(model, bodies=bodies, health=tuple(findings))


def with_payload(
    model: Model,
    frame: str,
    mass: float,
    com: Sequence[float] = (0.0, 0.0, 0.0),
    tensor: Any = None,
) -> Model:
    """The same robot carrying a load at a frame.

    `com` is in coordinates of the frame; `tensor`, a symmetric 3×3 array or its six entries
    (xx, xy, yy, xz, yz, zz), is about the centre of mass, in the axes of the frame; without it
    the load is a point.
    """
    (m,), c = (
        parse_scalars(f"with_payload: {what}", values, count)
        for what, values, count in (("mass", [mass], 1), ("com", com, 3))
    )
    sigma = [0.0] * 6 if tensor is None else parse_tensor("with_payload: tensor", tensor)
    load = Inertia.at_com(m, Vec3(*c), Sym3(*sigma))
    place = model.frame(frame)
    added = place.placement.to_parent(load)
    label = f"payload at {frame!r}"
    check_inertia(label, load)
    health = (*model.health, *inertia_defect(label, load))
    if place.body == WORLD:
        return dataclasses.replace(model, base_inertia=model.base_inertia + added, health=health)
    bodies = list(model.bodies)
    host = bodies[place.body]
    bodies[place.body] = dataclasses.replace(host, inertia=host.inertia + added)
    health = (*(f for f in health if f.kind != "massless"), *massless_leaves(bodies))
    return dataclasses.replace(model, bodies=tuple(bodies), health=health)


def with_gravity(model: Model, gravity: Sequence[Scalar]) -> Model:
    """The same robot in other gravity, in world axes."""
    return dataclasses.replace(model, gravity=Vec3(*parse_scalars("with_gravity", gravity, 3)))


def without_joint(model: Model, name: str, value: float | Sequence[float] | None = None) -> Model:
    """The same robot with a joint locked at a value (neutral by default), followers with it."""
    joint = model.body_of_joint(name).joint
    if joint.leader is not None:
        raise InvalidModel(f"joint {name!r}", f"follows {joint.leader!r}; lock that one")
    given = joint.kind.neutral if value is None else value
    what = f"value of joint {name!r}"
    several = given.ndim > 0 if isinstance(given, np.ndarray) else isinstance(given, Sequence)
    q = parse_scalars(what, given if several else [given], joint.kind.nq)
    warn_of_degrees(joint, q[0], stacklevel=3)
    quaternion = joint.kind.quaternion
    if quaternion and abs(math.hypot(*q[quaternion]) - 1.0) > 1e-6:
        raise InvalidArgument(what, value, "its quaternion (x, y, z, w) needs unit length")
    for c in model.polynomial_couplings:
        if name in (c.follower, c.leader):
            raise InvalidModel(f"joint {name!r}", f"is part of the coupling {c.name!r}")
    # take the model apart, hold the joint, and assemble it again
    links, couplings = link_drafts(model)
    links = [
        lock_link(link, q, body.joint) if name in (body.joint.name, body.joint.leader) else link
        for link, body in zip(links, model.bodies, strict=True)
    ]
    kept = [c for c in couplings if c.leader != name]
    # drop its coordinates from the named configurations
    iq = model.body_of_joint(name).iq
    configurations = {
        key: (*q[: iq.start], *q[iq.stop :]) for key, q in model.configurations.items()
    }
    return rebuild(model, links, couplings=kept, configurations=configurations)


def attach(
    model: Model, other: Model, frame: str, placement: Any = None, prefix: str = ""
) -> Model:
    """This robot with another model mounted on a frame; `prefix` goes before the other's names.

    `placement` is a Transform or a 4×4 array. The named configurations of this robot stay, with
    the other's joints at neutral.
    """
    for body in other.bodies:
        if body.parent == WORLD and body.joint.kind.floats:
            raise InvalidModel(
                f"model {other.name!r}",
                "has a free base; load it with base='fixed' to attach it",
            )
    place = model.frame(frame)
    host = model.bodies[place.body].name if place.body != WORLD else None
    X = place.placement @ parse_transform("attach: placement", placement)
    # a fixed link with the inertia of the other base joins the two
    mount = Link(
        f"{prefix}{other.name}_mount",
        host,
        X,
        fixed_joint(f"{prefix}mount"),
        other.base_inertia,
    )
    renamed = _prefix_names(other, prefix)
    links, couplings = link_drafts(model)
    more, more_couplings = link_drafts(renamed)
    joined = rebuild(
        model,
        [*links, mount, *(_mount_on(link, mount.name) for link in more)],
        [*extra_frames(model), *(_mount_on(f, mount.name) for f in extra_frames(renamed))],
        [*couplings, *more_couplings],
        loops=model.loops + renamed.loops,
        polynomial_couplings=model.polynomial_couplings + renamed.polynomial_couplings,
    )
    # findings about single links of the other keep, with prefixed names
    theirs = []
    for finding in other.health:
        if finding.kind not in _OF_THE_TREE:
            kind, quote, rest = finding.subject.partition(" '")
            subject = f"{kind}{quote}{prefix}{rest}" if quote else finding.subject
            theirs.append(dataclasses.replace(finding, subject=subject))
    health = (*joined.health, *theirs)
    # the named configurations of a model for one with more joints, those at neutral
    places = {b.joint.name: b.iq for b in model.independent}
    configurations = {
        name: tuple(
            x
            for b in joined.independent
            for x in (q[places[b.joint.name]] if b.joint.name in places else b.joint.kind.neutral)
        )
        for name, q in model.configurations.items()
    }
    return dataclasses.replace(joined, health=health, configurations=configurations)


def _prefix_names(model: Model, prefix: str) -> Model:
    """The same model with every name prefixed."""
    bodies = tuple(
        dataclasses.replace(
            b,
            name=prefix + b.name,
            joint=dataclasses.replace(
                b.joint,
                name=prefix + b.joint.name,
                leader=b.joint.leader and prefix + b.joint.leader,
            ),
        )
        for b in model.bodies
    )
    loops = (
        dataclasses.replace(
            x, name=prefix + x.name, frame1=prefix + x.frame1, frame2=prefix + x.frame2
        )
        for x in model.loops
    )
    polynomials = (
        dataclasses.replace(
            c, name=prefix + c.name, follower=prefix + c.follower, leader=prefix + c.leader
        )
        for c in model.polynomial_couplings
    )
    frames = (dataclasses.replace(f, name=prefix + f.name) for f in model.frames)
    return dataclasses.replace(
        model,
        bodies=bodies,
        frames=tuple(frames),
        loops=tuple(loops),
        polynomial_couplings=tuple(polynomials),
    )


def link_drafts(model: Model) -> tuple[list[Link], list[Coupling]]:
    """Links and couplings from which `assemble` gives this model's bodies again."""
    links, couplings = [], []
    for b in model.bodies:
        parent = model.bodies[b.parent].name if b.parent != WORLD else None
        joint = b.joint
        if joint.leader is not None:
            leader = model.body_of_joint(joint.leader).joint
            offset = joint.offset - joint.ratio * leader.offset
            couplings.append(Coupling(joint.name, leader.name, joint.ratio, offset))
            joint = dataclasses.replace(joint, leader=None, ratio=1.0, offset=0.0)
        links.append(Link(b.name, parent, b.placement, joint, b.inertia))
    return links, couplings


def extra_frames(model: Model) -> list[FrameDraft]:
    """The frames that are not those of the bodies themselves."""
    names = {b.name for b in model.bodies}
    return [
        FrameDraft(f.name, model.bodies[f.body].name if f.body != WORLD else None, f.placement)
        for f in model.frames
        if f.name not in names
    ]


def rebuild(
    model: Model,
    links: Sequence[Link],
    frames: Sequence[FrameDraft] | None = None,
    couplings: Sequence[Coupling] = (),
    **changes: Any,
) -> Model:
    """This model's own fields around other links."""
    fields = {
        "gravity": model.gravity,
        "loops": model.loops,
        "polynomial_couplings": model.polynomial_couplings,
    }
    frames = extra_frames(model) if frames is None else frames
    made = assemble(
        model.name, links, frames, couplings, model.base_inertia, **{**fields, **changes}
    )
    # the findings about single links stay: here bodies stand for what was merged into them
    kept = (f for f in model.health if f.kind not in _OF_THE_TREE)
    found = (f for f in made.health if f.kind in _OF_THE_TREE)
    return dataclasses.replace(made, health=(*kept, *found))


def _mount_on(draft: Any, mount: str) -> Any:
    """A link or frame of the world, moved to the mount."""
    field = "parent" if isinstance(draft, Link) else "link"
    return dataclasses.replace(draft, **{field: mount}) if getattr(draft, field) is None else draft
