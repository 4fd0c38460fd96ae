"""The command line: the only package that prints results and sets exit codes; one file a command.

Exit codes: 0 all well, 1 a check failed, 2 the input could not be used or the output not be
written; 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from qddot import __version__
from qddot.cli.encoding import prepare_streams
from qddot.cli.terminal import failures_as_messages, out, style_text, warnings_as_notes
from qddot.errors import CannotWrite

__all__ = ["app", "main"]

_COMMANDS = {
    "robots": ("info", "List the robots that can be loaded by name."),
    "info": ("info", "Show a robot: structure, mass, degrees of freedom, health."),
    "view": (
        "view",
        "See a robot in the browser: move it, drag its tool, watch torques, play motions.",
    ),
    "check": (
        "check",
        "Check the invariants of a robot's dynamics at random states; exit code 1 if one fails.",
    ),
    "audit": (
        "audit",
        "Test what may be wrong with the inertias and drivetrains of a file, or of all in a "
        "folder.",
    ),
    "compare": (
        "compare",
        "Compare a robot in several engines, or two files of one robot, and name the first cause.",
    ),
    "convert": (
        "convert",
        "Write a robot as URDF or MJCF, and prove that what is read back is the same robot.",
    ),
    "derive": (
        "derive",
        "Derive the equations of motion by Euler–Lagrange; exit code 1 if their proof fails.",
    ),
    "export": (
        "export",
        "Write functions of a robot as C99 with header, tests and the accuracy of float32.",
    ),
    "torques": (
        "torques",
        "Torques that a motion needs, against the limits; exit code 1 if one is not kept.",
    ),
    "size": (
        "size",
        "Say whether a payload fits a robot; exit code 1 if a joint is over its rating.",
    ),
    "integrators": (
        "integrators",
        "Measure the integrators on a robot, and recommend one for each use.",
    ),
    "simulate": (
        "simulate",
        "Step a robot in time and give an account of it; exit code 1 if something went wrong.",
    ),
    "identify": (
        "identify",
        "Logs: what is wrong in them, what they tell of a robot, and how to record better ones.",
    ),
    "doctor": (
        "doctor",
        "Name causes with evidence, confidence and fix; exit code 1 if something is wrong.",
    ),
    "pipeline": (
        "pipeline",
        "Take a robot from its description to a verified controller, step by step, with evidence.",
    ),
    "evidence": ("evidence", "Records of runs (MCAP): show, verify, sign, diff, replay."),
    "report": (
        "report",
        "Write the report of a record: verdicts first, then plots, numbers with definitions.",
    ),
    "lab": (
        "lab",
        "Run laws on a UR5e over a table and judge them; exit code 1 if a figure misses its bound.",
    ),
    "bench": (
        "bench",
        "Time every function beside other engines; exit code 1 if a pair of results disagrees.",
    ),
    "cache": ("cache", "What is kept on disk: compiled functions, measured meshes."),
}
"""The commands in the order of the help: the module that has a function of that name, and its line.

The lines are those of the functions' docstrings, so that help does without importing them.
"""
_GUIDE = (
    ("Is my file right?", "qddot audit robot.urdf"),
    ("See it move", "qddot view robot.urdf"),
    ("What torque does a motion need?", "qddot torques robot.urdf --to 0.5,1,…"),
    ("Does this payload fit?", "qddot size robot.urdf --payload 3"),
    ("Give me M, C and g as formulas or as C", "qddot derive, qddot export"),
)


class _Commands(TyperGroup):
    """Commands whose modules are imported when they are asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(_COMMANDS)})
        self._listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None if there is none; in a list of all, its line of help."""
        if cmd_name not in _COMMANDS:
            return None
        name, line = _COMMANDS[cmd_name]
        if self._listing:
            return TyperCommand(name=cmd_name, help=line)
        if self.commands[cmd_name] is None:
            module = importlib.import_module(f"qddot.cli.{name}")
            # a function, or a group of commands, as a command
            made = getattr(module, cmd_name)
            if not isinstance(made, typer.Typer):
                alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
                alone.command(cmd_name)(made)
                self.commands[cmd_name] = typer.main.get_command(alone)
            else:
                group = typer.main.get_command(made)
                group.name = cmd_name
                self.commands[cmd_name] = group
            made = self.commands[cmd_name]
            for command in (made, *getattr(made, "commands", {}).values()):
                _hide_types_of_flags(command.get_params(ctx))
        return self.commands[cmd_name]

    def get_params(self, ctx: Any) -> Any:
        """The options that come before the command."""
        parameters = super().get_params(ctx)
        _hide_types_of_flags(parameters)
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, without importing the commands."""
        with self._list_commands_only():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Completions of the names of commands, without importing them."""
        with self._list_commands_only():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _list_commands_only(self) -> Iterator[None]:
        self._listing = True
        try:
            yield
        finally:
            self._listing = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Typer sees neither interrupts nor streams that fail."""
        with failures_as_messages(), warnings_as_notes():
            return super().invoke(ctx)

    def main(self, *args: Any, **options: Any) -> Any:
        """Parse and run; help and messages of Typer may fail to be written too."""
        with failures_as_messages():
            return super().main(*args, **options)


def _hide_types_of_flags(parameters: Any) -> None:
    """Leave the type out of the help of options that take no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"qddot {__version__}")
        raise typer.Exit


def _options(
    ctx: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Robot dynamics: every term of M q̈ + C q̇ + g = τ, and proof that they are right."""
    if ctx.invoked_subcommand is None:
        out.print("What people come for:\n")
        for question, command in _GUIDE:
            out.print(style_text(f"  {question:<40} ", (command, "bold cyan")), soft_wrap=True)
        out.print(
            "\nA robot is a file (URDF, xacro, MJCF, SDF) or a name: `qddot robots` lists them, and"
            " every command\nhas one by default. `qddot --help` lists all commands, "
            "`qddot COMMAND --help` what each can do."
        )


app = typer.Typer(cls=_Commands, pretty_exceptions_enable=False)
app.callback(invoke_without_command=True)(_options)


def main() -> None:
    """Entry point of the `qddot` command."""
    closed = sys.stdout is None
    prepare_streams()
    if closed:
        with failures_as_messages():
            reason = "it is closed; send it to /dev/null to do without"
            raise CannotWrite("the standard output", reason)
    app()
