"""Simulators: one step, compiled once, for rollouts again and again."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from bare_rollouts import make_simulator, rollout
from contact_bodies import pendulum

import qddot
from qddot.control import PD
from qddot.errors import InvalidArgument, UnknownName
from qddot.robot.robot import Robot
from qddot.simulate import INTEGRATORS, Integrator, Simulator, energy_ledger, simulator
from qddot.simulate.contact import ComplementarityContact, RigidStops, Scene
from qddot.simulate.drivetrain import Delay, Friction, Noise, coulomb
from qddot.simulate.integrators import Tableau

Q, V = np.array([[0.3, 0.2], [0.1, -0.4]]), np.zeros((2, 2))
LAW = {"q_ref": np.ones(2), "v_ref": np.zeros(2)}
PARTS = {
    "integrator": "rk4",
    "effects": [Delay(2), Friction(coulomb(np.array([0.1, 0.2]))), RigidStops()],
    "feedback": PD(9.0, 1.0),
    "sensors": [Noise(1e-3, 1e-2, seed=np.arange(2))],
}


@pytest.mark.parametrize("native", [True, False])
def test_a_simulator_takes_the_steps_of_a_rollout(native):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    armature = {"armature": np.array([[[0.1], [0.2]], [[0.3], [0.0]]])}
    sim = robot.simulator(dt=1e-3, parameters="armature", **PARTS)
    assert sim.native == native
    for tau in (None, np.array([1.0, -2.0])):
        found = sim.rollout(Q, V, tau, steps=12, every=3, parameters=armature, **LAW)
        whole = rollout(
            robot, Q, V, tau, dt=1e-3, steps=12, every=3, parameters=armature, **PARTS, **LAW
        )
        assert found.q.tobytes() == whole.q.tobytes()
        assert found.v.tobytes() == whole.v.tobytes()
        more = sim.rollout(Q, V, tau, steps=6, every=3, parameters=armature, **LAW)
        more = more.resume(tau, steps=6, q_ref=LAW["q_ref"], v_ref=LAW["v_ref"])
        assert more.q[:, -1].tobytes() == whole.q[:, -1].tobytes()
    other = sim.rollout(Q, V, steps=12, every=3, parameters={"armature": 0.0 * Q[..., None]}, **LAW)
    assert (np.abs(other.q[:, -1] - whole.q[:, -1]) > 1e-9).all()


def test_a_simulator_is_frozen_and_keeps_its_kernel():
    sim = qddot.load("planar_2r").simulator(dt=1e-3)
    assert isinstance(sim, Simulator)
    assert sim.kernel is sim.kernel
    with pytest.raises(dataclasses.FrozenInstanceError):
        sim.dt = 2e-3
    # the length of a step is an input of the loop
    assert qddot.load("planar_2r").simulator(dt=2e-3).kernel is sim.kernel


@pytest.fixture
def made(monkeypatch):
    """The simulators that are made during a test."""
    found, make = [], simulator.make_simulator
    monkeypatch.setattr(
        simulator, "make_simulator", lambda *a, **k: found.append(make(*a, **k)) or found[-1]
    )
    return found


def test_rollouts_of_the_same_objects_make_one_simulator(made):
    robot, effects, law = qddot.load("planar_2r"), [Delay(1)], PD(9.0, 1.0)
    for dt in (1e-3, 1e-3, 2e-3):
        rollout(robot, Q, V, dt=dt, steps=2, effects=list(effects), feedback=law, **LAW)
    assert [sim.dt for sim in made] == [1e-3, 2e-3]


def test_rollouts_with_the_physics_of_the_description_make_one_simulator(made):
    robot = qddot.load("planar_2r")
    runs = [simulator.rollout(robot, Q, V, dt=1e-3, steps=1) for _ in range(3)]
    assert len(made) == 1
    assert made[0].step.effects, "damping and stops of the description act"
    assert all(run.step is runs[0].step for run in runs)
    simulator.rollout(robot, Q, V, dt=1e-3, steps=1, without="passive")
    assert len(made) == 2


def test_rollouts_with_wrenches_at_the_same_frames_make_one_simulator(made):
    robot, ends = qddot.load("planar_2r"), {"wrench_reference": "world"}
    for force in (1.0, 2.0):
        wrenches = {"tool": np.array([force, 0, 0, 0, 0, 0])}
        rollout(robot, Q, V, dt=1e-3, steps=1, wrenches=wrenches, **ends)
    assert len(made) == 1
    ends["wrench_reference"] = "local"
    rollout(robot, Q, V, dt=1e-3, steps=1, wrenches=wrenches, **ends)
    assert [dict(sim.step.wrenches)["tool"] for sim in made] == ["world", "local"]


@pytest.mark.parametrize(
    ("names", "given", "error", "words"),
    [
        (("armature",), None, InvalidArgument, "made with parameters"),
        ((), {"armature": np.zeros((2, 1))}, UnknownName, "armature"),
        (("armature",), [1.0], InvalidArgument, "name: array"),
        (("mass",), {}, UnknownName, "inertia"),
    ],
)
def test_parameters_that_do_not_fit_the_simulator_are_refused(names, given, error, words):
    def run():
        sim = make_simulator(qddot.load("planar_2r"), dt=1e-3, parameters=names)
        return sim.rollout(Q, V, steps=1, parameters=given)

    with pytest.raises(error, match=words):
        run()


def test_importing_simulation_loads_no_writer_and_no_linearisation():
    code = (
        "import sys, qddot.simulate, qddot.simulate.contact, qddot.simulate.drivetrain\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert "qddot.simulate.simulator" in loaded
    unwanted = ("qddot.writers", "qddot.engines", "qddot.analysis.linearise", "mujoco", "casadi")
    assert not [name for name in loaded if name.startswith(unwanted)]


def test_an_integrator_is_a_row(monkeypatch):
    # the midpoint rule, second order, is known by its row alone
    midpoint = Tableau(((), (Fraction(1, 2),)), (Fraction(0), Fraction(1)))
    row = Integrator("explicit_midpoint", 2, 2, midpoint.step)
    monkeypatch.setitem(INTEGRATORS, row.name, row)
    robot = Robot(qddot.load("double_pendulum").model, native=False)
    q0, v0 = np.array([0.5, 0.3]), np.array([1.0, -1.0])
    exact = rollout(robot, q0, v0, dt=1e-3, steps=100, integrator="dormand_prince").q[-1]
    errors = []
    for steps in (10, 20):
        found = rollout(robot, q0, v0, dt=0.1 / steps, steps=steps, integrator=row.name)
        errors.append(np.abs(found.q[-1] - exact).max())
        assert found.status.ok
        ledger = energy_ledger(found)
        assert np.abs(ledger.residual).max() < 1e-2 * np.abs(ledger.kinetic).max()
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)
    contact = ComplementarityContact(Scene())
    with pytest.raises(InvalidArgument, match="steps with semi_implicit or implicit_damping"):
        make_simulator(robot, dt=1e-3, integrator=row.name, contact=contact)


@pytest.mark.parametrize("row", INTEGRATORS.values(), ids=lambda row: row.name)
def test_the_row_says_where_an_integrator_takes_its_forces(row):
    class Plant:
        """A spring and damper that writes down where it is asked."""

        model = pendulum(-3.0, 3.0).model

        def __init__(self):
            self.shares = []

        def rate(self, q, w, share):
            self.shares.append(share)
            return [-9.0 * q[0] - 0.5 * w[0]]

        def damped_rate(self, q, w, dt):
            self.shares.append(0.0)
            return [(-9.0 * q[0] - 0.5 * w[0]) / (1.0 + 0.5 * dt)]

    if row.iterates:
        assert not row.forces_at_start
        assert not row.semi_implicit
        return
    plant, dt = Plant(), 0.1
    (q,), (w,) = row.step(plant, [0.3], [0.2], dt)
    assert row.forces_at_start == (set(plant.shares) == {0.0})
    assert row.semi_implicit == (q == pytest.approx(0.3 + dt * w, abs=1e-15))
    damped = -9.0 * 0.3 - 0.5 * w
    assert row.damping_at_end == (w == pytest.approx(0.2 + dt * damped, abs=1e-15))
    # the map of an undamped oscillation, which grows with euler only
    spring = Plant()
    spring.rate = lambda q, w, share: [-q[0]]
    spring.damped_rate = lambda q, w, dt: [-q[0]]
    columns = [row.step(spring, [a], [b], 0.01) for a, b in ((1.0, 0.0), (0.0, 1.0))]
    growth = np.abs(np.linalg.eigvals(np.array(columns)[..., 0].T)).max()
    assert row.amplifies == (growth > 1.0 + 1e-9)
