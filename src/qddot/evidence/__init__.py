"""Evidence: one MCAP file a run, with inputs, traces, metrics and verdicts to be checked."""

from qddot.evidence.metrics import DEFINITIONS, Definition, define_metric
from qddot.evidence.reader import read_record
from qddot.evidence.record import Claim, Metric, Record, RecordTrace, Run, Verdict
from qddot.evidence.recorder import Recorder
from qddot.evidence.review import (
    ClaimReview,
    Problem,
    compare_records,
    review_claims,
    verify_record,
)

__all__ = [
    "DEFINITIONS",
    "Claim",
    "ClaimReview",
    "Definition",
    "Metric",
    "Problem",
    "Record",
    "RecordTrace",
    "Recorder",
    "Run",
    "Verdict",
    "compare_records",
    "define_metric",
    "read_record",
    "review_claims",
    "verify_record",
]
