"""Balance on flat ground: zero-moment point, support polygon, and the margin between them.

Vukobratović & Borovac 2004: the ground pushes and does not pull, so the point at which it can give
what a motion needs must lie inside the convex hull of the contacts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull

from qddot.algorithms.kinematics import ReferenceAxes
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NoSupport, ShapeMismatch, UnknownName
from qddot.robot.interpret import as_floats
from qddot.robot.robot import Robot
from qddot.robot.wrenches import Wrench, list_wrenches, value_of

__all__ = [
    "Flight",
    "Ground",
    "Margin",
    "PressurePoint",
    "SupportPolygon",
    "center_of_pressure",
    "contact_points",
    "ground_wrench",
    "pressure_point",
    "support_polygon",
    "total_wrench",
    "zero_moment_point",
]

Flight = Literal["error", "nan"]
_FLAT = 1e-9
"""The share of a polygon's length below which its width is rounding."""
_WEIGHTLESS = 1e-9
"""The share of the weight below which a force of the ground is rounding."""


@dataclass(frozen=True)
class Ground:
    """Flat ground: a point of it, and its normal of any length, in the world."""

    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)

    @cached_property
    def basis(self) -> np.ndarray:
        """Two directions along the ground and the unit normal, as rows, right-handed."""
        n = np.asarray(self.normal, dtype=float)
        if n.shape != (3,) or not 0.0 < np.linalg.norm(n) < np.inf:
            raise InvalidArgument("normal", self.normal, "it needs three numbers, not all zero")
        n = n / np.linalg.norm(n)
        # for a normal along z the directions are x and y
        first = np.cross(np.roll(np.eye(3)[np.argmax(np.abs(n))], -1), n)
        first /= np.linalg.norm(first)
        return np.stack([first, np.cross(n, first), n])

    def plane_coordinates(self, points: np.ndarray) -> np.ndarray:
        """Coordinates (..., 2) of points along the ground."""
        return (points - np.asarray(self.point)) @ self.basis[:2].T

    def points_at(self, coordinates: np.ndarray) -> np.ndarray:
        """Points (..., 3) of the ground at coordinates along it."""
        return np.asarray(self.point) + coordinates @ self.basis[:2]


@dataclass(frozen=True, repr=False)
class PressurePoint(Readable):
    """Where a wrench meets the ground without a moment along it.

    `force` acts at `point`; `moment` is what remains about the normal of the ground. In flight the
    point is NaN.
    """

    point: np.ndarray
    force: np.ndarray
    moment: np.ndarray


@dataclass(frozen=True, repr=False)
class Margin(Readable):
    """How far points lie inside a support polygon: `distance` in metres, negative outside.

    `edge` is the index of the nearest edge; `edges` names the contacts at the ends of each.
    """

    distance: np.ndarray
    edge: np.ndarray
    edges: tuple[tuple[str, str], ...]

    @property
    def inside(self) -> np.ndarray:
        """Whether the points lie inside."""
        return self.distance > 0.0

    @property
    def nearest(self) -> np.ndarray:
        """The contacts at the ends of the nearest edge, (..., 2)."""
        return np.array(self.edges)[self.edge]


