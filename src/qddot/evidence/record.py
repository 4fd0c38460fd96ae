"""The content of a record: the run, its traces, metrics and claims, and their digests."""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from qddot.display.text import Readable
from qddot.errors import InvalidArgument, UnknownName
from qddot.evidence.metrics import evaluate_metric

__all__ = [
    "LABELS",
    "RELATIONS",
    "Claim",
    "Input",
    "Metric",
    "Record",
    "RecordTrace",
    "Run",
    "StepMark",
    "Verdict",
    "canonical_json",
    "judge_value",
]

LABELS = ("perception", "state", "planning", "control", "evaluation", "model", "contact")
"""Where a failure lies."""
RELATIONS = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
    "=": operator.eq,
}


class Verdict(str, Enum):
    """The judgement of a claim; what was not evaluated never counts as passed."""

    PASS = "PASS"
    FAIL = "FAIL"
    NOT_EVALUATED = "NOT EVALUATED"


def judge_value(value: float | None, relation: str, bound: float) -> Verdict:
    """PASS where the relation holds; a value that is no number fails, None is not evaluated."""
    if relation not in RELATIONS:
        raise UnknownName("relation", relation, RELATIONS)
    if value is None:
        return Verdict.NOT_EVALUATED
    return Verdict.PASS if RELATIONS[relation](value, bound) else Verdict.FAIL


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; numbers that are not finite become null."""

    def plain(x: Any) -> Any:
        if isinstance(x, Mapping):
            return {str(k): plain(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return [plain(v) for v in x]
        if isinstance(x, np.generic):
            x = x.item()
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class Input:
    """A file that a run read: its name, SHA-256, bytes, and its content where it was kept.

    `place` is its path below the folder that all inputs of the run share; `uri` is how the first
    input refers to it, where that is an address and not a relative path.
    """

    name: str
    sha256: str
    size: int
    place: str
    uri: str = ""
    content: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Run:
    """A run: command and arguments, inputs, versions, machine, seed, conventions, start."""

    command: str
    arguments: tuple[str, ...] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    units: str = "SI: m, rad, kg, s, N, N m"
    frames: str = "twists and wrenches linear part first; free joint x y z, quaternion x y z w"
    latency: Mapping[str, float] = field(default_factory=dict)
    started: str = ""


@dataclass(frozen=True, repr=False)
class RecordTrace(Readable):
    """Numbers over time, or over rows with labels: columns of equal length with units.

    Numbers that are not finite are NaN, since the file has one word for them.
    """

    name: str
    columns: Mapping[str, np.ndarray]
    units: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    frame: str = ""
    step: str = ""

    def __post_init__(self) -> None:
        columns = {}
        for name, given in self.columns.items():
            x = np.array(given, dtype=float, ndmin=1)
            x[~np.isfinite(x)] = np.nan
            columns[name] = x
        lengths = {len(x) for x in columns.values()} | (
            {len(self.labels)} if self.labels else set()
        )
        if len(lengths) > 1:
            raise InvalidArgument(f"trace {self.name}", sorted(lengths), "columns have one length")
        object.__setattr__(self, "columns", columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, labels, shapes and the bytes of all numbers (little-endian float64)."""
        state = hashlib.sha256(canonical_json([self.name, self.labels]).encode())
        for name in sorted(self.columns):
            # one bit pattern for zero and for NaN
            x = np.ascontiguousarray(self.columns[name] + 0.0, dtype="<f8")
            x[np.isnan(x)] = np.nan
            state.update(canonical_json([name, x.shape]).encode())
            state.update(x.reshape(-1).data)
        return state.hexdigest()


