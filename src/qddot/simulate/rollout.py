"""Rollouts: a robot stepped in time, native and in batches, with an account of what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.compile.runtime.chunks import run_scan
from qddot.display import Readable
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.robot.health import refuse_singular
from qddot.robot.interpret import batch_shape
from qddot.robot.native import PARAMETERS
from qddot.robot.robot import Robot
from qddot.simulate.arguments import (
    above_zero,
    loop_arguments,
    require_samples,
    sample_count,
)
from qddot.simulate.feedback import Feedback, Sensor
from qddot.simulate.layout import columns, nested, over_time, stacked
from qddot.simulate.plan import CLOCK, Hold, StepPlan
from qddot.simulate.planned import planned
from qddot.simulate.plant import ContactLaw, Effect

if TYPE_CHECKING:
    from qddot.simulate.status import Status

__all__ = ["Rollout", "rollout"]

_CONSTANTS = ", ".join(PARAMETERS)
OnStep = Callable[[str, int, int], None]
"""Told the name of a step, how much is done, and of how much."""


@dataclass(frozen=True, repr=False)
class Rollout(Readable):
    """Trajectories of a batch: the last axes of q and v are time and coordinate.

    `memories` are what effects, sensors and contact keep at the end, `history` the same at each
    sample where that is recorded; samples are `every` so many steps. `misses` has, for each of
    `plan.iterations`, by how much it was missed at most up to a sample. `plan` and `inputs`
    (torques, references, constants) are what the steps were made from, natively or not.
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
    misses: np.ndarray | None = None
    native: bool = False
    every: int = 1

    def plot(self, robot: Robot | None = None, **choices: Any) -> Any:
        """A matplotlib figure of the motion over time; see `qddot.view.plot_motion`."""
        from qddot.view.pictures import plot_motion

        return plot_motion(self, robot, **choices)

    def animate(self, file: str | Path, robot: Robot | None = None, **choices: Any) -> Path:
        """Write the motion as a .gif or .mp4; see `qddot.view.animate_motion`."""
        from qddot.view.pictures import animate_motion

        return animate_motion(self, file, robot, **choices)

    @property
    def finite(self) -> np.ndarray:
        """Whether a sample and all before it are finite numbers, by batch and time."""
        sound = np.isfinite(self.q).all(-1) & np.isfinite(self.v).all(-1)
        return np.logical_and.accumulate(sound, axis=-1)

    def started(self, last: bool) -> list[Any]:
        """What the steps that start at the samples read: lists of arrays by batch and time.

        The step that would start at the last sample, if it is asked for, has the last torques.
        """
        shapes = self._made_by.shapes
        sampled = len(shapes.sampled)
        misses = () if self.misses is None else (self.misses,)
        paths = (self.q, self.v, *misses, *(x for x in self.history if x.shape[-1]))
        values: list[Any] = [columns(x if last else x[..., :-1, :]) for x in paths]
        values.insert(2, np.zeros(()))
        for x in self.inputs[:sampled]:
            row = x[..., -1:, :] if x.shape[-2] else np.zeros((1, x.shape[-1]))
            values.append(columns(np.concatenate([x, row], axis=-2) if last else x))
        constants = zip(self.inputs[sampled:], shapes.constants, strict=True)
        return [*values, *(over_time(x, len(core)) for x, core in constants)]

    @property
    def _made_by(self) -> StepPlan:
        if self.plan is None:
            accepted = "it needs one that qddot.simulate.rollout made"
            raise InvalidArgument("rollout", f"of {self.integrator}", accepted)
        return self.plan

    def continued(
        self,
        tau: ArrayLike | None = None,
        *,
        steps: int,
        every: int | None = None,
        **given: ArrayLike,
    ) -> Rollout:
        """The same rollout further on: its steps are those of one call for all of them, bit by bit.

        State, time and memories (delay lines, bristles, generators of noise, impulses of contact)
        go on from where they are; steps, effects, parameters and gains stay as they are. `tau` and
        references are those of the steps to come, as in `rollout`; `every` is as before unless it
        is given. The first sample is the last of this rollout, and steps of the status are counted
        from the start of the whole motion.
        """
        plan, often = self._made_by, self.every if every is None else every
        samples, before = sample_count(steps, often), round(float(self.time[-1]) / self.dt)
        require_samples(plan, samples)
        constants = self.inputs[len(plan.shapes.sampled) + 2 :]
        figures = constants[len(constants) - plan.figures :]
        parameters = dict(zip(plan.parameters, constants, strict=False))
        gains = dict(zip(plan.law[1], constants[len(parameters) :], strict=False))
        state, memories = (self.q[..., -1, :], self.v[..., -1, :]), self.memories
        arrays = loop_arguments(
            plan,
            *(*state, tau, samples, self.dt, often, parameters, {**gains, **given}, figures),
            [x for x in memories if x.shape[-1]],
        )
        return _run(plan, arrays, samples, self.dt, often, self.native, before)

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
    out: tuple[np.ndarray, np.ndarray] | None = None,
    on_step: OnStep | None = None,
    **given: ArrayLike,
) -> Rollout:
    """A robot stepped in time from states q0 (..., nq) and v0 (..., nv).

    `steps` steps of length `dt` are taken and every `every`-th is kept, so that q has the shape
    (..., steps // every + 1, nq). `tau` is None (no torques), one row (nv) for all times, or a row
    a kept sample (..., steps // every, nv), held until the next; with `hold="linear"` it has one
    row more and is interpolated. `parameters` are constants of the robot that carry batch axes, as
    in `Robot.compile`; figures of effects, sensors and contact that are arrays carry them too. A
    `feedback` law adds its torques; what it reads is given by name: references
    (..., steps // every, n) or one row (n) for all times, and gains (..., n). `sensors` stand
    between the state and what the law takes for it. `contact` by complementarity has a step of its
    own, semi-implicit. With `record`, and always with contact of either kind, what effects, sensors
    and contact keep is given at each sample. q and v are written to the arrays of `out`, such as
    those of a rollout that is done with; new memory for large ones takes time. A rollout that
    takes long runs in chunks of a fraction of a second, after each of which an interrupt is seen
    and `on_step("steps", done, of)` is called, counted over all states.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidArgument("parameters", parameters, f"it is {{name: array}} of {_CONSTANTS}")
    if not (on_step is None or callable(on_step)):
        raise InvalidArgument("on_step", on_step, "it is a function of (name, done, of)")
    constants = dict(parameters or {})
    plan, figures = planned(
        *(robot.model, integrator, hold, effects, tuple(constants)),
        *(feedback, sensors, contact, record),
    )
    samples, length = sample_count(steps, every), above_zero("dt", dt, "a time in seconds,")
    require_samples(plan, samples)
    arrays = loop_arguments(plan, q0, v0, tau, samples, length, every, constants, given, figures)
    if robot.singular_joints and not {"inertia", "armature"} & constants.keys():
        refuse_singular(robot.name, robot.singular_joints, {})
    native = robot.native and robot.nv > 0
    return _run(plan, arrays, samples, length, every, native, out=out, on_step=on_step)


def _run(
    plan: StepPlan,
    arrays: Sequence[np.ndarray],
    samples: int,
    dt: float,
    every: int,
    native: bool,
    before: int = 0,
    out: Sequence[np.ndarray] | None = None,
    on_step: OnStep | None = None,
) -> Rollout:
    """All steps, after so many before."""
    cores = [len(a) for a in plan.shapes.arguments]
    batch = batch_shape("rollout", arrays, cores, plan.names)
    require_samples(plan, samples, batch, arrays[0].dtype.itemsize, out is not None)
    paths, ends = _outputs(plan, arrays, batch, samples, out)
    tell = partial(on_step, "steps") if on_step else None
    # the status tells what overflows
    with np.errstate(all="ignore"):
        if native:
            kernel, results = plan.kernel(), (*paths, *ends)
            layout = (plan.shapes, batch, every)
            run_scan(kernel.gufunc, arrays, *layout, results, kernel.cost, CLOCK, tell)
        else:
            _interpreted(plan, arrays, samples, every, paths, ends, tell)
    q, v, *history = paths
    misses = history.pop(0) if plan.iterations else None
    inputs = tuple(arrays[len(plan.shapes.carry) : -1])
    time = np.arange(before, before + samples * every + 1, every, dtype=float)
    time *= dt
    left = [x[..., -1, :] for x in history] if plan.record else ends
    memories, kept = (_of_keepers(plan, part, batch) for part in (left, history))
    facts = (inputs[0], dt, plan.integrator, memories, kept, plan, inputs, misses, native, every)
    return Rollout(time, q, v, *facts)


def _of_keepers(
    plan: StepPlan, carried: Sequence[np.ndarray], batch: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """An array for each that keeps a memory, empty for those that keep nothing."""
    left = list(carried)
    return tuple(left.pop(0) if n else np.empty((*batch, 0)) for n in plan.kept) if left else ()


def _outputs(
    plan: StepPlan,
    arrays: Sequence[np.ndarray],
    batch: tuple[int, ...],
    samples: int,
    out: Sequence[np.ndarray] | None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arrays for the trajectories, and for what is left at their ends."""
    kind = arrays[0].dtype
    carry, told, left = plan.shapes.carry, plan.shapes.path_places, plan.shapes.end_places
    shapes = [(*batch, samples + 1, *carry[k]) for k in told]
    paths = _given(out, shapes[:2], kind)
    paths += [np.empty(shape, kind) for shape in shapes[len(paths) :]]
    return paths, [np.empty((*batch, *carry[k]), kind) for k in left]


