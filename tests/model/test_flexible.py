"""Flexible joints against Spong's equations written out, closed forms, and the rigid robot."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_models import Part, build, trees
from scipy import linalg

import qddot
from qddot.analysis.linearise import linearise, natural_modes
from qddot.errors import InvalidArgument, InvalidModel, UnknownName
from qddot.model.assembly import assemble
from qddot.model.flexible import spong_map
from qddot.model.joints import JOINTS, Drivetrain, Joint
from qddot.model.links import Link
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

SINGLE = ("revolute", "continuous", "prismatic", "helical")

some = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def bare(robot: Robot) -> Robot:
    """The robot without rotors, losses and springs."""
    bodies = (
        dataclasses.replace(b, joint=dataclasses.replace(b.joint, drivetrain=Drivetrain()))
        for b in robot.model.bodies
    )
    return Robot(dataclasses.replace(robot.model, bodies=tuple(bodies)))


def close(a, b, tolerance=1e-10):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0.0) <= tolerance * max(1.0, np.abs(b).max(initial=0.0))


def check_spong(robot: Robot, seed: int) -> None:
    """M, and the accelerations that Spong's two equations give, at a random state."""
    rng, rigid, n = np.random.default_rng(seed), bare(robot), robot.nv
    joints = [b.joint.name for b in robot.model.bodies if b.joint.kind.nv == 1]
    places = [b.iv.start for b in robot.model.bodies if b.joint.kind.nv == 1]
    k, c, B = rng.uniform(1, 100, (3, len(joints)))
    flexible = robot.with_flexible_joints(
        *(dict(zip(joints, x.tolist(), strict=True)) for x in (k, c, B))
    )
    to_tree = spong_map(flexible.model)
    assert to_tree.joints == tuple(joints)
    q, (dq, load) = rigid.random(rng), rng.normal(size=(2, n))
    iq = [b.iq.start for b in robot.model.bodies if b.joint.kind.nv == 1]
    theta = q[iq] + rng.normal(size=len(joints))
    dtheta, tau = rng.normal(size=(2, len(joints)))
    x = to_tree.configuration @ np.concatenate([q, theta])
    dx = to_tree.velocity @ np.concatenate([dq, dtheta])
    T = to_tree.velocity
    M = rigid.mass_matrix(q)
    close(T.T @ flexible.mass_matrix(x) @ T, linalg.block_diag(M, np.diag(B)))
    # both equations, written out; friction of the motors acts on θ̇
    spring = k * (theta - q[iq]) + c * (dtheta - dq[places])
    pull = load.copy()
    pull[places] += spring
    motors = [flexible.model.body_of_joint(f"{j}.motor") for j in joints]
    losses = np.array(
        [
            b.joint.drivetrain.damping * w + b.joint.drivetrain.friction * np.sign(w)
            for b, w in zip(motors, dtheta, strict=True)
        ]
    )
    ddq = np.linalg.solve(M, pull - rigid.bias(q, dq))
    ddtheta = (tau - spring - losses) / B
    # a torque on the links and one on the motors, as the tree takes them
    torque = np.linalg.inv(T).T @ np.concatenate([load, tau])
    found = flexible.forward_dynamics(x, dx, torque, friction=True)
    tolerance = max(1e-10, 1e-14 * np.linalg.cond(M))
    close(np.linalg.inv(T) @ found, np.concatenate([ddq, ddtheta]), tolerance)
    close(flexible.inverse_dynamics(x, dx, found, friction=True), torque)
    for frame in robot.frame_names:
        close(flexible.frame_pose(x, frame), robot.frame_pose(q, frame))


@pytest.mark.parametrize("name", ["panda", "ur5e", "planar_3r"])
def test_arms_obey_the_two_equations_of_spong(name):
    for seed in range(3):
        check_spong(qddot.load(name), seed)


@some
@given(trees(most=6, kinds=SINGLE))
def test_random_arms_obey_them_too(tree):
    parts, seed = tree
    parts = [
        dataclasses.replace(p, follows=None, massless=False) for p in parts if p.kind != "fixed"
    ]
    parts = [dataclasses.replace(p, parent=min(p.parent, i - 1)) for i, p in enumerate(parts)]
    if parts:
        robot = Robot(build(parts, seed))
        springless = (
            dataclasses.replace(
                b,
                joint=dataclasses.replace(
                    b.joint, drivetrain=dataclasses.replace(b.joint.drivetrain, stiffness=0.0)
                ),
            )
            for b in robot.model.bodies
        )
        check_spong(Robot(dataclasses.replace(robot.model, bodies=tuple(springless))), seed)


