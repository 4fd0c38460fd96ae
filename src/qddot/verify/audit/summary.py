"""The audits of many robots as one Markdown page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qddot.verify.audit.audit import Audit
from qddot.verify.audit.findings import SEVERITIES, Finding

__all__ = ["Entry", "grouped", "markdown_page"]


@dataclass(frozen=True)
class Entry:
    """A robot of a collection: its audit, or why there is none."""

    name: str
    result: Audit | None
    reason: str = ""


def grouped(findings: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """Findings that say the same of several subjects as one, with the subjects."""
    groups: dict[tuple[str, str, str], tuple[Finding, list[str]]] = {}
    for f in findings:
        key = (f.severity, f.hypothesis, f.message)
        groups.setdefault(key, (f, []))[1].append(f.subject)
    return list(groups.values())


def markdown_page(title: str, command: str, entries: Sequence[Entry]) -> str:
    """A table of all robots, how often each hypothesis was met, and every serious finding."""
    done = [(e.name, e.result) for e in entries if e.result is not None]
    parts = [
        f"# {title}",
        f"Written by `{command}`. What the hypotheses are and how they are weighed: "
        "[audit.md](audit.md).",
        _overview(entries),
        "## Robots",
        _robots(entries),
        "## Hypotheses",
        _hypotheses([result for _, result in done]),
        "## Serious findings",
        *(_serious(name, result) for name, result in done if result.count("error")),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(entries: Sequence[Entry]) -> str:
    done = [e.result for e in entries if e.result is not None]
    clean = sum(not r.count("error") and not r.count("warning") for r in done)
    links = sum(len(r.robot.links) for r in done)
    return (
        f"{len(entries)} files, {len(done)} evaluated, {links} links. {clean} files have neither "
        f"errors nor warnings, {sum(r.count('error') > 0 for r in done)} have errors."
    )


def _robots(entries: Sequence[Entry]) -> str:
    rows = ["| robot | links | mass, kg | errors | warnings | notes | first finding |",
            "| --- | ---: | ---: | ---: | ---: | ---: | --- |"]  # fmt: skip
    for e in entries:
        if e.result is None:
            rows.append(f"| {e.name} | | | | | | NOT EVALUATED: {_cell(e.reason)} |")
            continue
        counts = " | ".join(str(e.result.count(s)) for s in SEVERITIES)
        first = next((f for f in e.result.findings if f.severity != "info"), None)
        words = f"{first.subject}: {first.hypothesis}" if first else ""
        links, mass = len(e.result.robot.links), e.result.mass
        rows.append(f"| {e.name} | {links} | {mass:.4g} | {counts} | {_cell(words)} |")
    return "\n".join(rows)


def _hypotheses(results: Sequence[Audit]) -> str:
    counts = Counter((f.hypothesis, f.severity) for r in results for f in r.findings)
    names = sorted({name for name, _ in counts}, key=lambda n: (-counts[n, "error"], n))
    rows = ["| hypothesis | errors | warnings | notes |", "| --- | ---: | ---: | ---: |"]
    rows += [f"| {n} | {' | '.join(str(counts[n, s]) for s in SEVERITIES)} |" for n in names]
    return "\n".join(rows)


def _serious(name: str, result: Audit) -> str:
    lines = [f"### {name}", ""]
    for f, subjects in grouped([f for f in result.findings if f.severity == "error"]):
        who = ", ".join(f"`{s}`" for s in subjects)
        lines.append(f"- {who}: **{f.hypothesis}**. {_cell(f.message)}.")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
