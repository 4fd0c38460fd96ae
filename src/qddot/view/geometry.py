"""Triangles of a robot: its shapes from the file it came from, a skeleton where it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from qddot.compile.runtime.cache import Entry
from qddot.errors import QddotError
from qddot.loaders.load import read_root
from qddot.loaders.shapes import Shape, Shapes, shapes_of_file
from qddot.model.model import WORLD, Body, Model
from qddot.robot.meshes import UnreadableMesh, read_meshes, triangles_of
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Transform

__all__ = [
    "Part",
    "RobotGeometry",
    "box_mesh",
    "inertia_part",
    "place_points",
    "robot_geometry",
    "skeleton_parts",
    "sphere_mesh",
]

Triangles = tuple[np.ndarray, np.ndarray]
"""Vertices (n, 3) and faces (m, 3) of indices."""
_SECTIONS = 24
_SMALL_SHAPE = 0.2
"""Extent of the shapes of a body, by that of its bones, that shows the body."""
_GREYS = ((0.75, 0.78, 0.82), (0.45, 0.56, 0.70))


@dataclass(frozen=True)
class Part:
    """Triangles fixed to a body, in its coordinates; `body` is WORLD for what does not move."""

    body: int
    vertices: np.ndarray
    faces: np.ndarray
    rgba: tuple[float, ...]


@dataclass(frozen=True)
class RobotGeometry:
    """Parts to draw, whether they are the robot's own shapes, and lines on what is missing.

    `size` is about the length of the robot in metres, by which markers are scaled.
    """

    parts: tuple[Part, ...]
    has_shapes: bool
    missing: tuple[str, ...]
    size: float


def robot_geometry(robot: Robot) -> RobotGeometry:
    """The visual shapes of a robot, those for collisions where a link has no others.

    Bodies without shapes, or whose mesh files are not there, are bones with inertia boxes.
    """
    model = robot.model
    shapes = Shapes()
    if model.source:
        try:
            shapes = shapes_of_file(
                model.source, read_root(model.source, model.trusted), model.trusted
            )
        except QddotError as error:
            shapes = Shapes(unread=(str(error),))
    # the floor of a scene is no part of the robot
    missing = [line for line in shapes.unread if "plane is not" not in line]
    found = shapes.found
    seen = {shape.link for shape in found if shape.role == "visual"}
    parts: list[Part] = []
    shown = [s for s in found if (s.role == "collision") != (s.link in seen)]
    meshes = read_meshes((s.file for s in shown if s.kind == "mesh" and s.file), "triangles")
    for shape in shown:
        # triangles on the body that the link belongs to
        body, placement = WORLD, shape.placement
        try:
            if shape.link is not None:
                frame = model.frame(shape.link)
                body, placement = frame.body, frame.placement @ placement
            vertices, faces = _mesh_of_shape(shape, meshes)
            rgba = shape.rgba if shape.rgba and shape.rgba[3] > 0 else (*_GREYS[body % 2], 1.0)
            parts.append(Part(body, place_points(placement, vertices), faces, tuple(rgba)))
        except (ValueError, QddotError) as error:
            missing.append(f"{shape.link or 'world'}: {error}")
    # bodies without a shape, unless they are joints in one place: bones and inertia boxes;
    # a shape much smaller than its body, such as that of a sensor, does not show it
    bones, orange = skeleton_parts(model), (0.85, 0.50, 0.20, 0.35)
    extents, needed = _body_extents(parts), _body_extents(bones)
    boxes = (inertia_part(i, body, "box", orange) for i, body in enumerate(model.bodies))
    bones += [box for box in boxes if box is not None]
    shaped = {
        body
        for body, extent in extents.items()
        if body == WORLD or extent > _SMALL_SHAPE * needed.get(body, 0.0)
    }
    parts += [part for part in bones if part.body not in shaped]
    # size: the diagonal of the box around the robot in its neutral configuration
    poses = robot.call("body_poses", robot.neutral()) if robot.nv else np.empty((0, 4, 4))
    points = [np.zeros((1, 3))]
    for part in parts:
        X = np.eye(4) if part.body == WORLD else poses[part.body]
        if part.body != WORLD or not robot.nv:
            points.append(part.vertices @ X[:3, :3].T + X[:3, 3])
    every = np.concatenate(points)
    diagonal = float(np.linalg.norm(every.max(axis=0) - every.min(axis=0)))
    size = diagonal if diagonal > 1e-6 else 1.0
    return RobotGeometry(tuple(parts), bool(shaped - {WORLD}), tuple(missing), size)


def _body_extents(parts: Iterable[Part]) -> dict[int, float]:
    """The diagonal of the box around the parts of each body."""
    points: dict[int, list[np.ndarray]] = {}
    for part in parts:
        points.setdefault(part.body, []).append(part.vertices)
    return {
        body: float(np.linalg.norm(np.ptp(np.concatenate(found), axis=0)))
        for body, found in points.items()
    }


def _mesh_of_shape(shape: Shape, meshes: Mapping[Path, Entry | UnreadableMesh]) -> Triangles:
    """Triangles of a shape about its own origin."""
    size = shape.size
    if shape.kind == "box":
        return box_mesh(size)
    if shape.kind == "sphere":
        return sphere_mesh(size * 3)
    if shape.kind == "ellipsoid":
        return sphere_mesh(size)
    if shape.kind == "mesh":
        if shape.file is None:
            raise ValueError(f"mesh {shape.address!r} is not found")
        mesh = meshes[shape.file]
        if isinstance(mesh, UnreadableMesh):
            raise ValueError(f"mesh {shape.file.name} {mesh}")
        vertices, faces = triangles_of(mesh)
        return vertices * np.asarray(size), faces
    radius, half = size[0], 0.5 * size[1]
    if shape.kind == "cylinder":
        return _revolve([(0.0, -half), (radius, -half), (radius, half), (0.0, half)])
    turn = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 13)
    ends = np.where(turn < 0, -half, half)
    return _revolve(np.stack([radius * np.cos(turn), radius * np.sin(turn) + ends], axis=1))


def box_mesh(edges: Sequence[float]) -> Triangles:
    """A box about the origin."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [half for a, b, c, d in quads for half in ((a, b, c), (a, c, d))]
    return corners * (0.5 * np.asarray(edges)), np.array(faces)


