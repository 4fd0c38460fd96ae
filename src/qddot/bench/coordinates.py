"""States of qddot in the coordinates of other engines, joints matched by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.bench.contender import Skipped
from qddot.robot import Robot

__all__ = ["PinocchioOrder", "VelocityMap", "pinocchio_order", "velocity_map"]


@dataclass(frozen=True)
class PinocchioOrder:
    """Where the velocities and the inertial parameters of qddot stand in Pinocchio's vectors."""

    model: Any
    robot: Robot
    velocities: np.ndarray
    parameters: np.ndarray

    def configurations(self, q: np.ndarray) -> np.ndarray:
        """Configurations in Pinocchio's order, an unbounded angle as cosine and sine."""
        result = np.zeros((len(q), self.model.nq))
        for body in self.robot.model.bodies:
            joint, x = self.model.joints[self.model.getJointId(body.joint.name)], q[:, body.iq]
            if (joint.nq, joint.nv) == (2, 1):
                x = np.concatenate([np.cos(x), np.sin(x)], axis=1)
            result[:, joint.idx_q : joint.idx_q + joint.nq] = x
        return result

    def tangents(self, v: np.ndarray) -> np.ndarray:
        """Velocities, accelerations or torques in Pinocchio's order."""
        result = np.empty_like(v)
        result[:, self.velocities] = v
        return result


def pinocchio_order(robot: Robot, model: Any) -> PinocchioOrder:
    """The order of a Pinocchio model of the same robot."""
    if model.nv != robot.nv:
        raise Skipped(f"{model.nv} degrees of freedom there, {robot.nv} here")
    velocities = np.zeros(robot.nv, int)
    parameters = np.zeros(10 * robot.model.nb, int)
    for i, body in enumerate(robot.model.bodies):
        index = model.getJointId(body.joint.name)
        if index >= model.njoints:
            raise Skipped(f"no joint {body.joint.name!r} there")
        first = model.joints[index].idx_v
        velocities[body.iv] = np.arange(first, first + model.joints[index].nv)
        parameters[10 * i : 10 * i + 10] = np.arange(10 * index - 10, 10 * index)
    return PinocchioOrder(model, robot, velocities, parameters)


@dataclass(frozen=True)
class VelocityMap:
    """Velocities of an engine that takes those of a free body in world axes: T v, T a + rest."""

    T: np.ndarray
    rest: np.ndarray

    def velocities(self, v: np.ndarray) -> np.ndarray:
        """Their velocities or (T is orthogonal) their forces."""
        return np.einsum("nij,nj->ni", self.T, v)

    def accelerations(self, a: np.ndarray) -> np.ndarray:
        """Their accelerations."""
        return self.velocities(a) + self.rest

    def vectors(self, x: np.ndarray) -> np.ndarray:
        """Their forces as ours, at the first states."""
        return np.einsum("nji,nj->ni", self.T[: len(x)], x)

    def squares(self, M: np.ndarray) -> np.ndarray:
        """Their mass matrices as ours, at the first states."""
        T = self.T[: len(M)]
        return T.swapaxes(1, 2) @ M @ T


def velocity_map(
    robot: Robot, q: np.ndarray, v: np.ndarray, places: dict[str, int], linear: int, turned: bool
) -> VelocityMap:
    """The map of an engine whose velocities of a joint begin at `places[joint]`.

    Of a free joint the linear ones stand `linear` further on, the angular ones in the other half,
    in world axes if `turned`.
    """
    n = len(q)
    T, rest = np.zeros((n, robot.nv, robot.nv)), np.zeros((n, robot.nv))
    for body in robot.model.bodies:
        place, first = places[body.joint.name], body.iv.start
        if body.joint.kind.nv == 1:
            T[:, place, first] = 1.0
            continue
        if body.joint.kind.name != "free":
            raise Skipped(f"joint {body.joint.name!r} has other coordinates there")
        R = robot.frame_pose(q, body.name)[:, :3, :3]
        moved, spun = place + linear, place + 3 - linear
        V, W = v[:, first : first + 3], v[:, first + 3 : first + 6]
        T[:, moved : moved + 3, first : first + 3] = R
        T[:, spun : spun + 3, first + 3 : first + 6] = R if turned else np.eye(3)
        rest[:, moved : moved + 3] = np.einsum("nij,nj->ni", R, np.cross(W, V))
    return VelocityMap(T, rest)
