"""Measure rollouts of closed chains and write their table: `python docs/loops.py [case …]`.

Each robot moves for 10 s by rk4 steps of 1 ms without losses, from 1,000 random states; its time a
step is taken beside mujoco.rollout with its equality constraints, from the same states. Results
are kept in docs/loops.json, so that one case can be run again by itself. The table is the end of
docs/constraints.md.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qddot import engines
from qddot.analysis import constraints
from qddot.bench.loop_rollouts import LOOPS, load_pair
from qddot.bench.measure import one_core
from qddot.bench.rollouts import RolloutCase, run_in_one_thread
from qddot.robot.robot import Robot
from qddot.simulate.simulator import make_simulator
from qddot.simulate.status import PART_ERROR
from qddot.simulate.step import DIVISION

FOLDER = Path(__file__).parent
PAGE, KEPT = FOLDER / "constraints.md", FOLDER / "loops.json"
MARK = "<!-- figures: written by docs/loops.py -->"
DT, SECONDS, STATES, EVERY = 1e-3, 10.0, 1000, 50
FEW, TIMED, REPEATS = 16, 100, 5
"""States of MuJoCo, steps, and repeats of a timing, of which the best counts."""


@dataclass(frozen=True)
class Case:
    """Random states: guesses about a configuration, assembled, with consistent velocities.

    A guess is up to `spread` (rad, m) off in each coordinate; a velocity has a random direction
    and a largest entry up to `speed` (rad/s, m/s).
    """

    robot: str
    spread: float
    speed: float
    gravity: float = 1.0

    def states(self, robot: Robot, count: int) -> tuple[np.ndarray, np.ndarray]:
        """So many states; guesses that cannot be assembled are drawn again."""
        near, rng = LOOPS[self.robot], np.random.default_rng(1)
        base = robot.configurations[near] if isinstance(near, str) else np.array(near)
        found = np.empty((0, robot.nq))
        while len(found) < count:
            moves = self.spread * rng.uniform(-1.0, 1.0, (count, robot.nv))
            q = constraints.assemble(robot, robot.integrate(base, moves), strict=False)
            found = np.concatenate([found, q[np.isfinite(q).all(-1)]])
        q = found[:count]
        v = constraints.consistent_velocity(robot, q, rng.normal(size=(count, robot.nv)))
        size = self.speed * rng.uniform(0.0, 1.0, (count, 1))
        return q, v * size / np.abs(v).max(-1, keepdims=True)


CASES = {
    "four-bar, gentle": Case("four_bar", 0.05, 1.0),
    "four-bar, harsh": Case("four_bar", 3.0, 30.0),
    "delta, gentle": Case("delta", 0.05, 1.0),
    "delta, harsh": Case("delta", 0.3, 10.0),
    "Cassie, gentle": Case("cassie", 0.05, 1.0),
    "Cassie without weight, harsh": Case("cassie", 0.2, 5.0, gravity=0.0),
}


def measure(case: Case, states: int = STATES, seconds: float = SECONDS) -> dict[str, Any]:
    """Violation, drift by percentiles, errors of parts and times of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot, model = load_pair(case.robot, "rk4")
        model.opt.gravity[:] = case.gravity * model.opt.gravity
        gravity = model.opt.gravity.copy()
        q, v = case.states(robot, states)
        simulator = make_simulator(
            robot, dt=DT, integrator="rk4", without="passive", parameters=["gravity"]
        )
        given = {"parameters": {"gravity": gravity}}
        found = simulator.rollout(q, v, steps=round(seconds / DT), every=EVERY, **given)
    T = robot.kinetic_energy(found.q, found.v)
    V = case.gravity * robot.potential_energy(found.q)
    drift = np.abs(T + V - (T + V)[:, :1]).max(-1) / T.max(-1)
    error = found.residuals[:, -1, found.step.residual_names.index(DIVISION)]
    row: dict[str, Any] = {
        "states": states,
        "violation": float(np.abs(robot.constraint_residual(found.q)).max()),
        "drift": [float(x) for x in np.percentile(drift, [50, 99, 100])],
        "within": int(np.sum(drift <= 1e-6)),
        "error": float(error.max()),
        # a label is that of the first fault, and joints pass their limits, which are switched off
        "not_converged": int(np.sum(~(error <= PART_ERROR))),
        "speed": float(np.abs(found.v).max()),
    }
    # times a step over the middle of the motion, on one core
    middle = found.q.shape[1] // 2
    q, v = found.q[:, middle], found.v[:, middle]
    pair = RolloutCase(robot, model, engines.mujoco(robot, model, check=False), q, v, TIMED)
    few = pair.of(FEW)
    with run_in_one_thread(few) as engine, one_core():
        mine = best_time(lambda: simulator.rollout(q, v, steps=TIMED, every=TIMED, **given))
        theirs = best_time(engine)
    row["us"] = 1e6 * mine / (TIMED * states)
    row["mujoco_us"] = 1e6 * theirs / (TIMED * FEW)
    return row


def best_time(run: Callable[[], Any]) -> float:
    """The least seconds of some repeats."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def rows(kept: dict[str, dict[str, Any]]) -> list[str]:
    """The table, from the results that are kept."""
    lines = [
        "| 10 s, rk4, 1 ms | starts: spread, speed | open by | drift: median, 99 %, largest | "
        "within 1e-6 | error of a part | µs a step | MuJoCo | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in kept.items():
        case = CASES[name]
        drift = ", ".join(f"{x:.0e}" for x in row["drift"])
        lines.append(
            f"| {name} | {case.spread:g} rad or m, {case.speed:g} rad/s | {row['violation']:.0e} | "
            f"{drift} | {row['within']} of {row['states']} | {row['error']:.0e} | "
            f"{row['us']:.2f} | {row['mujoco_us']:.1f} | {row['mujoco_us'] / row['us']:.0f} × |"
        )
    return lines


def main() -> None:
    """Measure the cases that are asked for, or all, and write the table."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for name in sys.argv[1:] or CASES:
        kept[name] = measure(CASES[name])
        print(name, kept[name], flush=True)
        kept = {key: kept[key] for key in CASES if key in kept}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    head = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n" + "\n".join(rows(kept)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
