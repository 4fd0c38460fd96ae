"""Compliance: how far a Cartesian spring gives under a push."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qddot.control.laboratory.result import Measure, Result
from qddot.control.laboratory.scene import (
    FRAME,
    Surroundings,
    laboratory_robot,
    make_plant,
    start_configuration,
)
from qddot.control.run import run
from qddot.control.task_space import CartesianImpedance, impedance_damping
from qddot.control.trace import Trace
from qddot.display.progress import OnStep
from qddot.robot.robot import Wrench

__all__ = ["compliance"]

_PUBLISHED = {500.0: "43", 2000.0: "17"}
_ROTATION = 100.0


def _deflection(
    kind: str,
    stiffness: float,
    force: float,
    friction: float,
    ki: float | None,
    on_step: OnStep | None,
) -> tuple[float, Trace]:
    """Way (m) along the push after it has settled, and the run."""
    robot = laboratory_robot()
    q0 = start_configuration(robot, 0.3)
    plant = make_plant(kind, robot, Surroundings(table=False, joint_friction=friction))
    plant.reset(q0)
    X = robot.frame_pose(q0, FRAME)
    push = Wrench(FRAME, "local_world_aligned", [0.0, force, 0.0, 0.0, 0.0, 0.0])
    still = {"X_ref": X, "V_ref": np.zeros(6), "A_ref": np.zeros(6)}
    # damped for the inertia at this pose
    K = np.repeat([stiffness, _ROTATION], 3)
    law = CartesianImpedance(FRAME, K, impedance_damping(robot, q0, FRAME, K), ki=ki)
    duration = 4.0 if ki is None else 6.0
    trace = run(plant, law, still, duration=duration, pushes=[push], compiled=True, on_step=on_step)
    return float(robot.frame_pose(plant.q, FRAME)[1, 3] - X[1, 3]), trace


def compliance(
    kind: str = "own",
    force: float = 40.0,
    stiffness: Sequence[float] = (500.0, 2000.0),
    friction: float = 1.0,
    on_step: OnStep | None = None,
) -> Result:
    """Deflection of Cartesian springs under a push: F / K, and with joint friction (N m)."""
    measures, traces = [], {}
    for K in stiffness:
        expected = force / K
        found, trace = _deflection(kind, K, force, 0.0, None, on_step)
        name = f"{force:g} N at {K:g} N/m: deflection"
        measures.append(Measure(name, 1e3 * found, "mm", published=_PUBLISHED.get(K, "")))
        off = 100.0 * abs(found / expected - 1.0)
        measures.append(Measure(f"  error of {1e3 * expected:.1f} mm", off, "%", 0.1))
        traces[f"{K:g} N per m"] = trace
        # with friction: the integral of the imbalance needs the measured wrench
        ways = ((5.0, "wrench measured", 2.0), (None, "not measured", None))
        for ki, words, bound in ways if friction else ():
            found, trace = _deflection(kind, K, force, friction, ki, on_step)
            off = 100.0 * abs(found / expected - 1.0)
            name = f"  with {friction:g} N m joint friction, {words}: error"
            measures.append(Measure(name, off, "%", bound))
            traces[f"{K:g} N per m, friction, {words}"] = trace
    label = "ok" if all(m.holds for m in measures) else "control"
    return Result("compliance", kind, tuple(measures), label, (), traces)
