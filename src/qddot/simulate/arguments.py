"""Arguments of a rollout: validated, and as the arrays that the loop of its step takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from qddot.compile.runtime.memory import SMALL, require_memory
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.simulate.step import Step

__all__ = [
    "loop_arguments",
    "positive_number",
    "real_array",
    "require_samples",
    "sample_count",
]

_MOST_STEPS = 10**15
_MOST_AXES = 16
"""Batch axes: NumPy has 32 for those and all core axes of a loop together."""


def positive_number(name: str, x: float, what: str = "a number") -> float:
    """A finite number above zero."""
    fits = isinstance(x, int | float | np.floating | np.integer) and not isinstance(x, bool)
    if not fits or not 0.0 < x < np.inf:
        raise InvalidArgument(name, x, f"it is {what} above zero")
    return float(x)


def sample_count(steps: int, every: int) -> int:
    """Samples after the first: one every `every` steps."""
    for name, n, least in (("steps", steps, 0), ("every", every, 1)):
        whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if not whole or not least <= n <= _MOST_STEPS:
            raise InvalidArgument(
                name, n, f"it is a whole number from {least} to {_MOST_STEPS:.0e}"
            )
    if steps % every:
        raise InvalidArgument("steps", steps, f"it is a multiple of every={every}")
    return int(steps // every)


def require_samples(
    step: Step,
    samples: int,
    batch: tuple[int, ...] = (),
    itemsize: int = 4,
    has_out: bool = False,
) -> None:
    """Refuse samples that do not fit in memory; with `has_out` q and v are not allocated."""
    per_sample, q_and_v, at_end = step.output_sizes
    allocated = per_sample - q_and_v if has_out else per_sample
    states = math.prod(batch)
    needed = itemsize * states * (allocated * (samples + 1) + at_end) + 8 * (samples + 1)
    if needed < SMALL:
        return

    def remedy(available: int) -> str:
        fit = available // (itemsize * max(1, allocated * states) + 8)
        return f"keep fewer, such as {fit}, with every=… or in parts with Rollout.resume"

    require_memory(needed, f"a rollout of {states} × {samples + 1} samples", remedy)


def real_array(
    function: str, name: str, x: ArrayLike, core: tuple[int, ...], copy: bool = True
) -> np.ndarray:
    """An array of real numbers whose last axes are `core`; a copy unless `copy` is False."""
    label, accepted = f"{function}: {name}", "it needs an array of real numbers"
    try:
        array = np.asarray(x)
        if array.dtype.kind == "O" and not all(isinstance(n, Real) for n in array.flat):
            raise TypeError("an object that is no real number")
        if array.dtype.kind not in "fiubO":
            raise TypeError(f"{array.dtype} is no kind of real numbers")
        kind = np.float32 if array.dtype == np.float32 else np.float64
        array = array.astype(kind, copy=copy)
    except Exception as error:
        # whatever an object that makes itself an array raises
        raise InvalidArgument(label, x, accepted) from error
    if array.ndim < len(core) or array.shape[array.ndim - len(core) :] != core:
        listed = ", ".join(map(str, core))
        raise ShapeMismatch(function, name, f"(..., {listed})", array.shape)
    if array.ndim - len(core) > _MOST_AXES:
        raise InvalidArgument(label, x, f"it has at most {_MOST_AXES} axes for a batch")
    return array


def loop_arguments(
    step: Step,
    *,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None,
    samples: int,
    dt: float,
    every: int,
    parameters: Mapping[str, ArrayLike],
    law_inputs: Mapping[str, ArrayLike],
    wrenches: Mapping[str, ArrayLike] | None = None,
    arrays: Sequence[np.ndarray] = (),
    states: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The arguments of the loop of a step, validated, in the order of its shapes.

    `law_inputs` are references and gains of the feedback law by name, `wrenches` external wrenches
    by frame, zero where none is given, `arrays` the array
    parameters of effects, sensors and contact; `states` are their states, initial ones if None.
    """
    model, shapes, (references, gains) = step.model, step.shapes, step.law_shapes
    missing = [name for name in (*references, *gains) if name not in law_inputs]
    if missing and step.feedback:
        needed = ", ".join(f"{name}=…" for name in missing)
        raise InvalidArgument("feedback", step.feedback.recorded.law, f"it needs {needed}")
    for name in law_inputs:
        if name not in references and name not in gains:
            hint = "" if step.feedback else "a law is given as feedback=…, its references by name"
            raise UnknownName("argument", name, (*references, *gains), "rollout", hint)
    # carry: state, clock, residuals, states of effects
    q = real_array("rollout", "q0", q0, shapes.carry[0], copy=False)
    v = real_array("rollout", "v0", v0, shapes.carry[1], copy=False)
    residuals = [np.zeros(len(step.residual_names))] if step.residual_names else []
    if states is None:
        states = step.initial_states()
    # samples: torques, references
    if hasattr(tau, "command"):
        raise InvalidArgument("rollout: tau", type(tau).__name__, "a law is given as feedback=…")
    if callable(tau):
        accepted = "torques of the state are feedback=…: a Law (docs/control.md), or f(time, q, v)"
        raise InvalidArgument("rollout: tau", tau, f"it needs an array; {accepted}")
    nv, rows = model.nv, samples + (step.hold == "linear")
    torque = _repeat_row(np.zeros(nv), rows) if tau is None else _sample_rows("tau", tau, nv, rows)
    sampled = [torque[..., :-1, :], torque[..., 1:, :]] if step.hold == "linear" else [torque]
    sampled += [
        _sample_rows(name, law_inputs[name], shape, samples) for name, shape in references.items()
    ]
    # external wrenches, zero at frames without one
    wrenches, frames = wrenches or {}, [frame for frame, _ in step.wrenches]
    if not isinstance(wrenches, Mapping):
        raise InvalidArgument("wrenches", wrenches, "it is {frame: array of [force; moment]}")
    for frame in wrenches:
        if frame not in frames:
            raise UnknownName("frame of a wrench", frame, frames, "simulator")
    for frame in frames:
        wrench = wrenches.get(frame, np.zeros(6))
        sampled.append(_sample_rows(f"wrench at {frame!r}", wrench, 6, samples))
    # constants: parameters of the robot, gains, parameters of effects
    constants = [
        real_array("rollout", name, x, shape)
        for (name, x), shape in zip(parameters.items(), shapes.constants[2:], strict=False)
    ]
    constants += [real_array("rollout", name, law_inputs[name], s) for name, s in gains.items()]
    constants += [real_array("rollout", "parameters of effects", x, ()) for x in arrays]
    dtype = np.result_type(q, v)
    clock, length, count = (np.array(x, dtype) for x in (0.0, dt, every))
    carry = (q, v, clock, *residuals, *states)
    inputs = (*carry, *sampled, length, count, *constants, count)
    return [x.astype(dtype, copy=False) for x in inputs]


def _sample_rows(name: str, x: ArrayLike, core: int | tuple[int, ...], rows: int) -> np.ndarray:
    """A flat row a sample of arrays of a shape; a single one is repeated without a copy."""
    shape = (core,) if isinstance(core, int) else core
    array = real_array("rollout", name, x, shape)
    n, batch = math.prod(shape), array.shape[: array.ndim - len(shape)]
    array = array.reshape((*batch, n))
    if array.ndim == 1:
        return _repeat_row(array, rows)
    if array.shape[-2] not in (1, rows):
        listed = ", ".join(map(str, shape))
        expected = f"({listed}), or (..., {rows}, {listed})"
        raise ShapeMismatch("rollout", name, expected, (*batch, *shape))
    return np.broadcast_to(array, (*array.shape[:-2], rows, n))


def _repeat_row(row: np.ndarray, rows: int) -> np.ndarray:
    """A read-only view of one row at all samples; np.broadcast_to takes longer."""
    view: np.ndarray = np.ndarray((rows, len(row)), row.dtype, row, strides=(0, *row.strides))
    view.flags.writeable = False
    return view
