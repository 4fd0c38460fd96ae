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
    named = {}
    # URDFs of example-robot-data, found without importing it
    places = (
        Path(x) / "cmeel.prefix" / "share" / "example-robot-data" / "robots" for x in sys.path
    )
    shared = next((place for place in places if place.is_dir()), None)
    if shared is not None:
        files = sorted(shared.rglob("*.urdf"))
        often = Counter(f.stem for f in files)
        # called by their file, or by their folder where several files have the same name
        for file in files:
            first = file.relative_to(shared).parts[0].removesuffix("_description")
            named[file.stem if often[file.stem] == 1 else first] = file
    folder = Path(str(resources.files("qddot"))) / "robots"
    own = {f.stem: f for f in sorted(folder.iterdir()) if f.suffix in SUFFIXES}
    return {**named, **own}


def _menagerie_names() -> list[str]:
    """Robots that the package mujoco-menagerie knows, if it is installed; nothing is fetched."""
    if importlib.util.find_spec("mujoco_menagerie") is None:
        return []
    return list(importlib.import_module("mujoco_menagerie").names())
