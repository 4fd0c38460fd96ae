"""Comparison: one robot in several engines or in two files, and the first cause of a difference."""

from qddot.verify.compare.engines import ENGINES
from qddot.verify.compare.result import Comparison, Difference, Report, Stage, joined
from qddot.verify.compare.run import Settings, compare

__all__ = [
    "ENGINES",
    "Comparison",
    "Difference",
    "Report",
    "Settings",
    "Stage",
    "compare",
    "joined",
]
