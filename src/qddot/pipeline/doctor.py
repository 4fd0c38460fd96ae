"""The doctor: every diagnosis that applies to a case, the surest first; "nothing" is an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.progress import OnStep
from qddot.evidence.record import Record, RecordTrace, Verdict
from qddot.identify.detective import Inspection, Suspicion, inspect
from qddot.identify.feasible import pseudo_inertia
from qddot.identify.log import Log
from qddot.identify.unit_checks import find_unit_mistakes
from qddot.pipeline.diagnosis import Case, Diagnosis, case_of_log, case_of_record
from qddot.pipeline.log_diagnoses import diagnose_log
from qddot.pipeline.motion_diagnoses import MOTION_DIAGNOSES
from qddot.pipeline.sensor_diagnoses import SENSOR_DIAGNOSES
from qddot.robot.robot import Robot

__all__ = ["LogExamination", "diagnose", "diagnose_record", "examine_log"]

_LEAST_ROWS = 100
_WHOLE = {"integrator gains energy": "explicit integrator on stiff contact"}
"""Causes that are a part of another one where both are found."""
_UNITS = 0.95
"""Confidence in units that contradict each other."""
_CAUSE, _CLAIM = 0.8, 0.5
"""Confidence in a failed claim that names its cause, and in one that does not."""

_SURE = 0.75
"""Confidence from which a diagnosis is a mistake of the log."""
_OF_THE_MODEL = ("friction", "inertias under-estimated", "inertias over-estimated", "limits")
"""Beginnings of causes that are no mistakes of a log, unless the scale of all torques is named."""
_MOST_SAMPLES = 500_000
"""Samples of a log that are examined."""
_SAME: dict[str, tuple[str, ...]] = {
    "units": ("units",),
    "torque sign": ("sign of a torque",),
    "position sign": ("sign of a torque",),
    "swapped torques": ("joints swapped in the log",),
    "swapped positions": ("joints swapped in the log",),
    "swapped joints": ("joints swapped in the log",),
    "delay": ("delay between motion and torque",),
    "payload": ("payload",),
    "tilt": ("gravity",),
}
"""Beginnings of causes that say the same as a kind of suspicion."""


@dataclass(frozen=True)
class LogExamination:
    """Suspicions of the log detective and diagnoses of one log, each with what the other found.

    `mistakes` are the diagnoses that are surely mistakes of the log, not of the model, and `doubts`
    the suspicions that no diagnosis shares.
    """

    inspection: Inspection
    diagnoses: tuple[Diagnosis, ...]
    mistakes: tuple[Diagnosis, ...]
    doubts: tuple[Suspicion, ...]


def examine_log(
    robot: Robot, log: Log, bandwidth: float | None = None, on_step: OnStep | None = None
) -> LogExamination:
    """Look for mistakes in a log: the one call of `inspect`, of the doctor and of the pipeline."""
    inspection = inspect(robot, log, bandwidth, on_step)
    found = diagnose(case_of_log(robot, log.between(0, min(len(log), _MOST_SAMPLES))))
    sure = [d for d in found if d.confidence >= _SURE]
    mistakes = [
        d for d in sure if d.cause.endswith("scale") or not d.cause.startswith(_OF_THE_MODEL)
    ]
    suspected = inspection.suspicions
    doubts = [s for s in suspected if not any(_agree(s, d) for d in found)]
    more: list[Any] = [
        Suspicion(d.cause, (), 0.0, f"{d.symptom}: {d.evidence}", d.confidence)  # type: ignore[arg-type]
        for d in mistakes
        if not any(_agree(s, d) for s in suspected)
    ]
    others = [_diagnosis_of(s) for s in doubts]
    return LogExamination(
        inspection=replace(inspection, suspicions=(*suspected, *more)),
        diagnoses=tuple(sorted((*found, *others), key=lambda d: -d.confidence)),
        mistakes=tuple(mistakes),
        doubts=tuple(doubts),
    )


def _agree(s: Suspicion, d: Diagnosis) -> bool:
    """Whether a suspicion and a diagnosis say the same."""
    return d.cause.startswith(_SAME.get(s.kind, (s.kind,)))


def _diagnosis_of(s: Suspicion) -> Diagnosis:
    """A suspicion of the log detective as a diagnosis."""
    other = f"; or {' or '.join(s.alternatives)}" if s.alternatives else ""
    return Diagnosis(
        cause=f"{s.kind} {', '.join(s.joints)}".strip(),
        symptom="torques and positions of the log do not fit the model together",
        evidence=s.evidence + other,
        confidence=s.confidence,
        fix="correct the log; `qddot identify inspect` shows what it explains by joint",
    )


def diagnose(case: Case) -> list[Diagnosis]:
    """The diagnoses of a case, by confidence; empty where nothing was found.

    Clocks, encoders and units that contradict each other come alone: with them, any other symptom
    is a consequence.
    """
    broken = [x for test in SENSOR_DIAGNOSES if (x := test(case))]
    if broken:
        return broken
    single = case.robot.nq == case.robot.nv and not case.robot.model.loops
    units = _find_wrong_units(case) if case.measured and single else []
    if units:
        return units
    found = [x for test in MOTION_DIAGNOSES if (x := test(case))]
    enough = case.tau is not None and int(case.sound.sum()) >= _LEAST_ROWS
    if case.measured and single and enough:
        found += diagnose_log(case)
    return sorted(found, key=lambda d: -d.confidence)


def _find_wrong_units(case: Case) -> list[Diagnosis]:
    """Units of a measured motion that contradict each other or the limits of the joints."""
    rows = case.sound
    if int(rows.sum()) < _LEAST_ROWS:
        return []
    time, q, v = (x[rows] for x in (case.time, case.q, case.v))
    log = Log(case.robot.model.velocity_names, time, q, tau=np.zeros_like(v), v=v)
    return [
        Diagnosis(
            cause="units",
            symptom="positions, velocities and time do not belong together",
            evidence=x.evidence,
            confidence=_UNITS,
            fix="convert the log to rad, rad/s, s and N m; `qddot identify` takes --unit q=deg",
        )
        for x in find_unit_mistakes(case.robot, log)
    ]


def _find_impossible_bodies(trace: RecordTrace) -> Diagnosis | None:
    """Identified bodies that cannot exist: their pseudo-inertia (4 × 4) is not positive."""
    rows = trace.columns.get("parameters")
    if rows is None or rows.ndim != 2 or rows.shape[1] != 10:
        return None
    values = np.linalg.eigvalsh(pseudo_inertia(np.nan_to_num(rows)))
    wrong = values[:, 0] < -1e-9 * np.abs(values).max(axis=1)
    if not wrong.any():
        return None
    names = [
        trace.labels[k] if k < len(trace.labels) else f"{k + 1}" for k in np.flatnonzero(wrong)
    ]
    return Diagnosis(
        cause="non-physical identification",
        symptom="identified masses or inertias that no body has",
        evidence=f"no body has the parameters of {', '.join(names[:4])}: the smallest eigenvalue "
        f"of the pseudo-inertia is {values[:, 0].min():.2g}",
        confidence=0.9,
        fix='constraints in the fit: `qddot identify fit`, method "feasible"',
    )


def diagnose_record(file: str | Path, record: Record) -> list[Diagnosis]:
    """Diagnoses of the motion in a record and of its failed claims, a cause once, surest first."""
    case = case_of_record(file, record)
    found = diagnose(case) if case is not None else []
    found += [x for trace in record.traces.values() if (x := _find_impossible_bodies(trace))]
    for c in record.claims:
        if c.verdict is Verdict.FAIL:
            value = "" if c.value is None else f"{c.value:.3g} {c.unit}".strip()
            judged = f"{value}, to be {c.threshold}" if c.threshold else value
            found.append(
                Diagnosis(
                    cause=c.cause or f"step {c.step}: {c.name}".strip(),
                    symptom=c.compared,
                    evidence="; ".join(filter(None, (c.detail, judged))),
                    confidence=_CAUSE if c.cause else _CLAIM,
                    fix=c.fix,
                )
            )
    named = {d.cause for d in found}
    found = [d for d in found if _WHOLE.get(d.cause) not in named]
    # sorting keeps the order of the steps among equals
    ranked = sorted(found, key=lambda d: -d.confidence)
    return list({d.cause: d for d in reversed(ranked)}.values())[::-1]
