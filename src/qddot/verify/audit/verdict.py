"""The verdict on a description file, in the words of `audit`, `doctor` and `pipeline`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from qddot.errors import count_text
from qddot.verify.audit.audit import Audit
from qddot.verify.audit.findings import AuditFinding

__all__ = ["FileVerdict", "FileWord", "judge_file"]

FileWord = Literal["RIGHT", "DOUBTFUL", "WRONG"]

# warnings that right files have too: they keep a file from being right, and fail no step
_HABITS = {"zero or default", "drivetrain", "total mass"}


@dataclass(frozen=True)
class FileVerdict:
    """What an audit and the claims of other checks make of a file.

    It is WRONG with an error or a failed claim, DOUBTFUL with warnings, else RIGHT. `failing` are
    the findings that fail a pipeline, `accepted` those that it was told to accept.
    """

    errors: tuple[AuditFinding, ...]
    warnings: tuple[AuditFinding, ...]
    failed_claims: tuple[str, ...] = ()
    failing: tuple[AuditFinding, ...] = ()
    accepted: tuple[AuditFinding, ...] = ()

    @property
    def word(self) -> FileWord:
        """The verdict in a word."""
        if self.errors or self.failed_claims:
            return "WRONG"
        return "DOUBTFUL" if self.warnings else "RIGHT"

    @property
    def words(self) -> str:
        """The verdict with its reasons."""
        if self.word == "RIGHT":
            return "RIGHT, as far as a file can say"
        counts = ((len(self.errors), "error"), (len(self.warnings), "warning"))
        reasons = [count_text(n, noun) for n, noun in counts if n]
        reasons += [f"not: {', '.join(self.failed_claims)}"] if self.failed_claims else []
        return f"{self.word}: {'; '.join(reasons)}"


def judge_file(
    result: Audit, failed_claims: Sequence[str] = (), accepted: Sequence[str] = ()
) -> FileVerdict:
    """The verdict on a file from its audit, from claims that failed and links to accept.

    Errors fail a pipeline, and warnings on the mass, the centre or the tensor of a link, unless the
    link is one of `accepted`.
    """
    errors = tuple(f for f in result.findings if f.severity == "error")
    warnings = tuple(f for f in result.findings if f.severity == "warning")
    doubts = [f for f in warnings if f.hypothesis not in _HABITS]
    return FileVerdict(
        errors=errors,
        warnings=warnings,
        failed_claims=tuple(failed_claims),
        failing=(*errors, *(f for f in doubts if f.subject not in accepted)),
        accepted=tuple(f for f in doubts if f.subject in accepted),
    )
