"""Steps of closed chains in parts: energy of fast and nearly singular motions, and the status."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bare_rollouts import make_simulator, rollout

import qddot
from qddot import simulate
from qddot.algorithms.constraints import ConstraintMobility
from qddot.analysis import constraints as cs
from qddot.control import PD
from qddot.robot.robot import Robot
from qddot.simulate.drivetrain import Friction, coulomb
from qddot.simulate.integrators import INTEGRATORS
from qddot.simulate.loops import ClosedLoops
from qddot.simulate.step import DIVISION, LOOPS

CASSIE = Path(__file__).parents[3] / "shared" / "menagerie" / "agility_cassie__cassie.xml"
RK4 = {"integrator": "rk4"}


@pytest.fixture(scope="module")
def four_bar():
    robot = qddot.load("four_bar")
    return Robot(cs.with_loops(robot, cs.independent(robot)).model, native=True)


@pytest.fixture(scope="module")
def delta():
    return Robot(qddot.load("delta").model, native=True)


def random_states(robot, near, spread, speed, count, seed=0):
    """Closed states about a configuration, with consistent velocities of random directions."""
    rng = np.random.default_rng(seed)
    moves = spread * rng.uniform(-1.0, 1.0, (count, robot.nv))
    q = cs.assemble(robot, robot.integrate(np.asarray(near), moves))
    return q, cs.consistent_velocity(robot, q, speed * rng.normal(size=(count, robot.nv)))


def energy_drifts(robot, found, gravity=1.0):
    """Largest change of energy of each motion, by its largest kinetic energy."""
    T, V = robot.kinetic_energy(found.q, found.v), gravity * robot.potential_energy(found.q)
    return np.abs(T + V - (T + V)[..., :1]).max(-1) / T.max(-1)


def undivided(simulator):
    """The simulator with all steps in one part, whatever their error."""
    loops = replace(simulator.step.loops, tolerance=np.inf)
    return replace(simulator, step=replace(simulator.step, loops=loops))


def residual(found, name=DIVISION):
    """The largest residual of this name over all rollouts."""
    return found.residuals[..., -1, found.step.residual_names.index(name)].max()


def test_delta_keeps_its_energy_where_rods_whip_round(delta):
    """Rods near the end of a universal joint and loops near singular: ten seconds, 1 ms steps."""
    near = [1.2, -2.0, 0.0] * 3 + [0.0, 0.0, -0.4]
    q, v = random_states(delta, near, 0.3, 3.0, 48)
    simulator = make_simulator(delta, dt=1e-3, **RK4)
    found = simulator.rollout(q, v, steps=10_000, every=50)
    assert energy_drifts(delta, found).max() <= 1e-6
    assert np.abs(delta.constraint_residual(found.q)).max() <= 1e-9
    assert residual(found) <= simulator.step.loops.tolerance
    assert not found.status.counts.get("not_converged")
    # the same steps in one part do not
    whole = undivided(simulator).rollout(q, v, steps=10_000, every=50)
    assert np.nanmax(energy_drifts(delta, whole)) > 1e-5
    assert residual(whole) > 1e-6


@pytest.mark.skipif(not CASSIE.is_file(), reason="no shared/menagerie with Cassie's file")
def test_cassie_afloat_keeps_its_energy():
    """Without weight, so that no energy of a fall hides what its light rods lose."""
    robot = Robot(qddot.load(CASSIE).model, native=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q, v = random_states(robot, robot.configurations["home"], 0.1, 2.0, 8)
        simulator = make_simulator(robot, dt=1e-3, parameters=["gravity"], **RK4)
    afloat = {"parameters": {"gravity": np.zeros(3)}}
    found = simulator.rollout(q, v, steps=1000, every=20, **afloat)
    assert energy_drifts(robot, found, gravity=0.0).max() <= 1e-7
    assert residual(found, LOOPS) <= 1e-9
    whole = undivided(simulator).rollout(q, v, steps=1000, every=20, **afloat)
    assert np.nanmax(energy_drifts(robot, whole, gravity=0.0)) > 1e-6


@pytest.mark.parametrize("integrator", ["rk4", "dormand_prince"])
def test_parts_make_the_length_of_a_step_no_matter(four_bar, integrator):
    """Steps a hundred times longer end where short ones do; native code is the text."""
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.2, 10.0, 5)
    long = rollout(four_bar, q, v, dt=0.05, steps=10, integrator=integrator)
    short = rollout(four_bar, q, v, dt=5e-4, steps=1000, every=100, integrator=integrator)
    np.testing.assert_allclose(long.q, short.q, atol=1e-6)
    assert long.status.ok
    text = rollout(
        Robot(four_bar.model, native=False), q, v, dt=0.05, steps=2, integrator=integrator
    )
    np.testing.assert_allclose(long.q[:, :3], text.q, atol=1e-9)


def test_parts_see_the_torques_of_their_own_time(four_bar):
    """Interpolated torques and a law at the stages: against short steps with the same inputs."""
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.2, 2.0, 3)
    goal = {"q_ref": cs.assemble(four_bar, [1.0, 0.0, 0.0], fixed="crank_joint")}
    law = {"feedback": PD(np.array([4.0, 0, 0]), np.array([0.3, 0, 0])), "feedback_at": "stages"}
    times = np.linspace(0.0, 0.4, 401)
    torque = np.zeros((401, 3))
    torque[:, 0] = 0.5 * times
    common = {"hold": "linear", **RK4, **law, **goal, "v_ref": np.zeros(3)}
    long = rollout(four_bar, q, v, torque[::40], dt=0.04, steps=10, **common)
    short = rollout(four_bar, q, v, torque, dt=1e-3, steps=400, **common)
    np.testing.assert_allclose(long.q, short.q[:, ::40], atol=1e-7)
    # the test sees the torques: held at the start of each step they lead elsewhere
    held = rollout(four_bar, q, v, torque[:-1:40], dt=0.04, steps=10, **{**common, "hold": "zero"})
    assert np.abs(held.q - long.q).max() > 1e-4


def test_a_motion_is_the_same_beside_others(delta):
    """Neighbours that need many parts, or are no numbers, change no bit of a motion."""
    q, v = random_states(delta, [1.2, -2.0, 0.0] * 3 + [0.0, 0.0, -0.4], 0.3, 3.0, 9)
    simulator = make_simulator(delta, dt=2e-3, **RK4)
    together = simulator.rollout(q, v * np.linspace(0.0, 3.0, 9)[:, None], steps=100)
    for k in (0, 3, 8):
        alone = simulator.rollout(q[k], v[k] * np.linspace(0.0, 3.0, 9)[k], steps=100)
        np.testing.assert_array_equal(alone.q, together.q[k])
    lost = v.copy()
    lost[4] = np.nan
    found = simulator.rollout(q, lost, steps=20)
    assert found.status.label[4] == "nan_input"
    np.testing.assert_array_equal(found.q[3], simulator.rollout(q[3], v[3], steps=20).q)


def test_attempts_that_run_out_are_told(four_bar):
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.0, 30.0, 4)
    simulator = make_simulator(four_bar, dt=0.02, **RK4)
    assert simulator.rollout(q, v, steps=20).status.ok
    few = replace(simulator.step.loops, attempts=3)
    found = replace(simulator, step=replace(simulator.step, loops=few)).rollout(q, v, steps=20)
    assert set(found.status.label) <= {"not_converged", "diverged", "loop_open"}
    verdict = found.status.of((0,))
    assert (verdict.label, verdict.cause) == ("not_converged", DIVISION)


def test_rest_is_rest_and_float32_has_its_own_rounding(four_bar):
    """A mechanism that hangs still takes whole steps, and single precision asks for no more."""
    q = cs.assemble(four_bar, [-1.5, 0.0, 0.0])
    calm = rollout(four_bar, q, np.zeros(3), dt=1e-3, steps=4000, integrator="rk4")
    assert calm.status.ok
    assert residual(calm) <= 1e-10
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.2, 3.0, 6)
    single = rollout(
        four_bar, q.astype(np.float32), v.astype(np.float32), dt=1e-3, steps=200, **RK4
    )
    assert single.q.dtype == np.float32
    assert single.status.ok
    assert residual(single) < 1e-4
    assert np.abs(single.q - rollout(four_bar, q, v, dt=1e-3, steps=200, **RK4).q).max() < 1e-3


@pytest.mark.parametrize("losses", [{}, {"without": "limits", "effects": [Friction(coulomb(0.2))]}])
def test_stops_and_sticking_joints_leave_velocities_that_loops_admit(delta, losses):
    """A step moves q after its velocities are found: J v = 0 has to hold at the end of it."""
    q, v = random_states(delta, [1.2, -2.0, 0.0] * 3 + [0.0, 0.0, -0.4], 0.1, 3.0, 64)
    found = simulate.make_simulator(delta, dt=0.01, **RK4, **losses).rollout(q, v, steps=100)
    rate = np.einsum("...ij,...j->...i", delta.constraint_jacobian(found.q), found.v)
    speed = 1.0 + np.abs(found.v).max(-1, keepdims=True)
    assert np.abs(rate / speed).max() <= 1e-12
    assert residual(found) <= 1e-9
    # a sample is a start
    simulate.make_simulator(delta, dt=0.01, **RK4).rollout(found.q[:, 50], found.v[:, 50], steps=1)


@pytest.mark.skipif(not CASSIE.is_file(), reason="no shared/menagerie with Cassie's file")
def test_cassie_thrown_about_uses_up_no_attempts():
    """Three of 400 random motions pass where J of the step before is no longer J of the next."""
    robot = Robot(qddot.load(CASSIE).model, native=True)
    rng, home = np.random.default_rng(1), np.array(robot.configurations["home"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulator = make_simulator(robot, dt=1e-3, parameters=["gravity"], **RK4)
        guesses = robot.integrate(home, 0.2 * rng.uniform(-1.0, 1.0, (400, robot.nv)))
        q = cs.assemble(robot, guesses, strict=False)
        v = cs.consistent_velocity(robot, q, rng.normal(size=(400, robot.nv)))
    v = 5.0 * rng.uniform(0.0, 1.0, (400, 1)) * v / np.abs(v).max(-1, keepdims=True)
    some, afloat = [63, 178, 198], {"parameters": {"gravity": np.zeros(3)}}
    found = simulator.rollout(q[some], v[some], steps=7000, every=100, **afloat)
    assert residual(found) <= simulator.step.loops.tolerance


@pytest.mark.parametrize("size", [0.5, 1e-7])
@pytest.mark.parametrize("part", ["q", "v"])
def test_a_kick_is_what_the_loops_admit_of_it(four_bar, part, size):
    """Between two rollouts of a batch; its neighbour goes on as if nothing had happened."""
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.1, 3.0, 2)
    simulator = make_simulator(four_bar, dt=1e-3, **RK4)
    first, whole = simulator.rollout(q, v, steps=20), simulator.rollout(q, v, steps=40)
    kick = np.array([[0.0, 0.0, 0.0], [0.2 * size, 0.0, 0.0]])[:, None]
    more = replace(first, **{part: getattr(first, part) + kick}).resume(steps=20)
    np.testing.assert_array_equal(more.q[0], whole.q[0, 20:])
    assert more.status.ok, more.status
    assert residual(more) <= simulator.step.loops.tolerance
    # as after an impulse: the state from which a rollout would start
    q1, v1 = first.q[1, -1], first.v[1, -1]
    q1, v1 = cs.project(
        four_bar, *((q1 + kick[1, 0], v1) if part == "q" else (q1, v1 + kick[1, 0]))
    )
    np.testing.assert_allclose(more.q[1], simulator.rollout(q1, v1, steps=20).q, atol=1e-9)


def test_float32_starts_that_are_open_are_closed(four_bar):
    """Within 1e-4, which single precision may be open by."""
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.1, 0.1, 16)
    rng = np.random.default_rng(2)
    start = [(x + 2e-5 * rng.normal(size=x.shape)).astype(np.float32) for x in (q, v)]
    found = make_simulator(four_bar, dt=1e-3, **RK4).rollout(*start, steps=50)
    assert found.q.dtype == found.v.dtype == np.float32
    assert found.status.ok, found.status
    assert np.abs(four_bar.constraint_residual(found.q[:, 0].astype(float))).max() < 1e-6


@pytest.mark.parametrize("noise", [2e-10, 5e-9, 1e-5])
def test_an_error_that_does_not_fall_is_rounding(four_bar, monkeypatch, noise):
    """Parts that cannot be more accurate are kept, and no attempts are spent on them."""
    project, calls = ClosedLoops.project, []

    def noisy(self, *states, **choice):
        end = project(self, *states, **choice)
        calls.append(1)
        return replace(
            end, correction=np.maximum(end.correction, noise * (1.0 + 0.01 * len(calls)))
        )

    monkeypatch.setattr(ClosedLoops, "project", noisy)
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.0, 3.0, 1)
    bars = Robot(four_bar.model, native=False)
    found = rollout(bars, q[0], v[0], dt=1e-3, steps=1, integrator="rk4")
    assert len(calls) <= 25
    assert noise < residual(found) < 1.5 * noise
    assert found.status.label == ("ok" if noise < 1e-8 else "not_converged")


def test_an_error_is_a_number(four_bar, monkeypatch):
    """Rounding may make the square of a length negative; what is no number is told."""
    bars = Robot(four_bar.model, native=False)
    q, v = random_states(four_bar, [2.0, -1.2, 0.0], 0.0, 3.0, 1)
    simulator = make_simulator(bars, dt=1e-3, **RK4)
    project, loops = ClosedLoops.project, simulator.step.loops
    with monkeypatch.context() as patch:
        negative = lambda self, right: [-1e-20 * x for x in right]  # noqa: E731
        patch.setattr(ConstraintMobility, "multipliers", negative)
        assert loops.project(bars.model, list(q[0]), list(q[0]), [1.0, 0.0, 0.0]).correction == 0.0
    monkeypatch.setattr(
        ClosedLoops, "project", lambda self, *x, **y: replace(project(self, *x), violation=np.nan)
    )
    verdict = simulator.rollout(q[0], v[0], steps=3).status.of()
    assert (verdict.label, verdict.cause, verdict.step) == ("loop_open", LOOPS, 1)


def test_integrators_of_low_order_take_whole_steps(four_bar):
    for row in INTEGRATORS.values():
        if not row.iterates:
            names = make_simulator(four_bar, dt=1e-3, integrator=row.name).step.residual_names
            assert names == ((DIVISION, LOOPS) if row.order >= 4 else (LOOPS,))
