"""Status of rollouts: every label, the first bad step, nothing raised and nothing lost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from bare_rollouts import rollout
from contact_bodies import pendulum

import qddot
from qddot import simulate
from qddot.errors import InvalidArgument, ShapeMismatch, SingularInertia
from qddot.robot.robot import Robot
from qddot.simulate import LABELS, Perturbation, energy_ledger
from qddot.simulate.contact import (
    Box,
    ComplementarityContact,
    PenaltyContact,
    PenaltyStops,
    Plane,
    Scene,
    Sphere,
)
from qddot.simulate.drivetrain import Backlash, Delay, Friction, Gear, LuGre, ModelLosses, coulomb
from qddot.simulate.status import CONTACT_RESIDUAL

ARM = qddot.load("planar_2r").model


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_quiet_motion_is_ok():
    found = rollout(Robot(ARM), [0.1, 0.2], [0, 0], dt=1e-3, steps=20)
    assert found.status.ok
    assert found.status.label == "ok"
    assert found.status.step == -1
    assert str(found.status).startswith("ok; note: switched off")
    assert found.status.of().step is None


@pytest.mark.parametrize("native", [True, False])
def test_bad_torques_are_found_where_they_come_in(native):
    tau = np.zeros((3, 20, 2))
    tau[1, 7, 1], tau[2, 3, 0] = np.nan, np.inf
    found = rollout(Robot(ARM, native=native), [0.1, 0.2], [0, 0], tau, dt=1e-3, steps=40, every=2)
    assert found.status.label.tolist() == ["ok", "nan_input", "nan_input"]
    assert found.status.step.tolist() == [-1, 14, 6]
    assert found.status.of(1).cause == "tau"
    assert found.status.of(1).time == pytest.approx(0.014)
    # nothing is lost: up to there it is the motion without torques
    np.testing.assert_array_equal(found.q[1, :8], found.q[0, :8])
    assert np.isfinite(found.q[0]).all()


@pytest.mark.parametrize("name", ["q0", "v0", "inertia", "kp"])
def test_the_input_that_is_nan_is_named(name):
    robot = Robot(ARM)
    given = {
        "q0": np.zeros(2),
        "v0": np.zeros(2),
        "inertia": robot.inertial_parameters,
        "kp": np.ones(2),
    }
    bad = given[name].copy()
    bad.flat[1] = np.nan
    given[name] = np.stack([given[name], bad])
    found = rollout(
        robot,
        given["q0"],
        given["v0"],
        dt=1e-3,
        steps=3,
        parameters={"inertia": given["inertia"]},
        feedback=qddot.control.PD(given["kp"], np.ones(2)),
        q_ref=np.zeros(2),
        v_ref=np.zeros(2),
    )
    assert found.status.label.tolist() == ["ok", "nan_input"]
    assert found.status.of(1).cause == name
    assert found.status.step[1] == 0


def test_limits_name_the_joint_and_the_first_step():
    robot = Robot(qddot.load("ur5e").model)
    upper = robot.model.bodies[3].joint.limits.upper
    q, v = np.zeros(6), np.zeros(6)
    q[3], v[3] = upper - 0.05, 1.0
    robot = robot.with_gravity((0, 0, 0))
    found = rollout(robot, q, v, dt=1e-2, steps=20)
    assert found.status.label == "limit_violated"
    assert found.status.of().cause == robot.joint_names[3]
    passed = found.q[:, 3] > upper + 1e-3
    assert found.status.step == np.argmax(passed) > 0


def test_energy_from_nowhere():
    robot = Robot(qddot.load("double_pendulum").model)
    state = [1.0, 0.5], [0.0, 0.0]
    bad = rollout(robot, *state, dt=0.03, steps=60, integrator="euler")
    assert bad.status.label == "energy_gain"
    good = rollout(robot, *state, dt=0.03, steps=60, integrator="rk4")
    assert good.status.ok
    # a motor may give energy
    driven = rollout(robot, *state, [5.0, 0.0], dt=0.03, steps=60, integrator="rk4")
    assert driven.status.ok
    energy = robot.kinetic_energy(bad.q, bad.v) + robot.potential_energy(bad.q)
    assert energy[bad.status.step] > energy[0]


@pytest.mark.parametrize(("restitution", "drop", "dt"), [(1.0, 1e-4, 1e-3), (0.9, 1e-3, 1e-2)])
def test_small_rebounds_are_no_gain_of_energy(restitution, drop, dt):
    # a fall of one or a few steps: its energy is resolved to that of one step, m g v Δt
    robot = Robot(qddot.load("quadrotor").model, native=True)
    ball = Sphere(robot.body_names[0], 0.1)
    scene = Scene([Plane()], spheres=[ball], restitution=restitution)
    q = robot.neutral()
    q[2] = 0.1 + drop
    contact = ComplementarityContact(scene)
    found = robot.rollout(q, np.zeros(6), dt=dt, steps=400, contact=contact, record=True)
    assert found.status.ok, found.status
    height = found.q[:, 2] - 0.1 + found.v[:, 2] ** 2 / (2.0 * 9.81)
    most = drop + np.abs(found.v[:, 2]).max() * dt
    assert drop < height.max() < most


def test_swings_of_a_symplectic_step_are_no_gain_of_energy():
    # ω Δt = 0.5: H − ½ Δt v ∂V/∂q is kept exactly, H swings by tens of percent, for ever
    swing = qddot.load("double_pendulum").without_joint("joint2")
    frequency = np.sqrt(swing.gravity_derivatives([0.0])[0, 0] / swing.mass_matrix([0.0])[0, 0])
    found = rollout(swing, [0.1], [0.0], dt=0.5 / frequency, steps=200, integrator="semi_implicit")
    H = swing.kinetic_energy(found.q, found.v) + swing.potential_energy(found.q)
    assert np.ptp(H) > 0.3 * (H[0] - swing.potential_energy([0.0]))
    assert found.status.ok, found.status


def test_rest_is_no_gain():
    robot = Robot(qddot.load("double_pendulum").model)
    rest = np.array([0.0, 0.0])
    found = rollout(robot.with_gravity((0, 0, 0)), rest, np.zeros(2), dt=0.01, steps=50)
    assert found.status.ok


def ball_on_ground(**changes):
    ball = qddot.load("quadrotor")
    scene = Scene([Plane()], spheres=[Sphere(ball.body_names[0], 0.1, name="ball")], **changes)
    return Robot(ball.model), scene


def test_overlap_is_penetration():
    robot, scene = ball_on_ground()
    deep, rest = robot.neutral(), robot.neutral()
    deep[2], rest[2] = 0.05, 0.2
    found = rollout(
        robot,
        np.stack([deep, rest]),
        np.zeros(6),
        dt=1e-3,
        steps=2,
        effects=[PenaltyContact.soft(scene)],
    )
    assert found.status.label.tolist() == ["penetration", "ok"]
    assert "ball" in found.status.of(0).cause
    assert found.status.step.tolist() == [0, -1]


def test_contact_that_is_not_solved():
    robot, ball = ball_on_ground()
    box = Scene([Plane()], boxes=[Box(robot.body_names[0], (1.0, 0.6, 0.2), name="box")])
    q, v = robot.neutral(), np.array([1.0, 0.0, -2.0, 1.0, 2.0, 0.0])
    q[2] = 0.1
    hard, easy = (
        rollout(robot, q, v, dt=2e-3, steps=3, contact=ComplementarityContact(scene, sweeps))
        for scene, sweeps in ((box, 1), (ball, 20))
    )
    assert hard.status.label == "not_converged"
    assert hard.status.step == 1
    assert easy.status.ok
    # no step between two samples is overlooked, and none from before is told again
    law = ComplementarityContact(box, 1)
    sparse = rollout(robot, q, v, dt=2e-3, steps=400, every=400, contact=law)
    assert sparse.effect_history[-1][-1, -2] < CONTACT_RESIDUAL < sparse.effect_history[-1][-1, -1]
    assert sparse.status.label == "not_converged"
    assert sparse.resume(steps=1, every=1).status.label != "not_converged"


IMPLICIT = ("backward_euler", "implicit_midpoint", "variational")


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("integrator", IMPLICIT)
def test_iterations_of_implicit_steps_that_end_early(integrator, native):
    robot = Robot(qddot.load("double_pendulum").model, native=native)
    q, v = np.array([[1.4, -0.8], [0.01, 0.0]]), np.array([[3.0, -5.0], [0.0, 0.0]])
    coarse = rollout(robot, q, v, dt=0.12, steps=6, integrator=integrator)
    assert coarse.status.of(0).label == "not_converged"
    assert coarse.status.of(0).cause == integrator
    assert "shorter step" in coarse.status.of(0).remedy
    # slow motions about rest are linear, and Newton's method finds their steps at once
    assert coarse.status.of(1).label == "ok"
    fine = rollout(robot, q, v, dt=2e-3, steps=60, integrator=integrator)
    assert fine.status.ok
    assert fine.residuals.max() < 1e-12
    # the first bad step is found between samples too
    kept = rollout(robot, q, v, dt=0.12, steps=6, every=3, integrator=integrator)
    bad = coarse.status.step[0]
    assert kept.status.step[0] == 3 * -(-bad // 3)
    np.testing.assert_array_equal(kept.residuals, coarse.residuals[:, ::3])


def test_a_step_that_settled_is_in_balance_and_another_is_not():
    robot = Robot(qddot.load("double_pendulum").model)
    q = robot.random(3, 60)
    v = np.random.default_rng(3).normal(size=(60, 2)) * 2.0
    dt = 0.08
    found = rollout(robot, q, v, dt=dt, steps=1, integrator="backward_euler")
    end, v_end = found.q[:, 1], found.v[:, 1]
    lack = robot.inverse_dynamics(end, v_end, (v_end - v) / dt)
    off = dt * np.linalg.solve(robot.mass_matrix(end), lack[..., None])[..., 0]
    off = np.linalg.norm(off, axis=1) / np.hypot(1.0, np.linalg.norm(v_end, axis=1))
    settled = found.status.label == "ok"
    assert 5 < settled.sum() < 55
    assert off[settled].max() < 1e-6 < off[~settled].max()


def test_explicit_steps_carry_no_residuals():
    for name in ("euler", "semi_implicit", "implicit_damping", "rk4", "dormand_prince"):
        found = rollout(Robot(ARM), [0.1, 0.2], [0, 0], dt=1e-3, steps=1, integrator=name)
        assert found.residuals is None
        assert found.step.shapes.carry == ((2,), (2,), ())


def row_of_links(n: int, file) -> Robot:
    """Equal links one after the other, all turning about parallel axes."""
    inertia = '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
    inertial = f'<inertial><origin xyz="0.5 0 0"/><mass value="1"/>{inertia}</inertial>'
    text = '<robot name="row"><link name="l0"/>'
    for k in range(1, n + 1):
        text += f'<link name="l{k}">{inertial}</link><joint name="j{k}" type="continuous">'
        text += f'<parent link="l{k - 1}"/><child link="l{k}"/><axis xyz="0 1 0"/>'
        text += f'<origin xyz="{int(k > 1)} 0 0"/></joint>'
    file.write_text(text + "</robot>")
    return Robot(qddot.load(file).model)


@pytest.mark.parametrize("native", [True, False])
def test_friction_that_is_not_solved(tmp_path, native):
    robot = Robot(row_of_links(6, tmp_path / "row.urdf").model, native=native)
    rng = np.random.default_rng(0)
    q, v, most, dt = 0.1 * rng.normal(size=(40, 6)), 3.0 * rng.normal(size=(40, 6)), 200.0, 0.05
    found = rollout(robot, q, v, dt=dt, steps=1, effects=[Friction(coulomb(most))])
    # Coulomb's law, from the motion alone: the torque that is left is within bounds and resists
    left = robot.inverse_dynamics(q, v, (found.v[:, 1] - v) / dt)
    bound, speed = np.abs(left) - most, np.abs(found.v[:, 1])
    held = (speed == 0.0) & (bound < 1e-6)
    slides = np.abs(left + most * np.sign(found.v[:, 1])) < 1e-6
    lawful = (held | slides).all(-1)
    assert 20 < lawful.sum() < 40, "some are solved, and some are not"
    np.testing.assert_array_equal(found.status.label == "ok", lawful)
    assert found.status.of(int(np.argmin(lawful))).cause == "friction"
    fine = rollout(robot, q, v, dt=1e-3, steps=5, effects=[Friction(coulomb(most))])
    assert fine.status.ok


def test_a_perturbation_reproduces_a_divergence_bit_for_bit():
    robot = Robot(ARM, native=True)
    kick = Perturbation("tuesday", seed=4, scale=200.0)
    q, v = kick.states(robot, np.zeros(2), np.zeros(2), 40)
    found = rollout(robot, q, v, dt=0.2, steps=100, integrator="euler")
    assert (found.status.label == "diverged").any()
    k = int(np.argmax(found.status.label == "diverged"))
    again = Perturbation("tuesday", seed=4, scale=200.0).states(robot, [0, 0], [0, 0], k + 1)
    alone = rollout(robot, again[0][k], again[1][k], dt=0.2, steps=100, integrator="euler")
    assert alone.q.tobytes() == found.q[k].tobytes()
    assert alone.status.step == found.status.step[k]
    other = Perturbation("wednesday", seed=4, scale=200.0).states(robot, [0, 0], [0, 0], 40)
    assert np.abs(other[0] - q).min() > 0


def test_perturbations_stay_on_the_manifold_and_within_scale():
    robot = Robot(qddot.load("quadruped").model)
    q0 = robot.random(0)
    q, v = Perturbation("x", scale=0.2).states(robot, q0, np.ones(robot.nv), (50,))
    np.testing.assert_allclose(np.linalg.norm(q[:, 3:7], axis=1), 1.0, atol=1e-14)
    moved = np.abs(robot.difference(q0, q))
    assert 0.19 < moved.max() <= 0.2 + 1e-12
    assert 0.19 < np.abs(v - 1.0).max() <= 0.2


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Perturbation(3), InvalidArgument),
        (lambda: Perturbation("x", -1), InvalidArgument),
        (lambda: Perturbation("x", 0, np.nan), InvalidArgument),
        (lambda: Perturbation("x").states(Robot(ARM), [0.0], [0, 0]), ShapeMismatch),
    ],
)
def test_wrong_perturbations(make, error):
    with pytest.raises(error):
        make()


def test_a_robot_without_inertia_is_refused_before_the_first_step():
    robot = Robot(ARM).with_parameters(np.zeros((2, 10)))
    with pytest.raises(SingularInertia):
        rollout(robot, [0, 0], [0, 0], dt=1e-3, steps=1)


def test_a_robot_rolls_out_itself():
    robot = Robot(ARM)
    a = robot.rollout(
        [0.1, 0.2], [0, 0], dt=1e-3, steps=5, without="passive", integrator="semi_implicit"
    )
    b = rollout(robot, [0.1, 0.2], [0, 0], dt=1e-3, steps=5)
    np.testing.assert_array_equal(a.q, b.q)


def storm(n: int, dt: float, native: bool = True):
    """Random inputs, sorted by what is wrong with them: nothing, NaN, huge, nearly no mass."""
    rng = np.random.default_rng(7)
    robot = Robot(ARM, native=native)
    kinds = np.arange(n) % 4
    q, v = rng.normal(size=(2, n, 2))
    tau = rng.normal(size=(n, 10, 2))
    inertia = robot.inertial_parameters * np.ones((n, 1, 1))
    row = np.arange(n)
    nan, huge, light = (row[kinds == k] for k in (1, 2, 3))
    q[nan[::3], rng.integers(2, size=len(nan[::3]))] = np.nan
    v[nan[1::3], 0] = -np.inf
    tau[nan[2::3], rng.integers(10, size=len(nan[2::3])), 1] = np.nan
    q[huge[::3], 0], v[huge[1::3], 1], tau[huge[2::3], 4, 0] = 1e308, -1e308, 1e308
    inertia[light, 1] *= 10.0 ** -rng.uniform(12, 320, (len(light), 1))
    found = rollout(
        robot, q, v, tau, dt=dt, steps=10, integrator="rk4", parameters={"inertia": inertia}
    )
    return kinds, found


@pytest.mark.parametrize("threads", [1, 2])
def test_a_storm_of_bad_inputs_gets_the_right_labels(threads):
    with qddot.threads(threads):
        kinds, found = storm(20_000, 1e-3)
    label = found.status.label
    assert set(label[kinds == 0]) <= {"ok", "limit_violated"}
    assert np.mean(label[kinds == 0] == "ok") > 0.9
    assert set(label[kinds == 1]) == {"nan_input"}
    assert set(label[kinds == 2]) == {"diverged"}
    assert np.isin(label[kinds == 3], ["ok", "diverged", "energy_gain", "limit_violated"]).all()
    assert (label[kinds == 3] == "diverged").any()
    # a label is right: what is not finite at the end is called so, and only that before the step
    lost = ~np.isfinite(found.q).all((-1, -2)) | ~np.isfinite(found.v).all((-1, -2))
    assert np.isin(label[lost], ["nan_input", "diverged"]).all()
    times = np.arange(11)
    before = times < np.where(found.status.step < 0, 11, found.status.step)[:, None]
    assert np.isfinite(found.q[before]).all()
    assert found.status.counts["nan_input"] == 5000


@pytest.mark.parametrize("dt", [1e3, 1e300])
def test_huge_steps_diverge_and_do_not_crash(dt):
    _, found = storm(400, dt)
    assert not np.isin(found.status.label, ["ok"]).any()
    _, text = storm(400, dt, native=False)
    assert (text.status.label == found.status.label).all()
    assert np.isin(text.status.label[1::4], ["nan_input", "diverged"]).all()


def test_every_label_has_a_remedy():
    assert set(LABELS) == {
        "ok", "nan_input", "diverged", "loop_open", "not_converged", "penetration",
        "limit_violated", "energy_gain",
    }  # fmt: skip
    assert all(len(words) > 10 for words in LABELS.values())


# springs: what they give back is no gain


def wound(robot: Robot, angle: float) -> np.ndarray:
    """A flexible robot at rest with its springs wound."""
    q = np.zeros(robot.nq)
    q[[k for k, name in enumerate(robot.joint_names) if name.endswith("spring")]] = angle
    return q


@pytest.mark.parametrize("effect", [ModelLosses(), Backlash(gap=0.01, stiffness=300.0)])
def test_springs_of_joints_give_back_what_they_kept(effect):
    flexible = qddot.load("planar_3r").with_flexible_joints(300.0, motor_inertia=0.05)
    robot = Robot(flexible.model, native=True)
    found = rollout(
        robot, wound(robot, 0.3), np.zeros(robot.nv), dt=1e-4, steps=2000, effects=[effect]
    )
    assert found.status.ok, str(found.status)
    ledger = energy_ledger(found)
    assert ledger.spring[0] == pytest.approx(
        3 * 0.5 * 300.0 * (0.3 - (0.005 if isinstance(effect, Backlash) else 0.0)) ** 2
    )
    assert np.ptp(ledger.kinetic) > 0.2 * ledger.spring[0]


def test_stops_give_back_what_they_kept():
    """A joint thrown against its stop comes back; the spring holds the energy at the turn."""
    robot = Robot(qddot.load("ur5e").with_gravity((0.0, 0.0, 0.0)).model, native=True)
    upper = robot.model.bodies[0].joint.limits.upper
    q, v = np.zeros(6), np.zeros(6)
    q[0], v[0] = upper - 0.1, 0.6
    stops = PenaltyStops(margin=0.05, dissipation=0.0)
    found = rollout(robot, q, v, dt=1e-5, steps=40000, integrator="rk4", effects=[stops])
    assert found.v[-1, 0] < -0.55
    ledger = energy_ledger(found)
    turn = np.argmin(ledger.kinetic)
    assert ledger.spring[turn] > 0.5 * ledger.kinetic[0]
    np.testing.assert_allclose(ledger.total, ledger.total[0], rtol=1e-4)
    # begun at the stop, the spring throws the joint back
    again = rollout(robot, found.q[turn], found.v[turn], dt=1e-4, steps=2000, effects=[stops])
    assert again.status.ok, str(again.status)


@pytest.mark.parametrize("line", [Delay(50), Gear(1.0, motor=(Delay(50),))])
def test_torques_under_way_are_no_gain(line):
    robot = qddot.load("planar_2r")
    delay = [line]
    first = rollout(
        robot, np.zeros(2), np.zeros(2), np.full(2, 30.0), dt=1e-3, steps=60, effects=delay
    )
    later = first.resume(np.zeros(2), steps=40)
    assert np.abs(later.v[-1]).max() > np.abs(later.v[0]).max()
    assert later.status.ok, str(later.status)


def test_bent_bristles_are_no_gain():
    robot = qddot.load("planar_2r").with_gravity((0.0, 0.0, 0.0))
    still, bristles = np.zeros(2), [LuGre(coulomb(1.0), 1e2)]
    first = rollout(robot, still, still, np.array([0.5, 0.0]), dt=1e-3, steps=60, effects=bristles)
    assert first.resume(np.zeros(2), steps=30).status.ok


def test_springs_whose_state_was_not_recorded_are_left_alone():
    class Keeper(Delay):
        def elastic_energy(self, model, q, state):
            return state[0]

    robot = qddot.load("planar_2r")
    found = rollout(robot, np.ones(2), np.zeros(2), dt=1e-3, steps=40, effects=[Keeper(1)])
    assert found.status.ok


def test_a_start_beyond_a_limit_is_a_note():
    robot = pendulum(-0.4, 0.3)
    how = {"dt": 2e-3, "steps": 20}
    stopped = simulate.rollout(robot, [-0.6], [0.0], **how)
    (note,) = stopped.status.notes
    assert note == (
        "joint 'hinge' starts 0.2 beyond its limit: it is put at its stop in the first step"
    )
    np.testing.assert_allclose(stopped.q[1:3, 0], -0.4, atol=1e-2)
    law = ComplementarityContact(Scene())
    batch = simulate.rollout(robot, [[-0.6], [0.0], [0.5]], np.zeros((3, 1)), contact=law, **how)
    (note,) = batch.status.notes
    assert "in 2 of 3 rollouts: 50% of the way back to its stop is taken a step" in note
    left = batch.q[0, :4, 0] + 0.4
    np.testing.assert_allclose(left[1:] / left[:-1], 0.5, atol=0.01)
    # at the limit, or without stops, there is nothing to tell
    assert not simulate.rollout(robot, [0.3], [0.0], **how).status.notes
    loose = simulate.rollout(robot, [-0.6], [0.0], without="limits", **how)
    assert loose.status.notes == ("switched off: limits",)
