"""What an audit says: findings with their evidence, and the inertia or value that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from qddot.verify.audit.records import Inertial, JointRecord

__all__ = ["SEVERITIES", "Finding", "Severity", "ranked"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True)
class Finding:
    """A finding: about what, which hypothesis, how bad, the evidence in words and its strength.

    `strength` orders findings of one severity; for slips it is the gain in agreement, in nats.
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


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first; among equals those with the strongest evidence."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.strength)))
