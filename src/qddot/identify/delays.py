"""Delay between positions and torques: the shift at which a full fit leaves least."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qddot.identify.design import choose_filters
from qddot.identify.log import Log
from qddot.identify.torque_model import torque_model
from qddot.robot.robot import Robot

__all__ = ["DelayEstimate", "estimate_delay"]

_BLOCKS = 8
_MOST_SHIFT = 0.08
"""Largest delay that is looked for, s."""
_MOST_SHIFTS = 81


@dataclass(frozen=True)
class DelayEstimate:
    """Samples by which torques are behind positions, their deviation, and the drop of log SSE."""

    samples: float
    deviation: float
    drop: float


def estimate_delay(
    robot: Robot, log: Log, joints: list[int], bandwidth: float | None = None
) -> DelayEstimate | str:
    """The delay of the torques of some joints in the longest segment of a log, or why not."""
    torque = choose_filters(log, bandwidth)[1]
    segment = log.longest_segment
    most = int(np.ceil(_MOST_SHIFT / log.dt))
    wide = replace(torque, bandwidth=2.0 * torque.bandwidth)
    raw = np.asarray(log.q[segment])
    count = len(raw) - 2 * wide.half - 2 * most
    if count < 40 * wide.step:
        return "the log is too short"
    q = wide.apply(raw)
    if log.v is None:
        v, a = wide.apply(raw, 1), wide.apply(raw, 2)
    else:
        measured = np.asarray(log.v[segment])
        v, a = wide.apply(measured), wide.apply(measured, 1)
    tau = wide.apply(np.asarray(log.tau[segment]))
    rows = np.arange(most, most + count, wide.step)
    model = torque_model(robot, v0=0.02 * np.abs(v).max(axis=0) + 1e-9)
    columns = model.regressor(q[rows], v[rows], a[rows])
    # the span of each joint's columns, once; the torque moves over it
    spans = []
    for j in joints:
        A = columns[:, j] / (np.linalg.norm(columns[:, j], axis=0) + 1e-12)
        U, s, _ = np.linalg.svd(A, full_matrices=False)
        spans.append(U[:, s > 1e-3 * s[0]])
    steps = min(2 * most + 1, _MOST_SHIFTS)
    shifts = np.unique(np.round(np.linspace(-most, most, steps)).astype(int))
    errors = np.zeros((len(shifts), len(joints), _BLOCKS))
    for k, shift in enumerate(shifts):
        for i, j in enumerate(joints):
            x = tau[rows + shift, j]
            left = (x - spans[i] @ (spans[i].T @ x)) ** 2
            errors[k, i] = [part.sum() for part in np.array_split(left, _BLOCKS)]
    profile = _profile(errors)
    best, zero = int(np.argmin(profile)), int(np.argmin(np.abs(shifts)))
    if best in (0, len(shifts) - 1):
        return "the residual has no minimum over shifts of 80 ms"
    # leave out an eighth of the log each time
    others = [_profile(np.delete(errors, b, axis=2)) for b in range(_BLOCKS)]
    spread = float(np.sqrt((_BLOCKS - 1) * np.var([_lowest(shifts, p) for p in others])))
    return DelayEstimate(_lowest(shifts, profile), spread, float(profile[zero] - profile[best]))


def _profile(errors: np.ndarray) -> np.ndarray:
    """Log of the squares left at each shift, summed over joints."""
    return np.asarray(np.log(errors.sum(axis=2) + 1e-300).sum(axis=1))


def _lowest(shifts: np.ndarray, profile: np.ndarray) -> float:
    """The minimum of a profile by the parabola through its lowest point and neighbours."""
    best = int(np.argmin(profile))
    if best in (0, len(shifts) - 1):
        return float(shifts[best])
    a, b, c = profile[best - 1 : best + 2]
    bend = a - 2 * b + c
    step = shifts[best + 1] - shifts[best]
    return float(shifts[best] + (0.5 * step * (a - c) / bend if bend > 0 else 0.0))
