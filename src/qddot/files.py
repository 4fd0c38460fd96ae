"""Files and folders written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from qddot.errors import CannotWrite

__all__ = ["check_target", "draft_beside", "fill_whole", "publish", "write_folder", "write_whole"]

_EXISTS = "the file exists; force=True (--force) overwrites it"


def check_target(path: str | Path, force: bool) -> Path:
    """The file to write, links followed; refused where a file is not to be overwritten."""
    try:
        if _is_stream(Path(path)):
            return Path(path)
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


def _is_stream(path: Path) -> bool:
    """Whether a path leads to a device or a pipe, which is written into and never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@contextmanager
def draft_beside(target: Path, content: str | bytes) -> Iterator[Path]:
    """A hidden file with this content beside the target, of the same kind; gone in the end."""
    folder = Path(tempfile.gettempdir()) if _is_stream(target) else target.parent
    draft = folder / f".{target.stem[:80]}-{secrets.token_hex(4)}{target.suffix}"
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
        if _is_stream(target):
            with open(target, "wb") as stream:
                stream.write(draft.read_bytes())
            return
        if not force:
            # unlike a rename, a link never overwrites; some disks have no links
            try:
                os.link(draft, target)
                return
            except OSError as error:
                if target.exists():
                    raise CannotWrite(target, _EXISTS) from error
        with contextlib.suppress(OSError):
            shutil.copymode(target, draft)
        os.replace(draft, target)
    except OSError as error:
        raise CannotWrite(target, error.strerror or str(error)) from error


def write_whole(path: str | Path, content: str | bytes, force: bool = False) -> Path:
    """Write a file in one step; returns where it is."""
    target = check_target(path, force)
    with draft_beside(target, content) as draft:
        publish(draft, target, force)
    return target


def fill_whole(path: str | Path, fill: Callable[[Path], object], force: bool = False) -> Path:
    """Let a function write a file, which appears in one step; returns where it is."""
    target = check_target(path, force)
    with draft_beside(target, b"") as draft:
        fill(draft)
        publish(draft, target, force)
    return target


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Write text files into a folder, all or none: a failure leaves it as it was.

    A folder that does not exist appears complete. In one that does, files are moved in after all
    of them are on the disk, and those that they replace are moved back if one cannot be.
    """
    try:
        # the folders that do not exist yet go again after a failure
        chain = (folder, *folder.parents)
        made = [path for path in chain if not path.exists()]
        last = chain[len(made)]
        if not last.is_dir():
            raise CannotWrite(last, "Not a directory")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            beside = folder if folder.is_dir() else folder.parent
            with tempfile.TemporaryDirectory(prefix=".qddot-", dir=beside) as drafts:
                _fill_folder(Path(drafts), folder, texts)
        except BaseException:
            for path in made:
                with contextlib.suppress(OSError):
                    path.rmdir()
            raise
    except OSError as error:
        # a draft is nothing that the caller knows
        where = folder if ".qddot-" in str(error.filename or "") else error.filename or folder
        raise CannotWrite(where, error.strerror or str(error)) from error


def _fill_folder(drafts: Path, folder: Path, texts: Mapping[str, str]) -> None:
    """Write all files as drafts, then give the folder or each of them its name."""
    complete, replaced = drafts / "new", drafts / "old"
    complete.mkdir()
    for name, text in texts.items():
        with open(complete / name, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    # a folder that does not exist gets its name in one step
    if not folder.exists():
        os.rename(complete, folder)
        return
    # in one that exists files are replaced one by one, and put back after a failure
    replaced.mkdir()
    moved: list[str] = []
    try:
        for name in texts:
            moved.append(name)
            if (folder / name).exists():
                os.rename(folder / name, replaced / name)
            os.rename(complete / name, folder / name)
    except BaseException:
        for name in moved:
            if (replaced / name).exists():
                os.replace(replaced / name, folder / name)
            elif not (complete / name).exists():
                (folder / name).unlink(missing_ok=True)
        raise
