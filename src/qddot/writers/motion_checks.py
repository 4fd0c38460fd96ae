"""Checks of a model read back from its file by its motion: two models at the same random states.

Coordinates are matched by the names of joints. A planar or free joint that was written as slides
has the same coordinates and other velocities: q̇ = T(q) v, so M and the bias are taken back by T.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qddot.model.model import WORLD, Body, Model
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Transform, rotation_about, rotation_from_quaternion
from qddot.writers.joint_chains import PART_SUFFIXES
from qddot.writers.model_checks import BOUND, ModelCheck, check_largest

__all__ = [
    "DynamicsDifference",
    "StatePair",
    "check_bias",
    "check_frames",
    "check_friction",
    "check_mass_matrix",
    "dynamics_difference",
    "names_of_parts",
    "pair_states",
]


@dataclass(frozen=True)
class DynamicsDifference:
    """Largest differences of two robots, relative to the largest entry of the first."""

    mass_matrix: float
    bias: float
    friction: float


@dataclass(frozen=True)
class StatePair:
    """The model expected and the one read back, with random states of both.

    T maps velocities of the first to those of the second, v2 = T v; `drift` is Ṫ v.
    """

    ours: Robot
    theirs: Robot
    q: np.ndarray
    v: np.ndarray
    q2: np.ndarray
    v2: np.ndarray
    T: np.ndarray
    drift: np.ndarray

    @cached_property
    def M2(self) -> np.ndarray:
        """Mass matrix of the model read back."""
        return self.theirs.mass_matrix(self.q2)


def names_of_parts(body: Body, there: Container[str]) -> list[str]:
    """The joints of a file that a joint is written as: itself, or its parts."""
    name, suffixes = body.joint.name, PART_SUFFIXES.get(body.joint.kind.name, ())
    return [name] if name in there or not suffixes else [f"{name}.{s}" for s in suffixes]


def dynamics_difference(a: Model, b: Model, states: int = 100, seed: int = 0) -> DynamicsDifference:
    """The largest differences of two models of one robot at random states."""
    pair = pair_states(a, b, states, seed)
    return DynamicsDifference(
        mass_matrix=check_mass_matrix(pair)[0].measured,
        bias=check_bias(pair)[0].measured,
        friction=check_friction(pair)[0].measured,
    )


def pair_states(expected: Model, loaded: Model, states: int, seed: int) -> StatePair:
    """Random states of a model, and the same states of the model read back."""
    ours, theirs = Robot(expected, native=False), Robot(loaded, native=False)
    rng = np.random.default_rng(seed)
    q, v = ours.random(rng, states), rng.normal(size=(states, expected.nv))
    q2, drift = np.zeros((states, loaded.nq)), np.zeros((states, loaded.nv))
    T = np.zeros((states, loaded.nv, expected.nv))
    there = {b.joint.name: b for b in loaded.independent}
    for body in expected.independent:
        # coordinates are the same, in another place
        parts = names_of_parts(body, there)
        iq = [k for p in parts for k in range(there[p].iq.start, there[p].iq.stop)]
        iv = [k for p in parts for k in there[p].dofs]
        q2[:, iq] = q[:, body.iq]
        # velocities are too, unless a joint with velocities in body axes was split
        if len(parts) == 1:
            T[:, iv, body.iv] = np.eye(body.joint.kind.nv)
            continue
        # rotation of the body, its angular and its linear velocity
        planar, at, u = not body.joint.kind.floats, q[:, body.iq], v[:, body.iv]
        z = Transform.identity().R.c
        turn = rotation_about(z, at[:, 2]) if planar else rotation_from_quaternion(*at[:, 3:].T)
        R = np.stack([np.stack(np.broadcast_arrays(*row), -1) for row in turn], -2)
        w = np.pad(u[:, 2:], ((0, 0), (2, 0))) if planar else u[:, 3:]
        linear = np.pad(u[:, :2], ((0, 0), (0, 1))) if planar else u[:, :3]
        # only the linear part turns: R v, with the derivative R (ω × v)
        n = 2 if planar else 3
        to_fixed = np.broadcast_to(np.eye(u.shape[1]), (states, u.shape[1], u.shape[1])).copy()
        to_fixed[:, :n, :n] = R[:, :n, :n]
        T[:, iv, body.iv] = to_fixed
        drift[:, iv[:n]] = np.einsum("nij,nj->ni", R, np.cross(w, linear))[:, :n]
    v2 = np.einsum("nij,nj->ni", T, v)
    return StatePair(ours=ours, theirs=theirs, q=q, v=v, q2=q2, v2=v2, T=T, drift=drift)


def check_frames(pair: StatePair) -> list[ModelCheck]:
    """Poses in the world of every frame; the frame of the world itself may have no name."""

    def world_pose(X: np.ndarray, body: int, placement: Transform) -> np.ndarray:
        fixed = np.array([list(row) for row in placement], float)
        return fixed if body == WORLD else X[:, body] @ fixed

    X, Y = pair.ours.body_poses(pair.q), pair.theirs.body_poses(pair.q2)
    there = {f.name: f for f in pair.theirs.model.frames}
    massless = {b.name for b in pair.ours.model.bodies if not any(b.inertia)}
    errors = []
    for frame in pair.ours.model.frames:
        other = there.get(frame.name)
        if other is None:
            needless = frame.name == "world" or frame.name in massless
            errors.append((frame.name, 0.0 if needless else math.inf))
            continue
        a = world_pose(X, frame.body, frame.placement)
        b = world_pose(Y, other.body, other.placement)
        errors.append((frame.name, float(np.abs(a - b).max() / max(np.abs(a).max(), 1.0))))
    return check_largest("frames", "names, and poses at random states", errors)


def _check_states(
    name: str, claim: str, ours: np.ndarray, theirs: np.ndarray, scale: Any
) -> list[ModelCheck]:
    """The largest error over the states, each relative to its scale."""
    axes = tuple(range(1, ours.ndim))
    error = np.abs(ours - theirs).max(axis=axes, initial=0.0)
    size = np.maximum(np.abs(ours).max(axis=axes, initial=0.0), scale)
    largest = float(np.max(np.divide(error, size, out=np.zeros_like(error), where=error != 0)))
    passed = largest <= BOUND
    return [ModelCheck(name, claim, measured=largest, bound=BOUND, passed=passed)]


def check_mass_matrix(pair: StatePair) -> list[ModelCheck]:
    """Mass matrices: M against Tᵀ M₂ T."""
    M = pair.ours.mass_matrix(pair.q)
    back = pair.T.swapaxes(1, 2) @ pair.M2 @ pair.T
    return _check_states("M", "mass matrix at random states", M, back, 0.0)


def check_bias(pair: StatePair) -> list[ModelCheck]:
    """Bias forces h = C v + g: h against Tᵀ (h₂ + M₂ Ṫ v)."""
    h2 = pair.theirs.bias(pair.q2, pair.v2)
    force = h2 + np.einsum("nij,nj->ni", pair.M2, pair.drift)
    back = np.einsum("nji,nj->ni", pair.T, force)
    scale = np.abs(pair.M2).max(axis=(1, 2), initial=0.0) * (pair.v**2).max(axis=1, initial=0.0)
    h = pair.ours.bias(pair.q, pair.v)
    return _check_states("bias", "C v + g at random states", h, back, scale)


def check_friction(pair: StatePair) -> list[ModelCheck]:
    """Damping, friction and springs: τ against Tᵀ τ₂."""
    claim = "damping, friction and springs at random states"
    back = np.einsum("nji,nj->ni", pair.T, pair.theirs.friction(pair.q2, pair.v2))
    ours = pair.ours.friction(pair.q, pair.v)
    return _check_states("friction", claim, ours, back, 1e-3)
