"""Forged records: `verify` sees each of them, or the page of records says that it cannot."""

from __future__ import annotations

import copy
import dataclasses
import hashlib

import numpy as np
import pytest
from typer.testing import CliRunner

from fuzz.records import put_together, take_apart
from qddot.cli import app
from qddot.errors import InvalidArgument, RecordError
from qddot.evidence import (
    Recorder,
    Run,
    Verdict,
    read_record,
    review_claims,
    verify_record,
)
from qddot.evidence.record import Input


def write_genuine(file, gain=1.0):
    """A record with two inputs, two steps, and claims of each kind, one of which fails."""
    given = [
        Input(n, hashlib.sha256(x).hexdigest(), len(x), n, "", x)
        for n, x in (("a.urdf", b"<robot/>"), ("b.stl", b"solid b"))
    ]
    with Recorder(file, Run("check", ("{0}",), seed=1, inputs=tuple(given))) as r:
        time = np.arange(20) / 100
        with r.mark("1", "first"):
            r.trace("motion", {"time": time, "q": gain * np.sin(time)[:, None], "w": 2.0 + time})
            r.metric("reach", "largest_magnitude", "motion.q", unit="rad")
            r.claim("reach", "q against one", metric="reach", relation="<", bound=1.5)
            r.metric("rms", "rms", "motion.w")
            r.claim("rms", "w against one", metric="rms", relation="<", bound=1.0, label="state")
        with r.mark("2", "second"):
            r.trace("more", {"x": time})
            r.metric("share", "share_above", "more.x", bound=0.05)
            r.claim("share", "x over 0.05", metric="share", relation="<", bound=0.99)
            r.claim("given", "a number", value=1.0, relation="<", bound=2.0)
            r.claim("read", "the file is read", verdict=Verdict.PASS)
            r.claim("other", "nothing", verdict=Verdict.NOT_EVALUATED, detail="no data")
            r.claim("wrong", "judged in words", verdict=Verdict.FAIL)
    return file


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    return take_apart(write_genuine(tmp_path_factory.mktemp("forged") / "run.mcap").read_bytes())


def of(parts, topic, **wanted):
    """The places of messages on a topic with these values."""
    return [
        k
        for k, p in enumerate(parts)
        if p.topic == topic and all(p.message.get(n) == x for n, x in wanted.items())
    ]


def edit(topic, changes, **wanted):
    """A forgery that changes fields of a message."""

    def forge(parts):
        (k,) = of(parts, topic, **wanted)
        parts[k].message = {**parts[k].message, **changes}

    return forge


def drop(topic, **wanted):
    def forge(parts):
        for k in reversed(of(parts, topic, **wanted)):
            del parts[k]

    return forge


def copy_of(topic, change=None, **wanted):
    """A forgery that adds a message like one that is there."""

    def forge(parts):
        k = of(parts, topic, **wanted)[0]
        parts.insert(k + 1, copy.deepcopy(parts[k]))
        parts[k + 1].message = {**parts[k].message, **(change or {})}

    return forge


def exchange(topic, first, second):
    def forge(parts):
        a, b = of(parts, topic)[first], of(parts, topic)[second]
        parts[a], parts[b] = parts[b], parts[a]

    return forge


def change_trace(parts):
    for k in of(parts, "/trace/motion"):
        parts[k].message = {**parts[k].message, "w": 0.5}


def drop_step(parts):
    begin, end = of(parts, "/step", step="2")
    del parts[begin : end + 1]


def swap_inputs(parts):
    parts[0].data, parts[1].data = parts[1].data, parts[0].data


def change_input_and_digest(parts):
    parts[0].data = b"<robot name='other'/>"
    (k,) = of(parts, "/run")
    message = parts[k].message
    changed = {"sha256": hashlib.sha256(parts[0].data).hexdigest(), "size": len(parts[0].data)}
    message["inputs"][0] |= changed
    parts[k].message = message


def rename_units(parts):
    for k in of(parts, "/trace/motion"):
        parts[k].facts["units"] = '{"q":"deg"}'


def cut_end(parts):
    del parts[of(parts, "/end")[0] :]


def redefine_consistently(parts):
    changes = {"definition": "smallest", "operands": ["motion.time"], "value": 0.0}
    edit("/metric", changes, name="rms")(parts)
    edit("/claim", {"value": 0.0, "verdict": "PASS"}, name="rms")(parts)


def drop_failing(parts):
    for name in ("rms", "wrong"):
        drop("/claim", name=name)(parts)


def relabel_time(parts):
    for p in parts:
        p.stamp += 10**9


