"""Contact-free rollouts beside mujoco.rollout: the same robots, states and steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qddot import adapt
from qddot.bench.contender import Contender
from qddot.bench.measure import TOLERANCE, Settings, difference, interleaved, one_core
from qddot.compile.threads import threads
from qddot.errors import QddotError
from qddot.loaders.named import locate
from qddot.robot import Robot, load
from qddot.simulate.rollout import Rollout, rollout

__all__ = ["ROLLOUTS", "measure_rollout"]

ROLLOUTS = {
    "UR5e": ("universal_robots_ur5e", "ur5e"),
    "Go2": ("unitree_go2", "go2"),
    "G1": ("unitree_g1", "g1"),
}
"""Robots of Menagerie by title: folder and file."""

_FOLDER = Path(__file__).resolve().parents[4] / "shared" / "menagerie"
_STEP, _STEPS = 1e-3, 100
_SAME = "implicit_damping"
_STATES = {True: 256, False: 64}


@dataclass(frozen=True)
class _Case:
    """A robot here and there, and the states to start from."""

    robot: Robot
    model: Any
    adapter: adapt.Adapter
    q: np.ndarray
    v: np.ndarray

    def ours(self, batch: int | None = None) -> Rollout:
        """The steps here."""
        q, v = self.q[:batch], self.v[:batch]
        return rollout(self.robot, q, v, dt=_STEP, steps=_STEPS, integrator=_SAME)


def measure_rollout(title: str, settings: Settings) -> dict[str, Any]:
    """The row of a robot: µs a step on one core and on two threads, and those of mujoco.rollout."""
    row: dict[str, Any] = {"robot": title, "status": "ok", "reason": "", "steps": _STEPS}
    try:
        case = _case(title)
    except (QddotError, ImportError, OSError) as error:
        return {**row, "status": "SKIPPED", "reason": " ".join(str(error).split())}
    row |= {"nv": case.robot.nv, "states": len(case.q), "integrator": _SAME}
    with _one_thread(case) as engine:
        found, expected = case.ours(3), engine()[:3]
        there = found.q[:, 1:], found.v[:, 1:]
        apart = difference(_in_mujoco(case, *there), _split(case, expected))
        if not apart <= TOLERANCE:
            reason = f"mujoco.rollout differs by {apart:.1e}"
            return {**row, "status": "DISAGREES", "reason": reason}
        with one_core():
            mine, theirs = _timed(case, engine, settings)
    first, second = _two_threads(case, settings)
    return {
        **row,
        "apart": apart,
        "us": 1e6 * mine,
        "mujoco_us": 1e6 * theirs,
        "ratio": theirs / mine,
        "million_steps_a_second": 1e-6 / mine,
        "two_us": 1e6 * second,
        "two_ratio": first / second,
    }


def _timed(case: _Case, engine: Any, settings: Settings) -> list[float]:
    n = len(case.q) * _STEPS
    pair = [
        Contender("qddot", "rollout", n, case.ours, lambda: ()),
        Contender("MuJoCo", "mujoco.rollout", n, engine, lambda: ()),
    ]
    return interleaved(pair, settings)


def _two_threads(case: _Case, settings: Settings) -> list[float]:
    """Seconds a step on one thread and on two, of a batch eight times as large."""
    large = _Case(
        case.robot, case.model, case.adapter, *(np.tile(x, (8, 1)) for x in (case.q, case.v))
    )

    def run(n: int) -> None:
        with threads(n):
            large.ours()

    turns = [
        Contender("qddot", f"{n} threads", len(large.q) * _STEPS, partial(run, n), lambda: ())
        for n in (1, 2)
    ]
    return interleaved(turns, settings)


def _file(title: str) -> Path:
    """The MJCF of a robot: in the folder beside the repository, or of mujoco-menagerie."""
    folder, name = ROLLOUTS[title]
    beside = _FOLDER / f"{folder}__{name}.xml"
    return beside if beside.is_file() else locate(folder)


def _case(title: str) -> _Case:
    import mujoco

    file = _file(title)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = load(file)
    model = mujoco.MjModel.from_xml_path(str(file))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONSTRAINT | off.mjDSBL_ACTUATION
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, _STEP
    rng = np.random.default_rng(0)
    states = _STATES[robot.nv <= 12]
    q, v = robot.random(rng, states), 0.1 * rng.normal(size=(states, robot.nv))
    return _Case(robot, model, adapt.mujoco(robot, model, check=False), q, v)


def _in_mujoco(case: _Case, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return case.adapter.to_q(q), case.adapter.to_v(q, v)


def _split(case: _Case, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities in MuJoCo's state, after the time."""
    nq, nv = case.model.nq, case.model.nv
    return state[..., 1 : 1 + nq], state[..., 1 + nq : 1 + nq + nv]


@contextmanager
def _one_thread(case: _Case) -> Iterator[Any]:
    """What runs mujoco.rollout in this thread, into arrays that are used again."""
    import mujoco
    from mujoco import rollout as rollouts

    size = mujoco.mj_stateSize(case.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    start = np.zeros((len(case.q), size))
    for target, x in zip(_split(case, start), _in_mujoco(case, case.q, case.v), strict=True):
        target[:] = x
    data = mujoco.MjData(case.model)
    state = np.empty((len(start), _STEPS, size))
    with rollouts.Rollout(nthread=0) as runner:

        def run() -> np.ndarray:
            runner.rollout(case.model, data, start, nstep=_STEPS, state=state)
            return state

        yield run
