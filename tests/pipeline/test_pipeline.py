"""The pipeline: verdicts of every step, faults at the step that should see them, resume."""

from __future__ import annotations

import importlib.util
import json
import re
import struct

import numpy as np
import pytest
from typer.testing import CliRunner

import qddot
from fuzz.records import put_together, take_apart
from qddot import identify
from qddot.cli import app
from qddot.errors import InvalidArgument
from qddot.evidence import Recorder, Run, Verdict, read_record, verify_record
from qddot.evidence.record_file import take_over_part
from qddot.evidence.results import record_comparison
from qddot.pipeline import STEPS, Context, PipelineSettings, run_pipeline, select_steps
from qddot.pipeline.context import parse_expectations
from qddot.pipeline.model_steps import equivalent_box, static_torques
from qddot.pipeline.virtual import build_hardware, fourier_motion
from qddot.verify.compare import ModelComparison, Report, Stage

PENDULUM = """<robot name="p"><link name="base"/>
  <link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="{mass}"/>
    <inertia ixx="0.09" iyy="0.09" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="hinge" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="50" velocity="5"/></joint></robot>"""
UPSIDE_DOWN = """<mujoco><option gravity="0 0 9.81"/><worldbody><body name="rod">
  <joint name="hinge" axis="0 1 0"/><inertial pos="0 0 -0.5" mass="1" diaginertia="0.1 0.1 0.01"/>
  </body></worldbody></mujoco>"""


WHOLE = ("planar_2r", "--duration", "4", "--skip", "engines")


def run(*words: str):
    # as users run it: loops of control in native code
    return CliRunner().invoke(app, ["pipeline", *words], env={"QDDOT_NATIVE": "1"})


