"""Results of experiments: measures with thresholds, a label, and the traces they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from qddot.control.trace import Trace

__all__ = ["LABELS", "Measure", "Result"]

LABELS = {
    "ok": "all measures hold",
    "model": "the model of the law is not that of the plant",
    "state": "the state diverged, or left its limits",
    "control": "the law does not keep what it promises on a sound plant",
    "contact": "the contact of the plant changes its force when it slides, or was lost",
    "evaluation": "the run is too short, or has nothing to evaluate",
}
"""Labels of a result, each with its meaning."""


@dataclass(frozen=True)
class Measure:
    """One figure of an experiment: value, bound, and what was published elsewhere.

    A value passes that is at most (`"≤"`) or at least (`"≥"`) the bound; with None there is no
    bound, and it is only reported.
    """

    name: str
    value: float
    unit: str
    bound: float | None = None
    sense: Literal["≤", "≥"] = "≤"
    published: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value keeps to its bound; not a number never does."""
        if self.bound is None:
            return True
        return self.value <= self.bound if self.sense == "≤" else self.value >= self.bound


@dataclass(frozen=True, eq=False)
class Result:
    """An experiment on a plant: its measures, label, notes in words, and traces by name.

    `errors` are q less its reference (samples × joints, rad) for traces that follow one.
    """

    experiment: str
    plant: str
    measures: tuple[Measure, ...]
    label: str = "ok"
    notes: tuple[str, ...] = ()
    traces: Mapping[str, Trace] = field(default_factory=dict)
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every measure keeps to its bound."""
        return all(m.holds for m in self.measures)

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        measures = [
            {
                "name": m.name,
                "value": m.value,
                "unit": m.unit,
                "bound": m.bound,
                "sense": m.sense,
                "published": m.published or None,
                "passed": m.holds,
            }
            for m in self.measures
        ]
        return {
            "experiment": self.experiment,
            "plant": self.plant,
            "passed": self.holds,
            "label": self.label,
            "measures": measures,
            "notes": list(self.notes),
        }
