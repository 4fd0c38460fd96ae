"""Friction against speed: curves of a fit, and sweeps at constant speeds, designed and fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from qddot.display.plots import PALETTE, save_figure
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NotIdentifiable, ShapeMismatch, UnknownName, Unsupported
from qddot.files import write_whole
from qddot.identify.design import choose_filters
from qddot.identify.estimators import interval_factor
from qddot.identify.fitting import Fit
from qddot.identify.log import Log
from qddot.identify.plots import joint_axes
from qddot.identify.torque_model import DRIVE_TERMS, NOT_FRICTION
from qddot.model.friction_models import FrictionModel, coulomb, stribeck
from qddot.robot.robot import Robot

__all__ = [
    "FrictionCurve",
    "Sweep",
    "SweepFit",
    "fit_sweep",
    "friction_curves",
    "plan_sweep",
    "plot_friction",
]

_STEADY = 0.03
"""Change of speed, relative, within which a stretch counts as constant."""
_WHILE = 0.1
"""Seconds over which the speed changes by no more than that."""
_LEAST_LEVELS = 3
_CONSTANT = 0.2
"""Seconds at constant speed that a sweep has at least."""
_ROUNDING = 1e-9
"""Distance beyond a position limit that counts as rounding."""


@dataclass(frozen=True, repr=False)
class FrictionCurve(Readable):
    """Friction torque of a joint over speed, with 95 % half-widths, as identified by a fit."""

    joint: str
    speed: np.ndarray
    torque: np.ndarray
    half_width: np.ndarray
    terms: tuple[str, ...]

    def __str__(self) -> str:
        top, slow = self.speed[-1], 0.1 * self.speed[-1]
        low = np.interp(slow, self.speed, self.torque)
        return (
            f"{self.joint}: {self.torque[-1]:.3g} ± {self.half_width[-1]:.2g} N m at {top:.3g} "
            f"rad/s, {low:.3g} at {slow:.2g}; "
            f"{', '.join(self.terms)}"
        )


def friction_curves(fit: Fit) -> tuple[FrictionCurve, ...]:
    """Friction of each joint over the speeds that the log has."""
    base, model = fit.design.base, fit.model
    places = {int(k): i for i, k in enumerate(base.independent)}
    made = []
    for j, name in enumerate(model.robot.model.velocity_names):
        speed = np.linspace(0.0, float(fit.speeds[j]), 81)
        load = np.full_like(speed, float(np.abs(fit.residuals.tau[:, j]).mean()))
        rows = np.zeros((len(speed), base.rank))
        terms = []
        place = model.drive_slices[j]
        for term, k in zip(model.drives[j], range(place.start, place.stop), strict=True):
            if term.kind in NOT_FRICTION or k not in places:
                continue
            zero = speed * 0.0
            rows[:, places[k]] = DRIVE_TERMS[term.kind][1](zero, speed, zero, load, term.speed)
            terms.append(term.label)
        spread = np.sqrt(np.maximum(np.einsum("sp,pr,sr->s", rows, fit.covariance, rows), 0.0))
        half = interval_factor(fit.freedom) * spread
        made.append(FrictionCurve(name, speed, rows @ fit.values, half, tuple(terms)))
    return tuple(made)


def plot_friction(curves: Sequence[FrictionCurve], file: str | Path) -> None:
    """Friction of each joint over speed, with its 95 % band."""
    figure, axes = joint_axes(len(curves), "friction against speed, with 95 % band")
    for ax, c in zip(axes, curves, strict=True):
        ax.fill_between(c.speed, c.torque - c.half_width, c.torque + c.half_width,
                        color=PALETTE[0], alpha=0.25, lw=0)  # fmt: skip
        ax.plot(c.speed, c.torque, color=PALETTE[0])
        ax.set_title(f"{c.joint}: {', '.join(c.terms)}", fontsize=9)
        ax.set_ylabel("N m", fontsize=8)
        ax.set_ylim(bottom=min(0.0, float((c.torque - c.half_width).min())))
        ax.tick_params(labelsize=8)
        ax.grid(alpha=0.25)
    for ax in axes[-2:]:
        ax.set_xlabel("rad/s", fontsize=8)
    save_figure(figure, Path(file))


@dataclass(frozen=True, repr=False)
class Sweep(Readable):
    """Motion of one joint to and fro at constant speeds, the others at rest: time and q."""

    joint: str
    speeds: tuple[float, ...]
    time: np.ndarray
    q: np.ndarray
    joints: tuple[str, ...]

    def write(self, file: str | Path, force: bool = False) -> Path:
        """Write the motion as a CSV file of time and q of each joint."""
        lines = [",".join(["time", *(f"q_{j}" for j in self.joints)])]
        rows = np.column_stack([self.time, self.q])
        lines += [",".join(f"{x:.9g}" for x in row) for row in rows]
        return write_whole(file, "\n".join(lines) + "\n", force)


def plan_sweep(
    robot: Robot,
    joint: str,
    speeds: Sequence[float] | None = None,
    q: Any = None,
    acceleration: float = 2.0,
    rate: float = 500.0,
) -> Sweep:
    """Sweeps of a joint to and fro over the same stretch, at speeds that grow geometrically.

    The same positions are passed both ways, so that gravity cancels in the difference of torques.
    The other joints rest at `q`, or in the middle of their limits. Refused where the motion would
    leave limits of position or speed.
    """
    names, limits = robot.model.velocity_names, robot.limits
    if joint not in names:
        raise UnknownName("joint", joint, names, robot.name)
    if robot.nq != robot.nv:
        raise Unsupported("robot", robot.name, "a sweep needs joints of one freedom each")
    for what, x in (("acceleration", acceleration), ("rate", rate)):
        if not 0.0 < x < np.inf:
            raise InvalidArgument(what, x, "it is a positive number")
    rest = _resting_place(robot) if q is None else np.asarray(q, dtype=float)
    if rest.shape != (robot.nq,):
        raise ShapeMismatch("plan_sweep", "q", f"({robot.nq},)", rest.shape)
    for name, x, lower, upper in zip(names, rest, limits.lower, limits.upper, strict=True):
        if not lower - _ROUNDING <= x <= upper + _ROUNDING:
            accepted = f"the limits of {name} are {lower:.4g} … {upper:.4g}"
            raise Unsupported("q", float(x), accepted)
    # within the limits, a full turn at most, and 5 % of the stretch from its ends
    j = names.index(joint)
    low = limits.lower[j] if np.isfinite(limits.lower[j]) else min(-np.pi, limits.upper[j] - np.pi)
    high = limits.upper[j] if np.isfinite(limits.upper[j]) else max(np.pi, low + np.pi)
    length = 0.9 * min(high - low, 2.0 * np.pi)
    start = 0.5 * (low + high - length)
    # speeds v whose ramps leave room for a constant part: v²/a + v T ≤ length, in whole samples
    part = 0.5 * acceleration * (_CONSTANT + 2.0 / rate)
    fastest = float(np.sqrt(part**2 + acceleration * length) - part)
    bound = limits.velocity[j] if limits.velocity[j] > 0.0 else np.inf
    if speeds is None:
        top = min(0.8 * bound if np.isfinite(bound) else 0.8, fastest)
        levels = np.geomspace(0.025, 1.0, 8) * top
    else:
        levels = np.asarray(speeds, dtype=float)
    largest = min(fastest, bound)
    if not levels.size or not np.all((levels > 0.0) & (levels <= largest)):
        reason = "its limit" if bound <= fastest else f"with ramps of {acceleration:g} rad/s²"
        accepted = f"{joint} has room for speeds above 0 and up to {largest:.4g} rad/s, {reason}"
        raise Unsupported("speeds", speeds, accepted)
    pieces = []
    for v in levels:
        # two seconds at constant speed, or as long as there is room; whole samples throughout
        ramp = np.ceil(v / acceleration * rate) / rate
        flat = np.floor(min(2.0, length / v - ramp) * rate) / rate
        t = np.arange(round((2.0 * ramp + flat) * rate)) / rate
        rise, even = np.minimum(t, ramp), np.clip(t - ramp, 0.0, flat)
        fall = np.clip(t - ramp - flat, 0.0, ramp)
        s = v * (0.5 * rise**2 / ramp + even + fall - 0.5 * fall**2 / ramp)
        pieces += [start + s, start + v * (flat + ramp) - s]
    path = np.concatenate(pieces)
    motion = np.tile(rest, (len(path), 1))
    motion[:, j] = path
    return Sweep(joint, tuple(map(float, levels)), np.arange(len(path)) / rate, motion, names)


def _resting_place(robot: Robot) -> np.ndarray:
    """The middle of the limits of each joint that has both, else its neutral place within them."""
    low, high = robot.limits.lower, robot.limits.upper
    both = np.isfinite(low) & np.isfinite(high)
    middle = 0.5 * (np.where(both, low, 0.0) + np.where(both, high, 0.0))
    return np.where(both, middle, np.clip(robot.neutral(), low, high))


@dataclass(frozen=True, repr=False)
class SweepFit(Readable):
    """Friction at the speeds of a sweep, and the simplest law that explains it."""

    joint: str
    speed: np.ndarray
    torque: np.ndarray
    deviation: np.ndarray
    law: FrictionModel
    chosen: str

    def __str__(self) -> str:
        points = ", ".join(
            f"{v:.3g}: {t:.3g}" for v, t in zip(self.speed, self.torque, strict=True)
        )
        return f"{self.joint}: {self.law} ({self.chosen}); rad/s: N m {points}"


def fit_sweep(robot: Robot, log: Log, joint: str, bandwidth: float | None = None) -> SweepFit:
    """Friction of a joint from a log of sweeps: half the torque difference of both ways.

    The law is Coulomb and viscous friction, with a Stribeck rise only if that explains more than
    its two parameters cost (Akaike's criterion for few points).
    """
    names = robot.model.velocity_names
    if joint not in names:
        raise UnknownName("joint", joint, names, robot.name)
    j = names.index(joint)
    motion = choose_filters(log, bandwidth)[0]
    q, v, a, tau = [], [], [], []
    for segment in log.segments:
        raw = np.asarray(log.q[segment, j])[:, None]
        q.append(motion.apply(raw)[:, 0])
        v.append(motion.apply(raw, 1)[:, 0])
        a.append(motion.apply(raw, 2)[:, 0])
        tau.append(motion.apply(np.asarray(log.tau[segment, j])[:, None])[:, 0])
    x, speed, change, torque = (np.concatenate(part) for part in (q, v, a, tau))
    # ramps are left out: there inertia takes part of the torque
    even = np.abs(change) * _WHILE < _STEADY * np.abs(speed)
    x, speed, torque = x[even], speed[even], torque[even]
    levels = _steady_levels(speed)
    rows = [_both_ways(x, speed, torque, level) for level in levels]
    rows = [r for r in rows if r is not None]
    if len(rows) < _LEAST_LEVELS:
        raise NotIdentifiable(
            f"friction of {joint}",
            f"{len(rows)} speeds are held constant both ways over the same positions",
            "record the motion of plan_sweep",
        )
    s, f, e = np.array(rows).T
    e = np.maximum(e, 1e-3 * np.abs(f).max())
    n = len(s)

    def cost(columns: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        x, left = nnls(columns / e[:, None], f / e)
        spare = n - count - 1
        penalty = 2 * count + 2 * count * (count + 1) / spare if spare > 0 else np.inf
        return n * np.log(max(left**2 / n, 1e-12)) + penalty, x

    # the simplest of nested laws: Coulomb and viscous, then with a Stribeck rise
    plain = np.column_stack([np.ones(n), s])
    best, fitted = cost(plain, 2)
    law, chosen = coulomb(float(fitted[0]), float(fitted[1])), "Coulomb and viscous"
    for bend in np.geomspace(s[0] * 0.7, s[-1] * 0.3, 16):
        found, y = cost(np.column_stack([plain, 1.0 / (1.0 + (s / bend) ** 2)]), 4)
        if found < best - 4.0 and y[2] > 0.0:
            best, chosen = found, "with a Stribeck rise"
            law = stribeck(float(y[0] + y[2]), float(y[0]), float(bend), float(y[1]))
    return SweepFit(joint, s, f, e, law, chosen)


def _steady_levels(v: np.ndarray) -> list[float]:
    """Speeds at which the joint stays for long."""
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if top <= 0.0:
        return []
    edges = np.geomspace(1e-3 * top, 1.2 * top, 240)
    counts = np.histogram(size, edges)[0]
    peaks = [
        k
        for k in range(1, len(counts) - 1)
        if counts[k] > 0.004 * len(v) and counts[k] >= counts[k - 1 : k + 2].max()
    ]
    levels: list[float] = []
    for k in peaks:
        near = size[(size > edges[max(k - 1, 0)]) & (size < edges[k + 2])]
        level = float(np.median(near))
        if not levels or level > 1.15 * levels[-1]:
            levels.append(level)
    return levels


def _both_ways(
    q: np.ndarray, v: np.ndarray, tau: np.ndarray, level: float
) -> tuple[float, float, float] | None:
    """Speed, friction and its deviation from passes over the same positions in both directions."""
    ahead = np.abs(v - level) < _STEADY * level
    back = np.abs(v + level) < _STEADY * level
    if ahead.sum() < 20 or back.sum() < 20:
        return None
    low, high = max(q[ahead].min(), q[back].min()), min(q[ahead].max(), q[back].max())
    if high <= low:
        return None
    edges = np.linspace(low, high, 13)
    halves = []
    for a, b in pairwise(edges):
        inside = (q >= a) & (q < b)
        if (inside & ahead).any() and (inside & back).any():
            halves.append(0.5 * (tau[inside & ahead].mean() - tau[inside & back].mean()))
    if len(halves) < 4:
        return None
    return level, float(np.mean(halves)), float(np.std(halves, ddof=1) / np.sqrt(len(halves)))
