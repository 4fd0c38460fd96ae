"""Findings of an audit: the evidence, and the inertia or joint that was meant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from qddot.verify.audit.records import Inertial, JointRecord

__all__ = ["SEVERITIES", "AuditFinding", "Severity", "odds_text", "rank_findings"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True)
class AuditFinding:
    """A finding: its subject, hypothesis, severity, evidence in words and strength of evidence.

    `strength` orders findings of one severity; for corrections it is the logarithm of the odds.
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


def odds_text(gain: float) -> str:
    """A gain in log-likelihood as odds in words, such as "70 times likelier"."""
    if gain > math.log(1e6):
        return "over a million times likelier"
    odds = math.exp(gain)
    digits = 1 - math.floor(math.log10(odds)) if odds < 10 else -math.floor(math.log10(odds))
    return f"{round(odds, digits):,g} times likelier"


def rank_findings(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The worst first; among equals those with the strongest evidence."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.strength)))