def verdicts(output: str) -> dict[int, set[str]]:
    """Verdicts by step, of the output of --json."""
    steps = json.loads(output)["steps"]
    return {s["number"]: {c["verdict"] for c in s["claims"]} for s in steps}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of all steps on a small robot: the file, the output."""
    file = tmp_path_factory.mktemp("pipeline") / "run.mcap"
    result = run(*WHOLE, "--record", str(file), "--json")
    assert result.exit_code in (0, 1), result.output
    return file, result


def test_every_step_ends_with_a_verdict(whole):
    _, result = whole
    found = verdicts(result.stdout)
    assert set(found) == {s.number for s in STEPS} - {13}
    assert all(found.values())
    failed = [n for n, v in found.items() if "FAIL" in v]
    assert not failed
    assert found[3] == {"NOT EVALUATED"}
    assert all("PASS" in found[n] for n in found if n != 3)


def test_virtual_is_said_wherever_it_matters(whole):
    record = read_record(whole[0])
    for c in record.claims:
        if c.step in ("07", "08", "11", "12", "14", "15"):
            assert "(virtual)" in c.name


def test_identification_makes_the_model_better(whole):
    metrics = read_record(whole[0]).metrics
    assert metrics["hardware/residual"].value < 0.03
    residuals = read_record(whole[0]).traces["identification/residuals"].columns
    assert residuals["factory"].max() > 0.08
    assert residuals["identified"].max() < 0.03


def test_the_record_holds_and_says_all(whole):
    record = read_record(whole[0])
    assert verify_record(record) == []
    assert {"picture", "condition_map", "contact", "control/computed"} <= set(record.traces)
    for claim in record.claims:
        assert claim.compared
        assert claim.verdict is not Verdict.FAIL or claim.fix


def test_a_run_that_was_cut_goes_on_and_comes_to_the_same_end(whole, tmp_path):
    record, file = read_record(whole[0]), tmp_path / "run.mcap"
    # cut before the end: the costly part is taken from the record
    data = whole[0].read_bytes()
    low, high = 0, len(data)
    while high - low > 500:
        middle = (low + high) // 2
        file.write_bytes(data[:middle])
        try:
            done = "14" in read_record(file).finished_steps
        except Exception:
            done = False
        low, high = (low, middle) if done else (middle, high)
    file.write_bytes(data[:high])
    cut = read_record(file)
    assert not cut.complete
    assert 10 <= len(cut.finished_steps) < len(STEPS)
    result = run(*WHOLE, "--record", str(file), "--resume")
    assert result.exit_code == 0, result.output
    again = read_record(file)
    assert again.complete
    assert again.digest == record.digest
    # a record of something else is not gone on with
    other = run("planar_3r", *WHOLE[1:], "--record", str(file), "--resume")
    assert other.exit_code == 2
    assert "another file" in other.output
    other = run(*WHOLE, "--seed", "1", "--record", str(file), "--resume")
    assert other.exit_code == 2


def chunks(data: bytes) -> list[tuple[int, int]]:
    """Begin and end of the content of each chunk, by the layout of MCAP: opcode 6, length, data."""
    place, found = 8, []
    while data[place] != 2:
        (length,) = struct.unpack("<Q", data[place + 1 : place + 9])
        if data[place] == 6:
            found.append((place + 9, place + 9 + length))
        place += 9 + length
    return found


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """The words of a run of two steps, the second of which fails, and the bytes of its record."""
    file = tmp_path_factory.mktemp("failed") / "run.mcap"
    words = ("double_pendulum", "--steps", "3,4", "--expect", "nv=7")
    assert run(*words, "--record", str(file)).exit_code == 1
    return words, file.read_bytes()


def test_a_fail_outlives_damage_of_any_chunk(failed, tmp_path):
    words, data = failed
    file = tmp_path / "run.mcap"
    file.write_bytes(data)
    digest, outcomes = read_record(file).digest, []
    for _, end in chunks(data):
        damaged = bytearray(data)
        damaged[end - 3] ^= 0x55
        file.write_bytes(damaged)
        result = run(*words, "--record", str(file), "--resume")
        outcomes.append(result.exit_code)
        if result.exit_code == 1:
            assert "damaged" in result.stderr
            found = read_record(file)
            assert found.verdict is Verdict.FAIL
            assert found.digest == digest
            assert verify_record(found) == []
        else:
            # without the run that it is of, a record is refused and kept
            assert "what was run is damaged" in result.stderr
            assert file.read_bytes() == bytes(damaged)
    assert outcomes == [2] + [1] * (len(outcomes) - 1)


def test_a_chunk_that_a_cut_record_skips_is_noticed(failed, tmp_path):
    words, data = failed
    file = tmp_path / "run.mcap"
    file.write_bytes(data)
    digest = read_record(file).digest
    # an opcode that the format does not know is passed over; the sum of the file is cut off
    parts = chunks(data)
    for begin, _ in parts[1:-1]:
        damaged = bytearray(data[: parts[-1][0] - 9])
        damaged[begin - 9] = 0x86
        file.write_bytes(damaged)
        result = run(*words, "--record", str(file), "--resume")
        assert result.exit_code == 1, result.output
        assert read_record(file).digest == digest


def test_a_record_with_changed_claims_is_not_gone_on_with(failed, tmp_path, monkeypatch):
    words, _ = failed
    file = tmp_path / "run.mcap"
    send = Recorder._send

    def change(self, topic, message, end=True):
        changed = {"verdict": "PASS", "value": 7.0} if topic == "/claim" else {}
        send(self, topic, {**message, **changed}, end)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "_send", change)
        assert run(*words, "--record", str(file)).exit_code == 1
    result = run(*words, "--record", str(file), "--resume")
    assert result.exit_code == 2
    assert "not that whose digest was written" in result.stderr


def test_a_run_goes_on_where_the_last_of_killed_runs_ended(failed, tmp_path):
    words, data = failed
    file, part = tmp_path / "run.mcap", tmp_path / "run.mcap.part"
    # the first run was killed in its first step, the one that went on with it before its end
    bounds = chunks(data)
    file.write_bytes(data[: bounds[2][1]])
    part.write_bytes(data[: bounds[-1][0] - 9])
    assert read_record(file).whole_steps == ()
    assert read_record(part).whole_steps == ("03", "04")
    result = run(*words, "--record", str(file), "--resume")
    assert result.exit_code == 1
    file.with_name("whole.mcap").write_bytes(data)
    assert read_record(file).digest == read_record(file.with_name("whole.mcap")).digest
    assert not part.exists()
    # of another run, it is none of this one
    file.write_bytes(data[: bounds[2][1]])
    other = run("planar_2r", *words[1:], "--record", str(tmp_path / "other.mcap"))
    assert other.exit_code == 1
    part.write_bytes((tmp_path / "other.mcap").read_bytes())
    take_over_part(file)
    assert read_record(file).whole_steps == ()


def test_steps_behind_a_break_of_the_chain_are_run_again(failed, tmp_path):
    words, data = failed
    file = tmp_path / "run.mcap"
    profile, parts = take_apart(data)
    # a line of the log, which has no part in the digest of the results
    changed = next(p for p in parts if p.topic == "/log" and p.message["name"] == "04")
    changed.message = {**changed.message, "message": "all is well"}
    file.write_bytes(put_together(profile, parts))
    before = read_record(file)
    assert before.complete
    assert before.finished_steps == ("03", "04")
    assert before.whole_steps == ("03",)
    result = run(*words, "--record", str(file), "--resume")
    assert result.exit_code == 1
    assert "run again: 04" in result.stderr
    after = read_record(file)
    assert after.digest == before.digest
    assert after.whole_steps == ("03", "04")


def test_steps_are_chosen_by_number_range_and_title():
    assert [s.number for s in select_steps("1,4-6")] == [1, 4, 5, 6]
    assert [s.number for s in select_steps("4-6", only=["gravity"])] == [4]
    assert 13 not in [s.number for s in select_steps(skip=["engines"])]
    for bad in ("0", "99", "6-4", "soup", "4-"):
        with pytest.raises(InvalidArgument, match="steps are 1 description"):
            select_steps(bad if bad != "4-" else "4-x")


@pytest.mark.parametrize(
    ("text", "suffix", "step", "words"),
    [
        (PENDULUM.format(mass="-1", izz="0.01"), ".urdf", 1, "rod"),
        (PENDULUM.format(mass="1", izz="5"), ".urdf", 2, "rod"),
        (UPSIDE_DOWN, ".xml", 4, "gravity"),
        ("<robot name='x'><link/></robot>", ".urdf", 1, "link"),
        ("<robot", ".urdf", 1, "robot"),
    ],
    ids=["negative mass", "impossible tensor", "gravity up", "no name", "not XML"],
)
def test_a_wrong_file_fails_at_the_step_that_should_see_it(tmp_path, text, suffix, step, words):
    file = tmp_path / f"robot{suffix}"
    file.write_text(text)
    result = run(str(file), "--steps", "1-6", "--json")
    assert result.exit_code == 1, result.output
    claims = [c for s in json.loads(result.stdout)["steps"] for c in s["claims"]]
    failed = [c for c in claims if c["verdict"] == "FAIL"]
    assert int(failed[0]["step"]) == step
    assert any(words in c["name"] + c["detail"] for c in failed)
    assert all(c["fix"] and c["label"] == "model" for c in failed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--log", "missing.csv"], "missing.csv"),
        (["--log", "{text}"], "notes.csv"),
        (["--integrator", "foo"], "no integrator 'foo'"),
        (["--dt", "nan"], "dt: nan"),
        (["--accept", "nolink"], "no link 'nolink'"),
        (["--expect", "mass=0"], "positive number"),
        (["--expect", "mass=nan"], "positive number"),
        (["--expect", "mass=-3"], "positive number"),
        (["--expect", "nv=2.5"], "whole number"),
        (["--expect", "nq=-1"], "whole number"),
        (["--expect", "joints=,"], "names joints"),
        (["--expect", "nv=2", "--expect", "nv=3"], "given once"),
        (["--steps", "1-15,soup"], "'soup'"),
        (["--skip", "1,2"], "'1,2'"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_before_anything_runs(words, said, tmp_path):
    text, record = tmp_path / "notes.csv", tmp_path / "run.mcap"
    text.write_text("dear diary\n")
    given = [text if word == "{text}" else word for word in words]
    result = run("planar_2r", "--steps", "3", "--record", str(record), *map(str, given))
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert not record.exists()


@pytest.mark.parametrize("name", ["nosuch", "./nosuch.urdf", "."])
def test_a_robot_that_does_not_exist_is_refused(name):
    assert run(name, "--steps", "1").exit_code == 2


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (["nv=2", "base=fixed"], 0),
        (["nv=3"], 1),
        (["base=free"], 1),
        (["joints=joint2,joint1"], 1),
        (["mass=100"], 1),
        (["colour=red"], 2),
        (["nv=many"], 2),
        (["base=soft"], 2),
    ],
)
def test_intent(expected, code):
    words = [x for e in expected for x in ("--expect", e)]
    result = run("planar_2r", "--steps", "3", *words)
    assert result.exit_code == code, result.output


def test_the_fix_for_missing_intent_has_the_numbers_of_the_robot():
    (step,) = json.loads(run("planar_2r", "--steps", "3", "--json").stdout)["steps"]
    assert step["claims"][0]["fix"] == (
        "--expect nv=2 --expect base=fixed --expect joints=joint1,joint2, where that is what is "
        "meant"
    )


def test_a_report_without_plotly_is_refused_before_the_steps(monkeypatch, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "plotly" else found(name, *a)
    )
    result = run("planar_2r", "--steps", "1", "--report", str(tmp_path / "page.html"))
    assert result.exit_code == 2
    assert result.stderr == (
        "error: a report needs the package 'plotly': pip install 'qddot[report]'\n"
    )


def test_strict_counts_what_was_not_evaluated():
    assert run("planar_2r", "--steps", "3").exit_code == 0
    assert run("planar_2r", "--steps", "3", "--strict").exit_code == 1


def test_an_explicit_integrator_fails():
    result = run("planar_2r", "--steps", "9-10", "--integrator", "euler", "--json")
    found = verdicts(result.stdout)
    assert "FAIL" in found[9]
    assert "FAIL" in found[10]
    claims = [c for s in json.loads(result.stdout)["steps"] for c in s["claims"]]
    assert "explicit integrator on stiff contact" in {c["cause"] for c in claims}


@pytest.mark.parametrize(
    ("robot", "step", "words"),
    [
        ("delta", 7, "loops"),
        ("quadrotor", 7, "floating base"),
    ],
)
def test_what_does_not_apply_says_why(robot, step, words):
    result = run(robot, "--steps", str(step), "--json")
    claims = json.loads(result.stdout)["steps"][0]["claims"]
    told = [c["detail"] for c in claims if c["verdict"] == "NOT EVALUATED"]
    assert any(words in text for text in told), told


def test_static_torques_are_those_of_a_book():
    import qddot

    robot = qddot.load("planar_2r")
    q = np.array([0.3, -0.8])
    assert static_torques(robot, q) == pytest.approx(robot.gravity(q), abs=1e-12)


def test_the_box_of_an_inertia_is_that_box():
    m, size = 2.0, np.array([0.1, 0.2, 0.4])
    moments = m / 12.0 * np.array([0.2**2 + 0.4**2, 0.1**2 + 0.4**2, 0.1**2 + 0.2**2])
    c = np.array([0.3, 0.0, 0.0])
    tensor = np.diag(moments) + m * (c @ c * np.eye(3) - np.outer(c, c))
    row = [m, *(m * c), *tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
    edges, axes = equivalent_box(np.array(row))
    assert sorted(edges) == pytest.approx(sorted(size))
    assert axes.T @ axes == pytest.approx(np.eye(3), abs=1e-12)
    assert np.isnan(equivalent_box(np.array([1.0, 0, 0, 0, 1.0, 0, 0.1, 0, 0, 0.1]))[0]).any()


def test_virtual_motion_keeps_limits_and_derivatives():
    import qddot

    robot = qddot.load("panda")
    motion = fourier_motion(robot, 3, 5.0)
    t = np.linspace(0.0, 5.0, 2001)
    q, v, a = motion(t)
    assert (q > robot.limits.lower).all()
    assert (q < robot.limits.upper).all()
    assert np.abs(v[0]).max() < 1e-12
    assert np.gradient(q, t, axis=0)[5:-5] == pytest.approx(v[5:-5], abs=1e-3)
    assert np.gradient(v, t, axis=0)[5:-5] == pytest.approx(a[5:-5], abs=5e-3)


def test_virtual_hardware_holds_weights_that_its_gains_do_not(tmp_path):
    # upright, so that the weight pulls more than the gains of so small an inertia push
    tensor = 'ixx="2e-5" iyy="2e-5" izz="2e-5"'
    text = PENDULUM.format(mass=1.0, izz=2e-5).replace('xyz="0 0 -0.5"', 'xyz="0 0 0.01"')
    source = tmp_path / "top.urdf"
    source.write_text(text.replace('ixx="0.09" iyy="0.09" izz="2e-05"', tensor), "utf-8")
    context = Context(str(source), PipelineSettings(duration=4.0), recorder=None)
    planned = fourier_motion(context.robot, 0, 2.0, speed=1.5)(context.log.time)[0]
    assert np.abs(context.log.q - planned).max() < 0.05 * np.ptp(planned)


def test_virtual_hardware_is_the_same_for_one_seed():
    import qddot

    robot = qddot.load("planar_2r")
    one, same, other = (build_hardware(robot, seed) for seed in (0, 0, 1))

    def still(t, q, v):
        return robot.gravity(q) - 0.5 * v

    logs = [h.run(still, robot.neutral(), np.zeros(2), 0.05) for h in (one, same, other)]
    assert np.array_equal(logs[0].q, logs[1].q)
    assert not np.array_equal(logs[0].tau, logs[2].tau)
    ratio = one.truth.inertial_parameters[:, 0] / robot.inertial_parameters[:, 0]
    assert (ratio != 1.0).all()
    assert (np.abs(ratio - 1.0) <= 0.25).all()


def test_steps_of_names_of_one_length_have_noise_of_their_own():
    robot = qddot.load("planar_2r")
    hardware = build_hardware(robot, 0)
    start = robot.neutral(), np.zeros(2), 0.02

    def still(t, q, v):
        return np.zeros(2)

    a, b, again = (hardware.run(still, *start, stream=x).tau for x in ("hold", "loss", "hold"))
    assert np.array_equal(a, again)
    assert not np.array_equal(a, b)


ACROSS = """<robot name="p"><link name="base"/>
  <link name="a"><inertial><origin xyz="0.1 0.05 0.02"/><mass value="2"/>
    <inertia ixx="0.03" iyy="0.03" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="b"><inertial><origin xyz="0.1 0.02 0.01"/><mass value="1"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j1" type="{kind}"><origin rpy="{turn} 0 0"/><parent link="base"/><child link="a"/>
    <axis xyz="{axis}"/><limit lower="{low}" upper="{high}" effort="50" velocity="{speed}"/>
    <dynamics damping="{damping}"/></joint>
  <joint name="j2" type="{kind}"><origin xyz="0.3 0 0"/><parent link="a"/><child link="b"/>
    <axis xyz="{axis}"/><limit lower="{low}" upper="{high}" effort="50" velocity="{speed}"/>
    <dynamics damping="{damping}"/></joint></robot>"""


def across(folder, **changes):
    """A file of two joints that move across gravity, with changes."""
    values = {"kind": "revolute", "turn": 0.0, "axis": "0 0 1", "low": -2, "high": 2, "speed": 3}
    file = folder / "across.urdf"
    file.write_text(ACROSS.format(**{"damping": 0, **values, **changes}))
    return str(file)


def claims_of(*words):
    """Claims by name."""
    steps = json.loads(run(*words, "--json").stdout)["steps"]
    return {c["name"]: c for s in steps for c in s["claims"]}


@pytest.mark.parametrize("turn", [0.0, 0.7])
def test_a_robot_that_moves_across_gravity_passes(tmp_path, turn):
    axis = f"0 {np.sin(turn):.17g} {np.cos(turn):.17g}"
    found = claims_of(across(tmp_path, turn=turn, axis=axis), "--steps", "4-6")
    assert {c["verdict"] for c in found.values()} == {"PASS"}, found
    assert found["g by hand"]["value"] < 1e-12


def test_a_robot_that_gravity_does_not_move_has_no_energy_that_is_no_number(tmp_path):
    found = claims_of(across(tmp_path), "--steps", "9-10")
    assert "FAIL" not in {c["verdict"] for c in found.values()}, found
    assert found["energy of a free swing"]["value"] is not None


@pytest.mark.parametrize("changes", [{"speed": 10000}, {"damping": 10}], ids=["speed", "damping"])
def test_stand_ins_for_no_speed_limit_and_damping_are_no_fault_of_an_integrator(tmp_path, changes):
    found = claims_of(across(tmp_path, axis="0 1 0", **changes), "--steps", "9")
    assert {c["verdict"] for c in found.values()} == {"PASS"}, found


@pytest.mark.parametrize(
    ("low", "high", "cause"),
    [(-170, 170, "limits in other units"), (0, 0, "limits without room"),
     (-0.05, 0.05, "limits in other units"), (-6.3, 6.3, "")],
)  # fmt: skip
def test_joint_limits_are_judged(tmp_path, low, high, cause):
    found = claims_of(across(tmp_path, low=low, high=high), "--steps", "1")
    assert found["joint limits"]["cause"] == cause
    assert (found["joint limits"]["verdict"] == "PASS") == (not cause)


def test_joints_without_room_have_no_virtual_hardware(tmp_path):
    file = across(tmp_path, axis="0 1 0", low=0.1, high=0.1)
    found = claims_of(file, "--steps", "7,11-12")
    assert {c["verdict"] for c in found.values()} == {"NOT EVALUATED"}
    assert all("no room" in c["detail"] for c in found.values())


@pytest.mark.parametrize(
    ("gravity", "expected", "causes"),
    [
        ("0 0 0", "", ["no gravity"]),
        ("9.81 0 0", "", ["gravity in another frame"]),
        ("0 0 -981", "", ["gravity in other units"]),
        ("0 0 0", "gravity=0,0,0", []),
        ("0 0 -1.62", "gravity=0,0,-1.62", []),
        ("0 0 -9.81", "gravity=0,0,-1.62", ["gravity in other units"]),
    ],
)
def test_gravity_of_the_file_is_judged(tmp_path, gravity, expected, causes):
    file = tmp_path / "robot.xml"
    file.write_text(UPSIDE_DOWN.replace("0 0 9.81", gravity))
    words = ["--expect", expected] if expected else []
    found = claims_of(str(file), "--steps", "4", *words)
    assert [c["cause"] for c in found.values() if c["verdict"] == "FAIL"] == causes


def test_a_value_that_is_no_number_fails_and_says_so():
    recorder = Recorder(None, Run("test"))
    claim = recorder.claim("x", "y", value=np.nan, relation="<", bound=1.0)
    assert claim.verdict is Verdict.FAIL
    assert claim.detail == "the value is no number"


def stage(name, verdict):
    return Stage(name, verdict, "apart", 1.0, 1.0)


@pytest.mark.parametrize(
    ("stages", "verdict"),
    [
        # a drive term that explains all that follows
        ([stage("damping", "differ"), stage("passive", "consequence")], "NOT EVALUATED"),
        # nothing that was read explains it: gravity compensation of the engine
        ([stage("passive", "differ"), stage("q̈", "consequence")], "FAIL"),
        ([stage("damping", "differ"), stage("q̈", "differ")], "FAIL"),
        # no witness but itself
        ([stage("mass of bodies", "differ"), stage("M", "consequence")], "FAIL"),
        ([stage("damping", "differ")], "FAIL"),
    ],
)
def test_an_engine_that_differs_needs_a_named_cause(stages, verdict):
    recorder = Recorder(None, Run("test"))
    found = ModelComparison("qddot", "MuJoCo", True, stages=tuple(stages))
    record_comparison(recorder, Report({}, (found,)), unread=True)
    assert recorder.claims[0].verdict.value == verdict


def test_parameters_that_are_zero_are_determined_by_a_good_log(tmp_path):
    robot = qddot.load(across(tmp_path, axis="0 1 0"))
    motion = identify.plan(robot, duration=4.0, iterations=2).motion
    log = identify.virtual_log(robot, motion, duration=16.0, rate=250.0, seed=1)
    file = tmp_path / "log.npz"
    np.savez(file, time=log.time, q=log.q, v=log.v, tau=log.tau)
    found = claims_of(across(tmp_path, axis="0 1 0"), "--log", str(file), "--steps", "7-8")
    assert found["excitation"]["value"] == 1.0
    assert found["friction"]["verdict"] != "FAIL"


def test_no_error_of_a_step_is_a_traceback():
    def broken(context):
        raise np.linalg.LinAlgError("Singular matrix")

    step = type(STEPS[0])(1, "broken", broken)
    recorder = Recorder(None, Run("test"))
    run_pipeline(Context("planar_2r", PipelineSettings(), recorder), [step])
    (claim,) = recorder.claims
    assert claim.verdict is Verdict.NOT_EVALUATED
    assert "Singular matrix" in claim.detail


def test_expectations_are_parsed():
    assert parse_expectations(["nv = 6", "joints=a, b"]) == {"nv": "6", "joints": "a, b"}


def test_the_page_of_the_docs_lists_the_steps():
    from pathlib import Path

    page = (Path(__file__).resolve().parents[2] / "docs" / "pipeline.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+?) \|", page, flags=re.MULTILINE)
    assert [(int(n), title) for n, title in rows] == [(s.number, s.title) for s in STEPS]


def test_friction_is_judged_on_a_long_log_without_speeds(tmp_path):
    robot = qddot.load("planar_2r")
    motion = identify.plan(robot, duration=4.0, iterations=2).motion
    log = identify.virtual_log(robot, motion, duration=16.5, rate=250.0, seed=1)
    file = tmp_path / "log.npz"
    np.savez(file, time=log.time, q=log.q, tau=log.tau)
    assert len(log) > 4000
    result = run("planar_2r", "--log", str(file), "--steps", "8", "--json")
    claims = json.loads(result.stdout)["steps"][-1]["claims"]
    assert "NOT EVALUATED" not in {c["verdict"] for c in claims}
