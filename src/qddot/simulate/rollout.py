"""Rollouts: a robot stepped in time, native and in batches, with an account of what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import sizes
from qddot.compile.kernel import Kernel, Source, compile_kernel
from qddot.compile.scan import ScanShapes
from qddot.compile.threads import SETTING, run_split
from qddot.condense import condensed
from qddot.errors import BatchMismatch, NotUnderstood, ShapeMismatch, UnknownName
from qddot.health import refuse_singular
from qddot.kernels import PARAMETERS
from qddot.model import Model
from qddot.robot import Robot
from qddot.scalar import less, where
from qddot.simulate.feedback import Feedback, Sensor, Shapes
from qddot.simulate.integrators import find_integrator
from qddot.simulate.motion import align, unalign
from qddot.simulate.plant import ContactLaw, Effect, Resisting, RobotPlant

if TYPE_CHECKING:
    from qddot.simulate.status import Status

__all__ = ["Hold", "Rollout", "StepPlan", "rollout"]

Hold = Literal["zero", "linear"]
_FEWEST_STEPS = 20_000
_WITH_CONTACT = ("semi_implicit", "implicit_damping")
_EFFECTS = "Friction(law), PenaltyContact and the like are; the rest is sensors=… or contact=…"
_SENSORS = "Noise, Quantisation and the like are; what acts on joints is one of the effects"


@dataclass(frozen=True)
class StepPlan:
    """All that the text of a step depends on besides numbers."""

    model: Model
    integrator: str = "semi_implicit"
    hold: Hold = "zero"
    effects: tuple[Effect, ...] = ()
    parameters: tuple[str, ...] = ()
    feedback: Feedback | None = None
    sensors: tuple[Sensor, ...] = ()
    contact: ContactLaw | None = None
    record: bool = False

    @property
    def keepers(self) -> tuple[Effect | Sensor | ContactLaw, ...]:
        """All that keeps a memory: effects, then sensors, then the contact."""
        return (*self.effects, *self.sensors, *((self.contact,) if self.contact else ()))

    @property
    def kept(self) -> list[int]:
        """How many numbers each of them keeps; what keeps none is not carried."""
        return [keeper.memory(self.model) for keeper in self.keepers]

    @property
    def shapes(self) -> ScanShapes:
        """Carry q, v, a clock and the memories; read torques and references; give q and v.

        With `record` the memories are given at each sample as well.
        """
        m, dims = self.model, sizes(self.model, {})
        memories = tuple((n,) for n in self.kept if n)
        inputs = [
            tuple(dims[s] if s in dims else int(s) for s in PARAMETERS[p][0])
            for p in self.parameters
        ]
        torques = ((m.nv,),) * (2 if self.hold == "linear" else 1)
        references, gains = self.law
        return ScanShapes(
            carry=((m.nq,), (m.nv,), (), *memories),
            sampled=(*torques, *references.values()),
            constants=((), (), *inputs, *gains.values()),
            samples=((m.nq,), (m.nv,), *(memories if self.record else ())),
        )

    @property
    def law(self) -> tuple[Shapes, Shapes]:
        """References and gains of the feedback."""
        law, model = self.feedback, self.model
        return (law.references(model), law.gains(model)) if law else ({}, {})

    def step(self, *values: Any) -> list[Any]:
        """One step, from the numbers of the shapes to those of the carry and the samples."""
        plant, q, v, clock, memories, seen = self.opened(*values)
        model, damped = plant.model, self.integrator == "implicit_damping"
        if self.contact:
            q1, v1, impulses = self.contact.step(plant, q, v, memories[-1], damped)
            seen.append(impulses)
        else:
            plant = plant.resisted(q, v, damped)
            q1, w1 = find_integrator(self.integrator).step(plant, q, align(model, q, v), plant.dt)
            q1, v1 = plant.settled(q, q1, unalign(model, q1, w1))
        kept = [x for memory in (*plant.renewed(q, v, v1), *seen) for x in memory]
        return [*q1, *v1, clock, *kept, *q1, *v1, *(kept if self.record else ())]

    def opened(self, *values: Any) -> tuple[RobotPlant, Any, Any, Any, list[Any], list[Any]]:
        """The plant at the start of a step, the state, the clock after it, and the memories.

        Last come those of the sensors after the step.
        """
        shapes, model = self.shapes, self._model
        carried, read = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
        (q, v, clock, *carry), sampled = values[:carried], values[carried:read]
        memories = [carry.pop(0) if n else [] for n in self.kept]
        dt, every, *constants = values[read:]
        for name, value in zip(self.parameters, constants, strict=False):
            model = PARAMETERS[name][1](model, value)
        rows = 2 if self.hold == "linear" else 1
        start, end, clock = self._torques(sampled[:rows], clock, every)
        effects, sensors = len(self.effects), len(self.effects) + len(self.sensors)
        q_read, v_read, seen = self._readings(model, q, v, dt, memories[effects:sensors])
        if self.feedback:
            gains = constants[len(self.parameters) :]
            more = self.feedback.torque(model, q_read, v_read, sampled[rows:], gains)
            start, end = ([a + b for a, b in zip(x, more, strict=True)] for x in (start, end))
        plant = RobotPlant(model, start, end, dt, self.effects, tuple(memories[:effects]))
        return plant, q, v, clock, memories, seen

    def _readings(
        self, model: Model, q: Any, v: Any, dt: Any, memories: Sequence[Any]
    ) -> tuple[Any, Any, list[Any]]:
        """What the feedback takes for the state, and the memories of the sensors after it."""
        kept = []
        for sensor, memory in zip(self.sensors, memories, strict=True):
            q, v, renewed = sensor.read(model, q, v, dt, memory)
            kept.append(renewed)
        return q, v, kept

    def _torques(self, torques: Sequence[Any], clock: Any, every: Any) -> tuple[Any, Any, Any]:
        """Torques at the start and end of a step, and the clock after it."""
        if self.hold == "zero":
            return torques[0], torques[0], clock
        first, last = torques
        slope = [(b - a) / every for a, b in zip(first, last, strict=True)]
        start = [a + s * clock for a, s in zip(first, slope, strict=True)]
        end = [a + s * (clock + 1.0) for a, s in zip(first, slope, strict=True)]
        # the clock counts the steps of a sample, and the last one sets it back
        ahead = clock + 1.0
        return start, end, where(less(ahead, every - 0.5), ahead, 0.0 * ahead)

    @property
    def _model(self) -> Model:
        """The model in its shortest form, unless inertias are inputs."""
        return self.model if "inertia" in self.parameters else condensed(self.model)

    def kernel(self) -> Kernel:
        """The compiled loop of this step."""
        parts = [getattr(self, f.name) for f in fields(self) if f.name != "model"]
        return _compiled(_Keyed(repr((self.model.digest, *parts)), self))


@dataclass(frozen=True)
class _Keyed:
    """A plan that is the same as another where its key is."""

    key: str
    plan: StepPlan = field(compare=False)


@lru_cache(maxsize=64)
def _compiled(keyed: _Keyed) -> Kernel:
    plan, shapes = keyed.plan, keyed.plan.shapes
    name, doc = f"rollout_{plan.integrator}", "A robot stepped in time."
    return compile_kernel(
        Source(name, doc, plan.step, shapes.inputs, shapes.outputs, keyed.key, shapes)
    )


@dataclass(frozen=True)
class Rollout:
    """Trajectories of a batch: the last axes of q and v are time and coordinate.

    `memories` are what effects, sensors and contact keep at the end, `history` the same at each
    sample where that is recorded. `plan` and `inputs` (torques, references, constants) are what
    the steps were made from.
    """

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    dt: float
    integrator: str
    memories: tuple[np.ndarray, ...] = ()
    history: tuple[np.ndarray, ...] = ()
    plan: StepPlan | None = None
    inputs: tuple[np.ndarray, ...] = ()

    @property
    def finite(self) -> np.ndarray:
        """Whether a sample and all before it are finite numbers, by batch and time."""
        sound = np.isfinite(self.q).all(-1) & np.isfinite(self.v).all(-1)
        return np.logical_and.accumulate(sound, axis=-1)

    @cached_property
    def status(self) -> Status:
        """Which rollouts went wrong, at which step first, in what way, and what to do."""
        # contact knows rollouts, so they know its depths only when asked
        from qddot.simulate.status import judge

        return judge(self)


def rollout(
    robot: Robot,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None = None,
    *,
    dt: float,
    steps: int,
    integrator: str = "semi_implicit",
    every: int = 1,
    hold: Hold = "zero",
    effects: Sequence[Effect] = (),
    parameters: Mapping[str, ArrayLike] | None = None,
    feedback: Feedback | None = None,
    sensors: Sequence[Sensor] = (),
    contact: ContactLaw | None = None,
    record: bool = False,
    **given: ArrayLike,
) -> Rollout:
    """A robot stepped in time from states q0 (..., nq) and v0 (..., nv).

    `steps` steps of length `dt` are taken and every `every`-th is kept, so that q has the shape
    (..., steps // every + 1, nq). `tau` is None (no torques), one row (nv) for all times, or a row
    a kept sample (..., steps // every, nv), held until the next; with `hold="linear"` it has one
    row more and is interpolated. `parameters` are constants of the robot that carry batch axes, as
    in `Robot.compile`. A `feedback` law adds its torques; what it reads is given by name:
    references (..., steps // every, n) or one row (n) for all times, and gains (..., n). `sensors`
    stand between the state and what the law takes for it. `contact` by complementarity has a step
    of its own, semi-implicit. With `record`, and always with contact of either kind, what
    effects, sensors and contact keep is given at each sample.
    """
    constants = dict(parameters or {})
    for name in constants:
        if name not in PARAMETERS:
            raise UnknownName("parameter", name, PARAMETERS)
    _check_parts(effects, sensors)
    _check_together(integrator, effects, contact)
    plan = StepPlan(
        robot.model,
        *(find_integrator(integrator).name, _held(hold), tuple(effects), tuple(constants)),
        feedback,
        tuple(sensors),
        contact,
        record or contact is not None or any(getattr(e, "recorded", False) for e in effects),
    )
    samples = _samples(steps, every)
    arrays = _arrays(plan, q0, v0, tau, samples, _step(dt), every, constants, given)
    run = _native if robot.native and robot.nv else _interpreted
    if not {"inertia", "armature"} & set(constants):
        refuse_singular(robot.name, robot.singular_joints, {})
    # the status tells what overflows
    with np.errstate(all="ignore"):
        (q, v, *history), last = run(plan, arrays, samples, every)
    time = np.arange(samples + 1) * (every * float(dt))
    inputs = tuple(arrays[len(plan.shapes.carry) : -1])
    ends, kept = (_of_keepers(plan, parts, q.shape[:-2]) for parts in (last, history))
    return Rollout(time, q, v, inputs[0], float(dt), integrator, ends, kept, plan, inputs)


def _check_parts(effects: Sequence[Effect], sensors: Sequence[Sensor]) -> None:
    """Refuse what is neither effect nor sensor."""
    for what, parts, method in (("effect", effects, "act"), ("sensor", sensors, "read")):
        if not isinstance(parts, Sequence):
            raise NotUnderstood(f"{what}s", parts, f"it is a list of {what}s")
        for part in parts:
            if not hasattr(part, method):
                known = _EFFECTS if method == "act" else _SENSORS
                raise NotUnderstood(what, part, known)


def _check_together(integrator: str, effects: Sequence[Effect], contact: ContactLaw | None) -> None:
    """Refuse what has no meaning together."""
    if contact is not None and not hasattr(contact, "step"):
        accepted = "it is a ComplementarityContact; a PenaltyContact is one of the effects"
        raise NotUnderstood("contact", contact, accepted)
    if contact is not None and integrator not in _WITH_CONTACT:
        accepted = f"contact by complementarity steps with {' or '.join(_WITH_CONTACT)}"
        raise NotUnderstood("integrator", integrator, accepted)
    resisting = [effect for effect in effects if isinstance(effect, Resisting)]
    for effect in resisting if integrator == "implicit_damping" else ():
        if getattr(effect, "model_damping", False):
            accepted = "implicit_damping has the damping of the model already: damping=False"
            raise NotUnderstood("effect", effect, accepted)


def _of_keepers(
    plan: StepPlan, carried: Sequence[np.ndarray], batch: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """An array for each that keeps a memory, empty for those that keep nothing."""
    left = list(carried)
    return tuple(left.pop(0) if n else np.empty((*batch, 0)) for n in plan.kept) if left else ()


def _held(hold: str) -> Hold:
    for known in get_args(Hold):
        if hold == known:
            return known
    raise NotUnderstood("hold", hold, "it is 'zero' or 'linear'")


def _step(dt: float) -> float:
    if not isinstance(dt, int | float | np.floating) or not 0.0 < dt < np.inf:
        raise NotUnderstood("dt", dt, "it is a time in seconds, above zero")
    return float(dt)


def _samples(steps: int, every: int) -> int:
    """How many samples are kept."""
    for name, n, least in (("steps", steps, 0), ("every", every, 1)):
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < least:
            raise NotUnderstood(name, n, f"it is a whole number from {least}")
    if steps % every:
        raise NotUnderstood("steps", steps, f"it is a multiple of every={every}")
    return int(steps // every)


def _numbers(name: str, x: ArrayLike, core: tuple[int, ...]) -> np.ndarray:
    """An array of real numbers with these last axes."""
    try:
        array = np.asarray(x)
        array = array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise NotUnderstood(f"rollout: {name}", x, "it needs an array of numbers") from error
    if array.ndim < len(core) or array.shape[array.ndim - len(core) :] != core:
        listed = ", ".join(map(str, core))
        raise ShapeMismatch("rollout", name, f"(..., {listed})", array.shape)
    return array


def _arrays(
    plan: StepPlan,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None,
    samples: int,
    dt: float,
    every: int,
    parameters: Mapping[str, ArrayLike],
    given: Mapping[str, ArrayLike],
) -> list[np.ndarray]:
    """The arguments of the loop, checked."""
    model, shapes, (references, gains) = plan.model, plan.shapes, plan.law
    rows = samples + (plan.hold == "linear")
    for name in (*references, *gains):
        if name not in given:
            raise NotUnderstood("feedback", plan.feedback, f"it needs {name}=…")
    for name in given:
        if name not in references and name not in gains:
            raise UnknownName("argument", name, (*references, *gains), "rollout")
    each = zip(plan.keepers, plan.kept, strict=True)
    starts = [np.array(keeper.start(model), float) for keeper, n in each if n]
    q, v = _numbers("q0", q0, (model.nq,)), _numbers("v0", v0, (model.nv,))
    torque = _rows("tau", np.zeros(model.nv) if tau is None else tau, model.nv, rows)
    torques = [torque[..., :-1, :], torque[..., 1:, :]] if plan.hold == "linear" else [torque]
    inputs = [
        _numbers(name, x, shape)
        for (name, x), shape in zip(parameters.items(), shapes.constants[2:], strict=False)
    ]
    inputs += [_numbers(name, given[name], shape) for name, shape in gains.items()]
    torques += [_rows(name, given[name], n, samples) for name, (n,) in references.items()]
    kind = np.result_type(q, v)
    clock, length, count = (np.array(x, kind) for x in (0.0, dt, every))
    rest = (clock, *starts, *torques, length, count, *inputs, count)
    return [q, v, *(x.astype(kind, copy=False) for x in rest)]


def _rows(name: str, x: ArrayLike, n: int, rows: int) -> np.ndarray:
    """A row of numbers a sample; one row for all times is not copied."""
    array = _numbers(name, x, (n,))
    if array.ndim == 1:
        return np.broadcast_to(array, (rows, n))
    if array.shape[-2] not in (1, rows):
        raise ShapeMismatch("rollout", name, f"({n}), or (..., {rows}, {n})", array.shape)
    return np.broadcast_to(array, (*array.shape[:-2], rows, n))


Trajectories = tuple[list[np.ndarray], tuple[np.ndarray, ...]]


def _batch(arrays: Sequence[np.ndarray], cores: Sequence[int]) -> tuple[int, ...]:
    leading = [x.shape[: x.ndim - n] for x, n in zip(arrays, cores, strict=True)]
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        raise BatchMismatch("rollout", leading) from None


def _native(plan: StepPlan, arrays: Sequence[np.ndarray], samples: int, every: int) -> Trajectories:
    """By the compiled loop, over threads where the batch is worth it."""
    kernel, shapes = plan.kernel(), plan.shapes
    cores = [len(a) for a in shapes.arguments]
    batch = _batch(arrays, cores)
    results = [tuple(samples if axis == "t" else int(axis) for axis in a) for a in shapes.results]
    paths, out = _outputs(plan, arrays, batch, results, samples)
    if SETTING.threads > 1:
        fewest = max(8, _FEWEST_STEPS // max(1, samples * every))
        run_split(kernel.gufunc, arrays, cores, results, out, fewest)
    else:
        kernel.gufunc(*arrays, out=out)
    return paths, out[len(paths) + 3 :]


def _outputs(
    plan: StepPlan,
    arrays: Sequence[np.ndarray],
    batch: tuple[int, ...],
    results: Sequence[tuple[int, ...]],
    samples: int,
) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
    """Trajectories that begin with the initial states, and the outputs of the loop in them."""
    kind = arrays[0].dtype if arrays[0].dtype == arrays[1].dtype else np.dtype(float)
    paths = []
    recorded = arrays[3 : len(plan.shapes.carry)] if plan.record else []
    for x in (*arrays[:2], *recorded):
        path = np.empty((*batch, samples + 1, x.shape[-1]), kind)
        path[..., 0, :] = x
        paths.append(path)
    last = [np.empty((*batch, *shape), kind) for shape in results[len(paths) :]]
    return paths, (*(path[..., 1:, :] for path in paths), *last)


def _interpreted(
    plan: StepPlan, arrays: Sequence[np.ndarray], samples: int, every: int
) -> Trajectories:
    """By the text of the step itself, one array over the batch for each number."""
    shapes = plan.shapes
    cores = [len(a) for a in shapes.arguments]
    batch = _batch(arrays, cores)
    results = [tuple(samples if axis == "t" else int(axis) for axis in a) for a in shapes.results]
    paths, out = _outputs(plan, arrays, batch, results, samples)
    carried, read = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
    carry = [_scalars(x, len(s)) for x, s in zip(arrays, shapes.carry, strict=False)]
    constants = [_scalars(x, len(s)) for x, s in zip(arrays[read:], shapes.constants, strict=False)]
    sizes_of = [int(np.prod(s)) for s in shapes.carry]
    for k in range(samples):
        torques = [_scalars(x[..., k, :], 1) for x in arrays[carried:read]]
        for _ in range(every):
            flat = plan.step(*carry, *torques, *constants)
            carry = _folded(flat, sizes_of, shapes.carry)
        for path, row in zip(paths, (*carry[:2], *carry[3:]), strict=False):
            path[..., k + 1, :] = np.stack(np.broadcast_arrays(*row), axis=-1)
    for target, value in zip(out[len(paths) :], carry, strict=True):
        target[...] = (
            np.stack(np.broadcast_arrays(*value), axis=-1) if target.ndim > len(batch) else value
        )
    return paths, out[len(paths) + 3 :]


def _scalars(x: np.ndarray, core: int) -> Any:
    """Nested lists over the core axes; the batch stays in arrays."""
    if not core:
        return np.asarray(x)
    return [_scalars(part, core - 1) for part in np.moveaxis(x, x.ndim - core, 0)]


def _folded(flat: Sequence[Any], counts: Sequence[int], shapes: Sequence[Any]) -> list[Any]:
    """Numbers of a step as the carry of the next."""
    carry, start = [], 0
    for n, shape in zip(counts, shapes, strict=True):
        carry.append(list(flat[start : start + n]) if shape else flat[start])
        start += n
    return carry
