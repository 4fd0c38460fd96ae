"""The audit of a robot as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from qddot.display.markup import Markup, element, page
from qddot.errors import count_text
from qddot.verify.audit.audit import Audit
from qddot.verify.audit.drawings import draw_link, draw_robot
from qddot.verify.audit.findings import SEVERITIES, AuditFinding
from qddot.verify.audit.fixes import changes_of
from qddot.verify.audit.records import LinkRecord
from qddot.verify.audit.solids import tensor_of

__all__ = ["html_page"]

_STYLE = """
:root { --ink: #22262b; --soft: #667079; --line: #e2e5e8; --paper: #ffffff; --ground: #f5f6f7;
  --error: #b5484a; --warning: #d98032; --info: #3f9fa3; --fine: #3b6fb6; --meant: #5a9e52; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1340px; margin: 0 auto; padding: 32px 24px 80px; }
h1 { font-size: 30px; margin: 0 0 2px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 44px 0 14px; }
.file { color: var(--soft); margin: 0 0 22px; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 18px; min-width: 116px; }
.tile b { display: block; font-size: 24px; font-weight: 600; line-height: 1.2; }
.tile span { color: var(--soft); font-size: 13px; }
.tile.error b { color: var(--error); } .tile.warning b { color: var(--warning); }
.tile.info b { color: var(--info); }
.panel { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 16px; overflow-x: auto; }
.views { display: flex; flex-wrap: wrap; gap: 8px; justify-content: space-around; }
.finding { background: var(--paper); border: 1px solid var(--line); border-left: 5px solid;
  border-radius: 6px; padding: 11px 16px; margin: 0 0 9px; overflow-wrap: anywhere; }
.finding.error { border-left-color: var(--error); }
.finding.warning { border-left-color: var(--warning); }
.finding.info { border-left-color: var(--info); }
.finding .head { font-weight: 600; } .finding .kind { color: var(--soft); font-weight: 400; }
.finding p { margin: 3px 0 0; }
.fix { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; margin: 7px 0 0; color: #3d6b38; }
.links { display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fill, minmax(min(560px, 100%), 1fr)); }
.link { background: var(--paper); border: 1px solid var(--line); border-top: 4px solid var(--fine);
  border-radius: 8px; padding: 14px 16px; }
.link.error { border-top-color: var(--error); } .link.warning { border-top-color: var(--warning); }
.link.none { border-top-color: var(--line); }
.link h3 { margin: 0 0 8px; font-size: 16px; overflow-wrap: anywhere; }
.link .views { justify-content: flex-start; gap: 4px; flex-wrap: nowrap; }
.link .views svg { flex: 0 1 auto; min-width: 0; }
.link ul { margin: 8px 0 0; padding-left: 18px; font-size: 13px; }
dl { display: grid; grid-template-columns: auto 1fr auto 1fr; gap: 1px 12px; margin: 10px 0 0;
  font-size: 13px; }
dt { color: var(--soft); } dd { margin: 0; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: right; color: var(--soft); font-weight: 500; padding: 5px 9px;
  border-bottom: 1px solid var(--line); vertical-align: bottom; }
td { text-align: right; padding: 4px 9px; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.error { color: var(--error); }
td.warning { color: var(--warning); } a { color: inherit; }
svg { background: #fbfbfc; border-radius: 4px; max-width: 100%; height: auto; }
svg .shape { fill: #c3c9cf; fill-opacity: 0.35; stroke: #8d969e; stroke-width: 0.8; }
svg .written { fill: var(--fine); fill-opacity: 0.16; stroke: var(--fine); stroke-width: 1.6; }
svg .written.error { fill: var(--error); stroke: var(--error); }
svg .written.warning { fill: var(--warning); stroke: var(--warning); }
svg .meant { fill: none; stroke: var(--meant); stroke-width: 1.6; stroke-dasharray: 6 3; }
svg .uniform { fill: none; stroke: #8d969e; stroke-width: 1; stroke-dasharray: 2 3; }
svg .com { fill: currentColor; fill-opacity: 1; stroke: none; color: var(--ink); }
svg .joint { fill: #fff; stroke: #4a525a; stroke-width: 1.2; }
svg .cross { fill: none; stroke: var(--error); stroke-width: 2.4; }
svg rect.written.beyond, svg rect.beyond { fill: none; stroke-width: 3; stroke-dasharray: 10 5; }
svg .axes { font: 11px system-ui, sans-serif; fill: #8d969e; paint-order: stroke;
  stroke: #fbfbfc; stroke-width: 3px; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 22px; color: var(--soft); font-size: 13px;
  margin: 10px 0 0; align-items: center; }
.legend svg { vertical-align: middle; background: none; margin-right: 6px; }
details summary { cursor: pointer; color: var(--soft); }
@media (max-width: 640px) {
  main { padding: 20px 14px 48px; }
  .tiles { gap: 8px; }
  .tile { flex: 1 1 28%; min-width: 0; padding: 10px 12px; }
  .tile b { font-size: 19px; white-space: nowrap; }
  .panel, .link { padding: 12px; }
  dl { grid-template-columns: auto 1fr; }
}
"""
_VERDICTS = {"error": "error", "warning": "warning", "info": "note"}
_OVAL = {"cx": 17, "cy": 9, "rx": 14, "ry": 6}
_KEYS = (
    (element("polygon", class_="shape", points="3,3 31,3 31,15 3,15"), "shapes (convex hulls)"),
    (element("ellipse", class_="written", **_OVAL), "inertia as written"),
    (element("ellipse", class_="meant", **_OVAL), "as probably meant"),
    (element("ellipse", class_="uniform", **_OVAL), "its shapes at one density"),
    (element("circle", class_="com", cx=17, cy=9, r=2.5), "centre of mass"),
    (element("circle", class_="joint", cx=17, cy=9, r=3), "joints"),
    (
        element("path", class_="cross", d="M11 3l12 12m0 -12l-12 12"),
        "no ellipsoid: impossible or a point",
    ),
    (
        element("rect", class_="written beyond", x=3, y=3, width=28, height=12),
        "ellipsoid beyond the view",
    ),
)


def html_page(result: Audit) -> str:
    """The page: summary, the robot, findings, a table and every link drawn."""
    robot = result.robot
    # the worst severity of each link that has findings
    worst: dict[str, str] = {}
    for f in result.findings:
        for name in (f.subject, *f.links[:1]):
            worst.setdefault(name, f.severity)
    body = (
        element("h1", robot.name),
        element("p", f"audit of {robot.file.name}", class_="file"),
        element("div", _tiles(result), class_="tiles"),
        element("h2", "The robot at zero angles"),
        _panel(_drawn_robot(result, worst), _legend()),
        element("h2", "Findings"),
        _listed_findings(result),
        element("h2", "Links"),
        _panel(_link_table(result, worst)),
        element("h2", "Every link"),
        element("div", _link_cards(result, worst), class_="links"),
    )
    return page(f"{robot.name}: audit", _STYLE, element("main", body))


def _panel(*content: Any) -> Markup:
    return element("div", content, class_="panel")


def _tiles(result: Audit) -> Iterator[Markup]:
    """Mass, links, and the number of findings of each severity."""
    robot = result.robot
    counts = [("", len(robot.links), "link")]
    counts += [(s, result.count(s), _VERDICTS[s]) for s in SEVERITIES]
    tiles = [(c, *count_text(n, noun).split()) for c, n, noun in counts]
    tiles.insert(0, ("", f"{result.mass:.4g} kg", "total mass"))
    tiles.insert(2, ("", str(sum(1 for _ in robot.links_with_mass())), "with mass"))
    for kind, number, words in tiles:
        cells = (element("b", number), element("span", words))
        yield element("div", cells, class_=f"tile {kind}".strip())


def _drawn_robot(result: Audit, worst: dict[str, str]) -> Markup:
    """The robot, links with errors and warnings in colour."""
    colours = {name: s for name, s in worst.items() if s != "info"}
    drawn = draw_robot(result.robot, dict(result.case.geometries), colours)
    return element("div", drawn, class_="views")


def _legend() -> Markup:
    size = {"width": 34, "height": 18, "viewBox": "0 0 34 18"}
    keys = (element("span", element("svg", shape, **size), words) for shape, words in _KEYS)
    return element("div", keys, class_="legend")


def _listed_findings(result: Audit) -> Iterator[Markup]:
    """The findings, notes folded away."""
    serious = [f for f in result.findings if f.severity != "info"]
    notes = [f for f in result.findings if f.severity == "info"]
    if not serious:
        yield _panel("No errors and no warnings.")
    yield from (_format_finding(result, f) for f in serious)
    if notes:
        head = element("summary", count_text(len(notes), "note"))
        yield element("details", head, (_format_finding(result, f) for f in notes))


def _link_table(result: Audit, worst: dict[str, str]) -> Markup:
    """A line for each link with an inertia or shapes."""
    rows, names = [], list[str]()
    for link in result.robot.links.values():
        values = _link_properties(result, link)
        names = list(values)
        if link.inertial is None and not link.shapes:
            continue
        verdict = worst.get(link.name, "")
        twins = ", ".join(t.name for t in result.case.twins.get(link.name, ())[:2])
        cells = (
            element("td", _link_to(link.name)),
            (element("td", x) for x in (*values.values(), twins)),
            element("td", _VERDICTS.get(verdict, ""), class_=verdict or None),
        )
        rows.append(element("tr", cells))
    heads = element("tr", (element("th", n) for n in ("link", *names, "twins", "")))
    return element("table", element("thead", heads), element("tbody", rows))


def _link_to(name: str) -> Markup:
    """A link to the card of a link."""
    return element("a", name, href=f"#{name}")


def _format_finding(result: Audit, f: AuditFinding) -> Markup:
    """A finding with what it would change."""
    subject = _link_to(f.subject) if f.subject in result.robot.links else f.subject
    others = f" Not ruled out: {', '.join(f.others)}." if f.others else ""
    kind = element("span", f.hypothesis, class_="kind")
    fixes = (
        element("div", f'{c.tag or c.kind} {c.attribute}="{c.text}"', class_="fix")
        for c in changes_of(result.robot, f)
    )
    return element(
        "div",
        element("span", subject, " ", kind, class_="head"),
        element("p", f"{f.message}.{others}"),
        fixes,
        class_=f"finding {f.severity}",
    )


def _link_properties(result: Audit, link: LinkRecord) -> dict[str, str]:
    """The inertial properties of a link by name, empty where it has none."""
    names = ("mass, kg", "centre of mass, m", "principal moments, kg m²", "radius of gyration, m",
             "size, m", "density, kg/m³", "tensor / uniform")  # fmt: skip
    values = dict.fromkeys(names, "")
    geometry = result.case.geometries[link.name]
    values["size, m"] = f"{geometry.size:.3g}"
    i = link.inertial
    if i is None or not i.is_finite:
        return values
    values["mass, kg"] = f"{i.mass:.4g}"
    values["centre of mass, m"] = ", ".join(f"{x:.3g}" for x in i.com)
    moments = np.linalg.eigvalsh(i.tensor)
    values["principal moments, kg m²"] = ", ".join(f"{x:.3g}" for x in moments)
    if i.has_mass:
        values["radius of gyration, m"] = f"{math.sqrt(max(moments[2], 0) / i.mass):.3g}"
        volume = geometry.estimates[0].solid.volume if geometry.estimates else 0.0
        values["density, kg/m³"] = f"{i.mass / volume:,.0f}" if volume > 0 else ""
        # the norm of the tensor over that of the shapes at one density
        if geometry.estimates:
            uniform = np.linalg.norm(tensor_of(i.mass, geometry.estimates[0].solid.spread))
            ratio = f"{np.linalg.norm(i.tensor) / uniform:.2g}" if uniform > 0 else ""
            values["tensor / uniform"] = ratio
    return values


def _link_cards(result: Audit, worst: dict[str, str]) -> Iterator[Markup]:
    """A card for every link that has an inertia or shapes."""
    for link in result.robot.links.values():
        if link.inertial is None and not link.shapes:
            continue
        meant = result.meant.robot.links[link.name].inertial
        geometry = result.case.geometries[link.name]
        changed = meant if meant is not link.inertial else None
        kind = worst.get(link.name, "none" if link.inertial is None else "fine")
        views = draw_link(geometry, link.inertial, changed, kind)
        facts = (
            (element("dt", k), element("dd", v))
            for k, v in _link_properties(result, link).items()
            if v
        )
        own = [f for f in result.findings if f.subject == link.name]
        notes = element("ul", (element("li", f"{f.hypothesis}: {f.message}") for f in own))
        yield element(
            "section",
            element("h3", link.name),
            element("div", views, class_="views"),
            element("dl", facts),
            notes if own else None,
            class_=f"link {kind}",
            id=link.name,
        )
