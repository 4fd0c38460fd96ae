"""Gains from what an engineer chooses: bandwidth, damping ratio, delay, resonance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import InvalidArgument, UnknownName
from qddot.robot.robot import Robot

__all__ = [
    "INERTIA_RULES",
    "Gains",
    "bandwidth_bound",
    "force_integral_bound",
    "gravity_damping",
    "joint_gains",
    "joint_inertias",
    "require_bandwidth",
]

INERTIA_RULES = ("diagonal", "free", "unit")
"""Inertia that a joint is taken to have: Mᵢᵢ (others locked), 1/(M⁻¹)ᵢᵢ (others free), or 1."""
_RESONANCE_SHARE = 5.0
_DELAY_SHARE = 0.5
_PHASE = np.pi / 6.0


class Gains(NamedTuple):
    """Stiffness and damping of each joint."""

    kp: np.ndarray
    kd: np.ndarray


def joint_inertias(robot: Robot, q: ArrayLike, rule: str = "diagonal") -> np.ndarray:
    """Inertia that each joint is taken to have at a configuration, by one of INERTIA_RULES."""
    if rule == "unit":
        return np.ones(robot.nv)
    if rule == "diagonal":
        return np.diag(robot.mass_matrix(q)).copy()
    if rule == "free":
        return 1.0 / np.diag(robot.inverse_mass_matrix(q))
    raise UnknownName("inertia rule", rule, INERTIA_RULES)


def bandwidth_bound(
    delay: float = 0.0, rate: float | None = None, resonance: float | None = None
) -> float:
    """Largest natural frequency (rad/s) of a position loop.

    The delay of the loop is that of its path plus one and a half periods (sample and hold); with
    ω · delay ≤ ½ it takes at most 29° of phase. A resonance of the drive (rad/s) bounds ω to a
    fifth of it. Infinite if nothing is given.
    """
    for name, x in (("delay", delay), ("rate", rate), ("resonance", resonance)):
        if x is not None and not (np.isfinite(x) and (x > 0.0 or (name == "delay" and x == 0.0))):
            raise InvalidArgument(name, x, "it is a number above zero")
    total = delay + (1.5 / rate if rate else 0.0)
    bounds = [_DELAY_SHARE / total] if total else []
    bounds += [resonance / _RESONANCE_SHARE] if resonance else []
    return min(bounds, default=np.inf)


def require_bandwidth(omega: ArrayLike, bound: float) -> None:
    """Refuse a bandwidth (rad/s) above its bound."""
    worst = float(np.max(omega))
    if worst > bound:
        accepted = f"delay, rate and resonance allow {bound:.4g} rad/s"
        raise InvalidArgument("bandwidth", worst, accepted)


def joint_gains(
    robot: Robot,
    omega: ArrayLike,
    ratio: ArrayLike = 1.0,
    *,
    q: ArrayLike | None = None,
    inertia: str = "diagonal",
    delay: float = 0.0,
    rate: float | None = None,
    resonance: float | None = None,
) -> Gains:
    """Stiffness ω² I and damping 2 ζ ω I of each joint, for natural frequency and damping ratio.

    I is the inertia by one of INERTIA_RULES at q; "unit" suits computed torque, whose error has no
    inertia. Frequencies above the bound of delay, rate and resonance are refused.
    """
    omega = np.broadcast_to(np.asarray(omega, float), (robot.nv,))
    if not (np.isfinite(omega).all() and (omega > 0.0).all()):
        raise InvalidArgument("omega", omega, "it needs rad/s above zero, one a joint")
    require_bandwidth(omega, bandwidth_bound(delay, rate, resonance))
    felt = joint_inertias(robot, robot.neutral() if q is None else q, inertia)
    return Gains(felt * omega**2, felt * 2.0 * np.asarray(ratio, float) * omega)


def gravity_damping(
    robot: Robot, q: ArrayLike, time: float, inertia: str = "diagonal"
) -> np.ndarray:
    """Damping of each joint with which its speed falls by e in `time` seconds: I / time."""
    if not 0.0 < time < np.inf:
        raise InvalidArgument("time", time, "it is a number of seconds above zero")
    return joint_inertias(robot, q, inertia) / time


def force_integral_bound(inertia: float, damping: float, delay: float = 0.0) -> float:
    """Largest gain (1/s) of the force integral at a contact.

    The tool weighs `inertia` (kg: Λ along the normal, with what moves of the surface), and
    `damping` (N s/m) is that of law and surface. On a surface of stiffness k the resonance
    ω = √(k/Λ) has the damping ratio ζ; a crossover of ζ ω = damping / (2 Λ) keeps its peak below
    one, whatever k. The delay takes no more than 30° of phase there.
    """
    for name, x, least in (("inertia", inertia, 1e-300), ("damping", damping, 0.0)):
        if not least <= x < np.inf:
            raise InvalidArgument(name, x, "it is a number above zero")
    damped = damping / (2.0 * inertia)
    return min(damped, _PHASE / delay) if delay > 0.0 else damped
