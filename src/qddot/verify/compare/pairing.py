"""Pairing of the joints of two models: by name, by bare name, by place in the tree."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from qddot.errors import InvalidArgument, UnknownName
from qddot.model.model import WORLD, Body, Model

__all__ = ["Pairing", "pair_joints"]

T = TypeVar("T")


@dataclass(frozen=True)
class Pairing:
    """Joints of A with those of B, and the pairs that were found otherwise than by equal names."""

    names: dict[str, str]
    renamed: dict[str, str]
    how: tuple[str, ...]


def pair_joints(a: Model, b: Model, given: Mapping[str, str] | None = None) -> Pairing:
    """The joints that two models of one robot share, with coordinates of their own or without.

    Those that are `given`, {joint of A: joint of B}; then by equal names; then by names without
    the prefix that all joints have, without "joint", case and separators; then by the name of the
    body that a joint carries; a lone free joint with a lone free joint; and the joints left between
    matched joints, or below them, by their place in stretches that are alike.
    """
    names = _check_given(a, b, given or {})
    how = dict.fromkeys(names, "as given")
    ways: tuple[tuple[str, Callable[[Model, Model, dict[str, str]], dict[str, str]]], ...] = (
        ("", _match_names),
        ("by bare name", _match_bare_names),
        ("by the name of the body", _match_bodies),
        ("as the only free joint", _match_free_joints),
        ("by place in the chain", _match_stretches),
        ("by the joints above and below", _match_neighbours),
    )
    motions = [{body.joint.name: _motion_of(body) for body in m.bodies} for m in (a, b)]
    for label, match in ways:
        # only pairs whose joints move alike: a slide is not a hinge
        found = {x: y for x, y in match(a, b, names).items() if motions[0][x] == motions[1][y]}
        names |= found
        how |= dict.fromkeys(found, label)
    renamed = {x: y for x, y in names.items() if x != y}
    labels = dict.fromkeys(how[x] for x in renamed if how[x])
    return Pairing(names, renamed, tuple(labels))


def _check_given(a: Model, b: Model, given: Mapping[str, str]) -> dict[str, str]:
    """The given pairs, refused where a joint is unknown, used twice, or moves in another way."""
    for model, side in ((a, list(given)), (b, list(given.values()))):
        known = {body.joint.name: body for body in model.bodies}
        for name in side:
            if name not in known:
                raise UnknownName("joint", name, known, model.name)
            if side.count(name) > 1:
                raise InvalidArgument("joints", name, "each joint has one partner")
    for x, y in given.items():
        motions = [_motion_of(m.body_of_joint(name)) for m, name in ((a, x), (b, y))]
        if motions[0] != motions[1]:
            accepted = f"{x!r} is {motions[0]} and {y!r} is {motions[1]}: they are no partners"
            raise InvalidArgument("joints", f"{x}={y}", accepted)
    return dict(given)


def _unmatched_bodies(a: Model, b: Model, names: dict[str, str]) -> tuple[list[Body], list[Body]]:
    """Bodies of A and B whose joints have no partner."""
    taken = set(names.values())
    left = [body for body in a.bodies if body.joint.name not in names]
    return left, [body for body in b.bodies if body.joint.name not in taken]


def _motion_of(body: Body) -> str:
    name = body.joint.kind.name
    return "revolute" if name == "continuous" else name


def _match_names(a: Model, b: Model, names: dict[str, str]) -> dict[str, str]:
    """Joints of equal names."""
    left, right = _unmatched_bodies(a, b, names)
    return _unique_pairs(
        ((x.joint.name, x.joint.name) for x in left), ((y.joint.name, y.joint.name) for y in right)
    )


def _match_bare_names(a: Model, b: Model, names: dict[str, str]) -> dict[str, str]:
    """Joints by names that are shortened on both sides, first as little as possible."""
    found: dict[str, str] = {}
    # without separators; without the shared beginning up to a separator; without all of it
    for prefixes in (
        ("", ""),
        *((_prefix(a, whole), _prefix(b, whole)) for whole in (False, True)),
    ):
        sides = _unmatched_bodies(a, b, names | found)
        keys = (
            [(_bare_name(x.joint.name.removeprefix(prefix)), x.joint.name) for x in side]
            for side, prefix in zip(sides, prefixes, strict=True)
        )
        found |= _unique_pairs(*keys)
    return found


def _bare_name(name: str) -> str:
    """A name in lower case, letters and digits only, without "joint" or "link"."""
    text = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"joint|jnt|link", "", text) or text


def _prefix(model: Model, whole: bool) -> str:
    """The beginning that the names of all joints share, up to a separator or the whole."""
    names = [body.joint.name for body in model.bodies if not body.joint.kind.floats]
    shared = ""
    # all names begin as the first and the last of them in alphabetical order do
    if len(names) > 1:
        letters = zip(min(names), max(names), strict=False)
        shared = "".join(
            x for x, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], letters)
        )
    if whole:
        return shared
    return shared[: max((m.end() for m in re.finditer(r"[_/.\-: ]", shared)), default=0)]


def _match_bodies(a: Model, b: Model, names: dict[str, str]) -> dict[str, str]:
    """Joints that carry bodies of one name."""
    left, right = _unmatched_bodies(a, b, names)
    return _unique_pairs(
        ((_bare_name(x.name), x.joint.name) for x in left),
        ((_bare_name(y.name), y.joint.name) for y in right),
    )


def _match_free_joints(a: Model, b: Model, names: dict[str, str]) -> dict[str, str]:
    """The only free joint of either side."""
    free = [
        [x.joint for x in side if x.joint.kind.floats] for side in _unmatched_bodies(a, b, names)
    ]
    if len(free[0]) == len(free[1]) == 1:
        return {free[0][0].name: free[1][0].name}
    return {}


def _match_stretches(a: Model, b: Model, names: dict[str, str]) -> dict[str, str]:
    """Joints of stretches alike: as many and like joints between the same two neighbours.

    A stretch begins below a joint that is matched, or the world, and ends where the next one is,
    at a fork or at the tip.
    """
    found: dict[str, str] = {}
    while True:
        known = {**names, **found}
        pairs = _unique_pairs(
            _open_stretches(a, known), _open_stretches(b, {y: y for y in known.values()})
        )
        if not pairs:
            return found
        for x, y in pairs.items():
            found |= dict(zip(x, y, strict=True))


def _open_stretches(model: Model, known: dict[str, str]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Stretches of joints without a partner, by their place and the motions of their joints."""
    children: dict[int, list[int]] = {}
    for i, body in enumerate(model.bodies):
        children.setdefault(body.parent, []).append(i)
    joints = [body.joint.name for body in model.bodies]
    for i, body in enumerate(model.bodies):
        above = joints[body.parent] if body.parent != WORLD else ""
        if joints[i] in known or (above and above not in known):
            continue
        stretch, below = [i], children.get(i, [])
        while len(below) == 1 and joints[below[0]] not in known:
            stretch, below = [*stretch, below[0]], children.get(below[0], [])
        end = tuple(sorted(known.get(joints[k], "") for k in below))
        motions = tuple(_motion_of(model.bodies[k]) for k in stretch)
        yield (known.get(above, "world"), motions, end), tuple(joints[k] for k in stretch)


