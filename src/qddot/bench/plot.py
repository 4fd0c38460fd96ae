"""The measurements as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qddot.display.plots import PALETTE, new_figure, save_figure

__all__ = ["plot"]

_COLOURS = dict(zip(("Pinocchio", "MuJoCo", "Drake", "CasADi"), PALETTE, strict=False))
_COLUMNS = 3


def plot(data: dict[str, Any], file: Path) -> None:
    """Ratios of each robot as bars on a logarithmic axis, and the cost of long chains."""
    robots = list(dict.fromkeys(row["robot"] for row in data["rows"]))
    panels = len(robots) + bool(data["scaling"])
    columns = min(panels, _COLUMNS)
    lines = -(-panels // columns)
    figure = new_figure(5.5 * columns, 5.5 * lines)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    engines = list(
        dict.fromkeys(p["engine"] for row in data["rows"] for p in row["peers"] if p["ratio"])
    )
    # a panel a robot: a group of bars a function, a bar an engine, with its ratio
    height = 0.84 / max(len(engines), 1)
    for ax, robot in zip(axes, robots, strict=False):
        rows = [row for row in data["rows"] if row["robot"] == robot]
        for k, engine in enumerate(engines):
            ratios = [
                next(
                    (p["ratio"] for p in row["peers"] if p["engine"] == engine and p["ratio"]), 0.0
                )
                for row in rows
            ]
            places = [i + k * height for i in range(len(rows))]
            colour = _COLOURS.get(engine, "#888888")
            bars = ax.barh(places, ratios, height, label=engine, color=colour)
            ax.bar_label(bars, [f" {x:.0f}" if x else "" for x in ratios], fontsize=6)
        middles = [i + 0.42 - height / 2 for i in range(len(rows))]
        ax.set_yticks(middles, [row["function"] for row in rows])
        ax.invert_yaxis()
        ax.set_xscale("log")
        timed = [p["ratio"] for row in rows for p in row["peers"] if p["ratio"]] or [1.0]
        ax.set_xlim(0.9 * min(1.0, *timed), 1.8 * max(1.0, *timed))
        ax.axvline(1.0, color="black", linewidth=0.8)
        ax.set_title(robot)
    # time a state against the number of joints
    if data["scaling"]:
        ax, joints = axes[len(robots)], [row["joints"] for row in data["scaling"]]
        ax.plot(joints, [row["us"] for row in data["scaling"]], "o-", color=PALETTE[0])
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.minorticks_off()
        ax.set_xticks(joints, [str(n) for n in joints])
        ax.set_xlabel("joints")
        ax.set_ylabel("µs a state")
        ax.set_title("inverse dynamics of chains")
    for ax in axes[panels:]:
        ax.set_axis_off()
    machine = data["machine"]
    figure.suptitle(f"peer's time ÷ qddot's, one core of {machine['cpu']}, {machine['date'][:10]}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    save_figure(figure, file)
