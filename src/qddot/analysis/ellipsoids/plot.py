"""Pictures of ellipsoids: at the tool of an arm, and in the space of its joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import TASK_AXES, ReferenceAxes
from qddot.analysis.ellipsoids.shapes import (
    Bounds,
    Ellipsoid,
    acceleration_ellipsoid,
    force_ellipsoid,
    mass_ellipsoid,
    tool_acceleration_ellipsoid,
    torque_ellipsoid,
    velocity_ellipsoid,
)
from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.model.model import WORLD
from qddot.robot.robot import Robot

__all__ = ["KINDS", "Kind", "plot_ellipsoids", "plot_joint_ellipsoids"]

Kind = Literal["velocity", "force", "acceleration", "mass", "belted mass"]
KINDS: tuple[Kind, ...] = get_args(Kind)
File = str | PathLike[str] | None

_SEEN: ReferenceAxes = "local_world_aligned"
_GREY = "#9a9a9a"
_SIZE = 0.4
"""The longest radius in a picture, as a share of the size of the robot."""
_MOST_NUMBERS = 8
_CUT = 2.0
"""How many times the longest finite radius an infinite one is drawn."""


def plot_ellipsoids(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    kinds: Sequence[Kind] = ("velocity", "force", "acceleration", "mass"),
    *,
    torque: Bounds = 1.0,
    gravity: bool = False,
    file: File = None,
) -> Any:
    """A matplotlib figure of the robot with ellipsoids of a frame, a panel a kind.

    Two dimensions where the frame moves in a plane of the world's axes, three otherwise. Each
    ellipsoid has a scale of its own: its radii stand above it. `torque` and `gravity` as in
    `acceleration_ellipsoid`; `file` takes the picture.
    """
    q = _check_configuration(robot, q)
    chosen: tuple[Any, ...] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    unknown = [kind for kind in chosen or ("",) if kind not in KINDS]
    if unknown:
        raise UnknownName("kind", unknown[0], KINDS)
    # the robot as segments between the origins of bodies and their parents; frames at their ends
    origins = robot.body_poses(q)[:, :3, 3]
    segments = []
    for i, body in enumerate(robot.model.bodies):
        if body.parent != WORLD:
            segments.append((origins[body.parent], origins[i]))
        # planar and free joints both rotate and translate, away from the world
        elif len(set(body.joint.kind.angular)) == 1:
            segments.append((np.zeros(3), origins[i]))
    for end, place in zip(robot.model.frames, robot.frame_poses(q)[:, :3, 3], strict=True):
        if end.body != WORLD:
            segments.append((origins[end.body], place))
    # seen along the axes of its plane or in space
    axes = _plane_of_motion(robot, q, frame) or TASK_AXES[:3]
    bones = np.array(segments)[..., [TASK_AXES.index(a) for a in axes]]
    tool = robot.frame_pose(q, frame)[[TASK_AXES.index(a) for a in axes], 3]
    size = max(float(np.ptp(bones.reshape(-1, len(axes)), axis=0).max()), 1e-3)
    columns = min(2, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = new_figure(5.2 * columns, 4.9 * lines)
    for k, kind in enumerate(chosen):
        shape = _make_ellipsoid(
            robot, q, frame, kind=kind, axes=axes, torque=torque, gravity=gravity
        )
        ax = _add_panel(figure, (lines, columns, k + 1), axes, "m")
        # bones in grey, the tool as a dot
        for segment in bones:
            ax.plot(*segment.T, color=_GREY, linewidth=3, solid_capstyle="round", zorder=1)
        ax.plot(*tool, "o", color="black", markersize=4, zorder=4)
        # metres a unit, so that the ellipsoid with its centre is a share of the robot's size
        finite = shape.radii[np.isfinite(shape.radii)]
        longest = float(finite.max(initial=0.0) + np.linalg.norm(shape.centre))
        scale = _SIZE * size / longest if longest > 0.0 else _SIZE * size
        surface = _draw_shape(ax, shape, place=tool, scale=scale, colour=PALETTE[k])
        weight = "\nits centre is what weight does (dashed)" if shape.centre.any() else ""
        words = f"{shape.title}\n{_radii_text(shape)}{_bounds_text(kind, torque)}{weight}"
        ax.set_title(words, fontsize=10)
        _set_view(ax, np.concatenate([bones.reshape(-1, len(axes)), surface]))
    title = f"{robot.name}, q = {_format_vector(q)}" if robot.nq <= _MOST_NUMBERS else robot.name
    figure.suptitle(title)
    if file is not None:
        save_figure(figure, Path(file))
    return figure


def plot_joint_ellipsoids(
    robot: Robot,
    configurations: ArrayLike,
    joints: Sequence[str] | None = None,
    *,
    gravity: bool = False,
    file: File = None,
) -> Any:
    """A figure of torque ellipsoids (‖q̈‖ ≤ 1) and acceleration ellipsoids (‖τ‖ ≤ 1) of two or
    three joints, one pair a configuration (Lynch & Park 2017, figure 8.4).
    """  # noqa: D205
    from matplotlib.lines import Line2D

    many = np.atleast_2d(np.asarray(configurations, dtype=float))
    names = robot.model.velocity_names if joints is None else tuple(joints)
    if len(names) not in (2, 3):
        raise InvalidArgument("joints", names, "two or three can be drawn: name them")
    figure = new_figure(10.6, 5.2 + 0.2 * len(many))
    labels = [f"q = {_format_vector(q)}" for q in many]
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(many))]
    pairs = ((torque_ellipsoid, "‖q̈‖ ≤ 1"), (acceleration_ellipsoid, "‖τ‖ ≤ 1"))
    for k, (ellipsoid, ball) in enumerate(pairs):
        shapes = [
            ellipsoid(robot, _check_configuration(robot, q), joints=names, gravity=gravity)
            for q in many
        ]
        ax = _add_panel(figure, (1, 2, k + 1), names, shapes[0].unit)
        drawn = [
            _draw_shape(ax, shape, place=np.zeros(len(names)), scale=1.0, colour=colour)
            for shape, colour in zip(shapes, colours, strict=True)
        ]
        labels = [
            f"{text}; {shape.title} {_radii_text(shape)}"
            for text, shape in zip(labels, shapes, strict=True)
        ]
        ax.set_title(f"{shapes[0].title} ellipsoid, {ball}", fontsize=11)
        _set_view(ax, np.concatenate(drawn))
    handles = [Line2D([], [], color=colour) for colour in colours]
    figure.legend(handles, labels, loc="outside lower center", fontsize=9, frameon=False)
    figure.suptitle(f"{robot.name} at rest{', with gravity' if gravity else ''}")
    if file is not None:
        save_figure(figure, Path(file))
    return figure


def _check_configuration(robot: Robot, q: ArrayLike) -> np.ndarray:
    """One configuration."""
    x = np.asarray(q, dtype=float)
    if x.shape != (robot.nq,):
        raise ShapeMismatch("plot", "q", f"(nq={robot.nq},)", x.shape)
    if not np.isfinite(x).all():
        raise InvalidArgument("q", x, "a picture needs finite numbers")
    return x


def _make_ellipsoid(
    robot: Robot,
    q: np.ndarray,
    frame: str,
    kind: Kind,
    axes: Sequence[str],
    torque: Bounds,
    gravity: bool,
) -> Ellipsoid:
    """The ellipsoid of a kind."""
    if kind == "velocity":
        return velocity_ellipsoid(robot, q, frame, _SEEN, axes)
    if kind == "force":
        return force_ellipsoid(robot, q, frame, _SEEN, axes, torque)
    if kind == "acceleration":
        return tool_acceleration_ellipsoid(robot, q, frame, _SEEN, axes, torque, gravity)
    return mass_ellipsoid(robot, q, frame, _SEEN, axes, belted=kind == "belted mass")


def _plane_of_motion(robot: Robot, q: np.ndarray, frame: str) -> tuple[str, ...] | None:
    """The world axes of the plane in which a frame moves, if there is one."""
    J = np.abs(robot.frame_jacobian(q, frame, _SEEN))
    still = J.max(axis=1, initial=0.0) <= 1e-9 * max(J.max(initial=0.0), 1e-300)
    for normal in range(3):
        plane = [i for i in range(3) if i != normal]
        if still[[normal, *(3 + i for i in plane)]].all() and not still[3 + normal]:
            return tuple(TASK_AXES[i] for i in plane)
    return None


def _add_panel(
    figure: Any, place: tuple[int, int, int], coordinates: Sequence[str], unit: str
) -> Any:
    """The axes of a panel, in two or three dimensions, with its labels."""
    ax = figure.add_subplot(*place, projection="3d" if len(coordinates) == 3 else None)
    for axis, name in zip("xyz", coordinates, strict=False):
        getattr(ax, f"set_{axis}label")(f"{name} / {unit}")
    return ax


def _draw_shape(
    ax: Any, shape: Ellipsoid, place: np.ndarray, scale: float, colour: str
) -> np.ndarray:
    """An ellipsoid at a place with its principal axes, cut off where infinite; gives its points."""
    # infinite radii are cut off
    endless = np.isinf(shape.radii)
    cut = _CUT * (scale * shape.radii[~endless].max(initial=0.0) or 1.0)
    centre, radii = place + scale * shape.centre, np.where(endless, cut, scale * shape.radii)
    if endless.any():
        k = len(place)
        unit = Ellipsoid("", "", shape.coordinates, np.zeros(k), np.eye(k), np.ones(k)).points(360)
        surface = centre + unit * np.minimum(scale * shape.radius(unit), cut)[..., None]
    else:
        surface = dataclasses.replace(shape, centre=centre, radii=radii).points()
    # principal axes, then the surface, then the way from the place to the centre
    for axis, radius in zip(shape.axes.T, radii, strict=True):
        ends = centre + np.outer([-radius, radius], axis)
        ax.plot(*ends.T, color=colour, linewidth=1.0, zorder=3)
    if surface.ndim == 2:
        ax.fill(*surface.T, color=colour, alpha=0.2, linewidth=0, zorder=2)
        ax.plot(*surface.T, color=colour, linewidth=1.5, zorder=3)
    else:
        ax.plot_surface(*np.moveaxis(surface, -1, 0), color=colour, alpha=0.25, linewidth=0)
    if shape.centre.any():
        ax.plot(*np.stack([place, centre]).T, "--", color="black", linewidth=1.0, zorder=4)
    return surface.reshape(-1, len(place))


def _radii_text(shape: Ellipsoid) -> str:
    """Radii in words."""
    values = ", ".join("∞" if np.isinf(r) else f"{r:.3g}" for r in shape.radii)
    return f"radii {values} {shape.unit}"


def _bounds_text(kind: Kind, torque: Bounds) -> str:
    """The ball that an ellipsoid is the image of, in words."""
    if kind == "velocity":
        return ", ‖q̇‖ ≤ 1"
    if kind not in ("force", "acceleration"):
        return ""
    if isinstance(torque, str):
        return ", within the effort limits"
    return f", ‖τ‖ ≤ {float(np.asarray(torque)):g}" if np.ndim(torque) == 0 else ", ‖τ/bound‖ ≤ 1"


def _format_vector(q: np.ndarray) -> str:
    return f"({', '.join(f'{x:.3g}' for x in q)})"


def _set_view(ax: Any, points: np.ndarray) -> None:
    """Equal scales that show all points."""
    if points.shape[1] == 2:
        ax.set_aspect("equal", adjustable="datalim")
        ax.grid(alpha=0.3)
        ax.margins(0.08)
        return
    # three dimensions: a cube about the points
    from matplotlib.ticker import MaxNLocator

    low, high = points.min(axis=0), points.max(axis=0)
    half = 0.55 * max(float((high - low).max()), 1e-12)
    for axis, middle in zip("xyz", (low + high) / 2.0, strict=True):
        getattr(ax, f"set_{axis}lim")(middle - half, middle + half)
        getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(5))
    ax.set_box_aspect((1.0, 1.0, 1.0), zoom=0.9)
    ax.view_init(elev=22, azim=-55)
