"""Definitions of the operations of a tape, on scalars of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qddot.spatial import scalar

__all__ = ["DEFINITIONS", "NO_OPERATIONS"]

DEFINITIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
    "fms": lambda a, b, c: a * b - c,
    "fnma": lambda a, b, c: c - a * b,
    "neg": lambda a: -a,
    "sin": scalar.sin,
    "cos": scalar.cos,
    "sqrt": scalar.sqrt,
    "exp": scalar.exp,
    "log": scalar.log,
    "tanh": scalar.tanh,
    "acos": scalar.acos,
    "asin": scalar.asin,
    "floor": scalar.floor,
    "fabs": scalar.absolute,
    "atan2": scalar.atan2,
    "pow": scalar.power,
    "min": scalar.minimum,
    "max": scalar.maximum,
    "select": lambda x, y, a, b: scalar.where(scalar.less(x, y), a, b),
    "select_le": lambda x, y, a, b: scalar.where(scalar.less_equal(x, y), a, b),
    "select_eq": lambda x, y, a, b: scalar.where(scalar.equal(x, y), a, b),
    "carry": lambda a: a,
    "result": lambda a: a,
}
"""The function of each operation of a tape, by name."""
NO_OPERATIONS = ("input", "carry", "result")
"""Entries of a tape that compute nothing."""
