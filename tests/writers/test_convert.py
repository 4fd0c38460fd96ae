"""Robots written as URDF and MJCF: MuJoCo, Pinocchio and the loaders read the same robot back."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from agreement import assert_agree, need_shared, shared_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mujoco_oracle import full_mass_matrix, mujoco_state
from odd_joints import cylindrical_robot
from random_models import MOVING, build, trees
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.errors import Unsupported
from qddot.loaders import shapes as shape_readers
from qddot.loaders.xml import parse_xml
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
from qddot.model.links import Coupling, FrameDraft, Link, Loop, PolynomialCoupling
from qddot.spatial.algebra import (
    Inertia,
    Sym3,
    Transform,
    Vec3,
    rotation_from_quaternion,
    rotation_from_rpy,
)
from qddot.writers import certify_conversion, convert
from qddot.writers.certificate import bound_states
from qddot.writers.xml_text import quaternion_from_rotation, rpy_from_rotation

TOLERANCE = 1e-10
# built in and from example-robot-data; fixed and free; with and without mimic joints
ROUND_TRIPS = [
    ("panda", None), ("ur5e", None), ("planar_3r", None), ("double_pendulum", "free"),
    ("talos_reduced", "free"), ("go2", "free"), ("solo12", None), ("kinova", None),
    ("baxter", None), ("icub", "free"), ("hyq_no_sensors", None), ("xarm7", None),
]  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def states(robot: qddot.Robot, n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return robot.random(rng, n), rng.normal(size=(n, robot.nv))


def assert_same_dynamics(a: qddot.Robot, b: qddot.Robot) -> None:
    assert a.joint_names == b.joint_names
    q, v = states(a)
    assert_agree("M", a.mass_matrix(q), b.mass_matrix(q), TOLERANCE)
    assert_agree("bias", a.bias(q, v), b.bias(q, v), TOLERANCE)
    assert_agree("friction", a.friction(q, v), b.friction(q, v), TOLERANCE)


def assert_agrees_with_mujoco(robot: qddot.Robot, file: Path) -> None:
    """M and bias of the robot before it was written, against MuJoCo on the written file."""
    m = mujoco.MjModel.from_xml_path(str(file))
    d = mujoco.MjData(m)
    assert (robot.nq, robot.nv) == (m.nq, m.nv)
    for q, v in zip(*states(robot, 3), strict=True):
        d.qpos[:], d.qvel[:], T, rest = mujoco_state(robot, m, q, v)
        mujoco.mj_forward(m, d)
        M = full_mass_matrix(m, d)
        assert_agree("M", robot.mass_matrix(q), T.T @ M @ T, TOLERANCE)
        assert_agree("bias", robot.bias(q, v), T.T @ (d.qfrc_bias + M @ rest), TOLERANCE)


def assert_agrees_with_pinocchio(robot: qddot.Robot, file: Path) -> None:
    """M and nle of the robot before it was written, against Pinocchio on the written file."""
    m = pin.buildModelFromUrdf(str(file))
    d = m.createData()
    assert m.nv == robot.nv
    for q, v in zip(*states(robot, 3), strict=True):
        qp, vp, order = pin.neutral(m), np.zeros(m.nv), np.zeros(m.nv, int)
        for body in robot.model.independent:
            joint, x = m.joints[m.getJointId(body.joint.name)], q[body.iq]
            if (joint.nq, joint.nv) in ((2, 1), (4, 3)):
                x = [*x[:-1], np.cos(x[-1]), np.sin(x[-1])]
            qp[joint.idx_q : joint.idx_q + joint.nq] = x
            order[body.iv] = np.arange(joint.idx_v, joint.idx_v + joint.nv)
        vp[order] = v
        M = pin.crba(m, d, qp)
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        assert_agree("M", robot.mass_matrix(q), M, TOLERANCE)
        assert_agree("bias", robot.bias(q, v), pin.nonLinearEffects(m, d, qp, vp)[order], TOLERANCE)


def kinds(result) -> list[str]:
    return [x.kind for x in result.losses]


def the_loss(result, kind: str):
    found = [x for x in result.losses if x.kind == kind]
    assert len(found) == 1, kinds(result)
    return found[0]


@pytest.mark.parametrize(("name", "base"), ROUND_TRIPS)
def test_round_trip_keeps_the_dynamics(name, base, tmp_path):
    source = qddot.load(name, base=base)
    there = convert(name, tmp_path / "there.xml", base=base, shapes="none", states=3)
    assert there.written
    back = convert(there.target, tmp_path / "back.urdf", states=3)
    assert back.written
    again = qddot.load(back.target)
    assert_same_dynamics(source, again)
    # the world of MuJoCo has no name of its own
    assert set(source.frame_names) - {"world"} <= set(again.frame_names)
    for ours, theirs in zip(source.model.bodies, again.model.bodies, strict=True):
        assert ours.name == theirs.name
        assert_agree(ours.name, np.array([*ours.inertia]), np.array([*theirs.inertia]), TOLERANCE)
        if ours.joint.limits.lower != ours.joint.limits.upper:
            assert ours.joint.limits.lower == theirs.joint.limits.lower
            assert ours.joint.limits.upper == theirs.joint.limits.upper
        assert ours.joint.drivetrain.damping == theirs.joint.drivetrain.damping


@pytest.mark.parametrize(
    ("name", "base"), [("ur5e", None), ("talos_reduced", "free"), ("baxter", None), ("a1", "free")]
)
def test_mujoco_reads_the_same_robot(name, base, tmp_path):
    result = convert(name, tmp_path / "robot.xml", base=base, couplings="free", states=2)
    assert_agrees_with_mujoco(qddot.load(name, base=base, couplings="free"), result.target)


@pytest.mark.parametrize("name", ["quadruped", "delta", "quadrotor", "four_bar", "panda"])
def test_pinocchio_reads_the_same_robot(name, tmp_path):
    source = qddot.load(name)
    result = convert(name, tmp_path / "robot.urdf", states=2)
    # what is lost is lost: the oracle is given the robot without armature
    bodies = tuple(
        dataclasses.replace(b, joint=dataclasses.replace(b.joint, drivetrain=Drivetrain()))
        for b in source.model.bodies
    )
    assert_agrees_with_pinocchio(
        qddot.Robot(dataclasses.replace(source.model, bodies=bodies)), result.target
    )


@pytest.mark.parametrize("file", shared_files("menagerie/*.xml"), ids=lambda f: f.stem)
def test_menagerie_to_mjcf_is_exact(file, tmp_path):
    result = convert(file, tmp_path / "robot.xml", states=3)
    assert result.written
    assert_same_dynamics(qddot.load(file), qddot.load(result.target))
    assert_agrees_with_mujoco(qddot.load(file, couplings="free"), result.target)


def test_the_shared_robots_were_there():
    need_shared(shared_files("menagerie/*.xml"))


def test_a_robot_in_memory_is_written_as_it_is(tmp_path):
    robot = (
        qddot.load("ur5e").with_payload("tool0", 2.0, (0.0, 0.1, 0.2)).with_gravity((0, 0, -1.62))
    )
    result = convert(robot, tmp_path / "loaded.xml", states=5)
    assert_same_dynamics(robot, qddot.load(result.target))
    assert_agrees_with_mujoco(robot, result.target)


PLAIN = tuple(k for k in MOVING if k not in ("planar", "free"))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(most=8), st.sampled_from(["urdf", "xml"]))
def test_random_trees_read_back(tmp_path_factory, tree, suffix):
    model = build(*tree)
    target = tmp_path_factory.mktemp("tree") / f"tree.{suffix}"
    result = convert(model, target, states=2)
    assert result.written, [m for m in result.certificate.checks if not m.passed]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(most=8, kinds=PLAIN))
def test_random_trees_of_plain_joints_have_the_same_dynamics(tmp_path_factory, tree):
    model = build(*tree)
    folder = tmp_path_factory.mktemp("tree")
    robot = qddot.Robot(model)
    assert_same_dynamics(robot, qddot.load(convert(model, folder / "a.xml", states=1).target))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(most=8, kinds=("revolute", "continuous", "prismatic", "universal", "planar", "free")))
def test_pinocchio_reads_random_trees(tmp_path_factory, tree):
    parts, seed = tree
    model = build([dataclasses.replace(p, follows=None, armature=False) for p in parts], seed)
    model = dataclasses.replace(model, gravity=Vec3(0.0, 0.0, -9.81))
    bodies = [
        dataclasses.replace(b, joint=dataclasses.replace(b.joint, drivetrain=Drivetrain()))
        for b in model.bodies
    ]
    model = dataclasses.replace(model, bodies=tuple(bodies))
    result = convert(model, tmp_path_factory.mktemp("tree") / "tree.urdf", states=1)
    assert_agrees_with_pinocchio(qddot.Robot(model), result.target)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(most=8, kinds=("revolute", "continuous", "prismatic", "universal", "ball")))
def test_mujoco_reads_random_trees(tmp_path_factory, tree):
    parts, seed = tree
    model = build([dataclasses.replace(p, follows=None) for p in parts], seed)
    if not model.nv:
        return
    result = convert(model, tmp_path_factory.mktemp("tree") / "tree.xml", states=1)
    assert_agrees_with_mujoco(qddot.Robot(model), result.target)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda x: math.hypot(*x) > 1e-3))
def test_rotations_survive_their_angles_and_quaternion(q):
    R = rotation_from_quaternion(*q)
    w, x, y, z = quaternion_from_rotation(R)
    for back in (rotation_from_rpy(*rpy_from_rotation(R)), rotation_from_quaternion(x, y, z, w)):
        assert max(abs(c) for row in back - R for c in row) < 4e-15


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_angles_close_to_whole_degrees_are_kept(suffix, tmp_path):
    """Its turns are 8e-12 and 5e-11 rad from whole degrees, and no rounding of these."""
    source = tmp_path / "nearly.xml"
    source.write_text(
        """<mujoco><worldbody><body name="a" quat="0.499998 0.5 -0.500002 -0.5">
        <joint name="j"/><inertial mass="0.3" pos="0.15 0 0" diaginertia="2e-3 2e-3 1e-4"/>
        <body name="b" pos="0.3 0.03 0" quat="1 2.5e-11 0 0">
        <joint name="k" axis="0 1 0"/><inertial mass="0.3" pos="0 0 1" diaginertia="2 2 1"/>
        </body></body></worldbody></mujoco>"""
    )
    checks = convert(source, tmp_path / f"out.{suffix}", states=20).certificate.checks
    found = {m.name: m.measured for m in checks}
    assert max(found[name] for name in ("frames", "M", "bias")) < 1e-14


@pytest.mark.parametrize("pitch", [90, -90, 90 - 1e-6, 90 - 1e-9])
def test_angles_hold_at_a_quarter_turn(pitch):
    R = rotation_from_rpy(0.3, math.radians(pitch), -1.2)
    assert max(abs(c) for row in rotation_from_rpy(*rpy_from_rotation(R)) - R for c in row) < 1e-15


BODY = Inertia.at_com(2.0, Vec3(0.1, -0.2, 0.05), Sym3(0.05, 0.004, 0.06, -0.003, 0.002, 0.07))
TURNED = Transform(rotation_from_quaternion(0.1, 0.2, -0.3, 0.9), Vec3(0.1, 0.2, 0.3))


def single(kind: str, axes: tuple[Vec3, ...], parent: str | None = "arm", **fields) -> qddot.Robot:
    """A body on a joint of a kind, on an arm that moves."""
    arm = Joint("hinge", JOINTS["revolute"], (Vec3(0.0, 1.0, 0.0),))
    joint = Joint("it", JOINTS[kind], axes, **fields)
    links = [Link("arm", None, TURNED, arm, BODY), Link("body", parent, TURNED, joint, BODY)]
    return qddot.Robot(assemble("single", links))


def test_a_helical_joint_is_two_coupled_ones(tmp_path):
    robot = single("helical", (Vec3(0.6, 0.0, 0.8),), pitch=0.07)
    for suffix in ("urdf", "xml"):
        result = convert(robot, tmp_path / f"screw.{suffix}")
        assert "'it'" in the_loss(result, "helical joints").items[0]
        assert_same_dynamics(robot, qddot.load(result.target))
        assert result.exact
    m = pin.buildModelFromUrdf(str(tmp_path / "screw.urdf"), mimic=True)
    q = np.array([0.4, 0.7])
    M = pin.crba(m, m.createData(), np.array([np.cos(0.4), np.sin(0.4), 0.7]))
    assert_agree("M", robot.mass_matrix(q), np.triu(M) + np.triu(M, 1).T, TOLERANCE)


@pytest.mark.parametrize(("kind", "parent"), [("planar", "arm"), ("free", "arm"), ("free", None)])
def test_slides_stand_for_a_joint_in_body_axes(kind, parent, tmp_path):
    """MuJoCo's kinetic energy along a path of the joint is that of the joint, by differences."""
    axes = plane_basis(Vec3(0.6, 0.0, 0.8)) if kind == "planar" else ()
    robot = single(kind, axes, parent)
    result = convert(robot, tmp_path / "slides.xml")
    assert "velocities are along axes" in str(the_loss(result, f"{kind} joints"))
    assert result.exact
    m = mujoco.MjModel.from_xml_path(str(result.target))
    d = mujoco.MjData(m)
    q, v = states(robot, 1)
    q, v, h = q[0], v[0], 1e-6

    def qpos(q):
        return np.concatenate([q[:-4], [q[-1]], q[-4:-1]]) if kind == "free" else q

    ahead, behind = (qpos(robot.integrate(q, s * h * v)) for s in (1, -1))
    mujoco.mj_differentiatePos(m, d.qvel, 2 * h, behind, ahead)
    d.qpos[:] = qpos(q)
    mujoco.mj_forward(m, d)
    energy = 0.5 * d.qvel @ full_mass_matrix(m, d) @ d.qvel
    assert energy == pytest.approx(robot.kinetic_energy(q, v), rel=1e-8)


