"""The energy ledger against closed forms, and the kinds of drift."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bare_rollouts import rollout
from random_models import Part, build

import qddot
from qddot.analysis import constraints as cs
from qddot.control import PD
from qddot.errors import InvalidArgument
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.simulate import EnergyLedger, energy_ledger, plot_energy
from qddot.simulate.contact import ComplementarityContact, PenaltyContact, Plane, Scene, Sphere
from qddot.simulate.drivetrain import Backlash, Friction, Limit, LuGre, coulomb

PENDULUM = Robot(qddot.load("double_pendulum").model, native=True)
STATE = [1.0, 0.5], [0.0, 0.0]


def slider() -> Robot:
    """A mass on rails, without gravity."""
    model = build([Part("prismatic", WORLD, True, False, False, None)], 7)
    return Robot(model).with_gravity((0.0, 0.0, 0.0))


def ball(height: float):
    robot = Robot(qddot.load("quadrotor").model)
    scene = Scene([Plane()], spheres=[Sphere(robot.body_names[0], 0.1, name="ball")])
    q = robot.neutral()
    q[2] = height
    return robot, scene, q


def test_levels_are_those_of_the_robot():
    found = rollout(PENDULUM, *STATE, dt=1e-2, steps=20)
    ledger = energy_ledger(found)
    np.testing.assert_allclose(ledger.kinetic, PENDULUM.kinetic_energy(found.q, found.v))
    np.testing.assert_allclose(ledger.potential, PENDULUM.potential_energy(found.q))
    assert not ledger.work.any()
    assert not ledger.friction.any()


@pytest.mark.parametrize(("every", "integrator"), [(1, "semi_implicit"), (1, "rk4"), (5, "rk4")])
def test_work_of_a_constant_torque_is_torque_times_way(every, integrator):
    tau = np.array([2.0, -0.5])
    found = rollout(PENDULUM, *STATE, tau, dt=2e-3, steps=200, every=every, integrator=integrator)
    ledger = energy_ledger(found)
    way = (found.q - found.q[0]) @ tau
    if integrator == "semi_implicit":
        np.testing.assert_allclose(ledger.work, way, atol=1e-2)
    else:
        # whatever is kept: a constant torque works along the way of its joint
        np.testing.assert_allclose(ledger.work, way, atol=1e-12)
        assert not ledger.error.any()
        assert np.abs(ledger.residual).max() < 1e-8
        assert ledger.drift().acceptable


def test_damping_takes_what_the_mass_loses():
    robot = slider()
    found = rollout(
        robot,
        [0.0],
        [2.0],
        dt=0.1,
        steps=30,
        integrator="implicit_damping",
        without=("springs", "limits"),
    )
    ledger = energy_ledger(found)
    m = robot.mass_matrix(np.zeros(1))[0, 0]
    lost = 0.5 * m * (4.0 - found.v[:, 0] ** 2)
    assert lost[-1] > 0.1 * lost.max() > 0.0
    np.testing.assert_allclose(ledger.friction, lost, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ledger.residual, 0.0, atol=1e-13)


@pytest.mark.parametrize("law", [Friction, LuGre])
def test_friction_takes_all_of_it(law):
    robot = Robot(slider().model, native=True)
    (name,) = robot.joint_names
    m = robot.mass_matrix(np.zeros(1))[0, 0]
    laws = {name: coulomb(4.0 * float(m))}
    effect = Friction(laws) if law is Friction else LuGre(laws, 1e6, 0.0)
    found = rollout(robot, [0.0], [2.0], dt=1e-3, steps=700, effects=[effect], record=True)
    ledger = energy_ledger(found)
    assert abs(found.v[-1, 0]) < 1e-3
    assert ledger.friction[-1] == pytest.approx(2.0 * m, rel=1e-3)
    assert found.q[-1, 0] == pytest.approx(0.5, rel=3e-3)
    assert ledger.drift().acceptable


def test_motors_do_only_the_work_that_their_limits_let_through():
    robot = slider()
    found = rollout(
        robot,
        [0.0],
        [0.0],
        [10.0],
        dt=1e-3,
        steps=200,
        effects=[Limit({robot.joint_names[0]: 3.0})],
    )
    ledger = energy_ledger(found)
    assert ledger.work[-1] == pytest.approx(3.0 * found.q[-1, 0], rel=1e-2)
    assert ledger.friction[-1] == 0.0
    assert np.abs(ledger.residual).max() < 1e-9


def test_feedback_is_the_work_of_motors():
    found = rollout(
        PENDULUM, *STATE, dt=1e-3, steps=300, integrator="rk4", feedback=PD(5.0, 1.0),
        q_ref=np.zeros(2), v_ref=np.zeros(2),
    )  # fmt: skip
    ledger = energy_ledger(found)
    spring = 2.5 * (found.q[0] @ found.q[0] - found.q[-1] @ found.q[-1])
    damper = np.trapezoid((found.v**2).sum(-1), found.time)
    assert ledger.work[-1] == pytest.approx(spring - damper, rel=2e-2)
    assert np.abs(ledger.residual).max() < 1e-3 * np.abs(ledger.work).max()


@pytest.mark.parametrize("law", ["penalty", "complementarity"])
def test_a_ball_that_comes_to_rest_gives_its_height_to_contact(law):
    robot, scene, q = ball(0.3)
    way = (
        {"effects": [PenaltyContact(scene, 1e4, 3e2)]}
        if law == "penalty"
        else {"contact": ComplementarityContact(scene)}
    )
    native = Robot(robot.model, native=True)
    found = rollout(native, q, np.zeros(6), dt=1e-4, steps=20_000, every=1, **way)
    ledger = energy_ledger(found)
    weight = robot.model.mass * 9.81
    sunk = weight / 1e4 if law == "penalty" else 0.0
    assert found.q[-1, 2] == pytest.approx(0.1 - sunk, abs=2e-4)
    stored = 0.5 * weight * sunk
    assert ledger.spring[-1] == pytest.approx(stored, rel=0.02, abs=1e-9)
    assert ledger.contact[-1] == pytest.approx(weight * (0.2 + sunk) - stored, rel=2e-3)
    assert ledger.drift().acceptable
    assert not ledger.friction.any()


def test_sliding_costs_energy_and_spin_does_not_matter():
    robot, scene, q = ball(0.1)
    native = Robot(robot.model, native=True)
    v = np.array([1.0, 0.5, 0.0, 3.0, -2.0, 5.0])
    found = rollout(native, q, v, dt=1e-4, steps=4000, contact=ComplementarityContact(scene))
    ledger = energy_ledger(found)
    taken = ledger.total[0] - ledger.total[-1]
    assert ledger.contact[-1] == pytest.approx(taken, rel=5e-3)
    assert ledger.contact[-1] > 0.1 * ledger.kinetic[0]


@pytest.mark.parametrize(
    ("integrator", "dt", "kind", "acceptable"),
    [
        ("euler", 2e-3, "gain", False),
        ("semi_implicit", 2e-3, "bounded", True),
        ("rk4", 1e-3, "kept", True),
        ("rk4", 5e-2, "loss", True),
        ("rk4", 1.5e-1, "loss", False),
    ],
)
def test_free_swings_drift_as_their_integrators_do(integrator, dt, kind, acceptable):
    # of one joint, so that its mass is constant and semi-implicit Euler symplectic
    swing = PENDULUM.without_joint(PENDULUM.joint_names[1])
    found = rollout(swing, [1.0], [0.0], dt=dt, steps=int(10.0 / dt), integrator=integrator)
    drift = energy_ledger(found).drift()
    assert (drift.kind, drift.acceptable) == (kind, acceptable), drift
    assert kind in str(drift)


def made_up(residual: np.ndarray) -> EnergyLedger:
    time = np.linspace(0.0, 10.0, len(residual))
    zero = np.zeros_like(time)
    kinetic = 1.0 + residual
    return EnergyLedger(time, kinetic, zero, zero, zero, zero, zero, zero, zero)


@pytest.mark.parametrize(
    ("residual", "kind", "acceptable", "rate"),
    [
        (lambda t: -9e-4 * t, "loss", True, -9e-4),
        (lambda t: -2e-3 * t, "loss", False, -2e-3),
        (lambda t: 2e-3 * t, "gain", False, 2e-3),
        (lambda t: 0.01 * np.sin(7 * t), "bounded", True, None),
        (lambda t: 0.2 * np.sin(7 * t), "bounded", False, None),
        (lambda t: 0.03 * (np.floor(3 * t) % 2), "erratic", False, None),
        (lambda t: 1e-12 * np.sin(t), "kept", True, None),
        (lambda t: np.where(t > 5, np.nan, 0.0), "lost", False, None),
    ],
)
def test_kinds_of_drift(residual, kind, acceptable, rate):
    drift = made_up(residual(np.linspace(0.0, 10.0, 1000))).drift()
    assert (drift.kind, drift.acceptable) == (kind, acceptable)
    if rate:
        assert drift.rate == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rounding_of_a_large_level_is_no_drift(sign):
    # a robot at rest: nothing is at play but the rounding of 50 J
    time = np.linspace(0.0, 2.0, 500)
    zero = np.zeros_like(time)
    potential = 50.0 + sign * 1e-13 * time
    still = EnergyLedger(time, zero, potential, zero, zero, zero, zero, zero, zero)
    assert still.drift().kind == "kept"
    assert abs(still.drift().rate) < 1e-6
    assert still.drift().largest < 1e-6
    # of single precision more is rounding, and a true gain is none of either
    single = np.finfo(np.float32).eps
    swaying = EnergyLedger(time, zero, 50.0 + sign * 1e-3 * time, *[zero] * 6, float(single))
    assert swaying.drift().kind == "kept"
    gaining = EnergyLedger(time, 1e-3 * time, 0.0 * time + 50.0, *[zero] * 6)
    assert (gaining.drift().kind, gaining.drift().acceptable) == ("gain", False)


def test_a_robot_at_rest_under_gravity_keeps_its_energy():
    found = rollout(
        PENDULUM, STATE[0], np.zeros(2), PENDULUM.gravity(STATE[0]), dt=1e-3, steps=2000
    )
    drift = energy_ledger(found).drift()
    assert (drift.kind, drift.acceptable) == ("kept", True), drift
    kind = np.float32
    q, v = np.array(STATE[0], kind), np.zeros(2, kind)
    tau = PENDULUM.gravity(STATE[0]).astype(kind)
    drift = energy_ledger(rollout(PENDULUM, q, v, tau, dt=1e-3, steps=200)).drift()
    assert drift.acceptable, drift


def test_batches_have_a_ledger_each():
    q = np.stack([STATE[0], [0.2, 0.1]])
    inertia = PENDULUM.inertial_parameters * np.array([1.0, 2.0])[:, None, None]
    given = {"dt": 1e-2, "steps": 15, "parameters": {"inertia": inertia}}
    both = energy_ledger(rollout(PENDULUM, q, np.zeros(2), [0.3, 0.0], **given))
    heavy = PENDULUM.with_parameters(inertia[1])
    alone = energy_ledger(rollout(heavy, q[1], np.zeros(2), [0.3, 0.0], dt=1e-2, steps=15))
    for field in dataclasses.fields(EnergyLedger):
        if field.name not in ("time", "precision"):
            x, y = getattr(both, field.name), getattr(alone, field.name)
            np.testing.assert_allclose(x[1], y, rtol=1e-10, atol=1e-13)
    assert both.drift(1).kind == alone.drift().kind
    with pytest.raises(InvalidArgument, match=r"picks one rollout of the batch \(2,\)"):
        both.drift()


def test_effects_with_a_state_need_a_record():
    robot = slider()
    effect = LuGre({robot.joint_names[0]: coulomb(1.0)}, 1e5, 0.0)
    with pytest.raises(InvalidArgument, match="record=True"):
        energy_ledger(rollout(robot, [0.0], [1.0], dt=1e-3, steps=3, effects=[effect]))


def test_a_ledger_is_drawn(tmp_path):
    found = rollout(PENDULUM, *STATE, [1.0, 0.0], dt=1e-2, steps=20)
    file = tmp_path / "energy.png"
    plot_energy(energy_ledger(found), file)
    assert file.read_bytes().startswith(b"\x89PNG")


def oscillator(stiffness: float, damping: float = 0.0, friction: float = 0.0) -> Robot:
    """A mass on rails with a spring, damping and dry friction of its joint, without gravity."""
    model = slider().model
    (body,) = model.bodies
    drive = dataclasses.replace(
        body.joint.drivetrain, stiffness=stiffness, damping=damping, friction=friction,
        backward_friction=None,
    )  # fmt: skip
    joint = dataclasses.replace(body.joint, drivetrain=drive)
    return Robot(dataclasses.replace(model, bodies=(dataclasses.replace(body, joint=joint),)))


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_a_spring_at_the_end_of_the_step_is_damped_numerically(integrator):
    dt, damping = 0.02, 3.0
    m = float(slider().mass_matrix(np.zeros(1))[0, 0])
    # ω Δt = 2: by the velocity at the end of the step, m (v₁ − v₀) = −k (x₀ + Δt v₁) Δt − d v₁ Δt
    stiffness = m * (2.0 / dt) ** 2
    robot = oscillator(stiffness, damping)
    (rest,) = robot.model.bodies[0].joint.rest
    found = robot.rollout(
        [rest], [2.0], dt=dt, steps=6, integrator=integrator, without=("friction", "limits")
    )
    assert any("end of the step" in note for note in found.status.notes)
    ledger = energy_ledger(found)
    v, mean = found.v[:, 0], 0.5 * (found.v[1:, 0] + found.v[:-1, 0])
    if integrator == "semi_implicit":
        x = found.q[:, 0] - rest
        # backward Euler loses ½ Δt² k (v₁² + ω² x₁²), less what the damping does about x₁
        lost = 0.5 * dt**2 * stiffness * (v**2 + (stiffness * x + damping * v) * x / m)
        np.testing.assert_allclose(np.diff(ledger.numerical), lost[1:], rtol=1e-9)
        np.testing.assert_allclose(np.diff(ledger.friction), dt * damping * v[1:] * mean, rtol=1e-9)
    assert ledger.numerical[-1] > 0.5 * ledger.total[0] > ledger.friction[-1] > 0.0
    assert (np.abs(ledger.residual) <= ledger.error + 1e-12).all()
    drift = ledger.drift()
    assert (drift.kind, drift.acceptable) == ("damped", False)


def test_an_accurate_spring_is_kept_by_rk4():
    m = float(slider().mass_matrix(np.zeros(1))[0, 0])
    robot = oscillator(m * 100.0**2)
    (rest,) = robot.model.bodies[0].joint.rest
    found = robot.rollout(
        [rest], [2.0], dt=4e-4, steps=200, every=5, integrator="rk4", without=("limits",)
    )
    ledger, swing = energy_ledger(found), 100.0 * found.time
    np.testing.assert_allclose(ledger.spring, 2.0 * m * np.sin(swing) ** 2, atol=1e-6)
    for account in (ledger.friction, ledger.numerical, ledger.error):
        assert not account.any()
    assert np.abs(ledger.residual).max() < 1e-7 * ledger.total[0]
    assert ledger.drift().acceptable, ledger.drift()


@pytest.mark.parametrize("damping", [0.0, 5.0])
def test_teeth_without_damping_lose_energy_to_the_step_alone(damping):
    name = PENDULUM.joint_names[0]
    rigid = PENDULUM.without_joint(PENDULUM.joint_names[1]).with_gravity((0.0, 0.0, 0.0))
    robot = rigid.with_flexible_joints({name: 1e4}, motor_inertia={name: 0.1})
    found = robot.rollout(
        robot.neutral(), [0.0, 1.0], dt=1e-3, steps=300, integrator="semi_implicit",
        effects=[Backlash(1e-3, damping=damping)], without=("damping", "friction", "limits"),
    )  # fmt: skip
    ledger = energy_ledger(found)
    lost = ledger.total[0] - ledger.total[-1]
    assert lost > 0.05 * ledger.total[0]
    assert ledger.friction[-1] + ledger.numerical[-1] == pytest.approx(lost, rel=1e-9)
    if damping:
        assert ledger.friction[-1] > 0.1 * lost
    else:
        np.testing.assert_allclose(ledger.friction, 0.0, atol=1e-14)
        assert (ledger.drift().kind, ledger.drift().acceptable) == ("damped", False)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_teeth_at_the_stages_keep_their_vibration(integrator):
    name = PENDULUM.joint_names[0]
    rigid = PENDULUM.without_joint(PENDULUM.joint_names[1]).with_gravity((0.0, 0.0, 0.0))
    robot = rigid.with_flexible_joints({name: 1e4}, motor_inertia={name: 0.1})
    ends = {}
    for at_stages in (False, True):
        found = robot.rollout(
            robot.neutral(), [0.0, 1.0], dt=2e-4, steps=1500, integrator=integrator,
            effects=[Backlash(1e-3, at_stages=at_stages)], without=("damping", "friction"),
        )  # fmt: skip
        total = energy_ledger(found).total
        # motor and link together keep their momentum; the rest vibrates between the teeth
        M, p = robot.mass_matrix(found.q[0]), robot.momentum(found.q[0], found.v[0])
        vibration = total[0] - 0.5 * p[0] ** 2 / M[0, 0]
        ends[at_stages] = (total[-1] - total[0]) / vibration
        noted = any("teeth of a backlash" in note for note in found.status.notes)
        assert noted is not at_stages
    assert ends[False] < -0.5
    assert abs(ends[True]) < 0.02


@pytest.mark.parametrize("every", [1, 10])
def test_friction_of_a_joint_is_not_that_of_contact(every):
    # a cart that dry friction and damping stop, beside a contact that is never made
    m = float(slider().mass_matrix(np.zeros(1))[0, 0])
    robot = oscillator(0.0, damping=0.5 * m, friction=4.0 * m)
    far = Scene([Plane(point=(0.0, 0.0, -9.0))], spheres=[Sphere(robot.body_names[0], 0.1)])
    found = robot.rollout(
        [0.0], [2.0], dt=1e-3, steps=500, every=every, record=True, without=("springs",),
        contact=ComplementarityContact(far, limits=False),
    )  # fmt: skip
    ledger = energy_ledger(found)
    assert found.v[-1, 0] == 0.0
    assert ledger.friction[-1] == pytest.approx(2.0 * m, rel=2e-3)
    np.testing.assert_allclose(ledger.contact, 0.0, atol=5e-3 * m)


@pytest.mark.parametrize("dt", [1e-3, 1e-2])
@pytest.mark.parametrize("torque", [0.0, 0.05])
def test_the_error_of_the_account_bounds_its_residual(torque, dt):
    """A four-bar with damped joints: power curved by velocities and by forces, each sample."""
    bars = qddot.load("four_bar")
    bars = cs.with_loops(bars, cs.independent(bars))
    q = cs.assemble(bars, [2.0, -1.2, 0.0])
    v = cs.consistent_velocity(bars, q, [10.0, 0.0, 0.0])
    found = bars.rollout(q, v, [torque, 0.0, 0.0], dt=dt, steps=round(0.5 / dt), integrator="rk4")
    ledger = energy_ledger(found)
    assert (np.abs(ledger.residual) <= ledger.error + 1e-9).all()
    assert ledger.drift().kind in ("kept", "unclear")
    # it is no loose bound
    assert ledger.error[-1] < 4.0 * np.abs(ledger.residual).max()
