"""The page: verdicts first, then the robot, plots, every number with its definition, the run."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.markup import Markup, data_block, element, joined, page
from qddot.errors import MissingPackage, count_text
from qddot.evidence.metrics import DEFINITIONS
from qddot.evidence.record import Record, Verdict
from qddot.files import write_whole
from qddot.report.picture import robot_picture
from qddot.report.plots import Shape, make_plots, plain_text, trace_with

__all__ = ["report_page", "require_plotly", "write_report"]

_CLASS = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.NOT_EVALUATED: "none"}
_STYLE = """
:root { --ink:#1d232b; --dim:#5d6875; --line:#dfe4ea;
  --pass:#2f7d3b; --fail:#b3261e; --none:#8a6100 }
* { box-sizing:border-box }
body { font:16px/1.5 system-ui,sans-serif; color:var(--ink);
  margin:0 auto; max-width:72rem; padding:1rem }
h1 { font-size:1.6rem; margin:.2rem 0 } h2 { font-size:1.2rem; margin:2rem 0 .5rem }
h3 { font-size:1rem; margin:1rem 0 .2rem }
p { margin:.3rem 0 } .dim { color:var(--dim); font-size:.9rem }
table { border-collapse:collapse; width:100%; font-size:.92rem }
th,td { text-align:left; vertical-align:top; padding:.3rem .5rem;
  border-bottom:1px solid var(--line) }
td,p,h1,code { overflow-wrap:anywhere }
td.tight { white-space:nowrap; overflow-wrap:normal } td.name { min-width:10rem }
table.steps td:first-child { width:2rem } table.steps td.name { width:12rem }
.mark { font-weight:600; white-space:nowrap }
.pass { color:var(--pass) } .fail { color:var(--fail) } .none { color:var(--none) }
.badge { display:inline-block; border:2px solid; border-radius:.4rem;
  padding:.1rem .7rem; font-weight:700 }
.plot { width:100%; height:340px } figure { margin:0; break-inside:avoid }
.grid { display:grid; gap:1rem;
  grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr)) }
