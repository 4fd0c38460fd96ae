"""Status: what went wrong in a rollout, when first and where, and what to do about it.

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
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.gaps import find_sites
from qddot.simulate.contact.penalty import PRESETS, PenaltyContact, PenaltyStops
from qddot.simulate.layout import columns, over_time, stacked
from qddot.simulate.plant import Storing

__all__ = [
    "LABELS",
    "Flight",
    "Perturbation",
    "Status",
    "Verdict",
    "constants_over_time",
    "energies",
    "judge",
    "springs",
]

LARGEST = 1e8
"""What is larger (m, rad, m/s, rad/s) has diverged: a double has no micrometres left there."""
OVER_LIMIT = 1e-3
"""How far (rad, m) a joint may pass its limits."""
MISS = 1e-2
"""The miss of Coulomb's law (m/s) above which contact is not solved."""
SLIP = 1e-3
"""The miss of the law of friction and stops that hold (rad/s, m/s) above which it is not solved."""
UNSETTLED = 1e-6
"""The share of the velocities that the last iteration of an implicit step may change."""
ROUNDING = 1e3
"""How many units of rounding that share may always be."""
DEPTH = 1e-3
"""How deep (m) bodies may always overlap; springs may give twice what they are meant to."""
GAIN = 0.1
"""The gain of energy, by the largest kinetic energy and change of potential energy so far.

Judged from ten samples on, in motions without motors.
"""

LABELS = {
    "ok": "nothing to do",
    "nan_input": "an input is NaN or infinite: look for its source, or leave that rollout out",
    "diverged": "the state left all bounds: take a shorter step, an integrator of higher order, "
    "or implicit_damping where damping or contact is stiff; look for huge inputs and tiny masses",
    "not_converged": "an iteration within the step ended early: take a shorter step; for contact "
    "also more sweeps, or contact by penalty",
    "penetration": "bodies overlap: start apart, stiffer contact with a shorter step, or contact "
    "by complementarity",
    "limit_violated": "a joint passed its limit: add stops, hold it by torques or feedback, or "
    "correct the limit",
    "energy_gain": "energy appears from nowhere, and the motion will diverge: take rk4, an "
    "implicit or a variational integrator, or a shorter step",
}
"""Labels of a status, worst first after ok, each with its remedy."""
_FEWEST = 10
_FATAL = ("nan_input", "diverged")
_CODES = {label: k for k, label in enumerate(LABELS)}


class Flight(Protocol):
    """What is judged: a rollout."""

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
    def plan(self) -> Any:
        """What a step consists of."""

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """Torques, references, constants."""

    @property
    def misses(self) -> np.ndarray | None:
        """By how much each iteration of the steps was missed, the most up to each sample."""

    @property
    def history(self) -> tuple[np.ndarray, ...]:
        """Memories at each sample."""


@dataclass(frozen=True)
class Verdict:
    """One rollout: its label, first bad step and its time (None if ok), what did it, a remedy."""

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


@dataclass(frozen=True, eq=False)
class Status:
    """Labels of a batch of rollouts, with the first bad step of each.

    `code` counts in LABELS; `step` is −1 where all is well. The label is that of the first bad
    step; but a rollout that ends in numbers without meaning is nan_input or diverged, whatever came
    before. Steps are found among the samples that are kept, exactly where every step is kept.
    """

    code: np.ndarray
    step: np.ndarray
    subject: np.ndarray
    subjects: tuple[str, ...]
    dt: float

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
        """How many rollouts have which label, of those that occur."""
        found = np.bincount(self.code.ravel(), minlength=len(LABELS))
        return {label: int(n) for label, n in zip(LABELS, found, strict=True) if n}

    def of(self, index: Any = ()) -> Verdict:
        """The verdict on one rollout of the batch."""
        label, step = tuple(LABELS)[int(self.code[index])], int(self.step[index])
        if step < 0:
            return Verdict(label, None, None, "", LABELS[label])
        cause = self.subjects[int(self.subject[index])]
        return Verdict(label, step, step * self.dt, cause, LABELS[label])

    @property
    def first(self) -> tuple[tuple[int, ...], Verdict]:
        """The rollout that went wrong earliest, and its verdict; any one if all are well."""
        if not self.code.size:
            return (), Verdict("ok", None, None, "", LABELS["ok"])
        steps = np.where(self.step < 0, np.iinfo(np.int64).max, self.step)
        index = tuple(int(k) for k in np.unravel_index(int(np.argmin(steps)), steps.shape))
        return index, self.of(index)

    def __str__(self) -> str:
        if not self.code.ndim:
            return str(self.of())
        counts = ", ".join(f"{n} {label}" for label, n in self.counts.items())
        index, verdict = self.first
        return f"{counts}" if self.ok else f"{counts}; first rollout {index}: {verdict}"


