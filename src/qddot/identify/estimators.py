"""Least squares from sums taken block by block, and covariances that hold for filtered data.

Residuals of a filtered log are correlated in time, so that the textbook covariance is far too
small. Here it is the sandwich of Newey and West with the Bartlett kernel, which is the spread of
sums of the scores over overlapping windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.ndimage import correlate1d
from scipy.stats import t as student

from qddot.display.text import Readable
from qddot.errors import NotIdentifiable
from qddot.identify.design import Block
from qddot.identify.spill import release_pages, stack_rows

__all__ = [
    "Estimate",
    "Moments",
    "Residuals",
    "autocorrelation",
    "correlation_length",
    "gather_moments",
    "gather_residuals",
    "huber_weights",
    "interval_factor",
    "residual_squares",
    "robust_covariance",
    "solve_weighted",
]

_HUBER = 1.5
_WINDOWED = 1 << 14
"""Rows whose windows are summed at a time."""
_SINGULAR = 1e-9
"""Smallest eigenvalue of the scaled normal matrix that the data can stand for."""


@dataclass(frozen=True)
class Moments:
    """Sums of products of columns and torques, for each fold of time and each joint.

    `products` is folds × nv × (p + 1) × (p + 1), the torque last; `counts` (folds × nv) are the
    rows in which a joint moves.
    """

    products: np.ndarray
    counts: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Sums over all folds, by joint."""
        return self.products.sum(axis=0)

    def without(self, fold: int) -> np.ndarray:
        """Sums over all folds but one, by joint."""
        return self.total - self.products[fold]


