"""Rollouts: trajectories of a batch, and the loop over the steps that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from qddot.compile.runtime.chunks import run_scan
from qddot.display.progress import OnStep
from qddot.display.text import Readable, range_text
from qddot.errors import InvalidArgument, ShapeMismatch, TooLarge
from qddot.robot.interpret import batch_shape
from qddot.simulate.arguments import loop_arguments, require_samples, sample_count
from qddot.simulate.layout import columns, nested_lists, nested_over_time, stack_scalars
from qddot.simulate.loops import close_moved
from qddot.simulate.step import CLOCK, LOOPS, Step

if TYPE_CHECKING:
    from qddot.robot.robot import Robot
    from qddot.simulate.status import Status

__all__ = ["Rollout", "run_steps"]

_MOST_JUDGED = 10**6
"""Numbers of a trajectory up to which its status is found in order to be shown."""


class _Torques:
    """Joint torques of a rollout; those of a law are computed when they are first read."""

    def __get__(self, rollout: Rollout | None, kind: type) -> np.ndarray:
        if rollout is None:
            raise AttributeError("tau")  # the field of the dataclass has no default
        if rollout.__dict__["tau"] is None:
            rollout.__dict__["tau"] = rollout._law_torques()
        found: np.ndarray = rollout.__dict__["tau"]
        return found

    def __set__(self, rollout: Rollout, value: np.ndarray | None) -> None:
        rollout.__dict__["tau"] = value


@dataclass(frozen=True, repr=False)
class Rollout(Readable):
    """Trajectories of a batch: the last axes of q and v are time and coordinate.

    A sample is taken every `every` steps. `tau` has a row less: the torques, those of a law
    included, of the step that begins at each sample but the last; NaN where they depend on states
    that were not recorded (`record=True`). `effect_states` are the states of effects, sensors and
    contact at the end, `effect_history` the same at each sample, if recorded. `residuals` has, for
    each of `step.residual_names`, the largest residual up to each sample. `step` and `inputs`
    (torques, references, constants) are those of the loop; `native` says that it was compiled.
    """

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    if TYPE_CHECKING:
        tau: np.ndarray
    else:
        tau: np.ndarray = _Torques()
    dt: float
    integrator: str
    effect_states: tuple[np.ndarray, ...] = ()
    effect_history: tuple[np.ndarray, ...] = ()
    step: Step | None = None
    inputs: tuple[np.ndarray, ...] = ()
    residuals: np.ndarray | None = None
    native: bool = False
    every: int = 1

    def _shown_fields(self) -> list[tuple[str, str]]:
        """Span of time, ranges of the trajectories, and the status of rollouts that are few."""
        span = f"{self.time[0]:.4g} … {self.time[-1]:.4g} s, {len(self.time)} samples"
        shown = [("time", f"{span}, steps of {self.dt:.4g} s, {self.integrator}")]
        few = self.q.size <= _MOST_JUDGED
        names = ("q", "v", "tau") if few or self.__dict__["tau"] is not None else ("q", "v")
        shown += [(name, range_text(getattr(self, name))) for name in names]
        if self.step is not None and few:
            shown.append(("status", str(self.status)))
        return shown

    def plot(self, robot: Robot | None = None, **choices: Any) -> Any:
        """A matplotlib figure of the motion over time; see `qddot.view.plot_motion`."""
        from qddot.view.pictures import plot_motion

        return plot_motion(self, robot, **choices)

    def animate(self, file: str | Path, robot: Robot | None = None, **choices: Any) -> Path:
        """Write the motion as a .gif or .mp4; see `qddot.view.animate_motion`."""
        from qddot.view.pictures import animate_motion

        return animate_motion(self, file, robot, **choices)

    def save(self, file: str | Path, force: bool = False) -> Path:
        """Write the rollout to an .npz file, from which `qddot.simulate.load` continues.

        It holds samples, robot, step, states of effects and versions. The file appears whole; one
        that exists is overwritten only with `force`.
        """
        from qddot.simulate.saving import save_rollout

        return save_rollout(self, file, force)

    @property
    def finite(self) -> np.ndarray:
        """Whether a sample and all before it are finite numbers, by batch and time."""
        sound = np.isfinite(self.q).all(-1) & np.isfinite(self.v).all(-1)
        return np.logical_and.accumulate(sound, axis=-1)

    @cached_property
    def status(self) -> Status:
        """Faults of each rollout: label, first bad step, cause and remedy."""
        # the status knows contact, whose ledger knows rollouts
        from qddot.simulate.status import judge

        return judge(self)

    def resume(
        self,
        tau: ArrayLike | None = None,
        *,
        steps: int,
        every: int | None = None,
        wrenches: Mapping[str, ArrayLike] | None = None,
        **law_inputs: ArrayLike,
    ) -> Rollout:
        """Further steps from the end: the same numbers, bit by bit, as one rollout over all steps.

        Time, state and the states of effects (delay lines, bristles, generators of noise, impulses
        of contact) go on; parameters and gains stay. `tau`, wrenches and references are those of
        the further steps, as in `rollout`; `every` stays unless it is given. The first sample is
        the last of this rollout, and the status counts steps from the start of the whole motion.
        Where q was replaced, as by a kick, and loops are open there, they are closed first.
        """
        step = self._require_step()
        every = self.every if every is None else every
        samples, steps_before = sample_count(steps, every), round(float(self.time[-1]) / self.dt)
        require_samples(step, samples)
        q0, v0 = self.q[..., -1, :], self.v[..., -1, :]
        if step.loops and self.residuals is not None:
            left_open = self.residuals[..., -1, step.residual_names.index(LOOPS)]
            q0, v0 = close_moved(step.model, step.loops, q0, v0, left_open)
        # constants of the loop: parameters of the robot, gains, parameters of effects
        constants = self.inputs[len(step.shapes.sampled) + 2 :]
        parameters = dict(zip(step.parameters, constants, strict=False))
        gains = dict(zip(step.law_shapes[1], constants[len(parameters) :], strict=False))
        arguments = loop_arguments(
            step,
            q0=q0,
            v0=v0,
            tau=tau,
            samples=samples,
            dt=self.dt,
            every=every,
            parameters=parameters,
            law_inputs={**gains, **law_inputs},
            wrenches=wrenches,
            arrays=constants[len(constants) - step.array_count :],
            states=[x for x in self.effect_states if x.shape[-1]],
        )
        return run_steps(
            step,
            arguments,
            samples=samples,
            dt=self.dt,
            every=every,
            native=self.native,
            steps_before=steps_before,
        )

    def step_inputs(self, last: bool) -> list[Any]:
        """Inputs of the steps that start at the samples: lists of arrays by batch and time.

        With `last` there is one for the last sample too, with the torques of the one before.
        """
        shapes = self._require_step().shapes
        sampled = len(shapes.sampled)
        residuals = () if self.residuals is None else (self.residuals,)
        carry = (self.q, self.v, *residuals, *(x for x in self.effect_history if x.shape[-1]))
        values: list[Any] = [columns(x if last else x[..., :-1, :]) for x in carry]
        values.insert(CLOCK, np.zeros(()))
        for x in self.inputs[:sampled]:
            row = x[..., -1:, :] if x.shape[-2] else np.zeros((1, x.shape[-1]))
            values.append(columns(np.concatenate([x, row], axis=-2) if last else x))
        constants = zip(self.inputs[sampled:], shapes.constants, strict=True)
        return [*values, *(nested_over_time(x, len(core)) for x, core in constants)]

    def _law_torques(self) -> np.ndarray:
        """Torques given and of the law (..., samples − 1, nv), computed again from the samples."""
        step = self._require_step()
        shape = (*self.q.shape[:-2], self.q.shape[-2] - 1, step.model.nv)
        if any(step.state_sizes) and not self.effect_history:
            return np.full(shape, np.nan)
        with np.errstate(all="ignore"):
            start = step.begin(*self.step_inputs(last=False))
            return stack_scalars(start.plant.torque(start.q, start.v, 0.0), shape[:-1])

    def _require_step(self) -> Step:
        if self.step is None:
            accepted = "it needs one that qddot.simulate.rollout made"
            raise InvalidArgument("rollout", f"of {self.integrator}", accepted)
        return self.step


def run_steps(
    step: Step,
    arguments: Sequence[np.ndarray],
    *,
    samples: int,
    dt: float,
    every: int,
    native: bool,
    steps_before: int = 0,
    out: Sequence[np.ndarray] | None = None,
    on_step: OnStep | None = None,
) -> Rollout:
    """Run the loop of a step on its arguments; time starts after `steps_before` steps."""
    # outputs: trajectories at the samples, and states of effects at the end
    shapes, dtype = step.shapes, arguments[0].dtype
    batch = batch_shape("rollout", arguments, [len(a) for a in shapes.arguments], step.input_names)
    require_samples(step, samples, batch, dtype.itemsize, out is not None)
    path_shapes = [(*batch, samples + 1, *shapes.carry[k]) for k in shapes.path_places]
    paths = [] if out is None else _validate_out(out, path_shapes[:2], dtype)
    paths += [np.empty(shape, dtype) for shape in path_shapes[len(paths) :]]
    ends = [np.empty((*batch, *shapes.carry[k]), dtype) for k in shapes.end_places]

    # steps; the status reports overflows
    on_chunk = partial(on_step, "steps") if on_step else None
    with np.errstate(all="ignore"):
        kernel = None
        if native:
            with suppress(TooLarge):
                kernel = step.kernel()
        if kernel is not None:
            run_scan(
                kernel.gufunc,
                arguments,
                shapes,
                batch=batch,
                every=every,
                results=(*paths, *ends),
                cost=kernel.cost,
                clock=CLOCK,
                on_chunk=on_chunk,
            )
        else:
            _interpret_steps(step, arguments, samples, every, paths, ends, on_chunk)

    # results by name; components without a state have an empty one
    q, v, *history = paths
    residuals = history.pop(0) if step.residual_names else None
    final = [x[..., -1, :] for x in history] if step.record else ends
    inputs = tuple(arguments[len(shapes.carry) : -1])
    time = np.arange(steps_before, steps_before + samples * every + 1, every, dtype=float)
    time *= dt
    return Rollout(
        time=time,
        q=q,
        v=v,
        tau=cast(Any, None) if step.feedback else inputs[0],
        dt=dt,
        integrator=step.integrator,
        effect_states=_by_component(step, final, batch),
        effect_history=_by_component(step, history, batch),
        step=step,
        inputs=inputs,
        residuals=residuals,
        native=kernel is not None,
        every=every,
    )


def _by_component(
    step: Step, states: Sequence[np.ndarray], batch: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """States of all components, from the non-empty ones; none where nothing is recorded."""
    if not states:
        return ()
    remaining = iter(states)
    return tuple(next(remaining) if n else np.empty((*batch, 0)) for n in step.state_sizes)


def _validate_out(
    out: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]], dtype: np.dtype
) -> list[np.ndarray]:
    """The arrays of `out` for q and v, if they fit and do not overlap."""
    if not isinstance(out, tuple | list) or len(out) != len(shapes):
        raise InvalidArgument("out", type(out).__name__, "it is a pair of arrays, for q and v")
    for name, x, shape in zip(("q", "v"), out, shapes, strict=True):
        plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
        if not plain or x.dtype != dtype or not x.flags.writeable:
            accepted = f"it is an array of {dtype}, without a mask, that can be written to"
            raise InvalidArgument(f"out: {name}", getattr(x, "dtype", x), accepted)
        if x.shape != shape:
            raise ShapeMismatch("rollout", f"out: {name}", str(shape), x.shape)
    try:
        overlap = np.shares_memory(out[0], out[1], max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        overlap = True
    if overlap:
        raise InvalidArgument("out", "arrays that share memory", "q and v need memory of their own")
    return list(out)


def _interpret_steps(
    step: Step,
    arguments: Sequence[np.ndarray],
    samples: int,
    every: int,
    paths: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
    on_chunk: Callable[[int, int], None] | None = None,
) -> None:
    """Evaluate the steps in Python, one array over the batch for each scalar."""
    shapes = step.shapes
    carried, read = len(shapes.carry), len(shapes.carry) + len(shapes.sampled)
    # contiguous copies: sines of strided arrays may differ in the last bit
    starts = zip(arguments, shapes.carry, strict=False)
    carry: list[Any] = [
        list(np.moveaxis(x, -1, 0).copy()) if s else np.asarray(x) for x, s in starts
    ]
    constants = [
        nested_lists(x, len(s)) for x, s in zip(arguments[read:], shapes.constants, strict=False)
    ]

    def write_sample(k: int) -> None:
        for path, place in zip(paths, shapes.path_places, strict=True):
            path[..., k, :] = stack_scalars(carry[place])

    write_sample(0)
    for k in range(samples):
        sampled = [nested_lists(x[..., k, :], 1) for x in arguments[carried:read]]
        for _ in range(every):
            flat = iter(step.evaluate(*carry, *sampled, *constants))
            carry = [[next(flat) for _ in range(*s)] if s else next(flat) for s in shapes.carry]
        write_sample(k + 1)
        if on_chunk:
            on_chunk(k + 1, samples)
    for target, place in zip(ends, shapes.end_places, strict=True):
        target[...] = stack_scalars(carry[place])
