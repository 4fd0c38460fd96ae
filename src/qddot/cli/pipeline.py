"""`qddot pipeline`: fifteen steps from a description file to a verified controller."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from qddot.cli.evidence import VERDICT_COLOURS, claim_table
from qddot.cli.parameters import INPUT, OUTPUT, RESULT, WORDS, one_of
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    BaseOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    TrustOption,
    check_outputs,
    err,
    errors_as_messages,
    out,
    print_json,
    print_written,
    progress_bar,
    style_text,
)
from qddot.errors import InvalidArgument, RecordError, count_text
from qddot.evidence.reader import CUT_SHORT, read_record
from qddot.evidence.record import Record, Run, Verdict, canonical_json
from qddot.evidence.record_file import take_over_part
from qddot.evidence.recorder import Recorder
from qddot.pipeline import (
    STEPS,
    Context,
    PipelineSettings,
    PipelineStep,
    run_pipeline,
    select_steps,
)
from qddot.pipeline.context import EXPECTED, parse_expectations
from qddot.pipeline.hardware_steps import latency_budget
from qddot.pipeline.steps import known_steps
from qddot.report import require_plotly, write_report
from qddot.simulate.integrators import INTEGRATORS

__all__ = ["pipeline"]

_LISTING = "; ".join(f"{s.number} {s.title}" for s in STEPS)


StepsOption = Annotated[str, typer.Option(help=f"Such as 1,4-6. {_LISTING}."), WORDS]
OnlyOption = Annotated[
    list[str] | None, typer.Option(help="Only this step; again for more."), WORDS
]
SkipOption = Annotated[
    list[str] | None, typer.Option(help="Without this step; again for more."), WORDS
]
ExpectOption = Annotated[
    list[str] | None,
    typer.Option(help=f"What is meant, KEY=VALUE of {', '.join(EXPECTED)}; again for more."),
    WORDS,
]
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(help="A link whose doubtful inertia (step 2) is meant; again for more."),
    WORDS,
]
LogOption = Annotated[
    Path | None, typer.Option(help="A log of the real robot; without one, virtual hardware."), INPUT
]
IntegratorOption = Annotated[
    str | None,
    typer.Option(help="That of your simulator, to be judged in steps 9 and 10."),
    one_of(INTEGRATORS),
]
StepOption = Annotated[float | None, typer.Option(help="The step of your simulator, s."), RESULT]
SeedOption = Annotated[
    int, typer.Option(min=0, help="Seed of states and virtual hardware."), RESULT
]
DurationOption = Annotated[
    float, typer.Option(min=2.0, max=600.0, help="Seconds of the log of virtual hardware."), RESULT
]
NoGapsOption = Annotated[
    bool, typer.Option("--strict", help="What is not evaluated counts as failed."), RESULT
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on where the record of a killed run ends."), OUTPUT
]
ReportOption = Annotated[Path | None, typer.Option(help="Write the HTML report here."), OUTPUT]


def pipeline(
    context: typer.Context,
    robot: RobotArgument = "ur5e",
    steps: StepsOption = "",
    only: OnlyOption = None,
    skip: SkipOption = None,
    expect: ExpectOption = None,
    accept: AcceptOption = None,
    log: LogOption = None,
    integrator: IntegratorOption = None,
    dt: StepOption = None,
    seed: SeedOption = 0,
    duration: DurationOption = 20.0,
    base: BaseOption = None,
    trust: TrustOption = False,
    strict: NoGapsOption = False,
    record: RecordOption = None,
    resume: ResumeOption = False,
    report: ReportOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take a robot from its description to a verified controller, step by step, with evidence.

    Exit code 0 without a FAIL, 1 with one (with --strict also where something was not evaluated), 2
    if the input cannot be used.
    """
    with errors_as_messages():
        chosen = select_steps(steps, only or (), skip or ())
        settings = PipelineSettings(
            base=base.value if base else None,
            trust=trust,
            expect=parse_expectations(expect or []),
            accept=tuple(accept or ()),
            log=log,
            integrator=integrator,
            dt=dt,
            seed=seed,
            duration=duration,
        )
        before = _earlier_record(record, resume)
        check_outputs(force or before is not None, record)
        check_outputs(force, report)
        if report is not None:
            require_plotly()
        work = _usable_context(robot, settings)
        sources, latency = [robot, *([str(log)] if log else [])], latency_budget()
        with (
            progress_bar() as on_step,
            open_recorder(context, record, sources, True, seed, latency=latency) as recorder,
        ):
            _require_same_run(record, before, recorder.run)
            work.recorder, work.on_step = recorder, on_step
            show = functools.partial(_print_step, recorder)
            _print_changed(record, run_pipeline(work, chosen, before, None if as_json else show))
        found = recorder.record
        if report is not None:
            write_report(found, report, force)
    if as_json:
        print_json(_summary_json(found, chosen))
    else:
        _print_summary(found, chosen)
    print_written(as_json, record, report)
    raise typer.Exit(_exit_code(found, strict))


