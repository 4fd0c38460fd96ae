"""Status: faults of a rollout, with the first bad step, the cause and a remedy.

Nothing raises from inside a batch. Each rollout of it has a label and its first bad step, and all
that was computed up to that step is kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.configuration import integrate
from qddot.algorithms.energy import kinetic_energy, potential_energy
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.display.text import Tabular
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.model.model import Model, bodies_with_limits
from qddot.robot.robot import Robot
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.gaps import find_sites
from qddot.simulate.contact.penalty import PRESETS, PenaltyContact
from qddot.simulate.contact.stops import RigidStops
from qddot.simulate.integrators import find_integrator
from qddot.simulate.layout import columns, nested_over_time, stack_scalars
from qddot.simulate.plant import ElasticEffect
from qddot.simulate.step import DIVISION, LOOPS

__all__ = [
    "LABELS",
    "Perturbation",
    "RolloutRecord",
    "RolloutVerdict",
    "Status",
    "constants_over_time",
    "elastic_energies",
    "energies",
    "judge",
]

LARGEST = 1e8
"""A coordinate or velocity above it (m, rad, m/s, rad/s) has diverged: no micrometres are left."""
ROUNDED = 1e-9
"""How far (rad, m) beyond its limit a joint may start without a note."""
OVER_LIMIT = 1e-3
"""How far (rad, m) a joint may pass its limits."""
CONTACT_RESIDUAL = 1e-3
"""The residual of Coulomb's law (m/s) above which contact is not solved."""
FRICTION_RESIDUAL = 1e-3
"""The residual of joint friction and stops (rad/s, m/s) above which they are not solved."""
ITERATION_RESIDUAL = 1e-6
"""The share of the velocities that the last iteration of an implicit step may change."""
LOOP_GAP = 1e-6
"""How far (m, rad) a loop may be open after a step."""
PART_ERROR = 1e-8
"""The error of a part of a step with loops, as a share of the speed."""
ROUNDING = 1e3
"""Units of rounding up to which a residual is always accepted."""
DEPTH = 1e-3
"""Overlap (m) that is always accepted; springs may give twice their tolerance."""
GAIN = 0.1
"""The gain of energy, by the largest kinetic energy and change of potential energy so far.

Judged from ten samples on, in motions without motors.
"""

LABELS = {
    "ok": "nothing to do",
    "nan_input": "an input is NaN or infinite: look for its source, or leave that rollout out",
    "diverged": "the state left all bounds: take a shorter step, an integrator of higher order, "
    "or implicit_damping where damping or contact is stiff; look for huge inputs and tiny masses",
    "loop_open": "a loop of the robot came apart: take a shorter step or an integrator of higher "
    "order; where the loops are singular no multipliers hold them: keep the motion away from there",
    "not_converged": "an iteration within the step ended early: take a shorter step; for contact "
    "also more sweeps, or contact by penalty",
    "penetration": "bodies overlap: start apart, stiffer contact with a shorter step, or contact "
    "by complementarity",
    "limit_violated": "a joint passed its limit: add stops, hold it by torques or feedback, or "
    "correct the limit",
    "energy_gain": "energy appears from nowhere, and the motion will diverge: take a shorter step; "
    "without contact by complementarity also an integrator of higher order, without loops too an "
    "implicit or a variational one",
}
"""Labels of a status, worst first after ok, each with its remedy."""
_FEWEST = 10
_MODERATE = 1e4
"""States (m, rad, m/s, rad/s) from which no single step overflows."""
_FATAL = ("nan_input", "diverged")
_CODES = {label: k for k, label in enumerate(LABELS)}


class RolloutRecord(Protocol):
    """The fields of a rollout that are judged."""

    @property
    def time(self) -> np.ndarray:
        """Times of the samples."""

    @property
    def q(self) -> np.ndarray:
        """Configurations, by batch and time."""

    @property
    def v(self) -> np.ndarray:
        """Velocities, by batch and time."""

    @property
    def dt(self) -> float:
        """Length of a step."""

    @property
    def step(self) -> Any:
        """The step of the loop, or None."""

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """Torques, references, constants."""

    @property
    def residuals(self) -> np.ndarray | None:
        """The largest residual of each iteration up to each sample."""

    @property
    def effect_history(self) -> tuple[np.ndarray, ...]:
        """States of effects at each sample."""


