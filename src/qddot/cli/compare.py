"""`qddot compare`: one robot in several engines or two files, and the first cause that differs."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from qddot.cli.parameters import INPUT, RESULT, WORDS, one_of
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    SeedOption,
    StatesOption,
    TrustOption,
    check_outputs,
    errors_as_messages,
    out,
    print_json,
    print_written,
    progress_bar,
    style_text,
    try_source,
)
from qddot.errors import InvalidArgument
from qddot.evidence.results import record_comparison
from qddot.verify.compare import ENGINES, ModelComparison, Report, Settings, Stage, join_names
from qddot.verify.compare import compare as run
from qddot.verify.compare.terms import TERMS

__all__ = ["compare"]

_COLOURS = {
    "agree": "green",
    "differ": "red",
    "consequence": "yellow",
    "not evaluated": "yellow",
    "AGREE": "green",
    "DIFFER": "red",
    "NOT EVALUATED": "yellow",
}
_ROUNDING = 1e-4
_MOST_LISTED = 8
JointOption = Annotated[
    list[str] | None,
    typer.Option(metavar="A=B", help="Joint of A and its partner in B; may be repeated."),
    WORDS,
]
SecondArgument = Annotated[
    str | None, typer.Argument(help="Another file or name of the same robot."), INPUT
]
EnginesOption = Annotated[
    str,
    typer.Option("--with", help=f"Engines, separated by commas: {', '.join(ENGINES)}."),
    one_of(ENGINES),
]
ToleranceOption = Annotated[
    float, typer.Option(min=0.0, help="Relative difference that is taken for rounding."), RESULT
]


def compare(
    context: typer.Context,
    a: RobotArgument,
    b: SecondArgument = None,
    engines: EnginesOption = "",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    states: StatesOption = 20,
    seed: SeedOption = 0,
    tolerance: ToleranceOption = 1e-9,
    timeout: Annotated[
        float, typer.Option(min=1.0, help="Seconds an engine may take."), RESULT
    ] = 120.0,
    joint: JointOption = None,
    trust: TrustOption = False,
    record: RecordOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a robot in several engines, or two files of one robot, and name the first cause.

    Exit code 0 if everything asked for was evaluated and agrees, 1 if something differs or was not
    evaluated, 2 if a file cannot be used.
    """
    chosen = [name.strip().lower() for name in engines.split(",") if name.strip()]
    if b is None and not chosen:
        chosen = [name for name, engine in ENGINES.items() if engine.is_installed]
    with errors_as_messages():
        settings = Settings(
            base=base.value if base else None, couplings=couplings.value, states=states, seed=seed,
            tolerance=tolerance, timeout=timeout, trust=trust, joints=_parse_pairs(joint or []),
        )  # fmt: skip
        check_outputs(force, record)
        for source in filter(None, (a, b)):
            try_source(source, trust)
        sources = [x for x in (a, b) if x is not None]
        with (
            open_recorder(context, record, sources, force, seed) as recorder,
            progress_bar() as on_step,
        ):
            report = run(a, b, chosen, settings, on_step)
            record_comparison(recorder, report)
    if as_json:
        rows = []
        for c in report.comparisons:
            first = c.first_cause.name if c.first_cause else None
            rows.append({**dataclasses.asdict(c), "verdict": c.verdict, "first_cause": first})
        summary = {"agrees": report.agrees, "sides": report.sides, "settings": report.settings}
        print_json({**summary, "comparisons": rows})
    else:
        for label, source in report.sides.items():
            out.print(style_text((label, "bold"), f"  {source}"), soft_wrap=True)
        for c in report.comparisons:
            out.print()
            _print_comparison(c, report.settings["tolerance"])
        if len(report.comparisons) > 1:
            _print_summary(report)
    print_written(as_json, record)
    raise typer.Exit(0 if report.agrees else 1)


def _print_summary(report: Report) -> None:
    """A row per comparison: its verdict and first cause."""
    table = Table("comparison", "verdict", "first cause")
    for c in report.comparisons:
        cause = c.first_cause.name if c.first_cause and c.evaluated else ""
        table.add_row(f"{c.a} — {c.b}", _colour_verdict(c.verdict), cause)
    out.print()
    out.print(table)