def judge(found: Flight) -> Status:
    """The status of a rollout."""
    samples = len(found.time)
    batch = found.q.shape[:-2]
    code, subject = np.zeros(batch, np.uint8), np.zeros(batch, np.int32)
    first = np.full(batch, samples, np.int64)
    subjects = [""]
    with np.errstate(all="ignore"):
        for label, what, bad in _faults(found):
            at = np.where(bad.any(-1), bad.argmax(-1), samples)
            lost = (code > 0) & (code <= _CODES[_FATAL[-1]])
            earlier = (at < first) & ~(lost & (label not in _FATAL))
            if not earlier.any():
                continue
            subjects.append(what)
            first = np.where(earlier, at, first)
            code[earlier], subject[earlier] = _CODES[label], len(subjects) - 1
    steps = np.append(np.rint(found.time / found.dt), -1).astype(np.int64)
    return Status(code, steps[first], subject, tuple(subjects), found.dt)


Fault = tuple[str, str, np.ndarray]


def _faults(found: Flight) -> Iterator[Fault]:
    """Labels, causes, and where they are true by batch and time; worst labels first."""
    yield from _bad_inputs(found)
    size = np.maximum(np.abs(found.q).max(-1, initial=0.0), np.abs(found.v).max(-1, initial=0.0))
    yield "diverged", "", ~(size <= LARGEST)
    if found.plan is not None:
        yield from _unsettled(found)
        yield from _contact_faults(found)
        yield from _limits(found)
        yield from _gain(found)


def _bad_inputs(found: Flight) -> Iterator[Fault]:
    """Inputs that are no finite numbers."""
    for name, x in (("q0", found.q), ("v0", found.v)):
        yield "nan_input", name, ~np.isfinite(x[..., :1, :]).all(-1)
    if found.plan is None:
        return
    shapes = found.plan.shapes
    names = found.plan.names[len(shapes.carry) : -1]
    cores = [*(1 for _ in shapes.sampled), *(len(s) for s in shapes.constants)]
    for k, (name, x, core) in enumerate(zip(names, found.inputs, cores, strict=True)):
        bad = ~np.isfinite(x)
        if bad.any():
            axes = tuple(range(bad.ndim - core, bad.ndim))
            over = bad.any(axes)
            yield "nan_input", name, over if k < len(shapes.sampled) else over[..., None]


def _unsettled(found: Flight) -> Iterator[Fault]:
    """Iterations of the steps that ended too early."""
    if found.misses is None:
        return
    rounding = ROUNDING * float(np.finfo(found.misses.dtype).eps)
    for k, name in enumerate(found.plan.iterations):
        most = UNSETTLED if name == found.plan.integrator else SLIP
        yield "not_converged", name, found.misses[..., k] > max(most, rounding)


def _contact_faults(found: Flight) -> Iterator[Fault]:
    """Contact that is not solved, and bodies that overlap."""
    plan, q = found.plan, columns(found.q)
    if isinstance(plan.contact, ComplementarityContact) and found.history:
        last, worst = np.moveaxis(found.history[-1][..., -2:], -1, 0)
        # a miss between two samples shows where the worst so far has grown
        grown = np.diff(worst, axis=-1, prepend=worst[..., :1]) > 0.0
        yield "not_converged", "contact", ~(last <= MISS) | (~(worst <= MISS) & grown)
    effects, _, contact = plan.filled(constants_over_time(found))
    for law in (contact, *effects):
        if not isinstance(law, ComplementarityContact | PenaltyContact):
            continue
        poses = world_poses(plan.model, joint_kinematics(plan.model, q)[0])
        for site in find_sites(law.scene, plan.model):
            gap = np.broadcast_to(site.find(poses).gap, found.q.shape[:-1])
            yield "penetration", " and ".join(site.names), gap < -_depth(law, found)


