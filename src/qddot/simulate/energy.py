"""The energy ledger of a rollout: levels, flows, and the residual of their balance.

Kinetic, potential and spring energy change by the work of motors less the losses by friction,
contact and the numerical damping of springs that are taken at the end of a step. That damping and
the residual of the balance are the error of the integration. Its drift is classified, and points
to a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qddot.algorithms.constraints import ConstraintMobility
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.linear import dot, factorise
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Vector, per_body, zeros
from qddot.display.plots import PALETTE, new_figure, save_figure, widen_axis
from qddot.display.text import Tabular
from qddot.errors import InvalidArgument
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.penalty import PenaltyContact, PenaltyStops
from qddot.simulate.contact.stops import RigidStops
from qddot.simulate.drivetrain.motor import (
    Delay,
    Gear,
    Limit,
    MotorConstant,
    TorqueSpeedLimit,
)
from qddot.simulate.implicit_torques import DampingTorque, VelocityConstraint, largest
from qddot.simulate.integrators import find_integrator
from qddot.simulate.layout import columns
from qddot.simulate.motion import align, chart_rate, unalign
from qddot.simulate.plant import JointSprings, RobotPlant, StepContext
from qddot.simulate.rollout import Rollout
from qddot.simulate.status import elastic_energies, energies
from qddot.simulate.step import StepStart
from qddot.simulate.wrench_work import project_forces, wrench_torques, wrench_work
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
_TRENDS = ("loss", "gain", "damped")

CAUSES = {
    "kept": "energy is kept to the accuracy of the account",
    "bounded": "the error swings without a trend, as that of a symplectic integrator does",
    "unclear": "the account is too coarse to tell: keep more samples, or take a shorter step",
    "damped": "springs or teeth that are taken at the end of the step are damped by it; a step "
    "below the inverse of their angular frequency makes it smaller",
    "loss": "monotone loss: numerical damping of the integrator; a shorter step or a higher order "
    "makes it smaller",
    "gain": "monotone gain: the integrator puts energy in, and a long motion will diverge; take a "
    "shorter step; without contact by complementarity also an integrator of higher order, without "
    "loops too an implicit or a variational one",
    "erratic": "sudden changes without a trend: usually contact (deep penetration, chatter of "
    "regularised friction), else steps too long for the motion; shorter steps, softer contact",
    "lost": "the motion ended in numbers without meaning; see its status",
}
"""The likely cause of a drift of each kind."""


@dataclass(frozen=True)
class Drift:
    """The drift of the error of the integration of one rollout.

    `rate` is the trend by second and `largest` the largest error, both as shares of `scale`, the
    energy (J) that was at play: the most that was kinetic, exchanged, given or taken.
    """

    kind: str
    rate: float
    largest: float
    scale: float

    @property
    def acceptable(self) -> bool:
        """Whether the motion can be believed: kept, bounded below 5 %, or a trend ≤ 0.1 %/s."""
        if self.kind in _TRENDS:
            return abs(self.rate) <= LOSS
        return self.kind == "kept" or (self.kind == "bounded" and self.largest <= _BOUND)

    @property
    def cause(self) -> str:
        """The likely cause."""
        return CAUSES[self.kind]

    def __str__(self) -> str:
        verdict = "acceptable" if self.acceptable else "NOT acceptable"
        return f"{self.summary} ({verdict}): {self.cause}"

    @property
    def summary(self) -> str:
        """Its kind and size in a few words."""
        trend = f", {100.0 * self.rate:+.2g} %/s" if self.kind in _TRENDS else ""
        return f"{self.kind}{trend}, at most {100.0 * self.largest:.2g} %"


@dataclass(frozen=True, eq=False, repr=False)
class EnergyLedger(Tabular):
    """Energies (J) by batch and time.

    `kinetic`, `potential` and `spring` are levels; `work` of the motors, `friction` and `contact`
    (both taken from the robot, stops with contact) count from the start, and so does `numerical`,
    what springs that are taken at the end of the step neither store nor give back. `error` bounds
    the quadrature of these four. `precision` is the unit of rounding of the states.
    """

    time: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    spring: np.ndarray
    work: np.ndarray
    friction: np.ndarray
    contact: np.ndarray
    numerical: np.ndarray
    error: np.ndarray
    precision: float = float(np.finfo(float).eps)

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """The drift in words, and an account a line; of a batch, its worst residual."""
        residual = np.nan_to_num(np.abs(self.integration_error), nan=np.inf)
        worst = residual.max(axis=-1, initial=0.0)
        index = np.unravel_index(int(worst.argmax()), worst.shape) if worst.ndim else ()
        of = f" of rollout {tuple(map(int, index))}" if index else ""
        rows = []
        levels, flows = ("kinetic", "potential", "spring"), ("work", "friction", "contact")
        for name in (*levels, *flows, "numerical", "residual"):
            # no account shows -0
            x = getattr(self, name)[index] + 0.0
            rows.append([name, *(f"{y:.4g}" for y in (x[0], x[-1], x.min(), x.max()))])
        heads = ["energy, J", "first", "last", "least", "most"]
        return f"energy ledger{of}: {self.drift(index)}", heads, rows

    @property
    def total(self) -> np.ndarray:
        """Kinetic, potential and spring energy."""
        return self.kinetic + self.potential + self.spring

    @property
    def residual(self) -> np.ndarray:
        """The residual of the balance: change of the total less work, plus losses."""
        change = self.total - self.total[..., :1]
        return change - self.work + self.friction + self.contact + self.numerical

    @property
    def integration_error(self) -> np.ndarray:
        """The error of the integration: the residual, and the loss by numerical damping."""
        return self.residual - self.numerical

    @property
    def scale(self) -> np.ndarray:
        """The energy at play, by rollout; at least a millionth of the largest level."""
        changes = (x - x[..., :1] for x in (self.potential, self.spring))
        parts = (self.kinetic, *changes, self.work, self.friction, self.contact, self.numerical)
        return np.maximum(_largest(parts), _LEAST * self._level + 1e-300)

    @property
    def rounding(self) -> np.ndarray:
        """Residuals (J) that the rounding of levels and flows makes, by rollout."""
        flows = _largest((self.work, self.friction, self.contact, self.numerical))
        return _ROUNDING * self.precision * np.maximum(self._level, flows)

    @property
    def _level(self) -> np.ndarray:
        return _largest((self.kinetic, self.potential, self.spring))

    def drift(self, index: Any = ()) -> Drift:
        """The drift of the integration error of one rollout; of a batch, the one of this index."""
        if self.residual[index].ndim != 1:
            shape = self.residual.shape[:-1]
            raise InvalidArgument("index", index, f"it picks one rollout of the batch {shape}")
        with np.errstate(all="ignore"):
            r, numerical = self.integration_error[index], self.numerical[index]
            scale = float(self.scale[index])
            error, rounding = float(self.error[index][-1]), float(self.rounding[index])
            if not (np.isfinite(r).all() and np.isfinite(scale)):
                return Drift("lost", np.nan, np.nan, scale)
            # trend of the means of windows
            spread, windows = float(np.ptp(r)), min(_WINDOWS, len(r))
            means = np.array([part.mean() for part in np.array_split(r, windows)])
            middles = np.array([part.mean() for part in np.array_split(self.time, windows)])
            net, span = float(means[-1] - means[0]), float(middles[-1] - middles[0])
            rate = net / span / scale if span > 0.0 else 0.0
            monotone = bool((np.diff(means) > 0.0).all() or (np.diff(means) < 0.0).all())
            # kind
            if spread <= max(_KEPT * scale, error, rounding):
                kind = "kept" if error <= max(LOSS * scale, rounding) else "unclear"
            elif 2.0 * numerical.max() > np.abs(r).max():
                kind, rate = "damped", -numerical[-1] / np.ptp(self.time) / scale
            elif _is_erratic(r, net, scale):
                kind = "erratic"
            elif not monotone or abs(net) < 0.5 * spread or 0.0 < rate < _GAIN:
                kind = "bounded"
            else:
                kind = "gain" if rate > 0.0 else "loss"
            return Drift(kind, float(rate), float(np.abs(r).max() / scale), scale)


def _largest(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The largest size over time, by rollout."""
    return np.maximum.reduce([np.abs(x).max(-1) for x in parts])