def _parse_pairs(given: list[str]) -> dict[str, str]:
    """Pairs of joints from words A=B."""
    pairs: dict[str, str] = {}
    for word in given:
        a, separator, b = word.partition("=")
        if not (a and separator and b) or a in pairs:
            raise InvalidArgument("--joint", word, "it is A=B, each joint of A once")
        pairs[a] = b
    return pairs


def _colour_verdict(verdict: str) -> Text:
    return style_text((verdict, _COLOURS[verdict]))


def _print_comparison(c: ModelComparison, tolerance: float) -> None:
    out.print(style_text((f"{c.a} — {c.b}", "bold"), ": ", (c.verdict, _COLOURS[c.verdict])))
    if c.reason:
        out.print(f"  {c.reason}")
    if c.agrees:
        _print_same(c)
        agreed = [s for s in c.stages if s.verdict == "agree"]
        terms = [f"{s.name} {s.message}" for s in agreed if _is_term(s)]
        if terms:
            out.print(f"  agree: {', '.join(terms)}")
        for s in c.stages:
            if s.verdict == "not evaluated":
                text = f"{s.name} not evaluated: {s.message}"
                out.print(style_text("  ", (text, "yellow")))
    elif c.stages:
        _print_cause(c, tolerance)
        _print_same(c)
        if c.causes:
            table = Table("stage", "verdict", "what differs")
            table.columns[2].overflow = "fold"
            for s in c.stages:
                if s.verdict != "agree" or _is_term(s):
                    text = s.message
                    if s.verdict == "consequence" and s.because and s.differences:
                        text = f"from {join_names(s.because)}: {s.message}"
                    text = "see above" if s is c.first_cause else text
                    table.add_row(s.name, _colour_verdict(s.verdict), text)
            out.print(table)
    if c.not_compared:
        out.print(f"  not compared: {'; '.join(c.not_compared)}")
    for note in c.notes:
        out.print(style_text("  ", ("note", "cyan"), f" {note}"))


def _print_same(c: ModelComparison) -> None:
    same = [s.name for s in c.stages if s.verdict == "agree" and not _is_term(s)]
    locked = any("it is locked" in d.message for s in c.stages[:1] for d in s.differences)
    head = "the same of what moves on both sides" if locked else "the same"
    out.print(f"  {head}: {', '.join(same) or 'nothing'}")


def _is_term(s: Stage) -> bool:
    """Whether a stage compares a term of the equation."""
    return s.name in TERMS


def _print_cause(c: ModelComparison, tolerance: float) -> None:
    """The first cause in full, what follows from it, and what differs besides."""
    first = c.first_cause
    if first is None:
        return
    counts = f" ({first.message.split(':')[0]})" if first.name == "degrees of freedom" else ""
    out.print(style_text("  first cause: ", (first.name, "bold"), counts))
    lines = [f"{d.subject} {d.message}" for d in first.differences] or [first.message]
    for line in lines[:_MOST_LISTED]:
        out.print(f"    {line}")
    if len(lines) > _MOST_LISTED:
        out.print(f"    and {len(lines) - _MOST_LISTED} more (all of them with --json)")
    follows = [s.name for s in c.stages if s.verdict == "consequence"]
    if follows and len(c.causes) == 1:
        agree = "it agrees" if len(follows) == 1 else "all agree"
        text = f"{join_names(follows)} differ{'s' if len(follows) == 1 else ''} because of it: "
        out.print(f"  {text}with {first.name} made equal, {agree}")
    elif len(c.causes) > 1:
        out.print(f"  differ besides: {join_names([s.name for s in c.causes[1:]])}")
    # the causes by their share of the difference in q̈, the largest first
    shares = sorted(((s.share, s.name) for s in c.causes if s.share is not None), reverse=True)
    if len(shares) >= 2:
        listed = (f"{name} {'< 1' if 0 < x < 0.01 else f'{100 * x:.0f}'} %" for x, name in shares)
        out.print(f"  of the difference in q̈: {', '.join(listed)}")
    if tolerance < max(s.left for s in c.causes) < _ROUNDING:
        text = f"all differences are below {_ROUNDING:g}, as by digits that a file has rounded: "
        out.print(f"  {text}try --tolerance {_ROUNDING:g}")