@dataclass(frozen=True)
class RolloutVerdict:
    """One rollout: its label, first bad step and its time (None if ok), the cause, a remedy."""

    label: str
    step: int | None
    time: float | None
    cause: str
    remedy: str

    def __str__(self) -> str:
        if self.step is None:
            return "ok"
        what = f" ({self.cause})" if self.cause else ""
        return f"{self.label}{what} at step {self.step}, {self.time:.6g} s: {self.remedy}"


@dataclass(frozen=True, eq=False, repr=False)
class Status(Tabular):
    """Labels of a batch of rollouts, with the first bad step of each.

    `code` counts in LABELS; `step` is −1 where all is well. The label is that of the first bad
    step; but a rollout that ends in numbers without meaning is nan_input or diverged, whatever came
    before. Steps are found among the samples that are kept, exactly where every step is kept.
    `notes` tell of physics of the description that is not part of the rollouts, and of joints that
    start beyond their limits.
    """

    code: np.ndarray
    step: np.ndarray
    subject: np.ndarray
    subjects: tuple[str, ...]
    dt: float
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> np.ndarray:
        """The label of each rollout."""
        return np.array(tuple(LABELS))[self.code]

    @property
    def ok(self) -> bool:
        """Whether all rollouts are well."""
        return not self.code.any()

    @property
    def counts(self) -> dict[str, int]:
        """The number of rollouts with each label that occurs."""
        found = np.bincount(self.code.ravel(), minlength=len(LABELS))
        return {label: int(n) for label, n in zip(LABELS, found, strict=True) if n}

    def of(self, index: Any = ()) -> RolloutVerdict:
        """The verdict on one rollout of the batch."""
        label, step = tuple(LABELS)[int(self.code[index])], int(self.step[index])
        if step < 0:
            return RolloutVerdict(label, None, None, "", LABELS[label])
        cause = self.subjects[int(self.subject[index])]
        return RolloutVerdict(label, step, step * self.dt, cause, LABELS[label])

    @property
    def first(self) -> tuple[tuple[int, ...], RolloutVerdict]:
        """The rollout that went wrong earliest, and its verdict; any one if all are well."""
        if not self.code.size:
            return (), RolloutVerdict("ok", None, None, "", LABELS["ok"])
        steps = np.where(self.step < 0, np.iinfo(np.int64).max, self.step)
        index = tuple(int(k) for k in np.unravel_index(int(np.argmin(steps)), steps.shape))
        return index, self.of(index)

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """The status in words, and a label a line."""
        rows = []
        for label, count in self.counts.items():
            bad = self.step[np.asarray(self.label) == label]
            first = f"{int(bad.min())}" if label != "ok" else ""
            rows.append([label, str(count), first, LABELS[label]])
        return str(self), ["label", "rollouts", "first bad step", "what to do"], rows

    def __str__(self) -> str:
        notes = "".join(f"; note: {note}" for note in self.notes)
        if not self.code.ndim:
            return f"{self.of()}{notes}"
        counts = ", ".join(f"{n} {label}" for label, n in self.counts.items())
        index, verdict = self.first
        first = "" if self.ok else f"; first rollout {index}: {verdict}"
        return f"{counts}{first}{notes}"


def judge(rollout: RolloutRecord) -> Status:
    """The status of a rollout."""
    samples = len(rollout.time)
    batch = rollout.q.shape[:-2]
    code, subject = np.zeros(batch, np.uint8), np.zeros(batch, np.int32)
    first = np.full(batch, samples, np.int64)
    subjects = [""]
    with np.errstate(all="ignore"):
        for label, what, bad in _faults(rollout):
            # first bad sample; a fatal label stays unless another fatal one is earlier
            at = np.where(bad.any(-1), bad.argmax(-1), samples)
            lost = (code > 0) & (code <= _CODES[_FATAL[-1]])
            earlier = (at < first) & ~(lost & (label not in _FATAL))
            if not earlier.any():
                continue
            subjects.append(what)
            first = np.where(earlier, at, first)
            code[earlier], subject[earlier] = _CODES[label], len(subjects) - 1
    steps = np.append(np.rint(rollout.time / rollout.dt), -1).astype(np.int64)
    notes = (*rollout.step.notes, *_start_notes(rollout)) if rollout.step is not None else ()
    return Status(code, steps[first], subject, tuple(subjects), rollout.dt, notes)


