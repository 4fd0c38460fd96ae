"""`qddot bench`: every function timed beside other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from qddot import bench as benchmarks
from qddot.cli.terminal import (
    ForceOption,
    check_outputs,
    err,
    errors_as_messages,
    out,
    print_written,
    progress_bar,
    style_text,
    write_output,
)

__all__ = ["bench"]


def bench(
    robots: Annotated[
        list[str] | None,
        typer.Argument(help="ur5, panda, anymal, talos, g1, or any other file or name; all five."),
    ] = None,
    function: Annotated[
        list[str] | None, typer.Option(help="A function of the catalogue; again for several.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="UR5 and Talos, in a minute.")] = False,
    rollouts: Annotated[
        bool | None,
        typer.Option(help="Rollouts beside MuJoCo's; with all robots and functions by default."),
    ] = None,
    devices: Annotated[
        bool | None,
        typer.Option(help="Devices of speed, each alone; with all robots and functions."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all measurements to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the ratios into this file.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the page of the docs.")] = None,
    measurements: Annotated[
        Path | None, typer.Option("--from", help="Show kept measurements; measure nothing.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Time every function beside other engines; exit code 1 if a pair of results disagrees."""
    with errors_as_messages():
        check_outputs(force, json_file, plot, page)
        if measurements:
            data = benchmarks.read_measurements(measurements)
        else:
            whole = not (robots or function or quick)
            plan = benchmarks.BenchmarkPlan(
                tuple(robots or (benchmarks.QUICK_ROBOTS if quick else benchmarks.SUITE)),
                tuple(function or (benchmarks.QUICK_FUNCTIONS if quick else benchmarks.FUNCTIONS)),
                benchmarks.QUICK if quick else benchmarks.FULL,
                tuple(benchmarks.ROLLOUTS) if rollouts or (rollouts is None and whole) else (),
                whole if devices is None else devices,
            )
            with progress_bar() as on_step:
                data = benchmarks.benchmark(plan, on_step)
        if json_file:
            write_output(json_file, lambda draft: benchmarks.write_measurements(data, draft), force)
        if page:
            write_output(page, benchmarks.page(data), force)
        for sheet in benchmarks.sheets(data):
            table = Table(*sheet.columns, title=sheet.title, caption=sheet.text)
            for row in sheet.rows:
                table.add_row(*row)
            out.print(table)
        if plot:
            write_output(plot, lambda draft: benchmarks.plot(data, draft), force)
    print_written(False, json_file, page, plot)
    for line in benchmarks.disagreements(data):
        err.print(style_text(("DISAGREES", "red"), f" {line}"), soft_wrap=True)
    raise typer.Exit(1 if benchmarks.disagreements(data) else 0)
