"""Mesh files as triangles and as moments, through trimesh: tasks of a child process.

Readers of meshes trust their files: a few kilobytes may ask for gigabytes or hours. What is not
read has a reason: "unreadable" for what is wrong with a file, "missing" for a package that is not
installed, "limit" for a file that takes too long or too much.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_BYTES", "MOST_TRIANGLES", "measure_meshes", "read_triangles"]

MOST_BYTES = 64 * 2**20
MOST_TRIANGLES = 1_000_000
_MOST_OF_ALL = 4_000_000
_MOST_REPAIRED = 200_000
_MOST_POINTS = 400
_CLOSED = (0.02, 1.02)
_READERS = ("collada", "networkx", "scipy")
_ARCHIVES = (".bz2", ".gz", ".tar", ".zae", ".zip")

Array = NDArray[np.float64]


class _Unread(Exception):
    """Why a mesh is not read: the kind of reason and its words."""


class _TooLong(BaseException):
    """Processor time is over; no reader of trimesh catches this as an error of a file."""


def read_triangles(files: list[str], seconds: float) -> bytes:
    """The vertices and faces of files: rows of facts as JSON on a line, then all the numbers.

    `seconds` is the processor time of a file, and of all together that are not read in time.
    """
    rows: list[dict[str, Any]] = []
    pieces: list[bytes] = []
    for file, surface in _read_each(files, seconds):
        if isinstance(surface, dict):
            rows.append(surface)
            continue
        vertices = np.ascontiguousarray(surface.vertices, "<f8")
        faces = np.ascontiguousarray(surface.faces, "<u4")
        rows.append({"file": file, "vertices": len(vertices), "faces": len(faces)})
        pieces += [vertices.tobytes(), faces.tobytes()]
    return json.dumps(rows).encode() + b"\n" + b"".join(pieces)


def measure_meshes(files: list[str], seconds: float) -> bytes:
    """The facts of files as JSON: moments of solid, hull and shell, points of the hull."""
    return json.dumps([facts for _, facts in _read_each(files, seconds, _measure_surface)]).encode()


def _read_each(files: list[str], seconds: float, use: Any = None) -> Iterator[tuple[str, Any]]:
    """Each file with its surface, or with what `use` makes of that; or why it is not read."""
    import trimesh

    left, triangles = seconds, 0
    for file in files:
        begin, failed = time.process_time(), True
        try:
            with _time_limit(left):
                surface = _read_surface(trimesh, Path(file))
                triangles += len(surface.faces)
                if len(surface.faces) > MOST_TRIANGLES or triangles > _MOST_OF_ALL:
                    raise _Unread("limit", "has too many triangles")
                result = surface if use is None else use(trimesh, surface)
            failed = False
        except _TooLong:
            reason = f"takes more than {seconds:g} s of processor time to read"
            result = {"limit": f"{reason}, or others of the robot do"}
        except MemoryError:
            result = {"limit": "needs too much memory to be read"}
        except _Unread as error:
            result = {error.args[0]: error.args[1]}
        except ModuleNotFoundError as error:
            result = {"unreadable": "cannot be read: its content is not what its name says"}
            if error.name in _READERS:
                reason = f"reading it needs {error.name}: pip install 'qddot[audit]'"
                result = {"missing": reason}
        except Exception as error:  # readers of a dozen formats raise what they like
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            result = {"unreadable": f"cannot be read: {reason}"}
        if failed:
            left -= time.process_time() - begin
        yield file, result
        del result


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _TooLong after this processor time, again and again; on systems that have a timer."""
    if seconds <= 0.0:
        raise _TooLong
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.25)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _read_surface(trimesh: Any, file: Path) -> Any:
    """The triangles of a mesh file in metres, as a trimesh."""
    kind = file.suffix.lower()
    if kind in _ARCHIVES:
        raise _Unread("unreadable", "cannot be read: it is an archive")
    content = file.read_bytes()
    if len(content) > MOST_BYTES:
        raise _Unread("unreadable", f"is larger than {MOST_BYTES // 2**20} MiB")
    logging.getLogger("trimesh").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # from bytes, so that materials, textures and whatever else a mesh names are not read
        surface = trimesh.load(
            io.BytesIO(content), file_type=kind[1:], force="mesh", skip_materials=True
        )
        vertices, faces = np.asarray(surface.vertices), np.asarray(surface.faces)
    if not len(faces):
        raise _Unread("unreadable", "has no triangles")
    if not np.isfinite(vertices).all():
        raise _Unread("unreadable", "has NaN vertices")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise _Unread("unreadable", "has triangles of vertices that do not exist")
    # the unit of a COLLADA file in metres; other formats have no unit
    unit = str(surface.metadata.get("units") or "meters")
    surface.apply_scale(float(unit.split("*")[0]) if "*" in unit else 1.0)
    if not np.isfinite(surface.vertices).all():
        raise _Unread("unreadable", "has NaN vertices")
    return surface


def _measure_surface(trimesh: Any, surface: Any) -> dict[str, Any]:
    """The facts of a surface in metres as plain data, holes filled where it has some."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        triangles = surface.triangles
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
