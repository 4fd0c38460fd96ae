"""Observers: external torques, collisions, payloads, velocities and smooth signals.

An observer is a law around a law: it commands what that one commands, and keeps its estimate in
memory, where traces have it and laws further out may read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import signal

from qddot.control.law import Gain, Law, Memory, Reference, State, gain
from qddot.control.wrappers import Wrapper, require_not_negative
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.robot.robot import Robot

__all__ = [
    "ButterworthForce",
    "CollisionObserver",
    "DisturbanceCompensation",
    "MomentumObserver",
    "PayloadEstimate",
    "TareForce",
    "VelocityFromPositions",
    "estimate_payload",
    "fill_delay",
    "torque_error_bound",
    "wrench_at_frame",
]


@dataclass(frozen=True, eq=False)
class MomentumObserver(Wrapper):
    """External joint torques from generalised momentum (De Luca & Mattone 2003).

    r = K (p − ∫ (τ + Cᵀ v − g + r) dt), p = M v: it follows the external torque as a low-pass
    filter of bandwidth K (1/s), also where samples are rare: a step arrives to 1 − exp(−K t). It
    needs no acceleration, and is kept as "residual" (nv). `coulomb` and `viscous` are the friction
    that is known, taken from the commanded torque. `delay` is the age of a measured state in
    samples (latency × rate, also between whole numbers): a state is paired with the torques that
    moved it there. `control.run` fills it in from its `sensing` where it is not given;
    `longest_delay` follows from it.
    It goes around a `Saturation`, not inside one: it takes its own torque for the one that is sent.
    """

    law: Law
    bandwidth: Gain = gain("nv", default=100.0)
    coulomb: Gain = gain("nv", default=0.0)
    viscous: Gain = gain("nv", default=0.0)
    delay: Gain = gain(default=None)
    longest_delay: int = 0

    prefix: ClassVar[str] = ""
    """Comes before the names in memory: other than that of a law inside which observes too."""

    def __post_init__(self) -> None:
        require_not_negative(self, "delay")
        delay = np.asanyarray(0.0 if self.delay is None else self.delay)
        # while a law is recorded, a delay that is an input is a symbol: the length stays
        if delay.dtype.kind in "iuf":
            longest = math.ceil(np.max(delay, initial=0.0))
            object.__setattr__(self, "longest_delay", longest)

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The residual, the predicted momentum, the last commands, and the number of samples."""
        zero = np.zeros(robot.nv)
        commands = np.zeros((1 + self.longest_delay, robot.nv))
        own = {"residual": zero, "predicted_momentum": zero, "last_commands": commands}
        names = {f"{self.prefix}{name}": x for name, x in own.items()}
        return {**names, f"{self.prefix}samples": 0.0}

    def observe(self, robot: Robot, state: State, memory: Memory) -> dict[str, Any]:
        """Memory with the residual at a sample, from the torques commanded at the one before."""
        q, v, dt, prefix = state.q, state.v, state.dt, self.prefix
        p = robot.momentum(q, v)
        loss = self.coulomb * np.tanh(v / 0.01) + self.viscous * v
        # the torques under which the state came about: between two samples of the commands
        delay = 0.0 if self.delay is None else self.delay
        commands = memory[f"{prefix}last_commands"]
        shares = [np.maximum(0.0, 1.0 - np.abs(delay - k)) for k in range(len(commands))]
        command = sum(share * commands[k] for k, share in enumerate(shares))
        # momentum that the model predicts from the sample before, and its miss
        flow = command - loss + robot.coriolis_transpose_product(q, v) - robot.gravity(q)
        ahead = memory[f"{prefix}predicted_momentum"] + (flow + memory[f"{prefix}residual"]) * dt
        # measurements before the first command tell nothing of its effect
        samples = memory[f"{prefix}samples"]
        predicted = np.where(samples >= delay + 1.0, ahead, p)
        # in discrete time this gain gives the pole exp(−K Δt), as in continuous time, at any rate
        residual = (1.0 - np.exp(-self.bandwidth * dt)) / dt * (p - predicted)
        return {
            f"{prefix}residual": residual,
            f"{prefix}predicted_momentum": predicted,
            f"{prefix}samples": np.minimum(samples + 1.0, delay + 1.0),
        }

    def record_command(self, tau: Any, memory: Memory) -> dict[str, Any]:
        """Memory with the torques that are sent before those of earlier samples."""
        name = f"{self.prefix}last_commands"
        return {name: np.concatenate([np.reshape(tau, (1, -1)), memory[name][:-1]])}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law; the estimate is in memory."""
        tau, kept = self.command_inside(robot, state, reference, memory)
        found = self.observe(robot, state, memory)
        return tau, {**kept, **found, **self.record_command(tau, memory)}


@dataclass(frozen=True, eq=False)
class DisturbanceCompensation(MomentumObserver):
    """A law whose joints answer to its torques as those of the model do (disturbance observer).

    External torques that the measured wrenches do not explain are friction of the joints and errors
    of the model: the residual of a momentum observer less Jᵀ F is taken away from the command, up
    to ± `limit` (N m). Memory has it as "disturbance", and the residual as "disturbance_residual".
    A `MomentumObserver` may go around it, which takes the compensated torque for the one sent.
    """

    prefix: ClassVar[str] = "disturbance_"

    bandwidth: Gain = gain("nv", default=60.0)
    limit: Gain = gain("nv", default=5.0)

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Memory of the momentum observer, and the disturbance."""
        return {**MomentumObserver.own_memory(self, robot), "disturbance": np.zeros(robot.nv)}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law less the disturbance."""
        tau, kept = self.command_inside(robot, state, reference, memory)
        found = self.observe(robot, state, memory)
        rest = found[f"{self.prefix}residual"]
        for frame in self.senses(robot):
            J = robot.frame_jacobian(state.q, frame, "local_world_aligned")
            rest = rest - J.T @ state.wrenches[frame]
        rest = np.clip(rest, -self.limit, self.limit)
        tau = tau - rest
        return tau, {**kept, **found, **self.record_command(tau, memory), "disturbance": rest}


def fill_delay(law: Law, delay: ArrayLike) -> Law:
    """The law, its observers with the `delay` of measurements in samples where none is given."""
    if isinstance(law, Wrapper) and is_dataclass(law):
        changed: dict[str, Any] = {"law": fill_delay(law.law, delay)}
        if isinstance(law, MomentumObserver) and law.delay is None:
            changed["delay"] = delay
        return replace(law, **changed)
    return law


def torque_error_bound(robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, share: Any) -> Any:
    """Largest error (nv) of the model torques when each body's parameters are off by a share.

    The sum over bodies of |Yᵢ πᵢ| · share: all parameters of a body scale together, with its mass.
    `share` is one number, or one a body (nb).
    """
    Y = robot.torque_regressor(q, v, a)
    parameters = np.asarray(robot.inertial_parameters).reshape(-1)
    total = 0.0 * Y[:, 0]
    for k in range(len(parameters) // 10):
        body = Y[:, 10 * k : 10 * k + 10] @ parameters[10 * k : 10 * k + 10]
        each = share if np.ndim(share) == 0 else share[k]
        total = total + np.abs(body) * each
    return total


@dataclass(frozen=True, eq=False)
class CollisionObserver(Wrapper):
    """A momentum observer that says when its residual is more than the model's uncertainty.

    The threshold of a joint is `torque_error_bound` at the state and the commanded acceleration
    (`a_ref`, if the law has it), with `uncertainty` as the share of error of each body, plus a
    `floor` (N m). Memory: "residual", "threshold", "collision" (1 from the first alarm on).
    """

    law: MomentumObserver
    uncertainty: Gain = gain(default=0.05)
    floor: Gain = gain("nv", default=0.3)
    own_labels: ClassVar[Mapping[str, Mapping[int, str]]] = {
        "collision": {0: "no contact", 1: "collision"}
    }

    @property
    def _residuals(self) -> tuple[str, str]:
        """That of a momentum observer inside, or else of the one in a disturbance compensation."""
        return "residual", f"{DisturbanceCompensation.prefix}residual"

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The threshold and the alarm."""
        inside = self.law.memory(robot)
        if not any(name in inside for name in self._residuals):
            wanted = "an observer with a residual, such as MomentumObserver, goes around the law"
            raise InvalidArgument("law", type(self.law).__name__, wanted)
        return {"threshold": np.zeros(robot.nv), "collision": 0.0}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law; the alarm is in memory."""
        tau, kept = self.command_inside(robot, state, reference, memory)
        a = reference["a_ref"] if "a_ref" in self.references(robot) else 0.0 * state.v
        bound = torque_error_bound(robot, state.q, state.v, a, self.uncertainty) + self.floor
        name = next(name for name in self._residuals if name in kept)
        beyond = np.abs(kept[name]) > bound
        alarm = memory["collision"]
        for k in range(robot.nv):
            alarm = np.where(beyond[k], 1.0, alarm)
        return tau, {**kept, "threshold": bound, "collision": alarm}


def wrench_at_frame(
    robot: Robot,
    q: ArrayLike,
    residual: ArrayLike,
    frame: str,
    forces_only: bool = False,
    uncertainty: ArrayLike | None = None,
) -> np.ndarray:
    """Wrench (6) on the robot at a frame that explains external torques best (least squares).

    For single states or batches; [f; n], "local_world_aligned". With `forces_only` the moment is
    taken as zero: a push at the frame. `uncertainty` (N m) of each joint's residual makes those of
    heavy links count less, as the `threshold` of a CollisionObserver.
    """
    J = robot.frame_jacobian(q, frame, "local_world_aligned")
    rows = np.swapaxes(J[..., :3, :] if forces_only else J, -1, -2)
    torque = np.asarray(residual, float)[..., None]
    if uncertainty is not None:
        spread = np.asarray(uncertainty, float)[..., None]
        rows, torque = rows / spread, torque / spread
    found = (np.linalg.pinv(rows) @ torque)[..., 0]
    return np.concatenate([found, np.zeros((*found.shape[:-1], 6 - found.shape[-1]))], axis=-1)


@dataclass(frozen=True, eq=False)
class TareForce(Wrapper):
    """Passes a law measured wrenches less their mean of the first `time` seconds.

    The tool must be free then: what the sensor shows is its bias and the error of the load's model.
    """

    law: Law
    time: Gain = gain(default=0.2)

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The mean of each wrench, and the time over which it was taken."""
        return {**{f"tare {frame}": np.zeros(6) for frame in self.senses(robot)}, "tare_time": 0.0}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law at the tared wrenches."""
        time = memory["tare_time"] + state.dt
        takes = time <= self.time + 0.5 * state.dt
        wrenches, means = {}, {}
        for frame in self.senses(robot):
            mean, x = memory[f"tare {frame}"], state.wrenches[frame]
            mean = np.where(takes, mean + (x - mean) * (state.dt / time), mean)
            wrenches[frame], means[f"tare {frame}"] = x - mean, mean
        seen = State(state.q, state.v, state.dt, state.time, wrenches)
        tau, kept = self.command_inside(robot, seen, reference, memory)
        return tau, {**kept, **means, "tare_time": time}


@dataclass(frozen=True, repr=False)
class PayloadEstimate(Readable):
    """A load at a frame: mass (kg), centre of mass (m, in the frame), and how well it explains."""

    mass: float
    com: np.ndarray
    residual: float


def estimate_payload(robot: Robot, q: ArrayLike, torque: ArrayLike, frame: str) -> PayloadEstimate:
    """Load at a frame from torques (n, nv) that hold the robot still at poses q (n, nq).

    The torque beyond gravity is linear in mass and first moment (least squares).
    Poses must differ in orientation, or the centre of mass is not determined.
    """
    q, torque = np.atleast_2d(np.asarray(q, float)), np.atleast_2d(np.asarray(torque, float))
    if torque.shape != (len(q), robot.nv):
        raise ShapeMismatch("estimate_payload", "torque", f"({len(q)}, {robot.nv})", torque.shape)
    excess = torque - robot.gravity(q)
    X, J = robot.frame_pose(q, frame), robot.frame_jacobian(q, frame, "local_world_aligned")
    pull = np.array([*robot.model.gravity], float)
    # wrench of the load at the frame: [m g; R c m × g]
    columns = [np.concatenate([np.broadcast_to(pull, (len(q), 3)), np.zeros((len(q), 3))], axis=1)]
    for k in range(3):
        moment = np.cross(X[:, :3, k], pull)
        columns.append(np.concatenate([np.zeros((len(q), 3)), moment], axis=1))
    A = np.stack([-np.einsum("nij,ni->nj", J, w).ravel() for w in columns], axis=1)
    found, _, rank, _ = np.linalg.lstsq(A, excess.ravel(), rcond=1e-9)
    if rank < 4:
        accepted = "poses that turn the load in different ways determine its centre of mass"
        raise InvalidArgument("q", q.shape, accepted)
    left = excess.ravel() - A @ found
    com = found[1:] / found[0] if abs(found[0]) > 1e-9 else np.zeros(3)
    return PayloadEstimate(float(found[0]), com, float(np.sqrt(np.mean(left**2))))


@dataclass(frozen=True, eq=False)
class VelocityFromPositions(Wrapper):
    """Passes a law velocities from measured positions, smoothed below `cutoff` (rad/s).

    v̂ ← v̂ + (Δq/Δt − v̂) Δt/(Δt + 1/cutoff); the first sample takes the measured velocity.
    """

    law: Law
    cutoff: Gain = gain(default=500.0)

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The last configuration, the velocity, and whether there was a sample before."""
        return {
            "last_position": robot.neutral(),
            "estimated_velocity": np.zeros(robot.nv),
            "velocity_initialised": 0.0,
        }

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law at the estimated velocity."""
        initialised, last = memory["velocity_initialised"], memory["estimated_velocity"]
        change = robot.difference(memory["last_position"], state.q) / state.dt
        share = state.dt / (state.dt + 1.0 / self.cutoff)
        v = np.where(initialised > 0.5, last + (change - last) * share, state.v)
        seen = State(state.q, v, state.dt, state.time, state.wrenches)
        tau, kept = self.command_inside(robot, seen, reference, memory)
        own = {"last_position": state.q, "estimated_velocity": v}
        return tau, {**kept, **own, "velocity_initialised": initialised * 0.0 + 1.0}


@dataclass(frozen=True, eq=False)
class ButterworthForce(Wrapper):
    """Passes a law measured wrenches through a Butterworth low-pass filter.

    `cutoff` is in rad/s, `order` 1 or more; the filter is made for samples of `period` seconds
    (bilinear transform), as second-order sections in transposed direct form II. It starts at the
    first measurement, as if that had always been there.
    """

    law: Law
    cutoff: float = 600.0
    period: float = 1e-3
    order: int = 2

    def __post_init__(self) -> None:
        if not 0.0 < self.period < math.inf or self.order < 1:
            found = (self.period, self.order)
            raise InvalidArgument("period, order", found, "a time above 0, a whole number from 1")
        if not 0.0 < self.cutoff < math.pi / self.period:
            most = math.pi / self.period
            raise InvalidArgument(
                "cutoff", self.cutoff, f"it is above 0 and below {most:.4g} rad/s"
            )

    def own_memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Two numbers for each section, frame and component."""
        sections = len(self._sections())
        own: dict[str, Any] = {
            f"filter {f}": np.zeros((sections, 2, 6)) for f in self.senses(robot)
        }
        return {**own, "filter_initialised": 0.0}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the inner law at the filtered wrenches."""
        wrenches, kept = {}, {}
        initialised = memory["filter_initialised"]
        for frame in self.senses(robot):
            x, rows = state.wrenches[frame], []
            for k, (b, a) in enumerate(self._sections()):
                z = memory[f"filter {frame}"][k]
                # at rest under x the output is x (gain 1): z₂ = (b₂ − a₂) x, z₁ = z₂ + (b₁ − a₁) x
                rest2 = (b[2] - a[2]) * x
                z1 = np.where(initialised > 0.5, z[0], rest2 + (b[1] - a[1]) * x)
                z2 = np.where(initialised > 0.5, z[1], rest2)
                y = b[0] * x + z1
                rows.append(np.stack([b[1] * x - a[1] * y + z2, b[2] * x - a[2] * y]))
                x = y
            wrenches[frame], kept[f"filter {frame}"] = x, np.stack(rows)
        seen = State(state.q, state.v, state.dt, state.time, wrenches)
        tau, inner = self.command_inside(robot, seen, reference, memory)
        return tau, {
            **inner,
            **kept,
            "filter_initialised": initialised * 0.0 + 1.0,
        }

    def _sections(self) -> Sequence[tuple[list[float], list[float]]]:
        """Second-order sections (b, a), each of gain 1 at rest."""
        rows = signal.butter(self.order, self.cutoff, fs=2.0 * math.pi / self.period, output="sos")
        found = []
        for row in rows:
            size = row[3:].sum() / row[:3].sum()
            found.append(((row[:3] * size).tolist(), row[3:].tolist()))
        return found
