"""A rollout has the physics of the description: damping, friction, springs, limits, armature."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.errors import InvalidArgument, UnknownName
from qddot.robot.robot import Robot
from qddot.simulate.contact import RigidStops
from qddot.simulate.drivetrain import Backlash, ModelLosses
from qddot.simulate.file_physics import PHYSICS

MASS, DT = 2.0, 1e-2


def slider(**joint: object) -> Robot:
    """A mass on a rail, with the properties of its joint."""
    moving = {"name": "mass", "parent": "rail", "joint": "prismatic", "axis": (1.0, 0.0, 0.0)}
    links = [
        {"name": "rail", "parent": None, "joint": "fixed"},
        {**moving, "mass": MASS, "inertia": (0.1, 0.1, 0.1), **joint},
    ]
    return Robot.from_links("slider", links)


def last_state(robot: Robot, q: float, v: float, **choices: object) -> tuple[float, float]:
    """Position and velocity after a second."""
    found = robot.rollout([q], [v], dt=DT, steps=100, **choices)
    assert found.status.ok
    return float(found.q[-1, 0]), float(found.v[-1, 0])


def test_damping_slows_down_as_the_exponential_does():
    robot = slider(damping=5.0)
    rate = 5.0 / MASS
    x, v = last_state(robot, 0.0, 1.0)
    # rk4: an error of (rate Δt)⁵ / 120 a step, 1e-8 in a second
    assert v == pytest.approx(math.exp(-rate), rel=1e-7)
    assert x == pytest.approx((1.0 - math.exp(-rate)) / rate, rel=1e-7)
    assert last_state(robot, 0.0, 1.0, without="damping") == pytest.approx((1.0, 1.0), rel=1e-12)


def test_damping_too_fast_for_the_step_is_stable():
    robot = slider(damping=1e5)
    x, v = last_state(robot, 0.0, 1.0)
    assert abs(v) < 1e-12
    assert 0.0 <= x < DT


@pytest.mark.parametrize("integrator", [None, "semi_implicit", "implicit_damping"])
def test_dry_friction_stops_a_joint_and_holds_it(integrator):
    robot = slider(friction=3.0)
    stop = 0.5 * MASS * 1.0**2 / 3.0
    x, v = last_state(robot, 0.0, 1.0, integrator=integrator)
    assert v == 0.0
    assert x == pytest.approx(stop, abs=1e-2)
    # held by friction against a torque below its level
    found = robot.rollout([0.1], [0.0], [2.9], dt=DT, steps=50, integrator=integrator)
    np.testing.assert_array_equal(found.q[:, 0], 0.1)
    assert last_state(robot, 0.0, 1.0, integrator=integrator, without="friction")[1] == 1.0


def test_springs_swing_at_their_frequency():
    robot = slider(stiffness=50.0)
    omega = math.sqrt(50.0 / MASS)
    x, v = last_state(robot, 0.3, 0.0)
    assert x == pytest.approx(0.3 * math.cos(omega), abs=1e-6)
    assert v == pytest.approx(-0.3 * omega * math.sin(omega), abs=1e-5)
    assert last_state(robot, 0.3, 0.0, without="springs") == (0.3, 0.0)


def test_springs_too_fast_for_the_step_are_stable_and_said():
    found = slider(stiffness=1e7).rollout([0.01], [0.0], dt=DT, steps=100)
    assert found.status.ok
    assert "at the end of the step" in found.status.notes[0]
    assert abs(found.q[-1, 0]) < 1e-6


def test_joints_stop_at_their_limits():
    robot = slider(limits=(-1.0, 0.5))
    assert last_state(robot, 0.0, 1.0) == pytest.approx((0.5, 0.0), abs=1e-9)
    found = robot.rollout([0.0], [1.0], dt=DT, steps=100, without="limits")
    assert found.q[-1, 0] == pytest.approx(1.0)
    assert found.status.of().label == "limit_violated"


def test_armature_is_inertia():
    robot = slider(armature=1.0)
    v = [robot.rollout([0.0], [0.0], [6.0], dt=DT, steps=100, without=x).v[-1, 0]
         for x in ((), "armature", "passive")]  # fmt: skip
    np.testing.assert_allclose(v, [6.0 / (MASS + 1.0), 6.0 / MASS, 6.0 / (MASS + 1.0)])


def test_passive_is_forward_dynamics():
    robot = qddot.load("double_pendulum")
    q, v, tau = np.array([1.0, 0.5]), np.array([2.0, -1.0]), np.array([0.3, 0.1])
    found = robot.rollout(q, v, tau, dt=1e-6, steps=1, integrator="euler", without="passive")
    np.testing.assert_allclose(
        (found.v[1] - v) / 1e-6, robot.forward_dynamics(q, v, tau), rtol=1e-7
    )
    assert found.status.notes == ("switched off: damping, friction, springs, limits",)
    # with its losses it is forward dynamics with friction
    lossy = robot.rollout(q, v, tau, dt=1e-6, steps=1, integrator="rk4")
    expected = robot.forward_dynamics(q, v, tau, friction=True)
    np.testing.assert_allclose((lossy.v[1] - v) / 1e-6, expected, atol=2e-4)
    assert lossy.status.notes == ()


def test_an_effect_takes_the_place_of_what_it_stands_for():
    robot = slider(damping=5.0, friction=0.3, stiffness=50.0, limits=(-0.2, 0.2))
    given = {"dt": DT, "steps": 40, "integrator": "semi_implicit"}
    own = robot.rollout([0.1], [1.0], **given)
    same = robot.rollout([0.1], [1.0], effects=[ModelLosses(), RigidStops()], **given)
    np.testing.assert_allclose(own.q, same.q, atol=1e-12)
    kinds = [type(effect) for effect in own.step.effects]
    assert kinds == [ModelLosses, RigidStops]
    assert len(same.step.effects) == 2


def test_backlash_takes_the_place_of_the_springs_of_its_joints():
    arm = qddot.load("planar_2r").with_flexible_joints(stiffness=2000.0, motor_inertia=0.05)
    sim = arm.simulator(dt=5e-4, effects=[Backlash({"joint1": 0.01}, damping=2.0)])
    losses = next(effect for effect in sim.step.effects if isinstance(effect, ModelLosses))
    assert losses.springs
    assert losses.teeth == ("joint1.spring",)
    q = [0.0, 0.3, 0.0, 0.2]
    energy = float(losses.elastic_energy(arm.model, q, []))
    assert energy == pytest.approx(0.5 * 2000.0 * 0.2**2)


def test_words_that_do_not_exist_or_contradict_are_refused():
    robot = slider(damping=1.0)
    with pytest.raises(UnknownName, match="'damping'"):
        robot.simulator(dt=DT, without="dampings")
    with pytest.raises(InvalidArgument, match="armature"):
        robot.simulator(dt=DT, without=3)
    with pytest.raises(InvalidArgument, match="one of the parameters"):
        robot.simulator(dt=DT, without="passive", parameters=("friction",))
    assert PHYSICS == ("damping", "friction", "springs", "limits", "armature")


def test_physics_that_no_rollout_has_is_noted():
    text = """<mujoco><worldbody><body name="a"><joint name="j" axis="0 0 1"/><geom size=".1"/>
      <site name="s"/></body><site name="w" pos="1 0 0"/></worldbody>
      <tendon><spatial name="cable" stiffness="10"><site site="s"/><site site="w"/></spatial>
      </tendon></mujoco>"""
    mujoco = pytest.importorskip("mujoco", reason="reads MJCF")
    with pytest.warns(UserWarning, match="cable"):
        robot = qddot.load(mujoco.MjModel.from_xml_string(text))
    found = robot.rollout([0.1], [0.0], dt=DT, steps=1)
    assert found.status.ok
    assert any("cable" in note and "stiffness" in note for note in found.status.notes)


def test_python_and_command_line_take_the_same_steps():
    robot = qddot.load("planar_2r")
    args = ["simulate", "planar_2r", "--time", "0.05", "--state", "0.3,0.2", "--json"]
    for words in ("", "limits,friction"):
        result = CliRunner().invoke(app, [*args, "--without", words])
        there = json.loads(result.stdout)
        without = [word for word in words.split(",") if word]
        here = robot.rollout([0.3, 0.2], [0.0, 0.0], dt=1e-3, steps=50, without=without)
        assert there["integrator"] == here.integrator
        assert there["status"]["notes"] == list(here.status.notes)
        np.testing.assert_array_equal(there["end"]["q"], here.q[-1])
