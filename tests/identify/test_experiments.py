"""Detective, excitation, budget, friction, payload and the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import typer
from identification_logs import STANDARD, native, virtual
from typer.testing import CliRunner

from qddot import identify
from qddot.cli import app
from qddot.cli.terminal import errors_as_messages
from qddot.errors import InvalidArgument, NotIdentifiable, ShapeMismatch, UnknownName, Unsupported
from qddot.identify import Workspace
from qddot.identify.clearance import workspace_violation
from qddot.identify.excitation import _SLOPES, _Problem
from qddot.identify.fourier import fourier_basis
from qddot.model.joints import Limits
from qddot.robot.robot import Robot

# the detective


@pytest.fixture(scope="module")
def clean():
    robot, _, log = virtual("ur5e")
    return robot, log


def test_a_clean_log_raises_no_suspicion(clean):
    robot, log = clean
    for part in (log, *log.split(0.5)):
        assert identify.inspect(robot, part).suspicions == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": 180.0 / np.pi}, "positions are in degrees?"),
        ({"q": 180.0 / np.pi, "v": 180.0 / np.pi}, "beyond the limits of the joints: degrees?"),
        ({"v": 180.0 / np.pi}, "velocities are in degrees per second?"),
        ({"v": 30.0 / np.pi}, "velocities are in revolutions per minute?"),
        ({"v": -1.0}, "velocities are -1 times the change of positions"),
        ({"time": 1e3}, "time is in milliseconds?"),
        ({"q": 100.0, "v": 100.0}, "degrees, motor angles, or another robot?"),
        ({"tau": 1e3}, "torques are in mN m?"),
    ],
    ids=str,
)
def test_units_that_contradict_each_other_are_named(clean, change, words):
    robot, log = clean
    log = replace(log, v=np.gradient(log.q, log.time, axis=0))
    assert identify.inspect(robot, log).suspicions == ()
    wrong = replace(log, **{name: getattr(log, name) * x for name, x in change.items()})
    units = identify.inspect(robot, wrong).of_kind("units")
    assert any(words in s.evidence for s in units)


def test_a_log_without_torques_has_dead_joints_only(clean):
    robot, log = clean
    found = identify.inspect(robot, replace(log, tau=0.0 * log.tau))
    assert {s.kind for s in found.suspicions} == {"dead joint"}
    assert "no joint has both motion and torque" in found.silent[-1]


@pytest.mark.parametrize(
    ("kind", "joints"),
    [
        ("torque sign", (1,)),
        ("torque sign", (4,)),
        ("position sign", (2,)),
        ("swapped torques", (1, 2)),
        ("swapped positions", (0, 3)),
        ("swapped joints", (3, 4)),
    ],
)
def test_wiring_mistakes_are_named(clean, kind, joints):
    robot, log = clean
    result = identify.inspect(robot, identify.corrupt_log(log, kind, joints))
    first = result.suspicions[0]
    names = tuple(robot.joint_names[j] for j in joints)
    label = f"{kind} {', '.join(names)}"
    assert (first.kind, first.joints) == (kind, names) or label in first.alternatives


def test_the_sign_of_a_vertical_joint_has_two_explanations(clean):
    """Without gravity and alone, a torque and a position of the wrong sign look alike."""
    robot, log = clean
    found = identify.inspect(robot, identify.corrupt_log(log, "torque sign", (0,))).suspicions[0]
    both = {f"{found.kind} {found.joints[0]}", *found.alternatives}
    assert f"torque sign {robot.joint_names[0]}" in both


@pytest.mark.parametrize("samples", [-3, 2, 5])
def test_delays_are_measured(clean, samples):
    robot, log = clean
    found = identify.inspect(robot, identify.corrupt_log(log, "delay", size=samples))
    (delay,) = found.of_kind("delay")
    assert delay.size == pytest.approx(samples, abs=1.0)


def test_other_mistakes(clean):
    robot, log = clean
    gain = identify.inspect(robot, identify.corrupt_log(log, "gain", (1,), 2.0))
    (found,) = gain.of_kind("gain")
    assert found.size == pytest.approx(2.0, rel=0.3)
    dead = identify.inspect(robot, identify.corrupt_log(log, "dead joint", (2,)))
    assert dead.of_kind("dead joint")[0].joints == (robot.joint_names[2],)
    flat = identify.inspect(robot, identify.corrupt_log(log, "saturation", (1,), 0.5))
    assert flat.of_kind("saturation")[0].joints == (robot.joint_names[1],)
    heavy = virtual("ur5e")[1].with_payload(robot.body_names[-1], 5.0)
    motion = identify.random_motion(
        robot.joint_names, 10.0, 5, *(np.full(6, x) for x in (-3, 3, 1.5, 8.0)),
        np.random.default_rng(0),
    )  # fmt: skip
    loaded = identify.inspect(robot, identify.virtual_log(heavy, motion, 20.0, 200.0, 0.005))
    assert loaded.of_kind("payload")[0].size == pytest.approx(5.0, rel=0.3)
    with pytest.raises(InvalidArgument):
        identify.corrupt_log(log, "gremlins")


# excitation


@pytest.fixture(scope="module")
def problem():
    robot = native("ur5e")
    model = identify.torque_model(robot, STANDARD, v0=0.05)
    base = identify.base_parameters(model)
    limits = identify.motion_limits(robot, velocity=1.0)
    return _Problem(model, base, limits, 10.0, 3, np.ones(robot.nv), 1000)


@pytest.mark.parametrize("objective", ["d-optimal", "condition"])
def test_the_gradient_is_that_of_the_objective(problem, objective):
    robot = problem.model.robot
    box = problem.limits
    bounds = (box.lower, box.upper, box.velocity, box.acceleration)
    motion = identify.random_motion(robot.joint_names, 10.0, 3, *bounds, np.random.default_rng(0))
    basis = fourier_basis(np.arange(problem.points) * 10.0 / problem.points, 10.0, 3)
    derivatives = robot.compile("inverse_dynamics_derivatives", parameters=["inertia", "armature"])

    def cost(c):
        value, slopes = problem._objective(*(basis @ c.T), objective, 2.0, derivatives)
        return value, sum(s.T @ b for s, b in zip(slopes, basis, strict=True))

    c = motion.coefficients
    _, gradient = cost(c)
    rng = np.random.default_rng(1)
    for _ in range(3):
        along = rng.normal(size=c.shape)
        step = 1e-6
        slope = (cost(c + step * along)[0] - cost(c - step * along)[0]) / (2 * step)
        assert slope == pytest.approx(float((gradient * along).sum()), rel=1e-3, abs=1e-3)


def test_a_plan_is_better_than_chance_and_keeps_its_limits(problem, monkeypatch):
    for name, count in (("_STARTS", 30), ("_TRIED", 3), ("_POLISHED", 1)):
        monkeypatch.setattr(f"qddot.identify.excitation.{name}", count)
    robot, box = problem.model.robot, problem.limits
    plan = identify.plan(
        robot, 10.0, harmonics=3, limits=box, noise=1.0, samples=1000, iterations=40
    )
    assert max(plan.usage.values()) <= 1.0
    q, v, _ = plan.motion.sample(np.linspace(0.0, 10.0, 5001))
    assert np.all((q >= box.lower - 1e-6) & (q <= box.upper + 1e-6))
    assert np.all(np.abs(v) <= box.velocity * (1 + 1e-3))
    bounds = (box.lower, box.upper, box.velocity, box.acceleration)
    rng = np.random.default_rng(7)
    chance = min(
        problem.score(identify.random_motion(robot.joint_names, 10.0, 3, *bounds, rng), "d-optimal")
        for _ in range(100)
    )
    assert -plan.log_det < chance
    assert plan.deviations.shape == (plan.base.rank,)


def test_workspace_and_clearance_have_the_right_derivative():
    robot = native("ur5e")
    frame = robot.frame_names[-1]
    space = Workspace({frame: ((-0.2, -0.2, 0.3), (0.2, 0.2, 0.6))}, clearance=0.5)
    q = robot.random(0, 5)
    total, slope = workspace_violation(robot, space, q)
    assert total > 0.0
    along = np.random.default_rng(0).normal(size=q.shape)
    step = 1e-6
    ahead, back = (workspace_violation(robot, space, q + s * along)[0] for s in (step, -step))
    assert (ahead - back) / (2 * step) == pytest.approx((slope * along).sum(), rel=1e-4)


@pytest.mark.parametrize("kind", _SLOPES)
def test_drive_terms_have_the_right_slope(kind):
    v = np.linspace(-1.0, 1.0, 12)
    state, speed, step = [0.3 * v, v, v + 0.1], 0.2, 1e-6
    signal, slope = _SLOPES[kind]
    for k in range(3):
        ends = [[x + s * (i == k) for i, x in enumerate(state)] for s in (step, -step)]
        ahead, back = (identify.DRIVE_TERMS[kind][1](*end, 0.0, speed) for end in ends)
        expected = slope(v, speed) * np.ones_like(v) if k == signal else 0.0 * v
        np.testing.assert_allclose((ahead - back) / (2 * step), expected, rtol=1e-6, atol=1e-8)


def test_plans_that_make_no_sense():
    robot = native("planar_2r")
    for options in (
        {"duration": 0.0},
        {"objective": "nice"},
        {"harmonics": 0},
        {"terms": ["sqrt"]},
    ):
        with pytest.raises(InvalidArgument):
            identify.plan(robot, **options)
    with pytest.raises(InvalidArgument):
        identify.motion_limits(robot, velocity=[1.0, 2.0, 3.0])


# budget, friction, payload


def test_a_budget_adds_up():
    robot, _, log = virtual("ur5e", noise=0.001)
    fit = identify.fit(robot, log, STANDARD, v0=0.003)
    result = identify.budget(fit)
    np.testing.assert_allclose(result.shares.sum(axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(result.parts.sum(axis=0), result.measured, atol=1e-9)
    terms = dict(zip(result.terms, result.shares, strict=True))
    assert np.abs(terms["rest"]).max() < 0.05
    assert terms["gravity"][1] > 0.5
    assert len(result.sentences) == robot.nv


def test_plots_are_drawn(tmp_path):
    robot, _, log = virtual()
    fit = identify.fit(robot, log, STANDARD)
    identify.plot_budget(identify.budget(fit), tmp_path / "budget.png")
    identify.plot_friction(identify.friction_curves(fit), tmp_path / "friction.png")
    identify.plot_prediction(fit.residuals, log, tmp_path / "prediction.png", "whole", 0.0)
    assert all(f.stat().st_size > 10_000 for f in tmp_path.iterdir())


def test_friction_curves_hold_the_truth():
    robot, truth, log = virtual("ur5e")
    fit = identify.fit(robot, log, STANDARD, v0=0.003)
    for curve, body in zip(identify.friction_curves(fit), truth.model.bodies, strict=True):
        drive = body.joint.drivetrain
        true = drive.friction + drive.damping * curve.speed[20:]
        assert np.mean(np.abs(curve.torque[20:] - true) < 2.0 * curve.half_width[20:]) > 0.8


def test_a_sweep_is_planned_and_fitted():
    robot = native("ur5e")
    truth = identify.perturb_robot(robot, 0.1, 3)
    name = robot.joint_names[2]
    sweep = identify.plan_sweep(robot, name)
    v = np.gradient(sweep.q, sweep.time, axis=0)
    a = np.gradient(v, sweep.time, axis=0)
    assert np.abs(a).max() < 3.0
    rng = np.random.default_rng(0)
    tau = truth.inverse_dynamics(sweep.q, v, a, friction=True) + 0.3 * rng.normal(size=v.shape)
    log = identify.make_log(robot, sweep.time, sweep.q, tau)
    drive = truth.model.bodies[2].joint.drivetrain
    law = identify.fit_sweep(robot, log, name).law.forward
    assert law.coulomb == pytest.approx(drive.friction, rel=0.05)
    assert law.viscous == pytest.approx(drive.damping, rel=0.05)
    with pytest.raises(NotIdentifiable, match="plan_sweep"):
        identify.fit_sweep(robot, virtual("ur5e")[2], name)
    with pytest.raises(UnknownName):
        identify.plan_sweep(robot, "tail")


def with_joint(robot, joint, **values):
    bodies = [
        replace(b, joint=replace(b.joint, **values)) if b.joint.name == joint else b
        for b in robot.model.bodies
    ]
    return Robot(replace(robot.model, bodies=tuple(bodies)))


@pytest.mark.parametrize("name", ["panda", "ur5e", "planar_2r"])
def test_sweeps_keep_positions_and_speeds_within_limits(name):
    robot = native(name)
    for j, joint in enumerate(robot.joint_names):
        sweep = identify.plan_sweep(robot, joint)
        assert np.all(sweep.q >= robot.limits.lower)
        assert np.all(sweep.q <= robot.limits.upper)
        speed = np.abs(np.diff(sweep.q, axis=0)) / np.diff(sweep.time)[:, None]
        assert speed[:, j].max() == pytest.approx(sweep.speeds[-1], rel=1e-6)
        assert speed[:, j].max() <= robot.limits.velocity[j]
        assert not np.delete(speed, j, axis=1).any()


@pytest.mark.parametrize("bounds", [(4.0, 6.0), (-9.0, -4.0), (-8.0, 8.0), (0.0, 0.01),
                                    (4.0, np.inf), (-np.inf, -4.0), (-np.inf, np.inf)])  # fmt: skip
def test_a_sweep_stays_where_the_limits_are(bounds):
    joint = native("planar_2r").joint_names[0]
    limits = Limits(lower=bounds[0], upper=bounds[1], velocity=10.0)
    robot = with_joint(native("planar_2r"), joint, limits=limits)
    sweep = identify.plan_sweep(robot, joint)
    path = sweep.q[:, 0]
    assert np.all((path >= bounds[0]) & (path <= bounds[1]))
    assert 0.0 < np.ptp(path) < 2.0 * np.pi
    # at each speed some time is spent, at no acceleration beyond the one asked for
    speed = np.abs(np.diff(path)) * 500.0
    for level in sweep.speeds:
        assert np.sum(np.abs(speed - level) < 1e-6 * level) >= 2 * 0.19 * 500.0
    assert np.abs(np.diff(path, 2)).max() * 500.0**2 < 2.0 * 1.05


def test_sweeps_that_would_leave_the_limits_are_refused():
    robot = native("panda")
    lower = robot.limits.lower[3]
    inside = 0.5 * (robot.limits.lower + robot.limits.upper)
    identify.plan_sweep(robot, robot.joint_names[0], q=inside)
    for options, message in (
        ({"q": np.zeros(robot.nq)}, f"limits of {robot.joint_names[3]} are {lower:.4g}"),
        ({"q": np.full(robot.nq, np.nan)}, "limits of"),
        ({"speeds": [10.0], "acceleration": 100.0}, "up to 2.175 rad/s, its limit"),
        ({"speeds": [0.5, 2.0], "acceleration": 0.5}, "with ramps of 0.5 rad/s²"),
        ({"speeds": []}, "room for speeds"),
        ({"acceleration": 0.0}, "positive number"),
        ({"rate": np.nan}, "positive number"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            identify.plan_sweep(robot, robot.joint_names[3], **options)
    with pytest.raises(ShapeMismatch):
        identify.plan_sweep(robot, robot.joint_names[3], q=[0.0])
    with pytest.raises(Unsupported, match="one freedom each"):
        identify.plan_sweep(native("quadruped"), "RR_calf_joint")


def test_a_payload_is_weighed_as_well_as_gains_are_known():
    robot, truth, motion_log = virtual("ur5e")
    body = robot.body_names[-1]
    loaded_truth = truth.with_payload(body, 2.8, (0.03, 0.0, 0.06))
    rng = np.random.default_rng(0)
    box = identify.motion_limits(robot, velocity=1.5)
    bounds = (box.lower, box.upper, box.velocity, box.acceleration)
    motion = identify.random_motion(robot.joint_names, 10.0, 5, *bounds, rng)
    loaded = identify.virtual_log(loaded_truth, motion, 20.0, 200.0, 0.005, seed=5)
    result = identify.payload(robot, motion_log, loaded, friction=STANDARD)
    assert result.mass == pytest.approx(2.8, abs=max(3 * result.noise, 0.05))
    assert result.low < 2.8 < result.high
    assert result.high - result.low > 0.2 * 2.8  # gains decide
    np.testing.assert_allclose(result.com, [0.03, 0.0, 0.06], atol=0.02)
    # a drive of another gain is noticed, and found with a known mass
    scaled = [identify.corrupt_log(x, "gain", (1,), 1.2) for x in (motion_log, loaded)]
    assert any("differ" in n for n in identify.payload(robot, *scaled, friction=STANDARD).notes)
    gains = identify.torque_gains(robot, *scaled, mass=2.8, friction=STANDARD)
    assert gains.gains[1] == pytest.approx(1 / 1.2, rel=0.05)
    with pytest.raises(NotIdentifiable, match="known mass"):
        identify.torque_gains(robot, *scaled)


def payload_logs(seed, gains, friction=0.03):
    """Logs without and with a payload, of drives that report their torques times gains."""
    robot = native("ur5e")
    truth = identify.perturb_robot(robot, 0.1, seed, friction)
    box = identify.motion_limits(robot, velocity=1.5)
    bounds = (0.4 * box.lower, 0.4 * box.upper, box.velocity, box.acceleration)
    motion = identify.random_motion(
        robot.joint_names, 15.0, 5, *bounds, np.random.default_rng(seed)
    )
    loaded = truth.with_payload(robot.frame_names[-1], 1.5, (0.02, 0.0, 0.05))
    logs = []
    for k, arm in enumerate((truth, loaded)):
        log = identify.virtual_log(arm, motion, 15.0, 200.0, 0.002, seed=2 * seed + k)
        logs.append(replace(log, tau=log.tau * gains))
    return robot, *logs


@pytest.mark.parametrize("wrong", [(), (1, 2), (3,)])
def test_intervals_of_gains_hold_the_truth(wrong):
    """A gain that is off leaves those of other joints; the payload's own inertia is no gain."""
    truth = np.ones(6)
    truth[list(wrong)] = 0.8
    inside, errors = [], []
    for seed in range(5):
        robot, *logs = payload_logs(seed, truth)
        found = identify.torque_gains(robot, *logs, mass=1.5, friction=STANDARD)
        told = np.isfinite(found.gains)
        assert told[1:5].all()
        error = np.abs(found.gains - 1.0 / truth)
        inside += (error < found.half_widths)[told].tolist()
        errors.append(error[1:5].max())
    assert np.mean(inside) > 0.85
    assert max(errors) < 0.02


