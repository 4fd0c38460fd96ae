"""Robots and motions as pictures and animations, with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.display.plots import PALETTE, new_figure
from qddot.display.text import joint_units
from qddot.errors import InvalidArgument, MissingPackage, ShapeMismatch
from qddot.files import fill_whole
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.view.geometry import Part, robot_geometry
from qddot.view.motion import as_motion

__all__ = ["RobotPicture", "animate_motion", "frame_axes", "plot_motion", "plot_robot"]

_LIGHT = np.array([0.4, -0.6, 0.7]) / math.sqrt(0.4**2 + 0.6**2 + 0.7**2)
_MOST_TRIANGLES = 6000
"""Triangles that matplotlib sorts in a fraction of a second; parts of larger robots are hulls."""


class RobotPicture:
    """A robot drawn into matplotlib axes; `draw` moves it to another configuration."""

    def __init__(self, robot: Robot, axes: Any, opacity: float = 1.0) -> None:
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection

        self.robot = robot
        turn, rise = math.radians(axes.azim), math.radians(axes.elev)
        # towards the camera, which is far away
        self._camera = np.array(
            [math.cos(rise) * math.cos(turn), math.cos(rise) * math.sin(turn), math.sin(rise)]
        )
        geometry = robot_geometry(robot)
        parts = geometry.parts
        if sum(len(part.faces) for part in parts) > _MOST_TRIANGLES:
            parts = tuple(_hull_of(part) for part in parts)
        self._triangles = [(part.body, part.vertices[part.faces]) for part in parts]
        self._colours = [np.array([*part.rgba[:3], part.rgba[3] * opacity]) for part in parts]
        self._collection = Poly3DCollection([], linewidths=0.0, antialiased=False)
        axes.add_collection3d(self._collection)

    def draw(self, q: np.ndarray) -> np.ndarray:
        """Move the robot; the corners of all triangles (n, 3, 3) in the world."""
        poses = self.robot.call("body_poses", q) if self.robot.nv else np.empty((0, 4, 4))
        placed, colours = [], []
        for (body, corners), rgba in zip(self._triangles, self._colours, strict=True):
            X = np.eye(4) if body == WORLD else poses[body]
            world = corners @ X[:3, :3].T + X[:3, 3]
            normals = np.cross(world[:, 1] - world[:, 0], world[:, 2] - world[:, 0])
            # matplotlib sorts triangles by their middles only: leave the far side of a part out
            if rgba[3] == 1.0:
                near = normals @ self._camera > 0.0
                world, normals = world[near], normals[near]
            length = np.linalg.norm(normals, axis=1, keepdims=True)
            bright = 0.62 + 0.38 * (normals / np.where(length > 0, length, 1.0)) @ _LIGHT
            shade = np.repeat(rgba[None], len(world), axis=0)
            shade[:, :3] *= bright[:, None]
            placed.append(world)
            colours.append(shade.clip(0.0, 1.0))
        triangles = np.concatenate(placed) if placed else np.zeros((0, 3, 3))
        self._collection.set_verts(list(triangles))
        self._collection.set_facecolors(np.concatenate(colours) if colours else [])
        return triangles


def _hull_of(part: Part) -> Part:
    """The convex hull of a part, or the part where it has none."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(part.vertices)
    except (QhullError, ValueError):
        return part
    # qhull turns its triangles either way; outward is away from the middle
    faces, inside = hull.simplices.copy(), part.vertices[hull.vertices].mean(axis=0)
    a, b, c = (part.vertices[faces[:, k]] for k in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), a - inside) < 0
    faces[inward] = faces[inward][:, [0, 2, 1]]
    return Part(part.body, part.vertices, faces, part.rgba)


def plot_robot(
    robot: Robot,
    q: ArrayLike | None = None,
    *,
    elevation: float = 20.0,
    azimuth: float = -50.0,
    size: float = 6.0,
) -> Any:
    """A matplotlib figure of the robot at q (nq), or at each row of q (n, nq), earlier ones paler.

    `elevation` and `azimuth` are those of the camera in degrees, `size` is in inches.
    """
    q = robot.neutral() if q is None else q
    try:
        states = np.atleast_2d(np.asarray(q, dtype=float))
    except (TypeError, ValueError) as error:
        raise InvalidArgument("plot: q", q, "it needs an array of numbers") from error
    if states.ndim != 2 or states.shape[1] != robot.nq:
        raise ShapeMismatch("plot", "q", f"({robot.nq},) or (n, {robot.nq})", np.shape(q))
    if not np.isfinite(states).all():
        raise InvalidArgument("plot: q", "NaN or inf", "it must be finite")
    figure, axes = _new_axes(size, elevation, azimuth)
    shown = [
        RobotPicture(robot, axes, opacity).draw(state)
        for state, opacity in zip(states, np.linspace(1.0, 0.25, len(states))[::-1], strict=True)
    ]
    frame_axes(axes, np.concatenate(shown).reshape(-1, 3))
    axes.set_title(robot.name)
    return figure


def _new_axes(size: float, elevation: float, azimuth: float) -> tuple[Any, Any]:
    """A figure with three-dimensional axes that show nothing but what is put into them."""
    figure = new_figure(size, size)
    axes = figure.add_subplot(projection="3d")
    axes.view_init(elevation, azimuth)
    axes.set_proj_type("ortho")
    axes.set_axis_off()
    return figure, axes