def test_a_planar_joint_of_any_normal_is_one_that_pinocchio_knows(tmp_path):
    for normal in (Vec3(0.0, 0.0, 1.0), Vec3(1.0, 0.0, 0.0), Vec3(0.6, 0.0, 0.8)):
        robot = single("planar", plane_basis(normal))
        result = convert(robot, tmp_path / "plane.urdf", force=True)
        assert_same_dynamics(robot, qddot.load(result.target))
        assert_agrees_with_pinocchio(robot, result.target)


def test_a_universal_joint_is_one_body_with_two_joints(tmp_path):
    robot = single("universal", (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0)))
    result = convert(robot, tmp_path / "universal.xml")
    m = mujoco.MjModel.from_xml_path(str(result.target))
    assert [m.body(i).name for i in range(m.nbody)] == ["world", "arm", "body"]
    assert qddot.load(result.target).joint_names == ("hinge", "it.1", "it.2")
    assert qddot.load(result.target).body_names == robot.body_names
    assert_agrees_with_mujoco(robot, result.target)


@pytest.mark.parametrize("suffix", [".urdf", ".xml"])
def test_a_joint_type_that_a_format_lacks_is_refused(suffix, tmp_path):
    target = tmp_path / f"odd{suffix}"
    with pytest.raises(Unsupported, match="'sleeve' of kind: 'cylindrical'"):
        convert(cylindrical_robot(), target)
    assert not target.exists()


