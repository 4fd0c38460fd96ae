"""Payload from two logs, with and without it; gains of the drives from a payload that is known.

The bodies are the same in both logs, so that base parameters differ by those of the payload.
Torques are known up to the gains of the drives, which scale the mass: the interval says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NotIdentifiable
from qddot.identify.blas import on_one_blas_thread
from qddot.identify.design import Block
from qddot.identify.estimators import (
    gather_moments,
    gather_residuals,
    interval_factor,
    robust_covariance,
    solve_weighted,
)
from qddot.identify.fitting import Fit, fit
from qddot.identify.log import Log
from qddot.identify.torque_model import TorqueModel
from qddot.robot.robot import Robot

__all__ = ["Payload", "TorqueGains", "payload", "torque_gains"]

_GAIN = 0.13
"""Relative uncertainty (95 %) of torques from currents, unless it is stated: two published sets of
gains of one arm differ by that from their mean."""
_GAIN_PASSES = 6
_FELT = 0.1
"""Share of a joint's torque that the payload must make to be weighed by it."""
_TOLD = 0.2
"""Half-width of a gain, relative, beyond which it is not told."""


@dataclass(frozen=True, repr=False)
class Payload(Readable):
    """Mass with a 95 % interval, and centre of mass in the frame of the last body.

    `noise` is the half-width by the noise of the logs alone, `by_joint` the masses that single
    joints read: where they differ, gains of drives do.
    """

    mass: float
    low: float
    high: float
    noise: float
    com: np.ndarray | None
    com_half_width: np.ndarray | None
    by_joint: dict[str, float]
    gain_uncertainty: float
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The payload as plain data."""
        plain = {k: v for k, v in vars(self).items() if k not in ("com", "com_half_width")}
        com = None if self.com is None else self.com.tolist()
        return {**plain, "com": com, "notes": list(self.notes)}

    def __str__(self) -> str:
        lines = [
            f"payload {self.mass:.3g} kg, 95 % within {self.low:.3g} … {self.high:.3g} kg "
            f"(± {self.noise:.2g} kg by noise, ± {100 * self.gain_uncertainty:.0f} % by gains of "
            "the drives)"
        ]
        if self.com is not None and self.com_half_width is not None:
            parts = ", ".join(
                f"{c:.3f} ± {h:.2g}" for c, h in zip(self.com, self.com_half_width, strict=True)
            )
            lines.append(f"  centre of mass ({parts}) m in the last body")
        read = ", ".join(f"{j} {m:.3g}" for j, m in self.by_joint.items())
        lines.append(f"  by joint: {read} kg")
        return "\n".join((*lines, *(f"  {note}" for note in self.notes)))


@dataclass(frozen=True, repr=False)
class TorqueGains(Readable):
    """Factor by which the torques of each joint are to be multiplied, with 95 % half-widths."""

    joints: tuple[str, ...]
    gains: np.ndarray
    half_widths: np.ndarray
    refusals: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The gains as plain data; joints that are refused have none."""
        rows = zip(self.joints, self.gains, self.half_widths, strict=True)
        known = {
            n: {"gain": float(g), "half_width": float(h)} for n, g, h in rows if np.isfinite(g)
        }
        return {"gains": known, "refused": list(self.refusals)}

    def __str__(self) -> str:
        rows = zip(self.joints, self.gains, self.half_widths, strict=True)
        lines = [f"{n}: torques times {g:.3f} ± {h:.2g}" for n, g, h in rows if np.isfinite(g)]
        return "\n".join((*lines, *(f"no number for {text}" for text in self.refusals)))


