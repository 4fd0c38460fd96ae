"""Tracking: five laws side by side on fast motions with friction, and a stretch of the arm."""

from __future__ import annotations

from typing import Any

import numpy as np

from qddot.analysis.trajectory import quintic
from qddot.control.gains import joint_gains
from qddot.control.joint_space import PD, ComputedTorque, Feedforward, SlotineLi
from qddot.control.laboratory.result import Measure, Result
from qddot.control.laboratory.scene import Surroundings, laboratory_robot, make_plant
from qddot.control.run import run
from qddot.control.task_space import OperationalSpace
from qddot.control.trace import Trace
from qddot.control.wrappers import FrictionCompensation
from qddot.display.progress import OnStep
from qddot.robot.robot import Robot

__all__ = ["singular_stretch", "tracking", "tracking_laws"]

FRICTION = 0.5
"""Coulomb friction of each joint (N m)."""
_MOVE, _PAUSE = 0.8, 0.2
_MIDDLE = np.array([0.0, -0.3, 0.0, -1.9, 0.0, 1.7, 0.0])


def tracking_laws(robot: Robot, omega: float = 30.0) -> dict[str, Any]:
    """Five laws of the same bandwidth, from the least model to the most."""
    gains, unit = (joint_gains(robot, omega, q=_MIDDLE, inertia=i) for i in ("free", "unit"))
    computed = ComputedTorque(unit.kp, unit.kd)
    return {
        "PD + gravity": PD(gains.kp, gains.kd, gravity=True),
        "feedforward without C": Feedforward(gains.kp, gains.kd),
        "Slotine–Li": SlotineLi(omega, gains.kd),
        "computed torque": computed,
        "computed torque + friction": FrictionCompensation(computed, FRICTION, smoothing=1e-3),
    }


def tracking(
    kind: str = "own",
    moves: int = 4,
    seed: int = 1,
    stretch: bool = True,
    on_step: OnStep | None = None,
) -> Result:
    """Root-mean-square errors of five laws on the 7R arm, model exact and 5 % too light.

    With `stretch` also operational space through a singular stretch, on the plant of our own.
    """
    robot = laboratory_robot("panda")
    # quintics between poses about the middle, with pauses
    rng = np.random.default_rng(seed)
    poses = [_MIDDLE, *(_MIDDLE + rng.uniform(-0.5, 0.5, (moves, robot.nv)))]

    def follow(t: float) -> dict[str, np.ndarray]:
        k = min(int(t / (_MOVE + _PAUSE)), moves - 1)
        q, v, a = quintic(poses[k], poses[k + 1], _MOVE, t - k * (_MOVE + _PAUSE))
        return {"q_ref": q, "v_ref": v, "a_ref": a}

    rms: dict[tuple[str, float], float] = {}
    traces: dict[str, Trace] = {}
    errors: dict[str, np.ndarray] = {}
    for share in (0.0, 0.05):
        inertia = robot.inertial_parameters * (1.0 + share)
        around = Surroundings(table=False, joint_friction=FRICTION, inertia=inertia)
        for name, law in tracking_laws(robot).items():
            plant = make_plant(kind, robot, around)
            plant.reset(_MIDDLE)
            duration = moves * (_MOVE + _PAUSE)

            def references(t: float, law: Any = law) -> dict[str, np.ndarray]:
                wanted = law.references(robot)
                return {n: x for n, x in follow(t).items() if n in wanted}

            trace = run(plant, law, references, duration=duration, compiled=True, on_step=on_step)
            path = np.array([follow(t)["q_ref"] for t in trace.time])
            rms[name, share] = float(np.sqrt(np.mean((trace.q - path) ** 2)))
            if not share:
                traces[name], errors[name] = trace, trace.q - path
    measures = []
    for (name, share), x in rms.items():
        masses = "" if not share else ", masses 5 % off"
        measures.append(Measure(f"{name}{masses}: rms error", 1e3 * x, "mrad"))
    for share, bound in ((0.0, 30.0), (0.05, 10.0)):
        best, base = rms["computed torque + friction", share], rms["PD + gravity", share]
        name = f"PD + gravity over the best law, masses {100 * share:g} % off"
        measures.append(Measure(name, base / best, "×", bound, "≥"))
    if stretch and kind == "own":
        stretched = singular_stretch(on_step=on_step)
        measures += stretched.measures
        traces.update(stretched.traces)
    label = "ok" if all(m.holds for m in measures) else "control"
    return Result("tracking", kind, tuple(measures), label, (), traces, errors)


def singular_stretch(duration: float = 4.0, on_step: OnStep | None = None) -> Result:
    """Operational space on a line that leads the 7R arm out to its full stretch and back."""
    robot = laboratory_robot("panda")
    frame = robot.frame_names[-1]
    q0 = np.array([0.0, 0.6, 0.0, -1.4, 0.0, 2.0, 0.0])
    X0 = robot.frame_pose(q0, frame)
    # as far as the straight arm reaches, and a little further
    shoulder = np.array([0.0, 0.0, 0.333])
    way = X0[:3, 3] - shoulder
    straight = robot.frame_pose(np.zeros(robot.nv), frame)[:3, 3] - shoulder
    reach = 1.03 * float(np.linalg.norm(straight))
    out = way / np.linalg.norm(way) * max(reach - np.linalg.norm(way), 0.1)

    def reference(t: float) -> dict[str, np.ndarray]:
        half = 0.5 * duration - 0.5
        there, back = quintic(0.0, 1.0, half, t), quintic(0.0, 1.0, half, t - half)
        s, ds, dds = (a - b for a, b in zip(there, back, strict=True))
        X = X0.copy()
        X[:3, 3] = X0[:3, 3] + out * s
        none = np.zeros(3)
        V, A = np.concatenate([out * ds, none]), np.concatenate([out * dds, none])
        return {"X_ref": X, "V_ref": V, "A_ref": A, "q_ref": q0}

    J = robot.frame_jacobian(q0, frame, "local_world_aligned")
    usual = float(np.sqrt(np.linalg.det(J @ np.linalg.solve(robot.mass_matrix(q0), J.T))))
    law = OperationalSpace(
        frame, 400.0, 40.0, kp_posture=20.0, kd_posture=10.0, onset=0.2 * usual, most_damping=5.0
    )
    plant = make_plant("own", robot, Surroundings(table=False))
    plant.reset(q0)
    trace = run(plant, law, reference, duration=duration, compiled=True, on_step=on_step)
    finite = np.isfinite(trace.tau).all() and np.isfinite(trace.q).all()
    torque = np.abs(trace.tau).max(axis=0) / robot.limits.effort
    last = robot.frame_pose(plant.q, frame)[:3, 3] - X0[:3, 3]
    damping = trace.memory["damping"]
    measures = (
        Measure("stretch: numbers that are finite", 100.0 * float(finite), "%", 100.0, "≥"),
        Measure("stretch: largest torque of its limit", 100.0 * float(torque.max()), "%", 100.0),
        Measure("stretch: largest damping reported", float(damping.max()), "1/kg", 1e-6, "≥"),
        Measure("stretch: time damped", 100.0 * float(np.mean(damping > 0.0)), "%"),
        Measure("stretch: error back on the line", 1e3 * float(np.linalg.norm(last)), "mm", 1.0),
    )
    label = "ok" if all(m.holds for m in measures) else "control"
    return Result("stretch", "own", measures, label, (), {"stretch": trace})