def test_a_reference_position_becomes_part_of_the_placement(tmp_path):
    file = tmp_path / "ref.xml"
    file.write_text(
        """<mujoco><worldbody><body name="a"><inertial pos=".1 .2 0" mass="1" diaginertia="1 1 1"/>
        <joint name="j" axis="0 1 0" ref="30" range="-50 70"/>
        <body name="b" pos="0 0 1"><inertial pos="0 .1 0" mass="1" diaginertia="1 2 1.5"/>
        <joint name="s" type="slide" axis="1 0 0" ref="0.2"/></body></body></worldbody>
        <equality><joint joint1="s" joint2="j" polycoef="0.1 0.5 0 0 0"/></equality></mujoco>"""
    )
    source = qddot.load(file)
    result = convert(file, tmp_path / "ref.urdf")
    assert_same_dynamics(source, qddot.load(result.target))
    q = states(source)[0]
    poses = [r.frame_pose(q, "b") for r in (source, qddot.load(result.target))]
    np.testing.assert_allclose(*poses, rtol=0, atol=1e-14)
    for given_file in (file, result.target):
        back = convert(given_file, tmp_path / "back.xml", force=True)
        assert_same_dynamics(source, qddot.load(back.target))


ARM = """<mujoco><option gravity="0 0 -1.62"/><worldbody>
<body name="a"><inertial pos="0.1 0 0" mass="1" diaginertia="1 1 1"/>
 <joint name="j" axis="0 1 0" armature="0.25" stiffness="3" springref="20" damping="0.5"
        frictionloss="0.125" range="-90 90"/>
 <body name="b" pos="0 0 1"><inertial pos="0 0.1 0" mass="1" diaginertia="1 2 1.5"/>
  <joint name="k" type="slide" axis="1 0 0" armature="2"/>
  <body name="c" pos="0 0 1"><inertial pos="0 0 0.1" mass="1" diaginertia="1 1 1"/>
   <joint name="l" type="ball"/></body></body></body></worldbody>
<equality><connect name="loop" body1="b" anchor="0 0 0.5"/>
 <joint name="curve" joint1="k" joint2="j" polycoef="0 1 0.5 0 0"/></equality>
<keyframe><key name="home" qpos="0.1 0.2 1 0 0 0"/></keyframe></mujoco>"""


