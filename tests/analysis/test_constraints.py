"""Constraints: what is open, its Jacobian and rates, and the dynamics that they make."""

from __future__ import annotations

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_models import Part, build, trees

import qddot
from qddot.analysis import constraints as cs
from qddot.errors import InvalidArgument, InvalidModel, UnknownName
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint, plane_basis
from qddot.model.links import CONTACT_ROWS, LOOP_ROWS, Contact, FrameDraft, Link, Loop
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3, rotation_about

STEP = 1e-30
SEEDS = st.integers(0, 2**32 - 1)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def a_pose(rng) -> Transform:
    x, y, z = rng.normal(size=3)
    turn = rotation_about(Vec3(0.0, 0.0, 1.0), x) @ rotation_about(Vec3(1.0, 0.0, 0.0), y)
    return Transform(turn, Vec3(*rng.normal(size=3).tolist()) * (0.3 * math.cos(z)))


def loops_between(robot: Robot, rng, kind: str) -> Loop | Contact:
    """A constraint of a kind between frames drawn at random; contacts are held at a pose."""
    one, two = rng.choice(robot.frame_names, 2)
    if kind in CONTACT_ROWS:
        return Contact(str(two), kind, a_pose(rng))
    return Loop("loop", kind, str(one), str(two), axis=rng.normal(size=3).tolist())


def along(robot: Robot, q, v):
    """The configuration an imaginary step along v."""
    return robot.integrate(q.astype(complex), 1j * STEP * v)


KINDS = (*LOOP_ROWS, *CONTACT_ROWS)


@pytest.mark.parametrize("kind", KINDS)
@given(tree=trees(most=8), seed=SEEDS)
@QUICK
def test_jacobian_and_its_rate_are_derivatives_open_or_closed(kind, tree, seed):
    robot, rng = Robot(build(*tree)), np.random.default_rng(seed)
    assume(robot.nv)
    constraints = [loops_between(robot, rng, kind)]
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    phi = robot.constraint_residual(q, constraints=constraints)
    # frames that are nearly half a turn apart amplify rounding
    assume(np.abs(phi).max() < 50)
    J = robot.constraint_jacobian(q, constraints=constraints)
    dJ = robot.constraint_jacobian_rate(q, v, constraints=constraints)
    there = along(robot, q, v)
    rate = robot.constraint_residual(there, constraints=constraints).imag / STEP
    turning = robot.constraint_jacobian(there, constraints=constraints).imag / STEP
    scale = 1.0 + np.abs(phi).max() ** 2 + np.abs(J).max() + np.abs(dJ).max()
    np.testing.assert_allclose(J @ v, rate, atol=1e-11 * scale)
    np.testing.assert_allclose(dJ, turning, atol=1e-11 * scale)
    bias = robot.constraint_bias(q, v, constraints=constraints)
    np.testing.assert_allclose(bias, dJ @ v, atol=1e-11 * scale * (1 + np.abs(v).sum()))


@pytest.mark.parametrize("kind", KINDS)
def test_bias_is_the_second_derivative_in_high_precision(kind):
    parts = [
        Part("free", WORLD, False, False, False, None),
        Part("universal", 0, False, False, False, None),
        Part("planar", 1, False, False, False, None),
        Part("ball", 0, False, False, False, None),
        Part("helical", 3, False, False, False, None),
    ]
    with mpmath.workdps(40):
        robot = Robot(build(parts, 5, mpmath.mpf, mpmath.sqrt))
        rng = np.random.default_rng(3)
        # turned by a rotation that is exact in any precision
        turn = Mat3(*plane_basis(Vec3(0.0, 1.0, 0.0)))
        place = Transform(turn, Vec3(0.1, 0.2, 0.3))
        one = Loop("loop", kind, "f2", "f4", (0, 1, 0)) if kind in LOOP_ROWS else None
        constraints = [one or Contact("f4", kind, place)]
        q = np.array([mpmath.mpf(float(x)) for x in robot.random(rng)])
        v = np.array([mpmath.mpf(float(x)) for x in rng.normal(size=robot.nv)])

        def value(t, k):
            return robot.constraint_residual(robot.integrate(q, v * t), constraints=constraints)[k]

        bias = robot.constraint_bias(q, v, constraints=constraints)
        J = robot.constraint_jacobian(q, constraints=constraints)
        for k in range(constraints[0].size):
            assert abs(mpmath.diff(lambda t, k=k: value(t, k), 0) - J[k] @ v) < 1e-15
            assert abs(mpmath.diff(lambda t, k=k: value(t, k), 0, 2) - bias[k]) < 1e-9


