"""Hybrid dynamics against a partition of M in NumPy, its two limits, and other robots."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import Part, build, trees

import qddot
from qddot.algorithms.catalogue import function
from qddot.bench.subjects import chain
from qddot.errors import InvalidArgument, InvalidModel, SingularInertia, UnknownName
from qddot.model.assembly import assemble
from qddot.model.links import Link
from qddot.model.model import WORLD
from qddot.robot.native import source_of
from qddot.robot.robot import Robot, Wrench

many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


class Case:
    """A random robot at two states, with a random half of its joints prescribed."""

    def __init__(self, tree: tuple[list[Part], int]) -> None:
        self.robot = Robot(build(*tree))
        rng = np.random.default_rng(tree[1])
        self.q = self.robot.random(rng, 2)
        self.v, self.a, self.tau = (rng.normal(size=(2, self.robot.nv)) for _ in range(3))
        bodies = self.robot.model.independent
        chosen = [b for b in bodies if rng.random() < 0.5]
        self.prescribed = tuple(b.joint.name for b in chosen)
        self.held = np.zeros(self.robot.nv, bool)
        for body in chosen:
            self.held[body.iv] = True
        self.push = Wrench(str(rng.choice(self.robot.frame_names)), "world", rng.normal(size=6))
        M = self.robot.mass_matrix(self.q)
        self.tolerance = max(1e-10, 1e-14 * (np.linalg.cond(M).max() if self.robot.nv else 1.0))


def deep(tree: tuple[list[Part], int]) -> tuple[list[Part], int]:
    """One chain of at least 18 joints without couplings: deep enough for articulated bodies."""
    parts, seed = tree
    parts = [p for p in parts if p.kind != "fixed"] or parts
    links = (parts * 18)[: max(18, len(parts))]
    return [dataclasses.replace(p, parent=i - 1, follows=None) for i, p in enumerate(links)], seed


def agree(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-10) -> None:
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0.0) <= tolerance * max(1.0, np.abs(b).max(initial=0.0))


def by_partition(M, h, a, tau, held):
    """a and τ of M a + h = τ at one state: a known where held, τ elsewhere."""
    free = ~held
    a, tau = np.where(held, a, 0.0), tau.copy()
    a[free] = np.linalg.solve(M[np.ix_(free, free)], tau[free] - (M @ a + h)[free])
    tau[held] = (M @ a + h)[held]
    return a, tau


@many
@given(st.one_of(trees(), trees().map(deep)))
def test_equals_a_partition_of_the_mass_matrix(tree):
    c = Case(tree)
    r = c.robot
    a, tau = np.where(c.held, c.a, np.nan), np.where(c.held, np.nan, c.tau)
    found = r.hybrid_dynamics(
        c.q, c.v, a, tau, f_ext=c.push, prescribed=c.prescribed, friction=True
    )
    M = r.mass_matrix(c.q)
    J = r.frame_jacobian(c.q, c.push.frame, "world")
    h = r.bias(c.q, c.v) + r.friction(c.q, c.v) - np.einsum("sij,i->sj", J, c.push.value)
    for k in range(2):
        for ours, theirs in zip(found, by_partition(M[k], h[k], a[k], tau[k], c.held), strict=True):
            agree(ours[k], theirs, c.tolerance)


@many
@given(st.one_of(trees(), trees().map(deep)))
def test_a_motion_comes_back_from_any_half_of_it(tree):
    c = Case(tree)
    tau = c.robot.inverse_dynamics(c.q, c.v, c.a)
    given_a, given_tau = np.where(c.held, c.a, np.nan), np.where(c.held, np.nan, tau)
    found = c.robot.hybrid_dynamics(c.q, c.v, given_a, given_tau, prescribed=c.prescribed)
    agree(found[0], c.a, c.tolerance)
    agree(found[1], tau, c.tolerance)
    np.testing.assert_array_equal(found[0][:, c.held], c.a[:, c.held])
    np.testing.assert_array_equal(found[1][:, ~c.held], tau[:, ~c.held])


@many
@given(st.one_of(trees(), trees().map(deep)))
def test_the_limits_are_forward_and_inverse_dynamics(tree):
    c = Case(tree)
    r, ignored = c.robot, np.full((2, c.robot.nv), np.nan)
    a, tau = r.hybrid_dynamics(c.q, c.v, ignored, c.tau, f_ext=c.push)
    np.testing.assert_array_equal(a, r.forward_dynamics(c.q, c.v, c.tau, f_ext=c.push))
    np.testing.assert_array_equal(tau, c.tau)
    a, tau = r.hybrid_dynamics(c.q, c.v, c.a, ignored, f_ext=c.push, prescribed=r.joint_names)
    np.testing.assert_array_equal(a, c.a)
    agree(tau, r.inverse_dynamics(c.q, c.v, c.a, f_ext=c.push), c.tolerance)


def test_a_base_that_is_carried_is_a_fixed_base_in_other_gravity():
    robot = qddot.load("quadruped")
    base, *legs = robot.joint_names
    rng = np.random.default_rng(0)
    q, v, tau = robot.random(rng), np.zeros(robot.nv), rng.normal(size=robot.nv)
    q[3:7], v[6:] = [0, 0, 0, 1], rng.normal(size=len(legs))
    lift = np.zeros(robot.nv)
    lift[2] = 4.0
    a, torque = robot.hybrid_dynamics(q, v, lift, tau, prescribed=[base])
    fixed = robot.without_joint(base, q[:7]).with_gravity((0, 0, -9.81 - 4.0))
    np.testing.assert_allclose(a[6:], fixed.forward_dynamics(q[7:], v[6:], tau[6:]), rtol=1e-10)
    # what holds the base carries the weight and the legs' own accelerations
    np.testing.assert_allclose(torque, robot.inverse_dynamics(q, v, a), rtol=1e-9, atol=1e-9)


def test_agrees_with_pinocchio():
    pin = pytest.importorskip("pinocchio")
    from qddot.bench.subjects import find_subject

    subject = find_subject("ur5")
    model = pin.buildModelFromUrdf(str(subject.file))
    data, robot = model.createData(), subject.robot
    assert list(model.names[1:]) == list(robot.joint_names)
    rng = np.random.default_rng(1)
    prescribed = robot.joint_names[1::2]
    held = np.isin(robot.joint_names, prescribed)
    for _ in range(5):
        q, (v, a, tau) = robot.random(rng), rng.normal(size=(3, robot.nv))
        upper = np.triu(pin.crba(model, data, q))
        expected = by_partition(
            upper + np.triu(upper, 1).T, pin.nonLinearEffects(model, data, q, v), a, tau, held
        )
        for ours, theirs in zip(
            robot.hybrid_dynamics(q, v, a, tau, prescribed=prescribed), expected, strict=True
        ):
            agree(ours, theirs)


def alike(n: int) -> Robot:
    """A chain of joints and bodies that are all alike."""
    body = chain(2).model.bodies[1]
    links = [
        Link(f"b{i}", f"b{i - 1}" if i else None, body.placement, joint, body.inertia)
        for i in range(n)
        for joint in [dataclasses.replace(body.joint, name=f"j{i}")]
    ]
    return Robot(assemble(f"{n} alike", links))


@pytest.mark.parametrize("every", [2, 5])
def test_the_cost_grows_with_the_number_of_joints_not_its_square(every):
    def operations(n: int) -> int:
        robot = alike(n)
        options = {"prescribed": robot.joint_names[::every]}
        return source_of(function("hybrid_dynamics"), robot.model, options).record_tape().operations

    first, second, third = (operations(n) for n in (40, 60, 80))
    # a body that condenses to one zero more or less is no growth
    assert third - second == pytest.approx(second - first, abs=5)


def test_native_code_ignores_what_is_not_given():
    model = qddot.load("planar_3r").model
    native, definition = Robot(model, native=True), Robot(model, native=False)
    q, v = np.ones((2, 5, 3)) * 0.3
    a, tau = np.full((5, 3), [1.0, np.nan, np.nan]), np.full((5, 3), [np.nan, 2.0, 3.0])
    names = model.joint_names[:1]
    for ours, theirs in zip(
        native.hybrid_dynamics(q, v, a, tau, prescribed=names),
        definition.hybrid_dynamics(q, v, a, tau, prescribed=names),
        strict=True,
    ):
        assert np.isfinite(ours).all()
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_c_names_the_prescribed_joints(tmp_path):
    robot = qddot.load("planar_3r")
    joint = robot.joint_names[1]
    robot.export_c([("hybrid_dynamics", {"prescribed": [joint]})], tmp_path)
    header = (tmp_path / "planar_3r.h").read_text()
    assert f"planar_3r_hybrid_dynamics_{joint}" in header
    assert f"a is given at {joint}; tau at the other joints" in header


COUPLED = build(
    [
        Part("revolute", WORLD, False, False, False, None),
        Part("revolute", 0, False, False, False, 0),
        Part("revolute", 1, False, False, False, None),
    ],
    3,
)


@pytest.mark.parametrize(
    ("prescribed", "error", "message"),
    [
        (["j1"], InvalidModel, "joint 'j1': follows 'j0'; prescribe that one"),
        (["j22"], UnknownName, "no joint 'j22' in 'random'; closest: 'j2'"),
        ("j0", InvalidArgument, "it is a list of names of joints"),
        ([0], InvalidArgument, "it is a list of names of joints"),
        (3, InvalidArgument, "it is a list of names of joints"),
    ],
)
def test_what_cannot_be_prescribed(prescribed, error, message):
    robot = Robot(COUPLED)
    with pytest.raises(error, match=message):
        robot.hybrid_dynamics(robot.neutral(), *np.zeros((3, robot.nv)), prescribed=prescribed)


def test_a_joint_without_inertia_may_be_prescribed(tmp_path):
    arm = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    file = tmp_path / "spin.urdf"
    file.write_text(
        f'<robot name="spin"><link name="base"/><link name="arm">{arm}</link><link name="tip"/>'
        '<joint name="turn" type="continuous"><parent link="base"/><child link="arm"/>'
        '<axis xyz="0 0 1"/></joint><joint name="spin" type="continuous"><parent link="arm"/>'
        '<child link="tip"/><axis xyz="0 0 1"/></joint></robot>'
    )
    robot, zero = qddot.load(file), np.zeros(2)
    with pytest.raises(SingularInertia, match="'spin'"):
        robot.hybrid_dynamics(zero, zero, zero, [3.0, 0.0], prescribed=["turn"])
    a, tau = robot.hybrid_dynamics(zero, zero, [0.0, 5.0], [3.0, 0.0], prescribed=["spin"])
    np.testing.assert_allclose(a, [3.0, 5.0])
    np.testing.assert_allclose(tau, [3.0, 0.0], atol=1e-15)
