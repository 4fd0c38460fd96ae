"""`qddot identify`: from a log to a model one can trust."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot import identify as identification
from qddot.cli import experiments
from qddot.cli.log_options import (
    BandwidthOption,
    FrictionOption,
    LogArgument,
    LogSource,
    MethodOption,
    PlotOption,
    SaveOption,
    ShaftOption,
    deliver,
    load_robot_plainly,
    parse_shafts,
    parse_terms,
    with_log_options,
)
from qddot.cli.parameters import INPUT, OUTPUT, RESULT
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    ForceOption,
    JsonOption,
    RobotArgument,
    check_outputs,
    errors_as_messages,
    out,
    progress_bar,
    style_text,
    write_output,
)
from qddot.errors import Unsupported
from qddot.evidence.results import record_fit, record_inspection
from qddot.identify import Fit, Validation
from qddot.pipeline.doctor import examine_log

__all__ = ["identify"]

identify = typer.Typer(
    help="Logs: what is wrong in them, what they tell of a robot, and how to record better ones.",
    no_args_is_help=True,
    add_completion=False,
)
for _name in ("plan", "budget", "friction", "payload"):
    identify.command(_name)(getattr(experiments, _name))
_COLOURS = {"good": "green", "usable": "yellow", "poor": "red"}
_HOLD_OUT = 1 / 3


@identify.command("inspect")
@with_log_options
def _inspect(
    context: typer.Context,
    source: LogSource,
    robot: RobotArgument,
    log: LogArgument,
    bandwidth: BandwidthOption = None,
    save: SaveOption = None,
    record: RecordOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Look for mistakes in a log; exit code 1 if there are any."""
    with errors_as_messages():
        check_outputs(force, save, record)
        loaded = load_robot_plainly(robot)
        with progress_bar() as on_step:
            data = source.read(loaded, log, on_step)
            result = examine_log(loaded, data, bandwidth, on_step).inspection
        with open_recorder(context, record, [robot, *source.files(log)], force) as recorder:
            record_inspection(recorder, result)

    def show() -> None:
        out.print(str(data))
        for s in result.suspicions:
            out.print(style_text(("suspicion", "red"), f" {s}"), soft_wrap=True)
        if not result.suspicions:
            out.print(style_text(("nothing suspicious in this log", "green")))
        for text in result.silent:
            out.print(style_text(("cannot say", "yellow"), f" {text}"), soft_wrap=True)
        table = Table("joint", "explained", "gravity's share", title="nominal model and friction")
        for j, name in enumerate(result.joints):
            share, part = result.explained[j], result.gravity_shares[j]
            table.add_row(name, f"{100 * share:.1f} %", f"{100 * part:.0f} %")
        out.print(table)

    deliver(result, show, as_json, save, force, record)
    raise typer.Exit(1 if result.suspicions else 0)


