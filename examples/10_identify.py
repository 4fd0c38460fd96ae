"""From a plan to an identified URDF, on a virtual robot whose truth is known.

Run with the extra `identify` installed (cvxpy and Clarabel).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import qddot
from qddot import identify
from qddot.writers import convert


def main() -> None:
    """Plan, record, inspect, fit, validate, write."""
    robot = qddot.load("ur5e")
    truth = identify.perturb_robot(robot, 0.15, seed=1)  # the robot in the laboratory

    # a motion that tells much of the parameters, within the limits
    limits = identify.motion_limits(robot, velocity=1.5, acceleration=6.0)
    plan = identify.plan(robot, duration=10.0, limits=limits, iterations=60)
    print(plan)

    # the experiment; with a real robot: plan.write("motion.csv"), then identify.read("log.csv", …)
    log = identify.virtual_log(truth, plan.motion, duration=30.0, rate=250.0, seed=1)
    print(identify.inspect(robot, log))

    # the fit: possible bodies, friction as it is
    train, test = log.split(2 / 3)
    terms = ("armature", "viscous", "coulomb", "offset")
    fit = identify.fit(robot, train, terms, method="feasible")
    print(fit)
    for row in fit.base.rows[:6]:
        print(
            f"  {row.name}: {row.value:.4g} ({row.low:.4g} … {row.high:.4g}), model {row.prior:.4g}"
        )
    print(f"  and {len(fit.refusals)} parameters without a number, such as {fit.refusals[-1]}")
    print(identify.validate(fit, test))
    print(identify.budget(fit))

    # back into a file, and how far gravity is off with it
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "ur5e.urdf", Path(folder) / "identified.urdf"
        convert(robot, source)
        fit.write(source, target)
        identified = qddot.load(target)
    q = robot.random(0, 200)
    for name, r in (("description", robot), ("identified", identified)):
        error = np.abs(r.gravity(q) - truth.gravity(q)).max(axis=0)
        print(f"gravity of the {name} is off by up to", np.round(error, 3), "N m")


if __name__ == "__main__":
    main()
