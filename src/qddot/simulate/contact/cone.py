"""Laws of contact, stops and joint friction, each for its own impulse with all others as they are.

Written in y = D^(−1/2) L⁻ᵀ Jᵀ λ with M = Lᵀ D L: a row of the contact Jacobian becomes
Y = D^(−1/2) L⁻ᵀ Jᵀ, the velocity along it J v = free + Y · y, and an impulse λ along it adds Y λ to
y. Of the Delassus matrix Y Yᵀ only the blocks on the diagonal are made. Whatever belongs to a part
has values only where that part is near its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from qddot.algorithms.linear import Factor, dot, solve_lower, solve_upper
from qddot.simulate.contact.gaps import on_disc
from qddot.simulate.implicit_torques import VelocityConstraint, clip, largest
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "FrictionalContact",
    "JointConstraint",
    "JointStop",
    "NewtonTerm",
    "Part",
    "Roots",
    "Row",
    "equalise",
    "make_contact",
    "make_joint_constraint",
    "take",
]

_TINY = 1e-30
_NEGLIGIBLE = 1e-9
_INDEPENDENT = 1e-4
_COMPLIANT = 1e-4
"""Compliance of a contact while impulses are shared, times its stiffness."""
_EQUAL = 10.0
"""Ratio of effective masses up to which contacts are equally stiff."""
_STIFF = 1e5
"""Impulse of a closed contact in a Newton step for a unit velocity, times its mobility."""


@dataclass(frozen=True)
class Roots:
    """A mass matrix as M = Lᵀ D L, with D^(−1/2) as a list."""

    L: list[list[Scalar]]
    scale: list[Scalar]

    @staticmethod
    def of(factor: Factor) -> Roots:
        """The roots from the factors L and D of M."""
        L, d = factor
        return Roots(L, [sqrt(1.0 / x) for x in d])

    def make_row(self, J: Sequence[Scalar], free: Scalar) -> Row:
        """The row of a Jacobian along which the velocity is `free` without impulses."""
        Y = solve_upper(self.L, J)
        return Row([y * s for y, s in zip(Y, self.scale, strict=True)], free)

    def velocity(self, y: Sequence[Scalar]) -> list[Scalar]:
        """The change of velocities v that y stands for."""
        return solve_lower(self.L, [x * s for x, s in zip(y, self.scale, strict=True)])


@dataclass(frozen=True)
class Row:
    """A direction of contact: Y, and the velocity along it before any impulse."""

    Y: list[Scalar]
    free: Scalar

    def velocity(self, y: Sequence[Scalar]) -> Scalar:
        """Velocity along the row."""
        return self.free + dot(self.Y, y)

    def mobility(self, other: Row) -> Scalar:
        """Velocity along the row by a unit impulse along another (Delassus matrix)."""
        return dot(self.Y, other.Y)

    def add_impulse(self, y: Sequence[Scalar], impulse: Scalar) -> list[Scalar]:
        """y after an impulse along the row."""
        return [a + b * impulse for a, b in zip(y, self.Y, strict=True)]


@dataclass(frozen=True)
class NewtonTerm:
    """A velocity `off` along a row that a Newton step removes, with the impulse that removes it.

    An amount x of it adds (`row` + `follows` · `along`) x to y and `step` x to the impulse of its
    part; x is the stiffness times the velocity that is left. `along` is the row of the friction
    that follows a normal impulse, None where there is none.
    """

    row: list[Scalar]
    stiffness: Scalar
    off: Scalar
    step: list[Scalar]
    along: list[Scalar] | None = None
    follows: Scalar = 0.0


def take(numbers: Iterator[Scalar], n: int) -> list[Scalar]:
    """The next n numbers."""
    return list(islice(numbers, n))


@dataclass(frozen=True)
class FrictionalContact:
    """A contact: normal and tangents, the least velocity along the normal, its mobility W.

    It has values where `near` is 1. `weights` are the diagonal of W and `coupling` the tangential
    entries of its first column; `inverse` is W⁻¹; `sticks` is 1 where W is well conditioned.
    `steepest` is the largest eigenvalue of the tangential block. `masses` are the reciprocals of
    mobility along the normal and of `steepest`.
    """

    near: Scalar
    rows: tuple[Row, ...]
    bound: Scalar
    friction: Scalar
    weights: list[Scalar]
    coupling: list[Scalar]
    inverse: list[list[Scalar]]
    sticks: Scalar
    steepest: Scalar
    masses: list[Scalar]
    stiffness: Scalar = 1.0

    @property
    def compliance(self) -> Scalar:
        """Velocity by which the contact gives way to a unit impulse while impulses are shared."""
        return _COMPLIANT / self.stiffness

    @property
    def rough(self) -> bool:
        """Whether there is friction."""
        return len(self.rows) > 1

    @property
    def numbers(self) -> list[Scalar]:
        """All numbers but `near` and `friction`, for `from_numbers`."""
        rows = (x for row in self.rows for x in (*row.Y, row.free))
        inverse = (x for row in self.inverse for x in row)
        rest = (self.bound, self.sticks, self.steepest)
        return [*rows, *self.weights, *self.coupling, *inverse, *self.masses, *rest]

    @staticmethod
    def from_numbers(
        numbers: Iterator[Scalar], near: Scalar, friction: Scalar, rows: int, nv: int
    ) -> FrictionalContact:
        """The contact from its `numbers`, in their order; `rows` counts normal and tangents."""
        directions = tuple(Row(take(numbers, nv), next(numbers)) for _ in range(rows))
        weights, coupling = take(numbers, rows), take(numbers, rows - 1)
        inverse = [take(numbers, rows) for _ in range(rows if rows > 1 else 0)]
        masses, (bound, sticks, steepest) = take(numbers, 2), take(numbers, 3)
        return FrictionalContact(
            near=near,
            rows=directions,
            bound=bound,
            friction=friction,
            weights=weights,
            coupling=coupling,
            inverse=inverse,
            sticks=sticks,
            steepest=steepest,
            masses=masses,
        )

    @staticmethod
    def count_numbers(rows: int, nv: int) -> int:
        """Length of `numbers` of a contact with this many rows, in a robot of nv velocities."""
        return rows * (nv + 1) + rows + (rows - 1) + (rows * rows if rows > 1 else 0) + 5

    def update(self, y: Sequence[Scalar], impulse: Sequence[Scalar], soft: Scalar) -> list[Scalar]:
        """The impulse that obeys Coulomb's law, with all other impulses as they are.

        Where `soft` is 1 the contact has its compliance.

        Where the impulse that stops all slip lies in the cone it is that one. Elsewhere the normal
        impulse that leaves the bound is found first, then the tangential one by a step against the
        slip and projection on the disc of radius μ λ_n, whose fixed point dissipates most.
        """
        give = soft * self.compliance
        u = [row.velocity(y) + give * x for row, x in zip(self.rows, impulse, strict=True)]
        u[0] = u[0] - self.bound
        # slip: normal impulse first, tangential one projected on the disc
        normal = largest(impulse[0] - u[0] * self.masses[0], 0.0)
        if not self.rough:
            return [normal]
        change, step = normal - impulse[0], self.masses[1]
        trial = [
            x - (v + w * change) * step
            for x, v, w in zip(impulse[1:], u[1:], self.coupling, strict=True)
        ]
        found = [normal, *on_disc(trial, self.friction * normal)]
        # stick, where that impulse is in the cone
        still = [x - dot(row, u) for x, row in zip(impulse, self.inverse, strict=True)]
        reach = where(less(0.5, self.sticks), self.friction * still[0], -1.0)
        holds = less(sqrt(still[1] * still[1] + still[2] * still[2]), reach)
        return [where(holds, a, b) for a, b in zip(still, found, strict=True)]

    def active(self, impulse: Sequence[Scalar]) -> Scalar:
        """1 where the contact is closed."""
        return where(less(0.0, impulse[0]), 1.0, 0.0)

    def newton_terms(
        self, y: Sequence[Scalar], impulse: Sequence[Scalar], slides: Scalar, soft: Scalar
    ) -> list[NewtonTerm]:
        """Terms along the normal, along friction and across it.

        Where the contact sticks all velocities are removed. Where it slides, friction follows the
        normal impulse, and turns with the slip.
        """
        normal, give = self.rows[0], soft * self.compliance
        stiff = where(less(0.5, soft), 1.0 / self.compliance, _STIFF * self.stiffness)
        off = normal.velocity(y) - self.bound + give * impulse[0]
        if not self.rough:
            return [NewtonTerm(normal.Y, stiff, off, [1.0])]
        # directions along and across the friction
        size = sqrt(impulse[1] * impulse[1] + impulse[2] * impulse[2])
        radius = where(less(slides, 0.5), (1.0 - _NEGLIGIBLE) * self.friction * impulse[0], 0.0)
        sticks = less(size, radius)
        e, f = (
            where(less(_TINY, size), x / (size + _TINY), 1.0 - k) for k, x in enumerate(impulse[1:])
        )
        along, across = (
            [a * x + b * z for x, z in zip(self.rows[1].Y, self.rows[2].Y, strict=True)]
            for a, b in ((e, f), (-f, e))
        )
        u, w = (row.velocity(y) for row in self.rows[1:])
        slip = sqrt(u * u + w * w)
        follows = where(sticks, 0.0, self.friction)
        turns = size / (slip + size / stiff + _TINY)
        return [
            NewtonTerm(normal.Y, stiff, off, [1.0, follows * e, follows * f], along, follows),
            NewtonTerm(along, where(sticks, stiff, 0.0), e * u + f * w + give * size, [0.0, e, f]),
            NewtonTerm(across, where(sticks, stiff, turns), e * w - f * u, [0.0, -f, e]),
        ]

    def limit_step(
        self, impulse: Sequence[Scalar], step: Sequence[Scalar]
    ) -> tuple[Scalar, Scalar]:
        """The share (at most 1) of a step that ends at the cone, and 1 where it would slide."""
        end = impulse[0] + step[0]
        share = where(less(end, 0.0), impulse[0] / (impulse[0] - end + _TINY), 1.0)
        if not self.rough:
            return share, 0.0
        # the first root of |λ_t + a Δλ_t|² = μ² (λ_n + a Δλ_n)²
        square = self.friction * self.friction
        (n, p, q), (dn, dp, dq) = impulse, step
        A = dp * dp + dq * dq - square * dn * dn
        B = p * dp + q * dq - square * n * dn
        C = p * p + q * q - square * n * n
        inside = B * B - A * C
        slope = B + sqrt(largest(inside, 0.0))
        leaves = where(less(0.0, inside), where(less(-C, slope), -C / (slope + _TINY), 1.0), 1.0)
        # where it slides the step follows the cone
        sticks = less(C, -_NEGLIGIBLE * square * n * n)
        share = -largest(-share, -where(sticks, leaves, 1.0))
        return share, where(less(0.0, A + 2.0 * B + C), 1.0, 0.0)

    def project(self, before: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse in the cone that has the same direction along the surface."""
        normal = largest(impulse[0], 0.0)
        return [normal, *on_disc(impulse[1:], self.friction * normal)] if self.rough else [normal]

    def give(self, impulse: Sequence[Scalar]) -> Scalar:
        """Velocity that its compliance would let through."""
        return self.compliance * impulse[0]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Residual (m/s) of Coulomb's law at velocity and impulse: zero where it holds."""
        u = [row.velocity(y) for row in self.rows]
        pull = self.weights[0] * impulse[0]
        gap = u[0] - self.bound
        least = where(less(gap, pull), gap, pull)
        wrong = least * least
        if self.rough:
            trial = [impulse[k] - u[k] * self.masses[1] for k in (1, 2)]
            moved = on_disc(trial, self.friction * impulse[0])
            for a, b in zip(moved, impulse[1:], strict=True):
                wrong = wrong + (a - b) * (a - b) * (self.steepest * self.steepest)
        return sqrt(wrong)


