"""Momentum rate, composite inertia, zero-moment point, support polygon: each by another route."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from identities import STEP, Case, agree, dot, many
from random_models import trees
from scipy.spatial import Delaunay

import qddot
from qddot.analysis import balance
from qddot.analysis.balance import Ground
from qddot.errors import NoSupport
from qddot.robot.robot import Wrench

ROBOTS = Path(qddot.__file__).parent / "robots"
LWA = "local_world_aligned"
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
G = 9.81


@pytest.fixture(scope="module")
def dog():
    return qddot.load("quadruped")


@pytest.fixture(scope="module")
def states(dog):
    """Standing-like configurations and random motions."""
    rng = np.random.default_rng(0)
    step = rng.normal(size=(6, dog.nv)) * 0.3
    q = dog.integrate(dog.configurations["home"], step)
    return q, rng.normal(size=(6, dog.nv)), rng.normal(size=(6, dog.nv))


@many
@given(trees())
def test_the_momentum_rate_is_the_derivative_of_the_momentum(tree):
    c = Case(tree)
    r = c.robot
    rate = r.centroidal_momentum_rate(c.q, c.v, c.a)
    A, dA = r.centroidal_map(c.q), r.centroidal_map_rate(c.q, c.v)
    agree(rate, dot(A, c.a) + dot(dA, c.v))
    moved = r.centroidal_momentum(c.along(c.v), c.v + 1j * STEP * c.a).imag / STEP
    agree(rate, moved)


@many
@given(trees())
def test_the_composite_inertia_is_the_sum_of_all_bodies(tree):
    """Steiner's rule over the bodies in world axes; joints locked, so only it acts on a twist."""
    c = Case(tree)
    r, center = c.robot, c.robot.center_of_mass(c.q)
    total, poses = np.zeros((2, 6, 6)), r.body_poses(c.q)
    for i, body in enumerate(r.model.bodies):
        pose, m = poses[:, i], float(body.inertia.mass)
        tensor = np.array([[*row] for row in body.inertia.tensor_at_com.rows], float)
        place = np.array([*body.inertia.com], float)
        arm = dot(pose[:, :3, :3], place) + pose[:, :3, 3] - center
        R, length = pose[:, :3, :3], (arm**2).sum(axis=-1)[:, None, None]
        total[:, :3, :3] += m * np.eye(3)
        total[:, 3:, 3:] += R @ tensor @ R.swapaxes(1, 2)
        total[:, 3:, 3:] += m * (length * np.eye(3) - arm[:, :, None] * arm[:, None, :])
    agree(r.composite_inertia(c.q), total)


def test_composite_inertia_and_momentum_rate_against_pinocchio():
    robot = qddot.load("ur5e", base="free")
    model = pin.buildModelFromUrdf(str(ROBOTS / "ur5e.urdf"), pin.JointModelFreeFlyer())
    data, rng = model.createData(), np.random.default_rng(4)
    q = robot.random(rng)
    q[3:7] /= np.linalg.norm(q[3:7])
    v, a = rng.normal(size=(2, robot.nv))
    pin.ccrba(model, data, q, v)
    np.testing.assert_allclose(robot.composite_inertia(q), data.Ig.matrix(), rtol=1e-9, atol=1e-9)
    pin.computeCentroidalMomentumTimeVariation(model, data, q, v, a)
    found = robot.centroidal_momentum_rate(q, v, a)
    np.testing.assert_allclose(found, data.dhg.vector, rtol=1e-9, atol=1e-9)


def at_center(robot, q, wrench: Wrench) -> np.ndarray:
    """A wrench in world axes about the centre of mass, written out."""
    X, value = robot.frame_pose(q, wrench.frame), np.asarray(wrench.value)
    force, moment = value[..., :3], value[..., 3:]
    point = np.zeros(3) if wrench.reference == "world" else X[..., :3, 3]
    if wrench.reference == "local":
        force, moment = dot(X[..., :3, :3], force), dot(X[..., :3, :3], moment)
    arm = point - robot.center_of_mass(q)
    return np.concatenate([force, moment + np.cross(arm, force)], axis=-1)


