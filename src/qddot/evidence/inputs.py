"""The files that a run read: found, digested, and kept so that a record can run again alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from qddot.errors import QddotError, RecordError
from qddot.evidence.privacy import names_home
from qddot.evidence.record import Input
from qddot.files import write_whole
from qddot.loaders import describe
from qddot.loaders.description import suppress_warnings
from qddot.loaders.load import locate_source
from qddot.loaders.locate import above_home, chosen_folders, has_package_file, own_folder
from qddot.loaders.opened import note_opened, watch_opened
from qddot.robot.meshes import MOST_MESH_BYTES
from qddot.verify.audit.read_description import read_robot

__all__ = ["MOST_KEPT", "OUTSIDE", "gather_inputs", "number_sources", "restore_inputs"]

MOST_KEPT = 32 * 2**20
"""Bytes of inputs that are kept in a record; of what is beyond, only the digest is."""
OUTSIDE = "outside"
"""The folder, in places of inputs, of files that do not belong to the robot: never kept."""
_PLACE = re.compile(r"(?!/|.*(?:^|/)\.)[^\x00-\x1f\\:*?\"<>|]{1,400}")
"""Places below a folder on every system: no dots at the begin of a part, no drives."""


def gather_inputs(
    sources: Sequence[str | Path], trust: bool = False, meshes: bool = False
) -> tuple[Input, ...]:
    """The files that runs on these sources open, with the content of those that belong to them.

    A source is a file or the name of a robot. A description is loaded to see which files that
    opens, with `meshes` also those that an audit of it measures. Kept is what lies, links
    followed, below the folder or the package of the source, or in packages on the package paths.
    All else is named and digested only, as are hidden files and those that name the user's home.
    """
    # sources first, in the order of their numbers; those of one tree share its place
    paths = list(dict.fromkeys(map(_locate, sources)))
    trees = [own_folder(path) for path in paths]
    files = dict(zip(paths, trees, strict=True))
    for path, tree in zip(paths, trees, strict=True):
        for file in _opened_files(path, trust, meshes):
            files.setdefault(Path(os.path.normpath(file)), tree)
    found: dict[str, Input] = {}
    left = MOST_KEPT
    for file, tree in files.items():
        if not file.is_file():
            continue
        place = _place_of(file, tree)
        try:
            digest, size, content = _read_input(file, -1 if place is None else left)
        except OSError:  # nor could whoever would have read it
            continue
        if content is not None and names_home(content):
            content = None
        left -= len(content or b"")
        name = f"{trees.index(tree)}/{place or f'{OUTSIDE}/{file.name}'}"
        while name in found:
            name = str(PurePosixPath(name).with_name(f"_{PurePosixPath(name).name}"))
        found[name] = Input(file.name, digest, size, name, content=content)
    return tuple(found.values())


def _read_input(file: Path, most: int) -> tuple[str, int, bytes | None]:
    """SHA-256 and bytes of a file, and its content where it has no more than `most`."""
    state, size, kept = hashlib.sha256(), 0, bytearray()
    with open(file, "rb") as stream:
        while block := stream.read(2**20):
            state.update(block)
            size += len(block)
            if size <= most:
                kept += block
    return state.hexdigest(), size, bytes(kept) if size <= most else None


def number_sources(sources: Sequence[str | Path]) -> dict[str, int]:
    """The number that each source has among the inputs of a run."""
    paths = [_locate(source) for source in sources]
    order = list(dict.fromkeys(paths))
    return {str(x): order.index(path) for x, path in zip(sources, paths, strict=True)}


def _locate(source: str | Path) -> Path:
    """The absolute path of a source, links not followed."""
    path = Path(source) if Path(source).is_file() else locate_source(source)
    return Path(os.path.normpath(path.absolute()))


def _opened_files(path: Path, trust: bool, meshes: bool) -> list[Path]:
    """The files that loading a description opens; none where a file is no description."""
    with open(path, "rb") as stream:
        if not stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return []
    with watch_opened() as opened, suppress_warnings(), contextlib.suppress(QddotError):
        describe(path, trust=trust, isolate=True)
        for link in read_robot(path, trust).links.values() if meshes else ():
            shapes = [x.file for x in link.shapes if x.file is not None and x.file.is_file()]
            # an audit opens neither empty nor huge files, such as those of devices
            note_opened(*(x for x in shapes if 0 < x.stat().st_size <= MOST_MESH_BYTES))
    return list(opened)


def _place_of(file: Path, tree: Path) -> str | None:
    """The place of a file in the tree of its source or in a package; None for files outside.

    Packages are those on the package paths. A link that leads out of its tree is outside.
    """
    trees = [tree]
    for folder in chosen_folders():
        above = (x for x in file.parents if x.is_relative_to(folder))
        trees += [*(x for x in above if has_package_file(x)), folder]
    for folder in trees:
        if file.is_relative_to(folder) and file.resolve().is_relative_to(folder.resolve()):
            inner = file.relative_to(folder).as_posix()
            # of a folder with the whole home below it only files that lie in it are its own
            if above_home(folder) and "/" in inner:
                return None
            plain = not above_home(folder) and _PLACE.fullmatch(folder.name)
            place = f"{folder.name if plain else 'folder'}/{inner}"
            return place if _PLACE.fullmatch(place) else None
    return None


def restore_inputs(file: str | Path, inputs: Sequence[Input], folder: Path) -> list[Path]:
    """Write the inputs of a record below a folder; the paths, in their order.

    Trees keep their names, so that addresses such as package:// lead to the restored files.
    """
    restored: list[Path] = []
    for given in inputs:
        if given.content is None:
            left = "is not kept in the record: it lies outside the robot's folder, has the path"
            reason = f"input {given.name!r} {left} of a home in it, or is too large"
            raise RecordError(file, f"{reason}; replay needs all inputs")
        if hashlib.sha256(given.content).hexdigest() != given.sha256:
            raise RecordError(file, f"input {given.name!r} is not the file that was read")
        if not _PLACE.fullmatch(given.place):
            raise RecordError(file, f"input {given.name!r} would lie outside its folder")
        path = folder / given.place
        if path in restored:
            raise RecordError(file, f"two inputs have the place {given.place!r}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"input {given.name!r} cannot be restored: {error.strerror}"
            raise RecordError(file, reason) from error
        write_whole(path, given.content, force=True)
        restored.append(path)
    return restored
