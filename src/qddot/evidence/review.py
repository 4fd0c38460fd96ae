"""Records checked and compared: what another person can find out without running anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qddot.errors import InvalidArgument, QddotError, count_text
from qddot.evidence.record import Claim, Record, Verdict, judge_value
from qddot.evidence.recorder import describe_versions
from qddot.verify.invariants import RESIDUAL_BOUND, RESIDUAL_CHECKS

__all__ = [
    "ClaimReview",
    "Difference",
    "Problem",
    "compare_records",
    "review_claims",
    "verify_record",
]

_SAME = 1e-12
"""Relative difference below which a metric is the recorded one: another order of summation."""
_MOST_WORK = 500_000_000
"""Numbers that are gone through to compute all metrics again."""


@dataclass(frozen=True)
class Problem:
    """Something in a record that does not hold: its subject and the reason."""

    subject: str
    message: str


@dataclass(frozen=True)
class ClaimReview:
    """What a claim rests on: its status, and the reason for it.

    "recomputed": value and verdict follow from the traces. "only stated": the record says so and
    nothing in it shows it, though what it has agrees. "not evaluated": the run did not judge it.
    "does not hold": it contradicts what is in the record.
    """

    claim: Claim
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Difference:
    """Something that differs between two records: its kind, name, and both sides in words."""

    kind: str
    name: str
    a: str
    b: str


def verify_record(record: Record) -> list[Problem]:
    """All that does not hold: damage, chain, digests, metrics against traces, claims."""
    return _verify(record)[0]


def review_claims(record: Record) -> list[ClaimReview]:
    """Each claim judged again, from the traces where it can be."""
    return _verify(record)[1]


def _verify(record: Record) -> tuple[list[Problem], list[ClaimReview]]:
    found = [Problem("file", words) for words in record.damage]
    # traces are those that were written
    for name, trace in record.traces.items():
        if trace.digest != record.digests.get(name):
            found.append(Problem(f"trace {name}", "its numbers are not those that were written"))
    # metrics follow from the traces
    wrong, work = dict[str, str](), 0
    for name, metric in record.metrics.items():
        try:
            work += sum(_count_work(record.operand(x)) for x in metric.operands)
            if work > _MOST_WORK:
                raise InvalidArgument("metrics", len(record.metrics), "they take too long together")
            value = record.recompute(metric)
        except QddotError as error:
            wrong[name] = str(error)
            continue
        if not _equal(value, metric.value):
            wrong[name] = f"it is {value:.6g} by its definition, {metric.value:.6g} is written"
    found += [Problem(f"metric {name}", words) for name, words in wrong.items()]
    # verdicts follow from metrics and bounds
    reviews = [_review_claim(record, claim, wrong) for claim in record.claims]
    for x in reviews:
        if x.status == "does not hold":
            subject = f"claim {x.claim.step} {x.claim.name}".replace("  ", " ")
            found.append(Problem(subject, x.reason))
    # steps have what they wrote, in its order
    for mark in record.marks:
        counts = record.step_counts(mark.step) if mark.event == "end" else {}
        for name, n in counts.items():
            if n != mark.counts.get(name):
                words = f"it wrote {mark.counts.get(name)} {name}, {n} are there"
                found.append(Problem(f"step {mark.step}", words))
    broken = next((m for m in record.marks if not m.holds), None)
    if broken is not None:
        words = (
            f"the hash chain breaks before its {broken.event}: something was changed, lost or added"
        )
        found.append(Problem(f"step {broken.step}", words))
    if record.stated and record.chain != record.stated_chain:
        words = (
            "the hash chain breaks: its messages are not those that were written, in their order"
        )
        found.append(Problem("record", words))
    if record.stated and record.digest != record.stated:
        found.append(Problem("record", "its content is not that whose digest was written"))
    if not record.stated and not record.damage:
        found.append(Problem("record", "the run did not come to its end"))
    return found, reviews


def _count_work(x: np.ndarray) -> int:
    """Numbers that are gone through to evaluate a metric of an array; matrices are factorised."""
    return x.size * (x.shape[-1] if x.ndim > 2 else 1)


def _review_claim(record: Record, claim: Claim, wrong: Mapping[str, str]) -> ClaimReview:
    """Judge a claim again: definition, value, relation, bound, verdict."""
    bounded, has_value = bool(claim.relation) and claim.bound is not None, claim.value is not None

    def refuse(reason: str) -> ClaimReview:
        return ClaimReview(claim, "does not hold", reason)

    if claim.verdict is Verdict.NOT_EVALUATED:
        if has_value or claim.metric or claim.bound is not None:
            return refuse("NOT EVALUATED is written, though it has a value, a metric or a bound")
        return ClaimReview(claim, "not evaluated", claim.detail)
    if bool(claim.relation) != (claim.bound is not None):
        return refuse("it has a relation without a bound, or a bound without a relation")
    if claim.metric:
        behind = record.metrics.get(claim.metric)
        if behind is None or claim.value is None or not _equal(behind.value, claim.value):
            return refuse(f"its value is not that of metric {claim.metric!r}")
        if not bounded:
            return refuse("it has a metric, but no relation and bound to judge it by")
        if claim.metric in wrong:
            return refuse(f"metric {claim.metric!r} does not hold")
    if bounded:
        assert claim.bound is not None
        judged = judge_value(claim.value, claim.relation, claim.bound)
        if judged is not claim.verdict:
            return refuse(
                f"{claim.verdict.value} is written, by value and bound it is {judged.value}"
            )
    if relaxed := _find_relaxed_bound(record, claim):
        return refuse(relaxed)
    if claim.metric:
        return ClaimReview(claim, "recomputed")
    why = "no metric: its value follows from no trace" if bounded else "judged in words"
    return ClaimReview(claim, "only stated", why)


def _find_relaxed_bound(record: Record, claim: Claim) -> str:
    """How a claim of a known check differs from the library's own; empty where it does not.

    Records of other versions may have other bounds, and are not compared.
    """
    folder, _, check = claim.metric.rpartition("/")
    if folder != "check" or check.replace("_", " ") not in RESIDUAL_CHECKS:
        return ""
    if record.run.versions.get("qddot") != describe_versions().get("qddot"):
        return ""
    metric = record.metrics[claim.metric]
    if metric.definition != "largest_magnitude" or metric.operands != (f"{claim.metric}.residual",):
        return "it is not measured as this version measures it"
    if (claim.relation, claim.bound) != ("<", RESIDUAL_BOUND):
        return f"{claim.threshold} is written, this version asks for < {RESIDUAL_BOUND:.3g}"
    return ""


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