def test_a_base_that_floats_stays_as_it_is():
    robot = qddot.load("quadruped")
    legs = dict.fromkeys(robot.joint_names[1:], 300.0)
    flexible = robot.with_flexible_joints(legs, motor_inertia=0.02)
    assert flexible.joint_names[:3] == ("root", "FL_hip_joint.motor", "FL_hip_joint.spring")
    assert (flexible.nq, flexible.nv) == (robot.nq + 12, robot.nv + 12)
    q, v = robot.random(0), np.random.default_rng(0).normal(size=robot.nv)
    both = spong_map(flexible.model)
    x = both.configuration @ np.concatenate([q, q[7:]])
    dx = both.velocity @ np.concatenate([v, v[6:]])
    # springs at ease: the links move as the rigid ones, the rotors add their own energy
    rotors = 0.5 * 0.02 * (v[6:] ** 2).sum() - sum(
        0.5 * float(b.armature) * v[b.iv.start] ** 2 for b in robot.model.bodies[1:]
    )
    assert flexible.kinetic_energy(x, dx) == pytest.approx(robot.kinetic_energy(q, v) + rotors)
    check_spong(robot, 4)


def test_what_the_joint_has_goes_to_the_motor():
    robot = qddot.load("planar_3r")
    flexible = robot.with_flexible_joints({"joint2": 50.0}, {"joint2": 0.3}, 0.1).model
    assert flexible.joint_names == ("joint1", "joint2.motor", "joint2.spring", "joint3")
    assert [b.name for b in flexible.bodies] == ["link1", "link2/joint2.motor", "link2", "link3"]
    before = robot.model.body_of_joint("joint2").joint
    motor = flexible.body_of_joint("joint2.motor").joint
    spring = flexible.body_of_joint("joint2.spring").joint
    assert motor.limits == before.limits
    assert motor.drivetrain == dataclasses.replace(before.drivetrain, armature=0.1)
    assert spring.drivetrain == Drivetrain(stiffness=50.0, damping=0.3)
    assert flexible.body_of_joint("joint1") == robot.model.body_of_joint("joint1")


def test_rotor_and_gear_of_the_model_are_the_motor():
    arm = Inertia.at_com(1.0, Vec3(0.2, 0.0, 0.0), Sym3.diagonal(0.01, 0.01, 0.01))
    drive = Drivetrain(armature=0.01, rotor_inertia=1e-4, gear_ratio=50.0)
    joint = Joint("j", JOINTS["revolute"], (Vec3(0.0, 0.0, 1.0),), offset=0.3, drivetrain=drive)
    place = Transform(Mat3.identity(), Vec3.zero())
    model = assemble("one", [Link("arm", None, place, joint, arm)], configurations={"home": (0.7,)})
    robot = Robot(model)
    flexible = robot.with_flexible_joints(1e3)
    assert flexible.mass_matrix([0.0, 0.0])[0, 0] - flexible.mass_matrix([0.0, 0.0])[1, 1] == (
        pytest.approx(0.01 + 1e-4 * 50.0**2)
    )
    M = robot.with_flexible_joints(1e3, motor_inertia=0.5).mass_matrix([0.0, 0.0])
    assert M[0, 0] - M[1, 1] == pytest.approx(0.5)
    # a named configuration keeps its link where it was, with the spring at ease
    np.testing.assert_array_equal(flexible.configurations["home"], [0.7, 0.0])
    close(flexible.frame_pose([0.5, 0.2], "arm"), robot.frame_pose([0.7], "arm"))


def one_link(J: float) -> Robot:
    """A wheel of inertia J."""
    wheel = Inertia.at_com(1.0, Vec3.zero(), Sym3.diagonal(J, J, J))
    joint = Joint("j", JOINTS["continuous"], (Vec3(0.0, 0.0, 1.0),))
    place = Transform(Mat3.identity(), Vec3.zero())
    return Robot(assemble("wheel", [Link("wheel", None, place, joint, wheel)]))


