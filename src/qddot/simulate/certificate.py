"""The integrators measured on a plant: errors, order, drift, stability, cost; one for each use.

Errors are those of the plant that is used, over half a second from many states; energy and momentum
are those of a free swing of the robot without losses.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.analysis.constraints import with_loops
from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, UnknownName
from qddot.robot.law import Law
from qddot.robot.robot import Robot
from qddot.simulate.feedback import FeedbackTime
from qddot.simulate.file_physics import parse_without
from qddot.simulate.free_swing import DURATION, SWING_SAMPLES, FreeSwing
from qddot.simulate.integrators import INTEGRATORS
from qddot.simulate.plant import Effect
from qddot.simulate.trial import HORIZON, SAMPLES, Trial, random_states

__all__ = [
    "DURATION",
    "STATES",
    "USES",
    "Certificate",
    "Measurement",
    "Recommendation",
    "Use",
    "certify",
    "plot",
]


STATES = 128
"""Random states of a trial: if 5 % of all states broke a bound, one of them would in 99.86 %."""
_STEPS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""Steps of a trial: 50 ms, 20 ms, 10 ms … 0.1 ms."""
_ROUNDING, _FAR = 1e-11, 0.1


@dataclass(frozen=True)
class Use:
    """A use: the error within half a second that it bears, and the longest step that it can use."""

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

    `errors` are the largest errors of a coordinate (rad, m) within half a second, of all motions of
    the trial, at the steps `dts`. `energy` is its error by time over the swing as a share of the
    peak kinetic energy, `trend` its slope in 1/s, `momentum` the largest change of the momentum as
    a share of it (NaN where the base is fixed), `stable` the longest stable step about rest (0 if
    none is, NaN without oscillation).
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

    def longest(self, error: float, most: float = math.inf) -> float:
        """The longest measured step up to `most` with at most this error; NaN if none.

        All shorter steps that were measured have at most this error too.
        """
        within = np.logical_and.accumulate(self.errors[::-1] <= error)[::-1]
        fits = self.dts[within & (self.dts <= most * (1.0 + 1e-9))]
        return float(fits.max(initial=-math.inf)) if fits.size else math.nan

    def error_at(self, dt: float) -> float:
        """The error measured at one of the steps `dts`."""
        return float(self.errors[np.argmin(np.abs(self.dts - dt))])


@dataclass(frozen=True)
class Recommendation:
    """The integrator and step for a use, its measured error, the cost (s) of a simulated second."""

    use: str
    integrator: str
    dt: float
    error: float
    seconds: float


@dataclass(frozen=True)
class Certificate:
    """The measurements on a robot: `frequency` is its fastest mode about rest, rad/s, 0 if none.

    `states` is the number of states of the trial, `random` whether they were drawn, `without` the
    physics of the description that was left out, `uncertainty` the error of the reference.
    """

    robot: str
    dt: float
    frequency: float
    floating: bool
    states: int
    random: bool
    without: tuple[str, ...]
    uncertainty: float
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
            "states": self.states,
            "random_states": self.random,
            "without": list(self.without),
            "reference_error": self.uncertainty,
            "integrators": rows,
            "recommendations": [dataclasses.asdict(r) for r in self.recommendations],
            "unmet": list(self.unmet),
        }


def certify(
    robot: Robot,
    dt: float = 1e-3,
    *,
    integrators: Sequence[str] | None = None,
    without: str | Sequence[str] = "limits",
    effects: Sequence[Effect] = (),
    feedback: Law | None = None,
    feedback_at: FeedbackTime | None = None,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    seed: int = 0,
    on_step: OnStep | None = None,
    **law_inputs: ArrayLike,
) -> Certificate:
    """Measure the integrators on a plant, with native code; the drift at steps of `dt`.

    The plant has the physics of the description but what `without` names, and the effects and
    feedback of `rollout`. Errors are measured from states q (N, nq) and v (N, nv), as those of a
    trajectory, or from random states over the range of the joints, with speeds. Torques `tau` and
    references of the law are a row for all states, or a row a state, held. Impacts at limits make
    small errors unreachable, so that limits are left out unless `without` is given. A robot with
    loops is measured as its open tree. `implicit_damping` is left out unless named.
    """
    if integrators is None:
        integrators = [row.name for row in INTEGRATORS.values() if not row.damping_at_end]
    _check_request(robot, dt, integrators, feedback)
    if (q is None) != (v is None):
        raise InvalidArgument("states", None, "give both q and v, or neither")
    plant: dict[str, Any] = {
        "without": parse_without(without),
        "effects": tuple(effects),
        "feedback": feedback,
        "feedback_at": feedback_at,
    }
    inputs = {**law_inputs, **({} if tau is None else {"tau": tau})}
    rng = np.random.default_rng(seed)
    tree = Robot(with_loops(robot, []).model if robot.model.loops else robot.model, native=True)
    if on_step:
        on_step("reference", 0, len(integrators) + 1)
    swing = FreeSwing.of(tree, rng)
    if q is None or v is None:
        start = random_states(tree, rng, STATES, "springs" not in plant["without"])
    else:
        start = np.asarray(q), np.asarray(v)
    rows = []
    # integrators that diverge are measured too
    with np.errstate(all="ignore"):
        trial = Trial.of(tree, *start, plant=plant, inputs=inputs)
        for k, name in enumerate(integrators):
            if on_step:
                on_step(name, k + 1, len(integrators) + 1)
            rows.append(_measure(trial, swing, name, float(dt)))
    if on_step:
        on_step("done", len(integrators) + 1, len(integrators) + 1)
    return Certificate(
        robot=robot.name,
        dt=float(dt),
        frequency=trial.frequency,
        floating=swing.floating,
        states=len(trial.q),
        random=q is None,
        without=plant["without"],
        uncertainty=float(trial.uncertainty.max()),
        time=np.linspace(0.0, DURATION, SWING_SAMPLES + 1),
        rows=tuple(rows),
        recommendations=tuple(x for use in USES if (x := _choose(use, rows))),
    )


