"""Sizing against closed forms, Pinocchio, and itself at other payloads."""

from __future__ import annotations

import json
import math
import re
import sys
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from typer.testing import CliRunner

import qddot
from qddot.analysis.sizing import MARGIN, SPEED_CLASSES, Sizing, breakdown, plot, size
from qddot.analysis.sizing.problem import make_problem
from qddot.analysis.sizing.survey import LoadCase, survey
from qddot.analysis.trajectory import PEAK_ACCELERATION, PEAK_SPEED, quintic
from qddot.cli import app
from qddot.errors import InvalidArgument, InvalidModel, UnknownName
from qddot.loaders.named_robots import locate_robot
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.model.links import FrameDraft, Link
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

G = 9.81
DOCS = Path(__file__).resolve().parents[2] / "docs"
RATED = (Limits(effort=40.0),)
ARM = {"masses": (2.0, 1.5), "lengths": (0.3, 0.25)}


def at(x: float, z: float = 0.0) -> Transform:
    return Transform(Mat3.identity(), Vec3(x, 0.0, z))


def arm(
    masses=(2.0,),
    lengths=(0.5,),
    limits=RATED,
    armature=0.0,
    kind="revolute",
    native=False,
    **drive,
) -> Robot:
    """Point masses at the ends of level links that turn about −y; `tip` is the end of the last.

    Small arms are interpreted sooner than compiled.
    """
    axis = Vec3(0.0, -1.0, 0.0) if kind == "revolute" else Vec3(0.0, 0.0, 1.0)
    links, parent, place = [], None, 0.0
    for i, (m, length) in enumerate(zip(masses, lengths, strict=True)):
        axes = (axis,) * JOINTS[kind].axes
        train = Drivetrain(armature=armature, **drive)
        joint = Joint(f"joint{i + 1}", JOINTS[kind], axes, limits=limits[i], drivetrain=train)
        inertia = Inertia.at_com(m, Vec3(length, 0.0, 0.0), Sym3(*[0.0] * 6))
        links.append(Link(f"link{i + 1}", parent, at(place), joint, inertia))
        parent, place = f"link{i + 1}", length
    return Robot(assemble("arm", links, [FrameDraft("tip", parent, at(place))]), native=native)


def two_links(effort=(60.0, 30.0), native=False) -> Robot:
    return arm(**ARM, limits=[Limits(effort=e) for e in effort], native=native)


def native(name: str) -> Robot:
    return Robot(qddot.load(name).model, native=True)


# closed forms


@pytest.mark.parametrize("payload", [0.0, 1.5])
def test_a_pendulum_needs_most_when_level(payload):
    m, l, b, armature, R = 2.0, 0.5, 3.0, 0.1, 40.0
    s = size(arm(armature=armature), payload, "tip", speed=2.0, acceleration=b, samples=500)
    (joint,) = s.joints
    moment, inertia = (m + payload) * l, (m + payload) * l**2
    assert abs(joint.static.torque) == pytest.approx(moment * G, rel=1e-12)
    assert abs(math.cos(joint.static.q[0])) == pytest.approx(1.0, abs=1e-10)
    assert joint.static.v == joint.static.a == 0.0
    peak = moment * G + (inertia + armature) * b
    assert abs(joint.dynamic.torque) == pytest.approx(peak, rel=1e-12)
    assert abs(joint.dynamic.gravity) == pytest.approx(moment * G, rel=1e-9)
    assert joint.share == pytest.approx(peak / R)
    assert joint.required_rating == pytest.approx(1.3 * peak)
    assert joint.passes is (1.3 * peak <= R)
    # the largest payload solves (m + p) l (g + l b) + armature b = rating / margin
    assert joint.payload_static == pytest.approx(R / (G * l) - m, rel=1e-10)
    for found, margin in ((joint.payload_dynamic, 1.0), (joint.payload_with_margin, MARGIN)):
        assert found == pytest.approx((R / margin - armature * b) / (l * (G + l * b)) - m, rel=1e-9)


