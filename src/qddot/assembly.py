"""From links to a model: check, take apart, order, merge, couple, number.

`assemble` is the one way in: loaders and edits hand it links (each with the joint that carries
it). It takes joints that are chains apart, checks that the links form a tree, merges links held by
fixed joints into the body that carries them, resolves couplings and numbers the coordinates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from qddot.errors import InvalidModel
from qddot.joints import JOINTS, Joint
from qddot.model import WORLD, Body, Frame, Model
from qddot.parts import Coupling, FrameDraft, Link, check_links, check_numbers, check_unique
from qddot.spatial import Inertia, Transform

__all__ = ["assemble", "chained", "fixed_at", "fixed_joint", "resolve_links"]


def assemble(
    name: str,
    links: Sequence[Link],
    frames: Sequence[FrameDraft] = (),
    couplings: Sequence[Coupling] = (),
    base_inertia: Inertia | None = None,
    **fields: Any,
) -> Model:
    """Check, order, merge and number links into a model; further fields are taken as they are."""
    links = resolve_links(links, couplings)
    hosts: dict[str | None, tuple[int, Transform]] = {None: (WORLD, Transform.identity())}
    moving: list[Link] = []
    parents: list[int] = []
    inertias = [base_inertia or Inertia.zero()]
    for link in links:
        host, X_parent = hosts[link.parent]
        X = X_parent @ link.placement
        if link.joint.kind.nv == 0:
            hosts[link.name] = host, X
            inertias[host + 1] = inertias[host + 1] + X.to_parent(link.inertia)
        else:
            hosts[link.name] = len(moving), Transform.identity()
            moving.append(dataclasses.replace(link, placement=X))
            parents.append(host)
            inertias.append(link.inertia)
    drafts = [FrameDraft(link.name, link.name, Transform.identity()) for link in links]
    placed = []
    for draft in (*drafts, *frames):
        if draft.link not in hosts:
            raise InvalidModel(f"frame {draft.name!r}", f"its link {draft.link!r} does not exist")
        host, X_parent = hosts[draft.link]
        placed.append(Frame(draft.name, host, X_parent @ draft.placement))
    bodies = tuple(
        Body(link.name, parent, link.placement, link.joint, inertia, iq, iv)
        for link, parent, inertia, (iq, iv) in zip(
            moving, parents, inertias[1:], _slices(moving), strict=True
        )
    )
    return Model(name, bodies, tuple(placed), base_inertia=inertias[0], **fields)


def resolve_links(links: Sequence[Link], couplings: Sequence[Coupling] = ()) -> list[Link]:
    """Links of simple joints, parents first: chains taken apart, held and coupled joints settled.

    A joint that is coupled names its leader, with the ratio and offset to the leader's coordinate.
    """
    check_links(links)
    _check_coupled(links, couplings)
    links = [part for link in links for part in _unchained(link)]
    check_unique("link", (link.name for link in links))
    check_unique("joint", (link.joint.name for link in links))
    couplings = _settled(couplings)
    links = [_locked(link, couplings) for link in _depth_first(links)]
    joints = _resolve(links, couplings)
    return [dataclasses.replace(link, joint=joints[link.joint.name]) for link in links]


def _unchained(link: Link) -> list[Link]:
    """A link, or the links of a joint that is a chain, the ones between without mass."""
    joint, parts = link.joint, []
    if not joint.kind.chain:
        return [link]
    for k, (kind, axis) in enumerate(zip(joint.kind.chain, joint.axes, strict=True)):
        rest = joint.drivetrain.rest and (joint.drivetrain.rest[k],)
        single = dataclasses.replace(
            joint,
            name=f"{joint.name}.{joint.kind.suffixes[k]}",
            kind=JOINTS[kind],
            axes=(axis,),
            drivetrain=dataclasses.replace(joint.drivetrain, rest=rest),
        )
        parts.append(single)
    return chained(link, parts)


def chained(link: Link, joints: Sequence[Joint]) -> list[Link]:
    """A link on a row of joints; the links between, named "link/joint", have no mass."""
    links: list[Link] = []
    parent, placement = link.parent, link.placement
    for joint in joints[:-1]:
        links.append(Link(f"{link.name}/{joint.name}", parent, placement, joint))
        parent, placement = links[-1].name, Transform.identity()
    return [*links, Link(link.name, parent, placement, joints[-1], link.inertia)]


def _check_coupled(links: Sequence[Link], couplings: Sequence[Coupling]) -> None:
    """Refuse couplings of joints that do not exist, or that are chains."""
    chains = {link.joint.name: link.joint.kind.name for link in links if link.joint.kind.chain}
    names = {part.joint.name for link in links for part in _unchained(link)}
    for c in couplings:
        element = f"joint {c.follower!r}"
        if c.follower in chains:
            raise InvalidModel(element, f"a {chains[c.follower]} joint cannot be coupled")
        if c.leader in chains:
            raise InvalidModel(element, f"is coupled to {c.leader!r}, a {chains[c.leader]} joint")
        for name in (c.follower, c.leader):
            if name is not None and name not in names:
                raise InvalidModel(
                    element,
                    f"is coupled with joint {name!r}, which does not exist; "
                    "load with couplings='free' to leave it independent",
                )


def _depth_first(links: Sequence[Link]) -> list[Link]:
    """Links after their parents, each subtree together, siblings in the order given."""
    children: dict[str | None, list[Link]] = {}
    names = {link.name for link in links}
    for link in links:
        if link.parent is not None and link.parent not in names:
            raise InvalidModel(f"link {link.name!r}", f"its parent {link.parent!r} does not exist")
        children.setdefault(link.parent, []).append(link)
    ordered: list[Link] = []
    stack = children.get(None, [])[::-1]
    while stack:
        link = stack.pop()
        ordered.append(link)
        stack.extend(reversed(children.get(link.name, [])))
    if len(ordered) < len(links):
        lost = sorted(names - {link.name for link in ordered})
        raise InvalidModel(f"link {lost[0]!r}", "is its own ancestor: the joints form a cycle")
    return ordered


def fixed_joint(name: str) -> Joint:
    """A joint that holds."""
    return Joint(name, JOINTS["fixed"])


def fixed_at(link: Link, q: Sequence[float], joint: Joint | None = None) -> Link:
    """The link held at joint coordinates q."""
    joint = joint or link.joint
    X = link.placement @ joint.kind.transform(joint, joint.displacement(q))
    return dataclasses.replace(link, placement=X, joint=fixed_joint(joint.name))


def _settled(couplings: Sequence[Coupling]) -> list[Coupling]:
    """The couplings, with those to a joint that is held turned into holding the follower."""
    settled = list(couplings)
    for _ in couplings:
        held = {c.follower: c.offset for c in settled if c.leader is None}
        settled = [
            dataclasses.replace(c, leader=None, offset=c.ratio * held[c.leader] + c.offset)
            if c.leader is not None and c.leader in held
            else c
            for c in settled
        ]
    return settled


def _locked(link: Link, couplings: Sequence[Coupling]) -> Link:
    """The link held where a coupling without a leader holds it."""
    for c in couplings:
        if c.follower == link.joint.name and c.leader is None:
            if link.joint.kind.nq != 1:
                element = f"joint {link.joint.name!r}"
                raise InvalidModel(element, f"a {link.joint.kind.name} joint cannot be coupled")
            return fixed_at(link, [c.offset], dataclasses.replace(link.joint, offset=0.0))
    return link


def _resolve(links: Sequence[Link], couplings: Sequence[Coupling]) -> dict[str, Joint]:
    """Joints by name, each follower tied to a joint that has coordinates of its own."""
    joints = {link.joint.name: link.joint for link in links}
    by_follower: dict[str, Coupling] = {}
    for c in couplings:
        element = f"joint {c.follower!r}"
        if c.follower in by_follower:
            raise InvalidModel(element, "is coupled to two leaders")
        check_numbers(element, (c.ratio, c.offset))
        by_follower[c.follower] = c
    for follower in by_follower:
        ratio, offset, name, seen = 1.0, 0.0, follower, {follower}
        while name in by_follower and by_follower[name].leader is not None:
            c = by_follower[name]
            ratio, offset, name = ratio * c.ratio, offset + ratio * c.offset, str(c.leader)
            if name in seen:
                raise InvalidModel(f"joint {follower!r}", "is coupled to itself in a circle")
            seen.add(name)
        root = joints[name]
        if by_follower[follower].leader is None:
            continue
        if root.kind.nv == 0:
            raise InvalidModel(f"joint {follower!r}", f"is coupled to the fixed joint {name!r}")
        if root.kind.nq != 1:
            raise InvalidModel(
                f"joint {follower!r}", f"is coupled to {name!r}, a {root.kind.name} joint"
            )
        own = joints[follower]
        # a follower has no coordinate: its limits are those of its displacement
        bounds = {"lower": own.limits.lower + own.offset, "upper": own.limits.upper + own.offset}
        joints[follower] = dataclasses.replace(
            own,
            ratio=ratio,
            offset=offset + ratio * root.offset,
            leader=name,
            limits=dataclasses.replace(own.limits, **bounds),
        )
    return joints


def _slices(moving: Sequence[Link]) -> list[tuple[slice, slice]]:
    """Slices of q and v for each moving link; a follower has its leader's."""
    slices: dict[str, tuple[slice, slice]] = {}
    nq = nv = 0
    for joint in (link.joint for link in moving if link.joint.leader is None):
        slices[joint.name] = slice(nq, nq + joint.kind.nq), slice(nv, nv + joint.kind.nv)
        nq, nv = nq + joint.kind.nq, nv + joint.kind.nv
    return [slices[link.joint.leader or link.joint.name] for link in moving]
