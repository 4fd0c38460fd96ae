"""Mesh files as solids, through trimesh, with results kept on disk by the content of the file."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from qddot.compile.runtime.cache import Cache, Entry, cache_folder
from qddot.loaders.mesh_files import read_surface
from qddot.loaders.opened import note_opened
from qddot.verify.audit.solids import Array, MassSolid

__all__ = ["MOST_MESH_BYTES", "Mesh", "UnreadableMesh", "mesh_cache", "read_mesh"]

_VERSION = "mesh 1"
MOST_MESH_BYTES = 256 * 2**20
"""Bytes of the largest mesh file that is read."""
_MOST_REPAIRED = 200_000
_MOST_POINTS = 400
_CLOSED = (0.02, 1.02)
_READERS = ("collada", "networkx", "scipy")


class UnreadableMesh(Exception):
    """A mesh that gives no solid, and why."""


@dataclass(frozen=True)
class Mesh:
    """The solids of a mesh file.

    `solid` is the volume that the surface encloses (None where it is open and encloses none),
    `hull` its convex hull, `shell` the surface as a thin wall (its `volume` is an area).
    """

    solid: MassSolid | None
    hull: MassSolid
    shell: MassSolid
    closed: bool


def mesh_cache() -> Cache:
    """The cache of measured meshes on disk."""
    return Cache(cache_folder() / "meshes")


def read_mesh(file: Path) -> Mesh:
    """The solids of a mesh file; raises UnreadableMesh with the reason."""
    try:
        status = file.stat()
    except OSError as error:
        raise UnreadableMesh(error.strerror or "cannot be read") from error
    note_opened(file)
    return _read_cached(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _read_cached(file: Path, _changed: int, size: int) -> Mesh:
    """The solids of a mesh file that has not changed, from memory, disk or trimesh."""
    if size > MOST_MESH_BYTES:
        raise UnreadableMesh(f"is larger than {MOST_MESH_BYTES // 2**20} MiB")
    if size == 0:
        raise UnreadableMesh("is empty")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UnreadableMesh(error.strerror or "cannot be read") from error
    # by the content of the file
    key = f"{_VERSION} {file.suffix.lower()} {hashlib.sha256(content).hexdigest()}"
    cache = mesh_cache()
    entry = cache.read(key)
    if entry is None:
        entry = Entry(_measure_mesh(file), b"")
        cache.write(key, entry)
    facts = entry.facts
    if "unreadable" in facts:
        raise UnreadableMesh(facts["unreadable"])
    points = np.array(facts["points"], float)
    parts = {
        name: MassSolid(volume, np.array(com), np.array(spread), points)
        for name, (volume, com, spread) in facts["parts"].items()
    }
    return Mesh(parts.get("solid"), parts["hull"], parts["shell"], facts["closed"])


def _measure_mesh(file: Path) -> dict[str, Any]:
    """The facts of a mesh as plain data: moments of solid, hull and shell, points of the hull."""
    try:
        import trimesh
    except ImportError:
        raise UnreadableMesh("reading meshes needs trimesh: pip install 'qddot[audit]'") from None
    try:
        surface = read_surface(trimesh, file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # the facts of a surface in metres, holes filled where it has some
            triangles = surface.triangles
            if len(triangles) == 0 or not np.isfinite(triangles).all():
                return {
                    "unreadable": "has no triangles" if len(triangles) == 0 else "has NaN vertices"
                }
            hull = surface.convex_hull
            if not surface.is_watertight and len(surface.faces) <= _MOST_REPAIRED:
                trimesh.repair.fill_holes(surface)
            solid, full = _volume_moments(surface.triangles), _volume_moments(hull.triangles)
            parts = {"hull": full, "shell": _surface_moments(triangles)}
            # of many points of the hull those that are extreme in evenly spread directions
            points = np.asarray(hull.vertices)
            if len(points) > _MOST_POINTS:
                k = np.arange(_MOST_POINTS) + 0.5
                z, turn = 1 - 2 * k / _MOST_POINTS, np.pi * (1 + 5**0.5) * k
                flat = np.sqrt(1 - z * z)
                directions = np.stack([flat * np.cos(turn), flat * np.sin(turn), z], 1)
                points = points[np.unique((points @ directions.T).argmax(0))]
            # an open surface encloses next to nothing, or more than its hull
            share = solid[0] / full[0]
            if _CLOSED[0] <= share <= _CLOSED[1] and np.linalg.eigvalsh(solid[2])[0] > 0:
                parts["solid"] = solid
            return {
                "parts": {
                    k: [v, com.tolist(), spread.tolist()] for k, (v, com, spread) in parts.items()
                },
                "points": points.tolist(),
                "closed": bool(surface.is_watertight and surface.is_winding_consistent),
            }
    except ModuleNotFoundError as error:
        if error.name not in _READERS:
            return {"unreadable": "cannot be read: its content is not what its name says"}
        raise UnreadableMesh(f"reading it needs {error.name}: pip install 'qddot[audit]'") from None
    except Exception as error:  # readers of a dozen formats raise what they like
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        return {"unreadable": f"cannot be read: {reason}"}


def _volume_moments(triangles: Array) -> tuple[float, Array, Array]:
    """Moments of the volume within triangles: tetrahedra from a common point, with their sign."""
    centre = triangles.reshape(-1, 3).mean(0)
    a, b, c = np.moveaxis(triangles - centre, 1, 0)
    volumes = np.einsum("ni,ni->n", a, np.cross(b, c)) / 6
    total = float(volumes.sum())
    if total < 0:
        volumes, total = -volumes, -total
    if total == 0:
        return 0.0, centre, np.zeros((3, 3))
    s = a + b + c
    com = volumes @ s / 4 / total
    squares = sum(np.einsum("n,ni,nj->ij", volumes, x, x) for x in (a, b, c, s))
    return total, com + centre, squares / 20 / total - np.outer(com, com)


def _surface_moments(triangles: Array) -> tuple[float, Array, Array]:
    """Moments of the surface as a wall of one thickness."""
    a, b, c = np.moveaxis(triangles, 1, 0)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    total = float(areas.sum())
    centre = (a + b + c) / 3
    com = areas @ centre / total
    a, b, c = a - com, b - com, c - com
    s = a + b + c
    squares = sum(np.einsum("n,ni,nj->ij", areas, x, x) for x in (a, b, c, s))
    return total, com, squares / 12 / total