def test_the_payload_hangs_where_its_centre_of_mass_is():
    s = size(arm(), 1.0, "tip", (0.3, 0.0, 0.4), speed=0.0, acceleration=0.0, samples=500)
    reach = math.hypot(0.5 * 3.0 + 0.3, 0.4)
    assert abs(s.joints[0].static.torque) == pytest.approx(G * reach, rel=1e-10)


def test_limits_of_position_bound_the_worst_pose():
    s = size(arm(limits=(Limits(0.5, 1.0, effort=40.0),)), 0.0, acceleration=0.0, samples=300)
    assert s.joints[0].static.q[0] == pytest.approx(0.5, abs=1e-12)
    assert abs(s.joints[0].static.torque) == pytest.approx(2.0 * 0.5 * G * math.cos(0.5))


def test_a_vertical_slide_is_sized_by_force():
    lift = arm(kind="prismatic", limits=(Limits(-1.0, 1.0, 5.0, 100.0),))
    (joint,) = size(lift, 3.0, "tip", acceleration=2.0, samples=200).joints
    assert joint.unit == "N"
    assert abs(joint.static.torque) == pytest.approx(5.0 * G)
    assert abs(joint.dynamic.torque) == pytest.approx(5.0 * (G + 2.0))
    assert joint.payload_dynamic == pytest.approx(100.0 / (G + 2.0) - 2.0)


def planar_terms(q2, v, m2, q1):
    """M, h and g of the planar 2R with point masses by hand (Lynch & Park 8.9)."""
    m1, (l1, l2) = ARM["masses"][0], ARM["lengths"]
    c, s = np.cos(q2), np.sin(q2)
    M12 = m2 * (l1 * l2 * c + l2**2)
    M11 = m1 * l1**2 + m2 * (l1**2 + 2 * l1 * l2 * c + l2**2)
    k = m2 * l1 * l2 * s
    tip = m2 * G * l2 * np.cos(q1 + q2)
    g = np.array([(m1 + m2) * l1 * G * np.cos(q1) + tip, tip])
    h = g + np.array([-k * (2 * v[0] * v[1] + v[1] ** 2), k * v[0] ** 2])
    return M11, M12, m2 * l2**2 + 0.0 * c, h, g


@pytest.mark.parametrize("speed", [(0.0, 0.0), (6.0, 6.0), (3.0, 9.0)])
def test_a_planar_arm_against_a_grid_over_its_closed_form(speed):
    """The worst over all poses, velocities and accelerations, on a fine grid."""
    payload, b = 0.8, 4.0
    m2 = ARM["masses"][1] + payload
    angles, steps = np.linspace(-np.pi, np.pi, 121), np.linspace(-1.0, 1.0, 11)
    q1, q2 = np.meshgrid(angles, angles, indexing="ij")
    grid = np.zeros(2)
    for x in steps:
        for y in steps if any(speed) else steps[:1]:
            M11, M12, M22, h, _ = planar_terms(q2, (x * speed[0], y * speed[1]), m2, q1)
            first = np.abs(h[0]) + (np.abs(M11) + np.abs(M12)) * b
            second = np.abs(h[1]) + (np.abs(M12) + M22) * b
            grid = np.maximum(grid, [first.max(), second.max()])
        if not any(speed):
            break
    s = size(two_links(native=True), payload, "tip", speed=speed, acceleration=b, samples=30_000)
    found = np.array([abs(j.dynamic.torque) for j in s.joints])
    assert (found >= grid * (1 - 1e-9)).all()
    np.testing.assert_allclose(found, grid, rtol=2e-3)
    l1, l2 = ARM["lengths"]
    moments = [(ARM["masses"][0] + m2) * l1 + m2 * l2, m2 * l2]
    static = [abs(j.static.torque) for j in s.joints]
    np.testing.assert_allclose(static, np.multiply(G, moments), rtol=1e-10)
    rest = [abs(j.payload_static) for j in s.joints]
    bare = [(ARM["masses"][0] + 1.5) * l1 + 1.5 * l2, 1.5 * l2]
    expected = [(60.0 / G - bare[0]) / (l1 + l2), (30.0 / G - bare[1]) / l2]
    np.testing.assert_allclose(rest, expected, rtol=1e-9)