@dataclass(frozen=True, repr=False)
class SupportPolygon(Readable):
    """The convex hull of contacts along the ground, counter-clockwise seen from above.

    Two vertices are a line and one is a point: nothing lies inside them.
    """

    ground: Ground
    vertices: np.ndarray
    names: tuple[str, ...]

    @property
    def area(self) -> float:
        """Area in square metres."""
        x, y = self.ground.plane_coordinates(self.vertices).T
        return 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """The contacts at the ends of each edge; a line has two, there and back."""
        return tuple(zip(self.names, (*self.names[1:], self.names[0]), strict=True))

    def margin(self, points: ArrayLike) -> Margin:
        """Signed distance of points (..., 3), taken along the normal, to the nearest edge."""
        corners = self.ground.plane_coordinates(self.vertices)
        edge = np.roll(corners, -1, axis=0) - corners
        offset = (
            self.ground.plane_coordinates(_check_points("points", points))[..., None, :] - corners
        )
        # the distance to each edge, at its nearest point
        length = (edge**2).sum(axis=-1)
        share = (offset * edge).sum(axis=-1) / np.where(length > 0.0, length, 1.0)
        away = np.linalg.norm(offset - share.clip(0.0, 1.0)[..., None] * edge, axis=-1)
        # inside is left of every edge
        left = edge[:, 0] * offset[..., 1] - edge[:, 1] * offset[..., 0] > 0.0
        distance = away.min(axis=-1)
        signed = np.where(left.all(axis=-1), distance, 0.0 - distance)
        return Margin(signed, away.argmin(axis=-1), self.edges)


def support_polygon(
    points: ArrayLike, ground: Ground | None = None, names: Sequence[str] | None = None
) -> SupportPolygon:
    """The support polygon of contact points (n, 3), taken along the normal of the ground.

    The ground is z = 0 unless given. `names` are those of the contacts, their numbers unless given.
    """
    ground = ground or Ground()
    p = _check_points("points", points)
    if p.ndim != 2:
        raise ShapeMismatch("support_polygon", "points", "(n, 3)", p.shape)
    if not len(p):
        raise NoSupport("there are no contacts: a support polygon needs at least one point")
    if not np.isfinite(p).all():
        raise InvalidArgument("points", p, "contacts need finite numbers")
    labels = [str(k) for k in range(len(p))] if names is None else [str(name) for name in names]
    if len(labels) != len(p):
        raise ShapeMismatch("support_polygon", "names", f"({len(p)},)", (len(labels),))
    flat = ground.plane_coordinates(p)
    # corners of the convex hull, counter-clockwise; the ends of a line; or a point:
    # extents along the principal directions tell them apart
    spread = flat - flat.mean(axis=0)
    _, size, directions = np.linalg.svd(spread)
    if len(flat) == 1 or size[0] <= _FLAT * np.abs(flat).max():
        corners = [0]
    elif len(flat) == 2 or size[1] <= _FLAT * size[0]:
        along = spread @ directions[0]
        corners = [int(along.argmin()), int(along.argmax())]
    else:
        corners = [int(k) for k in ConvexHull(flat).vertices]
    return SupportPolygon(
        ground, ground.points_at(flat[corners]), tuple(labels[k] for k in corners)
    )


def contact_points(robot: Robot, q: ArrayLike, frames: Sequence[str]) -> np.ndarray:
    """Origins (..., n, 3) of frames in the world, such as the feet that stand."""
    if isinstance(frames, str):
        frames = (frames,)
    if not len(frames):
        raise NoSupport("there are no contacts: name at least one frame")
    return np.stack([robot.frame_pose(q, name)[..., :3, 3] for name in frames], axis=-2)


def total_wrench(
    robot: Robot, q: ArrayLike, wrenches: Wrench | Sequence[Wrench] | None
) -> np.ndarray:
    """Sum of wrenches on a robot, [force; moment] about the world's origin in world axes."""
    total = np.zeros(6)
    for wrench in list_wrenches(wrenches):
        if wrench.reference not in get_args(ReferenceAxes):
            raise UnknownName("reference", wrench.reference, get_args(ReferenceAxes))
        value = value_of(wrench).astype(float)
        X = robot.frame_pose(q, wrench.frame)
        force, moment = value[..., :3], value[..., 3:]
        if wrench.reference == "local":
            force, moment = (
                np.einsum("...ij,...j->...i", X[..., :3, :3], x) for x in (force, moment)
            )
        if wrench.reference != "world":
            moment = moment + np.cross(X[..., :3, 3], force)
        total = total + np.concatenate(np.broadcast_arrays(force, moment), axis=-1)
    return total


