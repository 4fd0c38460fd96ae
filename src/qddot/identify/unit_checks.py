"""Units of a log: positions, velocities and times that are off by a factor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qddot.identify.log import Log
from qddot.robot.robot import Robot

__all__ = ["TORQUE_UNITS", "UnitMistake", "find_unit_mistakes", "name_factor"]

_DEGREES = 180.0 / np.pi
_VELOCITY_UNITS = {
    _DEGREES: "velocities are in degrees per second",
    1.0 / _DEGREES: "positions are in degrees",
    30.0 / np.pi: "velocities are in revolutions per minute",
    1e3: "time is in milliseconds",
    1e6: "time is in microseconds",
    1e9: "time is in nanoseconds",
}
"""Factors between velocities and the change of positions, and the units that explain them."""
TORQUE_UNITS = {1e3: "torques are in mN m", 1e-3: "torques are in kN m"}
"""Factors between measured torques and those of the model, and the units that explain them."""
_SAME = 1.25
"""Ratio up to which a factor is taken for that of a unit."""
_CONSISTENT = 1.5
"""Factor up to which velocities agree with positions."""
_COHERENT = 0.9
"""Correlation from which a factor is believed."""
_WINDOWS, _SHORTEST = 400, 10
"""Number of windows, and least samples of one, in which velocities are integrated."""
_BEYOND = 1.0
"""Distance (rad, m) beyond a limit that no measured motion has."""


@dataclass(frozen=True)
class UnitMistake:
    """Signals that are off by a factor: joints by index, the factor, and evidence in words."""

    joints: tuple[int, ...]
    factor: float
    evidence: str


def find_unit_mistakes(robot: Robot, log: Log) -> list[UnitMistake]:
    """Units of time, velocities and positions that contradict each other or the joint limits."""
    return [*_velocity_mistakes(log), *_position_mistakes(robot, log)]


def name_factor(factor: float, units: dict[float, str]) -> str:
    """The unit that explains a factor, as the end of a sentence; empty if none does."""
    names = [text for x, text in units.items() if 1.0 / _SAME < factor / x < _SAME]
    return f": {names[0]}?" if names else ""


def _velocity_mistakes(log: Log) -> Iterator[UnitMistake]:
    """Velocities whose integral is not the change of positions."""
    if log.v is None:
        return
    # change of position and integral of velocity over windows of each segment
    moves, integrals = [], []
    for segment in log.segments:
        time, q, v = (np.asarray(x[segment]) for x in (log.time, log.q, log.v))
        ends = np.arange(0, len(time), max(_SHORTEST, len(log) // _WINDOWS))
        travel = np.zeros_like(v, float)
        travel[1:] = np.cumsum(0.5 * (v[1:] + v[:-1]) * np.diff(time)[:, None], axis=0)
        moves.append(np.diff(q[ends], axis=0))
        integrals.append(np.diff(travel[ends], axis=0))
    move, integral = np.concatenate(moves), np.concatenate(integrals)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = (move * integral).sum(axis=0) / (move**2).sum(axis=0)
        norms = np.sqrt((move**2).sum(axis=0) * (integral**2).sum(axis=0))
        coherence = np.abs((move * integral).sum(axis=0)) / norms
    wrong = (coherence > _COHERENT) & ~((factors > 1.0 / _CONSISTENT) & (factors < _CONSISTENT))
    if wrong.any():
        factor = float(np.median(factors[wrong]))
        text = f"velocities are {factor:.3g} times the change of positions"
        joints = tuple(map(int, np.flatnonzero(wrong)))
        yield UnitMistake(joints, factor, text + name_factor(factor, _VELOCITY_UNITS))


def _position_mistakes(robot: Robot, log: Log) -> Iterator[UnitMistake]:
    """Positions far beyond the limits of their joints."""
    lower, upper = robot.limits.lower, robot.limits.upper
    low, high = (np.asarray(x(log.q, axis=0)) for x in (np.min, np.max))
    beyond = np.maximum(lower - low, high - upper)
    wrong = beyond > _BEYOND
    if not wrong.any():
        return
    # degrees of joints that turn, millimetres of those that slide
    slides = np.array([b.joint.kind.slides for b in robot.model.independent])
    scale = np.where(slides, 1e-3, 1.0 / _DEGREES)
    within = (low * scale > lower - 0.1) & (high * scale < upper + 0.1)
    unit = "mm" if slides[wrong].all() else "degrees"
    guess = f"{unit}?" if within[wrong].all() else "degrees, motor angles, or another robot?"
    worst = float(beyond.max())
    text = f"positions go up to {worst:.3g} {'m' if slides[np.argmax(beyond)] else 'rad'} beyond"
    joints = tuple(map(int, np.flatnonzero(wrong)))
    yield UnitMistake(joints, worst, f"{text} the limits of the joints: {guess}")