def test_one_link_vibrates_against_its_rotor_as_the_closed_form_says():
    J, B, k, c = 0.6, 0.2, 90.0, 1.5
    robot = one_link(J).with_flexible_joints(k, c, B)
    compliance = 1 / J + 1 / B
    natural = natural_modes(robot, [0, 0])
    close(natural.frequencies, [0.0, np.sqrt(k * compliance)])
    # link and rotor turn against each other: J q + B θ stays
    theta, delta = natural.shapes[:, 1]
    assert J * (theta + delta) + B * theta == pytest.approx(0.0, abs=1e-12)
    modes = linearise(robot, [0, 0], friction=True, actuated=["j.motor"]).modes()
    ratio = c * compliance / (2 * np.sqrt(k * compliance))
    assert modes.damping_ratios[-1] == pytest.approx(ratio)
    assert np.abs(modes.eigenvalues[-1]) == pytest.approx(np.sqrt(k * compliance))
    # with the motor held, the link alone swings on the spring
    held = natural_modes(robot.without_joint("j.motor"), [0])
    close(held.frequencies, [np.sqrt(k / J)])


@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_stiff_springs_approach_the_rigid_robot_with_armature(name):
    robot = qddot.load(name)
    q, B, servo = robot.random(1), 0.3, 2e3
    K = bare(robot).gravity_derivatives(q) + servo * np.eye(robot.nv)
    M = bare(robot).mass_matrix(q) + B * np.eye(robot.nv)
    rigid = np.sqrt(linalg.eigh(K, M, eigvals_only=True))
    errors = []
    for k in (1e6, 1e7, 1e8):
        flexible = robot.with_flexible_joints(k, motor_inertia=B)
        x = spong_map(flexible.model).configuration @ np.concatenate([q, q])
        # the servo holds the motors; gravity acts on the links
        gains = {f"{j}.motor": servo for j in robot.joint_names}
        found = natural_modes(flexible, x, gains).frequencies[: robot.nv]
        errors.append(np.abs(found / rigid - 1).max())
    assert errors[0] < 0.02
    for worse, better in itertools.pairwise(errors):
        assert worse / better == pytest.approx(10.0, rel=0.05)


def test_native_code_is_the_same():
    model = qddot.load("planar_2r").with_flexible_joints(200.0, 1.0, 0.3).model
    native, definition = Robot(model, native=True), Robot(model, native=False)
    rng = np.random.default_rng(0)
    q, v, tau = rng.normal(size=(3, 6, 4))
    ours = native.forward_dynamics(q, v, tau, friction=True)
    close(ours, definition.forward_dynamics(q, v, tau, friction=True), 1e-11)


COUPLED = build(
    [
        Part("revolute", WORLD, False, False, True, None),
        Part("revolute", 0, False, False, True, 0),
    ],
    3,
)


@pytest.mark.parametrize(
    ("robot", "arguments", "error", "message"),
    [
        ("ur5e", (1e4,), InvalidModel, "'shoulder_pan_joint': has no rotor: give motor_inertia"),
        ("panda", ({"panda_joint9": 1.0},), UnknownName, "no joint 'panda_joint9'"),
        ("panda", ({"panda_joint1": 0.0},), InvalidArgument, "it is a number, more than 0"),
        ("panda", (np.nan,), InvalidArgument, "it is a number, more than 0"),
        ("panda", ("stiff",), InvalidArgument, "it is a number, more than 0"),
        ("panda", (None,), InvalidArgument, "it is a number, more than 0"),
        ("panda", ({},), InvalidArgument, "no joint of one freedom"),
        ("panda", ({"panda_joint1": 9.0}, -1.0), InvalidArgument, "it is a number, 0 or more"),
        (
            "panda",
            ({"panda_joint1": 9.0}, {"panda_joint2": 1.0}),
            UnknownName,
            "no flexible joint 'panda_joint2'; closest: 'panda_joint1'",
        ),
        (
            "panda",
            ({"panda_joint1": 9.0}, 1.0, 0.0),
            InvalidArgument,
            "it is a number, more than 0",
        ),
        ("quadruped", ({"root": 1.0},), InvalidModel, "is a free joint; only joints of one"),
        ("quadrotor", (1.0,), InvalidArgument, "no joint of one freedom"),
        ("four_bar", (1.0, 0.0, 0.1), InvalidModel, "has loop closures"),
        ("coupled", (1.0,), InvalidModel, "has coupled joints"),
    ],
)
def test_what_cannot_be_flexible(robot, arguments, error, message):
    made = Robot(COUPLED) if robot == "coupled" else qddot.load(robot)
    with pytest.raises(error, match=message):
        made.with_flexible_joints(*arguments)


def test_a_joint_with_a_spring_of_its_own_is_refused():
    once = one_link(1.0).with_flexible_joints(5.0, motor_inertia=1.0)
    with pytest.raises(InvalidModel, match=r"'j\.spring': has a spring to its parent"):
        once.with_flexible_joints(5.0, motor_inertia=1.0)