def test_coriolis_against_gravity_by_hand():
    """With both joints at unit speed ‖C v‖ is at most √10 m₂ l₁ l₂; it grows with v²."""
    s = size(two_links(), 0.8, "tip", samples=20_000)
    m2, (l1, l2) = 2.3, ARM["lengths"]
    gravity = G * math.hypot((2.0 + m2) * l1 + m2 * l2, m2 * l2)
    unit = math.sqrt(10.0) * m2 * l1 * l2 / gravity
    assert [(c.name, c.speed) for c in s.speed_classes] == list(SPEED_CLASSES)
    for c in s.speed_classes:
        assert c.peak == pytest.approx(unit * c.speed**2, rel=1e-2)
        assert 0.0 < c.rms < 1.5 * c.peak
    slow, fast = s.speed_classes[0], s.speed_classes[-1]
    assert fast.peak / slow.peak == pytest.approx((fast.speed / slow.speed) ** 2, rel=1e-12)
    assert slow.advice != fast.advice


def test_root_mean_square_of_a_pendulum():
    s = size(arm(), 1.0, "tip", speed=0.0, acceleration=0.0, samples=20_000)
    assert s.joints[0].rms == pytest.approx(3.0 * 0.5 * G / math.sqrt(2.0), rel=2e-2)
    still = arm(limits=(Limits(0.0, 0.0, effort=40.0),))
    uniform = size(still, 0.0, "tip", acceleration=6.0, samples=20_000).joints[0].rms
    # τ = m l g + m l² a with a uniform in ±6
    assert uniform == pytest.approx(math.hypot(G, 0.5 * 6.0 / math.sqrt(3.0)), rel=1e-2)


def test_reflected_inertia_by_gear_ratio():
    robot = arm(armature=0.2, rotor_inertia=1e-4, gear_ratio=50.0)
    (row,) = size(robot, 1.0, "tip", samples=100).inertias
    link, reflected = 3.0 * 0.5**2, 0.2 + 1e-4 * 50.0**2
    assert row.link == pytest.approx((link,) * 3)
    assert row.armature == pytest.approx(reflected)
    assert row.share == pytest.approx(reflected / (reflected + link))
    assert row.dominated == 0.0
    assert row.shares == pytest.approx(
        [1e-4 * n**2 / (1e-4 * n**2 + link) for n in (1, 50, 100, 160)]
    )
    assert row.even_gear_ratio == pytest.approx(math.sqrt(link / 1e-4))
    assert row.equal_rotor == pytest.approx([link / n**2 for n in (1, 50, 100, 160)])
    heavy = size(arm(armature=1.0), 1.0, "tip", samples=100).inertias[0]
    assert (heavy.dominated, heavy.rotor_inertia, heavy.shares) == (1.0, None, None)
    given = size(arm(), 1.0, "tip", samples=100, rotor_inertia=1e-4).inertias[0]
    assert given.shares == row.shares


def test_a_counterweight_limits_on_the_other_side():
    """A bare arm that pulls up, and a payload that pulls down: R = p g l − m g l."""
    axis, limits = Vec3(0.0, -1.0, 0.0), Limits(effort=20.0)
    joint = Joint("joint1", JOINTS["revolute"], (axis,), limits=limits)
    link = Link(
        "beam", None, at(0.0), joint, Inertia.at_com(1.0, Vec3(-1.0, 0, 0), Sym3(*[0.0] * 6))
    )
    beam = Robot(assemble("beam", [link], [FrameDraft("tip", "beam", at(1.0))]), native=True)
    (row,) = size(beam, 0.0, "tip", speed=0.0, acceleration=0.0, samples=500).joints
    assert row.payload_static == pytest.approx(1.0 + 20.0 / G, rel=1e-10)


# against Pinocchio


def pinocchio_model(name: str, frame: str, mass: float, com) -> pin.Model:
    model = pin.buildModelFromUrdf(str(locate_robot(name)))
    at_frame = model.frames[model.getFrameId(frame)]
    lever = at_frame.placement.act(np.array(com))
    model.appendBodyToJoint(
        at_frame.parentJoint, pin.Inertia(mass, lever, np.zeros((3, 3))), pin.SE3.Identity()
    )
    return model


