"""The arguments of a rollout, checked and brought into the form that its loop takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.memory import SMALL, require_memory
from qddot.simulate.plan import StepPlan

__all__ = [
    "above_zero",
    "loop_arguments",
    "numbers",
    "require_samples",
    "sample_count",
]


_MOST_STEPS = 10**15
_MOST_AXES = 16
"""Batch axes: NumPy has 32 for those and all core axes of a loop together."""


def above_zero(name: str, x: float, what: str = "a number") -> float:
    """A finite number above zero."""
    fits = isinstance(x, int | float | np.floating | np.integer) and not isinstance(x, bool)
    if not fits or not 0.0 < x < np.inf:
        raise InvalidArgument(name, x, f"it is {what} above zero")
    return float(x)


def sample_count(steps: int, every: int) -> int:
    """How many samples are kept."""
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
    plan: StepPlan,
    samples: int,
    batch: tuple[int, ...] = (),
    itemsize: int = 4,
    given: bool = False,
) -> None:
    """Refuse samples that do not fit in memory; q and v need none where arrays are `given`."""
    whole, q_and_v, ends = plan.numbers
    numbers = whole - q_and_v if given else whole
    states = math.prod(batch)
    needed = itemsize * states * (numbers * (samples + 1) + ends) + 8 * (samples + 1)
    if needed < SMALL:
        return

    def remedy(available: int) -> str:
        fit = available // (itemsize * max(1, numbers * states) + 8)
        return f"keep fewer, such as {fit}, with every=… or in parts with continued"

    require_memory(needed, f"a rollout of {states} × {samples + 1} samples", remedy)


def numbers(
    function: str, name: str, x: ArrayLike, core: tuple[int, ...], copy: bool = True
) -> np.ndarray:
    """An array of real numbers with these last axes, that of the caller only without `copy`."""
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
    plan: StepPlan,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None,
    samples: int,
    dt: float,
    every: int,
    parameters: Mapping[str, ArrayLike],
    given: Mapping[str, ArrayLike],
    figures: Sequence[np.ndarray] = (),
    memories: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The arguments of the loop, checked; memories are those before the first step unless given."""
    model, shapes, (references, gains) = plan.model, plan.shapes, plan.law
    rows = samples + (plan.hold == "linear")
    for name in (*references, *gains):
        if name not in given:
            raise InvalidArgument("feedback", plan.feedback, f"it needs {name}=…")
    for name in given:
        if name not in references and name not in gains:
            raise UnknownName("argument", name, (*references, *gains), "rollout")
    each = zip(plan.keepers, plan.kept, strict=True)
    starts = (
        list(memories)
        if memories is not None
        else [np.array(keeper.start(model), float) for keeper, n in each if n]
    )
    if plan.iterations:
        starts.insert(0, np.zeros(len(plan.iterations)))
    q = numbers("rollout", "q0", q0, shapes.carry[0], copy=False)
    v = numbers("rollout", "v0", v0, shapes.carry[1], copy=False)
    nv = model.nv
    torque = _held(np.zeros(nv), rows) if tau is None else _rows("tau", tau, nv, rows)
    torques = [torque[..., :-1, :], torque[..., 1:, :]] if plan.hold == "linear" else [torque]
    inputs = [
        numbers("rollout", name, x, shape)
        for (name, x), shape in zip(parameters.items(), shapes.constants[2:], strict=False)
    ]
    inputs += [numbers("rollout", name, given[name], shape) for name, shape in gains.items()]
    inputs += [numbers("rollout", "figures of effects", x, ()) for x in figures]
    torques += [_rows(name, given[name], n, samples) for name, (n,) in references.items()]
    kind = np.result_type(q, v)
    clock, length, count = (np.array(x, kind) for x in (0.0, dt, every))
    arrays = (q, v, clock, *starts, *torques, length, count, *inputs, count)
    return [x.astype(kind, copy=False) for x in arrays]


def _rows(name: str, x: ArrayLike, n: int, rows: int) -> np.ndarray:
    """A row of numbers a sample; one row for all times is not copied."""
    array = numbers("rollout", name, x, (n,))
    if array.ndim == 1:
        return _held(array, rows)
    if array.shape[-2] not in (1, rows):
        raise ShapeMismatch("rollout", name, f"({n}), or (..., {rows}, {n})", array.shape)
    return np.broadcast_to(array, (*array.shape[:-2], rows, n))


def _held(row: np.ndarray, rows: int) -> np.ndarray:
    """One row at all times, as np.broadcast_to would give it after many more checks."""
    held: np.ndarray = np.ndarray((rows, len(row)), row.dtype, row, strides=(0, *row.strides))
    held.flags.writeable = False
    return held
