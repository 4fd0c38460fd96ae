"""Motions in time: point to point, through via points, periodic, and of a frame in space."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import make_interp_spline
from scipy.spatial.transform import Rotation

from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch
from qddot.robot.robot import Robot

__all__ = [
    "PEAK_ACCELERATION",
    "PEAK_SPEED",
    "JointMotion",
    "PoseMotion",
    "TimeScaling",
    "arc",
    "fourier",
    "line",
    "quintic",
    "shortest_duration",
    "trapezoidal",
    "via_points",
]

JointMotion = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Position, velocity and acceleration at times, each of the shape of the times before its own."""

PEAK_SPEED = 15.0 / 8.0
"""Largest speed of a quintic of unit length and duration, at its middle."""

PEAK_ACCELERATION = 10.0 / math.sqrt(3.0)
"""Largest acceleration of a quintic of unit length and duration, at ½ ∓ √3/6."""


def quintic(q0: ArrayLike, q1: ArrayLike, duration: float, t: ArrayLike) -> JointMotion:
    """Position, velocity and acceleration of the quintic from rest at q0 to rest at q1.

    Of all motions from rest to rest it has the least jerk (Flash & Hogan 1985).

    q0 and q1 have shape (..., n), t any shape; the results have the shape of t before that of q.
    The motion is s = 10 u³ − 15 u⁴ + 6 u⁵ of u = t / duration (Lynch & Park 2017, section 9.2);
    it stands still before and after. For coordinates that are numbers, not quaternions.
    """
    try:
        start, end, times = (np.asarray(x, dtype=float) for x in (q0, q1, t))
        step = np.subtract(end, start)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("quintic", (q0, q1, t), "it needs arrays of numbers") from error
    if not 0.0 < duration < math.inf:
        raise InvalidArgument("quintic: duration", duration, "it needs seconds, more than 0")
    # the time scaling s(u) and its derivatives, zero outside 0 ≤ u ≤ 1
    u = np.clip(times / duration, 0.0, 1.0).reshape(times.shape + (1,) * step.ndim)
    s = u**3 * (10.0 - 15.0 * u + 6.0 * u**2)
    ds = 30.0 * u**2 * (1.0 - u) ** 2 / duration
    dds = 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / duration**2
    return start + step * s, step * ds, step * dds


def trapezoidal(
    q0: ArrayLike, q1: ArrayLike, velocity: ArrayLike, acceleration: ArrayLike, t: ArrayLike
) -> tuple[JointMotion, float]:
    """Fastest motion from rest at q0 (n) to rest at q1 within these bounds, and its duration.

    Constant acceleration, constant speed, constant deceleration, all joints in step: the bounds of
    one of them are reached. Where the way is too short for the speed it is a triangle.
    """
    start, end, times = (np.asarray(x, dtype=float) for x in (q0, q1, t))
    step = end - start
    bounds = []
    for name, given in (("velocity", velocity), ("acceleration", acceleration)):
        x = np.broadcast_to(np.asarray(given, float), step.shape)
        if not ((x > 0.0) & np.isfinite(x)).all():
            raise InvalidArgument(f"trapezoidal: {name}", given, "it needs numbers above zero")
        # bounds of the way s from 0 to 1
        way = np.abs(step)
        bounds.append(float(np.min(np.where(way > 0.0, x / np.where(way > 0.0, way, 1.0), np.inf))))
    fast, hard = bounds
    if math.isinf(fast):
        still = np.zeros((*times.shape, *step.shape))
        return (start + still, still, still), 0.0
    fast = min(fast, math.sqrt(hard))
    ramp, duration = fast / hard, 1.0 / fast + fast / hard
    u = np.clip(times, 0.0, duration)[..., None]
    left = duration - u
    rising, falling = u < ramp, left < ramp
    s = np.where(rising, 0.5 * hard * u**2, fast * (u - 0.5 * ramp))
    s = np.where(falling & ~rising, 1.0 - 0.5 * hard * left**2, s)
    ds = np.where(rising, hard * u, np.where(falling, hard * left, fast))
    inside = (times >= 0.0) & (times < duration)
    dds = np.where(rising, hard, np.where(falling, -hard, 0.0)) * inside[..., None]
    return (start + step * s, step * ds, step * dds), duration


