"""Rollouts of robots with all collision shapes of their files on the ground, beside mujoco.rollout.

Two motions: standing on the feet, where few of the shapes touch, and falling in all orientations,
where many do and each state has others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qddot import engines
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.bench.measure import Clock, one_core
from qddot.bench.rollouts import MENAGERIE, RolloutCase, replace_motors, run_in_one_thread
from qddot.control import PD
from qddot.errors import QddotError
from qddot.loaders.named_robots import locate_robot
from qddot.robot.robot import Robot, load
from qddot.simulate.contact import ComplementarityContact, Scene
from qddot.simulate.layout import columns
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import Simulator, make_simulator
from qddot.simulate.status import CONTACT_RESIDUAL

__all__ = ["MOTIONS", "SHAPES", "count_unsolved", "measure_shapes"]

SHAPES: dict[str, tuple[str, str, str, float, float]] = {
    "Go2": ("unitree_go2", "go2", "home", 100.0, 3.0),
    "H1": ("unitree_h1", "h1", "qpos0", 200.0, 10.0),
}
"""Robots of Menagerie: folder, file, posture, and gains (N m/rad, N m s/rad) that hold it."""
MOTIONS = ("standing", "falling")
_STEP, _STEPS = 2e-3, 100
_STATES, _FEW, _SINGLE = 256, 32, 4
"""States of a batch, those of them that MuJoCo starts from, and those that run one at a time."""
_FRICTION = 0.8
_SPREAD, _SPEED = 0.05, 1.0
_ABOVE = 0.02
"""The most height (m) of the lowest point of a robot that falls."""


def measure_shapes(clock: Clock, title: str, motion: str) -> dict[str, Any]:
    """The row of a robot and a motion: µs a step of one state and of a batch, here and there.

    Both have the damping, friction, armature and limits of the file, its shapes but cylinders and
    meshes, on the ground alone, point contact with one coefficient of friction, and PD servos.
    """
    row: dict[str, Any] = {"robot": title, "motion": motion, "status": "ok", "reason": ""}
    folder, name, posture, kp, kd = SHAPES[title]
    try:
        beside = MENAGERIE / f"{folder}__{name}.xml"
        file = beside if beside.is_file() else locate_robot(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            robot = load(file)
        model = _mujoco_model(file, kp, kd)
    except (QddotError, ImportError, OSError, ValueError) as error:
        return {**row, "status": "SKIPPED", "reason": " ".join(str(error).split())}
    scene = Scene.from_file(file, friction=_FRICTION)
    contact, joints = ComplementarityContact(scene), np.arange(robot.nv) >= 6
    simulator = make_simulator(
        robot,
        dt=_STEP,
        integrator="implicit_damping",
        feedback=PD(kp * joints, kd * joints),
        contact=contact,
    )
    home = np.array(robot.configurations[posture])
    q, v = _starts(contact, robot, home, motion)
    compile_s = clock.first(f"{title}: shapes", partial(_compile_seconds, simulator))
    adapter = engines.mujoco(robot, model, check=False)
    case = RolloutCase(robot, model, adapter, q, v, _STEPS)
    run = partial(simulator.rollout, steps=_STEPS, q_ref=home, v_ref=np.zeros(robot.nv))
    batch = run(q, v)
    (mine, theirs, mine_single, theirs_single), states = _time_motions(
        clock, f"{title}: {motion} with all shapes", case, run, home[7:]
    )
    return {
        **row,
        "nv": robot.nv,
        "points": len(contact.sites(robot.model)),
        "states": len(q),
        "steps": _STEPS,
        "us": 1e6 * mine,
        "mujoco_us": 1e6 * theirs,
        "ratio": theirs / mine,
        "single_us": 1e6 * mine_single,
        "mujoco_single_us": 1e6 * theirs_single,
        "single_ratio": theirs_single / mine_single,
        "compile_s": compile_s,
        "unsolved": count_unsolved(batch),
        "height": float(batch.q[:_FEW, -1, 2].mean()),
        "mujoco_height": float(states[:, -1, 3].mean()),
    }


def count_unsolved(batch: Rollout) -> int:
    """Rollouts with a step whose contact did not converge, whatever else is at fault before."""
    largest_residual = batch.effect_states[-1][..., -1]
    return int(np.sum(~(largest_residual <= CONTACT_RESIDUAL)))


def _time_motions(
    clock: Clock, label: str, case: RolloutCase, run: Callable[..., Rollout], posture: np.ndarray
) -> tuple[list[float], np.ndarray]:
    """Seconds a step of a batch here and there, of one state here and there; MuJoCo's states."""
    few, single = case.of(_FEW), case.of(_SINGLE)
    batch, outs = run(case.q, case.v), [run(*x) for x in zip(single.q, single.v, strict=True)]

    def run_batch() -> None:
        run(case.q, case.v, out=(batch.q, batch.v))

    def run_single() -> None:
        for out, q, v in zip(outs, single.q, single.v, strict=True):
            run(q, v, out=(out.q, out.v))

    controls = np.tile(posture, (_FEW, _STEPS, 1))
    with (
        run_in_one_thread(few, control=controls) as engine,
        run_in_one_thread(single, control=controls[:_SINGLE]) as single_engine,
        one_core(),
    ):
        turns = [
            case.turn("qddot", run_batch),
            few.turn("MuJoCo", engine),
            single.turn("qddot, one state", run_single),
            single.turn("MuJoCo, one state", single_engine),
        ]
        seconds = clock.time_interleaved(label, turns, clock.settings.rollout_seconds)
        return seconds, engine()


