"""Impulses of contact in Coulomb's cone, by accelerated Gauss–Seidel sweeps over scalars.

Written in y = D⁻¹ L⁻ᵀ Jᵀ λ with M = Lᵀ D L: a row of the contact Jacobian becomes Y = L⁻ᵀ Jᵀ, the
velocity along it J v = free + Y · y, and an impulse λ along it adds D⁻¹ Y λ to y. So a sweep costs
two products a row, and of the Delassus matrix Y D⁻¹ Yᵀ only the blocks on the diagonal are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qddot.algorithms.linear import Factor, dot, solve_upper
from qddot.simulate.contact.gaps import on_disc
from qddot.simulate.implicit_torques import VelocityConstraint, clip, largest
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "Contact",
    "JointConstraint",
    "JointStop",
    "Part",
    "Row",
    "make_contact",
    "make_joint_constraint",
    "make_joint_stop",
    "make_row",
    "sweep",
]

_TINY = 1e-30
_NEGLIGIBLE = 1e-9
_INDEPENDENT = 1e-4


@dataclass(frozen=True)
class Row:
    """A direction of contact: Y, D⁻¹ Y, and the velocity along it before any impulse."""

    Y: list[Scalar]
    Z: list[Scalar]
    free: Scalar

    def velocity(self, y: Sequence[Scalar]) -> Scalar:
        """Velocity along the row."""
        return self.free + dot(self.Y, y)

    def mobility(self, other: Row) -> Scalar:
        """Velocity along the row by a unit impulse along another (Delassus matrix)."""
        return dot(self.Y, other.Z)

    def add_impulse(self, y: Sequence[Scalar], impulse: Scalar) -> list[Scalar]:
        """y after an impulse along the row."""
        return [a + z * impulse for a, z in zip(y, self.Z, strict=True)]


def make_row(factor: Factor, J: Sequence[Scalar], v: Sequence[Scalar]) -> Row:
    """The row of a Jacobian, at velocities v before impulses."""
    L, d = factor
    Y = solve_upper(L, J)
    return Row(Y, [y / e for y, e in zip(Y, d, strict=True)], dot(J, v))


@dataclass(frozen=True)
class Contact:
    """A contact: normal and tangents, the least velocity along the normal, its mobility W.

    `inverse` is W⁻¹; `sticks` is 1 where W is well conditioned. `steepest` is the largest
    eigenvalue of its tangential block.
    """

    rows: tuple[Row, ...]
    bound: Scalar
    friction: Scalar
    W: list[list[Scalar]]
    inverse: list[list[Scalar]]
    sticks: Scalar
    steepest: Scalar

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along each row."""
        return [self.W[k][k] for k in range(len(self.rows))]

    @property
    def rough(self) -> bool:
        """Whether there is friction."""
        return len(self.rows) > 1

    def update(self, y: list[Scalar], impulse: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """The impulse that obeys Coulomb's law with all other impulses as they are.

        Where the impulse that stops all slip lies in the cone it is that one. Elsewhere the normal
        impulse that leaves the bound is found first, then the tangential one by a step against the
        slip and projection on the disc of radius μ λ_n, whose fixed point dissipates most.
        """
        u = [row.velocity(y) for row in self.rows]
        u[0] = u[0] - self.bound
        # slip: normal impulse first, tangential one projected on the disc
        found = self._sliding_impulse(u, impulse)
        # stick, where that impulse is in the cone
        if self.rough:
            still = [x - dot(row, u) for x, row in zip(impulse, self.inverse, strict=True)]
            reach = where(less(0.5, self.sticks), self.friction * still[0], -1.0)
            holds = less(sqrt(still[1] * still[1] + still[2] * still[2]), reach)
            found = [where(holds, a, b) for a, b in zip(still, found, strict=True)]
        for row, a, b in zip(self.rows, found, impulse, strict=True):
            y = row.add_impulse(y, a - b)
        return y, found

    def _sliding_impulse(self, u: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse of a contact that slips, from relative velocities u."""
        normal = largest(impulse[0] - u[0] / self.W[0][0], 0.0)
        if not self.rough:
            return [normal]
        change = normal - impulse[0]
        step = 1.0 / self.steepest
        trial = [impulse[k] - (u[k] + self.W[k][0] * change) * step for k in (1, 2)]
        return [normal, *on_disc(trial, self.friction * normal)]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Residual (m/s) of Coulomb's law at velocity and impulse: zero where it holds."""
        u = [row.velocity(y) for row in self.rows]
        pull = self.W[0][0] * impulse[0]
        gap = u[0] - self.bound
        least = where(less(gap, pull), gap, pull)
        wrong = least * least
        if self.rough:
            step = 1.0 / self.steepest
            trial = [impulse[k] - u[k] * step for k in (1, 2)]
            moved = on_disc(trial, self.friction * impulse[0])
            for a, b in zip(moved, impulse[1:], strict=True):
                wrong = wrong + (a - b) * (a - b) * (self.steepest * self.steepest)
        return sqrt(wrong)


def make_contact(rows: Sequence[Row], bound: Scalar, friction: Scalar) -> Contact:
    """A contact of a normal row and, where there is friction, two tangential ones."""
    # mobility, made symmetric and positive definite
    W = [[a.mobility(b) for b in rows] for a in rows]
    for k in range(len(rows)):
        for j in range(k):
            W[k][j] = W[j][k]
    trace = sum((W[k][k] for k in range(len(rows))), 0.0)
    for k in range(len(rows)):
        W[k][k] = W[k][k] + (_NEGLIGIBLE * trace + _TINY)
    if len(rows) == 1:
        return Contact(tuple(rows), bound, 0.0, W, [], 0.0, 0.0)
    # largest eigenvalue of the tangential block
    a, b, c = W[1][1], W[1][2], W[2][2]
    half = 0.5 * (a - c)
    steepest = 0.5 * (a + c) + sqrt(half * half + b * b)
    # inverse, by the Schur complement: the mobility along the normal of a contact that sticks
    n, p, q = W[0]
    square = 1.0 / (a * c - b * b)
    x, z = (c * p - b * q) * square, (a * q - b * p) * square
    schur = n - p * x - q * z
    first = 1.0 / schur
    xx, xz, zz = c * square + x * x * first, x * z * first - b * square, z * z * first + a * square
    inverse = [[first, -x * first, -z * first], [-x * first, xx, xz], [-z * first, xz, zz]]
    # where it is zero, sticking leaves no choice of the normal velocity
    sticks = where(less(_INDEPENDENT * n, schur), 1.0, 0.0)
    return Contact(
        rows=tuple(rows),
        bound=bound,
        friction=friction,
        W=W,
        inverse=inverse,
        sticks=sticks,
        steepest=steepest,
    )


@dataclass(frozen=True)
class JointStop:
    """A joint with stops: its row, its least and largest velocity (None without a stop)."""

    row: Row
    lower: Scalar | None
    upper: Scalar | None
    W: Scalar

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its one row."""
        return (self.row,)

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along the row."""
        return [self.W]

    def _admissible_velocity(self, u: Scalar) -> Scalar:
        """The velocity nearest to u that the stops admit."""
        if self.lower is not None:
            u = largest(u, self.lower)
        return u if self.upper is None else -largest(-u, -self.upper)

    def update(self, y: list[Scalar], impulse: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """The impulse with which the velocity is between the stops, with all others as they are."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        found = (self._admissible_velocity(loose) - loose) / self.W
        return self.row.add_impulse(y, found - impulse[0]), [found]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Distance of the velocity from the admissible one."""
        u = self.row.velocity(y)
        off = u - self._admissible_velocity(u - self.W * impulse[0])
        return where(less(off, 0.0), -off, off)


def make_joint_stop(row: Row, lower: Scalar | None, upper: Scalar | None) -> JointStop:
    """A joint with stops."""
    return JointStop(row, lower, upper, row.mobility(row) + _TINY)


@dataclass(frozen=True)
class JointConstraint:
    """A joint held by an impulse between bounds that keeps u + compliance λ + speed at zero."""

    row: Row
    lower: Scalar
    upper: Scalar
    compliance: Scalar
    speed: Scalar
    W: Scalar

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its one row."""
        return (self.row,)

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along the row."""
        return [self.W]

    def _bounded_impulse(self, loose: Scalar) -> Scalar:
        """The impulse between the bounds, from the velocity without it."""
        full = -(loose + self.speed) / (self.W + self.compliance)
        return clip(full, self.lower, self.upper)

    def update(self, y: list[Scalar], impulse: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """The impulse with all others as they are."""
        found = self._bounded_impulse(self.row.velocity(y) - self.W * impulse[0])
        return self.row.add_impulse(y, found - impulse[0]), [found]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Distance of the impulse from the bounded one, as a velocity."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        off = self.W * (impulse[0] - self._bounded_impulse(loose))
        return where(less(off, 0.0), -off, off)


def make_joint_constraint(row: Row, law: VelocityConstraint, dt: Scalar) -> JointConstraint:
    """A velocity constraint, in impulses over a step of length dt."""
    return JointConstraint(
        row,
        lower=law.lower * dt,
        upper=law.upper * dt,
        compliance=0.0 if law.rigid else law.compliance / dt,
        speed=law.speed,
        W=row.mobility(row) + _TINY,
    )


Part = Contact | JointStop | JointConstraint


def sweep(
    parts: Sequence[Part], impulses: Sequence[list[Scalar]], sweeps: int
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """y and the impulses after a number of sweeps over all parts.

    Between sweeps the impulses move along the last direction, by nonsmooth nonlinear conjugate
    gradients (Silcowitz-Hansen, Niebe & Erleben 2010). Nothing follows the last sweep, so that all
    impulses are in their cones.
    """
    # y of the impulses of the start
    rows = [row for part in parts for row in part.rows]
    weights = [w for part in parts for w in part.weights]
    start = [x for impulse in impulses for x in impulse]
    y: list[Scalar] = [0.0] * max((len(row.Y) for row in rows), default=0)
    for row, x in zip(rows, start, strict=True):
        y = row.add_impulse(y, x)
    state: list[Scalar] = [*start, *y]
    along: list[Scalar] = []
    last: Scalar = 1.0
    for k in range(sweeps):
        # one Gauss–Seidel sweep
        before, found = state, _by_part(parts, state)
        y = list(state[len(rows) :])
        for i, part in enumerate(parts):
            y, found[i] = part.update(y, found[i])
        state = [*(x for impulse in found for x in impulse), *y]
        step = [a - b for a, b in zip(state, before, strict=True)]
        size = sum((w * x * x for w, x in zip(weights, step, strict=False)), 0.0)
        # acceleration along the direction of the sweep before
        if 0 < k < sweeps - 1:
            share = size / (last + _TINY)
            share = where(less(share, 1.0), share, 0.0)
            state = [a + share * d for a, d in zip(state, along, strict=True)]
            step = [a + share * d for a, d in zip(step, along, strict=True)]
        along, last = step, size
    return state[len(rows) :], _by_part(parts, state)


def _by_part(parts: Sequence[Part], state: Sequence[Scalar]) -> list[list[Scalar]]:
    """The impulses at the head of a state, one list for each part."""
    numbers = iter(state)
    return [[next(numbers) for _ in part.rows] for part in parts]
