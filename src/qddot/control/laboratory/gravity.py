"""Gravity: parity of the models, holding still, model errors, and rest after a kick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import expm

from qddot import engines
from qddot.control.gains import joint_gains
from qddot.control.joint_space import PD, GravityCompensation
from qddot.control.laboratory.result import Measure, Result
from qddot.control.laboratory.scene import (
    Surroundings,
    laboratory_robot,
    make_plant,
    start_configuration,
    write_mjcf,
)
from qddot.control.plants import MujocoControlPlant, RolloutPlant
from qddot.control.run import run
from qddot.display.progress import OnStep
from qddot.robot.robot import Robot, load
from qddot.simulate.mujoco_plant import MujocoPlant

__all__ = ["gravity", "model_label", "parity", "with_fingers"]

_FINGER = 0.12
_SAME = 1e-9
_CANDIDATES = 64
"""Random configurations of which the one that gravity loads most is held."""


def with_fingers(robot: Robot) -> Robot:
    """The arm with two fingers that swing, at the frame of its gripper."""
    fingers: list[dict[str, Any]] = [{"name": "palm", "parent": None, "joint": "fixed"}]
    for name, side in (("left", 1.0), ("right", -1.0)):
        fingers.append(
            {
                "name": f"{name}_finger",
                "parent": "palm",
                "joint": "revolute",
                "axis": (side, 0.0, 0.0),
                "position": (0.0, 0.03 * side, 0.09),
                "mass": _FINGER,
                "com": (0.0, 0.0, 0.03),
                "inertia": (4e-5, 4e-5, 1e-5),
                "limits": (-1.0, 1.0),
            }
        )
    return robot.attach(Robot.from_links("fingers", fingers), "gripper")


def parity(
    robot: Robot, states: int = 50, seed: int = 0, source: Any = None
) -> tuple[float, float]:
    """Largest difference of g (N m) and M (kg m²) from MuJoCo's, over random configurations."""
    import mujoco

    model = source or mujoco.MjModel.from_xml_string(write_mjcf(robot))
    data, adapter = mujoco.MjData(model), engines.mujoco(robot, model)
    rng, worst = np.random.default_rng(seed), np.zeros(2)
    for _ in range(states):
        q = robot.random(rng)
        data.qpos[:] = adapter.to_q(q)
        data.qvel[:] = 0.0
        mujoco.mj_forward(model, data)
        g = adapter.from_tau(q, data.qfrc_bias)
        M = adapter.from_mass_matrix(q, engines.full_mass_matrix(model, data))
        found = np.abs(g - robot.gravity(q)).max(), np.abs(M - robot.mass_matrix(q)).max()
        worst = np.maximum(worst, found)
    return float(worst[0]), float(worst[1])


def model_label(robot: Robot, plant: RolloutPlant) -> str:
    """Label of the law's model: "model" if the plant's bodies weigh otherwise on it, else "ok"."""
    places = [plant.world.model.body_of_joint(n).iv.start for n in robot.joint_names]
    there = plant.world.gravity(plant.world_q)[..., places]
    return "ok" if np.abs(there - robot.gravity(plant.q)).max() < _SAME else "model"


def gravity(
    kind: str = "own",
    duration: float = 10.0,
    mjcf: str | Path | None = None,
    on_step: OnStep | None = None,
) -> Result:
    """Gravity compensation on a plant: how still it holds, what a model error does, rest.

    With `mjcf` it is the robot of a MuJoCo file instead of the UR5e, held where gravity loads it
    most among random configurations.
    """
    if mjcf is not None:
        return _gravity_of_file(kind, duration, Path(mjcf), on_step)
    robot = laboratory_robot()
    q0, free = start_configuration(robot, 0.3), Surroundings(table=False)
    still = np.zeros(robot.nv)
    # parity with the other engine, fingers locked and moving
    measures = _parity_measures(robot, "fingers locked", "8.0e-6", "3.3e-5")
    measures += _parity_measures(with_fingers(robot), "fingers moving")
    # hold by gravity compensation alone
    plant = make_plant(kind, robot, free)
    plant.reset(q0)
    hold = run(plant, GravityCompensation(), duration=duration, compiled=True, on_step=on_step)
    drift = float(np.abs(hold.q - q0).max())
    name = f"hold for {duration:g} s, largest error"
    measures.append(Measure(name, drift, "rad", 1e-9, published="8.91e-6"))
    # a kick dies out: damping 2 ζ ω M_ii at ζ = 1
    kd = joint_gains(robot, 4.0, 1.0, q=q0).kd
    plant.reset(q0, 0.3 * np.ones(robot.nv))
    kick = run(plant, GravityCompensation(kd), duration=2.0, compiled=True, on_step=on_step)
    speed = float(np.abs(plant.v).max())
    measures.append(Measure("speed 2 s after a kick", speed, "rad/s", 1e-3, published="0.0134"))
    # all masses 5 % off, both ways: drift of compensation as predicted, integral takes it out
    traces = {"hold": hold, "kick": kick}
    for share in (0.05, -0.05):
        heavy = Surroundings(table=False, inertia=robot.inertial_parameters * (1.0 + share))
        plant = make_plant(kind, robot, heavy)
        plant.reset(q0)
        run(plant, GravityCompensation(kd), duration=0.5, compiled=True, on_step=on_step)
        # v' = M⁻¹ (δg − D v) about the pose
        A, n = robot.with_parameters(robot.inertial_parameters * (1.0 + share)), robot.nv
        M = A.mass_matrix(q0)
        load = robot.gravity(q0) - A.gravity(q0)
        system = np.zeros((2 * n + 1, 2 * n + 1))
        system[:n, n : 2 * n] = np.eye(n)
        system[n : 2 * n, n : 2 * n] = -np.linalg.solve(M, np.diag(kd))
        system[n : 2 * n, -1] = np.linalg.solve(M, load)
        predicted = expm(system * 0.5)[:n, -1]
        error = np.abs(plant.q - q0 - predicted).max() / np.abs(predicted).max()
        name = f"sag in 0.5 s, masses {share:+.0%}, against its prediction"
        measures.append(Measure(name, 100.0 * float(error), "%", 10.0))
        gains = joint_gains(robot, 20.0, 1.0, q=q0, rate=1.0 / plant.dt)
        law = PD(gains.kp, gains.kd, ki=gains.kp * 6.0, gravity=True, limit=robot.limits.effort)
        plant.reset(q0)
        trace = run(
            plant, law, {"q_ref": q0, "v_ref": still}, duration=4.0, compiled=True, on_step=on_step
        )
        last = float(np.abs(plant.q - q0).max())
        name = f"PD + g with integral after 4 s, masses {share:+.0%}"
        measures.append(Measure(name, last, "rad", 1e-4))
        traces["integral, heavy" if share > 0.0 else "integral, light"] = trace
    # the wrist is turned, so that the load has an arm about its joints
    tilted = q0 + np.array([0.0, 0.0, 0.0, 0.5, 0.3, 0.0])
    notes = (_finger_note(robot, tilted),)
    label = "ok" if all(m.holds for m in measures) else "control"
    return Result("gravity", kind, tuple(measures), label, notes, traces)