def _compile_seconds(simulator: Simulator) -> float:
    """CPU seconds until the loop of a simulator is compiled, recording included."""
    start = time.process_time()
    simulator.step.kernel()
    return time.process_time() - start


def _mujoco_model(file: str | Path, kp: float, kd: float) -> Any:
    """MuJoCo's model of a file on a plane, with servos for motors and the shapes that we have."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(file))
    replace_motors(spec, kp, kd)
    kind = mujoco.mjtGeom
    taken = (kind.mjGEOM_SPHERE, kind.mjGEOM_CAPSULE, kind.mjGEOM_BOX)
    for geom in spec.geoms:
        collides = bool(geom.contype or geom.conaffinity) and geom.type in taken
        # with the ground only
        geom.contype, geom.conaffinity = 0, int(collides)
        geom.condim, geom.friction[0] = 3, _FRICTION
    ground = spec.worldbody.add_geom(type=kind.mjGEOM_PLANE, size=[0.0, 0.0, 1.0])
    ground.condim, ground.friction[0] = 3, _FRICTION
    model = spec.compile()
    model.opt.timestep = _STEP
    return model


def _starts(
    contact: ComplementarityContact, robot: Robot, home: np.ndarray, motion: str
) -> tuple[np.ndarray, np.ndarray]:
    """States near the posture on the ground, or in all orientations a little above it, falling."""
    rng = np.random.default_rng(0)
    q = np.tile(home, (_STATES, 1))
    q[:, 7:] += _SPREAD * rng.normal(size=(_STATES, robot.nq - 7))
    v = np.zeros((_STATES, robot.nv))
    above = np.zeros(_STATES)
    if motion == "falling":
        turns = rng.normal(size=(_STATES, 4))
        q[:, 3:7] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        v = _SPEED * rng.normal(size=v.shape)
        above = _ABOVE * rng.uniform(size=_STATES)
    # gaps of all points over the batch; the lowest one is at that height
    poses = world_poses(robot.model, joint_kinematics(robot.model, columns(q))[0])
    gaps = [site.find(poses).gap for site in contact.sites(robot.model)]
    q[:, 2] += above - np.min(np.broadcast_arrays(*gaps), axis=0)
    return q, v
