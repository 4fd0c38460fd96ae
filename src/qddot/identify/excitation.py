"""Excitation: a motion from which the parameters can be learned, before the experiment.

The information of a motion is F = Σ Yᵀ W Y over its samples. Its objective is differentiated by the
chain rule: ∂φ/∂Y weighs the rows of the regressor, and a row of Y with given weights is the torque
of a robot that has these weights for parameters, whose derivatives are those of inverse dynamics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NotIdentifiable, Unsupported
from qddot.identify.base_parameters import BaseParameters, base_parameters
from qddot.identify.blas import on_one_blas_thread
from qddot.identify.clearance import Workspace, workspace_violation
from qddot.identify.fourier import FourierMotion, fourier_basis, random_motion
from qddot.identify.torque_model import DRIVE_TERMS, STANDARD_TERMS, TorqueModel, torque_model
from qddot.robot.robot import Robot

__all__ = ["MotionLimits", "Objective", "Plan", "information", "motion_limits", "plan"]

Objective = Literal["d-optimal", "condition"]
_STARTS = 200
_TRIED, _POLISHED = 32, 6
"""Starts that are improved a little, and those of them that are finished."""
_FIRST_STEPS = 40
_FINE = 12
"""Points of the fine grid for one of the coarse."""
_ACCELERATION = 10.0
_FIRST = ((0.12, 2.0, 300.0),)
_STAGES = ((0.12, 2.0, 300.0), (0.04, 6.0, 3e3), (0.02, 12.0, 3e4), (0.0, 30.0, 1e5))
"""Least v₀ of Coulomb friction as a share of the velocity limits, power of the smooth condition
number and weight of the penalty, one after the other: friction that turns sharply between two
points of the grid makes an objective with a thousand dents, in which no descent gets far."""
_SLOPES: dict[str, tuple[int, Callable[[np.ndarray, float], Any]]] = {
    "armature": (2, lambda v, s: 1.0),
    "viscous": (1, lambda v, s: 1.0),
    "coulomb": (1, lambda v, s: (1.0 - np.tanh(v / s) ** 2) / s),
    "offset": (1, lambda v, s: 0.0),
    "cubic": (1, lambda v, s: 3.0 * v**2),
    "stribeck": (
        1,
        lambda v, s: (
            (
                5.0 * (1.0 - np.tanh(5.0 * v / s) ** 2) / (1.0 + (v / s) ** 2)
                - 2.0 * v / s * np.tanh(5.0 * v / s) / (1.0 + (v / s) ** 2) ** 2
            )
            / s
        ),
    ),
    "spring": (0, lambda v, s: 1.0),
}
"""Signal (0 q, 1 q̇, 2 q̈) that a drive term depends on, and the derivative of its column by it."""


@dataclass(frozen=True, repr=False)
class MotionLimits(Readable):
    """Bounds that a motion keeps: positions, velocities, accelerations, torques, workspace."""

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    torque: np.ndarray
    workspace: Workspace


@dataclass(frozen=True, repr=False)
class Plan(Readable):
    """A motion for identification, with the precision that it will give.

    `condition` is that of the weighted regressor, `deviations` the predicted standard deviations
    of the base parameters for torque noise of `noise` (one a joint) in `samples` independent
    samples. `usage` are the largest shares of the limits on the fine grid.
    """

    motion: FourierMotion
    base: BaseParameters
    objective: Objective
    condition: float
    log_det: float
    deviations: np.ndarray
    noise: np.ndarray
    samples: int
    usage: Mapping[str, float]
    seed: int
    limits: MotionLimits

    def write(self, file: str | Path, rate: float = 500.0, force: bool = False) -> Path:
        """Write the motion for the robot: a CSV of time, q, v and a."""
        return self.motion.write(file, rate, force)

    def summary(self) -> dict[str, Any]:
        """The plan as plain data."""
        rows = zip(self.base.labels, self.deviations, strict=True)
        return {
            "duration": self.motion.period,
            "harmonics": self.motion.harmonics,
            "objective": self.objective,
            "condition": self.condition,
            "noise": self.noise.tolist(),
            "samples": self.samples,
            "usage": dict(self.usage),
            "seed": self.seed,
            "predicted_deviations": {name: float(x) for name, x in rows},
            "coefficients": self.motion.coefficients.tolist(),
        }

    def __str__(self) -> str:
        used = ", ".join(f"{name} {100 * x:.3g} %" for name, x in self.usage.items())
        return (
            f"{self.motion.period:g} s, {self.motion.harmonics} harmonics, {self.objective}: "
            f"condition {self.condition:.4g}, {self.base.rank} base parameters; "
            f"limits used: {used} (seed {self.seed})"
        )


def motion_limits(
    robot: Robot,
    velocity: ArrayLike | None = None,
    acceleration: ArrayLike | None = None,
    torque: ArrayLike | None = None,
    margin: float = 0.95,
    workspace: Workspace | None = None,
) -> MotionLimits:
    """Limits of a motion: those of the robot, or given ones, times a margin.

    A position without a limit stays within ±π, a velocity within 1 rad/s, an acceleration within
    10 rad/s² (descriptions have none).
    """
    if not 0.0 < margin <= 1.0:
        raise InvalidArgument("margin", margin, "it is between 0 and 1")
    own = robot.limits

    def limit(what: str, given: ArrayLike | None, known: np.ndarray, default: float) -> np.ndarray:
        known = np.where(np.isfinite(known) & (known > 0.0), known, default)
        try:
            x = np.broadcast_to(known if given is None else np.asarray(given, float), (robot.nv,))
        except (TypeError, ValueError) as error:
            raise InvalidArgument(what, given, f"one number, or {robot.nv}") from error
        if not np.all(x > 0.0):
            raise InvalidArgument(what, given, "it is positive")
        return margin * x

    lower = np.where(np.isfinite(own.lower), own.lower, -np.pi)
    upper = np.where(np.isfinite(own.upper), own.upper, np.pi)
    middle, half = 0.5 * (lower + upper), 0.5 * margin * (upper - lower)
    nothing = np.full(robot.nv, np.nan)
    return MotionLimits(
        lower=middle - half,
        upper=middle + half,
        velocity=limit("velocity", velocity, own.velocity, 1.0),
        acceleration=limit("acceleration", acceleration, nothing, _ACCELERATION),
        torque=limit("torque", torque, own.effort, np.inf),
        workspace=workspace or Workspace(),
    )


@on_one_blas_thread
def plan(
    robot: Robot,
    duration: float = 20.0,
    objective: Objective = "d-optimal",
    *,
    harmonics: int = 5,
    seed: int = 0,
    limits: MotionLimits | None = None,
    noise: ArrayLike | None = None,
    terms: Sequence[str] = STANDARD_TERMS,
    samples: int = 2000,
    iterations: int = 300,
    on_step: OnStep | None = None,
) -> Plan:
    """A periodic motion that excites the parameters of a robot within its limits.

    "d-optimal" makes the ellipsoid of the parameters small, "condition" makes it round. `noise` is
    the deviation of torques, one for all or one a joint (2 % of the effort limits, or 1 N m).
    """
    _check_choices(objective, duration, harmonics, terms)
    bounds = limits or motion_limits(robot)
    efforts = np.where(np.isfinite(robot.limits.effort), 0.02 * robot.limits.effort, 1.0)
    spread = np.broadcast_to(efforts if noise is None else np.asarray(noise, float), (robot.nv,))
    model = torque_model(robot, terms, v0=0.02)
    problem = _Problem(
        model,
        base=base_parameters(model),
        limits=bounds,
        duration=duration,
        harmonics=harmonics,
        noise=spread,
        samples=samples,
    )
    rng = np.random.default_rng(seed)
    box = (bounds.lower, bounds.upper, bounds.velocity, bounds.acceleration)
    starts = [
        random_motion(robot.model.velocity_names, duration, harmonics, *box, rng)
        for _ in range(_STARTS)
    ]
    starts.sort(key=lambda motion: problem.score(motion, objective))
    # a few steps from many starts, all steps from the best of these
    tried = []
    for done, start in enumerate(starts[:_TRIED]):
        if on_step:
            on_step("excitation", done, _TRIED + 5 * _POLISHED)
        better = problem.polish(start, objective, min(_FIRST_STEPS, iterations), _FIRST)
        allowed = problem.shrink(better)
        if allowed is not None:
            tried.append((problem.score(allowed, objective), done, better))
    best: FourierMotion | None = None
    for done, (_, _, start) in enumerate(sorted(tried)[:_POLISHED]):
        if on_step:
            on_step("excitation", _TRIED + 5 * done, _TRIED + 5 * _POLISHED)
        found = problem.shrink(problem.polish(start, objective, iterations))
        if found is not None and (
            best is None or problem.score(found, objective) < problem.score(best, objective)
        ):
            best = found
    if best is None:
        remedy = "widen the workspace or the limits, or ask for less clearance"
        raise NotIdentifiable("a motion", "no random start fits into the limits", remedy)
    return problem.describe(best, objective, seed)


def information(
    model: TorqueModel, base: BaseParameters, noise: np.ndarray, motion: Any, samples: int
) -> np.ndarray:
    """Information matrix F of a motion (q, v, a) on the base parameters, for `samples` samples."""
    q, v, a = motion
    Y = model.regressor(q, v, a)[..., base.independent] / noise[:, None]
    rows = Y.reshape(-1, base.rank)
    return rows.T @ rows * (samples / len(q))


def _check_choices(objective: str, duration: float, harmonics: int, terms: Sequence[str]) -> None:
    """Refuse choices for which no motion can be planned."""
    if objective not in ("d-optimal", "condition"):
        raise InvalidArgument("objective", objective, 'it is "d-optimal" or "condition"')
    if not 0.0 < duration < np.inf:
        raise InvalidArgument("duration", duration, "it is a positive number of seconds")
    if not 1 <= harmonics <= 50:
        raise InvalidArgument("harmonics", harmonics, "it is between 1 and 50")
    unknown = [term for term in terms if term in DRIVE_TERMS and term not in _SLOPES]
    if unknown:
        raise Unsupported("terms", unknown, f"a plan is made for {', '.join(_SLOPES)} only")


@dataclass(frozen=True)
class _Problem:
    """The optimisation: objective and penalties of the coefficients, with gradients."""

    model: TorqueModel
    base: BaseParameters
    limits: MotionLimits
    duration: float
    harmonics: int
    noise: np.ndarray
    samples: int

    @property
    def points(self) -> int:
        """Points of the coarse grid: 16 for the shortest wave."""
        return 16 * self.harmonics + 1

    def score(self, motion: FourierMotion, objective: Objective) -> float:
        """Objective without penalties: log of the condition number, or minus log det."""
        time = np.arange(4 * self.points) * self.duration / (4 * self.points)
        F = information(self.model, self.base, self.noise, motion.sample(time), self.samples)
        factors = np.linalg.eigvalsh(F)
        if factors[0] <= 0.0:
            return np.inf
        if objective == "condition":
            return float(0.5 * np.log(factors[-1] / factors[0]))
        return float(-np.log(factors).sum())

    def polish(
        self,
        start: FourierMotion,
        objective: Objective,
        iterations: int,
        stages: Sequence[tuple[float, float, float]] = _STAGES,
    ) -> FourierMotion:
        """A motion improved by quasi-Newton steps with rising penalties."""
        time = np.arange(self.points) * self.duration / self.points
        basis = fourier_basis(time, self.duration, self.harmonics)
        derivatives = self.model.robot.compile(
            "inverse_dynamics_derivatives", parameters=["inertia", "armature"]
        )
        x = start.coefficients.ravel()
        shape = start.coefficients.shape
        for bend, power, penalty in stages:
            smooth = replace(self, model=self._smooth_model(bend))

            def cost(
                x: np.ndarray, problem: _Problem = smooth, p: float = power, w: float = penalty
            ) -> tuple[float, Any]:
                q, v, a = basis @ x.reshape(shape).T
                value, slopes = problem._objective(q, v, a, objective, p, derivatives)
                excess, more = self._penalty(q, v, a)
                total = [s + w * m for s, m in zip(slopes, more, strict=True)]
                gradient = sum(t.T @ b for t, b in zip(total, basis, strict=True))
                return value + w * excess, np.asarray(gradient).ravel()

            options = {"maxiter": iterations, "maxcor": 30}
            x = minimize(cost, x, jac=True, method="L-BFGS-B", options=options).x
        return replace(start, coefficients=x.reshape(shape))

    def _smooth_model(self, bend: float) -> TorqueModel:
        """The torque model with v₀ of Coulomb friction at least a share of the velocity limits."""
        return self.model.with_drives(
            [
                [
                    replace(t, speed=max(t.speed, bend * v)) if t.kind == "coulomb" else t
                    for t in own
                ]
                for own, v in zip(self.model.drives, self.limits.velocity.tolist(), strict=True)
            ]
        )

    def _objective(
        self,
        q: np.ndarray,
        v: np.ndarray,
        a: np.ndarray,
        objective: Objective,
        power: float,
        derivatives: Any,
    ) -> tuple[float, list[np.ndarray]]:
        """Objective and its derivatives by q, v and a (each n × nv)."""
        model, base = self.model, self.base
        Y = model.regressor(q, v, a)[..., base.independent] / self.noise[:, None]
        rows = Y.reshape(-1, base.rank)
        scale = self.samples / len(q)
        factors, vectors = np.linalg.eigh(rows.T @ rows * scale)
        factors = np.maximum(factors, 1e-12 * factors[-1])
        if objective == "condition":
            # powers of the eigenvalues relative to the extreme ones
            high, low = (factors / factors[-1]) ** power, (factors[0] / factors) ** power
            value = 0.5 * (
                np.log(factors[-1] / factors[0]) + (np.log(high.sum()) + np.log(low.sum())) / power
            )
            slope = 0.5 * (high / high.sum() - low / low.sum()) / factors
        else:
            value, slope = -np.log(factors).sum(), -1.0 / factors
        by_F = (vectors * slope) @ vectors.T
        weights = 2.0 * scale * (Y @ by_F) / self.noise[:, None]
        return float(value), self._contract(weights, q, v, a, derivatives)

    def _contract(
        self, weights: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray, derivatives: Any
    ) -> list[np.ndarray]:
        """Derivatives of Σ weights · Y by q, v and a: row i is a robot with these parameters."""
        model, base = self.model, self.base
        n, nv = q.shape
        full = np.zeros((n, nv, len(model.names)))
        full[..., base.independent] = weights
        bodies = full[..., : model.rigid_count].reshape(n, nv, -1, 10)
        none = np.zeros((model.robot.model.nb, 1))
        by = derivatives(q[:, None], v[:, None], a[:, None], bodies, none)
        made = [np.einsum("tiij->tj", d) for d in by]
        # drives act on their own joint
        for j, (place, terms) in enumerate(zip(model.drive_slices, model.drives, strict=True)):
            for term, w in zip(terms, full[:, j, place].T, strict=True):
                signal, slope = _SLOPES[term.kind]
                made[signal][:, j] += w * slope(v[:, j], term.speed)
        return made

    def _penalty(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray
    ) -> tuple[float, list[np.ndarray]]:
        """Mean square by which limits are exceeded, relative to them, with derivatives."""
        b, n = self.limits, len(q)
        middle, half = 0.5 * (b.lower + b.upper), 0.5 * (b.upper - b.lower)
        total, slopes = 0.0, []
        for x, size in ((q - middle, half), (v, b.velocity), (a, b.acceleration)):
            over = np.maximum(np.abs(x) / size - 1.0, 0.0)
            total += float((over**2).sum())
            slopes.append(2.0 * over * np.sign(x) / size)
        if np.isfinite(b.torque).any():
            robot = self.model.robot
            tau = robot.inverse_dynamics(q, v, a)
            over = np.maximum(np.abs(tau) / b.torque - 1.0, 0.0)
            if over.any():
                total += float((over**2).sum())
                pull = 2.0 * over * np.sign(tau) / b.torque
                for k, d in enumerate(robot.inverse_dynamics_derivatives(q, v, a)):
                    slopes[k] = slopes[k] + np.einsum("ti,tij->tj", pull, d)
        excess, slope = workspace_violation(self.model.robot, b.workspace, q)
        return (total + excess) / n, [s / n for s in (slopes[0] + slope, *slopes[1:])]

    def usage(self, motion: FourierMotion) -> dict[str, float]:
        """Largest share of each limit on the fine grid; above 1 it is broken."""
        b = self.limits
        time = np.linspace(0.0, self.duration, _FINE * self.points)
        q, v, a = motion.sample(time)
        middle, half = 0.5 * (b.lower + b.upper), 0.5 * (b.upper - b.lower)
        tau = self.model.robot.inverse_dynamics(q, v, a)
        used = {
            "position": np.abs(q - middle) / half,
            "velocity": np.abs(v) / b.velocity,
            "acceleration": np.abs(a) / b.acceleration,
            "torque": np.abs(tau) / b.torque,
        }
        shares = {name: float(x.max()) for name, x in used.items()}
        if b.workspace.is_given:
            excess = workspace_violation(self.model.robot, b.workspace, q)[0]
            shares["workspace"] = 1.0 if excess <= 0.0 else 1.0 + float(np.sqrt(excess))
        return shares

    def shrink(self, motion: FourierMotion) -> FourierMotion | None:
        """The motion with amplitudes reduced until all limits hold on the fine grid, or None."""
        c = motion.coefficients.copy()
        # the middle of each joint first, then its amplitude, then all together
        b = self.limits
        c[:, 0] = np.clip(c[:, 0], b.lower, b.upper)
        time = np.linspace(0.0, self.duration, _FINE * self.points)
        q, v, a = replace(motion, coefficients=c).sample(time)
        swing = q - c[:, 0]
        room = [
            (b.upper - c[:, 0]) / np.maximum(swing.max(axis=0), 1e-12),
            (c[:, 0] - b.lower) / np.maximum(-swing.min(axis=0), 1e-12),
            b.velocity / np.maximum(np.abs(v).max(axis=0), 1e-12),
            b.acceleration / np.maximum(np.abs(a).max(axis=0), 1e-12),
        ]
        c[:, 1:] *= np.minimum(np.minimum.reduce(room), 1.0)[:, None] * (1.0 - 1e-9)
        for _ in range(60):
            found = replace(motion, coefficients=c)
            if max(self.usage(found).values()) <= 1.0:
                return found
            c[:, 1:] *= 0.97
        return None

    def describe(self, motion: FourierMotion, objective: Objective, seed: int) -> Plan:
        """The plan of a motion: its condition, and the deviation of each parameter."""
        time = np.arange(4 * self.points) * self.duration / (4 * self.points)
        F = information(self.model, self.base, self.noise, motion.sample(time), self.samples)
        return Plan(
            motion=motion,
            base=self.base,
            objective=objective,
            condition=float(np.sqrt(np.linalg.cond(F))),
            log_det=float(np.linalg.slogdet(F)[1]),
            deviations=np.sqrt(np.maximum(np.diag(np.linalg.pinv(F, hermitian=True)), 0.0)),
            noise=np.asarray(self.noise),
            samples=self.samples,
            usage=self.usage(motion),
            seed=seed,
            limits=self.limits,
        )
