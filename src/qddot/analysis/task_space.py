"""Task space on arrays: inverses that stay finite near singularities, null spaces, felt mass.

A task is a frame, a reference and axes of its twist, as in `Robot.operational_space`. All arrays
have leading batch axes. Where a row of the catalogue has the plain term (`task_inertia`,
`operational_space`, `manipulability`), this module has what needs singular values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import TASK_AXES, ReferenceAxes
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.interpret import as_floats
from qddot.robot.robot import Robot

__all__ = [
    "DampedInverse",
    "Manipulability",
    "Rule",
    "damped_inverse",
    "decompose",
    "effective_mass",
    "manipulability_measures",
    "null_space",
]

Rule = Literal["selective", "fixed"]
Axes = Sequence[str] | None
_HEAVY = 10.0
"""How many times the mass of its moving bodies a robot may weigh before it is damped."""
_ROUNDING = 1e-11
"""The share of the largest singular value below which one is rounding, and taken as zero."""
_SHOWN = 0.05
"""The least share of an axis in a direction that is named."""


@dataclass(frozen=True, repr=False)
class DampedInverse(Readable):
    """Λ and J̄ of a task, and the damping that keeps them finite.

    The columns of `directions` are the principal directions of the task, strongest first. Along
    the k-th the task without damping would weigh 1/σ², σ = `singular_values[..., k]` (that of
    J M^(−1/2)); `damping[..., k]` is the mobility that was added there (1/kg or 1/(kg m²)), so that
    it weighs 1/(σ² + damping).
    """

    axes: tuple[str, ...]
    Lambda: np.ndarray
    Jbar: np.ndarray
    directions: np.ndarray
    singular_values: np.ndarray
    damping: np.ndarray

    @property
    def smallest_singular_value(self) -> np.ndarray:
        """The singular value of the weakest direction: zero where the task is singular."""
        return self.singular_values[..., -1]

    @property
    def is_damped(self) -> np.ndarray:
        """Whether any direction is damped."""
        return np.asarray((self.damping > 0.0).any(axis=-1))

    def describe(self, index: int | tuple[int, ...] = ()) -> str:
        """The weakest direction of one state of the batch, in words."""
        try:
            one = np.ndim(self.is_damped[index]) == 0
        except IndexError:
            one = False
        if not one:
            accepted = f"it names one state of a batch of shape {self.is_damped.shape}"
            raise InvalidArgument("index", index, accepted)
        s, added = self.singular_values[index][-1], self.damping[index][-1]
        # the direction, or the opposite one, as a sum of axes, and the unit of its mass
        u = self.directions[index][:, -1]
        order = np.argsort(-np.abs(u))
        shares = u * np.copysign(1.0, u[order[0]])
        shown = [i for i in order if not abs(shares[i]) < _SHOWN]
        turns = {self.axes[i].startswith("r") for i in shown}
        unit = {True: " kg m²", False: " kg"}[turns.pop()] if len(turns) == 1 else ""
        along = " ".join(f"{shares[i]:+.2f} {self.axes[i]}" for i in shown).removeprefix("+")
        weight = f"weighs {1.0 / s**2:.3g}{unit}" if s > 0.0 else "cannot be moved"
        after = f"damped to {1.0 / (s**2 + added):.3g}{unit}" if added > 0.0 else "not damped"
        return f"weakest along {along}: {weight}, {after} (σ = {s:.3g}, damping {added:.3g})"


@dataclass(frozen=True, repr=False)
class Manipulability(Readable):
    """How well a task can be moved: measures of the singular values of its Jacobian.

    `volume` is Yoshikawa's √det(J Jᵀ), `condition` the largest over the smallest singular value
    (infinite where singular), `weakest` the direction of the smallest. Axes along and about are
    weighed as metre against radian.
    """

    axes: tuple[str, ...]
    volume: np.ndarray
    condition: np.ndarray
    smallest_singular_value: np.ndarray
    singular_values: np.ndarray
    weakest: np.ndarray


def damped_inverse(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    reference: ReferenceAxes,
    axes: Axes = None,
    *,
    heaviest: float | None = None,
    onset: float | None = None,
    rule: Rule = "selective",
) -> DampedInverse:
    """Λ and J̄ with damping: no direction of the task weighs more than `heaviest` (kg, kg m²).

    "fixed" adds λ² = 1/`heaviest` to the mobility in every direction (Nakamura & Hanafusa 1986,
    Wampler 1986). "selective" adds λ² (1 − σ²/ε²) only where σ < ε, with ε² = 1/`onset`
    (Maciejewski & Klein 1988): the directions that weigh less than `onset` stay exact. `heaviest`
    is ten times the mass of the moving bodies unless given, `onset` the same.
    """
    moving_mass = float(sum(body.inertia.mass for body in robot.model.bodies))
    limit = _check_mass("heaviest", heaviest, _HEAVY * moving_mass)
    start = _check_mass("onset", onset, limit)
    if start > limit:
        raise InvalidArgument("onset", onset, f"it is at most heaviest, {limit:g}")
    if rule not in get_args(Rule):
        raise UnknownName("rule", rule, get_args(Rule))
    J = robot.task_jacobian(q, frame, reference, axes=axes)
    K = _cholesky_root(robot.inverse_mass_matrix(q))
    U, s, V = decompose(J @ K)
    # the share of the damping λ² that each direction takes
    share = np.ones_like(s) if rule == "fixed" else np.maximum(1.0 - s**2 * start, 0.0)
    damping = share / limit
    mobility = s**2 + damping
    Lambda = _scale_columns(U, 1.0 / mobility) @ _transpose(U)
    Jbar = K @ _scale_columns(V, s / mobility) @ _transpose(U)
    return DampedInverse(_axis_names(axes), Lambda, Jbar, U, s, damping)


def null_space(
    robot: Robot, q: ArrayLike, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> np.ndarray:
    """Projector N = 1 − J̄ J (nv × nv) on the joint motions that leave a task still.

    J N = 0 and N N = N; its transpose projects torques, with J M⁻¹ Nᵀ = 0: they do not accelerate
    the task (dynamically consistent, Khatib 1987). It holds at singularities too, where directions
    that the task has lost belong to the null space.
    """
    J = robot.task_jacobian(q, frame, reference, axes=axes)
    K = _cholesky_root(robot.inverse_mass_matrix(q))
    # the pseudoinverse, without the directions that the task has lost
    U, s, V = decompose(J @ K)
    inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s != 0.0)
    return np.eye(robot.nv) - K @ _scale_columns(V, inverse) @ _transpose(U) @ J


def effective_mass(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    reference: ReferenceAxes,
    direction: ArrayLike,
    axes: Axes = None,
) -> np.ndarray:
    """Mass 1/(uᵀ Λ⁻¹ u) that is felt when a frame is pushed along u: force over acceleration.

    `direction` has one entry an axis, three mean (x, y, z) where `axes` is not given; its length
    does not matter. The unit is kg for axes along, kg m² for axes about. Infinite where the robot
    cannot yield.
    """
    u = as_floats("direction", direction)
    if u.ndim == 0:
        raise InvalidArgument("direction", direction, "it needs one number an axis")
    if axes is None:
        axes = TASK_AXES[:3] if u.shape[-1] == 3 else TASK_AXES
    J = robot.task_jacobian(q, frame, reference, axes=axes)
    if u.shape[-1] != J.shape[-2]:
        raise ShapeMismatch("effective_mass", "direction", f"(..., {J.shape[-2]})", u.shape)
    length = np.linalg.norm(u, axis=-1)
    if (length == 0.0).any():
        raise InvalidArgument("direction", direction, "it needs a length other than zero")
    A = J @ _cholesky_root(robot.inverse_mass_matrix(q))
    reached = np.einsum("...i,...ij->...j", u / length[..., None], A)
    mobility = (reached**2).sum(axis=-1)
    still = mobility <= _ROUNDING**2 * (A**2).sum(axis=(-1, -2))
    with np.errstate(divide="ignore"):
        return 1.0 / np.where(still, 0.0, mobility)


def manipulability_measures(
    robot: Robot, q: ArrayLike, frame: str, reference: ReferenceAxes, axes: Axes = None
) -> Manipulability:
    """Yoshikawa's volume, the condition and the smallest singular value of a task's Jacobian."""
    U, s, _ = decompose(robot.task_jacobian(q, frame, reference, axes=axes))
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = np.where(s[..., -1] == 0.0, np.inf, s[..., 0] / s[..., -1])
    return Manipulability(
        _axis_names(axes), s.prod(axis=-1), condition, s[..., -1], s, U[..., :, -1].copy()
    )


def _axis_names(axes: Axes) -> tuple[str, ...]:
    return TASK_AXES if axes is None else tuple(axes)


def _check_mass(name: str, given: float | None, otherwise: float) -> float:
    value = otherwise if given is None else given
    if not isinstance(value, int | float | np.number) or not value > 0.0:
        raise InvalidArgument(name, given, "it is a mass, a number above zero")
    return float(value)


def _transpose(A: np.ndarray) -> np.ndarray:
    return A.swapaxes(-1, -2)


def _scale_columns(A: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return A * columns[..., None, :]


def _is_finite(A: np.ndarray) -> np.ndarray:
    return np.isfinite(A).all(axis=(-1, -2))


def _cholesky_root(A: np.ndarray) -> np.ndarray:
    """K with A = K Kᵀ, NaN where A is not finite."""
    sound = _is_finite(A)[..., None, None]
    K = np.linalg.cholesky(np.where(sound, A, np.eye(A.shape[-1])))
    return np.where(sound, K, np.nan)


def decompose(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, σ, V of A = U diag(σ) Vᵀ with as many columns as A has rows, NaN where A is not finite.

    Singular values that are rounding are zero.
    """
    rows, columns = A.shape[-2:]
    sound = _is_finite(A)[..., None]
    U, s, Vt = np.linalg.svd(np.where(sound[..., None], A, 0.0))
    s = np.where(s <= _ROUNDING * s.max(axis=-1, keepdims=True, initial=0.0), 0.0, s)
    # pad to as many columns as A has rows
    sigma, V = np.zeros((*s.shape[:-1], rows)), np.zeros((*s.shape[:-1], columns, rows))
    sigma[..., : s.shape[-1]] = s
    V[..., : s.shape[-1]] = _transpose(Vt)[..., : s.shape[-1]]
    return U, np.where(sound, sigma, np.nan), V
