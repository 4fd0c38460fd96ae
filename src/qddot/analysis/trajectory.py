"""Point-to-point motions in time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import InvalidArgument

__all__ = ["PEAK_ACCELERATION", "PEAK_SPEED", "quintic"]

PEAK_SPEED = 15.0 / 8.0
"""Largest speed of a quintic of unit length and duration, at its middle."""

PEAK_ACCELERATION = 10.0 / math.sqrt(3.0)
"""Largest acceleration of a quintic of unit length and duration, at ½ ∓ √3/6."""


def quintic(
    q0: ArrayLike, q1: ArrayLike, duration: float, t: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, velocity and acceleration of the quintic from rest at q0 to rest at q1.

    q0 and q1 have shape (..., n), t any shape; the results have the shape of t before that of q.
    The motion is s = 10 u³ − 15 u⁴ + 6 u⁵ of u = t / duration (Lynch & Park 2017, section 9.2);
    it stands still before and after. For coordinates that are numbers, not quaternions.
    """
    try:
        start, end, times = (np.asarray(x, dtype=float) for x in (q0, q1, t))
        step = np.subtract(end, start)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("quintic", (q0, q1, t), "it needs arrays of numbers") from error
    if not 0.0 < duration < math.inf:
        raise InvalidArgument("quintic: duration", duration, "it needs seconds, more than 0")
    # the time scaling s(u) and its derivatives, zero outside 0 ≤ u ≤ 1
    u = np.clip(times / duration, 0.0, 1.0).reshape(times.shape + (1,) * step.ndim)
    s = u**3 * (10.0 - 15.0 * u + 6.0 * u**2)
    ds = 30.0 * u**2 * (1.0 - u) ** 2 / duration
    dds = 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / duration**2
    return start + step * s, step * ds, step * dds