FORGERIES = {
    "value of a metric": edit("/metric", {"value": 0.5}, name="rms"),
    "value of a claim": edit("/claim", {"value": 0.5}, name="rms"),
    "numbers of a trace": change_trace,
    "verdict": edit("/claim", {"verdict": "PASS"}, name="rms"),
    "verdict in words": edit("/claim", {"verdict": "PASS"}, name="wrong"),
    "relaxed bound": edit("/claim", {"verdict": "PASS", "bound": 9.0}, name="rms"),
    "other relation": edit("/claim", {"verdict": "PASS", "relation": ">"}, name="rms"),
    "no bound": edit("/claim", {"verdict": "PASS", "bound": None, "relation": ""}, name="rms"),
    "no metric": edit("/claim", {"verdict": "PASS", "value": 0.5, "metric": ""}, name="rms"),
    "no value": edit("/claim", {"verdict": "PASS", "value": None}, name="rms"),
    "not evaluated": edit("/claim", {"verdict": "NOT EVALUATED"}, name="rms"),
    "not evaluated, no value": edit(
        "/claim", {"verdict": "NOT EVALUATED", "value": None}, name="rms"
    ),
    "not evaluated in words": edit("/claim", {"verdict": "NOT EVALUATED"}, name="wrong"),
    "failing claims dropped": drop_failing,
    "step dropped": drop_step,
    "claim added": copy_of("/claim", {"name": "also"}, name="read"),
    "claims reordered": exchange("/claim", 0, 1),
    "inputs swapped": swap_inputs,
    "input and its digest": change_input_and_digest,
    "input dropped": lambda parts: parts.pop(1),
    "definition, with value and verdict": redefine_consistently,
    "definition": edit("/metric", {"definition": "smallest"}, name="rms"),
    "operands": edit("/metric", {"operands": ["motion.q"]}, name="rms"),
    "parameters": edit("/metric", {"parameters": {"bound": 0.9}}, name="share"),
    "claim renamed": edit("/claim", {"name": "better"}, name="rms"),
    "explanation": edit("/claim", {"detail": "as it should be"}, name="wrong"),
    "units": rename_units,
    "end cut": cut_end,
    "end changed": edit("/end", {"claims": 3}),
    "command": edit("/run", {"command": "audit"}),
    "seed": edit("/run", {"seed": 2}),
    "versions": edit("/run", {"versions": {"qddot": "9.9"}}),
    "machine": edit("/run", {"machine": {"system": "other"}}),
    "log": edit("/log", {"message": "all is well"}, message="FAIL 2 wrong: judged in words"),
    "times": relabel_time,
    "duplicate claim": copy_of("/claim", name="read"),
    "duplicate metric": copy_of("/metric", name="share"),
    "duplicate row": copy_of("/trace/more"),
    "second run": copy_of("/run", {"command": "audit"}),
    "second end": copy_of("/end"),
    "counts of a step": edit("/step", {"counts": {}}, step="2", event="end"),
    "seconds of a step": edit("/step", {"seconds": 1e-6}, step="2", event="end"),
}
CUT = "run did not come to its end"


def forge(genuine, name):
    profile, parts = genuine
    parts = copy.deepcopy(parts)
    FORGERIES[name](parts)
    return profile, parts


def restate_digests(file, profile, parts):
    """What a diligent forger computes again: digests of traces and results, counts of steps."""
    file.write_bytes(put_together(profile, parts))
    found = read_record(file)
    for k in of(parts, "/traces"):
        message = parts[k].message
        trace = found.traces[message["trace"]]
        parts[k].message = {**message, "digest": trace.digest, "rows": len(trace)}
    for k in of(parts, "/step", event="end"):
        message = parts[k].message
        parts[k].message = {**message, "counts": found.step_counts(message["step"])}
    for k in of(parts, "/end"):
        message = parts[k].message
        found = read_record(file)
        parts[k].message = {**message, "digest": found.digest, "claims": len(found.claims)}
    file.write_bytes(put_together(profile, parts))


def test_a_record_that_is_put_together_again_is_genuine(genuine, tmp_path):
    file = tmp_path / "again.mcap"
    file.write_bytes(put_together(*genuine))
    assert verify_record(read_record(file)) == []


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_seen(genuine, name, tmp_path):
    file = tmp_path / "forged.mcap"
    file.write_bytes(put_together(*forge(genuine, name)))
    try:
        assert verify_record(read_record(file))
    except RecordError:
        return
    done = CliRunner().invoke(app, ["evidence", "verify", str(file)])
    assert done.exit_code == 1, done.output
    assert "verified" not in done.output


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_with_digests_computed_again_are_seen(genuine, name, tmp_path):
    file = tmp_path / "forged.mcap"
    try:
        restate_digests(file, *forge(genuine, name))
        problems = verify_record(read_record(file))
    except RecordError:
        return
    assert problems
    assert any("chain" in p.message or CUT in p.message for p in problems), problems


