"""The doctor: every diagnosis that applies to a case, the surest first; "nothing" is an answer."""

from __future__ import annotations

from qddot.pipeline.diagnosis import Case, Diagnosis
from qddot.pipeline.log_diagnoses import diagnose_log
from qddot.pipeline.motion_diagnoses import MOTION_DIAGNOSES

__all__ = ["diagnose"]

_LEAST_ROWS = 100


def diagnose(case: Case) -> list[Diagnosis]:
    """The diagnoses of a case, by confidence; empty where nothing was found."""
    found = [x for test in MOTION_DIAGNOSES if (x := test(case))]
    single = case.robot.nq == case.robot.nv and not case.robot.model.loops
    enough = case.tau is not None and int(case.sound.sum()) >= _LEAST_ROWS
    if case.measured and single and enough:
        found += diagnose_log(case)
    return sorted(found, key=lambda d: -d.confidence)