def _check_request(robot: Robot, dt: Any, integrators: Sequence[str], feedback: Any) -> None:
    """Refuse steps, robots, integrators and laws that cannot be measured."""
    if not isinstance(dt, int | float | np.floating) or not 0.0 < dt <= DURATION / SWING_SAMPLES:
        accepted = f"it is a time in seconds, up to {DURATION / SWING_SAMPLES:g}"
        raise InvalidArgument("dt", dt, accepted)
    if not robot.nv:
        raise InvalidArgument("robot", robot.name, "it needs joints that move")
    if feedback is not None and not hasattr(feedback, "command"):
        raise InvalidArgument("feedback", feedback, "it is a compiled law such as control.PD")
    for name in integrators:
        if name not in INTEGRATORS:
            raise UnknownName("integrator", name, INTEGRATORS)


def _measure(trial: Trial, swing: FreeSwing, name: str, dt: float) -> Measurement:
    """All measurements of an integrator; `dt` or a step a little longer is one of those tried."""
    counts = sorted({*_STEPS, SAMPLES * math.floor(HORIZON / SAMPLES / dt + 1e-9)})
    stable = trial.stable_step(name, grows=INTEGRATORS[name].amplifies)
    # the step that all uses can have: with the least error there, none needs a shorter one
    shortest = min(0.5 * stable if stable > 0.0 else math.inf, *(use.longest for use in USES))
    errors: list[float] = []
    for steps in counts:
        errors.append(float(trial.errors(name, steps).max()))
        if errors[-1] <= min(use.error for use in USES) and HORIZON / steps <= shortest:
            break
    dts = HORIZON / np.array(counts[: len(errors)])
    # observed order: by the finest two steps whose errors are clear of that of the reference
    floor = 10.0 * float(trial.uncertainty.max())
    good = [k for k in range(1, len(errors)) if floor < errors[k] < errors[k - 1] < _FAR]
    observed = math.nan
    if good:
        k = good[-1]
        observed = math.log(errors[k - 1] / errors[k]) / math.log(dts[k - 1] / dts[k])
    energy, trend, momentum = swing.drift(name, dt)
    return Measurement(
        name=name,
        order=INTEGRATORS[name].order,
        observed=observed,
        dts=dts,
        errors=np.array(errors),
        energy=energy,
        trend=trend,
        momentum=momentum,
        stable=stable,
        cost=trial.cost(name, dt),
    )


def _choose(use: Use, rows: Sequence[Measurement]) -> Recommendation | None:
    """The integrator with which a simulated second costs least at the error that a use bears."""
    found = []
    for row in rows:
        # half the stable step leaves room for motions that are faster than those about rest
        bound = 0.5 * row.stable if row.stable > 0.0 else math.inf
        dt = row.longest(use.error, min(bound, use.longest))
        usable = row.stable != 0.0 and not INTEGRATORS[row.name].amplifies
        if usable and math.isfinite(dt):
            found.append(Recommendation(use.name, row.name, dt, row.error_at(dt), row.cost / dt))
    return min(found, key=lambda x: x.seconds, default=None)


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
    errors.set(xlabel="step Δt, s", ylabel=f"largest error within {HORIZON:g} s, rad or m")
    energy.set(xlabel="time, s", ylabel="energy error / peak kinetic energy")
    work.set(xlabel=f"largest error within {HORIZON:g} s, rad or m")
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