@pytest.mark.parametrize(
    ("name", "frame", "mass"), [("ur5e", "grasp", 5.0), ("panda", "panda_hand_tcp", 1.3)]
)
def test_worst_states_against_pinocchio(name, frame, mass):
    com, robot = (0.02, -0.01, 0.05), native(name)
    s = size(robot, mass, frame, com, speed=1.5, acceleration=2.5, samples=4000)
    model = pinocchio_model(name, frame, mass, com)
    data = model.createData()
    assert list(model.names)[1:] == list(robot.joint_names)
    for i, joint in enumerate(s.joints):
        for worst in (joint.static, joint.dynamic):
            tau = pin.rnea(model, data, worst.q, worst.v, worst.a)
            g = pin.computeGeneralizedGravity(model, data, worst.q)
            np.testing.assert_allclose(worst.torque, tau[i], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(worst.gravity, g[i], rtol=1e-9, atol=1e-9)
            assert (np.abs(worst.v) <= 1.5 + 1e-12).all()
            assert (np.abs(worst.a) <= 2.5 + 1e-12).all()
            assert (worst.q >= model.lowerPositionLimit - 1e-12).all()
            assert (worst.q <= model.upperPositionLimit + 1e-12).all()
    rng = np.random.default_rng(7)
    for i, joint in enumerate(s.joints):
        x, peak = joint.dynamic, abs(joint.dynamic.torque)
        # no other acceleration is worse, and no state close by
        M, h = pin.crba(model, data, x.q), pin.nonLinearEffects(model, data, x.q, x.v)
        M = np.triu(M) + np.triu(M, 1).T
        assert abs(h[i]) + 2.5 * np.abs(M[i]).sum() == pytest.approx(peak, rel=1e-9)
        for _ in range(50):
            q = x.q + rng.normal(size=model.nv) * 1e-3
            q = np.clip(q, model.lowerPositionLimit, model.upperPositionLimit)
            v = np.clip(x.v + rng.normal(size=model.nv) * 1e-3, -1.5, 1.5)
            assert abs(pin.rnea(model, data, q, v, x.a)[i]) <= peak * (1 + 1e-9)
    worst = np.array([abs(j.dynamic.torque) for j in s.joints])
    for q in robot.random(rng, 2000):
        v, a = (rng.choice([-b, b], model.nv) for b in (1.5, 2.5))
        tau = np.abs(pin.rnea(model, data, q, v, a))
        assert (tau <= worst * (1 + 1e-3) + 1e-9).all()


# payloads


@pytest.fixture(scope="module")
def ur5e() -> Robot:
    return native("ur5e")


def test_torque_is_affine_in_the_payload(ur5e):
    """The worst torque at random payloads is that of a robot that carries them."""
    for mass in np.random.default_rng(3).uniform(0.0, 8.0, 3):
        s = size(ur5e, float(mass), "grasp", samples=300)
        carrying = ur5e.with_payload("grasp", mass)
        for i, joint in enumerate(s.joints):
            worst = joint.dynamic
            tau = carrying.inverse_dynamics(worst.q, worst.v, worst.a)[i]
            assert worst.torque == pytest.approx(tau, rel=1e-9, abs=1e-9)


def test_a_joint_is_at_its_rating_with_its_largest_payload(ur5e):
    asked = size(ur5e, 1.0, "grasp", samples=9000)
    for name, margin in (("payload_dynamic", 1.0), ("payload_with_margin", MARGIN)):
        for i in (1, 3):
            most = getattr(asked.joints[i], name)
            again = size(ur5e, most, "grasp", samples=9000).joints[i]
            assert again.share * margin == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize("payload", [0.0, 4.0, 4.69, 4.71, 6.0])
def test_the_answers_never_contradict_each_other(ur5e, payload):
    s = size(ur5e, payload, "grasp", samples=2000)
    for joint in s.joints:
        assert (joint.share <= 1.0) == (payload <= joint.payload_dynamic * (1 + 1e-12))
        assert joint.passes == (payload <= joint.payload_with_margin * (1 + 1e-12))
        assert joint.payload_with_margin <= joint.payload_dynamic <= joint.payload_static
        assert abs(joint.static.torque) <= abs(joint.dynamic.torque) * (1 + 1e-12) + 1e-9
    assert s.fits == (payload <= s.largest_payload)
    assert s.verdict.startswith("yes" if s.fits else "no")


def test_few_states_do_not_make_the_answers_contradict_each_other():
    """At the largest payload found from four states, the torques found say the same."""
    robot = native("panda")
    for i in (1, 3):
        most = size(robot, 1.0, samples=4, seed=7).joints[i].payload_dynamic
        joint = size(robot, most, samples=4, seed=7).joints[i]
        assert (joint.share <= 1.0 + 1e-9) == (most <= joint.payload_dynamic * (1 + 1e-9))


def test_a_robot_too_weak_for_itself_carries_nothing():
    s = size(arm(limits=(Limits(effort=5.0),)), 0.0, "tip", samples=200)
    assert (s.fits, s.largest_payload, s.largest_payload_with_margin) == (False, 0.0, 0.0)
    assert "without any payload" in s.verdict


def test_a_payload_off_the_chain_loads_no_joint():
    s = size(two_links(), 4.0, "link1", samples=300)
    assert math.isinf(s.joints[1].payload_dynamic)
    assert abs(s.joints[1].static.torque) == pytest.approx(1.5 * 0.25 * G)


# sampling


def sampled(s: Sizing) -> np.ndarray:
    return np.array([[j.static.sampled, j.dynamic.sampled] for j in s.joints])


def test_more_samples_never_lower_the_worst():
    robot = two_links(native=True)
    runs = [sampled(size(robot, 1.0, "tip", samples=n)) for n in (1, 50, 700, 8192, 9000, 20_000)]
    for fewer, more in pairwise(runs):
        assert (more >= fewer).all()
    assert (runs[-1] > runs[0]).all()


def test_the_best_acceleration_of_a_drawn_state_is_a_corner():
    """At one drawn state no corner of the box of accelerations gives a larger torque."""
    robot, b = native("ur5e"), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    problem = make_problem(robot, 2.0, "grasp", (0.0, 0.0, 0.0), 1.0, b)
    carrying = robot.with_payload("grasp", 2.0)
    corners = b * np.array(list(product((-1.0, 1.0), repeat=6)))
    for seed in range(5):
        seen = survey(problem, [LoadCase(True, None)], 1, seed)
        for i, x in enumerate(seen.states[0, 0]):
            q, v, a = np.split(x, 3)
            most = np.abs(carrying.inverse_dynamics(q, v, corners)[:, i]).max()
            assert seen.scores[0, 0, i] == pytest.approx(most, rel=1e-10)
            assert abs(carrying.inverse_dynamics(q, v, a)[i]) == pytest.approx(most, rel=1e-10)


def test_a_seed_fixes_the_answer_and_refining_only_raises_it():
    robot = two_links()
    first, again, other = (size(robot, 1.0, "tip", samples=900, seed=k) for k in (5, 5, 6))
    assert first.summary() == again.summary()
    assert not np.array_equal(sampled(first), sampled(other))
    for joint in first.joints:
        assert abs(joint.static.torque) >= joint.static.sampled * (1 - 1e-12)
        assert abs(joint.dynamic.torque) >= joint.dynamic.sampled * (1 - 1e-12)


def test_native_and_interpreted_agree():
    robot = two_links(native=True)
    interpreted = Robot(robot.model, native=False)
    ours, theirs = (size(r, 1.0, "tip", speed=3.0, samples=10_000) for r in (robot, interpreted))
    for a, b in zip(ours.joints, theirs.joints, strict=True):
        assert abs(a.dynamic.torque) == pytest.approx(abs(b.dynamic.torque), rel=1e-9)
        assert a.payload_dynamic == pytest.approx(b.payload_dynamic, rel=1e-9)
    assert sampled(ours) == pytest.approx(sampled(theirs), rel=1e-12)


def test_progress_is_told():
    told = []
    size(two_links(), 1.0, samples=20_000, on_step=lambda *step: told.append(step))
    assert [s for s in told if s[0] == "random states"] == [
        ("random states", done, 20_000) for done in (0, 8192, 16_384)
    ]
    assert {s[0] for s in told} == {"random states", "worst states"}


# bounds, ratings, other joints


def test_speeds_by_joint_by_share_and_held_at_the_limit():
    robot = arm(**ARM, limits=[Limits(velocity=2.0, effort=9.0), Limits(velocity=4.0, effort=9.0)])
    assert size(robot, 0.0, speed="50%", samples=10).speed.tolist() == [1.0, 2.0]
    assert size(robot, 0.0, speed=(1.0, 0.5), samples=10).speed.tolist() == [1.0, 0.5]
    held = size(robot, 0.0, speed=3.0, samples=10)
    assert held.speed.tolist() == [2.0, 3.0]
    assert any("held at the limit" in n and "joint1" in n for n in held.notes)


def test_without_effort_limits_only_torque_is_told():
    s = size(arm(limits=(Limits(),)), 1.0, "tip", samples=100)
    assert (s.fits, s.fits_with_margin, s.joints[0].share, s.joints[0].passes) == (None,) * 4
    assert s.verdict.startswith("unknown")
    assert s.joints[0].payload_text(s.joints[0].payload_dynamic) == "no rating"
    assert "the description has no effort limit at any joint: torque only" in s.notes
    some = size(two_links((math.inf, 30.0)), 1.0, "tip", samples=100)
    assert "the description has no effort limit at joint1: torque only" in some.notes
    assert some.fits is True
    assert some.most_loaded.name == "joint2"
    zero = size(arm(limits=(Limits(effort=0.0),)), 1.0, "tip", samples=100)
    assert zero.fits is None


def test_a_ball_joint_keeps_the_coordinates_that_were_drawn():
    robot = arm(kind="ball", limits=(Limits(effort=40.0),))
    s = size(robot, 1.0, "tip", samples=3000)
    largest = max(abs(j.static.torque) for j in s.joints)
    assert largest == pytest.approx(3.0 * 0.5 * G, rel=2e-2)
    assert largest <= 3.0 * 0.5 * G * (1 + 1e-12)
    assert any("joint1" in note for note in s.notes)


@pytest.mark.parametrize("name", ["delta", "four_bar"])
def test_loops_are_said_to_be_open(name):
    robot = native(name)
    s = size(robot, 0.1, robot.body_names[-1], samples=50)
    assert any("open tree" in note for note in s.notes)


def test_what_cannot_be_sized_is_refused(ur5e):
    with pytest.raises(UnknownName, match="closest: 'grasp'"):
        size(ur5e, 1.0, "grasps")
    with pytest.raises(InvalidArgument, match="fixed to the world"):
        size(ur5e, 1.0, "table")
    with pytest.raises(InvalidArgument, match="base='fixed'"):
        size(qddot.load("quadruped"), 1.0)
    with pytest.raises(InvalidArgument, match="the robot ends at"):
        size(qddot.load("quadruped", base="fixed"), 1.0)
    with pytest.raises(InvalidArgument, match="no joint that moves"):
        size(Robot(assemble("rock", [])), 1.0)
    for payload in (-1.0, math.nan, math.inf, "5"):
        with pytest.raises(InvalidArgument, match="payload"):
            size(ur5e, payload)
    for speed in (-1.0, math.nan, (1.0, 2.0), "fast", "150%", "x%", None):
        with pytest.raises(InvalidArgument, match="speed"):
            size(ur5e, 1.0, speed=speed)
    with pytest.raises(InvalidArgument, match="hold no such limits"):
        size(ur5e, 1.0, acceleration="50%")
    with pytest.raises(InvalidArgument, match="no speed limit at joint1"):
        size(arm(), 1.0, speed="50%")
    for wrong in ({"samples": 0}, {"samples": 1.5}, {"seed": -1}, {"rotor_inertia": 0.0}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            size(ur5e, 1.0, **wrong)
    with pytest.raises(InvalidArgument, match="com"):
        size(ur5e, 1.0, com=(0.0, 0.1))
    with pytest.raises(InvalidModel, match="finite"):
        size(ur5e, 1.0, com=(0.0, 0.1, math.nan))


# the command


def run(*args: str):
    return CliRunner(env={"QDDOT_NATIVE": "1"}).invoke(app, ["size", *args])


def test_the_first_line_answers_and_the_exit_code_says_it():
    fits = run("planar_2r", "--payload", "1", "--samples", "500")
    assert fits.exit_code == 0
    assert fits.stdout.splitlines()[0].startswith("yes, 1 kg at 'tool' fits planar_2r")
    heavy = run("planar_2r", "--payload", "20", "--samples", "500")
    assert heavy.exit_code == 1
    assert heavy.stdout.splitlines()[0].startswith("no, 20 kg at 'tool' does not fit")


def test_json_has_everything():
    result = run(
        *("planar_2r", "--payload", "1", "--samples", "500", "--json"),
        *("--speed", "50%", "--acceleration", "2,3", "--com", "0,0,0.1", "--rotor-inertia", "1e-5"),
    )
    data = json.loads(result.stdout)
    assert set(data) == {
        *("verdict", "robot", "payload", "frame", "com", "speed", "acceleration", "samples"),
        *("seed", "fits", "fits_with_margin", "largest_payload", "largest_payload_with_margin"),
        *("notes", "most_loaded", "margin", "joints", "speed_classes", "gear_ratios", "inertias"),
    }
    assert (data["fits"], data["frame"], data["acceleration"]) == (True, "tool", [2.0, 3.0])
    joint = data["joints"][0]
    assert set(joint["dynamic"]) == {"torque", "gravity", "q", "v", "a", "sampled"}
    assert joint["share"] == pytest.approx(abs(joint["dynamic"]["torque"]) / joint["rating"])
    assert len(data["inertias"][0]["shares"]) == len(data["gear_ratios"])


def test_no_limit_is_null_in_json():
    args = ("planar_2r", "--payload", "1", "--frame", "link1", "--samples", "50", "--json")
    assert json.loads(run(*args).stdout)["joints"][1]["payload_static"] is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("planar_2r", "--frame", "tooll"), "closest: 'tool'"),
        (("planar_2r", "--payload", "-1"), "0 or more"),
        (("planar_2r", "--com", "a,b,c"), "numbers with commas"),
        (("planar_2r", "--speed", "1,2,3"), "or 2 of them"),
        (("planar_2r", "--samples", "10", "--plot", "nowhere/x.png"), "cannot write"),
        (("quadrotor",), "base='fixed'"),
    ],
)
def test_errors_are_one_message_and_exit_code_2(args, message):
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("limits", [Limits(effort=30.0), Limits()])
def test_the_answer_is_drawn(tmp_path, limits):
    robot = arm(limits=(limits,))
    plot(robot, size(robot, 1.0, "tip", samples=200), tmp_path / "size.png")
    assert (tmp_path / "size.png").read_bytes()[:4] == b"\x89PNG"


