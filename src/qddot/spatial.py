"""Vectors, rotations, rigid transforms, motions, forces and inertias over any scalar.

A motion (twist, acceleration) and a force (wrench) name their parts `lin` and `ang`; flattened
they read linear part first. A spatial type stands on the left of a product with a scalar, so that
a NumPy scalar never takes it for an array.

Notation in the docstrings: p vector, [p]x its cross-product matrix, 1 the identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, TypeVar

from qddot.scalar import Scalar, cos, sin

__all__ = [
    "AccelerationField",
    "ArticulatedInertia",
    "CoriolisOperator",
    "Force",
    "Inertia",
    "Mat3",
    "Motion",
    "Subspace",
    "Sym3",
    "Transform",
    "Vec3",
    "rotation_about",
    "rotation_from_quaternion",
    "rotation_from_rpy",
]


class _Linear:
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
class Vec3(_Linear):
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
class Mat3(_Linear):
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

    def axial(self) -> Vec3:
        """The vector ∫ r × (M r) of a map M with ∫ r rᵀ taken in: (M_zy − M_yz, …)."""
        return Vec3(self.c.y - self.b.z, self.a.z - self.c.x, self.b.x - self.a.y)

    def symmetric(self) -> Sym3:
        """The lower triangle of a matrix that is symmetric."""
        return Sym3(self.a.x, self.b.x, self.b.y, self.c.x, self.c.y, self.c.z)


@dataclass(frozen=True, slots=True)
class Sym3(_Linear):
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

    def masked(self, keep: Vec3) -> Sym3:
        """Rows and columns scaled, by ones and zeros for a choice of them."""
        x, y, z = keep
        return Sym3(
            self.xx * x * x, self.xy * x * y, self.yy * y * y,
            self.xz * x * z, self.yz * y * z, self.zz * z * z,
        )  # fmt: skip

    def rotated(self, R: Mat3) -> Sym3:
        """R S Rᵀ. Its trace is that of S, so the row of R with most unknowns is not multiplied."""
        rows = list(R)
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


@dataclass(frozen=True, slots=True)
class Motion(_Linear):
    """A spatial velocity or acceleration: linear part at the origin of its frame, angular part."""

    lin: Vec3
    ang: Vec3

    @staticmethod
    def zero() -> Motion:
        """No motion."""
        return Motion(Vec3.zero(), Vec3.zero())

    @staticmethod
    def of(parts: Sequence[Scalar]) -> Motion:
        """From six scalars, linear part first."""
        return Motion(Vec3(*parts[:3]), Vec3(*parts[3:]))

    def __iter__(self) -> Iterator[Scalar]:
        yield from self.lin
        yield from self.ang

    def cross(self, m: Motion) -> Motion:
        """V × m: rate of a motion that moves with V."""
        return Motion(
            self.ang.cross(m.lin) + self.lin.cross(m.ang),
            self.ang.cross(m.ang),
        )

    def cross_force(self, f: Force) -> Force:
        """V ×* f: rate of a force that moves with V."""
        return Force(
            self.ang.cross(f.lin),
            self.ang.cross(f.ang) + self.lin.cross(f.lin),
        )

    def dot(self, f: Force) -> Scalar:
        """Power of a force on this motion."""
        return self.lin.dot(f.lin) + self.ang.dot(f.ang)

    def to_child(self, X: Transform) -> Motion:
        """The same motion in coordinates of the child frame of X."""
        return Motion(
            X.R.apply_transpose(self.lin + self.ang.cross(X.p)), X.R.apply_transpose(self.ang)
        )

    def to_parent(self, X: Transform) -> Motion:
        """The same motion in coordinates of the parent frame of X."""
        ang = X.R.apply(self.ang)
        return Motion(X.R.apply(self.lin) + X.p.cross(ang), ang)


@dataclass(frozen=True, slots=True)
class AccelerationField:
    """The acceleration of every point of a rigid body: a + K r, with K = [α]x + [ω]x²."""

    a: Vec3
    K: Mat3

    @staticmethod
    def of(a: Vec3, w: Vec3, alpha: Vec3) -> AccelerationField:
        """From the acceleration of the origin, angular velocity and angular acceleration."""
        xx, yy, zz = w.x * w.x, w.y * w.y, w.z * w.z
        xy, xz, yz = w.x * w.y, w.x * w.z, w.y * w.z
        K = Mat3(
            Vec3(-(yy + zz), xy - alpha.z, xz + alpha.y),
            Vec3(xy + alpha.z, -(xx + zz), yz - alpha.x),
            Vec3(xz - alpha.y, yz + alpha.x, -(xx + yy)),
        )
        return AccelerationField(a, K)

    def at(self, r: Vec3) -> Vec3:
        """The acceleration of the point r."""
        return self.a + self.K.apply(r)


@dataclass(frozen=True, slots=True)
class Force(_Linear):
    """A wrench: force, and moment about the origin of its frame."""

    lin: Vec3
    ang: Vec3

    @staticmethod
    def zero() -> Force:
        """No force."""
        return Force(Vec3.zero(), Vec3.zero())

    @staticmethod
    def of(parts: Sequence[Scalar]) -> Force:
        """From six scalars, force first."""
        return Force(Vec3(*parts[:3]), Vec3(*parts[3:]))

    def __iter__(self) -> Iterator[Scalar]:
        yield from self.lin
        yield from self.ang

    def to_child(self, X: Transform) -> Force:
        """The same force in coordinates of the child frame of X."""
        return Force(
            X.R.apply_transpose(self.lin), X.R.apply_transpose(self.ang - X.p.cross(self.lin))
        )

    def to_parent(self, X: Transform) -> Force:
        """The same force in coordinates of the parent frame of X."""
        lin = X.R.apply(self.lin)
        return Force(lin, X.R.apply(self.ang) + X.p.cross(lin))


@dataclass(frozen=True, slots=True)
class Inertia(_Linear):
    """Rigid-body inertia by its ten parameters, linear in the dynamics.

    Mass m, first moment h = m c, and rotational inertia I about the origin of the frame.
    """

    mass: Scalar
    h: Vec3
    I: Sym3

    @staticmethod
    def zero() -> Inertia:
        """No mass."""
        return Inertia.of([0.0] * 10)

    @staticmethod
    def of(parameters: Sequence[Scalar]) -> Inertia:
        """From (m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz), I about the origin."""
        m, hx, hy, hz, *tensor = parameters
        return Inertia(m, Vec3(hx, hy, hz), Sym3(*tensor))

    @staticmethod
    def at_com(mass: Scalar, com: Vec3, tensor: Sym3) -> Inertia:
        """From mass, centre of mass, and the tensor about the centre of mass."""
        return Inertia(mass, Vec3.zero(), tensor).to_parent(Transform(Mat3.identity(), com))

    def __iter__(self) -> Iterator[Scalar]:
        yield self.mass
        yield from self.h
        yield from self.I

    @property
    def com(self) -> Vec3:
        """Centre of mass; the origin for a massless inertia."""
        return self.h * (1.0 / self.mass) if self.mass else Vec3.zero()

    @property
    def tensor_at_com(self) -> Sym3:
        """Rotational inertia about the centre of mass."""
        c, h = self.com, self.h
        return self.I - Sym3.diagonal(1.0, 1.0, 1.0) * h.dot(c) + Sym3.product(c, h) * 0.5

    def apply(self, V: Motion) -> Force:
        """Momentum of a velocity: (m v + ω × h, I ω + h × v)."""
        return Force(
            V.lin * self.mass + V.ang.cross(self.h), self.I.apply(V.ang) + self.h.cross(V.lin)
        )

    @property
    def spread(self) -> Sym3:
        """The second moment ∫ r rᵀ dm = ½ tr(I) 1 − I about the origin."""
        half = 0.5 * self.I.trace()
        return Sym3.diagonal(half, half, half) - self.I

    def newton_euler(self, field: AccelerationField) -> Force:
        """Net force ∫ a dm and moment ∫ r × a dm of an acceleration field a(r) = a + K r."""
        turned = field.K @ self.spread.rows
        return Force(
            field.a * self.mass + field.K.apply(self.h), turned.axial() + self.h.cross(field.a)
        )

    def kinetic_energy(self, V: Motion) -> Scalar:
        """½ V · I V."""
        return V.dot(self.apply(V)) * 0.5

    def rate(self, V: Motion) -> Inertia:
        """Rate V ×* I − I V× of the inertia of a body moving with V, seen from a still frame."""
        x, y, z = (V.ang.cross(row) for row in self.I.rows)
        turn = Sym3(x.x + x.x, y.x + x.y, y.y + y.y, z.x + x.z, z.y + y.z, z.z + z.z)
        slide = Sym3.diagonal(2.0, 2.0, 2.0) * V.lin.dot(self.h) - Sym3.product(V.lin, self.h)
        return Inertia(0.0, V.lin * self.mass + V.ang.cross(self.h), turn + slide)

    def to_parent(self, X: Transform) -> Inertia:
        """The same inertia about the origin, and in the axes, of the parent frame of X."""
        h = X.R.apply(self.h)
        e = h + X.p * (0.5 * self.mass)
        steiner = Sym3.diagonal(2.0, 2.0, 2.0) * e.dot(X.p) - Sym3.product(e, X.p)
        return Inertia(self.mass, h + X.p * self.mass, self.I.rotated(X.R) + steiner)

    def articulated(self) -> ArticulatedInertia:
        """As an articulated inertia."""
        m = self.mass
        return ArticulatedInertia(Sym3.diagonal(m, m, m), -self.h.skew(), self.I)

    def coriolis(self, V: Motion) -> CoriolisOperator:
        """The Coriolis operator of a body that moves with V."""
        G = V.lin.outer(self.h) + V.ang.skew() @ self.spread.rows
        return CoriolisOperator(V.lin * self.mass + V.ang.cross(self.h), G)


@dataclass(frozen=True, slots=True)
class ArticulatedInertia(_Linear):
    """Symmetric map from acceleration to force: f = M a + H α, n = Hᵀ a + I α."""

    M: Sym3
    H: Mat3
    I: Sym3

    def apply(self, A: Motion) -> Force:
        """Force of an acceleration."""
        return Force(
            self.M.apply(A.lin) + self.H.apply(A.ang),
            self.H.apply_transpose(A.lin) + self.I.apply(A.ang),
        )

    @staticmethod
    def rank_one(U: Force, scale: Scalar) -> ArticulatedInertia:
        """The map U Uᵀ times a scale."""
        W = U * scale
        M, I = U.lin.outer(W.lin), U.ang.outer(W.ang)
        return ArticulatedInertia(M.symmetric(), U.lin.outer(W.ang), I.symmetric())

    def blind_to(self, S: Motion) -> ArticulatedInertia:
        """The same map, known to give no force for S: exact zeros if S is a coordinate axis."""
        keep = [1.0 if type(x) is float and x == 0.0 else 0.0 for x in S]
        if sum(keep) != 5.0:
            return self
        lin, ang = Vec3(*keep[:3]), Vec3(*keep[3:])
        kept = lin.outer(ang)
        H = Mat3(*(Vec3(*map(mul, *rows)) for rows in zip(self.H, kept, strict=True)))
        return ArticulatedInertia(self.M.masked(lin), H, self.I.masked(ang))

    def to_parent(self, X: Transform) -> ArticulatedInertia:
        """The same map in coordinates of the parent frame of X."""
        p = X.p.skew()
        M, I = self.M.rotated(X.R), self.I.rotated(X.R)
        rotated = X.R @ self.H @ X.R.T
        H = rotated - M.rows @ p
        return ArticulatedInertia(M, H, I + (p @ H - rotated.T @ p).symmetric())


@dataclass(frozen=True, slots=True)
class CoriolisOperator(_Linear):
    """The map W ↦ ∫ (α × v, r × (α × v)) dm over the particles of moving bodies, W = (w, α).

    It is the velocity factor B in C = Σ Jᵀ (I J̇ + B J) of Echeandia & Wensing (2021), found here
    particle by particle. Two integrals hold it: the momentum P = ∫ v dm and the moment
    G = ∫ v rᵀ dm; then f = α × P and n = (tr G) α − G α.
    """

    P: Vec3
    G: Mat3

    def apply(self, W: Motion) -> Force:
        """B W."""
        return Force(W.ang.cross(self.P), W.ang * self.G.trace() - self.G.apply(W.ang))

    def apply_transpose(self, W: Motion) -> Force:
        """Bᵀ W."""
        turned = W.ang * self.G.trace() - self.G.apply_transpose(W.ang)
        return Force(Vec3.zero(), self.P.cross(W.lin) + turned)

    def to_parent(self, X: Transform) -> CoriolisOperator:
        """The same map in coordinates of the parent frame of X."""
        P = X.R.apply(self.P)
        return CoriolisOperator(P, X.R @ self.G @ X.R.T + P.outer(X.p))


_Placed = TypeVar("_Placed", Motion, Force, Inertia, ArticulatedInertia, CoriolisOperator)


@dataclass(frozen=True, slots=True)
class Transform:
    """Pose of a child frame in a parent frame: rotation R and origin p."""

    R: Mat3
    p: Vec3

    @staticmethod
    def identity() -> Transform:
        """The two frames coincide."""
        return Transform(Mat3.identity(), Vec3.zero())

    def __iter__(self) -> Iterator[tuple[Scalar, ...]]:
        for row, p in zip(self.R, self.p, strict=True):
            yield (*row, p)
        yield (0.0, 0.0, 0.0, 1.0)

    def __matmul__(self, other: Transform) -> Transform:
        return Transform(self.R @ other.R, self.point(other.p))

    def point(self, p: Vec3) -> Vec3:
        """A point of the child frame in parent coordinates."""
        return self.p + self.R.apply(p)

    def inverse(self) -> Transform:
        """Pose of the parent frame in the child frame."""
        return Transform(self.R.T, -self.R.apply_transpose(self.p))

    def to_parent(self, x: _Placed) -> _Placed:
        """A motion, force or inertia of the child frame in parent coordinates."""
        return x.to_parent(self)

    def to_child(self, x: Any) -> Any:
        """A motion or force of the parent frame in child coordinates."""
        return x.to_child(self)


@dataclass(frozen=True, slots=True)
class Subspace:
    """The motion subspace of a joint: one Motion a degree of freedom."""

    columns: tuple[Motion, ...]

    def __iter__(self) -> Iterator[Motion]:
        return iter(self.columns)

    def __mul__(self, v: Sequence[Scalar]) -> Motion:
        """Motion of joint velocities."""
        total = Motion.zero()
        for column, rate in zip(self.columns, v, strict=True):
            total = total + column * rate
        return total

    def project(self, F: Force) -> list[Scalar]:
        """Generalised forces of a force."""
        return [column.dot(F) for column in self.columns]
