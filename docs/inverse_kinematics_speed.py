"""Measure inverse kinematics beside pink and mink and write the table of its page.

`pip install pin-pink mink daqp` first; what is not installed is left out. Times are CPU time of one
process. Run it with `python docs/inverse_kinematics_speed.py`.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import qddot
from qddot.writers import convert

PAGE = Path(__file__).parent / "inverse-kinematics.md"
TOOL, SOLVES, TOLERANCE, MOST = "panda_hand_tcp", 200, 1e-6, 100

robot = qddot.load("panda")
rng = np.random.default_rng(0)
solutions = robot.random(rng, SOLVES)
targets = robot.frame_pose(solutions, TOOL)
room = 1e-3  # peers refuse starts at a limit
starts = np.clip(
    solutions + rng.normal(0.0, 0.3, solutions.shape),
    robot.limits.lower + room,
    robot.limits.upper - room,
)


def measure(solve: Callable[[], float]) -> tuple[float, float]:
    """Microseconds of CPU time a solve, best of three, and the share that converged."""
    solve()
    best, share = np.inf, 0.0
    for _ in range(3):
        begin = time.process_time()
        share = solve()
        best = min(best, time.process_time() - begin)
    return 1e6 * best, share


def contenders() -> Iterator[tuple[str, int, Callable[[], float]]]:
    """Name, number of solves, and a function that makes them: the share that converged."""
    many = [np.repeat(x, 100, axis=0) for x in (targets, starts)]
    yield (
        f"qddot, batch of {100 * SOLVES:,}",
        100 * SOLVES,
        lambda: float(robot.inverse_kinematics(TOOL, *many, restarts=0).converged.mean()),
    )

    def one_by_one() -> float:
        pairs = zip(targets, starts, strict=True)
        return float(
            np.mean([robot.inverse_kinematics(TOOL, *x, restarts=0).converged for x in pairs])
        )

    yield "qddot, one call a solve", SOLVES, one_by_one
    for name, make in (("pink", pink_solver), ("mink", mink_solver)):
        try:
            yield name, SOLVES, make()
        except ImportError as error:
            print(f"{name} is left out: {error}")


def iterate(error: Callable[[], np.ndarray], step: Callable[[], None]) -> bool:
    """Steps until the error of position and of orientation are within the tolerance."""
    for _ in range(MOST):
        e = error()
        if np.linalg.norm(e[:3]) < TOLERANCE and np.linalg.norm(e[3:]) < TOLERANCE:
            return True
        step()
    return False


def pink_solver() -> Callable[[], float]:
    """One quadratic program an iteration, on Pinocchio."""
    import pink
    import pinocchio

    model = pinocchio.buildModelFromUrdf(str(qddot.loaders.locate_source("panda")))
    data = model.createData()
    task = pink.tasks.FrameTask(TOOL, position_cost=1.0, orientation_cost=1.0, lm_damping=1.0)

    def one(T: np.ndarray, q0: np.ndarray) -> bool:
        state = pink.Configuration(model, data, q0.copy())
        task.set_target(pinocchio.SE3(T))

        def step() -> None:
            state.integrate_inplace(pink.solve_ik(state, [task], 1.0, solver="daqp"), 1.0)

        return iterate(lambda: task.compute_error(state), step)

    return lambda: float(np.mean([one(*x) for x in zip(targets, starts, strict=True)]))


def mink_solver() -> Callable[[], float]:
    """One quadratic program an iteration, on MuJoCo."""
    import mink
    import mujoco

    file = Path(tempfile.mkdtemp()) / "panda.xml"
    convert("panda", file)
    model = mujoco.MjModel.from_xml_path(str(file))
    limits = [mink.ConfigurationLimit(model)]
    task = mink.FrameTask(TOOL, "body", position_cost=1.0, orientation_cost=1.0, lm_damping=1.0)

    def one(T: np.ndarray, q0: np.ndarray) -> bool:
        state = mink.Configuration(model, q=q0.copy())
        task.set_target(mink.SE3.from_matrix(T))

        def step() -> None:
            v = mink.solve_ik(state, [task], 1.0, "daqp", limits=limits)
            state.integrate_inplace(v, 1.0)

        return iterate(lambda: task.compute_error(state), step)

    return lambda: float(np.mean([one(*x) for x in zip(targets, starts, strict=True)]))


if __name__ == "__main__":
    rows = ["| | µs a solve | solved |", "| --- | ---: | ---: |"]
    for name, count, solve in contenders():
        micros, share = measure(solve)
        rows.append(f"| {name} | {micros / count:,.4g} | {100 * share:.1f} % |")
    print("\n".join(rows))
    text = PAGE.read_text("utf-8")
    table = re.compile(r"\| \| µs a solve \|.*?(?=\n\n)", re.S)
    PAGE.write_text(table.sub("\n".join(rows), text), "utf-8")
