"""Random robots with their states, and comparisons scaled to the size of the numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from random_models import Part, build

from qddot.model.model import Model
from qddot.robot.robot import Robot

STEP = 1e-30


RELATIVE = 1e-10


many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


class Case:
    """A random robot at two random states."""

    def __init__(self, tree: tuple[list[Part], int]) -> None:
        self.model = build(*tree)
        self.robot = Robot(self.model)
        rng = np.random.default_rng(tree[1])
        self.q = self.robot.random(rng, 2)
        self.v, self.a, self.w = (rng.normal(size=(2, self.robot.nv)) for _ in range(3))
        self.frame = str(rng.choice(self.robot.frame_names))
        self.armature = armatures(self.model)

    def along(self, direction: np.ndarray) -> np.ndarray:
        """The configurations an imaginary step along a tangent."""
        return self.robot.integrate(self.q.astype(complex), 1j * STEP * direction)


def armatures(model: Model) -> np.ndarray:
    """Reflected inertia by velocity, followers' included."""
    total = np.zeros(model.nv)
    for body in model.bodies:
        total[body.iv] += float(body.armature)
    return total


def agree(a: np.ndarray, b: np.ndarray, scale: float = 1.0, tolerance: float = RELATIVE) -> None:
    """a = b relative to the largest entry of either."""
    assert a.shape == b.shape
    size = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0), scale)
    assert np.abs(a - b).max(initial=0.0) <= tolerance * size


def dot(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", A, x)
