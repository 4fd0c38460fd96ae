"""Vectors, 3×3 matrices and rotations over any scalar.

A type stands on the left of a product with a scalar, so that a NumPy scalar never takes it for an
array. Notation in the docstrings: p vector, [p]x its cross-product matrix, 1 the identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from qddot.spatial.scalar import Scalar, cos, sin

__all__ = [
    "Linear",
    "Mat3",
    "Sym3",
    "Vec3",
    "rotation_about",
    "rotation_from_quaternion",
    "rotation_from_rpy",
]


class Linear:
    """Elementwise sum, difference and product with a scalar, for types whose parts allow them."""

    __slots__ = ()
    __array_ufunc__ = None
    _parts: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        cls._parts = tuple(getattr(cls, "__annotations__", ()))

    def __add__(self, other: Any) -> Any:
        return type(self)(*[getattr(self, k) + getattr(other, k) for k in self._parts])

    def __sub__(self, other: Any) -> Any:
        return type(self)(*[getattr(self, k) - getattr(other, k) for k in self._parts])

    def __neg__(self) -> Any:
        return type(self)(*[-getattr(self, k) for k in self._parts])

    def __mul__(self, s: Scalar) -> Any:
        return type(self)(*[getattr(self, k) * s for k in self._parts])


@dataclass(frozen=True, slots=True)
class Vec3(Linear):
    """A vector of three scalars."""

    x: Scalar
    y: Scalar
    z: Scalar

    @staticmethod
    def zero() -> Vec3:
        """The zero vector."""
        return Vec3(0.0, 0.0, 0.0)

    def __iter__(self) -> Iterator[Scalar]:
        return iter((self.x, self.y, self.z))

    # written out: most of the time of an interpreted algorithm is spent here
    def __add__(self, b: Vec3) -> Vec3:
        return Vec3(self.x + b.x, self.y + b.y, self.z + b.z)

    def __sub__(self, b: Vec3) -> Vec3:
        return Vec3(self.x - b.x, self.y - b.y, self.z - b.z)

    def __mul__(self, s: Scalar) -> Vec3:
        return Vec3(self.x * s, self.y * s, self.z * s)

    def dot(self, b: Vec3) -> Scalar:
        """Scalar product."""
        return self.x * b.x + self.y * b.y + self.z * b.z

    def cross(self, b: Vec3) -> Vec3:
        """Vector product."""
        return Vec3(
            self.y * b.z - self.z * b.y, self.z * b.x - self.x * b.z, self.x * b.y - self.y * b.x
        )

    def outer(self, b: Vec3) -> Mat3:
        """The matrix a bᵀ."""
        return Mat3(b * self.x, b * self.y, b * self.z)

    def skew(self) -> Mat3:
        """The matrix [a]x with [a]x b = a × b."""
        return Mat3(
            Vec3(0.0, -self.z, self.y), Vec3(self.z, 0.0, -self.x), Vec3(-self.y, self.x, 0.0)
        )


@dataclass(frozen=True, slots=True)
class Mat3(Linear):
    """A 3×3 matrix by rows; a rotation matrix takes child coordinates to parent coordinates."""

    a: Vec3
    b: Vec3
    c: Vec3

    @staticmethod
    def identity() -> Mat3:
        """The identity."""
        return Mat3(Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))

    def __iter__(self) -> Iterator[Vec3]:
        return iter((self.a, self.b, self.c))

    def apply(self, p: Vec3) -> Vec3:
        """R p."""
        return Vec3(self.a.dot(p), self.b.dot(p), self.c.dot(p))

    def apply_transpose(self, p: Vec3) -> Vec3:
        """Rᵀ p."""
        return self.a * p.x + self.b * p.y + self.c * p.z

    def __matmul__(self, other: Mat3) -> Mat3:
        return Mat3(*[other.apply_transpose(row) for row in self])

    @property
    def T(self) -> Mat3:
        """The transpose."""
        return Mat3(*[Vec3(*column) for column in zip(*self, strict=True)])

    def trace(self) -> Scalar:
        """Sum of the diagonal."""
        return self.a.x + self.b.y + self.c.z

    def axial_vector(self) -> Vec3:
        """The vector ∫ r × (M r) of a map M with ∫ r rᵀ taken in: (M_zy − M_yz, …)."""
        return Vec3(self.c.y - self.b.z, self.a.z - self.c.x, self.b.x - self.a.y)

    def coordinate_axis(self) -> int | None:
        """The coordinate axis about which this rotation is known to turn, if it is one."""
        for k, (row, column, unit) in enumerate(zip(self, self.T, Mat3.identity(), strict=True)):
            pairs = zip((*row, *column), (*unit, *unit), strict=True)
            if all(type(x) is float and x == e for x, e in pairs):
                return k
        return None

    def conjugate_by(self, R: Mat3) -> Mat3:
        """R A Rᵀ; a turn about a coordinate axis takes half the operations of two products."""
        k = R.coordinate_axis()
        if k is None:
            return R @ self @ R.T
        i, j = (k + 1) % 3, (k + 2) % 3
        A, B, turn = ([list(row) for row in matrix] for matrix in (self, self, R))
        c, s = turn[i][i], turn[j][i]
        if type(s) is float and s == 0.0:
            # nothing or half a turn: products with ones change no bit
            return R @ self @ R.T
        # the 2 × 2 block of the plane, then the row and column of the axis
        t = s * (A[i][i] - A[j][j]) + c * (A[i][j] + A[j][i])
        B[i][i], B[i][j] = A[i][i] - s * t, c * t - A[j][i]
        B[j][i], B[j][j] = c * t - A[i][j], A[j][j] + s * t
        B[i][k], B[j][k] = c * A[i][k] - s * A[j][k], s * A[i][k] + c * A[j][k]
        B[k][i], B[k][j] = c * A[k][i] - s * A[k][j], s * A[k][i] + c * A[k][j]
        return Mat3(*(Vec3(*row) for row in B))

    def as_symmetric(self) -> Sym3:
        """The lower triangle of a matrix that is symmetric."""
        return Sym3(self.a.x, self.b.x, self.b.y, self.c.x, self.c.y, self.c.z)


@dataclass(frozen=True, slots=True)
class Sym3(Linear):
    """A symmetric 3×3 matrix."""

    xx: Scalar
    xy: Scalar
    yy: Scalar
    xz: Scalar
    yz: Scalar
    zz: Scalar

    @staticmethod
    def diagonal(x: Scalar, y: Scalar, z: Scalar) -> Sym3:
        """diag(x, y, z)."""
        return Sym3(x, 0.0, y, 0.0, 0.0, z)

    @staticmethod
    def product(u: Vec3, v: Vec3) -> Sym3:
        """The symmetric product u vᵀ + v uᵀ."""
        return Sym3(
            u.x * v.x + v.x * u.x, u.x * v.y + v.x * u.y, u.y * v.y + v.y * u.y,
            u.x * v.z + v.x * u.z, u.y * v.z + v.y * u.z, u.z * v.z + v.z * u.z,
        )  # fmt: skip

    @property
    def rows(self) -> Mat3:
        """The full matrix."""
        return Mat3(
            Vec3(self.xx, self.xy, self.xz),
            Vec3(self.xy, self.yy, self.yz),
            Vec3(self.xz, self.yz, self.zz),
        )

    def __iter__(self) -> Iterator[Scalar]:
        return iter((self.xx, self.xy, self.yy, self.xz, self.yz, self.zz))

    def apply(self, p: Vec3) -> Vec3:
        """S p."""
        return self.rows.apply(p)

    def trace(self) -> Scalar:
        """Sum of the diagonal."""
        return self.xx + self.yy + self.zz

    def scale_both_sides(self, keep: Vec3) -> Sym3:
        """Rows and columns scaled, by ones and zeros for a choice of them."""
        x, y, z = keep
        return Sym3(
            self.xx * x * x, self.xy * x * y, self.yy * y * y,
            self.xz * x * z, self.yz * y * z, self.zz * z * z,
        )  # fmt: skip

    def rotate(self, R: Mat3) -> Sym3:
        """R S Rᵀ. Its trace is that of S, so the row of R with most unknowns is not multiplied."""
        if R.coordinate_axis() is not None:
            return self.rows.conjugate_by(R).as_symmetric()
        rows = list(R)
        # the row with most unknowns is left out: the trace gives its diagonal entry
        k = max(range(3), key=lambda row: sum(type(x) is not float for x in rows[row]))
        i, j = (row for row in range(3) if row != k)
        u, w = self.apply(rows[i]), self.apply(rows[j])
        ii, jj = rows[i].dot(u), rows[j].dot(w)
        entries = {
            (i, i): ii,
            (j, j): jj,
            (k, k): self.trace() - ii - jj,
            (i, j): rows[j].dot(u),
            (min(i, k), max(i, k)): rows[k].dot(u),
            (min(j, k), max(j, k)): rows[k].dot(w),
        }
        return Sym3(*(entries[at] for at in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))))


def rotation_about(axis: Vec3, angle: Scalar) -> Mat3:
    """Rotation by an angle about a unit axis: u uᵀ + cos (1 − u uᵀ) + sin [u]x."""
    uu = axis.outer(axis)
    return uu + (Mat3.identity() - uu) * cos(angle) + axis.skew() * sin(angle)


def rotation_from_quaternion(x: Scalar, y: Scalar, z: Scalar, w: Scalar) -> Mat3:
    """Rotation matrix of a quaternion (x, y, z, w) of any length."""
    xx, yy, zz, ww = x * x, y * y, z * z, w * w
    s = 2.0 / (xx + yy + zz + ww)
    xy, xz, yz, xw, yw, zw = x * y, x * z, y * z, x * w, y * w, z * w
    return Mat3(
        Vec3(1.0 - s * (yy + zz), s * (xy - zw), s * (xz + yw)),
        Vec3(s * (xy + zw), 1.0 - s * (xx + zz), s * (yz - xw)),
        Vec3(s * (xz - yw), s * (yz + xw), 1.0 - s * (xx + yy)),
    )


def rotation_from_rpy(roll: Scalar, pitch: Scalar, yaw: Scalar) -> Mat3:
    """Rz(yaw) Ry(pitch) Rx(roll), the convention of URDF and SDF."""
    x, y, z = Mat3.identity()
    return rotation_about(z, yaw) @ rotation_about(y, pitch) @ rotation_about(x, roll)
