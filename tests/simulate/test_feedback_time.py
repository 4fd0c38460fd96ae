"""When a law acts in a step: sampled, with its damping at the end, at the stages, or in Python."""

from __future__ import annotations

import inspect
import itertools
import re
from dataclasses import dataclass

import numpy as np
import pytest
from bare_rollouts import rollout

import qddot
from qddot import constraints, control, simulate
from qddot.errors import InvalidArgument, ShapeMismatch, Unsupported
from qddot.robot.robot import Robot
from qddot.simulate import energy_ledger, load
from qddot.simulate.contact import ComplementarityContact, Scene
from qddot.simulate.contact.scene import Plane, Sphere
from qddot.simulate.drivetrain import Latency

ARM = qddot.load("planar_2r")
PD = control.PD(np.array([30.0, 20.0]), np.array([3.0, 2.0]))
STIFF = control.PD(np.array([30.0, 20.0]), np.array([900.0, 700.0]))
GOAL = {"q_ref": [0.5, 0.3], "v_ref": [0.0, 0.0]}
START = np.array([0.1, 0.2]), np.array([1.0, -2.0])


def test_a_stiff_wrist_does_not_diverge_unless_the_law_is_sampled():
    robot, n = qddot.load("ur5e"), 40
    law = control.PD(np.full(6, 100.0), np.full(6, 20.0))
    q0 = np.array([0.1, -1.2, 1.0, -1.3, -1.5, 0.2])
    goal = {"q_ref": q0 + 0.05, "v_ref": np.zeros(6)}
    for integrator in ("semi_implicit", "rk4"):
        choices = {"dt": 0.01, "steps": n, "integrator": integrator, "feedback": law, **goal}
        held = rollout(robot, q0, np.zeros(6), **choices)
        assert held.step.feedback.time == "end"
        assert held.status.label == "ok"
        assert np.abs(held.v).max() < 5.0
        sampled = rollout(robot, q0, np.zeros(6), feedback_at="start", **choices)
        assert sampled.status.label == "diverged"
    # a controller that says its period, or has sensors, is sampled
    for sampling in ({"control_every": 2}, {"sensors": [Latency(1)]}):
        choices = {"dt": 0.01, "steps": 2, "feedback": law, **goal, **sampling}
        assert rollout(robot, q0, np.zeros(6), **choices).step.feedback.time == "start"
    gentle = rollout(robot, q0, np.zeros(6), dt=1e-6, steps=1, feedback=law, **goal)
    assert gentle.step.feedback.time == "start"


@dataclass(frozen=True)
class CrossDamping:
    """Damping between the joints, whose symmetric part is taken at the end of the step."""

    K: tuple[tuple[float, float], tuple[float, float]]

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {}

    def command(self, robot, state, reference, memory):
        return -(np.array(self.K) @ state.v) * (1.0 + state.q[0] ** 2), {}


@pytest.mark.parametrize("native", [False, True])
def test_gains_at_the_end_of_a_step_solve_its_equation(native):
    robot, dt = Robot(ARM.model, native=native), 0.02
    q, v = START
    K = ((40.0, 9.0), (5.0, 30.0))
    bare = {"dt": dt, "steps": 1, "integrator": "semi_implicit", "feedback_at": "end"}
    for law, goal, gains in (
        (PD, GOAL, np.diag([3.0, 2.0])),
        (CrossDamping(K), {}, np.array([[40.0, 7.0], [7.0, 30.0]]) * (1.0 + q[0] ** 2)),
    ):
        v1 = rollout(robot, q, v, feedback=law, **goal, **bare).v[-1]
        tau = law.command(ARM, control.State(q, v), GOAL, {})[0]
        M, h = ARM.mass_matrix(q), ARM.bias(q, v)
        expected = v + dt * np.linalg.solve(M + dt * gains, tau - h)
        np.testing.assert_allclose(v1, expected, rtol=1e-11, atol=1e-14)


