"""From the worst of random states to a worst state nearby: local optimisation within the bounds.

The scores of all joints are climbed at once, each from the best states of several chunks, with the
gradients of inverse dynamics: a quasi-Newton ascent (BFGS; Nocedal & Wright 2006, section 6.1)
whose steps are projected onto the bounds. Joints of several degrees of freedom keep the coordinates
that were drawn, as their gradients are by the tangent space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.health import coordinate_range
from qddot.sizing.survey import Case, Survey
from qddot.sizing.task import Task

__all__ = ["refine"]

_STARTS = 16
_STEPS = 100
_SHORTER = 0.3
_TRIALS = 6
_FIRST_STEP = 0.1
_ENOUGH = 1e-4
_NO_GAIN = 1e-12

Climbed = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class _Rows:
    """Rows of states that are climbed together: the case and the joint of each, and its side."""

    task: Task
    cases: Sequence[Case]
    case: np.ndarray
    joint: np.ndarray
    side: np.ndarray

    def at(self, name: str, x: np.ndarray) -> tuple[Any, Any]:
        """A function of the states x (n, nq + 2 nv): of the bare robot, and of a kilogram."""
        nq, nv = self.task.model.nq, self.task.model.nv
        return self.task.at(name, *np.split(x, [nq, nq + nv], axis=1))

    def own(self, y: np.ndarray) -> np.ndarray:
        """What each row has for its joint."""
        return y[np.arange(len(y)), self.joint]


def refine(task: Task, cases: Sequence[Case], seen: Survey) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each case the best score of every joint (nv), and the states where it is.

    A case chooses among the states that were found for all cases: so a payload that is too large
    by the one is too large by the other.
    """
    order = np.argsort(-seen.scores, axis=0, kind="stable")[:_STARTS]
    starts = np.take_along_axis(seen.states, order[..., None], axis=0)
    x = starts.reshape(-1, starts.shape[-1])
    found = _climb(_rows(task, cases, starts.shape[:3]), x).reshape(starts.shape)
    best = []
    for case in cases:
        allowed = [k for k, other in enumerate(cases) if case.moving or not other.moving]
        pool = np.concatenate([found[:, k] for k in allowed])
        best.append(_best(task, case, pool))
    return best


def _rows(task: Task, cases: Sequence[Case], shape: tuple[int, ...]) -> _Rows:
    """Rows of states by start, case and joint."""
    _, case, joint = (x.ravel() for x in np.indices(shape))
    return _Rows(task, cases, case, joint, np.ones(len(joint)))


