"""Agreement with Pinocchio on every URDF of example-robot-data, fixed and free base."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from agreement import assert_agree, example_urdfs
from pinocchio_oracle import Pair

TOLERANCE = 1e-10
REFERENCES = {
    "local": pin.ReferenceFrame.LOCAL,
    "world": pin.ReferenceFrame.WORLD,
    "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}
# a file without a single link, which no engine loads
EMPTY = {"ur3.urdf"}


FILES = [f for f in example_urdfs() if f.name not in EMPTY]
CASES = [
    pytest.param(f, free, id=f"{f.stem}-{'free' if free else 'fixed'}")
    for f in FILES
    for free in (False, True)
]


def test_all_urdfs_are_there():
    assert len(FILES) == 68


@pytest.mark.parametrize(("file", "free"), CASES)
def test_agreement(file, free):
    p = Pair(file, free)
    r, m, d, q, v, a, qp, vp, ap = p.r, p.m, p.d, p.q, p.v, p.a, p.qp, p.vp, p.ap
    assert (r.nv, r.model.nb) == (m.nv, m.njoints - 1)
    M = pin.crba(m, d, qp)
    M = p.square(np.triu(M) + np.triu(M, 1).T)
    assert_agree("M", r.mass_matrix(q), M, TOLERANCE)
    assert_agree("h", r.bias(q, v), pin.nonLinearEffects(m, d, qp, vp)[p.order], TOLERANCE)
    assert_agree("g", r.gravity(q), pin.computeGeneralizedGravity(m, d, qp)[p.order], TOLERANCE)
    assert_agree("τ", r.inverse_dynamics(q, v, a), pin.rnea(m, d, qp, vp, ap)[p.order], TOLERANCE)
    C = pin.computeCoriolisMatrix(m, d, qp, vp)
    assert_agree("C", r.coriolis_matrix(q, v), p.square(C), TOLERANCE)
    A = pin.computeCentroidalMap(m, d, qp)[:, p.order]
    assert_agree("A_G", r.centroidal_map(q), A, TOLERANCE)
    Y = pin.computeJointTorqueRegressor(m, d, qp, vp, ap)[np.ix_(p.order, p.blocks)]
    assert_agree("Y", r.torque_regressor(q, v, a), Y, TOLERANCE)
    if r.nv and not r.singular_joints:
        # rounding alone moves q̈ by the condition number
        bound = max(TOLERANCE, np.finfo(float).eps * float(np.linalg.cond(M)))
        theirs = pin.aba(m, d, qp, vp, ap)[p.order]
        assert_agree("q̈", r.forward_dynamics(q, v, a), theirs, bound)


@pytest.mark.parametrize(("file", "free"), CASES)
def test_poses_and_jacobians(file, free):
    p = Pair(file, free)
    r, m, d = p.r, p.m, p.d
    pin.framesForwardKinematics(m, d, p.qp)
    pin.computeJointJacobiansTimeVariation(m, d, p.qp, p.vp)
    pin.updateFramePlacements(m, d)
    poses = dict(zip(r.frame_names, r.frame_poses(p.q), strict=True))
    names = [n for n in r.frame_names if m.existFrame(n, pin.FrameType.BODY)]
    assert names
    for name in names:
        index = m.getFrameId(name, pin.FrameType.BODY)
        assert_agree(f"pose of {name}", poses[name], d.oMf[index].homogeneous, TOLERANCE)
    # without a degree of freedom Pinocchio crashes on Jacobians
    for name in names[:: max(1, len(names) // 3)] if r.nv else ():
        index = m.getFrameId(name, pin.FrameType.BODY)
        for ours, theirs in REFERENCES.items():
            J = pin.getFrameJacobian(m, d, index, theirs)[:, p.order]
            assert_agree(f"J of {name}, {ours}", r.frame_jacobian(p.q, name, ours), J, TOLERANCE)
            dJ = pin.getFrameJacobianTimeVariation(m, d, index, theirs)[:, p.order]
            mine = r.frame_jacobian_rate(p.q, p.v, name, ours)
            assert_agree(f"J̇ of {name}, {ours}", mine, dJ, TOLERANCE)


# fixed and free, chains and trees, with joints that turn without end and joints that slide
DIFFERENTIATED = (
    "ur5_robot", "panda", "solo12", "go2", "talos_reduced", "double_pendulum_continuous",
    "tiago", "kinova", "hyq_no_sensors", "romeo", "iris", "z1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("file", "free"), [c for c in CASES if Path(c.values[0]).stem in DIFFERENTIATED]
)
def test_first_derivatives(file, free):
    p = Pair(file, free)
    r, m, d, q, v, a = p.r, p.m, p.d, p.q, p.v, p.a
    pin.computeRNEADerivatives(m, d, p.qp, p.vp, p.ap)
    ours = r.inverse_dynamics_derivatives(q, v, a)
    for name, x, y in zip(("∂τ/∂q", "∂τ/∂v"), ours, (d.dtau_dq, d.dtau_dv), strict=False):
        assert_agree(name, x, p.square(y), TOLERANCE)
    gravity = pin.computeGeneralizedGravityDerivatives(m, d, p.qp)
    assert_agree("∂g/∂q", r.gravity_derivatives(q), p.square(gravity), TOLERANCE)
    if r.singular_joints:
        return
    bound = max(TOLERANCE, 10 * np.finfo(float).eps * float(np.linalg.cond(ours[2])))
    pin.computeABADerivatives(m, d, p.qp, p.vp, p.ap)
    theirs = (d.ddq_dq, d.ddq_dv, np.triu(d.Minv) + np.triu(d.Minv, 1).T)
    found = r.forward_dynamics_derivatives(q, v, a)
    for name, x, y in zip(("∂q̈/∂q", "∂q̈/∂v", "M⁻¹"), found, theirs, strict=True):
        assert_agree(name, x, p.square(y), bound)


def test_derivatives_are_compared_on_many_robots():
    chosen = {Path(c.values[0]).stem for c in CASES} & set(DIFFERENTIATED)
    assert chosen == set(DIFFERENTIATED)