@given(tree=trees(most=8), seed=SEEDS)
@QUICK
def test_a_contact_without_a_place_is_one_where_the_frame_is(tree, seed):
    robot, rng = Robot(build(*tree)), np.random.default_rng(seed)
    assume(robot.nv)
    q, v, frame = robot.random(rng), rng.normal(size=robot.nv), str(rng.choice(robot.frame_names))
    R = robot.frame_pose(q, frame)[:3, :3]
    for kind, turn in (("point", np.eye(3)), ("surface", np.kron(np.eye(2), R))):
        anywhere, placed = [Contact(frame, kind)], [cs.hold(robot, q, frame, kind)]
        assert not robot.constraint_residual(q, constraints=anywhere).any()
        phi = robot.constraint_residual(q, constraints=placed)
        np.testing.assert_allclose(phi, 0, atol=1e-14)
        for name, arrays in (
            ("constraint_jacobian", (q,)),
            ("constraint_jacobian_rate", (q, v)),
            ("constraint_bias", (q, v)),
        ):
            ours = robot.call(name, *arrays, constraints=anywhere)
            theirs = turn @ robot.call(name, *arrays, constraints=placed)
            if name == "constraint_jacobian_rate" and kind == "surface":
                # both are rates of one twist; only their sums with the velocity are the same
                ours, theirs = ours @ v, theirs @ v
            np.testing.assert_allclose(ours, theirs, atol=1e-11 * (1 + np.abs(ours).max()))


# a loop of a kind holds what a joint of that kind lets be

JOINT_OF = {
    "spherical": "ball",
    "revolute": "revolute",
    "universal": "universal",
    "prismatic": "prismatic",
    "planar": "planar",
    "weld": "fixed",
}
SOLID = Inertia.at_com(1.0, Vec3(0.1, 0.2, 0.3), Sym3.diagonal(0.1, 0.12, 0.15))


def joined(kind: str, rng, axis: Vec3) -> Robot:
    """Two bodies in space that hang together by a joint of a kind, with its frame on both."""
    basis = plane_basis(axis)
    joint = JOINTS[JOINT_OF.get(kind, kind)]
    axes = {
        "universal": (axis, basis[0]),
        "planar": basis,
        "revolute": (axis,),
        "prismatic": (axis,),
    }
    free = Joint("root", JOINTS["free"])
    place, other = a_pose(rng), a_pose(rng)
    # the joint frame on the child is that of a frame, so that the child's origin is elsewhere
    moving = Joint("held", joint, axes.get(kind, ()))
    links = [
        Link("a", None, Transform.identity(), free, SOLID),
        Link("b", "a", place, moving, other.to_parent(SOLID)),
    ]
    frames = [FrameDraft("one", "a", place), FrameDraft("two", "b", Transform.identity())]
    return Robot(assemble("pair", links, frames))


@pytest.mark.parametrize("kind", LOOP_ROWS)
@given(seed=SEEDS, aligned=st.booleans())
@QUICK
def test_a_joint_of_the_kind_meets_the_loop_in_all_its_motions(kind, seed, aligned):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=3) if not aligned else np.eye(3)[rng.integers(3)]
    axis = Vec3(*(x / np.linalg.norm(x)).tolist())
    robot = joined(kind, rng, axis)
    loop = [Loop("loop", kind, "one", "two", axis)]
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    np.testing.assert_allclose(robot.constraint_residual(q, constraints=loop), 0, atol=1e-12)
    np.testing.assert_allclose(robot.constraint_jacobian(q, constraints=loop), 0, atol=1e-11)
    np.testing.assert_allclose(robot.constraint_bias(q, v, constraints=loop), 0, atol=1e-10)


