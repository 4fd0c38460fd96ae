"""`qddot export`: functions of a robot as C99."""

from __future__ import annotations

import dataclasses
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot.algorithms.catalogue import function as catalogue_function
from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    TrustOption,
    err,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    print_written,
)
from qddot.errors import InvalidArgument
from qddot.export.export_c import FunctionRequest, export_c

__all__ = ["export"]


class _Dtype(str, Enum):
    """The numbers that C code computes with."""

    float64 = "float64"
    float32 = "float32"


class _Reference(str, Enum):
    """From where the motion of a frame is seen."""

    local = "local"
    world = "world"
    local_world_aligned = "local_world_aligned"


_EXPORTED = ["inverse_dynamics", "forward_dynamics", "mass_matrix"]


def export(
    robot: RobotArgument = "ur5e",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    functions: Annotated[
        list[str] | None,
        typer.Option("--function", "--functions", help="One, or several: a,b; may be repeated."),
    ] = None,
    frames: Annotated[
        list[str] | None,
        typer.Option("--frame", help="Where functions of a frame look; may be repeated."),
    ] = None,
    reference: Annotated[
        _Reference | None, typer.Option(help="From where the motion of a frame is seen.")
    ] = None,
    friction: Annotated[
        bool, typer.Option("--friction", help="With joint friction, springs.")
    ] = False,
    dtype: Annotated[_Dtype, typer.Option(help="Numbers of the C code.")] = (_Dtype.float64),
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("export"),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write functions of a robot as C99 with header, tests and the accuracy of float32."""
    with errors_as_messages(), err.status("tracing and measuring"):
        loaded = load_robot(robot, base, couplings, strict, trust)
        given = {"reference": reference and reference.value, "friction": friction}
        names = [name for text in functions or _EXPORTED for name in text.split(",")]
        requests = _function_requests(names, frames or [], given)
        result = export_c(loaded, requests, folder, dtype.value, overwrite=force)
    if as_json:
        print_json({**dataclasses.asdict(result), "folder": str(result.folder)})
    else:
        single = result.dtype == "float32"
        measured = f"float32 against float64, {result.states} random states"
        title = f"{result.robot}: {measured if single else 'float64'}"
        errors = ("largest relative error", "rms") if single else ()
        table = Table(
            "function", "output", "operations", *errors, "accepted by the test", title=title
        )
        for r in result.accuracy:
            numbers = (r.largest, r.rms, r.tolerance) if single else (r.tolerance,)
            table.add_row(r.function, r.output, str(r.operations), *(f"{x:.1e}" for x in numbers))
        out.print(table)
    print_written(as_json, *(result.folder / name for name in result.files))


def _function_requests(
    names: list[str], frames: list[str], given: dict[str, Any]
) -> list[FunctionRequest]:
    """Functions with the options that each of them takes; one for each frame."""
    requests: list[FunctionRequest] = []
    taken: set[str] = set()
    for name in names:
        rows = catalogue_function(name).options
        known = {o.name for o in rows}
        needed = [f"--{o.name}" for o in rows if o.default is Parameter.empty]
        absent = [o for o in needed if not (frames if o == "--frame" else given[o[2:]])]
        if absent:
            raise InvalidArgument("--function", name, f"it needs {' and '.join(absent)}")
        options = {k: v for k, v in given.items() if v and k in known}
        places = [{"frame": frame} for frame in frames] if "frame" in known and frames else [{}]
        requests += [(name, {**place, **options}) for place in places]
        taken |= known
    for option, value in {"frame": frames, **given}.items():
        if value and option not in taken:
            accepted = f"none of {', '.join(names)} takes a {option}"
            raise InvalidArgument(f"--{option}", value, accepted)
    return requests
