"""Reports: one file, nothing from outside, no text that acts, and a real browser that agrees."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from html_pages import HOSTILE, PLAIN, check_page, filled, look_at, skeleton
from typer.testing import CliRunner

from qddot.cli import app
from qddot.evidence import Recorder, Run, Verdict
from qddot.evidence.record import Claim, Record, RecordTrace, StepMark
from qddot.report import report_page
from qddot.report.plots import make_plots

ATTACK = "<a href='https://x.org'>x</a></script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def record():
    """A record with every kind of plot, and hostile names."""
    time = np.linspace(0.0, 1.0, 50)
    r = Recorder(None, Run("pipeline", configuration={"robot": ATTACK}))
    with r.mark("01", f"first {ATTACK}"):
        r.trace(
            "picture",
            {
                "origin": [[0, 0, 0.1], [0, 0, 0.4]],
                "com": [[0, 0, 0.2], [0.1, 0, 0.5]],
                "edges": [[0.1, 0.1, 0.3], [0.1, 0.1, 0.2]],
                "axes": np.tile(np.eye(3).ravel(), (2, 1)),
                "parent": [-1, 0],
                "mass": [2.0, 1.0],
            },
            labels=[ATTACK, "link " + "with_a_very_long_name" * 6],
        )
        grid = np.linspace(-3, 3, 9)
        condition = 10.0 ** (3 + np.outer(np.sin(grid), np.cos(grid)))
        names = {"x": ATTACK, "y": "joint"}
        r.trace("condition_map", {"x": grid, "y": grid, "condition": condition}, names)
        r.trace("check/skew", {"residual": np.full(5, 1e-15)})
        r.trace("integrator/rk4/energy", {"time": time, "error": 1e-9 * time})
        r.trace("contact", {"time": time, "normal_force": time, "gap": -1e-4 * time})
        q = np.sin(time[:, None] * [1.0, 2.0])
        columns = {"time": time, "q": q, "reference": q, "error": 0.01 * q}
        r.trace("control/baseline", columns)
        r.trace("identification/residuals", {"factory": [0.15], "identified": [0.01]}, labels=["a"])
        r.trace("torque_budget", {"gravity": [2.0], "M q̈": [1.0]}, labels=[ATTACK])
        turn = np.linspace(0.0, 360.0, 9)
        mass = np.where(turn[:, None] < 90.0, np.nan, [[2.0, 3.0]])
        r.trace("mass_ellipsoids", {"angle": turn, "mass": mass}, {"mass": "kg"})
        r.trace(
            "hardware/torques",
            {"time": time, "measured": q, "predicted": 0.9 * q},
            {"joints": f"a,{ATTACK}"},
        )
        r.metric("m", "rms", "contact.gap", unit="m")
        r.claim("force", "force", metric="m", relation="<", bound=1.0)
        r.claim(ATTACK, "x", verdict=Verdict.FAIL, detail=ATTACK, fix=ATTACK, label="model")
    return r.record


def test_the_page_is_alone_and_says_the_verdict_first(record):
    page = report_page(record)
    found = check_page(page)
    assert page.index("FAIL") < page.index("Claims") < page.index("Plots") < page.index("Metrics")
    assert page.count('class="plot"') == 10
    names = {a.get("id") for _, a in found.elements}
    assert {a["href"][1:] for tag, a in found.elements if tag == "a"} <= names


def hostile_record(text: str) -> Record:
    """A record with a text in every field of all that it holds."""
    plots = {
        "condition_map": {"x": (), "y": (), "condition": (3,)},
        "mass_ellipsoids": {"angle": (), "mass": (2,)},
        "check/x": {"residual": ()},
        "integrator/x/energy": {"time": (), "error": ()},
        "contact": {"time": (), "normal_force": (), "gap": ()},
        "control/x": {"time": (), "error": (2,), "reference": (2,)},
        "hardware/torques": {"time": (), "measured": (2,), "predicted": (2,)},
        "torque_budget": {text: ()},
        "identification/residuals": {"factory": (), "identified": ()},
        "motion": {"time": (), "v": (2,)},
        "motion/energy": {"time": (), "kinetic": (), "potential": (), "residual": ()},
        "torques": {"static": (), "dynamic": (), "rating": ()},
        "picture": {**dict.fromkeys(("origin", "com", "edges"), (3,)), "axes": (9,), "mass": ()},
        text: {text: ()},
    }
    traces = {}
    for name, shapes in plots.items():
        columns = {c: 1.0 + np.arange(3.0 * np.prod(s)).reshape(3, *s) for c, s in shapes.items()}
        if name == "picture":
            columns["parent"] = np.arange(-1.0, 2.0)
        units = {**dict.fromkeys(columns, text), "joints": f"{text},{text}"}
        labels = (text,) * 3
        traces[name] = filled(RecordTrace, text, name=name, columns=columns, units=units,
                              labels=labels)  # fmt: skip
    claims = tuple(filled(Claim, text, verdict=verdict) for verdict in Verdict)
    return filled(
        Record, text, traces=traces, claims=claims, marks=(filled(StepMark, text, event="begin"),)
    )


def test_no_text_of_a_record_is_markup():
    plain, hostile = (report_page(hostile_record(text)) for text in (PLAIN, HOSTILE))
    assert skeleton(hostile) == skeleton(plain)
    # what is shown of each is the same, but for the text
    shown = [x.replace(HOSTILE, PLAIN) for x in check_page(hostile).text]
    assert "".join(shown).count(PLAIN) >= "".join(check_page(plain).text).count(PLAIN) > 40


OTHER = {
    "none of its columns": lambda text: {"time": np.arange(3.0), text: np.ones(3)},
    "numbers where it has rows": lambda text: dict.fromkeys(COLUMNS, np.ones(3)),
    "rows where it has numbers": lambda text: dict.fromkeys(COLUMNS, np.ones((3, 2))),
    "matrices": lambda text: dict.fromkeys(COLUMNS, np.ones((3, 2, 2))),
    "no entries": lambda text: dict.fromkeys(COLUMNS, np.ones((3, 0))),
    "no rows": lambda text: dict.fromkeys(COLUMNS, np.ones(0)),
    "no numbers": lambda text: dict.fromkeys(COLUMNS, np.full(3, np.nan)),
    "huge numbers": lambda text: dict.fromkeys(COLUMNS, np.full((3, 3), 1e308)),
}
COLUMNS = sorted({c for t in hostile_record(PLAIN).traces.values() for c in t.columns})


@pytest.mark.parametrize("labels", [(), ("a", "b", "c")])
@pytest.mark.parametrize("kind", OTHER)
def test_traces_of_a_user_may_have_any_columns(kind, labels):
    record, columns = hostile_record(PLAIN), OTHER[kind](PLAIN)
    labels = labels if len(next(iter(columns.values()))) else ()
    other = {
        name: RecordTrace(name, columns, labels=labels) for name in (*record.traces, "free_motion")
    }
    shown = check_page(report_page(dataclasses.replace(record, traces=other)))
    assert set(other) <= {text.strip() for text in shown.text}
    # each trace alone, so that no other one is what a plot is made of
    for name in other:
        assert report_page(dataclasses.replace(record, traces={name: other[name]}))


def test_a_robot_whose_bodies_hang_on_nothing_is_not_drawn():
    record = hostile_record(PLAIN)
    columns = dict(record.traces["picture"].columns) | {"parent": np.array([-1.0, 7.0, np.nan])}
    picture = RecordTrace("picture", columns, labels=("a", "b", "c"))
    assert "<svg" in report_page(record)
    assert "<svg" not in report_page(dataclasses.replace(record, traces={"picture": picture}))


def test_a_record_without_anything_has_a_page():
    page = report_page(Recorder(None, Run("check")).record)
    assert "NOT EVALUATED" in page
    assert "<script>" not in page


def test_the_command_writes_the_page(tmp_path):
    run = CliRunner().invoke
    file, page = tmp_path / "run.mcap", tmp_path / "run.html"
    assert run(app, ["check", "planar_2r", "--states", "3", "--record", str(file)]).exit_code == 0
    assert run(app, ["report", str(file)]).exit_code == 0
    assert "skew" in page.read_text("utf-8")
    assert run(app, ["report", str(file)]).exit_code == 2
    assert run(app, ["report", str(file), "--force"]).exit_code == 0


def test_a_browser_has_no_complaint_and_nothing_sticks_out(record, tmp_path):
    for x in look_at(report_page(record), tmp_path):
        assert x["problems"] == []
        assert x["wide"] == []
        assert x["plots"] >= 7
        # plotly makes links of text that is markup
        assert x["links"] == 0


def plots_of(**traces):
    r = Recorder(None, Run("pipeline"))
    for name, (columns, units) in traces.items():
        r.trace(name, columns, units)
    return {plot.title: plot for plot in make_plots(r.record)}


@pytest.mark.parametrize(
    ("scale", "kinds", "words"),
    [
        (1000.0, ["heatmap", "contour"], "on the brighter side of the white line."),
        (10.0, ["heatmap"], "nowhere here."),
        (1e6, ["heatmap"], "everywhere here."),
    ],
)
def test_the_line_of_the_condition_map_is_told_where_it_is_drawn(scale, kinds, words):
    grid = np.linspace(0.5, 2.0, 5)
    columns = {"x": grid, "y": grid, "condition": scale * np.outer(grid, grid)}
    plots = plots_of(condition_map=(columns, {"x": "a, rad", "y": "b, m"}))
    plot = plots["Condition number of the mass matrix"]
    assert [d["type"] for d in plot.data] == kinds
    assert plot.caption.endswith(words)
    assert plot.layout["yaxis"]["title"]["text"] == "b, m"


def test_motions_and_contact_have_names_and_round_ticks():
    time = np.linspace(0.0, 1.0, 5)
    v = np.outer(time, [1.0, 2.0])
    units = {"q": "rad", "v": "rad/s", "joints": "shoulder,elbow"}
    contact = {"time": time, "normal_force": time, "gap": 1e-3 * time}
    plots = plots_of(motion=({"time": time, "q": v, "v": v}, units), contact=(contact, {}))
    assert [d["name"] for d in plots["Motion"].data] == ["shoulder", "elbow"]
    assert plots["Motion"].layout["yaxis"]["title"]["text"] == "velocity, rad/s"
    assert plots["Contact"].layout["yaxis2"]["tickvals"] == [-2.0, -1.0, 0.0, 1.0, 2.0]
