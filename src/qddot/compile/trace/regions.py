"""Regions: parts of a tape that are run again, or not at all, as the numbers decide.

Inside a region ("carry", initial) is a number at the start of a run; after it, ("result", carry) is
the number after the last. Nothing else that is computed inside is used outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Region", "innermost_regions", "split_at_regions"]


@dataclass(frozen=True)
class Region:
    """Entries from `start` to `stop`, run while a state has its flag above 1/2.

    They are run at most `times` times. `carries` are entries before the region; at the end of a run
    they are set to the operands `nexts`. A carry without an initial number has no value where the
    region is not run.
    """

    start: int
    stop: int
    times: int
    flag: int
    carries: tuple[int, ...]
    nexts: tuple[int | float, ...]

    @property
    def entries(self) -> range:
        """The entries of the region."""
        return range(self.start, self.stop)


def split_at_regions(
    regions: Sequence[Region], entries: range, parent: Region | None = None
) -> Iterator[range | Region]:
    """Straight ranges of entries and the regions between them, in order, without their insides."""
    at = entries.start
    for region in sorted(regions, key=lambda region: region.start):
        if region is not parent and at <= region.start < entries.stop:
            if at < region.start:
                yield range(at, region.start)
            yield region
            at = region.stop
    if at < entries.stop:
        yield range(at, entries.stop)


def innermost_regions(regions: Sequence[Region], count: int) -> list[Region | None]:
    """The innermost region of each of the first `count` entries, None outside of all."""
    found: list[Region | None] = [None] * count
    # regions that contain others come first
    for region in sorted(regions, key=lambda region: len(region.entries), reverse=True):
        found[region.start : region.stop] = [region] * len(region.entries)
    return found
