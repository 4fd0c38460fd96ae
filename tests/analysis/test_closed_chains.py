"""Compiled functions of closed chains: actuation, reduction and projection, against other ways."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest

import qddot
from qddot.algorithms import closed_chains
from qddot.algorithms.catalogue import CONSTRAINT_PROJECTION, REDUCED_DYNAMICS
from qddot.analysis import constraints as cs
from qddot.analysis.constraints.compiled import evaluate
from qddot.analysis.constraints.dynamics import _least_actuation
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.robot.robot import Robot

ARMS = ("arm1_joint", "arm2_joint", "arm3_joint")
SLIDES = ("platform_x", "platform_y", "platform_z")


@pytest.fixture(scope="module")
def delta():
    return qddot.load("delta")


def states(robot, seed, batch=(4,)):
    """States and accelerations that keep to the loops."""
    rng = np.random.default_rng(seed)
    q = cs.assemble(robot, robot.neutral() + rng.uniform(-0.2, 0.2, (*batch, robot.nq)))
    v = cs.consistent_velocity(robot, q, rng.normal(size=(*batch, robot.nv)))
    a = cs.consistent_acceleration(robot, q, v, rng.normal(size=(*batch, robot.nv)))
    return q, v, a


@pytest.mark.parametrize(
    "motors", [ARMS, SLIDES, (*SLIDES, *ARMS), None], ids=["3", "slides", "6", "all"]
)
def test_torques_and_multipliers_are_those_of_singular_values(delta, motors):
    """As many motors as freedoms, and more: least squares by another way, rest zero."""
    q, v, a = states(delta, 1)
    tau, lam, rest = delta.constrained_inverse_dynamics(q, v, a, actuated=motors)
    names = delta.model.velocity_names if motors is None else motors
    other = _least_actuation(delta, q, v, a, names, None, {})
    np.testing.assert_allclose(tau, other.tau, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(lam, other.multipliers, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(rest, 0.0, atol=1e-10)
    again, _ = delta.constrained_dynamics(q, v, tau)
    np.testing.assert_allclose(again, a, rtol=1e-8, atol=1e-8)


def test_what_too_few_motors_leave_is_least(delta):
    """The rest is what no torque of the motor makes smaller, in the metric of M⁻¹."""
    q, v, a = states(delta, 2, ())
    tau, lam, rest = delta.constrained_inverse_dynamics(q, v, a, actuated=ARMS[:1])
    J = delta.constraint_jacobian(q)
    load = delta.inverse_dynamics(q, v, a)
    np.testing.assert_allclose(tau + J.T @ lam + rest, load, atol=1e-10)
    assert np.abs(rest).max() > 0.1
    # least: orthogonal, in the metric of M⁻¹, to the motor and to the constraints
    far = np.linalg.solve(delta.mass_matrix(q), rest)
    np.testing.assert_allclose([far[0], *(J @ far)], 0.0, atol=1e-9)


@pytest.mark.parametrize("native", [True, False])
def test_compiled_is_interpreted(delta, native):
    robot, (q, v, a) = Robot(delta.model, native=native), states(delta, 3)
    with mpmath.workdps(30):
        exact = [[mpmath.mpf(float(x)) for x in row] for row in (q[0], v[0])]
        T, dT, M, C, g = closed_chains.reduced_dynamics(delta.model, *exact, independent=SLIDES)
        tau, lam, _ = closed_chains.constrained_inverse_dynamics(
            delta.model, *exact, [mpmath.mpf(float(x)) for x in a[0]], actuated=ARMS
        )
    found = evaluate(robot, REDUCED_DYNAMICS, q, v, independent=SLIDES, constraints=None)
    for x, y in zip(found, (T, dT, M, C, g), strict=True):
        np.testing.assert_allclose(x[0], np.array(y, float), rtol=1e-10, atol=1e-10)
    found = robot.constrained_inverse_dynamics(q, v, a, actuated=ARMS)
    for x, y in zip(found, (tau, lam), strict=False):
        np.testing.assert_allclose(x[0], np.array(y, float), rtol=1e-9, atol=1e-9)


def test_rate_of_the_reduction_is_a_derivative(delta):
    """Ṫ by a difference of T along the motion, and Ṁ̄ − 2 C̄ skew."""
    q, v, _ = states(delta, 4, ())
    h = 1e-5
    now = cs.reduce(delta, q, v, SLIDES)
    before, after = (
        cs.reduce(delta, cs.assemble(delta, delta.integrate(q, s * v)), v, SLIDES) for s in (-h, h)
    )
    np.testing.assert_allclose((after.T - before.T) / (2 * h), now.dT, atol=1e-7)
    skew = (after.M - before.M) / (2 * h) - 2.0 * now.C
    np.testing.assert_allclose(skew + skew.T, 0.0, atol=1e-6)


def test_projection_closes_and_takes_the_shortest_way(delta):
    """The correction is M⁻¹ Jᵀ of something: orthogonal to all motions that the loops leave."""
    q, v, _ = states(delta, 5)
    off = q + 1e-4 * np.random.default_rng(0).normal(size=q.shape)
    q1, v1, phi = evaluate(delta, CONSTRAINT_PROJECTION, off, v + 0.1, constraints=None)
    assert np.abs(phi).max() < 1e-14
    J, M = delta.constraint_jacobian(q1), delta.mass_matrix(q1)
    assert np.abs(np.einsum("bij,bj->bi", J, v1)).max() < 1e-13
    moved = np.einsum("bij,bj->bi", M, v + 0.1 - v1)
    for k in range(len(q)):
        left = moved[k] - J[k].T @ np.linalg.lstsq(J[k].T, moved[k], rcond=None)[0]
        assert np.abs(left).max() < 1e-12
    step = np.einsum("bij,bj->bi", delta.mass_matrix(off), q1 - off)
    for k in range(len(q)):
        left = step[k] - J[k].T @ np.linalg.lstsq(J[k].T, step[k], rcond=None)[0]
        assert np.abs(left).max() < 1e-3 * np.abs(step[k]).max()


def test_far_from_closure_projection_assembles(delta):
    q, v, _ = states(delta, 6, ())
    far = q + 0.5 * np.random.default_rng(1).normal(size=q.shape)
    q1, v1 = cs.project(delta, far, v)
    assert np.abs(delta.constraint_residual(q1)).max() <= 1e-12
    assert np.abs(delta.constraint_jacobian(q1) @ v1).max() < 1e-11


def test_wrong_arguments_are_named(delta):
    q, v, _ = states(delta, 7, ())
    with pytest.raises(ShapeMismatch, match="q"):
        cs.project(delta, q[:-1], v)
    with pytest.raises(InvalidArgument, match="would do"):
        cs.reduce(delta, q, v, SLIDES[:2])
    with pytest.raises(InvalidArgument, match="finite numbers"):
        cs.project(delta, q * np.nan, v)
    with pytest.raises(InvalidArgument):
        cs.reduce(delta, q, v * np.nan, SLIDES)


def test_redundant_rows_are_left_out_and_the_motion_is_the_same():
    robot = qddot.load("four_bar")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = cs.assemble(robot, [0.6, 0.0, 0.0], fixed="crank_joint")
        v = cs.consistent_velocity(robot, q, [2.0, 0.0, 0.0])
        a = cs.consistent_acceleration(robot, q, v, [1.0, 0.0, 0.0])
        tau, lam, rest = robot.constrained_inverse_dynamics(q, v, a, actuated=("crank_joint",))
    assert lam[1] == 0.0
    np.testing.assert_allclose(rest, 0.0, atol=1e-12)
    reduced = cs.reduce(robot, q, v, "crank_joint")
    u, rate = v[:1], a[:1]
    expected = reduced.M @ rate + reduced.C @ u + reduced.g
    np.testing.assert_allclose(reduced.T.T @ tau, expected, rtol=1e-10)
