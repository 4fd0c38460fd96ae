"""Inspect, doctor and pipeline say the same of one log: what one suspects, no other denies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from identification_logs import native, virtual
from typer.testing import CliRunner

from qddot import identify
from qddot.cli import app
from qddot.evidence import read_record
from qddot.identify.log import make_log
from qddot.pipeline.doctor import examine_log

SAME = {
    "torque sign": ("sign of",), "position sign": ("sign of",), "tilt": ("gravity",),
    "swapped torques": ("joints swapped",), "swapped positions": ("joints swapped",),
    "swapped joints": ("joints swapped",),
}  # fmt: skip
_MISTAKES = {
    "clean": lambda q, tau: (q, tau),
    "torque sign": lambda q, tau: (q, tau * [1.0, -1.0]),
    "swapped": lambda q, tau: (q, tau[:, ::-1]),
    "delayed": lambda q, tau: (q, np.roll(tau, 6, axis=0)),
    "saturated": lambda q, tau: (q, np.clip(tau, 0.6 * tau.min(0), 0.6 * tau.max(0))),
    "another gravity": lambda q, tau: (q, -tau),
    "dead joint": lambda q, tau: (q, tau * [1.0, 0.0]),
    "gain": lambda q, tau: (q, tau * [1.0, 1.4]),
    "offset": lambda q, tau: (q + np.array((0.5, 0)), tau),
}  # fmt: skip


def write_log(file, mistake):
    _, _, log = virtual()
    q, tau = _MISTAKES[mistake](np.array(log.q), np.array(log.tau))
    np.savez(file, time=np.array(log.time), q=q, tau=tau)
    return file


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_commands_do_not_contradict_one_another(tmp_path, mistake):
    file = write_log(tmp_path / "log.npz", mistake)
    runs = {
        "inspect": ["identify", "inspect", "planar_2r", str(file)],
        "doctor": ["doctor", str(file), "--robot", "planar_2r"],
    }
    answers = {name: CliRunner().invoke(app, line) for name, line in runs.items()}
    quiet = {
        "inspect": "nothing suspicious" in answers["inspect"].output,
        "doctor": "nothing found" in answers["doctor"].output,
    }
    for name, done in answers.items():
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
        # "nothing" stands alone, and only where the exit code says so
        assert quiet[name] == (done.exit_code == 0), done.output
        assert not (quiet[name] and "suspicion" in done.output.replace("no suspicion", ""))
    if quiet["doctor"]:
        assert quiet["inspect"], answers["inspect"].output
    kinds = json.loads(CliRunner().invoke(app, [*runs["inspect"], "--json"]).output)["suspicions"]
    causes = json.loads(CliRunner().invoke(app, [*runs["doctor"], "--json"]).output)["diagnoses"]
    assert bool(kinds) == (not quiet["inspect"])
    assert bool(causes) == (not quiet["doctor"])
    # what inspect suspects, the doctor lists, in its words or in those of inspect
    named = [x["cause"] for x in causes]
    for kind in (x["kind"] for x in kinds):
        assert any(x.startswith((*SAME.get(kind, ()), kind)) for x in named), (kind, named)


def test_what_one_finds_the_other_lists(monkeypatch):
    robot = native("planar_2r")
    _, _, log = virtual()
    suspicion = identify.Suspicion("gain", ("joint2",), 1.4, "gravity is 1.4 times", 0.5)
    monkeypatch.setattr("qddot.pipeline.doctor.diagnose", lambda case: [])
    monkeypatch.setattr("qddot.pipeline.doctor.inspect", lambda *_: _with(robot, log, suspicion))
    found = examine_log(robot, log)
    assert [d.cause for d in found.diagnoses] == ["gain joint2"]
    assert found.doubts == (suspicion,)
    assert not found.mistakes


def _with(robot, log, *suspicions):
    from dataclasses import replace

    return replace(identify.inspect(robot, log), suspicions=suspicions)


def test_a_pipeline_does_not_pass_a_log_with_a_doubt(tmp_path):
    record = tmp_path / "run.mcap"
    line = ["pipeline", "planar_2r", "--log", str(write_log(tmp_path / "log.npz", "dead joint"))]
    CliRunner().invoke(app, [*line, "--record", str(record), "--seed", "0"])
    claims = read_record(record).claims
    assert not [c for c in claims if c.name == "the log is of this robot"]
    (doubt,) = [c for c in claims if c.name.startswith("no dead joint")]
    assert doubt.verdict.value == "NOT EVALUATED"
    assert "torque is 0 all along" in doubt.detail


def test_a_short_log_is_refused_alike(tmp_path):
    robot = native("planar_2r")
    t = np.arange(17) * 0.01
    q = np.column_stack([np.sin(t), np.cos(t)])
    log = make_log(robot, t, q, q)
    assert len(log) == 17
    np.savez(tmp_path / "log.npz", time=t, q=q, tau=q)
    for line in (
        ["identify", "inspect", "planar_2r", str(tmp_path / "log.npz")],
        ["doctor", str(tmp_path / "log.npz"), "--robot", "planar_2r"],
    ):
        done = CliRunner().invoke(app, line)
        assert "nothing" not in done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