def fourier(
    center: ArrayLike, sines: ArrayLike, cosines: ArrayLike, frequency: float, t: ArrayLike
) -> JointMotion:
    """Periodic motion q = center + Σ (sines_k sin kωt − cosines_k cos kωt) / (kω), k from 1.

    `sines` and `cosines` (K, n) are amplitudes of the velocity, `frequency` is ω in rad/s
    (Swevers et al. 1997); excitation for identification has this form.
    """
    a, b, times = (np.asarray(x, dtype=float) for x in (sines, cosines, t))
    if a.ndim != 2 or a.shape != b.shape:
        raise ShapeMismatch("fourier", "cosines", f"{a.shape} as sines, (K, n)", b.shape)
    if not 0.0 < frequency < math.inf:
        raise InvalidArgument("fourier: frequency", frequency, "it needs rad/s above zero")
    k = frequency * np.arange(1, len(a) + 1)
    angle = times[..., None] * k
    S, C = np.sin(angle), np.cos(angle)
    q = np.asarray(center, float) + S @ (a / k[:, None]) - C @ (b / k[:, None])
    return q, C @ a + S @ b, -S @ (a * k[:, None]) + C @ (b * k[:, None])


def via_points(times: ArrayLike, points: ArrayLike, t: ArrayLike) -> JointMotion:
    """Motion through points (m, n) at given times, from rest to rest.

    The quintic spline of class C⁴ with velocity and acceleration zero at both ends.
    """
    knots, via, at = (np.asarray(x, dtype=float) for x in (times, points, t))
    if via.ndim != 2 or knots.shape != via.shape[:1] or len(knots) < 2:
        raise ShapeMismatch("via_points", "points", f"({len(np.ravel(knots))}, n)", via.shape)
    if not (np.diff(knots) > 0.0).all():
        raise InvalidArgument("via_points: times", knots, "they rise")
    rest = [(1, np.zeros(via.shape[1])), (2, np.zeros(via.shape[1]))]
    spline = make_interp_spline(knots, via, k=5, bc_type=(rest, rest))
    inside = np.clip(at, knots[0], knots[-1])
    moves = ((at >= knots[0]) & (at <= knots[-1]))[..., None]
    return spline(inside), spline(inside, 1) * moves, spline(inside, 2) * moves


@dataclass(frozen=True, repr=False)
class PoseMotion(Readable):
    """A frame in motion: pose (..., 4, 4), twist and acceleration (..., 6) in world axes."""

    X: np.ndarray
    V: np.ndarray
    A: np.ndarray


def line(X0: ArrayLike, X1: ArrayLike, duration: float, t: ArrayLike) -> PoseMotion:
    """Straight line between two poses, turning about one axis, with the time law of `quintic`."""
    start, end = (np.asarray(x, dtype=float) for x in (X0, X1))
    for name, X in (("X0", start), ("X1", end)):
        if X.shape != (4, 4):
            raise ShapeMismatch("line", name, "(4, 4)", X.shape)
    turn = Rotation.from_matrix(end[:3, :3] @ start[:3, :3].T).as_rotvec()
    way = np.concatenate([end[:3, 3] - start[:3, 3], turn])
    s, ds, dds = quintic(0.0, 1.0, duration, t)
    X = np.broadcast_to(np.eye(4), (*s.shape, 4, 4)).copy()
    turned = Rotation.from_rotvec(s.reshape(-1, 1) * turn).as_matrix() @ start[:3, :3]
    X[..., :3, :3] = turned.reshape(*s.shape, 3, 3)
    X[..., :3, 3] = start[:3, 3] + s[..., None] * way[:3]
    return PoseMotion(X, ds[..., None] * way, dds[..., None] * way)


