"""The benchmark: qddot and other engines side by side in one run."""

from qddot.bench.measure import FULL, QUICK, BenchmarkSettings
from qddot.bench.plot import plot
from qddot.bench.report import page, read_measurements, sheets, write_measurements
from qddot.bench.rollouts import ROLLOUTS
from qddot.bench.run import (
    FUNCTIONS,
    QUICK_FUNCTIONS,
    QUICK_ROBOTS,
    BenchmarkPlan,
    benchmark,
    disagreements,
)
from qddot.bench.sheet import Sheet
from qddot.bench.subjects import SUITE

__all__ = [
    "FULL",
    "FUNCTIONS",
    "QUICK",
    "QUICK_FUNCTIONS",
    "QUICK_ROBOTS",
    "ROLLOUTS",
    "SUITE",
    "BenchmarkPlan",
    "BenchmarkSettings",
    "Sheet",
    "benchmark",
    "disagreements",
    "page",
    "plot",
    "read_measurements",
    "sheets",
    "write_measurements",
]