def test_momentum_changes_by_what_acts_from_outside(dog, states):
    """ḣ = weight + wrenches on a robot in flight, whatever its joints do."""
    q, v, _ = states
    rng = np.random.default_rng(1)
    tau = rng.normal(size=v.shape) * 10.0
    tau[:, :6] = 0.0
    pushes = [
        Wrench(frame, reference, rng.normal(size=(6, 6)) * 30.0)
        for frame, reference in zip(FEET, ("local", "world", LWA, LWA), strict=True)
    ]
    a = dog.forward_dynamics(q, v, tau, pushes)
    expected = sum(at_center(dog, q, w) for w in pushes)
    expected[:, 2] -= float(dog.model.mass) * G
    found = dog.centroidal_momentum_rate(q, v, a)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    moved = balance.total_wrench(dog, q, pushes)
    moved[:, 3:] -= np.cross(dog.center_of_mass(q), moved[:, :3])
    np.testing.assert_allclose(moved, sum(at_center(dog, q, w) for w in pushes), rtol=1e-12)


def test_the_zero_moment_point_is_the_centre_of_pressure_of_the_contacts(dog, states):
    q, v, _ = states
    rng = np.random.default_rng(2)
    loads = np.abs(rng.normal(size=(4, 6, 6)))
    loads[..., 2] += 30.0
    contacts = [Wrench(foot, LWA, load) for foot, load in zip(FEET, loads, strict=True)]
    push = Wrench("base", "local", rng.normal(size=(6, 6)) * 5.0)
    tau = np.concatenate([np.zeros((6, 6)), rng.normal(size=(6, 12))], axis=1)
    a = dog.forward_dynamics(q, v, tau, [*contacts, push])
    for ground in (Ground((0.0, 0.0, -0.3)), Ground((0.1, 0.2, -0.2), (0.2, -0.1, 2.0))):
        motion = balance.zero_moment_point(dog, q, v, a, ground, f_ext=push)
        pressed = balance.center_of_pressure(dog, q, contacts, ground)
        for part in ("point", "force", "moment"):
            ours, theirs = getattr(motion, part), getattr(pressed, part)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
        # what is left at that point is a force and a moment about the normal
        W = balance.total_wrench(dog, q, contacts)
        moment = W[:, 3:] - np.cross(pressed.point, W[:, :3])
        n = np.array(ground.normal) / np.linalg.norm(ground.normal)
        np.testing.assert_allclose(moment, pressed.moment[:, None] * n, atol=1e-10)
        np.testing.assert_allclose((pressed.point - ground.point) @ n, 0.0, atol=1e-12)


def test_point_forces_have_their_weighted_mean_as_centre_of_pressure(dog, states):
    q = states[0][0]
    points, loads = balance.contact_points(dog, q, FEET), np.array([10.0, 40.0, 25.0, 5.0])
    contacts = [Wrench(f, LWA, [0, 0, load, 0, 0, 0]) for f, load in zip(FEET, loads, strict=True)]
    found = balance.center_of_pressure(dog, q, contacts)
    np.testing.assert_allclose(found.point[:2], (loads @ points / loads.sum())[:2], rtol=1e-12)
    np.testing.assert_allclose(found.force, [0, 0, 80.0], atol=1e-12)
    assert found.point[2] == 0.0


def test_at_rest_it_is_below_the_centre_of_mass(dog, states):
    q, zero = states[0], np.zeros(dog.nv)
    found = balance.zero_moment_point(dog, q, zero, zero, Ground((0.0, 0.0, -0.4)))
    np.testing.assert_allclose(found.point[:, :2], dog.center_of_mass(q)[:, :2], atol=1e-12)
    np.testing.assert_allclose(found.point[:, 2], -0.4)
    np.testing.assert_allclose(found.force[:, 2], float(dog.model.mass) * G, rtol=1e-12)
    np.testing.assert_allclose(found.moment, 0.0, atol=1e-12)


def test_the_cart_on_a_table(dog):
    """Kajita's cart-table: p = c − c_z c̈ / (g + c̈_z), for a body that does not turn."""
    q = np.tile(dog.configurations["home"], (5, 1))
    rng = np.random.default_rng(3)
    a = np.zeros((5, dog.nv))
    a[:, :3] = rng.normal(size=(5, 3)) * 2.0
    c = dog.center_of_mass(q)
    height = c[:, 2:] + 0.4
    expected = c[:, :2] - height * a[:, :2] / (G + a[:, 2:3])
    found = balance.zero_moment_point(dog, q, np.zeros(dog.nv), a, Ground((0.0, 0.0, -0.4)))
    np.testing.assert_allclose(found.point[:, :2], expected, rtol=1e-10)


