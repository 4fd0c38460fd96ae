"""The benchmark's numbers are consistent and its guard trips; nothing here depends on speed."""

from __future__ import annotations

import dataclasses
import json
import time

import numpy as np
import pytest
from bench_settings import TINY
from typer.testing import CliRunner

import qddot
from qddot import bench
from qddot.bench import laws, measure, peers, run
from qddot.bench.c_laws import find_compiler
from qddot.bench.contender import BRIEF, Contender, loop_over_states, make_job, ours, ours_single
from qddot.bench.goals import judge_goals
from qddot.bench.laws import LAWS, measure_law
from qddot.bench.subjects import Subject, chain, find_subject
from qddot.cli import app

ENGINES = {"Pinocchio", "MuJoCo", "Drake", "CasADi"}


def measured(*robots: str, functions=bench.FUNCTIONS, settings=TINY):
    heard = []
    plan = bench.BenchmarkPlan(robots, functions, settings)
    data = bench.benchmark(plan, lambda name, done, of: heard.append((done, of)))
    assert heard == [(k, len(heard)) for k in range(len(heard))]
    return data


@pytest.fixture(scope="module")
def data():
    return measured("ur5e")


def test_every_engine_agrees_on_every_function(data):
    assert len(data["rows"]) == len(bench.FUNCTIONS)
    for row in data["rows"]:
        for peer in row["peers"]:
            assert peer["status"] in ("ok", "NOT INSTALLED"), (row["function"], peer)
    seen = {p["engine"] for row in data["rows"] for p in row["peers"] if p["status"] == "ok"}
    assert seen >= ENGINES


@pytest.mark.parametrize(
    "function", ["inverse_dynamics", "forward_dynamics", "bias", "mass_matrix"]
)
def test_a_free_base_agrees_too(function):
    arm = find_subject("ur5e")
    free = Subject("free", "robot", qddot.load(arm.file, "free", "free"), arm.file, "free")
    job = make_job(free, function, 64, 1)
    entered, others = run._agreeing_contenders(job, ours(job))
    assert {p["engine"] for p in others} <= {"adam (JAX)"}, others
    assert {c.engine for c in entered} >= {"Pinocchio", "MuJoCo", "CasADi"}


def test_figures_are_consistent(data):
    for row in data["rows"]:
        ours_ = row["ours"]
        assert ours_["float32_ratio"] == pytest.approx(ours_["us"] / ours_["float32_us"])
        share = row["compile"]["operations"] / (1e-6 * ours_["us"] * data["peak"]["float64"])
        assert ours_["bound_share"] == pytest.approx(share)
        assert not row["compile"]["cached"]
        for peer in row["peers"]:
            if peer["status"] == "ok":
                assert peer["ratio"] == pytest.approx(peer["us"] / ours_["us"])
        single = row["single"]
        assert single["ratio"] == pytest.approx(single["pinocchio_us"] / single["us"])
    for row in data["scaling"]:
        assert row["ns_per_operation"] == pytest.approx(1e3 * row["us"] / row["operations"])
    assert [row["joints"] for row in data["scaling"]] == [2, 3]
    assert len(data["threads"]) == 1
    assert data["machine"]["versions"]["numpy"] == np.__version__
    assert all(x > 1e8 for x in data["peak"].values())


