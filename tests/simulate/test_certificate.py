"""Motions to a tolerance against SciPy, and the certificate against the theory of integrators."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import runpy
from pathlib import Path

import mujoco
import numpy as np
import pytest
from bare_rollouts import rollout
from native_cases import cold_cache  # noqa: F401
from rollouts import start, tree, undamped
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.control import PD
from qddot.errors import BatchMismatch, InvalidArgument, ShapeMismatch, UnknownName, Unsupported
from qddot.robot.robot import Robot
from qddot.simulate import certificate, certify, integrate_adaptive
from qddot.simulate.certificate import USES, Measurement, plot
from qddot.simulate.trial import Trial, random_states

DOCS = Path(__file__).resolve().parents[2] / "docs"
FLEXIBLE = "planar 2R, joints of 2·10⁴ N m/rad"


TWO_LINKS = """
<mujoco><compiler angle="radian" autolimits="true"/><default><joint axis="0 1 0" {}/></default>
<worldbody><body><joint name="a"/><geom size="0.1" pos="0 0 -0.5" mass="1"/>
<body pos="0 0 -0.6"><joint name="b"/><geom size="0.1" pos="0 0 -0.3" mass="0.5"/></body></body>
</worldbody></mujoco>"""


def two_links(joints: str, native: bool = True) -> Robot:
    robot = qddot.load(mujoco.MjModel.from_xml_string(TWO_LINKS.format(joints)))
    return Robot(robot.model, native=native)


def pendulum(native: bool = True) -> Robot:
    return Robot(qddot.load("double_pendulum").model, native=native)


@pytest.mark.parametrize("native", [True, False])
def test_damping_and_springs_of_the_file_act_at_any_clock(native):
    robot = two_links('damping="0.3" stiffness="4" springref="0.5" armature="0.02"', native)

    def rate(t, y):
        q, v = y[:2], y[2:]
        return np.concatenate([v, robot.forward_dynamics(q, v, tau - robot.friction(q, v))])

    tau, y0 = np.array([0.2, -0.1]), np.array([0.4, -0.3, 1.0, 2.0])
    exact = solve_ivp(rate, (0, 2), y0, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    for first in (0.0, 1.7e9):
        found = integrate_adaptive(robot, y0[:2], y0[2:], tau, [first, first + 2.0])
        assert found.done
        np.testing.assert_allclose([*found.q[-1], *found.v[-1]], exact, atol=1e-6)
        assert found.time[-1] == first + 2.0


def test_physics_that_is_not_smooth_is_refused_by_name():
    robot = two_links('frictionloss="0.1" range="-1 1"')
    zero = np.zeros(2)
    with pytest.raises(Unsupported, match=r"it has friction, .*without=\['limits', 'friction'\]"):
        integrate_adaptive(robot, zero, zero, None, [0.0, 0.1])
    with pytest.raises(Unsupported, match="it has friction and limits"):
        integrate_adaptive(robot, zero, zero, None, [0.0, 0.1], without=())
    assert integrate_adaptive(robot, zero, zero, None, [0.0, 0.1], without="passive").done


def test_a_chaotic_pendulum_is_followed_to_the_tolerance():
    robot, zero = pendulum(), np.zeros(2)

    def rate(t, y):
        return np.concatenate([y[2:], robot.forward_dynamics(y[:2], y[2:], zero)])

    def end(start, tolerance):
        found = integrate_adaptive(
            robot, start[:2], start[2:], None, [0, 10], tolerance, tolerance, without="passive"
        )
        assert found.done
        return np.concatenate([found.q[-1], found.v[-1]])

    y0 = np.array([2.0, 0.5, 0.0, 0.0])
    exact = solve_ivp(rate, (0, 10), y0, method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    coarse, fine = (np.abs(end(y0, x) - exact).max() for x in (1e-9, 1e-10))
    # an error at the start grows by more than a million
    assert np.abs(end(y0 + 1e-7, 1e-9) - exact).max() > 0.3
    assert fine < 2e-2
    assert math.log10(coarse / fine) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("kinds", [("free", "revolute"), ("ball", "prismatic"), ("planar",)])
def test_motions_on_manifolds_are_those_of_fine_fixed_steps(kinds):
    robot = Robot(undamped(tree(*kinds)).model, native=True)
    q, v = start(robot)
    tau = np.random.default_rng(1).normal(size=(2, robot.nv))
    found = integrate_adaptive(robot, q, v, tau, [0.0, 0.15, 0.3], 1e-11, 1e-12)
    exact = rollout(robot, q, v, tau, dt=1e-3, steps=300, every=150, integrator="dormand_prince")
    np.testing.assert_allclose(robot.difference(exact.q, found.q), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.v, exact.v, atol=1e-9)


def test_each_state_of_a_batch_has_its_own_steps():
    robot = pendulum(native=False)
    q = np.array([[0.1, 0.0], [2.0, 1.0], [np.nan, 0.0]])
    v = np.array([[0.0, 0.0], [30.0, -20.0], [0.0, 0.0]])
    found = integrate_adaptive(robot, q, v, None, [0.0, 0.04, 0.08], 1e-6, 1e-8)
    assert found.q.shape == (3, 3, 2)
    assert found.done.tolist() == [True, True, False]
    assert np.isnan(found.q[2, 1:]).all()
    assert found.accepted[1] > found.accepted[0] > 0
    for k in range(2):
        alone = integrate_adaptive(robot, q[k], v[k], None, [0.0, 0.04, 0.08], 1e-6, 1e-8)
        np.testing.assert_array_equal(alone.q, found.q[k])
    native = integrate_adaptive(pendulum(), q, v, None, [0.0, 0.04, 0.08], 1e-6, 1e-8)
    np.testing.assert_allclose(native.q, found.q, rtol=1e-9)


def test_a_state_that_needs_too_many_steps_is_given_up():
    found = integrate_adaptive(pendulum(), [2.0, 1.0], [0, 0], None, [0, 5, 10], most_steps=20)
    assert not found.done
    assert found.accepted + found.rejected == 20
    assert np.isnan(found.q[1:]).all()


def test_nothing_to_integrate_is_no_error():
    still = integrate_adaptive(tree("fixed"), [], [], None, [0.0, 1.0])
    assert still.q.shape == (2, 0)
    none = integrate_adaptive(pendulum(), np.zeros((0, 2)), [0, 0], None, [0.0, 1.0])
    assert none.q.shape == (0, 2, 2)
    once = integrate_adaptive(pendulum(), [0.1, 0.2], [0, 0], None, [0.0])
    np.testing.assert_array_equal(once.q, [[0.1, 0.2]])
    wild = integrate_adaptive(pendulum(), [0.1, 0.2], [[1e200, 0], [np.inf, 0]], None, [0.0, 1.0])
    assert not wild.done.any()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"times": [0.0, 0.0]}, InvalidArgument, "increase"),
        ({"times": "soon"}, InvalidArgument, "seconds"),
        ({"times": []}, InvalidArgument, "increase"),
        ({"rtol": 0.0}, InvalidArgument, "above zero"),
        ({"q0": [0.0]}, ShapeMismatch, "q0"),
        ({"v0": "ab"}, InvalidArgument, "numbers"),
        ({"tau": np.zeros((3, 2))}, ShapeMismatch, "tau"),
        ({"q0": np.zeros((3, 2)), "v0": np.zeros((4, 2))}, BatchMismatch, "broadcast"),
    ],
)
def test_what_cannot_be_integrated_is_said(changes, error, words):
    given = {"q0": [0, 0], "v0": [0, 0], "tau": None, "times": [0.0, 1.0]} | changes
    with pytest.raises(error, match=words):
        integrate_adaptive(pendulum(), **given)


def test_a_certificate_finds_what_theory_says(tmp_path):
    # slow motions, whose errors go with the order of the step
    start = {"q": [[0.4, 0.1], [-0.2, 0.3]], "v": [[0.0, 0.5], [0.1, 0.0]]}
    found = certify(pendulum(), dt=2e-3, without="passive", **start)
    rows = {row.name: row for row in found.rows}
    for row in found.rows:
        assert row.observed == pytest.approx(row.order, abs=0.15)
        assert row.cost > 0.0
        assert math.isnan(row.momentum)
    omega = found.frequency
    assert rows["euler"].stable == 0.0
    assert rows["semi_implicit"].stable * omega == pytest.approx(2.0, rel=0.02)
    assert rows["rk4"].stable * omega == pytest.approx(2.0 * math.sqrt(2.0), rel=0.02)
    for name in ("backward_euler", "implicit_midpoint", "variational"):
        assert rows[name].stable == math.inf
    behaviour = {name: row.behaviour for name, row in rows.items()}
    assert (behaviour["euler"], behaviour["backward_euler"]) == ("gains", "loses")
    assert behaviour["variational"] == "bounded"
    assert [x.use for x in found.recommendations] == ["offline", "MPC rollout", "RL", "inner loop"]
    for choice in found.recommendations:
        assert choice.integrator != "euler"
        assert choice.dt <= 0.5 * rows[choice.integrator].stable
    plot(found, tmp_path / "found.png")
    assert (tmp_path / "found.png").stat().st_size > 10_000


def test_a_floating_robot_is_judged_by_its_momentum():
    robot = undamped(tree("free", "revolute")).with_gravity((0.0, 0.0, 0.0))
    found = certify(robot, dt=0.01, integrators=["semi_implicit", "variational"])
    euler, variational = found.rows
    assert found.floating
    assert math.isnan(euler.stable)
    assert variational.momentum < 1e-11 < 1e-6 < euler.momentum


def test_the_longest_step_was_measured_and_so_were_all_shorter_ones():
    dts = np.array([0.04, 0.02, 0.01, 0.005])
    errors = np.array([1e-3, 5e-3, 1e-4, 1e-5])
    row = Measurement("x", 2, 2.0, dts, errors, np.zeros(8), 0.0, 0.0, math.nan, 1e-6)
    # 0.04 is good by luck: 0.02 is not
    assert row.longest(1e-3) == 0.01
    assert row.longest(1e-2) == 0.04
    assert row.longest(1e-2, most=0.015) == 0.01
    assert math.isnan(row.longest(1e-6))
    assert row.error_at(0.01) == 1e-4


@pytest.fixture
def spring_and_mass(tmp_path) -> Robot:
    """A mass of 2 kg on a spring of 2·10⁴ N/m, ω = 100 rad/s, that slides level."""
    file = tmp_path / "spring.xml"
    file.write_text("""<mujoco><worldbody><body>
    <joint type="slide" axis="1 0 0" stiffness="2e4"/><geom type="sphere" size="0.1" mass="2"/>
    </body></worldbody></mujoco>""")
    return qddot.load(file)


def test_the_plant_that_is_tested_has_the_springs_of_the_file(spring_and_mass):
    found = certify(spring_and_mass, integrators=["rk4"])
    assert found.frequency == pytest.approx(100.0, rel=1e-6)
    (row,) = found.rows
    # the closed form: rk4 turns the phase by (ω Δt)⁵/120 too little and shrinks the amplitude by
    # (ω Δt)⁶/144 a step, over 0.5 s
    k = int(np.argmin(np.abs(row.dts - 1e-3)))
    amplitude = 1.0 / 100.0 * math.sqrt(2.0)
    bound = amplitude * 0.5 / 1e-3 * (0.1**5 / 120.0 + 0.1**6 / 144.0)
    assert 0.4 * bound < row.errors[k] < bound
    assert row.observed == pytest.approx(4.0, abs=0.1)
    bare = certify(spring_and_mass, integrators=["rk4"], without=["springs"])
    assert bare.frequency == 0.0
    assert bare.rows[0].errors.max() < 1e-9


def test_feedback_and_the_states_of_the_user_are_part_of_the_plant(spring_and_mass):
    robot = spring_and_mass
    held = {"feedback": PD(kp=6e4, kd=0.0), "q_ref": [0.0], "v_ref": [0.0]}
    start = {"q": [[0.01], [0.0]], "v": [[0.0], [1.0]]}
    found = certify(robot, integrators=["semi_implicit"], **held, **start)
    assert (found.states, found.random) == (2, False)
    # the law acts at the start of a step; a spring with ω Δt above 1 at its end: then the step
    # (m + Δt² k) v⁺ = m v − Δt (kp + k) q is stable while Δt² (kp − k) ≤ 4 m
    assert found.rows[0].stable == pytest.approx(2.0 * math.sqrt(2.0 / 4e4), rel=0.02)
    for changes, words in (
        ({"q": [[0.0]]}, "both"),
        ({"q": np.zeros((3, 1)), "v": np.zeros((2, 1))}, "states"),
        ({"feedback": lambda t, q, v: q}, "compiled"),
        ({"without": "gravity"}, "gravity"),
    ):
        with pytest.raises((InvalidArgument, UnknownName), match=words):
            certify(robot, integrators=["rk4"], **changes)


def test_random_states_have_speeds_within_limits_and_stiff_springs_near_balance():
    robot = qddot.load("planar_2r").with_flexible_joints(2e4, motor_inertia=0.1)
    q, v = random_states(robot, np.random.default_rng(0), 400)
    limits, names = robot.limits, robot.model.velocity_names
    motors = [k for k, name in enumerate(names) if name.endswith("motor")]
    springs = [k for k, name in enumerate(names) if name.endswith("spring")]
    assert (len(motors), len(springs)) == (2, 2)
    assert (np.abs(v) <= np.where(np.isfinite(limits.velocity), limits.velocity, 1.0)).all()
    assert (np.ptp(q[:, motors], axis=0) > 0.9 * 2.0 * np.pi).all()
    assert (np.ptp(v[:, motors], axis=0) > 0.9 * 2.0 * limits.velocity[motors]).all()
    # a spring holds gravity, and has at most the energy that its link has at the speed
    load = np.abs(robot.gravity(q)).max(axis=0)[springs]
    inertia = np.diagonal(robot.mass_matrix(q), axis1=1, axis2=2).max(axis=0)[springs]
    most = 2.0 * (load / 2e4 + np.sqrt(inertia / 2e4))
    assert (np.abs(q[:, springs]).max(axis=0) < most).all()


@pytest.mark.parametrize("name", ["double pendulum", "quadrotor", FLEXIBLE])
def test_promises_hold_on_states_that_were_not_tested(name):
    program = runpy.run_path(str(DOCS / "certificates.py"))
    robot, plant = program["CASES"][name]()
    promises = program["check_promises"](robot, integrators=["rk4", "dormand_prince"], **plant)
    assert len(promises) == len(USES)
    for promise in promises:
        assert len(promise.errors) == 200
        assert promise.share >= 0.95, promise


def test_the_error_of_the_reference_counts():
    plant = {"without": ("limits",)}
    trial = Trial.of(pendulum(), [[1.0, 0.5]], [[0.0, 1.0]], plant=plant, inputs={})
    assert 0.0 < trial.uncertainty.max() <= 1e-9
    unsure = dataclasses.replace(trial, uncertainty=np.array([0.3]))
    assert unsure.errors("rk4", 500) == pytest.approx(0.3, abs=1e-3)
    wild = Trial.of(pendulum(), [0.0, 0.0], [1e200, 0.0], plant=plant, inputs={})
    assert wild.errors("rk4", 50).tolist() == [math.inf]


def test_the_command_line_measures_and_recommends(tmp_path):
    run = CliRunner().invoke
    table = run(app, ["integrators", "double_pendulum", "--plot", str(tmp_path / "a.png")])
    assert table.exit_code == 0, table.output
    assert "variational" in table.output
    assert "MPC rollout" in table.output
    answer = json.loads(run(app, ["integrators", "double_pendulum", "--json"]).stdout)
    rows = {row["integrator"]: row for row in answer["integrators"]}
    assert rows["backward_euler"]["unconditionally_stable"]
    assert rows["semi_implicit"]["longest_stable_dt"] == pytest.approx(
        answer["limit_2_over_omega"], rel=0.02
    )
    assert (answer["states"], answer["without"]) == (128, ["limits"])
    wrong = run(app, ["integrators", "double_pendulum", "--dt", "-1"])
    assert wrong.exit_code == 2
    # the states of a motion, and files that have none for this robot
    motion = pendulum().rollout([1.0, 0.0], [0.0, 0.0], dt=1e-2, steps=50)
    motion.save(tmp_path / "motion.npz")
    own = ["--trajectory", str(tmp_path / "motion.npz"), "--without", "", "--json"]
    answer = json.loads(run(app, ["integrators", "double_pendulum", *own]).stdout)
    assert (answer["states"], answer["random_states"], answer["without"]) == (51, False, [])
    assert run(app, ["integrators", "ur5e", *own]).exit_code == 2
    np.savez(tmp_path / "motion.npz", q=np.zeros((3, 2)))
    assert run(app, ["integrators", "double_pendulum", *own]).exit_code == 2
    with pytest.raises(UnknownName, match="rk4"):
        certify(pendulum(), integrators=["rk5"])


def test_a_use_that_no_integrator_meets_is_no_success(monkeypatch):
    choose = certificate._choose
    monkeypatch.setattr(
        certificate, "_choose", lambda use, rows: None if use.name == "RL" else choose(use, rows)
    )
    table = CliRunner().invoke(app, ["integrators", "double_pendulum"])
    assert table.exit_code == 1
    assert "none is accurate and stable" in " ".join(table.output.split())
    answer = CliRunner().invoke(app, ["integrators", "double_pendulum", "--json"])
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["unmet"] == ["RL"]


def test_the_page_prints_what_it_says(capsys):
    page = (DOCS / "integrators.md").read_text(encoding="utf-8")
    scope: dict = {}
    for code, said in re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", page, re.S):
        exec(code, scope)
        assert capsys.readouterr().out == said
    assert "certify" in scope