def arc(
    X0: ArrayLike,
    center: ArrayLike,
    axis: ArrayLike,
    angle: float,
    duration: float,
    t: ArrayLike,
    turns: bool = True,
) -> PoseMotion:
    """Circular arc of a frame about an axis through `center`, with the time law of `quintic`.

    With `turns` the frame turns with the arc, else it keeps its orientation.
    """
    start, middle, along = (np.asarray(x, dtype=float) for x in (X0, center, axis))
    length = float(np.linalg.norm(along))
    if start.shape != (4, 4):
        raise ShapeMismatch("arc", "X0", "(4, 4)", start.shape)
    if along.shape != (3,) or not 0.0 < length < math.inf:
        raise InvalidArgument("arc: axis", axis, "it is a direction, three numbers")
    unit = along / length
    s, ds, dds = (x[..., None] * angle for x in quintic(0.0, 1.0, duration, t))
    R = Rotation.from_rotvec(s.reshape(-1, 1) * unit).as_matrix().reshape(*s.shape[:-1], 3, 3)
    arm = R @ (start[:3, 3] - middle)
    across, inward = np.cross(unit, arm), np.cross(unit, np.cross(unit, arm))
    X = np.broadcast_to(np.eye(4), (*s.shape[:-1], 4, 4)).copy()
    X[..., :3, :3] = R @ start[:3, :3] if turns else start[:3, :3]
    X[..., :3, 3] = middle + arm
    spin = np.broadcast_to(unit * float(turns), arm.shape)
    V = np.concatenate([across * ds, spin * ds], axis=-1)
    A = np.concatenate([across * dds + inward * ds**2, spin * dds], axis=-1)
    return PoseMotion(X, V, A)


@dataclass(frozen=True)
class TimeScaling:
    """The shortest duration of a motion within bounds.

    `reached` is the share of each bound that the motion uses, by name; that of `bound` is 1.
    """

    duration: float
    bound: str
    reached: dict[str, float]


def shortest_duration(
    robot: Robot,
    motion: Callable[[np.ndarray], JointMotion],
    *,
    velocity: ArrayLike | None = None,
    acceleration: ArrayLike | None = None,
    torque: ArrayLike | None = None,
    samples: int = 2001,
) -> TimeScaling:
    """The shortest duration T in which a motion q(t / T) keeps to its bounds (N m, rad/s, rad/s²).

    `motion` gives (q, q', q'') at times from 0 to 1, such as `lambda u: quintic(q0, q1, 1.0, u)`.
    Speeds fall as 1/T and accelerations as 1/T², and τ = (M q'' + C(q, q') q') / T² + g; at each
    sample and joint that bounds T directly. Bounds are one number or one a joint; those of the
    robot (`robot.limits`) where velocity and torque are not given.
    """
    u = np.linspace(0.0, 1.0, samples)
    q, dq, ddq = motion(u)
    limits = robot.limits
    most = {
        "velocity": limits.velocity if velocity is None else velocity,
        "acceleration": np.inf if acceleration is None else acceleration,
        "torque": limits.effort if torque is None else torque,
    }
    bounds = {k: np.broadcast_to(np.asarray(x, float), (robot.nv,)) for k, x in most.items()}
    for name, x in bounds.items():
        if not (x > 0.0).all():
            raise InvalidArgument(
                name, most[name], "bounds are above zero, one number or one a joint"
            )
    g = robot.gravity(q)
    if (np.abs(g) >= bounds["torque"]).any():
        joint = robot.joint_names[int(np.argmax((np.abs(g) - bounds["torque"]).max(axis=0)))]
        raise InvalidArgument("torque", most["torque"], f"{joint} needs more to carry the weight")
    inertial = robot.inverse_dynamics(q, dq, ddq) - g
    # room for inertial torques: up to the bound of their own sign
    room = np.where(inertial > 0.0, bounds["torque"] - g, bounds["torque"] + g)
    needed = {
        "velocity": float((np.abs(dq) / bounds["velocity"]).max()),
        "acceleration": float(np.sqrt((np.abs(ddq) / bounds["acceleration"]).max())),
        "torque": float(np.sqrt((np.abs(inertial) / room).max())),
    }
    bound = max(needed, key=lambda name: needed[name])
    T = needed[bound]
    if not 0.0 < T < math.inf:
        raise InvalidArgument("motion", T, "it moves, and one of its bounds is finite")
    tau = robot.inverse_dynamics(q, dq / T, ddq / T**2)
    reached = {
        "velocity": needed["velocity"] / T,
        "acceleration": float((np.abs(ddq) / T**2 / bounds["acceleration"]).max()),
        "torque": float((np.abs(tau) / bounds["torque"]).max()),
    }
    return TimeScaling(T, bound, reached)
