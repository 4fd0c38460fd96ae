"""The regressor of a log: blocks that stay in the cache beside a loop that stores its results."""

from __future__ import annotations

from typing import Any

import numpy as np

from qddot import engines
from qddot.bench.contender import Contender, Skipped, urdf_of
from qddot.bench.measure import TOLERANCE, Clock, difference, one_core
from qddot.bench.subjects import Subject
from qddot.errors import QddotError

__all__ = ["LOG_ROWS", "measure_log_regressor"]

LOG_ROWS = 30_000
"""Samples of the log: a minute at 500 Hz."""
_BLOCK = 128
_FEW = 500
"""Samples that the loop goes over: its turns are as short as ours."""
_CHECKED = 3


def measure_log_regressor(clock: Clock, subject: Subject) -> dict[str, Any]:
    """The row of an arm: µs a sample of its torque regressor, here and in a loop over Pinocchio."""
    robot = subject.robot
    row: dict[str, Any] = {"robot": subject.title, "status": "ok", "reason": "", "rows": LOG_ROWS}
    rng = np.random.default_rng(0)
    q, v, a = robot.random(rng, LOG_ROWS), *(rng.normal(size=(LOG_ROWS, robot.nv)) for _ in "va")
    fill = robot.compile("torque_regressor", zeros="kept")
    block = robot.empty("torque_regressor", _BLOCK)
    count = LOG_ROWS // _BLOCK * _BLOCK

    def ours() -> None:
        for k in range(0, count, _BLOCK):
            part = slice(k, k + _BLOCK)
            fill(q[part], v[part], a[part], out=block)

    try:
        import pinocchio as pin

        model = pin.buildModelFromUrdf(str(urdf_of(subject)))
        engines.pinocchio(robot, model)  # refuses joints in another order or form
    except (ImportError, QddotError, Skipped, ValueError) as error:
        return {**row, "status": "SKIPPED", "reason": " ".join(str(error).split())}
    data, stored = model.createData(), np.empty((_FEW, model.nv, 10 * (model.njoints - 1)))

    def theirs() -> None:
        for k in range(_FEW):
            stored[k] = pin.computeJointTorqueRegressor(model, data, q[k], v[k], a[k])

    # both regressors give the same torque
    theirs()
    there = np.concatenate([m.toDynamicParameters() for m in list(model.inertias)[1:]])
    mine = robot.torque_regressor(q[:_CHECKED], v[:_CHECKED], a[:_CHECKED])
    torque = mine @ robot.inertial_parameters.ravel()
    apart = difference([torque], [stored[:_CHECKED] @ there])
    if not apart <= TOLERANCE:
        return {**row, "status": "DISAGREES", "reason": f"Pinocchio differs by {apart:.1e}"}
    tau = robot.inverse_dynamics(q, v, a)

    def multiply_whole() -> None:
        Y = robot.torque_regressor(q, v, a).reshape(LOG_ROWS * robot.nv, -1)
        _ = Y.T @ Y, Y.T @ tau.ravel()

    runs = {
        "us": (count, ours),
        "pinocchio_us": (_FEW, theirs),
        "sums_us": (LOG_ROWS, lambda: robot.accumulate("torque_regressor", q, v, a, rhs=tau)),
        "whole_us": (LOG_ROWS, multiply_whole),
    }
    turns = [Contender(key, "", n, run, lambda: ()) for key, (n, run) in runs.items()]
    with one_core():
        times = clock.time_interleaved(f"{subject.title}: regressor of a log", turns)
    found = {key: 1e6 * t for key, t in zip(runs, times, strict=True)}
    return {**row, **found, "ratio": found["pinocchio_us"] / found["us"]}
