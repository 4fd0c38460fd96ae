"""The command line: the only package that prints and sets exit codes; one file a command.

Exit codes: 0 all well, 1 a check failed, 2 the input could not be used.
"""

from __future__ import annotations

from typing import Annotated

import typer

from qddot import __version__
from qddot.cli.audit import audit
from qddot.cli.bench import bench
from qddot.cli.cache import cache_clear, cache_info
from qddot.cli.check import check
from qddot.cli.compare import compare
from qddot.cli.convert import convert
from qddot.cli.derive import derive
from qddot.cli.export import export
from qddot.cli.info import info, robots
from qddot.cli.integrators import integrators
from qddot.cli.simulate import simulate
from qddot.cli.size import size
from qddot.cli.terminal import out

__all__ = ["app", "main"]

_COMMANDS = (
    robots,
    info,
    check,
    audit,
    compare,
    convert,
    derive,
    export,
    size,
    integrators,
    simulate,
    bench,
)


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"qddot {__version__}", highlight=False)
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


def _application() -> typer.Typer:
    """All commands under one name."""
    commands = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    commands.callback()(_options)
    for command in _COMMANDS:
        commands.command()(command)
    cache = typer.Typer(
        help="What is kept on disk: compiled functions, measured meshes.", no_args_is_help=True
    )
    cache.command("info")(cache_info)
    cache.command("clear")(cache_clear)
    commands.add_typer(cache, name="cache")
    return commands


app = _application()


def main() -> None:
    """Entry point of the `qddot` command."""
    app()
