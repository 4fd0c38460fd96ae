"""Rollouts beside mujoco.rollout: free motion by the same steps, and a quadruped on its feet."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qddot import engines
from qddot.bench.contender import Contender
from qddot.bench.measure import TOLERANCE, Clock, difference, one_core
from qddot.compile.runtime.threads import threads
from qddot.control import PD
from qddot.errors import QddotError
from qddot.loaders import locate_source
from qddot.loaders.named_robots import locate_robot
from qddot.robot.robot import Robot, load
from qddot.simulate.contact import ComplementarityContact, PenaltyContact, Plane, Scene, Sphere
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import rollout

__all__ = [
    "CONTACTS",
    "MENAGERIE",
    "ROLLOUTS",
    "RolloutCase",
    "compare_times",
    "measure_contact",
    "measure_rollout",
    "replace_motors",
    "run_in_one_thread",
]

ROLLOUTS = {
    "UR5e": ("universal_robots_ur5e", "ur5e"),
    "Go2": ("unitree_go2", "go2"),
    "G1": ("unitree_g1", "g1"),
}
"""Robots of Menagerie by title: folder and file."""

MENAGERIE = Path(__file__).resolve().parents[4] / "shared" / "menagerie"
_FEET = Scene(
    planes=[Plane()],
    spheres=[Sphere(f"{leg}_foot", 0.02) for leg in ("FL", "FR", "RL", "RR")],
    friction=0.8,
)
CONTACTS: dict[str, dict[str, Any]] = {
    "penalty": {"effects": [PenaltyContact.soft(_FEET)]},
    "complementarity": {"contact": ComplementarityContact(_FEET, limits=False)},
}
"""The ways in which the built-in quadruped stands on its feet."""
_KP, _KD = 100.0, 3.0
_STEP, _STEPS = 1e-3, 100
_SAME = "implicit_damping"
_WITHOUT = ("friction", "limits")
"""Constraints of MuJoCo, which are disabled there."""
_STATES, _LARGE = 256, 2048
"""From how many states the steps are taken, and for two threads."""
_FEW = 16
"""From how many of the states MuJoCo takes its steps: its turns are as short as ours."""


@dataclass(frozen=True)
class RolloutCase:
    """A robot here and there, the states to start from, and another number of steps if any."""

    robot: Robot
    model: Any
    adapter: engines.Adapter
    q: np.ndarray
    v: np.ndarray
    fewer: int | None = None

    @property
    def steps(self) -> int:
        """Steps that a run takes."""
        return self.fewer or _STEPS

    @property
    def ours(self) -> Callable[..., Rollout]:
        """Takes the steps here."""
        same: dict[str, Any] = {"dt": _STEP, "steps": _STEPS, "integrator": _SAME}
        return partial(rollout, self.robot, self.q, self.v, without=_WITHOUT, **same)

    def runner(self) -> Callable[[], Rollout]:
        """Takes the steps into arrays that are used again, as mujoco.rollout does."""
        first = self.ours()
        return partial(self.ours, out=(first.q, first.v))

    def of(self, states: int) -> RolloutCase:
        """The same from this number of states: the first of them, or all again and again."""
        shapes = (states, self.q.shape[1]), (states, self.v.shape[1])
        return replace(self, q=np.resize(self.q, shapes[0]), v=np.resize(self.v, shapes[1]))

    def turn(self, engine: str, run: Callable[[], Any]) -> Contender:
        """A run of an engine from all states."""
        return Contender(engine, "", len(self.q) * self.steps, run, lambda: ())


def measure_rollout(clock: Clock, title: str) -> dict[str, Any]:
    """The row of a robot: µs a step on one core and on two threads, and those of mujoco.rollout."""
    row: dict[str, Any] = {"robot": title, "status": "ok", "reason": "", "steps": _STEPS}
    try:
        import mujoco

        # the MJCF of a robot: in the folder beside the repository, or of mujoco-menagerie
        folder, name = ROLLOUTS[title]
        beside = MENAGERIE / f"{folder}__{name}.xml"
        file = beside if beside.is_file() else locate_robot(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            robot = load(file)
        model = mujoco.MjModel.from_xml_path(str(file))
        off = mujoco.mjtDisableBit
        model.opt.disableflags |= off.mjDSBL_CONSTRAINT | off.mjDSBL_ACTUATION
        model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, _STEP
        rng = np.random.default_rng(0)
        q, v = robot.random(rng, _STATES), 0.1 * rng.normal(size=(_STATES, robot.nv))
        case = RolloutCase(robot, model, engines.mujoco(robot, model, check=False), q, v)
    except (QddotError, ImportError, OSError) as error:
        return {**row, "status": "SKIPPED", "reason": " ".join(str(error).split())}
    row |= {"nv": case.robot.nv, "states": len(case.q), "integrator": _SAME}
    few = case.of(_FEW)
    with run_in_one_thread(few) as engine:
        found, expected = case.of(3).ours(), engine()[:3]
        there = found.q[:, 1:], found.v[:, 1:]
        apart = difference(_in_mujoco(case, *there), _state_views(case, expected))
        if not apart <= TOLERANCE:
            reason = f"mujoco.rollout differs by {apart:.1e}"
            return {**row, "status": "DISAGREES", "reason": reason}
        with one_core():
            turns = case.turn("qddot", case.runner()), few.turn("MuJoCo", engine)
            mine, theirs = clock.time_interleaved(
                f"{title}: rollout", turns, clock.settings.rollout_seconds
            )
    large = case.of(_LARGE)
    # seconds a step on one thread and on two
    again = large.runner()

    def run(n: int) -> None:
        with threads(n):
            again()

    runs = [large.turn(f"{n} threads", partial(run, n)) for n in (1, 2)]
    seconds = clock.settings.threaded_seconds
    first, second = clock.time_interleaved(f"{title}: rollout, large", runs, seconds)
    return {
        **row,
        "apart": apart,
        **compare_times(mine, theirs),
        "two_states": len(large.q),
        "two_us": 1e6 * second,
        "two_ratio": first / second,
    }


def compare_times(mine: float, theirs: float) -> dict[str, float]:
    """The measurements of seconds a step here and there."""
    return {
        "us": 1e6 * mine,
        "mujoco_us": 1e6 * theirs,
        "ratio": theirs / mine,
        "million_steps_a_second": 1e-6 / mine,
    }


def _in_mujoco(case: RolloutCase, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return case.adapter.to_q(q), case.adapter.to_v(q, v)


def _state_views(case: RolloutCase, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities in MuJoCo's state, after the time."""
    nq, nv = case.model.nq, case.model.nv
    return state[..., 1 : 1 + nq], state[..., 1 + nq : 1 + nq + nv]


