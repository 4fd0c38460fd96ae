"""Collision: a momentum observer on an arm in motion whose model is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from qddot.analysis.trajectory import fourier
from qddot.control.gains import joint_gains
from qddot.control.joint_space import ComputedTorque
from qddot.control.laboratory.result import Measure, Result
from qddot.control.laboratory.scene import FRAME, Surroundings, laboratory_robot, make_plant
from qddot.control.observers import CollisionObserver, MomentumObserver, wrench_at_frame
from qddot.control.run import run
from qddot.control.trace import Trace
from qddot.display.progress import OnStep
from qddot.robot.robot import Robot, Wrench

__all__ = ["collision"]

_MIDDLE = np.array([0.0, -1.8, 2.2, -1.2, -1.2, 0.0])
_PUSH = 10.0
_ERROR = 0.05
_ONE_BY_ONE = 4
"""Members that MuJoCo runs."""


def _motion(t: float, robot: Robot) -> dict[str, np.ndarray]:
    """A periodic motion of all joints, at rest at its start."""
    rng = np.random.default_rng(3)
    a = 0.15 * rng.standard_normal((2, robot.nv))
    a[1] = -a[0]
    q, v, acc = fourier(_MIDDLE, a, np.zeros_like(a), 2.0 * np.pi * 0.3, t)
    return {"q_ref": q, "v_ref": v, "a_ref": acc}


def collision(
    kind: str = "own",
    quiet: float = 60.0,
    members: int = 12,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Result:
    """Detect a push of 10 N on the moving arm, each link's mass up to 5 % off; and no other.

    Members have their own errors of the model and directions of the push. They run `quiet` seconds
    without contact in sum, then the push comes at the tool.
    """
    robot, rng = laboratory_robot(), np.random.default_rng(seed)
    gains = joint_gains(robot, 20.0, inertia="unit")
    observer = MomentumObserver(ComputedTorque(gains.kp, gains.kd), bandwidth=250.0)
    law = CollisionObserver(observer, uncertainty=_ERROR, floor=0.2)
    # our plant runs all members at once, MuJoCo's one after the other
    count = members if kind == "own" else min(members, _ONE_BY_ONE)
    scale = rng.uniform(1.0 - _ERROR, 1.0 + _ERROR, (count, len(robot.body_names), 1))
    ways = rng.standard_normal((count, 3))
    ways /= np.linalg.norm(ways, axis=-1, keepdims=True)
    inertia = np.asarray(robot.inertial_parameters) * scale
    value = np.concatenate([_PUSH * ways, np.zeros((count, 3))], axis=-1)
    shares: list[Any] = [slice(None)] if kind == "own" else list(range(count))

    def go(share: Any, duration: float, push_at: float) -> Trace:
        plant = make_plant(kind, robot, Surroundings(table=False, inertia=inertia[share]))
        push = Wrench(FRAME, "local_world_aligned", value[share])
        shape = (*value[share].shape[:-1], robot.nq)
        plant.reset(np.broadcast_to(_motion(0.0, robot)["q_ref"], shape))
        choices: dict[str, Any] = {"compiled": True, "on_step": on_step}
        choices["pushes"] = lambda t: [push] if t >= push_at else []
        return run(plant, law, lambda t: _motion(t, robot), duration=duration, **choices)

    at = 1.0
    alone = [go(share, max(quiet / count, 0.1), np.inf) for share in shares]
    touched = [go(share, at + 0.3, at) for share in shares]
    alarms = float(sum(np.sum(np.max(t.memory["collision"], axis=-1)) for t in alone))
    # when the alarm came after the push
    time, dt = touched[0].time, touched[0].dt
    seen = np.concatenate([np.atleast_2d(t.memory["collision"]) for t in touched]) > 0.5
    first = np.where(seen.any(-1), time[np.argmax(seen, axis=-1)] - at, np.inf)
    # the push as the residual tells it, with and without the residual before it
    parts = [(t.memory["residual"], t.memory["threshold"], t.q) for t in touched]
    r, spread, q = (
        np.concatenate([x.reshape(-1, *x.shape[-2:]) for x in same])
        for same in zip(*parts, strict=True)
    )
    k, later = round(at / dt), round(at / dt) + 100
    before = r[:, k - 50 : k].mean(axis=1)
    raw, tared = (
        wrench_at_frame(robot, q[:, later], x, FRAME, True, spread[:, later])[:, :3]
        for x in (r[:, later], r[:, later] - before)
    )
    off = [100.0 * np.linalg.norm(x - value[:, :3], axis=-1) / _PUSH for x in (raw, tared)]
    measures = (
        Measure(f"false alarms in {len(alone[0].time) * dt * count:g} s", alarms, "", 0.0),
        Measure("detection of a 10 N step, slowest", 1e3 * float(first.max()), "ms", 10.0),
        Measure("detection, median", 1e3 * float(np.median(first)), "ms"),
        Measure("force, untared: largest error", float(off[0].max()), "%", 15.0),
        Measure("force, untared: median error", float(np.median(off[0])), "%"),
        Measure("force, tared: largest error", float(off[1].max()), "%", 5.0),
        Measure("force, tared: median error", float(np.median(off[1])), "%"),
    )
    label = "ok" if all(m.holds for m in measures) else "control"
    kept = {} if kind == "own" else {"push": touched[0]}
    return Result("collision", kind, measures, label, (), kept)