def test_a_payload_does_not_blame_drives_that_are_right():
    robot, *logs = payload_logs(0, np.ones(6), friction=0.002)
    terms = ("viscous", "coulomb")
    found = identify.payload(robot, *logs, friction=terms, gain_uncertainty=0.0)
    assert found.notes == ()
    assert found.low < 1.5 < found.high
    assert set(found.by_joint) == set(robot.joint_names)
    np.testing.assert_allclose(list(found.by_joint.values()), 1.5, rtol=0.05)


def test_swapped_logs_weigh_nothing():
    robot, empty, loaded = payload_logs(0, np.ones(6))
    for weigh in (identify.payload, identify.torque_gains):
        options = {"mass": 1.5} if weigh is identify.torque_gains else {}
        with pytest.raises(NotIdentifiable, match="swapped"):
            weigh(robot, loaded, empty, friction=STANDARD, **options)


# the command line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    log = virtual()[2]
    np.savez(folder / "log.npz", time=log.time, q=log.q, tau=log.tau)
    spoiled = identify.corrupt_log(log, "torque sign", (0,))
    np.savez(folder / "spoiled.npz", time=log.time, q=spoiled.q, tau=spoiled.tau)
    return folder


def run(*args):
    return CliRunner().invoke(app, ["identify", *map(str, args)])


