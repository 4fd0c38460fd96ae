"""Torques that are found together with the motion of a step: friction that holds, bristles, stops.

A step of length Δt ends with v = v₀ + Δt M⁻¹ (τ − h + λ). Torques λ that depend on v itself are
solved for, so that stiff or set-valued ones need no shorter step and give no energy: those that are
linear in v by a term of M, those between bounds as the λ that leaves least kinetic energy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qddot.algorithms.linear import (
    Factor,
    dot,
    factorise,
    mobility,
    solve,
    solve_lower,
    solve_upper,
)
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.spatial.scalar import Scalar, less, where

__all__ = [
    "Drag",
    "Grip",
    "Held",
    "Resistance",
    "clip",
    "hold_joints",
    "largest",
    "resistance",
]

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
    if grips and all(g.rigid for g in grips):
        free = [x + y * dt for x, y in zip(v, a, strict=True)]
        held = hold_joints(
            damped, factor, free, {g.dof: (g.lower * dt, g.upper * dt) for g in grips}
        )
        a = [x + y / dt for x, y in zip(a, held.change, strict=True)]
        push = [x / dt for x in held.impulse]
        stuck, miss = held.inside, held.miss
    elif grips:
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


@dataclass(frozen=True)
class Held:
    """Impulses on joints and the change of the velocities that they make, both by velocity.

    `inside` is 1 where an impulse is between its bounds, else 0; `miss` is the largest velocity by
    which one misses what its bounds leave.
    """

    impulse: list[Scalar]
    change: list[Scalar]
    inside: dict[int, Scalar]
    miss: Scalar


def hold_joints(
    M: Matrix, factor: Factor, v: Vector, bounds: Mapping[int, tuple[Scalar, Scalar]]
) -> Held:
    """Impulses between bounds, by velocity, that leave least kinetic energy after velocities v.

    The same rounds as for a dense matrix (Silcowitz, Niebe & Erleben 2010), in y = D⁻¹ L⁻ᵀ λ with
    M = Lᵀ D L: sweeps take two products along the way to the root, and the exact minimum between
    bounds comes from M with the joints that come to rest left out, which has the zeros of a tree.
    """
    L, D = factor
    n = range(len(v))
    Y = {k: solve_upper(L, [1.0 if i == k else 0.0 for i in n]) for k in bounds}
    Z = {k: [y / d for y, d in zip(row, D, strict=True)] for k, row in Y.items()}
    W = {k: dot(Y[k], Z[k]) for k in bounds}
    x, y = zeros(len(v)), zeros(len(v))

    def target(k: int) -> Scalar:
        """The impulse that leaves the velocity at rest, or at a bound, with all others as are."""
        return clip(x[k] - (v[k] + dot(Y[k], y)) / W[k], *bounds[k])

    for sweeps in _SWEEPS if len(bounds) > 1 else (1,):
        for k in [*bounds] * sweeps:
            move = target(k) - x[k]
            x[k], y = x[k] + move, [a + b * move for a, b in zip(y, Z[k], strict=True)]
        if len(bounds) > 1:
            x = _rest_step(M, [a + b for a, b in zip(v, solve_lower(L, y), strict=True)], x, bounds)
            y = [a / d for a, d in zip(solve_upper(L, x), D, strict=True)]
    miss: Scalar = 0.0
    for k in bounds:
        off = x[k] - target(k)
        miss = largest(miss, where(less(off, 0.0), -off, off) * W[k])
    inside = _inside([x[k] for k in bounds], list(bounds.values()))
    return Held(x, solve_lower(L, y), dict(zip(bounds, inside, strict=True)), miss)


def _rest_step(
    M: Matrix, u: Vector, x: Vector, bounds: Mapping[int, tuple[Scalar, Scalar]]
) -> list[Scalar]:
    """Impulses after a step to where all joints between bounds rest, or as far as bounds let it.

    With F the joints between bounds and N all others, M_NN w = M_NF u_F is the velocity that the
    others take on when F comes to rest, and M (u_F − w) the impulse that it takes.
    """
    n = range(len(u))
    flags = _inside([x[k] for k in bounds], list(bounds.values()))
    rests = dict(zip(bounds, flags, strict=True))
    free: list[Scalar] = [1.0 - rests[k] if k in rests else 1.0 for k in n]
    others = [
        [where(less(0.5, free[i]), M[i][i], 1.0) if i == j else M[i][j] * free[i] * free[j]
         for j in n]
        for i in n
    ]  # fmt: skip
    resting = [u[k] * rests[k] if k in rests else 0.0 for k in n]
    taken = solve(factorise(others), [dot(M[k], resting) * free[k] for k in n])
    after = [a - b for a, b in zip(resting, taken, strict=True)]
    move = {k: -dot(M[k], after) * rests[k] for k in bounds}
    share = _share_within([x[k] for k in bounds], list(move.values()), list(bounds.values()))
    moved = list(x)
    for k, (low, high) in bounds.items():
        moved[k] = clip(x[k] + share * move[k], low, high)
    return moved


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
    share = _share_within(x, d, bounds)
    return [clip(x[k] + share * d[k], *bounds[k]) for k in n]


def _share_within(x: Vector, d: Vector, bounds: Bounds) -> Scalar:
    """How much of a step d, all of it at most, leaves x within bounds."""
    share: Scalar = 1.0
    for k, (low, high) in enumerate(bounds):
        moves = where(less(0.0, d[k]), 1.0, where(less(d[k], 0.0), 1.0, 0.0))
        room = where(less(0.0, d[k]), high - x[k], low - x[k])
        most = room / where(less(0.5, moves), d[k], 1.0)
        share = where(less(0.5, moves), where(less(most, share), most, share), share)
    return share
