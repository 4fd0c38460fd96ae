"""Impulses of contact in Coulomb's cone, by accelerated Gauss–Seidel sweeps, as text over scalars.

Written in y = D⁻¹ L⁻ᵀ Jᵀ λ with M = Lᵀ D L: a row of the contact Jacobian becomes Y = L⁻ᵀ Jᵀ, the
velocity along it J v = free + Y · y, and an impulse λ along it adds D⁻¹ Y λ to y. So a sweep costs
two products a row, and of the Delassus matrix Y D⁻¹ Yᵀ only the blocks on the diagonal are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qddot.algorithms.linear import Factor, dot, solve_upper
from qddot.simulate.contact.gaps import on_disc
from qddot.simulate.resistance import Grip, clip, largest
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "Contact",
    "Hold",
    "Part",
    "Row",
    "Stop",
    "make_contact",
    "make_hold",
    "make_row",
    "make_stop",
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
        """Velocity along the row by a unit impulse along another."""
        return dot(self.Y, other.Z)

    def pushed(self, y: Sequence[Scalar], impulse: Scalar) -> list[Scalar]:
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

    `inverse` is that of W; `sticks` says that W has one to speak of. `steepest` is the largest
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
        found = self._sliding(u, impulse)
        if self.rough:
            still = [x - dot(row, u) for x, row in zip(impulse, self.inverse, strict=True)]
            reach = where(less(0.5, self.sticks), self.friction * still[0], -1.0)
            holds = less(sqrt(still[1] * still[1] + still[2] * still[2]), reach)
            found = [where(holds, a, b) for a, b in zip(still, found, strict=True)]
        for row, a, b in zip(self.rows, found, impulse, strict=True):
            y = row.pushed(y, a - b)
        return y, found

    def _sliding(self, u: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        normal = largest(impulse[0] - u[0] / self.W[0][0], 0.0)
        if not self.rough:
            return [normal]
        change = normal - impulse[0]
        step = 1.0 / self.steepest
        trial = [impulse[k] - (u[k] + self.W[k][0] * change) * step for k in (1, 2)]
        return [normal, *on_disc(trial, self.friction * normal)]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """By how much (m/s) velocity and impulse miss Coulomb's law: zero where it holds."""
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
    W = [[a.mobility(b) for b in rows] for a in rows]
    for k in range(len(rows)):
        for j in range(k):
            W[k][j] = W[j][k]
    trace = sum((W[k][k] for k in range(len(rows))), 0.0)
    for k in range(len(rows)):
        W[k][k] = W[k][k] + (_NEGLIGIBLE * trace + _TINY)
    if len(rows) == 1:
        return Contact(tuple(rows), bound, 0.0, W, [], 0.0, 0.0)
    a, b, c = W[1][1], W[1][2], W[2][2]
    half = 0.5 * (a - c)
    steepest = 0.5 * (a + c) + sqrt(half * half + b * b)
    inverse, left = _inverse(W)
    sticks = where(less(_INDEPENDENT * W[0][0], left), 1.0, 0.0)
    return Contact(tuple(rows), bound, friction, W, inverse, sticks, steepest)


def _inverse(W: Sequence[Sequence[Scalar]]) -> tuple[list[list[Scalar]], Scalar]:
    """W⁻¹, and the mobility along the normal that is left where nothing slips.

    Where that is nothing, sticking leaves no choice of the normal velocity.
    """
    (n, p, q), (_, a, b), (_, _, c) = W
    square = 1.0 / (a * c - b * b)
    # the tangential impulses that a normal one calls for
    x, z = (c * p - b * q) * square, (a * q - b * p) * square
    left = n - p * x - q * z
    first = 1.0 / left
    xx, xz, zz = c * square + x * x * first, x * z * first - b * square, z * z * first + a * square
    return [[first, -x * first, -z * first], [-x * first, xx, xz], [-z * first, xz, zz]], left