def _given(
    out: Sequence[np.ndarray] | None, shapes: Sequence[tuple[int, ...]], kind: np.dtype
) -> list[np.ndarray]:
    """The arrays that q and v are to be written to, if they fit."""
    if out is None:
        return []
    if not isinstance(out, tuple | list) or len(out) != len(shapes):
        raise InvalidArgument("out", type(out).__name__, "it is a pair of arrays, for q and v")
    for name, x, shape in zip(("q", "v"), out, shapes, strict=True):
        plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
        if not plain or x.dtype != kind or not x.flags.writeable:
            accepted = f"it is an array of {kind}, without a mask, that can be written to"
            raise InvalidArgument(f"out: {name}", getattr(x, "dtype", x), accepted)
        if x.shape != shape:
            raise ShapeMismatch("rollout", f"out: {name}", str(shape), x.shape)
    if np.may_share_memory(*out) and _overlap(*out):
        raise InvalidArgument("out", "arrays that share memory", "q and v need memory of their own")
    return list(out)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays have an element in common, or it is too hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _interpreted(
    plan: StepPlan,
    arrays: Sequence[np.ndarray],
    samples: int,
    every: int,
    paths: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
    on_chunk: Callable[[int, int], None] | None = None,
) -> None:
    """By the text of the step itself, one array over the batch for each number."""
    shapes = plan.shapes
    carried, read = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
    # whole copies: sines of strided arrays may differ in the last bit from those of the next step
    starts = zip(arrays, shapes.carry, strict=False)
    carry: list[Any] = [
        list(np.moveaxis(x, -1, 0).copy()) if s else np.asarray(x) for x, s in starts
    ]
    constants = [nested(x, len(s)) for x, s in zip(arrays[read:], shapes.constants, strict=False)]
    sizes_of = [int(np.prod(s)) for s in shapes.carry]

    def tell(k: int) -> None:
        for path, place in zip(paths, shapes.path_places, strict=True):
            path[..., k, :] = stacked(carry[place])

    tell(0)
    for k in range(samples):
        torques = [nested(x[..., k, :], 1) for x in arrays[carried:read]]
        for _ in range(every):
            flat = plan.step(*carry, *torques, *constants)
            carry = _folded(flat, sizes_of, shapes.carry)
        tell(k + 1)
        if on_chunk:
            on_chunk(k + 1, samples)
    for target, place in zip(ends, shapes.end_places, strict=True):
        target[...] = stacked(carry[place])


def _folded(flat: Sequence[Any], counts: Sequence[int], shapes: Sequence[Any]) -> list[Any]:
    """Numbers of a step as the carry of the next."""
    carry, start = [], 0
    for n, shape in zip(counts, shapes, strict=True):
        carry.append(list(flat[start : start + n]) if shape else flat[start])
        start += n
    return carry
