"""Comparison: one robot in several engines or in two files, and the first cause of a difference."""

from qddot.verify.compare.engines import ENGINES
from qddot.verify.compare.result import ModelComparison, ModelDifference, Report, Stage, join_names
from qddot.verify.compare.run import Settings, compare
from qddot.verify.compare.terms import TERMS

__all__ = [
    "ENGINES",
    "TERMS",
    "ModelComparison",
    "ModelDifference",
    "Report",
    "Settings",
    "Stage",
    "compare",
    "join_names",
]
