"""Records: what is written is read, damage is found, verdicts follow from numbers."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.control.laboratory import EXPERIMENTS, Measure, Result
from qddot.control.trace import Trace as ControlTrace
from qddot.errors import InvalidArgument, RecordError, UnknownName
from qddot.evidence import (
    DEFINITIONS,
    Recorder,
    Run,
    Verdict,
    compare_records,
    define_metric,
    read_record,
    verify_record,
)
from qddot.evidence.inputs import gather_inputs
from qddot.evidence.reader import MOST_BYTES


def write_record(file, gain=1.0, finished=True):
    """A record with a trace, two metrics and three claims."""
    time = np.arange(400) / 100
    with Recorder(file, Run("test", ("{0}",), seed=1, inputs=gather_inputs(["planar_2r"]))) as r:
        with r.mark("1", "first"):
            q = gain * np.sin(time[:, None] * [1.0, 2.0])
            r.trace("motion", {"time": time, "q": q, "bad": np.full(400, np.inf)}, {"q": "rad"})
            r.metric("reach", "largest_magnitude", "motion.q", unit="rad")
            r.claim("reach", "q against one", metric="reach", relation="<", bound=1.5)
            r.metric("rms", "rms", "motion.bad")
            r.claim(
                "rms", "a signal with inf", metric="rms", relation="<", bound=1.0, label="state"
            )
            r.claim("other", "nothing", verdict=Verdict.NOT_EVALUATED, detail="no data")
        if not finished:
            r.close(finished=False)
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_record(tmp_path_factory.mktemp("records") / "run.mcap")


def test_what_is_written_is_read(file):
    found = read_record(file)
    assert found.complete
    assert found.digest == found.stated
    assert verify_record(found) == []
    assert [c.verdict.value for c in found.claims] == ["PASS", "FAIL", "NOT EVALUATED"]
    assert found.verdict is Verdict.FAIL
    time = found.traces["motion"].columns["time"]
    assert np.array_equal(found.operand("motion.q"), np.sin(time[:, None] * [1.0, 2.0]))
    assert np.isnan(found.operand("motion.bad")).all()
    assert found.finished_steps == ("1",)
    assert found.run.inputs[0].name == "planar_2r.urdf"
    with pytest.raises(UnknownName, match="closest: 'motion'"):
        found.operand("motoin.q")


def test_the_library_of_the_format_has_no_complaint(file):
    from mcap.reader import make_reader

    with open(file, "rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        summary = reader.get_summary()
        topics = {c.topic for c in summary.channels.values()}
        assert {"/run", "/log", "/claim", "/trace/motion", "/end"} <= topics
        rows = [json.loads(m.data) for _, c, m in reader.iter_messages("/trace/motion")]
        assert len(rows) == 400
        for schema in summary.schemas.values():
            assert json.loads(schema.data)["type"] == "object"


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_a_file_cut_anywhere_is_read_up_to_there_or_refused(file, tmp_path, share):
    data, cut = file.read_bytes(), tmp_path / "cut.mcap"
    cut.write_bytes(data[: int(share * len(data))])
    try:
        found = read_record(cut)
    except RecordError:
        assert share < 0.1
        return
    assert found.damage
    assert not found.complete
    assert found.verdict is not Verdict.PASS


def test_a_flipped_bit_is_found_wherever_it_is(file, tmp_path):
    data, rng = file.read_bytes(), np.random.default_rng(0)
    # the footer says where the index begins, which repeats what is before it
    (end,) = struct.unpack("<Q", data[-28:-20])
    bad = tmp_path / "bad.mcap"
    for place in rng.integers(0, end, 80):
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.integers(8)
        bad.write_bytes(bytes(flipped))
        try:
            assert verify_record(read_record(bad)), place
        except RecordError:
            continue


def test_other_files_are_refused_in_a_sentence(tmp_path):
    from mcap.writer import Writer

    foreign, empty, text = (tmp_path / n for n in ("foreign.mcap", "empty.mcap", "text.mcap"))
    with open(foreign, "wb") as stream:
        writer = Writer(stream)
        writer.start(profile="ros2")
        writer.finish()
    empty.write_bytes(b"")
    text.write_text("time,q\n0,1\n")
    for file, words in ((foreign, "another kind"), (empty, "no MCAP"), (text, "no MCAP")):
        with pytest.raises(RecordError, match=words):
            read_record(file)
    wanted = r"no such file; a record is a file that a command wrote with --record FILE$"
    with pytest.raises(RecordError, match=wanted):
        read_record(tmp_path / "none.mcap")
    huge = tmp_path / "huge.mcap"
    with open(huge, "wb") as stream:
        stream.truncate(5 * MOST_BYTES)  # a sparse file: no block of it is on the disk
    with pytest.raises(RecordError, match="5 GiB; records up to 1 GiB"):
        read_record(huge)


def test_a_step_with_something_lost_is_not_whole_and_not_taken(file):
    found = read_record(file)
    assert found.marks[-1].counts == {"traces": 1, "metrics": 2, "claims": 3}
    assert found.whole_steps == ("1",)
    motion = found.traces["motion"]
    shorter = dataclasses.replace(
        motion, columns={name: x[:-1] for name, x in motion.columns.items()}
    )
    losses = [
        {"claims": found.claims[:1] + found.claims[2:]},
        {"metrics": {"reach": found.metrics["reach"]}},
        {"traces": {}},
        {"traces": {"motion": shorter}},
        {"marks": found.marks[1:]},
        {"marks": found.marks[:-1]},
    ]
    for loss in losses:
        # the digest of the whole is that of a run that was cut
        damaged = dataclasses.replace(found, stated="", damage=("cut",), **loss)
        assert damaged.whole_steps == ()
        with Recorder(None, Run("test")) as other:
            with pytest.raises(InvalidArgument, match="run it"):
                other.take_step(damaged, "1")
            assert other.record.marks == ()
    lost = dataclasses.replace(found, stated="", damage=("cut",), **losses[0])
    assert ("step 1", "it wrote 3 claims, 2 are there") in [
        (p.subject, p.message) for p in verify_record(lost)
    ]
    with Recorder(None, Run("test")) as other:
        other.take_step(found, "1")
    assert other.record.digest == found.digest


def test_verify_sees_numbers_that_were_changed(file):
    found = read_record(file)
    metric = dataclasses.replace(found.metrics["reach"], value=0.5)
    changed = dataclasses.replace(found, metrics={**found.metrics, "reach": metric})
    subjects = {p.subject for p in verify_record(changed)}
    assert {"metric reach", "claim 1 reach", "record"} <= subjects
    claim = dataclasses.replace(found.claims[1], verdict=Verdict.PASS)
    changed = dataclasses.replace(found, claims=(found.claims[0], claim))
    assert any("by value and bound it is FAIL" in p.message for p in verify_record(changed))
    trace = dataclasses.replace(found.traces["motion"], columns={"q": np.zeros(3)})
    changed = dataclasses.replace(found, traces={"motion": trace})
    assert any("not those that were written" in p.message for p in verify_record(changed))


def test_a_run_without_an_end_is_not_complete(tmp_path):
    found = read_record(write_record(tmp_path / "part.mcap", finished=False))
    assert not found.complete
    assert [p.subject for p in verify_record(found)] == ["record"]
    shown = CliRunner().invoke(app, ["evidence", "show", str(tmp_path / "part.mcap")]).stdout
    assert shown.endswith(
        "incomplete: the run was interrupted or killed after 1 step; the verdict is on what it "
        f"left\nverdict: FAIL; digest {found.digest[:16]}…\n"
    )


def test_differences_are_told(file, tmp_path):
    other = read_record(write_record(tmp_path / "other.mcap", gain=2.0))
    found = compare_records(read_record(file), other)
    assert {(d.kind, d.name) for d in found} == {
        ("claim", "1 reach"),
        ("metric", "reach"),
        ("trace", "motion.q"),
    }
    assert compare_records(other, other) == []


def test_differences_say_which_shapes_and_values_differ(tmp_path):
    files = tmp_path / "a.mcap", tmp_path / "b.mcap"
    for columns, file in zip((2, 3), files, strict=True):
        with Recorder(file, Run("test", ())) as r:
            r.trace("motion", {"q": np.ones((5, columns))})
            r.metric("reach", "largest_magnitude", "motion.q")
            if columns == 3:
                r.trace("more", {"q": np.full(4, 1.0 + 1e-9)})
                r.metric("most", "largest_magnitude", "more.q")
    found = compare_records(*map(read_record, files))
    assert [(d.kind, d.name, d.a, d.b) for d in found] == [
        ("metric", "most", "none", "1"),
        ("trace", "motion.q", "shape (5, 2)", "shape (5, 3)"),
        ("trace", "more", "none", "4 rows"),
    ]


def test_a_recorder_has_the_verdict_of_its_file(tmp_path):
    for target in (tmp_path / "run.mcap", None):
        with Recorder(target, Run("check", ["check", "arm"])) as recorder:
            recorder.claim("holds", "a with b", verdict=Verdict.PASS)
            assert recorder.record.verdict is Verdict.NOT_EVALUATED
        assert recorder.record.verdict is Verdict.PASS
        assert recorder.record.complete
    assert read_record(tmp_path / "run.mcap").verdict is Verdict.PASS


def test_digests_do_not_depend_on_when_and_where(file, tmp_path):
    again = read_record(write_record(tmp_path / "again.mcap"))
    assert again.digest == read_record(file).digest


def test_definitions_are_given_once():
    with pytest.raises(InvalidArgument, match="defined already"):
        define_metric("rms", "something else", 1, np.mean)
    assert all(d.formula and d.operands in (1, 2) for d in DEFINITIONS.values())


def test_a_recorder_refuses_what_has_no_meaning():
    r = Recorder(None, Run("test"))
    with pytest.raises(InvalidArgument, match="one length"):
        r.trace("x", {"a": [1.0], "b": [1.0, 2.0]})
    r.trace("y", {"a": [1.0]})
    with pytest.raises(UnknownName, match="column"):
        r.metric("m", "rms", "y.c")
    with pytest.raises(InvalidArgument, match="takes 2 arrays"):
        r.metric("m", "relative_rms", "y.a")
    with pytest.raises(UnknownName, match="failure label"):
        r.claim("c", "x", value=1.0, relation="<", bound=2.0, label="weather")
    with pytest.raises(InvalidArgument, match="needs a relation"):
        r.claim("c", "x", value=1.0)


def test_a_killed_process_leaves_a_record(tmp_path):
    code = """
