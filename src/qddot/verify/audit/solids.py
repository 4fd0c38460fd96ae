"""Solids of uniform density by their moments: volume, centroid, second moment, convex points.

The second moment of a solid or of a body is taken per unit of mass, about its own centre: S is the
mean of r rᵀ. The tensor of a mass m is then m (tr(S) 1 − S).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "Hull",
    "MassSolid",
    "box",
    "capsule",
    "cylinder",
    "ellipsoid",
    "hull_of",
    "merge_solids",
    "scale_solid",
    "spread_of",
    "tensor_of",
    "transform_solid",
    "widths_along",
]

Array = NDArray[np.float64]
_RING = 24


@dataclass(frozen=True)
class MassSolid:
    """Volume, centroid, second moment per unit mass about the centroid, and points of its hull."""

    volume: float
    com: Array
    spread: Array
    points: Array


def tensor_of(mass: float, spread: Array) -> Array:
    """The inertia tensor of a mass with this second moment per unit mass."""
    return mass * (np.trace(spread) * np.eye(3) - spread)


def spread_of(tensor: Array) -> Array:
    """The second moment ½ tr(I) 1 − I of a tensor; leading axes are batch."""
    trace = np.trace(tensor, axis1=-2, axis2=-1)
    return 0.5 * trace[..., None, None] * np.eye(3) - tensor


def box(size: Sequence[float]) -> MassSolid:
    """A box with these edge lengths, about its centre."""
    half = 0.5 * np.abs(np.asarray(size, float))
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    return MassSolid(float(8 * half.prod()), np.zeros(3), np.diag(half**2) / 3, signs * half)


def ellipsoid(radii: Sequence[float]) -> MassSolid:
    """An ellipsoid with these radii, about its centre; a sphere where they are equal."""
    r = np.abs(np.asarray(radii, float))
    volume = float(4 / 3 * math.pi * r.prod())
    return MassSolid(volume, np.zeros(3), np.diag(r**2) / 5, _unit_sphere() * r)


@cache
def _unit_sphere() -> Array:
    """Points of the sphere of radius 1, ring by ring; not to be written to."""
    turn = np.linspace(0, math.tau, _RING, endpoint=False)
    lift = np.linspace(-math.pi / 2, math.pi / 2, _RING // 2 + 1)
    ring = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)], 1)
    return np.concatenate([ring * math.cos(a) + [0, 0, math.sin(a)] for a in lift])


def cylinder(radius: float, length: float) -> MassSolid:
    """A cylinder along z, about its centre."""
    r, l = abs(radius), abs(length)
    points = np.concatenate([_circle(r, l / 2), _circle(r, -l / 2)])
    spread = np.diag([r * r / 4, r * r / 4, l * l / 12])
    return MassSolid(math.pi * r * r * l, np.zeros(3), spread, points)


def capsule(radius: float, length: float) -> MassSolid:
    """A cylinder of this length along z with a half ball on either end."""
    r, half = abs(radius), abs(length) / 2
    ball = ellipsoid([r, r, r])
    # a half ball has its centroid 3/8 r from its flat side
    cap = 3 / 8 * r
    ends = 0.2 * r * r - cap**2 + (half + cap) ** 2
    caps = replace(ball, spread=np.diag([0.2 * r * r, 0.2 * r * r, ends]))
    whole = merge_solids([cylinder(r, 2 * half), caps])
    tip = np.array([0, 0, half])
    return replace(whole, points=np.concatenate([ball.points + tip, ball.points - tip]))


def _circle(radius: float, height: float) -> Array:
    turn = np.linspace(0, math.tau, _RING, endpoint=False)
    flat = np.full_like(turn, height)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), flat], 1)


def transform_solid(solid: MassSolid, R: Array, p: Array) -> MassSolid:
    """The solid of a child frame, in the parent frame in which the child has pose (R, p)."""
    return MassSolid(
        solid.volume, R @ solid.com + p, R @ solid.spread @ R.T, solid.points @ R.T + p
    )


def scale_solid(solid: MassSolid, factors: Array) -> MassSolid:
    """The solid stretched along its axes; negative factors mirror it."""
    return MassSolid(
        solid.volume * abs(float(np.prod(factors))),
        solid.com * factors,
        solid.spread * np.outer(factors, factors),
        solid.points * factors,
    )


def merge_solids(solids: Sequence[MassSolid]) -> MassSolid:
    """Several solids as one body of one density; where they overlap, material counts twice."""
    volumes = np.array([s.volume for s in solids])
    share = volumes / volumes.sum() if volumes.sum() > 0 else np.full(len(solids), 1 / len(solids))
    centres = np.array([s.com for s in solids])
    com = share @ centres
    arms = centres - com
    spread = np.tensordot(share, [s.spread for s in solids], 1) + (share * arms.T) @ arms
    return MassSolid(float(volumes.sum()), com, spread, np.concatenate([s.points for s in solids]))


@dataclass(frozen=True)
class Hull:
    """A convex hull: planes (n, d) with n·x + d ≤ 0 inside, and its volume."""

    planes: Array
    volume: float

    def distance_outside(self, points: Array) -> Array:
        """How far each point lies outside (a lower bound), 0 inside; leading axes are batch."""
        heights = points @ self.planes[:, :3].T + self.planes[:, 3]
        return np.asarray(np.maximum(0.0, heights.max(-1)))


def hull_of(points: Array) -> Hull | None:
    """The convex hull of points; None where they are flat or too few."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return None
    return Hull(np.asarray(hull.equations), float(hull.volume))


def widths_along(points: Array, directions: Array) -> Array:
    """The extent of points along each row of `directions`."""
    along = points @ np.asarray(directions).T
    return np.asarray(np.ptp(along, axis=0))
