"""The links of a robot as MJCF can have them: free joints on the world, no link called world.

A helical joint is a hinge and a slide tied to it, a planar joint two slides and a hinge, a free
joint that does not start from the world three slides and a ball.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qddot.errors import InvalidModel
from qddot.loaders.description import Description
from qddot.loaders.shapes import Shape
from qddot.model.assembly import chain_links
from qddot.model.links import FrameDraft, Link, Loop
from qddot.spatial.algebra import Transform
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.joint_chains import free_parts, helical_parts, planar_parts
from qddot.writers.xml_text import unique_name

__all__ = ["LoopSites", "MjcfTree", "mjcf_tree"]

_IDENTITY = Transform.identity()
_PARTS = {"helical": helical_parts, "planar": planar_parts, "free": free_parts}


@dataclass(frozen=True)
class LoopSites:
    """A loop closure and the sites at its ends."""

    loop: Loop
    site1: str
    site2: str


@dataclass(frozen=True)
class MjcfTree:
    """Links, sites, shapes and loops of an MJCF file.

    `origins` has, for each joint, the joint of the source that it stands for and which of that
    joint's coordinates it has.
    """

    links: list[Link]
    sites: list[FrameDraft]
    shapes: list[Shape]
    loops: list[LoopSites]
    origins: dict[str, tuple[str, slice]]


def mjcf_tree(robot: Description, shapes: Sequence[Shape]) -> tuple[MjcfTree, list[ConversionLoss]]:
    """The tree of a robot, and remarks on joints and links that are written otherwise."""
    # root to leaves: free joints that start from the world's origin hang on the world itself
    poses: dict[str | None, Transform] = {None: _IDENTITY}
    sources: list[Link] = []
    for link in robot.links:
        start = poses[link.parent] @ link.placement if link.parent in poses else None
        if not link.joint.kind.nv and start is not None:
            poses[link.name] = start
        if link.joint.kind.floats and start == _IDENTITY:
            link = dataclasses.replace(link, parent=None, placement=_IDENTITY)
        sources.append(link)
    # joints that MJCF does not have become chains
    chains: list[list[Link]] = []
    origins: dict[str, tuple[str, slice]] = {}
    for link in sources:
        parts = _PARTS.get(link.joint.kind.name)
        on_world = link.parent is None and link.placement == _IDENTITY
        if parts is None or (link.joint.kind.floats and on_world):
            chain = [link]
        else:
            chain = chain_links(link, parts(link.joint))
        chains.append(chain)
        split = len(chain) > 1 and link.joint.kind.nq > 1
        for i, part in enumerate(chain):
            # each part of a split joint has one coordinate, the last one all that remain
            own = slice(i, i + 1 if part is not chain[-1] else None) if split else slice(0, None)
            origins[part.joint.name] = link.joint.name, own
    losses = _chain_losses(sources, chains)
    links = [x for chain in chains for x in chain]
    frames = [
        f for f in robot.frames if (f.name, f.link, f.placement) != ("world", None, _IDENTITY)
    ]
    # MuJoCo keeps the name "world": a link of that name is the world, or is renamed
    world = next((x for x in links if x.name == "world"), None)
    if world is not None:
        at_origin = world.parent is None and world.placement == _IDENTITY
        new_name: str | None = None
        if at_origin and not world.joint.kind.nv and not any(world.inertia):
            links = [x for x in links if x is not world]
        elif world.joint.kind.nv:
            raise InvalidModel("link 'world'", "moves, and MuJoCo keeps that name: rename the link")
        else:
            new_name = unique_name("world_", {x.name for x in links} | {x.name for x in frames})
            items = [f"link 'world' is {new_name!r}"]
            losses += conversion_loss("names", False, "MuJoCo keeps 'world' for its own", items)
            links = [_replace_name(x, "name", "world", new_name) for x in links]
        links = [_replace_name(x, "parent", "world", new_name) for x in links]
        frames = [_replace_name(x, "link", "world", new_name) for x in frames]
        shapes = [_replace_name(x, "link", "world", new_name) for x in shapes]
    loops, sites = _loop_sites(robot.loops, links, frames)
    return MjcfTree(links, sites, list(shapes), loops, origins), losses


def _replace_name(item: Any, key: str, old: str, new: str | None) -> Any:
    return dataclasses.replace(item, **{key: new}) if getattr(item, key) == old else item


def _chain_losses(sources: Sequence[Link], chains: Sequence[list[Link]]) -> list[ConversionLoss]:
    """Remarks on joints that are written otherwise, so that a reader of the file finds them."""
    split: dict[str, list[str]] = {}
    coupled, fixed = [], []
    for link, chain in zip(sources, chains, strict=True):
        j = link.joint
        if len(chain) > 1:
            names = ", ".join(repr(x.joint.name) for x in chain)
            split.setdefault(j.kind.name, []).append(f"joint {j.name!r}: {names}")
        if j.leader is not None:
            coupled.append(f"joint {j.name!r} = {j.ratio:g} · {j.leader!r} {j.offset:+g}")
        if not j.kind.nv and not j.name.endswith("(fixed)"):
            fixed.append(f"{j.name!r}")
    axes = "velocities are along axes that do not turn with the body"
    soft = "which qddot reads as exact and MuJoCo holds softly"
    rows = [
        ("helical joints", f"written as hinge and slide with an equality, {soft}",
         split.get("helical", [])),
        ("planar joints", f"written as two slides and a hinge: {axes}", split.get("planar", [])),
        ("free joints", f"written as three slides and a ball: {axes}", split.get("free", [])),
        ("couplings", f"written as joint equalities, {soft}", coupled),
        ("fixed joints", "MJCF has no names for them", fixed),
    ]  # fmt: skip
    return [x for kind, text, items in rows for x in conversion_loss(kind, False, text, items)]


def _loop_sites(
    loops: Sequence[Loop], links: Sequence[Link], frames: Sequence[FrameDraft]
) -> tuple[list[LoopSites], list[FrameDraft]]:
    """Loops with the sites at their two ends, and the frames that are sites.

    The loader makes frames "loop/1" and "loop/2" of a loop, so they are no sites of their own.
    """
    ends = {f"{x.name}/{k}" for x in loops for k in (1, 2)}
    places = {x.name: FrameDraft(x.name, x.name, _IDENTITY) for x in links}
    places |= {f.name: f for f in frames}
    sites = [f for f in frames if f.name not in ends]
    taken = {f.name for f in sites} | {x.name for x in links} | ends
    closed = []
    for loop in loops:
        names = []
        for k, end in enumerate((places[loop.frame1], places[loop.frame2]), start=1):
            # a site that stands there already will do
            there = (f for f in sites if (f.link, f.placement) == (end.link, end.placement))
            site = next(there, None)
            if site is None:
                name = unique_name(f"{loop.name}/{k} site", taken)
                site = FrameDraft(name, end.link, end.placement)
                sites.append(site)
            names.append(site.name)
        closed.append(LoopSites(loop, *names))
    return closed, sites
