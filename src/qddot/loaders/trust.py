"""What a description file that is not trusted may read: its folder, its package, and packages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from qddot.errors import DescriptionError
from qddot.loaders.locate import find_package, resolve_uri

__all__ = ["WITHOUT_TRUST", "ReadableFolders", "Refused"]

WITHOUT_TRUST = "in a file that is not trusted (trust=True, --trust)"
_PACKAGE_FILES = ("package.xml", "manifest.xml", "model.config")
_PACKAGE_FOLDERS = ("meshes", "mjcf", "robots", "sdf", "urdf", "xacro")
_PATH_VARIABLES = ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "GZ_SIM_RESOURCE_PATH")


class Refused(Exception):
    """Something that only a trusted file may do, or more of it than any file may."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not allowed {WITHOUT_TRUST}")


class ReadableFolders:
    """Folders that a file may read from: its own or that of its package, and packages.

    With `trust` it may read any file.
    """

    def __init__(self, file: Path, trust: bool = False) -> None:
        self.file = file
        self.trust = trust
        # a file of a package that is installed by links has its neighbours at both places
        self.own = {_own_folder(file.absolute()).resolve(), _own_folder(file.resolve())}
        listed = os.pathsep.join(os.environ.get(name, "") for name in _PATH_VARIABLES)
        prefixes = [os.path.join(entry, "cmeel.prefix", "share") for entry in sys.path]
        chosen = [x for x in (*listed.split(os.pathsep), *prefixes) if os.path.isabs(x)]
        self.chosen = [Path(os.path.abspath(x)) for x in chosen]
        """Folders of packages that the user has set up: links in them are the user's own."""

    def find_folder(self, name: str, start: Path | None = None) -> Path:
        """The folder of a package; one found by its name alone must look like a package."""
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
            raise Refused(f"a package of the name {name!r}")
        folder = find_package(name, start or self.file.parent)
        real = folder.resolve()
        if not (_is_below(folder, self.chosen) or _is_below(real, self.own)):
            shown = any((real / part).is_dir() for part in _PACKAGE_FOLDERS)
            if _above_home(real) or not (shown or _has_package_file(real)):
                raise Refused(f"{str(folder)!r}, which has no package.xml, as a package")
            self.own.add(real)
        return folder

    def check_readable(self, name: str | Path) -> Path:
        """The file of a name, which must be in one of the folders."""
        try:
            real, plain = Path(name).resolve(), Path(os.path.abspath(name))
        except (OSError, RuntimeError, ValueError) as error:
            raise Refused(f"a file of the name {str(name)!r}") from error
        if self.trust or _is_below(real, self.own):
            return real
        if _is_below(plain, self.chosen):
            return plain
        listed = ", ".join(sorted(str(folder) for folder in self.own))
        raise Refused(f"reading {str(name)!r}, which is outside {listed} and all packages,")

    def allows(self, name: str | Path) -> bool:
        """Whether a file is in one of the folders."""
        try:
            self.check_readable(name)
        except Refused:
            return False
        return True

    def resolve_uri(self, uri: str, start: Path) -> Path:
        """The file of an address, as `locate.resolve_uri` finds it, in one of the folders."""
        scheme, separator, rest = uri.partition("://")
        if separator and scheme in ("package", "model") and not self.trust:
            package, _, path = rest.partition("/")
            if not package:
                raise DescriptionError("package://", "names no package")
            found = self.find_folder(package, start) / path
        else:
            found = resolve_uri(uri, start)
        self.check_readable(found)
        return found


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _own_folder(file: Path) -> Path:
    """The package that a file is in, else its folder."""
    inner = file.parent
    for folder in file.parents:
        named = folder != inner and inner.name in _PACKAGE_FOLDERS
        if not _above_home(folder) and (named or _has_package_file(folder)):
            return folder
        inner = folder
    return file.parent


def _has_package_file(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _PACKAGE_FILES)


def _above_home(folder: Path) -> bool:
    """Whether a folder has the files of the user, or of all, in it."""
    try:
        return Path.home().is_relative_to(folder)
    except RuntimeError:  # a user without a home
        return folder == Path(folder.anchor)