def _climb(rows: _Rows, x: np.ndarray) -> np.ndarray:
    """Local maxima of the scores, each from its row of x."""
    up, down = _sides(rows, x)
    rows = dataclasses.replace(rows, side=np.where(up >= down, 1.0, -1.0))
    low, high, scale = _box(rows, x)

    def climbed(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = _score(rows, y * scale)
        return value, gradient * scale

    linear = np.arange(x.shape[1]) >= x.shape[1] - rows.task.model.nv
    return scale * _ascend(climbed, x / scale, low / scale, high / scale, linear)


def _best(task: Task, case: Case, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best score of each joint among states (n, nv, nq + 2 nv), and its state."""
    rows = _rows(task, [case], (len(pool), 1, pool.shape[1]))
    x = pool.reshape(-1, pool.shape[-1])
    score = np.maximum(*_sides(rows, x))
    place, joints = score.reshape(pool.shape[:2]).argmax(axis=0), np.arange(pool.shape[1])
    return score.reshape(pool.shape[:2])[place, joints], pool[place, joints]


def _box(rows: _Rows, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds of the states, and the sizes by which their entries are measured."""
    model = rows.task.model
    low, high = x.copy(), x.copy()
    for body in model.independent:
        if body.joint.kind.nv == 1:
            low[:, body.iq], high[:, body.iq] = coordinate_range(model, body)
    rates = np.concatenate([rows.task.speed, rows.task.acceleration])
    moving = np.array([case.moving for case in rows.cases])[rows.case]
    high[:, model.nq :] = moving[:, None] * rates
    low[:, model.nq :] = -high[:, model.nq :]
    sizes = np.concatenate([np.ones(model.nq), rates])
    return low, high, np.where(sizes > 0.0, sizes, 1.0)


def _sides(rows: _Rows, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores of states x (n, nq + 2 nv) with torques counted towards either side."""
    bare, per_kg = (rows.own(y) for y in rows.at("inverse_dynamics", x))
    return _scored(rows, bare, per_kg)[0], _scored(rows, -bare, -per_kg)[0]


def _score(rows: _Rows, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores of states x (n, nq + 2 nv), and their gradients."""
    tau = [rows.side * rows.own(y) for y in rows.at("inverse_dynamics", x)]
    score, *weights = _scored(rows, *tau)
    partials = rows.at("inverse_dynamics_derivatives", x)
    by_q, by_v, by_a = (
        sum((rows.side * w)[:, None] * rows.own(y) for w, y in zip(weights, pair, strict=True))
        for pair in zip(*partials, strict=True)
    )
    model = rows.task.model
    gradient = np.zeros((len(x), model.nq))
    for body in model.independent:
        if body.joint.kind.nv == 1:
            gradient[:, body.iq] = by_q[:, body.iv]
    return score, np.concatenate([gradient, by_v, by_a], axis=1)


def _scored(rows: _Rows, bare: np.ndarray, per_kg: np.ndarray) -> np.ndarray:
    """Scores, and their derivatives by the torques of the bare robot and of a kilogram."""
    found = np.empty((3, len(bare)))
    for k, case in enumerate(rows.cases):
        at = rows.case == k
        given = (rows.task.rating[rows.joint[at]], rows.task.payload, bare[at], per_kg[at])
        found[:, at] = case.score(*given), *case.weights(*given)
    return found


def _ascend(
    climbed: Climbed, x: np.ndarray, low: np.ndarray, high: np.ndarray, linear: np.ndarray
) -> np.ndarray:
    """Local maxima of functions within bounds, each from its row of x.

    In the entries that are `linear` a function is linear or a ratio of linear functions, so its
    gradient says at which bound it is largest.
    """
    value, gradient = climbed(x)
    H, fresh = _careful(gradient), np.ones(len(x), dtype=bool)
    done = np.zeros(len(x), dtype=bool)
    for _ in range(_STEPS):
        corner = np.where(linear & (gradient != 0.0), np.where(gradient > 0.0, high, low), x)
        if (corner != x).any():
            x = corner
            value, gradient = climbed(x)
        held = linear | ((x <= low) & (gradient <= 0.0)) | ((x >= high) & (gradient >= 0.0))
        slope = np.where(held, 0.0, gradient)
        H = np.where(fresh[:, None, None], _careful(slope), H)
        direction = np.where(held | done[:, None], 0.0, np.einsum("nij,nj->ni", H, slope))
        new, new_value, new_gradient = _search(
            climbed, (x, value, gradient), slope, direction, low, high
        )
        gained = new_value > value + _NO_GAIN * np.abs(value)
        # a step without gain may be the fault of H, which then begins anew
        done |= fresh & ~gained
        fresh = ~gained
        H = _updated(H, new - x, np.where(held, 0.0, gradient - new_gradient))
        x, value, gradient = new, new_value, new_gradient
        if done.all():
            break
    return x


def _careful(slope: np.ndarray) -> np.ndarray:
    """Inverse curvatures that make a short step along the slope, one matrix a row."""
    largest = np.abs(slope).max(axis=1)
    sizes = _FIRST_STEP / np.where(largest > 0.0, largest, 1.0)
    return sizes[:, None, None] * np.eye(slope.shape[1])


def _search(
    climbed: Climbed,
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
        tried = (trial, *climbed(trial))
        rise = _ENOUGH * (slope * (trial - x)).sum(axis=1)
        taken = waiting & (tried[1] >= value + rise)
        for kept, found in zip(best, tried, strict=True):
            kept[taken] = found[taken]
        waiting &= ~taken
        if not waiting.any():
            break
    return best[0], best[1], best[2]


def _updated(H: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The inverse curvatures after a step and the change of the downhill gradient (BFGS)."""
    product = (step * change).sum(axis=1)
    lengths = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
    curved = product > 1e-12 * lengths
    inverse = np.divide(1.0, product, out=np.zeros_like(product), where=curved)[:, None, None]
    E = np.eye(step.shape[1]) - inverse * step[:, :, None] * change[:, None, :]
    return E @ H @ E.swapaxes(1, 2) + inverse * step[:, :, None] * step[:, None, :]