def _start_notes(rollout: RolloutRecord) -> list[str]:
    """Notes on joints that start beyond their limits, where they have stops."""
    step = rollout.step
    notes: list[str] = []
    if not step.model.nv or not rollout.q.size or rollout.time[0] > 0.0:
        return notes
    rigid = any(isinstance(effect, RigidStops) for effect in step.effects)
    law = step.contact if isinstance(step.contact, ComplementarityContact) else None
    if not rigid and not (law and law.limits):
        return notes
    what = "it is put at its stop in the first step"
    if step.loops:
        what = "it is brought back to its stop over some steps, with all that its loops carry"
    if not rigid and law:
        what = f"{law.correction:.0%} of the way back to its stop is taken a step, without speed"
    q = columns(rollout.q[..., 0, :])
    for body in bodies_with_limits(step.model):
        (x,), (lower, upper) = body.joint.displacement(q[body.iq]), body.joint.displacement_limits
        beyond = np.maximum(np.asarray(x) - upper, lower - np.asarray(x))
        if (far := float(np.max(beyond, initial=0.0))) > ROUNDED:
            count = f" in {np.sum(beyond > ROUNDED)} of {beyond.size} rollouts"
            notes.append(
                f"joint {body.joint.name!r} starts {far:.3g} beyond its limit"
                f"{count if beyond.size > 1 else ''}: {what}"
            )
    return notes


Fault = tuple[str, str, np.ndarray]


def _faults(rollout: RolloutRecord) -> Iterator[Fault]:
    """Labels, causes, and where they are true by batch and time; worst labels first."""
    # inputs that are not finite
    for name, x in (("q0", rollout.q), ("v0", rollout.v)):
        yield "nan_input", name, ~np.isfinite(x[..., :1, :]).all(-1)
    step = rollout.step
    if step is not None:
        sampled = len(step.shapes.sampled)
        names = step.input_names[len(step.shapes.carry) : -1]
        cores = [*(1 for _ in range(sampled)), *(len(s) for s in step.shapes.constants)]
        for k, (name, x, core) in enumerate(zip(names, rollout.inputs, cores, strict=True)):
            bad = ~np.isfinite(x)
            if bad.any():
                over = bad.any(tuple(range(bad.ndim - core, bad.ndim)))
                yield "nan_input", name, over if k < sampled else over[..., None]
    # a state without a number after a moderate one, where no other input is bad: the law's torque
    if step is not None and step.feedback and rollout.q.shape[-2] > 1:
        both = np.concatenate([rollout.q, rollout.v], axis=-1)
        size = np.abs(both).max(-1, initial=0.0)
        single = np.isclose(rollout.time[1] - rollout.time[0], rollout.dt)
        lost = (size[..., :-1] < _MODERATE) & np.isnan(size[..., 1:]) & single
        yield "nan_input", f"torque of {type(step.feedback.recorded.law).__name__}", lost
    # states that left all bounds
    q_size, v_size = (np.abs(x).max(-1, initial=0.0) for x in (rollout.q, rollout.v))
    yield "diverged", "", ~(np.maximum(q_size, v_size) <= LARGEST)
    if step is None:
        return
    # iterations that did not converge, and loops that came apart
    if rollout.residuals is not None:
        rounding = ROUNDING * float(np.finfo(rollout.residuals.dtype).eps)
        for k, name in enumerate(step.residual_names):
            most = ITERATION_RESIDUAL if name == step.integrator else FRICTION_RESIDUAL
            most = {LOOPS: LOOP_GAP, DIVISION: PART_ERROR}.get(name, most)
            label = "loop_open" if name == LOOPS else "not_converged"
            # a residual that is no number is a fault too
            yield label, name, ~(rollout.residuals[..., k] <= max(most, rounding))
    yield from _contact_faults(rollout)
    # joints beyond their limits
    q = columns(rollout.q)
    for body in bodies_with_limits(step.model):
        (x,), (lower, upper) = body.joint.displacement(q[body.iq]), body.joint.displacement_limits
        x = np.broadcast_to(x, rollout.q.shape[:-1])
        over = (x > upper + OVER_LIMIT) | (x < lower - OVER_LIMIT)
        yield "limit_violated", body.joint.name, over
    yield from _energy_faults(rollout)


