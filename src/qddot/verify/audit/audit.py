"""The audit of a robot: every hypothesis tested, findings ranked by evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qddot.verify.audit.evidence import cost
from qddot.verify.audit.explaining import explain
from qddot.verify.audit.findings import Finding, Severity, ranked
from qddot.verify.audit.gathering import Case, gather
from qddot.verify.audit.reading import read_robot
from qddot.verify.audit.records import RobotRecord
from qddot.verify.audit.robotwide import (
    defaults,
    drivetrains,
    payload,
    placeholders,
    total_mass,
    total_of,
)
from qddot.verify.audit.symptoms import SYMPTOMS, not_physical, twin_disagrees

__all__ = ["Audit", "audit", "audit_record"]

_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Audit:
    """What an audit found: findings, the worst first, and the evidence behind them."""

    robot: RobotRecord
    findings: tuple[Finding, ...]
    case: Case
    meant: Case

    @property
    def mass(self) -> float:
        """The mass of all links, as written."""
        return total_of(self.robot)

    def count(self, severity: Severity) -> int:
        """How many findings have this severity."""
        return sum(f.severity == severity for f in self.findings)


def audit(
    source: str | Path,
    mass: float | None = None,
    on_step: Callable[[str, int, int], None] | None = None,
) -> Audit:
    """Test every hypothesis on a file, or on a robot by name; `mass` is the stated total in kg."""
    return audit_record(read_robot(source), mass, on_step)


def audit_record(
    robot: RobotRecord,
    mass: float | None = None,
    on_step: Callable[[str, int, int], None] | None = None,
) -> Audit:
    """Test every hypothesis on a robot as its file writes it."""
    case = gather(robot, on_step)
    early = [*placeholders(case), *defaults(case)]
    aside = {name for f in early for name in f.links}
    meant, slips = explain(case, aside)
    findings = [*early, *slips, *_links(meant, aside), *_unread(case)]
    findings += [*drivetrains(robot), *payload(robot), *total_mass(meant.robot, mass)]
    return Audit(robot, ranked(_weighted(case, findings)), case, meant)


def _links(case: Case, aside: set[str]) -> list[Finding]:
    """What is wrong with single links; a twin is named only where nothing else is."""
    findings: list[Finding] = []
    doubtful: list[Finding] = []
    for link in case.robot.links.values():
        i, evidence = link.inertial, case.evidence(link.name)
        if i is None or link.name in aside:
            continue
        flaw = not_physical(evidence, i)
        if flaw:
            findings.append(flaw)
        if not i.finite or not i.weighed or (flaw and flaw.severity == "error"):
            continue
        found = [f for test in SYMPTOMS.values() if (f := test(evidence, i))]
        findings += _foremost(found)
        doubtful += [f] if (f := twin_disagrees(evidence, i)) else []
    blamed = {f.subject for f in findings if f.severity != "info"}
    return findings + _one_of_each_pair(case, [f for f in doubtful if not blamed & {*f.links}])


def _foremost(found: list[Finding]) -> list[Finding]:
    """Findings on one link without those that another one explains."""
    names = {f.hypothesis for f in found if f.severity != "info"}
    spread = {"radius of gyration"} & names
    return [f for f in found if not (spread and f.hypothesis == "differs from its shapes")]


def _one_of_each_pair(case: Case, findings: list[Finding]) -> list[Finding]:
    """Of two twins that disagree, the one that is further from its shapes and other twins."""

    def strange(f: Finding) -> float:
        evidence = case.evidence(f.subject)
        others = tuple(t for t in evidence.twins if t.name not in f.links)
        inertial = evidence.link.inertial
        return float(cost(replace(evidence, twins=others), [inertial])[0]) if inertial else 0.0

    chosen: dict[frozenset[str], Finding] = {}
    for f in findings:
        pair = frozenset(f.links)
        if pair not in chosen or strange(f) > strange(chosen[pair]):
            chosen[pair] = f
    return list(chosen.values())


def _unread(case: Case) -> list[Finding]:
    """Shapes that could not be read, by link."""
    found = [
        Finding(name, "shape not read", "info", words, 0.5, links=(name,))
        for name, geometry in case.geometries.items()
        for words in geometry.unread
    ]
    return found + [
        Finding(case.robot.name, "shape not read", "info", x, 0.5) for x in case.robot.unread
    ]


def _weighted(case: Case, findings: list[Finding]) -> list[Finding]:
    """Findings on links that weigh next to nothing are worth a note only, if they are possible."""
    total = total_of(case.robot)
    largest = max((_moment(case, x.name) for x in case.robot.weighed()), default=0.0)

    def negligible(name: str) -> bool:
        link = case.robot.links.get(name)
        if link is None or link.inertial is None or not link.inertial.finite:
            return False
        light = abs(link.inertial.mass) < _NEGLIGIBLE * total
        return light and _moment(case, name) < _NEGLIGIBLE * largest

    return [
        replace(f, severity="info")
        if f.hypothesis not in ("not physical", "placeholder") and negligible(f.subject)
        else f
        for f in findings
    ]


def _moment(case: Case, name: str) -> float:
    i = case.robot.links[name].inertial
    return float(np.abs(i.written).max()) if i is not None and i.finite else 0.0
