"""Rank, assembly, actuation, reduction and impact of constrained robots."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import qddot
from qddot.analysis import constraints as cs
from qddot.errors import (
    ActuatorsTooFew,
    CannotAssemble,
    InvalidArgument,
    SingularInertia,
    UnknownName,
)
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import Contact, FrameDraft, Link, Loop
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

BAR = '<inertial pos="0 0 .1" mass="1" diaginertia=".01 .01 .01"/>'


def at(x: float, y: float, z: float) -> Transform:
    return Transform(Mat3.identity(), Vec3(x, y, z))


@pytest.fixture
def load(tmp_path):
    def loader(bodies: str, equality: str = ""):
        file = tmp_path / "robot.xml"
        hinge = '<default><joint axis="0 1 0"/></default>'
        file.write_text(
            f'<mujoco><compiler angle="radian"/>{hinge}<worldbody>{bodies}</worldbody>'
            f"<equality>{equality}</equality></mujoco>"
        )
        return qddot.load(file)

    return loader


def crank(x: float, name: str, beyond: str = "") -> str:
    return (
        f'<body name="{name}" pos="{x} 0 0"><joint name="{name}"/>{BAR}'
        f'<site name="{name}_end" pos="0 0 .2"/>{beyond}</body>'
    )


COUPLER = (
    f'<body name="beam" pos="0 0 .2"><joint name="beam"/>{BAR}'
    '<site name="p" pos=".3 0 0"/><site name="r" pos=".6 0 0"/></body>'
)
PARALLELOGRAM = crank(0, "a", COUPLER) + crank(0.3, "b") + crank(0.6, "c")
PINS = '<connect name="{}" site1="{}" site2="{}"/>'


# rank


def test_a_row_that_moves_nothing_is_named():
    rank = cs.analyse(qddot.load("four_bar"), np.zeros(3))
    assert rank.rows == ("loop.x", "loop.y", "loop.z")
    assert (rank.rank, rank.freedoms, rank.redundant) == (2, 1, {"loop.y": {}})
    assert [c.rows for c in rank.independent] == [("x", "z")]
    assert str(rank) == (
        "3 equations, 2 independent; freedoms left: 1\n  loop.y moves with no joint"
    )


def test_a_deliberately_redundant_loop_is_named_and_left_out():
    robot = qddot.load("delta")
    (one, *others), q, zero = robot.model.loops, robot.neutral(), np.zeros(12)
    again = Loop("again", "weld", one.frame1, one.frame2, rows=("x", "z", "rz"))
    doubled = [one, again, *others]
    with pytest.warns(UserWarning, match="are redundant") as caught:
        b, multipliers = robot.constrained_dynamics(q, zero, zero, constraints=doubled)
    text = str(caught[0].message)
    assert "'again.x' = 1 'loop1.x'; 'again.z' = 1 'loop1.z'" in text
    assert "Independent rows: loop1.x, loop1.y, loop1.z, again.rz, loop2.x" in text
    assert np.flatnonzero(multipliers == 0.0).tolist() == [3, 4]
    rank = cs.analyse(robot, q, doubled)
    assert rank.redundant["again.x"] == pytest.approx({"loop1.x": 1.0})
    a, _ = robot.constrained_dynamics(q, zero, zero, constraints=rank.independent)
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert [c.name for c in rank.independent] == ["loop1", "again", "loop2", "loop3"]
    assert rank.independent[1].rows == ("rz",)


def test_a_hinge_of_two_points_has_one_equation_too_many(load):
    """The distance between two points of a body does not change: the sixth row follows."""
    door = (
        f'<body name="door"><freejoint name="root"/>{BAR}<site name="low"/>'
        '<site name="high" pos="0 0 1"/></body><site name="bottom"/><site name="top" pos="0 0 1"/>'
    )
    pins = PINS.format("lower", "bottom", "low") + PINS.format("upper", "top", "high")
    robot = load(door, pins)
    rank = cs.analyse(robot, robot.neutral())
    assert (rank.rank, rank.freedoms) == (5, 1)
    assert rank.redundant == {"upper.z": pytest.approx({"lower.z": 1.0})}
    # elsewhere the same row follows from others: in every configuration one does
    moved = robot.integrate(robot.neutral(), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert len(cs.analyse(robot, moved).redundant["upper.z"]) == 5
    with pytest.warns(UserWarning, match=r"'upper.z' = 1 'lower.z'"):
        a, _ = robot.constrained_dynamics(robot.neutral(), np.zeros(6), [0, 0, 0, 0, 0, 1.0])
    # it turns about the line of its pins
    np.testing.assert_allclose(a[:5], [0.0, a[1], 0.0, 0.0, 0.0], atol=1e-12)
    assert a[5] > 0.0


def test_redundant_only_where_it_is_closed(load):
    """Three parallel cranks: any two carry the beam, and only equal lengths let the third in."""
    pins = PINS.format("second", "b_end", "p") + PINS.format("third", "c_end", "r")
    robot = load(PARALLELOGRAM, pins)
    flat = [dataclasses.replace(loop, rows=("x", "z")) for loop in robot.model.loops]
    q = cs.assemble(robot, [0.4, -0.4, 0.4, 0.4], flat)
    # its neutral is a place where it may buckle: here all angles are equal
    np.testing.assert_allclose(q[[0, 2, 3]], q[0], atol=1e-9)
    v = cs.consistent_velocity(robot, q, [1.0, 0.0, 0.0, 0.0], flat)
    np.testing.assert_allclose(v[[0, 2, 3]], v[0], atol=1e-9)
    # a row of velocities, not of places: the far end of a beam on one pin moves twice as far
    with pytest.warns(UserWarning, match=r"'third\.z' = 2 'second\.z'\."):
        c, _ = cs.forward_dynamics(robot, q, v, np.zeros(4), flat)
    # the row that is left out follows from the others all along the motion
    angles = np.linspace(-1.4, 1.4, 200)[:, None] * [1.0, -1.0, 1.0, 1.0]
    assert np.abs(robot.constraint_residual(angles, constraints=flat)).max() < 1e-15
    rates = np.ones(200)[:, None] * [1.0, -1.0, 1.0, 1.0]
    for native in (True, False):
        same = Robot(robot.model, native)
        with pytest.warns(UserWarning, match="are redundant"):
            found, _ = same.constrained_dynamics(angles, rates, np.zeros(4), constraints=flat)
        np.testing.assert_allclose(found[:, [0, 2, 3]], found[:, :1] * np.ones(3), atol=1e-6)
    # three equations are enough, and agree with the reduced form
    enough = cs.independent(robot, q, flat)
    a, _ = cs.forward_dynamics(robot, q, v, np.zeros(4), enough)
    b = cs.reduced_forward_dynamics(robot, q, v, np.zeros(4), "a", flat)
    np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(c, b, rtol=1e-9)
    np.testing.assert_allclose(a[[0, 2, 3]], a[0], rtol=1e-9)


def test_more_equations_than_joints():
    robot = qddot.load("quadruped")
    feet = [Contact(f"{leg}_foot", "surface") for leg in ("FL", "FR", "RL", "RR")]
    q, zero = robot.random(0), np.zeros(18)
    rank = cs.analyse(robot, q, feet)
    assert (len(rank.rows), rank.rank, rank.freedoms) == (24, 18, 0)
    with pytest.warns(UserWarning, match=r"'RR_foot.rz' depends on .* and 9 more"):
        a, _ = robot.constrained_dynamics(q, zero, zero, constraints=feet)
    np.testing.assert_allclose(a, 0.0, atol=1e-7)


# assembly


def test_assembly_of_a_batch_from_far_away():
    robot = qddot.load("delta")
    q = cs.assemble(robot, robot.random(0, (20, 10)), strict=False)
    closed = np.isfinite(q).all(axis=-1)
    assert q.shape == (20, 10, 12)
    assert closed.mean() > 0.95
    assert np.abs(robot.constraint_residual(q[closed])).max() < 1e-12


def test_assembly_of_turning_joints_from_far_away():
    """Cuts a random tree open nowhere: bodies in space that are welded, hinged, pinned together."""
    solid = Inertia.at_com(1.0, Vec3(0.0, 0.1, 0.0), Sym3.diagonal(0.1, 0.1, 0.1))
    links = [
        Link(f"b{k}", None, at(0, 0, 0), Joint(f"j{k}", JOINTS["free"]), solid) for k in range(4)
    ]
    frames = [FrameDraft(f"e{k}", f"b{k}", at(0.3, 0.1 * k, 0.2)) for k in range(4)]
    robot = Robot(assemble("bodies", [*links], frames))
    chain = [
        Loop("weld", "weld", "b0", "e1"),
        Loop("hinge", "revolute", "b1", "e2", (1, 0, 0)),
        Loop("slide", "prismatic", "b2", "e3", (0, 1, 1)),
        Contact("e0", "surface", at(0.1, 0.2, 0.3)),
    ]
    q = cs.assemble(robot, robot.random(1, 50), chain)
    assert np.abs(robot.constraint_residual(q, constraints=chain)).max() < 1e-12
    X = robot.frame_pose(q, "e0")
    np.testing.assert_allclose(
        X, np.broadcast_to(np.array([*at(0.1, 0.2, 0.3)]), X.shape), atol=1e-11
    )
    turn = (
        np.swapaxes(robot.frame_pose(q, "b1")[:, :3, :3], 1, 2)
        @ robot.frame_pose(q, "e2")[:, :3, :3]
    )
    np.testing.assert_allclose(turn[:, 0, 0], 1.0, atol=1e-11)


def test_progress_of_an_assembly_is_told():
    robot, steps = qddot.load("four_bar"), []
    guess = np.zeros((5, 3))
    guess[1:, 0] = 0.3
    cs.assemble(robot, guess, on_step=lambda *x: steps.append(x))
    assert steps[0] == ("assemble", 1, 5)
    assert steps[-1] == ("assemble", 5, 5)
    assert cs.assemble(robot, np.zeros((0, 3))).shape == (0, 3)


def test_fixed_joints_stay_and_what_cannot_be_is_told():
    robot = qddot.load("four_bar")
    q = cs.assemble(robot, [[0.5, 0, 0], [1.0, 0, 0]], fixed=["crank_joint"])
    np.testing.assert_array_equal(q[:, 0], [0.5, 1.0])
    everything = robot.joint_names
    with pytest.raises(CannotAssemble, match=r"does not close: open are 'loop.z' by .*fix fewer"):
        cs.assemble(robot, [0.5, 0, 0], fixed=everything)
    with pytest.raises(CannotAssemble, match="does not close at 1 of 2 states") as caught:
        cs.assemble(robot, [[0.0, 0, 0], [0.5, 0, 0]], fixed=everything)
    assert (caught.value.failed, caught.value.of) == (1, 2)
    some = cs.assemble(robot, [[0.0, 0, 0], [0.5, 0, 0]], fixed=everything, strict=False)
    assert np.isnan(some[1]).all()
    np.testing.assert_array_equal(some[0], 0.0)
    with pytest.raises(CannotAssemble, match="the fixed joints contradict the constraints"):
        cs.consistent_velocity(robot, q, [1.0, 1.0, 1.0], fixed=everything)


def test_projection_is_orthogonal_by_the_mass_matrix():
    robot, rng = qddot.load("delta"), np.random.default_rng(3)
    q = cs.assemble(robot, robot.neutral() + rng.uniform(-0.2, 0.2, 12))
    v = rng.normal(size=12)
    near = cs.consistent_velocity(robot, q, v)
    M, J = robot.mass_matrix(q), robot.constraint_jacobian(q)
    np.testing.assert_allclose(J @ near, 0, atol=1e-12)
    other = cs.consistent_velocity(robot, q, rng.normal(size=12))
    assert abs((v - near) @ M @ other) < 1e-12 * (v @ M @ v)
    # with a joint that keeps its velocity, among the motions that leave it alone
    held = cs.consistent_velocity(robot, q, v, fixed="arm1_joint")
    moving = rng.normal(size=12) * (np.arange(12) != 0)
    other = cs.consistent_velocity(robot, q, moving, fixed="arm1_joint")
    assert held[0] == v[0]
    assert other[0] == 0.0
    assert abs((v - held) @ M @ other) < 1e-12 * (v @ M @ v)
    # Gauss: of all accelerations that keep to the loops, the real one is nearest to the free one
    tau = rng.normal(size=12)
    free = robot.forward_dynamics(q, near, tau)
    a = cs.consistent_acceleration(robot, q, near, free)
    np.testing.assert_allclose(a, robot.constrained_dynamics(q, near, tau)[0], rtol=1e-9)
    slightly = q + 1e-6 * rng.normal(size=12)
    closed, after = cs.project(robot, slightly, near + 1e-6)
    assert np.abs(robot.constraint_residual(closed)).max() < 1e-12
    assert np.abs(robot.constraint_jacobian(closed) @ after).max() < 1e-12
    np.testing.assert_allclose(closed, slightly, atol=1e-5)


# actuation


def test_inverse_of_forward_dynamics_with_three_motors():
    robot, rng = qddot.load("delta"), np.random.default_rng(4)
    motors = ["arm1_joint", "arm2_joint", "arm3_joint"]
    q = cs.assemble(robot, robot.neutral() + rng.uniform(-0.2, 0.2, (7, 12)))
    v = cs.consistent_velocity(robot, q, rng.normal(size=(7, 12)))
    tau = np.zeros((7, 12))
    tau[:, [0, 3, 6]] = rng.normal(size=(7, 3))
    push = qddot.Wrench("tool", "world", rng.normal(size=6))
    a, multipliers = robot.constrained_dynamics(q, v, tau, f_ext=push, friction=True)
    found = cs.inverse_dynamics(robot, q, v, a, motors, f_ext=push, friction=True)
    np.testing.assert_allclose(found.tau, tau, atol=1e-9)
    np.testing.assert_allclose(found.multipliers, multipliers, atol=1e-9)
    some = cs.inverse_dynamics(robot, q[2], v[2], a[2], motors, f_ext=push, friction=True)
    np.testing.assert_allclose(some.tau, tau[2], atol=1e-9)


def test_spare_motors_share_by_least_squares():
    robot, rng = qddot.load("four_bar"), np.random.default_rng(5)
    q = cs.assemble(robot, [0.6, 0.0, 0.0], fixed="crank_joint")
    v = cs.consistent_velocity(robot, q, [2.0, 0.0, 0.0])
    a = cs.consistent_acceleration(robot, q, v, rng.normal(size=3))
    alone = cs.inverse_dynamics(robot, q, v, a, "crank_joint").tau
    shared = cs.inverse_dynamics(robot, q, v, a, ["crank_joint", "rocker_joint"]).tau
    T = cs.reduce(robot, q, v, "crank_joint").T[:, 0]
    # both do the same work, and the shared torques lie along the speeds of the joints
    assert shared @ T == pytest.approx(alone @ T)
    assert shared[[0, 2]] == pytest.approx(T[[0, 2]] * (alone[0] / (T[0] ** 2 + T[2] ** 2)))
    for tau in (alone, shared):
        loops = cs.independent(robot)
        b, _ = robot.constrained_dynamics(q, v, tau, constraints=loops)
        np.testing.assert_allclose(b, a, rtol=1e-9)


def test_a_doubled_loop_shares_its_load():
    robot = qddot.load("delta")
    q, zero = robot.neutral(), np.zeros(12)
    motors = ["arm1_joint", "arm2_joint", "arm3_joint"]
    (one, *others) = robot.model.loops
    twice = [one, dataclasses.replace(one, name="again"), *others]
    single = cs.inverse_dynamics(robot, q, zero, zero, motors)
    double = cs.inverse_dynamics(robot, q, zero, zero, motors, twice)
    np.testing.assert_allclose(double.tau, single.tau, atol=1e-12)
    np.testing.assert_allclose(double.multipliers[:3], single.multipliers[:3] / 2, atol=1e-12)
    np.testing.assert_allclose(double.multipliers[3:6], single.multipliers[:3] / 2, atol=1e-12)


def test_motors_that_are_too_few_are_told():
    robot = qddot.load("delta")
    q, zero = robot.neutral(), np.zeros(12)
    with pytest.raises(ActuatorsTooFew, match="the actuators 'arm1_joint', 'arm2_joint' of") as e:
        cs.inverse_dynamics(robot, q, zero, zero, ["arm2_joint", "arm1_joint"])
    assert e.value.actuated == ("arm1_joint", "arm2_joint")
    assert max(map(abs, e.value.left.values())) > 0.1
    flying = qddot.load("quadruped")
    legs = [n for n in flying.joint_names if n != "root"]
    q, zero = flying.neutral(), np.zeros(18)
    with pytest.raises(ActuatorsTooFew, match=r"root\.vz"):
        cs.inverse_dynamics(flying, q, zero, zero, legs, [])


def test_a_quadruped_stands_on_its_legs():
    """Twelve motors, twelve forces, eighteen equations: the feet carry the weight."""
    robot = qddot.load("quadruped")
    feet = [Contact(f"{leg}_foot") for leg in ("FL", "FR", "RL", "RR")]
    legs = [n for n in robot.joint_names if n != "root"]
    zero = np.zeros(18)
    q = robot.configurations["home"]
    found = cs.inverse_dynamics(robot, q, zero, zero, legs, feet)
    assert not found.tau[:6].any()
    forces = found.multipliers.reshape(4, 3)
    weight = 9.81 * robot.model.mass
    np.testing.assert_allclose(forces.sum(axis=0), [0, 0, weight], atol=1e-9 * weight)
    places = [robot.frame_pose(q, c.frame)[:3, 3] for c in feet]
    moment = sum(
        np.cross(p - robot.center_of_mass(q), f) for p, f in zip(places, forces, strict=True)
    )
    np.testing.assert_allclose(moment, 0, atol=1e-9 * weight)
    a, lam = robot.constrained_dynamics(q, zero, found.tau, constraints=feet)
    np.testing.assert_allclose(a, 0, atol=1e-9)
    np.testing.assert_allclose(lam, found.multipliers, atol=1e-9 * weight)


# impact


def rod(joint: str, **options) -> Robot:
    """A uniform rod of 2 kg and 0.6 m along x, its middle at the origin of a joint."""
    tensor = Sym3.diagonal(0.001, 2.0 * 0.36 / 12, 2.0 * 0.36 / 12)
    inertia = Inertia.at_com(2.0, Vec3(0.0, 0.0, 0.0), tensor)
    link = Link("rod", None, at(0, 0, 0), Joint("j", JOINTS[joint], **options), inertia)
    return Robot(assemble("rod", [link], [FrameDraft("end", "rod", at(0.3, 0.0, 0.0))]))


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_rod_that_lands_on_its_end(e):
    """Kane: the impulse is (1 + e) u / (1/m + r²/I) with u the speed of the end."""
    robot = rod("free")
    m, r, I = 2.0, 0.3, 0.06
    v = np.array([0.4, 0.0, -2.0, 0.0, 1.5, 0.0])
    speed = -2.0 - r * 1.5
    floor = [Contact("end", rows=("z",))]
    after, (impulse,) = cs.impact(robot, robot.neutral(), v, floor, e)
    mass = 1.0 / (1.0 / m + r * r / I)
    assert impulse == pytest.approx(-(1 + e) * speed * mass, rel=1e-12)
    np.testing.assert_allclose(after - v, [0, 0, impulse / m, 0, -r * impulse / I, 0], atol=1e-12)
    lost = robot.kinetic_energy(robot.neutral(), v) - robot.kinetic_energy(robot.neutral(), after)
    assert lost == pytest.approx(0.5 * (1 - e * e) * mass * speed**2, abs=1e-12)


def test_a_rod_caught_at_its_end_swings_about_it():
    """Held in all directions: the moment of momentum about the end is what is left."""
    robot = rod("free")
    v = np.array([0.7, 0.5, -2.0, 0.3, 1.5, -0.8])
    after, _ = cs.impact(robot, robot.neutral(), v, [Contact("end")])
    spin = np.array([0.001, 0.06, 0.06])
    arm = np.array([-0.3, 0.0, 0.0])
    momentum = spin * v[3:] + np.cross(arm, 2.0 * v[:3])
    turning = momentum / (spin + 2.0 * np.array([0.0, 0.09, 0.09]))
    np.testing.assert_allclose(after[3:], turning, atol=1e-12)
    np.testing.assert_allclose(after[:3], np.cross(turning, arm), atol=1e-12)


def test_each_equation_has_its_own_restitution():
    robot, rng = qddot.load("quadruped"), np.random.default_rng(6)
    feet = [Contact("FL_foot"), Contact("RR_foot")]
    q, v = robot.random(rng), rng.normal(size=18)
    e = np.array([0.0, 0.0, 0.8, 0.1, 0.2, 0.3])
    after, impulse = robot.impact(q, v, e, constraints=feet)
    J, M = robot.constraint_jacobian(q, constraints=feet), robot.mass_matrix(q)
    np.testing.assert_allclose(J @ after, -e * (J @ v), atol=1e-10)
    np.testing.assert_allclose(M @ (after - v), J.T @ impulse, atol=1e-10)
    batch, _ = cs.impact(robot, q, np.stack([v, -v]), feet, e)
    np.testing.assert_allclose(batch, [after, -after], atol=1e-12)
    # Thomson: the work of an impulse is half its product with the speeds before and after
    work = 0.5 * impulse @ (J @ (v + after))
    gain = robot.kinetic_energy(q, after) - robot.kinetic_energy(q, v)
    assert gain == pytest.approx(work, rel=1e-9)
    for wrong in ([0.1, 0.2], "soft", np.full(6, np.nan)):
        with pytest.raises(InvalidArgument, match="restitution"):
            cs.impact(robot, q, v, feet, wrong)


def test_catching_a_delta_keeps_its_loops():
    robot, rng = qddot.load("delta"), np.random.default_rng(8)
    q = cs.assemble(robot, robot.neutral() + rng.uniform(-0.2, 0.2, 12))
    v = cs.consistent_velocity(robot, q, rng.normal(size=12))
    caught = [*robot.model.loops, Contact("tool", rows=("x", "z"))]
    after, _ = cs.impact(robot, q, v, caught)
    np.testing.assert_allclose(robot.constraint_jacobian(q) @ after, 0, atol=1e-12)
    speed = robot.frame_velocity(q, after, "tool", "local_world_aligned")
    assert np.abs(speed[[0, 2]]).max() < 1e-12 < abs(speed[1])
    assert robot.kinetic_energy(q, after) < robot.kinetic_energy(q, v)


# what is refused


def test_names_and_numbers_that_make_no_sense():
    robot, q, zero = qddot.load("four_bar"), np.zeros(3), np.zeros(3)
    with pytest.raises(UnknownName, match=r"no fixed joint or velocity 'crank'.*'crank_joint'"):
        cs.assemble(robot, q, fixed="crank")
    with pytest.raises(UnknownName, match="no actuated joint or velocity 3"):
        cs.inverse_dynamics(robot, q, zero, zero, [3])
    with pytest.raises(InvalidArgument, match=r"q: .* it needs finite numbers"):
        cs.assemble(robot, [0.0, math.nan, 0.0])
    with pytest.raises(InvalidArgument, match="it needs an array of numbers"):
        cs.consistent_velocity(robot, q, ["a", "b", "c"])
    with pytest.raises(qddot.QddotError, match=r"q must have shape \(..., nq=3\), got \(2,\)"):
        cs.assemble(robot, [0.0, 0.0])
    with pytest.raises(InvalidArgument, match="'panda' has no loops"):
        cs.assemble(qddot.load("panda"), np.zeros(7))
    with pytest.raises(InvalidArgument, match=r"at one configuration, shape \(nq,\)"):
        cs.analyse(robot, np.zeros((2, 3)))
    with pytest.raises(InvalidArgument, match="they leave other joints free here; 'crank_joint'"):
        cs.reduce(robot, q, zero, [])
    with pytest.raises(InvalidArgument, match="they cannot all be independent here"):
        cs.reduce(robot, q, zero, ["crank_joint", "rocker_joint"])
    with pytest.raises(InvalidArgument, match="held at one configuration"):
        cs.hold(robot, np.zeros((2, 3)), "crank")
    with pytest.raises(InvalidArgument, match="it is a list of Loop"):
        cs.with_loops(robot, [Contact("crank")])


def test_half_a_turn_is_told():
    robot = rod("ball")
    weld = [Contact("rod", "surface", at(0, 0, 0), rows=("rx", "ry", "rz"))]
    flipped, zero = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
    for attempt in (
        lambda: cs.analyse(robot, flipped, weld),
        lambda: cs.consistent_velocity(robot, flipped, zero, weld),
        lambda: cs.forward_dynamics(robot, flipped, zero, zero, weld),
    ):
        with pytest.raises(CannotAssemble, match="two frames are half a turn apart"):
            attempt()
    for wrong in (weld[0], iter(weld), "rod"):
        with pytest.raises(InvalidArgument, match="it is a list of Loop or Contact"):
            cs.analyse(robot, flipped, wrong)


def test_a_joint_without_inertia_is_named(load):
    bar = '<inertial pos="0 0 0" mass="1e-9" diaginertia="1e-13 1e-13 1e-13"/>'
    body = f'<body name="a"><joint name="a"/>{BAR}<body name="b"><joint name="b" type="ball"/>{bar}'
    robot = load(f'{body}</body></body><site name="w"/>')
    light = Robot(dataclasses.replace(robot.model))
    rows = light.inertial_parameters
    rows[1] = 0.0
    with pytest.raises(SingularInertia, match=r"b\.wx"):
        cs.analyse(light.with_parameters(rows), light.neutral(), [Contact("a")])


def test_other_loops_in_place_of_its_own():
    robot = qddot.load("four_bar")
    other = cs.with_loops(robot, cs.independent(robot))
    assert other.model.loops[0].rows == ("x", "z")
    (finding,) = [f for f in other.health if f.kind == "loop"]
    assert finding.message.startswith("1 loop closure is")
    none = cs.with_loops(robot, [])
    assert (none.model.loops, none.health) == ((), ())
    tied = cs.with_loops(qddot.load("panda"), [Loop("grip", "weld", "panda_link0", "panda_hand")])
    assert [f.kind for f in tied.health if f.kind == "loop"] == ["loop"]
    assert tied.constraint_residual(np.zeros(7)).shape == (6,)
