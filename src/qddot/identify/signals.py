"""Zero-phase filters with a stated bandwidth: smoothing, differentiation, decimation.

All of them are finite, symmetric kernels (a Kaiser-windowed sinc and its derivatives), so that a
block of a long log is filtered as the whole would be, given half a kernel of samples at its ends.
The gain is flat up to half the bandwidth, 0.5 at the bandwidth and nearly 0 from 1.5 times it; the
ripple is 0.003 at 50 dB and 0.0003 at 70 dB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.signal import kaiser_beta, oaconvolve, periodogram
from scipy.sparse import csr_matrix
from scipy.special import i0

from qddot.errors import InvalidArgument

__all__ = ["Filter", "motion_bandwidth"]

_DIFFERENCE = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / 12.0
"""Derivative by five points, for correlation."""
_CUT = 3.0
"""Samples after decimation in a period of the bandwidth: what folds back is below 0.003."""
_PART = 1 << 16
"""Samples that are filtered at a time."""


@dataclass(frozen=True)
class Filter:
    """A symmetric low-pass kernel of a bandwidth in Hz for samples `dt` apart.

    `attenuation` (dB) sets the ripple: what is filtered alike on both sides of an equation needs
    less of it than what is differentiated.
    """

    bandwidth: float
    dt: float
    attenuation: float = 50.0

    def __post_init__(self) -> None:
        if not 0.0 < self.bandwidth < np.inf:
            raise InvalidArgument("bandwidth", self.bandwidth, "it is a positive number of Hz")

    @property
    def passes_all(self) -> bool:
        """Whether the bandwidth is beyond the Nyquist frequency, so that values stay."""
        return self.bandwidth * self.dt >= 0.5

    @property
    def half(self) -> int:
        """Samples on each side that an output depends on."""
        # Kaiser's rule for the number of taps, the transition as wide as the band
        width = (self.attenuation - 8.0) / (2.285 * 2.0 * np.pi)
        return 1 if self.passes_all else max(int(np.ceil(0.5 * width / self._relative)), 4)

    @property
    def _relative(self) -> float:
        return min(self.bandwidth * self.dt, 0.45)

    @property
    def step(self) -> int:
        """How many samples one sample stands for after decimation."""
        return max(int(1.0 / (_CUT * self.bandwidth * self.dt)), 1)

    def taps(self, order: int = 0) -> np.ndarray:
        """Kernel of the value (order 0), first or second derivative, as weights of neighbours.

        Exact on constants, lines and parabolas respectively.
        """
        if self.passes_all:
            kernels = ([0.0, 1.0, 0.0], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0])
            return np.array(kernels[order]) / self.dt**order
        if order == 2:
            # differences of the slope: the kernel's own second derivative has jumps at its ends
            slope = self._slope(self.half - len(_DIFFERENCE) // 2)
            return np.convolve(slope, _DIFFERENCE / self.dt)
        if order == 1:
            return self._slope(self.half)
        value = self._kernel(np.arange(-self.half, self.half + 1.0), self.half)
        return value / value.sum()

    def _slope(self, half: int) -> np.ndarray:
        """Kernel of the first derivative, of `half` samples to each side."""
        n, h = np.arange(-half, half + 1.0), 1e-3
        slope = (self._kernel(n - h, half) - self._kernel(n + h, half)) / (2 * h)
        return slope / (slope @ n) / self.dt

    def _kernel(self, n: np.ndarray, half: int) -> np.ndarray:
        inside = np.clip(1.0 - (n / (half + 1)) ** 2, 0.0, None)
        # Kaiser's window without its pedestal, whose jumps a derivative would feel
        window = i0(kaiser_beta(self.attenuation) * np.sqrt(inside)) - 1.0
        return np.asarray(np.sinc(2 * self._relative * n) * window)

    def apply(self, x: np.ndarray, order: int = 0) -> np.ndarray:
        """Filtered samples along the first axis; `half` fewer at both ends."""
        if self.passes_all and order == 0:
            return x[self.half : len(x) - self.half]
        if len(x) < 2 * self.half + 1:
            return x[:0]
        return np.asarray(oaconvolve(x, self.taps(order)[::-1, None], mode="valid", axes=0))

    def decimate(self, x: np.ndarray, order: int = 0) -> np.ndarray:
        """Every `step`-th of the filtered samples, computed in parts."""
        count = max((len(x) - 2 * self.half - 1) // self.step + 1, 0)
        made = np.empty((count, *x.shape[1:]))
        part = max(_PART // self.step, 1)
        for k in range(0, count, part):
            last = min(k + part, count)
            here = x[k * self.step : (last - 1) * self.step + 2 * self.half + 1]
            made[k:last] = self.apply(np.asarray(here), order)[:: self.step]
        return made

    @lru_cache(maxsize=8)  # noqa: B019 (a filter is two numbers)
    def decimator(self, outputs: int, order: int = 0) -> csr_matrix:
        """Matrix that filters and keeps every `step`-th sample.

        Output k stands at sample half + k · step of the input, which has
        2 half + 1 + (outputs − 1) step samples.
        """
        taps = self.taps(order)
        places = np.arange(outputs)[:, None] * self.step + np.arange(len(taps))
        starts = np.arange(0, places.size + 1, len(taps))
        inputs = len(taps) + (outputs - 1) * self.step
        data = np.tile(taps, outputs)
        return csr_matrix((data, places.ravel(), starts), shape=(outputs, inputs))


def motion_bandwidth(v: np.ndarray, dt: float) -> float:
    """Frequency in Hz below which 99 % of the power of every joint's velocity lies."""
    spread = np.std(v, axis=0)
    moving = v[:, spread > 1e-3 * spread.max(initial=0.0)]
    if len(v) < 8 or not moving.size:
        return 0.1 / dt
    frequency, power = periodogram(moving, 1.0 / dt, axis=0)
    share = np.cumsum(power, axis=0) / power.sum(axis=0)
    return float(frequency[np.argmax(share >= 0.99, axis=0)].max()) or 0.1 / dt
