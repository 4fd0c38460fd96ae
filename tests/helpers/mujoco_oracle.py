"""The terms of a state in MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np


def full_mass_matrix(m, d):
    M = np.zeros((m.nv, m.nv))
    try:
        mujoco.mj_fullM(m, d, M)
    except TypeError:
        mujoco.mj_fullM(m, M, d.qM)
    return M


def mujoco_state(robot, m, q, v):
    """qpos and qvel of a state, and T, ṫ with qvel = T v, q̇vel = T v̇ + ṫ."""
    qpos, T, rest = m.qpos0.copy(), np.zeros((m.nv, robot.nv)), np.zeros(m.nv)
    for j, body in enumerate(robot.model.independent):
        assert m.joint(j).name in (body.joint.name, "")
        at, dof = m.jnt_qposadr[j], m.jnt_dofadr[j]
        x, iv = q[body.iq], np.arange(body.iv.start, body.iv.stop)
        T[dof + np.arange(len(iv)), iv] = 1.0
        if body.joint.kind.name == "ball":
            x = np.roll(x, 1)
        if body.joint.kind.name == "free":
            x = np.concatenate([x[:3], np.roll(x[3:], 1)])
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, x[3:])
            R = R.reshape(3, 3)
            T[dof : dof + 3, iv[:3]] = R
            rest[dof : dof + 3] = R @ np.cross(v[iv[3:]], v[iv[:3]])
        qpos[at : at + len(x)] = x
    return qpos, T @ v, T, rest
