"""Object code kept on disk: private to the user, checked before use, safe with many processes.

A file holds its full key and a checksum of everything; a file that is damaged, belongs to someone
else, or was made for another key is never run. Writing is atomic; trouble with the folder costs a
warning and the time to compile.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Cache", "Entry", "cache_folder"]

_MAGIC = b"qddot object 1\n"
_MOST_BYTES = 512 * 2**20
_ABANDONED_SECONDS = 3600
_UTIME_OF_DESCRIPTORS = os.utime in os.supports_fd


@dataclass(frozen=True)
class Entry:
    """The content of a cache file: facts for people, and object code."""

    facts: dict[str, Any]
    code: bytes

    def to_bytes(self, key: str) -> bytes:
        """The bytes of its file: magic, checksum, key and facts, code."""
        header = json.dumps({"key": key, "facts": self.facts}).encode()
        body = len(header).to_bytes(8, "little") + header + self.code
        return _MAGIC + hashlib.sha256(body).digest() + body

    @staticmethod
    def from_bytes(content: bytes, key: str) -> Entry | None:
        """The entry of a file; None if it is damaged or has another key."""
        start = len(_MAGIC) + 32
        body = content[start:]
        checksum = hashlib.sha256(body).digest()
        if not content.startswith(_MAGIC) or checksum != content[start - 32 : start]:
            return None
        length = int.from_bytes(body[:8], "little")
        try:
            header = json.loads(body[8 : 8 + length])
            return Entry(header["facts"], body[8 + length :]) if header["key"] == key else None
        except (ValueError, KeyError, TypeError):
            return None


def cache_folder() -> Path:
    """QDDOT_CACHE_DIR, or the user's cache folder."""
    given = os.environ.get("QDDOT_CACHE_DIR")
    if given:
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qddot"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"qddot-{getattr(os, 'getuid', int)()}"


class Cache:
    """A folder of object code by key."""

    def __init__(self, folder: Path | None = None, most_bytes: int = _MOST_BYTES) -> None:
        self.folder, self.most_bytes = folder or cache_folder(), most_bytes

    def path(self, key: str) -> Path:
        """Where the entry of a key lies."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.qddot"

    def read(self, key: str) -> Entry | None:
        """The entry of a key, if there is one that can be trusted."""
        path = self.path(key)
        try:
            content = _read_private(path, self.most_bytes)
        except FileNotFoundError:
            return None
        except _Untrusted as reason:
            self.warn(f"{path} {reason} and is not used")
            return None
        except OSError as error:
            self.warn(f"{path} cannot be read ({error.strerror})")
            return None
        entry = Entry.from_bytes(content, key)
        if entry is None:
            self.warn(f"{path} is damaged or foreign and is built again")
        return entry

    def write(self, key: str, entry: Entry) -> None:
        """Keep an entry, and drop the longest unused ones when the folder grows too large.

        Nothing is kept where QDDOT_CACHE_READ_ONLY is set.
        """
        if os.environ.get("QDDOT_CACHE_READ_ONLY"):
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(entry.to_bytes(key))
                os.replace(temporary, self.path(key))
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self._remove_oldest()
        except OSError as error:
            if isinstance(error, PermissionError) and self.path(key).exists():
                return  # Windows replaces no file that another process reads: it has this entry
            self.warn(f"{self.folder} cannot be written ({error.strerror})")

    def entries(self) -> list[Path]:
        """The files, longest unused first."""
        return [path for path, _ in self._files_by_age()]

    def _files_by_age(self) -> list[tuple[Path, os.stat_result]]:
        """The files and what is known of them; another process may remove one meanwhile."""
        found = []
        for path in self.folder.glob("*.qddot"):
            with contextlib.suppress(OSError):
                found.append((path, path.stat()))
        return sorted(found, key=lambda x: x[1].st_mtime_ns)

    def partial_files(self) -> list[Path]:
        """Files that a process is writing, or has left when it was ended."""
        return list(self.folder.glob("*.part"))

    def size(self) -> int:
        """Bytes on disk."""
        return sum(status.st_size for _, status in self._files_by_age())

    def clear(self) -> int:
        """Remove everything; the number of files removed."""
        files = [*self.entries(), *self.partial_files()]
        removed = 0
        for path in files:
            # Windows removes no file that another process reads
            with contextlib.suppress(PermissionError):
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _remove_oldest(self) -> None:
        for path in self.partial_files():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink()
        files = self._files_by_age()
        excess = sum(status.st_size for _, status in files) - self.most_bytes
        for path, status in files:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= status.st_size

    def warn(self, message: str) -> None:
        """Say what happened to a file or the folder; results do not depend on it."""
        warnings.warn(f"qddot cache: {message}", RuntimeWarning, stacklevel=6)


class _Untrusted(Exception):
    """Why a file of the cache is not run."""


def _read_private(path: Path, most_bytes: int) -> bytes:
    """The content of a plain file that only this user can change, in a folder of which that holds.

    Folder and file are opened once, links not followed, and it is the descriptors that are
    checked, so that nothing can be put in their place meanwhile. Opening does not wait for the
    writer of a FIFO. A folder may itself be reached by a link: what counts is where it leads.
    """
    with contextlib.ExitStack() as stack:

        def open_read_only(path: str | Path, *flags: str, folder: int | None = None) -> int:
            # flags that this system has
            known = sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NONBLOCK", *flags))
            descriptor = os.open(path, os.O_RDONLY | known, dir_fd=folder)
            stack.callback(os.close, descriptor)
            return descriptor

        if os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY"):
            folder = open_read_only(path.parent, "O_DIRECTORY")
            place: tuple[Any, dict[str, int]] = (path.name, {"folder": folder})
            _require_private(os.fstat(folder))
        elif path.is_symlink():
            raise _Untrusted("is no plain file")
        else:
            place = (path, {})
        try:
            file = open_read_only(place[0], "O_NOFOLLOW", "O_BINARY", **place[1])
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise _Untrusted("is no plain file") from error
            raise
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _Untrusted("is no plain file")
        _require_private(status)
        if status.st_size > most_bytes:
            raise _Untrusted("is larger than the cache")
        with contextlib.suppress(OSError):
            # a folder that cannot be written is still good to read
            os.utime(file if _UTIME_OF_DESCRIPTORS else path)
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read()


def _require_private(status: os.stat_result) -> None:
    """Refuse what another user owns or may write to; there are no owners on some systems."""
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise _Untrusted("can be changed by others")
