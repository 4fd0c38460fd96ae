"""Definitions of metrics: named pure functions of the arrays of a record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.errors import InvalidArgument, UnknownName

__all__ = ["DEFINITIONS", "Definition", "define_metric", "evaluate_metric"]

Function = Callable[..., Any]


@dataclass(frozen=True)
class Definition:
    """A metric by name: its formula in words, how many arrays it takes, and the function."""

    name: str
    formula: str
    operands: int
    function: Function


DEFINITIONS: dict[str, Definition] = {}
"""The definitions that a record may name; a row says how a number follows from traces."""


def define_metric(name: str, formula: str, operands: int, function: Function) -> Definition:
    """Add a definition; a name has one meaning for ever, so it cannot be given twice."""
    if name in DEFINITIONS:
        raise InvalidArgument("metric", name, "it is defined already; take another name")
    DEFINITIONS[name] = Definition(name, formula, operands, function)
    return DEFINITIONS[name]


def evaluate_metric(name: str, operands: list[np.ndarray], parameters: dict[str, float]) -> float:
    """The value of a metric of arrays, NaN where it has none or is not finite.

    Arrays have one shape, so that no result is larger than what it follows from.
    """
    if name not in DEFINITIONS:
        raise UnknownName("metric", name, DEFINITIONS)
    definition = DEFINITIONS[name]
    if len(operands) != definition.operands:
        accepted = f"{name} takes {definition.operands} arrays"
        raise InvalidArgument("operands", len(operands), accepted)
    if any(x.size == 0 for x in operands):
        return 0.0 if name == "count" else float("nan")
    if len({x.shape for x in operands}) > 1:
        shapes = " and ".join(str(x.shape) for x in operands)
        raise InvalidArgument("operands", shapes, f"{name} takes arrays of one shape")
    try:
        with np.errstate(all="ignore"):
            value = float(definition.function(*operands, **parameters))
    except Exception as error:  # functions of users, and arrays of strangers, fail in any way
        accepted = f"{name} cannot be evaluated ({type(error).__name__}: {error})"
        raise InvalidArgument("operands", [x.shape for x in operands], accepted[:300]) from error
    return value if math.isfinite(value) else math.nan


def _largest_condition(M: np.ndarray) -> Any:
    values = np.linalg.eigvalsh(M)
    return np.max(values[..., -1] / values[..., 0])


for _row in (
    ("count", "number of rows", 1, len),
    ("entry", "the only entry", 1, lambda x: x.item() if x.size == 1 else np.nan),
    ("final", "last entry", 1, lambda x: np.ravel(x)[-1]),
    ("sum", "Σ x", 1, np.sum),
    ("mean", "mean x", 1, np.mean),
    ("smallest", "min x", 1, np.min),
    ("largest", "max x", 1, np.max),
    ("largest_magnitude", "max |x|", 1, lambda x: np.max(np.abs(x))),
    ("rms", "√ mean x²", 1, lambda x: np.sqrt(np.mean(x**2))),
    (
        "late_rms",
        "√ mean x² over the last `share` of the rows",
        1,
        lambda x, share: np.sqrt(np.mean(x[int(len(x) * (1.0 - share)) :] ** 2)),
    ),
    ("largest_difference", "max |x − y|", 2, lambda x, y: np.max(np.abs(x - y))),
    (
        "relative_difference",
        "max |x − y| / max |y|",
        2,
        lambda x, y: np.max(np.abs(x - y)) / np.max(np.abs(y)),
    ),
    (
        "relative_rms",
        "√ mean (x − y)² / √ mean x²",
        2,
        lambda x, y: np.sqrt(np.mean((x - y) ** 2)) / np.sqrt(np.mean(x**2)),
    ),
    (
        "ratio_of_rms",
        "√ mean x² / √ mean y²",
        2,
        lambda x, y: np.sqrt(np.mean(x**2) / np.mean(y**2)),
    ),
    ("share_above", "share of x above `bound`", 1, lambda x, bound: np.mean(x > bound)),
    ("largest_condition", "max over rows of λ_max(M) / λ_min(M)", 1, _largest_condition),
):
    define_metric(*_row)
