"""`qddot evidence`: records shown, checked, compared and run again."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot.cli.terminal import (
    JsonOption,
    err,
    errors_as_messages,
    out,
    print_json,
    style_text,
)
from qddot.errors import RecordError, count_text
from qddot.evidence.inputs import restore_inputs
from qddot.evidence.metrics import DEFINITIONS
from qddot.evidence.reader import read_record
from qddot.evidence.record import Claim, Record, Verdict
from qddot.evidence.review import compare_records, verify_record

__all__ = ["VERDICT_COLOURS", "claim_table", "evidence"]

VERDICT_COLOURS = {
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.NOT_EVALUATED: "yellow",
}
_REPLAYABLE = ("check", "audit", "compare", "size", "simulate", "pipeline", "lab", "identify")
_LONGEST_REPLAY = 3600

evidence = typer.Typer(
    help="Records of runs (MCAP): show, verify, diff, replay.",
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
    run = found.run
    out.print(style_text((f"qddot {run.command}", "bold"), f" {' '.join(run.arguments)}"))
    machine = ", ".join(f"{k} {v}" for k, v in {**run.machine, **run.versions}.items())
    out.print(f"{run.started}; seed {run.seed}; {machine}", soft_wrap=True)
    for given in run.inputs:
        kept = "" if given.content is not None else ", content not kept"
        out.print(f"input {given.place}: {given.size} bytes, sha256 {given.sha256[:16]}…{kept}")
    out.print(f"units {run.units}; frames: {run.frames}", soft_wrap=True)
    if found.claims:
        out.print(claim_table(found.claims))
    if found.metrics:
        table = Table("metric", "value", "definition", "of")
        for m in found.metrics.values():
            known = DEFINITIONS.get(m.definition)
            words = f"{m.definition}: {known.formula}" if known else m.definition
            value = f"{m.value:.6g} {m.unit}".strip()
            name = m.name + found.mark_virtual(m.step)
            table.add_row(name, value, words, ", ".join(m.operands))
        out.print(table)
    for name, trace in found.traces.items():
        columns = ", ".join(
            f"{c} {list(x.shape[1:]) or ''}".strip() for c, x in trace.columns.items()
        )
        shown = name + found.mark_virtual(trace.step)
        out.print(f"trace {shown}: {count_text(len(trace), 'row')}; {columns}", soft_wrap=True)
    for words in found.damage:
        out.print(style_text(("damage:", "red"), f" {words}"), soft_wrap=True)
    if not found.stated:
        steps = count_text(len(found.finished_steps), "step")
        words = f" the run was interrupted or killed after {steps}; the verdict is on what it left"
        out.print(style_text(("incomplete:", "red"), words), soft_wrap=True)
    mark = (found.verdict.value, VERDICT_COLOURS[found.verdict])
    out.print(style_text("verdict: ", mark, f"; digest {found.digest[:16]}…"))


@evidence.command("verify")
def _verify(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Recompute digests, metrics and verdicts from the traces; exit code 1 if one does not hold."""
    with errors_as_messages():
        found = read_record(record)
    problems = verify_record(found)
    if as_json:
        rows = [dataclasses.asdict(p) for p in problems]
        print_json({"verified": not problems, "digest": found.digest, "problems": rows})
    else:
        for p in problems:
            out.print(style_text((p.subject, "red"), f": {p.message}"), soft_wrap=True)
        counts = ", ".join(
            count_text(len(x), noun)
            for x, noun in (
                (found.traces, "trace"),
                (found.metrics, "metric"),
                (found.claims, "claim"),
            )
        )
        word = ("does not hold", "red") if problems else ("verified", "green")
        out.print(style_text(word, f": {counts}; digest {found.digest[:16]}…"))
    raise typer.Exit(1 if problems else 0)


@evidence.command("diff")
def _diff(a: RecordArgument, b: RecordArgument, as_json: JsonOption = False) -> None:
    """Tell what changed between two records; exit code 1 if results differ."""
    with errors_as_messages():
        one, other = read_record(a), read_record(b)
    _report_differences(one, other, as_json)


def _report_differences(one: Record, other: Record, as_json: bool) -> None:
    found = compare_records(one, other)
    same = one.digest == other.digest
    if as_json:
        rows = [dataclasses.asdict(d) for d in found]
        print_json({"same_results": same, "digests": [one.digest, other.digest], "differ": rows})
    else:
        if found:
            table = Table("", "differs", "A", "B")
            for d in found:
                table.add_row(d.kind, d.name, d.a, d.b)
            out.print(table)
        word = ("same results", "green") if same else ("results differ", "red")
        out.print(style_text(word, f": digests {one.digest[:16]}… and {other.digest[:16]}…"))
    raise typer.Exit(0 if same else 1)


@evidence.command("replay")
def _replay(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Run again from the record alone, in a process of its own; exit code 1 if results differ."""
    with errors_as_messages(), tempfile.TemporaryDirectory(prefix="qddot-replay-") as folder:
        before = read_record(record)
        run = before.run
        words = run.command.split()
        if not words or words[0] not in _REPLAYABLE:
            known = ", ".join(_REPLAYABLE)
            raise RecordError(record, f"{run.command!r} cannot be run again; these can: {known}")
        # the same command, on the inputs that the record keeps
        paths = restore_inputs(record, run.inputs, Path(folder) / "inputs")
        for word in run.arguments:
            # {0}, {1}, … stand for restored inputs; nothing else is understood
            number = word[1:-1] if word.startswith("{") and word.endswith("}") else ""
            is_input = number.isdigit() and int(number) < len(paths)
            words.append(str(paths[int(number)]) if is_input else word)
        again = Path(folder) / "again.mcap"
        err.print(f"running qddot {run.command} again …")
        command = [sys.executable, "-m", "qddot", *words, "--record", str(again)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_LONGEST_REPLAY, env=environment,
                cwd=folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise RecordError(record, f"the replay took longer than {_LONGEST_REPLAY} s") from error
        if not again.is_file():
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise RecordError(record, f"the replay failed: {said[-1] if said else done.returncode}")
        after = read_record(again)
    _report_differences(before, after, as_json)


def _record_json(found: Record) -> dict[str, Any]:
    inputs = [{k: v for k, v in vars(x).items() if k != "content"} for x in found.run.inputs]
    return {
        "run": {**vars(found.run), "inputs": inputs},
        "verdict": found.verdict.value,
        "complete": found.complete,
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
    for c in claims:
        value = "" if c.value is None else f"{c.value:.3g} {c.unit}".strip()
        words = [c.compared, c.detail]
        if c.verdict is not Verdict.PASS and c.fix:
            words.append(f"fix: {c.fix}")
        mark = style_text((c.verdict.value, VERDICT_COLOURS[c.verdict]))
        table.add_row(c.step, c.name, mark, value, c.threshold, "; ".join(filter(None, words)))
    return table
