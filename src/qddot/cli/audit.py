"""`qddot audit`: is the model right? Hypotheses on every link, ranked by evidence."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot.cli.parameters import OUTPUT, RESULT, WORDS
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    VERDICT_STYLES,
    ForceOption,
    JsonOption,
    RobotArgument,
    TrustOption,
    check_outputs,
    errors_as_messages,
    out,
    print_json,
    print_written,
    progress_bar,
    style_text,
    try_source,
    write_output,
)
from qddot.errors import DescriptionError, InvalidArgument, QddotError, count_text
from qddot.evidence.results import record_audit
from qddot.loaders.formats import is_description
from qddot.loaders.locate import PACKAGE_HINT, resolve_uri
from qddot.verify.audit import Audit, AuditFinding, changes_of, diff_of, fixed_text, judge_file
from qddot.verify.audit import audit as run
from qddot.verify.audit.page import html_page
from qddot.verify.audit.summary import AuditEntry, group_findings, markdown_page

__all__ = ["audit"]

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_MOST_NOTES = 4


MassOption = Annotated[
    float | None,
    typer.Option(min=1e-6, help="The total mass that the data sheet states, kg."),
    RESULT,
]
FixOption = Annotated[
    Path | None, typer.Option(help="Write the file with what has one remedy put right."), OUTPUT
]


def audit(
    context: typer.Context,
    robot: RobotArgument = "ur5e",
    mass: MassOption = None,
    fix: FixOption = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with every link drawn."), OUTPUT
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a Markdown summary; made for folders."), OUTPUT
    ] = None,
    match: Annotated[str, typer.Option(help="In a folder: which files."), WORDS] = "*",
    record: RecordOption = None,
    force: ForceOption = False,
    trust: TrustOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every note."), RESULT] = False,
    as_json: JsonOption = False,
) -> None:
    """Test what may be wrong with the inertias and drivetrains of a file, or of all in a folder.

    Exit code 0 without errors, 1 with an error or a file of the folder that cannot be evaluated, 2
    if the file cannot be used.
    """
    with errors_as_messages():
        check_outputs(force, fix, html, page, record)
        try:
            path = resolve_uri(robot, Path.cwd()) if "://" in robot else Path(robot).expanduser()
            is_folder = path.is_dir()
        except (OSError, RuntimeError, ValueError) as error:
            raise DescriptionError(robot[:200], f"cannot be read: {error}") from error
        if is_folder:
            entries = _audit_all(path, match, fix or html or record, mass, trust)
            if page is not None:
                write_output(page, _summary_page(robot, match, entries), force)
            _report_all(entries, as_json)
            print_written(as_json, page)
            failed = any(e.result is None or e.result.count("error") for e in entries)
            raise typer.Exit(1 if failed else 0)
        try_source(robot, trust)
        with (
            open_recorder(context, record, [robot], force) as recorder,
            progress_bar() as on_step,
        ):
            result = run(robot, mass, on_step, trust)
            record_audit(recorder, result)
        diff = None
        if fix is not None:
            text, _ = fixed_text(result)
            write_output(fix, text, force)
            diff = diff_of(result.robot.text or "", text, result.robot.file.name)
        if html is not None:
            write_output(html, html_page(result), force)
        if page is not None:
            entries = [AuditEntry(result.robot.name, result)]
            write_output(page, _summary_page(robot, match, entries), force)
    if as_json:
        print_json({**_audit_json(result), "diff": diff})
    else:
        _print_audit(result, verbose)
        if fix is not None:
            out.print(diff or "nothing to fix: no finding has exactly one remedy")
    print_written(as_json, fix, html, page, record)
    raise typer.Exit(1 if result.count("error") else 0)


def _audit_all(
    folder: Path, match: str, single: object, mass: float | None, trust: bool
) -> list[AuditEntry]:
    """Every robot of a folder; one that cannot be read says why."""
    if single or mass is not None:
        raise InvalidArgument(
            "robot", str(folder), "--mass, --fix, --html and --record are for one file"
        )
    files = [x for x in sorted(folder.rglob(match)) if x.is_file() and is_description(x)]
    if not files:
        raise DescriptionError(folder, f"has no URDF, MJCF or SDF file that matches {match!r}")
    entries = []
    with progress_bar() as on_step:
        for done, file in enumerate(files):
            name = file.relative_to(folder).as_posix()
            on_step(name, done, len(files))
            try:
                try_source(file, trust)
                entries.append(AuditEntry(name, run(file, trust=trust)))
            except DescriptionError as error:
                entries.append(
                    AuditEntry(name, None, ": ".join(filter(None, (error.element, error.reason))))
                )
            except QddotError as error:
                entries.append(AuditEntry(name, None, str(error)))
    return entries


def _summary_page(source: str, match: str, entries: list[AuditEntry]) -> str:
    command = f"qddot audit {source}" + (f' --match "{match}"' if match != "*" else "")
    return markdown_page(f"{command} --page …", entries)


def _audit_json(result: Audit) -> dict[str, Any]:
    """An audit as plain data."""
    return {
        "robot": result.robot.name,
        "file": str(result.robot.file),
        "mass": result.mass,
        "mass_not_known": list(result.robot.unknown_mass),
        "links": len(result.robot.links),
        "errors": result.count("error"),
        "warnings": result.count("warning"),
        "notes": result.count("info"),
        "verdict": judge_file(result).word,
        "findings": [
            {
                "subject": f.subject,
                "hypothesis": f.hypothesis,
                "severity": f.severity,
                "message": f.message,
                "strength": f.strength,
                "links": list(f.links),
                "others": list(f.others),
                "fix": [dataclasses.asdict(c) for c in changes_of(result.robot, f)],
            }
            for f in result.findings
        ],
    }


def _print_audit(result: Audit, verbose: bool) -> None:
    robot = result.robot
    counts = {"error": result.count("error"), "warning": result.count("warning")}
    counts["note"] = result.count("info")
    listed = ", ".join(count_text(n, noun) for noun, n in counts.items())
    links, mass = count_text(len(robot.links), "link"), f"{result.mass:.4g} kg"
    if robot.unknown_mass:
        mass += f" without {count_text(len(robot.unknown_mass), 'link')} whose mass is not known"
    out.print(style_text((robot.name, "bold"), f": {links}, {mass}; {listed}"))
    for f, subjects in group_findings([f for f in result.findings if f.severity != "info"]):
        _print_finding(result, f, subjects)
    notes = [f for f in result.findings if f.severity == "info"]
    if verbose:
        for f, subjects in group_findings(notes):
            _print_finding(result, f, subjects)
    else:
        # a line for each hypothesis that notes are about; a single note in full
        kinds = dict.fromkeys(f.hypothesis for f in notes)
        for kind in kinds:
            about = [f for f in notes if f.hypothesis == kind]
            if len(about) == 1:
                _print_finding(result, about[0], [about[0].subject])
                continue
            subjects = list(dict.fromkeys(f.subject for f in about))
            listed = ", ".join(subjects[:_MOST_NOTES])
            if len(subjects) > _MOST_NOTES:
                listed += f" and {len(subjects) - _MOST_NOTES} more"
            if kind == "shape not read":
                listed += "; their inertias are not compared with these shapes"
            out.print(style_text(("info", "cyan"), f" {kind}: {listed}"), soft_wrap=True)
        if len(kinds) < len(notes):
            out.print(style_text(("--verbose prints every note", "dim")))
    if any("package://" in f.message for f in notes):
        out.print(style_text((PACKAGE_HINT, "dim")))
    verdict = judge_file(result)
    label = "verdict on inertias and drivetrains: "
    out.print(style_text(label, (verdict.words, VERDICT_STYLES[verdict.word])))


def _print_finding(result: Audit, f: AuditFinding, subjects: list[str]) -> None:
    more = f" and {len(subjects) - 3} more" if len(subjects) > 3 else ""
    who = (", ".join(subjects[:3]) + more, "bold")
    mark = (f.severity, _COLOURS[f.severity])
    out.print(style_text(mark, f" {f.hypothesis}, ", who, f": {f.message}"), soft_wrap=True)
    if f.others:
        out.print(f"    not ruled out: {', '.join(f.others)}")
    for c in changes_of(result.robot, f):
        where = f"{c.kind} {c.name!r} {c.tag}".strip()
        out.print(style_text("    ", ("fix", "green"), f' {where} {c.attribute}="{c.text}"'))


def _report_all(entries: list[AuditEntry], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"name": e.name, **_audit_json(e.result)}
                if e.result
                else {"name": e.name, "not evaluated": e.reason}
                for e in entries
            ]
        )
        return
    table = Table("robot", "links", "mass, kg", "errors", "warnings", "notes", "first finding")
    for e in entries:
        if e.result is None:
            table.add_row(
                e.name, *[""] * 5, style_text(("NOT EVALUATED", "yellow"), f" {e.reason}")
            )
            continue
        r = e.result
        first = next((f for f in r.findings if f.severity != "info"), None)
        words = f"{first.subject}: {first.hypothesis}" if first else ""
        counts = [str(r.count(s)) for s in ("error", "warning", "info")]
        table.add_row(e.name, str(len(r.robot.links)), f"{r.mass:.4g}", *counts, words)
    out.print(table)
