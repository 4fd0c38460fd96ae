"""Agreement with MuJoCo on the Menagerie robots of the shared folder."""

from __future__ import annotations

import warnings

import mujoco
import numpy as np
import pytest
from agreement import assert_agree, need_shared, shared_files
from mujoco_oracle import full_mass_matrix, mujoco_state

import qddot

TOLERANCE = 1e-9
FILES = shared_files("menagerie/*.xml")


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
