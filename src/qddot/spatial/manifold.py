"""Exponential and logarithm of the rotation and pose groups, smooth through zero on every scalar.

Functions of a squared angle are a power series near zero and the closed form elsewhere, so that
values and automatic derivatives are right at zero too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, factorial

from qddot.spatial.algebra import Mat3, Motion, Vec3, rotation_from_quaternion
from qddot.spatial.scalar import Scalar, atan2, cos, less, sin, sqrt, where

__all__ = [
    "advance_pose",
    "align_planar",
    "align_pose",
    "cot_remainder",
    "difference_planar",
    "difference_pose",
    "difference_quaternion",
    "integrate_planar",
    "integrate_pose",
    "integrate_quaternion",
    "normalise_quaternion",
    "quaternion_from_rotation",
    "rate_planar",
    "rate_pose",
    "sin_remainder",
    "sinc",
    "tangent_planar",
    "tangent_pose",
    "tangent_quaternion",
    "unalign_planar",
    "unalign_pose",
]

_NEAR_ZERO = 1e-6


def _power_series(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Polynomial with these coefficients, lowest first, by Horner's rule."""
    total = coefficients[-1] + 0.0 * x
    for c in reversed(coefficients[:-1]):
        total = c + total * x
    return total


_SIN = [(-1) ** k / factorial(2 * k + 1) for k in range(7)]
_SIN_REST = [(-1) ** k / factorial(2 * k + 3) for k in range(7)]
_COT_REST = [1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000]
_ASIN = [factorial(2 * k) / (4**k * factorial(k) ** 2 * (2 * k + 1)) for k in range(7)]


def _away_from_zero(x2: Scalar) -> tuple[Scalar, Scalar]:
    """Whether a squared angle is near zero, and the squared angle made safe to divide by."""
    near = less(x2, _NEAR_ZERO)
    return near, where(near, 1.0 + 0.0 * x2, x2)


def sinc(x2: Scalar) -> Scalar:
    """sin x / x of x²."""
    near, safe = _away_from_zero(x2)
    x = sqrt(safe)
    return where(near, _power_series(x2, _SIN), sin(x) / x)


def sin_remainder(x2: Scalar) -> Scalar:
    """(x − sin x) / x³ of x²."""
    near, safe = _away_from_zero(x2)
    return where(near, _power_series(x2, _SIN_REST), (1.0 - sinc(safe)) / safe)


def cot_remainder(x2: Scalar) -> Scalar:
    """(1 − (x/2) cot(x/2)) / x² of x²."""
    near, safe = _away_from_zero(x2)
    half = sqrt(safe) * 0.5
    return where(near, _power_series(x2, _COT_REST), (1.0 - half * cos(half) / sin(half)) / safe)


def _multiply_quaternions(a: Sequence[Scalar], b: Sequence[Scalar]) -> list[Scalar]:
    """Product of two quaternions (x, y, z, w)."""
    u, v, s, t = Vec3(*a[:3]), Vec3(*b[:3]), a[3], b[3]
    return [*(v * s + u * t + u.cross(v)), s * t - u.dot(v)]


def quaternion_from_rotation(R: Mat3) -> tuple[float, float, float, float]:
    """The unit quaternion (w, x, y, z) of a rotation, with w not negative."""
    if Mat3.identity() == R:
        return 1.0, 0.0, 0.0, 0.0
    # scipy takes a tenth of a second to import
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix([list(row) for row in R]).as_quat().tolist()
    sign = copysign(1.0, w)
    return (w * sign, x * sign, y * sign, z * sign)


def _rotate_vector(quaternion: Sequence[Scalar], p: Vec3) -> Vec3:
    """A vector turned by a unit quaternion."""
    u, w = Vec3(*quaternion[:3]), quaternion[3]
    t = u.cross(p) * 2.0
    return p + t * w + u.cross(t)


def _conjugate_quaternion(quaternion: Sequence[Scalar]) -> list[Scalar]:
    x, y, z, w = quaternion
    return [-x, -y, -z, w]


def normalise_quaternion(quaternion: Sequence[Scalar]) -> list[Scalar]:
    """The quaternion scaled to unit length."""
    length = sqrt(sum((c * c for c in quaternion[1:]), quaternion[0] * quaternion[0]))
    return [c / length for c in quaternion]


def tangent_quaternion(q: Sequence[Scalar]) -> list[list[Scalar]]:
    """Rates of a quaternion (rows) by angular velocity in body coordinates: ½ q ⊗ ω."""
    x, y, z, w = (0.5 * c for c in q)
    return [[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]]


def tangent_pose(q: Sequence[Scalar]) -> list[list[Scalar]]:
    """Rates of a pose (rows) by twist in body coordinates."""
    place = [[*row, 0.0, 0.0, 0.0] for row in rotation_from_quaternion(*q[3:])]
    return [*place, *([0.0, 0.0, 0.0, *row] for row in tangent_quaternion(q[3:]))]


def tangent_planar(q: Sequence[Scalar]) -> list[list[Scalar]]:
    """Rates of a planar pose (rows) by planar twist in body coordinates."""
    c, s = cos(q[2]), sin(q[2])
    return [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]


def integrate_quaternion(q: Sequence[Scalar], w: Sequence[Scalar]) -> list[Scalar]:
    """q ⊗ exp(w), w in body coordinates; of unit length whatever that of q."""
    # exp(w): unit quaternion of a rotation vector
    angle2 = Vec3(*w).dot(Vec3(*w))
    half = sinc(angle2 * 0.25)
    quarter = sinc(angle2 * 0.0625)
    turn = [*(Vec3(*w) * (0.5 * half)), 1.0 - angle2 * 0.125 * quarter * quarter]
    return normalise_quaternion(_multiply_quaternions(q, turn))


