"""The links of a robot as MJCF can have them: free joints on the world, no link called world.

A helical joint is a hinge and a slide tied to it, a planar joint two slides and a hinge, a free
joint that does not start from the world three slides and a ball.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qddot.assembly import chained
from qddot.errors import InvalidModel
from qddot.loaders.description import Description
from qddot.loaders.shapes import Shape
from qddot.parts import FrameDraft, Link, Loop
from qddot.spatial import Transform
from qddot.writers.compose import free_parts, helical_parts, planar_parts
from qddot.writers.losses import Loss, loss
from qddot.writers.markup import unique

__all__ = ["HeldLoop", "Tree", "tree_of"]

_STILL = Transform.identity()


@dataclass(frozen=True)
class HeldLoop:
    """A loop and the sites at its ends."""

    loop: Loop
    site1: str
    site2: str


@dataclass(frozen=True)
class Tree:
    """Links, sites, shapes and loops of an MJCF file.

    `origins` has, for each joint, the joint of the source that it stands for and which of that
    joint's coordinates it has.
    """

    links: list[Link]
    sites: list[FrameDraft]
    shapes: list[Shape]
    loops: list[HeldLoop]
    origins: dict[str, tuple[str, slice]]


def tree_of(robot: Description, shapes: Sequence[Shape]) -> tuple[Tree, list[Loss]]:
    """The tree of a robot, and what in it is said in another way."""
    before = _grounded(robot.links)
    rows = [_composed(link) for link in before]
    losses = _remarks(before, rows)
    links, frames, shapes = _in_world([x for row in rows for x in row], robot.frames, shapes)
    links, frames, shapes = _renamed(links, frames, shapes, losses)
    loops, sites = _loop_sites(robot.loops, links, frames)
    origins = {
        x.joint.name: (link.joint.name, _coordinates(link, row, i))
        for link, row in zip(before, rows, strict=True)
        for i, x in enumerate(row)
    }
    return Tree(links, sites, shapes, loops, origins), losses


def _grounded(links: Sequence[Link]) -> list[Link]:
    """Links with free joints that start from the world's origin hung on the world itself."""
    poses: dict[str | None, Transform] = {None: _STILL}
    grounded = []
    for link in links:
        if not link.joint.kind.nv and link.parent in poses:
            poses[link.name] = poses[link.parent] @ link.placement
        start = poses[link.parent] @ link.placement if link.parent in poses else None
        free = link.joint.kind.name == "free" and start == _STILL
        grounded.append(dataclasses.replace(link, parent=None, placement=_STILL) if free else link)
    return grounded


def _composed(link: Link) -> list[Link]:
    """A link on joints that MJCF has."""
    kind = link.joint.kind.name
    if kind == "helical":
        return chained(link, helical_parts(link.joint))
    if kind == "planar":
        return chained(link, planar_parts(link.joint))
    if kind == "free" and (link.parent is not None or link.placement != _STILL):
        return chained(link, free_parts(link.joint))
    return [link]


def _coordinates(link: Link, row: Sequence[Link], i: int) -> slice:
    """Which coordinates of its joint the joint of a part has; all of them if it is not split."""
    split = len(row) > 1 and link.joint.kind.nq > 1
    last = i == len(row) - 1
    return slice(i if split else 0, None if last or not split else i + 1)