# motions


def test_a_quintic_rests_at_its_ends_and_peaks_where_the_book_says():
    q0, q1, T = np.array([0.0, 1.0]), np.array([0.5, -2.0]), 2.0
    t = np.linspace(-0.5, 2.5, 30_001)
    q, v, a = quintic(q0, q1, T, t)
    assert q.shape == v.shape == a.shape == (30_001, 2)
    np.testing.assert_allclose(q[[0, -1]], [q0, q1])
    np.testing.assert_array_equal(v[[0, -1]], 0.0)
    np.testing.assert_allclose(np.gradient(q, t, axis=0), v, atol=1e-3)
    np.testing.assert_allclose(np.gradient(v, t, axis=0)[5200:-5200], a[5200:-5200], atol=1e-3)
    np.testing.assert_allclose(np.abs(v).max(axis=0), PEAK_SPEED * np.abs(q1 - q0) / T, rtol=1e-6)
    peak = PEAK_ACCELERATION * np.abs(q1 - q0) / T**2
    np.testing.assert_allclose(np.abs(a).max(axis=0), peak, rtol=1e-6)
    assert round(PEAK_ACCELERATION * 0.5, 2) == 2.89
    for duration in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidArgument, match="duration"):
            quintic(q0, q1, duration, 0.0)
    with pytest.raises(InvalidArgument, match="numbers"):
        quintic(q0, [1.0, 2.0, 3.0], 1.0, 0.0)