def ground_wrench(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: Wrench | Sequence[Wrench] | None = None,
) -> np.ndarray:
    """The wrench that the ground must give for a motion, about the world's origin in world axes.

    The rate of the momentum less the weight (that of fixed links too) and other wrenches `f_ext`.
    """
    # Newton and Euler about the world's origin, fixed links included
    rate = robot.centroidal_momentum_rate(q, v, a)
    center = robot.center_of_mass(q)
    base, g = robot.model.base_inertia, np.array([*robot.model.gravity], dtype=float)
    moving = float(sum(body.inertia.mass for body in robot.model.bodies))
    first = moving * center + np.array([*base.h], dtype=float)
    force = rate[..., :3] - (moving + float(base.mass)) * g
    moment = rate[..., 3:] + np.cross(center, rate[..., :3]) - np.cross(first, g)
    return np.concatenate([force, moment], axis=-1) - total_wrench(robot, q, f_ext)


def pressure_point(
    wrench: ArrayLike, ground: Ground | None = None, least: float = 0.0, flight: Flight = "error"
) -> PressurePoint:
    """Where a wrench of the ground acts: the point of it about which no moment lies along it.

    `wrench` is [force; moment] about the world's origin in world axes. A normal force of `least` or
    less is flight: an error, or NaN if asked for.
    """
    ground = ground or Ground()
    if flight not in get_args(Flight):
        raise UnknownName("flight", flight, get_args(Flight))
    W = np.asarray(wrench, dtype=float)
    if W.shape[-1:] != (6,):
        raise ShapeMismatch("pressure_point", "wrench", "(..., 6)", W.shape)
    n, origin = ground.basis[2], np.asarray(ground.point, dtype=float)
    force = W[..., :3]
    moment = W[..., 3:] - np.cross(origin, force)
    normal = force @ n
    airborne = normal <= least
    if flight == "error" and airborne.any():
        states = "" if airborne.ndim == 0 else f" at {airborne.sum()} of {airborne.size} states"
        raise NoSupport(
            f"the ground does not carry the robot{states}: its normal force would be "
            f"{normal[airborne].min():.3g} N; flight='nan' gives NaN there"
        )
    # the arm from the origin to the point without a moment along the ground
    arm = np.cross(n, moment) / np.where(airborne, np.nan, normal)[..., None]
    rest = (moment - np.cross(arm, force)) @ n
    return PressurePoint(origin + arm, force, rest)


def zero_moment_point(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    ground: Ground | None = None,
    f_ext: Wrench | Sequence[Wrench] | None = None,
    flight: Flight = "error",
) -> PressurePoint:
    """The zero-moment point of a motion on flat ground, which is z = 0 unless given.

    `f_ext` are wrenches from elsewhere, such as a push; those of the ground are what is asked for.
    """
    weight = float(robot.model.mass) * np.hypot.reduce(np.array([*robot.model.gravity], float))
    W = ground_wrench(robot, q, v, a, f_ext)
    return pressure_point(W, ground, _WEIGHTLESS * weight, flight)


def center_of_pressure(
    robot: Robot,
    q: ArrayLike,
    contacts: Wrench | Sequence[Wrench],
    ground: Ground | None = None,
    flight: Flight = "error",
) -> PressurePoint:
    """The centre of pressure of contact wrenches on a robot: where their sum meets the ground.

    It is the zero-moment point of the motion that they cause (Sardain & Bessonnet 2004).
    """
    if not isinstance(contacts, Wrench) and not len(contacts):
        raise NoSupport("there are no contacts: give at least one wrench")
    return pressure_point(total_wrench(robot, q, contacts), ground, 0.0, flight)


def _check_points(name: str, given: ArrayLike) -> np.ndarray:
    p = as_floats(name, given)
    if p.size == 0 and p.ndim == 1:
        p = p.reshape(0, 3)
    if p.shape[-1:] != (3,):
        raise ShapeMismatch("support_polygon", name, "(..., 3)", p.shape)
    return p