def test_commands_answer_in_text_and_json(files, tmp_path):
    log = files / "log.npz"
    for command in (
        ("fit", "planar_2r", log, "--friction", "viscous,coulomb"),
        ("budget", "planar_2r", log, "--friction", "viscous,coulomb"),
        ("friction", "planar_2r", log, "--terms", "viscous,coulomb"),
        ("inspect", "planar_2r", log),
        ("validate", "planar_2r", log, log, "--friction", "viscous,coulomb"),
        ("plan", "planar_2r", "--sweep", "joint1", "--csv", tmp_path / "sweep.csv", "--force"),
    ):
        plain = run(*command)
        assert plain.exit_code in (0, 1), plain.stderr
        assert plain.stdout.strip()
        assert json.loads(run(*command, "--json").stdout)


def test_fit_writes_what_it_is_asked_for(files, tmp_path):
    plot, save = tmp_path / "p.png", tmp_path / "f.json"
    options = ("--friction", "viscous,coulomb", "--plot", plot, "--save", save)
    result = run("fit", "planar_2r", files / "log.npz", *options)
    assert result.exit_code == 0, result.stderr
    assert plot.stat().st_size > 10_000
    assert json.loads(save.read_text())["held_out"]["verdict"] == "good"
    assert run("fit", "planar_2r", files / "log.npz", *options).exit_code == 2