@on_one_blas_thread
def payload(
    robot: Robot,
    empty: Log,
    loaded: Log,
    *,
    friction: Any = "auto",
    bandwidth: float | None = None,
    gain_uncertainty: float = _GAIN,
    on_step: OnStep | None = None,
) -> Payload:
    """Mass and centre of mass of a payload on the last body, from logs without and with it.

    `gain_uncertainty` is the relative 95 % uncertainty of the torques' scale: torque constants are
    seldom known better than some per cent, and the mass is as uncertain as they are.
    """
    if not 0.0 <= gain_uncertainty < 1.0:
        raise InvalidArgument("gain_uncertainty", gain_uncertainty, "it is a share, such as 0.05")
    first, second = _fit_both(robot, empty, loaded, friction, bandwidth, on_step)
    ten, spread = _difference(first, second)
    factor = interval_factor(min(first.freedom, second.freedom))
    mass, noise = float(ten[0]), float(factor * np.sqrt(spread[0, 0]))
    com = ten[1:4] / mass
    slope = np.vstack([-com / mass, np.eye(3) / mass])
    reach = factor * np.sqrt(np.maximum(np.diag(slope.T @ spread[:4, :4] @ slope), 0.0))
    # noise, gains, and what joints disagree about
    gains, widths = _joint_gains(first, second, ten, mass)
    told = np.isfinite(gains)
    names = np.array(robot.model.velocity_names)[told].tolist()
    by_joint = dict(zip(names, (mass * gains[told]).tolist(), strict=True))
    apart = mass * np.abs(gains[told] - 1.0)
    half = float(np.hypot(noise, gain_uncertainty * mass))
    if len(by_joint) > 1:
        half = max(half, float(apart.max()))
    notes = []
    differ = apart > np.maximum(mass * widths[told] + noise, 0.05 * mass)
    if len(by_joint) > 1 and differ.any():
        notes.append("joints read different masses: their torque gains differ from each other")
    if gain_uncertainty == _GAIN:
        text = "the gains of the drives are not known here: state gain_uncertainty= if they are"
        notes.append(text)
    known = bool(np.all(reach < 0.5))
    return Payload(
        mass=mass,
        low=mass - half,
        high=mass + half,
        noise=noise,
        com=com if known else None,
        com_half_width=reach if known else None,
        by_joint=by_joint,
        gain_uncertainty=gain_uncertainty,
        notes=tuple(notes),
    )


@on_one_blas_thread
def torque_gains(
    robot: Robot,
    empty: Log,
    loaded: Log,
    mass: float | None = None,
    *,
    friction: Any = "auto",
    bandwidth: float | None = None,
    on_step: OnStep | None = None,
) -> TorqueGains:
    """Correction of the torque gains of the joints, from a payload of known mass.

    Without a known mass gains and masses scale together, and the question is refused.
    """
    if mass is None or not mass > 0.0:
        raise NotIdentifiable(
            "torque constants",
            "without a known mass they scale with all masses of the robot",
            "weigh a payload, record logs without and with it, and give mass=",
        )
    first, second = _fit_both(robot, empty, loaded, friction, bandwidth, on_step)
    ten, _ = _difference(first, second)
    gains, half_widths = _joint_gains(first, second, ten, mass)
    joints = robot.model.velocity_names
    refusals = tuple(
        f"{j}: the payload makes too little of its torque, or the motion tells too little of it"
        for j, gain in zip(joints, gains, strict=True)
        if np.isnan(gain)
    )
    return TorqueGains(joints, 1.0 / gains, half_widths / gains**2, refusals)


def _fit_both(
    robot: Robot,
    empty: Log,
    loaded: Log,
    friction: Any,
    bandwidth: float | None,
    on_step: OnStep | None,
) -> tuple[Fit, Fit]:
    """Fits of both logs with the same terms and bandwidth."""
    first = fit(robot, empty, friction, "wls", bandwidth=bandwidth, on_step=on_step)
    model: TorqueModel = first.model
    same = first.design.torque.bandwidth
    return first, fit(robot, loaded, model, "wls", bandwidth=same, on_step=on_step)


