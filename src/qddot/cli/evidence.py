"""`qddot evidence`: records shown, checked, compared and run again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot.cli.replay import replay_record
from qddot.cli.terminal import (
    ForceOption,
    JsonOption,
    err,
    errors_as_messages,
    out,
    print_json,
    print_written,
    style_text,
)
from qddot.errors import RecordError, count_text
from qddot.evidence.agreement import TOLERANCE, compare_results
from qddot.evidence.metrics import DEFINITIONS
from qddot.evidence.reader import read_record
from qddot.evidence.record import Claim, Record, Verdict
from qddot.evidence.record_file import part_beside
from qddot.evidence.review import (
    ClaimReview,
    Difference,
    Problem,
    compare_records,
    review_claims,
    verify_record,
)
from qddot.evidence.signature import check_signature, sign_record

__all__ = ["VERDICT_COLOURS", "claim_table", "evidence"]

VERDICT_COLOURS = {
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.NOT_EVALUATED: "yellow",
}
_MOST_ROWS, _MOST_LETTERS = 300, 2000
"""Rows of a table, and letters of a cell, that a terminal shows."""

evidence = typer.Typer(
    help="Records of runs (MCAP): show, verify, sign, diff, replay.",
    no_args_is_help=True,
    add_completion=False,
)
RecordArgument = Annotated[Path, typer.Argument(help="A record that --record wrote.")]


@evidence.command("show")
def _show(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Show what a record holds: the run, verdicts, metrics with definitions, traces."""
    with errors_as_messages():
        found = read_record(record)
    if as_json:
        print_json(_record_json(found))
        return
    _print_part(record)
    run = found.run
    words = f" {' '.join(run.arguments)}"[:_MOST_LETTERS]
    out.print(style_text((f"qddot {run.command}", "bold"), words))
    machine = ", ".join(f"{k} {v}" for k, v in {**run.machine, **run.versions}.items())
    out.print(f"{run.started}; seed {run.seed}; {machine[:_MOST_LETTERS]}", soft_wrap=True)
    for given in run.inputs[:_MOST_ROWS]:
        kept = "" if given.content is not None else ", content not kept"
        out.print(f"input {given.place}: {given.size} bytes, sha256 {given.sha256[:16]}…{kept}")
    out.print(f"units {run.units}; frames: {run.frames}", soft_wrap=True)
    if found.claims:
        out.print(claim_table(found.claims))
    if found.metrics:
        table = Table("metric", "value", "definition", "of")
        for m in list(found.metrics.values())[:_MOST_ROWS]:
            known = DEFINITIONS.get(m.definition)
            words = f"{m.definition}: {known.formula}" if known else m.definition
            value = f"{m.value:.6g} {m.unit}".strip()
            name = m.name + found.mark_virtual(m.step)
            table.add_row(name, value, words, ", ".join(m.operands)[:_MOST_LETTERS])
        out.print(table)
    for name, trace in list(found.traces.items())[:_MOST_ROWS]:
        columns = ", ".join(
            f"{c} {list(x.shape[1:]) or ''}".strip() for c, x in trace.columns.items()
        )
        shown = name + found.mark_virtual(trace.step)
        words = f"{count_text(len(trace), 'row')}; {columns[:_MOST_LETTERS]}"
        out.print(f"trace {shown}: {words}", soft_wrap=True)
    longest = max(map(len, (run.inputs, found.claims, found.metrics, found.traces)))
    if longest > _MOST_ROWS:
        out.print(f"only the first {_MOST_ROWS} of each kind are shown; --json has all of them")
    for words in found.damage:
        out.print(style_text(("damage:", "red"), f" {words}"), soft_wrap=True)
    if not found.stated:
        steps = count_text(len(found.finished_steps), "step")
        words = f" the run was interrupted or killed after {steps}; the verdict is on what it left"
        out.print(style_text(("incomplete:", "red"), words), soft_wrap=True)
    mark = (found.verdict.value, VERDICT_COLOURS[found.verdict])
    out.print(style_text("verdict: ", mark, f"; digest {found.digest[:16]}…"))


