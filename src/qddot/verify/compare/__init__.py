"""Comparison: one robot in several engines or in two files, and the first cause of a difference."""

from qddot.verify.compare.engines import ENGINES
from qddot.verify.compare.result import ModelComparison, ModelDifference, Report, Stage, join_names
from qddot.verify.compare.run import Settings, compare

__all__ = [
    "ENGINES",
    "ModelComparison",
    "ModelDifference",
    "Report",
    "Settings",
    "Stage",
    "compare",
    "join_names",
]
