"""The result of a comparison: stages with verdicts, differences in words, the first cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

__all__ = [
    "ModelComparison",
    "ModelDifference",
    "Report",
    "Stage",
    "format_both",
    "format_both_vectors",
    "format_vector",
    "join_names",
]

ComparisonVerdict = Literal["agree", "differ", "consequence", "not evaluated"]


def join_names(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def format_both(a: float, b: float, unit: str) -> str:
    """Two numbers in a sentence, with as many digits as tell them apart."""
    texts = ((f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in (6, 9, 12, 17))
    ours, theirs = next((t for t in texts if t[0] != t[1]), (repr(a), repr(b)))
    return f"{ours} {unit} in @A, {theirs} in @B"


def format_vector(vector: Iterable[Any], digits: int = 6) -> str:
    """Coordinates in a sentence, what rounding leaves of zeros as 0."""
    x = np.array([float(c) for c in vector])
    x[np.abs(x) < 1e-12 * max(float(np.abs(x).max()), 1e-3)] = 0.0
    return "(" + ", ".join(f"{c:.{digits}g}" for c in x) + ")"


def format_both_vectors(a: Iterable[Any], b: Iterable[Any], unit: str) -> str:
    """Coordinates of both sides in a sentence, with as many digits as tell them apart."""
    x, y = list(a), list(b)
    texts = [(format_vector(x, digits), format_vector(y, digits)) for digits in (6, 9, 12, 17)]
    ours, theirs = next((t for t in texts if t[0] != t[1]), texts[0])
    return f"{ours} {unit} in @A, {theirs} in @B".replace("  ", " ")


@dataclass(frozen=True)
class ModelDifference:
    """One thing that differs: about what, in words, by how much relative to its size."""

    subject: str
    message: str
    size: float
    a: Any = None
    b: Any = None


@dataclass(frozen=True)
class Stage:
    """A stage of the waterfall.

    `size` is the largest relative difference, `left` the one that remains when the causes of
    earlier stages are aligned. A consequence names those causes in `because`. `share` is the share
    of a cause in the difference of q̈ that all causes make; None where there is no q̈.
    """

    name: str
    verdict: ComparisonVerdict
    message: str
    size: float = 0.0
    left: float = 0.0
    differences: tuple[ModelDifference, ...] = ()
    because: tuple[str, ...] = ()
    share: float | None = None


@dataclass(frozen=True)
class ModelComparison:
    """One side compared with another, stage by stage; `evaluated` is False with a reason.

    `not_compared` lists what no stage says anything about.
    """

    a: str
    b: str
    evaluated: bool
    reason: str = ""
    stages: tuple[Stage, ...] = ()
    notes: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    @property
    def causes(self) -> tuple[Stage, ...]:
        """The stages that differ of themselves."""
        return tuple(s for s in self.stages if s.verdict == "differ")

    @property
    def first_cause(self) -> Stage | None:
        """The first stage that differs of itself."""
        return self.causes[0] if self.causes else None

    @property
    def agrees(self) -> bool:
        """Whether it was evaluated and nothing differs."""
        return self.evaluated and not self.causes

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if not self.evaluated:
            return "NOT EVALUATED"
        return "DIFFER" if self.causes else "AGREE"


@dataclass(frozen=True)
class Report:
    """All comparisons that were asked for, with what each label stands for."""

    sides: dict[str, str]
    comparisons: tuple[ModelComparison, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether everything was evaluated and agrees."""
        return all(c.agrees for c in self.comparisons)
