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
    ForceOption,
    JsonOption,
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
from qddot.errors import count_text
from qddot.writers import Conversion
from qddot.writers import convert as convert_robot

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
    force: ForceOption = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="Write nothing if anything of the dynamics is lost.")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option(help="Keep the certificate and the losses as JSON.")
    ] = None,
    states: Annotated[int, typer.Option(min=1, help="How many random states.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random states.")] = 0,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a robot as URDF or MJCF, and prove that what is read back is the same robot.

    The file is written only if its certificate holds; exit code 1 if nothing is written.
    """
    with errors_as_messages(), progress_bar() as on_step:
        check_outputs(force, target, certificate)
        try_source(source, trust)
        result = convert_robot(
            source,
            target,
            base=base.value if base else None,
            couplings=couplings.value,
            shapes=shapes.value,
            force=force,
            lossless=lossless,
            states=states,
            seed=seed,
            on_step=on_step,
            trust=trust,
        )
        if certificate is not None:
            text = json.dumps(_conversion_json(result), indent=2, ensure_ascii=False) + "\n"
            write_output(certificate, text, force)
    if as_json:
        print_json(_conversion_json(result))
    else:
        _print_conversion(result)
    print_written(as_json, result.target if result.written else None, certificate)
    raise typer.Exit(0 if result.written else 1)


def _conversion_json(result: Conversion) -> dict[str, Any]:
    """A conversion as plain data, without the text of the file; what is infinite becomes null."""
    data = dataclasses.asdict(dataclasses.replace(result, text=""))
    del data["text"]
    for check in data["certificate"]["checks"]:
        if not math.isfinite(check["measured"]):
            check["measured"] = None
    return {
        **data,
        "target": str(result.target),
        "passed": result.certificate.all_passed,
        "exact": result.exact,
    }


def _print_conversion(result: Conversion) -> None:
    certificate = result.certificate
    states = count_text(certificate.states, "state")
    title = f"{result.target.name}, {states}, seed {certificate.seed}"
    table = Table("what is read back", "claim", "difference", "bound", "", title=title)
    for m in certificate.checks:
        verdict = style_text(("pass", "green") if m.passed else ("FAIL", "red"))
        table.add_row(
            m.name, m.claim, f"{m.measured:.2g}", f"{m.bound:.0e}" if m.bound else "0", verdict
        )
    out.print(table)
    for m in certificate.checks:
        if not m.passed and m.detail:
            out.print(style_text((m.name, "red"), f": {m.detail}"))
    for loss in result.losses:
        mark = ("lost", "yellow") if loss.dynamics else ("note", "cyan")
        text = str(loss)
        more = " … (all of it with --json)" if len(text) > _LONGEST else ""
        out.print(style_text(mark, f" {text[:_LONGEST]}{more}"), soft_wrap=True)
    # how much of the dynamics the format cannot say
    names = {"mass_matrix": "M", "bias": "bias", "friction": "friction and springs"}
    parts = [
        f"{names[key]} by up to {value:.2g}"
        for key, value in dataclasses.asdict(result.effect).items()
        if value > 0
    ]
    if parts:
        text = f" {', '.join(parts)} of the largest entry"
        out.print(style_text(("what is lost changes", "yellow"), text))
    if not result.written:
        why = "something is lost" if certificate.all_passed else "the certificate fails"
        out.print(style_text(("not written", "red"), f": {why}"))