def test_the_terms_along_a_motion_add_up():
    robot = two_links()
    q, v, a = quintic([0.1, -0.4], [1.0, 0.7], 0.5, np.linspace(0.0, 0.5, 50))
    terms = breakdown(robot, q, v, a)
    np.testing.assert_allclose(terms.torque, robot.inverse_dynamics(q, v, a), atol=1e-12)
    np.testing.assert_allclose(
        terms.torque, terms.gravity + terms.inertial + terms.coriolis, atol=1e-12
    )
    for k in range(0, 50, 7):
        M11, M12, M22, h, g = planar_terms(q[k, 1], v[k], 1.5, q[k, 0])
        np.testing.assert_allclose(terms.gravity[k], g, atol=1e-12)
        np.testing.assert_allclose(terms.coriolis[k], h - g, atol=1e-12)
        np.testing.assert_allclose(terms.inertial[k], [[M11, M12], [M12, M22]] @ a[k], atol=1e-12)
    peak = np.abs(terms.torque).argmax(axis=0)
    share = terms.gravity[peak, [0, 1]] / terms.torque[peak, [0, 1]]
    np.testing.assert_allclose(terms.gravity_share, share)


# the page on the UR5


def ur5_page():
    sys.path.insert(0, str(DOCS))
    try:
        import ur5_quintic
    finally:
        sys.path.pop(0)
    if "ur5_robot" not in qddot.robot_names():
        pytest.skip("example-robot-data is not installed")
    return ur5_quintic


