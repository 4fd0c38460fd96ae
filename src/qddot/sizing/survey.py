"""Torques at random states, in chunks that stay in memory, and the worst state of each joint.

At a configuration and a velocity the torque of joint i is h_i + Σ M_ij a_j, linear in the
acceleration; so its largest magnitude over |a_j| ≤ b_j is |h_i| + Σ |M_ij| b_j, exactly. Velocities
for the worst case are corners of their box: C v is quadratic in v, and mostly largest there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qddot.health import random_configurations
from qddot.sizing.task import Task

__all__ = ["CHUNK", "Case", "OnStep", "Survey", "survey"]

CHUNK = 8192
"""States evaluated at once; the states of a larger survey begin with those of a smaller one."""

OnStep = Callable[[str, int, int], None]
"""Told the name of a step, how much is done, and of how much."""


class Case(NamedTuple):
    """What a state is looked for to make large, at rest or moving.

    With a `margin` it is the torque of a kilogram over what the bare robot leaves of
    rating / margin: the inverse of the largest payload. Without, it is the torque at the payload.
    """

    moving: bool
    margin: float | None

    def score(self, rating: Any, payload: float, bare: Any, per_kg: Any) -> Any:
        """The score of torques towards one side; infinite where the bare robot is too heavy."""
        if self.margin is None:
            return bare + payload * per_kg
        left = np.asarray(rating / self.margin - bare)
        return np.divide(per_kg, left, out=np.full(left.shape, np.inf), where=left > 0.0)

    def weights(self, rating: Any, payload: float, bare: Any, per_kg: Any) -> tuple[Any, Any]:
        """Derivatives of the score by the two torques, zero where it is infinite."""
        if self.margin is None:
            return np.ones_like(bare), np.full_like(bare, payload)
        left = np.asarray(rating / self.margin - bare)
        inverse = np.divide(1.0, left, out=np.zeros(left.shape), where=left > 0.0)
        return per_kg * inverse**2, inverse


@dataclass(frozen=True)
class Survey:
    """What random states tell.

    `scores` (chunk, case, joint) and `states` (chunk, case, joint, nq + 2 nv) are the best of each
    chunk; `rms` is that of the torques; `coriolis` and `gravity` are the peak and the rms of the
    norms of C v, with all joints at unit speed, and of g; `link` is the least, the median and the
    largest diagonal of M without armature, `dominated` the share of states in which the armature
    exceeds it; `static` and `dynamic` are the torques of the first states.
    """

    scores: np.ndarray
    states: np.ndarray
    rms: np.ndarray
    coriolis: tuple[float, float]
    gravity: tuple[float, float]
    link: np.ndarray
    dominated: np.ndarray
    static: np.ndarray
    dynamic: np.ndarray


class _States(NamedTuple):
    """Random states and what acts there: pairs are of the bare robot and of a kilogram.

    `towards` (n, nv, nv) is the acceleration that adds most to the torque of each joint.
    """

    q: np.ndarray
    corner: np.ndarray
    towards: np.ndarray
    gravity: tuple[np.ndarray, np.ndarray]
    bias: tuple[np.ndarray, np.ndarray]
    inertial: tuple[np.ndarray, np.ndarray]
    static: np.ndarray
    dynamic: np.ndarray
    coriolis: np.ndarray
    link: np.ndarray


class _Part(NamedTuple):
    """What a chunk adds to a survey."""

    scores: np.ndarray
    states: np.ndarray
    squares: np.ndarray
    coriolis: np.ndarray
    gravity: np.ndarray
    link: np.ndarray
    dominated: np.ndarray


def survey(
    task: Task, cases: Sequence[Case], samples: int, seed: int, on_step: OnStep | None = None
) -> Survey:
    """Evaluate so many random states."""
    parts: list[_Part] = []
    for k, start in enumerate(range(0, samples, CHUNK)):
        if on_step:
            on_step("random states", start, samples)
        states = _evaluate(task, seed, k, min(CHUNK, samples - start))
        if not parts:
            first = states
        parts.append(_reduce(task, cases, states))
    link = np.array([p.link for p in parts])
    scores, found, squares, coriolis, gravity, _, dominated = map(
        np.array, zip(*parts, strict=True)
    )
    return Survey(
        scores,
        found,
        np.sqrt(squares.sum(axis=0) / samples),
        _peak_and_rms(coriolis, samples),
        _peak_and_rms(gravity, samples),
        np.array([link[:, 0].min(axis=0), np.median(first.link, axis=0), link[:, 1].max(axis=0)]),
        dominated.sum(axis=0) / samples,
        first.static,
        first.dynamic,
    )


def _evaluate(task: Task, seed: int, chunk: int, n: int) -> _States:
    """The first n states of a chunk; a chunk is drawn whole, so that they do not depend on n."""
    rng, shape = np.random.default_rng([seed, chunk]), (CHUNK, task.model.nv)
    q = random_configurations(task.model, rng, (CHUNK,))[:n]
    corner = (2.0 * rng.integers(0, 2, shape) - 1.0)[:n]
    v, a = (rng.uniform(-b, b, shape)[:n] for b in (task.speed, task.acceleration))
    gravity, bias, M = (
        task.at("gravity", q),
        task.at("bias", q, corner * task.speed),
        task.at("mass_matrix", q),
    )
    g, loaded = task.loaded(gravity), task.loaded(M)
    towards = np.sign(loaded) * task.acceleration
    inertial = tuple(np.einsum("nij,nij->ni", x, towards) for x in M)
    return _States(
        q,
        corner,
        towards,
        gravity,
        bias,
        (inertial[0], inertial[1]),
        g,
        task.loaded(task.at("bias", q, v)) + np.einsum("nij,nj->ni", loaded, a),
        task.loaded(task.at("bias", q, corner)) - g,
        np.diagonal(loaded, axis1=-2, axis2=-1) - task.armature,
    )


def _reduce(task: Task, cases: Sequence[Case], at: _States) -> _Part:
    best = [_best(task, case, at) for case in cases]
    return _Part(
        np.array([score for score, _ in best]),
        np.array([state for _, state in best]),
        (at.dynamic**2).sum(axis=0),
        _peak_and_square(at.coriolis),
        _peak_and_square(at.static),
        np.array([at.link.min(axis=0), at.link.max(axis=0)]),
        (at.link < task.armature).sum(axis=0),
    )


def _best(task: Task, case: Case, at: _States) -> tuple[np.ndarray, np.ndarray]:
    """The best score of each joint (nv), and the states where it is (nv, nq + 2 nv)."""
    n, nv = at.corner.shape
    sides = np.array([1.0, -1.0])[:, None, None]
    level = at.bias if case.moving else at.gravity
    loads = [
        sides * x + (y if case.moving else 0.0) for x, y in zip(level, at.inertial, strict=True)
    ]
    scores = case.score(task.rating, task.payload, loads[0], loads[1]).reshape(2 * n, nv)
    place = scores.argmax(axis=0)
    row, side, joint = place % n, np.where(place < n, 1.0, -1.0), np.arange(nv)
    v, a = at.corner[row] * task.speed, side[:, None] * at.towards[row, joint]
    state = np.concatenate([at.q[row], case.moving * v, case.moving * a], axis=-1)
    return scores[place, joint], state


def _peak_and_square(x: np.ndarray) -> np.ndarray:
    """The largest norm, and the sum of the squares of the norms."""
    squares = (x**2).sum(axis=-1)
    return np.array([np.sqrt(squares.max()), squares.sum()])


def _peak_and_rms(parts: np.ndarray, samples: int) -> tuple[float, float]:
    return float(parts[:, 0].max()), float(np.sqrt(parts[:, 1].sum() / samples))
