"""Laws by their own equations: error dynamics, passivity, null space, what they refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import linalg

import qddot
from qddot import control
from qddot.control import State
from qddot.errors import (
    DuplicateMemory,
    InvalidArgument,
    JointsDiffer,
    QddotError,
    ShapeMismatch,
    UnknownName,
)
from qddot.robot.robot import Robot, Wrench

ARM = Robot(qddot.load("ur5e").model)
SEVEN = Robot(qddot.load("panda").model)
ALIGNED = "local_world_aligned"


def state(robot, seed=0, wrench=None):
    rng = np.random.default_rng(seed)
    wrenches = {} if wrench is None else {robot.frame_names[-1]: np.asarray(wrench, float)}
    return State(robot.random(rng), 0.3 * rng.normal(size=robot.nv), 1e-3, 0.0, wrenches), rng


def motion(robot, rng):
    return {
        "q_ref": robot.random(rng),
        "v_ref": rng.normal(size=robot.nv),
        "a_ref": rng.normal(size=robot.nv),
    }


def pose(robot, rng):
    return {
        "X_ref": robot.frame_pose(robot.random(rng), robot.frame_names[-1]),
        "V_ref": rng.normal(size=6),
        "A_ref": rng.normal(size=6),
    }


def accelerate(robot, at, tau, f_ext=None):
    return robot.forward_dynamics(at.q, at.v, tau, f_ext=f_ext)


def task_acceleration(robot, at, a):
    frame = robot.frame_names[-1]
    J = robot.frame_jacobian(at.q, frame, ALIGNED)
    return J @ a + robot.frame_jacobian_rate(at.q, at.v, frame, ALIGNED) @ at.v


def test_computed_torque_makes_the_error_linear():
    at, rng = state(SEVEN)
    ref = motion(SEVEN, rng)
    tau, _ = control.ComputedTorque(40.0, 9.0).command(SEVEN, at, ref, {})
    e, rate = SEVEN.difference(at.q, ref["q_ref"]), ref["v_ref"] - at.v
    expected = ref["a_ref"] + 40.0 * e + 9.0 * rate
    np.testing.assert_allclose(accelerate(SEVEN, at, tau), expected, rtol=1e-9, atol=1e-9)


def test_slotine_li_dissipates_what_its_gain_says():
    at, rng = state(SEVEN)
    ref, lam, K = motion(SEVEN, rng), 4.0, np.linspace(1.0, 3.0, 7)
    tau, _ = control.SlotineLi(lam, K).command(SEVEN, at, ref, {})
    s = ref["v_ref"] + lam * SEVEN.difference(at.q, ref["q_ref"]) - at.v
    a = accelerate(SEVEN, at, tau)
    ds = ref["a_ref"] + lam * (ref["v_ref"] - at.v) - a
    M, dM = SEVEN.mass_matrix(at.q), SEVEN.mass_matrix_rate(at.q, at.v)
    power = s @ M @ ds + 0.5 * s @ dM @ s
    assert power == pytest.approx(-s @ (K * s), rel=1e-9)


def test_feedforward_lacks_only_the_coriolis_term():
    at, rng = state(ARM)
    ref = {"q_ref": at.q, "v_ref": at.v, "a_ref": rng.normal(size=6)}
    tau, _ = control.Feedforward(5.0, 2.0).command(ARM, at, ref, {})
    whole = ARM.inverse_dynamics(at.q, at.v, ref["a_ref"])
    np.testing.assert_allclose(whole - tau, ARM.coriolis_matrix(at.q, at.v) @ at.v, atol=1e-10)


def test_the_integral_stops_where_torque_is_at_its_limit():
    law = control.PD(100.0, 0.0, ki=10.0, limit=5.0)
    at = State(np.zeros(6), np.zeros(6), 0.1)
    ref = {"q_ref": np.array([1.0, -1.0, 0.01, 0, 0, 0]), "v_ref": np.zeros(6)}
    _, kept = law.command(ARM, at, ref, {"integral": np.zeros(6)})
    np.testing.assert_allclose(kept["integral"], [0, 0, 0.001, 0, 0, 0], atol=1e-12)
    free = replace(law, limit=None)
    assert free.command(ARM, at, ref, {"integral": np.zeros(6)})[1]["integral"][0] == 0.1


@pytest.mark.parametrize("friction", [True, False])
def test_lqr_solves_the_riccati_equation_of_its_plant(friction):
    robot, h = Robot(qddot.load("planar_3r").model, native=False), 1e-5
    q, n = robot.random(1), robot.nv
    assert robot.friction(q, np.ones(n)).min() > 0.0

    def rate(x, tau):
        a = robot.forward_dynamics(x[:n], x[n:], tau, friction=friction)
        return np.concatenate([x[n:], a])

    # the linear model by central differences of the dynamics that plants have
    start, hold = np.concatenate([q, np.zeros(n)]), robot.gravity(q)
    A = [(rate(start + h * e, hold) - rate(start - h * e, hold)) / (2 * h) for e in np.eye(2 * n)]
    B = [(rate(start, hold + h * e) - rate(start, hold - h * e)) / (2 * h) for e in np.eye(n)]
    A, B = np.transpose(A), np.transpose(B)
    P = linalg.solve_continuous_are(A, B, 2.0 * np.eye(2 * n), np.eye(n))
    choices = {} if friction else {"friction": False}
    law = control.LQR.about(robot, q, Q=2.0, **choices)
    np.testing.assert_allclose(law.K, B.T @ P, atol=1e-5 * np.abs(law.K).max())
    tau, _ = law.command(robot, State(q, np.zeros(n)), {}, {})
    np.testing.assert_allclose(tau, hold)


def test_operational_space_moves_the_frame_as_asked_and_posture_does_not_disturb_it():
    at, rng = state(SEVEN)
    ref, frame = {**pose(SEVEN, rng), "q_ref": SEVEN.random(rng)}, SEVEN.frame_names[-1]
    moved = []
    for posture in (0.0, 30.0):
        law = control.OperationalSpace(frame, 50.0, 14.0, kp_posture=posture, kd_posture=posture)
        tau, kept = law.command(SEVEN, at, ref, {})
        assert kept["damping"] == 0.0
        a = accelerate(SEVEN, at, tau)
        e = control.pose_error(ref["X_ref"], SEVEN.frame_pose(at.q, frame))
        V = SEVEN.frame_jacobian(at.q, frame, ALIGNED) @ at.v
        expected = ref["A_ref"] + 50.0 * e + 14.0 * (ref["V_ref"] - V)
        np.testing.assert_allclose(task_acceleration(SEVEN, at, a), expected, atol=1e-8)
        moved.append(a)
    assert np.abs(moved[0] - moved[1]).max() > 1.0


def test_damping_bounds_the_torque_at_a_singularity_and_is_told():
    q = np.zeros(7)
    at, frame = State(q, np.zeros(7)), SEVEN.frame_names[-1]
    X = SEVEN.frame_pose(q, frame)
    X = X.copy()
    X[2, 3] += 0.1
    ref = {"X_ref": X, "V_ref": np.zeros(6), "A_ref": np.zeros(6), "q_ref": q}
    law = control.OperationalSpace(frame, 100.0, 20.0, onset=0.5, most_damping=2.0)
    tau, kept = law.command(SEVEN, at, ref, {})
    assert np.isfinite(tau).all()
    assert np.abs(tau).max() < 100.0
    assert kept["damping"] == pytest.approx(2.0, rel=1e-3)


def test_impedance_at_rest_is_a_spring_and_inertia_can_be_shaped():
    push = np.array([3.0, -2.0, 1.0, 0.1, 0.2, -0.3])
    at, rng = state(ARM, wrench=push)
    frame = ARM.frame_names[-1]
    ref = pose(ARM, rng)
    K, D, inertia = 300.0, 20.0, np.array([4.0, 4.0, 4.0, 0.3, 0.3, 0.3])
    law = control.CartesianImpedance(frame, K, D, inertia=inertia)
    tau, _ = law.command(ARM, at, ref, {})
    a = accelerate(ARM, at, tau, Wrench(frame, ALIGNED, push))
    e = control.pose_error(ref["X_ref"], ARM.frame_pose(at.q, frame))
    V = ARM.frame_jacobian(at.q, frame, ALIGNED) @ at.v
    force = K * e + D * (ref["V_ref"] - V) + push
    expected = ref["A_ref"] + force / inertia
    np.testing.assert_allclose(task_acceleration(ARM, at, a), expected, rtol=1e-8, atol=1e-8)
    # without shaping the torque is that of the wrench at the frame
    plain = control.CartesianImpedance(frame, K, D)
    tau, _ = plain.command(ARM, at, ref, {})
    J = ARM.frame_jacobian(at.q, frame, ALIGNED)
    np.testing.assert_allclose(tau, J.T @ (force - push) + ARM.bias(at.q, at.v), atol=1e-9)


def test_presets_are_damped_for_the_inertia_at_a_pose():
    q = ARM.random(2)
    law = control.CartesianImpedance.preset(ARM, "stiff", "tool0", q, ratio=0.7)
    J = ARM.frame_jacobian(q, "tool0", ALIGNED)
    A = J @ np.linalg.solve(ARM.mass_matrix(q), J.T)
    felt = np.concatenate([np.diag(np.linalg.inv(A))[:3], 1.0 / np.diag(A)[3:]])
    np.testing.assert_allclose(law.damping, 1.4 * np.sqrt(law.stiffness * felt))
    with pytest.raises(UnknownName, match="stif"):
        control.CartesianImpedance.preset(ARM, "stif", "tool0", q)


def test_admittance_rests_where_its_spring_balances_the_push():
    push = np.array([4.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    at, _ = state(ARM, wrench=push)
    frame = ARM.frame_names[-1]
    law = control.Admittance(frame, 2.0, 40.0, 200.0, 100.0, 20.0)
    ref = {"X_ref": ARM.frame_pose(at.q, frame), "V_ref": np.zeros(6), "A_ref": np.zeros(6)}
    memory = law.memory(ARM)
    for _ in range(25):
        _, memory = law.command(ARM, replace(at, dt=2.0), ref, memory)
    np.testing.assert_allclose(memory["offset"], push / 200.0, atol=1e-6)


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_hybrid_pushes_along_one_axis_of_any_frame_and_moves_along_the_rest(angle):
    c, s = np.cos(angle), np.sin(angle)
    axes = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    at, rng = state(ARM, wrench=np.zeros(6))
    frame, ref = ARM.frame_names[-1], pose(ARM, rng)
    ref["F_ref"] = np.concatenate([axes[:, 2] * 5.0, np.zeros(3)])
    law = control.Hybrid(
        frame, np.array([0, 0, 1.0, 0, 0, 0]), 50.0, 14.0, 0.0, 0.0, 0.0, axes=axes, feedforward=0.0
    )
    tau, _ = law.command(ARM, at, ref, {"force_integral": np.zeros(6)})
    # held along the normal by a wall that pushes back with the wanted force, the rest moves freely
    a = accelerate(ARM, at, tau, Wrench(frame, ALIGNED, ref["F_ref"]))
    e = control.pose_error(ref["X_ref"], ARM.frame_pose(at.q, frame))
    V = ARM.frame_jacobian(at.q, frame, ALIGNED) @ at.v
    wanted = ref["A_ref"] + 50.0 * e + 14.0 * (ref["V_ref"] - V)
    found = task_acceleration(ARM, at, a)
    T = np.kron(np.eye(2), axes)
    expected = T.T @ wanted
    expected[2] = 0.0
    np.testing.assert_allclose(T.T @ found, expected, rtol=1e-7, atol=1e-7)


def test_gains_follow_bandwidth_inertia_delay_and_resonance():
    q = ARM.random(3)
    gains = control.joint_gains(ARM, 10.0, 0.7, q=q)
    M = np.diag(ARM.mass_matrix(q))
    np.testing.assert_allclose(gains.kp, 100.0 * M)
    np.testing.assert_allclose(gains.kd, 14.0 * M)
    free = control.joint_inertias(ARM, q, "free")
    assert (free <= M + 1e-12).all()
    assert control.bandwidth_bound(resonance=100.0) == 20.0
    assert control.bandwidth_bound(delay=0.001, rate=1000.0) == pytest.approx(0.5 / 0.0025)
    with pytest.raises(InvalidArgument, match="allow 20 rad/s"):
        control.joint_gains(ARM, 30.0, q=q, resonance=100.0)
    with pytest.raises(UnknownName, match="inertia rule"):
        control.joint_inertias(ARM, q, "heavy")
    assert control.force_integral_bound(10.0, 300.0) == 15.0
    assert control.force_integral_bound(10.0, 300.0, delay=0.1) == pytest.approx(np.pi / 0.6)


def test_saturation_bounds_torque_and_rate_and_friction_is_added():
    inner = control.FrictionCompensation(control.PD(1000.0, 0.0), coulomb=2.0, viscous=1.0)
    ref = {"q_ref": np.full(6, 0.001), "v_ref": np.full(6, 3.0)}
    at = State(np.zeros(6), np.zeros(6), 0.01)
    np.testing.assert_allclose(inner.command(ARM, at, ref, {})[0], 1.0 + 2.0 + 3.0)
    law = control.Saturation(inner, effort=4.0, rate=100.0)
    tau, memory = law.command(ARM, at, ref, law.memory(ARM))
    np.testing.assert_allclose(tau, 4.0)
    back = {"q_ref": np.full(6, -1.0), "v_ref": np.zeros(6)}
    np.testing.assert_allclose(law.command(ARM, at, back, memory)[0], 3.0)


@dataclass(frozen=True, eq=False)
class Wrong:
    """A law that returns what it is told to."""

    tau: object
    kept: object = None

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {"x": 0.0}

    def command(self, robot, state, reference, memory):
        return self.tau, memory if self.kept is None else self.kept


def test_bad_laws_and_plants_are_refused_in_words():
    plant = control.RolloutPlant(ARM)
    zero = np.zeros(6)

    def go(law, reference=None, **choices):
        return control.run(plant, law, reference, duration=0.002, **choices)

    with pytest.raises(ShapeMismatch, match=r"Wrong.command.*\(6,\)"):
        go(Wrong(np.zeros(5)))
    with pytest.raises(InvalidArgument, match="finite torques"):
        go(Wrong(np.full(6, np.nan)))
    with pytest.raises(InvalidArgument, match="memory"):
        go(Wrong(zero, {}))
    with pytest.raises(ShapeMismatch, match="memory 'x'"):
        go(Wrong(zero, {"x": zero}))
    with pytest.raises(QddotError, match="law"):
        go("no law")
    with pytest.raises(UnknownName, match="tool9"):
        go(control.OperationalSpace("tool9", 1.0, 1.0))
    with pytest.raises(ShapeMismatch, match="kp"):
        go(control.PD(np.ones(5), 1.0), {"q_ref": zero, "v_ref": zero})
    with pytest.raises(InvalidArgument, match="v_ref"):
        go(control.PD(1.0, 1.0), {"q_ref": zero})
    with pytest.raises(ShapeMismatch, match="q_ref"):
        go(control.PD(1.0, 1.0), {"q_ref": np.zeros(5), "v_ref": zero})
    with pytest.raises(InvalidArgument, match="finite"):
        go(control.PD(1.0, 1.0), {"q_ref": np.full(6, np.nan), "v_ref": zero})
    with pytest.raises(QddotError, match="w_ref"):
        go(control.PD(1.0, 1.0), {"q_ref": zero, "v_ref": zero, "w_ref": zero})
    with pytest.raises(JointsDiffer, match="shoulder_pan_joint"):
        control.run(
            control.RolloutPlant(SEVEN), control.GravityCompensation(), duration=0.002, robot=ARM
        )
    with pytest.raises(InvalidArgument, match="rate"):
        go(control.GravityCompensation(), rate=300.0)
    with pytest.raises(InvalidArgument, match="duration"):
        control.run(plant, control.GravityCompensation(), duration=-1.0)


def test_a_law_around_a_law_keeps_its_labels_and_its_memory_apart():
    inner = control.MomentumObserver(control.PD(10.0, 1.0))
    outer = control.SafetyShell.from_limits(ARM, control.CollisionObserver(inner), ARM.neutral())
    assert set(outer.labels) == {"collision", "trip"}
    assert set(outer.memory(ARM)) > set(inner.memory(ARM))
    # two values of one name would overwrite each other
    twice = "'last_commands' is used twice, by MomentumObserver and by MomentumObserver inside it"
    with pytest.raises(DuplicateMemory, match=twice):
        control.MomentumObserver(control.Saturation(inner, 10.0)).memory(ARM)


def test_a_collision_observer_needs_a_residual_inside():
    with pytest.raises(InvalidArgument, match="MomentumObserver"):
        control.CollisionObserver(control.PD(10.0, 1.0)).memory(ARM)


def test_bounds_below_zero_are_refused_where_they_are_known():
    inner = control.PD(10.0, 1.0)
    bad = np.array([5.0, 5.0, -1e-9, 5.0, 5.0, 5.0])
    for value in (-5.0, -1, bad, np.stack([np.abs(bad), bad])):
        with pytest.raises(InvalidArgument, match=r"Saturation: effort.*0 or more"):
            control.Saturation(inner, value)
        with pytest.raises(InvalidArgument, match=r"Saturation: rate.*0 or more"):
            control.Saturation(inner, 5.0, value)
        with pytest.raises(InvalidArgument, match=r"SafetyShell: effort.*0 or more"):
            control.SafetyShell(inner, damping=1.0, effort=value)
        with pytest.raises(InvalidArgument, match=r"SafetyShell: damping.*0 or more"):
            control.SafetyShell(inner, damping=value)
    # zero is a bound; as an input a bound has no value while the law is recorded
    rng = np.random.default_rng(0)
    state = State(ARM.random(rng), rng.normal(size=6))
    reference = {"q_ref": ARM.random(rng), "v_ref": np.zeros(6)}
    free, _ = inner.command(ARM, state, reference, {})
    for effort in (0.0, np.abs(bad)):
        law = control.Saturation(inner, effort)
        compiled = control.compile_law(ARM, law, "all")
        assert "effort" in compiled.gains
        tau, _ = compiled.command(ARM, state, reference, {})
        np.testing.assert_allclose(tau, np.sign(free) * np.minimum(np.abs(free), effort))