def test_claims_are_sorted_by_what_they_rest_on(genuine, tmp_path):
    file = tmp_path / "run.mcap"
    file.write_bytes(put_together(*genuine))
    found = {x.claim.name: (x.status, x.reason) for x in review_claims(read_record(file))}
    assert found == {
        "reach": ("recomputed", ""),
        "rms": ("recomputed", ""),
        "share": ("recomputed", ""),
        "given": ("only stated", "no metric: its value follows from no trace"),
        "read": ("only stated", "judged in words"),
        "other": ("not evaluated", "no data"),
        "wrong": ("only stated", "judged in words"),
    }
    done = CliRunner().invoke(app, ["evidence", "verify", str(file)])
    assert done.exit_code == 0
    assert "nothing is wrong: 2 traces, 3 metrics, 7 claims" in done.output
    assert "(3 recomputed, 3 only stated, 1 not evaluated)" in done.output
    assert "only stated 2 read: PASS (judged in words)" in done.output
    assert "verified" not in done.output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": Verdict.NOT_EVALUATED}, "NOT EVALUATED is written, though"),
        ({"value": None, "verdict": Verdict.PASS}, "its value is not that of metric"),
        ({"value": np.nan, "verdict": Verdict.PASS}, "its value is not that of metric"),
        ({"relation": "", "bound": None, "verdict": Verdict.PASS}, "no relation and bound"),
        ({"relation": ""}, "a bound without a relation"),
        ({"bound": None}, "a relation without a bound"),
        ({"verdict": Verdict.PASS}, "by value and bound it is FAIL"),
        ({"metric": "nothing"}, "its value is not that of metric 'nothing'"),
        ({"metric": "", "value": None, "verdict": Verdict.PASS}, "by value and bound it is"),
    ],
)
def test_a_claim_is_judged_without_the_chain(genuine, tmp_path, changes, words):
    file = tmp_path / "run.mcap"
    file.write_bytes(put_together(*genuine))
    claim = dataclasses.replace(read_record(file).claims[1], **changes)
    found = dataclasses.replace(read_record(file), claims=(claim,))
    (x,) = review_claims(found)
    assert x.status == "does not hold"
    assert words in x.reason


@pytest.mark.parametrize(
    ("definition", "relation", "bound", "words"),
    [
        ("largest_magnitude", "<", 1e-9, ""),
        ("largest_magnitude", "<", 1e-3, "< 0.001 is written, this version asks for < 1e-09"),
        ("largest_magnitude", ">", 1e-9, "> 1e-09 is written, this version asks for < 1e-09"),
        ("smallest", "<", 1e-9, "not measured as this version measures it"),
    ],
)
def test_bounds_that_the_library_knows_are_not_relaxed(definition, relation, bound, words):
    with Recorder(None, Run("check")) as r:
        r.trace("check/symmetric", {"residual": [1e-12, 2e-12]})
        r.metric("check/symmetric", definition, "check/symmetric.residual")
        r.claim("symmetric", "M", metric="check/symmetric", relation=relation, bound=bound)
    found = [p.message for p in verify_record(r.record)]
    assert bool(found) == bool(words)
    assert words in " ".join(found)
    # records of another version may have other bounds
    run = dataclasses.replace(r.record.run, versions={"qddot": "0.0.1"})
    assert verify_record(dataclasses.replace(r.record, run=run)) == []


def test_a_claim_that_is_not_evaluated_is_no_way_to_pass(tmp_path):
    verdicts = {}
    for name, given in {
        "pass": [Verdict.PASS],
        "gap": [Verdict.PASS, Verdict.NOT_EVALUATED],
        "fail": [Verdict.PASS, Verdict.NOT_EVALUATED, Verdict.FAIL],
        "none": [],
    }.items():
        with Recorder(None, Run("test")) as r:
            for verdict in given:
                r.claim("c", "x", verdict=verdict)
        verdicts[name] = r.record.verdict.value
    none = "NOT EVALUATED"
    assert verdicts == {"pass": "PASS", "gap": none, "fail": "FAIL", "none": none}


def test_metrics_of_strangers_are_evaluated_within_bounds():
    trace = {"a": np.zeros((3, 1)), "b": np.zeros((3, 2)), "m": np.zeros((3, 2, 4))}
    r = Recorder(None, Run("test"))
    r.trace("x", trace)
    for words in (
        ("largest_difference", "x.a", "x.b"),
        ("largest_condition", "x.m"),
        ("late_rms", "x.a"),
    ):
        with pytest.raises(InvalidArgument, match=r"one shape|cannot be evaluated"):
            r.metric("m", *words)
    with pytest.raises(InvalidArgument, match="cannot be evaluated"):
        r.metric("m", "rms", "x.a", share=1.0)
