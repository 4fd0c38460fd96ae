"""The audit of a robot: every hypothesis tested, findings ranked by evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qddot.display.progress import OnStep
from qddot.verify.audit.case import AuditCase, gather_evidence
from qddot.verify.audit.diagnosis import diagnose
from qddot.verify.audit.evidence import disagreement_cost
from qddot.verify.audit.findings import AuditFinding, Severity, rank_findings
from qddot.verify.audit.link_checks import LINK_CHECKS, not_physical, twin_disagrees
from qddot.verify.audit.read_description import read_robot
from qddot.verify.audit.records import RobotRecord
from qddot.verify.audit.robot_checks import (
    check_drivetrains,
    check_total_mass,
    computed_inertias,
    find_defaults,
    find_missing_payload,
    find_placeholders,
    weigh_robot,
)

__all__ = ["Audit", "audit", "audit_case", "audit_record"]

_NEGLIGIBLE, _SMALL = 1e-3, 1e-2


@dataclass(frozen=True)
class Audit:
    """The result of an audit: findings, the worst first, and the evidence behind them.

    `meant` is the case with every mistake undone that explains the inertias.
    """

    robot: RobotRecord
    findings: tuple[AuditFinding, ...]
    case: AuditCase
    meant: AuditCase

    @property
    def mass(self) -> float:
        """The mass of all links, as written."""
        return weigh_robot(self.robot)

    def count(self, severity: Severity) -> int:
        """The number of findings of this severity."""
        return sum(f.severity == severity for f in self.findings)


def audit(
    source: str | Path,
    mass: float | None = None,
    on_step: OnStep | None = None,
    trust: bool = False,
) -> Audit:
    """Test every hypothesis on a file, or on a robot by name; `mass` is the stated total in kg.

    `trust` lets a xacro file run its code.
    """
    return audit_record(read_robot(source, trust), mass, on_step)


def audit_record(
    robot: RobotRecord,
    mass: float | None = None,
    on_step: OnStep | None = None,
) -> Audit:
    """Test every hypothesis on a robot as its file writes it."""
    return audit_case(gather_evidence(robot, on_step), mass)


def audit_case(case: AuditCase, mass: float | None = None) -> Audit:
    """Test every hypothesis on a robot whose evidence is gathered."""
    robot = case.robot
    # links whose inertia was never measured are no evidence for or against anything
    early = [*find_placeholders(case), *find_defaults(case)]
    aside = {name for f in early for name in f.links}
    # undo the mistakes that explain the inertias best, then test links as they were meant
    meant, mistakes = diagnose(case, aside)
    findings = [*early, *mistakes, *_check_links(meant, aside)]
    # shapes that could not be read, by link and of the whole robot
    for name, geometry in case.geometries.items():
        for words in geometry.unread:
            findings.append(AuditFinding(name, "shape not read", "info", words, 0.5, links=(name,)))
    for words in robot.unread:
        findings.append(AuditFinding(robot.name, "shape not read", "info", words, 0.5))
    # the robot as a whole
    findings += [*computed_inertias(robot), *check_drivetrains(robot)]
    findings += [*find_missing_payload(robot), *check_total_mass(meant.robot, mass)]
    # links whose mass and moments are a negligible share of those of the robot
    inertials = {name: link.inertial for name, link in robot.links.items()}
    finite = {name: i for name, i in inertials.items() if i is not None and i.is_finite}
    moments = {name: float(np.abs(i.written).max()) for name, i in finite.items()}
    total = weigh_robot(robot)
    largest = max((moments[x.name] for x in robot.links_with_mass()), default=0.0)
    light = {
        name
        for name, i in finite.items()
        if abs(i.mass) < _NEGLIGIBLE * total and moments[name] < _NEGLIGIBLE * largest
    }
    # that a link is an outlier of its robot is a note on one with little mass
    small = {name for name, i in finite.items() if abs(i.mass) < _SMALL * total}
    findings = [
        replace(f, severity="info")
        if f.hypothesis == "centre of mass differs" and f.subject in small
        else f
        for f in findings
    ]
    # a finding on one of them is a note, if its inertia is possible
    findings = [
        replace(f, severity="info")
        if f.hypothesis not in ("not physical", "placeholder") and f.subject in light
        else f
        for f in findings
    ]
    return Audit(robot, rank_findings(findings), case, meant)


def _check_links(case: AuditCase, aside: set[str]) -> list[AuditFinding]:
    """Findings on single links; a twin is named only where nothing else is."""
    findings: list[AuditFinding] = []
    doubtful: list[AuditFinding] = []
    for link in case.robot.links.values():
        i, evidence = link.inertial, case.evidence(link.name)
        if i is None or link.name in aside:
            continue
        flaw = not_physical(evidence, i)
        if flaw:
            findings.append(flaw)
        if not i.is_finite or not i.has_mass or (flaw and flaw.severity == "error"):
            continue
        # an inertia from shapes agrees with them, but for the masses that the file gives them
        tests = [LINK_CHECKS["density"]] if i.source == "shapes" else LINK_CHECKS.values()
        found = [f for test in tests if (f := test(evidence, i))]
        # a radius of gyration that is too large explains a tensor that differs from the shapes
        serious = {f.hypothesis for f in found if f.severity != "info"}
        if "radius of gyration" in serious:
            found = [f for f in found if f.hypothesis != "differs from its shapes"]
        # so does one that lies outside for one that is far from that of the shapes
        if "centre of mass outside" in serious:
            found = [f for f in found if f.hypothesis != "centre of mass differs"]
        findings += found
        doubtful += [f] if (f := twin_disagrees(evidence, i)) else []
    # of two twins that disagree, name the one that is further from its shapes and other twins
    blamed = {f.subject for f in findings if f.severity != "info"}
    chosen: dict[frozenset[str], AuditFinding] = {}
    for f in doubtful:
        pair = frozenset(f.links)
        if blamed & pair:
            continue
        if pair not in chosen or _cost_without(case, f) > _cost_without(case, chosen[pair]):
            chosen[pair] = f
    return [*findings, *chosen.values()]


def _cost_without(case: AuditCase, finding: AuditFinding) -> float:
    """The disagreement of a link with its evidence other than the twin that a finding names."""
    evidence = case.evidence(finding.subject)
    inertial = evidence.link.inertial
    if inertial is None:
        return 0.0
    others = tuple(t for t in evidence.twins if t.name not in finding.links)
    return float(disagreement_cost(replace(evidence, twins=others), [inertial])[0])
