"""Choice of the friction terms of each joint, and of the speeds at which they bend.

Every candidate is a column of one large model. Its sums of products over stretches of time are
taken once; cross-validation over these stretches then needs no further look at the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from qddot.display.progress import OnStep
from qddot.identify.base_parameters import base_parameters
from qddot.identify.design import Design
from qddot.identify.estimators import Moments, gather_moments, residual_squares, solve_weighted
from qddot.identify.torque_model import DriveTerm

__all__ = ["Selection", "select_bends", "select_terms"]

_BENDS = (0.002, 0.01, 0.04)
"""Candidates for v₀ as shares of the peak speed of a joint."""
_STRIBECK = 0.04
_FOLDS = 8
_GAIN = 0.01
"""Share by which a term must lower the error of prediction to be taken."""
_EXTRA = ("load", "sqrt", "cubic", "stribeck")
_CURVED = {"sqrt", "cubic", "stribeck"}


@dataclass(frozen=True)
class Selection:
    """Terms chosen for each joint, with the cross-validated error before and after.

    `steps` tell what was tried and taken: joint, term, error relative to that of the start.
    """

    drives: tuple[tuple[DriveTerm, ...], ...]
    start: float
    end: float
    steps: tuple[tuple[str, str, float], ...]

    def __str__(self) -> str:
        lines = [f"cross-validated error {100 * self.end / self.start:.3g} % of the plain model's"]
        lines += [f"  {joint}: {term} ({100 * error:.3g} %)" for joint, term, error in self.steps]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Candidates:
    """Sums of products of all candidate columns, and the column of each term of each joint."""

    options: list[list[DriveTerm]]
    moments: Moments
    fixed: list[int]
    columns: list[dict[DriveTerm, int | None]]

    def indices(self, drives: Sequence[Sequence[DriveTerm]]) -> np.ndarray:
        """Columns of a choice of terms."""
        wanted = [self.columns[j][t] for j, terms in enumerate(drives) for t in terms]
        return np.array([*self.fixed, *(k for k in wanted if k is not None)])

    def joint_weights(self, drives: Sequence[Sequence[DriveTerm]]) -> np.ndarray:
        """Weights of the joints by the residuals of a choice of terms."""
        whole = np.append(self.indices(drives), self.moments.products.shape[-1] - 1)
        total = self.moments.total[:, whole[:, None], whole]
        return solve_weighted(total, self.moments.counts.sum(axis=0)).weights


def _gather_candidates(
    design: Design, options: list[list[DriveTerm]], on_step: OnStep | None
) -> _Candidates:
    """Sums of products of a model with every candidate term."""
    wide = design.model.with_drives(options)
    base = base_parameters(wide)
    big = replace(design, model=wide, base=base)
    folds = _FOLDS if big.rows >= 16 * _FOLDS else 4
    moments = gather_moments(big.blocks(on_step, "friction terms"), big.rows, folds)
    places = {int(k): i for i, k in enumerate(base.independent)}
    shared = range(wide.drive_slices[-1].stop, len(wide.names))
    fixed = [places[k] for k in (*range(wide.rigid_count), *shared) if k in places]
    columns = [
        {t: places.get(k) for t, k in zip(terms, range(s.start, s.stop), strict=True)}
        for s, terms in zip(wide.drive_slices, options, strict=True)
    ]
    return _Candidates(options, moments, fixed, columns)


def select_terms(
    design: Design,
    speeds: np.ndarray,
    always: Sequence[str] = ("armature", "viscous", "offset"),
    extra: Sequence[str] = _EXTRA,
    on_step: OnStep | None = None,
) -> Selection:
    """Friction terms by blocked cross-validation inside the log of a design.

    `speeds` are the peak speeds of the joints. Coulomb friction is always there, with a v₀ chosen;
    the others have to lower the error of prediction.
    """
    options = [_candidates(float(peak), always, extra) for peak in speeds]
    pool = _gather_candidates(design, options, on_step)
    joints = design.model.robot.model.velocity_names
    middle = [DriveTerm("coulomb", _BENDS[1] * float(peak)) for peak in np.maximum(speeds, 1e-6)]
    chosen = [
        [t for t in terms if t.kind in always] + [m]
        for terms, m in zip(options, middle, strict=True)
    ]
    weights = pool.joint_weights(chosen)

    def error(drives: list[list[DriveTerm]]) -> float:
        return _prediction_error(pool.moments, pool.indices(drives), weights)

    def change(j: int, terms: list[DriveTerm]) -> list[list[DriveTerm]]:
        return [*chosen[:j], terms, *chosen[j + 1 :]]

    start = best = error(chosen)
    steps: list[tuple[str, str, float]] = []
    count = len(joints)
    # the speed at which Coulomb friction turns, joint by joint
    for j, joint in enumerate(joints):
        for term in (t for t in options[j] if t.kind == "coulomb"):
            trial = change(j, [t for t in chosen[j] if t.kind != "coulomb"] + [term])
            if (found := error(trial)) < best:
                chosen, best = trial, found
        steps.append((joint, f"v₀ {_bend(chosen[j]):.3g}", best / start))
    # further terms at all joints at once: joints share masses, so that one alone may not gain
    for _ in extra:
        kinds = [k for k in extra if all(_is_open(k, own) for own in chosen)]
        trials = [[[*own, _term(o, k, own)] for o, own in zip(options, chosen, strict=True)]
                  for k in kinds]  # fmt: skip
        found, taken = min(((error(t), i) for i, t in enumerate(trials)), default=(np.inf, 0))
        if found > (1.0 - _GAIN) * best:
            break
        chosen, best = trials[taken], found
        steps.append(("all joints", kinds[taken], best / start))
    # then joint by joint: drop what does not help, add what does
    for j, joint in enumerate(joints):
        if on_step:
            on_step("friction terms", j, count)
        share = best / count
        for term in [t for t in chosen[j] if t.kind in extra]:
            trial = change(j, [t for t in chosen[j] if t != term])
            if (found := error(trial)) < best + 0.5 * _GAIN * share:
                chosen, best = trial, found
                steps.append((joint, f"no {term.kind}", best / start))
        for kind in extra:
            if not _is_open(kind, chosen[j]):
                continue
            trial = change(j, [*chosen[j], _term(options[j], kind, chosen[j])])
            if (found := error(trial)) < best - 4 * _GAIN * share:
                chosen, best = trial, found
                steps.append((joint, kind, best / start))
    return Selection(tuple(map(tuple, chosen)), start, best, tuple(steps))


def select_bends(design: Design, speeds: np.ndarray, on_step: OnStep | None = None) -> Selection:
    """The terms of a design with v₀ of Coulomb friction and load chosen by cross-validation."""
    bent = {"coulomb", "load", "stribeck"}
    others = [t.kind for t in design.model.drives[0] if t.kind not in bent]
    found = select_terms(design, speeds, others, (), on_step)
    bends = [_bend(terms) for terms in found.drives]
    drives = [
        tuple(replace(t, speed=v0) if t.kind in ("coulomb", "load") else t for t in terms)
        for terms, v0 in zip(design.model.drives, bends, strict=True)
    ]
    return replace(found, drives=tuple(drives))


def _candidates(peak: float, always: Sequence[str], extra: Sequence[str]) -> list[DriveTerm]:
    peak = max(peak, 1e-6)
    bends = [share * peak for share in _BENDS]
    terms = [DriveTerm(kind) for kind in always]
    terms += [DriveTerm("coulomb", s) for s in bends]
    terms += [DriveTerm("load", s) for s in bends if "load" in extra]
    terms += [DriveTerm(kind) for kind in ("sqrt", "cubic") if kind in extra]
    terms += [DriveTerm("stribeck", _STRIBECK * peak)] if "stribeck" in extra else []
    return terms


def _is_open(kind: str, terms: Sequence[DriveTerm]) -> bool:
    """Whether a kind of term may be added: one of those that bend the curve of speed is enough."""
    has = {t.kind for t in terms}
    return kind not in has and not (kind in _CURVED and has & _CURVED)


def _bend(terms: Sequence[DriveTerm]) -> float:
    """The v₀ of a joint's Coulomb friction."""
    return next(t.speed for t in terms if t.kind == "coulomb")


def _term(options: Sequence[DriveTerm], kind: str, terms: Sequence[DriveTerm]) -> DriveTerm:
    """The candidate of a kind; friction by load bends where Coulomb friction does."""
    fits = [t for t in options if t.kind == kind and (kind != "load" or t.speed == _bend(terms))]
    return fits[0]


def _prediction_error(moments: Moments, columns: np.ndarray, weights: np.ndarray) -> float:
    """Weighted squares of the errors on each fold by a fit to the others."""
    whole = np.append(columns, moments.products.shape[-1] - 1)
    products = np.einsum("j,fjab->fab", weights, moments.products[..., whole[:, None], whole])
    total = products.sum(axis=0)
    p, squares = len(columns), 0.0
    for fold in products:
        normal = total - fold
        scale = np.sqrt(np.diag(normal)[:p]) + 1e-300
        A = normal[:p, :p] / np.outer(scale, scale) + 1e-10 * np.eye(p)
        try:
            values = cho_solve(cho_factor(A), normal[:p, p] / scale) / scale
        except LinAlgError:
            return np.inf
        squares += float(residual_squares(fold[None], values)[0])
    return squares