@evidence.command("verify")
def _verify(
    record: RecordArgument,
    signers: Annotated[
        Path | None, typer.Option(help="Signers that are trusted, an allowed_signers file of SSH.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a record against itself, claim by claim; exit code 1 if something does not hold."""
    with errors_as_messages():
        found = read_record(record)
        problems, reviews, signer = verify_record(found), review_claims(found), ""
        if signers is not None:
            try:
                signer = check_signature(record, found, signers)
            except RecordError as error:
                problems.append(Problem("signature", error.reason))
    if as_json:
        print_json(
            {
                "holds": not problems,
                "digest": found.digest,
                "chain": found.chain,
                "signer": signer or None,
                "problems": [dataclasses.asdict(p) for p in problems],
                "claims": [
                    {
                        "step": x.claim.step,
                        "name": x.claim.name,
                        "verdict": x.claim.verdict.value,
                        "status": x.status,
                        "reason": x.reason,
                    }
                    for x in reviews
                ],
            }
        )
    else:
        _print_part(record)
        _print_reviews(found, problems, reviews, signer)
    raise typer.Exit(1 if problems else 0)


def _print_reviews(
    found: Record, problems: list[Problem], reviews: list[ClaimReview], signer: str
) -> None:
    """What does not hold, then the claims that rest on words, then the counts."""
    for p in problems[:_MOST_ROWS]:
        out.print(style_text((p.subject, "red"), f": {p.message[:_MOST_LETTERS]}"), soft_wrap=True)
    by_status: dict[str, list[ClaimReview]] = {}
    for x in reviews:
        by_status.setdefault(x.status, []).append(x)
    for status in ("only stated", "not evaluated"):
        for x in by_status.get(status, [])[:_MOST_ROWS]:
            claim = f" {x.claim.step} {x.claim.name}".replace("  ", " ")
            why = f": {x.claim.verdict.value} ({x.reason[:_MOST_LETTERS]})"
            out.print(style_text((status, "yellow"), claim + why), soft_wrap=True)
    parts = ((found.traces, "trace"), (found.metrics, "metric"), (reviews, "claim"))
    counts = ", ".join(count_text(len(x), noun) for x, noun in parts)
    statuses = ", ".join(f"{len(x)} {status}" for status, x in by_status.items())
    word = ("does not hold", "red") if problems else ("nothing is wrong", "green")
    listed = f" ({statuses})" if statuses else ""
    out.print(style_text(word, f": {counts}{listed}; digest {found.digest[:16]}…"), soft_wrap=True)
    author = (
        f"signed by {signer}" if signer else "no signature was checked: who wrote it is not known"
    )
    out.print(f"chain {found.chain[:16]}…; {author}", soft_wrap=True)


def _print_part(record: Path) -> None:
    """Say where the record of a later run is that has not come to its end."""
    if (part := part_beside(record)).is_file():
        err.print(style_text(("note:", "yellow"), f" {part} is of a run that has not ended"))


@evidence.command("sign")
def _sign(
    record: RecordArgument,
    key: Annotated[Path, typer.Option(help="An SSH key, such as ~/.ssh/id_ed25519.")],
    force: ForceOption = False,
) -> None:
    """Sign a record with an SSH key, into RECORD.sig; `verify --signers` checks it."""
    with errors_as_messages():
        written = sign_record(record, read_record(record), key.expanduser(), force)
    print_written(False, written)


@evidence.command("diff")
def _diff(a: RecordArgument, b: RecordArgument, as_json: JsonOption = False) -> None:
    """Tell what changed between two records; exit code 1 if results differ."""
    with errors_as_messages():
        one, other = read_record(a), read_record(b)
    _report_differences(one, other, as_json)


def _print_differences(found: Sequence[Difference]) -> None:
    """A row for each difference; nothing without one."""
    if found:
        table = Table("", "differs", "A", "B")
        for d in found[:_MOST_ROWS]:
            table.add_row(*(x[:_MOST_LETTERS] for x in (d.kind, d.name, d.a, d.b)))
        out.print(table)
        if len(found) > _MOST_ROWS:
            out.print(f"and {len(found) - _MOST_ROWS} more; --json has all of them")


def _report_differences(one: Record, other: Record, as_json: bool) -> None:
    found = compare_records(one, other)
    same = one.digest == other.digest
    if as_json:
        rows = [dataclasses.asdict(d) for d in found]
        print_json({"same_results": same, "digests": [one.digest, other.digest], "differ": rows})
    else:
        _print_differences(found)
        word = ("same results", "green") if same else ("results differ", "red")
        out.print(style_text(word, f": digests {one.digest[:16]}… and {other.digest[:16]}…"))
    raise typer.Exit(0 if same else 1)


@evidence.command("replay")
def _replay(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Run again from the record alone, enclosed and never trusted; exit code 1 if results differ.

    The answer is "same" (identical digests), "same within rounding" or "different".
    """
    with errors_as_messages():
        before = read_record(record)
        err.print(f"running qddot {before.run.command} again …")
        after = replay_record(record, before)
    found = compare_results(before, after)
    differences = [] if found.word == "same" else compare_records(before, after)
    if as_json:
        answer = {**dataclasses.asdict(found), "tolerance": TOLERANCE}
        rows = [dataclasses.asdict(d) for d in differences]
        digests = [before.digest, after.digest]
        same = found.word == "same"
        print_json({"same_results": same, **answer, "digests": digests, "differ": rows})
    else:
        _print_differences(differences)
        told = f": digests {before.digest[:16]}… and {after.digest[:16]}…"
        if found.subject:
            told += f"; {found.subject} differs"
            if math.isfinite(found.distance):
                told += f" most, by {found.distance:.1e} of its largest number"
                told += f" (rounding: up to {TOLERANCE:.0e})"
        mark = (found.word, "green" if found.agrees else "red")
        out.print(style_text(mark, told), soft_wrap=True)
    raise typer.Exit(0 if found.agrees else 1)


def _record_json(found: Record) -> dict[str, Any]:
    inputs = [{k: v for k, v in vars(x).items() if k != "content"} for x in found.run.inputs]
    return {
        "run": {**vars(found.run), "inputs": inputs},
        "verdict": found.verdict.value,
        "complete": found.complete,
        "chain": found.chain,
        "digest": found.digest,
        "damage": list(found.damage),
        "steps": [vars(m) for m in found.marks],
        "claims": [{**vars(c), "verdict": c.verdict.value} for c in found.claims],
        "metrics": [
            {
                **vars(m),
                "formula": DEFINITIONS[m.definition].formula if m.definition in DEFINITIONS else "",
            }
            for m in found.metrics.values()
        ],
        "traces": {
            name: {
                "rows": len(t),
                "columns": {c: list(x.shape[1:]) for c, x in t.columns.items()},
                "units": dict(t.units),
                "digest": t.digest,
            }
            for name, t in found.traces.items()
        },
    }


def claim_table(claims: tuple[Claim, ...] | list[Claim]) -> Table:
    """A row a claim: step, verdict, value against threshold, what was compared, the fix."""
    table = Table(
        "step", "claim", "verdict", "value", "threshold", "what was compared; detail; fix"
    )
    table.columns[5].overflow = "fold"
    for c in claims[:_MOST_ROWS]:
        value = "" if c.value is None else f"{c.value:.3g} {c.unit}".strip()
        words = [c.compared, c.detail]
        if c.verdict is not Verdict.PASS and c.fix:
            words.append(f"fix: {c.fix}")
        mark = style_text((c.verdict.value, VERDICT_COLOURS[c.verdict]))
        told = "; ".join(filter(None, words))[:_MOST_LETTERS]
        table.add_row(c.step, c.name, mark, value, c.threshold, told)
    return table
