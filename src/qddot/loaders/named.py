"""Robots by name: the built-in ones, and those of packages of models that are installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import Counter
from functools import lru_cache
from importlib import resources
from pathlib import Path

from qddot.errors import DescriptionError, UnknownName

__all__ = ["locate", "named_files", "robot_names"]


def robot_names() -> list[str]:
    """The names that can be loaded here."""
    return sorted({*named_files(), *_menagerie_names()})


def locate(name: str) -> Path:
    """The file of a robot by name; a Menagerie robot is fetched by its package on first use."""
    if name in named_files():
        return named_files()[name]
    if name not in _menagerie_names():
        raise UnknownName("robot", name, robot_names(), listing="`qddot robots`")
    try:
        robot = importlib.import_module("mujoco_menagerie").get(name)
        return Path(robot.xml(robot.default_model))
    except Exception as error:  # what a download may raise is the package's own affair
        raise DescriptionError(name, f"mujoco-menagerie cannot provide it: {error}") from error


@lru_cache(maxsize=1)
def named_files() -> dict[str, Path]:
    """The file of each robot that is on this machine; built-in robots win."""
    return {**_example_robot_data(), **_built_in()}


def _built_in() -> dict[str, Path]:
    folder = Path(str(resources.files("qddot"))) / "robots"
    return {f.stem: f for f in sorted(folder.iterdir()) if f.suffix in (".urdf", ".xml", ".sdf")}


def _example_robot_data() -> dict[str, Path]:
    """URDFs of example-robot-data, found without importing it.

    A robot is called by its file, or by its folder where several files have the same name.
    """
    for entry in sys.path:
        folder = Path(entry) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            files = sorted(folder.rglob("*.urdf"))
            often = Counter(f.stem for f in files)
            return {
                f.stem if often[f.stem] == 1 else _folder_name(f.relative_to(folder)): f
                for f in files
            }
    return {}


def _folder_name(file: Path) -> str:
    return file.parts[0].removesuffix("_description")


def _menagerie_names() -> list[str]:
    """Robots that the package mujoco-menagerie knows, if it is installed; nothing is fetched."""
    if importlib.util.find_spec("mujoco_menagerie") is None:
        return []
    return list(importlib.import_module("mujoco_menagerie").names())
