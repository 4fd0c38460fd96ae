"""`qddot simulate` as a user meets it, the files it keeps, and the rollouts of the benchmark."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bare_rollouts import rollout
from bench_settings import TINY
from native_cases import cold_cache  # noqa: F401
from typer.testing import CliRunner

import qddot
from qddot import bench
from qddot.bench import loop_rollouts, shape_rollouts
from qddot.bench import rollouts as bench_rollouts
from qddot.bench.goals import judge_goals
from qddot.bench.measure import Clock
from qddot.cli import app
from qddot.display.plots import new_figure, widen_axis
from qddot.errors import DescriptionError, InvalidArgument, MissingPackage
from qddot.robot.robot import Robot
from qddot.simulate import load_trajectory, save_trajectory
from qddot.simulate.contact import ComplementarityContact, Plane, Scene, Sphere

ARM = Robot(qddot.load("planar_2r").model)
BARS = """<mujoco><compiler angle="radian"/><default><joint axis="0 1 0" limited="true"/></default>
<worldbody><body><joint name="crank" range="-0.4 0.4"/>
<inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.01"/>
<body name="rod" pos="0 0 0.2"><joint name="rod" range="-0.4 0.4"/>
<inertial pos="0.1 0 0" mass="0.1" diaginertia="0.001 0.001 0.001"/></body></body>
<body pos="0.3 0 0"><joint name="rocker" range="-0.4 0.4"/>
<inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.01"/>
<body name="tip" pos="0 0 0.2"><joint name="tip" range="-3 3" stiffness="500"/>
<inertial pos="0 0 0.01" mass="0.01" diaginertia="1e-5 1e-5 1e-5"/></body></body></worldbody>
<equality><connect body1="rod" body2="tip" anchor="0.3 0 0.05"/></equality></mujoco>"""
"""Bars in a loop, with a light tip on a stiff spring."""


def run(*args: str):
    return CliRunner(env={"QDDOT_NATIVE": "1"}).invoke(app, ["simulate", *args])


def test_a_free_swing_is_told_and_drawn(tmp_path):
    picture = tmp_path / "swing.png"
    result = run("double_pendulum", "--time", "0.3", "--dt", "0.01", "--plot", str(picture))
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for expected in ("let go at rest", "30 steps", "energy ledger", "acceptable", "status: ok"):
        assert expected in words
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_json_and_exit_code_of_a_bad_motion():
    result = run(
        "double_pendulum", "--integrator", "euler", "--dt", "0.05", "--time", "5", "--json"
    )
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["status"]["label"] == "energy_gain"
    assert report["status"]["step"] > 0
    assert report["status"]["remedy"]
    assert report["drift"]["acceptable"] is False
    assert report["energy"]["residual"] > 0


def test_a_solver_that_did_not_converge_is_told():
    args = ("double_pendulum", "--integrator", "backward_euler", "--time", "1", "--state", "random")
    result = run(*args, "--dt", "0.1")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert re.search(r"status: not_converged \(backward_euler\) at step \d+", words), words
    assert "take a shorter step" in words
    shorter = run(*args, "--dt", "0.005", "--json")
    report = json.loads(shorter.stdout)
    assert report["status"]["label"] == "ok"
    # it is solved, but backward Euler damps, which is no success either
    assert (report["drift"]["kind"], report["drift"]["acceptable"]) == ("loss", False)
    assert shorter.exit_code == 1


@pytest.mark.parametrize("args", [["ur5e"], ["panda"], ["z1"], ["planar_2r", "--time", "2"]])
def test_the_first_simulation_of_a_robot_is_sound(args):
    """Let go at rest it falls against its stops, and the account of energy closes."""
    result = run(args[0], "--time", "0.6", *args[1:], "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0, report
    assert report["status"]["label"] == "ok"
    assert report["drift"]["acceptable"]
    assert report["energy"]["contact"] > 0.0
    loose = run(args[0], "--time", "0.6", *args[1:], "--without", "limits", "--json")
    assert json.loads(loose.stdout)["status"]["label"] == "limit_violated"
    assert loose.exit_code == 1


def test_energy_that_is_not_kept_is_no_success():
    # the states stay finite and small, but a fifth of the energy is gone
    result = run("double_pendulum", "--integrator", "rk4", "--dt", "0.1", "--time", "5", "--json")
    report = json.loads(result.stdout)
    assert report["status"]["label"] == "ok"
    assert report["drift"]["acceptable"] is False
    assert result.exit_code == 1


def test_a_robot_held_by_torques_keeps_its_energy():
    result = run("panda", "--torque", "gravity", "--time", "0.5")
    words = " ".join(result.stdout.split())
    assert result.exit_code == 0, words
    assert "energy: kept" in words
    assert "NOT acceptable" not in words


def test_a_start_beyond_a_limit_is_said():
    result = run("panda", "--state", "neutral", "--time", "0.01")
    assert result.exit_code == 1
    assert "starts beyond its limit" in " ".join(result.stdout.split())


@pytest.mark.filterwarnings("ignore:constraints of")
@pytest.mark.parametrize("far", [False, True], ids=["tip straight", "tip bent back"])
def test_a_random_start_of_a_robot_with_loops_is_within_limits(tmp_path, far):
    file = tmp_path / "bars.xml"
    file.write_text(BARS.replace("-3 3", "2.9 3") if far else BARS)
    robot = qddot.load(file)
    for seed in range(4):
        result = run(str(file), "--time", "0.002", "--seed", str(seed), "--json")
        report = json.loads(result.stdout)
        q = np.array(report["start"]["q"])
        assert (q >= robot.limits.lower - 1e-9).all(), q
        assert (q <= robot.limits.upper + 1e-9).all(), q
        assert np.abs(robot.constraint_residual(q)).max() < 1e-9
        assert not any("beyond" in note for note in report["status"]["notes"])
        if not far:
            assert report["energy"]["spring"] < 0.1


@pytest.mark.filterwarnings("ignore:constraints of")
def test_a_start_in_place_of_a_random_one_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["qddot.cli.states"], "_ROUNDS", 0)
    file = tmp_path / "bars.xml"
    file.write_text(BARS)
    result = run(str(file), "--time", "0.002")
    words = " ".join(result.output.split())
    assert "start: no random one closes the loops within limits: state 'qpos0'" in words
    assert "let go at rest from state 'qpos0'" in words
    file.write_text(BARS.replace("-3 3", "2.9 3"))
    result = run(str(file), "--time", "0.002")
    assert result.exit_code == 2
    assert "closes its loops within joint limits: name a state" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--dt", "0.001", "--time", "0.1"), "1 loop kept closed to"),
        (("--dt", "0.2", "--time", "5"), "1 loop not kept closed, open by up to"),
    ],
)
def test_whether_loops_stay_closed_is_said(args, expected):
    result = run("four_bar", *args, "--integrator", "semi_implicit", "--without", "passive")
    assert expected in " ".join(result.stdout.split())


def test_gravity_holds_an_arm():
    result = run("ur5e", "--torque", "gravity", "--time", "0.05", "--dt", "0.005", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0, report
    np.testing.assert_allclose(report["end"]["q"], report["start"]["q"], atol=1e-9)


def test_torques_of_the_joints_leave_the_base_alone():
    result = run("quadruped", "--torque", "0.1", "--time", "0.002", "--dt", "0.001", "--json")
    assert result.exit_code == 0, result.output
    end = json.loads(result.stdout)["end"]["v"]
    assert np.abs(end).max() > 0


def test_a_robot_that_falls_is_offered_ground():
    words = "nothing is below it: --ground"
    assert words in run("quadruped", "--time", "0.01").stdout
    assert words not in run("quadruped", "--time", "0.01", "--ground").stdout
    assert words not in run("planar_2r", "--time", "0.01").stdout


def test_ground_carries_and_stops_stop():
    fall = ["quadruped", "--state", "home", "--time", "0.02", "--dt", "0.001", "--json"]
    free, standing = (json.loads(run(*fall, *more).stdout) for more in ([], ["--ground"]))
    assert abs(free["energy"]["contact"]) < 1e-9
    assert standing["energy"]["spring"] > 0.0
    assert standing["end"]["v"][2] > free["end"]["v"][2] + 2e-3
    assert standing["integrator"] == "semi_implicit"
    # a random start may be below the ground, and is put on it
    below, on = (
        json.loads(run("quadruped", *fall[3:], *more).stdout) for more in ([], ["--ground"])
    )
    assert on["status"]["label"] == "ok"
    assert on["start"]["q"][2] > below["start"]["q"][2] + 0.02


def test_a_free_base_is_told_in_world_axes():
    """In free fall from rest the base moves along z only, at g t, whatever its orientation."""
    words = run("quadruped", "--time", "0.1", "--without", "passive").stdout
    assert "a free base in world axes, its torque in its own" in words
    speeds = {
        axis: float(re.search(rf" {axis} +│.*│ (\S+) +│ 0 +│", words)[1])
        for axis in ("x", "y", "z")
    }
    assert speeds["x"] < 1e-12
    assert speeds["y"] < 1e-12
    assert speeds["z"] == pytest.approx(0.981, abs=1e-4)


def test_shapes_that_cannot_touch_are_named_in_one_line(tmp_path):
    shape = "<geom type='cylinder' size='0.1 0.1' pos='{} 0 0'/>"
    file = tmp_path / "drum.xml"
    file.write_text(
        "<mujoco><worldbody><body name='drum' pos='0 0 1'><freejoint/>"
        f"{shape.format(0)}{shape.format(1)}<geom type='sphere' size='0.2'/>"
        "</body></worldbody></mujoco>"
    )
    result = run(str(file), "--ground", "--time", "0.001", "--state", "neutral")
    assert result.stderr.splitlines()[0] == (
        "not in contact: drum/cylinder 1, drum/cylinder 2: a cylinder cannot touch; "
        "put primitives in its place"
    )


def test_rounding_errors_do_not_fill_a_plot():
    figure = new_figure(3.0, 2.0)
    axes = figure.subplots()
    axes.plot([0.0, 1.0], [0.0, 1e-8])
    widen_axis(axes, 1e-6)
    low, high = axes.get_ylim()
    assert high - low == pytest.approx(1e-6)
    widen_axis(axes, 1e-9)
    assert axes.get_ylim() == (low, high)


def documented_commands() -> list[list[str]]:
    """All `qddot simulate` and `qddot integrators` lines of README and docs."""
    root = Path(__file__).resolve().parents[2]
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    lines = (line.strip() for page in pages for line in page.read_text().splitlines())
    return [x.split()[1:] for x in lines if re.match(r"qddot (simulate|integrators) \w", x)]


@pytest.mark.parametrize("args", documented_commands(), ids=" ".join)
def test_commands_of_the_docs_succeed(args, tmp_path, monkeypatch):
    if any(x.endswith(".mcap") for x in args):
        pytest.importorskip("mcap")
    monkeypatch.chdir(tmp_path)
    result = CliRunner(env={"QDDOT_NATIVE": "1"}).invoke(app, args)
    assert result.exit_code == 0, result.output
    assert "NOT acceptable" not in result.output
    written = [x for x in args if Path(x).suffix in (".png", ".npz", ".mcap")]
    assert sorted(written) == sorted(file.name for file in tmp_path.iterdir())


def test_loops_are_closed_at_the_start_and_stay_so():
    result = run("four_bar", "--time", "0.01", "--json")
    summary = json.loads(result.stdout)
    assert summary["loops"] == 1
    assert summary["loop_gap"] < 1e-12
    robot = qddot.load("four_bar")
    for end in ("start", "end"):
        assert np.abs(robot.constraint_residual(summary[end]["q"])).max() < 1e-9


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["planar_2r", "--integrator", "rk5"], "rk4"),
        (["planar_2r", "--torque", "1,2,3"], "2 with commas"),
        (["planar_2r", "--torque", "much"], "gravity"),
        (["planar_2r", "--state", "asleep"], "neutral"),
        (["planar_2r", "--dt", "0"], "above zero"),
        (["planar_2r", "--time", "nan"], "above zero"),
        (
            ["planar_2r", "--time", "0.01", "--save", "x.txt"],
            "error: --save: 'x.txt' is not understood; its name ends in .npz, .mcap or .csv",
        ),
        (
            ["planar_2r", "--dt", "10"],
            "error: --dt: 10.0 cannot be used here; one step is longer than --time, 2 s",
        ),
        (["planar_2r", "--time", "0.01", "--save", "/nowhere/x.npz"], "cannot write"),
        (["planar_2r", "--time", "0.01", "--plot", "/nowhere/x.png"], "cannot write"),
    ],
)
def test_wrong_input_is_one_message(args, words):
    result = run(*args)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_an_archive_has_all_of_it(tmp_path):
    file = tmp_path / "x.npz"
    found = rollout(ARM, np.zeros((3, 2)), [0.1, 0.2], [[1.0, 0.0]], dt=1e-3, steps=4)
    save_trajectory(ARM, found, file)
    kept = load_trajectory(file)
    for name in ("time", "q", "v", "tau"):
        np.testing.assert_array_equal(kept[name], getattr(found, name))
    assert kept["joints"].tolist() == list(ARM.joint_names)
    assert kept["label"].tolist() == ["ok"] * 3
    assert float(kept["dt"]) == 1e-3
    assert [f.name for f in tmp_path.iterdir()] == ["x.npz"]


def test_what_is_no_archive(tmp_path):
    bad = tmp_path / "x.npz"
    bad.write_text("no")
    with pytest.raises(DescriptionError):
        load_trajectory(bad)
    np.savez(bad, a=1)
    with pytest.raises(DescriptionError, match="it has a"):
        load_trajectory(bad)


def test_mcap_has_a_message_a_sample(tmp_path):
    reader = pytest.importorskip("mcap.reader")
    file = tmp_path / "x.mcap"
    tau = np.zeros((4, 2))
    tau[2] = np.nan
    found = rollout(ARM, [0.1, 0.2], [0.3, 0.4], tau, dt=1e-3, steps=4)
    save_trajectory(ARM, found, file)
    with file.open("rb") as stream:
        log = reader.make_reader(stream)
        rows = [(m.log_time, json.loads(m.data)) for _, _, m in log.iter_messages(["/state"])]
        (facts,) = log.iter_metadata()
    assert [t for t, _ in rows] == [0, 10**6, 2 * 10**6, 3 * 10**6, 4 * 10**6]
    np.testing.assert_allclose([row["q"] for _, row in rows[:3]], found.q[:3])
    assert rows[-1][1]["q"] == [None, None]
    assert json.loads(facts.metadata["joints"]) == list(ARM.joint_names)
    assert facts.metadata["status"].startswith("nan_input")


def test_mcap_needs_its_package_and_one_trajectory(tmp_path, monkeypatch):
    batch = rollout(ARM, np.zeros((3, 2)), [0, 0], dt=1e-3, steps=1)
    if importlib.util.find_spec("mcap"):
        with pytest.raises(InvalidArgument, match="one trajectory"):
            save_trajectory(ARM, batch, tmp_path / "x.mcap")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "mcap" else find(n))
    with pytest.raises(MissingPackage, match="pip install"):
        save_trajectory(ARM, batch, tmp_path / "x.mcap")


@pytest.fixture
def small(monkeypatch):
    if not bench_rollouts.MENAGERIE.is_dir():
        pytest.skip("no folder of Menagerie robots is beside the repository")
    monkeypatch.setattr(bench_rollouts, "_STEPS", 5)
    monkeypatch.setattr(bench_rollouts, "_STATES", 8)
    monkeypatch.setattr(bench_rollouts, "_FEW", 4)
    monkeypatch.setattr(bench_rollouts, "_LARGE", 16)
    four_bar = {"four_bar": loop_rollouts.LOOPS["four_bar"]}
    monkeypatch.setattr("qddot.bench.run.LOOPS", four_bar)
    monkeypatch.setattr(loop_rollouts, "_STATES", 8)
    monkeypatch.setattr(loop_rollouts, "_FEW", 4)
    monkeypatch.setattr("qddot.bench.run.SHAPES", {})


def test_a_rollout_is_measured_beside_mujoco(small):
    plan = bench.BenchmarkPlan((), (), TINY, ("UR5e",))
    data = bench.benchmark(plan, lambda *_: None)
    (row,) = data["rollouts"]
    assert row["status"] == "ok", row
    assert row["apart"] < 1e-10
    assert row["two_states"] == 16
    assert row["ratio"] == pytest.approx(row["mujoco_us"] / row["us"])
    (verdict,) = (v for v in judge_goals(data) if "contact-free" in v.goal.claim)
    assert verdict.worst == ("UR5e rollout", row["ratio"])
    assert "| UR5e | 6 | 8 × 5 |" in bench.page(data)
    assert json.loads(json.dumps(data["rollouts"])) == data["rollouts"]
    # loops are closed here, and nearly so there
    assert [row["integrator"] for row in data["loops"]] == ["semi_implicit", "rk4"]
    for row in data["loops"]:
        assert row["status"] == "ok", row
        assert row["gap"] < 1e-9 < row["mujoco_gap"] < 1e-3
    assert "| four_bar, rk4 | 8 × 20 |" in bench.page(data)


HOPPER = """\
<mujoco><worldbody><body name="trunk" pos="0 0 1"><freejoint/><geom type="sphere" size="0.1"/>
  <body name="leg" pos="0 0 -0.2"><joint name="knee" axis="0 1 0"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 -0.2"/></body>