@pytest.fixture
def arm(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    return file


def test_urdf_says_what_it_cannot_say(arm, tmp_path):
    result = convert(arm, tmp_path / "arm.urdf", states=20)
    assert result.written
    assert not result.exact
    assert the_loss(result, "armature").items == ("0.25 kg m² at 'j'", "2 kg at 'k'")
    assert the_loss(result, "springs").items == (f"3 N m/rad about {math.radians(20):g} at 'j'",)
    assert the_loss(result, "gravity").items == ("(0, 0, -1.62) m/s²",)
    assert "'loop'" in the_loss(result, "loops").items[0]
    assert "0.5" in the_loss(result, "couplings").items[0]
    assert the_loss(result, "configurations").items == ("'home'",)
    assert the_loss(result, "ball joints").items == ("joint 'l'",)
    dynamic = {x.kind for x in result.losses if x.dynamics}
    assert dynamic >= {"armature", "springs", "gravity", "loops", "couplings"}
    # the effect is that of the armature and of gravity
    q = states(qddot.load(arm), 20)[0]
    M = qddot.load(arm).mass_matrix(q)
    M2 = qddot.load(result.target).mass_matrix(q)
    assert np.abs(M - M2).max(axis=(0,)).max() == pytest.approx(2.0)
    assert result.effect.mass_matrix > 0.1
    assert result.effect.bias > 0.1
    assert result.effect.friction > 0.1
    drive = qddot.load(result.target).model.body_of_joint("j").joint.drivetrain
    assert (drive.damping, drive.friction, drive.stiffness) == (0.5, 0.125, 0.0)


def test_mjcf_keeps_what_mjcf_says(arm, tmp_path):
    result = convert(arm, tmp_path / "again.xml", states=20)
    assert result.exact
    a, b = qddot.load(arm), qddot.load(result.target)
    assert_same_dynamics(a, b)
    assert a.model.gravity == b.model.gravity
    np.testing.assert_allclose(a.configurations["home"], b.configurations["home"], atol=1e-15)
    assert [c.coefficients for c in b.model.polynomial_couplings] == [(0.0, 1.0, 0.5, 0.0, 0.0)]
    assert [(x.name, x.kind) for x in b.model.loops] == [(x.name, x.kind) for x in a.model.loops]
    passive, gaps = [], []
    for file in (arm, result.target):
        m = mujoco.MjModel.from_xml_path(str(file))
        d = mujoco.MjData(m)
        d.qpos[:3], d.qvel[:3] = (0.3, -0.2, 1.0), (0.5, 0.4, 0.3)
        mujoco.mj_forward(m, d)
        passive.append(d.qfrc_passive)
        # of the equalities, in whatever order and frame they are
        gaps.append(np.linalg.norm(d.efc_pos[: d.ne]))
    np.testing.assert_allclose(*passive, atol=1e-12)
    np.testing.assert_allclose(*gaps, atol=1e-12)
    assert gaps[0] > 0.1


def test_mjcf_says_what_it_cannot_say(tmp_path):
    joints = [
        Joint("fast", JOINTS["revolute"], (Vec3(0.0, 1.0, 0.0),),
              limits=Limits(-1.0, 1.0, 2.5, 0.0),
              drivetrain=Drivetrain(rotor_inertia=1e-4, gear_ratio=100.0)),
        Joint("stuck", JOINTS["prismatic"], (Vec3(1.0, 0.0, 0.0),), limits=Limits(0.3, 0.3)),
        Joint("plane", JOINTS["planar"], plane_basis(Vec3(0.0, 0.0, 1.0)),
              drivetrain=Drivetrain(friction=0.5, damping=0.25, stiffness=2.0)),
    ]  # fmt: skip
    links = [
        Link(f"l{i}", f"l{i - 1}" if i else None, TURNED, j, BODY) for i, j in enumerate(joints)
    ]
    frames = [FrameDraft("end", "l2", TURNED), FrameDraft("fixed", None, TURNED)]
    model = assemble("odd", links, frames, loops=(Loop("ring", "revolute", "end", "fixed"),))
    result = convert(model, tmp_path / "odd.xml")
    assert result.written
    assert the_loss(result, "speed limits").items == ("2.5 rad/s at 'fast'",)
    assert the_loss(result, "effort limits").items == ("0 at 'fast'",)
    assert the_loss(result, "position limits").items == ("[0.3, 0.3] at 'stuck'",)
    assert the_loss(result, "rotors").items == ("rotor 0.0001, gear ratio 100 at 'fast'",)
    assert the_loss(result, "springs").items == ("2 N m/rad at 'plane'",)
    assert the_loss(result, "friction").items == ("0.5 at 'plane'",)
    assert "'ring'" in the_loss(result, "loops").items[0]
    read = qddot.load(result.target).model.body_of_joint("fast").joint
    assert read.drivetrain.reflected_inertia == pytest.approx(1.0, rel=1e-15)
    assert read.limits == Limits(-1.0, 1.0)


def test_one_sided_and_missing_limits_survive(tmp_path):
    joint = Joint("j", JOINTS["prismatic"], (Vec3(1.0, 0.0, 0.0),), limits=Limits(upper=0.5))
    other = Joint("k", JOINTS["revolute"], (Vec3(1.0, 0.0, 0.0),), limits=Limits(-2.0, effort=7.0))
    free = Joint("l", JOINTS["prismatic"], (Vec3(1.0, 0.0, 0.0),))
    links = [
        Link(f"l{i}", f"l{i - 1}" if i else None, TURNED, j, BODY)
        for i, j in enumerate((joint, other, free))
    ]
    model = assemble("limits", links)
    for suffix in ("urdf", "xml"):
        result = convert(model, tmp_path / f"limits.{suffix}")
        read = qddot.load(result.target)
        assert [b.joint.limits for b in read.model.bodies] == [x.joint.limits for x in links]
        assert np.abs(read.random(0, 100)).max() < 10
    pin.buildModelFromUrdf(str(tmp_path / "limits.urdf"))


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_couplings_stay_exact(suffix, tmp_path):
    axis = (Vec3(0.0, 1.0, 0.0),)
    joints = [
        Joint("lead", JOINTS["revolute"], axis, limits=Limits(-1.0, 1.0)),
        Joint("follow", JOINTS["prismatic"], axis, limits=Limits(-0.5, 0.75)),
        Joint("third", JOINTS["revolute"], axis),
    ]
    links = [
        Link(f"l{i}", f"l{i - 1}" if i else None, TURNED, j, BODY) for i, j in enumerate(joints)
    ]
    couplings = [Coupling("follow", "lead", -0.5, 0.125), Coupling("third", "follow", 3.0, 0.25)]
    robot = qddot.Robot(assemble("gear", links, couplings=couplings))
    result = convert(robot, tmp_path / f"gear.{suffix}")
    read = qddot.load(result.target)
    assert_same_dynamics(robot, read)
    third = read.model.body_of_joint("third").joint
    assert (third.leader, third.ratio, third.offset) == ("lead", -1.5, 0.625)
    assert read.model.body_of_joint("follow").joint.limits == Limits(-0.5, 0.75)
    if suffix == "urdf":
        m = pin.buildModelFromUrdf(str(result.target), mimic=True)
        assert m.nv == 1
        d, q = m.createData(), np.array([0.4])
        assert_agree("M", robot.mass_matrix(q), pin.crba(m, d, q), TOLERANCE)


def test_impossible_inertias_go_to_their_neighbours_or_are_refused(tmp_path):
    bad = '<inertial><mass value="0.01"/><inertia ixx="1e-6" iyy="1e-6" izz="1e-5"/></inertial>'
    text = f"""<robot name="imu"><link name="base">{bad}</link><link name="imu">{bad}</link>
    <link name="arm"><inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>
    </link><joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint>
    <joint name="m" type="fixed"><origin xyz="1 2 3" rpy="1 2 3"/><parent link="arm"/>
    <child link="imu"/></joint></robot>"""
    file = tmp_path / "imu.urdf"
    file.write_text(text)
    result = convert(file, tmp_path / "imu.xml")
    assert result.exact
    assert [x.items for x in result.losses if x.kind == "inertia"] == [
        ("link 'imu' with 'arm'",), ("link 'base', 0.01 kg",)
    ]  # fmt: skip
    assert_same_dynamics(qddot.load(file), qddot.load(result.target))
    assert_agrees_with_mujoco(qddot.load(file), result.target)
    same = convert(file, tmp_path / "same.urdf")
    assert the_loss(same, "inertia").items == ("link 'base'", "link 'imu'")
    file.write_text(text.replace('ixx="0.1"', 'ixx="-5"'))
    with pytest.raises(qddot.QddotError, match=r"'arm'.*impossible inertia.*audit --fix"):
        convert(file, tmp_path / "other.xml")
    assert not (tmp_path / "other.xml").exists()


def test_moments_that_rounding_made_impossible_are_lowered(tmp_path):
    plate = Inertia.at_com(1.0, Vec3.zero(), Sym3.diagonal(0.1, 0.2, 0.3 * (1 + 1e-8)))
    flat = Inertia.at_com(1.0, Vec3(0.1, 0.2, 0.3), Sym3(0.1, 0.0, 0.2, 0.0, 0.0, 0.3))
    turned = flat.to_parent(TURNED)
    hinge = JOINTS["revolute"]
    links = [
        Link(f"l{i}", None, TURNED, Joint(f"j{i}", hinge, (Vec3(0.0, 0.0, 1.0),)), x)
        for i, x in enumerate((plate, flat, turned))
    ]
    result = convert(assemble("plates", links), tmp_path / "plates.xml")
    assert result.written
    loss = the_loss(result, "inertia")
    assert len(loss.items) == 1
    assert "'l0'" in loss.items[0]
    assert 0 < result.effect.mass_matrix < 1e-8


def test_massless_bodies_are_named(tmp_path):
    hinge, up = JOINTS["revolute"], Vec3(0.0, 1.0, 0.0)
    links = [
        Link("a", None, TURNED, Joint("j0", hinge, (up,), drivetrain=Drivetrain(armature=0.1))),
        Link("b", "a", TURNED, Joint("j1", hinge, (Vec3(1.0, 0.0, 0.0),)), BODY),
        Link("c", "a", TURNED, Joint("j2", hinge, (Vec3(1.0, 0.0, 0.0),)), BODY),
    ]
    robot = qddot.Robot(assemble("fork", links))
    result = convert(robot, tmp_path / "fork.xml")
    assert the_loss(result, "massless links").items == ("link 'a'",)
    assert_agrees_with_mujoco(robot, result.target)


BREAKS = {
    "mass": ('mass value="', 'mass value="1'),
    "centre of mass": ('<origin xyz="0.003875', '<origin xyz="0.103875'),
    "inertia": ('ixx="', 'ixx="1'),
    "limits": ('velocity="2.175"', 'velocity="2.2"'),
    "drivetrain": ('friction="', 'friction="1'),
    "joints": ('joint name="', 'joint name="x'),
    "frames": ('rpy="-1.5', 'rpy="-1.4'),
    "M": ('axis xyz="0 0 1"', 'axis xyz="0 1 0"'),
}


@pytest.mark.parametrize("row", BREAKS)
def test_a_broken_writer_is_caught_and_nothing_is_written(row, tmp_path, monkeypatch):
    module = sys.modules["qddot.writers.convert"]
    right = module._WRITERS["urdf"]

    def wrong(*arguments):
        text, losses = right(*arguments)
        assert BREAKS[row][0] in text
        return text.replace(*BREAKS[row]), losses

    monkeypatch.setitem(module._WRITERS, "urdf", wrong)
    target = tmp_path / "panda.urdf"
    result = convert("panda", target, states=3)
    assert row in [m.name for m in result.certificate.checks if not m.passed]
    assert not result.written
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(app, ["convert", "panda", str(target)]).exit_code == 1


def test_a_file_that_cannot_be_read_back_is_no_success(tmp_path, monkeypatch):
    module = sys.modules["qddot.writers.convert"]
    monkeypatch.setitem(module._WRITERS, "urdf", lambda *a: ("<robot name='x'/>", []))
    result = convert("panda", tmp_path / "panda.urdf")
    assert not result.written
    assert "no <link>" in result.certificate.checks[0].detail
    assert "panda.urdf" in result.certificate.checks[0].detail


def test_a_file_is_not_overwritten_unless_asked(tmp_path):
    target = tmp_path / "robot.xml"
    target.write_text("mine")
    with pytest.raises(qddot.QddotError, match="--force"):
        convert("planar_2r", target)
    assert target.read_text() == "mine"
    assert convert("planar_2r", target, force=True).written
    with pytest.raises(qddot.QddotError, match="source itself"):
        convert(target, target, force=True)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no/such/folder/robot.xml", "there is no folder"),
        ("folder.xml", "is a folder"),
        ("file/robot.xml", "there is no folder"),
        ("robot.sdf", ".urdf for URDF"),
        ("robot", ".urdf for URDF"),
        ("nul\0.xml", "embedded null"),
    ],
)
def test_targets_that_cannot_be(target, reason, tmp_path):
    (tmp_path / "folder.xml").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(qddot.QddotError, match=reason):
        convert("planar_2r", tmp_path / target)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(qddot.QddotError, match="cannot write"):
        convert("planar_2r", tmp_path / "robot.xml")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_a_place_where_nobody_can_write():
    with pytest.raises(qddot.QddotError, match=r"cannot write /proc/robot\.xml"):
        convert("planar_2r", "/proc/robot.xml")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(qddot.QddotError, match="No space left"):
        convert("planar_2r", tmp_path / "robot.xml")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    target = tmp_path / "robot.xml"
    target.write_text("old")
    code = (
        "import os, signal, sys\n"
        "from qddot.writers import convert\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "convert('planar_2r', sys.argv[1], force=True, states=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert target.read_text() == "old"


def test_links_to_files_are_followed(tmp_path):
    real = tmp_path / "real.xml"
    real.write_text("old")
    (tmp_path / "link.xml").symlink_to(real)
    convert("planar_2r", tmp_path / "link.xml", force=True, states=1)
    assert (tmp_path / "link.xml").is_symlink()
    assert real.read_text() != "old"


ODD = [
    "a b",
    "ä手🦾",
    "<&>\"'",
    "--",
    "x/y",
    "é (fixed)",
    "robot::arm",
    "%s {0}",
]


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_odd_names_survive(suffix, tmp_path):
    links = []
    for i, name in enumerate(ODD):
        joint = Joint(name, JOINTS["revolute"], (Vec3(0.0, 1.0, 0.0),))
        parent = ODD[i - 1] if i else None
        links.append(Link(name, parent, TURNED, joint, BODY))
    frames = [FrameDraft(f"{name} tool", name, TURNED) for name in ODD]
    robot = qddot.Robot(assemble("odd -- & <name>", links, frames))
    result = convert(robot, tmp_path / f"odd.{suffix}", states=2)
    read = qddot.load(result.target)
    assert read.joint_names == tuple(ODD)
    assert read.body_names == tuple(ODD)
    assert set(robot.frame_names) <= set(read.frame_names)
    assert read.name == robot.name


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_names_that_xml_cannot_hold_are_refused(suffix, tmp_path):
    joint = Joint("none\ufffe", JOINTS["revolute"], (Vec3(0.0, 1.0, 0.0),))
    model = assemble("odd", [Link("l", None, TURNED, joint, BODY)])
    with pytest.raises(qddot.QddotError, match="XML cannot hold"):
        convert(model, tmp_path / f"odd.{suffix}")


def test_a_link_called_world(tmp_path):
    joint = Joint("j", JOINTS["revolute"], (Vec3(0.0, 1.0, 0.0),))
    held = Joint("h", JOINTS["fixed"])
    for weight in (Inertia.zero(), BODY):
        links = [
            Link("world", None, Transform.identity(), held, weight),
            Link("arm", "world", TURNED, joint, BODY),
        ]
        robot = qddot.Robot(assemble("arm", links))
        result = convert(robot, tmp_path / "arm.xml", force=True)
        assert_agrees_with_mujoco(robot, result.target)
        assert ("names" in kinds(result)) == bool(any(weight))
        back = convert(result.target, tmp_path / "arm.urdf", force=True)
        assert_same_dynamics(robot, qddot.load(back.target))
    moving = assemble("arm", [Link("world", None, TURNED, joint, BODY)])
    with pytest.raises(qddot.QddotError, match="rename the link"):
        convert(moving, tmp_path / "other.xml")
    assert_same_dynamics(
        qddot.Robot(moving), qddot.load(convert(moving, tmp_path / "other.urdf").target)
    )


def test_several_roots_hang_on_a_world(tmp_path):
    free = [
        Link(n, None, Transform.identity(), Joint(f"j {n}", JOINTS["free"]), BODY) for n in "ab"
    ]
    still = Link("table", None, TURNED, Joint("t", JOINTS["fixed"]), BODY)
    robot = qddot.Robot(assemble("two", [*free, still]))
    result = convert(robot, tmp_path / "two.urdf")
    assert_same_dynamics(robot, qddot.load(result.target))
    assert_agrees_with_pinocchio(robot, result.target)
    back = convert(result.target, tmp_path / "two.xml")
    assert_agrees_with_mujoco(robot, back.target)


def test_primitive_shapes_are_carried_over(tmp_path):
    result = convert("panda", tmp_path / "panda.xml", states=1)
    assert "'panda_hand_joint'" in the_loss(result, "fixed joints").items
    m = mujoco.MjModel.from_xml_path(str(result.target))
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    file = qddot.loaders.named_robots.named_files()["panda"]
    root = parse_xml(file.read_bytes(), str(file))
    seen = shape_readers.shapes_of_urdf(root, file.parent).found
    assert m.ngeom == len(seen)
    robot = qddot.load("panda")
    for g, shape in enumerate(seen):
        X = robot.frame_pose(robot.neutral(), shape.link)
        centre = X[:3, :3] @ np.array([*shape.placement.p]) + X[:3, 3]
        np.testing.assert_allclose(d.geom_xpos[g], centre, atol=1e-8)
        axis = X[:3, :3] @ np.array([row.z for row in shape.placement.R])
        np.testing.assert_allclose(d.geom_xmat[g].reshape(3, 3)[:, 2], axis, atol=1e-8)
        size = np.array(shape.size)
        half = size / 2 if shape.kind == "box" else [size[0], size[1] / 2]
        np.testing.assert_allclose(m.geom_size[g][: len(half)], half, rtol=1e-8)
        touches = bool(m.geom_contype[g] or m.geom_conaffinity[g])
        assert touches == (shape.role == "collision")


def test_shapes_choose(tmp_path):
    for choice, roles in (("none", set()), ("collision", {"collision"})):
        result = convert("panda", tmp_path / f"{choice}.urdf", shapes=choice, states=1)
        root = parse_xml(result.text.encode(), "")
        found = shape_readers.shapes_of_urdf(root, tmp_path).found
        assert {s.role for s in found} == roles
    with pytest.raises(qddot.QddotError, match="'collision'"):
        convert("panda", tmp_path / "x.urdf", shapes="some")


def tetrahedron(file: Path) -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "<f4")
    content = bytearray(80) + np.uint32(4).tobytes()
    for face in ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)):
        content += np.zeros(3, "<f4").tobytes() + corners[list(face)].tobytes() + bytes(2)
    file.write_bytes(content)


