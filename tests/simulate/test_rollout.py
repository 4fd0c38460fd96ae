"""Rollouts: order of convergence, conserved quantities, MuJoCo's own steps, and odd requests."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections import deque
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bare_rollouts import rollout
from native_cases import cold_cache  # noqa: F401
from rollouts import IMPLICIT, parts, start, tree, undamped

import qddot
from qddot.engines import mujoco as mujoco_adapter
from qddot.errors import BatchMismatch, InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.robot import Robot
from qddot.simulate import INTEGRATORS, energy_ledger
from qddot.simulate.contact import (
    Box,
    ComplementarityContact,
    PenaltyContact,
    Plane,
    Scene,
    contact_ledger,
)
from qddot.simulate.drivetrain import (
    Friction,
    Noise,
    coulomb,
)
from qddot.simulate.plant import StatelessEffect

MENAGERIE = Path(__file__).resolve().parents[3] / "shared" / "menagerie"


ROBOTS = {
    "fixed": lambda: Robot(qddot.load("double_pendulum").model),
    "free": lambda: tree("free", "revolute", "prismatic"),
    "ball": lambda: tree("ball", "revolute", "ball"),
    "planar": lambda: tree("planar", "helical"),
}


def end(robot: Robot, steps: int, integrator: str, time: float = 0.15) -> tuple:
    q, v = start(robot)
    tau = 0.1 * np.ones(robot.nv)
    found = rollout(
        robot, q, v, tau, dt=time / steps, steps=steps, every=steps, integrator=integrator
    )
    return found.q[-1], found.v[-1]


@cache
def lossless(name: str, native: bool) -> Robot:
    return Robot(undamped(ROBOTS[name]()).model, native=native)


@cache
def exact(name: str, time: float) -> tuple:
    return end(lossless(name, True), 800, "dormand_prince", time)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_order_of_convergence(name, integrator):
    order = INTEGRATORS[integrator].order
    robot = lossless(name, integrator in (*IMPLICIT, "dormand_prince"))
    # slow motions need a longer time before errors of fifth order stand out from rounding
    slow = order == 5 and name in ("free", "planar")
    time, fine = (1.0, 56) if slow else (0.15, {1: 80, 2: 40, 4: 12, 5: 16}[order])
    q, v = exact(name, time)
    errors = []
    for steps in (fine, 2 * fine):
        q1, v1 = end(robot, steps, integrator, time)
        errors.append(np.linalg.norm([*robot.difference(q, q1), *(v1 - v)]))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_native_code_takes_the_same_steps(integrator):
    model = qddot.load("planar_3r").model
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(2, 5, 3))
    tau = rng.normal(size=(5, 6, 3))
    native, text = (
        rollout(
            Robot(model, native=way), q, v, tau, dt=0.01, steps=12, every=2, integrator=integrator
        )
        for way in (True, False)
    )
    for a, b in ((native.q, text.q), (native.v, text.v)):
        assert a.shape == (5, 7, 3)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(native.q[:, 0], q)
    np.testing.assert_allclose(native.time, np.arange(7) * 0.02)


def test_torques_between_samples():
    robot = Robot(qddot.load("planar_2r").model)
    ramp = np.linspace(0.0, 1.0, 5)[:, None] * np.ones(2)
    coarse = rollout(robot, [0.1, 0.2], [0, 0], ramp, dt=0.01, steps=40, every=10, hold="linear")
    fine = np.linspace(0.0, 1.0, 41)[:, None] * np.ones(2)
    steps = rollout(robot, [0.1, 0.2], [0, 0], fine[:-1], dt=0.01, steps=40)
    np.testing.assert_allclose(coarse.q[-1], steps.q[-1], rtol=1e-13)
    held = rollout(robot, [0.1, 0.2], [0, 0], ramp[:-1], dt=0.01, steps=40, every=10)
    assert np.abs(held.q[-1] - coarse.q[-1]).max() > 1e-4


def test_quaternions_stay_unit_and_free_flight_is_straight():
    robot = tree("free").with_gravity((0.0, 0.0, 0.0))
    q, v = start(robot)
    native = Robot(robot.model, native=True)
    found = rollout(native, q, v, dt=0.01, steps=500, integrator="rk4")
    assert np.abs(np.linalg.norm(found.q[:, 3:], axis=1) - 1.0).max() < 1e-15
    momentum = robot.centroidal_momentum(found.q, found.v)
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (501, 1)), atol=1e-6)
    com = robot.center_of_mass(found.q)
    speed = momentum[0, :3] / robot.model.mass
    np.testing.assert_allclose(com, com[0] + found.time[:, None] * speed, atol=1e-6)


def test_energy_of_a_small_swing_does_not_drift():
    robot = Robot(qddot.load("double_pendulum").model)
    q, v = np.array([0.4, -0.2]), np.zeros(2)
    found = rollout(Robot(robot.model, native=True), q, v, dt=2e-3, steps=4000)
    energy = robot.kinetic_energy(found.q, found.v) + robot.potential_energy(found.q)
    swing = np.ptp(robot.potential_energy(found.q))
    early, late = (np.ptp(part) for part in np.split(energy[1:], 2))
    assert late < 1.2 * early < 0.05 * swing


def test_damping_is_taken_at_the_end_of_a_step():
    robot = tree("prismatic").with_gravity((0.0, 0.0, 0.0))
    damping = robot.model.bodies[0].joint.drivetrain.damping
    mass = robot.mass_matrix(np.zeros(1))[0, 0]
    found = rollout(
        robot,
        [0.0],
        [1.0],
        dt=0.5,
        steps=8,
        integrator="implicit_damping",
        without=("friction", "springs", "limits"),
    )
    np.testing.assert_allclose(found.v[:, 0], (1.0 + 0.5 * damping / mass) ** -np.arange(9.0))


def test_parameters_carry_batch_axes():
    model = qddot.load("planar_2r").model
    robot = Robot(model)
    scale = np.array([1.0, 1.5])
    inertia = robot.inertial_parameters * scale[:, None, None]
    found = rollout(robot, [0.3, 0.1], [0, 0], dt=0.01, steps=20, parameters={"inertia": inertia})
    for k in range(2):
        other = robot.with_parameters(inertia[k])
        alone = rollout(other, [0.3, 0.1], [0, 0], dt=0.01, steps=20)
        np.testing.assert_allclose(found.q[k], alone.q, rtol=1e-12)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("hold", ["zero", "linear"])
@pytest.mark.parametrize("integrator", ["semi_implicit", "implicit_midpoint"])
def test_two_rollouts_are_one(integrator, hold, native):
    flexible = qddot.load("planar_2r").with_flexible_joints(50.0, motor_inertia=0.05)
    robot = Robot(flexible.model, native=native)
    rng = np.random.default_rng(5)
    q = rng.normal(size=(3, robot.nq))
    rows = 9 + (hold == "linear")
    tau, q_ref = rng.normal(size=(rows, robot.nv)), rng.normal(size=(9, robot.nq))
    given = parts(robot) | {"dt": 2e-3, "every": 2, "hold": hold, "integrator": integrator}
    given |= {"v_ref": np.zeros(robot.nv), "record": True}
    given |= {"parameters": {"inertia": robot.inertial_parameters * rng.uniform(1, 2, (3, 1, 1))}}
    whole = rollout(robot, q, np.zeros(robot.nv), tau, steps=18, q_ref=q_ref, **given)
    some = 4 + (hold == "linear")
    first = rollout(robot, q, np.zeros(robot.nv), tau[:some], steps=8, q_ref=q_ref[:4], **given)
    v_ref = np.zeros(robot.nv)
    more = first.resume(tau[4:], steps=10, q_ref=q_ref[4:], v_ref=v_ref)
    assert np.isfinite(whole.q).all()
    for a, b in zip(
        (whole.q, whole.v, *whole.effect_history),
        (more.q, more.v, *more.effect_history),
        strict=True,
    ):
        assert a[:, 4:].tobytes() == b.tobytes()
    for a, b in zip(whole.effect_states, more.effect_states, strict=True):
        assert a.tobytes() == b.tobytes()
    assert whole.time[4:].tobytes() == more.time.tobytes()
    # and all of it matters: without the states of effects it is another motion
    fresh = rollout(
        robot, first.q[:, -1], first.v[:, -1], tau[4:], steps=10, q_ref=q_ref[4:], **given
    )
    assert all(
        (a != b).any()
        for a, b in zip(fresh.effect_states, more.effect_states, strict=True)
        if a.size
    )


@pytest.mark.parametrize("native", [True, False])
def test_contact_goes_on_from_its_impulses(native):
    robot = Robot(qddot.load("quadrotor").model, native=native)
    scene = Scene([Plane()], boxes=[Box(robot.body_names[0], (1.0, 0.6, 0.2))])
    q, v = robot.neutral(), np.array([0.4, 0.0, -0.1, 0.2, 0.3, 0.0])
    q[2] = 0.1
    for given in (
        {"contact": ComplementarityContact(scene, 4)},
        {"effects": [PenaltyContact(scene, 300.0, 1.0)]},
    ):
        whole = rollout(robot, q, v, dt=2e-3, steps=30, **given)
        more = rollout(robot, q, v, dt=2e-3, steps=12, **given).resume(steps=11)
        more = more.resume(steps=7)
        assert more.q.tobytes() == whole.q[23:].tobytes()
        assert more.effect_states[0].tobytes() == whole.effect_states[0].tobytes()
        cold = rollout(robot, more.q[0], more.v[0], dt=2e-3, steps=7, **given)
        assert (cold.q[-1] != more.q[-1]).any()


@pytest.mark.parametrize("native", [True, False])
def test_friction_and_stiffness_of_contact_carry_batch_axes(native):
    robot = Robot(qddot.load("quadrotor").model, native=native)
    q, v = robot.neutral(), np.array([0.4, 0.0, -0.3, 0.0, 0.0, 0.0])
    q[2] = 0.1

    def slide(mu, bounce, stiffness):
        shapes = {"boxes": [Box(robot.body_names[0], (1.0, 0.6, 0.2))]}
        scene = Scene([Plane()], **shapes, friction=mu, restitution=bounce)
        for law in (
            {"contact": ComplementarityContact(scene)},
            {"effects": [PenaltyContact(scene, stiffness, 0.01 * stiffness)]},
        ):
            yield rollout(robot, q, v, dt=5e-4, steps=40, **law)

    mu, bounce, stiffness = np.array([0.0, 0.2, 0.9]), np.array([0.0, 0.5, 0.9]), 300.0
    stiffness = stiffness * np.array([1.0, 2.0, 3.0])
    alone = [list(slide(*map(float, x))) for x in zip(mu, bounce, stiffness, strict=True)]
    for way, found in enumerate(slide(mu, bounce, stiffness)):
        ledger = contact_ledger(found)
        for k in range(3):
            np.testing.assert_allclose(found.q[k], alone[k][way].q, rtol=1e-9, atol=1e-10)
            assert found.status.label[k] == alone[k][way].status.label
            other = contact_ledger(alone[k][way])
            np.testing.assert_allclose(ledger.cone_ratio[k], other.cone_ratio, rtol=1e-6, atol=1e-7)
        assert np.abs(np.diff(found.v[:, -1, 0])).min() > 1e-4
        energy = energy_ledger(found).contact[:, -1]
        expected = [energy_ledger(x[way]).contact[-1] for x in alone]
        np.testing.assert_allclose(energy, expected, rtol=1e-7)
    with pytest.raises(InvalidArgument, match="friction of a scene"):
        Scene([Plane()], friction=np.array([0.5, -0.5]))


def test_steps_of_the_status_are_counted_from_the_start_of_the_motion():
    robot = Robot(qddot.load("planar_2r").model)
    first = rollout(robot, [0.1, 0.2], [0, 0], dt=1e-3, steps=10)
    tau = np.zeros((6, 2))
    tau[3, 0] = np.nan
    more = first.resume(tau, steps=6)
    assert more.status.label == "nan_input"
    assert more.status.step == 13
    assert more.status.of().time == pytest.approx(0.013)
    assert first.resume(steps=0).q.shape == (1, 2)
    none = rollout(robot, [0.1, 0.2], [0, 0], dt=1e-3, steps=0, every=5)
    assert none.resume(steps=10).q.shape == (3, 2)
    single = rollout(robot, np.zeros(2, np.float32), np.zeros(2, np.float32), dt=1e-3, steps=3)
    assert single.resume(steps=2).q.dtype == np.float32
    assert single.resume(steps=2).dt == single.dt == 1e-3
    assert first.resume(steps=4, every=2).time == pytest.approx([0.01, 0.012, 0.014])
    ledger = energy_ledger(more.resume(steps=4))
    assert np.isnan(ledger.kinetic[-1])
    whole = energy_ledger(rollout(robot, [0.1, 0.2], [0, 0], dt=1e-3, steps=18)).residual
    part = energy_ledger(first.resume(steps=8)).residual
    np.testing.assert_allclose(part, whole[10:] - whole[10], atol=1e-12)
    with pytest.raises(UnknownName, match="kp"):
        first.resume(steps=1, kp=1.0)
    with pytest.raises(InvalidArgument, match="rollout made"):
        dataclasses.replace(first, step=None).resume(steps=1)


@pytest.mark.parametrize(
    "file",
    [
        "universal_robots_ur5e__ur5e.xml",
        "franka_emika_panda__panda_nohand.xml",
        "kuka_iiwa_14__iiwa14.xml",
        "unitree_go2__go2.xml",
        "anybotics_anymal_c__anymal_c.xml",
        "unitree_h1__h1.xml",
    ],
)
def test_free_motion_is_that_of_mujoco(file):
    mujoco = pytest.importorskip("mujoco")
    if not (MENAGERIE / file).exists():
        pytest.skip(f"{file} is not beside the repository")
    robot = Robot(qddot.load(MENAGERIE / file).model)
    model = mujoco.MjModel.from_xml_path(str(MENAGERIE / file))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONSTRAINT | off.mjDSBL_ACTUATION
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, 1e-3
    data, adapter = mujoco.MjData(model), mujoco_adapter(robot, model)
    rng = np.random.default_rng(0)
    q, v = robot.random(rng), 0.1 * rng.normal(size=robot.nv)
    data.qpos[:], data.qvel[:] = adapter.to_q(q), adapter.to_v(q, v)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    native = Robot(robot.model, native=True)
    found = rollout(
        native,
        q,
        v,
        dt=1e-3,
        steps=1000,
        every=1000,
        integrator="implicit_damping",
        without=("friction", "limits"),
    )
    q1, v1 = found.q[-1], found.v[-1]
    np.testing.assert_allclose(adapter.to_q(q1), data.qpos, atol=1e-9)
    np.testing.assert_allclose(adapter.to_v(q1, v1), data.qvel, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"dt": 0.0}, InvalidArgument, "above zero"),
        ({"dt": "fast"}, InvalidArgument, "seconds"),
        ({"steps": -1}, InvalidArgument, "whole number"),
        ({"steps": 7, "every": 2}, InvalidArgument, "multiple"),
        ({"integrator": "rk5"}, UnknownName, "rk4"),
        ({"hold": "cubic"}, InvalidArgument, "linear"),
        ({"parameters": {"mass": 1.0}}, UnknownName, "inertia"),
        ({"kp": 1.0}, UnknownName, "kp"),
        ({"q0": [0.0] * 3}, ShapeMismatch, "q0"),
        ({"v0": "ab"}, InvalidArgument, "numbers"),
        ({"tau": np.zeros((3, 2))}, ShapeMismatch, "tau"),
        (
            {"q0": np.zeros((3, 2)), "v0": np.zeros((4, 2))},
            BatchMismatch,
            r"q0 \(3,\), v0 \(4,\) do",
        ),
        (
            {"q0": np.zeros((3, 2)), "effects": [Friction(coulomb(np.ones(4)))]},
            BatchMismatch,
            r"q0 \(3,\), parameters of effects \(4,\) do",
        ),
    ],
)
def test_what_cannot_be_done_is_said(changes, error, words):
    robot = Robot(qddot.load("planar_2r").model)
    given = {"q0": np.zeros(2), "v0": np.zeros(2), "dt": 0.01, "steps": 4} | changes
    with pytest.raises(error, match=words):
        rollout(robot, **given)


class Pushing(StatelessEffect):
    """An effect of a torque at all joints."""

    def act(self, context, state):
        return [x + self.torque for x in context.tau], None


@dataclasses.dataclass
class Push(Pushing):
    """One that can be changed."""

    torque: float


@dataclasses.dataclass(frozen=True)
class Steady(Pushing):
    """One that cannot."""

    torque: float


class Scaled(Steady):
    """One that can again: it is no dataclass of its own."""

    scale = 1.0

    def __repr__(self):
        return f"Scaled({self.torque}, {self.scale})"

    def act(self, context, state):
        return [x + self.scale * self.torque for x in context.tau], None


def push(native, effects, **choices):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    return rollout(robot, [0.3, 0.2], [0.0, 0.0], dt=1e-3, steps=5, effects=effects, **choices)


def test_the_same_objects_have_the_same_step():
    robot, friction = qddot.load("planar_2r"), Friction(coulomb(0.1))

    def step(**choices):
        return rollout(robot, [0.3, 0.2], [0.0, 0.0], dt=1e-3, steps=5, **choices).step

    assert step() is step()
    time = rollout(robot, [0.3, 0.2], [0.0, 0.0], dt=1e-3, steps=5).time
    time += 1.0
    assert rollout(robot, [0.3, 0.2], [0.0, 0.0], dt=1e-3, steps=5).time[0] == 0.0
    assert step(effects=[friction]) is step(effects=deque([friction]))
    assert step(effects=[friction]) is not step()
    assert step(sensors=[Noise(0.1, 0.0, seed=1)]) is not step(sensors=[Noise(0.1, 0.0, seed=2)])


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("kind", "name"), [(Push, "torque"), (Scaled, "scale")])
def test_what_can_be_changed_is_looked_at_again(native, kind, name):
    effect, steady = kind(1.0), Steady(4.0)
    first = push(native, [effect])
    setattr(effect, name, 4.0)
    expected = push(native, [steady])
    np.testing.assert_array_equal(push(native, [effect]).v, expected.v)
    assert (np.abs(expected.v[-1] - first.v[-1]) > 1e-4).all()
    # and so it is where the first motion goes on
    robot, state = Robot(first.step.model, native=native), (first.q[-1], first.v[-1])
    further = rollout(robot, *state, dt=1e-3, steps=5, effects=[steady])
    np.testing.assert_allclose(first.resume(steps=5).v, further.v, rtol=1e-12)


def test_array_parameters_are_not_kept_alive():
    levels = np.full(1000, 0.1)
    alive = weakref.ref(levels)
    found = push(True, [Friction(coulomb(levels))])
    del levels, found
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("native", [True, False])
def test_arrays_are_used_again(native):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    rng = np.random.default_rng(0)
    q0, v0 = rng.normal(size=(2, 2500, 2))  # enough for two threads
    first = rollout(robot, q0, v0, dt=1e-3, steps=20, every=2)
    q, v = first.q.copy(), first.v.copy()
    again = rollout(robot, q0, v0, dt=1e-3, steps=20, every=2, out=(first.q, first.v))
    assert again.q is first.q
    assert again.v is first.v
    assert (again.q == q).all()
    assert (again.v == v).all()
    # the next motion may begin where the last one ended, in the same memory
    ends = q[:, -1].copy(), v[:, -1].copy()
    expected = rollout(robot, *ends, dt=1e-3, steps=20, every=2)
    for threads, (x, y) in ((1, (again.q, again.v)), (2, (q, v))):
        with qddot.threads(threads):
            further = rollout(robot, x[:, -1], y[:, -1], dt=1e-3, steps=20, every=2, out=(x, y))
        assert (further.q == expected.q).all()
        assert (further.v == expected.v).all()


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        (np.zeros((3, 2)), InvalidArgument, "pair of arrays"),
        ((np.zeros((3, 2)), np.zeros((4, 2))), ShapeMismatch, r"out: v must have shape \(3, 2\)"),
        ((np.zeros((3, 2), np.float32), np.zeros((3, 2))), InvalidArgument, "float64"),
        ((np.broadcast_to(0.0, (3, 2)), np.zeros((3, 2))), InvalidArgument, "written to"),
        (([[0.0]], np.zeros((3, 2))), InvalidArgument, "an array of"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(out, error, words):
    with pytest.raises(error, match=words):
        rollout(qddot.load("planar_2r"), [0.0, 0.0], [0.0, 0.0], dt=1e-3, steps=2, out=out)
