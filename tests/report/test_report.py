"""Reports: one file, nothing from outside, no text that acts, and a real browser that agrees."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from qddot.cli import app
from qddot.evidence import Recorder, Run, Verdict
from qddot.report import report_page
from qddot.report.plots import make_plots

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
WIDTHS = (1280, 390)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


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
    head = page.split("<script>")[0]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:|#)", head)
    assert "onerror=alert" not in page.replace("&lt;img src=x onerror=alert(2)&gt;", "").replace(
        "\\u003cimg src=x onerror=alert(2)>", ""
    )
    assert "<script>alert(1)" not in page
    assert page.index("FAIL") < page.index("Claims") < page.index("Plots") < page.index("Metrics")
    assert page.count('class="plot"') == 10
    for anchor in re.findall(r'href="#([^"]+)"', head):
        assert f'id="{anchor}"' in head


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
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    # the page as a desktop and as a phone shows it, in frames that tell what they see
    probe = """<script>const problems = [];
      addEventListener("error", e => problems.push(e.message));</script>"""
    told = """<script>setTimeout(() => {
      const wide = [...document.querySelectorAll("body *")].filter(
        e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName);
      parent.postMessage({problems, wide: wide.slice(0, 5), width: innerWidth,
        plots: document.querySelectorAll(".js-plotly-plot .main-svg").length}, "*");
    }, 1500);</script>"""
    page = report_page(record).replace("<head>", f"<head>{probe}", 1)
    head, end = page.rsplit("</body>", 1)
    (tmp_path / "page.html").write_text(f"{head}{told}</body>{end}", "utf-8")
    frames = "".join(f'<iframe src="page.html" width="{w}" height="900"></iframe>' for w in WIDTHS)
    collect = """<script>const seen = [];
      addEventListener("message", e => {
        seen.push(e.data); document.title = JSON.stringify(seen); });</script>"""
    harness = tmp_path / "harness.html"
    harness.write_text(f"<title>none</title>{collect}{frames}", "utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--virtual-time-budget=10000",
    ]
    done = subprocess.run(
        [browser, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,900",
         "--dump-dom", harness.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    title = re.search(r"<title>(\[.*?\])</title>", done.stdout)
    assert title, done.stderr[-500:]
    seen = json.loads(html.unescape(title[1]))
    assert sorted(x["width"] for x in seen) == sorted(WIDTHS)
    for x in seen:
        assert x["problems"] == []
        assert x["wide"] == []
        assert x["plots"] >= 7


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
