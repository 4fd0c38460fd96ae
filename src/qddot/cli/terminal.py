"""What the commands share: terminals, common options, loading, messages, JSON, progress."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import Progress

from qddot.errors import QddotError
from qddot.parts import Finding
from qddot.robot import Robot, load

__all__ = [
    "BaseChoice",
    "BaseOption",
    "CouplingsChoice",
    "CouplingsOption",
    "JsonOption",
    "RobotArgument",
    "StrictOption",
    "err",
    "errors_as_messages",
    "load_robot",
    "out",
    "print_findings",
    "print_json",
    "progress_bar",
]

OnStep = Callable[[str, int, int], None]
_WIDE = 160


def _width(stream: TextIO) -> int | None:
    """The width of a terminal; wide for pipes and files, so that tables cut no words."""
    return None if stream.isatty() else _WIDE


out = Console(width=_width(sys.stdout))
err = Console(stderr=True, width=_width(sys.stderr))
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
def errors_as_messages() -> Iterator[None]:
    """Errors of the input as one line and exit code 2."""
    try:
        yield
    except QddotError as error:
        err.print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error


def load_robot(
    source: str, base: BaseChoice | None, couplings: CouplingsChoice, strict: bool
) -> Robot:
    """The robot, with load warnings left to the health that every command shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(source, base.value if base else None, couplings.value, strict)


def print_json(value: Any) -> None:
    """JSON on stdout; numbers that JSON has no word for become null."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return [plain(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def print_findings(findings: Sequence[Finding]) -> None:
    """A line a finding, coloured by severity."""
    for f in findings:
        colour = _COLOURS[f.severity]
        out.print(f"[{colour}]{f.severity}[/] {f.subject}: {f.message}", highlight=False)


@contextmanager
def progress_bar() -> Iterator[OnStep]:
    """What shows how far a task has come, step by step: a bar on a terminal, nothing elsewhere."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def on_step(name: str, done: int, of: int) -> None:
            progress.update(task, description=name, completed=done, total=of)

        yield on_step
