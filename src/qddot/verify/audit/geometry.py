"""What the shapes of a link say of its inertia: uniform-density estimates, size, convex hull."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qddot.loaders.shapes import Shape
from qddot.verify.audit.meshes import UnreadableMesh, read_mesh
from qddot.verify.audit.records import LinkRecord, RobotRecord, pose_of
from qddot.verify.audit.solids import (
    Array,
    Hull,
    Solid,
    box,
    capsule,
    cylinder,
    ellipsoid,
    hull_of,
    merged,
    moved,
    scaled,
)

__all__ = ["Estimate", "Geometry", "geometry_of"]

# a link whose joints lie further outside its shapes than this share of their size is not all shown
_REACH = 0.35


@dataclass(frozen=True)
class Estimate:
    """A body of uniform density in the place of a link: from which shapes, and filled how."""

    name: str
    solid: Solid
    wall: bool = False


@dataclass(frozen=True)
class Geometry:
    """The shapes of a link.

    `anchors` are the link's own origin and the places of the joints it carries. `outlines` are
    points of the convex hull of each shape, of those that are seen if there are any. `unread` tells
    which shapes do not open. `reach` is the size of the whole robot.
    """

    estimates: tuple[Estimate, ...]
    anchors: Array
    outlines: tuple[Array, ...] = ()
    unread: tuple[str, ...] = ()
    reach: float = 0.0

    @cached_property
    def points(self) -> Array:
        """Points whose convex hull holds every shape."""
        # the estimates of one role share their points
        own = {e.solid.points.tobytes(): e.solid.points for e in self.estimates}
        return np.concatenate([*own.values()] or [np.zeros((0, 3))])

    @cached_property
    def hull(self) -> Hull | None:
        """The convex hull of the shapes; None without shapes."""
        return hull_of(self.points) if len(self.points) else None

    @cached_property
    def size(self) -> float:
        """The diagonal of the box around shapes and anchors."""
        every = np.concatenate([self.points, self.anchors])
        return float(np.linalg.norm(np.ptp(every, axis=0)))

    @cached_property
    def whole(self) -> bool:
        """Whether the shapes reach the joints of the link."""
        if self.hull is None:
            return False
        extent = float(np.linalg.norm(np.ptp(self.points, axis=0)))
        return bool(self.hull.outside(self.anchors).max() <= _REACH * extent)

    @cached_property
    def volumes(self) -> tuple[float, float]:
        """The least and the greatest volume that the link may have; zeros without shapes."""
        given = [e.solid.volume for e in self.estimates if not e.wall]
        around = self.hull.volume if self.hull else 0.0
        return (min(given), max(*given, around)) if given else (0.0, 0.0)

    @property
    def slack(self) -> float:
        """How far a link may reach beyond its shapes: little where these are meshes."""
        meshes = any("mesh" in e.name for e in self.estimates)
        return 0.002 + (0.03 if meshes else 0.1) * self.size


def geometry_of(robot: RobotRecord, link: LinkRecord) -> Geometry:
    """The geometry of a link; meshes that cannot be read are left out and told of."""
    estimates: list[Estimate] = []
    outlines: list[Array] = []
    unread: list[str] = []
    for role in ("visual", "collision"):
        shapes = [s for s in link.shapes if s.role == role]
        solids = list(_readable(shapes, unread))
        estimates += _estimates(role, shapes, solids)
        outlines = outlines or [s["hull"].points for s in solids]
    below = [child.pose.p for child in robot.children(link.name) if child.moving]
    anchors = np.array([np.zeros(3), *(p for p in below if np.isfinite(p).all())])
    return Geometry(tuple(estimates), anchors, tuple(outlines), tuple(dict.fromkeys(unread)))


def _readable(shapes: Sequence[Shape], unread: list[str]) -> Iterator[dict[str, Solid]]:
    """The shapes that can be read as solids; the others are told of."""
    for shape in shapes:
        try:
            yield _solids(shape)
        except UnreadableMesh as error:
            unread.append(f"mesh {shape.address!r} {error}")


def _estimates(
    role: str, shapes: Sequence[Shape], solids: Sequence[dict[str, Solid]]
) -> Iterator[Estimate]:
    """Shapes filled, as convex hulls, and as thin walls; overlaps count twice."""
    if not solids:
        return
    noun = "meshes" if any(s.kind == "mesh" for s in shapes) else "shapes"
    ways = {"filled": f"{role} {noun}", "hull": f"convex hulls of the {role} {noun}"}
    for way, name in ways.items():
        whole = merged([s[way] for s in solids])
        if whole.volume > 0:
            yield Estimate(name, whole)
    if all("wall" in s for s in solids):
        walls = merged([s["wall"] for s in solids])
        yield Estimate(f"thin walls in the place of the {role} {noun}", walls, wall=True)


def _solids(shape: Shape) -> dict[str, Solid]:
    """A shape in link coordinates: filled, as its convex hull, and (a mesh) as a thin wall."""
    pose = pose_of(shape.placement)
    if shape.kind != "mesh":
        solid = moved(_primitive(shape), pose.R, pose.p)
        return {"filled": solid, "hull": solid}
    if shape.file is None:
        raise UnreadableMesh("is not found")
    mesh = read_mesh(shape.file)
    parts = {"filled": mesh.solid or mesh.hull, "hull": mesh.hull, "wall": mesh.shell}
    factors = np.array(shape.size, float)
    return {way: moved(scaled(solid, factors), pose.R, pose.p) for way, solid in parts.items()}


def _primitive(shape: Shape) -> Solid:
    if shape.kind == "box":
        return box(shape.size)
    if shape.kind == "sphere":
        return ellipsoid(shape.size * 3)
    if shape.kind == "ellipsoid":
        return ellipsoid(shape.size)
    return (cylinder if shape.kind == "cylinder" else capsule)(*shape.size)
