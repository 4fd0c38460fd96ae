"""Cases that the doctor examines, and diagnoses with evidence and fix."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.signal import savgol_filter

from qddot.errors import QddotError
from qddot.evidence.inputs import restore_inputs
from qddot.evidence.record import Record
from qddot.identify import Log
from qddot.robot.robot import Robot, load

__all__ = ["Case", "Diagnose", "Diagnosis", "case_of_log", "case_of_record"]


@dataclass(frozen=True)
class Diagnosis:
    """A cause that the data point to: the symptom, the evidence, how sure, and the fix."""

    cause: str
    symptom: str
    evidence: str
    confidence: float
    fix: str


@dataclass(frozen=True, eq=False)
class Case:
    """A motion of a robot to be examined: samples × coordinates; tau may be missing.

    `measured` tells a log of hardware, where torques are independent of the model, from a
    simulation. `raw` has the columns of the trace as they are, `statements` what the run itself
    said of failures.
    """

    robot: Robot
    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray | None = None
    measured: bool = False
    raw: dict[str, np.ndarray] = field(default_factory=dict)
    statements: tuple[str, ...] = ()

    @cached_property
    def sound(self) -> np.ndarray:
        """Rows in which everything is a number."""
        parts = [self.q, self.v, *([] if self.tau is None else [self.tau])]
        return np.logical_and.reduce([np.isfinite(x).all(axis=1) for x in parts])

    @cached_property
    def acceleration(self) -> np.ndarray:
        """Accelerations by a local cubic through the velocities."""
        if len(self.time) < 9:
            return np.gradient(self.v, self.time, axis=0)
        dt = float(np.median(np.diff(self.time)))
        width = int(np.clip(0.03 / dt, 5, 61)) // 2 * 2 + 1
        width = min(width, (len(self.time) - 1) // 2 * 2 - 1)
        return savgol_filter(self.v, max(width, 5), 3, deriv=1, delta=dt, axis=0)


Diagnose = Callable[[Case], Diagnosis | None]


def case_of_log(robot: Robot, log: Log) -> Case:
    """A log of hardware."""
    v = log.v if log.v is not None else np.gradient(log.q, log.time, axis=0)
    q, v, tau = (np.array(x) for x in (log.q, v, log.tau))
    return Case(robot, log.time, q, v, tau, measured=True, statements=tuple(log.notes))


def case_of_record(file: str | Path, record: Record) -> Case | None:
    """The motion in a record with the robot of its inputs; None where it has none."""
    trace = next(
        (
            record.traces[name]
            for name in ("motion", "control/computed", "contact")
            if name in record.traces and {"time", "q"} <= set(record.traces[name].columns)
        ),
        None,
    )
    if trace is None or not record.run.inputs:
        return None
    with tempfile.TemporaryDirectory(prefix="qddot-doctor-") as folder:
        paths = restore_inputs(file, record.run.inputs, Path(folder))
        base = record.run.configuration.get("base")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                kept = base if base in ("fixed", "free") else None
                robot = load(paths[0], kept, isolate=True)
            except QddotError:
                return None
    columns = dict(trace.columns)
    q, time = columns["q"], columns["time"]
    if q.ndim != 2 or q.shape[1] != robot.nq:
        return None
    v = columns.get("v")
    if v is None:
        v = np.gradient(q, time, axis=0) if robot.nq == robot.nv else np.zeros((len(q), robot.nv))
    said = tuple(f"{c.name}: {c.detail}" for c in record.claims if c.verdict.value == "FAIL")
    tau = columns.get("tau")
    return Case(robot, time, q, v, tau, measured=False, raw=columns, statements=said)