def _depth(law: ComplementarityContact | PenaltyContact, found: Flight) -> np.ndarray | float:
    """How deep a contact may be: twice what its kind is meant to give, more in an impact.

    A spring of stiffness k that stops a kinetic energy T gives √(2 T / k) on the way; T is the
    largest within half a swing of the robot's mass on the spring.
    """
    if isinstance(law, ComplementarityContact):
        return DEPTH
    far = [np.abs(np.log(preset.stiffness / law.stiffness)) for preset in PRESETS.values()]
    meant = np.array([preset.tolerance for preset in PRESETS.values()])[np.argmin(far, axis=0)]
    swing = np.pi * np.sqrt(float(found.plan.model.mass) / np.min(law.stiffness))
    samples = int(np.searchsorted(found.time - found.time[0], swing, side="right"))
    T, seen = np.array(energies(found)[0]), 1
    while seen < samples:
        back = min(seen, samples - seen)
        T[..., back:] = np.maximum(T[..., back:], T[..., :-back])
        seen += back
    return np.maximum(np.maximum(2.0 * meant, DEPTH), np.sqrt(2.0 * T / law.stiffness))


def _limits(found: Flight) -> Iterator[Fault]:
    """Joints beyond their limits."""
    q = columns(found.q)
    for body in found.plan.model.bodies:
        limits = body.joint.limits
        if body.joint.kind.nv == 1 and np.isfinite([limits.lower, limits.upper]).any():
            (x,) = body.joint.displacement(q[body.iq])
            x = np.broadcast_to(x, found.q.shape[:-1])
            over = (x > limits.upper + OVER_LIMIT) | (x < limits.lower - OVER_LIMIT)
            yield "limit_violated", body.joint.name, over


def _gain(found: Flight) -> Iterator[Fault]:
    """Energy that rises where no motor works: effects and contact take it or keep it in springs."""
    plan = found.plan
    few = len(found.time) < _FEWEST
    if (
        few
        or plan.feedback
        or not plan.model.nv
        or any(x.any() for x in found.inputs[: plan.torque_rows])
    ):
        return
    if _hides_energy(found):
        return
    T, V = energies(found)
    V = V + sum(springs(found))
    change = np.abs(V - V[..., :1])
    at_play = T + change + 1e-9 * (T + np.abs(V)) + 1e-12
    # what is at play in the first steps from rest is next to nothing, and any error a share of it
    usual = np.median(at_play, axis=-1, keepdims=True)
    scale = np.maximum(np.maximum.accumulate(at_play, axis=-1), usual)
    yield "energy_gain", "", T + V - (T + V)[..., :1] > GAIN * scale


def _hides_energy(found: Flight) -> bool:
    """Whether memories hold energy that is not seen: springs without a record, or from before.

    Torques that are under way and bristles that are bent when a rollout goes on give it back.
    """
    keepers = [x for x, n in zip(found.plan.effects, found.plan.kept, strict=False) if n]
    if any(isinstance(x, Storing) for x in keepers) and not found.history:
        return True
    return found.time[0] > 0.0 and not all(isinstance(x, Storing) for x in keepers)


def energies(found: Flight) -> tuple[np.ndarray, np.ndarray]:
    """Kinetic and potential energy by batch and time, with the inertias that were used."""
    plan, shape = found.plan, found.q.shape[:-1]
    model = plan.with_parameters(plan.model, constants_over_time(found))
    q, v = columns(found.q), columns(found.v)
    found_by = kinetic_energy(model, q, v), potential_energy(model, q)
    T, V = (np.broadcast_to(np.asarray(x, float), shape) for x in found_by)
    return T, V


def springs(found: Flight) -> tuple[np.ndarray, np.ndarray]:
    """Energy in the springs of joints, and in those of contact and stops, by batch and time."""
    plan, shape, q = found.plan, found.q.shape[:-1], columns(found.q)
    constants = constants_over_time(found)
    model = plan.with_parameters(plan.model, constants)
    joints, contact = np.zeros(shape), np.zeros(shape)
    for k, effect in enumerate(plan.filled(constants)[0]):
        if isinstance(effect, Storing):
            energy = effect.stored(model, q, columns(found.history[k]) if plan.kept[k] else [])
            if isinstance(effect, PenaltyContact | PenaltyStops):
                contact = contact + energy
            else:
                joints = joints + energy
    return joints, contact


def constants_over_time(found: Flight) -> list[Any]:
    """Parameters, gains and figures of a rollout as lists of arrays by batch and time."""
    shapes = found.plan.shapes
    first = len(shapes.sampled) + 2
    given = zip(found.inputs[first:], shapes.constants[2:], strict=True)
    return [over_time(x, len(core)) for x, core in given]


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
        return _moved(model, q, moves[..., 0, :]), v + moves[..., 1, :]


def _moved(model: Model, q: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Configurations after displacements, by the text itself, so that no compiler matters."""
    return stacked(integrate(model, list(q), columns(d)), d.shape[:-1])
