"""The terms of the torque along a given motion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.robot.robot import Robot

__all__ = ["Breakdown", "breakdown"]


@dataclass(frozen=True)
class Breakdown:
    """τ = g + M a + C v along a motion, each of shape (..., nv)."""

    gravity: np.ndarray
    inertial: np.ndarray
    coriolis: np.ndarray
    torque: np.ndarray

    @property
    def peaks(self) -> dict[str, np.ndarray]:
        """The largest magnitude of each term by joint, wherever along the motion it occurs."""
        return {name: np.abs(x).reshape(-1, x.shape[-1]).max(0) for name, x in vars(self).items()}

    @property
    def gravity_share(self) -> np.ndarray:
        """Gravity's part of each joint's torque, at the instant where that torque is largest."""
        g, tau = (x.reshape(-1, x.shape[-1]) for x in (self.gravity, self.torque))
        # the instant of the largest torque of each joint
        at = np.abs(tau).argmax(axis=0)[None]
        with np.errstate(invalid="ignore"):
            return (np.take_along_axis(g, at, 0) / np.take_along_axis(tau, at, 0))[0]


def breakdown(robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Breakdown:
    """The terms of the torque at each state of a motion."""
    g, h = robot.gravity(q), robot.bias(q, v)
    inertial = np.einsum("...ij,...j->...i", robot.mass_matrix(q), np.asarray(a, dtype=float))
    return Breakdown(g, inertial, h - g, h + inertial)