@dataclass(frozen=True)
class Metric:
    """A number that follows from traces: definition by name, operands as `trace.column`."""

    name: str
    value: float
    unit: str
    definition: str
    operands: tuple[str, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)
    step: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim with its verdict, the value and bound behind it, what was compared, how to fix it.

    With a relation the verdict follows from value and bound; without one it was judged in words.
    `metric` names the metric whose value it is. `label` says where a failure lies, `cause` what it
    points to in the words of the doctor.
    """

    step: str
    name: str
    verdict: Verdict
    compared: str
    value: float | None = None
    unit: str = ""
    relation: str = ""
    bound: float | None = None
    detail: str = ""
    fix: str = ""
    metric: str = ""
    label: str = ""
    cause: str = ""

    @property
    def threshold(self) -> str:
        """The bound in words, as in "< 1e-09"."""
        return f"{self.relation} {self.bound:.3g}" if self.bound is not None else ""


@dataclass(frozen=True)
class StepMark:
    """The begin or the end of a step of a run; `seconds` is how long it took.

    The end has the numbers of traces, metrics and claims of the step in `counts`. `chain` is the
    head of the hash chain before the mark, as it is written; `holds` says whether all that was read
    before the mark has this head.
    """

    step: str
    event: str
    title: str = ""
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    chain: str = ""
    holds: bool = True


@dataclass(frozen=True)
class Record:
    """All that a record holds; `damage` lists what of the file could not be read.

    `stated` is the digest that the run wrote at its end, empty where it did not come so far.
    `chain` is the head of the hash chain over all that was read, `stated_chain` the one that the
    run wrote at its end; a record that was never in a file has none.
    """

    run: Run
    traces: Mapping[str, RecordTrace] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    marks: tuple[StepMark, ...] = ()
    log: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    stated: str = ""
    damage: tuple[str, ...] = ()
    chain: str = ""
    stated_chain: str = ""

    @property
    def complete(self) -> bool:
        """Whether the run came to its end and all of the file could be read."""
        return bool(self.stated) and not self.damage

    @property
    def finished_steps(self) -> tuple[str, ...]:
        """Steps that came to their end."""
        return tuple(m.step for m in self.marks if m.event == "end")

    def step_counts(self, step: str) -> dict[str, int]:
        """Numbers of traces, metrics and claims of a step."""
        return {kind: counts[step] for kind, counts in self._counts.items()}

    @cached_property
    def _counts(self) -> dict[str, Counter[str]]:
        """Numbers of traces, metrics and claims by step."""
        return {
            "traces": Counter(x.step for x in self.traces.values()),
            "metrics": Counter(x.step for x in self.metrics.values()),
            "claims": Counter(x.step for x in self.claims),
        }

    @property
    def whole_steps(self) -> tuple[str, ...]:
        """Finished steps that are as they were written: those that a run may take over.

        The hash chain holds at the begin and at the end of the step: nothing was lost, added,
        changed or moved from the begin of the file to there, inputs and run included. The step has
        both marks, all that its end counts, and traces with their digests. A gap in the file ends
        the row of whole steps: later ones are not whole, though they may be complete.
        """
        begun = {m.step for m in self.marks if m.event == "begin" and m.holds}
        changed = {t.step for n, t in self.traces.items() if t.digest != self.digests.get(n)}
        return tuple(
            m.step
            for m in self.marks
            if m.event == "end" and m.holds and m.step in begun - changed
            if m.counts == self.step_counts(m.step)
        )

    @cached_property
    def virtual_steps(self) -> frozenset[str]:
        """Steps with claims that rest on virtual hardware, which their names say."""
        return frozenset(c.step for c in self.claims if "(virtual)" in c.name)

    def mark_virtual(self, step: str) -> str:
        """The word that belongs to everything from a step on virtual hardware, or none."""
        return " (virtual)" if step in self.virtual_steps else ""

    @property
    def verdict(self) -> Verdict:
        """FAIL where a claim fails; PASS where there are claims, all pass, and the run is complete.

        A record with a claim that was not evaluated is not evaluated: leaving a judgement out is no
        way to pass.
        """
        verdicts = {c.verdict for c in self.claims}
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL
        return (
            Verdict.PASS if verdicts == {Verdict.PASS} and self.complete else Verdict.NOT_EVALUATED
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of traces, metrics and claims; times and the machine are no part of it."""
        content = {
            "traces": {name: trace.digest for name, trace in self.traces.items()},
            "metrics": {
                name: [m.value, m.definition, m.operands, m.parameters]
                for name, m in self.metrics.items()
            },
            "claims": [
                [c.step, c.name, c.verdict.value, c.value, c.relation, c.bound] for c in self.claims
            ],
        }
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()

    def operand(self, name: str) -> np.ndarray:
        """The column of a trace by its name `trace.column`."""
        trace, _, column = name.rpartition(".")
        if trace not in self.traces:
            raise UnknownName("trace", trace, self.traces)
        if column not in self.traces[trace].columns:
            raise UnknownName("column", column, self.traces[trace].columns, trace)
        return self.traces[trace].columns[column]

    def recompute(self, metric: Metric) -> float:
        """The value of a metric, from its definition and the traces."""
        operands = [self.operand(name) for name in metric.operands]
        return evaluate_metric(metric.definition, operands, dict(metric.parameters))
