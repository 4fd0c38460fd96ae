"""A law run on a plant: rates, latency, sensing, events, and the trace that is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.compiled import CompiledLaw, compile_law
from qddot.control.law import Law, State, evaluate_law, validate_law
from qddot.control.observers import fill_delay
from qddot.control.plants import Plant, require_same_joints
from qddot.control.trace import Event, Trace
from qddot.display.progress import OnStep
from qddot.errors import (
    InvalidArgument,
    ShapeMismatch,
    UnknownArgument,
    UnknownName,
    refuse_endless_recursion,
)
from qddot.robot.robot import Robot, Wrench

__all__ = ["Sensing", "run"]

References = Mapping[str, ArrayLike] | Callable[[float], Mapping[str, ArrayLike]]
Pushes = Sequence[Wrench] | Callable[[float], Sequence[Wrench]]
_FINITE = "a law returns finite torques; a SafetyShell around it goes on without them"


@dataclass(frozen=True, eq=False)
class Sensing:
    """Between plant and law: latency (s), and bias and noise (N) of measured forces.

    Each may be an array that broadcasts to the axes of a batch, an entry for each state. Positions
    and velocities arrive as late as forces do. The same seed gives the same noise.
    """

    latency: ArrayLike = 0.0
    force_bias: ArrayLike = 0.0
    force_noise: ArrayLike = 0.0
    seed: int = 0


@refuse_endless_recursion("run")
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
    compiled: bool | None = None,
    record: Sequence[str] | None = None,
    on_step: OnStep | None = None,
) -> Trace:
    """Run a law on a plant from the plant's present state, for `duration` seconds.

    `reference` is a mapping of names to values, or a function of time that gives one. `robot` is
    the model that the law uses, that of the plant unless given. `rate` (Hz) is that of the law,
    one a step of the plant unless given; between samples torques are held. Rates and latencies may
    be arrays over a batch. `pushes` are external wrenches, or a function of time; sensors feel
    those at their own frame. With `compiled` the law runs as one kernel instead of as text;
    batches do unless it is False. `record` names the parts of memory that the trace keeps, all of
    them unless given.
    """
    model = robot or plant.robot
    require_same_joints(model, plant.robot, "the plant")
    validate_law(model, law)
    if not isinstance(duration, int | float) or not plant.dt <= duration < 1e6:
        raise InvalidArgument("duration", duration, f"it is a time in s, {plant.dt:g} or more")
    steps, batch = round(duration / plant.dt), plant.q.shape[:-1]
    follow = _reference_function(law, model, reference)
    sensors = _Sensors(plant, law.senses(model), sensing or Sensing())
    # steps of the plant from sample to sample of the law
    periods = np.asarray(1)
    if rate is not None:
        given = _broadcast_over(batch, "run", "rate", rate)
        exact = 1.0 / (np.where(given > 0.0, given, np.nan) * plant.dt)
        if not np.all(np.abs(exact - np.round(exact)) < 1e-6 * exact) or not np.all(exact > 0.5):
            rates = f"{1.0 / plant.dt:g} Hz over 1, 2, 3 …"
            accepted = f"each sample takes a whole number of steps: {rates}"
            raise InvalidArgument("rate", rate, accepted)
        periods = np.round(exact).astype(int)
    dt: Any = periods * plant.dt if periods.ndim else float(periods * plant.dt)
    # observers pair a late state with the torques of its time
    law = fill_delay(law, sensors.delays / periods) if sensors.delays.any() else law
    compute = _evaluator(model, law, batch, bool(batch) if compiled is None else compiled)
    memory = {
        name: np.broadcast_to(np.asarray(x, float), (*batch, *np.shape(x)))
        for name, x in law.memory(model).items()
    }
    recorder = _Recorder(memory, record, type(law).__name__)
    tau = np.zeros((*batch, model.nv))
    for k in range(steps):
        time = k * plant.dt
        push = pushes(time) if callable(pushes) else pushes
        truth = sensors.measure(push)
        sampled = k % periods == 0
        if np.any(sampled):
            state = sensors.delayed_state(dt, time)
            command, new = compute(model, law, state, follow(time), memory)
            # a member of a batch may fail, not all of them
            if not np.isfinite(command).all(axis=-1).any():
                label = f"torque of {type(law).__name__} at {time:g} s"
                raise InvalidArgument(label, np.array2string(command, precision=4), _FINITE)
            # members of a batch that are not sampled hold what they have
            tau = _choose(sampled, command, tau)
            memory = {n: _choose(sampled, new[n], x) for n, x in memory.items()}
            recorder.add(time, {"q": plant.q, "v": plant.v, "tau": tau}, truth, memory)
        plant.step(tau, push)
        if on_step and k % 200 == 0:
            on_step(f"{type(law).__name__} on {plant.name}", k, steps)
    return recorder.trace(law, plant, float(np.min(periods)) * plant.dt, len(batch))


class _Sensors:
    """Between plant and law: true wrenches, disturbed and sent on their way with the state."""

    def __init__(self, plant: Plant, frames: Sequence[str], sensing: Sensing) -> None:
        self.plant, self.frames = plant, tuple(frames)
        latency, self.bias, self.spread = (
            _broadcast_over(plant.q.shape[:-1], "Sensing", name, getattr(sensing, name))
            for name in ("latency", "force_bias", "force_noise")
        )
        self.delays = np.round(latency / plant.dt).astype(int)
        if (self.delays < 0).any():
            raise InvalidArgument("latency", sensing.latency, "it is a time in s, 0 or more")
        self.noise = np.random.default_rng(sensing.seed)
        self.line: list[tuple[Any, Any, dict[str, Any]]] = []

    def measure(self, pushes: Sequence[Wrench]) -> dict[str, np.ndarray]:
        """Measure the plant, send that on its way, and give the true wrenches."""
        plant = self.plant
        truth = {}
        for frame in self.frames:
            # a sensor has the pushes at its frame beside the wrench of contact
            here = [x for x in pushes if x.frame == frame]
            for x in here:
                if x.reference != "local_world_aligned":
                    accepted = f"pushes at the sensed frame {frame!r} are 'local_world_aligned'"
                    raise InvalidArgument("pushes", x.reference, accepted)
            pushed = sum((np.asarray(x.value, float) for x in here), np.zeros(6))
            truth[frame] = plant.wrench(frame) + pushed
        measured = {f: self._disturb(x) for f, x in truth.items()}
        self.line.append((plant.q, plant.v, measured))
        del self.line[: -1 - int(self.delays.max())]
        return truth

    def _disturb(self, wrench: np.ndarray) -> np.ndarray:
        """A measured wrench: bias on each force, and noise."""
        if not self.bias.any() and not self.spread.any():
            return wrench
        noise = self.noise.standard_normal((*wrench.shape[:-1], 3))
        force = wrench[..., :3] + self.bias[..., None] + self.spread[..., None] * noise
        return np.concatenate([force, wrench[..., 3:]], axis=-1)

    def delayed_state(self, dt: Any, time: float) -> State:
        """The measurement that reaches the law at a time, by the delay of each state of a batch.

        The plant stood where it starts before that: until its first measurement arrives, the law
        reads states of earlier times, at or before 0.
        """
        line, seen = self.line, time - self.delays * self.plant.dt
        if not self.delays.ndim:
            q, v, wrenches = line[max(0, len(line) - 1 - int(self.delays))]
            return State(q, v, dt, float(seen), wrenches)
        place = np.maximum(0, len(line) - 1 - self.delays)
        pick = (place, *np.indices(place.shape))
        q, v = np.stack([x[0] for x in line])[pick], np.stack([x[1] for x in line])[pick]
        wrenches = {f: np.stack([x[2][f] for x in line])[pick] for f in self.frames}
        return State(q, v, dt, seen, wrenches)


class _Recorder:
    """Rows of a trace as they come."""

    def __init__(self, memory: Mapping[str, Any], chosen: Sequence[str] | None, law: str) -> None:
        for name in chosen or ():
            if name not in memory:
                raise UnknownName("memory", name, memory, law)
        self.names = tuple(memory if chosen is None else chosen)
        self.start = {name: memory[name] for name in self.names}
        self.times: list[float] = []
        self.rows: dict[tuple[str, str], list[Any]] = {}

    def add(self, time: float, states: Any, wrenches: Any, memory: Any) -> None:
        """One sample."""
        self.times.append(time)
        kept = {name: memory[name] for name in self.names}
        for kind, values in (("state", states), ("wrench", wrenches), ("memory", kept)):
            for name, x in values.items():
                self.rows.setdefault((kind, name), []).append(x)

    def trace(self, law: Law, plant: Plant, dt: float, axis: int) -> Trace:
        """All samples, time after the batch axes."""
        parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "wrench": {}, "memory": {}}
        for (kind, name), rows in self.rows.items():
            parts[kind][name] = np.stack(rows, axis=axis)
        inner, times = law.law if isinstance(law, CompiledLaw) else law, np.array(self.times)
        events: list[Event] = []
        # members of a batch without torques; a single run would have ended
        lost = ~np.isfinite(parts["state"]["tau"]).all(axis=-1)
        for member in map(tuple, np.argwhere(lost.any(axis=-1)) if axis else ()):
            name = ", ".join(map(str, member))
            first = float(times[np.argmax(lost[member])])
            events.append(Event(first, f"member {name}: the torque is not a number"))
        # changes of the numbers of memory that the law has labels for, from its start on
        for name, labels in ({} if axis else getattr(law, "labels", {})).items():
            if name in parts["memory"]:
                codes = np.round([self.start[name], *parts["memory"][name]]).astype(int)
                changes = np.flatnonzero(np.diff(codes))
                events += [Event(float(times[k]), labels[codes[k + 1]]) for k in changes]
        return Trace(
            time=times,
            **parts["state"],
            dt=dt,
            law=type(inner).__name__,
            plant=plant.name,
            joints=plant.robot.joint_names,
            wrenches=parts["wrench"],
            memory=parts["memory"],
            events=tuple(sorted(events, key=lambda e: e.time)),
        )


def _reference_function(
    law: Law, robot: Robot, given: References | None
) -> Callable[[float], dict[str, np.ndarray]]:
    """References at a time, checked against what the law reads."""
    shapes = law.references(robot)

    def validate(values: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
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
        return lambda t: validate(given(t))
    constant = validate(given or {})
    return lambda t: constant


def _evaluator(
    robot: Robot, law: Law, batch: tuple[int, ...], compiled: bool
) -> Callable[..., Any]:
    """A law as code, or its text on one state, or on those of a batch one after another."""
    if compiled or isinstance(law, CompiledLaw):
        return (law if isinstance(law, CompiledLaw) else compile_law(robot, law)).evaluate

    def single(_: Robot, law: Law, state: State, reference: Any, memory: Any) -> tuple[Any, Any]:
        return evaluate_law(robot, law, state, reference, memory)

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


def _broadcast_over(
    batch: tuple[int, ...], function: str, name: str, given: ArrayLike
) -> np.ndarray:
    """A number, or an array as one entry for each state of a batch; refused where it does not fit.

    Axes are those of NumPy: an array of fewer axes belongs to the last axes of the batch.
    """
    x = np.asarray(given, float)
    if not x.ndim:
        return x
    try:
        return np.broadcast_to(x, batch)
    except ValueError:
        accepted = f"{batch} as the batch" if batch else "() (there is no batch)"
        raise ShapeMismatch(function, name, accepted, x.shape) from None


def _choose(mask: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """New numbers where a state of the batch was sampled."""
    if not mask.ndim:
        return new
    return np.where(mask.reshape(mask.shape + (1,) * (np.ndim(old) - mask.ndim)), new, old)
