"""The invariants of the manipulator equation, measured at random states of a robot.

Each compares two routes that share as little as possible: derivatives come from a complex step
(exact to rounding) through another function than the one under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from qddot.robot.robot import Robot

__all__ = [
    "RESIDUAL_BOUND",
    "RESIDUAL_CHECKS",
    "STATES",
    "Check",
    "RandomStates",
    "check",
    "check_composite_bodies",
    "check_coriolis",
    "check_gravity",
    "check_health",
    "check_positive_definite",
    "check_power_balance",
    "check_round_trip",
    "check_skew_symmetry",
    "check_symmetry",
    "default_states",
    "invariants",
    "least_gravity",
    "random_states",
]

RESIDUAL_BOUND = 1e-9
"""Relative residual that the invariants of `RESIDUAL_CHECKS` keep below."""
RESIDUAL_CHECKS = ("symmetric", "composite", "skew", "coriolis", "gravity", "power", "round trip")
_STEP = 1e-30
STATES = 100
"""States of a check."""
_MOST_NUMBERS = 4_000_000
"""Numbers of a matrix nv × nv at all states of a check."""
_ROUNDING = 1e-3
"""Share of the torques that weights and speeds could make, below which errors are not relative."""


@dataclass(frozen=True)
class Check:
    """A claim, the measured value and its bound; `passed` is None if not evaluated.

    `residuals` has the value at each state; `measured` is the largest, for positive definiteness
    the smallest.
    """

    name: str
    claim: str
    measured: float
    bound: float
    passed: bool | None
    detail: str = ""
    residuals: np.ndarray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class RandomStates:
    """States at which a robot is measured: configuration, velocity, acceleration, probe."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    x: np.ndarray


def random_states(robot: Robot, states: int, seed: int) -> RandomStates:
    """Random states within the joint limits, velocities and accelerations of order one."""
    rng = np.random.default_rng(seed)
    q = robot.random(rng, states)
    return RandomStates(q, *(rng.normal(size=(states, robot.nv)) for _ in range(3)))


