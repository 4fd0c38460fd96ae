"""Drivetrains: closed forms, an independent solver, energy that is never created, stick-slip."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bare_rollouts import rollout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_cases import cold_cache  # noqa: F401
from random_models import Part, build
from scipy.integrate import solve_ivp
from scipy.linalg import sqrtm
from scipy.optimize import brentq, lsq_linear

import qddot
from qddot.control import PD
from qddot.errors import InvalidArgument, InvalidModel, UnknownName
from qddot.model.assembly import assemble
from qddot.model.flexible import spong_map
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.model.links import Link
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.simulate import INTEGRATORS, energy_ledger
from qddot.simulate.contact import PenaltyStops
from qddot.simulate.drivetrain import (
    Backlash,
    Delay,
    DifferencedVelocity,
    Friction,
    Gear,
    Latency,
    Limit,
    LuGre,
    ModelLosses,
    MotorConstant,
    Noise,
    Quantisation,
    TorqueSpeedLimit,
    asymmetric,
    coulomb,
    stiction,
    stribeck,
    viscous,
    with_rotors,
)
from qddot.simulate.implicit_torques import VelocityConstraint, solve_implicit_torques
from qddot.simulate.plant import StepContext
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

DT = 1e-3
few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def single(kind: str, mass: float, gravity: float = 0.0, **joint) -> Robot:
    """One body of this mass (or inertia) on a joint along x, which gravity pulls along."""
    inertia = Inertia.at_com(mass, Vec3.zero(), Sym3.diagonal(mass, mass, mass))
    made = Joint("j", JOINTS[kind], (Vec3(1.0, 0.0, 0.0),), **joint)
    place = Transform(Mat3.identity(), Vec3.zero())
    link = Link("body", None, place, made, inertia)
    return Robot(assemble("one", [link], gravity=Vec3(gravity, 0.0, 0.0)))


def wheel(inertia: float) -> Robot:
    return single("continuous", inertia)


def run(robot: Robot, *effects, q=0.0, v=0.0, tau=None, steps=1000, dt=DT, **more):
    """A rollout, compiled where it is long."""
    start, speed = (
        x if np.ndim(x) else np.full(n, float(x)) for x, n in ((q, robot.nq), (v, robot.nv))
    )
    made = Robot(robot.model, native=steps > 20)
    return rollout(made, start, speed, tau, dt=dt, steps=steps, effects=effects, **more)


# friction


def test_coulomb_friction_stops_a_wheel_and_keeps_it_at_rest():
    J, F, v0 = 0.5, 2.0, 1.0
    found = run(wheel(J), Friction(coulomb(F)), v=v0, steps=400)
    stop = v0 * J / F
    moving = found.time < stop
    np.testing.assert_allclose(found.v[moving, 0], v0 - F / J * found.time[moving], atol=1e-13)
    assert (found.v[~moving] == 0.0).all()
    np.testing.assert_array_equal(found.q[~moving], found.q[-1:].repeat((~moving).sum(), 0))
    assert found.q[-1, 0] == pytest.approx(J * v0**2 / (2 * F), abs=v0 * DT)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_block_on_a_slope_sticks_or_slides(integrator):
    mass, pull, bound = 2.0, 3.0, 7.0
    block = single("prismatic", mass, pull)
    held = run(block, Friction(coulomb(bound)), q=0.4, integrator=integrator)
    assert (held.v == 0.0).all()
    assert (held.q == 0.4).all()
    slides = run(block, Friction(coulomb(4.0)), integrator=integrator, steps=100)
    np.testing.assert_allclose(slides.v[:, 0], (pull - 4.0 / mass) * slides.time, atol=1e-12)
    # thrown up the slope it comes to rest, and stays
    thrown = run(block, Friction(coulomb(bound)), v=-1.0, integrator=integrator)
    assert thrown.q[-1, 0] == pytest.approx(-1.0 / (2 * (pull + bound / mass)), abs=2e-3)
    assert thrown.v[-1, 0] == 0.0


def test_an_arm_is_held_against_gravity_without_creep():
    robot = qddot.load("planar_3r")
    q = np.array([0.4, -0.7, 0.3])
    load = np.abs(robot.gravity(q)).max()
    assert load > 1.0
    for native in (False, True):
        arm = Robot(robot.model, native=native)
        held = run(arm, Friction(coulomb(1.01 * load)), q=q, steps=50)
        assert (held.v == 0.0).all()
        assert (held.q == q).all()
        falls = run(arm, Friction(coulomb(0.9 * load)), q=q, steps=50)
        assert np.abs(falls.v[-1]).max() > 1e-3


def test_a_static_level_is_overcome_before_it_slides():
    J, ramp = 0.5, 4.0
    time = np.arange(1000) * DT
    found = run(wheel(J), Friction(stiction(2.0, 1.2)), tau=(ramp * time)[:, None])
    moves = found.v[:, 0] != 0.0
    first = int(np.argmax(moves))
    assert ramp * found.time[first - 1] == pytest.approx(2.0, abs=2 * ramp * DT)
    assert not moves[:first].any()
    t = found.time[first:] - found.time[first - 1]
    expected = ((2.0 - 1.2) * t + ramp * t**2 / 2) / J
    np.testing.assert_allclose(found.v[first:, 0], expected, atol=0.01)


def test_friction_that_differs_by_direction():
    both = Friction(asymmetric(coulomb(1.0), coulomb(3.0)))
    tau = np.array([[[2.0]], [[-2.0]], [[-4.0]]]).repeat(200, axis=1)
    found = run(wheel(1.0), both, tau=tau, steps=200)
    np.testing.assert_allclose(found.v[:, -1, 0], [0.2, 0.0, -0.2], atol=1e-13)


def test_viscous_friction_has_a_terminal_velocity():
    J, b, tau = 0.5, 4.0, 3.0
    found = run(wheel(J), Friction(viscous(b)), tau=np.array([tau]), steps=2000)
    assert found.v[-1, 0] == pytest.approx(tau / b, rel=1e-6)
    exact = tau / b * (1.0 - np.exp(-b / J * found.time))
    np.testing.assert_allclose(found.v[:, 0], exact, atol=2e-3)
    # stiff beyond any explicit step
    stiff = run(wheel(1e-4), Friction(viscous(50.0)), tau=np.array([tau]), steps=20)
    np.testing.assert_allclose(stiff.v[2:, 0], tau / 50.0, rtol=1e-4)


def test_smoothed_friction_creeps_at_the_speed_that_balances():
    F, tau, soft = 2.0, 1.5, 0.01
    found = run(wheel(0.02), Friction(coulomb(F), smoothing=soft), tau=np.array([tau]))
    assert found.v[-1, 0] == pytest.approx(soft * tau / math.sqrt(F**2 - tau**2), rel=1e-9)


def test_several_effects_on_one_joint_add_up():
    two = run(wheel(1.0), Friction(coulomb(1.0, 0.3)), Friction(coulomb(0.5, 0.2)), v=2.0)
    one = run(wheel(1.0), Friction(coulomb(1.5, 0.5)), v=2.0)
    np.testing.assert_allclose(two.v, one.v, atol=1e-14)


@few
@given(st.integers(0, 2**32 - 1))
def test_torques_are_the_solution_of_a_bounded_least_squares_problem(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    M = rng.normal(size=(n, n))
    M = M @ M.T + 0.1 * np.eye(n)
    v, drive, bound = rng.normal(size=n), 30 * rng.normal(size=n), rng.uniform(0, 20, n)
    dt, give = 0.1, np.where(rng.random(n) < 0.3, rng.uniform(0.1, 1.0, n), 0.0)
    constraints = [
        VelocityConstraint(k, -bound[k], 2 * bound[k], float(give[k]), give[k]) for k in range(n)
    ]
    found = solve_implicit_torques(M.tolist(), v, drive, dt, constraints, [0.0] * n)
    # ½ λᵀ A λ + bᵀ λ with A = Δt M⁻¹ + compliance, as the squares that scipy makes least
    A = dt * np.linalg.inv(M) + np.diag(give)
    b = v + dt * np.linalg.solve(M, drive) + give
    root = np.real(sqrtm(A))
    oracle = lsq_linear(root, -np.linalg.solve(root, b), (-bound, 2 * bound), tol=1e-14)
    np.testing.assert_allclose(found.torque, oracle.x, atol=1e-5 * (1 + bound.max()))
    speed = v + dt * np.linalg.solve(M, drive + found.torque)
    for k, stuck in found.sticking.items():
        assert give[k] == 0.0
        assert not stuck or abs(speed[k]) < 1e-9


@pytest.mark.parametrize("curve", ["rational", "gaussian"])
def test_bristles_at_steady_speed_have_the_friction_of_their_law(curve):
    law = stribeck(2.0, 1.2, 0.05, 0.4, curve)
    speeds = np.array([-0.3, -0.04, 0.005, 0.05, 0.4])
    feedback = {"feedback": PD(0.0, 1e6), "q_ref": np.zeros(1)}
    found = run(
        wheel(1e3), LuGre(law, 1e4, 30.0), v=speeds[:, None], v_ref=speeds[:, None, None],
        steps=3000, **feedback,
    )  # fmt: skip
    friction = 1e6 * (speeds - found.v[:, -1, 0])
    np.testing.assert_allclose(friction, law.torque(found.v[:, -1, 0]), rtol=1e-5)


def test_viscous_friction_keeps_the_order_of_the_integrator():
    robot, law = qddot.load("double_pendulum"), asymmetric(viscous(0.3), viscous(0.3))
    batch = viscous(np.array([0.1, 0.3]))
    for friction in (Friction(law), Friction(batch)):
        given = {"effects": [friction], "without": "damping", "integrator": "rk4"}
        ends = [
            robot.rollout([[1.0, 0.5]] * 2, [0.0, 0.0], dt=1.0 / n, steps=n, **given).q[:, -1]
            for n in (100, 200, 3200)
        ]
        errors = [np.abs(x - ends[-1]).max() for x in ends[:2]]
        assert errors[0] / errors[1] > 12.0
        assert errors[1] < 1e-6
    # too fast for the stages, it is taken at the end of the step, which is stable
    stiff = robot.rollout(
        [1.0, 0.5], [0.0, 0.0], dt=1e-3, steps=50, effects=[Friction(viscous(1e6))]
    )
    assert np.abs(stiff.v).max() < 1e-3


@pytest.mark.parametrize("inertia", [1e-4, 0.5])
def test_stiff_bristles_are_stable_and_bend_before_they_slip(inertia):
    stiffness, level = 1e5, 2.0
    effect = LuGre(stribeck(level, 1.2, 0.01), stiffness, 200.0)
    ramp = np.minimum(np.arange(2000) * 2e-3, 1.0)[:, None]
    bent = run(wheel(inertia), effect, tau=ramp, steps=2000)
    # slowly loaded, dz = (1 − σ₀ z / g) dq with σ₀ z = τ
    expected = -level / stiffness * math.log(1.0 - 1.0 / level)
    assert bent.q[-1, 0] == pytest.approx(expected, rel=0.01)
    # pushed beyond the static level it breaks away; let go, it stops
    tau = np.where(np.arange(2000) < 1000, 3.0, 0.0)[:, None]
    pushed = run(wheel(inertia), effect, tau=tau, steps=2000)
    assert pushed.v[1000, 0] == pytest.approx((3.0 - 1.2) / inertia, rel=0.01)
    brake = run(wheel(inertia), effect, v=0.5 * 1.2 / inertia, steps=1000)
    assert abs(brake.v[-1, 0]) < 1e-6
    assert brake.q[-1, 0] == pytest.approx(0.25 * 0.5 * 1.2 / inertia, rel=0.02)


def test_bristles_move_as_their_differential_equation():
    J, s0, s1, kp, speed, law = 0.6, 1e5, 300.0, 200.0, 0.05, stribeck(5.0, 3.0, 0.01, 0.5)

    def rates(t, y):
        q, v, z = y
        level = law.forward.level(abs(v))
        dz = v - s0 * abs(v) * z / level
        micro = min(s1, 4 * level / max(abs(v), 1e-12))
        return [v, (kp * (speed * t - q) - s0 * z - micro * dz - 0.5 * v) / J, dz]

    found = slow(wheel(J), LuGre(law, s0, s1), speed=speed, kp=kp, kd=0.0, steps=1500)
    oracle = solve_ivp(
        rates, (0.0, 1.5), [0.0] * 3, "LSODA", found.time, rtol=1e-6, atol=1e-10, max_step=0.01
    )
    np.testing.assert_allclose(found.q[:, 0], oracle.y[0], atol=0.02 * oracle.y[0].max())
    miss = np.abs(found.v[:, 0] - oracle.y[1]).mean()
    assert miss < 0.02 * np.abs(oracle.y[1]).max()


def test_the_losses_of_the_model_are_those_of_robot_friction():
    parts = [
        Part("revolute", WORLD, True, False, True, None),
        Part("ball", 0, True, False, False, None),
        Part("prismatic", 1, True, False, False, 0),
    ]
    robot, rng = Robot(build(parts, 4)), np.random.default_rng(1)
    q, v = robot.random(rng), 3.0 + rng.random(robot.nv)
    dt = 1e-7
    step = run(robot, ModelLosses(), q=q, v=v, steps=1, dt=dt)
    a = robot.forward_dynamics(q, v, np.zeros(robot.nv), friction=True)
    np.testing.assert_allclose((step.v[-1] - v) / dt, a, rtol=1e-5)
    # as parameters they carry batch axes
    rows = np.zeros((2, robot.model.nb, 3))
    rows[1, :, :] = 0.7
    several = run(robot, ModelLosses(), q=q, v=v, steps=1, dt=dt, parameters={"friction": rows})
    free = robot.forward_dynamics(q, v, np.zeros(robot.nv))
    np.testing.assert_allclose((several.v[0, -1] - v) / dt, free, rtol=1e-5)
    assert np.abs((several.v[1, -1] - v) / dt - free).max() > 0.1


def test_implicit_damping_is_not_counted_twice():
    robot = single("continuous", 1.0, drivetrain=Drivetrain(damping=2.0, friction=0.1))
    with pytest.raises(InvalidArgument, match="damping=False"):
        run(robot, ModelLosses(), integrator="implicit_damping", without="limits")
    once = run(
        robot,
        ModelLosses(damping=False),
        v=1.0,
        steps=9,
        integrator="implicit_damping",
        without="limits",
    )
    same = run(robot, ModelLosses(), v=1.0, steps=9)
    np.testing.assert_allclose(once.v, same.v, rtol=1e-12)


# energy


ONE_JOINT = ("revolute", "prismatic", "helical")


def arm(seed: int) -> Robot:
    """A random tree of three joints, without losses of its own."""
    rng = np.random.default_rng(seed)
    parts = [
        Part(str(rng.choice(ONE_JOINT)), int(rng.integers(-1, k)) if k else WORLD, False, False,
             True, None)
        for k in range(3)
    ]  # fmt: skip
    return Robot(build(parts, seed))


def laws() -> st.SearchStrategy:
    level = st.floats(0.05, 5.0)
    one = st.builds(
        lambda c, more, speed, b, curve: stribeck(c + more, c, speed, b, curve),
        level, st.floats(0.0, 3.0), st.floats(1e-3, 1.0), st.floats(0.0, 2.0),
        st.sampled_from(["rational", "gaussian"]),
    )  # fmt: skip
    return st.one_of(one, st.builds(asymmetric, one, one))


PASSIVE = st.one_of(
    st.builds(Friction, laws(), st.one_of(st.none(), st.floats(1e-4, 0.1))),
    st.builds(LuGre, laws(), st.floats(10.0, 1e6), st.floats(0.0, 1e3)),
    st.builds(
        Gear, st.floats(0.5, 100.0), st.floats(0.2, 1.0), st.floats(0.2, 1.0),
        st.tuples(st.builds(Friction, st.builds(coulomb, st.floats(0.0, 0.1)))),
    ),
)  # fmt: skip


@few
@given(st.lists(PASSIVE, min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_friction_gives_no_energy(effects, seed):
    """In every step the work of what resists is no more than what its bristles give back."""
    robot, rng = arm(seed), np.random.default_rng(seed)
    n, dt, steps = 20, 0.01, 3
    q, tau = robot.random(rng, n), rng.normal(size=(n, 1, 3)) * rng.choice([0.01, 1.0, 10.0])
    v = rng.normal(size=(n, 3)) * rng.choice([0.0, 0.01, 1.0], (n, 1))
    given = {"tau": tau, "steps": steps, "dt": dt, "record": True}
    found = run(robot, *effects, q=q, v=v, **given)
    before, after = found.v[:, :-1], found.v[:, 1:]
    needed = robot.inverse_dynamics(found.q[:, :-1], before, (after - before) / dt)
    gears = math.prod(e.ratio for e in effects if isinstance(e, Gear))
    work = dt * ((needed - tau * gears) * after).sum(-1)
    for effect, kept in zip(effects, found.effect_history or [None] * 3, strict=False):
        if isinstance(effect, LuGre):
            work += np.diff(0.5 * effect.stiffness * (kept[..., :3] ** 2).sum(-1), axis=-1)
    scale = np.abs(dt * needed * after).max() + robot.kinetic_energy(found.q, found.v).max()
    assert work.max() <= 1e-10 * scale + 1e-15


@given(
    laws(), st.floats(10.0, 1e6), st.floats(0.0, 1e4), st.floats(1e-4, 1e-2),
    st.floats(-1.0, 1.0), *[st.floats(-100.0, 100.0)] * 2,
)  # fmt: skip
def test_bent_bristles_give_back_no_more_than_they_took(law, stiffness, damping, dt, z, v, v_end):
    """Whatever the deflection, and whatever velocity the step ends with."""
    effect, model = LuGre(law, stiffness, damping), wheel(1.0).model
    z = z * (law.forward.static if z > 0 else law.backward.static) / stiffness
    at = StepContext(model, [0.0], [v], [0.0], dt, [v_end])
    (drag,) = effect.implicit_torques(at, [z, 0.0])
    (bent, _) = effect.update(at, [z, 0.0])
    stored = 0.5 * stiffness * (bent**2 - z**2)
    taken = dt * v_end * (drag.offset + drag.slope * v_end)
    assert stored <= taken + 1e-9 * (abs(taken) + stiffness * z**2)


@settings(few, max_examples=8)
@given(st.floats(1e2, 1e6), st.floats(0.0, 100.0), st.integers(0, 2**32 - 1))
def test_backlash_gives_no_energy(stiffness, damping, seed):
    rng = np.random.default_rng(seed)
    robot = wheel(rng.uniform(0.01, 1.0)).with_flexible_joints(1.0, motor_inertia=0.1)
    gap = 0.02
    q, v = np.zeros((30, 2)), 3.0 * rng.normal(size=(30, 2))
    q[:, 1] = rng.uniform(-0.015, 0.015, 30)
    found = run(robot, Backlash(gap, stiffness, damping), q=q, v=v, steps=15)
    depth = np.maximum(np.abs(found.q[..., 1]) - gap / 2, 0.0)
    assert (depth > 0.0).any()
    energy = robot.kinetic_energy(found.q, found.v) + 0.5 * stiffness * depth**2
    assert (np.diff(energy) <= 1e-12 * energy[:, :1]).all()


# motor and gear


def test_a_motor_at_full_voltage_reaches_its_no_load_speed():
    J, stall, speed = 0.2, 3.0, 40.0
    limit = TorqueSpeedLimit(stall, speed)
    found = run(wheel(J), limit, tau=np.array([100.0]), steps=10_000)
    exact = speed * (1.0 - np.exp(-stall / (J * speed) * found.time))
    np.testing.assert_allclose(found.v[:, 0], exact, atol=2e-3 * speed)
    assert found.v[-1, 0] == pytest.approx(speed, rel=0.05)
    # at rest the stall torque, at the no-load speed nothing forward and twice the stall backward
    for v, tau, felt in ((0.0, 9.0, 3.0), (40.0, 9.0, 0.0), (40.0, -9.0, -6.0), (10.0, 1.0, 1.0)):
        step = run(wheel(J), limit, v=v, tau=np.array([tau]), steps=1)
        assert (step.v[1, 0] - v) * J / DT == pytest.approx(felt, abs=1e-9)
    beyond = run(wheel(J), limit, v=50.0, steps=1)
    assert (beyond.v[1, 0] - 50.0) * J / DT == pytest.approx(stall * (1 - 50 / 40))


def test_current_limit_motor_constant_and_gear():
    motor = (Limit(4.0), MotorConstant(0.05))
    tau = np.array([[1.0], [9.0], [-9.0]])[:, None, :]
    found = run(wheel(2.0), Gear(100.0, motor=motor), tau=tau, steps=1)
    np.testing.assert_allclose(found.v[:, 1, 0] * 2.0 / DT, [5.0, 20.0, -20.0], rtol=1e-12)


def test_effort_limits_of_the_model_are_the_default_limit():
    robot = single("continuous", 1.0, limits=Limits(effort=0.5))
    found = run(robot, Limit(), tau=np.array([3.0]), steps=1)
    assert found.v[1, 0] / DT == pytest.approx(0.5)
    assert run(wheel(1.0), Limit(), tau=np.array([3.0]), steps=1).v[1, 0] / DT == pytest.approx(3.0)


@pytest.mark.parametrize("ratio", [50.0, -50.0])
def test_friction_at_the_motor_acts_through_the_gear(ratio):
    F, b, J = 0.02, 1e-3, 3.0
    geared = run(wheel(J), Gear(ratio, motor=(Friction(coulomb(F, b)),)), v=1.0)
    direct = run(wheel(J), Friction(coulomb(F * 50.0, b * 50.0**2)), v=1.0)
    np.testing.assert_allclose(geared.v, direct.v, atol=1e-13)
    different = Friction(asymmetric(coulomb(F), coulomb(3 * F)))
    flipped = run(wheel(J), Gear(ratio, motor=(different,)), v=1.0, steps=1)
    level = F if ratio > 0 else 3 * F
    assert (1.0 - flipped.v[1, 0]) * J / DT == pytest.approx(level * 50.0)


def test_a_gear_loses_power_both_ways():
    J, eta, back = 1.0, 0.8, 0.6
    gear = Gear(10.0, eta, back)

    def felt(v, tau):
        step = run(wheel(J), gear, v=v, tau=np.array([tau]), steps=1)
        return (step.v[1, 0] - v) * J / DT

    assert felt(1.0, 0.5) == pytest.approx(eta * 5.0)
    assert felt(-1.0, 0.5) == pytest.approx(5.0 / back)
    assert felt(-1.0, -0.5) == pytest.approx(-eta * 5.0)
    assert felt(1.0, -0.5) == pytest.approx(-5.0 / back)
    # a load between eta and 1 / back of the motor's torque neither drives nor is driven
    for load, moves in ((3.0, True), (4.5, False), (7.0, False), (9.0, True)):
        hung = run(single("prismatic", 1.0, -load), gear, tau=np.array([0.5]), steps=100)
        assert (hung.v[-1, 0] != 0.0) == moves


def test_rotors_add_their_inertia_times_the_ratio_squared():
    robot = qddot.load("ur5e")
    q = robot.random(0)
    named = {robot.joint_names[0]: 5e-5}
    more = with_rotors(robot, named, 100.0).mass_matrix(q) - robot.mass_matrix(q)
    expected = np.zeros((6, 6))
    expected[0, 0] = 0.5 - robot.model.bodies[0].armature
    np.testing.assert_allclose(more, expected, atol=1e-12)
    assert np.diag(with_rotors(wheel(1.0), 1e-3, 30.0).mass_matrix([0.0])) == pytest.approx(1.9)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_delay_shifts_the_response_by_whole_steps(steps):
    robot = Robot(qddot.load("planar_2r").model)
    tau = np.random.default_rng(0).normal(size=(40, 2))
    late = run(robot, Delay({"joint1": steps}), tau=tau, steps=40)
    moved = tau.copy()
    moved[:, 0] = [*np.zeros(steps), *tau[: 40 - steps, 0]]
    np.testing.assert_array_equal(late.q, run(robot, tau=moved, steps=40).q)


def test_one_delay_after_another():
    tau = np.random.default_rng(0).normal(size=(20, 1))
    both = run(wheel(1.0), Delay(2), Delay(3), tau=tau, steps=20)
    np.testing.assert_array_equal(both.q, run(wheel(1.0), Delay(5), tau=tau, steps=20).q)


# flexible joints and backlash


def test_a_flexible_joint_swings_on_its_spring():
    J, B, k = 0.6, 0.2, 90.0
    robot = wheel(J).with_flexible_joints(k, motor_inertia=B)
    found = run(robot, ModelLosses(), q=[0.0, 0.01], steps=4000, dt=1e-4)
    rate = math.sqrt(k * (1 / J + 1 / B))
    np.testing.assert_allclose(found.q[:, 1], 0.01 * np.cos(rate * found.time), atol=1e-4)


def test_friction_of_a_motor_holds_while_its_link_swings():
    robot = wheel(0.6).with_flexible_joints(90.0, motor_inertia=0.2)
    held = Friction({"j.motor": coulomb(2.0)})
    found = run(robot, ModelLosses(), held, q=[0.0, 0.02], steps=3000, dt=1e-4)
    assert (found.q[:, 0] == 0.0).all()
    expected = 0.02 * np.cos(math.sqrt(90.0 / 0.6) * found.time)
    np.testing.assert_allclose(found.q[:, 1], expected, atol=3e-4)


def test_motor_and_link_are_free_within_the_gap_and_push_at_its_ends():
    J, B, gap, k = 0.6, 0.2, 0.04, 5e3
    robot = wheel(J).with_flexible_joints(k, motor_inertia=B)
    assert spong_map(robot.model).joints == ("j",)
    # coordinates are the angle of the motor and the twist
    coast = run(robot, Backlash(gap), v=[0.5, -0.5], steps=35)
    np.testing.assert_allclose(coast.v, np.tile([0.5, -0.5], (36, 1)), atol=1e-15)
    # the motor meets the link: momentum stays, and with damped teeth both end up together
    hit = run(robot, Backlash(gap, damping=200.0), v=[0.5, -0.5], steps=3000)
    momentum = B * hit.v[:, 0] + J * (hit.v[:, 0] + hit.v[:, 1])
    np.testing.assert_allclose(momentum, B * 0.5, atol=1e-12)
    # a steady torque twists by the half gap and what the teeth give way
    tau = np.array([0.4, 0.0])
    drag = Friction({"j.spring": viscous(2.0)})
    pushed = run(robot, Backlash(gap), drag, tau=tau, steps=4000)
    through = 0.4 * J / (J + B)
    assert pushed.q[-1, 1] == pytest.approx(-(gap / 2 + through / k), rel=1e-6)


# sensors


def sensed(robot: Robot, *sensors, q, v, **more):
    """What a proportional law is told, from the torque it gives: (positions, velocities)."""
    n = robot.nv
    none = {"q_ref": np.zeros(n), "v_ref": np.zeros(n), "sensors": sensors}
    told = []
    for kp, kd in ((1.0, 0.0), (0.0, 1.0)):
        found = run(robot, q=q, v=v, feedback=PD(kp, kd), **none, **more)
        a = np.diff(found.v, axis=-2) / found.dt
        told.append(-robot.inverse_dynamics(found.q[..., :-1, :], found.v[..., :-1, :], a))
    return told


def test_an_encoder_counts_in_steps():
    heavy, step = wheel(1e5), 0.01
    q = np.array([[0.0], [0.0149], [0.0151], [-0.0251], [1.2345]])
    position, velocity = sensed(heavy, Quantisation(step), q=q, v=0.0, steps=1)
    np.testing.assert_allclose(position[:, 0, 0], [0.0, 0.01, 0.02, -0.03, 1.23], atol=1e-6)
    _, velocity = sensed(heavy, Quantisation(step, 0.5), q=0.0, v=1.3, steps=1)
    assert velocity[0, 0] == pytest.approx(1.5, abs=1e-6)
    # counts in 50 steps of 1 ms at 1 rad/s
    position, velocity = sensed(
        heavy, Quantisation(step), DifferencedVelocity(), q=3e-4, v=1.0, steps=50
    )
    counts = np.floor((3e-4 + np.arange(50) * DT) / step + 0.5) * step
    np.testing.assert_allclose(position[:, 0], counts, atol=1e-6)
    np.testing.assert_allclose(velocity[1:, 0], np.diff(counts) / DT, atol=1e-5)


def test_differenced_velocity_is_smoothed():
    heavy, cutoff = wheel(1e5), 100.0
    _, velocity = sensed(
        heavy, Quantisation(1.0), DifferencedVelocity(cutoff), q=0.0, v=0.3, steps=40
    )
    # nothing is counted: the first velocity fades with the time constant of the filter
    expected = 0.3 * (1.0 - DT / (DT + 1 / cutoff)) ** np.arange(40)
    np.testing.assert_allclose(velocity[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("late", [0, 1, 4])
def test_readings_arrive_late(late):
    heavy = wheel(1e5)
    position, velocity = sensed(heavy, Latency(late), q=0.2, v=1.0, steps=12)
    expected = 0.2 + DT * np.maximum(np.arange(12) - late, 0)
    np.testing.assert_allclose(position[:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(velocity[:, 0], 1.0, atol=1e-6)


def test_noise_is_normal_and_has_the_deviation_asked_for():
    heavy = wheel(1e5)
    noise = Noise(0.02, 0.3, seed=np.arange(50))
    position, velocity = sensed(heavy, noise, q=0.0, v=0.0, steps=100)
    for told, deviation in ((position, 0.02), (velocity, 0.3)):
        x = told[..., 0] / deviation
        assert x.shape == (50, 100)
        assert x.mean() == pytest.approx(0.0, abs=0.05)
        assert x.std() == pytest.approx(1.0, abs=0.04)
        assert (x**4).mean() == pytest.approx(3.0, abs=0.3)
        # motions of the batch, and steps of one, are independent
        assert abs((x[:-1] * x[1:]).mean()) < 0.06
        assert abs((x[:, :-1] * x[:, 1:]).mean()) < 0.06
        assert (np.abs(x) < 2.0).mean() == pytest.approx(math.erf(2 / math.sqrt(2)), abs=0.01)
    assert abs((position / 0.02 * velocity / 0.3).mean()) < 0.06


def test_the_same_seed_gives_the_same_noise():
    robot = Robot(qddot.load("planar_2r").model)
    first, again, other = (
        sensed(robot, Noise(0.1, seed=s), q=[0.1, 0.2], v=0.0, steps=5)[0] for s in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).min() > 1e-6
    # a joint that is not named has none
    one = sensed(robot, Noise({"joint2": 0.1}), q=[0.1, 0.2], v=0.0, steps=2)[0]
    assert one[0, 0] == pytest.approx(0.1)
    assert abs(one[0, 1] - 0.2) > 1e-3


# native code


def full(robot: Robot, **changes):
    """A rollout with nearly everything at once."""
    motor = (Limit(6.0), MotorConstant(0.05), TorqueSpeedLimit(0.4, 400.0))
    motor += (Friction(viscous(2e-5)),)
    effects = (
        Delay({"joint1": 2, "joint2": 1}),
        Gear({"joint1": 50.0, "joint2": 30.0}, 0.8, 0.7, motor),
        Friction(asymmetric(stribeck(0.5, 0.3, 0.05, 0.1), coulomb(0.2))),
        LuGre({"joint2": stribeck(0.3, 0.2, 0.02)}, 1e5, 10.0),
        ModelLosses(),
    )
    sensors = (
        Noise(1e-4, 1e-3, seed=3),
        Quantisation(1e-3),
        DifferencedVelocity(200.0),
        Latency(2),
    )
    references = {"q_ref": np.array([0.3, 0.2]), "v_ref": np.zeros(2)}
    given = {"dt": DT, "steps": 120, "effects": effects, "sensors": sensors}
    given["feedback"] = PD(10.0, 0.5)
    q = np.array([[0.1, -0.2], [0.4, 0.3], [-0.5, 0.9]])
    return rollout(robot, q, np.zeros((3, 2)), **(given | references | changes))


def test_native_code_takes_the_same_steps():
    model = qddot.load("planar_2r").model
    text, native = (full(Robot(model, native=way)) for way in (False, True))
    assert np.ptp(text.q[:, :, 0], axis=1).min() > 0.01
    effect_states = zip(native.effect_states, text.effect_states, strict=True)
    for a, b in ((native.q, text.q), (native.v, text.v), *effect_states):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_single_precision_is_close():
    model = qddot.load("planar_2r").model
    q = np.array([[0.1, -0.2], [0.4, 0.3], [-0.5, 0.9]], np.float32)
    double = rollout_noise(Robot(model, native=True), q.astype(float))
    single_ = rollout_noise(Robot(model, native=True), q)
    assert single_.q.dtype == np.float32
    np.testing.assert_allclose(single_.q, double.q, atol=2e-4)


def rollout_noise(robot: Robot, q: np.ndarray):
    """Arms that are held at zero by what noisy sensors tell."""
    still = {"q_ref": np.zeros(2), "v_ref": np.zeros(2)}
    return rollout(
        robot, q, np.zeros_like(q), dt=DT, steps=100, effects=(Friction(coulomb(0.1, 0.1)),),
        sensors=(Noise(1e-2, 1e-1),), feedback=PD(10.0, 0.5, gravity=True), **still,
    )  # fmt: skip


# stick-slip


def slow(robot: Robot, *effects, speed, kp, kd, steps=6000):
    """Slow motion at one speed by a PD law."""
    ramp = speed * np.arange(steps)[:, None] * DT
    return run(
        robot, *effects, steps=steps, feedback=PD(kp, kd), q_ref=ramp, v_ref=np.array([speed]),
    )  # fmt: skip


def onsets(found) -> np.ndarray:
    """Times at which the joint starts to slip."""
    slips = np.abs(found.v[:, 0]) > 1e-5
    return found.time[1:][slips[1:] & ~slips[:-1]]


def stick_slip_period(J, kp, kd, static, kinetic, speed) -> float:
    """Of a mass dragged by a spring and a damper: e is the stretch beyond kinetic / kp.

    Slip starts at e₀ with ė = speed and ends where ė is that again; then e grows back to e₀.
    """
    start = (static - kd * speed - kinetic) / kp
    a = kd / (2 * J)
    w = math.sqrt(kp / J - a * a)
    c = (speed + a * start) / w

    def stretch(t):
        return math.exp(-a * t) * (start * math.cos(w * t) + c * math.sin(w * t))

    def rate(t):
        wave = (c * w - a * start) * math.cos(w * t) - (start * w + a * c) * math.sin(w * t)
        return math.exp(-a * t) * wave - speed

    slip = brentq(rate, 0.3 * math.pi / w, 1.5 * math.pi / w)
    return slip + (start - stretch(slip)) / speed


@pytest.mark.parametrize("kd", [0.0, 2.0])
def test_stick_slip_has_the_period_of_the_closed_form(kd):
    # a rotor of 5e-5 kg m² behind a gear of 100 and a link of 0.1 kg m²
    robot = with_rotors(wheel(0.1), 5e-5, 100.0)
    values = {"kp": 200.0, "kd": kd, "speed": 0.05}
    found = slow(robot, Friction(stiction(5.0, 3.0)), **values)
    starts = onsets(found)
    assert len(starts) > 5
    expected = stick_slip_period(0.6, 200.0, kd, 5.0, 3.0, 0.05)
    np.testing.assert_allclose(np.diff(starts[1:]), expected, rtol=0.02)
    sticks = found.v[found.time > 1.0, 0] == 0.0
    assert 0.2 < sticks.mean() < 0.95


def test_bristles_stick_and_slip_too_and_viscous_friction_does_not():
    robot = with_rotors(wheel(0.1), 5e-5, 100.0)
    values = {"kp": 200.0, "kd": 0.0, "speed": 0.05}
    bristles = slow(robot, LuGre(stribeck(5.0, 3.0, 1e-2), 1e5, 300.0), **values)
    moving = np.abs(bristles.v[:, 0]) > 0.01
    starts = bristles.time[1:][moving[1:] & ~moving[:-1]]
    assert len(starts) > 5
    expected = stick_slip_period(0.6, 200.0, 0.0, 5.0, 3.0, 0.05)
    np.testing.assert_allclose(np.diff(starts[1:]), expected, rtol=0.1)
    smooth = slow(robot, Friction(viscous(5.0)), **values)
    assert (smooth.v[2:, 0] > 0.0).all()
    np.testing.assert_allclose(smooth.v[-1000:, 0], 0.05, rtol=1e-3)


def test_a_stiffer_loop_drags_without_sticking():
    robot = with_rotors(wheel(0.1), 5e-5, 100.0)
    found = slow(robot, Friction(stribeck(5.0, 3.0, 0.05, 1.0)), kp=400.0, kd=60.0, speed=0.2)
    assert (found.v[2000:, 0] > 0.0).all()


# parameters that differ from motion to motion

BATCH = (
    ("semi_implicit", lambda x: {"effects": [Friction(coulomb(0.2 * x, 0.1))]}),
    ("semi_implicit", lambda x: {"effects": [Friction(stribeck(0.5, 0.2, 0.1 * x), 0.01 * x)]}),
    ("semi_implicit", lambda x: {"effects": [LuGre(coulomb(0.2 * x), 1e3 * x, {"joint1": x})]}),
    ("rk4", lambda x: {"effects": [MotorConstant({"joint2": x}), Limit(0.3 * x), Delay(2)]}),
    ("semi_implicit", lambda x: {"effects": [TorqueSpeedLimit(0.2 * x, 0.3)]}),
    ("semi_implicit", lambda x: {"effects": [Gear(2 * x, 0.3 * x, 0.2 * x, (Limit(0.1 * x),))]}),
    ("semi_implicit", lambda x: {"effects": [Gear(-x, motor=(Friction(coulomb(0.2)),))]}),
    ("variational", lambda x: {"effects": [PenaltyStops(3.0 * x, 0.05 * x, 0.01, x)]}),
    ("semi_implicit", lambda x: {"sensors": [Quantisation(0.01 * x), Noise(0.01 * x, seed=2)]}),
    ("semi_implicit", lambda x: {"sensors": [DifferencedVelocity(50.0 * x), Latency(1)]}),
)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("integrator", "make"), BATCH)
def test_parameters_carry_batch_axes(integrator, make, native):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    given = {"q0": [3.1, 0.2], "v0": [0.8, -0.4], "tau": [1.5, -0.7], "dt": 2e-3, "steps": 40}
    given |= {"integrator": integrator, "record": True, "feedback": PD(1.0, 1.0)}
    given |= {"q_ref": np.zeros(2), "v_ref": np.zeros(2)}
    values = np.array([[1.0, 2.0, 2.5]])
    found = rollout(robot, **given, **make(values))
    assert found.q.shape == (1, 3, 41, 2)
    for k, figure in enumerate(values[0]):
        alone = rollout(Robot(robot.model), **given, **make(float(figure)))
        np.testing.assert_allclose(found.q[0, k], alone.q, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(found.v[0, k], alone.v, rtol=1e-10, atol=1e-11)
    assert np.abs(found.q[0, 0, -1] - found.q[0, 1, -1]).max() > 1e-6
    more = found.resume(steps=5, q_ref=np.zeros(2), v_ref=np.zeros(2), tau=given["tau"])
    whole = rollout(robot, **(given | {"steps": 45}), **make(values))
    assert more.q.tobytes() == whole.q[..., 40:, :].tobytes()


def test_energy_with_parameters_by_motion():
    robot, values = Robot(qddot.load("planar_2r").model), np.array([0.3, 0.6])
    given = {"q0": [0.1, 0.2], "v0": [1.0, -0.4], "dt": 1e-3, "steps": 30}
    ledger = energy_ledger(rollout(robot, **given, effects=[Friction(coulomb(values))]))
    for k, x in enumerate(values):
        alone = energy_ledger(rollout(robot, **given, effects=[Friction(coulomb(float(x)))]))
        np.testing.assert_allclose(ledger.friction[k], alone.friction, rtol=1e-9, atol=1e-12)
    assert ledger.friction[1, -1] > 1.5 * ledger.friction[0, -1] > 0.0


def test_backlash_by_motion():
    robot = qddot.load("planar_2r").with_flexible_joints(50.0, motor_inertia=0.05)
    gaps = np.array([0.01, 0.1])
    found, *alone = (
        run(robot, Backlash(gap), tau=[0.3, 0.0, 0.0, 0.1], q=np.zeros(4), steps=60, dt=2e-3)
        for gap in (gaps, *gaps.tolist())
    )
    for k in range(2):
        np.testing.assert_allclose(found.q[k], alone[k].q, rtol=1e-10, atol=1e-13)
    assert np.abs(found.q[0] - found.q[1]).max() > 1e-4


# what cannot be


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Friction(2.0), InvalidArgument, "viscous, coulomb"),
        (lambda: Friction({}), InvalidArgument, "names no joint"),
        (lambda: Friction({"joint1": 1.0}), InvalidArgument, "law of joint 'joint1'"),
        (lambda: Friction(coulomb(1.0), smoothing=0.0), InvalidArgument, "above 0"),
        (lambda: LuGre(viscous(1.0), 1e5), InvalidArgument, "Coulomb level above 0"),
        (lambda: LuGre(coulomb(1.0), math.nan), InvalidArgument, "stiffness"),
        (lambda: LuGre(coulomb(1.0), 1e5, -1.0), InvalidArgument, "damping"),
        (lambda: Limit(-1.0), InvalidArgument, "0 or more"),
        (lambda: Limit({"joint1": "a lot"}), InvalidArgument, "limit of joint 'joint1'"),
        (lambda: MotorConstant(0.0), InvalidArgument, "above 0"),
        (lambda: TorqueSpeedLimit(1.0, {}), InvalidArgument, "names no joint"),
        (
            lambda: TorqueSpeedLimit({"joint1": 1.0}, {"joint2": 1.0}),
            InvalidArgument,
            "'joint1', 'joint2'",
        ),
        (lambda: Gear(0.0), InvalidArgument, "not 0"),
        (lambda: Gear(10.0, 1.2), InvalidArgument, "up to 1"),
        (lambda: Gear(10.0, 0.9, 0.0), InvalidArgument, "backdriving"),
        (lambda: Gear(10.0, motor=Limit(1.0)), InvalidArgument, "tuple of effects"),
        (lambda: Delay(1.5), InvalidArgument, "whole number of steps"),
        (lambda: Delay(np.array([1, 2])), InvalidArgument, "for all motions of a batch"),
        (lambda: Limit(np.array([1.0, np.nan])), InvalidArgument, "limit"),
        (lambda: Friction(coulomb(np.array([1.0, -1.0]))), InvalidArgument, "not negative"),
        (lambda: LuGre(coulomb(np.array([1.0, 0.0])), 1e5), InvalidArgument, "level above 0"),
        (lambda: Delay({"joint1": -1}), InvalidArgument, "delay of joint 'joint1'"),
        (lambda: Backlash(0.0), InvalidArgument, "gap"),
        (lambda: Noise(-1.0), InvalidArgument, "0 or more"),
        (lambda: Noise(seed=0.5), InvalidArgument, "whole number"),
        (lambda: Quantisation(0.0), InvalidArgument, "resolution"),
        (lambda: DifferencedVelocity(-1.0), InvalidArgument, "cutoff"),
        (lambda: Latency(0.5), InvalidArgument, "latency"),
        (lambda: with_rotors(wheel(1.0), -1.0), InvalidArgument, "rotor inertia"),
        (lambda: stiction(1.0, 2.0), InvalidArgument, "at least that of coulomb"),
    ],
)
def test_parameters_that_have_no_meaning_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("robot", "effect", "error", "words"),
    [
        ("planar_2r", Friction({"joint3": coulomb(1.0)}), UnknownName, "joint2"),
        ("planar_2r", Limit({"elbow": 1.0}), UnknownName, "no joint 'elbow'"),
        ("planar_2r", LuGre(coulomb(1.0), {"joint1": 1e5}), InvalidArgument, "needs a stiffness"),
        ("planar_2r", Backlash(0.1), InvalidArgument, "with_flexible_joints"),
        ("planar_2r", TorqueSpeedLimit({"joint1": 1.0}, 3.0), None, ""),
        ("planar_2r", TorqueSpeedLimit(1.0, {"joint2": 3.0}), None, ""),
        ("quadruped", Friction({"root": coulomb(1.0)}), InvalidModel, "is a free joint"),
        ("quadruped", Friction(coulomb(1.0)), None, ""),
    ],
)
def test_joints_are_found_by_name(robot, effect, error, words):
    robot = qddot.load(robot)
    q = robot.random(0)
    if error is None:
        assert run(robot, effect, q=q, steps=1).finite.all()
        return
    with pytest.raises(error, match=words):
        run(robot, effect, q=q, steps=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"effects": [coulomb(1.0)]}, r"Friction\(law\)"),
        ({"effects": Friction(coulomb(1.0))}, "list of effects"),
        ({"effects": [Latency(1)]}, "sensors=…"),
        ({"sensors": [Delay(1)]}, "one of the effects"),
        ({"sensors": Latency(1)}, "list of sensors"),
    ],
)
def test_effects_and_sensors_are_told_apart(given, words):
    with pytest.raises(InvalidArgument, match=words):
        rollout(wheel(1.0), [0.0], [0.0], dt=DT, steps=1, **given)


def test_backlash_names_its_flexible_joints():
    robot = wheel(1.0).with_flexible_joints(10.0, motor_inertia=1.0)
    with pytest.raises(UnknownName, match="no flexible joint 'k'"):
        run(robot, Backlash({"k": 0.1}), steps=1)


def test_numbers_that_are_none_stay_in_their_motion():
    tau = np.zeros((3, 1, 1))
    tau[1] = np.nan
    found = run(wheel(1.0), Friction(coulomb(1.0)), v=[1.0], tau=tau, steps=1)
    assert np.isfinite(found.v[[0, 2]]).all()
    assert np.isnan(found.v[1, -1]).all()


def test_the_page_runs(tmp_path):
    page = Path(__file__).resolve().parents[2] / "docs" / "drivetrain.md"
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    native = {**os.environ, "QDDOT_NATIVE": "1"}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=native)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "stick-slip.png").exists()
