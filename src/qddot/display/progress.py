"""Progress of long work, as it is told to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["OnStep"]

OnStep = Callable[[str, int, int], None]
"""Called during long work with the name of its stage, the steps done, and the steps in all."""
