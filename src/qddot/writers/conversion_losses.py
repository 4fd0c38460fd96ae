"""Conversion losses: properties of a robot that a description format cannot express."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ConversionLoss", "conversion_loss"]


@dataclass(frozen=True)
class ConversionLoss:
    """A property of the source that the target format cannot express, or expresses otherwise.

    `dynamics` is true where forces or motions differ by it; `items` name the elements concerned,
    with their numbers.
    """

    kind: str
    dynamics: bool
    message: str
    items: tuple[str, ...] = ()

    def __str__(self) -> str:
        listed = f": {'; '.join(self.items)}" if self.items else ""
        return f"{self.kind}: {self.message}{listed}"


def conversion_loss(
    kind: str, dynamics: bool, message: str, items: Iterable[str]
) -> list[ConversionLoss]:
    """A list of one loss, empty without items."""
    listed = tuple(items)
    return [ConversionLoss(kind, dynamics, message, listed)] if listed else []