def difference_quaternion(q0: Sequence[Scalar], q1: Sequence[Scalar]) -> list[Scalar]:
    """The w with q0 ⊗ exp(w) = q1."""
    turn = normalise_quaternion(_multiply_quaternions(_conjugate_quaternion(q0), q1))
    # logarithm, at most half a turn: q and −q are one rotation, that with w ≥ 0 is the shorter
    flip = where(less(turn[3], 0.0), -1.0, 1.0)
    u, w = Vec3(*turn[:3]) * flip, turn[3] * flip
    n2 = u.dot(u)
    near, safe = _away_from_zero(n2)
    n = sqrt(safe)
    return list(u * (2.0 * where(near, _power_series(n2, _ASIN), atan2(n, w) / n)))


def integrate_pose(q: Sequence[Scalar], dv: Sequence[Scalar]) -> list[Scalar]:
    """Pose (x, y, z, quaternion) times the exponential of a twist in body coordinates."""
    V = Motion.of(dv)
    v, w, angle2 = V.lin, V.ang, V.ang.dot(V.ang)
    half = sinc(angle2 * 0.25)
    # the left Jacobian of SO(3), applied to v
    wv = w.cross(v)
    step = v + wv * (0.5 * half * half) + w.cross(wv) * sin_remainder(angle2)
    return [
        *(Vec3(*q[:3]) + _rotate_vector(normalise_quaternion(q[3:]), step)),
        *integrate_quaternion(q[3:], list(w)),
    ]


def difference_pose(q0: Sequence[Scalar], q1: Sequence[Scalar]) -> list[Scalar]:
    """The twist whose exponential takes pose q0 to pose q1."""
    step = _rotate_vector(
        _conjugate_quaternion(normalise_quaternion(q0[3:])), Vec3(*q1[:3]) - Vec3(*q0[:3])
    )
    w = Vec3(*difference_quaternion(q0[3:], q1[3:]))
    # the inverse of the left Jacobian of SO(3)
    ws = w.cross(step)
    v = step - ws * 0.5 + w.cross(ws) * cot_remainder(w.dot(w))
    return [*v, *w]


def _planar_factors(angle: Scalar) -> tuple[Scalar, Scalar]:
    """sin a / a and (1 − cos a) / a."""
    half = sinc(angle * angle * 0.25)
    return sinc(angle * angle), 0.5 * angle * half * half


def integrate_planar(q: Sequence[Scalar], dv: Sequence[Scalar]) -> list[Scalar]:
    """Planar pose (x, y, angle) times the exponential of a planar twist in body coordinates."""
    (x, y, angle), (a, b, w) = q, dv
    f, g = _planar_factors(w)
    # displacement in the axes of the first pose, then in the plane
    dx, dy = f * a - g * b, g * a + f * b
    c, s = cos(angle), sin(angle)
    return [x + c * dx - s * dy, y + s * dx + c * dy, angle + w]


def difference_planar(q0: Sequence[Scalar], q1: Sequence[Scalar]) -> list[Scalar]:
    """The planar twist whose exponential takes planar pose q0 to q1, at most half a turn."""
    x, y, turn = (b - a for a, b in zip(q0, q1, strict=True))
    w = atan2(sin(turn), cos(turn))
    c, s = cos(q0[2]), sin(q0[2])
    dx, dy = c * x + s * y, c * y - s * x
    f, g = _planar_factors(w)
    scale = f * f + g * g
    return [(f * dx + g * dy) / scale, (f * dy - g * dx) / scale, w]


def align_pose(q: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
    """A twist in body coordinates with its linear part turned to the axes that the pose is in."""
    return [*rotation_from_quaternion(*q[3:]).apply(Vec3(*v[:3])), *v[3:]]


def unalign_pose(q: Sequence[Scalar], w: Sequence[Scalar]) -> list[Scalar]:
    """The twist in body coordinates of an aligned one."""
    return [*rotation_from_quaternion(*q[3:]).apply_transpose(Vec3(*w[:3])), *w[3:]]


def rate_pose(q: Sequence[Scalar], v: Sequence[Scalar], a: Sequence[Scalar]) -> list[Scalar]:
    """Rate of the aligned twist where the one in body coordinates is v and has the rate a."""
    V, A = Motion.of(v), Motion.of(a)
    return align_pose(q, [*(A.lin + V.ang.cross(V.lin)), *A.ang])


def advance_pose(q: Sequence[Scalar], d: Sequence[Scalar]) -> list[Scalar]:
    """A pose moved by a displacement in its axes and turned by a rotation vector of the body."""
    return [*(Vec3(*q[:3]) + Vec3(*d[:3])), *integrate_quaternion(q[3:], d[3:])]


def _rotate_in_plane(angle: Scalar, x: Scalar, y: Scalar) -> list[Scalar]:
    c, s = cos(angle), sin(angle)
    return [c * x - s * y, s * x + c * y]


def align_planar(q: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
    """A planar twist with its linear part turned to the axes that the pose is in."""
    return [*_rotate_in_plane(q[2], v[0], v[1]), v[2]]


def unalign_planar(q: Sequence[Scalar], w: Sequence[Scalar]) -> list[Scalar]:
    """The planar twist in body coordinates of an aligned one."""
    return [*_rotate_in_plane(-q[2], w[0], w[1]), w[2]]


def rate_planar(q: Sequence[Scalar], v: Sequence[Scalar], a: Sequence[Scalar]) -> list[Scalar]:
    """Rate of the aligned planar twist where the one in body coordinates has the rate a."""
    return [*_rotate_in_plane(q[2], a[0] - v[2] * v[1], a[1] + v[2] * v[0]), a[2]]
