"""MuJoCo: the stages of its pipeline that a function needs, a state at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from qddot import engines
from qddot.bench.contender import (
    CHECKED,
    Contender,
    Job,
    Skipped,
    loop_over_states,
    stack_states,
    urdf_of,
)
from qddot.bench.subjects import Subject, bare_urdf

__all__ = ["FUNCTIONS", "contenders"]

_CALLS = {
    "inverse_dynamics": "mj_kinematics, mj_comPos, mj_comVel, mj_rne",
    "bias": "mj_kinematics, mj_comPos, mj_comVel, mj_rne",
    "forward_dynamics": "mj_forward, constraints disabled",
    "mass_matrix": "mj_kinematics, mj_comPos, mj_makeM, mj_fullM",
}
FUNCTIONS = frozenset(_CALLS)


@lru_cache(maxsize=1)
def _load_model(subject: Subject) -> tuple[Any, engines.Adapter]:
    """The same URDF without shapes, with a free joint for a free base."""
    import mujoco

    text = bare_urdf(urdf_of(subject))
    try:
        spec = mujoco.MjSpec.from_string(text)
        if subject.free:
            spec.worldbody.bodies[0].add_freejoint()
        model = spec.compile()
    except ValueError as error:
        raise Skipped("MuJoCo refuses the file: " + " ".join(str(error).split())) from error
    model.opt.gravity = [float(x) for x in subject.robot.model.gravity]
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return model, engines.mujoco(subject.robot, model)


def contenders(job: Job) -> list[Contender]:
    """The stages for each state."""
    import mujoco

    (model, adapter), inputs = _load_model(job.subject), job.first()
    data = mujoco.MjData(model)
    q, v = inputs["q"], inputs.get("v", np.zeros(job.robot.nv))
    moved = {
        "q": lambda x: adapter.to_q(x),
        "v": lambda x: adapter.to_v(q, x),
        "a": lambda x: adapter.to_a(q, v, x),
        "tau": lambda x: adapter.to_tau(q, x),
    }
    columns = [moved[name](x) for name, x in inputs.items()]
    call = {
        "inverse_dynamics": _inverse_dynamics,
        "bias": _bias_call,
        "forward_dynamics": _forward_dynamics,
        "mass_matrix": _mass_matrix,
    }[job.function](model, data)

    def values() -> tuple[np.ndarray, ...]:
        few = zip(*(c[:CHECKED] for c in columns), strict=True)
        (x,) = stack_states([call(*state).copy() for state in few])
        at = q[:CHECKED], v[:CHECKED] if v.ndim > 1 else v
        if job.function == "mass_matrix":
            return (adapter.from_mass_matrix(at[0], x),)
        if job.function == "forward_dynamics":
            return (adapter.from_a(*at, x),)
        if job.function == "bias":
            M = stack_states([_mass_matrix(model, data)(y).copy() for y in columns[0][:CHECKED]])[0]
            return (adapter.from_bias(*at, x, M),)
        return (adapter.from_tau(at[0], x),)

    return [Contender("MuJoCo", _CALLS[job.function], *loop_over_states(call, *columns), values)]


def _inverse_dynamics(m: Any, d: Any) -> Callable[..., np.ndarray]:
    from mujoco import mj_comPos, mj_comVel, mj_kinematics, mj_rne

    qpos, qvel, qacc, tau = d.qpos, d.qvel, d.qacc, np.zeros(m.nv)

    def call(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        qpos[:], qvel[:], qacc[:] = q, v, a
        mj_kinematics(m, d)
        mj_comPos(m, d)
        mj_comVel(m, d)
        mj_rne(m, d, 1, tau)
        return tau

    return call


def _bias_call(m: Any, d: Any) -> Callable[..., np.ndarray]:
    from mujoco import mj_comPos, mj_comVel, mj_kinematics, mj_rne

    qpos, qvel, tau = d.qpos, d.qvel, np.zeros(m.nv)

    def call(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        qpos[:], qvel[:] = q, v
        mj_kinematics(m, d)
        mj_comPos(m, d)
        mj_comVel(m, d)
        mj_rne(m, d, 0, tau)
        return tau

    return call


def _forward_dynamics(m: Any, d: Any) -> Callable[..., np.ndarray]:
    from mujoco import mj_forward

    qpos, qvel, force, qacc = d.qpos, d.qvel, d.qfrc_applied, d.qacc

    def call(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        qpos[:], qvel[:], force[:] = q, v, tau
        mj_forward(m, d)
        return qacc

    return call


def _mass_matrix(m: Any, d: Any) -> Callable[..., np.ndarray]:
    import mujoco

    qpos, fill = d.qpos, engines.mass_matrix_reader(m, d)
    make = getattr(mujoco, "mj_makeM", mujoco.mj_crb)

    def call(q: np.ndarray) -> np.ndarray:
        qpos[:] = q
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)
        make(m, d)
        return fill()

    return call