def sphere_mesh(radii: Sequence[float]) -> Triangles:
    """An ellipsoid about the origin."""
    turn = np.linspace(-0.5 * np.pi, 0.5 * np.pi, _SECTIONS // 2 + 1)
    vertices, faces = _revolve(np.stack([np.cos(turn), np.sin(turn)], axis=1))
    return vertices * np.asarray(radii), faces


def _revolve(profile: Iterable[Sequence[float]]) -> Triangles:
    """The surface that a profile of (radius, z), from below to above, sweeps about z."""
    r, z = np.array([tuple(p) for p in profile]).T
    turn = np.arange(_SECTIONS) * (2.0 * np.pi / _SECTIONS)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    vertices = np.concatenate(
        [np.column_stack([a * ring, np.full(_SECTIONS, b)]) for a, b in zip(r, z, strict=True)]
    )
    faces = []
    for k in range(len(r) - 1):
        for i in range(_SECTIONS):
            a, b = k * _SECTIONS + i, k * _SECTIONS + (i + 1) % _SECTIONS
            faces += [(a, b, b + _SECTIONS), (a, b + _SECTIONS, a + _SECTIONS)]
    return vertices, np.array(faces)


def place_points(X: Transform, points: np.ndarray) -> np.ndarray:
    """Points of a child frame in parent coordinates."""
    R, p = np.array([list(row) for row in X.R], dtype=float), np.array(list(X.p), dtype=float)
    return np.asarray(points @ R.T + p)


def skeleton_parts(model: Model) -> list[Part]:
    """A ball at each joint, and a rod from it to each joint and end that the body carries."""
    ends: dict[int, list[np.ndarray]] = {}
    for body in model.bodies:
        ends.setdefault(body.parent, []).append(np.array(list(body.placement.p), dtype=float))
    parents = {body.parent for body in model.bodies}
    # a chain that ends is drawn to its farthest frame
    for i in range(model.nb):
        if i not in parents:
            tips = [np.array(list(f.placement.p), float) for f in model.frames if f.body == i]
            ends[i] = sorted(tips, key=lambda p: float(np.linalg.norm(p)))[-1:]
    lengths = [float(np.linalg.norm(p)) for points in ends.values() for p in points]
    radius = 0.04 * max([x for x in lengths if x > 1e-6], default=0.25)
    parts = []
    for i in range(model.nb):
        # joints in one place, as of a universal joint, are one ball
        if i in ends and not any(np.linalg.norm(p) > 1e-6 for p in ends[i]):
            continue
        parts.append(Part(i, *sphere_mesh([1.6 * radius] * 3), (0.23, 0.44, 0.71, 1.0)))
    for i, points in ends.items():
        for p in points:
            length = float(np.linalg.norm(p))
            if length > 1e-6:
                # a cylinder along z, turned towards the point
                profile = [(0.0, 0.0), (radius, 0.0), (radius, length), (0.0, length)]
                vertices, faces = _revolve(profile)
                z = p / length
                x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
                x /= np.linalg.norm(x)
                vertices = vertices @ np.stack([x, np.cross(z, x), z])
                parts.append(Part(i, vertices, faces, (0.55, 0.58, 0.62, 1.0)))
    return parts


def inertia_part(
    index: int, body: Body, form: Literal["box", "ellipsoid"], rgba: tuple[float, ...]
) -> Part | None:
    """The box or ellipsoid of uniform density with the mass and inertia of a body.

    None for a body without extent; impossible moments are drawn as nearly as can be.
    """
    inertia: Inertia = body.inertia
    m = float(inertia.mass)
    if not m > 0:
        return None
    com = np.array(list(inertia.com), dtype=float)
    about_origin = np.array([list(row) for row in inertia.I.rows], dtype=float)
    central = about_origin - m * (com @ com * np.eye(3) - np.outer(com, com))
    # mean squares of the mass along the principal axes
    moments, axes = np.linalg.eigh(central)
    squares = np.maximum(0.5 * moments.sum() - moments, 0.0) / m
    if not np.isfinite(squares).all() or not squares.any():
        return None
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    lengths = np.sqrt(squares * (12.0 if form == "box" else 5.0))
    vertices, faces = box_mesh(lengths) if form == "box" else sphere_mesh(lengths)
    return Part(index, vertices @ axes.T + com, faces, rgba)
