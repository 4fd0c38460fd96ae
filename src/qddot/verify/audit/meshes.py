"""Mesh files as solids, measured in a child process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qddot.robot.meshes import UnreadableMesh, read_meshes
from qddot.verify.audit.solids import MassSolid

__all__ = ["Mesh", "UnreadableMesh", "read_mesh", "read_solids"]


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


def read_mesh(file: Path) -> Mesh:
    """The solids of a mesh file; raises UnreadableMesh with the reason."""
    mesh = read_solids([file])[file]
    if isinstance(mesh, UnreadableMesh):
        raise mesh
    return mesh


def read_solids(files: Iterable[Path]) -> dict[Path, Mesh | UnreadableMesh]:
    """The solids of mesh files, or why there are none."""
    meshes: dict[Path, Mesh | UnreadableMesh] = {}
    for file, found in read_meshes(files, "moments").items():
        if isinstance(found, UnreadableMesh):
            meshes[file] = found
            continue
        facts = found.facts
        points = np.array(facts["points"], float)
        parts = {
            name: MassSolid(volume, np.array(com), np.array(spread), points)
            for name, (volume, com, spread) in facts["parts"].items()
        }
        meshes[file] = Mesh(parts.get("solid"), parts["hull"], parts["shell"], facts["closed"])
    return meshes
