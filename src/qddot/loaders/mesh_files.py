"""Mesh files as triangles, through trimesh."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

__all__ = ["read_surface"]


def read_surface(trimesh: Any, file: Path) -> Any:
    """The triangles of a mesh file in metres, as a trimesh; raises what its readers raise."""
    logging.getLogger("trimesh").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        surface = trimesh.load(file, force="mesh")
    # the unit of a COLLADA file in metres; other formats have no unit
    unit = str(surface.metadata.get("units") or "meters")
    surface.apply_scale(float(unit.split("*")[0]) if "*" in unit else 1.0)
    return surface
