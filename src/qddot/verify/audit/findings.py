"""Findings of an audit: the evidence, and the inertia or joint that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from qddot.verify.audit.records import Inertial, JointRecord

__all__ = ["SEVERITIES", "AuditFinding", "Severity", "rank_findings"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True)
class AuditFinding:
    """A finding: its subject, hypothesis, severity, evidence in words and strength of evidence.

    `strength` orders findings of one severity; for corrections it is the gain in agreement, in
    nats.
    `meant` is the inertia or joint that alone explains it, where there is exactly one. `links` are
    all links concerned. `others` are other hypotheses that the evidence does not rule out.
    """

    subject: str
    hypothesis: str
    severity: Severity
    message: str
    strength: float
    meant: Inertial | JointRecord | None = None
    links: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def rank_findings(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The worst first; among equals those with the strongest evidence."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.strength)))