def test_gains_at_the_end_act_in_contact_by_complementarity():
    robot, dt = Robot(ARM.model, native=False), 0.02
    scene = Scene(
        planes=[Plane(point=(0.0, 0.0, -9.0))], spheres=[Sphere(ARM.body_names[-1], 0.05)]
    )
    far = {"contact": ComplementarityContact(scene), "dt": dt, "steps": 1, "feedback": STIFF}
    q, v = START
    v1 = rollout(robot, q, v, **far, **GOAL).v[-1]
    tau = STIFF.command(ARM, control.State(q, v), GOAL, {})[0]
    M, h = ARM.mass_matrix(q), ARM.bias(q, v)
    expected = v + dt * np.linalg.solve(M + dt * np.diag([900.0, 700.0]), tau - h)
    np.testing.assert_allclose(v1, expected, rtol=1e-10)


def test_gains_at_the_end_act_on_closed_loops():
    bars = qddot.load("four_bar")
    bars = constraints.with_loops(bars, constraints.independent(bars))
    q0 = constraints.assemble(bars, [2.0, -1.2, 0.0])
    law = control.PD(np.array([20.0, 0.0, 0.0]), np.array([5e3, 0.0, 0.0]))
    goal = {"q_ref": q0, "v_ref": np.zeros(3)}
    v0 = constraints.consistent_velocity(bars, q0, [0.03, 0.0, 0.0])
    dt = 1e-4
    motion = rollout(bars, q0, v0, dt=dt, steps=1, integrator="semi_implicit", feedback=law, **goal)
    assert motion.step.feedback.time == "end"
    # the equation of motion with multipliers, solved as one system
    tau = law.command(bars, control.State(q0, v0), goal, {})[0]
    M, J = bars.mass_matrix(q0) + dt * np.diag([5e3, 0.0, 0.0]), bars.constraint_jacobian(q0)
    bias = bars.constraint_bias(q0, v0)
    n, m = 3, len(J)
    A = np.block([[M, -J.T], [J, np.zeros((m, m))]])
    a = np.linalg.lstsq(A, np.concatenate([tau - bars.bias(q0, v0), -bias]), rcond=None)[0][:n]
    # what is left is the projection on closure, of second order
    np.testing.assert_allclose(motion.v[-1], v0 + dt * a, atol=1e-7)
    assert np.abs(bars.constraint_residual(motion.q)).max() < 1e-9


@pytest.mark.parametrize(("time", "order"), [("start", 1), ("end", 1), ("stages", 4)])
def test_order_of_convergence(time, order):
    robot = Robot(ARM.model, native=True)
    ends = [
        rollout(
            robot, [0.1, 0.2], [0, 0], dt=1.0 / n, steps=n, integrator="rk4",
            feedback=PD, feedback_at=time, **GOAL,
        ).q[-1]
        for n in (100, 200, 400)
    ]  # fmt: skip
    coarse, fine = (np.abs(a - b).max() for a, b in itertools.pairwise(ends))
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.25)


def test_the_ledger_books_gains_at_the_end_as_work_of_motors():
    choices = {"dt": 1e-3, "steps": 50, "integrator": "semi_implicit", "feedback": PD, **GOAL}
    for time in ("start", "end", "stages"):
        ledger = energy_ledger(rollout(ARM, *START, feedback_at=time, **choices))
        assert not ledger.friction.any()
        assert np.abs(ledger.work).max() > 0.01
        assert np.abs(ledger.residual).max() < 0.2 * np.abs(ledger.work).max()


@pytest.mark.parametrize("time", ["end", "stages"])
def test_a_rollout_resumes_and_is_saved(time, tmp_path):
    choices = {"dt": 1e-2, "integrator": "rk4", "feedback": PD, "feedback_at": time, **GOAL}
    whole = rollout(ARM, *START, steps=8, **choices)
    part = rollout(ARM, *START, steps=4, **choices)
    again = load(part.save(tmp_path / "part.npz"))
    for first in (part, again):
        np.testing.assert_array_equal(first.resume(steps=4, **GOAL).q[1:], whole.q[5:])


def test_wrong_times_are_refused():
    choices = {"dt": 1e-3, "steps": 2, "feedback": PD, **GOAL}
    with pytest.raises(InvalidArgument, match="'start', 'end', 'stages'"):
        rollout(ARM, *START, feedback_at="late", **choices)
    for time in ("end", "stages"):
        with pytest.raises(Unsupported, match="control_every is sampled"):
            rollout(ARM, *START, feedback_at=time, control_every=2, **choices)
        with pytest.raises(Unsupported, match="sensors is sampled"):
            rollout(ARM, *START, feedback_at=time, sensors=[Latency(1)], **choices)


