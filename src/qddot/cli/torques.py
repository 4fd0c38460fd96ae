"""`qddot torques`: a motion in; torques, their peaks against the limits, and a plot out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from qddot.analysis.trajectory import quintic
from qddot.cli.states import STATE_HELP, parse_configuration, write_motion_table
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
    errors_as_messages,
    load_robot,
    out,
    print_json,
    print_written,
    style_text,
    write_output,
)
from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.errors import InvalidArgument
from qddot.model.tool_frame import tool_frame
from qddot.robot.robot import Robot
from qddot.view.motion import RobotMotion, as_motion

__all__ = ["torques"]

_RATE = 500.0
"""Samples a second of a quintic."""

_SHARE_BESIDE_LIMIT = 0.2
"""Share of its limit from which on a torque is drawn with it."""


@dataclass(frozen=True)
class _Peak:
    """The largest torque and speed of a joint along a motion."""

    joint: str
    unit: str
    torque: float
    time: float
    rms: float
    limit: float
    speed: float
    speed_limit: float
    leaves_range: bool

    @property
    def share(self) -> float | None:
        """Largest torque over the limit."""
        return abs(self.torque) / self.limit if math.isfinite(self.limit) and self.limit else None

    @property
    def faults(self) -> list[str]:
        """Limits that the joint does not keep, in words."""
        words = {
            "over its torque": self.share is not None and self.share > 1.0,
            "over its speed": self.speed > self.speed_limit,
            "out of its range": self.leaves_range,
        }
        return [f"{self.joint} {text}" for text, holds in words.items() if holds]


def torques(
    robot: RobotArgument = "ur5e",
    trajectory: Annotated[
        Path | None,
        typer.Option(help="A motion: .csv (time, q_JOINT…, v_…, a_…), .npz or .mcap."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", "--quintic", help=f"End of a quintic: {STATE_HELP}; random."),
    ] = None,
    start: Annotated[str, typer.Option("--from", help=f"Its start: {STATE_HELP}.")] = "neutral",
    time: Annotated[float, typer.Option(help="How long a quintic takes, s.")] = 1.0,
    payload: Annotated[float, typer.Option(min=0.0, help="A point mass at the tool, kg.")] = 0.0,
    frame: Annotated[
        str | None, typer.Option(help="Where the payload is; the end of the longest chain.")
    ] = None,
    friction: Annotated[
        bool, typer.Option("--friction", help="With damping, friction and springs of the file.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw torques and limits here.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write time, q, v, a, tau: .csv.")] = None,
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Torques that a motion needs, against the limits; exit code 1 if one is not kept."""
    with errors_as_messages():
        check_outputs(force, plot, save)
        loaded = load_robot(robot, base, couplings, strict, trust)
        if payload:
            found = frame or tool_frame(loaded.model)
            if found is None:
                raise InvalidArgument("--frame", None, f"{loaded.name} has no frame that moves")
            loaded = loaded.with_payload(found, payload)
        moved, a = _read_motion(loaded, trajectory, start, to, time)
        tau = loaded.inverse_dynamics(moved.q, moved.v, a, friction=friction)
        peaks = _find_peaks(moved, tau)
        losses = np.zeros_like(tau) if friction else np.asarray(loaded.friction(moved.q, moved.v))
        if plot:
            write_output(plot, lambda draft: save_figure(_plot(moved, tau), draft), force)
        if save:
            write_output(
                save,
                lambda draft: write_motion_table(
                    loaded, draft, time=moved.time, q=moved.q, v=moved.v, a=a, tau=tau
                ),
                force,
            )
    faults = [text for p in peaks for text in p.faults]
    if as_json:
        joints = [{**vars(p), "share": p.share, "faults": p.faults} for p in peaks]
        print_json({"robot": loaded.name, "joints": joints})
    else:
        _print_peaks(moved, peaks, faults, losses)
    print_written(as_json, plot, save)
    raise typer.Exit(1 if faults else 0)


def _read_motion(
    robot: Robot, file: Path | None, start: str, to: str | None, time: float
) -> tuple[RobotMotion, np.ndarray]:
    """The motion of a file or a quintic, and its accelerations."""
    if file is not None and to is not None:
        raise InvalidArgument("--to", to, "the motion is that of --trajectory already")
    if file is not None:
        moved = as_motion(file, robot)
        if len(moved.time) < 3 or not (np.diff(moved.time) > 0).all():
            raise InvalidArgument("--trajectory", str(file), "it needs three rising times or more")
        return moved, np.gradient(moved.v, moved.time, axis=0)
    if not 0.0 < time < 1e4:
        raise InvalidArgument("--time", time, "it is a time in seconds, above zero")
    q0, q1 = (
        parse_configuration(robot, n, x) for n, x in (("--from", start), ("--to", to or "random"))
    )
    t = np.linspace(0.0, time, max(51, round(time * _RATE) + 1))
    # along the tangent from the start: rotations of free and ball joints too
    step = np.asarray(robot.difference(q0, q1))
    along, v, a = quintic(np.zeros(robot.nv), step, time, t)
    return RobotMotion(robot, t, np.asarray(robot.integrate(q0, along)), v), a