def _parity_measures(
    robot: Robot, words: str, *published: str, source: Any = None
) -> list[Measure]:
    """Parity with MuJoCo as measures."""
    found = parity(robot, source=source)
    names = (("g", "N m"), ("M", "kg m²"))
    printed = published or ("", "")
    return [
        Measure(f"{name} against MuJoCo, {words}", x, unit, 1e-11, published=text)
        for (name, unit), x, text in zip(names, found, printed, strict=True)
    ]


def _gravity_of_file(kind: str, duration: float, mjcf: Path, on_step: OnStep | None) -> Result:
    """Parity and a hold for the robot of a MuJoCo file."""
    robot = load(mjcf)
    other = MujocoPlant(mjcf, dt=1e-3)
    measures = _parity_measures(robot, mjcf.name, source=other.model)
    q0 = _loaded_configuration(robot, other.model)
    torques = np.abs(robot.gravity(q0))
    unit = "N m" if robot.model.angular[torques.argmax()] else "N"
    measures.append(Measure("largest load of gravity in the hold", float(torques.max()), unit))
    if kind == "mujoco":
        plant: Any = MujocoControlPlant(robot, other.model)
    else:
        # friction would hold it whatever the law
        plant = RolloutPlant(robot, without="passive")
    plant.reset(q0)
    hold = run(plant, GravityCompensation(), duration=duration, compiled=True, on_step=on_step)
    drift = float(np.abs(robot.difference(q0, plant.q)).max())
    measures.append(Measure(f"hold for {duration:g} s, error at the end", drift, "rad", 1e-9))
    label = "ok" if all(m.holds for m in measures) else "control"
    return Result("gravity", kind, tuple(measures), label, (), {"hold": hold})


def _loaded_configuration(robot: Robot, source: Any) -> np.ndarray:
    """The random configuration within limits and without contact that gravity loads most.

    The first keyframe of the file where there is none.
    """
    import mujoco

    data, adapter = mujoco.MjData(source), engines.mujoco(robot, source)
    found = next(iter(robot.configurations.values()), robot.neutral())
    if robot.model.loops or any(body.joint.kind.floats for body in robot.model.bodies):
        return found
    most = 0.0
    for q in robot.random(0, _CANDIDATES):
        data.qpos[:] = adapter.to_q(q)
        mujoco.mj_forward(source, data)
        torque = float(np.abs(robot.gravity(q)).max())
        if torque > most and data.ncon == 0:
            found, most = q, torque
    return np.asarray(found)


def _finger_note(robot: Robot, q0: np.ndarray) -> str:
    """Note on gravity compensation with the load fixed in the model while the fingers move."""
    moving = with_fingers(robot)
    labels = []
    for angle in (0.0, 0.8):
        fixed = moving.without_joint("left_finger", 0.0).without_joint("right_finger", 0.0)
        rest = {"left_finger": angle, "right_finger": angle}
        plant = RolloutPlant(fixed, world=moving, rest=rest)
        plant.reset(q0)
        labels.append(model_label(fixed, plant))
    return f"fixed-load model: fingers as modelled → {labels[0]}, fingers at 0.8 rad → {labels[1]}"
