"""`qddot lab`: laws of control put to the test, each figure beside its threshold."""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from qddot.cli.parameters import INPUT, OUTPUT, RESULT
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    ForceOption,
    JsonOption,
    check_outputs,
    errors_as_messages,
    out,
    print_json,
    print_written,
    progress_bar,
    style_text,
    write_output,
)
from qddot.control.laboratory import EXPERIMENTS, LABELS, Result, panel, plot_result
from qddot.control.laboratory.gravity import gravity
from qddot.errors import CannotWrite, InvalidArgument
from qddot.evidence.results import record_experiment

__all__ = ["ExperimentChoice", "PlantChoice", "lab"]


class ExperimentChoice(str, Enum):
    """Experiments of the laboratory."""

    gravity = "gravity"
    compliance = "compliance"
    hold = "hold"
    trace = "trace"
    collision = "collision"
    tracking = "tracking"
    all = "all"


class PlantChoice(str, Enum):
    """The plant that the laws run on."""

    own = "own"
    mujoco = "mujoco"
    both = "both"


ExperimentArgument = Annotated[
    ExperimentChoice, typer.Argument(help="What to put to the test."), RESULT
]
PlantOption = Annotated[
    PlantChoice,
    typer.Option(help="Our own plant with exact friction cones, MuJoCo, or both."),
    RESULT,
]
MjcfOption = Annotated[
    Path | None, typer.Option(help="Gravity: the robot of this MuJoCo file, not the UR5e."), INPUT
]
PanelOption = Annotated[
    int, typer.Option("--panel", min=0, help="Also this many perturbed contact tasks."), RESULT
]
SaveOption = Annotated[
    Path | None, typer.Option(help="Keep the traces as .npz in this folder."), OUTPUT
]
PlotOption = Annotated[
    Path | None, typer.Option(help="Draw the traces as .png in this folder."), OUTPUT
]


SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the panel."), RESULT]


def lab(
    context: typer.Context,
    experiment: ExperimentArgument = ExperimentChoice.all,
    plant: PlantOption = PlantChoice.own,
    mjcf: MjcfOption = None,
    panel_size: PanelOption = 0,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    record: RecordOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run laws on a UR5e over a table and judge them; exit code 1 if a figure misses its bound."""
    names = list(EXPERIMENTS) if experiment is ExperimentChoice.all else [experiment.value]
    kinds = ["own", "mujoco"] if plant is PlantChoice.both else [plant.value]
    results: list[Result] = []
    with errors_as_messages(), progress_bar() as on_step:
        if mjcf is not None and names != ["gravity"]:
            raise InvalidArgument("--mjcf", mjcf, "it goes with the experiment gravity")
        check_outputs(force, record)
        with open_recorder(context, record, [mjcf] if mjcf else [], force, seed) as recorder:
            for name in names:
                for kind in kinds:
                    if mjcf is not None:
                        results.append(gravity(kind, mjcf=mjcf, on_step=on_step))
                    else:
                        experiment_run = EXPERIMENTS[name]
                        results.append(experiment_run(kind, on_step=on_step))  # type: ignore[operator]
                    record_experiment(recorder, results[-1])
            for kind in kinds if panel_size else ():
                results.append(panel(kind, panel_size, seed, on_step))
                record_experiment(recorder, results[-1])
        written = _write_files(results, save, plot, force)
    if as_json:
        rows = [r.to_json() for r in results]
        print_json({"passed": all(r.holds for r in results), "results": rows})
    else:
        for result in results:
            colour = "green" if result.holds else "red"
            on = "our plant" if result.plant == "own" else "MuJoCo"
            title = style_text((result.experiment, "bold"), f" on {on}: ", (result.label, colour))
            table = Table(
                "measure", "value", "unit", "must be", "verdict", "published", title=title
            )
            for m in result.measures:
                bound = "" if m.bound is None else f"{m.sense} {m.bound:g}"
                verdict = "" if m.bound is None else "holds" if m.holds else "MISSED"
                cells = (m.name, f"{m.value:.4g}", m.unit, bound, verdict, m.published)
                table.add_row(*cells, style="" if m.holds else "red")
            out.print(table)
            for note in result.notes:
                out.print(style_text(f"  {note}"), soft_wrap=True)
        # one line on all of them, and what the labels mean that are not ok
        missed = sum(not m.holds for r in results for m in r.measures)
        total = sum(m.bound is not None for r in results for m in r.measures)
        colour = "green" if not missed else "red"
        out.print(style_text((f"{total - missed} of {total} bounds hold", colour)))
        for label in sorted({r.label for r in results} - {"ok"}):
            out.print(f"{label}: {LABELS[label]}")
    print_written(as_json, *written, record)
    raise typer.Exit(0 if all(r.holds for r in results) else 1)


def _write_files(
    results: list[Result], save: Path | None, plot: Path | None, force: bool
) -> list[Path]:
    """Traces and plots of the results, in folders; the files written."""
    for folder in (save, plot):
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CannotWrite(folder, error.strerror or str(error)) from error
    files: list[Path] = []
    for result in results:
        stem = f"{result.experiment}_{result.plant}"
        if save is not None:
            for name, found in result.traces.items():
                label = "".join(c if c.isalnum() else "_" for c in name)
                target = save / f"{stem}_{label}.npz"
                check_outputs(force, target)
                found.save(target)
                files.append(target)
        if plot is not None and result.traces:
            target = plot / f"{stem}.png"
            write_output(target, partial(plot_result, result), force)
            files.append(target)
    return files