def _difference(first: Fit, second: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Inertial parameters of the payload and their covariance, by generalised least squares.

    Refused where the mass is lost in the noise, or negative.
    """
    base = first.design.base
    last = first.model.rigid_count - 10
    rigid = np.flatnonzero(
        (base.independent < first.model.rigid_count) & ~first.blind & ~second.blind
    )
    A = base.mixing[rigid, last : last + 10]
    noise = (first.covariance + second.covariance)[np.ix_(rigid, rigid)]
    change = (second.values - first.values)[rigid]
    scale = np.sqrt(np.diag(noise))
    inverse = np.linalg.pinv(noise / np.outer(scale, scale), rcond=1e-8, hermitian=True)
    B, c = A / scale[:, None], change / scale
    # a payload of 30 cm at most: products of inertia that nothing tells stay near zero
    size = max(abs(float(np.linalg.lstsq(A[:, :1], change, rcond=None)[0][0])), 1.0)
    hold = np.diag([0.0, 0.0, 0.0, 0.0, *[1.0 / (0.09 * size) ** 2] * 6])
    spread = np.linalg.pinv(B.T @ inverse @ B + hold, rcond=1e-12, hermitian=True)
    ten = spread @ (B.T @ inverse @ c)
    noise = interval_factor(min(first.freedom, second.freedom)) * np.sqrt(spread[0, 0])
    if noise > max(abs(ten[0]), 1e-9):
        raise NotIdentifiable(
            "the payload",
            f"the logs tell {ten[0]:.2g} ± {noise:.2g} kg",
            "a motion with the arm stretched out, or a longer one, weighs it; see plan",
        )
    if ten[0] < 0.0:
        raise NotIdentifiable(
            "the payload",
            f"the robot with it is lighter by {-ten[0]:.3g} ± {noise:.2g} kg than without",
            "the logs are probably swapped: the one without the payload comes first",
        )
    return ten, spread


@dataclass(frozen=True)
class _GainModel:
    """Torques that drives of unknown gains report, without and with a payload of known mass.

    Joint j reports c_j Y_j β without, and c_j Y_j (β + A p + E d) with the payload: β are base
    parameters, A p is what the payload p adds to them, E d the change of the drives between logs.
    Unknown are β, p but for its mass, d and c.
    """

    payload: np.ndarray
    drives: np.ndarray
    mass: float

    def linearise(self, unknowns: np.ndarray, loaded: bool) -> np.ndarray:
        """Matrices M of the joints about a guess: [columns, torque] M is linear least squares.

        They are nv × (rank + 1) × (unknowns + 1); the last column has the torque.
        """
        rank, changes = len(self.payload), self.drives.shape[1]
        base, shape, change, gains = np.split(unknowns, np.cumsum([rank, 9, changes]))
        extra = [self.payload[:, 1:], self.drives]
        if loaded:
            base = base + self.payload @ [self.mass, *shape] + self.drives @ change
        slopes = np.hstack([np.eye(rank), *(x if loaded else 0.0 * x for x in extra)])
        made = np.zeros((len(gains), rank + 1, len(unknowns) + 1))
        made[:, :rank, : slopes.shape[1]] = gains[:, None, None] * slopes
        made[:, rank, -1] = 1.0
        for j, c in enumerate(gains):
            made[j, :rank, slopes.shape[1] + j] = base
            made[j, :rank, -1] = made[j, :rank, :-1] @ unknowns - c * base
        return made


def _joint_gains(
    first: Fit, second: Fit, ten: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gain of each joint's torques and its 95 % half-width, given the mass of the payload.

    All parameters are fitted to both logs together with the gains (Gauss–Newton), so that a gain
    that is off spoils no other through the parameters that joints share. NaN where the payload is
    hardly felt, or the motion tells too little.
    """
    base, rigid, nv = first.design.base, first.model.rigid_count, first.prior_robot.nv
    drives = np.eye(base.rank)[:, base.independent >= rigid]
    model = _GainModel(base.mixing[:, rigid - 10 : rigid], drives, mass)
    designs = (first.design, second.design)
    moments = [gather_moments(d.blocks(), d.rows) for d in designs]
    counts = moments[0].counts.sum(axis=0) + moments[1].counts.sum(axis=0)
    scale = mass / ten[0]
    unknowns = np.concatenate(
        [scale * first.values, scale * ten[1:], np.zeros(drives.shape[1]), np.full(nv, 1 / scale)]
    )
    for _ in range(_GAIN_PASSES):
        maps = [model.linearise(unknowns, loaded) for loaded in (False, True)]
        products = sum(
            np.swapaxes(M, 1, 2) @ m.total @ M for M, m in zip(maps, moments, strict=True)
        )
        estimate = solve_weighted(products, counts)
        unknowns = estimate.values

    def linear_blocks() -> Iterator[Block]:
        for design, M in zip(designs, maps, strict=True):
            for block in design.blocks():
                joined = np.concatenate([block.columns, block.tau[..., None]], axis=-1)
                made = np.einsum("tjp,jpu->tju", joined, M)
                yield replace(block, columns=made[..., :-1], tau=made[..., -1])

    residuals = gather_residuals(linear_blocks(), unknowns, estimate.weights)
    covariance, _, freedom = robust_covariance(estimate, residuals, linear_blocks())
    widths = interval_factor(freedom) * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    gains, half_widths = unknowns[-nv:], widths[-nv:]
    # share of each joint's torque that the payload makes
    shape = unknowns[base.rank : base.rank + 9]
    added = np.append(model.payload @ [mass, *shape], 0.0)
    loaded = moments[1].total
    felt = gains * np.sqrt(np.einsum("p,jpr,r->j", added, loaded, added) / loaded[:, -1, -1])
    told = ~estimate.blind[-nv:] & (felt > _FELT) & (half_widths < _TOLD * gains)
    return np.where(told, gains, np.nan), np.where(told, half_widths, np.nan)