def test_the_page_on_the_ur5_is_current():
    page = ur5_page()
    assert page.PAGE.read_text() == page.quintic_page(), "run python docs/ur5_quintic.py"


@pytest.mark.parametrize("name", ["ur5_robot", "ur5e"])
def test_the_figures_of_the_page_by_pinocchio(name):
    """The quintic as a polynomial, the payload appended, the terms by RNEA with parts left out."""
    page = ur5_page()
    model = pinocchio_model(name, "tool0", 5.0, (0.0, 0.0, 0.0))
    data, zero = model.createData(), np.zeros(6)
    s = np.polynomial.Polynomial([0, 0, 0, 10, -15, 6])
    q0 = np.array([0, -np.pi / 2, np.pi / 2, 0, np.pi / 2, 0])
    peaks, rows = np.zeros((4, 6)), []
    for t in np.linspace(0.0, 1.0, 2001):
        q, v, a = q0 + 0.5 * s(t), np.full(6, 0.5 * s.deriv()(t)), np.full(6, 0.5 * s.deriv(2)(t))
        tau, h, g = (pin.rnea(model, data, q, *x) for x in ((v, a), (v, zero), (zero, zero)))
        peaks = np.maximum(peaks, np.abs([g, tau - h, h - g, tau]))
        rows.append((g, tau))
    terms = page.motion(name).terms
    found = [terms.peaks[k] for k in ("gravity", "inertial", "coriolis", "torque")]
    np.testing.assert_allclose(found, peaks, rtol=1e-5, atol=1e-9)
    g, tau = np.moveaxis(rows, 1, 0)
    lift = np.abs(tau[:, 1]).argmax()
    assert terms.gravity_share[1] == pytest.approx(g[lift, 1] / tau[lift, 1], abs=1e-3)
    printed = page.PAGE.read_text()
    for joint, *cells in zip(page.motion(name).joints, *peaks, strict=True):
        shown = " | ".join(f"{x:.2f}" for x in cells)
        assert any(
            line.startswith(f"| {joint} |") and shown in line for line in printed.splitlines()
        )


def test_the_example_of_the_page_on_sizing_runs(monkeypatch, capsys):
    monkeypatch.setenv("QDDOT_NATIVE", "1")
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "sizing.md").read_text(), re.S)
    exec(code, {})
    assert "panda_joint2" in capsys.readouterr().out