def gather_moments(
    blocks: Iterable[Block],
    rows: int,
    folds: int = 1,
    weights: Callable[[Block], np.ndarray] | None = None,
) -> Moments:
    """Sums of products over the blocks of a design; `folds` stretches of equal length."""
    products: np.ndarray | None = None
    counts = np.zeros((folds, 1))
    done = 0
    for block in blocks:
        n, nv, p = block.columns.shape
        if products is None:
            products, counts = np.zeros((folds, nv, p + 1, p + 1)), np.zeros((folds, nv))
        joined = np.concatenate([block.columns, block.tau[..., None]], axis=-1)
        scale = None if weights is None else weights(block)
        places = np.minimum((done + np.arange(n)) * folds // max(rows, 1), folds - 1)
        for fold in np.unique(places):
            part = joined[places == fold]
            counts[fold] += block.moving[places == fold].sum(axis=0)
            for j in range(nv):
                x = np.ascontiguousarray(part[:, j])
                left = x if scale is None else x * scale[places == fold, j, None]
                products[fold, j] += left.T @ x
        done += n
    assert products is not None
    return Moments(products, counts)


@dataclass(frozen=True, repr=False)
class Estimate(Readable):
    """Parameters of least squares, joint weights 1/σ², and the inverse of the normal matrix."""

    values: np.ndarray
    inverse: np.ndarray
    sigma: np.ndarray
    weights: np.ndarray
    blind: np.ndarray
    """Columns without a part of their own in this motion (a mask)."""


def solve_weighted(
    products: np.ndarray, counts: np.ndarray, weighted: bool = True, passes: int = 3
) -> Estimate:
    """Least squares of all joints together; joints weighted by their residuals if asked for."""
    nv, p = products.shape[0], products.shape[1] - 1
    weights = np.ones(nv)
    for _ in range(passes if weighted else 1):
        # normal equations, scaled to columns of length one
        normal = np.einsum("j,jab->ab", weights, products)
        lengths = np.sqrt(np.diag(normal)[:p])
        scale = np.where(lengths > 1e-9 * lengths.max(initial=0.0), lengths, np.inf)
        if not np.isfinite(scale).any():
            remedy = "record a motion that moves the joints"
            raise NotIdentifiable("the parameters", "nothing in this log moves", remedy)
        scaled = normal[:p, :p] / np.outer(scale, scale)
        factors, vectors = eigh(scaled + np.diag(np.where(np.isinf(scale), 1.0, 0.0)))
        # columns that this motion does not excite: whatever takes part in a combination that is
        # not seen has no value of its own
        weak = factors < _SINGULAR * factors[-1]
        blind = np.isinf(scale)
        if weak.any():
            blind |= (vectors[:, weak] ** 2).sum(axis=1) > 1e-4
        inner = np.where(weak, 0.0, 1.0 / np.where(weak, 1.0, factors))
        inverse = (vectors * inner) @ vectors.T / np.outer(scale, scale)
        values = inverse @ normal[:p, p]
        # weights of the joints by their residuals
        left = np.maximum(counts - p / nv, 1.0)
        sigma = np.sqrt(residual_squares(products, values) / left)
        floor = 1e-9 * np.sqrt(np.abs(products[:, p, p]) / left) + 1e-300
        sigma = np.maximum(sigma, floor)
        weights = 1.0 / sigma**2 if weighted else weights
    return Estimate(values, inverse, sigma, weights, blind)


def residual_squares(products: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sum of squared residuals of each joint."""
    extended = np.append(-values, 1.0)
    return np.maximum(np.einsum("a,jab,b->j", extended, products, extended), 0.0)


@dataclass(frozen=True, repr=False)
class Residuals(Readable):
    """Residuals and predictions of a fit on decimated rows, and sums for the covariance.

    Where a joint is not `moving` (rows × nv), its torques are zero.
    """

    index: np.ndarray
    moving: np.ndarray
    tau: np.ndarray
    predicted: np.ndarray
    scores: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        """Measured less predicted torque (rows × nv)."""
        return self.tau - self.predicted


def gather_residuals(
    blocks: Iterable[Block], values: np.ndarray, weights: np.ndarray, keep_scores: bool = True
) -> Residuals:
    """Predictions of a fit, and the scores Σ w x e of each row."""
    index, moving, tau, predicted = [], [], [], []

    def scores() -> Iterator[np.ndarray]:
        for block in blocks:
            guess = block.columns @ values
            index.append(block.index)
            moving.append(block.moving)
            tau.append(block.tau)
            predicted.append(guess)
            if keep_scores:
                error = (block.tau - guess) * weights
                yield np.einsum("tjp,tj->tp", block.columns, error).astype(np.float32)

    made = stack_rows(scores())
    return Residuals(
        index=np.concatenate(index),
        moving=np.concatenate(moving),
        tau=np.concatenate(tau),
        predicted=np.concatenate(predicted),
        scores=made,
    )


def autocorrelation(errors: np.ndarray, most: int) -> np.ndarray:
    """Autocorrelation of each joint's residual at lags 0 … most (lags × joints)."""
    n = len(errors)
    size = 1 << int(np.ceil(np.log2(2 * n)))
    raw = np.empty((min(most, n - 1) + 1, errors.shape[1]))
    for j, column in enumerate(errors.T):
        power = np.abs(np.fft.rfft(column - column.mean(), size)) ** 2
        raw[:, j] = np.fft.irfft(power, size)[: len(raw)]
    return raw / np.maximum(raw[0], 1e-300)


def correlation_length(errors: np.ndarray) -> float:
    """Rows that carry the information of one independent row, the longest of the joints."""
    most = max(len(errors) // 10, 1)
    rho = autocorrelation(errors, most)
    lengths = []
    for column in rho.T:
        # Sokal's window: sum up to five times the length found so far
        sums = 1.0 + 2.0 * np.cumsum(column[1:])
        reached = np.flatnonzero(np.arange(1, len(column)) >= 5.0 * np.maximum(sums, 1.0))
        lengths.append(
            max(sums[reached[0]] if reached.size else sums[-1] if sums.size else 1.0, 1.0)
        )
    return float(max(lengths))


def robust_covariance(
    estimate: Estimate, residuals: Residuals, blocks: Iterable[Block]
) -> tuple[np.ndarray, float, float]:
    """Covariance for correlated residuals, their correlation length, and degrees of freedom.

    Two estimates of the spread of the scores are made: by windows of the scores themselves, which
    also sees errors of the model (Newey & West), and from the autocorrelation of the residuals,
    which few numbers determine. Each parameter gets the larger deviation of the two.
    """
    n, p = residuals.scores.shape
    nv = residuals.tau.shape[1]
    length = correlation_length(residuals.errors)
    used = min(length * p / (nv * n), 0.75)
    # sums of scores over overlapping windows, which also run over the ends
    window = int(np.clip(np.ceil(2.0 * length), 1, max(n // 8, 1)))
    by_scores = np.zeros((p, p))
    step = max(_WINDOWED, 4 * window)
    for k in range(0, n + window - 1, step):
        last = min(k + step, n + window - 1)
        part = residuals.scores[max(k - window + 1, 0) : last].astype(float)
        ends = (max(window - 1 - k, 0) + 1, max(last - n, 0))
        sums = np.cumsum(np.pad(part, (ends, (0, 0))), axis=0)
        moving = sums[window:] - sums[:-window]
        by_scores += moving.T @ moving / window
        release_pages(residuals.scores)
    # columns times their neighbours, weighed by the autocorrelation of each joint
    lags = int(np.clip(np.ceil(5.0 * length), 1, max(n // 4, 1)))
    rho = autocorrelation(residuals.errors, lags) * np.linspace(1.0, 0.0, lags + 1)[:, None]
    by_correlation = np.zeros((p, p))
    for block in blocks:
        for j in range(nv):
            x = np.ascontiguousarray(block.columns[:, j])
            kernel = np.concatenate([rho[:0:-1, j], rho[:, j]])
            near = correlate1d(x, kernel, axis=0, mode="constant")
            by_correlation += (estimate.weights[j] * estimate.sigma[j]) ** 2 * (x.T @ near)
    A = estimate.inverse
    both = [A @ meat @ A / (1.0 - used) for meat in (by_scores, by_correlation)]
    first, second = (np.sqrt(np.maximum(np.diag(c), 0.0)) for c in both)
    grow = np.maximum(first, second) / np.maximum(second, 1e-300)
    return both[1] * np.outer(grow, grow), length, float(max(n * nv / length - p, 2.0))


def interval_factor(freedom: float, level: float = 0.95) -> float:
    """Half-width of an interval in standard deviations."""
    return float(student.ppf(0.5 + level / 2, freedom))


def huber_weights(errors: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Weights of rows by Huber's function of their residuals."""
    size = np.abs(errors) / sigma
    return np.where(size <= _HUBER, 1.0, _HUBER / np.maximum(size, 1e-300))
