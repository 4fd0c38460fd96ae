"""Linear models against complex steps, nonlinear flows, closed forms, SciPy and python-control."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_models import build, trees
from scipy import integrate, linalg, signal

import qddot
from qddot.analysis.linearise import equilibrium, linearise, natural_modes
from qddot.analysis.linearise.system import _matrix_exponential
from qddot.errors import (
    InvalidArgument,
    MissingPackage,
    NoEquilibrium,
    SingularInertia,
    Uncontrollable,
    UnknownName,
)
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Drivetrain, Joint
from qddot.model.links import Link
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

STEP = 1e-30
G = 9.81
X, Y, Z = Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0)

some = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def link(name, parent, kind, axis, inertia, at=(0.0, 0.0, 0.0), **drivetrain):
    """A link `name` on the joint `name`."""
    axes = (axis,) * JOINTS[kind].axes
    joint = Joint(name, JOINTS[kind], axes, drivetrain=Drivetrain(**drivetrain))
    return Link(name, parent, Transform(Mat3.identity(), Vec3(*at)), joint, inertia)


def point(mass, z):
    """A point mass at a height."""
    return Inertia.at_com(mass, Vec3(0.0, 0.0, z), Sym3.diagonal(0.0, 0.0, 0.0))


def robot_of(*links, **fields):
    return Robot(assemble("made", links, **fields))


def double_pendulum(length=0.7, mass=1.3, **drivetrain):
    """Two equal point masses on two equal bars, hanging at q = 0."""
    return robot_of(
        link("first", None, "revolute", Y, point(mass, -length), **drivetrain),
        link("second", "first", "revolute", Y, point(mass, -length), (0, 0, -length), **drivetrain),
    )


def cart_pole(cart=2.0, pole=0.5, length=0.8):
    """A point mass on a bar, upright at q = 0, on a cart along x."""
    return robot_of(
        link("cart", None, "prismatic", X, point(cart, 0.0)),
        link("pole", "cart", "revolute", Y, point(pole, length)),
    )


def two_poles(height, damping=0.0):
    """Two equal pendulums on a cart."""
    return robot_of(
        link("cart", None, "prismatic", X, point(1.0, 0.0), damping=damping),
        link("left", "cart", "revolute", Y, point(0.3, height), (-0.5, 0, 0), damping=damping),
        link("right", "cart", "revolute", Y, point(0.3, height), (0.5, 0, 0), damping=damping),
    )


def random_state(robot, seed, batch=()):
    rng = np.random.default_rng(seed)
    v, tau = rng.normal(size=(2, *batch, robot.nv))
    return robot.random(rng, batch), v, tau


def close(a, b, tolerance=1e-9):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    size = max(1.0, np.abs(b).max(initial=0.0))
    assert np.abs(a - b).max(initial=0.0) <= tolerance * size


# A and B


@some
@given(trees(most=8))
def test_rows_of_velocity_are_derivatives_of_forward_dynamics(tree):
    robot = Robot(build(*tree))
    q, v, tau = random_state(robot, tree[1])
    n, step = robot.nv, 1j * STEP * np.eye(robot.nv)
    model = linearise(robot, q, v, tau, friction=True)
    tolerance = 1e-9 * max(1.0, 1e-6 * np.linalg.cond(robot.mass_matrix(q))) if n else 1.0
    by_q = robot.forward_dynamics(
        robot.integrate(q.astype(complex), step), v.astype(complex), tau + 0j, friction=True
    )
    by_v = robot.forward_dynamics(q + 0j, v + step, tau + 0j, friction=True)
    by_tau = robot.forward_dynamics(q + 0j, v + 0j, tau + step, friction=True)
    close(model.A[n:, :n], by_q.imag.T / STEP, tolerance)
    close(model.A[n:, n:], by_v.imag.T / STEP, tolerance)
    close(model.B[n:], by_tau.imag.T / STEP, tolerance)
    np.testing.assert_array_equal(model.B[:n], 0.0)
    close(model.a, robot.forward_dynamics(q, v, tau, friction=True))


@some
@given(trees(most=8))
def test_rows_of_position_are_the_rate_of_a_step_on_the_tangent_space(tree):
    robot = Robot(build(*tree))
    q, v, tau = random_state(robot, tree[1])
    n, h = robot.nv, 1e-4
    A = linearise(robot, q, v, tau).A
    step = np.concatenate([np.eye(n), np.zeros((n, n))])
    moved = robot.integrate(q + 0j, 1j * STEP * step)
    faster = v + 1j * STEP * step[::-1].reshape(2, n, n)[:, ::-1].reshape(2 * n, n)

    def apart(t):
        """The step from a motion to its neighbours after a time t."""
        here, there = robot.integrate(q, t * v), robot.integrate(moved, t * faster)
        return robot.difference(here + 0j, there).imag / STEP

    close(A[:n], (apart(h) - apart(-h)).T / (2 * h), 1e-6)


def body(inertia=(0.2, 0.5, 0.6), mass=2.0):
    tensor = Sym3.diagonal(*inertia)
    rigid = Inertia.at_com(mass, Vec3.zero(), tensor)
    return robot_of(link("body", None, "free", X, rigid), gravity=Vec3.zero())


def flow(robot, q, v, time):
    """The nonlinear motion without torques, to ten digits."""

    def rate(_, x):
        dq = robot.integrate(x[: robot.nq] + 0j, 1j * STEP * x[robot.nq :]).imag / STEP
        dv = robot.forward_dynamics(x[: robot.nq], x[robot.nq :], np.zeros(robot.nv))
        return np.concatenate([dq, dv])

    x = integrate.solve_ivp(rate, (0, time), [*q, *v], method="DOP853", rtol=1e-12, atol=1e-13).y
    return x[: robot.nq, -1], x[robot.nq :, -1]


def test_a_spinning_body_moves_as_its_linear_model_says():
    """About a principal axis v stays, so A does, and exp(A t) carries steps of the motion."""
    robot, time, size = body(), 0.7, 1e-5
    q, v = robot.neutral(), np.array([0.4, -0.3, 0.2, 0.0, 2.0, 0.0])
    # the velocity of the origin, in body axes, turns unless it lies along the axis of the spin
    v[[0, 2]] = 0.0
    model = linearise(robot, q, v, np.zeros(6))
    close(model.a, np.zeros(6))
    q1, v1 = flow(robot, q, v, time)
    expected = np.empty((12, 12))
    for k, step in enumerate(np.eye(12) * size):
        ends = [
            flow(robot, robot.integrate(q, s * step[:6]), v + s * step[6:], time) for s in (1, -1)
        ]
        steps = [np.concatenate([robot.difference(q1, a), b - v1]) for a, b in ends]
        expected[:, k] = (steps[0] - steps[1]) / (2 * size)
    close(linalg.expm(model.A * time), expected, 1e-7)
    close(model.discretise(time).A, expected, 1e-7)


def test_spin_about_the_middle_axis_grows_as_euler_says():
    I1, I2, I3 = 0.2, 0.5, 0.6
    robot, spin = body((I1, I2, I3)), 3.0
    model = linearise(robot, robot.neutral(), [0, 0, 0, 0, spin, 0], np.zeros(6))
    growth = spin * np.sqrt((I2 - I1) * (I3 - I2) / (I1 * I3))
    assert model.modes().growth_rates.max() == pytest.approx(growth, rel=1e-9)
    # about the others it is stable, and the axis precesses
    model = linearise(robot, robot.neutral(), [0, 0, 0, spin, 0, 0], np.zeros(6))
    precession = spin * np.sqrt((I2 - I1) * (I3 - I1) / (I2 * I3))
    found = model.modes()
    assert found.growth_rates.max() < 1e-6
    assert np.abs(found.frequencies - precession).min() < 1e-9


@pytest.mark.parametrize("friction", [False, True])
def test_springs_and_dampers_of_your_own_act_about_the_state(friction):
    robot = qddot.load("panda")
    q, v, tau = random_state(robot, 3)
    plain = linearise(robot, q, v, tau, friction=friction)
    K, D = np.diag(np.arange(1.0, 8.0)), np.random.default_rng(0).normal(size=(7, 7))
    stiff = linearise(robot, q, v, tau, friction=friction, stiffness=np.arange(1.0, 8.0), damping=D)
    Minv = np.linalg.inv(robot.mass_matrix(q))
    close(stiff.A[7:, :7] - plain.A[7:, :7], -Minv @ K)
    close(stiff.A[7:, 7:] - plain.A[7:, 7:], -Minv @ D)
    by_name = linearise(robot, q, v, tau, stiffness={"panda_joint2": 5.0}).A
    one = linearise(robot, q, v, tau, stiffness=[0, 5.0, 0, 0, 0, 0, 0]).A
    np.testing.assert_array_equal(by_name, one)


def test_batches_are_their_states():
    robot = qddot.load("quadruped")
    q, v, tau = random_state(robot, 1, (2, 3))
    legs = robot.joint_names[1:]
    model = linearise(robot, q, v, tau, actuated=legs, friction=True)
    single = linearise(robot, q[1, 2], v[1, 2], tau[1, 2], actuated=legs, friction=True)
    assert model.B.shape == (2, 3, 36, 12)
    for a, b in ((model[1, 2], single), (model.discretise(0.01)[1, 2], single.discretise(0.01))):
        close(a.A, b.A, 1e-12)
        close(a.B, b.B, 1e-12)
        close(a.tau, b.tau)
    assert single.state_names[:2] == ("q[root.vx]", "q[root.vy]")
    assert single.input_names == tuple(f"tau[{j}]" for j in legs)


def test_sampling_is_that_of_scipy():
    robot = qddot.load("ur5e")
    model = linearise(robot, robot.random(0), np.ones(6))
    sampled = model.discretise(0.02)
    A, B, *_ = signal.cont2discrete((model.A, model.B, np.eye(12), np.zeros((12, 6))), 0.02)
    close(sampled.A, A, 1e-12)
    close(sampled.B, B, 1e-12)
    close(sampled.A @ sampled.A, model.discretise(0.04).A, 1e-12)
    assert sampled.dt == 0.02
    assert repr(sampled) == "<LinearModel: 12 states, 6 inputs, sampled every 0.02 s>"


@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 40.0, 1e3])
def test_the_exponential_of_a_batch_is_that_of_scipy(size):
    A = np.random.default_rng(0).normal(size=(4, 9, 9))
    A *= size / np.linalg.norm(A, axis=(1, 2), keepdims=True)
    A[1] *= 0.01
    for ours, theirs in zip(_matrix_exponential(A), map(linalg.expm, A), strict=True):
        assert np.abs(ours - theirs).max() <= 1e-11 * np.abs(theirs).max()


# equilibria


def test_all_joints_hold_any_configuration_with_gravity():
    robot = qddot.load("panda")
    q = robot.random(5)
    held = equilibrium(robot, q)
    np.testing.assert_array_equal(held.q, q)
    close(held.tau, robot.gravity(q))
    close(linearise(robot, q).a, np.zeros(7), 1e-10)


@pytest.mark.parametrize(("guess", "upright"), [([0.4, 0.9], False), ([2.9, 0.9], True)])
def test_the_acrobot_rests_with_its_mass_over_or_under_its_shoulder(guess, upright):
    robot = double_pendulum()
    held = equilibrium(robot, guess, ["second"])
    assert held.q[1] == 0.9
    assert held.tau[0] == 0.0
    com = robot.center_of_mass(held.q)
    assert com[0] == pytest.approx(0.0, abs=1e-12)
    assert (com[2] > 0) == upright
    model = linearise(robot, held.q, actuated=["second"])
    close(model.a, np.zeros(2), 1e-10)
    close(model.tau, held.tau)
    assert model.modes().stable.all() == (not upright)


def test_springs_carry_where_no_motor_does():
    stiffness, mass, length = 40.0, 1.3, 0.7
    robot = double_pendulum(length, mass, stiffness=stiffness)
    held = equilibrium(robot.with_gravity((G, 0, 0)), [0.1, 0.1], [], friction=True)
    first, second = held.q
    # gravity along x: the pull on a bar at an angle is m g l cos of the angle from −z
    ends = mass * G * length * np.cos([first, first + second])
    close(stiffness * held.q, -np.array([2 * ends[0] + ends[1], ends[1]]))


def test_no_rest_is_said_with_what_pulls():
    robot = qddot.load("quadruped")
    legs = robot.joint_names[1:]
    with pytest.raises(NoEquilibrium, match=r"at 'root\.vz'") as caught:
        equilibrium(robot, robot.neutral(), legs)
    assert caught.value.left["root.vz"] == pytest.approx(robot.model.mass * G)
    with pytest.raises(InvalidArgument, match=r"'root\.vz' has no motor and needs"):
        linearise(robot, robot.neutral(), actuated=legs)


# modes


def test_the_double_pendulum_has_the_modes_of_the_book():
    length = 0.7
    squared = (2 + np.array([-1, 1]) * np.sqrt(2)) * G / length
    modes = natural_modes(double_pendulum(length), [0, 0])
    close(modes.frequencies**2, squared)
    close(modes.hertz, np.sqrt(squared) / (2 * np.pi))
    assert modes.stable.all()
    assert (modes.growth_rates == 0).all()
    # the lower bar swings √2 times the upper one; joint angles are those between the bars
    close(modes.shapes[1] / modes.shapes[0], [np.sqrt(2) - 1, -np.sqrt(2) - 1])
    assert set(modes.shape(0)) == {"first", "second"}
    assert np.abs(modes.shapes).max() == 1.0


def test_upside_down_it_falls_by_the_same_figures():
    length = 0.7
    modes = natural_modes(double_pendulum(length), [np.pi, 0])
    close(modes.growth_rates, np.sqrt((2 + np.array([1, -1]) * np.sqrt(2)) * G / length))
    assert not modes.stable.any()
    assert (modes.frequencies == 0).all()
    assert str(modes).count("unstable") == 2
    # enough stiffness holds it up
    assert natural_modes(double_pendulum(length), [np.pi, 0], stiffness=100.0).stable.all()


@pytest.mark.parametrize("springs", [True, False])
def test_natural_modes_are_those_of_the_generalised_eigenproblem(springs):
    robot = qddot.load("panda").with_flexible_joints(5e3, motor_inertia=0.4)
    q = np.repeat(qddot.load("panda").random(0, 3), 2, axis=-1) * np.tile([1.0, 0.0], 7)
    own = np.linspace(10.0, 50.0, 14)
    modes = natural_modes(robot, q, own, springs)
    for k in range(3):
        K = robot.gravity_derivatives(q[k]) + np.diag(own)
        K += np.diag(np.tile([0.0, 5e3], 7)) if springs else 0.0
        squared, shapes = linalg.eigh(K, robot.mass_matrix(q[k]))
        close(modes.frequencies[k] ** 2 - modes.growth_rates[k] ** 2, squared)
        one = shapes / np.take_along_axis(shapes, np.abs(shapes).argmax(axis=0)[None], axis=0)
        close(modes.shapes[k], one, 1e-6)


def test_a_spring_and_a_damper():
    mass, k, c = 2.0, 50.0, 3.0
    robot = robot_of(link("slide", None, "prismatic", X, point(mass, 0.0), stiffness=k, damping=c))
    modes = linearise(robot, [0.0], friction=True).modes()
    natural, ratio = np.sqrt(k / mass), c / (2 * np.sqrt(k * mass))
    assert np.abs(modes.eigenvalues) == pytest.approx([natural])
    assert modes.damping_ratios == pytest.approx([ratio])
    assert modes.frequencies == pytest.approx([natural * np.sqrt(1 - ratio**2)])
    sampled = linearise(robot, [0.0], friction=True).discretise(0.05).modes()
    close(sampled.eigenvalues, modes.eigenvalues)
    # overdamped: two ways to die out
    slow = linearise(robot, [0.0], friction=True, damping=100.0).modes()
    close(np.sort(slow.growth_rates), np.sort(np.roots([mass, c + 100.0, k])))
    assert (slow.damping_ratios == 1.0).all()


def test_modes_of_the_linear_model_are_the_natural_ones_without_damping():
    robot = qddot.load("ur5e")
    q = robot.random(2)
    ours = linearise(robot, q, stiffness=500.0).modes()
    natural = natural_modes(robot, q, stiffness=500.0)
    close(np.sort(ours.frequencies), natural.frequencies, 1e-8)
    assert np.abs(ours.growth_rates).max() == 0.0


def test_what_drifts_is_neither_stable_by_rounding_nor_unstable():
    robot = cart_pole()
    modes = linearise(robot, [0.3, np.pi]).modes()
    assert (modes.growth_rates == 0).all()
    assert sorted(modes.frequencies > 0) == [False, False, True]
    assert np.isnan(modes.damping_ratios).sum() == 2


# regulators


def test_the_cart_pole_is_that_of_the_book():
    M, m, length = 2.0, 0.5, 0.8
    model = linearise(cart_pole(M, m, length), [0, 0], actuated=["cart"])
    A21 = [[0, -m * G / M], [0, (M + m) * G / (M * length)]]
    close(model.A, np.block([[np.zeros((2, 2)), np.eye(2)], [np.array(A21), np.zeros((2, 2))]]))
    close(model.B[:, 0], [0, 0, 1 / M, -1 / (M * length)])
    assert model.state_names == ("q[cart]", "q[pole]", "v[cart]", "v[pole]")
    assert model.input_names == ("tau[cart]",)


@pytest.mark.parametrize("dt", [None, 0.01])
@pytest.mark.parametrize(
    ("robot", "q", "motor"),
    [(cart_pole(), [0, 0], "cart"), (double_pendulum(), [np.pi, 0], "second")],
    ids=["cart-pole", "acrobot"],
)
def test_one_motor_holds_them_upright(robot, q, motor, dt):
    control = pytest.importorskip("control")
    model = linearise(robot, q, actuated=[motor])
    model = model if dt is None else model.discretise(dt)
    assert not model.modes().stable.all()
    assert len(model.uncontrollable()) == 0
    Q, R = np.diag([1.0, 10.0, 1.0, 2.0]), 0.3
    found = model.lqr(np.diag(Q), R)
    K, S, roots = (control.lqr if dt is None else control.dlqr)(model.A, model.B, Q, [[R]])
    close(found.K, K, 1e-7)
    close(found.cost, S, 1e-7)
    close(np.sort_complex(linalg.eigvals(found.closed.A)), np.sort_complex(roots), 1e-6)
    assert found.closed.modes().growth_rates.max() < 0


def test_the_regulator_calms_the_robot_itself():
    robot = cart_pole()
    gains = linearise(robot, [0, 0], actuated=["cart"]).lqr().K

    def rate(_, x):
        return [*x[2:], *robot.forward_dynamics(x[:2], x[2:], [*-gains @ x, 0.0])]

    end = integrate.solve_ivp(rate, (0, 20), [0.2, 0.3, 0, 0], rtol=1e-8).y[:, -1]
    assert np.abs(end).max() < 1e-3


def test_what_no_input_moves_is_named():
    robot = two_poles(-0.6, damping=0.05)
    model = linearise(robot, np.zeros(3), actuated=["cart"], friction=True)
    directions = model.uncontrollable()
    # equal pendulums swing apart whatever the cart does
    assert set(directions.combinations) == {"q[left] − q[right]", "v[left] − v[right]"}
    close(directions.weights @ model.B, np.zeros((2, 1)))
    close(
        np.sort_complex(directions.eigenvalues),
        np.sort_complex(np.roots([0.3 * 0.36, 0.05, 0.3 * 0.6 * G])),
    )
    found = model.lqr()
    assert found.closed.modes().growth_rates.max() < 0
    assert found.uncontrollable.combinations == directions.combinations


@pytest.mark.parametrize("dt", [None, 0.02])
@pytest.mark.parametrize(
    ("height", "behaviour"),
    [
        (0.6, f"motion that grows by {np.sqrt(G / 0.6):.3g} 1/s"),
        (-0.6, f"oscillation at {np.sqrt(G / 0.6):.3g} rad/s that does not die out"),
    ],
)
def test_a_regulator_is_refused_where_it_cannot_calm(height, behaviour, dt):
    model = linearise(two_poles(height), np.zeros(3), actuated=["cart"])
    model = model if dt is None else model.discretise(dt)
    with pytest.raises(Uncontrollable) as caught:
        model.lqr()
    assert set(caught.value.behaviour) == {behaviour}
    growing = height > 0
    assert len(caught.value.combinations) == (1 if growing else 2)
    assert caught.value.combinations[0].startswith("q[left] − q[right]")
    if growing:
        # the growing combination is q + v / growth of what the pendulums are apart
        share = f"{np.sqrt(0.6 / G):.3g}"
        expected = f"q[left] − q[right] + {share} v[left] − {share} v[right]"
        assert caught.value.combinations == (expected,)


def test_momentum_is_what_a_floating_robot_cannot_change():
    robot = qddot.load("quadruped").with_gravity((0, 0, 0))
    q = robot.random(0)
    model = linearise(robot, q, actuated=robot.joint_names[1:])
    directions = model.uncontrollable()
    assert len(directions) == 12
    close(directions.weights @ model.B, np.zeros((12, 12)))
    momentum = np.hstack([np.zeros((6, 18)), robot.centroidal_map(q)])
    inside = momentum @ np.linalg.pinv(directions.weights) @ directions.weights
    close(inside, momentum, 1e-8)
    with pytest.raises(Uncontrollable, match="does not die out"):
        model.lqr()


def test_nothing_is_reached_without_inputs():
    model = linearise(double_pendulum(), [0, 0], actuated=[])
    assert model.B.shape == (4, 0)
    assert model.uncontrollable().combinations == model.state_names
    assert repr(linearise(double_pendulum(), [0, 0]).uncontrollable()).startswith("nothing")


# python-control


def test_python_control_gets_the_same_system_by_name():
    control = pytest.importorskip("control")
    robot = cart_pole()
    model = linearise(robot, [0, 0], actuated=["cart"])
    system = model.to_control()
    np.testing.assert_array_equal(system.A, model.A)
    assert system.state_labels == list(model.state_names)
    assert system.input_labels == list(model.input_names)
    # the pole turns by F / (M l s² − (M + m) g)
    tf = control.ss2tf(model.to_control(["tau[cart]"], ["q[pole]"]))
    s = 1.7j
    assert tf(s) == pytest.approx(-1 / (2.0 * 0.8 * s**2 - 2.5 * G), rel=1e-9)
    assert model.discretise(0.1).to_control().dt == 0.1


def test_without_python_control_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(MissingPackage, match="pip install"):
        linearise(cart_pole(), [0, 0]).to_control()


# what cannot be


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"actuated": ["car"]}, UnknownName, "no joint 'car' in 'made'; closest: 'cart'"),
        ({"actuated": "cart"}, InvalidArgument, "it is a list of names of joints"),
        ({"stiffness": {"pol": 1.0}}, UnknownName, "no name 'pol' in 'stiffness'; closest: 'pole'"),
        ({"stiffness": [1.0] * 3}, InvalidArgument, r"a number, 2 of them, a 2×2 matrix"),
        ({"damping": np.nan}, InvalidArgument, "damping: nan"),
        ({"damping": "much"}, InvalidArgument, "damping: 'much'"),
        ({"damping": {"pole": None}}, InvalidArgument, "damping"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        linearise(cart_pole(), [0, 0], **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.discretise(0.0), "a time in seconds, more than 0"),
        (lambda m: m.discretise("fast"), "a time in seconds"),
        (lambda m: m.discretise(0.1).discretise(0.1), "sampled already"),
        (lambda m: m.lqr(R=0.0), "its eigenvalues need to be positive"),
        (lambda m: m.lqr(Q=[1, 1, 1, -1]), "its eigenvalues need to be not negative"),
        (lambda m: m.lqr(Q=np.triu(np.ones((4, 4)))), "symmetric"),
        (lambda m: m.lqr(Q=0.0), "there is no regulator"),
        (lambda m: m.lqr(Q={"q[pol]": 1}), "closest: 'q.pole.'"),
        (lambda m: m.to_control(outputs=["x"]), "no state 'x'"),
        (lambda m: m.to_control(outputs="q[pole]"), "it is a list of names"),
    ],
)
def test_bad_calls_of_a_model(call, message):
    model = linearise(cart_pole(), [0, np.pi], actuated=["cart"])
    with pytest.raises(qddot.QddotError, match=message):
        call(model)


def test_batches_and_numbers_that_are_none_are_refused_where_one_state_is_needed():
    robot = cart_pole()
    batch = linearise(robot, np.zeros((3, 2)), actuated=["cart"])
    for call in (batch.modes, batch.lqr, batch.uncontrollable, batch.to_control):
        with pytest.raises(InvalidArgument, match=r"it needs one state, such as model\[0\]"):
            call()
    lost = linearise(robot, [0, np.nan], tau=[0, 0])
    assert np.isnan(lost.A[2:, :2]).any()
    with pytest.raises(InvalidArgument, match="need to be finite"):
        lost.modes()
    with pytest.raises(InvalidArgument, match="needs to be finite"):
        natural_modes(robot, [0, np.nan])
    for guess in ([0, np.nan], np.zeros((2, 2))):
        with pytest.raises(InvalidArgument, match="one configuration"):
            equilibrium(robot, guess, [])


def test_a_joint_without_inertia_is_named():
    bare = robot_of(
        link("arm", None, "revolute", Y, point(1.0, 1.0)),
        link("tip", "arm", "revolute", Y, Inertia.zero(), (0, 0, 1)),
    )
    for call in (linearise, natural_modes):
        with pytest.raises(SingularInertia, match="'tip'"):
            call(bare, [0, 0])


def test_the_page_prints_what_it_says(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parents[2] / "docs" / "linearisation.md"
    blocks = re.findall(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", page.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    for code, said in blocks:
        exec(code, scope)
        assert capsys.readouterr().out == said
