"""The energy ledger of a rollout: where energy is, where it came from, where it went, what is left.

Kinetic, potential and spring energy change by the work of motors less what friction and contact
take. What remains is the residual: the error of the integration. Its drift is classified, and
points to a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qddot.algorithms.inverse_dynamics import gravity, newton_euler
from qddot.algorithms.linear import dot
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Vector, per_body, zeros
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.plotting import PALETTE, new_figure, save_figure
from qddot.simulate.contact.penalty import PenaltyStops
from qddot.simulate.contact.stops import RigidStops
from qddot.simulate.drivetrain.motor import (
    Delay,
    Gear,
    Limit,
    MotorConstant,
    TorqueSpeedLimit,
)
from qddot.simulate.layout import columns
from qddot.simulate.motion import align, chart_rate, unalign
from qddot.simulate.plant import Moment, RobotPlant
from qddot.simulate.resistance import largest
from qddot.simulate.rollout import Rollout
from qddot.simulate.status import energies, springs
from qddot.spatial.algebra import Force
from qddot.spatial.scalar import less, where

__all__ = [
    "CAUSES",
    "Drift",
    "EnergyLedger",
    "draw_energy",
    "draw_residual",
    "energy_ledger",
    "plot_energy",
]

_MOTORS = (MotorConstant, Limit, TorqueSpeedLimit, Delay, Gear)
_STEPWISE = ("euler", "semi_implicit", "implicit_damping")
LOSS = 1e-3
"""Share of the energy that may be lost or gained a second: 0.1 %."""
_GAIN = 1e-5
_KEPT = 1e-9
_LEAST = 1e-6
"""Share of the largest level that counts as at play where less is: a robot at rest."""
_ROUNDING = 1e3
"""Units of rounding of the largest level that a residual may always be."""
_BOUND = 0.05
_JUMP = 1e-2
_WINDOWS = 8

CAUSES = {
    "kept": "energy is kept to the accuracy of the account",
    "bounded": "the error swings without a trend, as that of a symplectic integrator does",
    "unclear": "the account is too coarse to tell: keep more samples, or take a shorter step",
    "loss": "monotone loss: numerical damping of the integrator; a shorter step or a higher order "
    "makes it smaller",
    "gain": "monotone gain: the integrator puts energy in, and a long motion will diverge; take "
    "rk4, an implicit or a variational integrator, or a shorter step",
    "erratic": "sudden changes without a trend: usually contact (deep penetration, chatter of "
    "regularised friction), else steps too long for the motion; shorter steps, softer contact",
    "lost": "the motion ended in numbers without meaning; see its status",
}
"""What a drift of each kind points to."""


@dataclass(frozen=True)
class Drift:
    """The drift of the residual of one rollout.

    `rate` is the trend by second and `largest` the largest residual, both as shares of `scale`, the
    energy (J) that was at play: the most that was kinetic, exchanged, given or taken.
    """

    kind: str
    rate: float
    largest: float
    scale: float

    @property
    def acceptable(self) -> bool:
        """Whether the motion can be believed: kept, bounded below 5 %, or a trend ≤ 0.1 %/s."""
        if self.kind in ("loss", "gain"):
            return abs(self.rate) <= LOSS
        return self.kind == "kept" or (self.kind == "bounded" and self.largest <= _BOUND)

    @property
    def cause(self) -> str:
        """What it points to."""
        return CAUSES[self.kind]

    def __str__(self) -> str:
        verdict = "acceptable" if self.acceptable else "NOT acceptable"
        return f"{self.figures} ({verdict}): {self.cause}"

    @property
    def figures(self) -> str:
        """Its kind and size in a few words."""
        trend = f", {100.0 * self.rate:+.2g} %/s" if self.kind in ("loss", "gain") else ""
        return f"{self.kind}{trend}, at most {100.0 * self.largest:.2g} %"


@dataclass(frozen=True, eq=False)
class EnergyLedger:
    """Energies (J) by batch and time.

    `kinetic`, `potential` and `spring` are levels; `work` of the motors, `friction` and `contact`
    (both taken from the robot, stops with contact) count from the start; `error` bounds the
    quadrature of these three. `precision` is the unit of rounding of the states.
    """

    time: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    spring: np.ndarray
    work: np.ndarray
    friction: np.ndarray
    contact: np.ndarray
    error: np.ndarray
    precision: float = float(np.finfo(float).eps)

    @property
    def total(self) -> np.ndarray:
        """Kinetic, potential and spring energy."""
        return self.kinetic + self.potential + self.spring

    @property
    def residual(self) -> np.ndarray:
        """What the account does not explain."""
        change = self.total - self.total[..., :1]
        return change - self.work + self.friction + self.contact

    @property
    def scale(self) -> np.ndarray:
        """The energy at play, by rollout; at least a millionth of the largest level."""
        changes = (x - x[..., :1] for x in (self.potential, self.spring))
        parts = (self.kinetic, *changes, self.work, self.friction, self.contact)
        return np.maximum(_largest(parts), _LEAST * self._level + 1e-300)

    @property
    def rounding(self) -> np.ndarray:
        """Residuals (J) that the rounding of levels and flows makes, by rollout."""
        flows = _largest((self.work, self.friction, self.contact))
        return _ROUNDING * self.precision * np.maximum(self._level, flows)

    @property
    def _level(self) -> np.ndarray:
        return _largest((self.kinetic, self.potential, self.spring))

    def drift(self, index: Any = ()) -> Drift:
        """How the residual of one rollout drifts; of a batch, the one of this index."""
        if self.residual[index].ndim != 1:
            shape = self.residual.shape[:-1]
            raise InvalidArgument("index", index, f"it picks one rollout of the batch {shape}")
        with np.errstate(all="ignore"):
            r, scale = self.residual[index], float(self.scale[index])
            error, rounding = float(self.error[index][-1]), float(self.rounding[index])
            return _classified(self.time, r, error, scale, rounding)


def _largest(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The largest size over time, by rollout."""
    return np.maximum.reduce([np.abs(x).max(-1) for x in parts])