def test_shapes_that_mujoco_would_refuse_are_left_out(tmp_path):
    source = tmp_path / "r.urdf"
    source.write_text(
        """<robot name="r"><link name="a"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1"/></inertial>
        <visual><geometry><box size="1 1 0"/></geometry></visual>
        <visual><geometry><box size="1 1 1"/></geometry></visual>
        <visual><geometry><mesh filename="package://no_such_package/m.stl"/></geometry></visual>
        <visual><geometry><sphere radius="big"/></geometry></visual><visual/></link></robot>"""
    )
    result = convert(source, tmp_path / "r.xml", base="free")
    assert mujoco.MjModel.from_xml_path(str(result.target)).ngeom == 1
    texts = [str(x) for x in result.losses if x.kind in ("shapes", "meshes")]
    for words in (
        "no extent: visual box of 'a'",
        "no such file (package://no_such",
        "'big'",
        "has no",
    ):
        assert any(words in text for text in texts), texts


def test_meshes_and_capsules(tmp_path):
    (tmp_path / "meshes").mkdir()
    tetrahedron(tmp_path / "meshes" / "part.stl")
    (tmp_path / "meshes" / "words.stl").write_text("solid x\nendsolid x\n")
    file = tmp_path / "robot.xml"
    file.write_text(
        """<mujoco><compiler meshdir="meshes"/><asset><mesh name="p" file="part.stl" scale="2 2 2"/>
        </asset><worldbody><body name="a"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
        <joint name="j"/><geom type="mesh" mesh="p" pos="1 2 3" group="3"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.1" contype="0" conaffinity="0"/>
        <geom type="ellipsoid" size="1 2 3" group="3"/></body></worldbody></mujoco>"""
    )
    (tmp_path / "out").mkdir()
    result = convert(file, tmp_path / "out" / "robot.urdf")
    assert the_loss(result, "shapes").items == ("collision ellipsoid of 'a'",)
    root = parse_xml(result.text.encode(), "")
    # the mesh lies beside the folder of the file that is written: it is read where that is trusted
    assert len(shape_readers.shapes_of_urdf(root, result.target).unread) == 1
    mesh, *capsule = shape_readers.shapes_of_urdf(root, result.target, trust=True).found
    assert (mesh.role, mesh.size, mesh.placement.p) == (
        "collision",
        (2.0,) * 3,
        Vec3(1.0, 2.0, 3.0),
    )
    assert mesh.file.resolve() == tmp_path / "meshes" / "part.stl"
    # a capsule is a cylinder and a ball at either end
    assert sorted((s.kind, s.placement.p.z) for s in capsule) == [
        ("cylinder", 0.5), ("sphere", 0.0), ("sphere", 1.0)
    ]  # fmt: skip
    text = result.text.replace("part.stl", "words.stl").replace("sphere", "cone")
    (tmp_path / "out" / "odd.urdf").write_text(text)
    back = convert(tmp_path / "out" / "odd.urdf", tmp_path / "back.xml", trust=True)
    assert "words.stl" in the_loss(back, "meshes").items[0]
    assert "cone" in the_loss(back, "shapes").items[0]
    again = convert(result.target, tmp_path / "again.xml", trust=True)
    m = mujoco.MjModel.from_xml_path(str(again.target))
    assert m.nmesh == 1


