"""Simulated motions as tables and plots, with a free base in world axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table

from qddot.display.plots import PALETTE, new_figure, save_figure, widen_axis
from qddot.display.text import joint_units
from qddot.robot.robot import Robot
from qddot.simulate.energy import EnergyLedger, draw_energy, draw_residual
from qddot.simulate.rollout import Rollout
from qddot.spatial.algebra import Vec3, rotation_from_quaternion

__all__ = ["count_finite", "has_free_base", "motion_table", "plot_motion"]

_MOST_ROWS = 40
_MOST_LINES = len(PALETTE)
_FREE = ("x", "y", "z", "about x", "about y", "about z")
_REST = 1e-12
"""Largest speed of a velocity that is taken for zero in a plot, rad/s or m/s."""
_LEAST_SPAN = 1e-6
"""Least span of the axes of positions and velocities in a plot."""


def _velocity_names(robot: Robot) -> list[tuple[str, int, int | None]]:
    """Velocities by name, and the coordinate of each that is one number."""
    found = []
    for body in robot.model.independent:
        kind = body.joint.kind
        for k, dof in enumerate(body.dofs):
            part = _FREE[k] if kind.floats else f"[{k}]"
            name = body.joint.name if kind.nv == 1 else f"{body.joint.name} {part}"
            one = kind.nq == kind.nv or (kind.floats and k < 3)
            found.append((name, int(dof), body.iq.start + k if one else None))
    return found


def has_free_base(robot: Robot) -> bool:
    """Whether a body of the robot floats."""
    return any(body.joint.kind.floats for body in robot.model.bodies)


def _world_velocities(robot: Robot, found: Rollout) -> np.ndarray:
    """Velocities (samples × nv), those of a free base in world axes, as its position is."""
    v = np.array(found.v)
    for body in robot.model.independent:
        if body.joint.kind.floats:
            R = rotation_from_quaternion(*found.q[:, body.iq][:, 3:].T)
            for dofs in (body.dofs[:3], body.dofs[3:]):
                v[:, dofs] = np.stack([*(R.apply(Vec3(*v[:, dofs].T)))], axis=-1)
    return v


def count_finite(found: Rollout) -> int:
    """How many samples are numbers; at least the first."""
    return max(1, int(found.finite.sum()))


def motion_table(robot: Robot, found: Rollout) -> Table:
    """Where each joint began and ended, and how fast it was."""
    axes = "; a free base in world axes, its torque in its own" if has_free_base(robot) else ""
    table = Table(
        *("joint", "start", "end", "least", "most", "largest speed", "torque"),
        title=f"motion (m, rad, s, N, N m){axes}",
    )
    rows, sound, v = _velocity_names(robot), count_finite(found), _world_velocities(robot, found)
    for name, dof, k in rows[:_MOST_ROWS]:
        fast = float(np.abs(v[:sound, dof]).max())
        x = found.q[:sound, k] if k is not None else np.empty(0)
        where = [f"{y:.4g}" for y in (x[0], x[-1], x.min(), x.max())] if len(x) else [""] * 4
        table.add_row(name, *where, f"{fast:.4g}", f"{found.tau[0, dof]:.4g}")
    if len(rows) > _MOST_ROWS:
        table.caption = f"and {len(rows) - _MOST_ROWS} more"
    elif sound < len(found.time):
        table.caption = f"up to {found.time[sound - 1]:g} s, the last state that is a number"
    return table


def plot_motion(robot: Robot, found: Rollout, ledger: EnergyLedger, file: Path) -> None:
    """Positions, velocities, energy and residual over time."""
    figure = new_figure(10.0, 11.0)
    q, v, energy, residual = figure.subplots(4, 1, sharex=True, height_ratios=(2, 2, 2, 1))
    rows, velocities = _velocity_names(robot), _world_velocities(robot, found)
    # the fastest velocities, without those that stay zero
    fastest = np.nan_to_num(np.abs(velocities).max(axis=0), nan=np.inf)
    moving = [i for i in range(len(rows)) if fastest[rows[i][1]] > _REST] or range(len(rows))
    shown = sorted(sorted(moving, key=lambda i: -fastest[rows[i][1]])[:_MOST_LINES])
    for colour, i in zip(PALETTE, shown, strict=False):
        name, dof, k = rows[i]
        v.plot(found.time, velocities[:, dof], color=colour, label=name, linewidth=1.3)
        if k is not None:
            q.plot(found.time, found.q[:, k], color=colour, linewidth=1.3)
    title = f"{robot.name}, {found.integrator}, step {found.dt:g} s: {found.status.of().label}"
    if len(shown) < len(rows):
        part = f"{len(shown)} of {len(rows)} velocities"
        fewer = len(moving) > len(shown)
        title += f"; the fastest {part}" if fewer else f"; {part}, the others are zero"
    q.set_title(title + ("; a free base in world axes" * has_free_base(robot)), fontsize=10)
    units = joint_units(robot.model.angular[rows[i][1]] for i in shown)
    for axes, label, unit in ((q, "q", units[0]), (v, "v", units[1])):
        axes.set_ylabel(f"{label}, {unit}")
        axes.grid(alpha=0.3)
        widen_axis(axes, _LEAST_SPAN)
    v.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    draw_energy(energy, ledger)
    draw_residual(residual, ledger)
    residual.set_xlabel("time, s")
    save_figure(figure, file)
