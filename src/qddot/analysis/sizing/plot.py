"""The answer as a picture: torques against ratings, the worst pose, the payload of each joint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from qddot.analysis.sizing.result import MARGIN, Sizing
from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.robot.robot import Robot

__all__ = ["plot"]

_AT_REST, _MOVING, _WITH_MARGIN, _, _RATING, _GREY = PALETTE[:6]
_COLUMNS = 7
_PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}


def plot(robot: Robot, sizing: Sizing, file: Path) -> None:
    """Draw torques of random states with the worst and the rating, the worst pose, payloads."""
    joints = sizing.joints
    columns = min(len(joints), _COLUMNS)
    rows = -(-len(joints) // columns)
    figure = new_figure(max(1.9 * columns, 11.0), 3.4 * rows + 4.6)
    upper, lower = figure.subfigures(2, 1, height_ratios=[3.4 * rows, 4.6])
    # a panel for each joint: torques at rest and moving, their worst, and the rating
    axes = upper.subplots(rows, columns, squeeze=False).ravel()
    for k, (ax, joint) in enumerate(zip(axes, joints, strict=False)):
        for x, torques, worst, colour, label in (
            (0, sizing.static[:, k], joint.static, _AT_REST, "at rest"),
            (1, sizing.dynamic[:, k], joint.dynamic, _MOVING, "moving"),
        ):
            if np.ptp(torques) > 1e-9:
                body = ax.violinplot([torques], [x], widths=0.9, showextrema=False)["bodies"][0]
                body.set(facecolor=colour, alpha=0.5)
            ax.plot(x, worst.torque, "_", color=colour, ms=16, mew=2, label=f"worst {label}")
        for side in (1.0, -1.0) if joint.has_rating else ():
            level, words = side * joint.rating, f"rating ÷ {MARGIN}"
            ax.axhline(level, color=_RATING, label="rating")
            ax.axhline(level / MARGIN, color=_RATING, ls=":", label=words)
        top = 1.1 * max(joint.rating if joint.has_rating else 0.0, abs(joint.dynamic.torque)) or 1.0
        ax.set(xlim=(-0.6, 1.6), ylim=(-top, top), xticks=[], ylabel=joint.unit)
        share = f"{100 * joint.share:.0f} %" if joint.share is not None else "no rating"
        ax.set_title(f"{joint.name}\n{share}", fontsize=8)
        ax.tick_params(labelsize=7)
    for ax in axes[len(joints) :]:
        ax.set_axis_off()
    handles = {h.get_label(): h for ax in axes for h in ax.get_legend_handles_labels()[0]}
    upper.legend(handles=list(handles.values()), loc="outside lower center", ncols=len(handles))
    # the verdict, and the bounds of the motion
    limits = f"{np.max(sizing.speed):.3g} rad/s and {np.max(sizing.acceleration):.3g} rad/s²"
    answer, _, rest = sizing.verdict.partition(": ")
    states = f"{sizing.samples:,} states"
    upper.suptitle(f"{answer}\n{rest}\nany pose, up to {limits}, {states}")
    # the worst pose, beside the largest payloads where there are any
    if math.isfinite(sizing.largest_payload):
        pose, payloads = lower.subplots(1, 2, width_ratios=[1, 1.4])
        _plot_payloads(payloads, sizing)
    else:
        pose = lower.subplots()
    _plot_pose(pose, robot, sizing)
    save_figure(figure, file)


def _plot_pose(ax: Any, robot: Robot, sizing: Sizing) -> None:
    """The worst pose of the most loaded joint from the side, in the plane of the payload."""
    worst = sizing.most_loaded
    q = worst.dynamic.q
    model, frame = robot.model, robot.model.frame(sizing.frame)
    chain = model.ancestors(frame.body)[::-1]
    points = robot.body_poses(q)[chain, :3, 3]
    X = robot.call("frame_pose", q, frame=sizing.frame)
    points = np.vstack([np.zeros(3), points, X[:3, 3], X[:3, :3] @ sizing.com + X[:3, 3]])
    # distance and height in the vertical plane through the payload
    length = float(np.hypot(*points[-1, :2]))
    along = points[-1, :2] / length if length > 1e-9 else np.array([1.0, 0.0])
    r, z = points[:, :2] @ along, points[:, 2]
    ax.plot(r, z, "o-", color=_GREY, linewidth=3, markersize=6)
    ax.plot(0.0, 0.0, "^", color="black", markersize=12, label="world")
    for i, x, y in zip(chain, r[1:], z[1:], strict=False):
        if model.bodies[i].joint.name == worst.name.split(".")[0]:
            ax.plot(x, y, "o", color=_RATING, markersize=11, label=worst.name)
    ax.plot(r[-1], z[-1], "s", color=_MOVING, markersize=12, label=f"{sizing.payload:.4g} kg")
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.15)
    ax.set(xlabel="m, horizontally", ylabel="m, upwards")
    ax.set_title(
        f"worst pose of {worst.name}: {abs(worst.dynamic.torque):.4g} {worst.unit}", fontsize=10
    )
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3)


def _plot_payloads(ax: Any, sizing: Sizing) -> None:
    """The largest payload of each joint, and the one asked for."""
    joints = [j for j in sizing.joints if math.isfinite(j.payload_dynamic)]
    rows = (
        ("at rest", _AT_REST, [j.payload_static for j in joints]),
        ("moving", _MOVING, [j.payload_dynamic for j in joints]),
        (f"moving, rating ÷ {MARGIN}", _WITH_MARGIN, [j.payload_with_margin for j in joints]),
    )
    shown = max(4.0 * sizing.payload, 2.0 * max(j.payload_dynamic for j in joints), 1e-3)
    for k, (label, colour, values) in enumerate(rows):
        places = np.arange(len(joints)) + 0.27 * (k - 1)
        bars = ax.barh(places, np.minimum(values, shown), 0.25, color=colour, label=label)
        texts = [
            f" {x:.3g}" if x <= shown else f"{x:.3g} →" if x < np.inf else "no limit"
            for x in values
        ]
        ax.bar_label(bars, texts, fontsize=7, zorder=3, bbox=_PLAIN, padding=2)
    ax.axvline(sizing.payload, color="black", linewidth=1, label=f"asked: {sizing.payload:.4g} kg")
    ax.set_yticks(range(len(joints)), [j.name for j in joints], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0.0, 1.15 * shown)
    ax.set(xlabel="largest payload, kg")
    ax.legend(fontsize=8)
