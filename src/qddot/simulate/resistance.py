"""Torques that are found together with the motion of a step: friction that holds, bristles, stops.

A step of length Δt ends with v = v₀ + Δt M⁻¹ (τ − h + λ). Torques λ that depend on v itself are
solved for, so that stiff or set-valued ones need no shorter step and give no energy: those that are
linear in v by a term of M, those between bounds as the λ that leaves least kinetic energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qddot.algorithms.linear import dot, factorise, mobility, solve
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.scalar import Scalar, less, where

__all__ = ["Drag", "Grip", "Resistance", "clip", "largest", "resistance"]

_SWEEPS = (4, 2, 1)


@dataclass(frozen=True)
class Drag:
    """A torque −(offset + slope v) at one velocity; v is that at the end of the step."""

    dof: int
    offset: Scalar
    slope: Scalar


@dataclass(frozen=True)
class Grip:
    """A torque λ at one velocity, between bounds, that keeps v + compliance λ + speed at zero.

    Where none between the bounds does, it is the bound that comes closest. Friction that holds has
    neither compliance nor speed; a stop that gives way has both.
    """

    dof: int
    lower: Scalar
    upper: Scalar
    compliance: Scalar = 0.0
    speed: Scalar = 0.0

    @property
    def rigid(self) -> bool:
        """Whether it holds without giving way."""
        return isinstance(self.compliance, float) and self.compliance == 0.0


@dataclass(frozen=True)
class Resistance:
    """Torques that resist during a step; `stuck` is 1 at velocities that friction holds, else 0.

    `miss` is the largest velocity by which a grip misses its law (rad/s, m/s).
    """

    torque: list[Scalar]
    stuck: dict[int, Scalar]
    miss: Scalar


def resistance(
    M: Matrix,
    v: Vector,
    drive: Vector,
    dt: Scalar,
    parts: Sequence[Drag | Grip],
    damping: Vector,
) -> Resistance:
    """The torques of all parts during a step from v under the torques `drive` = τ − h.

    `damping` acts on the velocity at the end of the step too, but is not part of the torques.
    """
    n = range(len(v))
    offset, slope, push = zeros(len(v)), zeros(len(v)), zeros(len(v))
    for part in parts:
        if isinstance(part, Drag):
            offset[part.dof] = offset[part.dof] + part.offset
            slope[part.dof] = slope[part.dof] + part.slope
    loss = [s + d for s, d in zip(slope, damping, strict=True)]
    damped = [[M[i][j] + loss[i] * dt if i == j else M[i][j] for j in n] for i in n]
    factor = factorise(damped)
    a = solve(factor, [drive[k] - offset[k] - loss[k] * v[k] for k in n])
    grips = _joined(parts)
    stuck: dict[int, Scalar] = {}
    miss: Scalar = 0.0
    if grips:
        rows = [[1.0 if k == g.dof else 0.0 for k in n] for g in grips]
        A = [[x * dt for x in row] for row in mobility(factor, rows)]
        for k, g in enumerate(grips):
            A[k][k] = A[k][k] + g.compliance
        b = [v[g.dof] + a[g.dof] * dt + g.speed for g in grips]
        bounds = [(g.lower, g.upper) for g in grips]
        found = _least(A, b, bounds)
        miss = _miss(A, b, bounds, found)
        inside = _inside(found, bounds)
        for g, x in zip(grips, found, strict=True):
            push[g.dof] = push[g.dof] + x
        stuck = {g.dof: flag for g, flag in zip(grips, inside, strict=True) if g.rigid}
        a = [x + y for x, y in zip(a, solve(factor, push), strict=True)]
    torque = [push[k] - offset[k] - slope[k] * (v[k] + a[k] * dt) for k in n]
    return Resistance(torque, stuck, miss)


def largest(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two numbers."""
    return where(less(a, b), b, a)


def clip(x: Scalar, lower: Scalar, upper: Scalar) -> Scalar:
    """x, or the bound that it exceeds."""
    return where(less(x, lower), lower, where(less(upper, x), upper, x))


def _joined(parts: Sequence[Drag | Grip]) -> list[Grip]:
    """The grips, with those that hold the same velocity as one."""
    rigid: dict[int, Grip] = {}
    others = []
    for part in parts:
        if isinstance(part, Grip) and part.rigid:
            before = rigid.get(part.dof, Grip(part.dof, 0.0, 0.0))
            bounds = before.lower + part.lower, before.upper + part.upper
            rigid[part.dof] = Grip(part.dof, *bounds)
        elif isinstance(part, Grip):
            others.append(part)
    return [*rigid.values(), *others]


Bounds = Sequence[tuple[Scalar, Scalar]]


def _least(A: Matrix, b: Vector, bounds: Bounds) -> list[Scalar]:
    """x between bounds with least ½ xᵀ A x + bᵀ x, which no step of the way makes larger.

    Rounds of Gauss–Seidel sweeps, which find the bounds that x stands at, and of the exact minimum
    between the others, as far as the bounds let it (Silcowitz, Niebe & Erleben 2010).
    """
    x: list[Scalar] = zeros(len(b))
    if len(b) == 1:
        return [clip(-b[0] / A[0][0], *bounds[0])]
    for sweeps in _SWEEPS:
        for _ in range(sweeps):
            for k, row in enumerate(A):
                x[k] = clip(x[k] - (dot(row, x) + b[k]) / row[k], *bounds[k])
        x = _face_step(A, b, bounds, x)
    return x


def _miss(A: Matrix, b: Vector, bounds: Bounds, x: Vector) -> Scalar:
    """The largest velocity by which x, found for all of b, misses what its bounds leave."""
    worst: Scalar = 0.0
    for k, row in enumerate(A if len(b) > 1 else ()):
        off = x[k] - clip(x[k] - (dot(row, x) + b[k]) / row[k], *bounds[k])
        worst = largest(worst, where(less(off, 0.0), -off, off) * row[k])
    return worst


def _inside(x: Vector, bounds: Bounds) -> list[Scalar]:
    """1 where x is between its bounds, 0 where it stands at one."""
    return [
        where(less(low, y), where(less(y, high), 1.0, 0.0), 0.0)
        for y, (low, high) in zip(x, bounds, strict=True)
    ]


def _face_step(A: Matrix, b: Vector, bounds: Bounds, x: Vector) -> list[Scalar]:
    """To the minimum with all that stands at a bound kept there, or as far as bounds let it."""
    n, free = range(len(b)), _inside(x, bounds)
    face = [
        [where(less(0.5, free[i]), A[i][i], 1.0) if i == j else A[i][j] * free[i] * free[j]
         for j in n]
        for i in n
    ]  # fmt: skip
    slope = [(dot(A[k], x) + b[k]) * free[k] for k in n]
    d = [-y for y in solve(factorise(face), slope)]
    share: Scalar = 1.0
    for k, (low, high) in enumerate(bounds):
        moves = where(less(0.0, d[k]), 1.0, where(less(d[k], 0.0), 1.0, 0.0))
        room = where(less(0.0, d[k]), high - x[k], low - x[k])
        most = room / where(less(0.5, moves), d[k], 1.0)
        share = where(less(0.5, moves), where(less(most, share), most, share), share)
    return [clip(x[k] + share * d[k], *bounds[k]) for k in n]
