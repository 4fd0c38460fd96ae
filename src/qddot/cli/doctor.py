"""`qddot doctor`: what is wrong with a file, a log or a record, with evidence and the fix."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.table import Table

from qddot.cli.terminal import (
    VERDICT_STYLES,
    BaseOption,
    CouplingsChoice,
    JsonOption,
    TrustOption,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    progress_bar,
    style_text,
    try_source,
)
from qddot.errors import InvalidArgument, count_text
from qddot.evidence.reader import is_record, read_record
from qddot.evidence.record import Record, Verdict
from qddot.identify import read
from qddot.pipeline.diagnosis import Diagnosis
from qddot.pipeline.doctor import diagnose_record, examine_log
from qddot.pipeline.file_examination import FileExamination, examine_file
from qddot.verify.audit import AuditFinding

__all__ = ["doctor"]

_LOGS = {".csv", ".npz", ".parquet", ".mat", ".mcap", ".db3", ".txt"}


def doctor(
    subject: Annotated[
        str, typer.Argument(help="A description file or name, a record, or a log (with --robot).")
    ],
    robot: Annotated[str | None, typer.Option(help="The robot of a log: a file or a name.")] = None,
    base: BaseOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Name causes with evidence, confidence and fix; exit code 1 if something is wrong.

    A description file gets one screen: structure, checks, audit, limits, a verdict and the command
    to run next.
    """
    with errors_as_messages():
        path = Path(subject)
        if robot is not None:
            with progress_bar() as on_step:
                on_step("read", 0, 2)
                loaded = load_robot(robot, base, CouplingsChoice.exact, False, trust)
                log = read(subject, loaded)
                on_step("diagnose", 1, 2)
                found = list(examine_log(loaded, log).diagnoses)
            _print_diagnoses_and_exit(subject, found, as_json)
        if path.is_file() and is_record(path):
            record = read_record(path)
            _print_diagnoses_and_exit(subject, diagnose_record(path, record), as_json, record)
        if path.suffix in _LOGS and path.is_file():
            raise InvalidArgument("subject", subject, "a log needs --robot, the robot it is of")
        _examine_robot(subject, base, trust, as_json)


def _print_diagnoses_and_exit(
    subject: str, found: list[Diagnosis], as_json: bool, record: Record | None = None
) -> NoReturn:
    """Print the diagnoses; exit code 1 if there are any."""
    if as_json:
        damage = list(record.damage) if record is not None else []
        rows = [dataclasses.asdict(d) for d in found]
        print_json({"subject": subject, "diagnoses": rows, "damage": damage})
    else:
        for words in record.damage if record is not None else ():
            out.print(style_text(("damage:", "yellow"), f" {words}"), soft_wrap=True)
        if not found:
            out.print(
                style_text(("nothing found", "green"), f": {subject} shows none of the causes")
            )
        for k, d in enumerate(found, start=1):
            head = f" ({100 * d.confidence:.0f} % sure): {d.symptom}"
            out.print(style_text(f"{k} ", (d.cause, "bold red"), head), soft_wrap=True)
            out.print(f"    evidence: {d.evidence}", soft_wrap=True)
            out.print(style_text("    ", ("fix:", "green"), f" {d.fix}"), soft_wrap=True)
    raise typer.Exit(1 if found else 0)


def _examine_robot(source: str, base: Any, trust: bool, as_json: bool) -> None:
    """The one screen for "is my file right?"."""
    with progress_bar() as on_step:
        load_robot(source, base, CouplingsChoice.exact, False, trust)
        try_source(source, trust)
        found = examine_file(source, base.value if base else None, trust, on_step)
    loaded, result, verdict = found.robot, found.audit, found.verdict
    # how many joints lack each kind of limit
    limits = loaded.limits
    kinds = {
        "position": ~(np.isfinite(limits.lower) & np.isfinite(limits.upper)),
        "velocity": ~np.isfinite(limits.velocity),
        "effort": ~np.isfinite(limits.effort),
    }
    missing = {name: int(x.sum()) for name, x in kinds.items() if x.any()}
    gravity = tuple(float(x) for x in loaded.model.gravity)
    right = verdict.word == "RIGHT"
    repair = f"qddot audit {source} --fix fixed{result.robot.file.suffix}"
    onward = f"qddot pipeline {source} --record run.mcap --report run.html"
    next_command = onward if right else repair
    if as_json:
        print_json(
            {
                "robot": loaded.name,
                "right": right,
                "verdict": verdict.word,
                "nq": loaded.nq,
                "nv": loaded.nv,
                "mass": float(loaded.model.mass),
                "failed_checks": list(verdict.failed_claims),
                "errors": [_finding_json(f) for f in verdict.errors],
                "warnings": [_finding_json(f) for f in verdict.warnings],
                "gravity": gravity,
                "missing_limits": missing,
                "next": next_command,
            }
        )
        raise typer.Exit(0 if right else 1)
    _print_screen(found, missing)
    out.print(style_text("verdict: ", (verdict.words, VERDICT_STYLES[verdict.word])))
    if verdict.word == "DOUBTFUL" and verdict.failing:
        listed = ", ".join(dict.fromkeys(f.subject for f in verdict.failing))
        out.print(f"a pipeline fails there; where it is meant, --accept: {listed}")
    out.print(f"next: {next_command}", soft_wrap=True)
    raise typer.Exit(0 if right else 1)


def _finding_json(f: AuditFinding) -> dict[str, str]:
    return {"link": f.subject, "cause": f.hypothesis, "why": f.message}


def _print_screen(found: FileExamination, missing: dict[str, int]) -> None:
    robot, result, verdict = found.robot, found.audit, found.verdict
    model = robot.model
    base = "free" if any(b.joint.kind.floats for b in model.bodies) else "fixed"
    facts = (
        f": {base} base, {count_text(model.nb, 'moving body', 'moving bodies')}, nq {model.nq}, nv "
        f"{model.nv}, {model.mass:.4g} kg, {count_text(len(model.loops), 'loop')}"
    )
    out.print(style_text((model.name, "bold"), facts))
    table = Table("", "", "what")
    passed = sum(c.verdict is Verdict.PASS for c in found.claims)
    bad = verdict.failed_claims
    words = f"{passed} of {len(found.claims)} claims hold"
    table.add_row("check", _tick(not bad), words + (f"; not: {', '.join(bad)}" if bad else ""))
    errors = result.count("error")
    counts = (
        ("error", errors),
        ("warning", result.count("warning")),
        ("note", result.count("info")),
    )
    listed = ", ".join(count_text(n, noun) for noun, n in counts)
    table.add_row("audit", _tick(not errors and not verdict.warnings), listed)
    for f in result.findings[:6]:
        if f.severity != "info":
            table.add_row("", f.severity, f"{f.subject}: {f.hypothesis}. {f.message}")
    x, y, z = (float(g) for g in model.gravity)
    table.add_row("gravity", _tick(z < 0.0), f"({x:.4g}, {y:.4g}, {z:.4g}) m/s²")
    lack = ", ".join(f"{n} {kind}" for kind, n in missing.items())
    table.add_row(
        "limits", _tick(not missing), f"missing: {lack}" if lack else "every joint has its limits"
    )
    flagged = [h for h in robot.health if h.severity != "info"]
    for h in flagged[:4]:
        table.add_row("health", h.severity, f"{h.subject}: {h.message}")
    out.print(table)


def _tick(good: bool) -> Any:
    return style_text(("ok", "green") if good else ("look", "yellow"))