def run(*arguments):
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def test_the_command_prints_a_certificate(tmp_path):
    result = run("quadruped", tmp_path / "q.urdf", "--states", "5")
    assert result.exit_code == 0, result.output
    for text in ("pass", "armature", "0.0018 kg m²", "FL_hip_joint", "wrote"):
        assert text in result.output
    assert "FAIL" not in result.output
    assert run("quadruped", tmp_path / "q.urdf").exit_code == 2
    assert run("no_such_robot", tmp_path / "r.urdf").exit_code == 2


def test_the_command_has_json_and_keeps_the_certificate(tmp_path):
    kept = tmp_path / "certificate.json"
    result = run("ur5e", tmp_path / "u.xml", "--json", "--certificate", kept, "--states", "5")
    report = json.loads(result.stdout)
    assert report["passed"] is report["written"] is report["exact"] is True
    assert report["certificate"]["states"] == 5
    names = [m["name"] for m in report["certificate"]["checks"]]
    assert {"joints", "mass", "centre of mass", "inertia", "M", "bias", "MuJoCo"} <= set(names)
    assert json.loads(kept.read_text()) == report


def test_lossless_writes_nothing_that_is_not(tmp_path):
    result = run("quadruped", tmp_path / "q.urdf", "--lossless", "--states", "2")
    assert result.exit_code == 1
    assert "something is lost" in result.output
    assert not (tmp_path / "q.urdf").exists()
    assert run("panda", tmp_path / "p.urdf", "--lossless", "--states", "2").exit_code == 0