def _remarks(before: Sequence[Link], rows: Sequence[Sequence[Link]]) -> list[Loss]:
    """What is said in another way, so that somebody looking for it finds it."""
    made: dict[str, list[str]] = {}
    for link, row in zip(before, rows, strict=True):
        if len(row) > 1:
            names = ", ".join(repr(x.joint.name) for x in row)
            made.setdefault(link.joint.kind.name, []).append(f"joint {link.joint.name!r}: {names}")
    coupled = [
        f"joint {j.name!r} = {j.ratio:g} · {j.leader!r} {j.offset:+g}"
        for j in (link.joint for link in before)
        if j.leader is not None
    ]
    held = [
        f"{x.joint.name!r}"
        for x in before
        if not x.joint.kind.nv and not x.joint.name.endswith("(fixed)")
    ]
    chain = "velocities are along axes that do not turn with the body"
    soft = "which qddot reads as exact and MuJoCo holds softly"
    return [
        *loss("helical joints", False, f"written as hinge and slide with an equality, {soft}",
              made.get("helical", [])),
        *loss("planar joints", False, f"written as two slides and a hinge: {chain}",
              made.get("planar", [])),
        *loss("free joints", False, f"written as three slides and a ball: {chain}",
              made.get("free", [])),
        *loss("couplings", False, f"written as joint equalities, {soft}", coupled),
        *loss("fixed joints", False, "MJCF has no names for them", held),
    ]  # fmt: skip


def _in_world(
    links: list[Link], frames: Sequence[FrameDraft], shapes: Sequence[Shape]
) -> tuple[list[Link], list[FrameDraft], list[Shape]]:
    """A root link that is called world, and is nothing but the world, as the world."""
    frames = [f for f in frames if (f.name, f.link, f.placement) != ("world", None, _STILL)]
    ours = [
        x for x in links
        if (x.name, x.parent, x.placement, x.joint.kind.nv) == ("world", None, _STILL, 0)
        and not any(x.inertia)
    ]  # fmt: skip
    if not ours:
        return links, frames, list(shapes)
    return (
        [_moved(x, "parent", "world", None) for x in links if x is not ours[0]],
        [_moved(x, "link", "world", None) for x in frames],
        [_moved(x, "link", "world", None) for x in shapes],
    )


def _moved(item: Any, key: str, old: str, new: str | None) -> Any:
    return dataclasses.replace(item, **{key: new}) if getattr(item, key) == old else item


def _renamed(
    links: list[Link], frames: list[FrameDraft], shapes: list[Shape], losses: list[Loss]
) -> tuple[list[Link], list[FrameDraft], list[Shape]]:
    """No link called world, the name that MuJoCo keeps for its own."""
    ours = [x for x in links if x.name == "world"]
    if not ours:
        return links, frames, shapes
    if ours[0].joint.kind.nv:
        raise InvalidModel("link 'world'", "moves, and MuJoCo keeps that name: rename the link")
    name = unique("world_", {x.name for x in links} | {x.name for x in frames})
    losses += loss(
        "names", False, "MuJoCo keeps 'world' for its own", [f"link 'world' is {name!r}"]
    )
    links = [_moved(_moved(x, "name", "world", name), "parent", "world", name) for x in links]
    return (
        links,
        [_moved(x, "link", "world", name) for x in frames],
        [_moved(x, "link", "world", name) for x in shapes],
    )


def _loop_sites(
    loops: Sequence[Loop], links: Sequence[Link], frames: Sequence[FrameDraft]
) -> tuple[list[HeldLoop], list[FrameDraft]]:
    """Loops with the sites at their two ends, and the frames that are sites.

    The loader makes frames "loop/1" and "loop/2" of a loop, so they are no sites of their own.
    """
    ends = {f"{x.name}/{k}" for x in loops for k in (1, 2)}
    places = {x.name: FrameDraft(x.name, x.name, _STILL) for x in links}
    places |= {f.name: f for f in frames}
    sites = [f for f in frames if f.name not in ends]
    taken = {f.name for f in sites} | {x.name for x in links} | ends
    held = []
    for loop in loops:
        names = []
        for k, end in enumerate((places[loop.frame1], places[loop.frame2]), start=1):
            there = (f for f in sites if (f.link, f.placement) == (end.link, end.placement))
            site = next(there, None)
            if site is None:
                name = unique(f"{loop.name}/{k} site", taken)
                site = FrameDraft(name, end.link, end.placement)
                sites.append(site)
            names.append(site.name)
        held.append(HeldLoop(loop, *names))
    return held, sites
