"""Impulses of contact in Coulomb's cone, by accelerated Gauss–Seidel sweeps over scalars.

Written in y = D^(−1/2) L⁻ᵀ Jᵀ λ with M = Lᵀ D L: a row of the contact Jacobian becomes
Y = D^(−1/2) L⁻ᵀ Jᵀ, the velocity along it J v = free + Y · y, and an impulse λ along it adds Y λ to
y. So a sweep costs two products a row, and of the Delassus matrix Y Yᵀ only the blocks on the
diagonal are made. Whatever belongs to a part has values only where that part is near its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from qddot.algorithms.linear import Factor, dot, solve_lower, solve_upper
from qddot.simulate.contact.gaps import on_disc
from qddot.simulate.implicit_torques import VelocityConstraint, clip, largest
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "Contact",
    "JointConstraint",
    "JointStop",
    "Part",
    "Roots",
    "Row",
    "make_contact",
    "make_joint_constraint",
    "start_of",
    "sweep",
]

_TINY = 1e-30
_NEGLIGIBLE = 1e-9
_INDEPENDENT = 1e-4


@dataclass(frozen=True)
class Roots:
    """A mass matrix as M = Lᵀ D L, with D^(−1/2) as a list."""

    L: list[list[Scalar]]
    scale: list[Scalar]

    @staticmethod
    def of(factor: Factor) -> Roots:
        """From L and D."""
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


def _take(numbers: Iterator[Scalar], n: int) -> list[Scalar]:
    return list(islice(numbers, n))


@dataclass(frozen=True)
class Contact:
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
    ) -> Contact:
        """The contact of so many rows whose `numbers` these are."""
        directions = tuple(Row(_take(numbers, nv), next(numbers)) for _ in range(rows))
        weights, coupling = _take(numbers, rows), _take(numbers, rows - 1)
        inverse = [_take(numbers, rows) for _ in range(rows if rows > 1 else 0)]
        masses, (bound, sticks, steepest) = _take(numbers, 2), _take(numbers, 3)
        return Contact(
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
        """How many `numbers` a contact of so many rows has."""
        return rows * (nv + 1) + rows + (rows - 1) + (rows * rows if rows > 1 else 0) + 5

    def update(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse that obeys Coulomb's law with all other impulses as they are.

        Where the impulse that stops all slip lies in the cone it is that one. Elsewhere the normal
        impulse that leaves the bound is found first, then the tangential one by a step against the
        slip and projection on the disc of radius μ λ_n, whose fixed point dissipates most.
        """
        u = [row.velocity(y) for row in self.rows]
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


