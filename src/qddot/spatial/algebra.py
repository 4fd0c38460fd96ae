"""Rigid transforms, motions, forces and inertias over any scalar, and the vectors they are made of.

A motion (twist, acceleration) and a force (wrench) name their parts `lin` and `ang`; flattened
they read linear part first. A spatial type stands on the left of a product with a scalar, so that
a NumPy scalar never takes it for an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, TypeVar

from qddot.spatial.scalar import Scalar
from qddot.spatial.vectors import (
    Linear,
    Mat3,
    Sym3,
    Vec3,
    rotation_about,
    rotation_from_quaternion,
    rotation_from_rpy,
)

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


@dataclass(frozen=True, slots=True)
class Motion(Linear):
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
    w: Vec3
    alpha: Vec3
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
        return AccelerationField(a, w, alpha, K)

    @staticmethod
    def of_translation(a: Vec3) -> AccelerationField:
        """All points accelerate alike."""
        return AccelerationField.of(a, Vec3.zero(), Vec3.zero())

    def at(self, r: Vec3) -> Vec3:
        """The acceleration of the point r."""
        return self.a + self.K.apply(r)

    def to_child(self, X: Transform, vJ: Motion, aJ: Motion) -> AccelerationField:
        """The field of a child body whose joint has the velocity vJ and acceleration aJ.

        It needs angular velocities only, no linear ones (Luh, Walker & Paul 1980).
        """
        w_parent = X.R.apply_transpose(self.w)
        w = w_parent + vJ.ang
        alpha = X.R.apply_transpose(self.alpha) + aJ.ang + w_parent.cross(vJ.ang)
        a = X.R.apply_transpose(self.at(X.p)) + aJ.lin + (w_parent + w).cross(vJ.lin)
        return AccelerationField.of(a, w, alpha)


@dataclass(frozen=True, slots=True)
class Force(Linear):
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
class Inertia(Linear):
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
    def second_moment(self) -> Sym3:
        """The second moment ∫ r rᵀ dm = ½ tr(I) 1 − I about the origin."""
        half = 0.5 * self.I.trace()
        return Sym3.diagonal(half, half, half) - self.I

    def newton_euler(self, field: AccelerationField) -> Force:
        """Net force ∫ a dm and moment ∫ r × a dm of an acceleration field a(r) = a + K r."""
        turned = field.K @ self.second_moment.rows
        return Force(
            field.a * self.mass + field.K.apply(self.h),
            turned.axial_vector() + self.h.cross(field.a),
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
        # the parallel-axis theorem, for an offset h of the centre of mass
        e = h + X.p * (0.5 * self.mass)
        steiner = Sym3.diagonal(2.0, 2.0, 2.0) * e.dot(X.p) - Sym3.product(e, X.p)
        return Inertia(self.mass, h + X.p * self.mass, self.I.rotate(X.R) + steiner)

    def to_articulated(self) -> ArticulatedInertia:
        """As an articulated inertia."""
        m = self.mass
        return ArticulatedInertia(Sym3.diagonal(m, m, m), -self.h.skew(), self.I)

    def coriolis(self, V: Motion) -> CoriolisOperator:
        """The Coriolis operator of a body that moves with V."""
        G = V.lin.outer(self.h) + V.ang.skew() @ self.second_moment.rows
        return CoriolisOperator(V.lin * self.mass + V.ang.cross(self.h), G)


@dataclass(frozen=True, slots=True)
class ArticulatedInertia(Linear):
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
        return ArticulatedInertia(M.as_symmetric(), U.lin.outer(W.ang), I.as_symmetric())

    def zero_along(self, S: Motion) -> ArticulatedInertia:
        """The same map, known to give no force for S: exact zeros if S is a coordinate axis."""
        # ones but at the coordinate axis that S is
        keep = [1.0 if type(x) is float and x == 0.0 else 0.0 for x in S]
        if sum(keep) != 5.0:
            return self
        lin, ang = Vec3(*keep[:3]), Vec3(*keep[3:])
        kept = lin.outer(ang)
        H = Mat3(*(Vec3(*map(mul, *rows)) for rows in zip(self.H, kept, strict=True)))
        return ArticulatedInertia(self.M.scale_both_sides(lin), H, self.I.scale_both_sides(ang))

    def to_parent(self, X: Transform) -> ArticulatedInertia:
        """The same map in coordinates of the parent frame of X."""
        p = X.p.skew()
        M, I = self.M.rotate(X.R), self.I.rotate(X.R)
        rotated = self.H.conjugate_by(X.R)
        H = rotated - M.rows @ p
        return ArticulatedInertia(M, H, I + (p @ H - rotated.T @ p).as_symmetric())


@dataclass(frozen=True, slots=True)
class CoriolisOperator(Linear):
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
        return CoriolisOperator(P, self.G.conjugate_by(X.R) + P.outer(X.p))


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