def test_sdf_and_xacro_are_sources(tmp_path):
    sdf = tmp_path / "arm.sdf"
    sdf.write_text(
        """<sdf version="1.9"><model name="arm" static="0"><link name="base"/>
        <link name="up"><pose>0 0 1 0 0.3 0</pose><inertial><pose>0 0.1 0 0 0 0</pose>
        <mass>2</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>
        <collision name="c"><pose>0 0 0.5 0 0 0</pose><geometry><sphere><radius>0.1</radius>
        </sphere></geometry></collision></link>
        <joint name="w" type="fixed"><parent>world</parent><child>base</child></joint>
        <joint name="j" type="revolute"><parent>base</parent><child>up</child>
        <axis><xyz>0 1 0</xyz></axis></joint></model></sdf>"""
    )
    xacro = tmp_path / "arm.xacro"
    xacro.write_text(
        """<robot name="arm" xmlns:xacro="http://wiki.ros.org/xacro">
        <xacro:property name="m" value="2"/>
        <link name="base"/><link name="up"><inertial><mass value="${m}"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="j" type="continuous"><parent link="base"/><child link="up"/></joint></robot>"""
    )
    for file in (sdf, xacro):
        result = convert(file, tmp_path / f"{file.suffix[1:]}.xml", states=3)
        assert_same_dynamics(qddot.load(file), qddot.load(result.target))
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "sdf.xml")).ngeom == 1


