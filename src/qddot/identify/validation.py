"""Validation: the prediction of an identified model on a log that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument
from qddot.identify.design import Design
from qddot.identify.estimators import (
    Residuals,
    autocorrelation,
    gather_residuals,
    interval_factor,
)
from qddot.identify.fitting import Fit
from qddot.identify.log import Log

__all__ = [
    "JointValidation",
    "Uncertainty",
    "Validation",
    "held_out_design",
    "torque_uncertainty",
    "validate",
]

FitVerdict = Literal["good", "usable", "poor"]
_GOOD, _USABLE = 0.10, 0.25
_OVERFIT = 1.5
"""Ratio of held-out and training errors from which a fit has learned the log by heart."""
_WHITE = 2.5
"""Standard deviations of an autocorrelation of white noise that still pass."""


@dataclass(frozen=True)
class JointValidation:
    """Errors of one joint on the held-out log: rms (N m or N) and relative to its torque.

    `before` is the relative error of the description the fit started from.
    """

    name: str
    rms: float
    relative: float
    trained: float
    before: float
    verdict: FitVerdict


@dataclass(frozen=True)
class Validation:
    """Errors of an identified model on a held-out log, filtered as in the fit."""

    joints: tuple[JointValidation, ...]
    total: float
    before: float
    trained: float
    residuals: Residuals
    bandwidth: float
    overfit: bool
    whiteness: float
    notes: tuple[str, ...]

    @property
    def verdict(self) -> FitVerdict:
        """Judgement of all joints together."""
        return _judge(self.total)

    @property
    def usable(self) -> float:
        """Relative error up to which a model is usable."""
        return _USABLE

    def summary(self) -> dict[str, Any]:
        """The validation as plain data."""
        return {
            "verdict": self.verdict,
            "total": self.total,
            "before": self.before,
            "training": self.trained,
            "bandwidth_hz": self.bandwidth,
            "overfit": self.overfit,
            "joints": [vars(j) for j in self.joints],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}: {100 * self.total:.3g} % of the held-out torques remain "
            f"({100 * self.trained:.3g} % in training, {100 * self.before:.3g} % before), "
            f"up to {self.bandwidth:.3g} Hz"
        ]
        lines += [
            f"  {j.name}: {j.rms:.3g} N m rms, {100 * j.relative:.3g} % "
            f"({100 * j.before:.3g} % before): {j.verdict}"
            for j in self.joints
        ]
        return "\n".join((*lines, *(f"  {note}" for note in self.notes)))


def _judge(error: float) -> FitVerdict:
    return "good" if error <= _GOOD else "usable" if error <= _USABLE else "poor"


def held_out_design(fit: Fit, log: Log) -> Design:
    """The model of a fit on another log, with the same filters."""
    motion, torque = fit.design.motion, fit.design.torque
    if abs(log.dt / fit.design.log.dt - 1.0) > 1e-3:
        motion, torque = replace(motion, dt=log.dt), replace(torque, dt=log.dt)
    return replace(fit.design, log=log, motion=motion, torque=torque)


def validate(fit: Fit, log: Log, on_step: OnStep | None = None) -> Validation:
    """Predict the torques of a log that was held out, and judge the errors joint by joint.

    Up to 10 % of a joint's torque is good, up to 25 % usable; the rest is poor.
    """
    if tuple(log.joints) != tuple(fit.design.log.joints):
        raise InvalidArgument("log", log.joints, f"the fit is of {fit.design.log.joints}")
    design = held_out_design(fit, log)
    blocks = list(design.blocks(on_step, "validation"))
    found = gather_residuals(blocks, fit.values, fit.weights, keep_scores=False)
    prior = gather_residuals(blocks, fit.prior_values, fit.weights, keep_scores=False)
    moving = np.maximum(sum(b.moving.sum(axis=0) for b in blocks), 1)
    size = np.maximum(np.linalg.norm(found.tau, axis=0), 1e-300)
    relative, before = (np.linalg.norm(r.errors, axis=0) / size for r in (found, prior))
    rms = np.sqrt((found.errors**2).sum(axis=0) / moving)
    joints = [
        JointValidation(
            name=name,
            rms=float(rms[j]),
            relative=float(relative[j]),
            trained=float(fit.relative[j]),
            before=float(before[j]),
            verdict=_judge(float(relative[j])),
        )
        for j, name in enumerate(log.joints)
    ]
    whole = float(np.linalg.norm(found.tau)) or 1e-300
    total, at_first = (float(np.linalg.norm(r.errors)) / whole for r in (found, prior))
    notes = []
    # the rms decides: relative errors also grow where a joint has little to do
    ratio = float(np.linalg.norm(rms / fit.sigma) / np.linalg.norm(fit.rms / fit.sigma))
    overfit = ratio > _OVERFIT
    if overfit:
        notes.append(
            f"errors are {ratio:.2g} times those of the training log: too many parameters for it, "
            "or another motion than it had; record longer or take fewer friction terms"
        )
    if total > at_first:
        notes.append("the description predicts this log better than the fit: do not use the fit")
    rho = autocorrelation(found.errors, 1)[-1]
    white = float(np.max(np.abs(rho)) * np.sqrt(len(found.index)))
    if white > _WHITE:
        notes.append(
            "residuals are correlated in time: something is not modelled; intervals allow for it"
        )
    return Validation(
        joints=tuple(joints),
        total=total,
        before=at_first,
        trained=fit.total,
        residuals=found,
        bandwidth=design.torque.bandwidth,
        overfit=overfit,
        whiteness=white,
        notes=tuple(notes),
    )


@dataclass(frozen=True, repr=False)
class Uncertainty(Readable):
    """95 % half-widths at states: of gravity (n × nv), M (n × nv × nv) and torques (n × nv).

    `acceleration` bounds the acceleration error of computed torque with the identified model:
    M⁻¹ times the error of the torque (n × nv).
    """

    gravity: np.ndarray
    mass_matrix: np.ndarray
    torque: np.ndarray
    acceleration: np.ndarray


def torque_uncertainty(fit: Fit, q: Any, v: Any = None, a: Any = None) -> Uncertainty:
    """How far the terms of the dynamics may be off at states, by the covariance of the fit."""
    q = np.atleast_2d(np.asarray(q, dtype=float))
    v, a = (np.zeros_like(q) if x is None else np.broadcast_to(x, q.shape) for x in (v, a))
    columns = fit.design.base.independent
    still = np.zeros_like(q)
    factor = interval_factor(fit.freedom)

    def spread(rows: np.ndarray) -> np.ndarray:
        return factor * np.sqrt(
            np.maximum(np.einsum("...p,pr,...r->...", rows, fit.covariance, rows), 0.0)
        )

    drives = np.array([k >= fit.model.rigid_count for k in columns])
    armature = np.array(["armature" in fit.model.names[k] for k in columns])
    rest = np.where(drives, 0.0, fit.model.regressor(q, still, still)[..., columns])
    # columns of M: what a unit acceleration of a joint adds
    columns_of_mass, spreads = [], []
    for j in range(q.shape[-1]):
        unit = np.broadcast_to(np.eye(q.shape[-1])[j], q.shape)
        moved = fit.model.regressor(q, still, unit)[..., columns]
        added = np.where(drives & ~armature, 0.0, moved) - rest
        columns_of_mass.append(added @ fit.values)
        spreads.append(spread(added))
    torque = spread(fit.model.regressor(q, v, a)[..., columns])
    inverse = np.abs(np.linalg.pinv(np.stack(columns_of_mass, axis=-1)))
    return Uncertainty(
        gravity=spread(rest),
        mass_matrix=np.stack(spreads, axis=-1),
        torque=torque,
        acceleration=np.einsum("...ij,...j->...i", inverse, torque),
    )