def test_json_page_and_plot(data, tmp_path):
    file = tmp_path / "bench.json"
    bench.write_measurements(data, file)
    assert bench.read_measurements(file) == json.loads(json.dumps(data))
    text = bench.page(bench.read_measurements(file))
    for sheet in bench.sheets(data):
        assert f"## {sheet.title}" in text
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert text.count("| ur5e | inverse_dynamics |") == 4
    picture = tmp_path / "bench.png"
    bench.plot(data, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_second_pass_measures_the_same_rows_again():
    once, twice = (
        measured("planar_2r", functions=("gravity",), settings=dataclasses.replace(TINY, passes=n))
        for n in (1, 2)
    )
    for table in ("rows", "threads", "scaling"):
        assert len(once[table]) == len(twice[table])
    assert [row["function"] for row in twice["rows"]] == ["gravity"]


def broken(engine: peers.Engine) -> peers.Engine:
    """An engine whose results are off by one part in ten thousand."""

    def contenders(job):
        return [
            dataclasses.replace(c, values=lambda c=c: tuple(1.0001 * x for x in c.values()))
            for c in engine.contenders(job)
        ]

    return dataclasses.replace(engine, contenders=contenders)


def test_a_wrong_peer_is_not_timed_and_fails_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "ENGINES", (broken(peers.ENGINES[0]), *peers.ENGINES[1:]))
    monkeypatch.setattr(bench, "QUICK", TINY)
    file = tmp_path / "bench.json"
    command = ["bench", "planar_2r", "--function", "mass_matrix", "--quick", "--json", str(file)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1, result.output
    assert "DISAGREES" in result.stderr
    (row,) = json.loads(file.read_text())["rows"]
    status = {p["engine"]: (p["status"], p["ratio"]) for p in row["peers"]}
    assert status["Pinocchio"] == ("DISAGREES", None)
    assert status["CasADi"][0] == "ok"
    again = CliRunner().invoke(
        app, ["bench", "--from", str(file), "--page", str(tmp_path / "p.md")]
    )
    assert again.exit_code == 1
    assert "DISAGREES" in (tmp_path / "p.md").read_text()


def test_what_an_engine_cannot_do_is_said(monkeypatch):
    def fails(job):
        raise RuntimeError("no luck")

    absent = dataclasses.replace(peers.ENGINES[1], modules=("no_such_module",))
    failing = dataclasses.replace(peers.ENGINES[2], contenders=fails)
    monkeypatch.setattr(run, "ENGINES", (peers.ENGINES[0], absent, failing))
    (row,) = measured("double_pendulum", functions=("mass_matrix",))["rows"]
    assert {p["engine"]: p["status"] for p in row["peers"]} == {
        "Pinocchio": "ok",
        "MuJoCo": "NOT INSTALLED",
        "Drake": "FAILED",
    }
    (row,) = measured("quadruped", functions=("mass_matrix",))["rows"]
    assert [p["reason"] for p in row["peers"] if p["engine"] == "Pinocchio"] == ["not a URDF"]


def test_contenders_take_turns_and_the_best_counts(monkeypatch):
    heard = []
    seconds = {"a": iter([5.0, 3.0, 4.0, 7.0, 1.0]), "b": iter([8.0, 2.0, 9.0, 7.0, 6.0])}
    monkeypatch.setattr(measure, "_time_once", lambda c: 1.0)
    monkeypatch.setattr(
        measure,
        "_seconds_per_state",
        lambda c, n: heard.append(c.engine) or next(seconds[c.engine]),
    )
    pair = [Contender(n, "", 2, lambda: None, lambda: ()) for n in "ab"]
    clock = measure.Clock(dataclasses.replace(TINY, rounds=3))
    assert clock.time_interleaved("row", pair) == [3.0, 2.0]
    assert heard == ["a", "b"] * 3
    # what another row or an earlier pass has seen
    clock.settings = dataclasses.replace(TINY, rounds=1)
    assert clock.time_interleaved("other", pair) == [7.0, 7.0]
    assert clock.time_interleaved("row", pair) == [1.0, 2.0]
    assert clock.first("row", lambda: 1) == clock.first("row", lambda: 2) == 1


def test_each_contender_has_as_much_time_and_the_quick_more_turns(monkeypatch):
    heard = []
    monkeypatch.setattr(measure, "_time_once", lambda c: c.states * 1e-3)
    monkeypatch.setattr(
        measure, "_seconds_per_state", lambda c, n: heard.append((c.engine, n)) or 1.0
    )
    runs = [Contender(n, "", s, lambda: None, lambda: ()) for n, s in (("a", 1), ("b", 4))]
    clock = measure.Clock(dataclasses.replace(TINY, rounds=1, sample=2e-3, seconds=0.016))
    clock.time_interleaved("row", runs)
    # eight turns of two runs, and four of one that takes longer, spread over the others
    assert heard == ([("a", 2)] * 2 + [("b", 1)]) * 4
    heard.clear()
    clock.time_interleaved("row", runs, seconds=0.032)
    assert [sum(name == x for name, _ in heard) for x in "ab"] == [16, 8]


def test_what_is_called_state_by_state_has_brief_turns():
    called = []

    def call(x):
        called.append(x)
        time.sleep(BRIEF / 4)

    states, run = loop_over_states(call, range(100))
    assert 1 <= states <= 4
    called.clear()
    run()
    assert called == list(range(states))
    assert loop_over_states(lambda x: None, range(3))[0] == 3


def test_batch_and_single_call_give_the_same():
    job = make_job(find_subject("ur5e"), "forward_dynamics_derivatives", 64, 1)
    assert job.states == 64
    assert measure.difference(ours(job).values(), ours_single(job).values()) < 1e-12
    assert measure.difference(ours(job).values(), ours(job, "float32").values()) < 1e-3
    assert measure.difference((np.ones(2),), (np.array([1.0, np.nan]),)) == np.inf


def test_goals_are_judged_by_the_worst_figure(data):
    measurements = json.loads(json.dumps(data))
    for row in measurements["rows"]:
        row["compile"]["warm_s"] = 0.01
    measurements["rows"][3]["compile"]["warm_s"] = 1.0
    (warm,) = (v for v in judge_goals(measurements) if v.goal.claim == "warm start")
    label = f"{measurements['rows'][3]['robot']} {measurements['rows'][3]['function']}"
    assert warm.worst == (label, 1.0)
    assert warm.missed == ((label, 1.0),)


def test_a_chain_has_so_many_joints():
    assert chain(4).nv == 4
    assert chain(4).model.digest == chain(4).model.digest


def test_wrong_input_is_one_message(tmp_path):
    unknown = CliRunner().invoke(app, ["bench", "planar_2r", "--function", "mass_matrx"])
    assert unknown.exit_code == 2
    assert "mass_matrix" in unknown.stderr
    bad = tmp_path / "x.json"
    bad.write_text("[]")
    assert CliRunner().invoke(app, ["bench", "--from", str(bad)]).exit_code == 2
    bad.write_text('{"machine": {}, "rows": [], "scaling": [], "settings": {"rounds": 20}}')
    older = CliRunner().invoke(app, ["bench", "--from", str(bad)])
    assert older.exit_code == 2
    assert "measure again" in older.stderr


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler: neither gcc nor cc on the path")
@pytest.mark.parametrize("name", LAWS)
def test_laws_as_c_give_the_torques_of_the_compiled_law_before_they_are_timed(name):
    row = measure_law(measure.Clock(TINY), name)
    assert row["c_us"] > 0.0
    assert row["operations"] > 100


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler: neither gcc nor cc on the path")
def test_c_code_of_another_law_is_not_timed(monkeypatch):
    right = laws._c_arguments

    def twice_as_fast(compiled, state, *rest):
        return right(compiled, dataclasses.replace(state, v=2.0 * state.v), *rest)

    monkeypatch.setattr(laws, "_c_arguments", twice_as_fast)
    with pytest.raises(ValueError, match="its C code gives other torques"):
        measure_law(measure.Clock(TINY), "impedance")
