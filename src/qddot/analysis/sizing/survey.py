"""The second stage: torques at random states, and the worst state of each joint in each chunk.

At a configuration and a velocity the torque of joint i is h_i + Σ M_ij a_j, linear in the
acceleration; so its largest magnitude over |a_j| ≤ b_j is |h_i| + Σ |M_ij| b_j, exactly. Velocities
for the worst case are corners of their box: C v is quadratic in v, and mostly largest there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from qddot.analysis.sizing.problem import SizingProblem
from qddot.compile.runtime.memory import require_memory
from qddot.display.progress import OnStep
from qddot.robot.health import random_configurations

__all__ = ["CHUNK", "LoadCase", "Survey", "survey"]

CHUNK = 8192
"""States evaluated at once; the states of a larger survey begin with those of a smaller one."""


class LoadCase(NamedTuple):
    """The score to maximise over states, at rest or moving.

    Without a `margin` it is the torque at the payload. With one it is the torque of a kilogram over
    the part of rating / margin that the bare robot leaves: the inverse of the largest payload.
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
    """Statistics of random states, and the worst of them.

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
    """Random states and torques there: pairs are of the bare robot and of a kilogram.

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
    """The contribution of a chunk to a survey."""

    scores: np.ndarray
    states: np.ndarray
    squares: np.ndarray
    coriolis: np.ndarray
    gravity: np.ndarray
    link: np.ndarray
    dominated: np.ndarray


def survey(
    problem: SizingProblem,
    cases: Sequence[LoadCase],
    samples: int,
    seed: int,
    on_step: OnStep | None = None,
) -> Survey:
    """Evaluate `samples` random states, chunk by chunk."""
    nv, chunks = problem.model.nv, -(-samples // CHUNK)
    # the worst states of each chunk are kept, beside the arrays of one chunk
    each = 8 * len(cases) * nv * (problem.model.nq + 2 * nv + 1)
    needed = 2 * chunks * each + 8 * CHUNK * nv * (6 * nv + 20)
    require_memory(needed, f"a survey of {samples} states", "take fewer samples")
    parts: list[_Part] = []
    for k, start in enumerate(range(0, samples, CHUNK)):
        if on_step:
            on_step("random states", start, samples)
        states = _evaluate_chunk(problem, seed, k, min(CHUNK, samples - start))
        if not parts:
            first = states
        # for each case the best score of each joint (nv), and the states where it is
        best, worst = [], []
        n, joint, sides = len(states.q), np.arange(nv), np.array([1.0, -1.0])[:, None, None]
        for case in cases:
            level = states.bias if case.moving else states.gravity
            loads = [
                sides * x + (y if case.moving else 0.0)
                for x, y in zip(level, states.inertial, strict=True)
            ]
            # scores of both sides in one column a joint, and the largest of each
            scores = case.score(problem.rating, problem.payload, *loads).reshape(2 * n, nv)
            place = scores.argmax(axis=0)
            row, side = place % n, np.where(place < n, 1.0, -1.0)
            v = states.corner[row] * problem.speed
            a = side[:, None] * states.towards[row, joint]
            best.append(scores[place, joint])
            worst.append(np.concatenate([states.q[row], case.moving * v, case.moving * a], axis=-1))
        parts.append(
            _Part(
                scores=np.array(best),
                states=np.array(worst),
                squares=(states.dynamic**2).sum(axis=0),
                coriolis=_peak_and_square(states.coriolis),
                gravity=_peak_and_square(states.static),
                link=np.array([states.link.min(axis=0), states.link.max(axis=0)]),
                dominated=(states.link < problem.armature).sum(axis=0),
            )
        )
    # peaks and sums over all chunks
    link = np.array([p.link for p in parts])
    median = np.median(first.link, axis=0)
    return Survey(
        scores=np.array([p.scores for p in parts]),
        states=np.array([p.states for p in parts]),
        rms=np.sqrt(np.array([p.squares for p in parts]).sum(axis=0) / samples),
        coriolis=_peak_and_rms(np.array([p.coriolis for p in parts]), samples),
        gravity=_peak_and_rms(np.array([p.gravity for p in parts]), samples),
        link=np.array([link[:, 0].min(axis=0), median, link[:, 1].max(axis=0)]),
        dominated=np.array([p.dominated for p in parts]).sum(axis=0) / samples,
        static=first.static,
        dynamic=first.dynamic,
    )


def _evaluate_chunk(problem: SizingProblem, seed: int, chunk: int, n: int) -> _States:
    """The first n states of a chunk; a chunk is drawn whole, so that they do not depend on n."""
    rng, shape = np.random.default_rng([seed, chunk]), (CHUNK, problem.model.nv)
    q = random_configurations(problem.model, rng, (CHUNK,))[:n]
    corner = (2.0 * rng.integers(0, 2, shape) - 1.0)[:n]
    v, a = (rng.uniform(-b, b, shape)[:n] for b in (problem.speed, problem.acceleration))
    gravity, bias, M = (
        problem.evaluate("gravity", q),
        problem.evaluate("bias", q, corner * problem.speed),
        problem.evaluate("mass_matrix", q),
    )
    # the acceleration that adds most to the torque of each joint is at a corner of its box
    g, loaded = problem.at_payload(gravity), problem.at_payload(M)
    towards = np.sign(loaded) * problem.acceleration
    inertial = tuple(np.einsum("nij,nij->ni", x, towards) for x in M)
    random_torque = problem.at_payload(problem.evaluate("bias", q, v))
    unit_bias = problem.at_payload(replace(problem, friction=False).evaluate("bias", q, corner))
    return _States(
        q=q,
        corner=corner,
        towards=towards,
        gravity=gravity,
        bias=bias,
        inertial=(inertial[0], inertial[1]),
        static=g,
        dynamic=random_torque + np.einsum("nij,nj->ni", loaded, a),
        coriolis=unit_bias - g,
        link=np.diagonal(loaded, axis1=-2, axis2=-1) - problem.armature,
    )


def _peak_and_square(x: np.ndarray) -> np.ndarray:
    """The largest norm, and the sum of the squares of the norms."""
    squares = (x**2).sum(axis=-1)
    return np.array([np.sqrt(squares.max()), squares.sum()])


def _peak_and_rms(parts: np.ndarray, samples: int) -> tuple[float, float]:
    return float(parts[:, 0].max()), float(np.sqrt(parts[:, 1].sum() / samples))