.grid > * { min-width:0 }
svg.robot { width:100%; max-width:26rem; height:auto }
code { font-size:.85em } a { color:inherit }
@media (max-width:44rem) {
  table.cards thead { display:none }
  table.cards tr { display:block; border-bottom:2px solid var(--line); padding:.4rem 0 }
  table.cards td { display:block; border:0; padding:.05rem 0 }
  table.cards td.tight, table.cards td.name { display:inline-block; margin-right:.7rem }
  table.cards td.name { min-width:0 }
  table.cards td.tight { white-space:normal }
  table.cards td:empty { display:none }
  table.cards td[data-name]::before { content:attr(data-name) ": "; color:var(--dim) }
}
@media print {
  html { font-size:10px } body { max-width:none; padding:0; font-size:1rem }
  h2,h3 { break-after:avoid } td.name { min-width:9rem } .plot { height:255px }
  tr { break-inside:avoid } .grid { display:block } a { text-decoration:none }
}
"""
_SCRIPT = """
const PLOTS = JSON.parse(document.getElementById("plots").textContent);
const config = {responsive: true, displaylogo: false, displayModeBar: false};
for (const plot of PLOTS) {
  const layout = Object.assign({margin: {l: 62, r: 16, t: 8, b: 46}, font: {size: 12},
    hovermode: "closest", legend: {orientation: "h", y: 1.02, yanchor: "bottom"},
    paper_bgcolor: "white", plot_bgcolor: "white"}, plot.layout);
  for (const axis of ["xaxis", "yaxis", "yaxis2"]) {
    if (layout[axis]) Object.assign(layout[axis], {automargin: true, gridcolor: "#e8ecf0"});
  }
  Plotly.newPlot(plot.id, plot.data, layout, config);
}
const fit = (width, height) => {
  const size = {width: width, height: height, autosize: !width};
  for (const plot of PLOTS) Plotly.relayout(plot.id, size);
};
addEventListener("beforeprint", () => fit(660, 250));
addEventListener("afterprint", () => fit(null, null));
"""


def write_report(record: Record, file: str | Path, force: bool = False) -> Path:
    """Write the page of a record whole; returns where it is."""
    return write_whole(file, report_page(record), force)


def require_plotly() -> None:
    """Refuse a report without plotly, before anything is computed for it."""
    if importlib.util.find_spec("plotly") is None:
        raise MissingPackage("plotly", "a report", "'qddot[report]'")


def report_page(record: Record) -> str:
    """One HTML page with everything inside: no network, no other file."""
    require_plotly()
    from plotly.offline import get_plotlyjs

    # plots, each with links to its traces
    plots, figures = make_plots(record), []
    for k, plot in enumerate(plots):
        links = _commas(_link("trace", name, name) for name in plot.traces[:4])
        figures.append(
            element(
                "figure",
                element("h3", plot.title),
                element("p", plot.caption, " Traces: ", links, ".", class_="dim"),
                element("div", class_="plot", id=f"plot{k}"),
            )
        )
    body = joined(
        _summary(record),
        _claims(record),
        _picture(record),
        (element("h2", "Plots"), element("div", figures, class_="grid")) if figures else None,
        _reference_tables(record),
    )
    if not plots:
        return page(_title(record), _STYLE, body)
    given = [
        {"id": f"plot{k}", "data": plain_text(p.data), "layout": plain_text(p.layout)}
        for k, p in enumerate(plots)
    ]
    scripts = (get_plotlyjs(), _SCRIPT)
    return page(_title(record), _STYLE, (body, data_block("plots", given)), scripts)


def _title(record: Record) -> str:
    name = record.run.inputs[0].name if record.run.inputs else ""
    robot = record.run.configuration.get("robot") or record.run.configuration.get("a") or ""
    shown = name or (robot if "{" not in str(robot) else "")
    return f"qddot {record.run.command} {shown}".strip()


def _link(kind: str, name: str, text: Any) -> Markup:
    """A link to the row of a trace or metric."""
    return element("a", text, href=f"#{kind}-{name}")


def _commas(parts: Iterable[Any]) -> list[Any]:
    """Parts with commas between them."""
    return [x for part in parts for x in (", ", part)][1:]


def _mark(verdict: Verdict) -> Markup:
    return element("span", verdict.value, class_=f"mark {_CLASS[verdict]}")


def _table(rows: Iterable[Any], heads: Iterable[str], kind: str | None = "cards") -> Markup:
    top = element("thead", element("tr", (element("th", x) for x in heads)))
    return element("table", top, element("tbody", rows), class_=kind)


def _cell(content: Any, name: str = "", kind: str | None = None) -> Markup:
    """A cell; `name` is the head of its column where a narrow page has no heads."""
    return element("td", content, class_=kind, data_name=(content and name) or None)


def _summary(record: Record) -> Markup:
    """The verdict in one line, and a row a step."""
    counts = [(v, sum(c.verdict is v for c in record.claims)) for v in Verdict]
    listed = ", ".join(f"{n} {v.value}" for v, n in counts if n)
    notes = []
    if record.virtual_steps:
        notes.append(
            "No log of the real robot was given: everything marked virtual was measured on a "
            "simulated plant with other masses, friction, delay and noise."
        )
    notes += [f"Damage: {words}." for words in record.damage]
    rows = []
    for mark in (m for m in record.marks if m.event == "begin"):
        claims = [c for c in record.claims if c.step == mark.step]
        by_verdict = {v: [c for c in claims if c.verdict is v] for v in Verdict}
        order = (Verdict.FAIL, Verdict.PASS)
        verdict = next((v for v in order if by_verdict[v]), Verdict.NOT_EVALUATED)
        # the first claim that fails or was not evaluated, else values with thresholds, else words
        doubtful = [*by_verdict[Verdict.FAIL], *by_verdict[Verdict.NOT_EVALUATED]]
        judged = [
            f"{c.name} {c.value:.2g} {c.unit} ({c.threshold})".replace("  ", " ")
            for c in claims
            if c.value is not None and c.bound
        ]
        found = judged or [c.detail for c in claims if c.detail]
        words = "; ".join(found[:2]) or f"{count_text(len(claims), 'claim')}, all pass"
        if doubtful:
            words = doubtful[0].detail or doubtful[0].compared
        cells = (
            _cell(mark.step.lstrip("0"), kind="tight"),
            _cell(mark.title + record.mark_virtual(mark.step), kind="name"),
            _cell(_mark(verdict), kind="tight"),
            _cell(words),
        )
        rows.append(element("tr", cells))
    run, verdict = record.run, record.verdict
    digest = element("code", record.digest[:16])
    facts = f"{listed or 'no claims'}; {run.started}; seed {run.seed}; digest "
    return joined(
        element("h1", _title(record)),
        element("p", element("span", verdict.value, class_=f"badge {_CLASS[verdict]}")),
        element("p", facts, digest),
        (element("p", x, class_="dim") for x in notes),
        _table(rows, ("", "step", "verdict", "in a sentence"), "cards steps") if rows else None,
    )


def _claims(record: Record) -> Markup:
    """A row for each claim."""
    rows = []
    for c in record.claims:
        value: Any = "" if c.value is None else f"{c.value:.3g} {c.unit}".strip()
        if c.metric and value:
            value = _link("metric", c.metric, value)
        words = "; ".join(filter(None, (c.compared, c.detail)))
        if c.verdict is not Verdict.PASS and c.fix:
            words += f". Fix: {c.fix}"
        cells = (
            _cell(c.step.lstrip("0"), kind="tight"),
            _cell(element("b", c.name), kind="name"),
            _cell((_mark(c.verdict), f" ({c.label})" if c.label else ""), kind="tight"),
            _cell(value, "value", "tight"),
            _cell(c.threshold, "threshold", "tight"),
            _cell(words),
        )
        rows.append(element("tr", cells))
    heads = ("step", "claim", "verdict", "value", "threshold", "what was compared")
    return joined(element("h2", "Claims"), _table(rows, heads)) if rows else joined()


def _picture(record: Record) -> Markup:
    """The robot drawn, and a table of its bodies."""
    vectors = dict.fromkeys(("origin", "com", "edges"), (3,))
    shapes: dict[str, Shape] = {**vectors, "axes": (9,), "parent": (), "mass": ()}
    trace = trace_with(record, "picture", shapes, labelled=True)
    drawn = None if trace is None else robot_picture(trace)
    if trace is None or drawn is None:
        return joined()
    rows = []
    for name, mass, edges in zip(
        trace.labels, trace.columns["mass"], trace.columns["edges"], strict=True
    ):
        # edges of the box in mm, the longest first
        lengths = " × ".join(f"{1e3 * x:.0f}" for x in sorted(edges, reverse=True)) + " mm"
        box = lengths if np.isfinite(edges).all() else "no box has this tensor"
        cells = (_cell(name), _cell(f"{mass:.4g} kg", kind="tight"), _cell(box))
        rows.append(element("tr", cells))
    words = (
        "At the neutral configuration. A box has the mass and the inertia tensor of its body: one "
        "that is much larger or smaller than the part, or askew, is a mistake in the file."
    )
    table = _table(rows, ("body", "mass", "box of equal inertia"), None)
    sides = (element("div", drawn), element("div", table))
    return joined(
        element("h2", "Robot"),
        element("p", words, class_="dim"),
        element("div", sides, class_="grid"),
    )


def _reference_tables(record: Record) -> Markup:
    """Tables of metrics, traces and the facts of the run, which the page refers to."""

    def name_cell(kind: str, name: str, step: str) -> Markup:
        content = (element("b", name), record.mark_virtual(step))
        return element("td", content, class_="name", id=f"{kind}-{name}")

    def section(title: str, rows: list[Markup], *heads: str) -> Markup:
        return joined(element("h2", title), _table(rows, heads)) if rows else joined()

    # metrics with their definitions
    metrics = []
    for m in record.metrics.values():
        known = DEFINITIONS.get(m.definition)
        formula = f"{m.definition}: {known.formula}" if known else m.definition
        links = _commas(_link("trace", x.rpartition(".")[0], x) for x in m.operands)
        cells = (
            name_cell("metric", m.name, m.step),
            _cell(f"{m.value:.6g} {m.unit}".strip(), "value"),
            _cell(formula, "definition"),
            _cell(links, "of"),
        )
        metrics.append(element("tr", cells))
    # traces with their columns
    traces = []
    for name, trace in record.traces.items():
        columns = ", ".join(
            f"{c}{list(x.shape[1:]) or ''} {trace.units.get(c, '')}".strip()
            for c, x in trace.columns.items()
        )
        cells = (
            name_cell("trace", name, trace.step),
            _cell(str(len(trace)), "rows"),
            _cell(columns, "columns"),
            _cell(element("code", trace.digest[:12]), "digest"),
        )
        traces.append(element("tr", cells))
    # facts of the run
    run = record.run
    facts = {
        "command": f"qddot {run.command} {' '.join(run.arguments)}",
        "started": run.started,
        "seed": str(run.seed),
        "units": run.units,
        "frames": run.frames,
        **{f"latency, {k}": f"{1e3 * v:g} ms" for k, v in run.latency.items()},
        **{f"version of {k}": str(v) for k, v in run.versions.items()},
        **{k: str(v) for k, v in run.machine.items()},
        **{f"input {x.place}": f"{x.size} bytes, sha256 {x.sha256}" for x in run.inputs},
        "digest of the results": record.digest,
    }
    rows = [element("tr", _cell(k), _cell(v)) for k, v in facts.items()]
    again = ("Run again from the record: ", element("code", "qddot evidence replay RECORD"))
    return joined(
        section("Metrics", metrics, "metric", "value", "definition", "of"),
        section("Traces", traces, "trace", "rows", "columns", "digest"),
        element("h2", "Run"),
        element("table", element("tbody", rows)),
        element("p", again),
    )
