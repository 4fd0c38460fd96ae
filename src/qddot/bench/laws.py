"""Control laws: one compiled call from Python, its C code, and the law with Pinocchio and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from qddot.bench.c_laws import c_contender, find_compiler
from qddot.bench.contender import Contender, Skipped, loop_over_states, urdf_of
from qddot.bench.measure import TOLERANCE, Clock, difference, one_core
from qddot.bench.subjects import find_subject
from qddot.control import (
    CartesianImpedance,
    CompiledLaw,
    Hybrid,
    Law,
    OperationalSpace,
    State,
    compile_law,
)

__all__ = ["LAWS", "measure_law"]

_FRAME = "tool0"
_SIX = np.ones(6)
LAWS: dict[str, Law] = {
    "impedance": CartesianImpedance(_FRAME, 300.0 * _SIX, 30.0 * _SIX),
    "hybrid": Hybrid(_FRAME, (0.0, 0.0, 1.0, 0.0, 0.0, 0.0), 100.0 * _SIX, 20.0 * _SIX),
    "operational space": OperationalSpace(_FRAME, 100.0 * _SIX, 20.0 * _SIX, 5.0, 2.0),
}
"""The laws that are measured."""
_STATES = 64
_DT = 1e-3


@one_core()
def measure_law(clock: Clock, name: str) -> dict[str, Any]:
    """The row of a law: a cycle on the UR5, one state a call."""
    subject, law = find_subject("ur5"), LAWS[name]
    robot = subject.robot
    # random states with what the law is to follow
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(_STATES):
        reference = {n: rng.normal(size=s) for n, s in law.references(robot).items()}
        reference["X_ref"] = robot.frame_pose(robot.random(rng), _FRAME)
        wrenches = {frame: rng.normal(size=6) for frame in law.senses(robot)}
        state = State(robot.random(rng), rng.normal(size=robot.nv), _DT, 0.0, wrenches)
        samples.append((state, reference))
    compiled = compile_law(robot, law)
    start = compiled.memory(robot)

    def ours(state: State, reference: dict[str, Any]) -> Any:
        return compiled.command(robot, state, reference, start)

    def text(state: State, reference: dict[str, Any]) -> Any:
        return law.command(robot, state, reference, start)

    calls: dict[str, Callable[..., Any]] = {"qddot": ours, "text": text}
    with suppress(ImportError, Skipped):
        calls["Pinocchio"] = _pinocchio_law(str(urdf_of(subject)), name, law)
    # the same torques before anything is timed
    found = {n: np.array([call(*s)[0] for s in samples]) for n, call in calls.items()}
    for other, torques in found.items():
        if difference([found["qddot"]], [torques]) > TOLERANCE:
            raise ValueError(f"{name}: {other} gives other torques")
    turns = [
        Contender(n, "a cycle", *loop_over_states(call, *zip(*samples, strict=True)), tuple)
        for n, call in calls.items()
    ]
    # the exported C code, in a loop of C
    compiler = find_compiler()
    if compiler:
        inputs = [_c_arguments(compiled, *sample, start) for sample in samples]
        turns.append(c_contender(compiler, compiled, inputs))
        if difference([found["qddot"]], turns[-1].values()) > TOLERANCE:
            raise ValueError(f"{name}: its C code gives other torques")
    engines = [turn.engine for turn in turns]
    times = dict(zip(engines, clock.time_interleaved(f"law {name}", turns), strict=True))
    return {
        "law": name,
        "operations": compiled.explain().operations,
        **{f"{n.lower()}_us": 1e6 * t for n, t in times.items()},
        "ratio": times["Pinocchio"] / times["qddot"] if "Pinocchio" in times else None,
    }


def _c_arguments(
    compiled: CompiledLaw, state: State, reference: dict[str, Any], memory: Any
) -> list[np.ndarray]:
    """The arguments of the C function of a law, in its order."""
    clock = [np.array([state.dt, state.time])] if compiled.reads_clock else []
    wrenches = [state.wrenches[frame] for frame in compiled.frames]
    references = [np.asarray(reference[name]) for name in compiled.names]
    kept = [memory.vector] if compiled.shapes else []
    return [state.q, state.v, *clock, *wrenches, *references, *kept]


def _pinocchio_law(urdf: str, name: str, law: Any) -> Callable[..., Any]:
    """The law written with Pinocchio's algorithms and NumPy, as its users do."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(urdf)
    data, frame = model.createData(), model.getFrameId(_FRAME)
    aligned, zero = pin.LOCAL_WORLD_ALIGNED, np.zeros(model.nv)

    def error(X_ref: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pose error and Jacobian of the frame."""
        X = data.oMf[frame]
        turn = pin.log3(X_ref[:3, :3] @ X.rotation.T)
        J = pin.getFrameJacobian(model, data, frame, aligned)
        return np.concatenate([X_ref[:3, 3] - X.translation, turn]), J

    def impedance(state: State, reference: dict[str, Any]) -> Any:
        q, v = state.q, state.v
        h = pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacement(model, data, frame)
        e, J = error(reference["X_ref"])
        return J.T @ (law.stiffness * e + law.damping * (reference["V_ref"] - J @ v)) + h, None

    def task(state: State, reference: dict[str, Any]) -> tuple[np.ndarray, ...]:
        """Error, Jacobian, its rate times v, Λ, J̄, bias and M."""
        q, v = state.q, state.v
        M = pin.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        h = pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobians(model, data, q)
        pin.forwardKinematics(model, data, q, v, zero)
        pin.updateFramePlacement(model, data, frame)
        drift = pin.getFrameClassicalAcceleration(model, data, frame, aligned).vector
        e, J = error(reference["X_ref"])
        Minv_Jt = np.linalg.solve(M, J.T)
        Lambda = np.linalg.inv(J @ Minv_Jt)
        return e, J, drift, Lambda, Minv_Jt @ Lambda, h, M

    def operational_space(state: State, reference: dict[str, Any]) -> Any:
        q, v = state.q, state.v
        e, J, drift, Lambda, Jbar, h, M = task(state, reference)
        a = reference["A_ref"] + law.kp * e + law.kd * (reference["V_ref"] - J @ v)
        pull = law.kp_posture * pin.difference(model, q, reference["q_ref"]) - law.kd_posture * v
        posture = M @ pull
        return J.T @ (Lambda @ (a - drift)) + h + posture - J.T @ (Jbar.T @ posture), None

    S = np.asarray(getattr(law, "selection", 0.0))

    def hybrid(state: State, reference: dict[str, Any]) -> Any:
        v, F_ref, F = state.v, reference["F_ref"], state.wrenches[_FRAME]
        e, J, drift, Lambda, _, h, _ = task(state, reference)
        speed = reference["V_ref"] - J @ v
        a = reference["A_ref"] + law.kp * e + law.kd * speed
        motion = (1.0 - S) * a - drift
        wrong = S * (F_ref - F)
        integral = np.clip(law.force_ki * wrong * state.dt, -law.windup, law.windup)
        push = S * F_ref + law.force_kp * wrong + integral
        along = law.force_damping * S * speed - push - law.feedforward * (1.0 - S) * F
        return J.T @ (Lambda @ motion + along) + h, integral

    laws = {"impedance": impedance, "hybrid": hybrid, "operational space": operational_space}
    return laws[name]