@identify.command("fit")
@with_log_options
def _fit(
    context: typer.Context,
    source: LogSource,
    robot: RobotArgument,
    log: LogArgument,
    friction: FrictionOption = "auto",
    method: MethodOption = "wls",
    write: Annotated[
        Path | None, typer.Option(help="Write the identified URDF or MJCF file (feasible)."), OUTPUT
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Hold nothing out."), RESULT] = False,
    bandwidth: BandwidthOption = None,
    shaft: ShaftOption = None,
    plot: PlotOption = None,
    save: SaveOption = None,
    record: RecordOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Identify a robot from a log; the last third is held out and predicted.

    Exit code 1 if the held-out prediction is poor.
    """
    with errors_as_messages():
        check_outputs(force, save, plot, write, record)
        if write is not None and method != "feasible":
            accepted = f"--method {method} gives base parameters only; take --method feasible"
            raise Unsupported("--write", str(write), accepted)
        loaded = load_robot_plainly(robot)
        with progress_bar() as on_step:
            data = source.read(loaded, log, on_step)
            train, test = (data, None) if whole else data.split(1 - _HOLD_OUT)
            found = identification.fit(
                loaded,
                train,
                parse_terms(friction),
                method,  # type: ignore[arg-type]
                bandwidth=bandwidth,
                shafts=parse_shafts(shaft),
                on_step=on_step,
            )
            checked = None if test is None else identification.validate(found, test, on_step)
        if plot:
            part = (checked.residuals, test) if checked and test else (found.residuals, train)
            title = f"{loaded.name}: " + ("fitted" if whole else "held out")
            begin = float(data.time[0])
            draw = identification.plot_prediction
            write_output(plot, lambda f: draw(*part, f, title, begin), force)
        notes = found.write(robot, write, force).notes if write else ()
        with open_recorder(context, record, [robot, *source.files(log)], force) as recorder:
            record_fit(recorder, found, test, checked)

    def show() -> None:
        _print_fit(found)
        for note in notes:
            out.print(style_text(("note", "cyan"), f" {note}"), soft_wrap=True)
        if checked is not None:
            _print_validation(checked)

    deliver(_ValidatedFit(found, checked), show, as_json, save, force, plot, write, record)
    raise typer.Exit(1 if checked is not None and checked.verdict == "poor" else 0)


@dataclass(frozen=True)
class _ValidatedFit:
    """A fit, and its validation where rows were held out, as one result."""

    fit: Fit
    validation: Validation | None

    def summary(self) -> dict[str, Any]:
        """Fit and validation as plain data."""
        checked = self.validation
        return {**self.fit.summary(), "held_out": checked.summary() if checked else None}


def _print_fit(found: Fit) -> None:
    out.print(str(found), soft_wrap=True)
    table = Table("base parameter", "value", "95 % interval", "model", "stands for")
    for row in found.base:
        rest = row.grouping if len(row.grouping) < 70 else row.grouping[:67] + "…"
        table.add_row(
            row.name,
            f"{row.value:.4g}",
            f"{row.low:.4g} … {row.high:.4g}",
            f"{row.prior:.4g}",
            rest,
        )
    out.print(table)
    reasons: dict[str, list[str]] = {}
    for r in found.refusals:
        kind = "its interval is larger than it is" if "its interval" in r.reason else r.reason
        reasons.setdefault(f"{kind}; {r.remedy}", []).append(r.name)
    for reason, names in reasons.items():
        out.print(
            style_text(("no number", "yellow"), f" {', '.join(names)}: {reason}"), soft_wrap=True
        )
    if found.selection:
        out.print(f"friction terms, by cross-validation: {found.selection}")


def _print_validation(checked: Validation) -> None:
    head = f": {100 * checked.total:.3g} % of the held-out torques remain"
    more = f" ({100 * checked.before:.3g} % before the fit), up to {checked.bandwidth:.3g} Hz"
    out.print(style_text((checked.verdict, f"bold {_COLOURS[checked.verdict]}"), head + more))
    table = Table("joint", "rms", "held out", "in training", "before", "verdict")
    for j in checked.joints:
        shares = (f"{100 * x:.3g} %" for x in (j.relative, j.trained, j.before))
        verdict = style_text((j.verdict, _COLOURS[j.verdict]))
        table.add_row(j.name, f"{j.rms:.3g}", *shares, verdict)
    out.print(table)
    for note in checked.notes:
        out.print(style_text(("note", "cyan"), f" {note}"), soft_wrap=True)


@identify.command("validate")
@with_log_options
def _validate(
    context: typer.Context,
    source: LogSource,
    robot: RobotArgument,
    log: LogArgument,
    test_log: Annotated[Path, typer.Argument(help="The log to predict."), INPUT],
    friction: FrictionOption = "auto",
    method: MethodOption = "wls",
    bandwidth: BandwidthOption = None,
    shaft: ShaftOption = None,
    plot: PlotOption = None,
    save: SaveOption = None,
    record: RecordOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit one log and predict another; exit code 1 if the prediction is poor."""
    with errors_as_messages():
        check_outputs(force, save, plot, record)
        loaded = load_robot_plainly(robot)
        with progress_bar() as on_step:
            train, test = (source.read(loaded, file, on_step) for file in (log, test_log))
            found = identification.fit(
                loaded,
                train,
                parse_terms(friction),
                method,  # type: ignore[arg-type]
                bandwidth=bandwidth,
                shafts=parse_shafts(shaft),
                on_step=on_step,
            )
            checked = identification.validate(found, test, on_step)
        if plot:
            write_output(
                plot, lambda f: identification.plot_prediction(checked.residuals, test, f), force
            )
        sources: list[str | Path] = [robot, *source.files(log, test_log)]
        with open_recorder(context, record, sources, force) as recorder:
            record_fit(recorder, found, test, checked)
    deliver(checked, lambda: _print_validation(checked), as_json, save, force, plot, record)
    raise typer.Exit(1 if checked.verdict == "poor" else 0)
