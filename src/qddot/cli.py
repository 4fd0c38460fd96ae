"""The command line: the only module that prints and sets exit codes.

Exit codes: 0 all well, 1 a check failed, 2 the input could not be used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from qddot.errors import QddotError
from qddot.loaders import robot_names
from qddot.model import WORLD, Model
from qddot.robot import Robot, load
from qddot.verify import Check, invariants, sample

__all__ = ["main"]

app = typer.Typer(
    help="Robot dynamics: every term of M q̈ + C q̇ + g = τ, and proof that they are right.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console()
_err = Console(stderr=True)
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


class BaseChoice(str, Enum):
    """How the root link stands."""

    fixed = "fixed"
    free = "free"


class CouplingsChoice(str, Enum):
    """What becomes of mimic joints."""

    exact = "exact"
    free = "free"


RobotArgument = Annotated[
    str, typer.Argument(help="A file (.urdf .xacro .xml .sdf) or a name; see `qddot robots`.")
]
BaseOption = Annotated[
    BaseChoice | None, typer.Option(help="Fix or free the root link; as the file says by default.")
]
CouplingsOption = Annotated[
    CouplingsChoice, typer.Option(help="Mimic joints: exact followers, or independent.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse an impossible inertia.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Errors of the input as one line and exit code 2."""
    try:
        yield
    except QddotError as error:
        _err.print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error


def _load(source: str, base: BaseChoice | None, couplings: CouplingsChoice, strict: bool) -> Robot:
    """The robot, with load warnings left to the health that every command shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(source, base.value if base else None, couplings.value, strict)


def _print_json(value: Any) -> None:
    """JSON on stdout; numbers that JSON has no word for become null."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return [plain(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


@app.command()
def robots(as_json: JsonOption = False) -> None:
    """List the robots that can be loaded by name."""
    names = robot_names()
    if as_json:
        _print_json(names)
    else:
        _out.print("\n".join(names), highlight=False)


@app.command()
def info(
    robot: RobotArgument = "ur5e",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a robot: structure, mass, degrees of freedom, health."""
    with _errors_as_messages():
        loaded = _load(robot, base, couplings, strict)
        summary = _summary(loaded)
    if as_json:
        _print_json(summary)
        return
    _print_summary(loaded.model)
    _print_health(loaded)


def _summary(robot: Robot) -> dict[str, Any]:
    """Everything `info` shows, as plain data."""
    m = robot.model
    return {
        "name": m.name,
        "mass": m.mass,
        "nq": m.nq,
        "nv": m.nv,
        "gravity": list(m.gravity),
        "bodies": [
            {
                "name": b.name,
                "parent": m.bodies[b.parent].name if b.parent != WORLD else None,
                "joint": b.joint.name,
                "kind": b.joint.kind.name,
                "leader": b.joint.leader,
                "mass": b.inertia.mass,
                "com": list(b.inertia.com),
                "limits": dataclasses.asdict(b.joint.limits),
                "drivetrain": dataclasses.asdict(b.joint.drivetrain),
            }
            for b in m.bodies
        ],
        "frames": [f.name for f in m.frames],
        "loops": [dataclasses.asdict(loop) for loop in m.loops],
        "configurations": {k: list(v) for k, v in m.configurations.items()},
        "health": [dataclasses.asdict(f) for f in robot.health],
    }


def _print_summary(m: Model) -> None:
    base = f"{m.base_inertia.mass:.4g} kg of it fixed to the world"
    _out.print(
        f"[bold]{m.name}[/]: {m.mass:.4g} kg ({base}), {m.nb} moving bodies, "
        f"{m.nv} degrees of freedom (nq = {m.nq}), {len(m.frames)} frames",
        highlight=False,
    )
    table = Table("body", "parent", "joint", "kind", "mass [kg]", "range", "effort", "drivetrain")
    for b in m.bodies:
        joint, limits = b.joint, b.joint.limits
        kind = joint.kind.name
        if joint.leader is not None:
            kind += f" = {joint.ratio:g}·{joint.leader}" + (
                f" {joint.offset:+g}" if joint.offset else ""
            )
        elif joint.offset:
            kind += f", ref {-joint.offset:g}"
        bounded = limits.lower > -math.inf or limits.upper < math.inf
        table.add_row(
            b.name,
            m.bodies[b.parent].name if b.parent != WORLD else "world",
            joint.name,
            kind,
            f"{b.inertia.mass:.4g}",
            f"{limits.lower:.4g} … {limits.upper:.4g}" if bounded else "",
            f"{limits.effort:.4g}" if limits.effort < math.inf else "",
            _drivetrain(b.joint.drivetrain),
        )
    _out.print(table)
    for loop in m.loops:
        _out.print(f"loop {loop.name!r}: {loop.frame1} and {loop.frame2} share a {loop.kind}")
    if m.configurations:
        _out.print(f"named configurations: {', '.join(m.configurations)}")


def _drivetrain(drive: Any) -> str:
    parts = {
        "armature": drive.reflected_inertia,
        "damping": drive.damping,
        "friction": drive.friction,
        "stiffness": drive.stiffness,
    }
    return ", ".join(f"{k} {v:g}" for k, v in parts.items() if v)


def _print_health(robot: Robot) -> None:
    if not robot.health:
        _out.print("[green]health: nothing to report[/]")
    for f in robot.health:
        colour = _COLOURS[f.severity]
        _out.print(f"[{colour}]{f.severity}[/] {f.subject}: {f.message}", highlight=False)


@app.command()
def check(
    robot: RobotArgument = "ur5e",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    states: Annotated[int, typer.Option(min=1, help="How many random states.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random states.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Check the invariants of a robot's dynamics at random states; exit code 1 if one fails."""
    with _errors_as_messages():
        loaded = _load(robot, base, couplings, strict)
        results = _measure(loaded, states, seed)
    passed = all(r.passed is True for r in results)
    if as_json:
        rows = [dataclasses.asdict(r) for r in results]
        summary = {"robot": loaded.name, "states": states, "seed": seed, "passed": passed}
        _print_json({**summary, "checks": rows})
    else:
        _print_checks(loaded, results, states, seed)
    raise typer.Exit(0 if passed else 1)


def _measure(robot: Robot, states: int, seed: int) -> list[Check]:
    at, measures = sample(robot, states, seed), list(invariants())
    results = []
    with Progress(console=_err, transient=True) as progress:
        task = progress.add_task("", total=len(measures))
        for name, measure in measures:
            progress.update(task, description=name)
            results.append(measure(robot, at))
            progress.advance(task)
    return results


def _print_checks(robot: Robot, results: list[Check], states: int, seed: int) -> None:
    table = Table(
        "check",
        "claim",
        "measured",
        "bound",
        "",
        title=f"{robot.name}, {states} states, seed {seed}",
    )
    verdicts = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: "[yellow]NOT EVALUATED[/]"}
    for r in results:
        sense = ">" if r.name == "positive definite" else "<"
        shown = ("", "") if r.passed is None else (f"{r.measured:.2g}", f"{sense} {r.bound:.0e}")
        table.add_row(r.name, r.claim, *shown, verdicts[r.passed])
    _out.print(table)
    for r in results:
        if r.detail and r.passed is not True:
            _out.print(f"[red]{r.name}[/]: {r.detail}", highlight=False)


def main() -> None:
    """Entry point of the `qddot` command."""
    app()
