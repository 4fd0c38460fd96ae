"""Meshes of a robot: read in a child process with limits, kept on disk by the content of the file.

All meshes of a robot are read by one child, so that its start is paid for once. Its answer is
numbers, which are checked: no reader of meshes runs in this process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qddot.compile.runtime.cache import Cache, Entry, cache_folder
from qddot.errors import DescriptionError
from qddot.loaders.isolation import ChildLimits, run_isolated

__all__ = ["MOST_MESH_BYTES", "UnreadableMesh", "mesh_cache", "read_meshes", "triangles_of"]

_VERSION = "mesh 2"
MOST_MESH_BYTES = 64 * 2**20
"""Bytes of the largest mesh file that is read."""
_LIMITS = ChildLimits(seconds=60.0, cpu_seconds=40, memory=2**30, output=256 * 2**20)
_MOST_SECONDS = 9.0
"""Processor time of a mesh, and of all meshes of a robot together that are not read in time."""
_TASKS = {"triangles": "read_triangles", "moments": "measure_meshes"}

Facts = Literal["triangles", "moments"]
MeshFile = tuple[Path, int, int]
"""A file, when it changed and its size."""


class UnreadableMesh(Exception):
    """A mesh that is not read, and why."""


def mesh_cache() -> Cache:
    """The cache of meshes on disk."""
    return Cache(cache_folder() / "meshes")


def read_meshes(files: Iterable[Path], facts: Facts) -> dict[Path, Entry | UnreadableMesh]:
    """The triangles or the moments of mesh files, or why there are none."""
    found: dict[Path, Entry | UnreadableMesh] = {}
    there: list[MeshFile] = []
    for file in dict.fromkeys(files):
        try:
            status = file.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableMesh("is not a file")
            if status.st_size > MOST_MESH_BYTES:
                raise UnreadableMesh(f"is larger than {MOST_MESH_BYTES // 2**20} MiB")
            if status.st_size == 0:
                raise UnreadableMesh("is empty")
            there.append((file, status.st_mtime_ns, status.st_size))
        except OSError as error:
            found[file] = UnreadableMesh(error.strerror or "cannot be read")
        except ValueError:  # a name with a NUL
            found[file] = UnreadableMesh("has a name that no file can have")
        except UnreadableMesh as error:
            found[file] = error
    return found | _read_batch(tuple(there), facts)


@lru_cache(maxsize=16)
def _read_batch(files: tuple[MeshFile, ...], facts: Facts) -> dict[Path, Entry | UnreadableMesh]:
    """The results of files that have not changed, from memory, disk or a child."""
    found: dict[Path, Entry | UnreadableMesh] = {}
    cache, keys = mesh_cache(), {}
    for file, _, _ in files:
        try:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            found[file] = UnreadableMesh(error.strerror or "cannot be read")
            continue
        keys[file] = f"{_VERSION} {facts} {file.suffix.lower()} {digest}"
        entry = cache.read(keys[file])
        if entry is not None:
            found[file] = _judge_entry(entry)
    missing = [file for file in keys if file not in found]
    if not missing:
        return found
    if importlib.util.find_spec("trimesh") is None:
        reason = "reading meshes needs trimesh: pip install 'qddot[audit]'"
        return found | {file: UnreadableMesh(reason) for file in missing}
    try:
        entries = _run_child(missing, facts)
    except DescriptionError as error:
        reason = f"is not read: one of {len(missing)} meshes that together {error.reason}"
        return found | {file: UnreadableMesh(reason) for file in missing}
    for file, entry in zip(missing, entries, strict=True):
        # what a limit or an installation keeps from being read may be read another time
        if not entry.facts.keys() & {"limit", "missing"}:
            cache.write(keys[file], entry)
        found[file] = _judge_entry(entry)
    return found


def _judge_entry(entry: Entry) -> Entry | UnreadableMesh:
    """The entry, or the reason that it gives."""
    reasons = [entry.facts[k] for k in ("unreadable", "limit", "missing") if k in entry.facts]
    return UnreadableMesh(str(reasons[0])[:300]) if reasons else entry


def _run_child(files: list[Path], facts: Facts) -> list[Entry]:
    """The entries of files from a child process."""
    task = f"qddot.loaders.mesh_reading:{_TASKS[facts]}"
    names = [str(file.absolute()) for file in files]
    answer = run_isolated(task, names, _MOST_SECONDS, file=files[0], limits=_LIMITS)
    wrong = DescriptionError(files[0], "have a reader that gave an answer that makes no sense")
    try:
        head, _, numbers = bytes(answer).partition(b"\n")
        rows = json.loads(head)
        if len(rows) != len(files) or not all(isinstance(row, dict) for row in rows):
            raise wrong
        entries, at = [], 0
        for row in rows:
            size = 0
            if "faces" in row:
                size = 24 * int(row["vertices"]) + 12 * int(row["faces"])
            entries.append(Entry(row, numbers[at : at + size]))
            at += size
        for entry in entries:
            if "faces" in entry.facts:
                triangles_of(entry)
            elif "parts" in entry.facts:
                _check_moments(entry.facts)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise wrong from error
    return entries


def triangles_of(entry: Entry) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) in metres and faces (m, 3) of an entry; ValueError if these are none."""
    n, m = int(entry.facts["vertices"]), int(entry.facts["faces"])
    if n < 0 or m < 0 or len(entry.code) != 24 * n + 12 * m:
        raise ValueError("the size of a mesh is not that of its numbers")
    vertices = np.frombuffer(entry.code, "<f8", 3 * n).reshape(n, 3)
    faces = np.frombuffer(entry.code, "<u4", 3 * m, 24 * n).reshape(m, 3)
    if not np.isfinite(vertices).all() or (m and int(faces.max()) >= n):
        raise ValueError("a mesh has numbers that are none, or corners that do not exist")
    return vertices.astype(float), faces.astype(np.int64)


def _check_moments(facts: dict[str, Any]) -> None:
    """Refuse moments that are not numbers, or not as many as they should be."""
    shapes: list[tuple[Any, tuple[int, ...]]] = [
        (np.array(facts["points"], float), (len(facts["points"]), 3))
    ]
    for volume, com, spread in facts["parts"].values():
        shapes += [(np.array(volume, float), ()), (np.array(com, float), (3,))]
        shapes.append((np.array(spread, float), (3, 3)))
    if any(x.shape != shape for x, shape in shapes):
        raise ValueError("moments of a mesh have the wrong shape")
