"""The command line: the only module that prints and sets exit codes.

Exit codes: 0 all well, 1 a check failed, 2 the input could not be used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from qddot import __version__
from qddot import bench as benchmarks
from qddot.algorithms.catalogue import function as catalogue_function
from qddot.compile.cache import Cache
from qddot.errors import NotUnderstood, QddotError
from qddot.export import ExportC, FunctionRequest, export_c
from qddot.loaders import robot_names
from qddot.model import WORLD, Model
from qddot.parts import Finding
from qddot.robot import Robot, load
from qddot.verify import Check, invariants, sample

__all__ = ["main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_WIDE = 160


def _width(stream: TextIO) -> int | None:
    """The width of a terminal; wide for pipes and files, so that tables cut no words."""
    return None if stream.isatty() else _WIDE


_out = Console(width=_width(sys.stdout))
_err = Console(stderr=True, width=_width(sys.stderr))
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


class BaseChoice(str, Enum):
    """How the root link stands."""

    fixed = "fixed"
    free = "free"


class CouplingsChoice(str, Enum):
    """What becomes of mimic joints."""

    exact = "exact"
    free = "free"


class DtypeChoice(str, Enum):
    """The numbers that C code computes with."""

    float64 = "float64"
    float32 = "float32"


class ReferenceChoice(str, Enum):
    """From where the motion of a frame is seen."""

    local = "local"
    world = "world"
    local_world_aligned = "local_world_aligned"


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


def _print_version(asked: bool) -> None:
    if asked:
        _out.print(f"qddot {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Robot dynamics: every term of M q̈ + C q̇ + g = τ, and proof that they are right."""


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
    _out.print(_structure(m))
    for loop in m.loops:
        _out.print(f"loop {loop.name!r}: {loop.frame1} and {loop.frame2} share a {loop.kind}")
    if m.configurations:
        _out.print(f"named configurations: {', '.join(m.configurations)}", highlight=False)
    names = ", ".join(f.name for f in m.frames)
    _out.print(f"frames: {names}", highlight=False, markup=False)


def _structure(m: Model) -> Table:
    """A row a body; columns in which no body has anything are left out."""
    heads = ("joint", "kind", "from → to", "mass, kg", "range", "effort", "drivetrain")
    rows = []
    for b in m.bodies:
        joint, limits = b.joint, b.joint.limits
        kind = joint.kind.name
        if joint.leader is not None:
            offset = f" {joint.offset:+g}" if joint.offset else ""
            kind += f" = {joint.ratio:g} · {joint.leader}{offset}"
        elif joint.offset:
            kind += f", ref {-joint.offset:g}"
        bounded = limits.lower > -math.inf or limits.upper < math.inf
        parent = m.bodies[b.parent].name if b.parent != WORLD else "world"
        rows.append(
            (
                joint.name,
                kind,
                f"{parent} → {b.name}",
                f"{b.inertia.mass:.4g}",
                f"{limits.lower:.4g} … {limits.upper:.4g}" if bounded else "",
                f"{limits.effort:.4g}" if limits.effort < math.inf else "",
                _drivetrain(joint.drivetrain),
            )
        )
    shown = [k for k in range(len(heads)) if any(row[k] for row in rows)]
    table = Table()
    for k in shown:
        table.add_column(heads[k], overflow="fold")
    for row in rows:
        table.add_row(*(row[k] for k in shown))
    return table


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
    _print_findings(robot.health)


def _print_findings(findings: Sequence[Finding]) -> None:
    for f in findings:
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
        health = [dataclasses.asdict(f) for f in loaded.health]
        _print_json({**summary, "checks": rows, "health": health})
    else:
        _print_checks(loaded, results, states, seed)
    raise typer.Exit(0 if passed else 1)


def _progress() -> Progress:
    """A progress bar on a terminal, nothing elsewhere."""
    return Progress(console=_err, transient=True, disable=not _err.is_terminal)


def _measure(robot: Robot, states: int, seed: int) -> list[Check]:
    at, measures = sample(robot, states, seed), list(invariants())
    results = []
    with _progress() as progress:
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
        bound = "" if r.name == "health" else f"{sense} {r.bound:.0e}"
        shown = ("", "") if r.passed is None else (f"{r.measured:.2g}", bound)
        table.add_row(r.name, r.claim, *shown, verdicts[r.passed])
    _out.print(table)
    for r in results:
        if r.detail and r.passed is not True:
            _out.print(f"[red]{r.name}[/]: {r.detail}", highlight=False)
    _print_findings([f for f in robot.health if f.severity == "warning"])


_EXPORTED = ["inverse_dynamics", "forward_dynamics", "mass_matrix"]


