"""The third stage: local optimisation within the bounds, from the worst of the random states.

The scores of all joints are maximised at once, each from the best states of several chunks, with
the gradients of inverse dynamics: a quasi-Newton ascent (BFGS; Nocedal & Wright 2006, section 6.1)
whose steps are projected onto the bounds. Joints of several degrees of freedom keep the coordinates
that were drawn, as their gradients are by the tangent space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.analysis.sizing.problem import SizingProblem
from qddot.analysis.sizing.survey import LoadCase, Survey
from qddot.robot.health import coordinate_range

__all__ = ["refine"]

_STARTS = 16
_STEPS = 100
_SHORTER = 0.3
_TRIALS = 6
_FIRST_STEP = 0.1
_ENOUGH = 1e-4
_NO_GAIN = 1e-12

Objective = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class _Rows:
    """Rows of states that are maximised together: the case and the joint of each, and its side."""

    problem: SizingProblem
    cases: Sequence[LoadCase]
    case: np.ndarray
    joint: np.ndarray
    side: np.ndarray

    def evaluate(self, name: str, x: np.ndarray) -> tuple[Any, Any]:
        """A function of the states x (n, nq + 2 nv): of the bare robot, and of a kilogram."""
        nq, nv = self.problem.model.nq, self.problem.model.nv
        return self.problem.evaluate(name, *np.split(x, [nq, nq + nv], axis=1))

    def at_joint(self, y: np.ndarray) -> np.ndarray:
        """The entry of each row at its joint."""
        return y[np.arange(len(y)), self.joint]


def refine(
    problem: SizingProblem, cases: Sequence[LoadCase], seen: Survey
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each case the best score of every joint (nv), and the states where it is.

    A case chooses among the states that were found for all cases: so a payload that is too large
    by the one is too large by the other.
    """
    # the best chunks of each case and joint are where the ascent starts
    order = np.argsort(-seen.scores, axis=0, kind="stable")[:_STARTS]
    starts = np.take_along_axis(seen.states, order[..., None], axis=0)
    x = starts.reshape(-1, starts.shape[-1])
    rows = _make_rows(problem, cases, starts.shape[:3])
    # torques count towards the side that is larger at the start
    up, down = _scores_by_side(rows, x)
    rows = dataclasses.replace(rows, side=np.where(up >= down, 1.0, -1.0))
    # bounds of the states, and the sizes by which their entries are measured
    model = problem.model
    low, high = x.copy(), x.copy()
    for body in model.independent:
        if body.joint.kind.nv == 1:
            low[:, body.iq], high[:, body.iq] = coordinate_range(model, body)
    rates = np.concatenate([problem.speed, problem.acceleration])
    moving = np.array([case.moving for case in cases])[rows.case]
    high[:, model.nq :] = moving[:, None] * rates
    low[:, model.nq :] = -high[:, model.nq :]
    scale = np.concatenate([np.ones(model.nq), np.where(rates > 0.0, rates, 1.0)])

    def objective(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The scores of states in these sizes, and their gradients."""
        evaluated = rows.evaluate("inverse_dynamics", y * scale)
        value, *weights = _score_derivatives(
            rows, *(rows.side * rows.at_joint(x) for x in evaluated)
        )
        # the chain rule through the torques of the bare robot and of a kilogram
        partials = rows.evaluate("inverse_dynamics_derivatives", y * scale)
        by_q, by_v, by_a = (
            sum(
                (rows.side * w)[:, None] * rows.at_joint(x)
                for w, x in zip(weights, pair, strict=True)
            )
            for pair in zip(*partials, strict=True)
        )
        gradient = np.zeros((len(y), model.nq))
        for body in model.independent:
            if body.joint.kind.nv == 1:
                gradient[:, body.iq] = by_q[:, body.iv]
        return value, np.concatenate([gradient, by_v, by_a], axis=1) * scale

    linear = np.arange(x.shape[1]) >= x.shape[1] - model.nv
    x = scale * _maximise_within(objective, x / scale, low / scale, high / scale, linear)
    maxima = x.reshape(starts.shape)
    # the best state of each joint for each case, among the maxima of all cases
    best, joints = [], np.arange(model.nv)
    for case in cases:
        allowed = [k for k, other in enumerate(cases) if case.moving or not other.moving]
        pool = np.concatenate([maxima[:, k] for k in allowed])
        trials = _make_rows(problem, [case], (len(pool), 1, len(joints)))
        sides = _scores_by_side(trials, pool.reshape(-1, pool.shape[-1]))
        scores = np.maximum(*sides).reshape(pool.shape[:2])
        place = scores.argmax(axis=0)
        best.append((scores[place, joints], pool[place, joints]))
    return best


def _make_rows(problem: SizingProblem, cases: Sequence[LoadCase], shape: tuple[int, ...]) -> _Rows:
    """Rows of states by start, case and joint."""
    _, case, joint = (x.ravel() for x in np.indices(shape))
    return _Rows(problem, cases, case, joint, np.ones(len(joint)))


def _scores_by_side(rows: _Rows, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores of states x (n, nq + 2 nv) with torques counted towards either side."""
    bare, per_kg = (rows.at_joint(y) for y in rows.evaluate("inverse_dynamics", x))
    return _score_derivatives(rows, bare, per_kg)[0], _score_derivatives(rows, -bare, -per_kg)[0]


def _score_derivatives(rows: _Rows, bare: np.ndarray, per_kg: np.ndarray) -> np.ndarray:
    """Scores, and their derivatives by the torques of the bare robot and of a kilogram."""
    result = np.empty((3, len(bare)))
    for k, case in enumerate(rows.cases):
        at = rows.case == k
        torques = (rows.problem.rating[rows.joint[at]], rows.problem.payload, bare[at], per_kg[at])
        result[:, at] = case.score(*torques), *case.weights(*torques)
    return result


def _maximise_within(
    objective: Objective, x: np.ndarray, low: np.ndarray, high: np.ndarray, linear: np.ndarray
) -> np.ndarray:
    """Local maxima of functions within bounds, each from its row of x.

    In the entries that are `linear` a function is linear or a ratio of linear functions, so its
    gradient says at which bound it is largest.
    """
    value, gradient = objective(x)
    H, fresh = _initial_curvature(gradient), np.ones(len(x), dtype=bool)
    done = np.zeros(len(x), dtype=bool)
    for _ in range(_STEPS):
        # linear entries jump to the bound that their gradient points to
        corner = np.where(linear & (gradient != 0.0), np.where(gradient > 0.0, high, low), x)
        if (corner != x).any():
            x = corner
            value, gradient = objective(x)
        # entries at a bound that would leave it are held
        held = linear | ((x <= low) & (gradient <= 0.0)) | ((x >= high) & (gradient >= 0.0))
        slope = np.where(held, 0.0, gradient)
        H = np.where(fresh[:, None, None], _initial_curvature(slope), H)
        # a step along H times the gradient, shortened until it rises enough
        direction = np.where(held | done[:, None], 0.0, np.einsum("nij,nj->ni", H, slope))
        new, new_value, new_gradient = _line_search(
            objective, (x, value, gradient), slope=slope, direction=direction, low=low, high=high
        )
        gained = new_value > value + _NO_GAIN * np.abs(value)
        # a step without gain may be the fault of H, which then begins anew
        done |= fresh & ~gained
        fresh = ~gained
        # BFGS: the inverse curvature after the step and the change of the downhill gradient
        step, change = new - x, np.where(held, 0.0, gradient - new_gradient)
        product = (step * change).sum(axis=1)
        lengths = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
        curved = product > 1e-12 * lengths
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=curved)[:, None, None]
        E = np.eye(step.shape[1]) - inverse * step[:, :, None] * change[:, None, :]
        H = E @ H @ E.swapaxes(1, 2) + inverse * step[:, :, None] * step[:, None, :]
        x, value, gradient = new, new_value, new_gradient
        if done.all():
            break
    return x


def _initial_curvature(slope: np.ndarray) -> np.ndarray:
    """Inverse curvatures that make a short step along the slope, one matrix a row."""
    largest = np.abs(slope).max(axis=1)
    sizes = _FIRST_STEP / np.where(largest > 0.0, largest, 1.0)
    return sizes[:, None, None] * np.eye(slope.shape[1])


def _line_search(
    objective: Objective,
    start: tuple[np.ndarray, np.ndarray, np.ndarray],
    slope: np.ndarray,
    direction: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The point, value and gradient after a step that rises enough, shortened until it does."""
    x, value, gradient = start
    best = [x.copy(), value.copy(), gradient.copy()]
    waiting = (slope * direction).sum(axis=1) > _NO_GAIN * np.abs(value)
    for k in range(_TRIALS):
        trial = np.clip(x + _SHORTER**k * direction, low, high)
        tried = (trial, *objective(trial))
        rise = _ENOUGH * (slope * (trial - x)).sum(axis=1)
        taken = waiting & (tried[1] >= value + rise)
        for kept, found in zip(best, tried, strict=True):
            kept[taken] = found[taken]
        waiting &= ~taken
        if not waiting.any():
            break
    return best[0], best[1], best[2]
