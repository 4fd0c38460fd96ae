"""Finding packages and files: package:// addresses, and folders of ROS packages without ROS."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from qddot.errors import DescriptionError

__all__ = [
    "PACKAGE_FOLDERS",
    "PACKAGE_HINT",
    "above_home",
    "chosen_folders",
    "find_package",
    "has_package_file",
    "own_folder",
    "resolve_uri",
]

PACKAGE_FOLDERS = ("meshes", "robots", "urdf", "xacro")
"""Folders by which a package is known that has no package.xml."""
_PACKAGE_FILES = ("package.xml", "manifest.xml")
_PATH_VARIABLES = ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "GZ_SIM_RESOURCE_PATH")
PACKAGE_HINT = "packages are looked for above the folder of the file and in ROS_PACKAGE_PATH"


def _candidate_folders(package: str, start: Path) -> Iterator[Path]:
    """Folders in which a package may lie, nearest first."""
    for folder in (start, *start.parents):
        if folder.name == package:
            yield folder
        yield folder / package
    for variable in _PATH_VARIABLES:
        for entry in filter(None, os.environ.get(variable, "").split(os.pathsep)):
            if Path(entry).name == package:
                yield Path(entry)
            yield Path(entry) / package
            yield Path(entry) / "share" / package
    for entry in sys.path:
        share = Path(entry) / "cmeel.prefix" / "share"
        yield share / package
        yield share / "example-robot-data" / "robots" / package


def find_package(package: str, start: Path) -> Path:
    """The folder of a package: upward from a folder, then the usual paths."""
    if not package:
        raise DescriptionError("package://", "names no package")
    tried = []
    for folder in _candidate_folders(package, start.resolve()):
        if folder.is_dir():
            return folder
        tried.append(str(folder))
    listed = "\n  ".join(tried)
    raise DescriptionError(f"package://{package}", f"package not found; tried\n  {listed}")


def resolve_uri(uri: str, start: Path) -> Path:
    """The file of a package://, model://, file:// or relative address."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return start / uri
    if scheme == "file":
        return Path(unquote(rest))
    if scheme not in ("package", "model"):
        raise DescriptionError(
            uri, "only package://, model:// and file:// addresses are understood"
        )
    package, _, path = rest.partition("/")
    return find_package(package, start) / path


def own_folder(file: Path) -> Path:
    """The package that a file is in, else its folder."""
    inner = file.parent
    for folder in file.parents:
        named = folder != inner and inner.name in PACKAGE_FOLDERS
        if not above_home(folder) and (named or has_package_file(folder)):
            return folder
        inner = folder
    return file.parent


def has_package_file(folder: Path) -> bool:
    """Whether a folder says that it is a package."""
    return any((folder / name).is_file() for name in _PACKAGE_FILES)


def above_home(folder: Path) -> bool:
    """Whether a folder has the files of the user, or of all, in it."""
    try:
        return Path.home().is_relative_to(folder)
    except RuntimeError:  # a user without a home
        return folder == Path(folder.anchor)


def chosen_folders() -> list[Path]:
    """Folders of packages that the user has set up, or installed with Python packages."""
    listed = os.pathsep.join(os.environ.get(name, "") for name in _PATH_VARIABLES)
    prefixes = [os.path.join(entry, "cmeel.prefix", "share") for entry in sys.path]
    chosen = [x for x in (*listed.split(os.pathsep), *prefixes) if os.path.isabs(x)]
    return [Path(os.path.abspath(x)) for x in chosen]
