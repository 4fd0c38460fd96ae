"""Object code kept on disk: private to the user, checked before use, safe with many processes.

A file holds its full key and a checksum of everything; a file that is damaged, belongs to someone
else, or was made for another key is never run. Writing is atomic; trouble with the folder costs a
warning and the time to compile.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Cache", "Entry", "cache_folder"]

_MAGIC = b"qddot object 1\n"
_MOST_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Entry:
    """What a file of the cache holds: facts for people, and object code."""

    facts: dict[str, Any]
    code: bytes


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
            if not _private(self.folder) or not _private(path):
                self._warn(f"{path} can be changed by others and is not used")
                return None
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"{path} cannot be read ({error.strerror})")
            return None
        with contextlib.suppress(OSError):
            # a folder that cannot be written is still good to read
            os.utime(path)
        entry = _unpacked(content, key)
        if entry is None:
            self._warn(f"{path} is damaged or foreign and is built again")
        return entry

    def write(self, key: str, entry: Entry) -> None:
        """Keep an entry, and drop the longest unused ones when the folder grows too large."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_packed(key, entry))
                os.replace(temporary, self.path(key))
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self._prune()
        except OSError as error:
            self._warn(f"{self.folder} cannot be written ({error.strerror})")

    def entries(self) -> list[Path]:
        """The files, longest unused first."""
        return [path for path, _ in self._files()]

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """The files and what is known of them; another process may remove one meanwhile."""
        found = []
        for path in self.folder.glob("*.qddot"):
            with contextlib.suppress(OSError):
                found.append((path, path.stat()))
        return sorted(found, key=lambda x: x[1].st_mtime_ns)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(status.st_size for _, status in self._files())

    def clear(self) -> int:
        """Remove everything; how many files that were."""
        files = [*self.entries(), *self.folder.glob("*.part")]
        for path in files:
            path.unlink(missing_ok=True)
        return len(files)

    def _prune(self) -> None:
        files = self._files()
        excess = sum(status.st_size for _, status in files) - self.most_bytes
        for path, status in files:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= status.st_size

    def _warn(self, message: str) -> None:
        warnings.warn(f"qddot cache: {message}", RuntimeWarning, stacklevel=6)


def _private(path: Path) -> bool:
    """Owned by this user and not writable by others; always so where there are no owners."""
    if not hasattr(os, "getuid"):
        return True
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _packed(key: str, entry: Entry) -> bytes:
    header = json.dumps({"key": key, "facts": entry.facts}).encode()
    body = len(header).to_bytes(8, "little") + header + entry.code
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpacked(content: bytes, key: str) -> Entry | None:
    start = len(_MAGIC) + 32
    body = content[start:]
    if (
        not content.startswith(_MAGIC)
        or hashlib.sha256(body).digest() != content[start - 32 : start]
    ):
        return None
    length = int.from_bytes(body[:8], "little")
    try:
        header = json.loads(body[8 : 8 + length])
        return Entry(header["facts"], body[8 + length :]) if header["key"] == key else None
    except (ValueError, KeyError, TypeError):
        return None