@dataclass(frozen=True)
class Stop:
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

    def _wanted(self, u: Scalar) -> Scalar:
        """The velocity that the stops leave."""
        if self.lower is not None:
            u = largest(u, self.lower)
        return u if self.upper is None else -largest(-u, -self.upper)

    def update(self, y: list[Scalar], impulse: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """The impulse with which the velocity is between the stops, with all others as they are."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        found = (self._wanted(loose) - loose) / self.W
        return self.row.pushed(y, found - impulse[0]), [found]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """By how much the velocity misses what the stops leave."""
        u = self.row.velocity(y)
        miss = u - self._wanted(u - self.W * impulse[0])
        return where(less(miss, 0.0), -miss, miss)


def make_stop(row: Row, lower: Scalar | None, upper: Scalar | None) -> Stop:
    """A joint with stops."""
    return Stop(row, lower, upper, row.mobility(row) + _TINY)


@dataclass(frozen=True)
class Hold:
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

    def _wanted(self, loose: Scalar) -> Scalar:
        """The impulse between the bounds, from the velocity without it."""
        full = -(loose + self.speed) / (self.W + self.compliance)
        return clip(full, self.lower, self.upper)

    def update(self, y: list[Scalar], impulse: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """The impulse with all others as they are."""
        found = self._wanted(self.row.velocity(y) - self.W * impulse[0])
        return self.row.pushed(y, found - impulse[0]), [found]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """By how much the impulse misses, as a velocity."""
        miss = self.W * (impulse[0] - self._wanted(self.row.velocity(y) - self.W * impulse[0]))
        return where(less(miss, 0.0), -miss, miss)


def make_hold(row: Row, grip: Grip, dt: Scalar) -> Hold:
    """A joint that a grip holds during a step of length dt."""
    bounds = (grip.lower * dt, grip.upper * dt)
    compliance = 0.0 if grip.rigid else grip.compliance / dt
    return Hold(row, *bounds, compliance, grip.speed, row.mobility(row) + _TINY)


Part = Contact | Stop | Hold


def sweep(
    parts: Sequence[Part], impulses: Sequence[list[Scalar]], sweeps: int
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """y and the impulses after so many sweeps over all parts.

    Between sweeps the impulses move on along the way that they came, by nonsmooth nonlinear
    conjugate gradients (Silcowitz-Hansen, Niebe & Erleben 2010). The last sweep has the last word,
    so that all impulses are in their cones.
    """
    rows = [row for part in parts for row in part.rows]
    weights = [w for part in parts for w in part.weights]
    start = [x for impulse in impulses for x in impulse]
    y: list[Scalar] = [0.0] * max((len(row.Y) for row in rows), default=0)
    for row, x in zip(rows, start, strict=True):
        y = row.pushed(y, x)
    state: list[Scalar] = [*start, *y]
    along: list[Scalar] = []
    last: Scalar = 1.0
    for k in range(sweeps):
        before, state = state, _swept(parts, state)
        step = [a - b for a, b in zip(state, before, strict=True)]
        size = sum((w * x * x for w, x in zip(weights, step, strict=False)), 0.0)
        if 0 < k < sweeps - 1:
            share = size / (last + _TINY)
            share = where(less(share, 1.0), share, 0.0)
            state = [a + share * d for a, d in zip(state, along, strict=True)]
            step = [a + share * d for a, d in zip(step, along, strict=True)]
        along, last = step, size
    return state[len(rows) :], _by_part(parts, state)


def _swept(parts: Sequence[Part], state: Sequence[Scalar]) -> list[Scalar]:
    """Impulses and y after one sweep."""
    found = _by_part(parts, state)
    y = list(state[sum(map(len, found)) :])
    for k, part in enumerate(parts):
        y, found[k] = part.update(y, found[k])
    return [*(x for impulse in found for x in impulse), *y]


def _by_part(parts: Sequence[Part], state: Sequence[Scalar]) -> list[list[Scalar]]:
    """The impulses at the head of a state, those of each part."""
    left = iter(state)
    return [[next(left) for _ in part.rows] for part in parts]