def _is_erratic(r: np.ndarray, net: float, scale: float) -> bool:
    """Whether a residual jumps, or goes to and fro from sample to sample."""
    steps = np.diff(r)
    size = np.abs(steps)
    if len(steps) < 10 or size.max() < _JUMP * scale:
        return False
    turns = np.mean(steps[1:] * steps[:-1] < 0.0)
    jumps = size.max() > 25.0 * np.median(size)
    monotone = abs(net) > 0.9 * size.sum()
    return bool((jumps or turns > 0.3) and not monotone)


def energy_ledger(rollout: Rollout) -> EnergyLedger:
    """The energy ledger of a rollout.

    Powers are taken at the samples: with every step kept (every=1) the account of an integrator
    that takes its forces at the start of a step is that of its own steps, otherwise the trapezoid
    rule is used, and `error` bounds its error. Effects with a state need a rollout with
    record=True.
    """
    step = rollout.step
    if step is None:
        raise InvalidArgument("rollout", rollout, "it needs one that qddot.simulate.rollout made")
    if any(step.state_sizes) and not rollout.effect_history:
        raise InvalidArgument("rollout", "without a record", "effects with a state: record=True")
    with np.errstate(all="ignore"):
        # levels
        kinetic, potential = energies(rollout)
        springs = elastic_energies(rollout)
        # flows
        if rollout.q.shape[-2] > 1 and step.model.nv:
            flows = _flows(rollout)
        else:
            flows = [np.zeros(rollout.q.shape[:-1])] * 5
        work, friction, contact, numerical, error = flows
        if step.wrenches and rollout.q.shape[-2] > 1:
            at_start = find_integrator(rollout.integrator).forces_at_start
            added = wrench_work(rollout, exact=rollout.every == 1 and at_start)
            work, error = work + added[0], error + added[1]
        for effect, path in zip(step.effects, rollout.effect_history, strict=False):
            if isinstance(effect, RigidStops):
                contact = contact + (path[..., 0] - path[..., :1, 0])
        # energy that springs store is not lost; springs at the stages are a level alone, as gravity
        for elastic, energy in springs:
            stored = energy - energy[..., :1]
            if isinstance(elastic, PenaltyContact | PenaltyStops):
                contact = contact - stored
            elif not isinstance(elastic, JointSprings):
                friction = friction - stored
            elif elastic.springs_at_end:
                numerical = numerical - stored
        return EnergyLedger(
            time=rollout.time,
            kinetic=kinetic,
            potential=potential,
            spring=sum((energy for _, energy in springs), np.zeros(kinetic.shape)),
            work=work,
            friction=friction,
            contact=contact,
            numerical=numerical,
            error=error,
            precision=float(np.finfo(rollout.q.dtype).eps),
        )