def _contact_faults(rollout: RolloutRecord) -> Iterator[Fault]:
    """Contact that is not solved, and bodies that overlap."""
    step, q = rollout.step, columns(rollout.q)
    if isinstance(step.contact, ComplementarityContact) and rollout.effect_history:
        last, worst = np.moveaxis(rollout.effect_history[-1][..., -2:], -1, 0)
        # a residual between two samples shows where the largest so far has grown
        grown = np.diff(worst, axis=-1, prepend=worst[..., :1]) > 0.0
        yield (
            "not_converged",
            "contact",
            ~(last <= CONTACT_RESIDUAL) | (~(worst <= CONTACT_RESIDUAL) & grown),
        )
    effects, _, contact = step.insert_constants(constants_over_time(rollout))
    for law in (contact, *effects):
        if not isinstance(law, ComplementarityContact | PenaltyContact):
            continue
        # the overlap that it may have: twice its tolerance, more in an impact
        depth: np.ndarray | float = DEPTH
        if isinstance(law, PenaltyContact):
            far = [np.abs(np.log(preset.stiffness / law.stiffness)) for preset in PRESETS.values()]
            tolerances = np.array([preset.tolerance for preset in PRESETS.values()])
            meant = tolerances[np.argmin(far, axis=0)]
            # a spring of stiffness k that stops a kinetic energy T gives √(2 T / k) on the way; T
            # is the largest within half a swing of the robot's mass on the spring
            swing = np.pi * np.sqrt(float(step.model.mass) / np.min(law.stiffness))
            samples = int(np.searchsorted(rollout.time - rollout.time[0], swing, side="right"))
            # running maximum over that window, doubling its length
            T, seen = np.array(energies(rollout)[0]), 1
            while seen < samples:
                back = min(seen, samples - seen)
                T[..., back:] = np.maximum(T[..., back:], T[..., :-back])
                seen += back
            depth = np.maximum(np.maximum(2.0 * meant, DEPTH), np.sqrt(2.0 * T / law.stiffness))
        poses = world_poses(step.model, joint_kinematics(step.model, q)[0])
        for site in find_sites(law.scene, step.model):
            gap = np.broadcast_to(site.find(poses).gap, rollout.q.shape[:-1])
            yield "penetration", " and ".join(site.names), gap < -depth


def _energy_faults(rollout: RolloutRecord) -> Iterator[Fault]:
    """Energy that rises without motors: effects and contact only dissipate or store it."""
    step = rollout.step
    sampled = len(step.shapes.sampled)
    torques, wrenches = slice(step.torque_rows), slice(sampled - len(step.wrenches), sampled)
    given = (*rollout.inputs[torques], *rollout.inputs[wrenches])
    driven = step.feedback or any(x.any() for x in given)
    if driven or len(rollout.time) < _FEWEST or not step.model.nv:
        return
    # energy in states of effects is unknown where it is not recorded, or from before a resume:
    # delayed torques and bent bristles give it back
    stateful = [x for x, n in zip(step.effects, step.state_sizes, strict=False) if n]
    elastic = [isinstance(x, ElasticEffect) for x in stateful]
    unrecorded = any(elastic) and not rollout.effect_history
    if unrecorded or (rollout.time[0] > 0.0 and not all(elastic)):
        return
    T, V = energies(rollout)
    V = V + sum(energy for _, energy in elastic_energies(rollout))
    change = np.abs(V - V[..., :1])
    at_play = T + change + 1e-9 * (T + np.abs(V)) + 1e-12
    # the energy at play in the first steps from rest is tiny, and any error a large share of it
    usual = np.median(at_play, axis=-1, keepdims=True)
    scale = np.maximum(np.maximum.accumulate(at_play, axis=-1), usual)
    # a symplectic step of first order swings about its energy by ½ Δt v·∂V/∂q, without a trend
    swing = np.zeros_like(V)
    if step.contact or find_integrator(step.integrator).semi_implicit:
        share = 0.5 * rollout.dt / float(rollout.time[1] - rollout.time[0])
        swing[..., 1:] = share * np.maximum.accumulate(np.abs(np.diff(V, axis=-1)), axis=-1)
    yield "energy_gain", "", T + V - (T + V)[..., :1] > GAIN * scale + swing


