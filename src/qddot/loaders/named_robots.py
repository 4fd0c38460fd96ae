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
from qddot.loaders.formats import SUFFIXES

__all__ = ["locate_robot", "named_files", "robot_names"]


def robot_names() -> list[str]:
    """The names that can be loaded here."""
    return sorted({*named_files(), *_menagerie_names()})


def locate_robot(name: str) -> Path:
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
    folder = Path(str(resources.files("qddot"))) / "robots"
    own = {f.stem: f for f in sorted(folder.iterdir()) if f.suffix in SUFFIXES}
    return {**_example_robot_data(), **own}


def _example_robot_data() -> dict[str, Path]:
    """URDFs of example-robot-data, found without importing it.

    A robot is called by its file, or by its folder where several files have the same name.
    """
    for entry in sys.path:
        folder = Path(entry) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            files = sorted(folder.rglob("*.urdf"))
            often = Counter(f.stem for f in files)
            named = {}
            for file in files:
                first = file.relative_to(folder).parts[0].removesuffix("_description")
                named[file.stem if often[file.stem] == 1 else first] = file
            return named
    return {}


def _menagerie_names() -> list[str]:
    """Robots that the package mujoco-menagerie knows, if it is installed; nothing is fetched."""
    if importlib.util.find_spec("mujoco_menagerie") is None:
        return []
    return list(importlib.import_module("mujoco_menagerie").names())
