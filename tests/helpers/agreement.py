"""What tests against other engines share: where robots lie, when two arrays agree."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from qddot.loaders.named_robots import named_files

SHARED = Path(__file__).resolve().parents[3] / "shared"


@lru_cache(maxsize=1)
def example_urdfs() -> list[Path]:
    """Every URDF of example-robot-data; the folder is that of the package, not of the names."""
    for file in named_files().values():
        for folder in file.parents:
            if folder.name == "robots" and folder.parent.name == "example-robot-data":
                return sorted(folder.rglob("*.urdf"))
    return []


def shared_files(pattern: str) -> list[Path]:
    """Files of the shared folder beside the repository."""
    return sorted(SHARED.glob(pattern))


def need_shared(files: list[Path]) -> None:
    """Skip, with the reason, where the shared folder is absent."""
    if not files:
        pytest.skip(f"the folder {SHARED.name}/ is not beside the repository")


def assert_agree(name: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """Agreement relative to the largest entry."""
    assert ours.shape == theirs.shape, name
    scale = max(np.abs(theirs).max(initial=0.0), 1e-3)
    worst = np.abs(ours - theirs).max(initial=0.0) / scale
    assert worst <= tolerance, f"{name}: relative difference {worst:.2e}"