@dataclass(frozen=True)
class _Loads:
    """Generalised forces at the start of all steps: of motors, friction and contact.

    `implicit` are torques of friction that are solved for at the start of a step and constant
    during it, and `springs` those of springs at the end of the step.
    """

    motor: list[Any]
    friction: list[Any]
    implicit: list[Any]
    springs: list[Any]
    contact: list[Any]


def _flows(rollout: Rollout) -> list[np.ndarray]:
    """Work of motors, losses by friction, contact and implicit springs, error; from the start."""
    step: Any = rollout.step
    start: StepStart = step.begin(*rollout.step_inputs(last=False))
    q, v = start.q, start.v
    model, shape = step.model, rollout.q.shape[:-2]
    q1, v1 = (columns(x[..., 1:, :]) for x in (rollout.q, rollout.v))
    # velocities at the end of each step in the axes of its start
    v1 = unalign(model, q, align(model, q1, v1))
    h = float(rollout.time[1] - rollout.time[0])
    stepwise = rollout.every == 1
    exact = stepwise and find_integrator(rollout.integrator).forces_at_start
    loads = _loads(step, start, v1, stepwise, h)
    middle = [0.5 * (a + b) for a, b in zip(v, v1, strict=True)]
    moved = _difference(v1, v)
    # the work of a constant force is along the displacement of its joint
    travel, bent = list(middle), list(moved)
    for body in model.independent:
        if body.joint.kind.nq == body.joint.kind.nv == 1 and not exact:
            travel[body.iv.start] = (q1[body.iq.start] - q[body.iq.start]) / h
            bent[body.iv.start] = np.zeros_like(moved[body.iv.start])
    rows, error = [], np.zeros((*shape, len(rollout.time) - 1))
    # which forces are constant during a step: given torques are, feedback is from step to step
    constant_torque = not step.feedback or (stepwise and step.feedback.time != "stages")
    kinds = (exact or constant_torque, exact, stepwise, stepwise, exact)
    last = np.arange(error.shape[-1]) == error.shape[-1] - 1
    parts = (loads.motor, loads.friction, loads.implicit, loads.springs, loads.contact)
    for part, constant in zip(parts, kinds, strict=True):
        force = [np.broadcast_to(x, error.shape) for x in part]
        after = force if constant else [_next(x) for x in force]
        change = _difference(after, force)
        mean = [a + 0.5 * b for a, b in zip(force, change, strict=True)]
        speed, turned = (travel, bent) if constant else (middle, moved)
        rows.append(h * np.broadcast_to(dot(mean, speed), error.shape))
        error = error + 0.25 * h * np.abs(dot(change, moved))
        if not exact:
            # trapezoid rule of curved velocities and forces: a twelfth of the change of each slope
            curvature = [(_next(np.asarray(x)) - x) / 12.0 for x in turned]
            bend = [(_next(x) - x) / 12.0 for x in change]
            error = error + h * np.abs(dot(mean, curvature)) + h * np.abs(dot(speed, bend))
            # forces at the end of the last step are unknown: as much change as in the one before
            before = [np.where(last, np.roll(x, 1, axis=-1), 0.0) for x in change]
            error = error + 0.5 * h * np.abs(dot(speed, before))
    # sums over time, from 0
    zero = np.zeros((*shape, 1))
    flows = (rows[0], -rows[1] - rows[2], -rows[4], -rows[3], error)
    return [np.concatenate([zero, np.cumsum(x, axis=-1)], axis=-1) for x in flows]


