"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qddot.errors import CannotWrite

__all__ = ["check_target", "draft_beside", "publish", "write_whole"]

_EXISTS = "the file exists; force=True (--force) overwrites it"


def check_target(path: str | Path, force: bool) -> Path:
    """The file to write, links followed; refused where a file is not to be overwritten."""
    try:
        target = Path(path).expanduser().resolve()
        if target.is_dir():
            raise CannotWrite(path, "is a folder")
        if not target.parent.is_dir():
            raise CannotWrite(path, f"there is no folder {target.parent}")
        if target.exists() and not force:
            raise CannotWrite(path, _EXISTS)
    except (OSError, RuntimeError, ValueError) as error:
        raise CannotWrite(str(path)[:200], str(error)) from error
    return target


@contextmanager
def draft_beside(target: Path, content: str | bytes) -> Iterator[Path]:
    """A hidden file with this content beside the target, of the same kind; gone in the end."""
    draft = target.with_name(f".{target.stem[:80]}.{secrets.token_hex(4)}{target.suffix}")
    try:
        with open(draft, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    except OSError as error:
        raise CannotWrite(target, error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def publish(draft: Path, target: Path, force: bool) -> None:
    """Give a draft its name in one step; a reader sees the old file or the new one."""
    try:
        if force or not _linked(draft, target):
            with contextlib.suppress(OSError):
                shutil.copymode(target, draft)
            os.replace(draft, target)
    except OSError as error:
        raise CannotWrite(target, error.strerror or str(error)) from error


def _linked(draft: Path, target: Path) -> bool:
    """Link the draft to its name: unlike a rename that never overwrites, but not all disks can."""
    try:
        os.link(draft, target)
    except OSError as error:
        if target.exists():
            raise CannotWrite(target, _EXISTS) from error
        return False
    return True


def write_whole(path: str | Path, text: str, force: bool = False) -> Path:
    """Write a text file in one step; returns where it is."""
    target = check_target(path, force)
    with draft_beside(target, text) as draft:
        publish(draft, target, force)
    return target
