"""Runs: plants, rates, latency, sensing, traces, the safety shell, observers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import signal

import qddot
from qddot import control
from qddot.control import State
from qddot.errors import DescriptionError, InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.robot import Robot, Wrench

PENDULUM = Robot(qddot.load("double_pendulum").model, native=True)
ARM = Robot(qddot.load("ur5e").model, native=True)
ZERO = np.zeros(2)


@dataclass(frozen=True, eq=False)
class Probe:
    """A law that keeps what it is told of the state."""

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {"q": np.zeros(robot.nq), "time": 0.0, "dt": 0.0}

    def command(self, robot, state, reference, memory):
        kept = {"q": 1.0 * state.q, "time": 1.0 * state.time, "dt": 1.0 * state.dt}
        return robot.gravity(state.q) * 0.9, kept


def plant_at(q=(0.3, -0.4), **choices):
    plant = control.RolloutPlant(PENDULUM, **choices)
    plant.reset(np.array(q))
    return plant


def test_a_run_is_the_rollout_of_its_torques():
    plant = plant_at()
    trace = control.run(plant, Probe(), duration=0.05)
    found = PENDULUM.rollout(trace.q[0], trace.v[0], trace.tau, dt=1e-3, steps=50)
    np.testing.assert_allclose(found.q[:-1], trace.q, atol=1e-13)
    np.testing.assert_allclose(found.q[-1], plant.q, atol=1e-13)
    np.testing.assert_array_equal(trace.memory["q"], trace.q)


def test_latency_and_rate_are_as_asked():
    sensing = control.Sensing(latency=0.003)
    trace = control.run(plant_at(), Probe(), duration=0.04, rate=500.0, sensing=sensing)
    assert len(trace.time) == 20
    np.testing.assert_allclose(trace.memory["dt"], 2e-3)
    np.testing.assert_allclose(trace.memory["time"][2:], trace.time[2:] - 0.003, atol=1e-12)


def test_a_batch_with_rates_and_latencies_of_its_own_is_its_members():
    rates, late = np.array([1000.0, 500.0, 250.0]), np.array([0.0, 2e-3, 1e-3])
    start = np.array([[0.3, -0.4], [0.1, 0.2], [-0.5, 0.1]])
    plant = plant_at()
    plant.reset(start)
    sensing = control.Sensing(latency=late)
    control.run(plant, Probe(), duration=0.04, rate=rates, sensing=sensing)
    for k in range(3):
        one = plant_at(start[k])
        sensing = control.Sensing(latency=late[k])
        control.run(one, Probe(), duration=0.04, rate=rates[k], sensing=sensing)
        np.testing.assert_allclose(plant.q[k], one.q, atol=1e-12)


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 1), (2, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("name", ["latency", "rate"])
def test_latencies_and_rates_broadcast_to_the_batch(name, shape):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(2, 3, 2))
    choices = {"latency": [0.0, 2e-3, 5e-3], "rate": [1000.0, 500.0, 250.0]}
    given = rng.choice(choices[name], shape)

    def final(q, value):
        plant = plant_at()
        plant.reset(q)
        if name == "rate":
            control.run(plant, Probe(), duration=0.02, rate=value)
        else:
            control.run(plant, Probe(), duration=0.02, sensing=control.Sensing(latency=value))
        return plant.q

    found = final(start, given)
    for i in np.ndindex(2, 3):
        alone = final(start[i], np.broadcast_to(given, (2, 3))[i])
        np.testing.assert_allclose(found[i], alone, atol=1e-12)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (2, 3)])
def test_bias_and_noise_broadcast_to_the_batch(shape):
    rng, frame = np.random.default_rng(0), PENDULUM.frame_names[-1]
    bias, spread = rng.normal(size=shape), rng.uniform(0.1, 1.0, shape)
    heard = []
    for sensing in (
        control.Sensing(force_bias=bias),
        control.Sensing(force_noise=1.0, seed=3),
        control.Sensing(force_bias=bias, force_noise=spread, seed=3),
    ):
        plant = plant_at()
        plant.reset(np.zeros((2, 3, 2)))
        trace = control.run(plant, Listener(), duration=0.004, sensing=sensing)
        heard.append(trace.memory["heard"] - trace.wrenches[frame])
    level, noise, both = heard
    # the last axes are samples and the wrench
    each = np.broadcast_to(bias, (2, 3))[..., None, None] * ([1.0] * 3 + [0.0] * 3)
    np.testing.assert_allclose(level, np.broadcast_to(each, level.shape), atol=1e-12)
    scaled = np.broadcast_to(spread, (2, 3))[..., None, None] * noise
    np.testing.assert_allclose(both, each + scaled, atol=1e-12)


@pytest.mark.parametrize(
    ("batch", "shape"), [((), (1,)), ((), (3,)), ((3,), (2,)), ((3,), (3, 3)), ((2, 3), (2,))]
)
def test_sensing_that_does_not_fit_the_batch_is_refused(batch, shape):
    plant = plant_at()
    plant.reset(np.zeros((*batch, 2)))
    for name in ("latency", "force_bias", "force_noise"):
        sensing = control.Sensing(**{name: np.zeros(shape)})
        with pytest.raises(ShapeMismatch, match=f"{name} must have shape .*batch"):
            control.run(plant, Probe(), duration=0.01, sensing=sensing)
    with pytest.raises(ShapeMismatch, match=r"rate must have shape .*batch"):
        control.run(plant, Probe(), duration=0.01, rate=np.full(shape, 500.0))


def test_a_batch_of_text_is_that_of_code():
    start = np.array([[0.3, -0.4], [0.1, 0.2]])
    law = control.PD(20.0, 3.0, ki=2.0, gravity=True)
    ends = []
    for compiled in (True, False):
        plant = plant_at()
        plant.reset(start)
        ref = {"q_ref": ZERO, "v_ref": ZERO}
        ends.append(control.run(plant, law, ref, duration=0.02, compiled=compiled).q)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


def test_traces_are_kept_loaded_and_drawn(tmp_path):
    shell = control.SafetyShell(Probe(), damping=1.0, velocity=0.2)
    trace = control.run(plant_at(), shell, duration=0.3)
    file = tmp_path / "run.npz"
    trace.save(file)
    again = control.load_trace(file)
    for name in ("time", "q", "v", "tau"):
        np.testing.assert_array_equal(getattr(again, name), getattr(trace, name))
    assert again.events == trace.events
    assert again.joints == PENDULUM.joint_names
    assert set(again.memory) == set(trace.memory)
    trace.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidArgument, match="npz"):
        trace.save(tmp_path / "run.txt")
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(DescriptionError, match="no trace"):
        control.load_trace(tmp_path / "bad.npz")


def test_record_keeps_what_it_names():
    trace = control.run(plant_at(), Probe(), duration=0.005, record=("time",))
    assert set(trace.memory) == {"time"}
    with pytest.raises(UnknownName, match="speed"):
        control.run(plant_at(), Probe(), duration=0.005, record=("speed",))


def guarded(**guards):
    law = control.GravityCompensation()
    return control.SafetyShell(law, damping=2.0, **guards)


@pytest.mark.parametrize(
    ("label", "guards", "change"),
    [
        ("state is not a number", {}, {"q": np.array([np.nan, 0.0])}),
        ("joint limit", {"upper": 0.5}, {"q": np.array([0.6, 0.0])}),
        ("velocity limit", {"velocity": 1.0}, {"v": np.array([0.0, -1.5])}),
        ("torque limit", {"effort": 1e-3}, {}),
        ("workspace limit", {"frame": "tip", "highest": -5.0}, {}),
    ],
)
def test_each_guard_trips_with_its_label_and_falls_back(label, guards, change):
    if "frame" in guards:
        guards = {**guards, "frame": PENDULUM.frame_names[-1]}
    shell, memory = guarded(**guards), None
    memory = {n: np.asarray(x, float) for n, x in shell.memory(PENDULUM).items()}
    at = State(np.array([0.2, 0.3]), np.array([0.1, 0.2]), 1e-3, 0.5)
    if label not in ("torque limit", "workspace limit"):
        tau, memory = shell.command(PENDULUM, at, {}, memory)
        assert memory["trip"] == 0.0
        np.testing.assert_allclose(tau, PENDULUM.gravity(at.q))
    bad = replace(at, time=0.501, **change)
    tau, memory = shell.command(PENDULUM, bad, {}, memory)
    assert control.TRIPS[int(memory["trip"])] == label
    assert np.isfinite(tau).all()
    # for good, with damping
    tau, memory = shell.command(PENDULUM, replace(at, time=0.502), {}, memory)
    assert control.TRIPS[int(memory["trip"])] == label
    effort = guards.get("effort", np.inf)
    np.testing.assert_allclose(tau, (PENDULUM.gravity(at.q) - 2.0 * at.v).clip(-effort, effort))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_fallback_of_a_shell_keeps_to_the_effort(compiled):
    q = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
    shell = control.SafetyShell.from_limits(ARM, control.GravityCompensation(), q)
    law = control.compile_law(ARM, shell) if compiled else shell
    memory = {n: np.asarray(x, float) for n, x in shell.memory(ARM).items()}
    most = ARM.limits.effort
    # so fast that damping alone asks for more
    for v in (np.full(6, 80.0), np.array([30.0, -80.0, 80.0, 0.0, -90.0, 200.0])):
        tau, after = law.command(ARM, State(q, v, 1e-3, 0.5), {}, memory)
        assert control.TRIPS[int(after["trip"])] == "velocity limit"
        wanted = ARM.gravity(q) - control.gravity_damping(ARM, q, 0.1) * v
        assert (np.abs(wanted) > most).any()
        np.testing.assert_allclose(tau, np.minimum(np.maximum(wanted, -most), most), rtol=1e-12)


def test_a_stale_state_and_a_law_without_numbers_trip():
    shell = guarded(stale=0.0025)
    memory = {n: np.asarray(x, float) for n, x in shell.memory(PENDULUM).items()}
    at = State(np.array([0.2, 0.3]), ZERO, 1e-3, 0.5)
    trips = []
    for _ in range(5):
        _, memory = shell.command(PENDULUM, at, {}, memory)
        trips.append(control.TRIPS[int(memory["trip"])])
    assert trips == ["running"] * 3 + ["stale state"] * 2
    nan = control.SafetyShell(control.GravityCompensation(np.nan), damping=1.0)
    memory = {n: np.asarray(x, float) for n, x in nan.memory(PENDULUM).items()}
    tau, memory = nan.command(PENDULUM, at, {}, memory)
    assert control.TRIPS[int(memory["trip"])] == "torque is not a number"
    assert np.isfinite(tau).all()


def test_a_trip_is_an_event_of_the_trace():
    plant = plant_at()
    trace = control.run(plant, guarded(velocity=0.05), duration=0.2, pushes=())
    assert trace.events == ()
    # also at the first sample
    for compiled in (False, True):
        plant.reset(np.array([0.3, -0.4]), np.array([0.1, 0.0]))
        trace = control.run(plant, guarded(velocity=0.05), duration=0.01, compiled=compiled)
        assert trace.memory["trip"][0] == control.TRIPS.index("velocity limit")
        assert trace.events == (control.Event(0.0, "velocity limit"),)


def test_the_observer_follows_an_external_torque():
    plant = control.RolloutPlant(ARM)
    q = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
    plant.reset(q)
    kd = control.gravity_damping(ARM, q, 0.02, "free")
    law = control.MomentumObserver(control.GravityCompensation(kd), bandwidth=200.0)
    push = Wrench("tool0", "local_world_aligned", [4.0, -3.0, 5.0, 0.0, 0.0, 0.0])
    trace = control.run(plant, law, duration=0.06, pushes=[push], compiled=True)
    J = ARM.frame_jacobian(trace.q[-1], "tool0", "local_world_aligned")
    r = trace.memory["residual"][-1]
    np.testing.assert_allclose(r, J.T @ push.value, atol=0.02)
    found = control.wrench_at_frame(ARM, trace.q[-1], r, "tool0")
    np.testing.assert_allclose(found, push.value, atol=0.1)


@pytest.mark.parametrize("latency", [0.0, 0.0035, 0.01])
@pytest.mark.parametrize("rate", [1000.0, 250.0])
def test_late_measurements_raise_no_false_alarms(latency, rate):
    # a perfect model in fast motion: what is left is the error of discrete time
    q = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
    gains = control.joint_gains(ARM, 15.0, inertia="unit")
    observer = control.MomentumObserver(control.ComputedTorque(gains.kp, gains.kd), 100.0)
    law = control.CollisionObserver(observer, uncertainty=0.0, floor=1.0)

    def swing(t):
        w = 2.0 * np.pi * 1.5
        phase, wave = w * t, 0.25 * np.ones(6)
        return {
            "q_ref": q + wave * (1.0 - np.cos(phase)),
            "v_ref": wave * w * np.sin(phase),
            "a_ref": wave * w * w * np.cos(phase),
        }

    plant = control.RolloutPlant(ARM, dt=5e-4, without="friction")
    plant.reset(q)
    choices = {"sensing": control.Sensing(latency=latency), "rate": rate, "compiled": True}
    trace = control.run(plant, law, swing, duration=0.6, **choices)
    assert np.abs(trace.memory["residual"]).max() < 0.6
    assert not trace.memory["collision"].any()
    # which an observer that takes states for timely ones raises
    plant.reset(q)
    naive = replace(law, law=replace(observer, delay=0.0))
    assert control.run(plant, naive, swing, duration=0.6, **choices).memory["collision"].any() == (
        latency > 0.0
    )
    # a push is seen all the same, later by the latency
    push = Wrench("tool0", "local_world_aligned", [0.0, 0.0, -40.0, 0.0, 0.0, 0.0])
    plant.reset(q)
    hit = lambda t: [push] if t >= 0.3 else []  # noqa: E731
    trace = control.run(plant, law, swing, duration=0.6, pushes=hit, **choices)
    alarm = trace.time[np.argmax(trace.memory["collision"] > 0.5)]
    assert 0.3 + latency <= alarm < 0.33 + latency


def test_delays_of_a_batch_are_those_of_its_members():
    q = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
    law = control.MomentumObserver(control.GravityCompensation(2.0), 100.0)
    law = control.SafetyShell(control.CollisionObserver(law), damping=1.0)
    late = np.array([0.0, 0.004, 0.01])
    plant = control.RolloutPlant(ARM)
    plant.reset(np.broadcast_to(q, (3, 6)))
    trace = control.run(plant, law, duration=0.05, sensing=control.Sensing(latency=late))
    for k, latency in enumerate(late):
        plant.reset(q)
        sensing = control.Sensing(latency=latency)
        one = control.run(plant, law, duration=0.05, sensing=sensing, compiled=True)
        np.testing.assert_allclose(trace.memory["residual"][k], one.memory["residual"], atol=1e-9)


def test_a_latency_above_the_age_that_a_shell_accepts_trips_nothing_while_the_line_fills():
    gravity = control.GravityCompensation(0.1)
    shell = control.SafetyShell(gravity, damping=1.0, stale=0.005)
    for latency in (0.0, 0.02, 2.0):
        sensing = control.Sensing(latency=latency)
        trace = control.run(plant_at(), shell, duration=0.06, sensing=sensing)
        assert trace.events == ()


def test_a_batch_names_its_members_without_torques():
    gains = np.array([[0.1, 0.1], [0.1, np.nan], [0.1, 0.1]])
    plant = control.RolloutPlant(PENDULUM)
    plant.reset(np.zeros((3, 2)))
    trace = control.run(plant, control.GravityCompensation(gains), duration=0.01)
    assert trace.events == (control.Event(0.0, "member 1: the torque is not a number"),)
    with pytest.raises(InvalidArgument, match=r"effort\[2, 0\]"):
        control.Saturation(control.GravityCompensation(), np.array([[1, 1], [2, 2], [-1, 2]]))


SLIDER = """<robot name="slider"><link name="rail"/><link name="cart"><inertial><mass value="2.5"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
  <limit lower="-100" upper="100" effort="50" velocity="50"/></joint></robot>"""


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 0.01, 0.02, 0.025, 0.1, 1.0])
def test_the_residual_of_a_step_is_that_of_the_filter_at_any_rate(tmp_path, dt):
    (tmp_path / "slider.urdf").write_text(SLIDER)
    cart = Robot(qddot.load(tmp_path / "slider.urdf").model, native=False)
    bandwidth, force = 100.0, 3.0
    inner = control.MomentumObserver(control.GravityCompensation(), bandwidth)
    laws = {
        "residual": control.CollisionObserver(inner),
        # whose own torque is none of the residual
        "disturbance_residual": control.DisturbanceCompensation(
            control.GravityCompensation(), bandwidth, limit=0.0
        ),
    }
    for name, law in laws.items():
        memory = {n: np.asarray(x, float) for n, x in law.memory(cart).items()}
        found = []
        for k in range(60):
            # a cart of 2.5 kg on a level rail, pushed by 3 N from the first sample on
            v = np.array([force / 2.5 * dt * k])
            state = State(np.zeros(1), v, dt, dt * k)
            _, memory = law.command(cart, state, {}, memory)
            found.append(memory[name][0])
        filtered = force * (1.0 - np.exp(-bandwidth * dt * np.arange(60)))
        np.testing.assert_allclose(found, filtered, atol=1e-9)


def test_disturbances_are_taken_out():
    plant = control.RolloutPlant(ARM)
    q = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
    heavy = ARM.with_parameters(ARM.inertial_parameters * 1.03)
    gains = control.joint_gains(ARM, 20.0, inertia="unit")
    inner = control.ComputedTorque(gains.kp, gains.kd)
    ref = {"q_ref": q, "v_ref": np.zeros(6), "a_ref": np.zeros(6)}
    errors = []
    for law in (inner, control.DisturbanceCompensation(inner)):
        plant = control.RolloutPlant(heavy)
        plant.reset(q)
        control.run(plant, law, ref, duration=0.6, robot=ARM, compiled=True)
        errors.append(np.abs(plant.q - q).max())
    assert errors[0] > 1e-3
    assert errors[1] < 1e-4 * errors[0] + 1e-6


def test_a_fast_observer_goes_around_a_slow_compensation():
    q = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
    gains = control.joint_gains(ARM, 20.0, inertia="unit")
    ref = {"q_ref": q, "v_ref": np.zeros(6), "a_ref": np.zeros(6)}
    heavy = ARM.with_parameters(ARM.inertial_parameters * 1.03)
    inner = control.DisturbanceCompensation(control.ComputedTorque(gains.kp, gains.kd), 10.0)
    outer = control.CollisionObserver(control.MomentumObserver(inner, 200.0))
    laws = (inner, outer, control.VelocityFromPositions(control.Saturation(outer, 300.0, 1e5)))
    traces = []
    for law in laws:
        plant = control.RolloutPlant(heavy)
        plant.reset(q)
        traces.append(control.run(plant, law, ref, duration=0.2, robot=ARM, compiled=True))
    alone, observed, _ = traces
    # an observer changes no torque
    np.testing.assert_allclose(observed.tau, alone.tau, atol=1e-9)
    for trace, law in zip(traces, laws, strict=True):
        assert set(trace.memory) == set(law.memory(ARM))
    names = {"residual", "disturbance_residual", "disturbance", "collision"}
    assert names < set(observed.memory)
    # both see the same external torque, the slow one later
    late, soon = observed.memory["disturbance_residual"], observed.memory["residual"]
    np.testing.assert_allclose(late, alone.memory["disturbance_residual"], atol=1e-9)
    np.testing.assert_allclose(soon[-1], ARM.gravity(q) - heavy.gravity(q), atol=0.05)
    assert np.abs(late[20]).max() < 0.5 * np.abs(soon[20]).max()


def test_uncertainty_bounds_the_error_of_every_model_within_it():
    rng, arm = np.random.default_rng(0), Robot(ARM.model, native=False)
    for _ in range(10):
        q, v, a = arm.random(rng), rng.normal(size=6), rng.normal(size=6)
        # each body by its own share, and every body by the largest, one way or the other
        for scale in (rng.uniform(0.95, 1.05, (6, 1)), rng.choice([0.95, 1.05], (6, 1))):
            other = arm.with_parameters(arm.inertial_parameters * scale)
            off = other.inverse_dynamics(q, v, a) - arm.inverse_dynamics(q, v, a)
            bound = control.torque_error_bound(arm, q, v, a, 0.05)
            assert (np.abs(off) <= bound + 1e-12).all()
    # the last joint carries one body, whose error reaches the bound
    assert abs(off[-1]) == pytest.approx(bound[-1], rel=1e-9)


def test_a_payload_is_found_from_static_torques():
    rng = np.random.default_rng(1)
    loaded = ARM.with_payload("tool0", 1.7, (0.02, -0.03, 0.08))
    q = np.array([ARM.random(rng) for _ in range(6)])
    found = control.estimate_payload(ARM, q, loaded.gravity(q), "tool0")
    assert found.mass == pytest.approx(1.7, rel=1e-9)
    np.testing.assert_allclose(found.com, [0.02, -0.03, 0.08], atol=1e-9)
    with pytest.raises(InvalidArgument, match="centre of mass"):
        control.estimate_payload(ARM, q[:1], loaded.gravity(q[:1]), "tool0")
    with pytest.raises(ShapeMismatch):
        control.estimate_payload(ARM, q, np.zeros((2, 6)), "tool0")


@dataclass(frozen=True, eq=False)
class Listener(Probe):
    """A law that keeps the wrench it is told."""

    def senses(self, robot):
        return (robot.frame_names[-1],)

    def memory(self, robot):
        return {"heard": np.zeros(6), "v": np.zeros(robot.nv)}

    def command(self, robot, state, reference, memory):
        heard = 1.0 * state.wrenches[robot.frame_names[-1]]
        return robot.gravity(state.q), {"heard": heard, "v": 1.0 * state.v}


def feed(law, rows, frame):
    memory = {n: np.asarray(x, float) for n, x in law.memory(PENDULUM).items()}
    heard = []
    for k, row in enumerate(rows):
        at = State(np.array([0.1 * k, 0.0]), ZERO, 1e-3, k * 1e-3, {frame: row})
        _, memory = law.command(PENDULUM, at, {}, memory)
        heard.append(memory["heard"] if "heard" in memory else memory["v"])
    return np.array(heard), memory


def test_filters_are_those_of_scipy_and_taring_takes_a_mean():
    rng, frame = np.random.default_rng(0), PENDULUM.frame_names[-1]
    rows = rng.normal(size=(60, 6)) + 3.0
    for order in (1, 2, 3):
        law = control.ButterworthForce(Listener(), cutoff=300.0, period=1e-3, order=order)
        found, _ = feed(law, rows, frame)
        sos = signal.butter(order, 300.0, fs=2 * np.pi / 1e-3, output="sos")
        expected = np.empty_like(rows)
        for k in range(6):
            zi = signal.sosfilt_zi(sos) * rows[0, k]
            expected[:, k] = signal.sosfilt(sos, rows[:, k], zi=zi)[0]
        np.testing.assert_allclose(found, expected, atol=1e-10)
    found, _ = feed(control.TareForce(Listener(), 0.02), rows, frame)
    np.testing.assert_allclose(found[20:], rows[20:] - rows[:20].mean(axis=0), atol=1e-12)
    with pytest.raises(InvalidArgument, match="cutoff"):
        control.ButterworthForce(Listener(), cutoff=4000.0, period=1e-3)


def test_velocity_comes_from_positions():
    frame = PENDULUM.frame_names[-1]
    law = control.VelocityFromPositions(Listener(), cutoff=200.0)
    memory = {n: np.asarray(x, float) for n, x in law.memory(PENDULUM).items()}
    for k in range(100):
        at = State(np.array([2e-3 * k, 0.0]), ZERO, 1e-3, 0.0, {frame: np.zeros(6)})
        _, memory = law.command(PENDULUM, at, {}, memory)
    np.testing.assert_allclose(memory["v"], [2.0, 0.0], atol=1e-6)
