"""A log of a robot: positions and torques of the joints over time, and what was repaired in it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch, UnusableLog, count_text
from qddot.identify.spill import release_pages, row_slices, stack_rows
from qddot.robot.robot import Robot

__all__ = ["Log", "make_log", "repair_times"]

_MOST_LOST = 0.2
"""Share of rows that a repair may drop."""
_LEAST_ROWS = 16
_SHORTEST_PERIOD, _LONGEST_PERIOD = 1e-9, 1e9
"""Periods in s outside which a column is no time."""
_LARGEST = 1e100
"""Numbers from which on squares of them, and sums of these, would overflow."""
_GAP = 5.5
"""Periods without a sample that end a segment."""
_JITTER = 0.02
"""Deviation of the period, relative, beyond which samples are interpolated on an even grid."""
_PART = 1 << 17
"""Samples that are interpolated at a time."""


@dataclass(frozen=True, repr=False)
class Log(Readable):
    """Evenly sampled motion of a robot: time, q, tau (samples × joints), v if it was measured.

    `starts` are the indices at which segments begin: between them the log has gaps. `notes` say
    what was repaired or assumed. Arrays may lie in files (np.memmap).
    """

    joints: tuple[str, ...]
    time: np.ndarray
    q: np.ndarray
    tau: np.ndarray
    v: np.ndarray | None = None
    starts: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()
    source: str = "log"

    def __len__(self) -> int:
        return len(self.time)

    @property
    def dt(self) -> float:
        """Period of the samples in s."""
        first, last = self.longest_segment.start, self.longest_segment.stop
        if last - first < 2:
            reason = "no two samples follow each other without a gap, so that it has no period"
            raise UnusableLog(self.source, reason)
        return float(np.median(np.diff(self.time[first : min(last, first + 100_000)])))

    @property
    def duration(self) -> float:
        """Seconds of recorded motion, gaps left out."""
        return len(self) * self.dt

    @property
    def segments(self) -> list[slice]:
        """Stretches without a gap."""
        ends = (*self.starts[1:], len(self))
        return [slice(a, b) for a, b in zip(self.starts, ends, strict=True)]

    @property
    def longest_segment(self) -> slice:
        """The longest stretch without a gap, the first of several."""
        return max(self.segments, key=lambda s: s.stop - s.start)

    def between(self, first: int, last: int) -> Log:
        """The samples from one index up to another."""
        inner = sorted({0, *(s - first for s in self.starts if first < s < last)})
        return replace(
            self,
            time=self.time[first:last],
            q=self.q[first:last],
            tau=self.tau[first:last],
            v=None if self.v is None else self.v[first:last],
            starts=tuple(inner),
        )

    def split(self, share: float) -> tuple[Log, Log]:
        """The first part of the log, of this share of its samples, and the rest."""
        if not 0.0 < share < 1.0:
            raise InvalidArgument("share", share, "it is between 0 and 1")
        at = round(share * len(self))
        return self.between(0, at), self.between(at, len(self))

    def __str__(self) -> str:
        parts = count_text(len(self.starts), "segment")
        head = (
            f"{self.source}: {len(self):,} samples of {len(self.joints)} joints, "
            f"{self.duration:.4g} s at {1 / self.dt:.5g} Hz, {parts}"
        )
        return "\n".join((head, *(f"  {note}" for note in self.notes)))


def make_log(
    robot: Robot,
    time: ArrayLike,
    q: ArrayLike,
    tau: ArrayLike,
    v: ArrayLike | None = None,
    source: str = "log",
    notes: Sequence[str] = (),
) -> Log:
    """A log from arrays in SI units, joints in the order of the robot; repaired where needed.

    Rows with a number that is not finite, or over 10¹⁰⁰, are dropped, timestamps mended as in
    `repair_times`; refused where that would lose more than a fifth of the rows.
    """
    names = robot.model.velocity_names
    if robot.nq != robot.nv:
        raise UnusableLog(source, f"{robot.name!r} has joints that are no single angle or slide")
    arrays = {"q": q, "tau": tau, **({} if v is None else {"v": v})}
    clock = np.asarray(time, dtype=float)
    made = {name: np.asanyarray(x, dtype=float) for name, x in arrays.items()}
    for name, x in made.items():
        if x.shape != (len(clock), robot.nv):
            raise ShapeMismatch("log", name, f"({len(clock)}, {robot.nv})", x.shape)
    if len(clock) == 0:
        raise UnusableLog(source, "it has no rows")
    # rows that are whole
    whole = np.isfinite(clock)
    for x in made.values():
        for part in row_slices(x):
            whole[part] &= (np.abs(x[part]) < _LARGEST).all(axis=1)
    remarks = list(notes)
    if not whole.any():
        raise UnusableLog(source, "no row is complete: every one has a value that is no number")
    if not whole.all():
        remarks.append(f"{count_text(int((~whole).sum()), 'row')} with values missing left out")
    rows = np.flatnonzero(whole)
    rows, said = repair_times(clock, rows, source)
    remarks += said
    if len(rows) < _LEAST_ROWS:
        raise UnusableLog(
            source, f"it has {count_text(len(rows), 'usable row')}; {_LEAST_ROWS} at least"
        )
    if len(rows) < len(clock):
        clock = clock[rows]
        made = {
            name: stack_rows(np.asarray(x[rows[part]]) for part in row_slices(rows, x[: len(rows)]))
            for name, x in made.items()
        }
    del whole, rows
    return _even_log(names, clock, made, remarks, source)


def repair_times(
    time: np.ndarray, rows: np.ndarray, source: str = "log"
) -> tuple[np.ndarray, list[str]]:
    """The rows whose timestamps increase, and what was wrong with the others.

    Absurd values are those far outside the middle half of the log; of the rest the longest
    increasing chain stays, so that one wrong value never takes those after it with it. More than a
    fifth of the rows lost is refused: then the clock ran twice, or the column is no time.
    """
    found: list[str] = []
    count = len(rows)
    t = time if count == len(time) else time[rows]
    rises = bool(np.all(t[1:] > t[:-1]))
    # quartiles, which stand in their places where times rise
    quartiles = t[[count // 4, 3 * count // 4]] if rises else np.quantile(t, [0.25, 0.75])
    low, high = quartiles
    reach = 10.0 * max(high - low, 1e-9)
    sane = (t >= low - reach) & (t <= high + reach)
    if not sane.all():
        found.append(f"{count_text(int((~sane).sum()), 'absurd timestamp')} left out")
        rows, t = rows[sane], t[sane]
    if not rises and np.any(t[1:] <= t[:-1]):
        kept = _longest_increase(t)
        lost = len(t) - len(kept)
        found.append(f"{count_text(lost, 'row')} with repeated or backward timestamps left out")
        rows = rows[kept]
    if len(rows) < (1.0 - _MOST_LOST) * count:
        raise UnusableLog(
            source,
            f"only {len(rows)} of {count} timestamps increase: two logs in one file, a clock that "
            "was set back, or a column that is no time; split the file, or give rate= to number "
            "the samples instead",
        )
    return rows, found


def _longest_increase(t: np.ndarray) -> np.ndarray:
    """Indices of the longest strictly increasing subsequence (patience sorting)."""
    # what is above all before it and below all after it is in it
    clear = np.ones(len(t), dtype=bool)
    clear[1:] &= t[1:] > np.maximum.accumulate(t[:-1])
    clear[:-1] &= t[:-1] < np.minimum.accumulate(t[:0:-1])[::-1]
    doubtful = np.flatnonzero(~clear)
    # patience sorting of the others: the least end of a chain of each length, and where it stands
    tails, ends = array("d"), array("q")
    before = np.full(len(doubtful), -1, dtype=np.int64)
    for k, x in enumerate(t[doubtful]):
        place = len(tails) if not tails or x > tails[-1] else bisect_left(tails, x)
        if place == len(tails):
            tails.append(x)
            ends.append(k)
        else:
            tails[place], ends[place] = x, k
        before[k] = ends[place - 1] if place else -1
    # the longest chain, from its end
    k = ends[-1] if ends else -1
    while k >= 0:
        clear[doubtful[k]] = True
        k = before[k]
    return np.flatnonzero(clear)


def _even_log(
    names: tuple[str, ...],
    time: np.ndarray,
    arrays: dict[str, np.ndarray],
    notes: list[str],
    source: str,
) -> Log:
    """Samples on an even grid, in segments between gaps."""
    steps = np.diff(time)
    dt = float(np.median(steps))
    if not _SHORTEST_PERIOD < dt < _LONGEST_PERIOD:
        reason = f"its samples are {dt:.3g} s apart; is the unit of time right?"
        raise UnusableLog(source, f"{reason} --unit t=ms (units=) converts it")
    ends = np.flatnonzero(steps > _GAP * dt) + 1
    starts = [0, *ends.tolist()]
    if len(ends):
        notes.append(f"{count_text(len(ends), 'gap')} of more than {_GAP - 0.5:g} periods")
    inner = np.delete(steps, ends - 1) if len(ends) else steps
    del steps
    # the period that fits a whole segment, where the clock is coarse
    regular = max(inner.max(initial=dt) - dt, dt - inner.min(initial=dt)) <= _JITTER * dt
    if not regular:
        jitter = float(np.std(inner) / dt)
        dt = float(np.mean(inner))
        notes.append(f"uneven samples (period {dt:.4g} s ± {100 * jitter:.2g} %) interpolated")
        # the even grid of each segment in parts, with the samples on both sides of a part
        parts: list[tuple[slice, np.ndarray]] = []
        grid_starts: list[int] = []
        total = 0
        for a, b in zip(starts, (*starts[1:], len(time)), strict=True):
            grid_starts.append(total)
            count = int((time[b - 1] - time[a]) / dt + 1e-9) + 1
            total += count
            for k in range(0, count, _PART):
                grid = time[a] + dt * np.arange(k, min(k + _PART, count))
                first, last = np.searchsorted(time[a:b], grid[[0, -1]])
                parts.append((slice(a + max(first - 1, 0), min(a + last + 1, b)), grid))

        def interpolate(x: np.ndarray, time: np.ndarray = time) -> Iterator[np.ndarray]:
            for here, grid in parts:
                yield np.stack([np.interp(grid, time[here], c) for c in x[here].T], axis=1)
                release_pages(x)

        arrays = {name: stack_rows(interpolate(x)) for name, x in arrays.items()}
        time, starts = np.concatenate([grid for _, grid in parts]), grid_starts
    lengths = np.diff([*starts, len(time)])
    if lengths.max() < _LEAST_ROWS:
        raise UnusableLog(source, "gaps leave no stretch of 16 samples")
    return Log(
        joints=names,
        time=time,
        q=arrays["q"],
        tau=arrays["tau"],
        v=arrays.get("v"),
        starts=tuple(starts),
        notes=tuple(notes),
        source=source,
    )
