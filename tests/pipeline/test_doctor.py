"""The doctor: faults put into clean logs and motions are named first; clean ones have none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.evidence import Recorder, Run
from qddot.evidence.inputs import gather_inputs
from qddot.loaders import locate_source
from qddot.pipeline.diagnosis import Case, case_of_record
from qddot.pipeline.doctor import diagnose, diagnose_record
from qddot.pipeline.log_torques import LogTorques
from qddot.pipeline.virtual import fourier_motion


@pytest.fixture(scope="module")
def arm():
    return qddot.load("ur5e")


def make_log(robot, truth=None, change=None, seed=0):
    """A log of a periodic motion: torques of the truth with a little noise."""
    rng, time = np.random.default_rng(seed), np.arange(0.0, 8.0, 0.002)
    q, v, a = fourier_motion(robot, seed, 4.0, speed=1.5)(time)
    tau = (truth or robot).inverse_dynamics(q, v, a)
    if change is not None:
        tau = change(q, v, tau)
    tau = tau + 0.003 * np.abs(tau).max(axis=0) * rng.normal(size=tau.shape)
    noise = 1e-3 * rng.normal(size=v.shape)
    return Case(robot, time, q, v + noise, tau, measured=True)


def flip(j):
    return lambda q, v, tau: tau * np.where(np.arange(tau.shape[1]) == j, -1.0, 1.0)


def swap(i, j):
    def change(q, v, tau):
        order = np.arange(tau.shape[1])
        order[[i, j]] = j, i
        return tau[:, order]

    return change


def test_a_clean_log_has_nothing(arm):
    for seed in (0, 1):
        assert diagnose(make_log(arm, seed=seed)) == []


def test_hypotheses_are_fitted_on_one_thread(monkeypatch):
    threads, fit = set(), LogTorques.fit_residual

    def counted(self, *args):
        threads.update(x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas")
        return fit(self, *args)

    monkeypatch.setattr(LogTorques, "fit_residual", counted)
    log = make_log(qddot.load("planar_2r"), change=flip(0))
    with threadpool_limits(limits=2, user_api="blas"):
        assert diagnose(log)[0].cause == "sign of a torque"
    # a system's own BLAS may not be among those that can be asked
    assert threads <= {1}


@pytest.mark.parametrize(
    ("change", "words"), [({"q": 180 / np.pi}, "degrees"), ({"time": 1e3}, "milliseconds")]
)
def test_wrong_units_are_the_only_diagnosis(arm, change, words):
    log = make_log(arm)
    wrong = replace(log, **{name: getattr(log, name) * x for name, x in change.items()})
    found = diagnose(wrong)
    assert {d.cause for d in found} == {"units"}
    assert words in found[0].evidence


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "cause",
    [
        "payload missing",
        "gravity sign",
        "gravity in another frame",
        "joints swapped",
        "sign of a torque",
        "Coriolis sign",
        "delay",
        "friction not modelled",
        "inertias under-estimated",
        "log of another robot",
    ],
)
def test_a_fault_of_a_log_is_named_first(arm, cause, seed):
    def coriolis(q, v, tau):
        return tau - 2.0 * (arm.bias(q, v) - arm.gravity(q))

    def friction(q, v, tau):
        return tau + 0.08 * np.abs(tau).max(axis=0) * np.tanh(v / 0.01)

    g = 9.81
    other = arm.with_parameters(arm.inertial_parameters[::-1])
    truths = {
        "payload missing": arm.with_payload("tool0", 2.0, (0.0, 0.0, 0.1)),
        "gravity sign": arm.with_gravity((0.0, 0.0, g)),
        "gravity in another frame": arm.with_gravity((0.5 * g, 0.0, -0.87 * g)),
        "inertias under-estimated": arm.with_parameters(1.2 * arm.inertial_parameters),
        "log of another robot": other,
    }
    changes = {
        "joints swapped": swap(1, 2),
        "sign of a torque": flip(1 + seed),
        "Coriolis sign": coriolis,
        "delay": lambda q, v, tau: np.roll(tau, 6 + 4 * seed, axis=0),
        "friction not modelled": friction,
    }
    found = diagnose(make_log(arm, truths.get(cause), changes.get(cause), seed))
    assert found, cause
    assert found[0].cause.startswith(cause), [(d.cause, d.confidence) for d in found]
    assert found[0].confidence > 0.5
    assert found[0].evidence
    assert found[0].fix


def measured_by(log, **changes):
    """The log of other sensors: changes of positions, velocities, torques or times."""
    return replace(log, **{k: change(getattr(log, k)) for k, change in changes.items()})


def at_joint(j, change):
    """A change of one column."""

    def changed(x):
        y = x.copy()
        y[:, j] = change(y[:, j])
        return y

    return changed


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("sign of all torques", {"tau": lambda x: -x}),
        ("gain of a torque", {"tau": at_joint(1, lambda x: 1.4 * x)}),
        ("offset of a torque", {"tau": at_joint(2, lambda x: x + 12.0)}),
        ("offset of an encoder", {"q": at_joint(2, lambda x: x + 0.25)}),
        ("frozen encoder", {"q": at_joint(1, lambda x: np.minimum.accumulate(x))}),
        ("clock jump", {"time": lambda t: t + 3600.0 * (t > 4.0)}),
        ("inertias under-estimated or torques in another scale", {"tau": lambda x: 1.25 * x}),
    ],
)
def test_a_mistake_of_sensors_is_named_first(arm, cause, changes, seed):
    found = diagnose(measured_by(make_log(arm, seed=seed), **changes))
    assert found[0].cause == cause, [(d.cause, d.confidence) for d in found]
    assert found[0].confidence > 0.75


def test_masses_in_pounds_and_exchanged_inertials_of_the_file(arm):
    rows = arm.inertial_parameters.copy()
    rows[[1, 4]] = rows[[4, 1]]
    pounds = arm.with_parameters(2.2046 * arm.inertial_parameters)
    for file, cause in ((arm.with_parameters(rows), "inertials exchanged"), (pounds, "masses in")):
        found = diagnose(replace(make_log(arm), robot=file))
        assert found[0].cause.startswith(cause), [(d.cause, d.confidence) for d in found]


def test_a_pause_of_the_recording_is_no_jump_of_the_clock(arm):
    log = make_log(arm)
    kept = (log.time < 3.0) | (log.time > 4.5)
    paused = replace(log, **{k: getattr(log, k)[kept] for k in ("time", "q", "v", "tau")})
    assert "clock jump" not in [d.cause for d in diagnose(paused)]


def test_bodies_that_are_a_bit_off_are_no_fault_and_hide_none(arm):
    shares = 1.0 + 0.08 * np.random.default_rng(5).uniform(-1.0, 1.0, (arm.model.nb, 1))
    truth = arm.with_parameters(arm.inertial_parameters * shares)
    assert diagnose(make_log(arm, truth)) == []
    late = diagnose(make_log(arm, truth, lambda q, v, tau: np.roll(tau, 5, axis=0)))
    assert late[0].cause == "delay between motion and torque"
    assert late[0].confidence > 0.75
    assert "10 ms (5 samples)" in late[0].evidence


def test_torques_of_a_large_and_a_small_joint_exchanged(arm):
    # against the torques of the wrist those of the shoulder are enormous
    found = diagnose(make_log(arm, None, swap(1, 5)))
    assert found[0].cause == "joints swapped in the log"
    assert "shoulder_lift_joint and wrist_3_joint" in found[0].evidence


def test_another_robot_is_told_from_a_payload_and_from_one_that_is_a_bit_heavier(arm):
    for factor, cause in ((1.2, "inertias under-estimated"), (2.2, "log of another robot")):
        found = diagnose(make_log(arm, arm.with_parameters(factor * arm.inertial_parameters)))
        assert found[0].cause == cause
    assert "2.2" in found[0].evidence
    # heavy forearm: a load at the tip explains most of it, not all
    rows = arm.inertial_parameters.copy()
    rows[[2, 5]] = 2.0 * rows[[5, 2]]
    found = diagnose(make_log(arm, arm.with_parameters(rows)))
    assert found[0].cause == "log of another robot"
    assert "other bodies on these joints" in found[0].evidence


def test_the_payload_of_a_light_arm_may_be_light(arm):
    light = arm.with_parameters(0.02 * arm.inertial_parameters)
    found = diagnose(make_log(light, light.with_payload("tool0", 0.03)))
    assert found[0].cause == "payload missing"


def still(robot, n=200):
    time = np.arange(n) * 0.01
    pose = robot.configurations.get("home", robot.neutral())
    return time, np.tile(pose, (n, 1)), np.zeros((n, robot.nv))


def test_quaternions_that_drift():
    robot = qddot.load("quadruped")
    time, q, v = still(robot)
    q[:, 2] -= 4.9 * time**2
    assert diagnose(Case(robot, time, q, v)) == []
    q[:, 6] *= 1.0 + 1e-3 * time
    assert diagnose(Case(robot, time, q, v))[0].cause == "quaternion not renormalised"


def test_a_base_that_rises_and_one_that_hangs():
    robot = qddot.load("quadruped")
    time, q, v = still(robot)
    assert diagnose(Case(robot, time, q, v))[0].cause == "wrong base type"
    q[:, 2] += 4.9 * time**2
    assert diagnose(Case(robot, time, q, v))[0].cause == "gravity sign"


def test_numbers_that_are_none_come_from_upstream(arm):
    time, q, v = still(arm)
    v[50:, 2] = np.nan
    tau = np.zeros_like(v)
    tau[51:] = np.nan
    first = diagnose(Case(arm, time, q, v, tau))[0]
    assert first.cause == "NaN upstream"
    assert "v is no number from t = 0.5 s" in first.evidence


def test_limits_and_cones(arm):
    time, q, v = still(arm)
    q[:, 2] = arm.limits.upper[2] + 0.1
    assert "limits too soft" in [d.cause for d in diagnose(Case(arm, time, q, v))]
    time, q, v = still(arm)
    case = Case(arm, time, q, v, raw={"cone_ratio": np.full(200, 1.4)})
    assert [d.cause for d in diagnose(case)] == ["friction cone violated"]


def test_energy_from_nowhere():
    from qddot.simulate import rollout

    robot = qddot.load("double_pendulum")
    start = np.array([0.5, 0.3])
    for integrator, cause in (("euler", ["integrator gains energy"]), ("rk4", [])):
        motion = rollout(robot, start, np.zeros(2), dt=0.02, steps=400, integrator=integrator)
        tau = np.zeros_like(motion.v)
        case = Case(robot, motion.time, motion.q, motion.v, tau)
        assert [d.cause for d in diagnose(case)] == cause


def test_torques_at_a_singularity(arm):
    robot = arm
    for joint in ("wrist_1_joint", "wrist_2_joint", "wrist_3_joint"):
        robot = robot.without_joint(joint)
    time = np.arange(400) * 0.01
    q = np.column_stack([0.1 * time, -1.0 + 0.0 * time, 1.5 - 0.75 * time])
    J = robot.frame_jacobian(q, robot.frame_names[-1], "local_world_aligned")[:, :3]
    tau = np.ones((400, 3))
    causes = [d.cause for d in diagnose(Case(robot, time, q, np.gradient(q, time, axis=0), tau))]
    assert "singular operational-space control" not in causes
    tau[int(np.argmin(np.linalg.svd(J, compute_uv=False)[:, -1]))] = 300.0
    found = diagnose(Case(robot, time, q, np.gradient(q, time, axis=0), tau))
    assert "singular operational-space control" in [d.cause for d in found]


def test_records_are_examined_with_the_robot_they_keep(tmp_path):
    file = tmp_path / "run.mcap"
    robot = qddot.load("quadruped")
    time, q, v = still(robot)
    q[:, 2] -= 4.9 * time**2
    q[:, 3:7] *= 1.01
    with Recorder(file, Run("simulate", inputs=gather_inputs(["quadruped"]))) as r:
        r.trace("motion", {"time": time, "q": q, "v": v, "tau": v})
    found = CliRunner().invoke(app, ["doctor", str(file), "--json"])
    assert found.exit_code == 1
    assert json.loads(found.stdout)["diagnoses"][0]["cause"] == "quaternion not renormalised"
    from qddot.evidence import read_record

    assert case_of_record(file, read_record(file)).robot.nv == 18


def test_one_screen_for_a_file():
    good = CliRunner().invoke(app, ["doctor", "ur5e"])
    assert good.exit_code == 0
    assert "verdict: RIGHT" in good.output
    assert "next: qddot pipeline ur5e" in good.output
    assert len(good.output.splitlines()) < 30


UPSIDE_DOWN = (
    '<mujoco model="m"><option gravity="0 0 9.81"/><worldbody><body name="b">'
    '<inertial mass="1" pos="0 0 0.1" diaginertia="0.01 0.01 0.01"/>'
    '<joint name="j" axis="0 1 0"/></body></worldbody></mujoco>'
)
VERDICTS = [
    ("ur5e", "", "", "RIGHT"),
    ("double_pendulum", "", "", "RIGHT"),
    ("planar_2r", "", "", "DOUBTFUL"),
    ("panda", "", "", "WRONG"),
    ("planar_3r", 'izz="', 'izz="4', "WRONG"),
    ("double_pendulum", 'ixx="', 'ixx="9', "WRONG"),
    ("so101", "", "", "RIGHT"),
    ("", UPSIDE_DOWN, "", "WRONG"),
]


@pytest.mark.parametrize(("name", "before", "after", "word"), VERDICTS)
def test_audit_doctor_and_pipeline_agree_on_a_file(tmp_path, name, before, after, word):
    """No RIGHT of the doctor beside a warning of the audit or a FAIL of the pipeline."""
    source = name
    if before:
        file = locate_source(name) if name else tmp_path / "upside_down.xml"
        text = file.read_text().replace(before, after) if name else before
        changed = tmp_path / file.name
        changed.write_text(text)
        source = str(changed)
    found = {}
    for command in (["doctor"], ["audit"], ["pipeline", "--steps", "1-6"]):
        ran = CliRunner().invoke(app, [*command, source, "--json"])
        found[command[0]] = (ran.exit_code, json.loads(ran.stdout))
    (code, doctor), (_, audited), (failed, piped) = found.values()
    assert doctor["verdict"] == word
    assert doctor["right"] is (word == "RIGHT") is (code == 0)
    if not doctor["failed_checks"]:
        assert doctor["verdict"] == audited["verdict"]
    if audited["errors"] or audited["warnings"]:
        assert doctor["verdict"] != "RIGHT"
    if failed:
        assert doctor["verdict"] != "RIGHT"
    claims = [c for step in piped["steps"] for c in step["claims"] if c["verdict"] == "FAIL"]
    assert {c["name"] for c in claims if c["step"] != "02"} == set(doctor["failed_checks"])
    listed = [f for f in audited["findings"] if f["severity"] != "info"]
    told = [(f["link"], f["why"]) for f in (*doctor["errors"], *doctor["warnings"])]
    assert told == [(f["subject"], f["message"]) for f in listed]
    # the same words on the screens
    words = f"verdict on inertias and drivetrains: {audited['verdict']}"
    assert words in CliRunner().invoke(app, ["audit", source]).output
    assert f"verdict: {word}" in CliRunner().invoke(app, ["doctor", source]).output
    judged = next(c for step in piped["steps"] for c in step["claims"] if "mistaken" in c["name"])
    assert judged["detail"].startswith(f"{audited['verdict']}: ")


def test_a_log_needs_its_robot(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("t,q1\n0,1\n")
    refused = CliRunner().invoke(app, ["doctor", str(log)])
    assert refused.exit_code == 2
    assert "--robot" in refused.output


def test_torques_that_are_a_wrench_at_the_tip(arm):
    time = np.arange(0.0, 8.0, 0.004)
    q, v, a = fourier_motion(arm, 0, 4.0, speed=1.5)(time)
    J = arm.frame_jacobian(q, arm.frame_names[-1], "local_world_aligned")
    tau = arm.inverse_dynamics(q, v, a)
    wrench = np.linalg.solve(np.swapaxes(J, 1, 2) + 1e-9 * np.eye(6), tau[..., None])[..., 0]
    found = diagnose(Case(arm, time, q, v, wrench, measured=True))
    assert found[0].cause == "Cartesian and joint coordinates confused"


@pytest.mark.parametrize(("gain", "causes"), [(1.0, []), (0.0, ["gyroscopic term missing"])])
def test_a_spinning_body_without_its_gyroscopic_term(gain, causes):
    from scipy.integrate import solve_ivp

    robot = qddot.load("quadrotor")
    moments = robot.mass_matrix(robot.neutral())[3:, 3:]

    def rate(t, w):
        return np.linalg.solve(moments, -gain * np.cross(w, moments @ w))

    time = np.arange(200) * 0.005
    w = solve_ivp(rate, (0.0, 1.0), [8.0, 3.0, 5.0], t_eval=time, rtol=1e-10).y.T
    q, v = np.tile(robot.neutral(), (200, 1)), np.zeros((200, 6))
    v[:, 3:] = w
    # the attitude does not enter: the torques of a free body depend on its rates alone
    case = Case(robot, time, q, v, robot.gravity(q) * np.array([1.0, 1, 1, 0, 0, 0]))
    assert [d.cause for d in diagnose(case) if "gyro" in d.cause] == causes


def test_identified_bodies_that_cannot_exist(arm, tmp_path):
    for factor, causes in ((1.0, []), (-1.0, ["non-physical identification"])):
        rows = arm.inertial_parameters.copy()
        rows[3, 4] *= factor
        file = tmp_path / f"fit{factor}.mcap"
        with Recorder(file, Run("identify")) as r:
            r.trace("identification/parameters", {"parameters": rows}, labels=arm.body_names)
        found = diagnose_record(file, r.record)
        assert [d.cause for d in found] == causes
        assert all("wrist_1_link" in d.evidence for d in found)


def test_gravity_that_points_up_is_wrong(tmp_path):
    file = tmp_path / "up.xml"
    file.write_text(
        '<mujoco><option gravity="0 0 9.81"/><worldbody><body name="rod"><joint name="hinge" '
        'axis="0 1 0"/><inertial pos="0 0 -0.5" mass="1" diaginertia="0.1 0.1 0.01"/></body>'
        "</worldbody></mujoco>"
    )
    found = CliRunner().invoke(app, ["doctor", str(file)])
    assert found.exit_code == 1
    assert "(0, 0, 9.81) m/s²" in found.output


def test_joints_that_move_one_way_are_not_said_to_have_friction():
    """An offset and Coulomb friction look alike there, and noise would tell one from the other."""
    robot, rng = qddot.load("panda"), np.random.default_rng(0)
    time = np.arange(0.0, 6.0, 1e-2)
    turn, mean = 2.0 * np.pi * 0.3, -1.0 - 1.2 * (np.arange(7) == 3)
    angle = turn * time[:, None] + rng.uniform(0.0, 6.0, 7)
    q = mean + 0.25 * time[:, None] + 0.12 / turn * np.sin(angle)
    v, a = 0.25 + 0.12 * np.cos(angle), -0.12 * turn * np.sin(angle)
    torque = robot.inverse_dynamics(q, v, a)
    noise = 0.02 * np.sqrt(np.mean(torque**2, axis=0)) * rng.normal(size=torque.shape)
    case = Case(robot, time, q, v, torque + noise, measured=True)
    assert "friction not modelled" not in [d.cause for d in diagnose(case)]