def energies(rollout: RolloutRecord) -> tuple[np.ndarray, np.ndarray]:
    """Kinetic and potential energy by batch and time, with the parameters of the rollout."""
    step, shape = rollout.step, rollout.q.shape[:-1]
    model = step.with_parameters(step.model, constants_over_time(rollout))
    q, v = columns(rollout.q), columns(rollout.v)
    T = np.asarray(kinetic_energy(model, q, v), float)
    V = np.asarray(potential_energy(model, q), float)
    return np.broadcast_to(T, shape), np.broadcast_to(V, shape)


def elastic_energies(rollout: RolloutRecord) -> list[tuple[ElasticEffect, np.ndarray]]:
    """Each effect with springs, and the energy in them by batch and time."""
    step, shape, q = rollout.step, rollout.q.shape[:-1], columns(rollout.q)
    constants = constants_over_time(rollout)
    model = step.with_parameters(step.model, constants)
    found = []
    for k, effect in enumerate(step.insert_constants(constants)[0]):
        if isinstance(effect, ElasticEffect):
            state = columns(rollout.effect_history[k]) if step.state_sizes[k] else []
            energy = np.asarray(effect.elastic_energy(model, q, state), float)
            found.append((effect, np.broadcast_to(energy, shape)))
    return found


def constants_over_time(rollout: RolloutRecord) -> list[Any]:
    """Parameters, gains and array parameters of effects, as lists of arrays by batch and time."""
    shapes = rollout.step.shapes
    first = len(shapes.sampled) + 2
    constants = zip(rollout.inputs[first:], shapes.constants[2:], strict=True)
    return [nested_over_time(x, len(core)) for x, core in constants]


@dataclass(frozen=True)
class Perturbation:
    """Initial states about a given one that name, seed and scale determine bit for bit.

    Each coordinate of the tangent space and of the velocity is moved by at most `scale` (rad, m,
    rad/s, m/s). Member k is the same whatever the number of members.
    """

    name: str
    seed: int = 0
    scale: float = 1e-3

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidArgument("name of a perturbation", self.name, "it is a string")
        seed: Any = self.seed
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise InvalidArgument("seed", seed, "it is a whole number from 0")
        if not isinstance(self.scale, int | float) or not 0.0 <= self.scale < np.inf:
            raise InvalidArgument("scale", self.scale, "it is a number from 0")

    def states(
        self, robot: Robot, q0: ArrayLike, v0: ArrayLike, size: int | Sequence[int] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """States of shape size + (nq,) and size + (nv,) about one state."""
        q, v = np.asarray(q0, float), np.asarray(v0, float)
        for name, x, n in (("q0", q, robot.nq), ("v0", v, robot.nv)):
            if x.shape != (n,):
                raise ShapeMismatch("perturbation", name, f"({n})", x.shape)
        shape = (int(size),) if isinstance(size, int | np.integer) else tuple(size)
        seeds = np.random.SeedSequence([zlib.crc32(self.name.encode()), self.seed])
        raw = np.random.PCG64(seeds).random_raw(int(np.prod(shape)) * 2 * robot.nv)
        # 53 bits each, between −1 and 1
        share = (np.asarray(raw, np.uint64) >> np.uint64(11)).astype(float) * 2.0**-52 - 1.0
        moves = self.scale * share.reshape(*shape, 2, robot.nv)
        model: Model = robot.model
        # by the algorithm itself, so that no compiler matters
        q_moved = integrate(model, list(q), columns(moves[..., 0, :]))
        return stack_scalars(q_moved, shape), v + moves[..., 1, :]