def _classified(
    time: np.ndarray, r: np.ndarray, error: float, scale: float, rounding: float
) -> Drift:
    """The kind of a drift, from the residual over time."""
    if not (np.isfinite(r).all() and np.isfinite(scale)):
        return Drift("lost", np.nan, np.nan, scale)
    largest_share = float(np.abs(r).max() / scale)
    spread = float(np.ptp(r))
    windows = min(_WINDOWS, len(r))
    means = np.array([part.mean() for part in np.array_split(r, windows)])
    middles = np.array([part.mean() for part in np.array_split(time, windows)])
    net, span = float(means[-1] - means[0]), float(middles[-1] - middles[0])
    rate = net / span / scale if span > 0.0 else 0.0
    monotone = bool((np.diff(means) > 0.0).all() or (np.diff(means) < 0.0).all())
    if spread <= max(_KEPT * scale, error, rounding):
        kind = "kept" if error <= max(LOSS * scale, rounding) else "unclear"
    elif _erratic(r, net, scale):
        kind = "erratic"
    elif not monotone or abs(net) < 0.5 * spread or 0.0 < rate < _GAIN:
        kind = "bounded"
    else:
        kind = "gain" if rate > 0.0 else "loss"
    return Drift(kind, rate, largest_share, scale)


def _erratic(r: np.ndarray, net: float, scale: float) -> bool:
    """Whether a residual jumps, or goes to and fro from sample to sample."""
    steps = np.diff(r)
    size = np.abs(steps)
    if len(steps) < 10 or size.max() < _JUMP * scale:
        return False
    turns = np.mean(steps[1:] * steps[:-1] < 0.0)
    jumps = size.max() > 25.0 * np.median(size)
    monotone = abs(net) > 0.9 * size.sum()
    return bool((jumps or turns > 0.3) and not monotone)


def energy_ledger(found: Rollout) -> EnergyLedger:
    """The energy ledger of a rollout.

    Powers are taken at the samples: with every step kept (every=1) the account of an integrator
    that takes its forces at the start of a step is that of its own steps, otherwise the trapezoid
    rule is used, and `error` tells how far the rule can be off. Effects that keep a memory need a
    rollout with record=True.
    """
    plan = found.plan
    if plan is None:
        raise InvalidArgument("rollout", found, "it needs one that qddot.simulate.rollout made")
    if any(plan.kept) and not found.history:
        raise InvalidArgument("rollout", "without a record", "effects with a memory: record=True")
    with np.errstate(all="ignore"):
        kinetic, potential = energies(found)
        joints, touching = springs(found)
        if found.q.shape[-2] > 1 and plan.model.nv:
            flows = _flows(found)
        else:
            flows = [np.zeros(found.q.shape[:-1])] * 4
        work, friction, contact, error = flows
        for effect, path in zip(plan.effects, found.history, strict=False):
            if isinstance(effect, RigidStops):
                contact = contact + (path[..., 0] - path[..., :1, 0])
        taken = friction - joints + joints[..., :1], contact - touching + touching[..., :1]
        levels = kinetic, potential, joints + touching
        precision = float(np.finfo(found.q.dtype).eps)
        return EnergyLedger(found.time, *levels, work, *taken, error, precision)