def _match_neighbours(a: Model, b: Model, names: dict[str, str]) -> dict[str, str]:
    """Joints whose parent and one of whose children are matched."""

    def neighbours_of(m: Model, body: Body, known: dict[str, str]) -> set[tuple[Any, Any]]:
        i = m.bodies.index(body)
        above = known.get(m.bodies[body.parent].joint.name) if body.parent != WORLD else "world"
        below = [known.get(c.joint.name) for c in m.bodies if c.parent == i]
        return {(above, c) for c in below if above and c}

    left, right = _unmatched_bodies(a, b, names)
    own = {body.joint.name: body.joint.name for body in b.bodies}
    there = {y.joint.name: neighbours_of(b, y, own) for y in right}
    here = {x.joint.name: neighbours_of(a, x, names) for x in left}
    return {x: y for x, ours in here.items() for y, theirs in there.items() if ours & theirs}


def _unique_pairs(left: Iterable[tuple[Any, T]], right: Iterable[tuple[Any, T]]) -> dict[T, T]:
    """Pairs of names by their keys, where a key occurs once on either side."""
    sides = [list(left), list(right)]
    counts = [Counter(key for key, _ in side) for side in sides]
    there = dict(sides[1])
    return {
        name: there[key]
        for key, name in sides[0]
        if key and counts[0][key] == 1 and counts[1][key] == 1
    }
