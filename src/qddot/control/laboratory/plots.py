"""Plots of experiments: what a person would look at first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from qddot.control.force import PHASES
from qddot.control.laboratory.contact import FORCE
from qddot.control.laboratory.result import Result
from qddot.control.laboratory.scene import FRAME, laboratory_robot
from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.errors import InvalidArgument

__all__ = ["plot_result"]

_LEAST_ERROR = 1e-6
"""Tracking errors below this are drawn as this, rad."""


def plot_result(result: Result, file: str | Path) -> None:
    """Draw the traces of an experiment into a file."""
    if not result.traces:
        raise InvalidArgument("plot", result.experiment, "this experiment keeps no trace to draw")
    figure = new_figure(8.0, 5.2)
    if result.experiment in ("hold", "trace"):
        # normal force, its error in contact, and the error along the table
        found = next(iter(result.traces.values()))
        robot = laboratory_robot()
        top, middle, bottom = figure.subplots(3, sharex=True)
        force, t = found.wrenches[FRAME][:, 2], found.time
        phase = np.round(found.memory["phase"])
        pressed = (phase >= 2) & (phase <= 3)
        top.plot(t, force, color=PALETTE[0], lw=1.2)
        top.axhline(FORCE, color="0.6", lw=0.8, ls="--")
        top.set_ylim(-0.5, 2.5 * FORCE)
        top.set_ylabel("normal force (N)")
        middle.plot(t[pressed], 1e3 * (force[pressed] - FORCE), color=PALETTE[1], lw=1.2)
        middle.set_ylabel("force error (mN)")
        p = robot.frame_pose(found.q, FRAME)[:, :2, 3]
        off = 1e6 * np.linalg.norm(p - found.memory["target"][:, :2], axis=-1)
        bottom.plot(t[pressed], off[pressed], color=PALETTE[2], lw=1.2)
        bottom.set_ylabel("error along\nthe table (µm)")
        bottom.set_xlabel("time (s)")
        for ax in (top, middle, bottom):
            ax.grid(alpha=0.3)
            for k in range(1, len(PHASES)):
                if (phase == k).any():
                    ax.axvline(t[np.argmax(phase == k)], color="0.5", lw=0.8, ls=":")
        for k, name in enumerate(PHASES):
            if (phase == k).any():
                middle_time = float(t[phase == k].mean())
                top.text(middle_time, 2.1 * FORCE, name, ha="center", fontsize=8, color="0.3")
        top.set_title(
            f"{result.experiment} on the plant {result.plant!r}: {FORCE:g} N on the table"
        )
    elif result.experiment == "compliance":
        # deflection over time for each spring
        robot, ax = laboratory_robot(), figure.subplots()
        for k, (name, found) in enumerate(result.traces.items()):
            y = 1e3 * robot.frame_pose(found.q, FRAME)[:, 1, 3]
            ax.plot(found.time, y - y[0], color=PALETTE[k % len(PALETTE)], lw=1.3, label=name)
        ax.set_xlabel("time (s)")
        ax.set_ylabel("deflection under 40 N (mm)")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
        ax.set_title(f"Cartesian springs on the plant {result.plant!r}")
    else:
        _draw_runs(figure, result)
    save_figure(figure, Path(file))


def _draw_runs(figure: Any, result: Result) -> None:
    """Tracking error or distance from the start, and the largest torque of a joint, by run."""
    top, bottom = figure.subplots(2, sharex=False)
    for k, (name, found) in enumerate(result.traces.items()):
        style = {"color": PALETTE[k % len(PALETTE)], "lw": 1.2, "label": name}
        if name in result.errors:
            rms = np.sqrt(np.mean(result.errors[name] ** 2, axis=-1))
            top.semilogy(found.time, 1e3 * np.maximum(rms, _LEAST_ERROR), **style)
        elif not result.errors:
            moved = np.abs(found.q - found.q[0]).max(axis=-1)
            top.semilogy(found.time, np.maximum(moved, 1e-16), **style)
        bottom.plot(found.time, np.abs(found.tau).max(axis=-1), **style)
    if result.errors:
        top.set_ylabel("rms tracking error (mrad)")
    else:
        top.set_ylabel("largest way of a joint (rad)")
    bottom.set_ylabel("largest torque (N m)")
    bottom.set_xlabel("time (s)")
    for ax in (top, bottom):
        ax.grid(alpha=0.3)
    bottom.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    top.set_title(f"{result.experiment} on the plant {result.plant!r}")
