"""Workspace and self-collision: boxes that frames stay in, and distances between links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from qddot.model.model import WORLD
from qddot.robot.robot import Robot

__all__ = ["Workspace", "workspace_violation"]


@dataclass(frozen=True)
class Workspace:
    """Regions that frames stay in, and the clearance that links keep from each other.

    `boxes` has, for frames, the corners between which they stay in the world; `clearance` is the
    least distance in m between the axes of links that are not neighbours (0: not looked at). The
    axis of a link goes from its joint to the next.
    """

    boxes: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    clearance: float = 0.0

    @property
    def is_given(self) -> bool:
        """Whether there is anything to keep clear of."""
        return bool(self.boxes) or self.clearance > 0.0


def workspace_violation(
    robot: Robot, workspace: Workspace, q: np.ndarray
) -> tuple[float, np.ndarray]:
    """Squares by which a workspace is violated (m², summed), and their derivative by q."""
    total, slope = 0.0, np.zeros_like(q)
    for frame, (low, high) in workspace.boxes.items():
        p = robot.frame_pose(q, frame)[..., :3, 3]
        over = np.maximum(p - np.asarray(high), 0.0) - np.maximum(np.asarray(low) - p, 0.0)
        if over.any():
            J = robot.frame_jacobian(q, frame, "local_world_aligned")[..., :3, :]
            total += float((over**2).sum())
            slope += 2.0 * np.einsum("tk,tkj->tj", over, J)
    if workspace.clearance <= 0.0:
        return total, slope
    # squares by which axes of links come closer than the clearance
    model = robot.model
    frames = [b.name for b in model.bodies]
    points = [robot.frame_pose(q, f)[..., :3, 3] for f in frames]
    links = [(b.parent, k) for k, b in enumerate(model.bodies) if b.parent != WORLD]
    close = []
    for (a, b), (c, d) in combinations(links, 2):
        # neighbours share a joint, or are one joint apart
        apart = {a, b} & {c, d} or model.bodies[c].parent in (a, b) or model.bodies[a].parent == d
        if apart or model.bodies[b].parent == c:
            continue
        s, t = _closest(points[a], points[b], points[c], points[d])
        first = points[a] + s[:, None] * (points[b] - points[a])
        second = points[c] + t[:, None] * (points[d] - points[c])
        gap = first - second
        distance = np.linalg.norm(gap, axis=1)
        over = np.maximum(workspace.clearance - distance, 0.0)
        if over.any():
            total += float((over**2).sum())
            close.append(((a, b, s), (c, d, t), over, gap / np.maximum(distance, 1e-9)[:, None]))
    # their derivative, by the velocities of the closest points
    for first_link, second_link, over, normal in close:
        for (i, j, share), sign in ((first_link, -1.0), (second_link, 1.0)):
            Ji, Jj = (
                robot.frame_jacobian(q, frames[k], "local_world_aligned")[..., :3, :]
                for k in (i, j)
            )
            J = Ji + share[:, None, None] * (Jj - Ji)
            slope += sign * 2.0 * over[:, None] * np.einsum("tk,tkj->tj", normal, J)
    return total, slope


def _closest(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shares along segments a–b and c–d of their closest points (Ericson, section 5.1.9)."""
    u, w, r = b - a, d - c, a - c
    A, E = np.maximum((u * u).sum(-1), 1e-12), np.maximum((w * w).sum(-1), 1e-12)
    B, C, F = (u * w).sum(-1), (u * r).sum(-1), (w * r).sum(-1)
    bottom = A * E - B * B
    s = np.clip(np.where(bottom > 1e-12, (B * F - C * E) / np.maximum(bottom, 1e-12), 0.0), 0, 1)
    t = (B * s + F) / E
    inside = np.clip(t, 0.0, 1.0)
    s = np.where(t == inside, s, np.clip((B * inside - C) / A, 0.0, 1.0))
    return s, inside
