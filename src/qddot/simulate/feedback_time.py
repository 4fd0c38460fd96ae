"""When a law acts in a step: at its start, at the stages, or with its damping at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

import numpy as np

from qddot.algorithms.mass_matrix import mass_matrix
from qddot.errors import InvalidArgument, Unsupported
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.simulate.feedback import Controller, FeedbackTime, LawInputs, Sensor
from qddot.simulate.layout import columns, nested_lists

__all__ = ["choose_feedback_time", "damping_rate", "law_notes"]

_FAST = 1.0
"""Rate of the damping of a law times Δt up to which it is sampled at the start of a step."""
_CONFIGURATIONS = 8


def choose_feedback_time(
    model: Model,
    controller: Controller,
    asked: Any,
    dt: float,
    sensors: Sequence[Sensor],
) -> FeedbackTime:
    """When a law acts: as asked, or else at the start, with its damping at the end if it is fast.

    A law with a period, or behind sensors, is a sampled controller: its torques are held.
    """
    if asked is not None and (not isinstance(asked, str) or asked not in get_args(FeedbackTime)):
        listed = ", ".join(map(repr, get_args(FeedbackTime)))
        raise InvalidArgument("feedback_at", asked, f"it is one of {listed}, or None to choose")
    sampled = controller.period > 1 or bool(sensors)
    if asked in ("end", "stages") and sampled:
        what = "sensors" if controller.period == 1 else "control_every"
        reason = f"a law with {what} is sampled and held: feedback_at='start'"
        raise Unsupported("feedback_at", asked, reason)
    if asked is not None:
        return cast(FeedbackTime, asked)
    fast = not sampled and damping_rate(model, controller, dt) * dt > _FAST
    return "end" if fast else "start"


def law_notes(controller: Controller | None, asked: Any, function: Any) -> tuple[str, ...]:
    """Notes of a status on a law: damping taken at the end of the step, or a slow function."""
    if function is not None:
        return ("feedback is a Python function, called once a sample: slow",)
    if controller is None or asked is not None or controller.time == "start":
        return ()
    return (
        "damping of the feedback law taken at the end of the step, since it is too fast to be "
        "sampled; feedback_at='start' samples it",
    )


def damping_rate(model: Model, controller: Controller, dt: float) -> float:
    """The fastest rate (1/s) of the velocity gains of a law: the largest eigenvalue of M⁻¹ K.

    It is taken at random configurations at rest, with references of zero but for the configuration,
    which is that of the robot, and the largest of gains with batch axes; 0 where the law has no
    finite gains there.
    """
    n = model.nv
    q = Robot(model, native=False).random(np.random.default_rng(0), _CONFIGURATIONS)
    q_columns, v = columns(q), [np.zeros(len(q)) for _ in range(n)]
    recorded, shapes = controller.recorded, controller.references(model)
    references: list[Any] = [
        q_columns if shape == (model.nq,) and model.nq > 0 else [0.0] * int(np.prod(shape))
        for shape in shapes.values()
    ]
    gain_shapes = controller.gains(model)
    gains = [
        nested_lists(np.max(x.reshape(-1, *shape), axis=0), len(shape))
        for x, shape in zip(recorded.gains.values(), gain_shapes.values(), strict=True)
    ]
    felt = [[0.0] * 6 for _ in (recorded.frames if controller.feels_contact else ())]
    state = controller.initial_state(model).tolist()
    inputs = LawInputs(dt, felt, references, gains, state)
    with np.errstate(all="ignore"):
        K, M = (
            np.moveaxis(
                np.array([[np.broadcast_to(x, (len(q),)) for x in row] for row in rows], float),
                -1,
                0,
            )
            for rows in (
                controller.velocity_gains(inputs, q_columns, v),
                mass_matrix(model, q_columns),
            )
        )
    if not np.isfinite(K).all() or not K.any():
        return 0.0
    # M = L Lᵀ: eigenvalues of L⁻¹ K L⁻ᵀ
    half = np.linalg.inv(np.linalg.cholesky(M))
    return float(np.linalg.eigvalsh(half @ K @ half.swapaxes(-1, -2)).max())
