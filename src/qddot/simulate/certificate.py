"""The integrators measured on a robot: order, drift, stability, cost, and one for each use.

All is measured on a free swing of the robot without losses: no torques, no damping. A robot that
floats swings without gravity, where its momentum is constant.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize

from qddot.analysis.linearise import natural_modes
from qddot.errors import InvalidArgument, UnknownName
from qddot.model.model import WORLD, Model
from qddot.plotting import PALETTE, new_figure, save_figure
from qddot.robot.robot import Robot
from qddot.simulate.integrators import INTEGRATORS
from qddot.simulate.simulator import rollout

__all__ = [
    "USES",
    "Certificate",
    "Measurement",
    "Recommendation",
    "Use",
    "certify",
    "plot",
]

Progress = Callable[[str, int, int], None]

DURATION = 10.0
"""Seconds of the free swing."""
_HORIZON = 0.5
_STEPS = (10, 20, 40, 80, 160, 320, 640)
_REFERENCE = 4096
_FLOOR = 1e-12
"""Errors below it are mostly rounding."""
_ROUNDING, _FAR = 1e-11, 0.1
_STATES, _SAMPLES = 4, 200
_SWING, _SPEED = 0.4, 1.0
"""How far from rest a swing starts, rad or m, and how fast a floating robot moves, rad/s or m/s."""
_GROWING = frozenset({"euler"})
"""Whatever the step, undamped oscillations grow: not for use."""
_GROWTH = 0.01
"""Growth in a period of the fastest mode that counts as unstable."""
_SPACING, _REPEATS = 1.12, 7


@dataclass(frozen=True)
class Use:
    """A use: the error after half a second that it bears, and the longest step that it can use."""

    name: str
    error: float
    longest: float


USES = (
    Use("offline", 1e-8, 0.01),
    Use("MPC rollout", 1e-3, 0.05),
    Use("RL", 1e-2, 0.02),
    Use("inner loop", 1e-4, 0.001),
)


@dataclass(frozen=True)
class Measurement:
    """Measurements of an integrator.

    `errors` are the largest errors of a coordinate (rad, m) after half a second at the steps `dts`.
    `energy` is its error by time over the swing as a share of the peak kinetic energy, `trend` its
    slope in 1/s, `momentum` the largest change of the momentum as a share of it (NaN where the base
    is fixed), `stable` the longest stable step about rest (0 if none is, NaN without oscillation).
    """

    name: str
    order: int
    observed: float
    dts: np.ndarray
    errors: np.ndarray
    energy: np.ndarray
    trend: float
    momentum: float
    stable: float
    cost: float

    @property
    def drift(self) -> float:
        """Largest error of the energy over the swing, as a share of the peak kinetic energy."""
        return float(np.abs(self.energy).max())

    @property
    def behaviour(self) -> str:
        """The long-term behaviour of the energy."""
        if not math.isfinite(self.drift):
            return "diverges"
        if self.drift < _ROUNDING:
            return "rounding"
        means = [x.mean() for x in np.array_split(self.energy, 4)]
        one_way = abs(np.sign(np.diff(means)).sum()) == 3 and np.ptp(means) > 0.5 * self.drift
        if not one_way and self.drift < _FAR:
            return "bounded"
        return "gains" if means[-1] > means[0] else "loses"

    def longest(self, error: float) -> float:
        """The longest step with at most this error, by the measured line of errors; NaN if none."""
        good = np.isfinite(self.errors) & (self.errors > _FLOOR)
        if not good.any():
            return float(self.dts[0]) if np.nanmin(self.errors, initial=1.0) <= error else math.nan
        dts, errors = self.dts[good], self.errors[good]
        within = np.flatnonzero(errors <= error)
        k = int(within[0]) if within.size else len(dts) - 1
        coarser = dts[k - 1] if within.size and k else math.inf
        return float(min(dts[k] * (error / errors[k]) ** (1.0 / self.order), coarser))


@dataclass(frozen=True)
class Recommendation:
    """The integrator and step for a use, and the cost (s) of a simulated second."""

    use: str
    integrator: str
    dt: float
    error: float
    seconds: float


@dataclass(frozen=True)
class Certificate:
    """The measurements on a robot: `frequency` is its fastest mode about rest, rad/s, 0 if none."""

    robot: str
    dt: float
    frequency: float
    floating: bool
    time: np.ndarray
    rows: tuple[Measurement, ...]
    recommendations: tuple[Recommendation, ...]

    @property
    def limit(self) -> float:
        """The longest step 2/ω_n of a semi-implicit integrator; infinite without oscillation."""
        return 2.0 / self.frequency if self.frequency else math.inf

    @property
    def unmet(self) -> tuple[str, ...]:
        """Uses for which no integrator is accurate and stable enough."""
        met = {choice.use for choice in self.recommendations}
        return tuple(use.name for use in USES if use.name not in met)

    def summary(self) -> dict[str, Any]:
        """The numbers for machines."""
        rows = [
            {
                "integrator": r.name,
                "order": r.order,
                "observed_order": r.observed,
                "energy_drift": r.drift,
                "energy_trend_per_s": r.trend,
                "energy": r.behaviour,
                "momentum_drift": None if math.isnan(r.momentum) else r.momentum,
                "longest_stable_dt": None if math.isnan(r.stable) else r.stable,
                "unconditionally_stable": r.stable == math.inf,
                "ns_per_step": 1e9 * r.cost,
                "errors": dict(zip(map(str, r.dts.tolist()), r.errors.tolist(), strict=True)),
            }
            for r in self.rows
        ]
        return {
            "robot": self.robot,
            "dt": self.dt,
            "fastest_mode_rad_s": self.frequency,
            "limit_2_over_omega": self.limit,
            "integrators": rows,
            "recommendations": [dataclasses.asdict(r) for r in self.recommendations],
            "unmet": list(self.unmet),
        }


def certify(
    robot: Robot,
    dt: float = 1e-3,
    *,
    integrators: Sequence[str] | None = None,
    seed: int = 0,
    on_step: Progress | None = None,
) -> Certificate:
    """Measure the integrators on a robot, with native code; the drift at steps of `dt`.

    `implicit_damping` is left out unless named: without losses it steps as `semi_implicit` does.
    """
    if not isinstance(dt, int | float | np.floating) or not 0.0 < dt <= DURATION / _SAMPLES:
        raise InvalidArgument("dt", dt, f"it is a time in seconds, up to {DURATION / _SAMPLES:g}")
    if not robot.nv:
        raise InvalidArgument("robot", robot.name, "it needs joints that move")
    if integrators is None:
        integrators = [name for name in INTEGRATORS if name != "implicit_damping"]
    for name in integrators:
        if name not in INTEGRATORS:
            raise UnknownName("integrator", name, INTEGRATORS)
    swing = _Swing.of(robot, np.random.default_rng(seed))
    rows = []
    for k, name in enumerate(integrators):
        if on_step:
            on_step(name, k, len(integrators))
        # integrators that diverge are measured too
        with np.errstate(all="ignore"):
            rows.append(swing.measure(name, float(dt)))
    if on_step:
        on_step("done", len(integrators), len(integrators))
    chosen = tuple(x for use in USES if (x := _choose(use, rows)))
    times = np.linspace(0.0, DURATION, _SAMPLES + 1)
    return Certificate(
        robot=robot.name,
        dt=float(dt),
        frequency=swing.frequency,
        floating=swing.floating,
        time=times,
        rows=tuple(rows),
        recommendations=chosen,
    )


def _choose(use: Use, rows: Sequence[Measurement]) -> Recommendation | None:
    """The integrator with which a simulated second costs least at the error that a use bears."""
    found = []
    for row in rows:
        # half the stable step leaves room for motions that are faster than those about rest
        bound = 0.5 * row.stable if row.stable > 0.0 else math.inf
        dt = min(row.longest(use.error), bound, use.longest)
        if row.stable != 0.0 and row.name not in _GROWING and math.isfinite(dt):
            # the next number below with one of the digits 1, 2, 5
            power = 10.0 ** math.floor(math.log10(dt))
            digits = (d * power for d in (1.0, 2.0, 5.0) if d * power <= dt * 1.0001)
            dt = max(digits, default=dt)
            error = use.error * (dt / row.longest(use.error)) ** row.order
            found.append(Recommendation(use.name, row.name, dt, error, row.cost / dt))
    return min(found, key=lambda x: x.seconds, default=None)


@dataclass(frozen=True)
class _Swing:
    """A robot without losses, where its swing starts, where it rests, and its exact motion."""

    robot: Robot
    q: np.ndarray
    v: np.ndarray
    rest: np.ndarray | None
    frequency: float
    floating: bool
    end: np.ndarray

    @staticmethod
    def of(robot: Robot, rng: np.random.Generator) -> _Swing:
        """Random states about rest; a floating robot moves from random poses."""
        free = Robot(_lossless(robot.model), native=True)
        floating = any(b.parent == WORLD and b.joint.kind.floats for b in free.model.bodies)
        if floating:
            free = free.with_gravity((0.0, 0.0, 0.0))
        rest = None if floating else _rest(free)
        at = robot.random(rng, (_STATES,)) if rest is None else np.tile(rest, (_STATES, 1))
        q = free.integrate(at, _SWING * rng.uniform(-1.0, 1.0, (_STATES, free.nv)))
        v = _SPEED * rng.uniform(-1.0, 1.0, (_STATES, free.nv)) * floating
        if floating:
            # base velocities with which the centre of mass rests
            bodies = (b for b in free.model.bodies if b.parent == WORLD)
            base = next(b for b in bodies if b.joint.kind.floats)
            linear = slice(base.iv.start, base.iv.start + 3)
            J = free.center_of_mass_jacobian(q)
            v[..., linear] -= np.linalg.solve(J[..., linear], J @ v[..., None])[..., 0]
        modes = None if rest is None else natural_modes(free, rest, springs=False)
        fastest = 0.0 if modes is None else float(modes.frequencies.max(initial=0.0))
        step = _HORIZON / _REFERENCE
        exact = rollout(
            free, q, v, dt=step, steps=_REFERENCE, every=_REFERENCE, integrator="dormand_prince"
        )
        return _Swing(
            robot=free,
            q=q,
            v=v,
            rest=rest,
            frequency=fastest,
            floating=floating,
            end=exact.q[:, -1],
        )

    def measure(self, name: str, dt: float) -> Measurement:
        """All measurements of an integrator."""
        dts = np.array([_HORIZON / n for n in _STEPS])
        errors = np.array([self._error(name, n) for n in _STEPS])
        order = INTEGRATORS[name].order
        # observed order: halvings of the error with the step, at the finest steps above rounding
        good = [k for k in range(1, len(errors)) if _FLOOR < errors[k] < errors[k - 1] < 0.1]
        observed = np.log2(errors[good[-1] - 1] / errors[good[-1]]) if good else math.nan
        energy, trend, momentum = self._drift(name, dt)
        return Measurement(
            name=name,
            order=order,
            observed=float(observed),
            dts=dts,
            errors=errors,
            energy=energy,
            trend=trend,
            momentum=momentum,
            stable=self._stable(name),
            cost=self._cost(name, dt),
        )

    def _error(self, name: str, n: int) -> float:
        dt = _HORIZON / n
        found = rollout(self.robot, self.q, self.v, dt=dt, steps=n, every=n, integrator=name)
        return float(np.abs(self.robot.difference(self.end, found.q[:, -1])).max())

    def _drift(self, name: str, dt: float) -> tuple[np.ndarray, float, float]:
        """Error of the energy by time, worst state; its slope; the change of the momentum."""
        every = max(1, round(DURATION / dt / _SAMPLES))
        robot, steps = self.robot, every * _SAMPLES
        found = rollout(
            robot, self.q, self.v, dt=DURATION / steps, steps=steps, every=every, integrator=name
        )
        kinetic = robot.kinetic_energy(found.q, found.v)
        total = kinetic + robot.potential_energy(found.q)
        relative = (total - total[:, :1]) / kinetic.max(axis=-1, keepdims=True)
        worst = relative[np.argmax(np.abs(np.nan_to_num(relative, nan=np.inf)).max(axis=-1))]
        slope = np.polyfit(found.time, worst, 1)[0] if np.isfinite(worst).all() else math.nan
        return worst, float(slope), self._momentum(found.q, found.v)

    def _momentum(self, q: np.ndarray, v: np.ndarray) -> float:
        """Largest change of momentum, angular about a fixed point, as a share of its size.

        The linear momentum is zero; its change is a share of that of a body with the same energy.
        """
        if not self.floating:
            return math.nan
        robot = self.robot
        centre, h = robot.center_of_mass(q), robot.centroidal_momentum(q, v)
        centre = centre - centre[:, :1]
        parts = (h[..., :3], h[..., 3:] + np.cross(centre, h[..., :3]))
        energy = robot.kinetic_energy(self.q, self.v)[:, None]
        sizes = (
            np.sqrt(2.0 * float(robot.model.mass) * energy),
            np.linalg.norm(parts[1][:, :1], axis=-1),
        )
        change = [np.linalg.norm(p - p[:, :1], axis=-1) for p in parts]
        return float(max((c / s).max() for c, s in zip(change, sizes, strict=True)))

    def _stable(self, name: str) -> float:
        """The longest step with which a small motion about rest does not grow."""
        if not self.frequency:
            return math.nan
        # steps that grow, until the motion does; then bisection
        shares = 0.05 * _SPACING ** np.arange(54)
        for k, share in enumerate(shares):
            if self._growth(name, share / self.frequency) > _GROWTH:
                if not k:
                    return 0.0
                low, high = shares[k - 1], share
                for _ in range(6):
                    middle = 0.5 * (low + high)
                    grows = self._growth(name, middle / self.frequency) > _GROWTH
                    low, high = (low, middle) if grows else (middle, high)
                return float(low / self.frequency)
        return math.inf

    def _growth(self, name: str, dt: float) -> float:
        """Growth of a small motion about rest in a period of the fastest mode, as a logarithm."""
        assert self.rest is not None  # a floating robot has no fastest mode
        robot, n, eps = self.robot, self.robot.nv, 1e-5
        # derivative of one step, by central differences
        steps = eps * np.concatenate([np.eye(2 * n), -np.eye(2 * n)])
        q, v = robot.integrate(self.rest, steps[:, :n]), steps[:, n:]
        found = rollout(robot, q, v, dt=dt, steps=1, integrator=name)
        moved = np.hstack([robot.difference(self.rest, found.q[:, -1]), found.v[:, -1]])
        if not np.isfinite(moved).all():
            return math.inf
        # velocities in units of the fastest mode, so that both halves are of one size
        scale = np.repeat([1.0, 1.0 / self.frequency], n)
        map_ = ((moved[: 2 * n] - moved[2 * n :]) / (2.0 * eps)).T * scale[:, None] / scale
        radius = np.abs(np.linalg.eigvals(map_)).max()
        return float(np.log(radius) * 2.0 * np.pi / (self.frequency * dt))

    def _cost(self, name: str, dt: float) -> float:
        """Seconds a step of one state in a batch, one core: the least of several."""
        batch, steps = 128, 150
        q, v = (np.resize(x, (batch, x.shape[-1])) for x in (self.q, self.v))
        best = math.inf
        for _ in range(_REPEATS):
            start = time.perf_counter()
            rollout(self.robot, q, v, dt=dt, steps=steps, every=steps, integrator=name)
            best = min(best, time.perf_counter() - start)
        return best / (batch * steps)


def _lossless(model: Model) -> Model:
    """The open tree of the model, without damping and friction at its joints."""
    bodies = []
    for body in model.bodies:
        drive = dataclasses.replace(
            body.joint.drivetrain, damping=0.0, friction=0.0, backward_friction=None
        )
        joint = dataclasses.replace(body.joint, drivetrain=drive)
        bodies.append(dataclasses.replace(body, joint=joint))
    return dataclasses.replace(model, bodies=tuple(bodies), loops=())


def _rest(robot: Robot) -> np.ndarray | None:
    """Where the potential energy is least, from the neutral configuration; None if nowhere."""
    neutral = robot.integrate(robot.neutral(), 1e-2 * np.ones(robot.nv))

    def energy(u: np.ndarray) -> float:
        return float(robot.potential_energy(robot.integrate(neutral, u)))

    with np.errstate(all="ignore"):
        found = optimize.minimize(energy, np.zeros(robot.nv), method="BFGS")
    q = robot.integrate(neutral, found.x)
    load = np.abs(robot.gravity(q)).max()
    weight = float(robot.model.mass) * math.hypot(*robot.model.gravity)
    return q if np.isfinite(load) and load <= 1e-3 * (weight or 1.0) else None


def plot(certificate: Certificate, file: Path) -> None:
    """Draw error by step, energy by time, and cost by error."""
    figure = new_figure(15.0, 5.2)
    errors, energy, work = figure.subplots(1, 3)
    for k, row in enumerate(certificate.rows):
        colour, mark = PALETTE[k % len(PALETTE)], "osD^vPX*"[k % 8]
        style = {"color": colour, "marker": mark, "ms": 4, "lw": 1.3}
        errors.loglog(row.dts, row.errors, label=f"{row.name}, order {row.order}", **style)
        shown = np.where(np.abs(row.energy) > 0.0, np.abs(row.energy), np.nan)
        energy.semilogy(certificate.time, shown, color=colour, lw=1.0)
        work.loglog(row.errors, row.cost / row.dts, **style)
    if math.isfinite(certificate.limit):
        errors.axvline(certificate.limit, color="black", ls=":", lw=1.0, label="2/ω_n")
    errors.set(xlabel="step Δt, s", ylabel=f"largest error after {_HORIZON:g} s, rad or m")
    energy.set(xlabel="time, s", ylabel="energy error / peak kinetic energy")
    work.set(xlabel=f"largest error after {_HORIZON:g} s, rad or m")
    work.set(ylabel="computing time of a simulated second, s")
    errors.set_title("convergence")
    energy.set_title(f"free swing, Δt = {1e3 * certificate.dt:g} ms")
    work.set_title("cost of accuracy")
    errors.set_ylim(1e-14, 10.0)
    energy.set_ylim(1e-16, 10.0)
    for ax in (errors, energy, work):
        ax.grid(alpha=0.3)
    figure.legend(*errors.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle(f"integrators of {certificate.robot}")
    save_figure(figure, file)
