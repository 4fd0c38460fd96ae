"""Momentum, Hamiltonian, port-Hamiltonian structure, passivity and the worst mass matrix."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from everything import everything_robot
from hypothesis import given
from identities import STEP, Case, agree, dot, many
from named_robots import NAMED, named
from random_models import Part, build, trees

import qddot
from qddot.analysis.port_hamiltonian import passivity, port_hamiltonian, worst_condition
from qddot.errors import InvalidArgument, InvalidModel, ShapeMismatch, SingularInertia
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia

COORDINATES = ("revolute", "prismatic", "helical", "universal")


def tolerance(robot: Robot, q: np.ndarray) -> float:
    """What solving with M costs in accuracy."""
    condition = float(np.linalg.cond(robot.mass_matrix(q)).max()) if robot.nv else 1.0
    return max(1e-10, 1e-14 * condition)


def along(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Configurations an imaginary step along each velocity, on a new axis."""
    return robot.integrate(q[..., None, :].astype(complex), 1j * STEP * np.eye(robot.nv))


@many
@given(trees())
def test_momentum_and_transposed_coriolis_product(tree):
    c = Case(tree)
    agree(c.robot.momentum(c.q, c.v), dot(c.robot.mass_matrix(c.q), c.v))
    C = c.robot.coriolis_matrix(c.q, c.v)
    agree(c.robot.coriolis_transpose_product(c.q, c.v), dot(C.swapaxes(1, 2), c.v))


@many
@given(trees())
def test_momentum_changes_along_motions(tree):
    """ṗ = Cᵀ v − g + τ on every joint type, ṗ by complex step along the motion."""
    c = Case(tree)
    tau = c.robot.inverse_dynamics(c.q, c.v, c.a)
    rate = c.robot.momentum(c.along(c.v), c.v + 1j * STEP * c.a).imag / STEP
    expected = c.robot.coriolis_transpose_product(c.q, c.v) - c.robot.gravity(c.q) + tau
    agree(rate, expected, scale=np.abs(tau).max(initial=0.0))


@many
@given(trees())
def test_hamiltonian_is_the_energy_and_its_derivatives_are_exact(tree):
    c = Case(tree)
    r, p = c.robot, c.robot.momentum(c.q, c.v)
    near = tolerance(r, c.q)
    energy = r.kinetic_energy(c.q, c.v) + r.potential_energy(c.q)
    agree(r.hamiltonian(c.q, p), energy, tolerance=near)
    by_q, by_p = r.hamiltonian_derivatives(c.q, p)
    agree(by_p, c.v, tolerance=near)
    agree(by_q, r.hamiltonian(along(r, c.q), p[:, None]).imag / STEP, tolerance=near)
    moved = p[:, None] + 1j * STEP * np.eye(r.nv)
    agree(by_p, r.hamiltonian(c.q[:, None], moved).imag / STEP, tolerance=near)


@many
@given(trees(kinds=COORDINATES))
def test_derivative_by_q_of_coordinate_joints(tree):
    """∂H/∂q = g − Cᵀ v where velocities are rates of coordinates."""
    c = Case(tree)
    by_q, _ = c.robot.hamiltonian_derivatives(c.q, c.robot.momentum(c.q, c.v))
    expected = c.robot.gravity(c.q) - c.robot.coriolis_transpose_product(c.q, c.v)
    agree(by_q, expected, tolerance=tolerance(c.robot, c.q))


@pytest.mark.parametrize("name", ["ball", "planar", "free"])
def test_derivative_by_q_in_body_axes_lacks_the_gyroscopic_torque(name):
    robot, rng = named(name), np.random.default_rng(5)
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    p = robot.momentum(q, v)
    extra = robot.coriolis_transpose_product(q, v) - robot.gravity(q)
    extra += robot.hamiltonian_derivatives(q, p)[0]
    assert np.abs(extra).max() > 0.01
    assert v @ extra == pytest.approx(0.0, abs=1e-12)
    n = robot.nv
    np.testing.assert_allclose(port_hamiltonian(robot, q, v).J[n:, n:] @ v, extra, atol=1e-12)


