"""Contact: the force of a plant while a ball slides, a constant force held, and a line traced."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.control.force import PHASES, ContactTask, Hybrid
from qddot.control.laboratory.result import Measure, Result
from qddot.control.laboratory.scene import (
    FRAME,
    Surroundings,
    laboratory_robot,
    make_plant,
    start_configuration,
    start_pose,
)
from qddot.control.observers import DisturbanceCompensation, TareForce
from qddot.control.run import Sensing, run
from qddot.control.trace import Trace
from qddot.display.progress import OnStep
from qddot.robot.robot import Robot

__all__ = [
    "FORCE",
    "SlidingForce",
    "contact_law",
    "force_errors",
    "hold",
    "in_phase",
    "planar_errors",
    "slide_ball",
    "trace",
]

FORCE = 5.0
"""Force to press with (N)."""
WAY = (-0.05, 0.0, 0.0)
"""The line to trace (m)."""
_NATURAL = 40.0
_BALL = 10.0


def contact_law(
    hold_time: float = 1.0, settle: float = 1.5, trace_time: float = 2.5, robust: bool = False
) -> Any:
    """The contact task of the laboratory: 5 N on the table, a line of 50 mm.

    With `robust` the force sensor is tared first, and disturbances of the joints are compensated.
    """
    hybrid = Hybrid(
        FRAME,
        selection=np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        kp=_NATURAL**2,
        kd=2.0 * _NATURAL,
    )
    task = ContactTask(
        hybrid,
        np.array(WAY),
        force=FORCE,
        speed=0.03,
        settle=settle,
        trace=trace_time,
        hold=hold_time,
    )
    return TareForce(DisturbanceCompensation(task), 0.2) if robust else task


@dataclass(frozen=True)
class SlidingForce:
    """The normal force on a ball that is pressed with a constant force and slides.

    `lost` is the share of time out of contact, `within` that within ± 5 % of the force.
    """

    lost: float
    within: float

    @property
    def is_steady(self) -> bool:
        """Whether sliding leaves the normal force alone."""
        return self.lost == 0.0 and self.within >= 0.99


def slide_ball(
    kind: str, around: Surroundings | None = None, speed: float = 0.02, mass: float = _BALL
) -> SlidingForce:
    """Press a ball with 5 N, slide it at a speed, and look at the normal force; no robot is in it.

    Its `mass` is about what the arm is felt as along the normal, unless it is given (kg).
    """
    around = around or Surroundings(friction=0.6)
    # a ball on three slides, its frame as the tool of the arm: z down
    links: list[Any] = [{"name": "ground", "parent": None, "joint": "fixed"}]
    for name, axis, own in (("x", (1, 0, 0), 0.0), ("y", (0, 1, 0), 0.0), ("z", (0, 0, 1), mass)):
        links.append(
            {
                "name": f"slide_{name}",
                "parent": links[-1]["name"],
                "joint": "prismatic",
                "axis": axis,
                "mass": own,
                "inertia": [1e-2] * 3 if own else None,
            }
        )
    frame = {"name": FRAME, "link": "slide_z", "rotation": np.diag([1.0, -1.0, -1.0])}
    robot = Robot.from_links("slider", links, frames=[frame])
    plant = make_plant(kind, robot, around)
    plant.reset(np.zeros(3))
    force, weight = [], 9.81 * mass
    for k in range(2500):
        # the slide follows its speed, the press is constant
        moving = speed * min(1.0, max(0.0, (k - 500) / 100.0))
        q, v = plant.q, plant.v
        pull = [2000.0 * (moving - v[0]), -2000.0 * v[1] - 1e4 * q[1]]
        plant.step(np.array([*pull, weight - FORCE]))
        if k >= 1000:
            force.append(plant.wrench(FRAME)[2])
    normal = np.array(force)
    within = float(np.mean(np.abs(normal - FORCE) <= 0.05 * FORCE))
    return SlidingForce(float(np.mean(normal < 1e-6)), within)


def in_phase(found: Trace, name: str) -> np.ndarray:
    """Samples of a contact task that belong to a phase."""
    return np.round(found.memory["phase"]) == PHASES.index(name)


def force_errors(found: Trace, name: str) -> np.ndarray:
    """Error (N) of the normal force at the samples of a phase."""
    return found.wrenches[FRAME][in_phase(found, name), 2] - FORCE


def planar_errors(robot: Robot, found: Trace, name: str) -> np.ndarray:
    """Distance (m) of the tool from where it should be, along the table, in a phase."""
    there = in_phase(found, name)
    p = robot.frame_pose(found.q[there], FRAME)[..., :2, 3]
    return np.linalg.norm(p - found.memory["target"][there][:, :2], axis=-1)


def _judge(found: Trace, phase: str, measures: list[Measure]) -> str:
    """Label of a contact run."""
    if not np.isfinite(found.q).all():
        return "state"
    if not in_phase(found, phase).any():
        return "evaluation"
    if all(m.holds for m in measures):
        return "ok"
    return (
        "contact" if (found.wrenches[FRAME][in_phase(found, phase), 2] <= 0.0).any() else "control"
    )


def hold(
    kind: str = "own",
    duration: float = 5.0,
    around: Surroundings | None = None,
    sensing: Sensing | None = None,
    on_step: OnStep | None = None,
) -> Result:
    """Approach the table, press with 5 N and hold for a time."""
    robot = laboratory_robot()
    plant = make_plant(kind, robot, around)
    plant.reset(start_configuration(robot, 0.005))
    law = dataclasses.replace(contact_law(hold_time=1e3, trace_time=1e-3), way=np.zeros(3))
    start = {"X_start": start_pose(0.005)}
    found = run(
        plant, law, start, duration=duration + 2.0, sensing=sensing, compiled=True, on_step=on_step
    )
    error, way = force_errors(found, "hold"), planar_errors(robot, found, "hold")
    if not len(error):
        return Result("hold", kind, (), "evaluation", ("contact was not made",), {"hold": found})
    measures = [
        Measure("mean force less 5 N", float(abs(error.mean())), "N", 0.01, published="0.11"),
        Measure("time within ± 0.05 N", 100.0 * float(np.mean(np.abs(error) <= 0.05)), "%", 100.0,
                "≥", published="99.96 % within ± 1 N"),
        Measure("largest force error", float(np.abs(error).max()), "N"),
        Measure("largest error along the table", 1e3 * float(way.max()), "mm", 0.05,
                published="3.60"),
    ]  # fmt: skip
    return Result(
        "hold", kind, tuple(measures), _judge(found, "hold", measures), (), {"hold": found}
    )


def trace(
    kind: str = "own",
    around: Surroundings | None = None,
    sensing: Sensing | None = None,
    on_step: OnStep | None = None,
) -> Result:
    """Trace a line of 50 mm at 5 N, after a ball has shown that sliding leaves the force alone."""
    robot = laboratory_robot()
    around = around or Surroundings()
    sliding = slide_ball(kind, around)
    plant = make_plant(kind, robot, around)
    plant.reset(start_configuration(robot, 0.005))
    start = {"X_start": start_pose(0.005)}
    found = run(
        plant, contact_law(), start, duration=5.3, sensing=sensing, compiled=True, on_step=on_step
    )
    error, way = force_errors(found, "trace"), planar_errors(robot, found, "trace")
    if not len(error):
        return Result("trace", kind, (), "evaluation", ("no line was traced",), {"trace": found})
    measures = [
        Measure("sliding ball: time out of contact", 100.0 * sliding.lost, "%", 0.0),
        Measure("sliding ball: time within ± 5 %", 100.0 * sliding.within, "%", 99.0, "≥"),
        Measure("time within ± 0.25 N", 100.0 * float(np.mean(np.abs(error) <= 0.25)), "%", 100.0,
                "≥", published="94.07 % within ± 1 N"),
        Measure("largest force error", float(np.abs(error).max()), "N"),
        Measure("largest error along the table", 1e3 * float(way.max()), "mm", 0.2,
                published="1.70"),
    ]  # fmt: skip
    label = _judge(found, "trace", measures) if sliding.is_steady else "contact"
    told = "the plant's contact force is not steady while sliding: no law is to blame"
    notes = () if sliding.is_steady else (told,)
    return Result("trace", kind, tuple(measures), label, notes, {"trace": found})