@dataclass(frozen=True)
class _Loads:
    """Generalised forces at the start of all steps: of motors, of losses, of contact.

    `held` are losses that are solved for at the start of a step and constant during it.
    """

    motor: list[Any]
    friction: list[Any]
    held: list[Any]
    contact: list[Any]


def _flows(found: Rollout) -> list[np.ndarray]:
    """Work of motors, losses by friction and by contact, and the error, each from the start."""
    plan: Any = found.plan
    plant, q, v, *_ = plan.opened(*found.started(last=False))
    model, shape = plan.model, found.q.shape[:-2]
    q1, v1 = (columns(x[..., 1:, :]) for x in (found.q, found.v))
    # velocities at the end of each step in the axes of its start
    v1 = unalign(model, q, align(model, q1, v1))
    h = float(found.time[1] - found.time[0])
    stepwise = found.every == 1
    exact = stepwise and found.integrator in _STEPWISE
    loads = _loads(plan, plant, q, v, v1, stepwise)
    middle = [0.5 * (a + b) for a, b in zip(v, v1, strict=True)]
    moved = [b - a for a, b in zip(v, v1, strict=True)]
    # a force that is constant works along the way of its joint, whatever the velocity did
    travel, bent = list(middle), list(moved)
    for body in model.independent:
        if body.joint.kind.nq == body.joint.kind.nv == 1 and not exact:
            travel[body.iv.start] = (q1[body.iq.start] - q[body.iq.start]) / h
            bent[body.iv.start] = np.zeros_like(moved[body.iv.start])
    rows, error = [], np.zeros((*shape, len(found.time) - 1))
    # a torque that is given is held, and feedback is when its steps are kept
    given = not plan.feedback or stepwise
    kinds = (exact or given, exact, stepwise, exact)
    parts = (loads.motor, loads.friction, loads.held, loads.contact)
    for part, constant in zip(parts, kinds, strict=True):
        force = [np.broadcast_to(x, error.shape) for x in part]
        after = force if constant else [_next(x) for x in force]
        change = [b - a for a, b in zip(force, after, strict=True)]
        mean = [a + 0.5 * b for a, b in zip(force, change, strict=True)]
        speed, turned = (travel, bent) if constant else (middle, moved)
        rows.append(h * np.broadcast_to(dot(mean, speed), error.shape))
        error = error + 0.25 * h * np.abs(dot(change, moved))
        if not exact:
            error = error + h * np.abs(_curvature(mean, turned))
    return [_summed(x) for x in (rows[0], -rows[1] - rows[2], -rows[3], error)]


def _curvature(force: Vector, moved: Sequence[Any]) -> Any:
    """What the trapezoid rule misses of a bent velocity: a twelfth of the change of its slope."""
    return dot(force, [(_next(np.asarray(x)) - x) / 12.0 for x in moved])


def _next(x: np.ndarray) -> np.ndarray:
    """What comes a sample later; the last one again."""
    return np.concatenate([x[..., 1:], x[..., -1:]], axis=-1)


def _summed(x: np.ndarray) -> np.ndarray:
    zero = np.zeros((*x.shape[:-1], 1))
    return np.concatenate([zero, np.cumsum(x, axis=-1)], axis=-1)


