"""Two models of one robot at the same random states.

Coordinates are matched by the names of joints. A planar or free joint that was written as slides
has the same coordinates and other velocities: q̇ = T(q) v, so M and the bias are taken back by T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qddot.model import WORLD, Body, Model
from qddot.robot import Robot
from qddot.spatial import Transform, rotation_about, rotation_from_quaternion
from qddot.writers.measures import BOUND, Measure, worst

__all__ = [
    "Difference",
    "Pair",
    "bias",
    "difference",
    "frames",
    "friction",
    "joint_parts",
    "mass_matrix",
    "pair_states",
]

_PARTS = {"planar": ("x", "y", "angle"), "free": ("x", "y", "z", "turn")}


@dataclass(frozen=True)
class Difference:
    """How far two robots with the same coordinates are apart, relative to the largest entry."""

    mass_matrix: float
    bias: float
    friction: float


@dataclass(frozen=True)
class Pair:
    """What was meant, what was read back, and states of both."""

    ours: Robot
    theirs: Robot
    q: np.ndarray
    v: np.ndarray
    q2: np.ndarray
    v2: np.ndarray
    T: np.ndarray
    rest: np.ndarray

    @cached_property
    def M2(self) -> np.ndarray:
        """M of what was read back."""
        return self.theirs.mass_matrix(self.q2)


def joint_parts(body: Body, there: Any) -> list[str]:
    """The joints of a file that a joint is written as: itself, or its parts."""
    name, parts = body.joint.name, _PARTS.get(body.joint.kind.name, ())
    return [name] if name in there or not parts else [f"{name}.{part}" for part in parts]


def difference(a: Model, b: Model, states: int = 100, seed: int = 0) -> Difference:
    """The largest differences of two models of one robot at random states."""
    pair = pair_states(a, b, states, seed)
    return Difference(*(f(pair)[0].measured for f in (mass_matrix, bias, friction)))


def pair_states(said: Model, loaded: Model, states: int, seed: int) -> Pair:
    """Random states of the robot, and the same states of what was read back."""
    ours, theirs = Robot(said, native=False), Robot(loaded, native=False)
    rng = np.random.default_rng(seed)
    q, v = ours.random(rng, states), rng.normal(size=(states, said.nv))
    q2, rest = np.zeros((states, loaded.nq)), np.zeros((states, loaded.nv))
    T = np.zeros((states, loaded.nv, said.nv))
    there = {b.joint.name: b for b in loaded.independent}
    for body in said.independent:
        kind = body.joint.kind
        parts = joint_parts(body, there)
        iq = [k for p in parts for k in range(there[p].iq.start, there[p].iq.stop)]
        iv = [k for p in parts for k in there[p].dofs]
        q2[:, iq] = q[:, body.iq]
        block, drift = np.eye(kind.nv), np.zeros(kind.nv)
        if len(parts) > 1:
            block, drift = _turning(body, q[:, body.iq], v[:, body.iv])
        T[:, iv, body.iv] = block
        rest[:, iv] = drift
    return Pair(ours, theirs, q, v, q2, np.einsum("nij,nj->ni", T, v), T, rest)


def _turning(body: Body, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """T from velocities in body axes to rates of coordinates, and Ṫ v, for a plane or a pose."""
    planar = body.joint.kind.name == "planar"
    n = 2 if planar else 3
    z = Transform.identity().R.c
    turn = rotation_about(z, q[:, 2]) if planar else rotation_from_quaternion(*q[:, 3:].T)
    R = np.stack([np.stack(np.broadcast_arrays(*row), -1) for row in turn], -2)
    w = np.pad(v[:, 2:], ((0, 0), (2, 0))) if planar else v[:, 3:]
    linear = np.pad(v[:, :2], ((0, 0), (0, 1))) if planar else v[:, :3]
    T = np.broadcast_to(np.eye(body.joint.kind.nv), (len(q), *[body.joint.kind.nv] * 2)).copy()
    T[:, :n, :n] = R[:, :n, :n]
    drift = np.zeros_like(v)
    drift[:, :n] = np.einsum("nij,nj->ni", R, np.cross(w, linear))[:, :n]
    return T, drift


def frames(pair: Pair) -> list[Measure]:
    """Poses in the world of every frame; the frame of the world itself may have no name."""
    claims = "names, and poses at random states"
    X, Y = (r.body_poses(q) for r, q in ((pair.ours, pair.q), (pair.theirs, pair.q2)))
    there = {f.name: f for f in pair.theirs.model.frames}
    bodies = {b.name for b in pair.ours.model.bodies if not any(b.inertia)}
    errors = []
    for frame in pair.ours.model.frames:
        other = there.get(frame.name)
        if other is None:
            missing = frame.name == "world" or frame.name in bodies
            errors.append((frame.name, 0.0 if missing else math.inf))
            continue
        a, b = _posed(X, frame.body, frame.placement), _posed(Y, other.body, other.placement)
        errors.append((frame.name, float(np.abs(a - b).max() / max(np.abs(a).max(), 1.0))))
    return worst("frames", claims, errors)


def _posed(X: np.ndarray, body: int, placement: Transform) -> np.ndarray:
    fixed = np.array([list(row) for row in placement], float)
    return fixed if body == WORLD else X[:, body] @ fixed


def _of_states(
    name: str, claim: str, ours: np.ndarray, theirs: np.ndarray, scale: Any
) -> list[Measure]:
    """The largest error over the states, each relative to its scale."""
    axes = tuple(range(1, ours.ndim))
    error = np.abs(ours - theirs).max(axis=axes, initial=0.0)
    size = np.maximum(np.abs(ours).max(axis=axes, initial=0.0), scale)
    largest = float(np.max(np.divide(error, size, out=np.zeros_like(error), where=error != 0)))
    return [Measure(name, claim, largest, BOUND, largest <= BOUND)]


def mass_matrix(pair: Pair) -> list[Measure]:
    """M of both."""
    M = pair.ours.mass_matrix(pair.q)
    back = pair.T.swapaxes(1, 2) @ pair.M2 @ pair.T
    return _of_states("M", "mass matrix at random states", M, back, 0.0)


def bias(pair: Pair) -> list[Measure]:
    """C v + g of both."""
    h2 = pair.theirs.bias(pair.q2, pair.v2)
    force = h2 + np.einsum("nij,nj->ni", pair.M2, pair.rest)
    back = np.einsum("nji,nj->ni", pair.T, force)
    scale = np.abs(pair.M2).max(axis=(1, 2), initial=0.0) * (pair.v**2).max(axis=1, initial=0.0)
    h = pair.ours.bias(pair.q, pair.v)
    return _of_states("bias", "C v + g at random states", h, back, scale)


def friction(pair: Pair) -> list[Measure]:
    """Losses and springs of both."""
    claim = "damping, friction and springs at random states"
    losses = pair.theirs.friction(pair.q2, pair.v2)
    back = np.einsum("nji,nj->ni", pair.T, losses)
    ours = pair.ours.friction(pair.q, pair.v)
    return _of_states("friction", claim, ours, back, 1e-3)
