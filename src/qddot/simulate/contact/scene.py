"""Contact scenes: spheres, capsules, boxes and points fixed to frames, planes, and pairs of them.

A scene is data. It names frames of a robot and is used together with its model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from qddot.errors import InvalidArgument, InvalidModel, UnknownName
from qddot.model.links import check_numbers, check_unique
from qddot.model.model import WORLD, Model
from qddot.spatial.algebra import Transform, Vec3
from qddot.spatial.scalar import Scalar

__all__ = ["Box", "Capsule", "Pair", "Plane", "Point", "RoundSolid", "Scene", "Solid", "Sphere"]

Numbers = Vec3 | Sequence[float]
_ORIGIN = (0.0, 0.0, 0.0)


def _vector(what: str, given: Numbers) -> Vec3:
    """Three finite numbers."""
    try:
        x = Vec3(*(float(c) for c in given))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(what, given, "it is three numbers") from error
    check_numbers(what, x)
    return x


def _number(what: str, given: Any, least: float, most: float = math.inf) -> float:
    """A finite number in a range."""
    try:
        x = float(given)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(what, given, "it is a number") from error
    if not least <= x <= most or math.isinf(x):
        bounds = f"from {least:g} to {most:g}" if most < math.inf else f"from {least:g} up"
        raise InvalidArgument(what, given, f"it is a number {bounds}")
    return x


def _coefficient(what: str, given: Any, most: float = math.inf) -> Scalar:
    """A number from zero, or an array of them with one for each motion of a batch."""
    if not isinstance(given, np.ndarray):
        return _number(what, given, 0.0, most)
    for x in given.ravel():
        _number(what, x, 0.0, most)
    return given.astype(float)


def _set(target: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)


def _set_name(solid: Any) -> str:
    """Validate the frame of a solid, name it after the frame if it has no name; its description."""
    if not (solid.frame is None or (isinstance(solid.frame, str) and solid.frame)):
        raise InvalidArgument(
            "frame of a shape", solid.frame, "it is a name, or None for the world"
        )
    _set(solid, name=solid.name or solid.frame or f"world {type(solid).__name__.lower()}")
    return f"{type(solid).__name__.lower()} {solid.name!r}"


@dataclass(frozen=True)
class Plane:
    """A half space of the world: all that lies under the plane through `point`."""

    normal: Numbers = (0.0, 0.0, 1.0)
    point: Numbers = _ORIGIN
    name: str = "ground"

    def __post_init__(self) -> None:
        what = f"plane {self.name!r}"
        n = _vector(f"normal of {what}", self.normal)
        length = math.sqrt(n.dot(n))
        if not length:
            raise InvalidArgument(f"normal of {what}", tuple(n), "it has a direction")
        _set(self, normal=n * (1.0 / length), point=_vector(f"point of {what}", self.point))

    @property
    def height(self) -> float:
        """Distance of the plane from the origin along its normal."""
        return float(self.normal.dot(self.point))  # type: ignore[union-attr, arg-type]


@runtime_checkable
class RoundSolid(Protocol):
    """All within a radius of a spine, which is a point or a line with two ends, in a frame."""

    @property
    def frame(self) -> str | None:
        """The frame that it is fixed to; None for the world."""

    @property
    def name(self) -> str:
        """Its name in the scene."""

    @property
    def radius(self) -> float:
        """Distance of the surface from the spine, m."""

    @property
    def spine(self) -> tuple[Vec3, ...]:
        """One point, or the two ends of a line."""


@dataclass(frozen=True)
class Sphere:
    """A sphere about a point of a frame (of the world where that is None)."""

    frame: str | None
    radius: float
    offset: Numbers = _ORIGIN
    name: str = ""

    def __post_init__(self) -> None:
        what = _set_name(self)
        radius = _number(f"radius of {what}", self.radius, 0.0)
        _set(self, radius=radius, offset=_vector(f"offset of {what}", self.offset))

    @property
    def spine(self) -> tuple[Vec3, ...]:
        """The centre."""
        return (self.offset,)  # type: ignore[return-value]


@dataclass(frozen=True)
class Point:
    """A point of a frame."""

    frame: str | None
    offset: Numbers = _ORIGIN
    name: str = ""
    radius: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, offset=_vector(f"offset of {_set_name(self)}", self.offset))

    @property
    def spine(self) -> tuple[Vec3, ...]:
        """The point itself."""
        return (self.offset,)  # type: ignore[return-value]


@dataclass(frozen=True)
class Capsule:
    """All within a radius of the line from `start` to `end`, points of a frame."""

    frame: str | None
    radius: float
    start: Numbers
    end: Numbers
    name: str = ""

    def __post_init__(self) -> None:
        what = _set_name(self)
        radius = _number(f"radius of {what}", self.radius, 0.0)
        start, end = (_vector(f"end of {what}", x) for x in (self.start, self.end))
        if start == end:
            raise InvalidArgument(what, tuple(start), "its ends differ; else it is a Sphere")
        _set(self, radius=radius, start=start, end=end)

    @property
    def spine(self) -> tuple[Vec3, ...]:
        """The two ends of its line."""
        return (self.start, self.end)  # type: ignore[return-value]


@dataclass(frozen=True)
class Box:
    """A box with edges of these lengths, its centre and axes placed in a frame."""

    frame: str | None
    size: Numbers
    placement: Transform = field(default_factory=Transform.identity)
    name: str = ""

    def __post_init__(self) -> None:
        what = _set_name(self)
        size = _vector(f"size of {what}", self.size)
        if not isinstance(self.placement, Transform):
            raise InvalidArgument(f"placement of {what}", self.placement, "it is a Transform")
        if min(size) <= 0.0:
            raise InvalidArgument(f"size of {what}", tuple(size), "its edges are longer than zero")
        _set(self, size=size)

    @property
    def corners(self) -> list[Vec3]:
        """The eight corners in the frame."""
        x, y, z = (0.5 * s for s in self.size)
        signs = [(a, b, c) for a in (-x, x) for b in (-y, y) for c in (-z, z)]
        return [self.placement.point(Vec3(*corner)) for corner in signs]


Solid = Sphere | Capsule | Box | Point


@dataclass(frozen=True)
class Pair:
    """Two shapes that can touch, by name, with friction and restitution of their own if given."""

    first: str
    second: str
    friction: Scalar | None = None
    restitution: Scalar | None = None

    def __post_init__(self) -> None:
        what = f"pair ({self.first!r}, {self.second!r})"
        if self.friction is not None:
            _set(self, friction=_coefficient(f"friction of {what}", self.friction))
        if self.restitution is not None:
            bounce = _coefficient(f"restitution of {what}", self.restitution, 1.0)
            _set(self, restitution=bounce)


@dataclass(frozen=True)
class Scene:
    """Shapes of a robot and planes of the world, and which of them can touch.

    `pairs` "ground" pairs all shapes that move with all planes and all shapes fixed to the world;
    "all" pairs the shapes of the robot with each other as well, except on one body or on
    neighbours. A sequence of pairs means these alone. `friction` is Coulomb's
    coefficient and `restitution` Newton's, for all pairs that have none of their own. `omitted`
    names the shapes of a file that are not part of the scene, with reasons.
    """

    planes: Sequence[Plane] = ()
    spheres: Sequence[Sphere] = ()
    capsules: Sequence[Capsule] = ()
    boxes: Sequence[Box] = ()
    points: Sequence[Point] = ()
    pairs: Literal["ground", "all"] | Sequence[Pair | tuple[str, str]] = "ground"
    friction: Scalar = 0.8
    restitution: Scalar = 0.0
    omitted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kinds = {
            "planes": Plane,
            "spheres": Sphere,
            "capsules": Capsule,
            "boxes": Box,
            "points": Point,
        }
        for name, kind in kinds.items():
            shapes = getattr(self, name)
            try:
                shapes = (shapes,) if isinstance(shapes, kind) else tuple(shapes)
            except TypeError as error:
                accepted = f"it is a sequence of {kind.__name__}"
                raise InvalidArgument(name, shapes, accepted) from error
            for x in shapes:
                if not isinstance(x, kind):
                    raise InvalidArgument(name, x, f"each is a {kind.__name__}")
            _set(self, **{name: shapes})
        if isinstance(self.pairs, str) and self.pairs not in ("ground", "all"):
            raise UnknownName("choice of pairs", self.pairs, ("ground", "all"))
        if not isinstance(self.pairs, str):
            pairs = []
            for pair in self.pairs:
                two = isinstance(pair, tuple) and len(pair) == 2
                if not (two or isinstance(pair, Pair)):
                    raise InvalidArgument("pair", pair, "it is a Pair, or two names of shapes")
                pairs.append(pair if isinstance(pair, Pair) else Pair(*pair))
            _set(self, pairs=tuple(pairs))
        _set(self, friction=_coefficient("friction of a scene", self.friction))
        restitution = _coefficient("restitution of a scene", self.restitution, 1.0)
        _set(self, restitution=restitution)
        check_unique("shape", (x.name for x in (*self.planes, *self.solids)))

    @property
    def solids(self) -> tuple[Solid, ...]:
        """All shapes but the planes."""
        return (*self.spheres, *self.capsules, *self.boxes, *self.points)

    def find(self, name: str) -> Plane | Solid:
        """The shape of this name."""
        known = {x.name: x for x in (*self.planes, *self.solids)}
        if not isinstance(name, str) or name not in known:
            raise UnknownName("shape", name, known, "scene")
        return known[name]

    def resolve_pairs(self, model: Model) -> tuple[Pair, ...]:
        """The pairs on a robot, each with its friction and restitution; the first one moves."""
        if isinstance(self.pairs, str):
            pairs: Iterable[Pair] = self._pairs_by_rule(model)
        else:
            pairs = (pair for pair in self.pairs if isinstance(pair, Pair))
        return tuple(self._complete_pair(model, pair) for pair in pairs)

    def _body(self, model: Model, shape: Plane | Solid) -> int:
        if isinstance(shape, Plane) or shape.frame is None:
            return WORLD
        return model.frame(shape.frame).body

    def _pairs_by_rule(self, model: Model) -> Iterator[Pair]:
        """The pairs of the rule "ground" or "all"."""
        shapes = [(x, self._body(model, x)) for x in (*self.planes, *self.solids)]
        for k, (a, i) in enumerate(shapes):
            for b, j in shapes[k + 1 :]:
                fixed = WORLD in (i, j)
                near = not fixed and (model.bodies[i].parent == j or model.bodies[j].parent == i)
                if i != j and (fixed or (self.pairs == "all" and not near)):
                    yield Pair(a.name, b.name)

    def _complete_pair(self, model: Model, pair: Pair) -> Pair:
        """A pair with its moving shape first, and with friction and restitution."""
        i, j = (self._body(model, self.find(name)) for name in (pair.first, pair.second))
        if i == j:
            where = "the world" if i == WORLD else f"body {model.bodies[i].name!r}"
            reason = f"both are fixed to {where}"
            raise InvalidModel(f"pair ({pair.first!r}, {pair.second!r})", reason)
        names = (pair.second, pair.first) if i == WORLD else (pair.first, pair.second)
        friction = self.friction if pair.friction is None else pair.friction
        bounce = self.restitution if pair.restitution is None else pair.restitution
        complete = Pair(*names)
        _set(complete, friction=friction, restitution=bounce)
        return complete

    @staticmethod
    def from_file(
        source: str | Path,
        planes: Sequence[Plane] = (Plane(),),
        only: str | Sequence[str] = "*",
        **choices: Any,
    ) -> Scene:
        """The collision shapes of a description file, or of a robot by name, on planes.

        Spheres, capsules and boxes are taken whose names match a pattern of `only`; a shape is
        named after its link, with its kind and a number where a link has several. Other choices
        are those of a scene.
        """
        # the reader of files loads writers, which a scene in code does not need
        from qddot.writers.source import read_conversion_source

        patterns = (only,) if isinstance(only, str) else tuple(only)
        begin = read_conversion_source(source, shapes="collision")
        solids: list[Solid] = []
        omitted = list(begin.unread)
        # names: the link, the kind where a link has several shapes, a number where kinds do
        links = [shape.link or "world" for shape in begin.shapes]
        kinds = [f"{link}/{x.kind}" for link, x in zip(links, begin.shapes, strict=True)]
        for k, (link, kind, shape) in enumerate(zip(links, kinds, begin.shapes, strict=True)):
            number = f" {kinds[: k + 1].count(kind)}" if kinds.count(kind) > 1 else ""
            name = link if links.count(link) == 1 else kind + number
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            X = shape.placement
            if shape.kind == "sphere":
                solids.append(Sphere(shape.link, shape.size[0], X.p, name))
            elif shape.kind == "capsule":
                radius, length = shape.size
                start, end = (X.point(Vec3(0.0, 0.0, z)) for z in (-0.5 * length, 0.5 * length))
                solids.append(Capsule(shape.link, radius, start, end, name))
            elif shape.kind == "box":
                solids.append(Box(shape.link, shape.size, X, name))
            else:
                omitted.append(f"{name}: a {shape.kind} cannot touch; put primitives in its place")
        found: dict[str, Any] = {
            field: [x for x in solids if isinstance(x, solid)]
            for field, solid in (("spheres", Sphere), ("capsules", Capsule), ("boxes", Box))
        }
        return Scene(planes=planes, **found, omitted=tuple(omitted), **choices)