</body></worldbody></mujoco>
"""


@pytest.mark.parametrize("motion", shape_rollouts.MOTIONS)
def test_all_shapes_of_a_file_are_measured_beside_mujoco(monkeypatch, tmp_path, motion):
    (tmp_path / "hopper__hopper.xml").write_text(HOPPER)
    hopper = {"Hopper": ("hopper", "hopper", "qpos0", 10.0, 0.1)}
    for name, value in (
        ("MENAGERIE", tmp_path),
        ("SHAPES", hopper),
        ("_STEPS", 5),
        ("_STATES", 8),
        ("_FEW", 4),
        ("_SINGLE", 2),
    ):
        monkeypatch.setattr(shape_rollouts, name, value)
    row = shape_rollouts.measure_shapes(Clock(TINY), "Hopper", motion)
    assert row["status"] == "ok", row
    # a sphere and the two ends of a capsule
    assert (row["points"], row["states"], row["unsolved"]) == (3, 8, 0)
    assert row["height"] == pytest.approx(row["mujoco_height"], abs=2e-3)
    assert row["ratio"] == pytest.approx(row["mujoco_us"] / row["us"])
    assert row["single_ratio"] == pytest.approx(row["mujoco_single_us"] / row["single_us"])


def test_unsolved_contact_is_counted_whatever_else_is_wrong():
    robot = qddot.load("quadrotor")
    scene = Scene([Plane()], spheres=[Sphere(robot.body_names[0], 0.1, name="ball")])
    q = robot.neutral()
    q[2] = 0.05
    deep = robot.rollout(
        np.stack([q, q]), np.zeros(6), dt=1e-3, steps=2, contact=ComplementarityContact(scene)
    )
    assert deep.status.label.tolist() == ["penetration"] * 2
    assert shape_rollouts.count_unsolved(deep) == 0
    deep.effect_states[-1][1, -1] = 0.01
    assert shape_rollouts.count_unsolved(deep) == 1


def test_a_rollout_that_disagrees_is_not_timed(small, monkeypatch):
    monkeypatch.setattr(bench_rollouts, "_SAME", "euler")
    row = bench_rollouts.measure_rollout(Clock(TINY), "UR5e")
    assert row["status"] == "DISAGREES"
    assert "us" not in row
    assert bench.disagreements({"rollouts": [row], "rows": []})


def test_a_robot_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_rollouts, "MENAGERIE", tmp_path)
    monkeypatch.setitem(bench_rollouts.ROLLOUTS, "UR5e", ("no_such_robot", "x"))
    row = bench_rollouts.measure_rollout(Clock(TINY), "UR5e")
    assert row["status"] == "SKIPPED"
    assert "no_such_robot" in row["reason"]


def test_the_page_of_the_docs_runs(tmp_path):
    pytest.importorskip("mujoco")
    page = Path(__file__).resolve().parents[2] / "docs" / "simulation.md"
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "QDDOT_NATIVE": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "energy_gain" in result.stdout