@pytest.mark.parametrize("kind", LOOP_ROWS)
def test_a_loop_takes_all_freedoms_but_those_of_the_joint(kind):
    """Of two bodies that are free: the equations are independent, and as many as the rest."""
    rng, axis = np.random.default_rng(1), Vec3(0.0, 0.6, 0.8)
    robot = joined("free", rng, axis)
    loop = [Loop("loop", kind, "one", "two", axis)]
    q = cs.assemble(robot, robot.random(rng), loop)
    rank = cs.analyse(robot, q, loop)
    joint = JOINTS[JOINT_OF[kind]]
    assert (rank.rank, rank.redundant) == (6 - joint.nv, {})
    assert rank.freedoms == 6 + joint.nv
    assert len(LOOP_ROWS[kind]) == 6 - joint.nv


@pytest.mark.parametrize("kind", LOOP_ROWS)
def test_multipliers_are_the_wrench_on_the_second_frame(kind):
    """In axes of which z is the axis of the loop; the first frame feels the opposite."""
    rng = np.random.default_rng(2)
    axis = Vec3(0.0, 0.6, 0.8)
    robot = joined("free", rng, axis)
    loop = Loop("loop", kind, "one", "two", axis)
    q = cs.assemble(robot, robot.random(rng), [loop])
    J = robot.constraint_jacobian(q, constraints=[loop])
    B = np.array([list(e) for e in plane_basis(axis)]).T
    first = robot.frame_pose(q, "one")[:3, :3] @ B
    names = ("x", "y", "z", "rx", "ry", "rz")
    point = robot.frame_pose(q, "two")[:3, 3]
    for row, name in zip(J, loop.rows, strict=True):
        along = first[:, names.index(name) % 3]
        force = np.concatenate([along, np.zeros(3)] if len(name) == 1 else [np.zeros(3), along])
        if kind == "universal" and name == "ry":
            # the square to the axis fixed to each frame
            second = robot.frame_pose(q, "two")[:3, :3] @ B
            force[3:] = np.cross(first[:, 2], second[:, 0])
        moment = np.concatenate([force[:3], force[3:] + np.cross(point, force[:3])])
        torque = robot.frame_jacobian(q, "two", "world") - robot.frame_jacobian(q, "one", "world")
        np.testing.assert_allclose(row, moment @ torque, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("angle", [0.3, 1.5, 2 * math.pi / 3, 3.0])
def test_residual_of_a_turned_weld_and_a_tilted_hinge(angle):
    robot = turned = Robot(
        assemble(
            "ball",
            [Link("b", None, Transform.identity(), Joint("j", JOINTS["ball"]), SOLID)],
            [FrameDraft("world", None, Transform.identity())],
        )
    )
    axis = np.array([2.0, -1.0, 2.0]) / 3.0
    q = robot.integrate(robot.neutral(), angle * axis)
    weld = [Loop("w", "weld", "world", "b", rows=("rx", "ry", "rz"))]
    found = robot.constraint_residual(q, constraints=weld)
    np.testing.assert_allclose(found, 2 * math.tan(angle / 2) * axis, rtol=1e-12)
    tilt = turned.integrate(turned.neutral(), [0.6 * angle, 0.8 * angle, 0.0])
    hinge = [Loop("h", "revolute", "world", "b", rows=("rx", "ry"))]
    found = robot.constraint_residual(tilt, constraints=hinge)
    np.testing.assert_allclose(found, 2 * math.tan(angle / 2) * np.array([0.6, 0.8]), rtol=1e-12)


@pytest.mark.parametrize("kind", ["weld", "revolute", "planar", "prismatic"])
def test_half_a_turn_is_not_taken_for_closed(kind):
    robot = Robot(
        assemble(
            "ball",
            [Link("b", None, Transform.identity(), Joint("j", JOINTS["ball"]), SOLID)],
            [FrameDraft("world", None, Transform.identity())],
        )
    )
    loop = [Loop("l", kind, "world", "b")]
    flipped = np.array([1.0, 0.0, 0.0, 0.0])
    assert not np.isfinite(robot.constraint_residual(flipped, constraints=loop)).all()
    q = cs.assemble(robot, flipped, loop)
    np.testing.assert_allclose(robot.constraint_residual(q, constraints=loop), 0, atol=1e-12)
    z = robot.frame_pose(q, "b")[:3, 2]
    np.testing.assert_allclose(z, [0, 0, 1], atol=1e-12)


# dynamics


@given(tree=trees(most=7), seed=SEEDS)
@QUICK
def test_constrained_dynamics_solves_its_equations(tree, seed):
    robot, rng = Robot(build(*tree)), np.random.default_rng(seed)
    assume(robot.nv and not robot.singular_joints)
    q, v, tau = robot.random(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    every = [loops_between(robot, rng, str(rng.choice(KINDS))) for _ in range(2)]
    every[1] = dataclasses.replace(
        every[1], **({"name": "m"} if isinstance(every[1], Loop) else {})
    )
    assume(np.abs(robot.constraint_residual(q, constraints=every)).max() < 10)
    constraints = cs.analyse(robot, q, every).independent
    M, h = robot.mass_matrix(q), robot.bias(q, v)
    J = robot.constraint_jacobian(q, constraints=constraints)
    root = np.linalg.inv(np.linalg.cholesky(M)).T
    shares = np.linalg.svd(J @ root / np.linalg.norm(J @ root, axis=1)[:, None])[1]
    assume(len(J) == 0 or (shares.min() > 1e-3 and np.linalg.cond(M) < 1e6))
    a, lam = robot.constrained_dynamics(q, v, tau, constraints=constraints, stabilisation=4.0)
    push = np.abs(M) @ np.abs(a) + np.abs(h) + np.abs(tau) + np.abs(J.T) @ np.abs(lam) + 1.0
    np.testing.assert_array_less(np.abs(M @ a + h - tau - J.T @ lam), 1e-9 * push)
    bias = robot.constraint_bias(q, v, constraints=constraints)
    phi = robot.constraint_residual(q, constraints=constraints)
    left = J @ a + bias + 8.0 * J @ v + 16.0 * phi
    size = np.abs(J) @ (np.abs(a) + 8.0 * np.abs(v)) + np.abs(bias) + 16.0 * np.abs(phi) + 1.0
    np.testing.assert_array_less(np.abs(left), 1e-8 * size)


def test_without_constraints_it_is_the_open_tree():
    robot, rng = qddot.load("panda"), np.random.default_rng(0)
    q, v, tau = robot.random(rng), *rng.normal(size=(2, 7))
    a, lam = robot.constrained_dynamics(q, v, tau, constraints=[])
    np.testing.assert_allclose(a, robot.forward_dynamics(q, v, tau), rtol=1e-12)
    assert lam.shape == (0,)
    for native in (True, False):
        batch = Robot(robot.model, native).constrained_dynamics(
            np.stack([q, q]), v, tau, constraints=[]
        )
        assert [x.shape for x in batch] == [(2, 7), (2, 0)]


def test_pushes_and_friction_reach_the_constraints():
    robot, rng = qddot.load("delta"), np.random.default_rng(0)
    q = robot.neutral()
    v = cs.consistent_velocity(robot, q, rng.normal(size=12))
    push = qddot.Wrench("tool", "world", rng.normal(size=6))
    tau = rng.normal(size=12)
    a, lam = robot.constrained_dynamics(q, v, tau, f_ext=push, friction=True)
    losses = robot.inverse_dynamics(q, v, np.zeros(12), f_ext=push) - robot.bias(q, v)
    losses = losses + robot.friction(q, v)
    b, mu = robot.constrained_dynamics(q, v, tau - losses)
    np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(lam, mu, rtol=1e-12)
    assert np.abs(losses).max() > 0.01


@pytest.mark.parametrize("name", ["delta", "four_bar"])
def test_native_equals_interpreted_on_the_loops_of_the_model(name):
    loops = cs.independent(qddot.load(name))
    native, definition = (Robot(qddot.load(name).model, flag) for flag in (True, False))
    rng = np.random.default_rng(4)
    q, v, tau = native.random(rng, 9), *rng.normal(size=(2, 9, native.nv))
    e = rng.uniform(size=sum(c.size for c in loops))
    for function, arrays in (
        ("constraint_residual", (q,)),
        ("constraint_jacobian", (q,)),
        ("constraint_jacobian_rate", (q, v)),
        ("constraint_bias", (q, v)),
        ("constrained_dynamics", (q, v, tau)),
        ("impact", (q, v, e)),
    ):
        found = native.call(function, *arrays, constraints=loops)
        expected = definition.call(function, *arrays, constraints=loops)
        pairs = (
            zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        )
        for a, b in pairs:
            assert np.abs(a - b).max() <= 1e-12 * np.abs(b).max(), function


def test_other_loops_are_other_functions():
    """Kernels are kept by what they depend on, loops of the model included."""
    model = qddot.load("delta").model
    one, two = (
        Robot(dataclasses.replace(model, loops=loops), native=True)
        for loops in (model.loops, model.loops[::-1])
    )
    q = one.random(0)
    a, b = one.constraint_residual(q), two.constraint_residual(q)
    assert not np.allclose(a, b)
    np.testing.assert_array_equal(a.reshape(3, 3), b.reshape(3, 3)[::-1])


# what is refused


def test_loops_that_make_no_sense():
    with pytest.raises(UnknownName, match="no kind of loop 'point'; known: 'spherical'"):
        Loop("l", "point", "a", "b")
    with pytest.raises(UnknownName, match="no kind of contact 'spherical'; known: 'point'"):
        Contact("a", "spherical")
    with pytest.raises(UnknownName, match="no row 'rz' in 'l'; closest: "):
        Loop("l", "revolute", "a", "b", rows=("rz",))
    with pytest.raises(
        InvalidModel, match=r"loop 'l': its axis \(0.0, 0.0, 0.0\) has no direction"
    ):
        Loop("l", "revolute", "a", "b", axis=(0, 0, 0))
    with pytest.raises(InvalidModel, match="is not three numbers"):
        Loop("l", "revolute", "a", "b", axis=(0, 0))
    with pytest.raises(InvalidArgument, match="it is a Transform, or None"):
        Contact("a", place=np.eye(4))
    assert Loop("l", "weld", "a", "b", rows=("rz", "x")).row_names == ("l.x", "l.rz")
    assert Loop("l", "weld", "a", "b", axis=(0, 3, 4)).axis == Vec3(0.0, 0.6, 0.8)
    assert len({Loop("l", "weld", "a", "b"), Loop("l", "weld", "a", "b"), Contact("a")}) == 2


def test_constraints_of_the_wrong_type_are_refused():
    robot = qddot.load("panda")
    q, zero = robot.neutral(), np.zeros(7)
    with pytest.raises(
        InvalidArgument, match="'panda' has no loops: give a list of Loop or Contact"
    ):
        robot.constrained_dynamics(q, zero, zero)
    for wrong in (["panda_hand"], 3, "panda_hand", Contact("panda_hand"), [np.zeros(3)]):
        with pytest.raises(InvalidArgument, match="it is a list of constraints, Loop or Contact"):
            robot.constrained_dynamics(q, zero, zero, constraints=wrong)
    with pytest.raises(UnknownName, match="no frame 'hand' in 'panda'"):
        robot.constrained_dynamics(q, zero, zero, constraints=[Contact("hand")])
    for wrong in (-1.0, "1", math.nan, [1.0]):
        with pytest.raises(InvalidArgument, match="it is a rate in 1/s, zero or more"):
            robot.constrained_dynamics(q, zero, zero, constraints=[], stabilisation=wrong)
    model = robot.model
    with pytest.raises(UnknownName, match="no frame 'nowhere'"):
        dataclasses.replace(model, loops=(Loop("l", "weld", "nowhere", "panda_hand"),))
    twice = (Loop("l", "weld", "panda_link0", "panda_hand"),) * 2
    with pytest.raises(InvalidModel, match="loop 'l': the name is used twice"):
        dataclasses.replace(model, loops=twice)
