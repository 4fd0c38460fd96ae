"""Plots of identification: planned motions, measured and predicted torques."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.display.text import joint_units
from qddot.identify.estimators import Residuals
from qddot.identify.excitation import Plan
from qddot.identify.log import Log

__all__ = ["joint_axes", "plot_plan", "plot_prediction"]

_MEASURED, _PREDICTED, _ERROR = "black", PALETTE[1], PALETTE[4]


def joint_axes(count: int, title: str) -> tuple[Any, list[Any]]:
    """A figure with one plot a joint, in two columns where there are several."""
    columns = 2 if count > 1 else 1
    rows = -(-count // columns)
    figure = new_figure(6.0 * columns, 2.1 * rows + 0.9)
    axes = list(np.atleast_1d(figure.subplots(rows, columns, sharex=True)).ravel())
    for ax in axes[count:]:
        ax.set_axis_off()
    # the last plot of each column has numbers below it, also where an empty place follows
    for ax in axes[max(0, count - columns) : count]:
        ax.tick_params(labelbottom=True)
    figure.suptitle(title)
    return figure, axes[:count]


def plot_plan(plan: Plan, file: str | Path, angular: Sequence[bool] = ()) -> None:
    """Positions and velocities of a planned motion over one period, each within its limits.

    `angular` says for the units whether each joint turns (`robot.model.angular`).
    """
    length, speed, _ = joint_units(angular)
    motion, limits = plan.motion, plan.limits
    time = np.linspace(0.0, motion.period, 1000)
    q, v, _ = motion.sample(time)
    title = f"motion for identification, {motion.period:g} s, {motion.harmonics} harmonics"
    figure, axes = joint_axes(len(motion.joints), f"{title}, condition {plan.condition:.3g}")
    for j, (ax, name) in enumerate(zip(axes, motion.joints, strict=True)):
        quantities = (
            (f"position, {length}", q[:, j], (limits.lower[j], limits.upper[j])),
            (f"velocity, {speed}", v[:, j], (-limits.velocity[j], limits.velocity[j])),
        )
        for (label, x, bounds), colour in zip(quantities, PALETTE, strict=False):
            ax.plot(time, x, color=colour, lw=1.3, label=label)
            for bound in bounds:
                # a limit far from the motion would flatten it
                if abs(bound) <= 2.0 * float(np.abs(x).max()):
                    ax.axhline(bound, color=colour, lw=0.8, ls=":")
        ax.set_title(name, fontsize=9)
        ax.tick_params(labelsize=8)
        ax.grid(alpha=0.25)
    for ax in axes[-2:]:
        ax.set_xlabel("s", fontsize=8)
    axes[0].plot([], [], color="0.3", lw=0.8, ls=":", label="limits, in the colour of their curve")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    save_figure(figure, Path(file))


def plot_prediction(
    residuals: Residuals, log: Log, file: str | Path, title: str = "", start: float | None = None
) -> None:
    """Measured and predicted torque of each joint over time, and what remains.

    Time counts from `start`, that of the whole log where `log` is a part of it.
    """
    time = np.asarray(log.time)[residuals.index] - (log.time[0] if start is None else start)
    figure, axes = joint_axes(len(log.joints), title or "measured and predicted torque")
    for j, (ax, name) in enumerate(zip(axes, log.joints, strict=True)):
        measured, predicted = residuals.tau[:, j].copy(), residuals.predicted[:, j].copy()
        # rows at standstill have no prediction
        still = (measured == 0.0) & (predicted == 0.0)
        measured[still] = predicted[still] = np.nan
        ax.plot(time, measured, color=_MEASURED, lw=1.4, label="measured")
        ax.plot(time, predicted, color=_PREDICTED, lw=1.1, ls="--", label="predicted")
        ax.plot(time, measured - predicted, color=_ERROR, lw=0.8, label="residual")
        error = np.sqrt(np.nanmean((measured - predicted) ** 2))
        share = error / max(float(np.sqrt(np.nanmean(measured**2))), 1e-300)
        ax.set_title(f"{name}: {error:.3g} rms, {100 * share:.2g} %", fontsize=9)
        ax.set_ylabel("N m", fontsize=8)
        ax.tick_params(labelsize=8)
        ax.grid(alpha=0.25)
    for ax in axes[-2:]:
        ax.set_xlabel("s", fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    save_figure(figure, Path(file))
