"""The shortest settings of a benchmark."""

from __future__ import annotations

from qddot import bench

TINY = bench.BenchmarkSettings(
    rounds=1,
    seconds=0.0,
    sample=1e-5,
    bytes=1,
    states=64,
    threaded_bytes=1 << 20,
    threaded_seconds=0.0,
    rollout_seconds=0.0,
    chains=(2, 3),
    passes=1,
)
