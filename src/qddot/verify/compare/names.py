"""Which joint of one model is which joint of another: by name, by its bare name, by its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from qddot.adapt.forms import family
from qddot.model import WORLD, Body, Model

__all__ = ["Pairing", "pair_joints"]

Key = Callable[[str], str]


@dataclass(frozen=True)
class Pairing:
    """Joints of A with those of B, and the pairs that were found otherwise than by equal names."""

    names: dict[str, str]
    renamed: dict[str, str]
    how: tuple[str, ...]


def pair_joints(a: Model, b: Model) -> Pairing:
    """The joints that two models of one robot share, with coordinates of their own or without.

    By equal names first; then by names without the prefix that all joints have, without
    "joint", case and separators; then by the name of the body that a joint carries; a lone free
    joint with a lone free joint; and what is left in two chains alike, by its place in them.
    """
    names: dict[str, str] = {}
    how: dict[str, str] = {}
    ways: tuple[tuple[str, Callable[[list[Body], list[Body]], dict[str, str]]], ...] = (
        ("", _by_joint(_same, _same)),
        ("by bare names", _by_bare_names(a, b)),
        ("by the names of their bodies", _by_body),
        ("as the only free joint", _lone_free),
        ("by their place in the chain", lambda x, y: _by_place(a, b, x, y)),
        ("by the joints above and below", lambda x, y: _between(a, b, x, y, names)),
    )
    for label, way in ways:
        left = [body for body in a.bodies if body.joint.name not in names]
        right = [body for body in b.bodies if body.joint.name not in names.values()]
        found = _alike(way(left, right), a, b)
        names |= found
        how |= dict.fromkeys(found, label)
    renamed = {x: y for x, y in names.items() if x != y}
    labels = dict.fromkeys(how[x] for x in renamed if how[x])
    return Pairing(names, renamed, tuple(labels))


def _alike(found: dict[str, str], a: Model, b: Model) -> dict[str, str]:
    """The pairs whose joints move alike: a slide is not a hinge."""
    of_a, of_b = ({body.joint.name: _motion(body) for body in m.bodies} for m in (a, b))
    return {x: y for x, y in found.items() if of_a[x] == of_b[y]}


def _motion(body: Body) -> str:
    name = body.joint.kind.name
    return "revolute" if name == "continuous" else name if family(name) == "one" else family(name)


def _same(name: str) -> str:
    return name


def _by_joint(of_a: Key, of_b: Key) -> Callable[[list[Body], list[Body]], dict[str, str]]:
    def way(left: list[Body], right: list[Body]) -> dict[str, str]:
        return _unique(
            ((of_a(x.joint.name), x.joint.name) for x in left),
            ((of_b(y.joint.name), y.joint.name) for y in right),
        )

    return way


def _by_bare_names(a: Model, b: Model) -> Callable[[list[Body], list[Body]], dict[str, str]]:
    """By names that are shortened on both sides, first as little as possible."""

    def way(left: list[Body], right: list[Body]) -> dict[str, str]:
        found: dict[str, str] = {}
        keys = [(_plain, _plain), *((_bare(a, whole), _bare(b, whole)) for whole in (False, True))]
        for of_a, of_b in keys:
            rest = [x for x in left if x.joint.name not in found]
            others = [y for y in right if y.joint.name not in found.values()]
            found |= _by_joint(of_a, of_b)(rest, others)
        return found

    return way


def _plain(name: str) -> str:
    """A name in lower case, letters and digits only, without "joint" or "link"."""
    text = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"joint|jnt|link", "", text) or text


def _bare(model: Model, whole: bool) -> Key:
    """Names of a model without the beginning that all share, up to a separator or the whole."""
    names = [body.joint.name for body in model.bodies if body.joint.kind.name != "free"]
    shared = "".join(_shared(names)) if len(names) > 1 else ""
    if not whole:
        shared = shared[: max((m.end() for m in re.finditer(r"[_/.\-: ]", shared)), default=0)]
    return lambda name: _plain(name.removeprefix(shared))


def _shared(names: list[str]) -> Iterator[str]:
    """The letters with which all names begin."""
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            return
        yield letters[0]


def _by_body(left: list[Body], right: list[Body]) -> dict[str, str]:
    return _unique(
        ((_plain(x.name), x.joint.name) for x in left),
        ((_plain(y.name), y.joint.name) for y in right),
    )


def _lone_free(left: list[Body], right: list[Body]) -> dict[str, str]:
    free = [[x for x in side if x.joint.kind.name == "free"] for side in (left, right)]
    if len(free[0]) == len(free[1]) == 1:
        return {free[0][0].joint.name: free[1][0].joint.name}
    return {}


def _by_place(a: Model, b: Model, left: list[Body], right: list[Body]) -> dict[str, str]:
    """Joints of two chains of as many and like joints, none of which has found its like."""
    chains = all(body.parent == i - 1 for m in (a, b) for i, body in enumerate(m.bodies))
    alike = [_motion(x) for x in left] == [_motion(y) for y in right]
    if not (chains and alike and len(left) == a.nb and len(right) == b.nb):
        return {}
    return {x.joint.name: y.joint.name for x, y in zip(left, right, strict=True)}


def _between(
    a: Model, b: Model, left: list[Body], right: list[Body], names: dict[str, str]
) -> dict[str, str]:
    """Joints whose parent and one of whose children have found their like."""

    def around(m: Model, body: Body, like: Callable[[str], str | None]) -> set[tuple[Any, Any]]:
        i = m.bodies.index(body)
        above = like(m.bodies[body.parent].joint.name) if body.parent != WORLD else "world"
        below = [like(c.joint.name) for c in m.bodies if c.parent == i]
        return {(above, c) for c in below if above and c}

    there = {y.joint.name: around(b, y, lambda n: n) for y in right}
    here = {x.joint.name: around(a, x, names.get) for x in left}
    return {x: y for x, ours in here.items() for y, theirs in there.items() if ours & theirs}


def _unique(left: Iterable[tuple[str, str]], right: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Pairs of names by their keys, where a key occurs once on either side."""
    sides = [list(left), list(right)]
    counts = [Counter(key for key, _ in side) for side in sides]
    there = dict(sides[1])
    return {
        name: there[key]
        for key, name in sides[0]
        if key and counts[0][key] == 1 and counts[1][key] == 1
    }
