"""The page: verdicts first, then the robot, plots, every number with its definition, the run."""

from __future__ import annotations

import html
import importlib.util
import json
from pathlib import Path

import numpy as np

from qddot.errors import MissingPackage, count_text
from qddot.evidence.metrics import DEFINITIONS
from qddot.evidence.record import Record, Verdict
from qddot.files import write_whole
from qddot.report.picture import robot_picture
from qddot.report.plots import make_plots

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

    plots = make_plots(record)
    given = [{"id": f"plot{k}", "data": p.data, "layout": p.layout} for k, p in enumerate(plots)]
    # no text of a record may end the script
    data = json.dumps(given).replace("<", "\\u003c")
    title = html.escape(_title(record))
    # plots, each with links to its traces
    figures = []
    for k, plot in enumerate(plots):
        links = ", ".join(
            f'<a href="#trace-{html.escape(t)}">{html.escape(t)}</a>' for t in plot.traces[:4]
        )
        figures.append(
            f"<figure><h3>{html.escape(plot.title)}</h3>"
            f'<p class="dim">{html.escape(plot.caption)} Traces: {links}.</p>'
            f'<div class="plot" id="plot{k}"></div></figure>'
        )
    sections = [
        _summary(record),
        _claims(record),
        _picture(record),
        f'<h2>Plots</h2><div class="grid">{"".join(figures)}</div>' if figures else "",
        _reference_tables(record),
    ]
    scripts = ""
    if plots:
        scripts = (
            f"<script>{get_plotlyjs()}</script><script>const PLOTS = {data};{_SCRIPT}</script>"
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"{''.join(sections)}{scripts}</body></html>\n"
    )


def _title(record: Record) -> str:
    name = record.run.inputs[0].name if record.run.inputs else ""
    robot = record.run.configuration.get("robot") or record.run.configuration.get("a") or ""
    shown = name or (robot if "{" not in str(robot) else "")
    return f"qddot {record.run.command} {shown}".strip()


def _mark(verdict: Verdict) -> str:
    return f'<span class="mark {_CLASS[verdict]}">{verdict.value}</span>'


def _rows(rows: list[str], *heads: str) -> str:
    head = "".join(f"<th>{h}</th>" for h in heads)
    return (
        f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _cell(text: str, name: str = "", kind: str = "") -> str:
    told = f' data-name="{html.escape(name)}"' if name and text else ""
    kind = f' class="{kind}"' if kind else ""
    return f"<td{kind}{told}>{text}</td>"


def _summary(record: Record) -> str:
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
    body = "".join(f'<p class="dim">{html.escape(x)}</p>' for x in notes)
    steps = [m for m in record.marks if m.event == "begin"]
    rows = []
    for mark in steps:
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
            _cell(html.escape(mark.title + record.mark_virtual(mark.step)), kind="name"),
            _cell(_mark(verdict), kind="tight"),
            _cell(html.escape(words)),
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = ("", "step", "verdict", "in a sentence")
    table = _rows(rows, *heads).replace("cards", "cards steps", 1) if rows else ""
    badge = f'<span class="badge {_CLASS[record.verdict]}">{record.verdict.value}</span>'
    facts = f"{listed or 'no claims'}; {html.escape(record.run.started)}; seed {record.run.seed}"
    digest = f"digest <code>{record.digest[:16]}</code>"
    return (
        f"<h1>{html.escape(_title(record))}</h1><p>{badge}</p><p>{facts}; {digest}</p>{body}{table}"
    )


def _claims(record: Record) -> str:
    rows = []
    for c in record.claims:
        value = "" if c.value is None else f"{c.value:.3g} {html.escape(c.unit)}".strip()
        if c.metric and value:
            value = f'<a href="#metric-{html.escape(c.metric)}">{value}</a>'
        words = "; ".join(filter(None, (c.compared, c.detail)))
        if c.verdict is not Verdict.PASS and c.fix:
            words += f". Fix: {c.fix}"
        label = f" ({c.label})" if c.label else ""
        cells = (
            _cell(c.step.lstrip("0"), kind="tight"),
            _cell(f"<b>{html.escape(c.name)}</b>", kind="name"),
            _cell(_mark(c.verdict) + html.escape(label), kind="tight"),
            _cell(value, "value", "tight"),
            _cell(html.escape(c.threshold), "threshold", "tight"),
            _cell(html.escape(words)),
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = ("step", "claim", "verdict", "value", "threshold", "what was compared")
    return f"<h2>Claims</h2>{_rows(rows, *heads)}" if rows else ""


def _picture(record: Record) -> str:
    trace = record.traces.get("picture")
    if trace is None:
        return ""
    rows = []
    for name, mass, edges in zip(
        trace.labels, trace.columns["mass"], trace.columns["edges"], strict=True
    ):
        # edges of the box in mm, the longest first
        lengths = " × ".join(f"{1e3 * x:.0f}" for x in sorted(edges, reverse=True)) + " mm"
        box = lengths if np.isfinite(edges).all() else "no box has this tensor"
        cells = (_cell(html.escape(name)), _cell(f"{mass:.4g} kg", kind="tight"), _cell(box))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    words = (
        "At the neutral configuration. A box has the mass and the inertia tensor of its body: one "
        "that is much larger or smaller than the part, or askew, is a mistake in the file."
    )
    table = _rows(rows, "body", "mass", "box of equal inertia").replace(' class="cards"', "")
    return (
        f'<h2>Robot</h2><p class="dim">{words}</p>'
        f'<div class="grid"><div>{robot_picture(trace)}</div><div>{table}</div></div>'
    )


def _reference_tables(record: Record) -> str:
    """Tables of metrics, traces and the facts of the run, which the page refers to."""
    # metrics with their definitions
    rows = []
    for m in record.metrics.values():
        known = DEFINITIONS.get(m.definition)
        formula = f"{m.definition}: {known.formula}" if known else m.definition
        links = ", ".join(
            f'<a href="#trace-{html.escape(x.rpartition(".")[0])}">{html.escape(x)}</a>'
            for x in m.operands
        )
        name = html.escape(m.name)
        cells = (
            f'<td class="name" id="metric-{name}"><b>{name}</b>{record.mark_virtual(m.step)}</td>',
            _cell(f"{m.value:.6g} {html.escape(m.unit)}".strip(), "value"),
            _cell(html.escape(formula), "definition"),
            _cell(links, "of"),
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = ("metric", "value", "definition", "of")
    metrics = f"<h2>Metrics</h2>{_rows(rows, *heads)}" if rows else ""
    # traces with their columns
    rows = []
    for name, trace in record.traces.items():
        columns = ", ".join(
            f"{c}{list(x.shape[1:]) or ''} {trace.units.get(c, '')}".strip()
            for c, x in trace.columns.items()
        )
        safe, mark = html.escape(name), record.mark_virtual(trace.step)
        cells = (
            f'<td class="name" id="trace-{safe}"><b>{safe}</b>{mark}</td>',
            _cell(str(len(trace)), "rows"),
            _cell(html.escape(columns), "columns"),
            _cell(f"<code>{trace.digest[:12]}</code>", "digest"),
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = ("trace", "rows", "columns", "digest")
    traces = f"<h2>Traces</h2>{_rows(rows, *heads)}" if rows else ""
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
    rows = [f"<tr>{_cell(html.escape(k))}{_cell(html.escape(v))}</tr>" for k, v in facts.items()]
    again = "<p>Run again from the record: <code>qddot evidence replay RECORD</code></p>"
    table = f"<h2>Run</h2><table><tbody>{''.join(rows)}</tbody></table>{again}"
    return f"{metrics}{traces}{table}"
