"""The hash chain of a record: a digest of all that was written so far, in its order."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

__all__ = ["Chain"]


class Chain:
    """A running SHA-256 of inputs, channels and messages, as they stand in the file.

    The head after an item follows from all items up to it: from their bytes, times, topics,
    schemas and order. Lengths precede what they measure, so that no two sequences are alike.
    """

    def __init__(self, profile: str) -> None:
        self._state = hashlib.sha256(profile.encode())

    @property
    def head(self) -> str:
        """The digest of all items so far."""
        return self._state.hexdigest()

    def add_input(self, place: str, data: bytes) -> None:
        """Add an attachment: its place, its size and its SHA-256."""
        self._add(b"I", place.encode(), struct.pack("<Q", len(data)), hashlib.sha256(data).digest())

    def add_channel(
        self, number: int, topic: str, facts: Mapping[str, str], schema: tuple[str, bytes]
    ) -> None:
        """Add the topic of a channel with its metadata and the name and text of its schema."""
        words = [x.encode() for pair in sorted(facts.items()) for x in pair]
        self._add(b"C", b"%d" % number, topic.encode(), schema[0].encode(), schema[1], *words)

    def add_message(self, channel: int, sequence: int, times: tuple[int, int], data: bytes) -> None:
        """Add a message: channel, sequence number, the times of its log and its publication."""
        self._state.update(struct.pack("<cHIQQQ", b"M", channel, sequence, *times, len(data)))
        self._state.update(data)

    def _add(self, kind: bytes, *parts: bytes) -> None:
        lengths = struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts))
        self._state.update(b"".join((kind, lengths, *parts)))
