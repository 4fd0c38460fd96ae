"""`qddot size`: does this payload fit this robot?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from qddot.analysis import sizing
from qddot.analysis.sizing import GEAR_RATIOS, MARGIN, Sizing
from qddot.cli.parameters import NUMBERS, OUTPUT, RESULT, WORDS
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    SeedOption,
    StatesOption,
    StrictOption,
    TrustOption,
    check_outputs,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    print_written,
    progress_bar,
    style_text,
    write_output,
)
from qddot.errors import InvalidArgument
from qddot.evidence.results import record_sizing

__all__ = ["size"]

VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", help="Also the worst states, Coriolis, reflected inertia."),
    RESULT,
]


FrameOption = Annotated[str | None, typer.Option(help="Where it is; the end of the chain."), WORDS]
CentreOption = Annotated[
    str, typer.Option(help="Its centre of mass in that frame, x,y,z."), NUMBERS
]
SpeedOption = Annotated[
    str,
    typer.Option(help="Largest speed, rad/s: one for all, one a joint, or 50% of limits."),
    NUMBERS,
]
AccelerationOption = Annotated[
    str, typer.Option(help="Largest acceleration, rad/s²: one for all or one a joint."), NUMBERS
]


def size(
    context: typer.Context,
    robot: RobotArgument = "ur5e",
    payload: Annotated[float, typer.Option(help="Mass of the payload in kg."), RESULT] = 0.0,
    frame: FrameOption = None,
    com: CentreOption = "0,0,0",
    speed: SpeedOption = "1",
    acceleration: AccelerationOption = "1.4",
    samples: StatesOption = 10**6,
    seed: SeedOption = 0,
    rotor_inertia: Annotated[
        str | None, typer.Option(help="Of the motors, kg m², if the description has none."), NUMBERS
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the answer into this file."), OUTPUT
    ] = None,
    friction: Annotated[
        bool,
        typer.Option("--friction", help="With damping, friction and springs of the file."),
        RESULT,
    ] = False,
    verbose: VerboseOption = False,
    record: RecordOption = None,
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a payload fits a robot; exit code 1 if a joint is over its rating."""
    with errors_as_messages():
        check_outputs(force, plot, record)
        loaded = load_robot(robot, base, couplings, strict, trust)
        with progress_bar() as on_step:
            answer = sizing.size(
                loaded,
                payload=payload,
                frame=frame,
                com=_parse_numbers("--com", com),
                speed=speed if speed.endswith("%")
                else _parse_numbers("--speed", speed, ", or a share such as 50%"),
                acceleration=_parse_numbers("--acceleration", acceleration),
                samples=samples,
                seed=seed,
                rotor_inertia=None if rotor_inertia is None
                else _parse_numbers("--rotor-inertia", rotor_inertia),
                on_step=on_step,
                friction=friction,
            )  # fmt: skip
        with open_recorder(context, record, [robot], force, seed) as recorder:
            record_sizing(recorder, answer)
        if plot:
            write_output(plot, lambda draft: sizing.plot(loaded, answer, draft), force)
    if as_json:
        print_json(answer.summary())
    else:
        _print_sizing(answer, verbose)
    print_written(as_json, plot, record)
    raise typer.Exit(1 if answer.fits is False else 0)


def _parse_numbers(option: str, text: str, more: str = "") -> list[float]:
    """Numbers between commas."""
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise InvalidArgument(option, text, f"it needs numbers with commas between{more}") from None


def _print_sizing(answer: Sizing, verbose: bool) -> None:
    colour = "red" if answer.fits is False else "green" if answer.fits_with_margin else "yellow"
    out.print(style_text((answer.verdict, f"bold {colour}")), soft_wrap=True)
    ranges = ((float(x.min()), float(x.max())) for x in (answer.speed, answer.acceleration))
    speed, acceleration = (
        f"{high:.4g}" if low == high else f"{low:.4g} … {high:.4g}" for low, high in ranges
    )
    out.print(
        f"every joint at once at up to {speed} rad/s and {acceleration} rad/s², in any pose within "
        f"the limits; worst of {answer.samples:,} random states (seed {answer.seed}), refined",
        soft_wrap=True,
    )
    tables = [_torque_table, _payload_table]
    if verbose:
        tables += [_state_table, _speed_table, _inertia_table]
    for table in tables:
        out.print(table(answer))
    for note in answer.notes:
        out.print(style_text(("note", "cyan"), f" {note}"))
    if not verbose:
        more = "--verbose prints the worst states, Coriolis against gravity, and reflected inertia"
        out.print(style_text((more, "dim")))


