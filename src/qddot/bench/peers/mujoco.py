"""MuJoCo: the stages of its pipeline that a function needs, a state at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from qddot.bench.contender import CHECKED, Contender, Job, Skipped, looped, stacked
from qddot.bench.coordinates import VelocityMap, velocity_map
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
def _loaded(subject: Subject) -> Any:
    """The same URDF without shapes, with a free joint for a free base."""
    import mujoco

    if subject.file is None or subject.file.suffix != ".urdf":
        raise Skipped("not a URDF")
    try:
        spec = mujoco.MjSpec.from_string(bare_urdf(subject.file))
        if subject.free:
            spec.worldbody.bodies[0].add_freejoint()
        model = spec.compile()
    except ValueError as error:
        raise Skipped("MuJoCo refuses the file: " + " ".join(str(error).split())) from error
    model.opt.gravity = [float(x) for x in subject.robot.model.gravity]
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    if model.nv != subject.robot.nv:
        raise Skipped(f"{model.nv} degrees of freedom there, {subject.robot.nv} here")
    return model


def contenders(job: Job) -> list[Contender]:
    """The stages for each state."""
    import mujoco

    model, inputs = _loaded(job.subject), job.first()
    data = mujoco.MjData(model)
    q, map_ = _states(job, model, inputs)
    columns = [q]
    for name, x in inputs.items():
        if name != "q":
            columns.append(map_.accelerations(x) if name == "a" else map_.velocities(x))
    call = _steps(job.function, model, data)

    def values() -> tuple[np.ndarray, ...]:
        few = zip(*(c[:CHECKED] for c in columns), strict=True)
        (x,) = stacked([call(*state).copy() for state in few])
        if job.function == "mass_matrix":
            return (map_.squares(x),)
        if job.function == "forward_dynamics":
            return (map_.vectors(x - map_.rest[: len(x)]),)
        # the bias of a free body in world axes lacks what its axes do
        if job.function == "bias":
            M = stacked([_mass_matrix(model, data)(state).copy() for state in q[:CHECKED]])[0]
            x = x + np.einsum("nij,nj->ni", M, map_.rest[: len(x)])
        return (map_.vectors(x),)

    return [Contender("MuJoCo", _CALLS[job.function], len(q), looped(call, *columns), values)]


def _states(job: Job, model: Any, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, VelocityMap]:
    """Positions with quaternions (w, x, y, z), and the map of velocities."""
    robot, q = job.robot, inputs["q"]
    v = inputs.get("v", np.zeros((len(q), robot.nv)))
    positions, places = np.tile(model.qpos0, (len(q), 1)), {}
    for k, body in enumerate(robot.model.bodies):
        # the free joint has no name there, and comes first in both
        free = body.joint.kind.name == "free"
        joint = model.joint(k if free else body.joint.name)
        x = q[:, body.iq]
        if free:
            x = x[:, [0, 1, 2, 6, 3, 4, 5]]
        at = int(joint.qposadr[0])
        positions[:, at : at + x.shape[1]] = x
        places[body.joint.name] = int(joint.dofadr[0])
    return positions, velocity_map(robot, q, v, places, linear=0, turned=False)


def _steps(function: str, m: Any, d: Any) -> Callable[..., np.ndarray]:
    return {
        "inverse_dynamics": _inverse_dynamics,
        "bias": _bias,
        "forward_dynamics": _forward_dynamics,
        "mass_matrix": _mass_matrix,
    }[function](m, d)


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


def _bias(m: Any, d: Any) -> Callable[..., np.ndarray]:
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

    qpos, M = d.qpos, np.zeros((m.nv, m.nv))
    make = getattr(mujoco, "mj_makeM", mujoco.mj_crb)
    fill: Callable[[], None] = lambda: mujoco.mj_fullM(m, d, M)  # noqa: E731
    try:
        fill()
    except TypeError:
        # before version 4
        fill = lambda: mujoco.mj_fullM(m, M, d.qM)  # noqa: E731

    def call(q: np.ndarray) -> np.ndarray:
        qpos[:] = q
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)
        make(m, d)
        fill()
        return M

    return call