def test_the_ground_below_a_fixed_arm():
    """The wrench on the base by inverse dynamics of the same arm on a free base, base included."""
    fixed, free = (
        qddot.load("ur5e", base=base).with_payload("base_link", 3.0, (0.2, -0.1, 0.3))
        for base in ("fixed", "free")
    )
    assert float(fixed.model.base_inertia.mass) >= 3.0
    rng = np.random.default_rng(5)
    q, v, a = fixed.random(rng), *rng.normal(size=(2, fixed.nv))
    still = np.zeros(6)
    tau = free.inverse_dynamics(
        np.concatenate([[0, 0, 0, 0, 0, 0, 1.0], q]),
        np.concatenate([still, v]),
        np.concatenate([still, a]),
    )
    np.testing.assert_allclose(balance.ground_wrench(fixed, q, v, a), tau[:6], rtol=1e-9, atol=1e-9)


def test_flight_is_an_error_or_not_a_number(dog):
    q, zero = dog.configurations["home"], np.zeros(dog.nv)
    a = np.zeros((3, dog.nv))
    a[:, 2] = [0.0, -G, -2.0 * G]
    with pytest.raises(NoSupport, match="at 2 of 3 states: its normal force would be -1"):
        balance.zero_moment_point(dog, q, zero, a)
    with pytest.raises(NoSupport, match="does not carry the robot: its normal"):
        balance.zero_moment_point(dog, q, zero, a[1])
    found = balance.zero_moment_point(dog, q, zero, a, flight="nan")
    assert np.isnan(found.point).all(axis=1).tolist() == [False, True, True]
    spoilt = np.where(np.arange(3)[:, None] == 1, np.nan, q)
    found = balance.zero_moment_point(dog, spoilt, zero, zero)
    assert np.isnan(found.point).any(axis=1).tolist() == [False, True, False]


SQUARE = np.array([[0, 0, 0], [2, 0, 0.1], [2, 1, 0], [0, 1, -0.1], [1, 0.5, 0], [1, 0, 0]], float)


def test_margins_of_a_rectangle():
    polygon = balance.support_polygon(SQUARE, names=["a", "b", "c", "d", "inner", "between"])
    assert set(polygon.names) == {"a", "b", "c", "d"}
    assert polygon.area == pytest.approx(2.0)
    assert (polygon.vertices[:, 2] == 0.0).all()
    points = [[0.5, 0.5, 9], [1.9, 0.5, 0], [2.3, 0.5, 0], [3, 2, 0], [1, 1, 0], [1, 0.3, 0]]
    found = polygon.margin(points)
    np.testing.assert_allclose(found.distance, [0.5, 0.1, -0.3, -np.sqrt(2), 0.0, 0.3], atol=1e-12)
    assert found.inside.tolist() == [True, True, False, False, False, True]
    assert set(found.nearest[1]) == set(found.nearest[2]) == {"b", "c"}
    assert set(found.nearest[5]) == {"a", "b"}
    assert set(found.nearest[4]) == {"c", "d"}