def _format_share(x: float | None) -> str:
    return "" if x is None else f"{round(100 * x)} %"


def _format_torque(x: float) -> str:
    return f"{abs(x):.4g}" if abs(x) > 1e-9 else "0"


def _torque_table(answer: Sizing) -> Table:
    table = Table(
        *("joint", "rating", "at rest", "share", "moving", "share", "of it gravity", "rms"),
        f"moving × {MARGIN}",
        f"rule of {MARGIN}",
        title="largest torque, N m (forces in N)",
    )
    verdicts: dict[bool | None, Text | str] = {
        True: style_text(("pass", "green")),
        False: style_text(("FAIL", "red")),
        None: "no rating",
    }
    for j in answer.joints:
        table.add_row(
            j.name,
            f"{j.rating:.4g}" if j.has_rating else "",
            _format_torque(j.static.torque),
            _format_share(j.share_static),
            _format_torque(j.dynamic.torque),
            _format_share(j.share),
            _format_share(j.dynamic.gravity / j.dynamic.torque if j.dynamic.torque else None),
            _format_torque(j.rms),
            _format_torque(j.required_rating),
            verdicts[j.passes],
        )
    return table


def _payload_table(answer: Sizing) -> Table:
    title = f"largest payload at {answer.frame!r}, kg"
    table = Table("joint", "at rest", "moving", f"moving, rating ÷ {MARGIN}", title=title)
    for j in answer.joints:
        most = (j.payload_static, j.payload_dynamic, j.payload_with_margin)
        table.add_row(j.name, *map(j.payload_text, most))
    return table


def _state_table(answer: Sizing) -> Table:
    table = Table("joint", "", "q", "q̇", "q̈", title="worst states (rad, m)")
    for j in answer.joints:
        for label, worst, moving in (("at rest", j.static, False), ("moving", j.dynamic, True)):
            q, v, a = (" ".join(f"{x:.2f}" for x in row) for row in (worst.q, worst.v, worst.a))
            shown = (q, v, a) if moving else (q, "0", "0")
            loaded = abs(worst.torque) > 1e-9
            table.add_row(j.name, label, *(shown if loaded else ("no torque in any", "", "")))
    return table


def _speed_table(answer: Sizing) -> Table:
    table = Table(
        *("class", "rad/s", "ratio of peaks", "of rms", "what a controller needs"),
        title="Coriolis against gravity, ‖C q̇‖ / ‖g‖, all joints at the speed of the class",
    )
    for c in answer.speed_classes:
        table.add_row(c.name, f"{c.speed:g}", _format_share(c.peak), _format_share(c.rms), c.advice)
    return table


def _inertia_table(answer: Sizing) -> Table:
    """Columns of what is known: armature, and the share of a rotor or one as heavy as the links."""
    rotors = any(j.shares for j in answer.inertias)
    geared = any(j.armature for j in answer.inertias)
    what = "share of the rotor" if rotors else "rotor that equals the links"
    table = Table(
        *("joint", "links, least", "median", "most"),
        *(("armature", "its share", "exceeds the links in") if geared else ()),
        *(f"at {n}:1" for n in GEAR_RATIOS),
        title=f"diagonal of M, kg m²; by gear ratio the {what}",
    )
    for j in answer.inertias:
        shares = [_format_share(x) for x in j.shares] if j.shares else [""] * len(GEAR_RATIOS)
        known = (
            f"{j.armature:.3g}",
            _format_share(j.share),
            f"{_format_share(j.dominated)} of states",
        )
        table.add_row(
            j.name,
            *(f"{x:.3g}" for x in j.link),
            *(known if geared else ()),
            *(shares if rotors else [f"{x:.2g}" for x in j.equal_rotor]),
        )
    return table
