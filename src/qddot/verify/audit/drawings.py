"""Links drawn from three sides as SVG: shapes, the ellipsoid that has their inertia, joints.

The ellipsoid is the solid of uniform density with the mass and tensor of the link: its radii are √5
times the spread of the mass along its axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qddot.display.markup import Markup, element
from qddot.verify.audit.evidence import inertia_defect_share
from qddot.verify.audit.geometry import Geometry
from qddot.verify.audit.records import Inertial, Pose, RobotRecord, identity_pose
from qddot.verify.audit.solids import Array

__all__ = ["draw_link", "draw_robot"]

_PLANES = (("side", "x", "z", (0, 2)), ("front", "y", "z", (1, 2)), ("top", "x", "y", (0, 1)))
_WIDEST, _FARTHEST = 1.2, 5.0
_IMPOSSIBLE = 1e-3


@dataclass(frozen=True)
class _Ellipse:
    """An ellipse on the page: centre, radii and turn in degrees."""

    x: float
    y: float
    a: float
    b: float
    turn: float


@dataclass(frozen=True)
class _View:
    """A plane of projection, and where points of it come to lie on the page."""

    axes: tuple[int, int]
    low: Array
    scale: float
    width: float
    height: float

    def to_pixels(self, points: Array) -> Array:
        """Points in pixels from the upper left corner."""
        flat = (np.atleast_2d(points)[:, list(self.axes)] - self.low) * self.scale
        return np.stack([flat[:, 0], self.height - flat[:, 1]], 1)

    def is_within(self, e: _Ellipse) -> bool:
        """Whether the whole view is inside an ellipse, of which no outline is seen then."""
        corners = np.array([[x, y] for x in (0.0, self.width) for y in (0.0, self.height)])
        turn = math.radians(e.turn)
        axes = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        return bool((np.abs((corners - [e.x, e.y]) @ axes / [e.a, e.b]) ** 2).sum(1).max() < 1.0)

    def ellipse(self, centre: Array, spread: Array) -> _Ellipse:
        """The outline of the ellipsoid with this second moment."""
        k = list(self.axes)
        squares, axes = np.linalg.eigh(5 * spread[np.ix_(k, k)])
        radii = np.sqrt(np.maximum(squares, 0)) * self.scale
        turn = -math.degrees(math.atan2(axes[1, 1], axes[0, 1]))
        x, y = self.to_pixels(centre)[0]
        return _Ellipse(float(x), float(y), float(radii[1]), float(radii[0]), turn)


def draw_link(
    geometry: Geometry,
    written: Inertial | None,
    meant: Inertial | None,
    kind: str = "",
    edge: int = 170,
) -> list[Markup]:
    """Three views of a link in its own axes; `meant` is drawn too where it differs.

    `kind` is a class for what is drawn of the inertia as written.
    """
    # the views hold the link, and of its inertias all that is not absurdly far
    points = np.concatenate([geometry.points, geometry.anchors])
    middle = (points.max(0) + points.min(0)) / 2
    every = [points]
    for i in (written, meant):
        if i is None or not i.is_finite or not i.has_mass:
            continue
        possible = float(inertia_defect_share(i.tensor)) < _IMPOSSIBLE
        reach = np.sqrt(5 * np.maximum(np.diag(i.spread), 0)) if possible else np.zeros(3)
        least = reach.min() if geometry.outlines else 2 * reach.max()
        most = max(geometry.size, 0.5 * float(least), 1e-3)
        com = np.clip(i.com, middle - _FARTHEST * most, middle + _FARTHEST * most)
        every.append(
            np.clip([com - reach, com + reach], com - _WIDEST * most, com + _WIDEST * most)
        )
    drawn = []
    for (name, across, up, _), view in zip(
        _PLANES, _make_views(np.concatenate(every), edge), strict=True
    ):
        parts = [_svg_polygon(view, outline) for outline in geometry.outlines]
        parts += [_svg_dot(view, a, "joint", 3) for a in geometry.anchors]
        if geometry.estimates:
            solid = geometry.estimates[0].solid
            parts.append(_svg_ellipse(view, view.ellipse(solid.com, solid.spread), "uniform"))
        if meant is not None:
            parts += _svg_inertia(view, meant, identity_pose(), "meant")
        if written is not None:
            parts += _svg_inertia(view, written, identity_pose(), f"written {kind}".rstrip())
        drawn.append(_svg_image(view, parts, f"{name}: {across} →, {up} ↑"))
    return drawn


def draw_robot(
    robot: RobotRecord,
    geometries: dict[str, Geometry],
    colours: dict[str, str],
    edge: int = 400,
) -> list[Markup]:
    """Three views of the robot, all joints at zero; `colours` gives classes to ellipsoids."""
    poses = robot.zero_poses()
    placed = {
        name: [outline @ poses[name].R.T + poses[name].p for outline in g.outlines]
        for name, g in geometries.items()
    }
    joints = np.array([pose.p for pose in poses.values()])
    every = np.concatenate([joints, *(points for each in placed.values() for points in each)])
    # ends of the ellipsoids, but those far larger than the others and than the robot
    ends = []
    for link in robot.links_with_mass():
        i, pose = link.inertial, poses[link.name]
        if i is not None and i.is_finite and float(inertia_defect_share(i.tensor)) < _IMPOSSIBLE:
            reach = np.sqrt(5 * np.maximum(np.diag(pose.R @ i.spread @ pose.R.T), 0))
            ends.append(pose.p + pose.R @ i.com + np.stack([-reach, reach]))
    widths = [float(np.ptp(x, 0).max()) for x in ends]
    size = float(np.ptp(every, 0).max())
    most = max([size, 2 * float(np.median(widths))] if widths else [size])
    centre = joints.mean(0)
    for x, width in zip(ends, widths, strict=True):
        if width <= 2 * most and np.linalg.norm(x.mean(0) - centre) <= 2 * most:
            every = np.concatenate([every, x])
    drawn = []
    views = _make_views(every, edge, square=False)
    for (name, across, up, _), view in zip(_PLANES, views, strict=True):
        parts = [_svg_polygon(view, points) for each in placed.values() for points in each]
        for link in robot.links_with_mass():
            kind = f"written {colours.get(link.name, '')}".rstrip()
            if link.inertial is not None:
                parts += _svg_inertia(view, link.inertial, poses[link.name], kind)
        drawn.append(_svg_image(view, parts, f"{name}: {across} →, {up} ↑"))
    return drawn


def _make_views(points: Array, edge: int, square: bool = True) -> list[_View]:
    """One scale for all three views, each with its middle in the middle of the page."""
    low, high = points.min(0), points.max(0)
    scale = 0.84 * edge / max(float((high - low).max()), 1e-6)
    views = []
    for *_, axes in _PLANES:
        k = list(axes)
        room = np.full(2, float(edge))
        if not square:
            room[1] = max((high - low)[k[1]] * scale + 0.16 * edge, 0.3 * edge)
        views.append(_View(axes, (low + high)[k] / 2 - room / scale / 2, scale, *room.tolist()))
    return views


def _svg_inertia(view: _View, i: Inertial, pose: Pose, kind: str) -> Iterator[Markup]:
    """The ellipsoid of an inertia and its centre; a cross where the inertia is impossible."""
    if not i.is_finite or not i.has_mass:
        return
    centre = pose.p + pose.R @ i.com
    if i.has_rotational_inertia and float(inertia_defect_share(i.tensor)) < _IMPOSSIBLE:
        yield _svg_ellipse(view, view.ellipse(centre, pose.R @ i.spread @ pose.R.T), kind)
        yield _svg_dot(view, centre, f"com {kind}", 2.5)
    else:
        x, y = view.to_pixels(centre)[0]
        d = 6
        cross = f"M{x - d:.1f} {y - d:.1f}l{2 * d} {2 * d}m0 {-2 * d}l{-2 * d} {2 * d}"
        yield element("path", class_=f"cross {kind}", d=cross)


def _tenths(**lengths: float) -> dict[str, str]:
    """Lengths in pixels as attributes, to a tenth."""
    return {name: f"{x:.1f}" for name, x in lengths.items()}


def _svg_ellipse(view: _View, e: _Ellipse, kind: str) -> Markup:
    """An ellipse; a frame where it holds the whole view."""
    if min(e.a, e.b) > 0.0 and view.is_within(e):
        room = _tenths(width=view.width - 4, height=view.height - 4)
        return element("rect", class_=f"{kind} beyond", x=2, y=2, **room)
    turn = f"rotate({e.turn:.1f} {e.x:.1f} {e.y:.1f})"
    shape = _tenths(cx=e.x, cy=e.y, rx=max(e.a, 0.5), ry=max(e.b, 0.5))
    return element("ellipse", class_=kind, **shape, transform=turn)


def _svg_dot(view: _View, point: Array, kind: str, radius: float) -> Markup:
    x, y = view.to_pixels(point)[0]
    return element("circle", class_=kind, **_tenths(cx=x, cy=y), r=radius)


def _svg_polygon(view: _View, points: Array) -> Markup:
    """The silhouette of the convex hull of points."""
    from scipy.spatial import ConvexHull, QhullError

    flat = view.to_pixels(points)
    try:
        flat = flat[ConvexHull(flat).vertices]
    except (QhullError, ValueError):
        flat = flat[[0, -1]]
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in flat)
    return element("polygon", class_="shape", points=corners)


def _svg_image(view: _View, parts: Sequence[Markup], label: str) -> Markup:
    w, h = round(view.width), round(view.height)
    text = element("text", label, class_="axes", x=7, y=h - 7)
    size = {"width": w, "height": h, "viewBox": f"0 0 {w} {h}"}
    return element("svg", element("title", label), parts, text, **size, role="img")