def test_margins_of_random_polygons_by_sampling():
    """Inside by a triangulation, the distance by a dense walk along the hull's edges."""
    rng = np.random.default_rng(6)
    for n in (3, 5, 12):
        contacts = np.concatenate([rng.normal(size=(n, 2)), np.zeros((n, 1))], axis=1)
        points = np.concatenate([rng.normal(size=(200, 2)) * 1.5, np.zeros((200, 1))], axis=1)
        polygon = balance.support_polygon(contacts)
        found = polygon.margin(points)
        inside = Delaunay(contacts[:, :2]).find_simplex(points[:, :2]) >= 0
        assert (found.inside == inside).all()
        t = np.linspace(0.0, 1.0, 801)[:, None]
        ends = [(contacts[int(a)], contacts[int(b)]) for a, b in polygon.edges]
        walk = np.stack([a + t * (b - a) for a, b in ends])
        away = np.linalg.norm(points[:, None, None] - walk, axis=-1).min(axis=-1)
        np.testing.assert_allclose(np.abs(found.distance), away.min(axis=1), atol=2e-3)
        nearest = np.take_along_axis(away, found.edge[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(nearest, away.min(axis=1), atol=2e-3)


def test_margins_do_not_depend_on_where_the_ground_lies():
    rng = np.random.default_rng(7)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    R *= np.sign(np.linalg.det(R))
    shift, points = rng.normal(size=3), rng.normal(size=(20, 3))
    flat = balance.support_polygon(SQUARE).margin(points).distance
    ground = Ground(tuple(shift), tuple(5.0 * R[:, 2]))
    moved = balance.support_polygon(SQUARE @ R.T + shift, ground)
    np.testing.assert_allclose(moved.margin(points @ R.T + shift).distance, flat, atol=1e-12)
    np.testing.assert_allclose(Ground().basis, np.eye(3))


@pytest.mark.parametrize(
    ("contacts", "names", "distances"),
    [
        ([[1, 1, 0]], ("0",), [-np.sqrt(2), 0.0, -3.0]),
        ([[1, 1, 0], [1, 1, 3]], ("0",), [-np.sqrt(2), 0.0, -3.0]),
        ([[0, 1, 0], [3, 1, 0]], ("0", "1"), [-1.0, 0.0, -1.0]),
        ([[1, 1, 0], [3, 1, 0], [0, 1, 0], [2, 1, 0]], ("2", "1"), [-1.0, 0.0, -1.0]),
    ],
)
def test_lines_and_points_hold_nothing(contacts, names, distances):
    polygon = balance.support_polygon(contacts)
    assert set(polygon.names) == set(names)
    found = polygon.margin([[0, 0, 0], [1, 1, 0], [4, 1, 0]])
    np.testing.assert_allclose(found.distance, distances, atol=1e-12)
    assert not found.inside.any()
    assert polygon.area == pytest.approx(0.0, abs=1e-12)


def test_standing_on_four_feet_and_lifting_two(dog):
    q, zero = dog.configurations["home"], np.zeros(dog.nv)
    feet = balance.contact_points(dog, q, FEET)
    ground = Ground(tuple(feet[0]))
    point = balance.zero_moment_point(dog, q, zero, zero, ground).point
    assert balance.support_polygon(feet, ground, FEET).margin(point).inside
    front = balance.support_polygon(feet[:2], ground, FEET[:2]).margin(point)
    gap = feet[0, 0] - dog.center_of_mass(q)[0]
    assert front.distance == pytest.approx(-gap, rel=1e-9)
    assert set(front.nearest) == {"FL_foot", "FR_foot"}
    assert balance.contact_points(dog, np.stack([q, q]), FEET).shape == (2, 4, 3)


def test_wrong_arguments_say_what_is_needed(dog):
    q, zero = dog.configurations["home"], np.zeros(dog.nv)
    for call, said in (
        (lambda: balance.support_polygon([]), "there are no contacts"),
        (lambda: balance.support_polygon(np.zeros((0, 3))), "there are no contacts"),
        (lambda: balance.contact_points(dog, q, []), "there are no contacts"),
        (lambda: balance.center_of_pressure(dog, q, []), "there are no contacts"),
        (lambda: balance.contact_points(dog, q, ["FL_fot"]), "closest: 'FL_foot'"),
        (lambda: balance.support_polygon([[0, 0]]), "(..., 3)"),
        (lambda: balance.support_polygon([["a", 0, 0]]), "an array of numbers"),
        (lambda: balance.support_polygon([[0, 0, np.nan]]), "finite numbers"),
        (lambda: balance.support_polygon(SQUARE, names=["a"]), "(6,)"),
        (lambda: balance.support_polygon(SQUARE, Ground(normal=(0, 0, 0))), "not all zero"),
        (lambda: balance.pressure_point([0, 0, 1]), "(..., 6)"),
        (lambda: balance.zero_moment_point(dog, q, zero, zero, flight="maybe"), "'error', 'nan'"),
        (lambda: balance.center_of_pressure(dog, q, [np.zeros(6)]), "Wrench(frame, reference"),
        (
            lambda: balance.center_of_pressure(dog, q, Wrench("FL_foot", "wrld", np.zeros(6))),
            "closest: 'world'",
        ),
        (
            lambda: balance.center_of_pressure(dog, q, Wrench("FL_foot", LWA, np.zeros(3))),
            "(..., 6)",
        ),
        (
            lambda: balance.center_of_pressure(dog, q, Wrench("FL_foot", LWA, [0, 0, -9, 0, 0, 0])),
            "would be -9 N",
        ),
    ):
        with pytest.raises(qddot.QddotError, match=re.escape(said)):
            call()
