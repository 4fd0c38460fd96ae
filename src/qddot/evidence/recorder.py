"""Writing a record: every message is in the file as soon as it is complete.

The file is MCAP with JSON messages and their schemas. Messages lie in compressed chunks with check
sums; a chunk ends after each trace, metric, claim and mark, so that a process that is killed loses
at most the trace that it was writing.
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from qddot.errors import InvalidArgument, UnknownName
from qddot.evidence.metrics import evaluate_metric
from qddot.evidence.privacy import shorten_paths
from qddot.evidence.record import (
    LABELS,
    Claim,
    Metric,
    Record,
    RecordTrace,
    Run,
    StepMark,
    Verdict,
    canonical_json,
    judge_value,
)
from qddot.evidence.record_file import RecordFile

__all__ = ["Recorder", "describe_machine", "describe_versions"]

_PACKAGES = ("qddot", "numpy", "scipy", "mujoco", "llvmlite", "casadi", "mcap")
_LOG_LEVEL = {"info": 2, "warning": 3, "error": 4}
_LONGEST_TIME = 1e10
"""Seconds after which the times of messages would not fit into 64 bits of nanoseconds."""


def describe_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, Any]:
    """The kind of machine: system, processor, cores, forced vector width. No names of hosts."""
    found = {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()}
    width = os.environ.get("QDDOT_VECTOR_BYTES")
    return {**found, "vector_bytes": width} if width else found


class Recorder:
    """Takes what a run finds, in memory, and into a file where one is named.

    Use it as a context manager: the end writes the digest. After an error the file holds what was
    found until then, and no digest.
    """

    def __init__(self, file: str | Path | None, run: Run, force: bool = False) -> None:
        self.run = dataclasses.replace(
            run,
            versions=run.versions or describe_versions(),
            machine=run.machine or describe_machine(),
            started=run.started or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )
        self.traces: dict[str, RecordTrace] = {}
        self.metrics: dict[str, Metric] = {}
        self.claims: list[Claim] = []
        self.marks: list[StepMark] = []
        self.lines: list[str] = []
        self.step = ""
        self._stated, self._chain = "", ""
        self._file: RecordFile | None = None
        if file is not None:
            self._open(file, force)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(finished=kind is None)

    @property
    def record(self) -> Record:
        """The record so far; it states its digest once the run has come to its end."""
        return Record(
            run=self.run,
            traces=dict(self.traces),
            metrics=dict(self.metrics),
            claims=tuple(self.claims),
            marks=tuple(self.marks),
            log=tuple(self.lines),
            digests={name: trace.digest for name, trace in self.traces.items()},
            stated=self._stated,
            chain=self._chain,
            stated_chain=self._chain,
        )

    def _open(self, file: str | Path, force: bool) -> None:
        """Begin the file: inputs as attachments, the run."""
        self._file = RecordFile(file, force)
        try:
            for given in self.run.inputs:
                if given.content is not None:
                    self._file.attach(given.place, given.content)
            inputs = [{k: v for k, v in vars(x).items() if k != "content"} for x in self.run.inputs]
            self._send("/run", {**vars(self.run), "inputs": inputs})
        except BaseException:
            self._file.abandon()
            raise

    def _send(self, topic: str, message: Mapping[str, Any], end: bool = True) -> None:
        """Write a message by the schema of its topic; `end` closes its chunk."""
        if self._file is not None:
            self._file.send(topic, canonical_json(message), end)

    def trace(
        self,
        name: str,
        columns: Mapping[str, Any],
        units: Mapping[str, str] | None = None,
        labels: Sequence[str] = (),
        frame: str = "",
    ) -> RecordTrace:
        """Keep numbers over time (a column `time`) or over rows with labels."""
        if name in self.traces:
            raise InvalidArgument("trace", name, "a record has it already; take another name")
        kept = RecordTrace(name, columns, units or {}, tuple(labels), frame, self.step)
        if self._file is not None:
            self._file.reserve(len(kept), sum(x.size for x in kept.columns.values()))
        self.traces[name] = kept
        if self._file is not None:
            self._write_trace(self._file, kept)
        return kept

    def _write_trace(self, file: RecordFile, kept: RecordTrace) -> None:
        """A message a row on a topic of its own, then its digest."""
        properties = {
            column: {**_schema(x.shape[1:]), "description": kept.units.get(column, "")}
            for column, x in kept.columns.items()
        }
        if kept.labels:
            properties["label"] = {"type": "string"}
        shapes = {column: x.shape[1:] for column, x in kept.columns.items()}
        facts = {
            "units": canonical_json(kept.units),
            "shapes": canonical_json(shapes),
            "frame": kept.frame,
            "step": kept.step,
        }
        schema = {"type": "object", "title": f"qddot.trace.{kept.name}", "properties": properties}
        channel = file.channel(f"/trace/{kept.name}", schema, facts)
        clock = kept.columns.get("time")
        for k in range(len(kept)):
            row: dict[str, Any] = {c: _plain(x[k].tolist()) for c, x in kept.columns.items()}
            if kept.labels:
                row["label"] = kept.labels[k]
            at = float(clock[k]) if clock is not None and np.isfinite(clock[k]).all() else 1e-3 * k
            # times of a log, which begin anywhere, are kept within the integers of the format
            stamp = file.origin + round(min(max(0.0, at), _LONGEST_TIME) * 1e9)
            file.send_row(channel, row, stamp)
        done = {"trace": kept.name, "rows": len(kept), "digest": kept.digest, "step": kept.step}
        self._send("/traces", done)

    def metric(
        self, name: str, definition: str, *operands: str, unit: str = "", **parameters: float
    ) -> float:
        """Compute a metric from traces of this record, and keep it."""
        arrays = [self.record.operand(x) for x in operands]
        value = evaluate_metric(definition, arrays, parameters)
        value = value if math.isfinite(value) else math.nan
        made = Metric(name, value, unit, definition, operands, parameters, self.step)
        if name in self.metrics:
            raise InvalidArgument("metric", name, "a record has it already; take another name")
        self.metrics[name] = made
        self._send("/metric", vars(made))
        return value

    def claim(
        self,
        name: str,
        compared: str,
        *,
        metric: str = "",
        relation: str = "",
        bound: float | None = None,
        value: float | None = None,
        verdict: Verdict | None = None,
        detail: str = "",
        fix: str = "",
        label: str = "",
        cause: str = "",
        unit: str = "",
    ) -> Claim:
        """Judge a claim and keep it: a metric or value against a bound, or a verdict in words."""
        if metric:
            if metric not in self.metrics:
                raise UnknownName("metric", metric, self.metrics)
            value, unit = self.metrics[metric].value, unit or self.metrics[metric].unit
        if bound is not None and not math.isfinite(bound):
            raise InvalidArgument("bound", bound, "it is a finite number")
        # the file has one word for numbers that are not finite
        value = value if value is None or math.isfinite(value) else math.nan
        if verdict is None:
            if bound is None:
                raise InvalidArgument("claim", name, "needs a relation and a bound, or a verdict")
            verdict = judge_value(value, relation, bound)
        elif verdict is Verdict.NOT_EVALUATED:
            # numbers would say what is not said
            metric, value, unit, relation, bound = "", None, "", "", None
        elif metric or relation or bound is not None:
            judged = judge_value(value, relation, bound) if bound is not None else None
            if judged is not verdict:
                accepted = "with a metric, relation or bound the verdict follows from the value"
                raise InvalidArgument("verdict", verdict.value, accepted)
        if value is not None and math.isnan(value):
            # what is no number passes nothing, and says so
            verdict = Verdict.FAIL if verdict is Verdict.PASS else verdict
            detail = "; ".join(filter(None, ("the value is no number", detail)))
        if label and label not in LABELS:
            raise UnknownName("failure label", label, LABELS)
        made = Claim(
            step=self.step,
            name=name,
            verdict=verdict,
            compared=shorten_paths(compared),
            value=value,
            unit=unit,
            relation=relation,
            bound=bound,
            detail=shorten_paths(detail),
            fix=shorten_paths(fix),
            metric=metric,
            label=label if verdict is Verdict.FAIL else "",
            cause=shorten_paths(cause) if verdict is Verdict.FAIL else "",
        )
        self.claims.append(made)
        self._send("/claim", {**vars(made), "verdict": verdict.value})
        level = "error" if verdict is Verdict.FAIL else "info"
        self.note(f"{verdict.value} {made.step} {name}: {detail or compared}", level)
        return made

    def note(self, text: str, level: str = "info") -> None:
        """Keep a line of the log, in Foxglove's own schema."""
        text = shorten_paths(text)
        self.lines.append(text)
        now = time.time_ns()
        message = {
            "timestamp": {"sec": now // 10**9, "nsec": now % 10**9},
            "level": _LOG_LEVEL[level],
            "message": text,
            "name": self.step,
            "file": "",
            "line": 0,
        }
        self._send("/log", message, end=False)

    @contextmanager
    def mark(self, step: str, title: str = "") -> Iterator[None]:
        """Mark a step; its end is written only where it came to it without an error."""
        before, self.step = self.step, step
        self._mark(StepMark(step, "begin", title))
        begun = time.perf_counter()
        try:
            yield
            counts = self.record.step_counts(step)
            self._mark(StepMark(step, "end", title, time.perf_counter() - begun, counts))
        finally:
            self.step = before

    def _mark(self, mark: StepMark) -> None:
        counts = mark.counts or dict.fromkeys(("traces", "metrics", "claims"), 0)
        chain = self._file.head_before("/step") if self._file is not None else ""
        mark = dataclasses.replace(mark, counts=counts, chain=chain, holds=True)
        self.marks.append(mark)
        self._send("/step", {k: v for k, v in vars(mark).items() if k != "holds"})

    def take_step(self, other: Record, step: str) -> None:
        """Copy a whole step of another record into this one; one with something lost is refused."""
        if step not in other.whole_steps:
            raise InvalidArgument("step", step, "part of it is lost or was never written; run it")
        ends = {m.event: m for m in other.marks if m.step == step}
        before, self.step = self.step, step
        self._mark(ends["begin"])
        for trace in other.traces.values():
            if trace.step == step:
                self.trace(trace.name, trace.columns, trace.units, trace.labels, trace.frame)
        for metric in other.metrics.values():
            if metric.step == step:
                self.metrics[metric.name] = metric
                self._send("/metric", vars(metric))
        for claim in other.claims:
            if claim.step == step:
                self.claims.append(claim)
                self._send("/claim", {**vars(claim), "verdict": claim.verdict.value})
        self._mark(ends["end"])
        self.step = before

    def close(self, finished: bool = True) -> None:
        """End the record: the digest where the run came to its end, and the index of the file."""
        if finished:
            self._stated = self.record.digest
        if self._file is None:
            return
        file = self._file
        try:
            if finished:
                self._chain = file.head_before("/end")
                counts = {x: len(getattr(self, x)) for x in ("traces", "metrics", "claims")}
                self._send("/end", {"digest": self._stated, "chain": self._chain, **counts})
        except BaseException:
            file.abandon()
            raise
        finally:
            self._file = None
        file.close(whole=finished)


def _schema(shape: tuple[int, ...]) -> dict[str, Any]:
    """JSON schema of an array of numbers."""
    return {"type": "array", "items": _schema(shape[1:])} if shape else {"type": "number"}


def _plain(x: Any) -> Any:
    """Numbers for JSON, which has no word for those that are not finite."""
    if isinstance(x, list):
        return [_plain(y) for y in x]
    return x if math.isfinite(x) else None
