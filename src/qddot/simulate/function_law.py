"""Plain Python functions as laws: one call a sample for the whole batch, outside compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, ShapeMismatch, Unsupported
from qddot.robot.functions import CompiledFunction
from qddot.simulate.arguments import real_array, sample_count
from qddot.simulate.feedback import Sensor
from qddot.simulate.rollout import Rollout

__all__ = ["TorqueFunction", "require_plain_steps", "run_function_law"]

TorqueFunction = Callable[[float, np.ndarray, np.ndarray], ArrayLike]
"""Torques (..., nv) at a time, from q (..., nq) and v (..., nv) of all rollouts of a batch."""


def require_plain_steps(
    law: TorqueFunction, control_every: int, time: Any, hold: str, sensors: Sequence[Sensor]
) -> None:
    """Refuse functions of other arguments, and what only laws inside a compiled step have."""
    if isinstance(law, CompiledFunction) and len(law.row.inputs) != 3:
        names = ", ".join(argument.name for argument in law.row.inputs)
        wrapped = f"feedback=lambda time, q, v: f({names}) calls it"
        raise Unsupported(
            "feedback",
            law,
            f"it is a function of {names}; {wrapped}, or write a "
            "Law (docs/control.md), which is compiled into the steps",
        )
    refused = {
        "control_every": (control_every, control_every != 1, "every= is its period"),
        "feedback_at": (time, time not in (None, "start"), "it acts at the start of a sample"),
        "hold": (hold, hold != "zero", "its torques are held"),
        "sensors": (sensors, bool(sensors), "add noise and delays in the function"),
    }
    for name, (value, given, reason) in refused.items():
        if given:
            told = f"a law that is a Python function is called once a kept sample: {reason}"
            raise Unsupported(name, value, told)


def run_function_law(
    law: TorqueFunction,
    run: Callable[..., Rollout],
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None,
    *,
    steps: int,
    every: int,
    wrenches: Mapping[str, ArrayLike] | None,
    on_step: OnStep | None,
) -> Rollout:
    """The rollout under a law that is called at every kept sample, and the given torques.

    Its `tau` are all torques, as if they had been given. `run` rolls out without the law.
    """
    samples = sample_count(steps, every)
    motion = run(q0, v0, None, steps=0, every=every)
    (*batch, _, nv), parts = motion.v.shape, [motion]
    given = _rows("tau", np.zeros(nv) if tau is None else tau, nv, samples)
    if wrenches is not None and not isinstance(wrenches, Mapping):
        raise InvalidArgument("wrenches", wrenches, "it is {frame: array of [force; moment]}")
    pushes = {
        name: _rows(f"wrench at {name!r}", x, 6, samples) for name, x in (wrenches or {}).items()
    }
    torques = np.zeros((*batch, samples, nv), motion.v.dtype)
    for k in range(samples):
        q, v = (np.array(x[..., -1, :]) for x in (motion.q, motion.v))
        command = real_array(
            "feedback", "torques of the law", law(float(motion.time[-1]), q, v), ()
        )
        try:
            torques[..., k, :] = given[..., min(k, given.shape[-2] - 1), :] + command
        except ValueError:
            expected = f"{(*batch, nv)}"
            raise ShapeMismatch("feedback", "torques of the law", expected, command.shape) from None
        now = {name: x[..., [min(k, x.shape[-2] - 1)], :] for name, x in pushes.items()}
        motion = motion.resume(torques[..., [k], :], steps=every, every=every, wrenches=now)
        parts.append(motion)
        if on_step and (k % 100 == 0 or k == samples - 1):
            on_step("steps", (k + 1) * every, steps)
    return _join(parts, torques, pushes)


def _rows(name: str, x: ArrayLike, n: int, samples: int) -> np.ndarray:
    """Rows by sample, or one for all of them."""
    array = real_array("rollout", name, x, (n,))
    array = array[None] if array.ndim == 1 else array
    if array.shape[-2] not in (1, samples):
        raise ShapeMismatch("rollout", name, f"({n}), or (..., {samples}, {n})", array.shape)
    return array


def _join(
    parts: Sequence[Rollout], torques: np.ndarray, pushes: Mapping[str, np.ndarray]
) -> Rollout:
    """Rollouts of one sample each, one after the other, as one under given torques."""
    last, samples = parts[-1], torques.shape[-2]

    def over_time(first: np.ndarray, rest: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([first, *(x[..., 1:, :] for x in rest)], axis=-2)

    step: Any = last.step
    sampled = len(step.shapes.sampled)
    rows = [torques]
    for frame, _ in step.wrenches:
        x = pushes.get(frame, np.zeros((1, 6)))
        rows.append(np.broadcast_to(x, (*x.shape[:-2], samples, 6)).astype(torques.dtype))
    found = [x.residuals for x in parts if x.residuals is not None]
    residuals = np.maximum.accumulate(over_time(found[0], found[1:]), axis=-2) if found else None
    histories = zip(*(x.effect_history for x in parts), strict=True)
    return replace(
        last,
        time=np.concatenate([parts[0].time, *(x.time[1:] for x in parts[1:])]),
        q=over_time(parts[0].q, [x.q for x in parts[1:]]),
        v=over_time(parts[0].v, [x.v for x in parts[1:]]),
        tau=torques,
        effect_history=tuple(over_time(first, rest) for first, *rest in histories),
        inputs=(*rows, *last.inputs[sampled:]),
        residuals=residuals,
    )
