"""What a format cannot say as the source does, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Loss", "loss"]


@dataclass(frozen=True)
class Loss:
    """Something that the target format cannot say as the source does.

    `dynamics` is true where forces or motions differ by it; `items` name what is concerned, with
    its numbers.
    """

    kind: str
    dynamics: bool
    message: str
    items: tuple[str, ...] = ()

    def __str__(self) -> str:
        listed = f": {'; '.join(self.items)}" if self.items else ""
        return f"{self.kind}: {self.message}{listed}"


def loss(kind: str, dynamics: bool, message: str, items: Iterable[str]) -> list[Loss]:
    """One loss, or none where nothing is concerned."""
    listed = tuple(items)
    return [Loss(kind, dynamics, message, listed)] if listed else []
