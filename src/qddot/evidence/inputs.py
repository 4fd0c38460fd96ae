"""The files that a run read: found, digested, and kept so that a record can run again alone."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from qddot.errors import QddotError, RecordError
from qddot.evidence.record import Input
from qddot.files import write_whole
from qddot.loaders.formats import FORMATS, SUFFIXES
from qddot.loaders.load import locate_source
from qddot.loaders.locate import resolve_uri

__all__ = ["MOST_KEPT", "gather_inputs", "restore_inputs"]

MOST_KEPT = 32 * 2**20
"""Bytes of inputs that are kept in a record; of what is beyond, only the digest is."""
_REFERENCE = re.compile("|".join(x.reference for x in FORMATS.values() if x.reference))
_FOLDERS = [re.compile(x.reference_folder) for x in FORMATS.values() if x.reference_folder]


def gather_inputs(sources: Sequence[str | Path]) -> tuple[Input, ...]:
    """The files of sources and those that they refer to, small ones with their content.

    A source is a file or the name of a robot. References that lead nowhere are left out, as
    loaders do.
    """
    files: dict[Path, str] = {}
    # sources first: arguments name them by their number
    for source in sources:
        path = locate_source(source) if not Path(source).is_file() else Path(source)
        files.setdefault(path.resolve(), "")
    for path in list(files):
        for file, uri in _references(path, set()):
            files.setdefault(file, uri)
    if not files:
        return ()
    root = Path(os.path.commonpath([str(f.parent) for f in files]))
    found, left = [], MOST_KEPT
    for file, uri in files.items():
        state, size = hashlib.sha256(), file.stat().st_size
        content = file.read_bytes() if size <= left else None
        if content is None:
            with open(file, "rb") as stream:
                while block := stream.read(2**20):
                    state.update(block)
        else:
            state.update(content)
            left -= size
        place = file.relative_to(root).as_posix()
        found.append(Input(file.name, state.hexdigest(), size, place, uri, content))
    return tuple(found)


def _references(file: Path, seen: set[Path]) -> Iterator[tuple[Path, str]]:
    """Files that a description names, with the address where it is no relative path."""
    if file in seen or file.suffix not in SUFFIXES:
        return
    seen.add(file)
    try:
        text = file.read_text("utf-8", errors="replace")
    except OSError:
        return
    named = (x for pattern in _FOLDERS for x in pattern.findall(text))
    folders = [file.parent, *(file.parent / x for x in named)]
    for found in _REFERENCE.finditer(text):
        address = next(x for x in found.groups() if x)
        for folder in folders:
            try:
                path = resolve_uri(address, folder).resolve()
                exists = path.is_file()
            except (QddotError, OSError, ValueError):
                continue
            if exists:
                yield path, address if "://" in address else ""
                yield from _references(path, seen)
                break


def restore_inputs(file: str | Path, inputs: Sequence[Input], folder: Path) -> list[Path]:
    """Write the inputs of a record below a folder; the paths, in their order.

    Addresses such as package:// become paths of the restored files.
    """
    restored = []
    for given in inputs:
        if given.content is None:
            reason = f"input {given.name!r} was too large to be kept; replay needs all inputs"
            raise RecordError(file, reason)
        if hashlib.sha256(given.content).hexdigest() != given.sha256:
            raise RecordError(file, f"input {given.name!r} is not the file that was read")
        path = (folder / given.place).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise RecordError(file, f"input {given.name!r} would lie outside its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        content = given.content
        if path.suffix in SUFFIXES:
            for other in inputs:
                if other.uri:
                    target = (folder / other.place).resolve().as_posix()
                    content = content.replace(other.uri.encode(), target.encode())
        write_whole(path, content, force=True)
        restored.append(path)
    return restored