def test_polynomial_couplings_keep_their_law(tmp_path):
    axis = (Vec3(0.0, 1.0, 0.0),)
    links = [
        Link(f"l{i}", None, TURNED, Joint(f"j{i}", JOINTS["revolute"], axis), BODY)
        for i in range(2)
    ]
    law = PolynomialCoupling("law", "j1", "j0", (0.1, 0.2, 0.3))
    model = assemble("law", links, polynomial_couplings=(law,))
    read = qddot.load(convert(model, tmp_path / "law.xml").target).model
    assert read.polynomial_couplings[0].coefficients == (0.1, 0.2, 0.3, 0.0, 0.0)


def test_a_coupling_of_more_terms_than_mjcf_has_is_lost(tmp_path):
    axis = (Vec3(0.0, 1.0, 0.0),)
    links = [
        Link(f"l{i}", None, TURNED, Joint(f"j{i}", JOINTS["revolute"], axis), BODY)
        for i in range(2)
    ]
    law = PolynomialCoupling("law", "j1", "j0", (0.0, 0.2, 0.3, 0.0, 0.0, 7.0))
    model = assemble("law", links, polynomial_couplings=(law,))
    result = convert(model, tmp_path / "law.xml")
    assert not result.exact
    assert "7.0" in the_loss(result, "couplings").items[0]
    assert qddot.load(result.target).model.polynomial_couplings == ()
    # a writer that drops the last term does not get its certificate
    short = dataclasses.replace(law, coefficients=law.coefficients[:5])
    other = dataclasses.replace(model, polynomial_couplings=(short,))
    checks = {m.name: m for m in certify_conversion(model, other, states=1).checks}
    assert checks["couplings"].measured == pytest.approx(1.0)


def test_matrices_of_identity_are_left_out(tmp_path):
    text = convert("planar_2r", tmp_path / "r.urdf").text
    assert 'xyz="0 0 0" rpy="0 0 0"' not in text.replace("<inertial>\n      <origin", "")


def test_the_page_on_conversion_runs(tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "convert.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "no Stribeck effect" in done.stdout


def write_chain(folder, count, kind):
    """A URDF of links that carry one another by joints of a kind."""
    inertial = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    joint = "<joint name='j{1}' type='{2}'><parent link='l{0}'/><child link='l{1}'/></joint>"
    parts = [f"<link name='l{i}'>{inertial}</link>" for i in range(count)]
    parts += [joint.format(i, i + 1, kind) for i in range(count - 1)]
    file = folder / f"{kind}.urdf"
    file.write_text(f"<robot name='chain'>{''.join(parts)}</robot>")
    return file


def test_robots_beyond_certification_are_refused(tmp_path):
    """Matrices of 3,000 velocities at 100 states would have 7 GB."""
    file = write_chain(tmp_path, 502, "continuous")
    for target in ("out.urdf", "out.xml"):
        with pytest.raises(Unsupported, match=r"501 velocities.*up to 500"):
            convert(file, tmp_path / target)
        assert not (tmp_path / target).exists()


def test_bodies_nested_deeper_than_files_may_be_are_refused(tmp_path):
    file = write_chain(tmp_path, 1200, "fixed")
    with pytest.raises(Unsupported, match="at most 197 bodies can be in one another"):
        convert(file, tmp_path / "out.xml")
    file = write_chain(tmp_path, 197, "fixed")
    assert convert(file, tmp_path / "out.xml", states=1).written


def test_certificates_of_large_robots_have_fewer_states():
    model = qddot.load("ur5e").model
    assert bound_states(model, 100) == 100
    assert bound_states(model, 10**9) == 4_000_000 // 36
    large = dataclasses.replace(model)
    object.__setattr__(large, "nv", 400)
    assert bound_states(large, 100) == 25
