"""Constrained accelerations and multipliers against Pinocchio, and against MuJoCo's matrices."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from agreement import assert_agree, example_urdfs
from mujoco_oracle import full_mass_matrix, mujoco_state
from pinocchio_oracle import Pair

import qddot
from qddot.analysis import constraints as cs
from qddot.loaders.named_robots import named_files
from qddot.model.links import Contact, Loop
from qddot.model.model import Frame
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Mat3, Transform, Vec3

TOLERANCE = 1e-9
POINT, FULL = pin.ContactType.CONTACT_3D, pin.ContactType.CONTACT_6D
WORLD_AXES = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED


def pair_of(stem: str, free: bool) -> Pair:
    (file,) = (f for f in example_urdfs() if f.stem == stem)
    return Pair(file, free)


def solved(p: Pair, v, tau, contacts):
    """Accelerations and multipliers of Pinocchio, in its order of contacts."""
    vp, tp = np.zeros((2, p.m.nv))
    vp[p.order], tp[p.order] = v, tau
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for c in contacts:
        models.append(c)
        datas.append(c.createData())
    d = p.m.createData()
    pin.initConstraintDynamics(p.m, d, models, datas)
    once = pin.ProximalSettings(1e-14, 0.0, 1)
    a = pin.constraintDynamics(p.m, d, p.qp, vp, tp, models, datas, once)
    return a[p.order], np.array(d.lambda_c)


def joint_and_place(p: Pair, frame: str):
    f = p.m.frames[p.m.getFrameId(frame)]
    return f.parentJoint, f.placement


FEET = tuple(f"{leg}_FOOT" for leg in ("FL", "FR", "HL", "HR"))
CONTACTS = {
    "solo12 stands on points": ("solo12", True, "point", FEET),
    "solo12 held at the base, feet on points": ("solo12", False, "point", FEET[:2]),
    "panda holds on": ("panda", False, "surface", ("panda_hand",)),
    "talos on both feet": ("talos_reduced", True, "surface", ("left_sole_link", "right_sole_link")),
}


@pytest.mark.parametrize("case", CONTACTS)
def test_contacts_against_pinocchio(case):
    stem, free, kind, feet = CONTACTS[case]
    p = pair_of(stem, free)
    held = [Contact(foot, kind) for foot in feet]
    v = cs.consistent_velocity(p.r, p.q, p.v, held)
    a, lam = p.r.constrained_dynamics(p.q, v, p.a, constraints=held)
    shape = POINT if kind == "point" else FULL
    theirs = [
        pin.RigidConstraintModel(shape, p.m, *joint_and_place(p, foot), WORLD_AXES) for foot in feet
    ]
    expected, forces = solved(p, v, p.a, theirs)
    assert_agree("q̈", a, expected, TOLERANCE)
    assert_agree("λ", lam, forces, TOLERANCE)


def closed_pair(p: Pair, one: str, two: str, rng) -> tuple[Robot, tuple[np.ndarray, np.ndarray]]:
    """The robot with frames on two bodies that coincide at its state, and where they are."""
    place = np.eye(4)
    place[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    place[:3, 0] *= np.linalg.det(place[:3, :3])
    place[:3, 3] = rng.uniform(-0.2, 0.2, 3)
    X1, X2 = (p.r.frame_pose(p.q, name) for name in (one, two))
    on_two = np.linalg.inv(X2) @ X1 @ place
    frames = []
    for name, host, X in (("end1", one, place), ("end2", two, on_two)):
        frame = p.r.model.frame(host)
        R = Mat3(*(Vec3(*row) for row in X[:3, :3].tolist()))
        at = frame.placement @ Transform(R, Vec3(*X[:3, 3].tolist()))
        frames.append(Frame(name, frame.body, at))
    model = dataclasses.replace(p.r.model, frames=(*p.r.model.frames, *frames))
    return Robot(model), (place, on_two)


LOOPS = {
    "talos_reduced": ("gripper_left_base_link", "gripper_right_base_link"),
    "solo12": ("FL_FOOT", "HR_FOOT"),
    "tiago": ("torso_lift_link", "arm_7_link"),
}


@pytest.mark.parametrize("stem", LOOPS)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind", ["spherical", "weld"])
def test_loops_against_pinocchio(stem, free, kind):
    p, rng = pair_of(stem, free), np.random.default_rng(3)
    one, two = LOOPS[stem]
    robot, places = closed_pair(p, one, two, rng)
    loop = [Loop("loop", kind, "end1", "end2")]
    np.testing.assert_allclose(robot.constraint_residual(p.q, constraints=loop), 0, atol=1e-12)
    v = cs.consistent_velocity(robot, p.q, p.v, loop)
    a, lam = robot.constrained_dynamics(p.q, v, p.a, constraints=loop)
    ends = []
    for frame, X in zip((two, one), reversed(places), strict=True):
        joint, at = joint_and_place(p, frame)
        ends += [joint, at * pin.SE3(X[:3, :3], X[:3, 3])]
    # its first frame feels the force, as our second one does
    shape = POINT if kind == "spherical" else FULL
    local = pin.ReferenceFrame.LOCAL
    expected, forces = solved(p, v, p.a, [pin.RigidConstraintModel(shape, p.m, *ends, local)])
    assert_agree("q̈", a, expected, TOLERANCE)
    assert_agree("λ", lam, forces, TOLERANCE)


# MuJoCo: its M, bias, Jacobians and their rates, put together here


class Mujoco:
    """MuJoCo's matrices of a built-in robot at a state, in the velocities of qddot."""

    def __init__(self, name: str, q: np.ndarray, v: np.ndarray) -> None:
        self.m = m = mujoco.MjModel.from_xml_path(str(named_files()[name]))
        self.d = d = mujoco.MjData(m)
        self.r = r = qddot.load(name)
        d.qpos[:], d.qvel[:], self.T, self.rest = mujoco_state(r, m, q, v)
        mujoco.mj_forward(m, d)
        M = full_mass_matrix(m, d)
        self.M = self.T.T @ M @ self.T
        self.h = self.T.T @ (d.qfrc_bias + M @ self.rest)

    def site(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Jacobian of a site in world axes, and its acceleration while v is constant."""
        (J, _), (dJ, _) = np.zeros((2, 2, 3, self.m.nv))
        k = self.m.site(name).id
        mujoco.mj_jacSite(self.m, self.d, J, None, k)
        body = self.m.site_bodyid[k]
        mujoco.mj_jacDot(self.m, self.d, dJ, None, self.d.site_xpos[k], body)
        return J @ self.T, dJ @ self.d.qvel + J @ self.rest

    def solve(self, tau: np.ndarray, J: np.ndarray, drift: np.ndarray):
        """Accelerations and multipliers by the whole system of equations."""
        n, zero = len(self.M), np.zeros((len(J), len(J)))
        K = np.block([[self.M, -J.T], [J, zero]])
        x = np.linalg.lstsq(K, np.concatenate([tau - self.h, -drift]), rcond=None)[0]
        return x[:n], x[n:]


@pytest.mark.parametrize("name", ["four_bar", "delta"])
def test_loops_against_mujoco(name):
    robot, rng = qddot.load(name), np.random.default_rng(5)
    q = cs.assemble(robot, robot.neutral() + 0.3 * rng.normal(size=robot.nv))
    v, tau = cs.consistent_velocity(robot, q, rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
    loops = cs.analyse(robot, q).independent
    a, lam = robot.constrained_dynamics(q, v, tau, constraints=loops)
    engine = Mujoco(name, q, v)
    rows = []
    for e in range(engine.m.neq):
        (J1, d1), (J2, d2) = (
            engine.site(engine.m.site(int(k)).name)
            for k in (engine.m.eq_obj1id[e], engine.m.eq_obj2id[e])
        )
        rows.append((J2 - J1, d2 - d1))
    J, drift = (np.concatenate(x) for x in zip(*rows, strict=True))
    b, forces = engine.solve(tau, J, drift)
    assert_agree("q̈", a, b, TOLERANCE)
    for loop, force in zip(loops, forces.reshape(-1, 3), strict=True):
        R = robot.frame_pose(q, loop.frame1)[:3, :3]
        kept = ["xyz".index(row) for row in loop.rows]
        own = [name.startswith(f"{loop.name}.") for c in loops for name in c.row_names]
        assert_agree(f"λ of {loop.name}", lam[own], (R.T @ force)[kept], TOLERANCE)


@pytest.mark.parametrize("standing", [("FL", "RR"), ("FL", "FR", "RL", "RR")])
def test_a_standing_quadruped_against_mujoco(standing):
    robot, rng = qddot.load("quadruped"), np.random.default_rng(6)
    q, tau = robot.random(rng), rng.normal(size=18)
    held = [Contact(f"{leg}_foot") for leg in standing]
    v = cs.consistent_velocity(robot, q, rng.normal(size=18), held)
    a, lam = robot.constrained_dynamics(q, v, tau, constraints=held)
    engine = Mujoco("quadruped", q, v)
    J, drift = (
        np.concatenate(x)
        for x in zip(*(engine.site(f"{leg}_foot") for leg in standing), strict=True)
    )
    b, forces = engine.solve(tau, J, drift)
    assert_agree("q̈", a, b, TOLERANCE)
    assert_agree("λ", lam, forces, TOLERANCE)


def test_impacts_against_pinocchio():
    p, rng = pair_of("solo12", True), np.random.default_rng(7)
    feet = [n for n in p.r.frame_names if n.endswith("FOOT")][:3]
    held = [Contact(foot) for foot in feet]
    v = rng.normal(size=p.r.nv)
    vp = np.zeros(p.m.nv)
    vp[p.order] = v
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for foot in feet:
        c = pin.RigidConstraintModel(POINT, p.m, *joint_and_place(p, foot), WORLD_AXES)
        models.append(c)
        datas.append(c.createData())
    d = p.m.createData()
    pin.initConstraintDynamics(p.m, d, models, datas)
    once = pin.ProximalSettings(1e-14, 0.0, 1)
    for e in (0.0, 0.4):
        after = pin.impulseDynamics(p.m, d, p.qp, vp, models, datas, e, once)[p.order]
        ours, impulse = cs.impact(p.r, p.q, v, held, e)
        assert_agree("v", ours, after, TOLERANCE)
        assert_agree("impulse", impulse, np.array(d.impulse_c), TOLERANCE)
