"""A claim about a written file: the quantity compared, the largest error and its bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from qddot.spatial.algebra import Transform

__all__ = [
    "BOUND",
    "ModelCheck",
    "check_largest",
    "number_error",
    "relative_error",
    "relative_pose_error",
]

BOUND = 1e-10


@dataclass(frozen=True)
class ModelCheck:
    """A claim about a written file, the largest error measured and the bound it must keep."""

    name: str
    claim: str
    measured: float
    bound: float
    passed: bool
    detail: str = ""


def check_largest(name: str, claim: str, errors: Iterable[tuple[str, float]]) -> list[ModelCheck]:
    """A check of the largest of named errors, NaN the worst; empty where nothing is compared."""
    listed = [(label, math.inf if math.isnan(error) else error) for label, error in errors]
    if not listed:
        return []
    where, error = max(listed, key=lambda x: x[1])
    detail = where if error else ""
    check = ModelCheck(
        name, claim, measured=float(error), bound=BOUND, passed=error <= BOUND, detail=detail
    )
    return [check]


def relative_error(ours: Iterable[float], theirs: Iterable[float], floor: float) -> float:
    """Largest difference of numbers, relative to the largest of them or to a floor."""
    a, b = np.array([*ours], float), np.array([*theirs], float)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), floor))


def number_error(a: float, b: float) -> float:
    """Difference of two numbers, relative where they are large; equal infinities agree."""
    return 0.0 if a == b else abs(a - b) / max(1.0, abs(a))


def relative_pose_error(a: Transform, b: Transform) -> float:
    """Largest difference of the entries of two poses, relative where they are large."""
    return relative_error((x for row in a for x in row), (x for row in b for x in row), 1.0)
