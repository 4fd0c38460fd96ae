"""Narrow phase: gap, point and normal of every pair of shapes, over scalars.

All is in coordinates of the first body of a pair, so that a robot on one level ground needs no
more of its rotations than their last rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from qddot.algorithms.recursion import Matrix, ancestors_with_forces, per_body, zeros
from qddot.errors import InvalidArgument, Unsupported
from qddot.model.joints import plane_basis
from qddot.model.model import WORLD, Model
from qddot.simulate.contact.boxes import BOX_POINTS, TouchPoint, touch_boxes
from qddot.simulate.contact.scene import Box, Pair, Plane, RoundSolid, Scene, Solid
from qddot.simulate.implicit_torques import clip, largest
from qddot.spatial.algebra import Force, Motion, Subspace, Transform, Vec3
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "Site",
    "Touch",
    "contact_rows",
    "find_sites",
    "on_disc",
    "push_apart",
    "slide_velocity",
]

_TINY = 1e-30
_PARALLEL = 1e-9
_SURFACE = 1e-9
"""How far (m) outside a box a point is on its surface."""
_TOWARDS = 1e-6
"""Share of the way to its body by which a point on an edge is moved to choose a face."""


@dataclass(frozen=True)
class Touch:
    """Two bodies at the point where they are nearest, in coordinates of the first.

    `normal` points from the second body to the first; `X` is the pose of the second in the first.
    `axes` are the normal and two tangents, `world_axes` the same in the world.
    """

    first: int
    second: int
    X: Transform
    gap: Scalar
    point: Vec3
    normal: Vec3
    axes: tuple[Vec3, ...]
    world_axes: tuple[Vec3, ...]


@dataclass(frozen=True)
class Site:
    """One point of a pair that can touch. `names` tells the points of a pair apart."""

    pair: Pair
    names: tuple[str, str]
    frames: tuple[str | None, str | None]
    first: int
    second: int
    find: Callable[[Sequence[Transform]], Touch]


def on_disc(x: Sequence[Scalar], radius: Scalar) -> list[Scalar]:
    """The nearest point of a disc about the origin."""
    length = sqrt(x[0] * x[0] + x[1] * x[1])
    scale = radius / (largest(length, radius) + _TINY)
    return [c * scale for c in x]


def find_sites(scene: Scene, model: Model) -> list[Site]:
    """All points of a scene that can touch on a robot."""
    sites = []
    for pair in scene.resolve_pairs(model):
        a: Any = scene.find(pair.first)
        b: Any = scene.find(pair.second)
        first, X1 = _place(model, a)
        second, X2 = _place(model, b)
        finders: list[Callable[[Sequence[Transform]], Touch]]
        if isinstance(b, Plane) and isinstance(a, Box):
            finders = [partial(_on_plane, first, X1.point(c), 0.0, b) for c in a.corners]
        elif isinstance(b, Plane) and isinstance(a, RoundSolid):
            # a capsule touches a plane with the spheres at its ends
            finders = [partial(_on_plane, first, X1.point(c), a.radius, b) for c in a.spine]
        elif isinstance(a, Box) and isinstance(b, Box):
            finders = [
                partial(_on_box, k, (first, X1, a), (second, X2, b)) for k in range(BOX_POINTS)
            ]
        elif _is_box_and_line(a, b) or _is_box_and_line(b, a):
            kinds = f"a {type(a).__name__.lower()} and a {type(b).__name__.lower()}"
            accepted = "a box touches planes, boxes, spheres and points; put spheres on the capsule"
            raise InvalidArgument(f"pair of {kinds}", (a.name, b.name), accepted)
        elif isinstance(a, Box | RoundSolid) and isinstance(b, Box | RoundSolid):
            finders = [partial(_on_solid, (first, X1, a), (second, X2, b))]
        else:
            accepted = "a solid is a Box, or has a radius and a spine, as Sphere and Capsule have"
            raise Unsupported("pair of shapes", (a.name, b.name), accepted)
        for k, find in enumerate(finders):
            label = f"{a.name}[{k}]" if len(finders) > 1 else a.name
            frames = (a.frame, None if isinstance(b, Plane) else b.frame)
            sites.append(Site(pair, (label, b.name), frames, first, second, find))
    return sites


def _is_box_and_line(one: Any, other: Any) -> bool:
    """Whether the first of two solids is a box and the second is round about a line."""
    return isinstance(one, Box) and isinstance(other, RoundSolid) and len(other.spine) > 1


def _place(model: Model, shape: Plane | Solid) -> tuple[int, Transform]:
    """Body of a shape, and pose of its frame there."""
    if isinstance(shape, Plane) or shape.frame is None:
        return WORLD, Transform.identity()
    frame = model.frame(shape.frame)
    return frame.body, frame.placement


def _on_plane(first: int, c: Vec3, radius: float, plane: Any, poses: Sequence[Transform]) -> Touch:
    """A sphere about c of a body over a plane; the point is midway between the surfaces."""
    X, (e1, e2, N) = poses[first], plane_basis(plane.normal)
    n = X.R.apply_transpose(N)
    gap = N.dot(X.p) + n.dot(c) - (plane.height + radius)
    point = c - n * (0.5 * gap + radius)
    axes = (n, X.R.apply_transpose(e1), X.R.apply_transpose(e2))
    return Touch(
        first=first,
        second=WORLD,
        X=X.inverse(),
        gap=gap,
        point=point,
        normal=n,
        axes=axes,
        world_axes=(N, e1, e2),
    )


def _on_solid(one: Any, other: Any, poses: Sequence[Transform]) -> Touch:
    """Two solids, at least one of them round."""
    (first, X1, a), (second, X2, b) = one, other
    R, X = poses[first].R, poses[first].inverse() @ poses[second]
    if isinstance(b, Box):
        c, body = X1.point(a.spine[0]), _inner_point(a, X1)
        gap, point, n = _round_box(c, body, a.radius, X @ X2 @ b.placement, b)
    elif isinstance(a, Box):
        c, body = (X @ X2).point(b.spine[0]), X.point(_inner_point(b, X2))
        gap, point, n = _round_box(c, body, b.radius, X1 @ a.placement, a)
        n = -n
    else:
        # spheres about the nearest points; the normal of concentric ones is along z
        ends = [X1.point(c) for c in a.spine], [(X @ X2).point(c) for c in b.spine]
        c1, c2 = _nearest(*ends)
        apart = c1 - c2
        square = apart.dot(apart)
        length = sqrt(square + _TINY)
        concentric = less(square, _TINY)
        n = apart * (1.0 / length)
        n = Vec3(*(where(concentric, up, x) for x, up in zip(n, (0.0, 0.0, 1.0), strict=True)))
        gap = length - (a.radius + b.radius)
        point = c2 + n * (0.5 * gap + b.radius)
    axes = (n, *_tangents(n))
    return Touch(
        first=first,
        second=second,
        X=X,
        gap=gap,
        point=point,
        normal=n,
        axes=axes,
        world_axes=tuple(R.apply(e) for e in axes),
    )


def _on_box(place: int, one: Any, other: Any, poses: Sequence[Transform]) -> Touch:
    """Two boxes, at one of the places where they may touch."""
    (first, X1, a), (second, X2, b) = one, other
    R, X = poses[first].R, poses[first].inverse() @ poses[second]
    half1, half2 = (Vec3(*(0.5 * x for x in box.size)) for box in (a, b))
    points = touch_boxes(X1 @ a.placement, half1, X @ X2 @ b.placement, half2)
    gap, point, n = points[place]
    axes = (n, *_tangents(n))
    return Touch(
        first=first,
        second=second,
        X=X,
        gap=gap,
        point=point,
        normal=n,
        axes=axes,
        world_axes=tuple(R.apply(e) for e in axes),
    )


def _nearest(one: Sequence[Vec3], other: Sequence[Vec3]) -> tuple[Vec3, Vec3]:
    """The nearest points of two lines with ends, or of points (Ericson 2005, section 5.1.9)."""
    if len(one) == len(other) == 1:
        return one[0], other[0]
    if len(other) == 1:
        d = one[1] - one[0]
        return one[0] + d * clip((other[0] - one[0]).dot(d) / d.dot(d), 0.0, 1.0), other[0]
    if len(one) == 1:
        return _nearest(other, one)[::-1]
    # two segments: parameters s and t of the nearest points, 0 to 1
    d1, d2, r = one[1] - one[0], other[1] - other[0], one[0] - other[0]
    a, b, c = d1.dot(d1), d1.dot(d2), d1.dot(r)
    e, f = d2.dot(d2), d2.dot(r)
    square = a * e - b * b
    slanted = less(_PARALLEL * a * e, square)
    s = where(slanted, clip((b * f - c * e) / where(slanted, square, 1.0), 0.0, 1.0), 0.5)
    t = clip((b * s + f) / e, 0.0, 1.0)
    s = clip((b * t - c) / a, 0.0, 1.0)
    return one[0] + d1 * s, other[0] + d2 * t


def _inner_point(shape: Any, X: Transform) -> Vec3:
    """A point of the body that a round shape belongs to: its frame, or that of the body."""
    return X.p if any(shape.spine[0]) else Vec3.zero()


def _round_box(c: Vec3, body: Vec3, radius: float, X: Transform, box: Box) -> TouchPoint:
    """A sphere about c and a box placed at X; the normal points out of the box.

    Outside the nearest point of the box counts, inside the nearest face. Of faces that are as near,
    as for a point on an edge, it is the one towards `body`, a point of the body of the sphere.
    """
    # the centre in axes of the box, folded into its positive octant
    local = X.R.apply_transpose(c - X.p)
    signs = [where(less(x, 0.0), -1.0, 1.0) for x in local]
    beyond = [x * s - 0.5 * h for x, s, h in zip(local, signs, box.size, strict=True)]
    # outside: the vector from the nearest point of the box
    outside = Vec3(*(largest(x, 0.0) for x in beyond))
    square = outside.dot(outside)
    far = sqrt(square + _TINY)
    inside = less(square, _SURFACE * _SURFACE)
    # inside: the first of the nearest faces, seen from a little nearer to the body
    way = X.R.apply_transpose(body - c)
    seen = [x + d * s * _TOWARDS for x, d, s in zip(beyond, way, signs, strict=True)]
    most = largest(largest(*seen[:2]), seen[2])
    x, y, z = (where(less(x, most), 0.0, 1.0) for x in seen)
    faces = (x, y * (1.0 - x), z * (1.0 - x) * (1.0 - y))
    unit = [
        where(inside, face, x / far) * s for face, x, s in zip(faces, outside, signs, strict=True)
    ]
    deep = sum((face * x for face, x in zip(faces, beyond, strict=True)), 0.0)
    n, gap = X.R.apply(Vec3(*unit)), where(inside, deep, far) - radius
    return gap, c - n * (radius + 0.5 * gap), n


def _tangents(n: Vec3) -> tuple[Vec3, Vec3]:
    """Two unit vectors orthogonal to a unit vector and each other (Duff et al. 2017)."""
    s = where(less(n.z, 0.0), -1.0, 1.0)
    a = -1.0 / (s + n.z)
    b = n.x * n.y * a
    return (
        Vec3(1.0 + s * n.x * n.x * a, s * b, -s * n.x),
        Vec3(b, s + n.y * n.y * a, -n.y),
    )


def slide_velocity(touch: Touch, V: Sequence[Motion]) -> Vec3:
    """Velocity of the first body against the second at the point where they touch."""
    one = V[touch.first]
    u = one.lin + one.ang.cross(touch.point)
    if touch.second == WORLD:
        return u
    other = touch.X.to_parent(V[touch.second])
    return u - other.lin - other.ang.cross(touch.point)


def push_apart(model: Model, touches: Sequence[Touch], forces: Sequence[Vec3]) -> list[Force]:
    """Forces on all bodies, from the force on the first body of each touch."""
    total = per_body(model, Force.zero())
    for touch, f in zip(touches, forces, strict=True):
        push = Force(f, touch.point.cross(f))
        total[touch.first] = total[touch.first] + push
        if touch.second != WORLD:
            total[touch.second] = total[touch.second] - touch.X.to_child(push)
    return total


def contact_rows(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    touch: Touch,
    directions: Sequence[Vec3],
) -> Matrix:
    """Rows of the contact Jacobian: velocity of the first against the second along directions.

    A row is the torque that a unit force between the bodies makes; joints that carry both feel
    none.
    """
    pushes = [Force(e, touch.point.cross(e)) for e in directions]
    back = [-touch.X.to_child(push) for push in pushes]
    rows: Matrix = zeros(len(pushes), model.nv)
    # joints that carry both bodies feel none
    shared = set(model.ancestors(touch.first)) & set(model.ancestors(touch.second))
    for start, group in ((touch.first, pushes), (touch.second, back)):
        for j, forces in ancestors_with_forces(model, X, start, group):
            if j in shared:
                break
            for row, f in zip(rows, forces, strict=True):
                for dof, torque in zip(model.bodies[j].dofs, S[j].project(f), strict=True):
                    row[dof] = row[dof] + torque
    return rows
