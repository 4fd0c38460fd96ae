"""Periodic motions as Fourier series of the joint positions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qddot.display.text import Readable
from qddot.errors import InvalidArgument
from qddot.files import write_whole

__all__ = ["FourierMotion", "fourier_basis", "random_motion"]


def fourier_basis(time: np.ndarray, period: float, harmonics: int) -> np.ndarray:
    """Functions of time that a motion is a sum of, and their derivatives (3 × n × 1 + 2 H).

    The first is the constant; then come sin(kωt)/(kω) and −cos(kωt)/(kω), whose coefficients are
    speeds.
    """
    k = 2.0 * np.pi / period * np.arange(1, harmonics + 1)
    phase = time[:, None] * k
    s, c = np.sin(phase), np.cos(phase)
    one = np.ones((len(time), 1))
    return np.stack(
        [
            np.hstack([one, s / k, -c / k]),
            np.hstack([0.0 * one, c, s]),
            np.hstack([0.0 * one, -k * s, k * c]),
        ]
    )


@dataclass(frozen=True, repr=False)
class FourierMotion(Readable):
    """A periodic motion: coefficients (nv × 1 + 2 H) of `fourier_basis`."""

    joints: tuple[str, ...]
    period: float
    coefficients: np.ndarray

    @property
    def harmonics(self) -> int:
        """Harmonics of the series."""
        return (self.coefficients.shape[1] - 1) // 2

    def sample(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities and accelerations (n × nv) at times."""
        basis = fourier_basis(np.asarray(time, dtype=float), self.period, self.harmonics)
        q, v, a = basis @ self.coefficients.T
        return q, v, a

    def write(self, file: str | Path, rate: float = 500.0, force: bool = False) -> Path:
        """Write one period as a CSV file: time, then q, v and a of each joint."""
        if not 0.0 < rate < np.inf:
            raise InvalidArgument("rate", rate, "it is a positive number of Hz")
        time = np.arange(int(self.period * rate) + 1) / rate
        head = ["time", *(f"{s}_{j}" for s in ("q", "v", "a") for j in self.joints)]
        rows = np.hstack([time[:, None], *self.sample(time)])
        lines = [",".join(head), *(",".join(f"{x:.9g}" for x in row) for row in rows)]
        return write_whole(file, "\n".join(lines) + "\n", force)


def random_motion(
    joints: tuple[str, ...],
    period: float,
    harmonics: int,
    lower: np.ndarray,
    upper: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    rng: np.random.Generator,
) -> FourierMotion:
    """A random series that fills the limits: each joint touches one of them."""
    nv = len(joints)
    basis = fourier_basis(np.linspace(0.0, period, 400), period, harmonics)
    waves = rng.normal(size=(nv, 2 * harmonics))
    q, v, a = basis[..., 1:] @ waves.T
    span = np.ptp(q, axis=0)
    room = upper - lower
    fill = np.minimum.reduce(
        [room / span, velocity / np.abs(v).max(axis=0), acceleration / np.abs(a).max(axis=0)]
    )
    left = room - fill * span
    middle = lower - fill * q.min(axis=0) + rng.uniform(0.0, 1.0, nv) * left
    coefficients = np.hstack([middle[:, None], fill[:, None] * waves])
    return FourierMotion(joints, period, coefficients)
