"""`qddot report`: a record as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qddot.cli.terminal import (
    ForceOption,
    JsonOption,
    check_outputs,
    errors_as_messages,
    print_json,
    print_written,
)
from qddot.evidence.reader import read_record
from qddot.report import write_report

__all__ = ["report"]


def report(
    record: Annotated[Path, typer.Argument(help="A record that --record wrote.")],
    output: Annotated[
        Path | None, typer.Option(help="The page; the record's name with .html by default.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the report of a record: verdicts first, then plots, numbers with definitions."""
    page = output or record.with_suffix(".html")
    with errors_as_messages():
        check_outputs(force, page)
        found = read_record(record)
        write_report(found, page, force)
    if as_json:
        print_json({"report": str(page), "verdict": found.verdict.value, "digest": found.digest})
    print_written(as_json, page)