def test_free_body_has_the_lie_poisson_bracket():
    """ṗ of a free rigid body: (f × ω, n × ω + f × v) for p = (f, n), textbook."""
    robot = Robot(build([Part("free", WORLD, False, False, False, None)], 2))
    rng = np.random.default_rng(0)
    v = rng.normal(size=6)
    structure = port_hamiltonian(robot, robot.random(rng), v)
    f, n = structure.p[:3], structure.p[3:]
    expected = np.concatenate([np.cross(f, v[3:]), np.cross(n, v[3:]) + np.cross(f, v[:3])])
    np.testing.assert_allclose(structure.J[6:, 6:] @ v, expected, atol=1e-13)


# structure matrices


@pytest.mark.parametrize("friction", [False, True])
@pytest.mark.parametrize("name", sorted(set(NAMED) - {"planar", "free"}))
def test_structure_reproduces_forward_dynamics(name, friction):
    robot, rng = named(name), np.random.default_rng(3)
    q, v, tau = robot.random(rng, 4), *(rng.normal(size=(4, robot.nv)) for _ in range(2))
    check_structure(robot, q, v, tau, friction)


@pytest.mark.parametrize("name", ["planar", "free"])
def test_structure_reproduces_forward_dynamics_without_springs(name):
    robot, rng = named(name), np.random.default_rng(3)
    q, v, tau = robot.random(rng, 4), *(rng.normal(size=(4, robot.nv)) for _ in range(2))
    check_structure(robot, q, v, tau, False)
    with pytest.raises(InvalidModel, match="is not the gradient of an energy"):
        port_hamiltonian(robot, q, v, friction=True)


def check_structure(robot, q, v, tau, friction):
    """J skew, R ⪰ 0, and (J − R) ∂H + G τ = (v, ṗ) with q̈ from forward dynamics."""
    x = port_hamiltonian(robot, q, v, friction=friction)
    n = robot.nv
    np.testing.assert_array_equal(x.J, -x.J.swapaxes(-1, -2))
    np.testing.assert_array_equal(x.R, x.R.swapaxes(-1, -2))
    assert np.linalg.eigvalsh(x.R).min() >= 0.0
    assert (x.R != 0).any() == friction
    a = robot.forward_dynamics(q, v, tau, friction=friction)
    momentum_rate = dot(robot.mass_matrix(q), a) + dot(robot.mass_matrix_rate(q, v), v)
    agree(x.rate(tau), np.concatenate([v, momentum_rate], axis=-1))
    # the power balance: dH/dt = τ · v − dissipation
    energy = np.einsum("...i,...i->...", x.dH, x.rate(tau))
    agree(energy, np.einsum("...i,...i->...", tau, v) - x.dissipation)
    agree(np.einsum("...ji,...j->...i", x.G, x.dH), v)
    assert x.dH.shape == (*q.shape[:-1], 2 * n)


@pytest.mark.parametrize("name", ["ball", "coupled", "helical", "universal"])
def test_stored_energy_with_springs_has_the_gradient_given(name):
    """∂H/∂q by central differences along the tangent, at fixed p."""
    robot, rng = named(name), np.random.default_rng(7)
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    x = port_hamiltonian(robot, q, v, friction=True)

    def stored(step):
        at = robot.integrate(q, step)
        velocity = np.linalg.solve(robot.mass_matrix(at), x.p[..., None])[..., 0]
        return port_hamiltonian(robot, at, velocity, friction=True).H

    h = 1e-5 * np.eye(robot.nv)
    slopes = (stored(h) - stored(-h)) / 2e-5
    np.testing.assert_allclose(slopes, x.dH[: robot.nv], rtol=1e-6, atol=1e-6)


def test_structure_at_rest_and_in_batches():
    robot = qddot.load("double_pendulum")
    q, still = robot.random(0, (3, 2)), np.zeros(2)
    x = port_hamiltonian(robot, q, still, friction=True)
    assert x.J.shape == (3, 2, 4, 4)
    assert np.isfinite(x.R).all()
    one = port_hamiltonian(robot, q[1, 1], still, friction=True)
    np.testing.assert_allclose(x.rate([0.1, 0.2])[1, 1], one.rate([0.1, 0.2]), atol=1e-14)


# passivity of trajectories


