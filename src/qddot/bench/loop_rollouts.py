"""Rollouts of closed chains beside mujoco.rollout with its equality constraints."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from qddot import engines
from qddot.analysis import constraints
from qddot.bench.measure import Clock, one_core
from qddot.bench.rollouts import MENAGERIE, RolloutCase, compare_times, run_in_one_thread
from qddot.errors import QddotError
from qddot.loaders import locate_source
from qddot.robot.robot import Robot, load
from qddot.simulate.simulator import make_simulator

__all__ = ["LOOPS", "load_pair", "measure_loops"]

LOOPS: dict[str, tuple[float, ...] | str] = {
    "four_bar": (2.0, -1.2, 0.0),
    "delta": (1.2, -2.0, 0.0) * 3 + (0.0, 0.0, -0.4),
    "cassie": "home",
}
"""Robots with loops, and the configuration that starts are near: numbers, or its name."""
_STATES, _FEW = 1000, 16
_STEP, _STEPS = 1e-3, 20
_SPREAD, _SPEED = 0.05, 0.3


def measure_loops(clock: Clock, name: str, integrator: str) -> dict[str, Any]:
    """The row of a robot with loops: µs a step, and how far its loops come apart, here and there.

    Nothing else acts on the robots: no limits, friction, actuators or contact.
    """
    row: dict[str, Any] = {"robot": name, "integrator": integrator, "status": "ok", "reason": ""}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = _make_case(name, integrator)
            simulator = make_simulator(
                case.robot, dt=_STEP, integrator=integrator, without="passive"
            )
    except (QddotError, ImportError, OSError) as error:
        return {**row, "status": "SKIPPED", "reason": " ".join(str(error).split())}
    ours, few = partial(simulator.rollout, case.q, case.v, steps=_STEPS), case.of(_FEW)
    with run_in_one_thread(few) as engine, one_core():
        found, theirs = ours(), case.adapter.from_q(engine()[..., 1 : 1 + case.model.nq])
        turns = case.turn("qddot", ours), few.turn("MuJoCo", engine)
        seconds = clock.time_interleaved(
            f"{name}: loops, {integrator}", turns, clock.settings.rollout_seconds
        )
    gaps = (np.abs(case.robot.constraint_residual(q)).max() for q in (found.q, theirs))
    mine, other = map(float, gaps)
    size = {"nv": case.robot.nv, "states": len(case.q), "steps": _STEPS}
    return {**row, **size, **compare_times(*seconds), "gap": mine, "mujoco_gap": other}


def load_pair(name: str, integrator: str) -> tuple[Robot, Any]:
    """A robot with loops, and MuJoCo's model of it with nothing but its equality constraints."""
    import mujoco

    file = MENAGERIE / "agility_cassie__cassie.xml" if name == "cassie" else locate_source(name)
    robot: Robot = load(file)
    model = mujoco.MjModel.from_xml_path(str(file))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_ACTUATION
    model.opt.disableflags |= off.mjDSBL_LIMIT | off.mjDSBL_FRICTIONLOSS
    model.dof_damping[:], model.jnt_stiffness[:] = 0.0, 0.0
    methods = {"rk4": mujoco.mjtIntegrator.mjINT_RK4}
    model.opt.integrator = methods.get(integrator, mujoco.mjtIntegrator.mjINT_EULER)
    model.opt.timestep = _STEP
    return robot, model


def _make_case(name: str, integrator: str) -> RolloutCase:
    """A robot with loops here and there, and states near its start where loops are closed."""
    robot, model = load_pair(name, integrator)
    near = LOOPS[name]
    base = robot.configurations[near] if isinstance(near, str) else np.array(near)
    rng = np.random.default_rng(0)
    steps = _SPREAD * rng.uniform(-1.0, 1.0, (_STATES, robot.nv))
    q = constraints.assemble(robot, robot.integrate(base, steps))
    v = constraints.consistent_velocity(robot, q, _SPEED * rng.normal(size=(_STATES, robot.nv)))
    return RolloutCase(robot, model, engines.mujoco(robot, model, check=False), q, v, _STEPS)
