"""Records checked and compared: what another person can find out without running anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qddot.errors import QddotError, count_text
from qddot.evidence.record import Record, Verdict, judge_value

__all__ = ["Difference", "Problem", "compare_records", "verify_record"]

_SAME = 1e-12
"""Relative difference below which a metric is the recorded one: another order of summation."""


@dataclass(frozen=True)
class Problem:
    """Something in a record that does not hold: its subject and the reason."""

    subject: str
    message: str


@dataclass(frozen=True)
class Difference:
    """Something that differs between two records: its kind, name, and both sides in words."""

    kind: str
    name: str
    a: str
    b: str


def verify_record(record: Record) -> list[Problem]:
    """All that does not hold: damage, digests, metrics against traces, verdicts against bounds."""
    found = [Problem("file", words) for words in record.damage]
    # traces are those that were written
    for name, trace in record.traces.items():
        if trace.digest != record.digests.get(name):
            found.append(Problem(f"trace {name}", "its numbers are not those that were written"))
    # metrics follow from the traces
    for name, metric in record.metrics.items():
        try:
            value = record.recompute(metric)
        except QddotError as error:
            found.append(Problem(f"metric {name}", str(error)))
            continue
        if not _equal(value, metric.value):
            words = f"it is {value:.6g} by its definition, {metric.value:.6g} is written"
            found.append(Problem(f"metric {name}", words))
    # verdicts follow from values and bounds
    for claim in record.claims:
        subject = f"claim {claim.step} {claim.name}".replace("  ", " ")
        if claim.metric:
            behind = record.metrics.get(claim.metric)
            if behind is None or claim.value is None or not _equal(behind.value, claim.value):
                found.append(Problem(subject, f"its value is not that of metric {claim.metric!r}"))
        if claim.relation and claim.bound is not None:
            judged = judge_value(claim.value, claim.relation, claim.bound)
            if judged is not claim.verdict and claim.verdict is not Verdict.NOT_EVALUATED:
                words = f"{claim.verdict.value} is written, by value and bound it is {judged.value}"
                found.append(Problem(subject, words))
    # steps have what they wrote; those of earlier versions do not say
    for step, counts in record.stated_counts.items():
        for name, n in record.step_counts(step).items():
            if n != counts.get(name, n):
                words = f"it wrote {counts[name]} {name}, {n} are there"
                found.append(Problem(f"step {step}", words))
    if record.stated and record.digest != record.stated:
        found.append(Problem("record", "its content is not that whose digest was written"))
    if not record.stated and not record.damage:
        found.append(Problem("record", "the run did not come to its end"))
    return found


def _equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_SAME)


def compare_records(a: Record, b: Record) -> list[Difference]:
    """All that differs: run, inputs, machine, claims, metrics, traces; times are left out."""
    found = []
    # command and seed, then the mappings of the run, its inputs, and the verdicts of claims
    for name in ("command", "seed"):
        x, y = getattr(a.run, name), getattr(b.run, name)
        if x != y:
            found.append(Difference("run", name, str(x), str(y)))
    for kind in ("configuration", "versions", "machine", "latency"):
        x, y = getattr(a.run, kind), getattr(b.run, kind)
        for key in dict.fromkeys([*x, *y]):
            if x.get(key) != y.get(key):
                found.append(Difference(kind, key, str(x.get(key)), str(y.get(key))))
    inputs = [{(i.name,): i.sha256[:12] for i in r.run.inputs} for r in (a, b)]
    claims = [{(c.step, c.name): c.verdict.value for c in r.claims} for r in (a, b)]
    for kind, (x, y) in (("input", inputs), ("claim", claims)):
        for key in dict.fromkeys([*x, *y]):
            if x.get(key) != y.get(key):
                name = " ".join(filter(None, key))
                found.append(Difference(kind, name, x.get(key, "none"), y.get(key, "none")))
    # metrics, then traces
    for name in dict.fromkeys([*a.metrics, *b.metrics]):
        x, y = a.metrics.get(name), b.metrics.get(name)
        if x is None or y is None:
            sides = ("none" if m is None else f"{m.value:.6g}" for m in (x, y))
            found.append(Difference("metric", name, *sides))
        elif not (x.value == y.value or (math.isnan(x.value) and math.isnan(y.value))):
            # all digits where six do not show the difference
            digits = 6 if f"{x.value:.6g}" != f"{y.value:.6g}" else 17
            sides = (f"{m.value:.{digits}g}" for m in (x, y))
            found.append(Difference("metric", name, *sides))
    for name in dict.fromkeys([*a.traces, *b.traces]):
        here, there = a.traces.get(name), b.traces.get(name)
        if here is None or there is None or len(here) != len(there):
            rows = ("none" if t is None else count_text(len(t), "row") for t in (here, there))
            found.append(Difference("trace", name, *rows))
        elif here.digest != there.digest:
            # the largest difference of each column that both sides have
            for column in dict.fromkeys([*here.columns, *there.columns]):
                subject = f"{name}.{column}"
                u, w = here.columns.get(column), there.columns.get(column)
                if u is None or w is None or u.shape != w.shape:
                    shapes = ("none" if x is None else f"shape {x.shape}" for x in (u, w))
                    found.append(Difference("trace", subject, *shapes))
                elif not np.array_equal(u, w, equal_nan=True):
                    with np.errstate(invalid="ignore"):
                        worst = float(np.nanmax(np.abs(u - w), initial=0.0))
                    found.append(Difference("trace", subject, "", f"by up to {worst:.3g}"))
    return found
