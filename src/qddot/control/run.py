"""A law run on a plant: rates, latency, sensing, events, and the trace that is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.law import Law, State, evaluate_law, validate_law
from qddot.control.plants import Plant, require_same_joints
from qddot.errors import DescriptionError, InvalidArgument, ShapeMismatch, UnknownArgument
from qddot.files import fill_whole
from qddot.plotting import PALETTE, new_figure, save_figure
from qddot.robot.robot import Robot, Wrench

__all__ = ["Event", "Sensing", "Trace", "load_trace", "run"]

References = Mapping[str, ArrayLike] | Callable[[float], Mapping[str, ArrayLike]]
Pushes = Sequence[Wrench] | Callable[[float], Sequence[Wrench]]


@dataclass(frozen=True, eq=False)
class Sensing:
    """Between plant and law: latency (s), and bias and noise (N) of measured forces.

    Each may be an array with one entry for each state of a batch. Positions and velocities arrive
    as late as forces do. The same seed gives the same noise.
    """

    latency: ArrayLike = 0.0
    force_bias: ArrayLike = 0.0
    force_noise: ArrayLike = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Event:
    """Something that happened in a run: when, and in words."""

    time: float
    label: str


@dataclass(frozen=True, eq=False)
class Trace:
    """A run, by batch, sample and coordinate: states at the start of each control period.

    `tau` are the torques commanded there, `wrenches` the true contact wrenches of the step before,
    `memory` what the law kept after the sample. `events` are of single runs.
    """

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    dt: float
    law: str
    plant: str
    joints: tuple[str, ...] = ()
    wrenches: Mapping[str, np.ndarray] = field(default_factory=dict)
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)
    events: tuple[Event, ...] = ()

    def save(self, file: str | Path) -> None:
        """Write the trace as a NumPy archive (.npz); the file appears whole."""
        target = Path(file)
        if target.suffix != ".npz":
            raise InvalidArgument("file", str(file), "its name ends in .npz")
        arrays = {name: getattr(self, name) for name in ("time", "q", "v", "tau")}
        arrays |= {f"wrench {name}": x for name, x in self.wrenches.items()}
        arrays |= {f"memory {name}": x for name, x in self.memory.items()}
        facts = [repr(self.dt), self.law, self.plant, *self.joints]
        times = np.array([e.time for e in self.events])
        labels = np.array([e.label for e in self.events], dtype=str)

        def fill(draft: Path) -> None:
            with draft.open("wb") as stream:
                np.savez_compressed(
                    stream, facts=np.array(facts), event_times=times, events=labels, **arrays
                )

        fill_whole(target, fill, force=True)

    def plot(self, file: str | Path) -> None:
        """Draw joints, torques and contact forces over time, for one run."""
        if self.q.ndim != 2:
            raise InvalidArgument("trace", self.q.shape, "a plot shows one run, not a batch")
        parts = [("q", "rad", self.q, self.joints), ("torque", "N m", self.tau, self.joints)]
        parts += [
            (f"force at {name}", "N", x[:, :3], ("x", "y", "z"))
            for name, x in self.wrenches.items()
        ]
        figure = new_figure(8.0, 2.3 * len(parts))
        axes = np.atleast_1d(figure.subplots(len(parts), sharex=True))
        for ax, (title, unit, values, names) in zip(axes, parts, strict=True):
            for k, column in enumerate(values.T):
                label = names[k] if k < len(names) else str(k)
                ax.plot(self.time, column, color=PALETTE[k % len(PALETTE)], lw=1.2, label=label)
            for event in self.events:
                ax.axvline(event.time, color="0.6", lw=0.8, ls=":")
            ax.set_ylabel(f"{title} ({unit})")
            ax.legend(fontsize=7, ncols=2, loc="upper right")
            ax.grid(alpha=0.3)
        axes[0].set_title(f"{self.law} on the plant {self.plant!r}")
        axes[-1].set_xlabel("time (s)")
        save_figure(figure, Path(file))


def load_trace(file: str | Path) -> Trace:
    """A trace that `Trace.save` wrote."""
    try:
        with np.load(Path(file), allow_pickle=False) as archive:
            data = {name: archive[name] for name in archive.files}
        dt, law, plant, *joints = (str(x) for x in data.pop("facts"))
        times, labels = data.pop("event_times"), data.pop("events")
        events = tuple(Event(float(t), str(x)) for t, x in zip(times, labels, strict=True))
        named: dict[str, dict[str, np.ndarray]] = {"wrench": {}, "memory": {}}
        for name in [n for n in data if " " in n]:
            kind, key = name.split(" ", 1)
            named[kind][key] = data.pop(name)
        return Trace(
            **data,
            dt=float(dt),
            law=law,
            plant=plant,
            joints=tuple(joints),
            wrenches=named["wrench"],
            memory=named["memory"],
            events=events,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DescriptionError(str(file), f"it is no trace of qddot: {error}") from error


def run(
    plant: Plant,
    law: Law,
    reference: References | None = None,
    *,
    duration: float,
    robot: Robot | None = None,
    rate: ArrayLike | None = None,
    sensing: Sensing | None = None,
    pushes: Pushes = (),
    evaluate: Callable[..., Any] | None = None,
    on_step: Callable[[str, int, int], None] | None = None,
) -> Trace:
    """Run a law on a plant from the plant's present state, for `duration` seconds.

    `reference` is a mapping of names to values, or a function of time that gives one. `robot` is
    the model that the law uses, that of the plant unless given. `rate` (Hz) is that of the law,
    one a step of the plant unless given; between samples torques are held. Rates and latencies may
    be arrays over a batch. `pushes` are external wrenches, or a function of time; sensors feel
    those at their own frame. `evaluate` takes
    the place of the law's own text, with the same arguments and results (a compiled law).
    """
    model = robot or plant.robot
    require_same_joints(model, plant.robot, "the plant")
    validate_law(model, law)
    sensing, steps = sensing or Sensing(), _step_count(duration, plant.dt)
    follow = _reference_function(law, model, reference)
    frames, batch = law.senses(model), plant.q.shape[:-1]
    compute = evaluate or _evaluator(model, law, batch)
    periods = _control_periods(rate, plant.dt)
    delays = np.round(np.asarray(sensing.latency, float) / plant.dt).astype(int)
    lockstep = not periods.ndim and not delays.ndim
    noise = np.random.default_rng(sensing.seed)
    memory = {
        name: np.broadcast_to(np.asarray(x, float), (*batch, *np.shape(x)))
        for name, x in law.memory(model).items()
    }
    tau, dt = np.zeros((*batch, model.nv)), periods * plant.dt
    line: list[tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], float]] = []
    kept: dict[str, list[Any]] = {"time": [], "q": [], "v": [], "tau": []}
    felt: dict[str, list[Any]] = {name: [] for name in frames}
    remembered: dict[str, list[Any]] = {name: [] for name in memory}
    for k in range(steps):
        time = k * plant.dt
        # measure, and send the measurement on its way
        push = pushes(time) if callable(pushes) else pushes
        truth = {name: plant.wrench(name) + _pushed(plant, name, push) for name in frames}
        measured = {name: _disturb(x, sensing, noise) for name, x in truth.items()}
        line.append((plant.q, plant.v, measured, time))
        del line[: -1 - int(delays.max())]
        sampled = k % periods == 0
        if np.any(sampled):
            q, v, wrenches, seen = _arrived(line, delays)
            state = State(q, v, dt if dt.ndim else float(dt), seen, wrenches)
            command, new = compute(model, law, state, follow(time), memory)
            if lockstep:
                tau, memory = command, new
            else:
                tau = np.where(sampled[..., None], command, tau)
                memory = {n: _choose(sampled, new[n], x) for n, x in memory.items()}
            kept["time"].append(time)
            for name, x in (("q", plant.q), ("v", plant.v), ("tau", tau)):
                kept[name].append(x)
            for name in frames:
                felt[name].append(truth[name])
            for name, x in memory.items():
                remembered[name].append(x)
        plant.step(tau, push)
        if on_step and k % 200 == 0:
            on_step(f"{type(law).__name__} on {plant.name}", k, steps)
    over_time = {name: np.stack(x, axis=len(batch)) for name, x in kept.items() if name != "time"}
    gathered = {name: np.stack(x, axis=len(batch)) for name, x in remembered.items()}
    times = np.array(kept["time"])
    return Trace(
        time=times,
        **over_time,
        dt=float(np.min(periods)) * plant.dt,
        law=type(law).__name__,
        plant=plant.name,
        joints=model.joint_names,
        wrenches={name: np.stack(x, axis=len(batch)) for name, x in felt.items()},
        memory=gathered,
        events=() if batch else _find_events(law, times, gathered),
    )


def _step_count(duration: float, dt: float) -> int:
    if not isinstance(duration, int | float) or not dt <= duration < 1e6:
        raise InvalidArgument("duration", duration, f"it is a time in s, {dt:g} or more")
    return round(duration / dt)


def _control_periods(rate: ArrayLike | None, dt: float) -> np.ndarray:
    """Steps of the plant from sample to sample."""
    if rate is None:
        return np.asarray(1)
    given = np.asarray(rate, float)
    steps = 1.0 / (np.where(given > 0.0, given, np.nan) * dt)
    if not np.all(np.abs(steps - np.round(steps)) < 1e-6 * steps) or not np.all(steps > 0.5):
        accepted = f"each sample takes a whole number of steps: {1.0 / dt:g} Hz over 1, 2, 3 …"
        raise InvalidArgument("rate", rate, accepted)
    return np.round(steps).astype(int)


def _reference_function(
    law: Law, robot: Robot, given: References | None
) -> Callable[[float], dict[str, np.ndarray]]:
    """References at a time, checked against what the law reads."""
    shapes = law.references(robot)

    def checked(values: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        name = type(law).__name__
        more = [key for key in values if key not in shapes]
        if more:
            raise UnknownArgument(f"reference of {name}", more, shapes)
        missing = [key for key in shapes if key not in values]
        if missing:
            raise InvalidArgument(f"reference of {name}", sorted(values), f"it needs {missing} too")
        result = {}
        for key, shape in shapes.items():
            x = np.asarray(values[key], float)
            if x.shape[max(0, x.ndim - len(shape)) :] != shape:
                raise ShapeMismatch(f"reference of {name}", key, str(shape), x.shape)
            if not np.isfinite(x).all():
                raise InvalidArgument(f"reference {key!r}", x, "it needs finite numbers")
            result[key] = x
        return result

    if callable(given):
        return lambda t: checked(given(t))
    constant = checked(given or {})
    return lambda t: constant


def _evaluator(robot: Robot, law: Law, batch: tuple[int, ...]) -> Callable[..., Any]:
    """The text of a law on one state, or on the states of a batch one after another."""

    def single(_: Robot, law: Law, state: State, reference: Any, memory: Any) -> tuple[Any, Any]:
        tau, kept = evaluate_law(robot, law, state, reference, memory)
        if not np.isfinite(tau).all():
            accepted = f"{type(law).__name__} returns finite torques; q = {state.q}, v = {state.v}"
            raise InvalidArgument("torque", tau, accepted)
        return tau, kept

    def each(_: Robot, law: Law, state: State, reference: Any, memory: Any) -> tuple[Any, Any]:
        shapes = law.references(robot)
        rows = [
            single(
                robot,
                law,
                State(
                    state.q[i],
                    state.v[i],
                    np.broadcast_to(state.dt, batch)[i],
                    np.broadcast_to(state.time, batch)[i],
                    {n: x[i] for n, x in state.wrenches.items()},
                ),
                {n: np.broadcast_to(x, (*batch, *shapes[n]))[i] for n, x in reference.items()},
                {n: x[i] for n, x in memory.items()},
            )
            for i in np.ndindex(batch)
        ]
        tau = np.reshape([t for t, _ in rows], (*batch, robot.nv))
        kept = {n: np.reshape([m[n] for _, m in rows], np.shape(x)) for n, x in memory.items()}
        return tau, kept

    return each if batch else single


def _pushed(plant: Plant, frame: str, pushes: Sequence[Wrench]) -> Any:
    """External wrench at a frame, as a sensor there has it beside that of contact."""
    here = [x for x in pushes if x.frame == frame]
    for x in here:
        if x.reference != "local_world_aligned":
            accepted = f"pushes at the sensed frame {frame!r} are 'local_world_aligned'"
            raise InvalidArgument("pushes", x.reference, accepted)
    return sum((np.asarray(x.value, float) for x in here), np.zeros(6))


def _disturb(wrench: np.ndarray, sensing: Sensing, noise: np.random.Generator) -> np.ndarray:
    """A measured wrench: bias on each force, and noise."""
    bias, spread = (np.asarray(x, float) for x in (sensing.force_bias, sensing.force_noise))
    if not bias.any() and not spread.any():
        return wrench
    off = (x[..., None] if x.ndim else x for x in (bias, spread))
    level, width = off
    force = wrench[..., :3] + level + width * noise.standard_normal((*wrench.shape[:-1], 3))
    return np.concatenate([force, wrench[..., 3:]], axis=-1)


def _arrived(line: Sequence[Any], delays: np.ndarray) -> tuple[Any, Any, dict[str, Any], Any]:
    """The measurement that reaches the law, by the delay of each state of a batch."""
    if not delays.ndim:
        return line[max(0, len(line) - 1 - int(delays))]
    place = np.maximum(0, len(line) - 1 - delays)
    pick = tuple(np.indices(place.shape))

    def chosen(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(parts)[(place, *pick)]

    q, v = (chosen([x[i] for x in line]) for i in (0, 1))
    wrenches = {name: chosen([x[2][name] for x in line]) for name in line[0][2]}
    return q, v, wrenches, np.array([x[3] for x in line])[place]


def _choose(mask: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """New numbers where a state of the batch was sampled."""
    return np.where(mask.reshape(mask.shape + (1,) * (np.ndim(old) - mask.ndim)), new, old)


def _find_events(law: Any, time: np.ndarray, memory: Mapping[str, np.ndarray]) -> tuple[Event, ...]:
    """Changes of the numbers of memory that a law has labels for."""
    events = []
    for name, labels in getattr(law, "labels", {}).items():
        codes = np.round(memory[name]).astype(int)
        changes = np.flatnonzero(np.diff(codes, prepend=codes[:1])) if len(codes) else ()
        events += [Event(float(time[k]), labels[codes[k]]) for k in changes]
    return tuple(sorted(events, key=lambda e: e.time))
