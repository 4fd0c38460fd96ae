"""Shared by the commands: terminals, common options, loading, messages, JSON, files, progress.

Text given to `out` and `err` is data: it has no markup, and control characters in it are shown as
escapes. Colours are given apart, with `style_text`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.text import Text

from qddot.cli.encoding import spell
from qddot.cli.parameters import INPUT, OUTPUT, RESULT, TRUST
from qddot.display.progress import OnStep
from qddot.errors import CannotWrite, QddotError
from qddot.files import check_target, fill_whole, write_whole
from qddot.loaders.load import locate_source, try_file
from qddot.model.links import Finding
from qddot.robot.robot import Robot, load

__all__ = [
    "VERDICT_STYLES",
    "BaseChoice",
    "BaseOption",
    "CouplingsChoice",
    "CouplingsOption",
    "ForceOption",
    "JsonOption",
    "RobotArgument",
    "SeedOption",
    "StatesOption",
    "StrictOption",
    "TrustOption",
    "check_outputs",
    "err",
    "errors_as_messages",
    "failures_as_messages",
    "load_robot",
    "out",
    "print_findings",
    "print_json",
    "print_text",
    "print_written",
    "printable",
    "progress_bar",
    "style_text",
    "try_source",
    "warnings_as_notes",
    "write_output",
]

VERDICT_STYLES = {"RIGHT": "green", "DOUBTFUL": "yellow", "WRONG": "bold red"}
"""Styles of the words of a verdict on a file."""

_WIDE = 160
# exit codes of a shell for SIGINT and SIGPIPE
_INTERRUPTED, _NO_READER = 130, 141
# control characters but tab and newline, separators, changes of direction, lone surrogates
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text with control characters as escapes, such as \x1b."""
    return _UNPRINTABLE.sub(
        lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n")
    )


def style_text(*parts: str | tuple[str, str]) -> Text:
    """Text of parts, plain or with a style, as in `style_text(("error:", "red"), " no file")`."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((printable(text), style) for text, style in pairs))


class _Terminal(Console):
    """A console that takes text for data; what it cannot write is an error of ours."""

    def __init__(self, stream: TextIO | None, stderr: bool = False) -> None:
        # pipes and files are wide, so that tables cut no words
        width = None if stream is not None and stream.isatty() else _WIDE
        super().__init__(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as text without control characters, as wide as it will be in the stream."""
        return super().render_str(spell(printable(text), self.encoding), **options)

    def on_broken_pipe(self) -> None:
        """Leave a reader that has gone to `print`."""
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects with a space between; messages that nobody can read are dropped."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            # rich keeps text that it could not write, and would write it again
            self.quiet = True
            super().print()
            self.quiet = False
            if not self.stderr:
                raise _output_error(error) from error


out = _Terminal(sys.stdout)
err = _Terminal(sys.stderr, stderr=True)
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


class BaseChoice(str, Enum):
    """The joint between the world and the root link."""

    fixed = "fixed"
    free = "free"


class CouplingsChoice(str, Enum):
    """The treatment of mimic joints."""

    exact = "exact"
    free = "free"


RobotArgument = Annotated[
    str,
    typer.Argument(help="A file (.urdf .xacro .xml .sdf) or a name; see `qddot robots`."),
    INPUT,
]
BaseOption = Annotated[
    BaseChoice | None,
    typer.Option(help="Fix or free the root link; as the file says by default."),
    RESULT,
]
CouplingsOption = Annotated[
    CouplingsChoice, typer.Option(help="Mimic joints: exact followers, or independent."), RESULT
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Refuse an impossible inertia."), RESULT
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Let a xacro file run its code; for files of your own."),
    TRUST,
]
StatesOption = Annotated[int, typer.Option(min=1, help="How many random states."), RESULT]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the random states."), RESULT]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines."), OUTPUT]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite files that exist."), OUTPUT]


