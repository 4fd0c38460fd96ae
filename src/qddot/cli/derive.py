"""`qddot derive`: the equations of motion of a small robot in closed form, with proof."""

from __future__ import annotations

import dataclasses
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    TrustOption,
    check_outputs,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    print_text,
    print_written,
    progress_bar,
    style_text,
    write_output,
)
from qddot.errors import InvalidArgument

__all__ = ["derive"]


class _Format(str, Enum):
    """How the equations are written."""

    text = "text"
    latex = "latex"
    markdown = "markdown"
    python = "python"


def derive(
    robot: RobotArgument = "planar_2r",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    format: Annotated[_Format, typer.Option(help="How to write the equations.")] = _Format.text,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Put the numbers of the robot in.")
    ] = False,
    symbols: Annotated[
        str | None, typer.Option(help="Keep these symbols only, such as m2,l1; numbers elsewhere.")
    ] = None,
    lock: Annotated[
        list[str] | None,
        typer.Option(help="Lock a joint, at a value if JOINT=VALUE; may be repeated."),
    ] = None,
    passive: Annotated[
        list[str] | None, typer.Option(help="A joint without motor; may be repeated.")
    ] = None,
    states: Annotated[int, typer.Option(min=1, help="Random states of the proof.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random states.")] = 0,
    file: Annotated[Path | None, typer.Option("--out", help="Write to this file.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Derive the equations of motion by Euler–Lagrange; exit code 1 if their proof fails."""
    with errors_as_messages():
        # SymPy takes half a second to import
        from qddot.analysis import lagrange

        check_outputs(force, file)
        loaded = load_robot(robot, base, couplings, strict, trust)
        # each joint to lock is given as JOINT or JOINT=VALUE
        for text in lock or []:
            name, equals, value = text.partition("=")
            try:
                loaded = loaded.without_joint(name, float(value) if equals else None)
            except ValueError as error:
                raise InvalidArgument("--lock", text, "it is JOINT or JOINT=VALUE") from error
        kept = None if symbols is None else [s for s in symbols.replace(",", " ").split() if s]
        with progress_bar() as on_step:
            form = lagrange.derive(
                loaded, numbers=numbers, symbols=kept, passive=passive or [], on_step=on_step
            )
        if lock:
            form = dataclasses.replace(form, notes=(f"locked: {', '.join(lock)}", *form.notes))
        proof = lagrange.prove(form, states, seed)
        text = lagrange.write(form, proof, format.value) if file or not as_json else ""
        if file:
            write_output(file, text, force)
    if as_json:
        print_json(lagrange.as_data(form, proof))
    elif file:
        verdict = ("passed", "green") if proof.holds else ("FAILED", "red")
        out.print(style_text("proof ", verdict, f", largest difference {proof.largest:.1e}"))
    else:
        print_text(text)
    print_written(as_json, file)
    raise typer.Exit(0 if proof.holds else 1)
