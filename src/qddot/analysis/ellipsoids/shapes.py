"""Ellipsoids of what a robot can do: torque, acceleration, velocity, force, felt mass.

Each is the set that a ball becomes under a linear map of the robot at rest, as data with leading
batch axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import TASK_AXES, ReferenceAxes
from qddot.analysis.task_space import decompose
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.robot import Robot

__all__ = [
    "Bounds",
    "Ellipsoid",
    "acceleration_ellipsoid",
    "force_ellipsoid",
    "mass_ellipsoid",
    "tool_acceleration_ellipsoid",
    "torque_ellipsoid",
    "velocity_ellipsoid",
]

Bounds = ArrayLike | Literal["limits"]
_LINEAR = TASK_AXES[:3]


@dataclass(frozen=True, repr=False)
class Ellipsoid(Readable):
    """An ellipsoid in named coordinates: its centre, its axes as columns, its radii, longest first.

    A belted one is not quite an ellipsoid: along a unit vector u with shares u_k of the axes its
    surface lies at 1/Σ(u_k²/radii_k), the mass that is felt along u (Khatib 1995).
    """

    title: str
    unit: str
    coordinates: tuple[str, ...]
    centre: np.ndarray
    axes: np.ndarray
    radii: np.ndarray
    belted: bool = False

    def radius(self, direction: ArrayLike) -> np.ndarray:
        """Distance from the centre to the surface along a direction."""
        u = np.asarray(direction, dtype=float)
        u = u / np.linalg.norm(u, axis=-1, keepdims=True)
        shares = np.einsum("...i,...ij->...j", u, self.axes) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            power = 1 if self.belted else 2
            # an axis without a share does not matter, however short it is
            total = np.where(shares == 0.0, 0.0, shares / self.radii**power).sum(axis=-1)
            return 1.0 / total ** (1.0 / power)

    def points(self, n: int = 96) -> np.ndarray:
        """Points of the surface: (..., n, 2), or a grid (..., n/2, n, 3) from pole to pole."""
        k = len(self.coordinates)
        if k not in (2, 3):
            raise InvalidArgument("coordinates", self.coordinates, "only two or three can be drawn")
        # the unit circle or sphere, stretched along the axes
        turn = np.linspace(0.0, 2.0 * np.pi, n)
        if k == 2:
            unit = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        else:
            pole = np.linspace(0.0, np.pi, n // 2)[:, None]
            parts = (np.sin(pole) * np.cos(turn), np.sin(pole) * np.sin(turn), np.cos(pole))
            unit = np.stack(np.broadcast_arrays(*parts), axis=-1)
        spread = (..., *([None] * (k - 1)), slice(None))
        shares = unit * self.radii[spread]
        if self.belted:
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = (unit**2 / self.radii[spread]).sum(axis=-1, keepdims=True)
                shares = unit / weight
        axes = self.axes[(*spread, slice(None))]
        return self.centre[spread] + np.einsum("...ij,...j->...i", axes, shares)


def torque_ellipsoid(
    robot: Robot,
    q: ArrayLike,
    acceleration: ArrayLike = 1.0,
    joints: Sequence[str] | None = None,
    gravity: bool = False,
) -> Ellipsoid:
    """Torques τ = M q̈ of a ball of joint accelerations: the mass matrix made visible.

    Lynch & Park 2017, section 8.1.3: its axes are the eigenvectors of M, its radii the eigenvalues.
    `acceleration` is the radius of the ball, or one number a joint; `joints` takes the shadow on
    some joints; with `gravity` the centre is g(q).
    """
    rows, names = _joint_rows(robot, joints)
    ball = _check_bounds("acceleration", acceleration, robot.nv)
    M = robot.mass_matrix(q)[..., rows, :]
    g = robot.gravity(q)[..., rows]
    unit = _unit_text(_are_translations(robot, rows), "N", "N m")
    return _ball_image("torque", unit, names, M * ball, g if gravity else 0.0 * g)


def acceleration_ellipsoid(
    robot: Robot,
    q: ArrayLike,
    torque: Bounds = 1.0,
    joints: Sequence[str] | None = None,
    gravity: bool = False,
) -> Ellipsoid:
    """Joint accelerations q̈ = M⁻¹ τ of a ball of torques, from rest.

    Lynch & Park 2017, section 8.1.3. `torque` is the radius of the ball, one number a joint, or
    "limits" for those of the description; with `gravity` the centre is −M⁻¹ g(q).
    """
    rows, names = _joint_rows(robot, joints)
    ball = _torque_bounds(robot, torque)
    Minv = robot.inverse_mass_matrix(q)[..., rows, :]
    fall = -np.einsum("...ij,...j->...i", Minv, robot.gravity(q))
    unit = _unit_text(_are_translations(robot, rows), "m/s²", "rad/s²")
    return _ball_image("acceleration", unit, names, Minv * ball, fall if gravity else 0.0 * fall)


def tool_acceleration_ellipsoid(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    reference: ReferenceAxes,
    axes: Sequence[str] = _LINEAR,
    torque: Bounds = 1.0,
    gravity: bool = False,
) -> Ellipsoid:
    """Accelerations ẍ = J M⁻¹ τ of a frame that a ball of torques reaches from rest.

    Yoshikawa 1985, the dynamic manipulability ellipsoid; `torque` and `gravity` as in
    `acceleration_ellipsoid`.
    """
    ball = _torque_bounds(robot, torque)
    A = robot.task_jacobian(q, frame, reference, axes=axes) @ robot.inverse_mass_matrix(q)
    fall = -np.einsum("...ij,...j->...i", A, robot.gravity(q))
    unit = _unit_text(_are_linear(axes), "m/s²", "rad/s²")
    centre = fall if gravity else 0.0 * fall
    return _ball_image(f"acceleration of {frame}", unit, axes, A * ball, centre)


def velocity_ellipsoid(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    reference: ReferenceAxes,
    axes: Sequence[str] = _LINEAR,
    speed: ArrayLike = 1.0,
) -> Ellipsoid:
    """Velocities J v of a frame that a ball of joint velocities reaches (Yoshikawa 1985)."""
    J = robot.task_jacobian(q, frame, reference, axes=axes) * _check_bounds(
        "speed", speed, robot.nv
    )
    unit = _unit_text(_are_linear(axes), "m/s", "rad/s")
    return _ball_image(f"velocity of {frame}", unit, axes, J, np.zeros(J.shape[:-1]))


def force_ellipsoid(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    reference: ReferenceAxes,
    axes: Sequence[str] = _LINEAR,
    torque: Bounds = 1.0,
) -> Ellipsoid:
    """Forces F at a frame that torques Jᵀ F of a ball hold; infinite where nothing is needed.

    Weight is left out: it takes its share of the torques before.
    """
    J = robot.task_jacobian(q, frame, reference, axes=axes) / _torque_bounds(robot, torque)
    U, s, _ = decompose(J)
    return _inverse_ellipsoid(
        f"force at {frame}", _unit_text(_are_linear(axes), "N", "N m"), axes, U, s
    )


def mass_ellipsoid(
    robot: Robot,
    q: ArrayLike,
    frame: str,
    reference: ReferenceAxes,
    axes: Sequence[str] = _LINEAR,
    belted: bool = False,
) -> Ellipsoid:
    """Mass that is felt at a frame: its axes and radii are those of Λ.

    The ellipsoid is the forces Λ ẍ of the unit ball of accelerations; the belted one shows along
    each direction u the mass 1/(uᵀ Λ⁻¹ u) that is felt there (Khatib 1995). Infinite where the
    robot cannot yield.
    """
    U, s, _ = decompose(robot.task_mobility(q, frame, reference, axes=axes))
    title = f"{'belted mass' if belted else 'mass'} ellipsoid at {frame}"
    return _inverse_ellipsoid(
        title, _unit_text(_are_linear(axes), "kg", "kg m²"), axes, U, s, belted
    )


def _ball_image(
    title: str, unit: str, coordinates: Sequence[str], A: np.ndarray, centre: np.ndarray
) -> Ellipsoid:
    """The image of the unit ball under A, moved to a centre."""
    U, s, _ = decompose(A)
    return Ellipsoid(title, unit, tuple(coordinates), centre, U, s)


def _inverse_ellipsoid(
    title: str,
    unit: str,
    coordinates: Sequence[str],
    U: np.ndarray,
    s: np.ndarray,
    belted: bool = False,
) -> Ellipsoid:
    """The ellipsoid with radii 1/σ about the origin."""
    with np.errstate(divide="ignore"):
        radii = 1.0 / s[..., ::-1]
    axes = U[..., :, ::-1]
    return Ellipsoid(title, unit, tuple(coordinates), np.zeros(s.shape), axes, radii, belted)


def _unit_text(along: Sequence[bool], linear: str, angular: str) -> str:
    """The unit of coordinates along axes and about them, both where they are mixed."""
    if len(set(along)) > 1:
        return f"{linear}, {angular}"
    return linear if all(along) else angular


def _are_linear(axes: Sequence[str]) -> list[bool]:
    return [axis in _LINEAR for axis in axes]


def _are_translations(robot: Robot, rows: Sequence[int]) -> list[bool]:
    """Whether velocities are linear ones."""
    angular = robot.model.angular
    return [not angular[i] for i in rows]


def _joint_rows(robot: Robot, joints: Sequence[str] | None) -> tuple[list[int], tuple[str, ...]]:
    """Velocities of joints and their names; all of them without a choice."""
    known = robot.model.velocity_names
    names = known if joints is None else tuple([joints] if isinstance(joints, str) else joints)
    for name in names:
        if name not in known:
            raise UnknownName("joint", name, known, robot.name)
    return [known.index(name) for name in names], names


def _check_bounds(name: str, given: Any, nv: int) -> np.ndarray:
    """A positive number, or one a joint."""
    accepted = "it needs a number above zero, or one a joint"
    try:
        x = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(name, given, accepted) from error
    if x.ndim > 1 or (x.ndim == 1 and len(x) != nv):
        raise ShapeMismatch("ellipsoid", name, f"() or (nv={nv},)", x.shape)
    if not ((x > 0.0) & np.isfinite(x)).all():
        raise InvalidArgument(name, given, accepted)
    return x


def _torque_bounds(robot: Robot, given: Bounds) -> np.ndarray:
    """Radii of the ball of torques; "limits" are the effort limits of the description."""
    if not isinstance(given, str):
        return _check_bounds("torque", given, robot.nv)
    if given != "limits":
        raise InvalidArgument("torque", given, 'it needs a number, one a joint, or "limits"')
    efforts = np.zeros(robot.nv)
    for body in robot.model.independent:
        efforts[body.iv] = body.joint.limits.effort
    missing = [robot.model.velocity_names[i] for i in np.flatnonzero(~(efforts < np.inf))]
    if missing or not (efforts > 0.0).all():
        reason = (
            f"no effort limit at {', '.join(missing)}" if missing else "an effort limit is zero"
        )
        raise InvalidArgument("torque", given, f"{reason}: give one number a joint")
    return efforts
