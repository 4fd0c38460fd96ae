"""NumPy files of strangers: what they claim is checked before memory is taken; nothing is pickled.

An archive (.npz) is a zip file of arrays. Its directory, the header of each array and the sizes
that both state are compared with each other and with limits when it is opened.
"""

from __future__ import annotations

import io
import math
import stat
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from qddot.errors import DescriptionError, format_bytes

__all__ = [
    "ArrayArchive",
    "ArrayHeader",
    "check_motion",
    "check_regular",
    "read_arrays",
    "read_header",
]

_MIB = 2**20
_MOST_ENTRIES = 4096
_MOST_DIRECTORY = 4 * _MIB
_LONGEST_HEADER = 2048
_MOST_AXES = 32
_KINDS = "biufcSU"
"""Kinds of elements that are read: numbers and text, without objects and records."""
_FREE_BYTES = 256 * _MIB
"""Bytes to which any archive may unfold."""
_RATIO = 4
"""Bytes to which each byte of an archive may unfold beyond those."""
_MOST_BYTES = 2**36
"""Bytes of an archive."""
_MOST_EMPTY = 10**8
"""Product of the other axes of an array without elements."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_regular(file: str | Path, most: int) -> int:
    """Bytes of a file; refused are folders, pipes and devices, and files over `most` bytes."""
    path = Path(file)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise DescriptionError(file, reason) from error
    if not stat.S_ISREG(status.st_mode):
        raise DescriptionError(file, "it is a folder, a pipe or a device, not a regular file")
    if status.st_size > most:
        size, bound = format_bytes(status.st_size), format_bytes(most)
        raise DescriptionError(file, f"it has {size}; files up to {bound} are read")
    return status.st_size


@dataclass(frozen=True)
class ArrayHeader:
    """What a NumPy file says of an array: shape, order (whether by columns), type of elements."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: str | Path, stream: IO[bytes], size: int, name: str = "") -> ArrayHeader:
    """The header of the array that is all of a stream of `size` bytes, read up to its elements.

    Refused are elements that are no numbers or text, and a shape that the size contradicts.
    """
    of = f"array {name[:60]!r}" if name else "the array"
    try:
        version = np.lib.format.read_magic(stream)
        width = 2 if version == (1, 0) else 4
        start = stream.read(width)
        length = int.from_bytes(start, "little")
        if length > _LONGEST_HEADER:
            raise ValueError(f"its header has {length} bytes; {_LONGEST_HEADER} at most")
        parse = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            parse = np.lib.format.read_array_header_2_0
        header = ArrayHeader(*parse(io.BytesIO(start + stream.read(length))))
    except Exception as error:  # a parser of Python text meets errors of any kind
        raise DescriptionError(file, f"{of} has no header of NumPy: {str(error)[:200]}") from error
    if header.dtype.kind not in _KINDS or header.dtype.itemsize == 0:
        elements = str(header.dtype)[:60]
        reason = f"{of} has elements of type {elements}; numbers and text are read"
        raise DescriptionError(file, reason)
    if len(header.shape) > _MOST_AXES or any(n < 0 for n in header.shape):
        raise DescriptionError(file, f"{of} has the shape {str(header.shape)[:60]}")
    held = size - 8 - width - length
    empty = math.prod(n for n in header.shape if n)
    if header.nbytes != held or (not held and empty > _MOST_EMPTY):
        claim = f"{of} claims the shape {str(header.shape)[:60]} of {header.dtype}"
        raise DescriptionError(file, f"{claim}, and has {held} bytes")
    return header


