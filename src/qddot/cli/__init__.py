"""The command line: the only package that prints and sets exit codes; one file a command.

Exit codes: 0 all well, 1 a check failed, 2 the input could not be used or the output not be
written; 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from qddot import __version__
from qddot.cli.encoding import prepare_streams
from qddot.cli.terminal import failures_as_messages, out
from qddot.errors import CannotWrite

__all__ = ["app", "main"]

_COMMANDS = {
    "robots": "info",
    "info": "info",
    "check": "check",
    "audit": "audit",
    "compare": "compare",
    "convert": "convert",
    "derive": "derive",
    "export": "export",
    "size": "size",
    "integrators": "integrators",
    "simulate": "simulate",
    "view": "view",
    "bench": "bench",
    "cache": "cache",
}
"""The commands in the order of the help, each with the module that has a function of its name."""


class _Commands(TyperGroup):
    """Commands whose modules are imported when they are asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(_COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None if there is none."""
        if cmd_name not in _COMMANDS:
            return None
        if self.commands[cmd_name] is None:
            module = importlib.import_module(f"qddot.cli.{_COMMANDS[cmd_name]}")
            self.commands[cmd_name] = _command(cmd_name, getattr(module, cmd_name))
        return self.commands[cmd_name]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Typer sees neither interrupts nor streams that fail."""
        with failures_as_messages():
            return super().invoke(ctx)

    def main(self, *args: Any, **options: Any) -> Any:
        """Parse and run; help and messages of Typer may fail to be written too."""
        with failures_as_messages():
            return super().main(*args, **options)


def _command(name: str, made: Any) -> Any:
    """A function, or a group of commands, as a command."""
    if not isinstance(made, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name)(made)
        return typer.main.get_command(alone)
    group = typer.main.get_command(made)
    group.name = name
    return group


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"qddot {__version__}")
        raise typer.Exit


def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Robot dynamics: every term of M q̈ + C q̇ + g = τ, and proof that they are right."""


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.callback()(_options)


def main() -> None:
    """Entry point of the `qddot` command."""
    closed = sys.stdout is None
    prepare_streams()
    if closed:
        with failures_as_messages():
            reason = "it is closed; send it to /dev/null to do without"
            raise CannotWrite("the standard output", reason)
    app()
