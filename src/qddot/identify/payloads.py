"""Payload from two logs, with and without it; gains of the drives from a payload that is known.

The bodies are the same in both logs, so that base parameters differ by those of the payload.
Torques are known up to the gains of the drives, which scale the mass: the interval says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NotIdentifiable
from qddot.identify.blas import on_one_blas_thread
from qddot.identify.estimators import interval_factor
from qddot.identify.fitting import Fit, fit
from qddot.identify.log import Log
from qddot.identify.torque_model import TorqueModel
from qddot.identify.validation import held_out_design
from qddot.robot.robot import Robot

__all__ = ["Payload", "TorqueGains", "payload", "torque_gains"]

_GAIN = 0.13
"""Relative uncertainty (95 %) of torques from currents, unless it is stated: two published sets of
gains of one arm differ by that from their mean."""
_FELT = 0.1
"""Share of a joint's torque that the payload must make to be weighed by it."""


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
    if noise > max(abs(mass), 1e-9):
        raise NotIdentifiable(
            "the payload",
            f"the logs tell {mass:.2g} ± {noise:.2g} kg",
            "a motion with the arm stretched out, or a longer one, weighs it; see plan",
        )
    com, reach = ten[1:4] / mass, None
    slope = np.vstack([-com / mass, np.eye(3) / mass])
    reach = factor * np.sqrt(np.maximum(np.diag(slope.T @ spread[:4, :4] @ slope), 0.0))
    by_joint, _ = _joint_masses(first, second, com)
    # noise, gains, and what joints disagree about
    values = np.array(list(by_joint.values()))
    apart = float(np.abs(values - mass).max()) if values.size > 1 else 0.0
    half = float(np.hypot(noise, gain_uncertainty * abs(mass)))
    half = max(half, apart)
    notes = []
    if apart > 2.0 * noise and apart > 0.05 * abs(mass):
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
    read, widths = _joint_masses(first, second, ten[1:4] / ten[0])
    joints = robot.model.velocity_names
    refusals = tuple(
        f"{j}: the payload makes too little of its torque" for j in joints if j not in read
    )
    gains = np.array([mass / read[j] if j in read else np.nan for j in joints])
    spread = np.array([gains[k] * widths[j] / read[j] if j in read else np.nan
                       for k, j in enumerate(joints)])  # fmt: skip
    return TorqueGains(joints, gains, np.abs(spread), refusals)


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
    """Inertial parameters of the payload and their covariance, by generalised least squares."""
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
    return spread @ (B.T @ inverse @ c), spread


def _joint_masses(
    first: Fit, second: Fit, com: np.ndarray
) -> tuple[dict[str, float], dict[str, float]]:
    """Mass that each joint alone reads, and its 95 % half-width, where it feels the payload."""
    design = held_out_design(first, second.design.log)
    robot, last = first.prior_robot, first.model.rigid_count - 10
    weight = np.array([1.0, *com])
    top, top_square, felt = (np.zeros(robot.nv) for _ in range(3))
    read, widths = {}, {}
    for block in design.blocks():
        Y = robot.torque_regressor(block.q, block.v, block.a)[..., last : last + 4] @ weight
        Y = np.where(block.moving, Y, 0.0)
        left = block.tau - block.columns @ first.values
        top = top + (Y * left).sum(axis=0)
        top_square = top_square + (Y * Y).sum(axis=0)
        felt = felt + (block.tau**2).sum(axis=0)
    factor = interval_factor(first.freedom)
    for j, name in enumerate(robot.model.velocity_names):
        mass = top[j] / max(top_square[j], 1e-300)
        if np.sqrt(top_square[j] * mass**2 / max(felt[j], 1e-300)) > _FELT:
            read[name] = float(mass)
            noise = second.sigma[j] * np.sqrt(2.0 * second.correlation / max(top_square[j], 1e-300))
            widths[name] = float(factor * noise)
    return read, widths
