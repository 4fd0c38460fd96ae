"""Symmetry: links that must be alike (twins), mirrored by name or made of the same shapes.

A twin comes with the maps that may take its coordinates to those of the link: a reflection or
rotation Q each, found from places and shapes alone, never from the inertias to be compared.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qddot.verify.audit.geometry import Geometry
from qddot.verify.audit.records import LinkRecord, RobotRecord, pose_of
from qddot.verify.audit.solids import Array

__all__ = ["Twin", "find_twins", "mirrored_names"]

_MIRRORS = (np.diag([1.0, -1.0, 1.0]), np.diag([-1.0, 1.0, 1.0]))
_SIDES = (
    "left right",
    "l r",
    "lf rf",
    "lh rh",
    "lb rb",
    "lr rr",
    "fl fr",
    "rl rr",
    "hl hr",
    "bl br",
)
_ENDS = ("front rear", "front hind", "front back", "lf lh", "rf rh", "fl rl", "fr rr", "fl hl",
         "fr hr", "fl bl", "fr br")  # fmt: skip
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CLOSE = 0.03
_SIGNED = tuple(
    np.diag(signs)[list(order)]
    for order in itertools.permutations(range(3))
    for signs in itertools.product((1.0, -1.0), repeat=3)
)
_FLIPS = tuple(np.diag(signs) for signs in itertools.product((1.0, -1.0), repeat=3))


@dataclass(frozen=True)
class Twin:
    """A link that must be alike, and the maps Q that may take its coordinates to the link's."""

    name: str
    maps: tuple[Array, ...]
    mirrored: bool


def _exchange_table(words: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for a, b in (w.split() for w in words):
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    return found


_OTHER_SIDE, _OTHER_END = _exchange_table(_SIDES), _exchange_table(_ENDS)


def mirrored_names(name: str, table: Mapping[str, list[str]] = _OTHER_SIDE) -> Iterator[str]:
    """The names that a link on the other side may have."""
    for token in _TOKEN.finditer(name):
        word = token[0]
        parts = [(word, "")]
        if len(word) > 1 and word.isupper():
            parts.append((word[0], word[1:]))
        for head, tail in parts:
            for other in table.get(head.lower(), ()):
                swap = other.upper() if head.isupper() else other
                swap = other.capitalize() if head.istitle() and len(head) > 1 else swap
                yield name[: token.start()] + swap + tail + name[token.end() :]


_MOST_ALIKE = 16
_MOST_PAIRS = 600


def find_twins(
    robot: RobotRecord, geometries: Mapping[str, Geometry]
) -> dict[str, tuple[Twin, ...]]:
    """The twins of every link that has some; of many links of the same shapes, the next ones."""
    poses = robot.zero_poses()
    links = {link.name: link for link in robot.links_with_mass()}
    # links with the same name but for digits, and the same shapes in the same places
    groups: dict[object, list[str]] = {}
    keys: dict[str, object] = {}
    for name, link in links.items():
        shapes = tuple((s.role, s.kind, s.size, s.placement, s.address) for s in link.shapes)
        keys[name] = (re.sub(r"\d+", "#", name), shapes) if shapes else name
        groups.setdefault(keys[name], []).append(name)
    found = {}
    for name, link in links.items():
        a, twins = geometries[name], dict[str, Twin]()
        # links on the other side: mirrored at zero angles, or one mesh turned
        for other in _partner_names(name, links, _OTHER_SIDE):
            # the reflection in the middle plane at zero angles if it fits, else maps of the shapes
            here, there, b = poses[name], poses[other], geometries[other]
            for M in _MIRRORS:
                gap = np.linalg.norm(M @ there.p - here.p)
                Q = here.R.T @ M @ there.R
                off_plane = np.linalg.norm(M @ here.p - here.p) > 1e-6
                if gap < _CLOSE * max(a.size, 1e-3) and off_plane and _is_match(Q, a, b):
                    # without shapes nothing tells whether the part is mirrored or only turned
                    maps = (Q,) if a.estimates else tuple(Q @ S for S in _FLIPS)
                    break
            else:
                maps = _axis_permutations(a, b)
            for s, t in zip(link.shapes, links[other].shapes, strict=False):
                if maps and s.kind == "mesh" and (s.address, s.size) == (t.address, t.size):
                    maps = (*maps, pose_of(s.placement).R @ pose_of(t.placement).R.T)
                    break
            if maps:
                twins[other] = Twin(other, maps, mirrored=True)
        # links at the other end, and links of the same shapes
        alike = _neighbours(name, groups[keys[name]])
        for other in (*_partner_names(name, links, _OTHER_END), *alike):
            maps = () if other in twins else _axis_permutations(a, geometries[other])
            if maps:
                twins[other] = Twin(other, maps, mirrored=False)
        if twins:
            found[name] = tuple(twins.values())
    return found


def _neighbours(name: str, group: list[str]) -> list[str]:
    """The links after one in its group, around to the first again: a bounded number of pairs."""
    at, most = group.index(name), max(1, min(_MOST_ALIKE, _MOST_PAIRS // len(group)))
    return [*group[at + 1 :], *group[:at]][:most]


def _partner_names(
    name: str, links: Mapping[str, LinkRecord], table: Mapping[str, list[str]]
) -> Iterator[str]:
    """Links whose name is that of a link with its side or end exchanged."""
    return (x for x in dict.fromkeys(mirrored_names(name, table)) if x in links and x != name)


def _axis_permutations(a: Geometry, b: Geometry) -> tuple[Array, ...]:
    """The signed permutations of axes that take the places and shapes of b to those of a."""
    if len(a.anchors) == 1 and not a.estimates:
        return ()
    return tuple(Q for Q in _SIGNED if _is_match(Q, a, b))


def _is_match(Q: Array, a: Geometry, b: Geometry) -> bool:
    """Whether a map takes anchors, centroids and second moments of b to those of a."""
    size = max(a.size, 1e-9)
    if len(a.anchors) != len(b.anchors) or len(a.estimates) != len(b.estimates):
        return False
    if a.anchor_tree.query(b.anchor_tree.data @ Q.T)[0].max() > _CLOSE * size:
        return False
    for x, y in zip(a.estimates, b.estimates, strict=True):
        s, t = x.solid, y.solid
        if abs(s.volume - t.volume) > 0.1 * s.volume:
            return False
        if np.linalg.norm(Q @ t.com - s.com) > _CLOSE * size:
            return False
        if np.abs(Q @ t.spread @ Q.T - s.spread).max() > 0.1 * np.trace(s.spread):
            return False
    return True
