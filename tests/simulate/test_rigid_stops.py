"""Joint stops without compliance: closed forms, energy, and agreement with complementarity."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from bare_rollouts import rollout
from contact_bodies import GRAVITY, pendulum
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.errors import InvalidArgument
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint, Limits
from qddot.model.links import Coupling, Link
from qddot.robot.robot import Robot
from qddot.simulate import energy_ledger, implicit_torques
from qddot.simulate.contact import (
    ComplementarityContact,
    PenaltyContact,
    PenaltyStops,
    Plane,
    Scene,
    Sphere,
)
from qddot.simulate.contact.stops import RigidStops
from qddot.simulate.drivetrain import Friction, coulomb
from qddot.simulate.integrators import INTEGRATORS
from qddot.spatial.algebra import Inertia, Sym3, Transform, Vec3

STOPS = [RigidStops()]
ARM = Robot(qddot.load("planar_3r").model, native=True)
SHIFTED = """<mujoco><compiler angle="radian"/><option timestep="1e-4"/><worldbody><body name="rod">
<joint name="hinge" axis="0 1 0" ref="1" limited="true" range="0.8 2" damping="0.02"/>
<inertial pos="0 0 -0.3" mass="1" diaginertia="0.01 0.01 0.01"/></body></worldbody></mujoco>"""
"""A rod that hangs at its reference position 1, and may swing from there by −0.2 to 1 rad."""


def coupled(ratio: float) -> Robot:
    """A rod that falls to positive angles, and two light discs that follow it."""
    tensor = Sym3.diagonal(1e-4, 1e-4, 1e-4)
    rod = Inertia.at_com(1.0, Vec3(0.5, 0.0, 0.0), tensor)
    disc = Inertia.at_com(1e-3, Vec3.zero(), tensor)
    links = []
    for name, most, inertia in (("leads", 1.0, rod), ("follows", 0.2, disc), ("too", 0.2, disc)):
        limits = Limits(-most, most)
        joint = Joint(name, JOINTS["revolute"], (Vec3(0.0, 1.0, 0.0),), limits=limits)
        links.append(Link(name, None, Transform.identity(), joint, inertia))
    couplings = [Coupling(name, "leads", ratio, 0.0) for name in ("follows", "too")]
    return Robot(assemble("coupled", links, couplings=couplings), native=True)


@pytest.mark.parametrize(
    "stops",
    [
        {"effects": STOPS},
        {"effects": [PenaltyStops(torque=1000.0, margin=0.005)]},
        {"contact": ComplementarityContact(Scene())},
    ],
    ids=["rigid", "penalty", "complementarity"],
)
def test_limits_are_those_of_the_coordinate_where_a_joint_has_a_reference_position(tmp_path, stops):
    (tmp_path / "rod.xml").write_text(SHIFTED)
    robot = qddot.load(tmp_path / "rod.xml")
    assert (robot.limits.lower, robot.limits.upper) == ([0.8], [2.0])
    model = mujoco.MjModel.from_xml_string(SHIFTED)
    data = mujoco.MjData(model)
    data.qpos[:] = 1.9
    mujoco.mj_step(model, data, 1500)
    before = data.qpos.copy()
    assert 0.9 < before < 1.8, "on its way, well between the stops"
    given = {"dt": 1e-4, "steps": 6000, **stops}
    found = robot.rollout([1.9], [0.0], **given)
    assert found.status.ok, found.status
    assert not found.status.notes
    np.testing.assert_allclose(found.q[1500], before, atol=1e-3)
    assert found.q.min() == pytest.approx(0.8, abs=6e-3)
    # a start beyond a limit, and a swing through it
    beyond = robot.rollout([2.003], [0.0], **given)
    assert beyond.status.of().label == "limit_violated"
    free = robot.rollout([1.9], [0.0], dt=1e-4, steps=6000, without="limits")
    assert free.status.of().label == "limit_violated"
    assert free.q[free.status.of().step] == pytest.approx(0.8 - 1e-3, abs=1e-3)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_pendulum_comes_to_rest_at_its_stop(integrator):
    robot = pendulum(-0.4, 0.3, native=True)
    found = rollout(robot, [0.0], [0.0], dt=1e-3, steps=600, integrator=integrator, effects=STOPS)
    assert found.status.ok, found.status
    assert found.q.max() <= 0.3 + 1e-12
    np.testing.assert_allclose(found.q[-1], 0.3, atol=1e-12)
    assert abs(found.v[-1]) < 1e-12
    # the stop took all that gravity gave
    ledger = energy_ledger(found)
    fall = ledger.potential[0] - ledger.potential[-1]
    assert ledger.contact[-1] == pytest.approx(fall, rel=1e-2)
    assert ledger.contact[-1] - ledger.residual[-1] == pytest.approx(fall, rel=1e-9)
    assert ledger.drift().acceptable, ledger.drift()


def test_a_joint_that_starts_beyond_its_stop_is_put_there_though_it_is_pushed_on():
    robot = pendulum(-0.4, 0.3, native=True)
    found = rollout(robot, [0.5], [0.0], dt=1e-3, steps=3, integrator="rk4", effects=STOPS)
    np.testing.assert_allclose(found.q[1:], 0.3, atol=1e-12)
    np.testing.assert_allclose(found.v[1:], 0.0, atol=1e-12)
    assert "it is put at its stop in the first step" in found.status.notes[-1]


def test_a_stop_never_pulls():
    robot = pendulum(-0.4, 0.3, native=True)
    tau = np.zeros((400, 1))
    tau[200:] = -2.0 * 0.5 * GRAVITY
    found = rollout(robot, [0.3], [0.0], tau, dt=1e-3, steps=400, integrator="rk4", effects=STOPS)
    np.testing.assert_allclose(found.q[:201], 0.3, atol=1e-12)
    # away from the stop it moves as if there was none
    free = rollout(robot, [0.3], [0.0], tau[200:], dt=1e-3, steps=200, integrator="rk4")
    np.testing.assert_allclose(found.q[201:], free.q[1:], rtol=1e-12)


def test_joints_that_are_free_or_slide_need_no_iteration(monkeypatch):
    solved, minimise = [], implicit_torques._TreeImpulses.minimise
    monkeypatch.setattr(
        implicit_torques._TreeImpulses, "minimise", lambda x: solved.append(x) or minimise(x)
    )
    robot = Robot(ARM.model, native=False)
    upper = np.array([body.joint.limits.upper for body in ARM.model.bodies])
    middle, speed = np.zeros(3), np.array([0.3, -0.2, 0.1])
    dry = [Friction(coulomb(0.01)), *STOPS]
    for q, v, effects, iterations in (
        (middle, speed, STOPS, False),
        (middle, 10 * speed, dry, False),
        (middle, 0 * speed, [Friction(coulomb(100.0))], True),
        (upper, 0 * speed + 1.0, STOPS, True),
    ):
        solved.clear()
        rollout(robot, q, v, dt=1e-4, steps=2, effects=effects)
        assert bool(solved) == iterations


def test_away_from_stops_the_motion_is_as_without():
    q, v = ARM.neutral(), np.array([0.3, -0.2, 0.1])
    for integrator in ("semi_implicit", "rk4"):
        with_stops, free = (
            rollout(ARM, q, v, dt=1e-3, steps=40, integrator=integrator, effects=effects)
            for effects in (STOPS, ())
        )
        np.testing.assert_allclose(with_stops.q, free.q, rtol=1e-12)
        assert np.abs(with_stops.effect_history[0]).max() < 1e-12


def test_the_account_of_energy_closes_with_motors_friction_and_stops():
    tau, friction = np.array([3.0, -2.0, 1.0]), Friction(coulomb(0.3))
    limits = np.array([[b.joint.limits.lower, b.joint.limits.upper] for b in ARM.model.bodies])
    for seed in range(4):
        found = rollout(
            ARM, ARM.random(seed), np.zeros(3), tau,
            dt=1e-3, steps=2000, integrator="rk4", effects=[friction, *STOPS],
        )  # fmt: skip
        assert found.status.ok, found.status
        assert (found.q >= limits[:, 0] - 1e-9).all()
        assert (found.q <= limits[:, 1] + 1e-9).all()
        ledger = energy_ledger(found)
        assert (np.diff(ledger.contact) > -1e-6 * ledger.scale).all()
        assert np.abs(ledger.residual).max() < 2e-3 * ledger.scale, ledger.drift()
    assert ledger.contact[-1] > 0.1


def test_native_and_interpreted_agree_and_a_batch_is_its_members():
    text = Robot(ARM.model, native=False)
    upper = np.array([b.joint.limits.upper for b in ARM.model.bodies])
    q, v = upper - np.random.default_rng(0).uniform(0.0, 0.05, (5, 3)), np.array([2.0, 4.0, -1.0])
    given = {"dt": 2e-3, "steps": 12, "integrator": "rk4", "effects": STOPS}
    batch = rollout(ARM, q, v, **given)
    assert batch.effect_history[0][:, -1].min() > 0.1
    plain = rollout(text, q[:2], v, **given)
    np.testing.assert_allclose(batch.q[:2], plain.q, atol=1e-9)
    alone = rollout(ARM, q[3], v, **given)
    np.testing.assert_array_equal(batch.q[3], alone.q)
    whole = rollout(ARM, q, v, **{**given, "steps": 5}).resume(steps=7)
    np.testing.assert_array_equal(whole.q[:, -1], batch.q[:, -1])


@pytest.mark.parametrize("ratio", [1.0, -2.0])
def test_joints_that_move_together_stop_at_the_nearest_of_their_stops(ratio):
    robot = coupled(ratio)
    found = rollout(robot, [0.0], [0.0], dt=1e-3, steps=600, integrator="rk4", effects=STOPS)
    assert found.status.ok, found.status
    assert found.effect_history[0][-1, 0] > 0.0
    # the follower, which turns by the ratio, has the nearer stop; many stops push no further
    assert np.abs(found.q[:, 0]).max() == pytest.approx(0.2 / abs(ratio), abs=1e-9)


def test_small_steps_agree_with_complementarity():
    # up to the second impact; after many of them motions part whatever the law
    q, steps = ARM.random(1), 8000
    ours = rollout(
        ARM, q, np.zeros(3), dt=1e-4, steps=steps, every=40, integrator="rk4", effects=STOPS
    )
    theirs = rollout(
        ARM, q, np.zeros(3), dt=1e-4, steps=steps, every=40, contact=ComplementarityContact(Scene())
    )
    assert ours.effect_history[0][-1, 0] > 0.1
    np.testing.assert_allclose(ours.q, theirs.q, atol=2e-2)


def test_joints_have_one_kind_of_stops():
    for more in ({"contact": ComplementarityContact(Scene())}, {"effects": [*STOPS, *STOPS]}):
        with pytest.raises(InvalidArgument, match="one kind of stops"):
            rollout(ARM, np.zeros(3), np.zeros(3), dt=1e-3, steps=1, **{"effects": STOPS, **more})


def test_springs_may_give_what_an_impact_asks_for():
    robot = Robot(qddot.load("quadrotor").model, native=True)
    scene = Scene([Plane()], spheres=[Sphere(robot.body_names[0], 0.1, name="ball")])
    soft = PenaltyContact.soft(scene)
    q, v = robot.neutral(), np.zeros((3, 6))
    q[2] = 0.1
    # a fast impact, and one that the springs of a lighter stiffness are not meant for
    v[1, 2], v[2, 2] = -3.0, -0.5
    found = rollout(robot, q, v, dt=2.5e-4, steps=400, effects=[soft])
    depth = 0.1 - found.q[..., 2].min(-1)
    assert depth[1] > 1e-2, "the impact has to be deeper than the springs are meant to give"
    assert found.status.label.tolist() == ["ok", "ok", "ok"]
    # an overlap that no impact explains is one, whatever the motion does later
    q[2] = 0.08
    assert rollout(robot, q, v, dt=2.5e-4, steps=4, effects=[soft]).status.of(0).label == (
        "penetration"
    )
