"""Two boxes: the axis along which they are farthest apart, and the points where they would touch.

The fifteen axes are those of Gottschalk, Lin & Manocha (1996): three of each box, and the products
of their edges. Along the axis of a face, the points are corners of the face of the other box that
is turned to it, cut off at its edges, and its own corners over that face: twelve places;
corners that both faces share use theirs. Two edges touch in one point, the thirteenth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qddot.simulate.implicit_torques import largest
from qddot.spatial.algebra import Mat3, Transform, Vec3
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = ["BOX_POINTS", "NO_TOUCH", "TouchPoint", "touch_boxes"]

BOX_POINTS = 13
"""Places where two boxes may touch: two an edge of a face, four corners, and one of two edges."""
NO_TOUCH = 1e3
"""The gap (m) at a place that is not used."""
_LEAST = 1e-6
"""Difference (m) of distances from which another kind of axis is chosen; width of an edge."""
_PARALLEL = 1e-6
_TINY = 1e-30

TouchPoint = tuple[Scalar, Vec3, Vec3]
"""Gap between two shapes, the point where they are nearest, and the normal there."""


def touch_boxes(X: Transform, a: Vec3, Y: Transform, b: Vec3) -> list[TouchPoint]:
    """Gap, point and normal of each place; a and b are half the edges of the boxes placed at X, Y.

    The normal points from the second box to the first.
    """
    # the second box in axes of the first
    R = [[u.dot(v) for v in _axes(Y)] for u in _axes(X)]
    t = X.R.apply_transpose(Y.p - X.p)
    first = _Face.of(R, list(t), list(a), list(b))
    back = [[R[j][i] for j in range(3)] for i in range(3)]
    s = [-x for x in Y.R.apply_transpose(Y.p - X.p)]
    second = _Face.of(back, s, list(b), list(a))
    edges = _find_edges(R, list(t), list(a), list(b))
    # the kind of axis: a face of the first box where kinds are as good
    other = less(first.gap + _LEAST, second.gap)
    crossed = less(largest(first.gap, second.gap) + _LEAST, edges[0])
    face = first.choose(other, second)
    home = Transform(
        Mat3(*(Vec3(*_choose(other, u, v)) for u, v in zip(X.R, Y.R, strict=True))),
        Vec3(*_choose(other, X.p, Y.p)),
    )
    sign = where(other, 1.0, -1.0)
    n = home.R.apply(Vec3(*face.unfold([0.0, 0.0, sign])))
    found: list[TouchPoint] = []
    for gap, place in face.points():
        used = where(crossed, NO_TOUCH, gap)
        found.append((used, home.point(Vec3(*face.unfold(place))), n))
    gap, point, normal = edges
    return [*found, (where(crossed, gap, NO_TOUCH), X.point(point), X.R.apply(normal))]


def _axes(X: Transform) -> list[Vec3]:
    """The axes of a frame: columns of its rotation."""
    units = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))
    return [X.R.apply(e) for e in units]


def _choose(flag: object, a: Iterable[Scalar], b: Iterable[Scalar]) -> list[Scalar]:
    """b where the flag is true, else a."""
    return [where(flag, y, x) for x, y in zip(a, b, strict=True)]


def _size(x: Scalar) -> Scalar:
    return largest(x, -x)


def _sign(x: Scalar) -> Scalar:
    return where(less(x, 0.0), -1.0, 1.0)


@dataclass(frozen=True)
class _Face:
    """The face of a box that is farthest from another box, turned so that its normal is z.

    `gap` is the distance along the normal, `half` are half the edges of the box, `centre`, `along`
    and `across` the middle and half the edges of the face of the other box that is turned to it.
    `turned` has 1 at the number of the axis that became z, and `sign` of it.
    """

    gap: Scalar
    half: list[Scalar]
    centre: list[Scalar]
    along: list[Scalar]
    across: list[Scalar]
    turned: list[Scalar]
    sign: Scalar

    @staticmethod
    def of(
        R: Sequence[Sequence[Scalar]], t: list[Scalar], a: list[Scalar], b: list[Scalar]
    ) -> _Face:
        """Face of a box of half edges a; one of half edges b has the pose (R, t) in its axes."""
        gaps = [
            _size(t[i]) - a[i] - sum((_size(R[i][j]) * b[j] for j in range(3)), 0.0)
            for i in range(3)
        ]
        x, y = less(gaps[0], gaps[1]), less(largest(gaps[0], gaps[1]), gaps[2])
        turned = [where(y, 0.0, where(x, 0.0, 1.0)), where(y, 0.0, where(x, 1.0, 0.0))]
        turned.append(where(y, 1.0, 0.0))
        gap = largest(largest(gaps[0], gaps[1]), gaps[2])
        # its axis as z, upwards
        half, centre = _cycle(turned, a), _cycle(turned, t)
        sign = _sign(centre[2])
        columns = [_cycle(turned, [R[i][j] for i in range(3)]) for j in range(3)]
        for vector in (centre, *columns):
            vector[2] = vector[2] * sign
        # the face of the other box whose normal is most against it
        steep = [_size(column[2]) for column in columns]
        x, y = less(steep[0], steep[1]), less(largest(steep[0], steep[1]), steep[2])
        scaled = [[r * h for r in column] for column, h in zip(columns, b, strict=True)]
        out, along, across = (
            _choose(y, _choose(x, scaled[k], scaled[(1 + k) % 3]), scaled[(2 + k) % 3])
            for k in range(3)
        )
        down = -_sign(out[2])
        centre = [c + down * o for c, o in zip(centre, out, strict=True)]
        return _Face(gap, half, centre, along, across, turned, sign)

    def choose(self, flag: object, other: _Face) -> _Face:
        """The other face where the flag is true."""
        return _Face(
            gap=where(flag, other.gap, self.gap),
            half=_choose(flag, self.half, other.half),
            centre=_choose(flag, self.centre, other.centre),
            along=_choose(flag, self.along, other.along),
            across=_choose(flag, self.across, other.across),
            turned=_choose(flag, self.turned, other.turned),
            sign=where(flag, other.sign, self.sign),
        )

    def unfold(self, place: Sequence[Scalar]) -> list[Scalar]:
        """A vector of this face in axes of its box."""
        x, y, z = place
        z = z * self.sign
        return [
            self.turned[0] * z + self.turned[1] * y + self.turned[2] * x,
            self.turned[0] * x + self.turned[1] * z + self.turned[2] * y,
            self.turned[0] * y + self.turned[1] * x + self.turned[2] * z,
        ]

    def points(self) -> list[tuple[Scalar, list[Scalar]]]:
        """Gap and place, midway between the faces, of the twelve points."""
        corners = [
            [
                c + s * u + r * v
                for c, u, v in zip(self.centre, self.along, self.across, strict=True)
            ]
            for s, r in ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))
        ]
        found = []
        for k, start in enumerate(corners):
            way = [y - x for x, y in zip(start, corners[(k + 1) % 4], strict=True)]
            begin, end = self._cut_edge(start, way)
            inside = where(less(begin, end + _PARALLEL), 1.0, 0.0)
            # the end of an edge is the start of the next, unless it is cut off
            cut = where(less(end, 1.0 - _PARALLEL), inside, 0.0)
            for share, used in ((begin, inside), (end, where(less(begin, end), cut, 0.0))):
                found.append(
                    self._place([x + share * d for x, d in zip(start, way, strict=True)], used)
                )
        # corners of this face over the other one: where they are along its edges
        (ux, uy, uz), (vx, vy, vz) = self.along, self.across
        square = ux * vy - uy * vx
        wide, deep = (sqrt(x * x + y * y + z * z) + _TINY for x, y, z in (self.along, self.across))
        upright = less(_PARALLEL * wide * deep, _size(square))
        scale = 1.0 / where(upright, square, 1.0)
        for s, r in ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)):
            x, y = s * self.half[0], r * self.half[1]
            dx, dy = x - self.centre[0], y - self.centre[1]
            p, q = (dx * vy - dy * vx) * scale, (ux * dy - uy * dx) * scale
            over = where(less(_size(p), 1.0 - 2.0 * _LEAST / wide), 1.0, 0.0)
            over = where(less(_size(q), 1.0 - 2.0 * _LEAST / deep), over, 0.0)
            z = self.centre[2] + p * uz + q * vz
            found.append(self._place([x, y, z], where(upright, over, 0.0)))
        return found

    def _cut_edge(self, start: Sequence[Scalar], way: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
        """The shares of an edge between which it is over this face (Liang & Barsky 1984)."""
        begin: Scalar = 0.0
        end: Scalar = 1.0
        for k in range(2):
            x, d, h = start[k], way[k], self.half[k] + _LEAST
            level = less(_size(d), _PARALLEL * _LEAST)
            inside = less(_size(x), h)
            step = 1.0 / where(level, 1.0, d)
            near, far = (-h * _sign(d) - x) * step, (h * _sign(d) - x) * step
            begin = largest(begin, where(level, where(inside, 0.0, 2.0), near))
            end = -largest(-end, -where(level, where(inside, 1.0, -1.0), far))
        return begin, end

    def _place(self, place: Sequence[Scalar], used: Scalar) -> tuple[Scalar, list[Scalar]]:
        x, y, z = place
        gap = z - self.half[2]
        return where(less(0.5, used), gap, NO_TOUCH), [x, y, z - 0.5 * gap]


def _cycle(turned: Sequence[Scalar], x: Sequence[Scalar]) -> list[Scalar]:
    """Coordinates in cyclic order with the axis that is turned as the last."""
    first, second, _ = turned
    y = _choose(less(0.5, second), [x[0], x[1], x[2]], [x[2], x[0], x[1]])
    return _choose(less(0.5, first), y, [x[1], x[2], x[0]])


def _find_edges(
    R: Sequence[Sequence[Scalar]], t: list[Scalar], a: list[Scalar], b: list[Scalar]
) -> TouchPoint:
    """Gap, point and normal of the two edges that are farthest apart, in axes of the first box."""
    units = [Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0)]
    columns = [Vec3(*(R[i][j] for i in range(3))) for j in range(3)]
    centre = Vec3(*t)
    best: Scalar = -NO_TOUCH
    u, v, n = units[0], columns[1], units[2]
    for i, j in ((i, j) for i in range(3) for j in range(3)):
        cross = units[i].cross(columns[j])
        square = cross.dot(cross)
        slanted = less(_PARALLEL, square)
        axis = cross * (1.0 / sqrt(where(slanted, square, 1.0)))
        gap = _size(axis.dot(centre))
        for e, h in (*zip(units, a, strict=True), *zip(columns, b, strict=True)):
            gap = gap - _size(axis.dot(e)) * h
        better = less(best, where(slanted, gap, -NO_TOUCH))
        best = where(better, gap, best)
        u, v, n = (
            Vec3(*_choose(better, x, y)) for x, y in ((u, units[i]), (v, columns[j]), (n, axis))
        )
    # from the second box to the first
    n = n * where(less(n.dot(centre), 0.0), 1.0, -1.0)
    # a point of each edge: a corner of its box
    p, q = Vec3.zero(), centre
    for e, h in zip(units, a, strict=True):
        p = p - e * (_sign(n.dot(e)) * h)
    for e, h in zip(columns, b, strict=True):
        q = q + e * (_sign(n.dot(e)) * h)
    # the nearest points of two lines
    uv, r = u.dot(v), p - q
    square = 1.0 - uv * uv
    scale = 1.0 / where(less(_PARALLEL, square), square, 1.0)
    s, w = (uv * v.dot(r) - u.dot(r)) * scale, (v.dot(r) - uv * u.dot(r)) * scale
    return best, (p + u * s + q + v * w) * 0.5, n