def _find_peaks(moved: RobotMotion, tau: np.ndarray) -> list[_Peak]:
    """The peaks of each joint that has a motor."""
    robot, peaks = moved.robot, []
    names, limits = robot.model.velocity_names, robot.limits
    for body in robot.model.independent:
        if body.joint.kind.floats:
            continue
        q = moved.q[:, body.iq]
        outside = bool(((q < limits.lower[body.iq]) | (q > limits.upper[body.iq])).any())
        for k, turns in zip(body.dofs, body.joint.kind.angular, strict=True):
            at = int(np.abs(tau[:, k]).argmax())
            peaks.append(
                _Peak(
                    joint=names[k],
                    unit="N m" if turns else "N",
                    torque=float(tau[at, k]),
                    time=float(moved.time[at]),
                    rms=float(np.sqrt(np.mean(tau[:, k] ** 2))),
                    limit=float(limits.effort[k]),
                    speed=float(np.abs(moved.v[:, k]).max()),
                    speed_limit=float(limits.velocity[k]),
                    leaves_range=outside,
                )
            )
    return peaks


def _print_peaks(
    moved: RobotMotion, peaks: list[_Peak], faults: list[str], losses: np.ndarray
) -> None:
    """The peaks beside the limits, and a note on losses that the torques are without."""
    words = f"{moved.robot.name}, {moved.duration:g} s, {len(moved.time)} samples"
    rated = [p for p in peaks if p.share is not None]
    if faults:
        verdict = (", ".join(faults), "bold red")
    elif rated:
        most = max(rated, key=lambda p: p.share or 0.0)
        verdict = (f"within limits, {most.joint} at {100 * (most.share or 0):.0f} %", "bold green")
    else:
        verdict = ("the file has no effort limits", "bold yellow")
    out.print(style_text(f"{words}: ", verdict))
    table = Table("joint", "largest torque", "at, s", "limit", "share", "rms", "top speed", "limit")
    # decimals that show four digits of the largest torque, two or more
    largest = max((abs(p.torque) for p in peaks), default=0.0)
    decimals = max(2, 3 - math.floor(math.log10(largest))) if largest > 1e-9 else 2
    for p in peaks:
        share = "" if p.share is None else f"{100 * p.share:.0f} %"
        speed_unit = "rad/s" if p.unit == "N m" else "m/s"
        table.add_row(
            p.joint,
            f"{_round_torque(p.torque, decimals)} {p.unit}",
            f"{p.time:.3g}",
            f"{p.limit:.4g}" if math.isfinite(p.limit) else "",
            style_text((share, "red" if (p.share or 0) > 1 else "green")),
            _round_torque(p.rms, decimals),
            style_text((f"{p.speed:.3g} {speed_unit}", "red" if p.speed > p.speed_limit else "")),
            f"{p.speed_limit:.3g}" if math.isfinite(p.speed_limit) else "",
        )
    out.print(table)
    most, model = np.abs(losses).max(axis=0, initial=0.0), moved.robot.model
    if most.any():
        k = int(most.argmax())
        size = f"{most[k]:.3g} {'N m' if model.angular[k] else 'N'} ({model.velocity_names[k]})"
        text = f" damping, friction and springs of the file, up to {size}, are not in these torques"
        out.print(style_text(("note", "cyan"), f"{text}; --friction adds them"), soft_wrap=True)


def _round_torque(x: float, decimals: int) -> str:
    rounded = round(x, decimals)
    return f"{rounded:.{decimals}f}" if rounded else "0"


def _plot(moved: RobotMotion, tau: np.ndarray) -> Any:
    """A panel a joint: its torque over time, and its limits."""
    robot = moved.robot
    rows = [k for b in robot.model.independent if not b.joint.kind.floats for k in b.dofs]
    columns = min(3, len(rows)) or 1
    height = -(-len(rows) // columns)
    figure = new_figure(4.0 * columns, 0.8 + 2.2 * height)
    panels = figure.subplots(height, columns, sharex=True, squeeze=False).ravel()
    for axes, k in zip(panels, rows, strict=False):
        limit, unit = float(robot.limits.effort[k]), "N m" if robot.model.angular[k] else "N"
        axes.plot(moved.time, tau[:, k], color=PALETTE[0], lw=1.6, label="torque")
        if np.abs(tau[:, k]).max() >= _SHARE_BESIDE_LIMIT * limit:
            for side in (-limit, limit):
                label = "limit" if side > 0 else None
                axes.axhline(side, color=PALETTE[4], ls="--", lw=1.0, label=label)
        elif math.isfinite(limit):
            # lines far away would flatten the curve; a curve of rounding errors stays flat
            top = max(1.25 * float(np.abs(tau[:, k]).max()), 0.01 * limit)
            axes.set_ylim(-top, top)
            axes.plot([], [], color=PALETTE[4], ls="--", lw=1.0, label=f"limit ±{limit:.4g} {unit}")
        axes.set_title(robot.model.velocity_names[k], fontsize=9, loc="left")
        axes.set_ylabel(unit)
        axes.grid(alpha=0.25)
        # above the panel, where it covers no curve
        axes.legend(
            fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=2, frameon=False
        )
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(rows) - columns) : len(rows)]:
        axes.set_xlabel("time, s")
        axes.tick_params(labelbottom=True)
    figure.suptitle(f"{robot.name}: torques along the motion")
    return figure