import sys, numpy as np
from qddot.evidence import Recorder, Run
with Recorder(sys.argv[1], Run("test")) as r:
    for k in range(10**6):
        r.trace(f"t{k}", {"x": np.arange(50.0)})
        r.metric(f"m{k}", "sum", f"t{k}.x")
        print(k, flush=True)
"""
    file = tmp_path / "killed.mcap"
    child = subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE)
    seen = [int(child.stdout.readline()) for _ in range(20)]
    time.sleep(0.05)
    os.kill(child.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    child.wait()
    child.stdout.close()
    found = read_record(file)
    assert len(found.metrics) > seen[-1]
    assert all(found.recompute(m) == 1225.0 for m in found.metrics.values())
    assert not found.complete


def test_commands_record_and_run_again(tmp_path):
    run = CliRunner().invoke
    file = tmp_path / "check.mcap"
    assert run(app, ["check", "planar_2r", "--states", "5", "--record", str(file)]).exit_code == 0
    assert run(app, ["evidence", "verify", str(file)]).exit_code == 0
    shown = run(app, ["evidence", "show", str(file)]).stdout
    assert "positive definite" in shown
    assert "largest_magnitude: max |x|" in shown
    again = run(app, ["evidence", "replay", str(file), "--json"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["same_results"] is True
    assert run(app, ["check", "planar_2r", "--record", str(file)]).exit_code == 2
    refused = run(app, ["evidence", "show", str(tmp_path / "no.mcap")])
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "planar_2r"],
        ["size", "planar_2r", "--samples", "100"],
        ["simulate", "planar_2r", "--time", "0.05"],
        ["compare", "planar_2r", "--with", "mujoco"],
    ],
    ids=lambda c: c[0],
)
def test_every_command_writes_a_record_that_holds(command, tmp_path):
    file = tmp_path / "run.mcap"
    result = CliRunner().invoke(app, [*command, "--record", str(file)])
    assert result.exit_code in (0, 1), result.output
    found = read_record(file)
    assert found.complete
    assert verify_record(found) == []
    assert found.run.command == command[0]
    assert found.run.arguments[0] == "{0}"
    assert found.claims


def test_experiments_of_the_laboratory_are_recorded(tmp_path, monkeypatch):
    def experiment(kind, on_step=None):
        time = np.arange(100) * 1e-3
        q = np.sin(time)[:, None]
        trace = ControlTrace(
            time, q, q, q, 1e-3, "law", kind, wrenches={"tool": np.zeros((100, 6))}
        )
        measures = (
            Measure("40 N: deflection", 80.0, "mm"),
            Measure("  error of 80.0 mm", 0.05, "%", 0.1),
            Measure("time in contact", 97.0, "%", 99.0, "≥"),
        )
        return Result("hold", kind, measures, "contact", ("a note",), {"push": trace})

    monkeypatch.setitem(EXPERIMENTS, "hold", experiment)
    file = tmp_path / "lab.mcap"
    done = CliRunner().invoke(app, ["lab", "hold", "--plant", "both", "--record", str(file)])
    assert done.exit_code == 1, done.output
    found = read_record(file)
    assert verify_record(found) == []
    assert found.run.command == "lab"
    assert found.run.arguments == ("hold", "--plant", "both")
    assert found.metrics["hold_own/40 N: deflection, error of 80_0 mm"].value == 0.05
    verdicts = {(c.step, c.name): (c.verdict.value, c.label) for c in found.claims}
    assert verdicts["hold_mujoco", "time in contact"] == ("FAIL", "contact")
    assert len(verdicts) == 4
    assert len(found.traces["hold_own/push"]) == 10


def test_identification_is_recorded_and_runs_again(tmp_path):
    robot = qddot.load("planar_2r")
    t = np.arange(600) * 0.02
    q = np.column_stack([np.sin(t), np.cos(1.7 * t)])
    v, a = (np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0))
    tau = robot.inverse_dynamics(q, v, a) + 0.3 * v
    np.savez(tmp_path / "motion.npz", time=t, q=q)
    np.savez(tmp_path / "torque.npz", tau=tau)
    words = [str(tmp_path / "motion.npz"), "--torque-log", str(tmp_path / "torque.npz")]
    words += ["--column", "q=q_{i}", "--column", "tau=tau_{i}"]
    run = CliRunner().invoke
    file = tmp_path / "fit.mcap"
    extra = ["--friction", "viscous", "--record", str(file)]
    done = run(app, ["identify", "fit", "planar_2r", *words, *extra])
    assert done.exit_code == 0, done.output
    found = read_record(file)
    assert verify_record(found) == []
    assert found.run.command == "identify fit"
    assert found.run.arguments[:2] == ("{0}", "{1}")
    assert found.run.arguments.count("--column") == 2
    assert "{2}" in found.run.arguments
    assert found.verdict is Verdict.PASS
    assert found.metrics["held_out_error"].value < 0.05
    labels = found.traces["base_parameters"].labels
    assert any(name.endswith(".viscous") for name in labels)
    again = run(app, ["evidence", "replay", str(file), "--json"])
    assert again.exit_code == 0, again.output
    looked = run(app, ["identify", "inspect", "planar_2r", *words, "--record", str(tmp_path / "i")])
    assert looked.exit_code in (0, 1), looked.output
    assert verify_record(read_record(tmp_path / "i")) == []
