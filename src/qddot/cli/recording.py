"""`--record FILE` of the commands: what a command was asked, and a record to write into."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from qddot.evidence.inputs import gather_inputs
from qddot.evidence.record import Run
from qddot.evidence.recorder import Recorder

__all__ = ["RecordOption", "open_recorder", "recorded_arguments"]

RecordOption = Annotated[
    Path | None, typer.Option(help="Keep the evidence in this MCAP file; see `qddot evidence`.")
]
_OUTPUTS = {
    "as_json", "record", "force", "plot", "save", "html", "page", "fix", "report", "resume", "write"
}  # fmt: skip
"""Parameters that say where results go, and have no part in them."""


@contextmanager
def open_recorder(
    context: typer.Context,
    file: Path | None,
    sources: Sequence[str | Path],
    force: bool = False,
    seed: int | None = None,
    **facts: Any,
) -> Iterator[Recorder]:
    """A recorder for the command that is running; without a file it keeps things in memory."""
    given = [str(x) for x in sources]
    kept = gather_inputs(given) if file is not None else ()
    # words of the command after the name of the program
    words: list[str] = []
    place: Any = context
    while place.parent is not None:
        words.insert(0, place.info_name or "")
        place = place.parent
    run = Run(
        command=" ".join(words) or context.info_name or "",
        arguments=recorded_arguments(context, given),
        configuration={
            k: _placeholder(v, given) if str(v) in given else _plain(v)
            for k, v in context.params.items()
            if k not in _OUTPUTS
        },
        inputs=kept,
        seed=seed,
        **facts,
    )
    with Recorder(file, run, force) as recorder:
        yield recorder


def recorded_arguments(context: typer.Context, sources: Sequence[str]) -> tuple[str, ...]:
    """The arguments with which the command would run again; sources are {0}, {1} and so on."""
    given: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name)
        if parameter.name in _OUTPUTS or value is None:
            continue
        each = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            given += [_placeholder(x, sources) for x in each]
        elif isinstance(value, bool) and value != parameter.default:
            options.append(parameter.opts[-1] if value else parameter.secondary_opts[-1])
        elif value != parameter.default:
            options += [
                word for x in each for word in (parameter.opts[-1], _placeholder(x, sources))
            ]
    return (*given, *options)


def _placeholder(value: Any, sources: Sequence[str]) -> str:
    text = str(_plain(value))
    return f"{{{sources.index(text)}}}" if text in sources else text


def _plain(value: Any) -> Any:
    """A value for JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, os.PathLike):
        return str(value)
    return value
