"""A claim about a written file: what was compared, and how far apart the two sides are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from qddot.spatial import Transform

__all__ = ["BOUND", "Measure", "apart", "distance", "relative", "worst"]

BOUND = 1e-10


@dataclass(frozen=True)
class Measure:
    """A claim about a written file, the largest difference found and the bound it must keep."""

    name: str
    claim: str
    measured: float
    bound: float
    passed: bool
    detail: str = ""


def worst(name: str, claim: str, errors: Iterable[tuple[str, float]]) -> list[Measure]:
    """A measure of the largest of named errors, NaN the worst; none where nothing is compared."""
    listed = [(label, math.inf if math.isnan(error) else error) for label, error in errors]
    if not listed:
        return []
    where, error = max(listed, key=lambda x: x[1])
    return [Measure(name, claim, float(error), BOUND, error <= BOUND, where if error else "")]


def relative(ours: Iterable[float], theirs: Iterable[float], floor: float) -> float:
    """Largest difference of numbers, relative to the largest of them or to a floor."""
    a, b = np.array([*ours], float), np.array([*theirs], float)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), floor))


def apart(a: float, b: float) -> float:
    """Difference of two numbers, relative where they are large; equal infinities agree."""
    return 0.0 if a == b else abs(a - b) / max(1.0, abs(a))


def distance(a: Transform, b: Transform) -> float:
    """Largest difference of the entries of two poses, relative where they are large."""
    return relative((x for row in a for x in row), (x for row in b for x in row), 1.0)