def make_contact(rows: Sequence[Row], bound: Scalar, friction: Scalar) -> FrictionalContact:
    """A contact of a normal row and, where there is friction, two tangential ones."""
    # mobility, made symmetric and positive definite
    W = [[a.mobility(b) for b in rows] for a in rows]
    for k in range(len(rows)):
        for j in range(k):
            W[k][j] = W[j][k]
    weights = [W[k][k] for k in range(len(rows))]
    trace = sum(weights, 0.0)
    for k in range(len(rows)):
        W[k][k] = weights[k] = W[k][k] + (_NEGLIGIBLE * trace + _TINY)
    if len(rows) == 1:
        masses = [1.0 / weights[0], 0.0]
        return FrictionalContact(
            near=1.0,
            rows=tuple(rows),
            bound=bound,
            friction=0.0,
            weights=weights,
            coupling=[],
            inverse=[],
            sticks=0.0,
            steepest=0.0,
            masses=masses,
        )
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
    # where it is zero, sticking leaves no choice of the normal velocity
    return FrictionalContact(
        near=1.0,
        rows=tuple(rows),
        bound=bound,
        friction=friction,
        weights=weights,
        coupling=[p, q],
        inverse=[[first, -x * first, -z * first], [-x * first, xx, xz], [-z * first, xz, zz]],
        sticks=where(less(_INDEPENDENT * n, schur), 1.0, 0.0),
        steepest=steepest,
        masses=[1.0 / n, 1.0 / steepest],
    )