def make_contact(rows: Sequence[Row], bound: Scalar, friction: Scalar) -> Contact:
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
        return Contact(1.0, tuple(rows), bound, 0.0, weights, [], [], 0.0, 0.0, masses)
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
    return Contact(
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
    """A velocity with bounds: its row, its least and largest value (None without a bound).

    It has values where `near` is 1; W is its mobility, `mass` the reciprocal.
    """

    near: Scalar
    row: Row
    lower: Scalar | None
    upper: Scalar | None
    W: Scalar
    mass: Scalar

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its one row."""
        return (self.row,)

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along the row."""
        return [self.W]

    @property
    def masses(self) -> list[Scalar]:
        """The reciprocal of that."""
        return [self.mass]

    def _admissible_velocity(self, u: Scalar) -> Scalar:
        """The velocity nearest to u that the stops admit."""
        if self.lower is not None:
            u = largest(u, self.lower)
        return u if self.upper is None else -largest(-u, -self.upper)

    def update(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse with which the velocity is between the stops, with all others as they are."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        return [(self._admissible_velocity(loose) - loose) * self.mass]

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
        """Its one row."""
        return (self.row,)

    @property
    def weights(self) -> list[Scalar]:
        """Mobility along the row."""
        return [self.W]

    def update(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> list[Scalar]:
        """The impulse between the bounds, with all others as they are."""
        loose = self.row.velocity(y) - self.W * impulse[0]
        full = -(loose + self.speed) / (self.W + self.compliance)
        return [clip(full, self.lower, self.upper)]

    def residual(self, y: Sequence[Scalar], impulse: Sequence[Scalar]) -> Scalar:
        """Distance of the impulse from the bounded one, as a velocity."""
        off = self.W * (impulse[0] - self.update(y, impulse)[0])
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


def start_of(impulse: Sequence[Scalar], near: Scalar) -> list[Scalar]:
    """An impulse before any sweep: the impulse, the one before it, and no direction yet.

    These are numbers of their own where a part is near, so that sweeps can write into each.
    """
    is_near = less(0.5, near)
    before = [where(is_near, x, 0.0) for x in impulse]
    return [*impulse, *before, *(where(is_near, 0.0, 1.0) for _ in impulse)]


def sweep(
    parts: Sequence[Part],
    impulses: Sequence[list[Scalar]],
    y: list[Scalar],
    sweeps: int,
    tolerance: float,
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """y and the impulses after sweeps over all parts, from `start_of` impulses and their y.

    Between sweeps the impulses move along the last direction, by nonsmooth nonlinear conjugate
    gradients (Silcowitz-Hansen, Niebe & Erleben 2010); nothing follows the last sweep, so that all
    impulses are in their cones. It ends when no velocity is changed by more than the tolerance.
    """
    n, counts = len(y), [len(impulse) // 3 for impulse in impulses]
    going: Scalar = 0.0
    for part in parts:
        going = largest(going, part.near)

    def sweep_once(state: list[Scalar]) -> list[Scalar]:
        # the direction from before the last sweep to after it: y and each part move along it
        numbers = iter(state)
        going, share, last = _take(numbers, 3)
        swept, before, along = (_take(numbers, n) for _ in range(3))
        y = [a + share * d for a, d in zip(swept, along, strict=True)]
        after = [*y, *(a - b for a, b in zip(y, before, strict=True))]
        totals: list[Scalar] = [0.0, 0.0]
        changed: list[Scalar] = []
        for part, count in zip(parts, counts, strict=True):
            own = _take(numbers, 3 * count)
            sweep_part = _PartSweep(part, going, share, n, count)
            found = run_where(part.near, sweep_part.run, [*y, *totals, *own])
            y, totals = found[:n], found[n : n + 2]
            changed += found[n + 2 :]
        # the share of that direction in the next sweep, and whether there is one
        size, speed = totals
        going = where(less(tolerance * tolerance, speed), going, 0.0)
        share = where(less(size, last), size / (last + _TINY), 0.0) * going
        return [going, share, size, *y, *after, *changed]

    start = [going, 0.0, 0.0, *y, *y, *[0.0] * n]
    for impulse in impulses:
        start += impulse
    numbers = iter(run_while(sweep_once, start, sweeps)[3:])
    y = _take(numbers, 3 * n)[:n]
    return y, [_take(numbers, 3 * count)[:count] for count in counts]


@dataclass(frozen=True)
class _PartSweep:
    """A part in a sweep over states that are `going`, after a share of the last direction."""

    part: Part
    going: Scalar
    share: Scalar
    n: int
    count: int

    def run(self, state: list[Scalar]) -> list[Scalar]:
        """y, sums of squares, and impulses after, before and along: all after the part."""
        numbers = iter(state)
        y, (size, speed) = _take(numbers, self.n), _take(numbers, 2)
        swept, before, along = (_take(numbers, self.count) for _ in range(3))
        moved = [x + self.share * d for x, d in zip(swept, along, strict=True)]
        along = [x - b for x, b in zip(moved, before, strict=True)]
        runs = less(0.5, self.going)
        found = [where(runs, x, b) for x, b in zip(self.part.update(y, moved), moved, strict=True)]
        for row, w, x, b in zip(self.part.rows, self.part.weights, found, moved, strict=True):
            step = x - b
            y = row.add_impulse(y, step)
            # as energy, and as velocity
            size, speed = size + w * step * step, speed + w * w * step * step
        return [*y, size, speed, *found, *moved, *along]