_OPTION_WORDS = {
    r"columns=\{'q': …, 'tau': …\}": "--column q=… --column tau=…",
    r"^columns: (\w+)": r"--column \1",
    r"^units: (\w+)": r"--unit \1",
    r"fit\(method=\"feasible\"\)": "--method feasible",
    r"\bmethod=\"feasible\"": "--method feasible",
    r"\b(rate|gear)=(?!\S)": r"--\1",
    r"\btorque_constant=(?=,)": "--torque-constant",
}
"""Arguments in messages of the library, and the options of the commands that stand for them."""


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Errors of the input as one line, in options of the command line, and exit code 2."""
    try:
        yield
    except QddotError as error:
        message = str(error)
        for argument, option in _OPTION_WORDS.items():
            message = re.sub(argument, option, message)
        _print_error(message)
        raise typer.Exit(2) from error


@contextmanager
def failures_as_messages() -> Iterator[None]:
    """One line and an exit code where streams fail or the user interrupts, never a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("\ninterrupted" if err.is_terminal else "interrupted")
        raise SystemExit(_INTERRUPTED) from None
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(_NO_READER) from None
    except (QddotError, OSError) as error:
        _print_error(str(error if isinstance(error, QddotError) else _output_error(error)))
        raise SystemExit(2) from error


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings of the library as notes on stderr, without the line of code that they come from."""

    def show(message: Warning | str, *place: Any, **options: Any) -> None:
        err.print(style_text(("note:", "yellow"), f" {message}"), soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _print_error(message: str) -> None:
    err.print(style_text(("error:", "red"), f" {message}"), soft_wrap=True)


def _output_error(error: OSError) -> Exception:
    """The error of a stream that fails; that of a reader who has gone is left as it is."""
    if error.filename is not None or isinstance(error, BrokenPipeError):
        return error
    _discard_output()
    return CannotWrite("the standard output", error.strerror or str(error))


def _discard_output() -> None:
    """Send what is still to be printed nowhere, so that Python does not fail at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def load_robot(
    source: str,
    base: BaseChoice | None,
    couplings: CouplingsChoice,
    strict: bool,
    trust: bool = False,
) -> Robot:
    """The robot, with load warnings left to the health that every command shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(
            source,
            base.value if base else None,
            couplings.value,
            strict,
            trust=trust,
            isolate=True,
        )


def try_source(source: str | Path, trust: bool = False) -> None:
    """Read a file in a child process first, if its parser may crash, as `load_robot` does."""
    try_file(locate_source(source), trust)


def print_text(text: str) -> None:
    """Text on stdout as it is, but for control characters."""
    try:
        sys.stdout.write(printable(text))
        sys.stdout.flush()
    except OSError as error:
        raise _output_error(error) from error


def print_json(value: Any) -> None:
    """JSON on stdout; numbers that JSON has no word for become null."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return [plain(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    text = json.dumps(plain(value), indent=2, ensure_ascii=not out.encoding.startswith("utf"))
    print_text(_UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_findings(findings: Sequence[Finding]) -> None:
    """A line a finding, coloured by severity."""
    for f in findings:
        out.print(style_text((f.severity, _COLOURS[f.severity]), f" {f.subject}: {f.message}"))


def check_outputs(force: bool, *files: Path | None) -> None:
    """Refuse files that exist or are named twice, before anything is computed for them."""
    targets = [check_target(file, force) for file in files if file is not None]
    for k, target in enumerate(targets):
        if target in targets[:k]:
            raise CannotWrite(target, "it is named twice")


def write_output(file: Path, content: str | Callable[[Path], object], force: bool) -> None:
    """Write a file whole or not at all: a text, or whatever a function writes."""
    if isinstance(content, str):
        write_whole(file, content, force)
        return
    drafts = []

    def fill(draft: Path) -> None:
        drafts.append(draft)
        content(draft)

    try:
        fill_whole(file, fill, force)
    except CannotWrite as error:
        raise CannotWrite(file, error.reason) from error
    except QddotError as error:
        if not any(str(draft) in str(error) for draft in drafts):
            raise
        raise CannotWrite(file, str(error).replace(str(drafts[0]), str(file))) from error


def print_written(as_json: bool, *files: Path | None) -> None:
    """A line for each file that was written; on stderr beside JSON."""
    for file in files:
        if file is not None:
            (err if as_json else out).print(f"wrote {file}", soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[OnStep]:
    """A callback that shows the progress of a task: a bar on a terminal, nothing elsewhere."""
    columns = (TextColumn("{task.description}", markup=False), *Progress.get_default_columns()[1:])
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def on_step(name: str, done: int, of: int) -> None:
            progress.update(task, description=printable(name), completed=done, total=of)

        yield on_step
