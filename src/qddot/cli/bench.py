"""`qddot bench`: every function timed beside other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot import bench as benchmarks
from qddot.cli.terminal import err, errors_as_messages, out, progress_bar

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
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the ratios into this file.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the page of the docs.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--from", help="Show kept figures; measure nothing.")
    ] = None,
) -> None:
    """Time every function beside other engines; exit code 1 if a pair of results disagrees."""
    with errors_as_messages():
        data = (
            benchmarks.read_figures(figures)
            if figures
            else _bench(robots, function, quick, rollouts)
        )
        if json_file:
            benchmarks.write_figures(data, json_file)
        if page:
            page.write_text(benchmarks.page(data))
        _print_bench(data)
        if plot:
            benchmarks.plot(data, plot)
    for line in benchmarks.disagreements(data):
        err.print(f"[red]DISAGREES[/] {line}", highlight=False, soft_wrap=True)
    raise typer.Exit(1 if benchmarks.disagreements(data) else 0)


def _bench(
    robots: list[str] | None, functions: list[str] | None, quick: bool, rollouts: bool | None
) -> dict[str, Any]:
    whole = not (robots or functions or quick)
    plan = benchmarks.Plan(
        tuple(robots or (benchmarks.QUICK_ROBOTS if quick else benchmarks.SUITE)),
        tuple(functions or (benchmarks.QUICK_FUNCTIONS if quick else benchmarks.FUNCTIONS)),
        benchmarks.QUICK if quick else benchmarks.FULL,
        tuple(benchmarks.ROLLOUTS) if rollouts or (rollouts is None and whole) else (),
    )
    with progress_bar() as on_step:
        return benchmarks.benchmark(plan, on_step)


def _print_bench(data: dict[str, Any]) -> None:
    for sheet in benchmarks.sheets(data):
        table = Table(*sheet.columns, title=sheet.title, caption=sheet.text)
        for row in sheet.rows:
            table.add_row(*row)
        out.print(table)
