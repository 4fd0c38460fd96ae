"""`qddot convert`: a robot in another format, with a certificate."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    JsonOption,
    errors_as_messages,
    out,
    print_json,
    progress_bar,
)
from qddot.writers import Conversion
from qddot.writers import convert as convert_robot
from qddot.writers.files import write_whole

__all__ = ["convert"]

_LONGEST = 300


class _Shapes(str, Enum):
    """Which shapes are carried over."""

    all = "all"
    collision = "collision"
    none = "none"


def convert(
    source: Annotated[str, typer.Argument(help="A file (.urdf .xacro .xml .sdf) or a name.")],
    target: Annotated[Path, typer.Argument(help="The file to write: .urdf, or .xml for MJCF.")],
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    shapes: Annotated[_Shapes, typer.Option(help="Which shapes to carry over.")] = _Shapes.all,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the target.")] = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="Write nothing if anything of the dynamics is lost.")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option(help="Keep the certificate and the losses as JSON.")
    ] = None,
    states: Annotated[int, typer.Option(min=1, help="How many random states.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random states.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Write a robot as URDF or MJCF, and prove that what is read back is the same robot.

    The file is written only if its certificate holds; exit code 1 if nothing is written.
    """
    with errors_as_messages(), progress_bar() as on_step:
        result = convert_robot(
            source, target, base.value if base else None, couplings.value, shapes.value,
            force, lossless, states, seed, on_step,
        )  # fmt: skip
        if certificate is not None:
            text = json.dumps(_plain(result), indent=2, ensure_ascii=False) + "\n"
            write_whole(certificate, text, True)
    if as_json:
        print_json(_plain(result))
    else:
        _print(result)
    raise typer.Exit(0 if result.written else 1)


def _plain(result: Conversion) -> dict[str, Any]:
    """A conversion as plain data, without the text of the file; what is infinite becomes null."""
    data = dataclasses.asdict(dataclasses.replace(result, text=""))
    del data["text"]
    for measure in data["certificate"]["measures"]:
        if not math.isfinite(measure["measured"]):
            measure["measured"] = None
    return {
        **data,
        "target": str(result.target),
        "passed": result.certificate.passed,
        "exact": result.exact,
    }


def _print(result: Conversion) -> None:
    certificate = result.certificate
    title = f"{result.target.name}, {certificate.states} states, seed {certificate.seed}"
    table = Table("what is read back", "claim", "difference", "bound", "", title=title)
    for m in certificate.measures:
        verdict = "[green]pass[/]" if m.passed else "[red]FAIL[/]"
        table.add_row(
            m.name, m.claim, f"{m.measured:.2g}", f"{m.bound:.0e}" if m.bound else "0", verdict
        )
    out.print(table)
    for m in certificate.measures:
        if not m.passed and m.detail:
            out.print(f"[red]{m.name}[/]: {m.detail}", highlight=False)
    for loss in result.losses:
        mark = "[yellow]lost[/]" if loss.dynamics else "[cyan]note[/]"
        text = str(loss)
        more = " … (all of it with --json)" if len(text) > _LONGEST else ""
        out.print(f"{mark} ", end="")
        out.print(f"{text[:_LONGEST]}{more}", highlight=False, markup=False, soft_wrap=True)
    _print_effect(result)
    if result.written:
        out.print(f"wrote {result.target}", highlight=False, soft_wrap=True)
    else:
        why = "something is lost" if certificate.passed else "the certificate fails"
        out.print(f"[red]not written[/]: {why}", highlight=False)


def _print_effect(result: Conversion) -> None:
    """How much of the dynamics the format cannot say."""
    names = {"mass_matrix": "M", "bias": "bias", "friction": "friction and springs"}
    parts = [
        f"{names[key]} by up to {value:.2g}"
        for key, value in dataclasses.asdict(result.effect).items()
        if value > 0
    ]
    if parts:
        out.print(
            f"[yellow]what is lost changes[/] {', '.join(parts)} of the largest entry",
            highlight=False,
        )
