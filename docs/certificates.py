"""Test the promises of certificates and write their table: `python docs/certificates.py`.

Each robot is certified on the random states of `certify`; its recommendations are then measured
from other states. The table is the end of docs/integrators.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qddot
from qddot.control import ComputedTorque
from qddot.robot.robot import Robot
from qddot.simulate.certificate import STATES, USES, certify
from qddot.simulate.trial import HORIZON, Trial, random_states

PAGE = Path(__file__).parent / "integrators.md"
MARK = "<!-- figures: written by docs/certificates.py -->"
OTHERS = 200
"""States from which a promise is tested."""


@dataclasses.dataclass(frozen=True)
class Promise:
    """A recommendation, its bound, and the errors (N) from states that it was not tested on."""

    use: str
    bound: float
    integrator: str
    dt: float
    measured: float
    errors: np.ndarray

    @property
    def share(self) -> float:
        """Share of the states that keep the bound."""
        return float(np.mean(self.errors <= self.bound))


def check_promises(
    robot: Robot, others: int = OTHERS, integrators: list[str] | None = None, **plant: Any
) -> list[Promise]:
    """The recommendations of a certificate, measured from other random states."""
    found = certify(robot, integrators=integrators, **plant)
    native = Robot(robot.model, native=True)
    law = {name: plant.pop(name) for name in ("feedback", "feedback_at") if name in plant}
    with np.errstate(all="ignore"):
        trial = Trial.of(
            native,
            *random_states(native, np.random.default_rng([7, 7]), others),
            plant={"without": found.without, **law},
            inputs=plant,
        )
        bounds = {use.name: use.error for use in USES}
        return [
            Promise(
                use=x.use,
                bound=bounds[x.use],
                integrator=x.integrator,
                dt=x.dt,
                measured=x.error,
                errors=trial.errors(x.integrator, round(HORIZON / x.dt)),
            )
            for x in found.recommendations
        ]


def with_springs(robot: Robot, stiffness: float) -> Robot:
    """The robot with a spring to the zero position at each joint, N m/rad."""
    bodies = []
    for body in robot.model.bodies:
        drive = dataclasses.replace(body.joint.drivetrain, stiffness=stiffness)
        joint = dataclasses.replace(body.joint, drivetrain=drive)
        bodies.append(dataclasses.replace(body, joint=joint))
    return Robot(dataclasses.replace(robot.model, bodies=tuple(bodies)))


def hold_pose(robot: Robot) -> dict[str, Any]:
    """Computed torque of 10 rad/s at the stages, towards the neutral configuration."""
    zero = np.zeros(robot.nv)
    return {
        "feedback": ComputedTorque(kp=100.0, kd=20.0),
        "feedback_at": "stages",
        "q_ref": robot.neutral(),
        "v_ref": zero,
        "a_ref": zero,
    }


CASES: dict[str, Callable[[], tuple[Robot, dict[str, Any]]]] = {
    "double pendulum": lambda: (qddot.load("double_pendulum"), {}),
    "planar 3R, damping": lambda: (qddot.load("planar_3r"), {}),
    "UR5e": lambda: (qddot.load("ur5e"), {}),
    "UR5e, computed torque": lambda: (robot := qddot.load("ur5e"), hold_pose(robot)),
    "Panda, dry friction": lambda: (qddot.load("panda"), {}),
    "quadrotor": lambda: (qddot.load("quadrotor"), {}),
    "planar 2R, joints of 2·10⁴ N m/rad": lambda: (
        qddot.load("planar_2r").with_flexible_joints(2e4, motor_inertia=0.1),
        {},
    ),
    "planar 3R, springs of 5·10³ N m/rad": lambda: (with_springs(qddot.load("planar_3r"), 5e3), {}),
}


def main() -> None:
    """Measure all cases and write the table."""
    lines = [
        f"| robot | use, bound | recommended | largest error of the {STATES} states tested | "
        f"largest of {OTHERS} others | within the bound |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, make in CASES.items():
        robot, plant = make()
        promises = {x.use: x for x in check_promises(robot, **plant)}
        for use in USES:
            cells = [name, f"{use.name}, {use.error:.0e}", "none", "", "", ""]
            if x := promises.get(use.name):
                largest = x.errors.max()
                cells[2:4] = f"`{x.integrator}`, {1e3 * x.dt:g} ms", f"{x.measured:.0e}"
                cells[4:] = f"{largest:.0e}", f"{100.0 * x.share:.1f} %"
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    head = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