def frame_axes(axes: Any, points: np.ndarray) -> None:
    """Limits of the axes around points, one scale for all three, and a floor below them."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = 0.5 * (low + high), 0.5 * float((high - low).max()) or 0.5
    z = float(low[2])
    # a floor of squares of a round length
    step = 10.0 ** math.floor(math.log10(half))
    step *= 1 if half / step < 5 else 2
    a, b = middle[:2] - 1.1 * half, middle[:2] + 1.1 * half
    for k in range(math.ceil(a[0] / step), math.floor(b[0] / step) + 1):
        axes.plot([k * step] * 2, [a[1], b[1]], [z, z], color="#d0d4d9", lw=0.7, zorder=-2)
    for k in range(math.ceil(a[1] / step), math.floor(b[1] / step) + 1):
        axes.plot([a[0], b[0]], [k * step] * 2, [z, z], color="#d0d4d9", lw=0.7, zorder=-2)
    axes.set(
        xlim=(middle[0] - half, middle[0] + half),
        ylim=(middle[1] - half, middle[1] + half),
        zlim=(middle[2] - half, middle[2] + half),
    )
    axes.set_box_aspect((1, 1, 1), zoom=1.15)
    axes.text2D(
        0.02, 0.02, f"squares of {step:g} m", transform=axes.transAxes, fontsize=8, color="#888"
    )


def plot_motion(
    motion: Any, robot: Robot | None = None, joints: Sequence[str] | None = None
) -> Any:
    """A matplotlib figure of a motion over time: positions, velocities and torques, by joint.

    Rows are cut where a spike would flatten the rest, and say how high it goes. `joints` takes
    some of them by name.
    """
    moved = as_motion(motion, robot)
    robot = moved.robot
    names = robot.model.velocity_names
    # a joint of several velocities is wanted by its own name too
    rows = [
        k
        for k, name in enumerate(names)
        if joints is None or name in joints or name.rsplit(".", 1)[0] in joints
    ]
    if joints is not None and not rows:
        raise InvalidArgument("plot: joints", list(joints), f"the joints are {', '.join(names)}")
    units = joint_units(robot.model.angular[k] for k in rows)
    panels = [(f"position, {units[0]}", moved.positions), (f"velocity, {units[1]}", moved.v)]
    if moved.tau is not None and moved.tau.any():
        panels.append((f"torque, {units[2]}", moved.tau))
    figure = new_figure(9.0, 1.0 + 2.3 * len(panels))
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    styles = ("-", "--", ":", "-.")
    for axes, (label, values) in zip(all_axes, panels, strict=True):
        time = moved.time[: len(values)]
        for n, k in enumerate(rows):
            style = {"color": PALETTE[n % len(PALETTE)], "ls": styles[n // len(PALETTE) % 4]}
            axes.plot(time, values[:, k], label=names[k], lw=1.4, **style)
        # cut where few samples are far above or below the rest
        sound = values[:, rows][np.isfinite(values[:, rows])]
        low, high = np.percentile(sound, [0.5, 99.5]) if sound.size else (0.0, 0.0)
        room = 0.25 * (high - low) or 1.0
        if sound.size and (sound.max() > high + 3 * room or sound.min() < low - 3 * room):
            axes.set_ylim(low - room, high + room)
            text = f"cut: from {sound.min():.3g} to {sound.max():.3g}"
            axes.text(0.99, 0.96, text, transform=axes.transAxes, ha="right", va="top", fontsize=7)
        axes.set_ylabel(label)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            fontsize=7,
            ncols=1 + len(rows) // 16,
            frameon=False,
        )
    all_axes[-1].set_xlabel("time, s")
    figure.suptitle(robot.name)
    return figure


def animate_motion(
    motion: Any,
    file: str | Path,
    robot: Robot | None = None,
    *,
    fps: int = 20,
    speed: float = 1.0,
    size: float = 5.0,
    elevation: float = 20.0,
    azimuth: float = -50.0,
) -> Path:
    """Write a motion as an animation: .gif, or .mp4 where ffmpeg is installed; the path.

    It plays at `speed` times real time, `fps` pictures a second.
    """
    from matplotlib.animation import FFMpegWriter, PillowWriter

    target = Path(file)
    writers = {".gif": PillowWriter, ".mp4": FFMpegWriter}
    if target.suffix not in writers:
        raise InvalidArgument("file", str(file), "its name ends in .gif or .mp4")
    if target.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise MissingPackage("ffmpeg", "writing .mp4 files", "ffmpeg with your system, or use .gif")
    if not (fps >= 1 and speed > 0):
        raise InvalidArgument("fps, speed", (fps, speed), "both are above 0")
    moved = as_motion(motion, robot)
    states = moved.sample(np.arange(0.0, moved.duration + 1e-9, speed / fps))
    figure, axes = _new_axes(size, elevation, azimuth)
    picture = RobotPicture(moved.robot, axes)
    # one view for the whole motion
    every = np.concatenate(
        [picture.draw(q).reshape(-1, 3) for q in states[:: max(1, len(states) // 12)]]
    )
    frame_axes(axes, every)
    title = axes.set_title(moved.robot.name)

    def write(draft: Path) -> None:
        writer = writers[target.suffix](fps=fps)
        with writer.saving(figure, str(draft), dpi=90):
            for k, q in enumerate(states):
                picture.draw(q)
                title.set_text(f"{moved.robot.name}, {k * speed / fps:.2f} s")
                writer.grab_frame()

    fill_whole(target, write, force=True)
    return target
