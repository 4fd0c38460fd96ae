"""External wrenches over time: the motion of single steps with them, and their account."""

from __future__ import annotations

import numpy as np
import pytest
from bare_rollouts import make_simulator, rollout

import qddot
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.robot import Robot, Wrench
from qddot.simulate import energy_ledger, load
from qddot.simulate.contact import ComplementarityContact, Scene, contact_ledger
from qddot.simulate.contact.scene import Plane, Sphere

ARM = qddot.load("planar_2r")
TIP = ARM.frame_names[-1]
DRONE = qddot.load("quadrotor")
BASE = DRONE.body_names[0]
ALIGNED = "local_world_aligned"


@pytest.mark.parametrize("reference", ["local", "world", ALIGNED])
@pytest.mark.parametrize("native", [False, True])
def test_a_rollout_is_a_loop_of_single_steps(reference, native):
    robot, rng, dt = Robot(ARM.model, native=native), np.random.default_rng(0), 1e-3
    values, middle = 5.0 * rng.normal(size=(3, 4, 6)), 5.0 * rng.normal(size=6)
    q, v = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    tau = np.array([0.3, -0.2])
    inner = ARM.frame_names[0]
    found = rollout(
        robot, q, v, tau, dt=dt, steps=8, every=2, integrator="semi_implicit",
        wrenches={TIP: values, inner: middle}, wrench_reference=reference,
    )  # fmt: skip
    for k in range(8):
        pushes = [Wrench(TIP, reference, values[:, k // 2]), Wrench(inner, reference, middle)]
        v = v + dt * ARM.forward_dynamics(q, v, tau, f_ext=pushes)
        q = ARM.integrate(q, dt * v)
    np.testing.assert_allclose(found.q[:, -1], q, rtol=1e-12)
    np.testing.assert_allclose(found.v[:, -1], v, rtol=1e-11, atol=1e-12)


def test_a_body_in_flight_under_a_constant_force():
    force, mass, t = np.array([1.0, 2.0, 30.0]), float(DRONE.model.mass), 0.1
    q0 = DRONE.neutral()
    com = DRONE.center_of_mass(q0)
    assert np.abs(com).max() < 1e-12, "the frame is at the centre of mass"
    found = rollout(
        DRONE, q0, np.zeros(6), dt=0.01, steps=10, integrator="rk4",
        wrenches={BASE: [*force, 0, 0, 0]}, wrench_reference=ALIGNED,
    )  # fmt: skip
    fall = 0.5 * (force / mass + [0.0, 0.0, -9.81]) * t**2
    np.testing.assert_allclose(found.q[-1, :3] - q0[:3], fall, rtol=1e-12)
    # work is force times way
    ledger = energy_ledger(found)
    np.testing.assert_allclose(ledger.work[-1], force @ fall, rtol=1e-9)
    assert np.abs(ledger.residual).max() < 1e-9
    assert found.status.ok


def test_the_ledger_has_the_work_of_wrenches():
    push = {TIP: [3.0, 1.0, 2.0, 0.0, 0.0, 0.0]}
    for integrator, most in (("semi_implicit", 0.03), ("rk4", 1e-4)):
        found = rollout(
            ARM, [0.3, 0.4], [0, 0], dt=1e-3, steps=60, integrator=integrator,
            wrenches=push, wrench_reference=ALIGNED,
        )  # fmt: skip
        pose = ARM.frame_pose(found.q, TIP)
        work = (pose[:, :3, 3] - pose[0, :3, 3]) @ push[TIP][:3]
        ledger = energy_ledger(found)
        np.testing.assert_allclose(ledger.work, work, atol=most * np.abs(work).max())
        # what is left is the error of the integrator
        largest = np.abs(ledger.residual).max() / ledger.kinetic.max()
        assert largest < (1e-6 if integrator == "rk4" else 0.1)


def test_the_ground_carries_a_push():
    robot = Robot(DRONE.model, native=False)
    scene = Scene(planes=[Plane()], spheres=[Sphere(BASE, 0.1)], friction=0.0)
    q0 = robot.neutral()
    q0[2] = 0.1
    pressed = rollout(
        robot, q0, np.zeros(6), dt=1e-3, steps=3, contact=ComplementarityContact(scene),
        wrenches={BASE: [0.0, 0, -10.0, 0, 0, 0]}, wrench_reference="local",
    )  # fmt: skip
    (touch,) = contact_ledger(pressed).at()
    weight = float(DRONE.model.mass) * 9.81
    assert touch.normal_force == pytest.approx(weight + 10.0, rel=1e-6)
    ledger = energy_ledger(pressed)
    assert max(np.abs(ledger.work).max(), np.abs(ledger.contact).max()) < 1e-9


def test_wrenches_resume_and_are_saved(tmp_path):
    values = np.random.default_rng(1).normal(size=(8, 6))
    choices = {"dt": 1e-3, "wrench_reference": "local"}
    whole = rollout(ARM, [0.1, 0.2], [0, 0], steps=8, wrenches={TIP: values}, **choices)
    part = rollout(ARM, [0.1, 0.2], [0, 0], steps=4, wrenches={TIP: values[:4]}, **choices)
    for first in (part, load(part.save(tmp_path / "part.npz"))):
        more = first.resume(steps=4, wrenches={TIP: values[4:]})
        np.testing.assert_array_equal(more.q[1:], whole.q[5:])
    # none given: no push
    free = rollout(ARM, part.q[-1], part.v[-1], dt=1e-3, steps=4)
    np.testing.assert_allclose(part.resume(steps=4).q, free.q, rtol=1e-14)


def test_a_python_law_has_wrenches_too():
    values = np.random.default_rng(1).normal(size=(4, 6))
    choices = {"dt": 1e-3, "steps": 4, "wrenches": {TIP: values}, "wrench_reference": "local"}
    found = rollout(ARM, [0.1, 0.2], [0, 0], feedback=lambda t, q, v: np.ones(2), **choices)
    expected = rollout(ARM, [0.1, 0.2], [0, 0], [1.0, 1.0], **choices)
    np.testing.assert_array_equal(found.q, expected.q)
    assert energy_ledger(found).work[-1] == pytest.approx(energy_ledger(expected).work[-1])


def test_wrong_wrenches_are_refused():
    choices = {"dt": 1e-3, "steps": 4}
    state = [0.1, 0.2], [0, 0]
    with pytest.raises(InvalidArgument, match="one of 'local', 'world'"):
        rollout(ARM, *state, wrenches={TIP: np.zeros(6)}, **choices)
    with pytest.raises(UnknownName, match="no frame 'tol'"):
        rollout(ARM, *state, wrenches={"tol": np.zeros(6)}, wrench_reference="local", **choices)
    with pytest.raises(UnknownName, match="reference 'tool'"):
        rollout(ARM, *state, wrenches={TIP: np.zeros(6)}, wrench_reference="tool", **choices)
    for shape in ((3,), (3, 6), (2, 5, 6)):
        with pytest.raises(ShapeMismatch, match=f"wrench at '{TIP}'"):
            rollout(
                ARM, *state, wrenches={TIP: np.zeros(shape)}, wrench_reference="local", **choices
            )
    with pytest.raises(InvalidArgument, match="frame: array"):
        rollout(ARM, *state, wrenches=np.zeros(6), wrench_reference="local", **choices)
    sim = make_simulator(ARM, dt=1e-3, wrenches={TIP: "local"})
    with pytest.raises(UnknownName, match="frame of a wrench"):
        sim.rollout(*state, steps=4, wrenches={ARM.frame_names[0]: np.zeros(6)})
    bad = sim.rollout(*state, steps=4, wrenches={TIP: [np.nan, 0, 0, 0, 0, 0]})
    assert bad.status.label == "nan_input"
    assert TIP in bad.status.of().cause
