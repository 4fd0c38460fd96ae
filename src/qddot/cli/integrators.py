"""`qddot integrators`: which integrator and step for this robot?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    progress_bar,
)
from qddot.simulate import certificate
from qddot.simulate.certificate import DURATION, USES, Certificate, Measured

__all__ = ["integrators"]


def integrators(
    robot: RobotArgument = "ur5e",
    dt: Annotated[float, typer.Option(help="Step of the free swing, s.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the states it starts from.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the measurements into this file.")] = None,
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the integrators on a robot, and say which to take for what."""
    with errors_as_messages():
        loaded = load_robot(robot, base, couplings, strict)
        with progress_bar() as on_step:
            found = certificate.certify(loaded, dt, seed=seed, on_step=on_step)
        if plot:
            certificate.plot(found, plot)
    if as_json:
        print_json(found.summary())
        return
    _print(found)
    if loaded.model.loops:
        out.print("[cyan]note[/] loop closures are open: the tree swings", highlight=False)
    if plot:
        out.print(f"drawn into {plot}", highlight=False)


def _print(found: Certificate) -> None:
    mode = (
        f"fastest mode about rest {found.frequency:.4g} rad/s, 2/ω_n = {_time(found.limit)}"
        if found.frequency
        else "floats: no gravity, no oscillation about rest"
        if found.floating
        else "no oscillation about rest"
    )
    out.print(f"[bold]{found.robot}[/]: {mode}", highlight=False, soft_wrap=True)
    out.print(_measurements(found))
    out.print(_choices(found))


def _measurements(found: Certificate) -> Table:
    table = Table(
        *("integrator", "order", "observed", "energy error", "energy", "a second"),
        *(("momentum error",) if found.floating else ()),
        *(("longest stable Δt", "× ω_n") if found.frequency else ()),
        "ns a step",
        title=f"free swing of {DURATION:g} s without losses, Δt = {_time(found.dt)}; "
        "energy as a share of the peak kinetic energy",
    )
    for row in found.rows:
        table.add_row(
            *(row.name, f"{row.order}", _number(row.observed, ".2f"), _number(row.drift, ".1e")),
            *(row.behaviour, _percent(row.trend)),
            *((_number(row.momentum, ".1e"),) if found.floating else ()),
            *(_stability(row, found.frequency) if found.frequency else ()),
            f"{1e9 * row.cost:,.0f}",
        )
    return table


def _stability(row: Measured, frequency: float) -> tuple[str, str]:
    if row.stable == 0.0:
        return "none: grows", ""
    if row.stable == math.inf:
        return "no limit", ""
    return _time(row.stable), f"{row.stable * frequency:.2f}"


def _choices(found: Certificate) -> Table:
    bounds = {use.name: use.error for use in USES}
    table = Table(
        *("use", "error allowed", "integrator", "Δt", "expected error", "× real time"),
        title="least computing time for the error of a use (rad or m after half a second)",
    )
    for x in found.recommendations:
        table.add_row(
            *(x.use, f"{bounds[x.use]:.0e}", f"[bold]{x.integrator}[/]", _time(x.dt)),
            *(f"{x.error:.0e}", f"{1.0 / x.seconds:,.0f}"),
        )
    return table


def _number(x: float, form: str) -> str:
    return format(x, form) if math.isfinite(x) else "—"


def _percent(x: float) -> str:
    return f"{100.0 * x:+.1e} %" if math.isfinite(x) else "—"


def _time(x: float) -> str:
    if x < 1e-3:
        return f"{1e6 * x:.3g} µs"
    return f"{1e3 * x:.3g} ms" if x < 1.0 else f"{x:.3g} s"
