"""Zero-phase filters with a stated bandwidth: smoothing, differentiation, decimation.

All of them are finite, symmetric kernels (a Kaiser-windowed sinc and its derivatives), so that a
block of a long log is filtered as the whole would be, given half a kernel of samples at its ends.
The gain is flat up to half the bandwidth, 0.5 at the bandwidth and below 0.003 from 1.5 times it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import correlate1d
from scipy.signal import periodogram
from scipy.sparse import csr_matrix
from scipy.special import i0

from qddot.errors import InvalidArgument

__all__ = ["Filter", "motion_bandwidth"]

_BETA = 4.55
"""Kaiser parameter of 50 dB."""
_WIDTH = 2.93
"""Taps times transition width, in samples times the sampling rate, for that parameter."""
_CUT = 3.0
"""Samples after decimation in a period of the bandwidth: what folds back is below 0.003."""


@dataclass(frozen=True)
class Filter:
    """A symmetric low-pass kernel of a bandwidth in Hz for samples `dt` apart."""

    bandwidth: float
    dt: float

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
        return max(1 if self.passes_all else int(np.ceil(0.5 * _WIDTH / self._relative)), 1)

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
        n = np.arange(-self.half, self.half + 1)
        if self.passes_all:
            kernels = ([0.0, 1.0, 0.0], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0])
            return np.array(kernels[order]) / self.dt**order
        # a fine grid turns the derivatives of the windowed sinc into differences
        h = 1e-3
        value = [self._kernel(n + k * h) for k in (-1, 0, 1)]
        if order == 0:
            return value[1] / value[1].sum()
        if order == 1:
            slope = (value[0] - value[2]) / (2 * h)
            return slope / (slope @ n) / self.dt
        curve = (value[0] - 2 * value[1] + value[2]) / h**2
        curve = curve - value[1] / value[1].sum() * curve.sum()
        return curve / (curve @ n**2) * 2 / self.dt**2

    def _kernel(self, n: np.ndarray) -> np.ndarray:
        inside = np.clip(1.0 - (n / (self.half + 1)) ** 2, 0.0, None)
        return np.sinc(2 * self._relative * n) * i0(_BETA * np.sqrt(inside))

    def apply(self, x: np.ndarray, order: int = 0) -> np.ndarray:
        """Filtered samples along the first axis; `half` fewer at both ends."""
        if self.passes_all and order == 0:
            return x[self.half : len(x) - self.half]
        full = correlate1d(x, self.taps(order), axis=0, mode="nearest")
        return full[self.half : len(x) - self.half]

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
    moving = v[:, np.std(v, axis=0) > 0.0]
    if len(v) < 8 or not moving.size:
        return 0.1 / dt
    frequency, power = periodogram(moving, 1.0 / dt, axis=0)
    share = np.cumsum(power, axis=0) / power.sum(axis=0)
    return float(frequency[np.argmax(share >= 0.99, axis=0)].max()) or 0.1 / dt
