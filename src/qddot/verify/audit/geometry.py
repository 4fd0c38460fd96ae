"""Geometry of a link from its shapes: uniform-density estimates, size, convex hull."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qddot.verify.audit.meshes import Mesh, UnreadableMesh
from qddot.verify.audit.records import LinkRecord, RobotRecord, pose_of
from qddot.verify.audit.solids import (
    Array,
    Hull,
    MassSolid,
    box,
    capsule,
    cylinder,
    ellipsoid,
    hull_of,
    merge_solids,
    scale_solid,
    transform_solid,
)

__all__ = ["Geometry", "InertiaEstimate", "geometry_of"]

# a link whose joints lie further outside its shapes than this share of their size is not all shown
_REACH = 0.35


@dataclass(frozen=True)
class InertiaEstimate:
    """A body of uniform density in the place of a link: from which shapes, and filled how."""

    name: str
    solid: MassSolid
    wall: bool = False


@dataclass(frozen=True)
class Geometry:
    """The shapes of a link.

    `anchors` are the link's own origin and the places of the joints it carries. `outlines` are
    points of the convex hull of each shape, of those that are seen if there are any. `unread` tells
    which shapes do not open. `reach` is the size of the whole robot.
    """

    estimates: tuple[InertiaEstimate, ...]
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
    def gyration(self) -> float:
        """The greatest radius of gyration of the estimates about their centres, over all axes."""
        return math.sqrt(max(float(np.trace(e.solid.spread)) for e in self.estimates))

    @cached_property
    def anchor_tree(self) -> Any:
        """The anchors, each place once, to look the nearest one up in (a SciPy cKDTree)."""
        from scipy.spatial import cKDTree

        return cKDTree(np.unique(self.anchors, axis=0))

    @cached_property
    def is_complete(self) -> bool:
        """Whether the shapes reach the joints of the link."""
        if self.hull is None:
            return False
        extent = float(np.linalg.norm(np.ptp(self.points, axis=0)))
        return bool(self.hull.distance_outside(self.anchors).max() <= _REACH * extent)

    @cached_property
    def volume_bounds(self) -> tuple[float, float]:
        """The least and the greatest volume that the link may have; zeros without shapes."""
        given = [e.solid.volume for e in self.estimates if not e.wall]
        around = self.hull.volume if self.hull else 0.0
        return (min(given), max(*given, around)) if given else (0.0, 0.0)

    @property
    def filled_volume(self) -> float:
        """The volume of the shapes that stand first; NaN without shapes."""
        return next((e.solid.volume for e in self.estimates if not e.wall), math.nan)

    @property
    def shape_tolerance(self) -> float:
        """How far a link may reach beyond its shapes: little where these are meshes."""
        meshes = any("mesh" in e.name for e in self.estimates)
        return 0.002 + (0.03 if meshes else 0.1) * self.size


def geometry_of(
    robot: RobotRecord, link: LinkRecord, meshes: Mapping[Path, Mesh | UnreadableMesh], most: int
) -> Geometry:
    """The geometry of a link; meshes that cannot be read are left out and listed.

    So are all shapes of a role of which the link has more than `most`.
    """
    estimates: list[InertiaEstimate] = []
    outlines: list[Array] = []
    unread: list[str] = []
    for role in ("visual", "collision"):
        shapes = [s for s in link.shapes if s.role == role]
        if len(shapes) > most:
            unread.append(f"{len(shapes)} {role} shapes: at most {most} of a link are measured")
            continue
        # each shape in link coordinates: filled, as its convex hull, and (a mesh) as a thin wall
        solids = []
        for shape in shapes:
            pose = pose_of(shape.placement)
            if shape.kind == "mesh":
                mesh = meshes[shape.file] if shape.file else UnreadableMesh("is not found")
                if isinstance(mesh, UnreadableMesh):
                    unread.append(f"mesh {shape.address!r} {mesh}")
                    continue
                factors = np.array(shape.size, float)
                parts = {"filled": mesh.solid or mesh.hull, "hull": mesh.hull, "wall": mesh.shell}
                parts = {way: scale_solid(solid, factors) for way, solid in parts.items()}
            else:
                if shape.kind == "box":
                    solid = box(shape.size)
                elif shape.kind in ("sphere", "ellipsoid"):
                    solid = ellipsoid(shape.size * 3 if shape.kind == "sphere" else shape.size)
                else:
                    solid = (cylinder if shape.kind == "cylinder" else capsule)(*shape.size)
                parts = {"filled": solid, "hull": solid}
            solids.append({w: transform_solid(x, pose.R, pose.p) for w, x in parts.items()})
        if not solids:
            continue
        outlines = outlines or [s["hull"].points for s in solids]
        # shapes filled, as convex hulls, and as thin walls; overlaps count twice
        noun = "meshes" if any(s.kind == "mesh" for s in shapes) else "shapes"
        ways = {"filled": f"{role} {noun}", "hull": f"convex hulls of the {role} {noun}"}
        for way, name in ways.items():
            body = merge_solids([s[way] for s in solids])
            if body.volume > 0:
                estimates.append(InertiaEstimate(name, body))
        if all("wall" in s for s in solids):
            walls = merge_solids([s["wall"] for s in solids])
            name = f"thin walls in the place of the {role} {noun}"
            estimates.append(InertiaEstimate(name, walls, wall=True))
    # the link's own origin, and the joints that it carries
    below = [child.pose.p for child in robot.children(link.name) if child.is_moving]
    anchors = np.array([np.zeros(3), *(p for p in below if np.isfinite(p).all())])
    return Geometry(tuple(estimates), anchors, tuple(outlines), tuple(dict.fromkeys(unread)))
