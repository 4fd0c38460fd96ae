"""Robots by name: the built-in ones, and those of packages of models that are installed."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from importlib import resources
from pathlib import Path

__all__ = ["named_files"]


@lru_cache(maxsize=1)
def named_files() -> dict[str, Path]:
    """The file of each robot that has a name here; built-in robots win."""
    return {**_example_robot_data(), **_menagerie(), **_built_in()}


def _built_in() -> dict[str, Path]:
    folder = Path(str(resources.files("qddot"))) / "robots"
    return {f.stem: f for f in sorted(folder.iterdir()) if f.suffix in (".urdf", ".xml", ".sdf")}


def _example_robot_data() -> dict[str, Path]:
    """URDFs of example-robot-data by file name, found without importing it."""
    for entry in sys.path:
        folder = Path(entry) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            return {f.stem: f for f in sorted(folder.rglob("*.urdf"))}
    return {}


def _menagerie() -> dict[str, Path]:
    """Robots of mujoco-menagerie by folder name, found without importing it."""
    spec = importlib.util.find_spec("mujoco_menagerie")
    if spec is None or not spec.submodule_search_locations:
        return {}
    found: dict[str, Path] = {}
    for place in spec.submodule_search_locations:
        for scene in sorted(Path(place).rglob("scene.xml")):
            for file in sorted(scene.parent.glob("*.xml")):
                if not file.stem.startswith("scene"):
                    found.setdefault(file.stem, file)
    return found