def rolled(robot: Robot, q, v, torque, dt, steps, friction=False):
    """A trajectory by RK4 on the manifold, with the torques at its samples."""
    qs, vs, taus = [q], [v], [torque(0.0, q, v)]

    def rates(t, q, v):
        return v, robot.forward_dynamics(q, v, torque(t, q, v), friction=friction)

    for k in range(steps):
        t = k * dt
        v1, a1 = rates(t, q, v)
        v2, a2 = rates(t + dt / 2, robot.integrate(q, v1 * dt / 2), v + a1 * dt / 2)
        v3, a3 = rates(t + dt / 2, robot.integrate(q, v2 * dt / 2), v + a2 * dt / 2)
        v4, a4 = rates(t + dt, robot.integrate(q, v3 * dt), v + a3 * dt)
        q = robot.integrate(q, (v1 + 2 * v2 + 2 * v3 + v4) * dt / 6)
        v = v + (a1 + 2 * a2 + 2 * a3 + a4) * dt / 6
        qs.append(q)
        vs.append(v)
        taus.append(torque(t + dt, q, v))
    return np.array(qs), np.array(vs), np.array(taus)


def drive(t, q, v):
    return np.array([2.0 * math.sin(3.0 * t), -0.7 * math.cos(2.0 * t)])


@pytest.fixture(scope="module")
def pendulum() -> Robot:
    return qddot.load("double_pendulum")


@pytest.fixture(scope="module")
def driven(pendulum):
    """Two seconds of the driven double pendulum, with the friction of its joints."""
    return rolled(pendulum, np.array([0.4, -0.3]), np.zeros(2), drive, 0.004, 500, friction=True)


def test_energy_balance_of_a_driven_pendulum(pendulum, driven):
    result = passivity(pendulum, *driven, 0.004, friction=True)
    assert result.passive, str(result)
    assert np.abs(result.imbalance).max() < 1e-7
    assert result.dissipated[-1] > 1e-3
    assert (np.diff(result.dissipated) >= 0).all()
    rise = result.stored[-1] - result.stored[0]
    assert rise == pytest.approx(result.supplied[-1] - result.dissipated[-1], abs=1e-7)
    assert np.abs(result.supplied).max() > 0.3
    assert "passive: True" in str(result)


def test_a_motion_that_makes_energy_is_named(pendulum, driven):
    q, v, tau = (x.copy() for x in driven)
    v[400:] *= 1.01
    result = passivity(pendulum, q, v, tau, 0.004, friction=True)
    assert not result.passive
    found = max(result.violations, key=lambda x: x.excess)
    assert found.step == 399
    gained = pendulum.kinetic_energy(q[400], v[400]) * (1 - 1.01**-2)
    assert found.excess == pytest.approx(gained, rel=0.05)
    assert "step 399 (from 1.596 s): energy rose by" in str(result)


def test_energy_made_by_a_wrong_torque_log_is_seen(pendulum, driven):
    q, v, tau = driven
    assert not passivity(pendulum, q, v, 0.9 * tau, 0.004).passive
    calm = passivity(pendulum, q, v, tau, 0.004, tolerance=10.0)
    assert calm.passive


def test_passivity_of_held_torques(pendulum):
    """A torque held over each step does τ · Δq of work, whatever the step."""
    dt, fine = 0.02, 10
    rng = np.random.default_rng(0)
    held = rng.normal(size=(30, 2))
    q, v = np.array([0.2, 0.1]), np.zeros(2)
    qs, vs = [q], [v]
    for tau in held:
        path = rolled(pendulum, q, v, lambda t, q, v, tau=tau: tau, dt / fine, fine)
        q, v = path[0][-1], path[1][-1]
        qs.append(q)
        vs.append(v)
    result = passivity(pendulum, qs, vs, held, dt)
    assert result.passive, str(result)
    assert np.abs(result.imbalance).max() < 1e-9
    assert not passivity(pendulum, qs, vs, 0.0 * held, dt).passive


def test_passivity_of_a_tumbling_body_in_batches():
    """A free body with a ball joint in flight: nothing supplied, energy kept."""
    robot = Robot(named("free").model)
    rng = np.random.default_rng(1)
    q, v = robot.random(rng, 2), rng.normal(size=(2, robot.nv))
    path = rolled(robot, q, v, lambda t, q, v: np.zeros((2, robot.nv)), 0.002, 30)
    q, v, tau = (np.swapaxes(x, 0, 1) for x in path)
    result = passivity(robot, q, v, tau, 0.002, tolerance=1e-6)
    assert result.passive, str(result)
    assert result.stored.shape == (2, 31)
    broken = v.copy()
    broken[1, 20:] *= 1.1
    bad = passivity(robot, q, broken, tau, 0.002, tolerance=1e-6)
    assert {x.batch for x in bad.violations} == {(1,)}
    assert "of trajectory (1,)" in str(bad)