def _loads(
    plan: Any, plant: RobotPlant, q: Vector, v: Vector, v1: Vector, stepwise: bool
) -> _Loads:
    """Generalised forces during the steps, by who exerts them."""
    model, damped = plant.model, plan.integrator == "implicit_damping"
    tau = plant.torque(0.5)
    motor, friction, contact = list(tau), zeros(model.nv), zeros(model.nv)
    for effect, memory in zip(plant.effects, plant.memories, strict=True):
        after, pushes = effect.act(Moment(model, q, v, tau, plant.dt), memory)
        change = [b - a for a, b in zip(tau, after, strict=True)]
        if isinstance(effect, _MOTORS):
            motor = _sum(motor, change)
        elif isinstance(effect, PenaltyStops):
            contact = _sum(contact, change)
        else:
            friction = _sum(friction, change)
        if pushes is not None:
            contact = _sum(contact, _generalised(model, q, pushes))
        tau = after
    if plan.contact:
        given = _sum(tau, contact)
        contact = _sum(contact, _missing(plant, q, v, v1, given))
        return _Loads(motor, friction, zeros(model.nv), contact)
    held = list(plant.resisted(q, v, damped).held) or zeros(model.nv)
    # a joint at its stop rests: between samples the torque on it does no work
    for effect in () if stepwise else plant.effects:
        if isinstance(effect, RigidStops):
            for k, (back, ahead) in effect.standing(model, q).items():
                held[k] = where(less(0.5, largest(back, ahead)), 0.0, held[k])
    if damped:
        (M0, _), (M1, _) = plant.balance(q, v, 0.0), plant.balance(q, v, plant.dt)
        for k in range(model.nv):
            friction[k] = friction[k] - (M1[k][k] - M0[k][k]) / plant.dt * v1[k]
    return _Loads(motor, friction, held, contact)


def _missing(plant: RobotPlant, q: Vector, v: Vector, v1: Vector, given: Vector) -> list[Any]:
    """The generalised force that, with those given, makes a step from v to v1."""
    model = plant.model
    nothing = per_body(model, Force.zero())
    h, M = newton_euler(model, q, v, zeros(model.nv), nothing), mass_matrix(model, q)
    # v1 is in the axes of the start, which turn: that part of its change is no acceleration
    turn = unalign(model, q, chart_rate(model, q, v, zeros(model.nv)))
    a = [(y - x) / plant.dt - t for x, y, t in zip(v, v1, turn, strict=True)]
    return [dot(row, a) + b - t for row, b, t in zip(M, h, given, strict=True)]


def _generalised(model: Model, q: Vector, pushes: Sequence[Force]) -> list[Any]:
    """Jᵀ F of forces on the bodies."""
    still = zeros(model.nv)
    needed = newton_euler(model, q, still, still, pushes)
    return [a - b for a, b in zip(gravity(model, q), needed, strict=True)]


def _sum(x: Vector, y: Vector) -> list[Any]:
    return [a + b for a, b in zip(x, y, strict=True)]


def plot_energy(ledger: EnergyLedger, file: str | Path, index: Any = ()) -> None:
    """Draw the ledger of one rollout: levels and flows above, the residual below."""
    figure = new_figure(9.0, 6.5)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    draw_energy(upper, ledger, index)
    draw_residual(lower, ledger, index)
    lower.set_xlabel("time, s")
    save_figure(figure, Path(file))


def draw_energy(axes: Any, ledger: EnergyLedger, index: Any = ()) -> None:
    """Levels and flows on axes of matplotlib; those that are nothing throughout are left out."""
    from_start: Callable[[np.ndarray], np.ndarray] = lambda x: x - x[0]  # noqa: E731
    lines = (
        ("kinetic", ledger.kinetic[index], PALETTE[0], "-"),
        ("potential, from the start", from_start(ledger.potential[index]), PALETTE[1], "-"),
        ("springs", ledger.spring[index], PALETTE[2], "-"),
        ("total, from the start", from_start(ledger.total[index]), "black", "-"),
        ("work of motors", ledger.work[index], PALETTE[3], "--"),
        ("taken by friction", ledger.friction[index], PALETTE[4], "--"),
        ("taken by contact", ledger.contact[index], PALETTE[5], "--"),
    )
    for name, y, colour, style in lines:
        if np.any(y):
            axes.plot(ledger.time, y, style, color=colour, label=name, linewidth=1.4)
    axes.set_ylabel("energy, J")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def draw_residual(axes: Any, ledger: EnergyLedger, index: Any = ()) -> None:
    """The residual in percent of the energy at play, with the error of the account."""
    drift = ledger.drift(index)
    share = 100.0 / drift.scale
    axes.plot(ledger.time, share * ledger.residual[index], color=PALETTE[4], linewidth=1.4)
    error = share * ledger.error[index]
    axes.fill_between(ledger.time, -error, error, color=PALETTE[5], alpha=0.25, linewidth=0)
    verdict = "acceptable" if drift.acceptable else "not acceptable"
    axes.set_title(
        f"drift: {drift.figures}, {verdict} "
        f"(of {drift.scale:.3g} J at play; grey: error of the account)",
        fontsize=9,
    )
    axes.set_ylabel("residual, %")
    axes.grid(alpha=0.3)
