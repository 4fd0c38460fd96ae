"""Contact against closed forms: inclines, bounces, stacks, stops; and the ledger of it all."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from bare_rollouts import rollout
from contact_bodies import GRAVITY, ball, block, column, pendulum
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.control import PD
from qddot.errors import InvalidArgument
from qddot.robot.robot import Robot
from qddot.simulate import energy_ledger
from qddot.simulate.contact import (
    PRESETS,
    ComplementarityContact,
    Pair,
    PenaltyContact,
    PenaltyStops,
    Plane,
    Point,
    Scene,
    Sphere,
    contact_ledger,
)
from qddot.simulate.drivetrain import Friction, coulomb

FLAT = Plane()
FEET = [
    Point("block", (x, y, -0.05), f"corner {k}")
    for k, (x, y) in enumerate([(0.1, 0.1), (0.1, -0.1), (-0.1, 0.1), (-0.1, -0.1)])
]
ON_FLOOR = [0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0]
ANGLES = np.array([0.2, 0.45, 0.48, 0.6, 0.9])
MU = 0.5


def inclined(dt: float, steps: int, **how) -> tuple:
    """A block that starts at rest, on a floor that is level while gravity is not."""
    pull = GRAVITY * np.stack([np.sin(ANGLES), 0 * ANGLES, -np.cos(ANGLES)], axis=-1)
    found = rollout(
        block(), ON_FLOOR, np.zeros(6), dt=dt, steps=steps, parameters={"gravity": pull}, **how
    )
    return found, contact_ledger(found)


def test_a_block_sticks_or_slides_on_an_incline():
    law = ComplementarityContact(Scene(planes=[FLAT], points=FEET, friction=MU))
    found, ledger = inclined(1e-3, 300, contact=law)
    a = np.maximum(0.0, GRAVITY * (np.sin(ANGLES) - MU * np.cos(ANGLES)))
    assert (a > 0).tolist() == [False, False, True, True, True]
    np.testing.assert_allclose(found.v[:, -1, 0], a * 0.3, rtol=1e-6, atol=2e-5)
    np.testing.assert_allclose(found.q[:2, -1, 0], 0.0, atol=1e-9)
    weight = np.tile(2 * GRAVITY * np.cos(ANGLES)[:, None], (1, 280))
    np.testing.assert_allclose(ledger.total[:, 20:300, 2], weight, rtol=1e-6)
    ratio = np.where(a > 0, 1.0, np.tan(ANGLES) / MU)
    held = ledger.total[..., 0] / (-MU * ledger.total[..., 2])
    np.testing.assert_allclose(held[:, -1], ratio, rtol=1e-6)
    assert ledger.cone_ratio.max() <= 1.0 + 1e-9
    assert ledger.penetration < 1e-7
    assert ledger.residual.max() < 1e-4
    assert ledger.residual[:, 20:].max() < 1e-8
    assert np.abs(ledger.newton).max() < 1e-9


def test_a_plane_may_slope_itself():
    angle = 0.6
    n = np.array([np.sin(angle), 0.0, np.cos(angle)])
    slope = Plane(n, 0.3 * n)
    q = [*(0.35 * n), 0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]
    law = ComplementarityContact(Scene(planes=[slope], points=FEET, friction=MU))
    found = rollout(block(), q, np.zeros(6), dt=1e-3, steps=200, contact=law)
    a = GRAVITY * (np.sin(angle) - MU * np.cos(angle))
    np.testing.assert_allclose(found.v[-1], [a * 0.2, 0, 0, 0, 0, 0], atol=1e-5)
    ledger = contact_ledger(found)
    np.testing.assert_allclose(ledger.normal[-1], np.tile(n, (4, 1)), atol=1e-12)
    assert ledger.penetration < 1e-9


def test_penalty_sticks_and_slides_as_well():
    law = PenaltyContact(Scene(planes=[FLAT], points=FEET, friction=MU), 1e6, 1e3)
    found, ledger = inclined(1e-4, 5000, every=10, effects=[law])
    a = np.maximum(0.0, GRAVITY * (np.sin(ANGLES) - MU * np.cos(ANGLES)))
    np.testing.assert_allclose((found.v[:, -1] - found.v[:, -101])[:, 0] / 0.1, a, atol=2e-3)
    # what sticks does not creep, though the springs give
    assert np.abs(found.q[:2, -1, 0] - found.q[:2, 250, 0]).max() < 1e-9
    assert np.abs(found.q[:2, -1, 0]).max() < 1e-5
    assert ledger.cone_ratio.max() <= 1.0 + 1e-9
    assert np.abs(ledger.newton).max() < 1e-9


def test_sliding_to_rest():
    speed = np.array([0.5, 1.0, 2.0])
    law = ComplementarityContact(Scene(planes=[FLAT], points=FEET, friction=0.4))
    v = np.zeros((3, 6))
    v[:, :2] = speed[:, None] * [0.6, 0.8]
    found = rollout(block(), ON_FLOOR, v, dt=5e-4, steps=1200, contact=law)
    far = np.linalg.norm(found.q[:, -1, :2], axis=-1)
    np.testing.assert_allclose(far, speed**2 / (2 * 0.4 * GRAVITY), atol=5e-4 * speed.max())
    np.testing.assert_allclose(found.v[:, -1], 0.0, atol=1e-9)
    np.testing.assert_allclose(found.q[:, -1, 1] / found.q[:, -1, 0], 0.8 / 0.6, rtol=1e-6)


@pytest.mark.parametrize("damping", [100.0, 1e3])
def test_sliding_on_springs_to_rest(damping):
    """The way is v²/(2 μ g), and springs along the surface hold no more than (μ f)²/2k."""
    speed, k = np.array([0.5, 1.0, 2.0]), 1e5
    law = PenaltyContact(Scene(planes=[FLAT], points=FEET, friction=0.4), k, damping)
    q, v = np.array(ON_FLOOR), np.zeros((3, 6))
    q[2] -= 2 * GRAVITY / (4 * k)
    v[:, :2] = speed[:, None] * [0.6, 0.8]
    found = rollout(block(), q, v, dt=1e-4, steps=9000, effects=[law], record=True)
    assert found.status.ok, found.status
    far = np.linalg.norm(found.q[:, -1, :2], axis=-1)
    np.testing.assert_allclose(far, speed**2 / (2 * 0.4 * GRAVITY), rtol=3e-3)
    np.testing.assert_allclose(found.v[:, -1], 0.0, atol=1e-5)
    # friction while it slides
    pull = (speed[2] - np.linalg.norm(found.v[2, 2000, :2])) / 0.2
    assert pull == pytest.approx(0.4 * GRAVITY, rel=5e-3)
    stretch = found.effect_history[0].reshape(3, -1, 4, 3)
    force = k * np.linalg.norm(stretch, axis=-1).sum(-1)
    assert force[:, 1000:].max() <= 0.4 * 2 * GRAVITY * 1.01
    assert energy_ledger(found).spring.max() < 1e-2


@pytest.mark.parametrize("damping", [100.0, 1e3])
def test_a_ball_slides_into_rolling_on_springs(damping):
    """It slides for 2 v/(7 μ g) and rolls with 5/7 of its speed; no energy is gained."""
    law = PenaltyContact(Scene([FLAT], spheres=[Sphere("ball", 0.1)], friction=0.3), 1e5, damping)
    q, v = [0.0, 0.0, 0.1 - GRAVITY / 1e5, 0.0, 0.0, 0.0, 1.0], [2.0, 0, 0, 0, 0, 0]
    found = rollout(ball(), q, v, dt=1e-4, steps=4000, effects=[law], record=True)
    assert found.status.ok, found.status
    assert np.linalg.norm(found.v[-1, :3]) == pytest.approx(2.0 * 5 / 7, rel=2e-3)
    slides = 2 * 2.0 / (7 * 0.3 * GRAVITY)
    half = round(0.5 * slides / 1e-4)
    slow = 2.0 - 0.3 * GRAVITY * 0.5 * slides
    assert np.linalg.norm(found.v[half, :3]) == pytest.approx(slow, rel=2e-3)


@pytest.mark.parametrize("e", [0.0, 0.5, 0.8])
def test_a_ball_bounces(e):
    law = ComplementarityContact(
        Scene(planes=[FLAT], spheres=[Sphere("ball", 0.1)], restitution=e, friction=0.0)
    )
    found = rollout(ball(), [0, 0, 1.1, 0, 0, 0, 1], np.zeros(6), dt=1e-3, steps=2000, contact=law)
    height, speed = found.q[:, 2] - 0.1, found.v[:, 2]
    assert height.min() > -1e-12
    scene = dataclasses.replace(law.scene, restitution=np.array([e]))
    each = dataclasses.replace(law, scene=scene)
    start = [0, 0, 1.1, 0, 0, 0, 1]
    listed = rollout(ball(), start, np.zeros(6), dt=1e-3, steps=2000, contact=each)
    np.testing.assert_allclose(listed.q[0], found.q, atol=1e-12)
    hits = np.flatnonzero((speed[1:] > 0) & (speed[:-1] < 0))
    if e == 0.0:
        assert not hits.size
        np.testing.assert_allclose(height[-1], 0.0, atol=1e-12)
        return
    np.testing.assert_allclose(speed[hits[:3] + 1], -e * speed[hits[:3]], rtol=1e-12)
    assert found.time[hits[0]] == pytest.approx(np.sqrt(2 / GRAVITY), abs=2e-3)
    apex = [height[a:b].max() for a, b in itertools.pairwise(hits[:3])]
    np.testing.assert_allclose(apex, e ** (2 * np.arange(1, 1 + len(apex))), rtol=0.02)


def test_a_sliding_ball_ends_up_rolling():
    law = ComplementarityContact(Scene(planes=[FLAT], spheres=[Sphere("ball", 0.1)], friction=0.3))
    found = rollout(
        ball(), [0, 0, 0.1, 0, 0, 0, 1], [2.0, 0, 0, 0, 0, 0], dt=1e-3, steps=400, contact=law
    )
    ledger = contact_ledger(found)
    twist = ball(False).frame_velocity(found.q[-1], found.v[-1], "ball", "local_world_aligned")
    np.testing.assert_allclose(twist, [10 / 7, 0, 0, 0, 100 / 7, 0], atol=1e-9)
    # it slides until the speed has fallen by μ g t = 2/7 of it
    sliding = ledger.slip[:, 0] > 1e-9
    assert found.time[sliding].max() == pytest.approx(2 / 7 * 2.0 / (0.3 * GRAVITY), abs=2e-3)
    np.testing.assert_allclose(ledger.cone_ratio[sliding, 0], 1.0)


def test_overlap_is_removed_without_throwing_anything():
    law = ComplementarityContact(Scene(planes=[FLAT], spheres=[Sphere("ball", 0.1)]))
    found = rollout(ball(), [0, 0, 0.095, 0, 0, 0, 1], np.zeros(6), dt=1e-3, steps=60, contact=law)
    gap = found.q[:, 2] - 0.1
    np.testing.assert_allclose(gap, -0.005 * 0.5 ** np.arange(61.0), atol=1e-12)
    assert np.abs(found.v).max() < 1e-12


@pytest.mark.parametrize("masses", [(1.0, 2.0, 3.0), (0.01, 10.0, 1.0)])
def test_a_column_carries_what_is_above(masses):
    robot = column(*masses, native=True)
    spheres = [Sphere(f"b{k}", 0.05) for k in range(3)]
    scene = Scene(
        planes=[FLAT], spheres=spheres, pairs=[("b0", "ground"), ("b1", "b0"), ("b2", "b1")]
    )
    found = rollout(
        robot,
        [0.05, 0.151, 0.253],
        np.zeros(3),
        dt=1e-3,
        steps=400,
        contact=ComplementarityContact(scene),
    )
    ledger = contact_ledger(found)
    above = np.cumsum(masses[::-1])[::-1] * GRAVITY
    np.testing.assert_allclose(ledger.normal_force[-1], above, rtol=1e-3)
    np.testing.assert_allclose(ledger.normal[-1], np.tile([0, 0, 1.0], (3, 1)))
    assert ledger.bodies == (("b0", "world"), ("b1", "b0"), ("b2", "b1"))
    np.testing.assert_allclose(ledger.total[-1], [0, 0, above[0]], rtol=1e-3, atol=1e-9)
    assert ledger.penetration < (1e-5 if min(masses) > 0.1 else 1e-3)


def test_stops_by_complementarity():
    robot = pendulum(-0.4, 0.3, native=True)
    law = ComplementarityContact(Scene())
    found = rollout(robot, [[0.0], [-0.6]], [[0.0], [0.0]], dt=2e-3, steps=300, contact=law)
    assert found.q[0].max() < 0.3 + 1e-12
    np.testing.assert_allclose(found.q[:, -1, 0], 0.3, atol=1e-12)
    # beyond the lower stop it is put back without speed
    assert found.v[1, :4].max() < 0.2
    assert found.q[1, 20, 0] > -0.4
    ledger = contact_ledger(found)
    assert ledger.stops["hinge"][0, 0] == 0.0
    np.testing.assert_allclose(
        ledger.stops["hinge"][:, -1], -0.5 * GRAVITY * np.cos(0.3), rtol=1e-9
    )
    loose = rollout(
        robot,
        [0.0],
        [0.0],
        dt=2e-3,
        steps=300,
        contact=ComplementarityContact(Scene(), limits=False),
    )
    assert loose.q.max() > 1.0


def test_stops_by_penalty_give_way_by_a_cube_root():
    robot = pendulum(-np.inf, 0.3, effort=20.0, native=True)
    found = rollout(
        robot, [0.2], [0.0], dt=1e-3, steps=3000, effects=[PenaltyStops(dissipation=5.0)]
    )
    margin = (found.q[-1, 0] - 0.25) / 0.05
    load = 0.5 * GRAVITY * np.cos(found.q[-1, 0])
    assert margin == pytest.approx((load / 20.0) ** (1 / 3), abs=1e-3)
    stiff = rollout(
        robot,
        [0.2],
        [0.0],
        dt=1e-3,
        steps=3000,
        effects=[PenaltyStops(torque=load, dissipation=5.0)],
    )
    assert stiff.q[-1, 0] == pytest.approx(0.3, abs=1e-3)
    free = rollout(robot, [0.0], [0.1], dt=1e-3, steps=5)
    near = rollout(robot, [0.0], [0.1], dt=1e-3, steps=5, effects=[PenaltyStops()])
    np.testing.assert_array_equal(free.q, near.q)


def test_stops_need_an_effort():
    robot = pendulum(-0.4, 0.3, effort=np.inf)
    with pytest.raises(InvalidArgument, match=r"stops of joint 'hinge'.*torque="):
        rollout(robot, [0.0], [0.0], dt=1e-3, steps=1, effects=[PenaltyStops()])


def test_friction_of_a_joint_is_solved_with_contact():
    robot, scene = column(2.0), Scene(planes=[FLAT], spheres=[Sphere("b0", 0.05)])
    how = {
        "dt": 1e-3,
        "contact": ComplementarityContact(scene),
        "effects": [Friction(coulomb(5.0))],
    }
    falling = rollout(robot, [0.2], [0.0], steps=100, **how)
    assert falling.v[-1, 0] == pytest.approx(-(GRAVITY - 5.0 / 2.0) * 0.1, rel=1e-9)
    lying = rollout(robot, [0.05], [0.0], [-30.0], steps=20, **how)
    np.testing.assert_allclose(lying.v, 0.0, atol=1e-12)
    # pulled up with less than its weight and the friction, it leaves the floor but does not rise
    hanging = rollout(robot, [0.05], [0.0], [2.0 * GRAVITY + 4.0], steps=20, **how)
    np.testing.assert_allclose(hanging.v, 0.0, atol=1e-12)
    rising = rollout(robot, [0.05], [0.0], [2.0 * GRAVITY + 9.0], steps=20, **how)
    assert rising.v[-1, 0] == pytest.approx((9.0 - 5.0) / 2.0 * 0.02, rel=1e-9)


def test_friction_dissipates_most():
    """A finger that drags on the floor is pulled straight against its slip."""
    robot = Robot(qddot.load("panda").model, native=True)
    q = np.array([0.3, 0.4, -0.2, -1.9, 0.1, 2.2, 0.5])
    tip = robot.model.frames[-1].name
    height = robot.frame_pose(q, tip)[2, 3] - 0.05
    floor = Plane(point=(0, 0, height))
    scene = Scene(planes=[floor], spheres=[Sphere(tip, 0.05)], friction=0.3)
    v = np.array([1.0, 0.2, 0.8, -0.3, 0.2, 0.4, 0.1])
    law = ComplementarityContact(scene, sweeps=40, limits=False)
    found = rollout(robot, q, v, dt=1e-3, steps=5, contact=law)
    ledger = contact_ledger(found)
    assert ledger.residual[:-1].max() < 1e-7
    pressed = (ledger.normal_force[:-1, 0] > 1.0) & (ledger.slip[:-1, 0] > 0.05)
    assert pressed.sum() >= 3
    np.testing.assert_allclose(ledger.cone_ratio[:-1][pressed], 1.0, rtol=1e-9)
    lever = ledger.point[:-1, 0] - robot.frame_pose(found.q[:-1], tip)[:, :3, 3]
    # joints that turn have the same velocities at both ends of a step
    after = robot.frame_velocity(found.q[:-1], found.v[1:], tip, "local_world_aligned")
    slip = after[:, :3] + np.cross(after[:, 3:], lever)
    f = ledger.force[:-1, 0]
    for a, b in zip(f[pressed][:, :2], slip[pressed][:, :2], strict=True):
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) == pytest.approx(-1.0, abs=1e-8)


@pytest.mark.parametrize("preset", PRESETS)
def test_springs_give_what_statics_say(preset):
    law = getattr(PenaltyContact, preset)(Scene(planes=[FLAT], points=FEET))
    depth = 2 * GRAVITY / (4 * law.stiffness)
    q = [0, 0, 0.05 - depth, 0, 0, 0, 1]
    dt = 0.5 * law.largest_step(0.1)
    found = rollout(block(), q, np.zeros(6), dt=dt, steps=100, effects=[law])
    ledger = contact_ledger(found)
    np.testing.assert_allclose(ledger.gap[-1], -depth, rtol=1e-6)
    np.testing.assert_allclose(ledger.total[-1], [0, 0, 2 * GRAVITY], rtol=1e-9, atol=1e-9)
    assert depth < PRESETS[preset].tolerance


@pytest.mark.parametrize(("share", "stable"), [(0.95, True), (1.1, False)])
def test_the_largest_step_of_a_spring(share, stable):
    law = PenaltyContact(Scene(planes=[FLAT], points=[Point("b0")], friction=0.0), 1e5, 200.0)
    dt = share * law.largest_step(2.0)
    rest = -2.0 * GRAVITY / 1e5
    found = rollout(column(2.0), [rest * 1.01], [0.0], dt=dt, steps=80, effects=[law])
    assert (np.abs(found.q[-1, 0] - rest) < np.abs(0.01 * rest)) == stable


def test_springs_hold_the_energy_that_they_took():
    law = PenaltyContact(Scene(planes=[FLAT], points=[Point("b0")], friction=0.0), 1e4, 0.0)
    robot = column(2.0, native=True)
    found = rollout(robot, [0.1], [0.0], dt=2e-5, steps=9000, every=100, effects=[law])
    total = robot.kinetic_energy(found.q, found.v) + robot.potential_energy(found.q)
    stored = law.elastic_energy(
        robot.model, [found.q[:, 0]], list(np.moveaxis(found.effect_history[0], -1, 0))
    )
    assert stored.max() > 0.5 * 2 * GRAVITY * 0.1
    np.testing.assert_allclose(total + stored, total[0], atol=2e-3 * 2 * GRAVITY * 0.1)


def test_native_code_takes_the_same_steps():
    scene = Scene(
        planes=[FLAT],
        spheres=[Sphere("b0", 0.05), Sphere("b1", 0.05)],
        pairs=[Pair("b0", "ground", restitution=0.5), ("b1", "b0")],
    )
    q = np.array([[0.06, 0.17], [0.04, 0.16], [0.3, 0.5]])
    v = np.array([[-1.0, 0.0], [0.0, -0.5], [0.0, 0.0]])
    for how in (
        {"contact": ComplementarityContact(scene)},
        {"effects": [PenaltyContact.soft(scene)], "integrator": "rk4"},
        {"contact": ComplementarityContact(scene), "integrator": "implicit_damping"},
    ):
        native, text = (
            rollout(column(1.0, 0.5, native=way), q, v, dt=1e-3, steps=40, every=4, **how)
            for way in (True, False)
        )
        for a, b in (
            (native.q, text.q),
            (native.v, text.v),
            (native.effect_history[0], text.effect_history[0]),
        ):
            np.testing.assert_allclose(a, b, atol=1e-10)
        np.testing.assert_allclose(native.effect_history[0][:, -1], native.effect_states[0])


def test_one_bad_state_spoils_no_other():
    scene = Scene(planes=[FLAT], spheres=[Sphere("ball", 0.1)])
    q = np.tile([0, 0, 0.1, 0, 0, 0, 1.0], (3, 1))
    q[1, 2] = np.nan
    for how in (
        {"contact": ComplementarityContact(scene)},
        {"effects": [PenaltyContact.soft(scene)]},
    ):
        found = rollout(ball(), q, np.zeros(6), dt=1e-3, steps=50, **how)
        alone = rollout(ball(), q[0], np.zeros(6), dt=1e-3, steps=50, **how)
        for k in (0, 2):
            np.testing.assert_array_equal(found.q[k], alone.q)
        assert np.isnan(found.q[1, -1]).any()
        ledger = contact_ledger(found)
        assert ledger.total[2, -1, 2] == pytest.approx(GRAVITY, rel=0.2)


def test_the_ledger_finds_the_forces_of_the_rollout():
    """What it solves again from the samples is what the compiled steps kept."""
    scene = Scene(planes=[FLAT], points=FEET, friction=0.3)
    law, v = ComplementarityContact(scene), [0.5, 0.1, -0.2, 1.0, 0.4, 2.0]
    q = [0, 0, 0.08, 0.1, 0.05, 0, 1.0]
    mass = np.array([1.0, 1.7])
    inertia = block().inertial_parameters * mass[:, None, None]
    how = {"dt": 1e-3, "contact": law, "parameters": {"inertia": inertia}}
    found = rollout(block(), q, v, steps=200, **how)
    ledger = contact_ledger(found)
    impulse = found.effect_history[0][..., 1:, :12].reshape(2, 200, 4, 3)
    # sweeps end at 1e-8 m/s, one earlier or later by rounding: so much force on 1.7 kg in 1 ms
    np.testing.assert_allclose(ledger.force[:, :-1], impulse / 1e-3, atol=1.7e-5)
    assert ledger.normal_force.max() > 100.0
    assert np.abs(ledger.newton).max() < 1e-8
    momentum = (
        mass[:, None]
        * 2.0
        * block()
        .frame_velocity(found.q, found.v, "block", "local_world_aligned")[..., :3]
        .transpose(2, 0, 1)
    )
    pushed = np.diff(momentum, axis=-1).transpose(1, 2, 0) / 1e-3
    weight = np.array([0, 0, -GRAVITY]) * 2.0 * mass[:, None, None]
    np.testing.assert_allclose(pushed, ledger.total[:, :-1] + weight, atol=1e-7)
    few = contact_ledger(rollout(block(), q, v, steps=200, every=20, **how))
    np.testing.assert_allclose(few.wrench, ledger.wrench[:, ::20], atol=1e-7)


def test_entries_of_the_ledger():
    scene = Scene(planes=[FLAT], spheres=[Sphere("ball", 0.1)], friction=0.3)
    found = rollout(
        ball(), [0, 0, 0.1, 0, 0, 0, 1], [[2.0, 0, 0, 0, 0, 0], np.zeros(6)], dt=1e-3, steps=3,
        contact=ComplementarityContact(scene),
    )  # fmt: skip
    ledger = contact_ledger(found)
    (entry,) = ledger.at(1, 0)
    assert (entry.names, entry.body, entry.other, entry.frame) == (
        *(("ball", "ground"), "ball", "world", "ball"),
    )
    np.testing.assert_allclose(
        entry.wrench, [-0.3 * GRAVITY, 0, GRAVITY, 0, 0.03 * GRAVITY, 0], atol=1e-9
    )
    assert entry.cone_ratio == pytest.approx(1.0)
    assert entry.slip == pytest.approx(2.0 - 3.5 * 0.3 * GRAVITY * 2e-3, abs=1e-9)
    text = ledger.table(1, 0)
    assert "ball on ground (ball)" in text
    assert "-2.943" in text
    assert "9.810" in text
    for sample, index in ((9, 0), (0, 2), (0, ())):
        with pytest.raises(InvalidArgument, match="place in the ledger"):
            ledger.at(sample, index)


def test_a_robot_that_stands_on_a_mounting_has_its_reaction_left():
    robot = pendulum(-1.0, 0.3)
    found = rollout(
        robot, [0.0], [0.0], dt=1e-3, steps=400, contact=ComplementarityContact(Scene())
    )
    ledger = contact_ledger(found)
    np.testing.assert_allclose(ledger.newton[-1, :3], [0, 0, GRAVITY], atol=1e-6)


def test_what_is_refused():
    scene = Scene(planes=[FLAT], spheres=[Sphere("ball", 0.1)])
    robot, q, v = ball(False), [0, 0, 1, 0, 0, 0, 1], np.zeros(6)
    for wrong, message in (
        ({"contact": PenaltyContact(scene)}, "one of the effects"),
        ({"contact": "hard"}, "ComplementarityContact"),
        ({"effects": [ComplementarityContact(scene)]}, "contact=…"),
        ({"contact": ComplementarityContact(scene), "integrator": "rk4"}, "semi_implicit"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            rollout(robot, q, v, dt=1e-3, steps=1, **wrong)
    for make, message in (
        (lambda: ComplementarityContact(None), "a Scene"),
        (lambda: ComplementarityContact(scene, sweeps=0), "whole number"),
        (lambda: ComplementarityContact(scene, correction=2.0), "from 0 to 1"),
        (lambda: PenaltyContact(scene, stiffness=0.0), "stiffness.*above 0"),
        (lambda: PenaltyContact(scene, damping=np.inf), "damping"),
        (lambda: PenaltyStops(margin=-1), "margin"),
        (lambda: PenaltyContact(scene).largest_step(0.0), "kg above zero"),
        (lambda: contact_ledger(rollout(robot, q, v, dt=1e-3, steps=1)), "without contact"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            make()


def test_no_steps_and_no_shapes():
    law = ComplementarityContact(Scene(planes=[FLAT]))
    found = rollout(ball(False), [0, 0, 1, 0, 0, 0, 1], np.zeros(6), dt=1e-3, steps=0, contact=law)
    ledger = contact_ledger(found)
    assert ledger.gap.shape == (1, 0)
    assert ledger.penetration == 0.0
    assert "sum" in ledger.table()
    flying = rollout(ball(False), [0, 0, 1, 0, 0, 0, 1], np.zeros(6), dt=1e-3, steps=3, contact=law)
    plain = rollout(ball(False), [0, 0, 1, 0, 0, 0, 1], np.zeros(6), dt=1e-3, steps=3)
    np.testing.assert_allclose(flying.q, plain.q, atol=1e-15)


def test_feedback_and_contact_together():
    """A slider pressed on the floor by a spring law: the floor carries weight and spring."""
    law = ComplementarityContact(Scene(planes=[FLAT], spheres=[Sphere("b0", 0.05)]))
    follow = {"q_ref": [-0.05], "v_ref": [0.0]}
    found = rollout(
        column(1.0), [0.05], [0.0], dt=1e-3, steps=5, feedback=PD(300.0, 1.0), contact=law, **follow
    )
    np.testing.assert_allclose(contact_ledger(found).normal_force, GRAVITY + 30.0, rtol=1e-9)


def test_the_largest_step_of_several_springs_is_that_of_the_stiffest():
    scene = Scene(planes=[Plane()])
    each = [PenaltyContact(scene, k, 10.0).largest_step(1.0) for k in (1e3, 1e5)]
    together = PenaltyContact(scene, np.array([1e3, 1e5]), 10.0)
    assert together.largest_step(1.0) == min(each)