def test_a_python_function_is_called_once_a_sample_for_the_whole_batch():
    calls = []

    def law(t, q, v):
        calls.append((t, q.shape, v.shape))
        return np.array([30.0, 20.0]) * (np.array([0.5, 0.3]) - q) - np.array([3.0, 2.0]) * v

    q0 = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    choices = {"dt": 1e-3, "integrator": "semi_implicit"}
    found = rollout(ARM, q0, [0.1, 0], [0.2, 0.0], steps=6, feedback=law, **choices)
    expected = rollout(
        ARM, q0, [0.1, 0], [0.2, 0.0], steps=6, feedback=PD, feedback_at="start", **GOAL, **choices
    )
    np.testing.assert_allclose(found.q, expected.q, rtol=1e-13)
    np.testing.assert_allclose(found.time, expected.time)
    assert [shape for _, *shape in calls] == [[(3, 2), (3, 2)]] * 6
    assert [t for t, *_ in calls] == pytest.approx(list(found.time[:-1]))
    assert found.tau.shape == (3, 6, 2)
    assert found.status.ok
    # its torques, given: the same motion
    again = rollout(ARM, q0, [0.1, 0], found.tau, steps=6, **choices)
    np.testing.assert_array_equal(again.q, found.q)
    assert np.abs(energy_ledger(found).residual - energy_ledger(again).residual).max() < 1e-12
    # held for `every` steps
    calls.clear()
    assert rollout(ARM, q0, [0, 0], steps=6, every=3, feedback=law, **choices).q.shape == (3, 3, 2)
    assert len(calls) == 2


def test_compiled_functions_are_told_how_to_be_a_law():
    robot = qddot.load("planar_2r")

    def brake(robot, q, v):
        return -v

    compiled = robot.compile(brake)
    start = (np.zeros(2), np.ones(2))
    with pytest.raises(Unsupported) as refused:
        robot.rollout(*start, dt=1e-3, steps=2, feedback=compiled)
    assert str(refused.value) == (
        "feedback: <CompiledFunction brake(2),(2)->(2)> cannot be used here; it is a function of "
        "q, v; feedback=lambda time, q, v: f(q, v) calls it, or write a Law (docs/control.md), "
        "which is compiled into the steps"
    )
    with pytest.raises(InvalidArgument) as refused:
        robot.rollout(*start, compiled, dt=1e-3, steps=2)
    assert str(refused.value) == (
        "rollout: tau: <CompiledFunction brake(2),(2)->(2)> is not understood; it needs an array; "
        "torques of the state are feedback=…: a Law (docs/control.md), or f(time, q, v)"
    )
    wrapped = robot.rollout(*start, dt=1e-3, steps=2, feedback=lambda time, q, v: compiled(q, v))
    assert wrapped.tau[0] == pytest.approx(-1.0)


def test_the_help_of_rollouts_lists_their_choices():
    names = inspect.signature(simulate.rollout).parameters
    listed = set(re.findall(r"\w+", qddot.Robot.rollout.__doc__))
    assert set(names) - {"robot", "law_inputs"} <= listed


def test_wrong_python_functions_are_refused():
    def law(t, q, v):
        return np.zeros(3)

    choices = {"dt": 1e-3, "steps": 2}
    with pytest.raises(ShapeMismatch, match="torques of the law"):
        rollout(ARM, *START, feedback=law, **choices)
    with pytest.raises(InvalidArgument, match="real numbers"):
        rollout(ARM, *START, feedback=lambda t, q, v: None, **choices)
    for wrong in ({"control_every": 2}, {"feedback_at": "end"}, {"hold": "linear"}):
        with pytest.raises(Unsupported, match="once a kept sample"):
            rollout(ARM, *START, feedback=law, **wrong, **choices)
    with pytest.raises(Unsupported, match="in the function"):
        rollout(ARM, *START, feedback=law, sensors=[Latency(1)], **choices)
    with pytest.raises(InvalidArgument, match="no references"):
        rollout(ARM, *START, feedback=law, q_ref=[0.0, 0.0], **choices)
