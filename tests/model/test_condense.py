"""Condensed models have the dynamics of those they came from, and more zeros."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from identities import many
from native_cases import inputs_of, results
from random_models import build, trees

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.model.model import Model
from qddot.model.reframing import condense
from qddot.robot.native import source_of
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Mat3, Transform, Vec3, rotation_about

SECOND = "inverse_dynamics_second_derivatives"
CHOSEN = {"axes", "constraints"}  # what a random tree may have no freedom for
ROWS = sorted(
    name
    for name, row in CATALOGUE.items()
    if row.joint_space and name != SECOND and not CHOSEN & {o.name for o in row.options}
)
TURNS = [
    Mat3(*(Vec3(*row) for row in R))
    for p in itertools.permutations(range(3))
    for signs in itertools.product((-1.0, 1.0), repeat=3)
    for R in [np.diag(signs)[list(p)]]
    if np.linalg.det(R) > 0
]


def squared(model: Model, seed: int) -> Model:
    """The model with some placements turned by right angles, as in most files."""
    rng = np.random.default_rng(seed)
    bodies = []
    for body in model.bodies:
        turn = TURNS[rng.integers(len(TURNS))] if rng.random() < 0.7 else body.placement.R
        placement = dataclasses.replace(body.placement, R=turn)
        bodies.append(dataclasses.replace(body, placement=placement))
    return dataclasses.replace(model, bodies=tuple(bodies))


@many
@given(trees(most=8))
def test_all_joint_space_functions_stay(tree):
    model = squared(build(*tree), tree[1])
    original, other = Robot(model), Robot(condense(model))
    condition = np.linalg.cond(original.mass_matrix(original.random(0))) if original.nv else 1.0
    for name in ROWS:
        arrays, options = inputs_of(original, name, (2,), tree[1] % 1000)
        if CATALOGUE[name].needs_inverse and condition > 1e6:
            continue
        if "prescribed" in options:
            leaders = [b.joint.name for b in model.bodies if b.joint.leader is None]
            options["prescribed"] = tuple(leaders[:1])
        found, expected = (results(r.call(name, *arrays, **options)) for r in (other, original))
        for a, b in zip(found, expected, strict=True):
            if np.isfinite(b).all():
                scale = max(np.abs(b).max(initial=0.0), 1.0)
                assert np.abs(a - b).max(initial=0.0) < 1e-15 * max(condition, 1e5) * scale, name


@pytest.mark.parametrize(
    ("name", "joint", "other"),
    [
        ("planar_3r", "joint2", "joint1"),
        ("ur5e", "wrist_1_joint", "shoulder_lift_joint"),
        ("quadruped", "FL_calf_joint", "FL_thigh_joint"),
    ],
)
def test_parallel_joints_feel_the_same_moment_of_a_tensor(name, joint, other):
    """Forces are not handed on between parallel axes, so entries of tensors are the same number."""
    robot = qddot.load(name)
    v, a = np.random.default_rng(0).normal(size=(2, robot.nv))
    body, rest = (robot.model.body_of_joint(x) for x in (joint, other))
    column = 10 * robot.model.bodies.index(body) + 4
    Y = robot.torque_regressor(robot.random(0), v, a)[:, column : column + 6]
    assert np.abs(Y[body.iv]).max() > 0.1
    np.testing.assert_array_equal(Y[body.iv], Y[rest.iv])


def test_no_mass_is_left_on_an_axis():
    model = condense(qddot.load("ur5e").model)
    assert [body.inertia.mass for body in model.bodies] == [0.0] * 6
    for body in model.bodies:
        (axis,) = body.joint.axes
        assert body.inertia.h.dot(axis) == 0.0
        assert body.inertia.second_moment.apply(axis).dot(axis) == 0.0


def test_offsets_along_axes_are_gone():
    for body in condense(qddot.load("panda").model).bodies:
        if body.joint.kind.name == "revolute":
            along = body.placement.R.apply(body.joint.axes[0])
            assert along.dot(body.placement.p) == 0.0


@pytest.mark.parametrize("name", ["ur5e", "panda", "quadruped"])
def test_bodies_turn_about_coordinate_axes_of_their_parents(name):
    model = condense(qddot.load(name).model)
    for body in model.bodies:
        if body.joint.kind.name != "free":
            (axis,) = body.joint.axes
            assert sorted(map(abs, axis)) == [0.0, 0.0, 1.0]
            assert body.placement.R.apply(axis) == axis
            assert body.kinematics([0.3] * model.nq)[0].R.coordinate_axis() is not None


def test_a_tilted_joint_takes_the_angle_of_the_body_that_carries_it():
    """Two axes at right angles, the second tilted about the first: both become coordinate axes."""
    tilt = rotation_about(Vec3(0.0, 1.0, 0.0), 0.3)
    model = qddot.load("planar_3r").model
    first, second, *_ = model.bodies
    axes = [Vec3(0.0, 1.0, 0.0), Vec3(1.0, 0.0, 0.0)]
    placed = [Transform(Mat3.identity(), first.placement.p), Transform(tilt, second.placement.p)]
    bodies = [
        dataclasses.replace(b, placement=X, joint=dataclasses.replace(b.joint, axes=(axis,)))
        for b, X, axis in zip((first, second), placed, axes, strict=True)
    ]
    tilted = dataclasses.replace(model, bodies=tuple(bodies), frames=(), configurations={})
    found = condense(tilted)
    assert [body.joint.axes[0] for body in found.bodies] == axes
    assert found.bodies[0].placement.R.coordinate_axis() == 1
    assert Mat3.identity() == found.bodies[1].placement.R
    q = np.random.default_rng(0).normal(size=(20, 2))
    expected = Robot(tilted, native=False).mass_matrix(q)
    np.testing.assert_allclose(Robot(found, native=False).mass_matrix(q), expected, atol=1e-14)


@pytest.mark.parametrize("name", ["ur5e", "panda", "quadruped"])
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics", "mass_matrix"])
def test_fewer_operations(name, function):
    model, row = qddot.load(name).model, CATALOGUE[function]
    plain = source_of(dataclasses.replace(row, joint_space=False), model, {}).record_tape()
    assert source_of(row, model, {}).record_tape().operations < 0.95 * plain.operations