def _next(x: np.ndarray) -> np.ndarray:
    """Values one sample later; the last one is repeated."""
    return np.concatenate([x[..., 1:], x[..., -1:]], axis=-1)


def _loads(step: Any, start: StepStart, v1: Vector, stepwise: bool, span: float) -> _Loads:
    """Generalised forces during the steps that end with v1, by their source."""
    plant, q, v, model = start.plant, start.q, start.v, start.plant.model
    # effects: each torque or force is that of a motor, of contact or of friction
    tau = plant.torque(q, v, 0.5)
    motor, friction, contact = list(tau), zeros(model.nv), zeros(model.nv)
    for effect, state in zip(plant.effects, plant.states, strict=True):
        context = StepContext(model, q, v, tau, plant.dt)
        after, forces = effect.act(context, state)
        change = _difference(after, tau)
        if isinstance(effect, JointSprings) and not effect.springs_at_end:
            change = _difference(change, effect.spring_torques(context))
        if isinstance(effect, _MOTORS):
            motor = _sum(motor, change)
        elif isinstance(effect, PenaltyStops):
            contact = _sum(contact, change)
        else:
            friction = _sum(friction, change)
        if forces is not None:
            contact = _sum(contact, project_forces(model, q, forces))
        tau = after
    if step.contact:
        # velocity gains of a law at the end of the step
        for k, row in enumerate(plant.law_damping or ()):
            reaction = dot(row, _difference(v1, v))
            motor[k], tau[k] = motor[k] - reaction, tau[k] - reaction
        given = _sum(_sum(tau, contact), wrench_torques(plant, q))
        # the force that takes v to v1 with the given ones: v1 is in the axes of the start, which
        # rotate, and that part of its change is no acceleration
        nothing = per_body(model, Force.zero())
        h, M = newton_euler(model, q, v, zeros(model.nv), nothing), mass_matrix(model, q)
        turn = unalign(model, q, chart_rate(model, q, v, zeros(model.nv)))
        a = [(y - x) / span - t for x, y, t in zip(v, v1, turn, strict=True)]
        remaining = [dot(row, a) + b - t for row, b, t in zip(M, h, given, strict=True)]
        if plant.loops:
            # forces of the loops do no work
            mass = factorise(mass_matrix(model, q))
            closure = ConstraintMobility.of(plant.loops.rows(model, q), mass)
            remaining = closure.remove_force(remaining)
        implicit, v_end = _implicit_torques_in_contact(step, start, v1, stepwise)
        contact = _difference(_sum(contact, remaining), implicit)
        springs = _springs_at_end(plant, q, v, v_end)
        return _Loads(motor, friction, _difference(implicit, springs), springs, contact)
    solved = plant.with_implicit_torques(q, v, step.implicit_damping)
    implicit = list(solved.implicit) or zeros(model.nv)
    if solved.law_reaction:
        motor = _sum(motor, solved.law_reaction)
        implicit = _difference(implicit, solved.law_reaction)
    springs = _springs_at_end(plant, q, v, solved.implicit_end or v1)
    implicit = _difference(implicit, springs)
    # a joint at its stop rests: between samples the torque on it does no work
    for effect in () if stepwise else plant.effects:
        if isinstance(effect, RigidStops):
            for k, (backward, forward) in effect.joints_at_stops(model, q).items():
                stopped = less(0.5, largest(backward, forward))
                implicit[k] = where(stopped, 0.0, implicit[k])
                springs[k] = where(stopped, 0.0, springs[k])
    if step.implicit_damping:
        friction = _difference(friction, _damping_at_end(plant, q, v, v1))
    return _Loads(motor, friction, implicit, springs, contact)


