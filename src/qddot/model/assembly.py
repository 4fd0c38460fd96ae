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
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import (
    Coupling,
    Finding,
    FrameDraft,
    Link,
    Loop,
    check_links,
    check_numbers,
    check_unique,
    inertia_defect,
    open_loops,
)
from qddot.model.model import WORLD, Body, Frame, Model, massless_leaves
from qddot.spatial.algebra import Inertia, Transform

_LONGEST_COUPLING = 100

__all__ = ["assemble", "chain_links", "fixed_joint", "lock_link", "resolve_links"]


def assemble(
    name: str,
    links: Sequence[Link],
    frames: Sequence[FrameDraft] = (),
    couplings: Sequence[Coupling] = (),
    base_inertia: Inertia | None = None,
    loops: Sequence[Loop] = (),
    health: Sequence[Finding] = (),
    **fields: Any,
) -> Model:
    """Check, order, merge and number links into a model; further fields are taken as they are.

    The health of the model has the findings about the inertia of each link, open loops and
    massless leaves, with those given.
    """
    # links are judged one by one: a sum may hide an impossible inertia
    defects = [d for x in links for d in inertia_defect(f"link {x.name!r}", x.inertia)]
    links = resolve_links(links, couplings)
    # merge links on fixed joints into the body that carries them
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
    # place the frames of links and the further ones on their bodies
    drafts = [FrameDraft(link.name, link.name, Transform.identity()) for link in links]
    placed = []
    for draft in (*drafts, *frames):
        if draft.link not in hosts:
            raise InvalidModel(f"frame {draft.name!r}", f"its link {draft.link!r} does not exist")
        host, X_parent = hosts[draft.link]
        placed.append(Frame(draft.name, host, X_parent @ draft.placement))
    # number the coordinates; a follower has its leader's
    slices: dict[str, tuple[slice, slice]] = {}
    nq = nv = 0
    for joint in (link.joint for link in moving if link.joint.leader is None):
        slices[joint.name] = slice(nq, nq + joint.kind.nq), slice(nv, nv + joint.kind.nv)
        nq, nv = nq + joint.kind.nq, nv + joint.kind.nv
    bodies = tuple(
        Body(link.name, parent, link.placement, joint, inertia, *slices[joint.leader or joint.name])
        for link, parent, inertia in zip(moving, parents, inertias[1:], strict=True)
        for joint in [link.joint]
    )
    found = (*defects, *open_loops(loops), *health, *massless_leaves(bodies))
    return Model(
        name,
        bodies,
        tuple(placed),
        base_inertia=inertias[0],
        loops=tuple(loops),
        health=found,
        **fields,
    )


def resolve_links(links: Sequence[Link], couplings: Sequence[Coupling] = ()) -> list[Link]:
    """Links of simple joints, parents first: chains taken apart, held and coupled joints settled.

    A joint that is coupled names its leader, with the ratio and offset to the leader's coordinate.
    """
    # take chains apart
    check_links(links)
    chains = {link.joint.name: link.joint.kind.name for link in links if link.joint.kind.chain}
    links = [part for link in links for part in _split_chain(link)]
    # couplings are between joints that exist and are no chains
    names = {link.joint.name for link in links}
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
    check_unique("link", (link.name for link in links))
    check_unique("joint", (link.joint.name for link in links))
    # joints that follow a held one are held too
    couplings = list(couplings)
    followers: dict[str, list[int]] = {}
    for i, c in enumerate(couplings):
        if c.leader is not None:
            followers.setdefault(c.leader, []).append(i)
    holding = [c for c in couplings if c.leader is None]
    while holding:
        leader = holding.pop()
        # each coupling is met once, so that circles of them end
        for i in followers.pop(leader.follower, ()):
            offset = couplings[i].ratio * leader.offset + couplings[i].offset
            couplings[i] = dataclasses.replace(couplings[i], leader=None, offset=offset)
            holding.append(couplings[i])
    # lock the joints that are held, then tie followers to their leaders
    held = {c.follower: c.offset for c in reversed(couplings) if c.leader is None}
    links = _depth_first(links)
    for i, link in enumerate(links):
        if link.joint.name not in held:
            continue
        if link.joint.kind.nq != 1:
            reason = f"a {link.joint.kind.name} joint cannot be coupled"
            raise InvalidModel(f"joint {link.joint.name!r}", reason)
        joint = dataclasses.replace(link.joint, offset=0.0)
        links[i] = lock_link(link, [held[joint.name]], joint)
    joints = _resolve_couplings(links, couplings)
    return [dataclasses.replace(link, joint=joints[link.joint.name]) for link in links]


def _split_chain(link: Link) -> list[Link]:
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
    return chain_links(link, parts)


def chain_links(link: Link, joints: Sequence[Joint]) -> list[Link]:
    """A link on a row of joints; the links between, named "link/joint", have no mass."""
    links: list[Link] = []
    parent, placement = link.parent, link.placement
    for joint in joints[:-1]:
        links.append(Link(f"{link.name}/{joint.name}", parent, placement, joint))
        parent, placement = links[-1].name, Transform.identity()
    return [*links, Link(link.name, parent, placement, joints[-1], link.inertia)]


def _depth_first(links: Sequence[Link]) -> list[Link]:
    """Links after their parents, each subtree together, siblings in the order given."""
    children: dict[str | None, list[Link]] = {}
    names = {link.name for link in links}
    for link in links:
        if link.parent is not None and link.parent not in names:
            raise InvalidModel(f"link {link.name!r}", f"its parent {link.parent!r} does not exist")
        children.setdefault(link.parent, []).append(link)
    # walk the tree with a stack, so that depth costs no recursion
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


def lock_link(link: Link, q: Sequence[float], joint: Joint | None = None) -> Link:
    """The link held at joint coordinates q."""
    joint = joint or link.joint
    X = link.placement @ joint.kind.transform(joint, joint.displacement(q))
    return dataclasses.replace(link, placement=X, joint=fixed_joint(joint.name))


def _resolve_couplings(links: Sequence[Link], couplings: Sequence[Coupling]) -> dict[str, Joint]:
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
        # follow the leaders to one with its own coordinate, multiplying ratios
        ratio, offset, name, seen = 1.0, 0.0, follower, {follower}
        while name in by_follower and by_follower[name].leader is not None:
            c = by_follower[name]
            ratio, offset, name = ratio * c.ratio, offset + ratio * c.offset, str(c.leader)
            if name in seen:
                raise InvalidModel(f"joint {follower!r}", "is coupled to itself in a circle")
            if len(seen) > _LONGEST_COUPLING:
                reason = f"is coupled through more than {_LONGEST_COUPLING} joints"
                raise InvalidModel(f"joint {follower!r}", reason)
            seen.add(name)
        check_numbers(f"joint {follower!r}", (ratio, offset))
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
