"""Trajectories: derivatives are those of the positions, ends and bounds are met."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import qddot
from qddot import trajectory
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.robot.robot import Robot

ARM = Robot(qddot.load("ur5e").model)
T = np.linspace(0.05, 0.95, 19)
STEP = 1e-5


def assert_derivatives(motion, times, atol=1e-4):
    _, v, a = motion(times)
    ahead, back = motion(times + STEP), motion(times - STEP)
    np.testing.assert_allclose((ahead[0] - back[0]) / (2 * STEP), v, atol=1e-6)
    np.testing.assert_allclose((ahead[1] - back[1]) / (2 * STEP), a, atol=atol)


def test_velocities_and_accelerations_are_derivatives():
    rng = np.random.default_rng(0)
    q0, q1 = rng.normal(size=(2, 3))
    knots, via = np.array([0.0, 0.3, 0.6, 1.0]), rng.normal(size=(4, 3))
    a, b = rng.normal(size=(2, 2, 3))
    assert_derivatives(lambda t: trajectory.quintic(q0, q1, 1.0, t), T)
    assert_derivatives(lambda t: trajectory.via_points(knots, via, t), T, 1e-2)
    assert_derivatives(lambda t: trajectory.fourier(q0, a, b, 3.0, t), T)
    # away from the corners of its acceleration
    assert_derivatives(lambda t: trajectory.trapezoidal(q0, q1, 2.0, 5.0, t)[0], T + 0.0033)


def test_via_points_are_met_from_rest_to_rest():
    knots, via = np.array([0.0, 0.4, 1.0]), np.array([[0.0], [1.0], [0.5]])
    q, v, a = trajectory.via_points(knots, via, knots)
    np.testing.assert_allclose(q, via, atol=1e-12)
    np.testing.assert_allclose([v[[0, -1]], a[[0, -1]]], 0.0, atol=1e-9)
    q, v, _ = trajectory.via_points(knots, via, np.array([-1.0, 2.0]))
    np.testing.assert_allclose(q, via[[0, -1]], atol=1e-12)
    np.testing.assert_array_equal(v, 0.0)
    with pytest.raises(InvalidArgument, match="rise"):
        trajectory.via_points(knots[::-1], via, knots)
    with pytest.raises(ShapeMismatch):
        trajectory.via_points(knots, via[:2], knots)


def test_a_trapezoid_uses_all_of_one_bound_and_no_more_of_any():
    q0, q1 = np.zeros(3), np.array([1.0, -0.4, 0.0])
    for speed, hard in ((0.5, 2.0), (50.0, 2.0)):
        _, T1 = trajectory.trapezoidal(q0, q1, speed, hard, 0.0)
        t = np.linspace(-0.1, T1 + 0.1, 3001)
        (q, v, a), _ = trajectory.trapezoidal(q0, q1, speed, hard, t)
        assert np.abs(a).max() == pytest.approx(hard)
        assert np.abs(v).max() <= speed + 1e-12
        np.testing.assert_allclose(q[-1], q1)
        np.testing.assert_array_equal(v[[0, -1]], 0.0)
    assert pytest.approx(2.0 * np.sqrt(1.0 / 2.0)) == T1
    (q, v, _), T0 = trajectory.trapezoidal(q0, q0, 1.0, 1.0, t)
    assert T0 == 0.0
    assert not v.any()
    with pytest.raises(InvalidArgument, match="above zero"):
        trajectory.trapezoidal(q0, q1, -1.0, 1.0, t)


def pose_derivatives(motion, t):
    """Twist by differences of poses, in world axes."""
    a, b = motion(t - STEP).X, motion(t + STEP).X
    linear = (b[..., :3, 3] - a[..., :3, 3]) / (2 * STEP)
    turn = Rotation.from_matrix(b[..., :3, :3] @ np.swapaxes(a[..., :3, :3], -1, -2)).as_rotvec()
    return np.concatenate([linear, turn / (2 * STEP)], axis=-1)


def test_lines_and_arcs_of_a_frame():
    rng = np.random.default_rng(1)
    X0, X1 = np.eye(4), np.eye(4)
    for X in (X0, X1):
        X[:3, :3], X[:3, 3] = Rotation.random(random_state=rng).as_matrix(), rng.normal(size=3)
    ways = [
        lambda t: trajectory.line(X0, X1, 1.0, t),
        lambda t: trajectory.arc(X0, (0.1, 0.2, 0.3), (0.0, 1.0, 1.0), 1.2, 1.0, t),
        lambda t: trajectory.arc(X0, (0.1, 0.2, 0.3), (0.0, 1.0, 1.0), 1.2, 1.0, t, turns=False),
    ]
    for way in ways:
        found = way(T)
        np.testing.assert_allclose(pose_derivatives(way, T), found.V, atol=1e-6)
        rate = (way(T + STEP).V - way(T - STEP).V) / (2 * STEP)
        np.testing.assert_allclose(rate, found.A, atol=1e-4)
        np.testing.assert_allclose(way(np.zeros(1)).X[0], X0, atol=1e-12)
    np.testing.assert_allclose(ways[0](np.ones(1)).X[0], X1, atol=1e-12)
    radius = [np.linalg.norm(ways[1](t).X[:3, 3] - (0.1, 0.2, 0.3)) for t in (0.0, 0.4, 1.0)]
    np.testing.assert_allclose(radius, radius[0])
    with pytest.raises(ShapeMismatch):
        trajectory.line(np.eye(3), X1, 1.0, T)
    with pytest.raises(InvalidArgument, match="direction"):
        trajectory.arc(X0, (0, 0, 0), (0, 0, 0), 1.0, 1.0, T)


@pytest.mark.parametrize("bound", ["velocity", "acceleration", "torque"])
def test_the_shortest_duration_reaches_its_bound_and_keeps_the_others(bound):
    q0, q1 = np.array([0.0, -1.5, 1.0, 0.0, 0.5, 0.0]), np.array([1.0, -0.8, 0.2, 0.5, 0.0, 1.0])
    limits = {"velocity": 100.0, "acceleration": 1e4, "torque": 1e4}
    limits[bound] = {"velocity": 1.0, "acceleration": 3.0, "torque": 80.0}[bound]
    found = trajectory.shortest_duration(
        ARM, lambda u: trajectory.quintic(q0, q1, 1.0, u), **limits
    )
    assert found.bound == bound
    # judged by the motion itself, on other samples
    q, v, a = trajectory.quintic(q0, q1, found.duration, np.linspace(0, found.duration, 3333))
    used = {
        "velocity": np.abs(v).max() / limits["velocity"],
        "acceleration": np.abs(a).max() / limits["acceleration"],
        "torque": np.abs(ARM.inverse_dynamics(q, v, a)).max() / limits["torque"],
    }
    assert 0.98 <= used[bound] <= 1.0005
    assert max(used.values()) <= 1.0005
    assert found.reached[bound] == pytest.approx(1.0, abs=1e-9)


def test_bounds_that_cannot_carry_the_weight_are_refused():
    q0 = np.zeros(6)
    with pytest.raises(InvalidArgument, match="shoulder_lift_joint needs more"):
        trajectory.shortest_duration(
            ARM, lambda u: trajectory.quintic(q0, q0 + 0.1, 1.0, u), torque=5.0
        )