def test_trajectories_that_make_no_sense(pendulum, driven):
    q, v, tau = driven
    with pytest.raises(ShapeMismatch, match=r"tau must have shape \(\.\.\., N=501 or N − 1, nv=2"):
        passivity(pendulum, q, v, tau[:5], 0.1)
    with pytest.raises(ShapeMismatch, match="N ≥ 2"):
        passivity(pendulum, q[:1], v[:1], tau[:1], 0.1)
    with pytest.raises(ShapeMismatch, match="q must have shape"):
        passivity(pendulum, q[:, :1], v, tau, 0.1)
    for dt in (0.0, -1.0, float("nan"), [0.1]):
        with pytest.raises(InvalidArgument, match="a number above zero"):
            passivity(pendulum, q, v, tau, dt)
    with pytest.raises(InvalidArgument, match="array of numbers"):
        passivity(pendulum, "q", v, tau, 0.1)
    lost = v.copy()
    lost[7] = np.nan
    assert {x.step for x in passivity(pendulum, q, lost, tau, 0.002).violations} >= {6, 7}


# the worst mass matrix


def test_worst_condition_of_the_planar_arm_is_known():
    """Two equal point masses on equal links are worst stretched out: λ of [[5, 2], [2, 1]]."""
    from qddot.analysis.lagrange import planar_arm

    worst = worst_condition(planar_arm(2), samples=50, seed=1)
    assert worst.condition == pytest.approx((3 + 2 * math.sqrt(2)) ** 2, rel=1e-9)
    assert abs(worst.q[1]) < 1e-4
    assert worst.median < worst.sampled < worst.condition
    assert worst.largest / worst.smallest == pytest.approx(worst.condition)
    assert "condition number of M up to 33.97" in str(worst)
    assert "heaviest 5.828 along" in str(worst)


def test_worst_condition_beats_a_grid():
    """Every joint of a planar 3R arm on a fine grid: no place is worse than the one found."""
    robot = qddot.load("planar_3r")
    angles = np.linspace(-math.pi, math.pi, 61)
    grid = np.stack(np.meshgrid(0.0, angles, angles), axis=-1).reshape(-1, 3)
    M = robot.mass_matrix(grid)
    worst = worst_condition(robot, samples=100)
    assert worst.condition >= np.linalg.cond(M).max() * (1 - 1e-9)


def test_worst_condition_at_a_limit_and_on_ball_joints():
    """A prismatic arm is worst at the end of its range; ball joints turn on their manifold."""
    robot = named("coupled")
    everything = worst_condition(everything_robot(), samples=20, refine=5)
    assert everything.condition >= everything.sampled
    worst = worst_condition(robot, refine=60)
    angles, slides = np.linspace(-math.pi, math.pi, 101), np.linspace(-1.0, 1.0, 21)
    grid = np.stack(np.meshgrid(angles, slides), axis=-1).reshape(-1, 2)
    highest = np.linalg.cond(robot.mass_matrix(grid)).max()
    assert worst.condition >= highest * (1 - 1e-12)
    assert abs(worst.q[1]) == 1.0
    assert np.linalg.cond(robot.mass_matrix(worst.q)) == pytest.approx(worst.condition)


def test_worst_condition_of_what_has_none():
    robot = qddot.load("planar_2r")
    body = dataclasses.replace(robot.model.bodies[1], inertia=Inertia.zero())
    bodies = (robot.model.bodies[0], body)
    with pytest.raises(SingularInertia, match="joint2"):
        worst_condition(Robot(dataclasses.replace(robot.model, bodies=bodies)))
    with pytest.raises(InvalidArgument, match="at least 1"):
        worst_condition(robot, samples=0)
    with pytest.raises(InvalidArgument, match="needs a robot that moves"):
        worst_condition(robot.without_joint("joint1").without_joint("joint2"))
    steps = []
    worst_condition(robot, 5, 3, on_step=lambda name, done, of: steps.append((name, done, of)))
    assert steps[0] == ("refine", 0, 3)


@pytest.mark.parametrize("name", ["momentum", "coriolis_transpose_product", "hamiltonian"])
def test_native_equals_interpreted(name, pendulum):
    rng = np.random.default_rng(0)
    q, x = pendulum.random(rng, 9), rng.normal(size=(9, 2))
    native = Robot(pendulum.model, native=True).call(name, q, x)
    np.testing.assert_allclose(native, pendulum.call(name, q, x), rtol=1e-12, atol=1e-13)