def _springs_at_end(plant: RobotPlant, q: Vector, v: Vector, v_end: Vector) -> list[Any]:
    """Torques of the springs that are taken at the end of the step."""
    context = StepContext(plant.model, q, v, zeros(plant.model.nv), plant.dt, v_end)
    torques = zeros(plant.model.nv)
    for effect in plant.effects:
        if isinstance(effect, JointSprings) and effect.springs_at_end:
            torques = _sum(torques, effect.spring_torques(context))
    return torques


def _damping_at_end(plant: RobotPlant, q: Vector, v: Vector, v_end: Vector) -> list[Any]:
    """Torques that the damping of the joints takes at the end of the step."""
    (M0, _), (M1, _) = (
        plant.equation_of_motion(q, v, 0.0),
        plant.equation_of_motion(q, v, plant.dt),
    )
    return [(M1[k][k] - M0[k][k]) / plant.dt * x for k, x in enumerate(v_end)]


def _implicit_torques_in_contact(
    step: Any, start: StepStart, v1: Vector, stepwise: bool
) -> tuple[list[Any], Vector]:
    """Torques on the joints that are solved for together with contact, and v at the end."""
    plant, q, v = start.plant, start.q, start.v
    torques, v_end = zeros(plant.model.nv), v1
    implicit, pushes = plant.implicit_torques(q, v), iter(())
    bounded = any(isinstance(item, VelocityConstraint) for item in implicit)
    if isinstance(plant.contact, ComplementarityContact) and (bounded or not stepwise):
        # the step again, from the recorded impulses
        found = plant.contact.solve(plant, q, v, start.states[-1], step.implicit_damping)
        v_end, pushes = found.v, iter(found.joints)
    for item in implicit:
        if isinstance(item, DampingTorque):
            torque = -item.offset - item.slope * v_end[item.dof]
        else:
            torque = next(pushes, 0.0) / plant.dt
        torques[item.dof] = torques[item.dof] + torque
    if step.implicit_damping:
        torques = _difference(torques, _damping_at_end(plant, q, v, v_end))
    return torques, v_end


def _sum(x: Vector, y: Vector) -> list[Any]:
    return [a + b for a, b in zip(x, y, strict=True)]


def _difference(x: Vector, y: Vector) -> list[Any]:
    return [a - b for a, b in zip(x, y, strict=True)]


def plot_energy(ledger: EnergyLedger, file: str | Path, index: Any = ()) -> None:
    """Draw the ledger of one rollout: levels and flows above, the integration error below."""
    figure = new_figure(9.0, 6.5)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    draw_energy(upper, ledger, index)
    draw_residual(lower, ledger, index)
    lower.set_xlabel("time, s")
    save_figure(figure, Path(file))


def draw_energy(axes: Any, ledger: EnergyLedger, index: Any = ()) -> None:
    """Levels and flows on axes of matplotlib, except zero ones."""
    from_start: Callable[[np.ndarray], np.ndarray] = lambda x: x - x[0]  # noqa: E731
    lines = (
        ("kinetic", ledger.kinetic[index], PALETTE[0], "-"),
        ("potential, from the start", from_start(ledger.potential[index]), PALETTE[1], "-"),
        ("springs", ledger.spring[index], PALETTE[2], "-"),
        ("total, from the start", from_start(ledger.total[index]), "black", "-"),
        ("work of motors", ledger.work[index], PALETTE[3], "--"),
        ("taken by friction", ledger.friction[index], PALETTE[4], "--"),
        ("taken by contact", ledger.contact[index], PALETTE[5], "--"),
        ("numerical damping", ledger.numerical[index], "black", ":"),
    )
    for name, y, colour, style in lines:
        if np.any(y):
            axes.plot(ledger.time, y, style, color=colour, label=name, linewidth=1.4)
    widen_axis(axes, ledger.drift(index).scale)
    axes.set_ylabel("energy, J")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def draw_residual(axes: Any, ledger: EnergyLedger, index: Any = ()) -> None:
    """The integration error in percent of the energy at play, with the error of the account."""
    drift = ledger.drift(index)
    share = 100.0 / drift.scale
    axes.plot(ledger.time, share * ledger.integration_error[index], color=PALETTE[4], linewidth=1.4)
    error = share * ledger.error[index]
    axes.fill_between(ledger.time, -error, error, color=PALETTE[5], alpha=0.25, linewidth=0)
    widen_axis(axes, 100.0 * _KEPT)
    verdict = "acceptable" if drift.acceptable else "not acceptable"
    axes.set_title(
        f"drift: {drift.summary}, {verdict} "
        f"(of {drift.scale:.3g} J at play; grey: error of the account)",
        fontsize=9,
    )
    axes.set_ylabel("integration error, %")
    axes.grid(alpha=0.3)