def test_a_plan_is_drawn_with_the_limits_it_reaches(tmp_path):
    plot = tmp_path / "plan.png"
    result = run("plan", "planar_2r", "--duration", 5, "--harmonics", 2, "--plot", plot)
    assert result.exit_code == 0, result.stderr
    assert plot.stat().st_size > 10_000
    assert f"wrote {plot}" in " ".join(result.stdout.split("\n"))
    sweep = run("plan", "planar_2r", "--sweep", "joint1", "--plot", tmp_path / "sweep.png")
    assert sweep.exit_code == 2
    assert not (tmp_path / "sweep.png").exists()


def test_mistakes_have_exit_codes(files):
    assert run("inspect", "planar_2r", files / "spoiled.npz").exit_code == 1
    wrong = run("fit", "ur5e", files / "log.npz")
    assert wrong.exit_code == 2
    assert wrong.stderr.endswith("; say which with --column q=… --column tau=…\n")
    assert run("fit", "planar_2r", files / "none.npz").exit_code == 2
    assert run("fit", "planar_2r", files / "log.npz", "--unit", "nonsense").exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--write", "x.urdf"), "--write: 'x.urdf' cannot be used here; --method wls gives base "
         "parameters only; take --method feasible"),
        (("--unit", "tau=A"), "--unit tau: 'A' is not understood; currents need "
         "--torque-constant, in N m/A for each joint"),
        (("--unit", "q=motor rad"), "--unit q: 'motor rad' is not understood; motor units need "
         "--gear"),
        (("--column", "q=pos"), "--column q: 'pos' is not understood; a pattern has {joint}, {i} "
         "(from 1) or {o} (from 0)"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_options(files, options, message):
    assert run("fit", "planar_2r", files / "log.npz", *options).stderr == f"error: {message}\n"


def test_a_free_base_is_named():
    assert run("plan", "quadruped").stderr == (
        "error: robot: 'quadruped' cannot be used here; its base is free (joint 'root'), and "
        "identification needs joints of one freedom each, without couplings\n"
    )


def test_an_impossible_body_is_told_in_options(capsys):
    words = ("a full set of link parameters", "no possible links have them")
    with pytest.raises(typer.Exit), errors_as_messages():
        raise NotIdentifiable(*words, 'fit with method="feasible"')
    assert capsys.readouterr().err.endswith("; fit with --method feasible\n")


def test_small_matrices_take_one_thread_of_blas():
    code = """if True:
        from threadpoolctl import threadpool_info
        import numpy
        from qddot.identify.blas import on_one_blas_thread

        def threads():
            return [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]

        print(threads(), on_one_blas_thread(threads)(), threads())
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "3"}
    shown = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    before, within, after = (json.loads(f"[{x}]") for x in re.findall(r"\[(.*?)\]", shown))
    assert before == after
    # a system's own BLAS may not be among those that can be asked
    assert set(within) <= {1}
    assert len(within) == len(before)