@app.command()
def export(
    robot: RobotArgument = "ur5e",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    functions: Annotated[
        list[str] | None, typer.Option("--function", help="A function; may be repeated.")
    ] = None,
    frames: Annotated[
        list[str] | None,
        typer.Option("--frame", help="Where functions of a frame look; may be repeated."),
    ] = None,
    reference: Annotated[
        ReferenceChoice | None, typer.Option(help="From where the motion of a frame is seen.")
    ] = None,
    friction: Annotated[bool, typer.Option("--friction", help="With losses and springs.")] = False,
    dtype: Annotated[DtypeChoice, typer.Option(help="Numbers of the C code.")] = (
        DtypeChoice.float64
    ),
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("export"),
    as_json: JsonOption = False,
) -> None:
    """Write functions of a robot as C99 with header, tests and the accuracy of float32."""
    with _errors_as_messages(), _err.status("tracing and measuring"):
        loaded = _load(robot, base, couplings, strict)
        given = {"reference": reference and reference.value, "friction": friction}
        requests = _requests(functions or _EXPORTED, frames or [], given)
        result = export_c(loaded, requests, out, dtype.value)
    if as_json:
        _print_json({**dataclasses.asdict(result), "folder": str(result.folder)})
    else:
        _print_export(result)


def _requests(names: list[str], frames: list[str], given: dict[str, Any]) -> list[FunctionRequest]:
    """Functions with the options that each of them takes; one for each frame."""
    requests: list[FunctionRequest] = []
    taken: set[str] = set()
    for name in names:
        rows = catalogue_function(name).options
        known = {o.name for o in rows}
        needed = [f"--{o.name}" for o in rows if o.default is Parameter.empty]
        absent = [o for o in needed if not (frames if o == "--frame" else given[o[2:]])]
        if absent:
            raise NotUnderstood("--function", name, f"it needs {' and '.join(absent)}")
        options = {k: v for k, v in given.items() if v and k in known}
        places = [{"frame": frame} for frame in frames] if "frame" in known and frames else [{}]
        requests += [(name, {**place, **options}) for place in places]
        taken |= known
    for option, value in {"frame": frames, **given}.items():
        if value and option not in taken:
            accepted = f"none of {', '.join(names)} takes a {option}"
            raise NotUnderstood(f"--{option}", value, accepted)
    return requests


def _print_export(result: ExportC) -> None:
    single = result.dtype == "float32"
    measured = f"float32 against float64, {result.states} random states"
    title = f"{result.robot}: {measured if single else 'float64'}"
    errors = ("largest relative error", "rms") if single else ()
    table = Table("function", "output", "operations", *errors, "accepted by the test", title=title)
    for r in result.accuracy:
        figures = (r.largest, r.rms, r.tolerance) if single else (r.tolerance,)
        table.add_row(r.function, r.output, str(r.operations), *(f"{x:.1e}" for x in figures))
    _out.print(table)
    _out.print(f"{result.folder}: {', '.join(result.files)}", highlight=False, soft_wrap=True)


@app.command()
def bench(
    robots: Annotated[
        list[str] | None,
        typer.Argument(help="ur5, panda, anymal, talos, g1, or any other file or name; all five."),
    ] = None,
    function: Annotated[
        list[str] | None, typer.Option(help="A function of the catalogue; again for several.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="UR5 and Talos, in a minute.")] = False,
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
    with _errors_as_messages():
        data = benchmarks.read_figures(figures) if figures else _bench(robots, function, quick)
        if json_file:
            benchmarks.write_figures(data, json_file)
        if page:
            page.write_text(benchmarks.page(data))
        _print_bench(data)
        if plot:
            benchmarks.plot(data, plot)
    for line in benchmarks.disagreements(data):
        _err.print(f"[red]DISAGREES[/] {line}", highlight=False, soft_wrap=True)
    raise typer.Exit(1 if benchmarks.disagreements(data) else 0)


def _bench(robots: list[str] | None, functions: list[str] | None, quick: bool) -> dict[str, Any]:
    plan = benchmarks.Plan(
        tuple(robots or (benchmarks.QUICK_ROBOTS if quick else benchmarks.SUITE)),
        tuple(functions or (benchmarks.QUICK_FUNCTIONS if quick else benchmarks.FUNCTIONS)),
        benchmarks.QUICK if quick else benchmarks.FULL,
    )
    with _progress() as progress:
        task = progress.add_task("")

        def on_step(name: str, done: int, of: int) -> None:
            progress.update(task, description=name, completed=done, total=of)

        return benchmarks.benchmark(plan, on_step)


def _print_bench(data: dict[str, Any]) -> None:
    for sheet in benchmarks.sheets(data):
        table = Table(*sheet.columns, title=sheet.title, caption=sheet.text)
        for row in sheet.rows:
            table.add_row(*row)
        _out.print(table)


cache_app = typer.Typer(help="Compiled functions kept on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


@cache_app.command("info")
def cache_info(as_json: JsonOption = False) -> None:
    """Show where compiled functions are kept, how many, and how large they are."""
    cache = Cache()
    files, size = len(cache.entries()), cache.size()
    if as_json:
        _print_json({"folder": str(cache.folder), "files": files, "bytes": size})
    else:
        room = f"{size / 2**20:.1f} of at most {cache.most_bytes / 2**20:.0f} MiB"
        _out.print(f"{cache.folder}: {files} functions, {room}", highlight=False)


@cache_app.command("clear")
def cache_clear(as_json: JsonOption = False) -> None:
    """Remove all compiled functions; they are compiled again when needed."""
    removed = Cache().clear()
    if as_json:
        _print_json({"removed": removed})
    else:
        _out.print(f"removed {removed} files")


def main() -> None:
    """Entry point of the `qddot` command."""
    app()
