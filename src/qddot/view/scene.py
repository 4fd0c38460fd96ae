"""A robot in a three-dimensional scene of viser: bodies that move, and overlays fixed to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from qddot.analysis import ellipsoids
from qddot.analysis.balance import Ground, support_polygon
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.view.geometry import Part, RobotGeometry, inertia_part, robot_geometry, sphere_mesh

__all__ = ["OVERLAYS", "TOOL_ELLIPSOIDS", "RobotScene", "quaternions"]

OVERLAYS = (
    "inertia boxes",
    "inertia ellipsoids",
    "frames",
    "joint axes",
    "body names",
    "centre of mass",
    "support polygon",
    "loop closures",
)
"""What can be shown besides the robot itself."""
TOOL_ELLIPSOIDS = ("none", "velocity", "force", "mass")
_NEAR_GROUND = 0.01
_MOST_CORNERS = 4000
_SEEN = 1e-5
"""Change of a quaternion, or of a position by the size of the robot, that can be seen."""
_FORCE_OF_WEIGHT = 1.0
"""Length of the arrow of a force as large as the weight, by the size of the robot."""


def quaternions(R: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) in the order w, x, y, z of rotation matrices (..., 3, 3)."""
    return np.roll(Rotation.from_matrix(R).as_quat(), 1, axis=-1)


