"""The audits of many robots as one Markdown page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qddot.errors import count_text
from qddot.verify.audit.audit import Audit
from qddot.verify.audit.findings import SEVERITIES, AuditFinding

__all__ = ["AuditEntry", "group_findings", "markdown_page"]


@dataclass(frozen=True)
class AuditEntry:
    """A robot of a collection: its audit, or why there is none."""

    name: str
    result: Audit | None
    reason: str = ""


def group_findings(findings: Sequence[AuditFinding]) -> list[tuple[AuditFinding, list[str]]]:
    """Findings that say the same of several subjects as one in the plural, with the subjects."""
    groups: dict[tuple[str, str, str], tuple[AuditFinding, list[str]]] = {}
    for f in findings:
        key = (f.severity, f.hypothesis, f.message)
        groups.setdefault(key, (f, []))[1].append(f.subject)
    return [
        (
            f if len(names) == 1 else replace(f, message=re.sub(r"^its\b", "their", f.message)),
            names,
        )
        for f, names in groups.values()
    ]


def markdown_page(command: str, entries: Sequence[AuditEntry]) -> str:
    """A table of all robots, how often each hypothesis was met, and every serious finding."""
    done = [(e.name, e.result) for e in entries if e.result is not None]
    results = [result for _, result in done]
    # overview
    clean = sum(not r.count("error") and not r.count("warning") for r in results)
    links = sum(len(r.robot.links) for r in results)
    failed = sum(r.count("error") > 0 for r in results)
    overview = (
        f"{count_text(len(entries), 'file')}, {len(done)} evaluated, {count_text(links, 'link')}. "
        f"{count_text(clean, 'file has', 'files have')} neither errors nor warnings, "
        f"{count_text(failed, 'has', 'have')} errors."
    )
    # one row a robot
    robots = ["| robot | links | mass, kg | errors | warnings | notes | first finding |",
              "| --- | ---: | ---: | ---: | ---: | ---: | --- |"]  # fmt: skip
    for e in entries:
        if e.result is None:
            robots.append(f"| {e.name} | | | | | | NOT EVALUATED: {_escape_cell(e.reason)} |")
            continue
        totals = " | ".join(str(e.result.count(s)) for s in SEVERITIES)
        first = next((f for f in e.result.findings if f.severity != "info"), None)
        words = _escape_cell(f"{first.subject}: {first.hypothesis}" if first else "")
        size, mass = len(e.result.robot.links), e.result.mass
        robots.append(f"| {e.name} | {size} | {mass:.4g} | {totals} | {words} |")
    # one row a hypothesis, those with most errors first
    counts = Counter((f.hypothesis, f.severity) for r in results for f in r.findings)
    names = sorted({name for name, _ in counts}, key=lambda n: (-counts[n, "error"], n))
    rows = ["| hypothesis | errors | warnings | notes |", "| --- | ---: | ---: | ---: |"]
    rows += [f"| {n} | {' | '.join(str(counts[n, s]) for s in SEVERITIES)} |" for n in names]
    # errors in words, robot by robot
    serious = []
    for name, result in done:
        if not result.count("error"):
            continue
        lines = [f"### {name}", ""]
        for f, subjects in group_findings([f for f in result.findings if f.severity == "error"]):
            who = ", ".join(f"`{s}`" for s in subjects)
            lines.append(f"- {who}: **{f.hypothesis}**. {_escape_cell(f.message)}.")
        serious.append("\n".join(lines))
    alone = results[0].robot.name if len(entries) == len(results) == 1 else None
    parts = [
        f"# Audit of {alone or count_text(len(entries), 'robot file')}",
        f"Written by `{command}`; `qddot audit --help` says more.",
        overview,
        "## Robots",
        "\n".join(robots),
        "## Hypotheses",
        "\n".join(rows),
        "## Serious findings",
        *serious,
    ]
    return "\n\n".join(parts) + "\n"


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