def _usable_context(robot: str, settings: PipelineSettings) -> Context:
    """The context of a run whose inputs can be used; it records nothing yet."""
    work = Context(robot, settings, Recorder(None, Run("pipeline")))
    work.require_usable_inputs()
    return work


def _earlier_record(record: Path | None, resume: bool) -> Record | None:
    """The record of the run to go on with, with a warning where it is damaged; None without one."""
    if not resume:
        return None
    if record is None:
        raise InvalidArgument(
            "--resume", resume, "it needs --record FILE, the record to go on with"
        )
    if not record.is_file():
        return None
    # a run that went on with it may have been killed, too
    take_over_part(record)
    try:
        found = read_record(record)
    except RecordError as error:
        if "cut before" in error.reason:
            return None
        raise
    if found.stated and not found.damage and found.digest != found.stated:
        raise RecordError(
            record, "its content is not that whose digest was written; leave --resume"
        )
    _print_losses(record, found)
    return found


def _require_same_run(file: Path | None, before: Record | None, run: Run) -> None:
    """Refuse to go on with the record of another robot or of other options.

    Say which whole steps of it are computed again, since they were not computed here.
    """
    if before is None:
        return
    digests = [[x.sha256 for x in r.inputs] for r in (before.run, run)]
    if digests[0] != digests[1]:
        raise RecordError(
            str(file), "it is of another file, or the file has changed; leave --resume"
        )
    configurations = [canonical_json(r.configuration) for r in (before.run, run)]
    if before.run.seed != run.seed or configurations[0] != configurations[1]:
        here, there = (" ".join(r.arguments) for r in (before.run, run))
        raise RecordError(str(file), f"it is of other options: {here!r}, not {there!r}")
    kept = known_steps(before, run)
    unknown = [step for step in before.whole_steps if step not in kept]
    if unknown:
        words = f" {file}: not known to be computed on this machine by this version of qddot, so "
        words += f"computed again: {', '.join(unknown)}"
        err.print(style_text(("note:", "yellow"), words), soft_wrap=True)


def _print_losses(record: Path, before: Record) -> None:
    """Say how a record is damaged, and which of its finished steps are run again."""
    lost = [step for step in before.finished_steps if step not in before.whole_steps]
    damage = [words for words in before.damage if words != CUT_SHORT]
    if lost or damage:
        reasons = "; ".join(damage) or "its steps lack something, or do not say how much they wrote"
        again = ", ".join(lost) if lost else "those that are not finished"
        words = f" {record}: {reasons}; steps that are run again: {again}"
        err.print(style_text(("warning", "yellow"), words), soft_wrap=True)


def _print_changed(record: Path | None, changed: Sequence[str]) -> None:
    """Say of which steps a record had other results than this run found."""
    if changed:
        words = f" {record}: other results than the record had: {', '.join(changed)}; "
        words += "what was computed just now counts"
        err.print(style_text(("warning", "yellow"), words), soft_wrap=True)


def _print_step(recorder: Recorder, step: PipelineStep, verdict: Verdict) -> None:
    """A line as soon as a step is judged."""
    mark = (f"{verdict.value:<13}", VERDICT_COLOURS[verdict])
    title = step.title + recorder.record.mark_virtual(step.name)
    err.print(style_text(mark, f" {step.number:>2} {title}"))


def _exit_code(found: Record, strict: bool) -> int:
    verdicts = {c.verdict for c in found.claims}
    failed = Verdict.FAIL in verdicts or (strict and Verdict.NOT_EVALUATED in verdicts)
    return 1 if failed else 0


def _print_summary(found: Record, chosen: list[PipelineStep]) -> None:
    out.print(claim_table(found.claims))
    counts = {v: sum(c.verdict is v for c in found.claims) for v in Verdict}
    listed = ", ".join(f"{n} {v.value}" for v, n in counts.items() if n)
    judged = found.verdict
    text = f" {count_text(len(chosen), 'step')}, {listed}; digest {found.digest[:16]}…"
    out.print(style_text((judged.value, f"bold {VERDICT_COLOURS[judged]}"), text))
    first = next((c for c in found.claims if c.verdict is Verdict.FAIL), None)
    if first is not None:
        words = f" step {first.step} {first.name}: {first.detail or first.compared}; {first.fix}"
        out.print(style_text(("first to mend:", "red"), words), soft_wrap=True)


def _summary_json(found: Record, chosen: list[PipelineStep]) -> dict[str, Any]:
    return {
        "robot": found.run.configuration.get("robot"),
        "digest": found.digest,
        "passed": _exit_code(found, strict=False) == 0,
        "steps": [
            {
                "number": step.number,
                "title": step.title,
                "claims": [
                    {**vars(c), "verdict": c.verdict.value, "threshold": c.threshold}
                    for c in found.claims
                    if c.step == step.name
                ],
            }
            for step in chosen
        ],
        "metrics": {name: m.value for name, m in found.metrics.items()},
    }