def default_states(robot: Robot) -> int:
    """Number of states of a check: 100, fewer for a robot whose matrices are large."""
    return max(1, min(STATES, _MOST_NUMBERS // max(1, robot.nv**2)))


def check(robot: Robot, states: int | None = None, seed: int = 0) -> list[Check]:
    """All checks of a robot at random states, `default_states` of them unless told otherwise."""
    at = random_states(robot, states or default_states(robot), seed)
    return [measure(robot, at) for _, measure in invariants()]


def invariants() -> Iterator[tuple[str, Callable[[Robot, RandomStates], Check]]]:
    """The checks in order, by name."""
    yield "health", check_health
    yield "symmetric", check_symmetry
    yield "positive definite", check_positive_definite
    yield "composite", check_composite_bodies
    yield "skew", check_skew_symmetry
    yield "coriolis", check_coriolis
    yield "gravity", check_gravity
    yield "power", check_power_balance
    yield "round trip", check_round_trip


def _bound_residuals(name: str, claim: str, residuals: np.ndarray) -> Check:
    """A check that the largest residual keeps below the bound; NaN does not."""
    worst = float(np.max(np.abs(residuals), initial=0.0))
    return Check(name, claim, worst, RESIDUAL_BOUND, worst < RESIDUAL_BOUND, residuals=residuals)


def _relative_error(
    error: np.ndarray, value: np.ndarray, floor: np.ndarray | float = 0.0
) -> np.ndarray:
    """Largest error of each state, over the largest value of that state or the floor."""
    axes = tuple(range(1, error.ndim))
    scale = np.maximum(np.abs(value).max(axis=axes, initial=0.0), floor)
    return np.abs(error).max(axis=axes, initial=0.0) / np.where(scale > 0, scale, 1.0)


def _imaginary_step(robot: Robot, q: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Configurations a small imaginary step along a tangent."""
    return robot.call("integrate", q.astype(complex), 1j * _STEP * direction)


def least_gravity(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Torque by configuration below which gravity torques are what rounding leaves of weights.

    |gⱼ| ≤ ‖gravity‖ √(m Mⱼⱼ), by Cauchy and Schwarz; where joints move bodies across gravity alone,
    torques are far below that bound.
    """
    inertia = np.diagonal(robot.call("mass_matrix", q), axis1=-2, axis2=-1)
    size = float(np.linalg.norm(np.array(tuple(robot.model.gravity), float)))
    largest = np.abs(inertia).max(axis=-1, initial=0.0)
    return _ROUNDING * size * np.sqrt(float(robot.model.mass) * largest)


def _mass_matrix_columns(robot: Robot, q: np.ndarray) -> np.ndarray:
    """The mass matrix column by column from inverse dynamics at rest."""
    still, unit = np.zeros((1, robot.nv)), np.eye(robot.nv)
    tau = robot.call("inverse_dynamics", q[:, None, :], still, unit)
    return (tau - robot.call("gravity", q)[:, None, :]).swapaxes(1, 2)


def check_health(robot: Robot, at: RandomStates) -> Check:
    """The description has no error."""
    errors = [f for f in robot.health if f.severity == "error"]
    detail = "; ".join(f"{f.subject}: {f.message}" for f in errors[:3])
    if len(errors) > 3:
        detail += f"; and {len(errors) - 3} more"
    claim = "the description has no error"
    return Check("health", claim, float(len(errors)), 1.0, not errors, detail)


def check_symmetry(robot: Robot, at: RandomStates) -> Check:
    """M = Mᵀ, column by column from inverse dynamics."""
    M = _mass_matrix_columns(robot, at.q)
    claim = "M from inverse dynamics is symmetric"
    return _bound_residuals("symmetric", claim, _relative_error(M - M.swapaxes(1, 2), M))


def check_positive_definite(robot: Robot, at: RandomStates) -> Check:
    """M is positive definite; the detail has its condition number, or the links to blame."""
    claim = "M is positive definite"
    if not robot.nv:
        return Check("positive definite", claim, 0.0, 0.0, True, "no degree of freedom")
    M = robot.call("mass_matrix", at.q)
    eigenvalues = np.linalg.eigvalsh(M)
    smallest = float(eigenvalues[:, 0].min())
    floor = float(np.finfo(float).eps * robot.nv * np.abs(eigenvalues).max())
    if smallest > floor:
        condition = (eigenvalues[:, -1] / eigenvalues[:, 0]).max()
        detail = f"condition number up to {condition:.3g}"
    else:
        where = ", ".join(s.subject for s in robot.health if s.kind in ("singular", "inertia"))
        detail = f"look at {where}" if where else "singular or indefinite at a sampled state"
    passed, lowest = smallest > floor, eigenvalues[:, 0]
    return Check("positive definite", claim, smallest, floor, passed, detail, lowest)


def check_composite_bodies(robot: Robot, at: RandomStates) -> Check:
    """M by composite rigid bodies is that of inverse dynamics."""
    M = _mass_matrix_columns(robot, at.q)
    error = _relative_error(robot.call("mass_matrix", at.q) - M, M)
    claim = "M by composite bodies = M from inverse dynamics"
    return _bound_residuals("composite", claim, error)


def check_skew_symmetry(robot: Robot, at: RandomStates) -> Check:
    """Ṁ − 2C is skew-symmetric, Ṁ by a complex step along the velocity."""
    moved = robot.call("mass_matrix", _imaginary_step(robot, at.q, at.v))
    rate = moved.imag / _STEP
    C = robot.call("coriolis_matrix", at.q, at.v)
    power = np.einsum("si,sij,sj->s", at.x, rate - 2.0 * C, at.x)
    claim = "|xᵀ(Ṁ − 2C)x| / ‖x‖²"
    length = (at.x**2).sum(axis=1)
    return _bound_residuals("skew", claim, power / np.where(length > 0, length, 1.0))


def check_coriolis(robot: Robot, at: RandomStates) -> Check:
    """C v + g = h."""
    h, g = robot.call("bias", at.q, at.v), robot.call("gravity", at.q)
    Cv = np.einsum("sij,sj->si", robot.call("coriolis_matrix", at.q, at.v), at.v)
    inertia = np.abs(robot.call("mass_matrix", at.q)).max(axis=(1, 2), initial=0.0)
    floor = _ROUNDING * inertia * (at.v**2).max(axis=1, initial=0.0) + least_gravity(robot, at.q)
    error = _relative_error(Cv + g - h, h, floor)
    return _bound_residuals("coriolis", "C v + g = h", error)


def check_gravity(robot: Robot, at: RandomStates) -> Check:
    """g is the gradient of the potential energy, by a complex step along each velocity."""
    g = robot.call("gravity", at.q)
    moved = _imaginary_step(robot, at.q[:, None, :], np.eye(robot.nv))
    gradient = robot.call("potential_energy", moved).imag / _STEP
    claim = "g = gradient of the potential energy"
    error = _relative_error(gradient - g, g, least_gravity(robot, at.q))
    return _bound_residuals("gravity", claim, error)


def check_power_balance(robot: Robot, at: RandomStates) -> Check:
    """The rate of the energy is the power of the joint forces."""
    tau = robot.call("inverse_dynamics", at.q, at.v, at.a)
    q, v = _imaginary_step(robot, at.q, at.v), at.v + 1j * _STEP * at.a
    energy = robot.call("kinetic_energy", q, v) + robot.call("potential_energy", q)
    parts = at.v * tau
    error = (energy.imag / _STEP - parts.sum(axis=1))[:, None]
    claim = "rate of energy = power of τ"
    return _bound_residuals("power", claim, _relative_error(error, parts))


def check_round_trip(robot: Robot, at: RandomStates) -> Check:
    """Inverse dynamics of forward dynamics gives the joint forces back."""
    claim = "inverse dynamics of forward dynamics = identity"
    stuck = [f.subject for f in robot.health if f.kind == "singular"]
    if stuck:
        reason = f"M is singular at {', '.join(stuck)}"
        return Check("round trip", claim, float("nan"), float("nan"), None, reason)
    tau = robot.call("inverse_dynamics", at.q, at.v, at.a)
    a = robot.call("forward_dynamics", at.q, at.v, tau)
    again = robot.call("inverse_dynamics", at.q, at.v, a)
    return _bound_residuals("round trip", claim, _relative_error(again - tau, tau))
