"""`qddot view`: the robot in the browser, or on a page that plays without a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    TrustOption,
    check_outputs,
    err,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    print_written,
    style_text,
)
from qddot.loaders.locate import PACKAGE_HINT

__all__ = ["view"]

_MOST_MISSING = 3


def view(
    robot: RobotArgument = "panda",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    ghost: Annotated[
        str | None, typer.Option(help="A second file or name, to compare as a ghost.")
    ] = None,
    play: Annotated[
        Path | None,
        typer.Option(help="Play a motion: .npz, .csv, .mcap with time and q, or a record."),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(help="Which motion of an evidence record; else the longest.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write a page that plays by itself, and do not serve.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve at; 0.0.0.0 shows it to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; the next free one.")] = 8080,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """See a robot in the browser: move it, drag its tool, watch torques, play motions."""
    # viser takes a second to import
    from qddot.view.browser import export_page, open_view
    from qddot.view.motion import read_motion

    with errors_as_messages():
        check_outputs(force, export)
        loaded = load_robot(robot, base, couplings, strict, trust)
        motion = None if play is None else read_motion(play, trace)
        if export is not None:
            page = export_page(loaded, export, motion)
            if as_json:
                print_json({"page": str(page), "bytes": page.stat().st_size})
            print_written(as_json, page)
            return
        other = load_robot(ghost, base, couplings, strict, trust) if ghost else None
        shown = open_view(loaded, motion, ghost=other, host=host, port=port)
    missing = shown.scene.geometry.missing
    for line in missing[:_MOST_MISSING]:
        err.print(style_text(("not shown: ", "yellow"), line), soft_wrap=True)
    if len(missing) > _MOST_MISSING:
        more = f"not shown: {len(missing) - _MOST_MISSING} more; "
        err.print(style_text((more, "yellow"), "bodies without a shape are drawn as bones"))
    if any("package://" in line for line in missing):
        err.print(style_text((PACKAGE_HINT, "dim")))
    if as_json:
        print_json({"url": shown.url})
    else:
        out.print(f"{loaded.name} is at {shown.url} (Ctrl-C ends it)")
    # a pipe or a file learns the address before the process ends
    sys.stdout.flush()
    try:
        shown.wait()
    finally:
        shown.close()
