"""Options of commands that read a log, and what such commands share."""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from qddot import identify as identification
from qddot.cli.parameters import INPUT, NUMBERS, NUMBERS_OR_FILE, OUTPUT, RESULT, WORDS, one_of
from qddot.cli.terminal import (
    CouplingsChoice,
    errors_as_messages,
    load_robot,
    print_json,
    print_written,
    write_output,
)
from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument
from qddot.identify import Log, Shaft
from qddot.identify.fitting import Method
from qddot.identify.tables import gather_rows, open_table
from qddot.robot.robot import Robot

__all__ = [
    "BandwidthOption",
    "FrictionOption",
    "LogArgument",
    "LogSource",
    "MethodOption",
    "PlotOption",
    "SaveOption",
    "ShaftOption",
    "deliver",
    "load_robot_plainly",
    "parse_numbers",
    "parse_shafts",
    "parse_terms",
    "with_log_options",
]

LogArgument = Annotated[
    Path,
    typer.Argument(help="A log: .csv .parquet .npz .npy .mat .mcap .db3, or a rosbag2 folder."),
    INPUT,
]
TorqueLogOption = Annotated[
    Path | None, typer.Option(help="A second file with the torques, row by row."), INPUT
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Columns of a signal: q=pos_{joint}, tau=cur_{i}, t=0, v=7,8,9. May be repeated.",
    ),
    WORDS,
]
UnitOption = Annotated[
    list[str] | None,
    typer.Option("--unit", help="Unit of a signal: q=deg, tau=A, 'q=motor rad'. May be repeated."),
    WORDS,
]
GearOption = Annotated[
    str | None,
    typer.Option(help="Gear ratios with commas, or a text file with their matrix."),
    NUMBERS_OR_FILE,
]
ConstantOption = Annotated[
    str | None, typer.Option(help="Torque constants in N m/A, one or one a joint."), NUMBERS
]
OffsetOption = Annotated[
    str | None, typer.Option(help="Added to joint positions, rad, one a joint."), NUMBERS
]
RateOption = Annotated[
    float | None, typer.Option(help="Samples a second, where the file has no time."), RESULT
]
BandwidthOption = Annotated[
    float | None,
    typer.Option(help="Hz up to which torques count; by the motion otherwise."),
    RESULT,
]
FrictionOption = Annotated[
    str,
    typer.Option(help=f"auto, or terms with commas: {', '.join(identification.DRIVE_TERMS)}."),
    one_of((*identification.DRIVE_TERMS, "auto")),
]
ShaftOption = Annotated[
    list[str] | None,
    typer.Option("--shaft", help="A shaft that several joints turn: motor6=joint_5,joint_6."),
    WORDS,
]
MethodOption = Annotated[
    str,
    typer.Option(help="ols, wls, robust or feasible."),
    one_of(typing.get_args(Method)),
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", help="Write the result as JSON into this file."), OUTPUT
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw the result into this file."), OUTPUT
]


@dataclass(frozen=True)
class LogSource:
    """How the columns of a log are to be read."""

    torque_log: Path | None = None
    column: list[str] | None = None
    unit: list[str] | None = None
    gear: str | None = None
    torque_constant: str | None = None
    offset: str | None = None
    rate: float | None = None

    def files(self, *given: Path) -> list[Path]:
        """Files that are read: those given, that of torques, and that of a gear matrix."""
        gear = Path(self.gear) if self.gear and Path(self.gear).exists() else None
        asked = [f for f in (*given, self.torque_log, gear) if f is not None]
        # a rosbag2 folder is its files
        return [
            file
            for f in asked
            for file in (sorted(x for x in f.iterdir() if x.is_file()) if f.is_dir() else [f])
        ]

    def read(self, robot: Robot, file: Path, on_step: OnStep | None = None) -> Log:
        """The log of a file, or of one for positions and one for torques."""
        gear: Any = None
        if self.gear is not None:
            there = Path(self.gear)
            gear = _read_matrix(there) if there.exists() else parse_numbers("--gear", self.gear)
        return identification.read(
            file if self.torque_log is None else {"q": file, "tau": self.torque_log},
            robot,
            columns=_pairs("--column", self.column, _columns),
            units=_pairs("--unit", self.unit, str),
            gear=gear,
            torque_constant=self.torque_constant
            and parse_numbers("--torque-constant", self.torque_constant),
            offset=self.offset and parse_numbers("--offset", self.offset),
            rate=self.rate,
            on_step=on_step,
        )


def _read_matrix(file: Path) -> np.ndarray:
    """The numbers of a text file as a matrix, one row as a vector."""
    table = open_table(file)
    return gather_rows(table, range(len(table.names))).squeeze()


def parse_numbers(option: str, text: str) -> list[float]:
    """Numbers between commas."""
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise InvalidArgument(option, text, "it needs numbers with commas between") from None


def _columns(text: str) -> Any:
    parts: list[str | int] = [int(x) if x.isdigit() else x for x in text.split(",")]
    return parts[0] if len(parts) == 1 else parts


def _pairs(option: str, given: list[str] | None, parse: Callable[[str], Any]) -> dict[str, Any]:
    made = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise InvalidArgument(option, text, "it is SIGNAL=VALUE, such as q=pos_{joint}")
        made[key] = parse(value)
    return made


def parse_shafts(given: list[str] | None) -> tuple[Shaft, ...]:
    """Shafts of texts such as motor6=joint_5,joint_6."""
    parsed = _pairs("--shaft", given, lambda text: text.split(","))
    return tuple(Shaft(name, dict.fromkeys(joints, 1.0)) for name, joints in parsed.items())


def parse_terms(text: str) -> Any:
    """Names of drive terms with commas between, or the word auto."""
    return text if text == "auto" else tuple(x for x in text.split(",") if x)


def deliver(
    result: Any,
    show: Callable[[], None],
    as_json: bool,
    save: Path | None,
    force: bool,
    *files: Path | None,
) -> None:
    """Print a result as text or JSON, and keep it if asked to."""
    if save is not None:
        text = json.dumps(result.summary(), indent=2, default=_plain) + "\n"
        with errors_as_messages():
            write_output(save, text, force)
    if as_json:
        print_json(json.loads(json.dumps(result.summary(), default=_plain)))
    else:
        show()
    print_written(as_json, save, *files)


def _plain(x: Any) -> Any:
    """Arrays and NumPy numbers as plain data."""
    return x.tolist() if hasattr(x, "tolist") else str(x)


def load_robot_plainly(name: str) -> Robot:
    """A robot by name or file, as the description has it."""
    return load_robot(name, None, CouplingsChoice.exact, False)


_LOG_OPTIONS: dict[str, Any] = {
    "torque_log": TorqueLogOption,
    "column": ColumnOption,
    "unit": UnitOption,
    "gear": GearOption,
    "torque_constant": ConstantOption,
    "offset": OffsetOption,
    "rate": RateOption,
}


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a parameter `source` as one that has the options of a log instead."""
    hints = typing.get_type_hints(command, include_extras=True)
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "source"]

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        source = LogSource(**{name: arguments.pop(name) for name in _LOG_OPTIONS})
        command(**arguments, source=source)

    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=by_name, annotation=hints[p.name]) for p in own]
    parameters += [
        inspect.Parameter(name, by_name, default=None, annotation=hint)
        for name, hint in _LOG_OPTIONS.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__
    return run