@contextmanager
def run_in_one_thread(case: RolloutCase, **inputs: np.ndarray) -> Iterator[Any]:
    """A call of mujoco.rollout in this thread, into arrays that are used again."""
    import mujoco
    from mujoco import rollout as rollouts

    size = mujoco.mj_stateSize(case.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    start = np.zeros((len(case.q), size))
    for target, x in zip(_state_views(case, start), _in_mujoco(case, case.q, case.v), strict=True):
        target[:] = x
    data = mujoco.MjData(case.model)
    state = np.empty((len(start), case.steps, size))
    with rollouts.Rollout(nthread=0) as runner:

        def run() -> np.ndarray:
            runner.rollout(case.model, data, start, nstep=case.steps, state=state, **inputs)
            return state

        yield run


def replace_motors(spec: Any, kp: float, kd: float) -> None:
    """Position servos of these gains at all hinges of a model of MuJoCo, in place of its motors."""
    import mujoco

    for motor in list(spec.actuators):
        spec.delete(motor)
    for joint in (j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_HINGE):
        servo = spec.add_actuator(name=joint.name, target=joint.name)
        servo.trntype = mujoco.mjtTrn.mjTRN_JOINT
        servo.set_to_position(kp=kp, kv=kd)


def measure_contact(clock: Clock, kind: str) -> dict[str, Any]:
    """The row of a way of contact: the quadruped on its four feet, its posture held.

    MuJoCo holds it by position servos of the same gains, with its own contact as it is by default.
    """
    robot = load("quadruped")
    home, posture = robot.configurations["home"], np.arange(robot.nv) >= 6
    rng = np.random.default_rng(0)
    q = np.tile(home, (_STATES, 1))
    q[:, 7:] += 0.05 * rng.normal(size=(len(q), robot.nq - 7))
    v = np.zeros((len(q), robot.nv))
    law = PD(_KP * posture, _KD * posture)
    follow = {"q_ref": home, "v_ref": v[0]}

    def ours() -> Rollout:
        made = CONTACTS[kind]
        bare: dict[str, Any] = {"integrator": "semi_implicit", "without": "passive"}
        return rollout(robot, q, v, dt=_STEP, steps=_STEPS, feedback=law, **bare, **made, **follow)

    # MuJoCo's quadruped with a servo at each joint and without friction there
    import mujoco

    spec = mujoco.MjSpec.from_file(str(locate_source("quadruped")))
    replace_motors(spec, _KP, _KD)
    model = spec.compile()
    model.opt.timestep = _STEP
    model.dof_frictionloss[:], model.dof_damping[:] = 0.0, 0.0
    case = RolloutCase(robot, model, engines.mujoco(robot, model, check=False), q, v)
    few = case.of(_FEW)
    controls = np.tile(home[7:], (len(few.q), _STEPS, 1))
    with run_in_one_thread(few, control=controls) as engine, one_core():
        found, stands = ours(), engine()
        turns = case.turn("qddot", ours), few.turn("MuJoCo", engine)
        mine, theirs = clock.time_interleaved(
            f"{kind}: rollout", turns, clock.settings.rollout_seconds
        )
    return {
        "contact": kind,
        "states": len(q),
        "steps": _STEPS,
        **compare_times(mine, theirs),
        "height": float(found.q[:_FEW, -1, 2].mean()),
        "mujoco_height": float(_state_views(case, stands)[0][:, -1, 2].mean()),
    }