class ArrayArchive:
    """An archive of arrays (.npz) that has been checked: `headers`, and `refused` arrays, by name.

    It may unfold to 256 MiB and `ratio` times its own size; `most_held` is what its arrays may be
    in memory at once.
    """

    def __init__(self, file: str | Path, ratio: int = _RATIO, most: int = _MOST_BYTES) -> None:
        self.file = Path(file)
        size = check_regular(file, most)
        self.most_held = _FREE_BYTES + _RATIO * size
        self._stream = _BoundedReader(io.FileIO(self.file))
        try:
            self._zip = zipfile.ZipFile(self._stream)
            self._stream.most = most
            self._check_entries(self._zip.infolist(), _FREE_BYTES + ratio * size)
        except DescriptionError:
            self._stream.close()
            raise
        except Exception as error:  # what a damaged archive raises is its reader's own affair
            self._stream.close()
            raise DescriptionError(file, f"no archive of arrays: {str(error)[:200]}") from error
        self.headers: dict[str, ArrayHeader] = {}
        self.refused: dict[str, DescriptionError] = {}
        for name in self._entries:
            try:
                self.headers[name] = self._start(name)[0]
            except DescriptionError as error:
                self.refused[name] = error

    def __enter__(self) -> ArrayArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _check_entries(self, entries: list[zipfile.ZipInfo], most: int) -> None:
        self._entries = {e.filename.removesuffix(".npy"): e for e in entries}
        if len(entries) > _MOST_ENTRIES:
            reason = f"it has {len(entries)} arrays; {_MOST_ENTRIES} at most are read"
            raise DescriptionError(self.file, reason)
        for name, entry in self._entries.items():
            if entries.pop(0) is not entry:
                raise DescriptionError(self.file, f"it has two arrays named {name[:60]!r}")
            if entry.compress_type not in _METHODS or entry.flag_bits & 1:
                reason = f"array {name[:60]!r} is packed in a way that NumPy does not write"
                raise DescriptionError(self.file, reason)
        unfolded = sum(e.file_size for e in self._entries.values())
        if unfolded > most:
            claim = f"it unfolds to {format_bytes(unfolded)}"
            reason = f"{claim}; a file of its size may unfold to {format_bytes(most)}"
            raise DescriptionError(self.file, reason)

    def _start(self, name: str) -> tuple[ArrayHeader, IO[bytes]]:
        """The header of an array, and its elements as a stream."""
        try:
            stream = self._zip.open(self._entries[name])
        except Exception as error:  # a directory may say anything of its entries
            reason = f"array {name[:60]!r} is damaged: {str(error)[:200]}"
            raise DescriptionError(self.file, reason) from error
        return read_header(self.file, stream, self._entries[name].file_size, name), stream

    def open(self, name: str) -> IO[bytes]:
        """The elements of an array as a stream."""
        return self._start(name)[1]

    def read(self, name: str) -> np.ndarray:
        """An array, its elements in the byte order of this machine."""
        if name in self.refused:
            raise self.refused[name]
        try:
            with self._zip.open(self._entries[name]) as stream:
                found = np.lib.format.read_array(stream, allow_pickle=False)
        except MemoryError:
            raise
        except Exception as error:  # a damaged archive
            reason = f"array {name[:60]!r} is damaged: {str(error)[:200]}"
            raise DescriptionError(self.file, reason) from error
        return np.asarray(found, found.dtype.newbyteorder("="))

    def read_all(self, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """The arrays by name, or those of some names that are there."""
        chosen = [n for n in self._entries if names is None or n in names]
        return {name: self.read(name) for name in chosen}


class _BoundedReader(io.BufferedReader):
    """A stream that refuses to read much at once, as the directory of a zip file is read."""

    most = _MOST_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to so many bytes."""
        if size is not None and size > self.most:
            raise ValueError(f"its directory has {size} bytes; {self.most} at most are read")
        return super().read(size)


def read_arrays(file: str | Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an archive (.npz) by name, or those of some names that it has."""
    with ArrayArchive(file) as archive:
        return archive.read_all(names)


def check_motion(file: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays time, q, v and tau that are not rows of numbers for the same samples.

    Time is a vector, the others have its length along their last axis but one; torques, which are
    held, may have another one. Axes before it, of a batch, are the same in all.
    """
    for name, x in arrays.items():
        if x.dtype.kind not in "biuf" or (x.ndim != 1 if name == "time" else x.ndim < 2):
            rows = "a vector" if name == "time" else "rows"
            reason = f"{name} has the shape {x.shape} and the type {x.dtype}, not {rows} of numbers"
            raise DescriptionError(file, reason)
    if not len(arrays["time"]) or not np.isfinite(arrays["time"]).all():
        raise DescriptionError(file, "it has no samples, or times that are no numbers")
    shapes = {name: x.shape[:-1] for name, x in arrays.items() if name in ("q", "v")}
    for name, shape in shapes.items():
        if shape[-1] != len(arrays["time"]) or shape != shapes["q"]:
            reason = f"{name} has the shape {arrays[name].shape}, which is not that of "
            other = f"time, ({len(arrays['time'])})" if name == "q" else f"q, {arrays['q'].shape}"
            raise DescriptionError(file, reason + other)
