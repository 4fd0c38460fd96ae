"""Is the model right? Hypotheses on every link, tested on shapes, twins and physics, and ranked."""

from qddot.verify.audit.audit import Audit, audit
from qddot.verify.audit.findings import AuditFinding
from qddot.verify.audit.fixes import changes_of, diff_of, fixed_text
from qddot.verify.audit.verdict import FileVerdict, judge_file

__all__ = [
    "Audit",
    "AuditFinding",
    "FileVerdict",
    "audit",
    "changes_of",
    "diff_of",
    "fixed_text",
    "judge_file",
]
