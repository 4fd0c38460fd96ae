"""Implicit and variational steps: closed forms, reversal in time, symplecticity, conservation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from bare_rollouts import rollout
from native_cases import cold_cache  # noqa: F401
from rollouts import IMPLICIT, start, tree, undamped

import qddot
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.linear import factorise_unsymmetric, solve_unsymmetric
from qddot.algorithms.recursion import per_body
from qddot.robot.robot import Robot
from qddot.simulate import INTEGRATORS
from qddot.simulate.implicit import step_matrix
from qddot.simulate.plant import StatelessEffect
from qddot.spatial.algebra import Force

SYMMETRIC = ("implicit_midpoint", "variational")


def native(*kinds: str, gravity: bool = False) -> Robot:
    robot = undamped(tree(*kinds))
    model = robot.model if gravity else robot.with_gravity((0.0, 0.0, 0.0)).model
    return Robot(model, native=True)


def test_elimination_solves_systems_that_are_not_symmetric():
    rng = np.random.default_rng(1)
    A = np.eye(5) * 4.0 + rng.normal(size=(5, 5))
    b = rng.normal(size=5)
    x = solve_unsymmetric(factorise_unsymmetric(A.tolist()), b.tolist())
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-12)


def test_the_matrix_of_a_step_is_the_derivative_of_its_balance():
    model = qddot.load("planar_3r").model
    rng = np.random.default_rng(2)
    q0, w0, x = rng.normal(size=(3, 3))
    reach = 0.3

    def torque(rate):
        w = w0 + reach * rate
        return newton_euler(model, q0 + reach * w, w, rate, per_body(model, Force.zero()))

    w = w0 + reach * x
    J = step_matrix(model, list(q0 + reach * w), list(w), list(x), reach)
    columns = [np.imag(torque(x + 1e-30j * e)) / 1e-30 for e in np.eye(3)]
    np.testing.assert_allclose(J, np.transpose(columns), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("integrator", "late"), [("backward_euler", 1.0), *((x, 0.0) for x in SYMMETRIC)]
)
def test_constant_acceleration_is_followed_as_the_rule_says(integrator, late):
    robot = Robot(undamped(tree("prismatic")).model)
    a = robot.forward_dynamics(np.zeros(1), np.zeros(1), np.zeros(1))
    dt, t = 0.1, 0.1 * np.arange(9)
    found = rollout(robot, [0.2], [0.5], dt=dt, steps=8, integrator=integrator)
    np.testing.assert_allclose(found.v[:, 0], 0.5 + a * t, rtol=1e-12)
    expected = 0.2 + 0.5 * t + 0.5 * a * t * (t + late * dt)
    np.testing.assert_allclose(found.q[:, 0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("integrator", "share"), [("backward_euler", 1.0), ("implicit_midpoint", 0.5)]
)
def test_small_oscillations_have_the_amplification_of_the_rule(integrator, share):
    robot = Robot(qddot.load("double_pendulum").model, native=True)
    modes = qddot.linearise.natural_modes(robot, np.zeros(2))
    omega, shape, dt = modes.frequencies[-1], modes.shapes[:, -1].real, 0.3
    q0 = 1e-6 * shape
    found = rollout(robot, q0, np.zeros(2), dt=dt, steps=20, integrator=integrator)
    y = 1j * omega * dt
    factor = (1.0 + (1.0 - share) * y) / (1.0 - share * y)
    expected = np.real(factor ** np.arange(21))[:, None] * q0
    np.testing.assert_allclose(found.q, expected, atol=1e-11)


@pytest.mark.parametrize("kinds", [("free", "revolute", "ball"), ("planar", "helical")])
@pytest.mark.parametrize("integrator", SYMMETRIC)
def test_symmetric_steps_lead_back(kinds, integrator):
    robot = native(*kinds, gravity=True)
    q, v = start(robot)
    there = rollout(robot, q, v, dt=5e-3, steps=40, integrator=integrator)
    back = rollout(robot, there.q[-1], -there.v[-1], dt=5e-3, steps=40, integrator=integrator)
    np.testing.assert_allclose(robot.difference(q, back.q[-1]), 0.0, atol=1e-10)
    np.testing.assert_allclose(-back.v[-1], v, atol=1e-10)


def test_a_variational_step_is_symplectic():
    robot = Robot(qddot.load("double_pendulum").model, native=True)
    z, eps, dt = np.array([0.7, -1.1, 0.6, 0.4]), 1e-4, 0.02

    def step(z):
        v = np.linalg.solve(robot.mass_matrix(z[:, :2]), z[:, 2:, None])[..., 0]
        end = rollout(robot, z[:, :2], v, dt=dt, steps=1, integrator="variational")
        return np.hstack([end.q[:, -1], robot.momentum(end.q[:, -1], end.v[:, -1])])

    moved = [step(z + k * eps * np.eye(4)) for k in (-2, -1, 1, 2)]
    J = ((moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * eps)).T
    omega = np.kron([[0, 1], [-1, 0]], np.eye(2))
    np.testing.assert_allclose(J.T @ omega @ J, omega, atol=1e-10)
    assert np.abs(J - np.eye(4)).max() > 1e-2


def test_a_variational_step_keeps_momentum_in_free_flight():
    robot = native("free", "revolute", "ball")
    q, v = start(robot)
    q[:3] = 0.0
    v[:3] *= 0.1
    found = rollout(robot, q, v, dt=5e-3, steps=400, integrator="variational")
    h, c = robot.centroidal_momentum(found.q, found.v), robot.center_of_mass(found.q)
    spin = h[:, 3:] + np.cross(c, h[:, :3])
    np.testing.assert_allclose(h[:, :3], np.tile(h[0, :3], (401, 1)), atol=1e-12)
    np.testing.assert_allclose(spin, np.tile(spin[0], (401, 1)), atol=1e-12)
    assert np.ptp(found.q, axis=0).min() > 1e-2


@pytest.mark.parametrize("integrator", SYMMETRIC)
def test_a_body_on_a_ball_joint_keeps_its_angular_momentum(integrator):
    robot = native("ball")
    q, v = start(robot)
    found = rollout(robot, q, 3.0 * v, dt=0.01, steps=500, integrator=integrator)
    J = robot.frame_jacobian(found.q, frame="b0", reference="world")[:, 3:]
    L = np.einsum("tij,tj->ti", J, robot.momentum(found.q, found.v))
    np.testing.assert_allclose(L, np.tile(L[0], (501, 1)), atol=1e-12)


def test_variational_energy_is_bounded_over_a_million_steps():
    robot = Robot(qddot.load("double_pendulum").model, native=True)
    found = rollout(
        robot, [0.9, -0.6], [0, 0], dt=2e-3, steps=10**6, every=100, integrator="variational"
    )
    energy = robot.kinetic_energy(found.q, found.v) + robot.potential_energy(found.q)
    early, late = (
        np.abs(energy[part] - energy[0]).max() for part in (slice(1000), slice(-1000, None))
    )
    assert late < 1.1 * early < 1e-4


@dataclass(frozen=True)
class Drag(StatelessEffect):
    """Torques against the velocity of each joint, and a push on the last body."""

    def act(self, context, state):
        pushes = per_body(context.model, Force.zero())
        pushes[context.model.nb - 1] = Force.of([0.3, -0.2, 0.1, 0.0, 0.1, 0.2])
        return [t - 0.4 * s for t, s in zip(context.tau, context.v, strict=True)], pushes


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_effects_do_not_lower_the_order(integrator):
    robot = Robot(qddot.load("planar_2r").model, native=True)

    def end(steps, name):
        options = {"dt": 0.4 / steps, "steps": steps, "every": steps, "effects": [Drag()]}
        found = rollout(robot, [0.5, 1.0], [1.0, -2.0], integrator=name, **options)
        return np.concatenate([found.q[-1], found.v[-1]])

    exact = end(400, "rk4")
    coarse, fine = (np.abs(end(n, integrator) - exact).max() for n in (100, 200))
    assert np.log2(coarse / fine) == pytest.approx(INTEGRATORS[integrator].order, abs=0.1)


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_native_code_takes_the_same_implicit_steps(integrator):
    model = qddot.load("planar_2r").model
    rng = np.random.default_rng(0)
    q, v, tau = rng.normal(size=(3, 4, 2))
    text, code = (
        rollout(
            Robot(model, native=way),
            q,
            v,
            tau[:, None],
            dt=0.01,
            steps=4,
            every=4,
            integrator=integrator,
        )
        for way in (False, True)
    )
    np.testing.assert_allclose(code.q, text.q, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(code.v, text.v, rtol=1e-11, atol=1e-12)
