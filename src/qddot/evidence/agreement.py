"""Two runs of one command compared: the same, the same within rounding, or different."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qddot.evidence.record import Record, RecordTrace

__all__ = ["TOLERANCE", "Agreement", "compare_results"]

TOLERANCE = 1e-6
"""Share of the largest number of a column by which numbers may differ through rounding."""
_SMALLEST = 1e-3
"""Size in SI units that a column counts as having at least."""


@dataclass(frozen=True)
class Agreement:
    """How far the results of two records agree.

    `word` is "same" (identical digests), "same within rounding" (all verdicts and names equal, no
    number further apart than TOLERANCE) or "different". `distance` is that of the numbers that are
    furthest apart, relative to the largest of their column, and `subject` names them or says what
    else differs.
    """

    word: str
    distance: float = 0.0
    subject: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the results are the same, up to rounding."""
        return self.word != "different"


def compare_results(a: Record, b: Record) -> Agreement:
    """The agreement of the results of two records; runs, times and machines have no part in it."""
    if a.digest == b.digest:
        return Agreement("same")
    for subject, x, y in _structures(a, b):
        if x != y:
            return Agreement("different", float("inf"), subject)
    worst, subject = 0.0, ""
    for name, x, y in _numbers(a, b):
        distance = _distance(x, y)
        if not distance <= worst:
            worst, subject = distance, name
    word = "same within rounding" if worst <= TOLERANCE else "different"
    return Agreement(word, worst, subject)


def _structures(a: Record, b: Record) -> Iterator[tuple[str, object, object]]:
    """What has to be equal: names, shapes, definitions, verdicts."""
    x, y = ([(c.step, c.name) for c in r.claims] for r in (a, b))
    yield "claims", x, y
    for p, r in zip(a.claims, b.claims, strict=True):
        u, w = ((c.verdict, c.relation, c.value is None, c.bound is None) for c in (p, r))
        yield f"claim {p.step} {p.name}", u, w
    yield "names of traces", a.traces.keys(), b.traces.keys()
    for name in a.traces:
        yield f"trace {name}", _shape(a.traces[name]), _shape(b.traces[name])
    yield "names of metrics", a.metrics.keys(), b.metrics.keys()
    for name in a.metrics:
        m, n = (
            (x.definition, x.operands, x.parameters) for x in (a.metrics[name], b.metrics[name])
        )
        yield f"metric {name}", m, n


def _shape(trace: RecordTrace) -> tuple[object, ...]:
    return trace.labels, {name: x.shape for name, x in trace.columns.items()}


def _numbers(a: Record, b: Record) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """All numbers of two records of one structure, by name."""
    for name, trace in a.traces.items():
        for column, x in trace.columns.items():
            yield f"{name}.{column}", x, b.traces[name].columns[column]
    for name, metric in a.metrics.items():
        yield f"metric {name}", np.array([metric.value]), np.array([b.metrics[name].value])
    for p, r in zip(a.claims, b.claims, strict=True):
        u, w = (np.array([x.value, x.bound], dtype=float) for x in (p, r))
        yield f"claim {p.step} {p.name}", u, w


def _distance(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference relative to the largest number; infinite where one is no number."""
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return float("inf")
    x, y = np.nan_to_num(x), np.nan_to_num(y)
    largest = max(float(np.abs(z).max(initial=_SMALLEST)) for z in (x, y))
    return float(np.abs(x - y).max(initial=0.0)) / largest
