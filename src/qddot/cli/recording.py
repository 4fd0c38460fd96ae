"""`--record FILE` of the commands: what a command was asked, and a record to write into."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from qddot.cli.parameters import OUTPUT, ParameterRole, parameter_roles
from qddot.evidence.inputs import gather_inputs, number_sources
from qddot.evidence.privacy import hide_home
from qddot.evidence.record import Run
from qddot.evidence.recorder import Recorder

__all__ = ["RecordOption", "open_recorder"]

RecordOption = Annotated[
    Path | None,
    typer.Option(help="Keep the evidence in this MCAP file; see `qddot evidence`."),
    OUTPUT,
]
_MESH_READERS = ("audit", "compare", "lab", "pipeline")
"""Commands that read the meshes of a description, whether its inertias come from them or not."""


@contextmanager
def open_recorder(
    context: typer.Context,
    file: Path | None,
    sources: Sequence[str | Path],
    force: bool = False,
    seed: int | None = None,
    **facts: Any,
) -> Iterator[Recorder]:
    """A recorder for the command that is running; without a file it keeps things in memory.

    The record has the parameters that results depend on, with {0}, {1} and so on for its sources.
    """
    given = [str(x) for x in sources]
    trust = bool(context.params.get("trust", False))
    numbers = number_sources(given) if file is not None else {x: i for i, x in enumerate(given)}
    roles = {name: role for name, role in parameter_roles(context.command).items() if role.kept}
    configuration = {
        name: _record_value(context.params.get(name), role, numbers) for name, role in roles.items()
    }
    # words of the command after the name of the program
    words: list[str] = []
    place: Any = context
    while place.parent is not None:
        words.insert(0, place.info_name or "")
        place = place.parent
    meshes = any(word in _MESH_READERS for word in words)
    kept = gather_inputs(given, trust, meshes) if file is not None else ()
    run = Run(
        command=" ".join(words) or context.info_name or "",
        arguments=_words_of(context.command, configuration),
        configuration=configuration,
        inputs=kept,
        seed=seed,
        **facts,
    )
    with Recorder(file, run, force) as recorder:
        yield recorder


def _record_value(value: Any, role: ParameterRole, numbers: Mapping[str, int]) -> Any:
    """A value as plain data: a source by its number, any other path by its name alone."""
    if isinstance(value, list | tuple):
        return [_record_value(x, role, numbers) for x in value]
    if role.file and str(value) in numbers:
        return f"{{{numbers[str(value)]}}}"
    if isinstance(value, os.PathLike):
        return Path(value).name
    if isinstance(value, Enum):
        return value.value
    # not all that begins with a slash is a path: topics of a log do too
    return hide_home(value) if isinstance(value, str) else value


def _words_of(command: Any, configuration: Mapping[str, Any]) -> tuple[str, ...]:
    """The configuration as arguments, for people: nothing is run from them."""
    given: list[str] = []
    options: list[str] = []
    for parameter in command.params:
        value = configuration.get(parameter.name)
        plain = (
            parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
        )
        if value is None:
            continue
        each = value if isinstance(value, list) else [value]
        if parameter.param_type_name == "argument":
            given += map(str, each)
        elif isinstance(value, bool) and value != plain:
            options.append(parameter.opts[-1] if value else parameter.secondary_opts[-1])
        elif value != plain:
            options += [word for x in each for word in (parameter.opts[-1], str(x))]
    return (*given, *options)
