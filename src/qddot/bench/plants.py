"""MuJoCo as the plant: the cost of measuring, stepping and reading contacts beside its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qddot.bench.contender import Contender
from qddot.bench.measure import Clock, one_core
from qddot.simulate.mujoco_plant import MujocoPlant

__all__ = ["PLANTS", "measure_plant"]

PLANTS: dict[str, bool] = {"ur5e": False, "quadruped": True}
"""The robots that are measured, and whether they stand on the ground."""
_STEPS, _SETTLING = 50, 400
_STIFFNESS, _DAMPING = 40.0, 1.0


@one_core()
def measure_plant(clock: Clock, name: str) -> dict[str, Any]:
    """The row of a plant: µs a step of MuJoCo alone, and of each call of the plant."""
    import mujoco

    plant = MujocoPlant(name, ground=PLANTS[name])
    robot, model, data = plant.robot, plant.model, plant.data
    home = np.asarray(robot.configurations.get("home", robot.neutral()), float)
    joints = slice(6 if PLANTS[name] else 0, None)
    # held by springs until it rests
    plant.reset(home)
    for _ in range(_SETTLING):
        tau = np.zeros(robot.nv)
        held = _STIFFNESS * robot.difference(plant.q, home) - _DAMPING * plant.v
        tau[joints] = held[joints]
        plant.step(tau)
    start, applied = (plant.q, plant.v), np.array(data.qfrc_applied)
    touching = len(plant.contacts())

    def repeat(call: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            plant.reset(*start)
            data.qfrc_applied[:] = applied
            for _ in range(_STEPS):
                call()

        return run

    calls: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "mj_step": lambda: mujoco.mj_step(model, data),
        "step": lambda: plant.step(tau),
        "measure": plant.measure,
        "contacts": plant.contacts,
    }
    turns = [Contender(n, "a step", _STEPS, repeat(call), tuple) for n, call in calls.items()]
    times = dict(zip(calls, clock.time_interleaved(f"plant {name}", turns), strict=True))
    us = {n: 1e6 * (t - times["nothing"]) for n, t in times.items()}
    us["step"] -= us["mj_step"]
    parts = ("measure", "step", "contacts")
    return {
        "robot": name,
        "contacts": touching,
        "mj_step_us": us["mj_step"],
        **{f"{n}_us": us[n] for n in parts},
        "on_top_us": sum(us[n] for n in parts),
    }