@dataclass(frozen=True)
class JointStop:
    """A joint between its stops: a velocity u with bounds l and h (None without a bound).

    With the impulse λ: l ≤ u ≤ h, λ > 0 only where u = l, λ < 0 only where u = h. It has
    values where `near` is 1; W is its mobility, `mass` the reciprocal.
    """

    near: Scalar
    row: Row
    lower: Scalar | None
    upper: Scalar | None
    W: Scalar
    mass: Scalar

    @property
    def rows(self) -> tuple[Row, ...]:
        """The row of the joint, as a tuple of one."""
        return (self.row,)

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along the row."""
        return [self.W]

    @property
    def masses(self) -> list[Scalar]:
        """Effective mass along the row, 1 / W."""
        return [self.mass]

    def _admissible_velocity(self, u: Scalar) -> Scalar:
        """The velocity nearest to u that the stops admit."""
        if self.lower is not None:
            u = largest(u, self.lower)
        return u if self.upper is None else -largest(-u, -self.upper)

    def update(self, y: Sequence[Scalar], impulse: Sequence[Scalar], soft: Scalar) -> list[Scalar]:
        """The impulse with which the velocity is between the stops, with all others as they are."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        return [(self._admissible_velocity(loose) - loose) * self.mass]

    def active(self, impulse: Sequence[Scalar]) -> Scalar:
        """1 where a stop pushes."""
        return where(less(0.0, impulse[0] * impulse[0]), 1.0, 0.0)

    def newton_terms(
        self, y: Sequence[Scalar], impulse: Sequence[Scalar], slides: Scalar, soft: Scalar
    ) -> list[NewtonTerm]:
        """Its row, held at the bound that pushes."""
        u, Y = self.row.velocity(y), self.row.Y
        off = u - self._admissible_velocity(u - self.W * impulse[0])
        return [NewtonTerm(Y, _STIFF * self.mass, off, [1.0])]

    def limit_step(
        self, impulse: Sequence[Scalar], step: Sequence[Scalar]
    ) -> tuple[Scalar, Scalar]:
        """The share (at most 1) of a step with which no stop pulls."""
        end = impulse[0] + step[0]
        pulls = less(impulse[0] * end, 0.0)
        share = where(pulls, impulse[0] / where(pulls, impulse[0] - end, 1.0), 1.0)
        return share, 0.0

    def project(self, before: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse, or none where it would pull."""
        return [where(less(before[0] * impulse[0], 0.0), 0.0, impulse[0])]

    def give(self, impulse: Sequence[Scalar]) -> Scalar:
        """None: it has no compliance of its own here."""
        return 0.0

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Distance of the velocity from the admissible one."""
        u = self.row.velocity(y)
        off = u - self._admissible_velocity(u - self.W * impulse[0])
        return where(less(off, 0.0), -off, off)


@dataclass(frozen=True)
class JointConstraint:
    """A joint held by an impulse between bounds that keeps u + compliance λ + speed at zero."""

    row: Row
    lower: Scalar
    upper: Scalar
    compliance: Scalar
    speed: Scalar
    W: Scalar
    near: Scalar = 1.0

    @property
    def rows(self) -> tuple[Row, ...]:
        """The row of the joint, as a tuple of one."""
        return (self.row,)

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along the row."""
        return [self.W]

    def update(self, y: Sequence[Scalar], impulse: Sequence[Scalar], soft: Scalar) -> list[Scalar]:
        """The impulse between the bounds, with all others as they are."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        full = -(loose + self.speed) / (self.W + self.compliance)
        return [clip(full, self.lower, self.upper)]

    def active(self, impulse: Sequence[Scalar]) -> Scalar:
        """1 where the impulse is between its bounds."""
        above = where(less(self.lower, impulse[0]), 1.0, 0.0)
        return where(less(impulse[0], self.upper), above, 0.0)

    def newton_terms(
        self, y: Sequence[Scalar], impulse: Sequence[Scalar], slides: Scalar, soft: Scalar
    ) -> list[NewtonTerm]:
        """Its row, with its compliance."""
        Y, stiffness = self.row.Y, 1.0 / (self.compliance + self.W * (1.0 / _STIFF))
        off = self.row.velocity(y) + self.compliance * impulse[0] + self.speed
        return [NewtonTerm(Y, stiffness, off, [1.0])]

    def limit_step(
        self, impulse: Sequence[Scalar], step: Sequence[Scalar]
    ) -> tuple[Scalar, Scalar]:
        """All of the step: sweeps put the impulse back between its bounds."""
        return 1.0, 0.0

    def project(self, before: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse between its bounds."""
        return [clip(impulse[0], self.lower, self.upper)]

    def give(self, impulse: Sequence[Scalar]) -> Scalar:
        """None: it has no compliance of its own here."""
        return 0.0

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Distance of the impulse from the bounded one, as a velocity."""
        off = self.W * (impulse[0] - self.update(y, impulse, 0.0)[0])
        return where(less(off, 0.0), -off, off)


def make_joint_constraint(row: Row, constraint: VelocityConstraint, dt: Scalar) -> JointConstraint:
    """A velocity constraint, in impulses over a step of length dt."""
    return JointConstraint(
        row,
        lower=constraint.lower * dt,
        upper=constraint.upper * dt,
        compliance=0.0 if constraint.rigid else constraint.compliance / dt,
        speed=constraint.speed,
        W=row.mobility(row) + _TINY,
    )


Part = FrictionalContact | JointStop | JointConstraint


def equalise(parts: Sequence[Part]) -> list[Part]:
    """The parts, all contacts as stiff as that of the largest effective mass, within a ratio."""
    heaviest: Scalar = 0.0
    contacts = [part for part in parts if isinstance(part, FrictionalContact)]
    for contact in contacts:
        heaviest = largest(heaviest, where(less(0.5, contact.near), contact.masses[0], 0.0))
    equal = (replace(x, stiffness=-largest(-heaviest, -_EQUAL * x.masses[0])) for x in contacts)
    return [next(equal) if isinstance(part, FrictionalContact) else part for part in parts]
