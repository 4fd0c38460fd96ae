"""Agreement with MuJoCo on the Menagerie robots of the shared folder."""

from __future__ import annotations

import warnings

import mujoco
import numpy as np
import pytest
from agreement import assert_agree, need_shared, shared_files

import qddot

TOLERANCE = 1e-9
FILES = shared_files("menagerie/*.xml")


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


def test_all_menagerie_robots_are_there():
    need_shared(FILES)
    assert len(FILES) == 17


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_agreement(file):
    m = mujoco.MjModel.from_xml_path(str(file))
    d = mujoco.MjData(m)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = qddot.load(file, couplings="free")
    assert (r.nq, r.nv) == (m.nq, m.nv)
    rng = np.random.default_rng(0)
    for _ in range(3):
        q, v = r.random(rng), rng.normal(size=r.nv)
        d.qpos[:], d.qvel[:], T, rest = mujoco_state(r, m, q, v)
        mujoco.mj_forward(m, d)
        M = full_mass_matrix(m, d)
        assert_agree("M", r.mass_matrix(q), T.T @ M @ T, TOLERANCE)
        assert_agree("bias", r.bias(q, v), T.T @ (d.qfrc_bias + M @ rest), TOLERANCE)
        for i in range(1, m.nbody):
            jacp, jacr = np.zeros((2, 3, m.nv))
            mujoco.mj_jacBody(m, d, jacp, jacr, i)
            J = r.frame_jacobian(q, m.body(i).name, "local_world_aligned")
            assert_agree(f"J of {m.body(i).name}", J, np.vstack([jacp, jacr]) @ T, TOLERANCE)
        com = d.subtree_com[0] if r.model.base_inertia.mass == 0 else None
        if com is not None:
            assert_agree("centre of mass", r.center_of_mass(q), com, TOLERANCE)