class RobotScene:
    """Nodes of a robot below `root`; `move` takes it to other poses of its bodies."""

    def __init__(
        self,
        scene: Any,
        robot: Robot,
        root: str = "/robot",
        opacity: float = 1.0,
        tint: tuple[float, float, float] | None = None,
    ) -> None:
        self.robot, self._scene, self._root = robot, scene, root
        self.geometry: RobotGeometry = robot_geometry(robot)
        self.size = self.geometry.size
        # a body hangs on its parent, so that a joint that turns is one message
        self._parents = np.array([body.parent for body in robot.model.bodies], dtype=int)
        self._paths = {WORLD: root}
        for i, parent in enumerate(self._parents):
            self._paths[i] = f"{self._paths[int(parent)]}/{i}"
        self._bodies = [
            scene.add_frame(self._paths[i], show_axes=False) for i in range(robot.model.nb)
        ]
        self._placed = np.full((robot.model.nb, 7), np.nan)
        self._meshes = list(self._add_meshes(opacity, tint))
        self._overlays: dict[str, list[Any]] = {}
        # corners of what moves, thinned out where there are many
        moving = [part for part in self.geometry.parts if part.body != WORLD]
        every = max(1, sum(len(part.vertices) for part in moving) // _MOST_CORNERS)
        self._corners = [(part.body, part.vertices[::every]) for part in moving]

    def _node(self, body: int, name: str) -> str:
        """Path of a node fixed to a body."""
        return f"{self._paths[body]}/{'world ' if body == WORLD else ''}{name}"

    def _add_meshes(self, opacity: float, tint: Any) -> Iterator[tuple[Any, float]]:
        """A mesh for the parts of a body that have one colour."""
        groups: dict[tuple[int, tuple[float, ...]], list[Part]] = {}
        for part in self.geometry.parts:
            groups.setdefault((part.body, part.rgba), []).append(part)
        for n, ((body, rgba), parts) in enumerate(groups.items()):
            starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
            faces = [part.faces + k for part, k in zip(parts, starts, strict=False)]
            mesh = self._scene.add_mesh_simple(
                self._node(body, f"mesh{n}"),
                np.concatenate([part.vertices for part in parts]).astype(np.float32),
                np.concatenate(faces).astype(np.uint32),
                color=tuple(tint or rgba[:3]),
                opacity=None if rgba[3] * opacity >= 1.0 else rgba[3] * opacity,
                flat_shading=True,
                side="double",
            )
            yield mesh, rgba[3]

    def set_opacity(self, opacity: float) -> None:
        """Show the robot as a ghost (below 1) or solid."""
        for mesh, own in self._meshes:
            mesh.opacity = None if own * opacity >= 1.0 else own * opacity
            mesh.visible = opacity > 0.0

    def move(self, poses: np.ndarray) -> None:
        """Take the bodies to these poses (nb, 4, 4) in the world; what stays is not sent again."""
        if not len(poses):
            return
        # poses in the parents; the world is the last, which the index -1 finds
        parents = np.concatenate([poses, np.eye(4)[None]])[self._parents]
        turned = parents[:, :3, :3].swapaxes(-1, -2)
        offsets = (turned @ (poses[:, :3, 3] - parents[:, :3, 3])[..., None])[..., 0]
        placed = np.concatenate([quaternions(turned @ poses[:, :3, :3]), offsets], axis=1)
        changed = ~(np.abs(placed - self._placed) < _SEEN * np.array([1.0] * 4 + [self.size] * 3))
        for i in np.flatnonzero(changed[:, :4].any(axis=1)):
            self._bodies[i].wxyz = placed[i, :4]
        for i in np.flatnonzero(changed[:, 4:].any(axis=1)):
            self._bodies[i].position = placed[i, 4:]
        self._placed = np.where(changed, placed, self._placed)

    def show(self, overlay: str, visible: bool) -> None:
        """Show or hide what is fixed to the bodies; it is made when it is first shown."""
        makers: dict[str, Callable[[], Iterator[Any]]] = {
            "inertia boxes": lambda: self._inertias("box"),
            "inertia ellipsoids": lambda: self._inertias("ellipsoid"),
            "frames": self._frames,
            "joint axes": self._joint_axes,
            "body names": self._names,
        }
        if overlay in makers and overlay not in self._overlays and visible:
            self._overlays[overlay] = list(makers[overlay]())
        for handle in self._overlays.get(overlay, ()):
            handle.visible = visible

    def _inertias(self, form: Any) -> Iterator[Any]:
        for i, body in enumerate(self.robot.model.bodies):
            part = inertia_part(i, body, form, (0.85, 0.50, 0.20, 0.45))
            if part is not None:
                yield self._scene.add_mesh_simple(
                    self._node(i, f"inertia {form}"),
                    part.vertices.astype(np.float32),
                    part.faces.astype(np.uint32),
                    color=part.rgba[:3],
                    opacity=part.rgba[3],
                    flat_shading=form == "box",
                    side="double",
                    cast_shadow=False,
                )

    def _frames(self) -> Iterator[Any]:
        for frame in self.robot.model.frames:
            X = np.array([[float(x) for x in row] for row in frame.placement])
            yield self._scene.add_frame(
                self._node(frame.body, f"frame {frame.name.replace('/', ' ')}"),
                axes_length=0.08 * self.size,
                axes_radius=0.003 * self.size,
                wxyz=quaternions(X[:3, :3]),
                position=X[:3, 3],
            )

    def _joint_axes(self) -> Iterator[Any]:
        for i, body in enumerate(self.robot.model.bodies):
            _, S = body.joint.kinematics(body.joint.kind.neutral)
            if body.joint.kind.nv == 1:
                motion = next(iter(S))
                turns = any(float(x) for x in motion.ang)
                axis = np.array([float(x) for x in (motion.ang if turns else motion.lin)])
                half = 0.09 * self.size * axis / (np.linalg.norm(axis) or 1.0)
                yield self._scene.add_arrows(
                    self._node(i, "axis"),
                    np.array([[-half, half]], dtype=np.float32),
                    colors=(59, 111, 182) if turns else (90, 158, 82),
                    shaft_radius=0.005 * self.size,
                    head_radius=0.012 * self.size,
                    head_length=0.025 * self.size,
                )

    def _names(self) -> Iterator[Any]:
        for i, body in enumerate(self.robot.model.bodies):
            yield self._scene.add_label(self._node(i, "name"), body.name)

    def mark_center_of_mass(self, point: np.ndarray, ground: float, visible: bool) -> None:
        """A ball at the centre of mass, and a line down to the ground."""
        if "centre of mass" not in self._overlays and not visible:
            return
        if "centre of mass" not in self._overlays:
            ball = self._scene.add_icosphere(
                f"{self._root}/centre of mass", radius=0.018 * self.size, color=(201, 162, 39)
            )
            line = self._scene.add_line_segments(
                f"{self._root}/plumb line",
                np.zeros((1, 2, 3), np.float32),
                colors=(201, 162, 39),
                thickness=0.004 * self.size,
            )
            self._overlays["centre of mass"] = [ball, line]
        ball, line = self._overlays["centre of mass"]
        ball.visible = line.visible = visible
        ball.position = point
        line.points = np.array([[point, [point[0], point[1], ground]]], dtype=np.float32)

    def mark_support(self, poses: np.ndarray, com: np.ndarray, visible: bool) -> float | None:
        """Draw the support polygon of what is near the lowest point of the robot.

        Returns how far the centre of mass lies inside it in metres, negative outside.
        """
        handles = self._overlays.get("support polygon", [])
        if not visible or not len(self._corners):
            for handle in handles:
                handle.visible = False
            return None
        world = np.concatenate([x @ poses[i, :3, :3].T + poses[i, :3, 3] for i, x in self._corners])
        low = float(world[:, 2].min())
        polygon = support_polygon(
            world[world[:, 2] < low + _NEAR_GROUND * max(1.0, self.size)], Ground((0.0, 0.0, low))
        )
        corners = polygon.vertices
        segments = np.stack([corners, np.roll(corners, -1, axis=0)], axis=1).astype(np.float32)
        margin = float(polygon.margin(com).distance)
        colour = (90, 158, 82) if margin > 0 else (181, 72, 74)
        handle = self._scene.add_line_segments(
            f"{self._root}/support",
            segments,
            colors=colour,
            thickness=0.008 * self.size,
        )
        self._overlays["support polygon"] = [handle]
        return margin

    def mark_loops(self, q: np.ndarray, visible: bool) -> float:
        """Lines across the gaps of loop closures; the widest gap in metres."""
        loops = self.robot.model.loops
        if not loops:
            return 0.0
        ends = [
            [self.robot.call("frame_pose", q, frame=name)[:3, 3] for name in (x.frame1, x.frame2)]
            for x in loops
        ]
        gaps = np.array(ends)
        if visible and "loop closures" not in self._overlays:
            handle = self._scene.add_line_segments(
                f"{self._root}/loops",
                gaps.astype(np.float32),
                colors=(181, 72, 74),
                thickness=0.01 * self.size,
            )
            self._overlays["loop closures"] = [handle]
        for handle in self._overlays.get("loop closures", ()):
            handle.visible, handle.points = visible, gaps.astype(np.float32)
        return float(np.linalg.norm(gaps[:, 0] - gaps[:, 1], axis=1).max())

    def mark_contacts(self, points: np.ndarray, forces: np.ndarray, visible: bool) -> float:
        """Arrows of forces (k, 3) in N at points (k, 3) of the world; their sum's size in N.

        An arrow as long as the robot is its weight.
        """
        weight = max(9.81 * float(self.robot.model.mass), 1e-9)
        ends = points + forces * (_FORCE_OF_WEIGHT * self.size / weight)
        arrows = np.stack([points, ends], axis=1).astype(np.float32)
        if visible and "contact forces" not in self._overlays:
            handle = self._scene.add_arrows(
                f"{self._root}/contact forces",
                arrows,
                colors=(214, 90, 20),
                shaft_radius=0.006 * self.size,
                head_radius=0.014 * self.size,
                head_length=0.03 * self.size,
            )
            self._overlays["contact forces"] = [handle]
        for handle in self._overlays.get("contact forces", ()):
            handle.visible, handle.points = visible, arrows
        return float(np.linalg.norm(forces.sum(axis=0)))

    def mark_tool(self, q: np.ndarray, frame: str, kind: str) -> str:
        """Draw an ellipsoid at the tool, half the robot long; its radii in words."""
        for handle in self._overlays.get("tool", ()):
            handle.visible = False
        if kind == "none":
            return ""
        make = {
            "velocity": ellipsoids.velocity_ellipsoid,
            "force": ellipsoids.force_ellipsoid,
            "mass": ellipsoids.mass_ellipsoid,
        }[kind]
        found = make(self.robot, q, frame, "local_world_aligned")
        radii = np.nan_to_num(found.radii, nan=0.0, posinf=1e3)
        vertices, faces = sphere_mesh(
            (radii / max(radii.max(), 1e-9) * 0.25 * self.size).clip(1e-4 * self.size)
        )
        at = self.robot.call("frame_pose", q, frame=frame)[:3, 3]
        handle = self._scene.add_mesh_simple(
            f"{self._root}/tool ellipsoid",
            (vertices @ found.axes.T + at).astype(np.float32),
            faces.astype(np.uint32),
            color=(138, 111, 176),
            opacity=0.4,
            side="double",
            cast_shadow=False,
        )
        self._overlays["tool"] = [handle]
        return f"{kind}: {', '.join(f'{x:.3g}' for x in found.radii)} {found.unit}"
