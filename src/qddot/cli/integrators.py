"""`qddot integrators`: which integrator and step for this robot?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

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
    print_written,
    progress_bar,
    style_text,
    write_output,
)
from qddot.errors import InvalidArgument
from qddot.simulate import certificate
from qddot.simulate.certificate import DURATION, STATES, USES, Certificate
from qddot.simulate.file_physics import PHYSICS
from qddot.simulate.store import load_trajectory

__all__ = ["integrators"]


def integrators(
    robot: RobotArgument = "ur5e",
    dt: Annotated[float, typer.Option(help="Step of the free swing, s.")] = 1e-3,
    without: Annotated[
        str,
        typer.Option(
            help=f"Physics of the file to leave out, with commas between: {', '.join(PHYSICS)}, "
            "passive; or nothing, in quotes. Impacts at limits make small errors unreachable."
        ),
    ] = "limits",
    trajectory: Annotated[
        Path | None,
        typer.Option(help="Test from the states of this .npz (q, v), not from random ones."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the states it starts from.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the measurements into this file.")] = None,
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the integrators on a robot, and recommend one for each use.

    Exit code 1 if there is none for a use.
    """
    with errors_as_messages():
        check_outputs(force, plot)
        loaded = load_robot(robot, base, couplings, strict, trust)
        words = tuple(word.strip() for word in without.split(",") if word.strip())
        states: dict[str, Any] = {}
        if trajectory is not None:
            # states of a motion or of batches of them, one after the other
            arrays = load_trajectory(trajectory)
            if not {"q", "v"} <= set(arrays):
                accepted = f"it needs arrays q and v; it has {', '.join(arrays) or 'none'}"
                raise InvalidArgument("--trajectory", str(trajectory), accepted)
            sizes = {"q": loaded.nq, "v": loaded.nv}
            shapes = {name: arrays[name].shape for name in sizes}
            fits = all(shapes[name] and shapes[name][-1] == n for name, n in sizes.items())
            if not fits or shapes["q"][:-1] != shapes["v"][:-1] or not arrays["q"].size:
                accepted = f"{loaded.name!r} has q (…, {loaded.nq}) and v (…, {loaded.nv})"
                raise InvalidArgument("--trajectory", shapes, accepted)
            rows = {name: arrays[name].reshape(-1, n) for name, n in sizes.items()}
            # evenly spaced, as many as there would be random ones
            chosen = np.unique(np.linspace(0, len(rows["q"]) - 1, STATES).round().astype(int))
            states = {name: x[chosen] for name, x in rows.items()}
        with progress_bar() as on_step:
            found = certificate.certify(
                loaded, dt, without=words, seed=seed, on_step=on_step, **states
            )
        if plot:
            write_output(plot, lambda draft: certificate.plot(found, draft), force)
    if as_json:
        print_json(found.summary())
    else:
        _print_certificate(found)
        if loaded.model.loops:
            out.print(style_text(("note", "cyan"), " loops are left out: this is the open tree"))
    print_written(as_json, plot)
    raise typer.Exit(1 if found.unmet else 0)


def _print_certificate(found: Certificate) -> None:
    mode = (
        f"fastest mode about rest {found.frequency:.4g} rad/s, 2/ω_n = {_format_time(found.limit)}"
        if found.frequency
        else "floats: no gravity, no oscillation about rest"
        if found.floating
        else "no oscillation about rest"
    )
    out.print(style_text((found.robot, "bold"), f": {mode}"), soft_wrap=True)
    table = Table(
        "integrator",
        "order",
        "observed",
        "energy error",
        "energy",
        "a second",
        *(("momentum error",) if found.floating else ()),
        *(("longest stable Δt", "× ω_n") if found.frequency else ()),
        "ns a step",
        title=f"free swing of {DURATION:g} s without friction, Δt = {_format_time(found.dt)}; "
        "energy as a share of the peak kinetic energy",
    )
    for row in found.rows:
        stable = (_format_time(row.stable), f"{row.stable * found.frequency:.2f}")
        if row.stable in (0.0, math.inf):
            stable = ("no limit" if row.stable else "none: grows", "")
        table.add_row(
            row.name,
            f"{row.order}",
            _format_number(row.observed, ".2f"),
            _format_number(row.drift, ".1e"),
            row.behaviour,
            f"{100.0 * row.trend:+.1e} %" if math.isfinite(row.trend) else "—",
            *((_format_number(row.momentum, ".1e"),) if found.floating else ()),
            *(stable if found.frequency else ()),
            f"{1e9 * row.cost:,.0f}",
        )
    out.print(table)
    _print_recommendations(found)


def _print_recommendations(found: Certificate) -> None:
    bounds = {use.name: use.error for use in USES}
    table = Table(
        "use",
        "error allowed",
        "integrator",
        "Δt",
        "largest error",
        "× real time",
        title="least computing time for the error of a use (rad or m within half a second)",
    )
    for x in found.recommendations:
        table.add_row(
            x.use,
            f"{bounds[x.use]:.0e}",
            style_text((x.integrator, "bold")),
            _format_time(x.dt),
            f"{x.error:.0e}",
            f"{1.0 / x.seconds:,.0f}",
        )
    for use in found.unmet:
        table.add_row(use, f"{bounds[use]:.0e}", style_text(("none is accurate and stable", "red")))
    out.print(table)
    kind = "random states over the range of the joints, with speeds" if found.random else "states"
    left_out = ", ".join(found.without) or "nothing"
    out.print(
        f"errors are the largest of {found.states} {kind}; left out of the file's physics: "
        f"{left_out}; error of the reference {found.uncertainty:.0e}",
        soft_wrap=True,
    )


def _format_number(x: float, form: str) -> str:
    return format(x, form) if math.isfinite(x) else "—"


def _format_time(x: float) -> str:
    if x < 1e-3:
        return f"{1e6 * x:.3g} µs"
    return f"{1e3 * x:.3g} ms" if x < 1.0 else f"{x:.3g} s"
