"""Torques that depend on the velocity at the end of a step: friction that holds, bristles, stops.

A step of length Δt ends with v = v₀ + Δt M⁻¹ (τ − h + λ). Torques λ that depend on v itself are
solved for, so that stiff or set-valued ones need no shorter step and add no energy: linear ones by
a term of M, those between bounds as the λ that leaves least kinetic energy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qddot.algorithms.constraints import ConstraintMobility
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
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import Scalar, less, where

__all__ = [
    "DampingTorque",
    "ImplicitTorque",
    "ImplicitTorques",
    "JointImpulses",
    "VelocityConstraint",
    "clip",
    "largest",
    "solve_implicit_torques",
    "solve_joint_impulses",
]

_SWEEPS, _ROUNDS = 4, 6
"""Most sweeps of a round, and most rounds."""
_TOLERANCE = 1e-11
"""Change of velocity (rad/s, m/s) below which no sweep or round follows."""
_DENSE_SWEEPS = (4, 2, 1)
"""Sweeps of the rounds with a dense matrix."""
_DEPENDENT = 1e-8
"""Share that is added to mobilities of joints that depend on each other, so that one λ is least."""


@dataclass(frozen=True)
class DampingTorque:
    """A torque −(offset + slope v) at one velocity; v is that at the end of the step."""

    dof: int
    offset: Scalar
    slope: Scalar


@dataclass(frozen=True)
class VelocityConstraint:
    """A torque λ at one velocity, between bounds, that keeps v + compliance λ + speed at zero.

    Where no torque between the bounds does, it is the nearer bound. Friction has compliance and
    speed 0; a compliant stop has both.
    """

    dof: int
    lower: Scalar
    upper: Scalar
    compliance: Scalar = 0.0
    speed: Scalar = 0.0

    @property
    def rigid(self) -> bool:
        """Whether the compliance is 0."""
        return isinstance(self.compliance, float) and self.compliance == 0.0


ImplicitTorque = DampingTorque | VelocityConstraint


@dataclass(frozen=True)
class ImplicitTorques:
    """The implicit torques of a step; `sticking` is 1 at velocities held at zero, else 0.

    `by_gains` is the part of the torque that velocity gains make, `acceleration` that under all of
    the torques, `v_end` the velocities that they are solved for. `residual` is the largest velocity
    by which a constraint is violated (rad/s, m/s).
    """

    torque: list[Scalar]
    sticking: dict[int, Scalar]
    residual: Scalar
    by_gains: Vector = ()
    acceleration: Vector = ()
    v_end: Vector = ()


def solve_implicit_torques(
    M: Matrix,
    v: Vector,
    drive: Vector,
    dt: Scalar,
    implicit: Sequence[ImplicitTorque],
    damping: Vector,
    loops: tuple[Matrix, Vector] | None = None,
    gains: Matrix | None = None,
) -> ImplicitTorques:
    """The implicit torques during a step from v under the torques `drive` = τ − h.

    `damping` acts on the velocity at the end of the step too, but is not part of the torques.
    `loops` are independent rows J of loop closures and J̇ v: accelerations keep them closed.
    Velocity `gains` K of a law, symmetric, add the torques −K (v_end − v).
    """
    n = range(len(v))
    # linear torques: a term of M, (M + Δt K) a = τ − h − offset − K v
    offset, slope, push = zeros(len(v)), zeros(len(v)), zeros(len(v))
    for x in implicit:
        if isinstance(x, DampingTorque):
            offset[x.dof] = offset[x.dof] + x.offset
            slope[x.dof] = slope[x.dof] + x.slope
    loss = [s + d for s, d in zip(slope, damping, strict=True)]
    damped = [[M[i][j] + loss[i] * dt if i == j else M[i][j] for j in n] for i in n]
    if gains:
        damped = [[damped[i][j] + gains[i][j] * dt for j in n] for i in n]
    factor = factorise(damped)
    a = solve(factor, [drive[k] - offset[k] - loss[k] * v[k] for k in n])
    closure = ConstraintMobility.of(loops[0], factor) if loops else None
    if closure and loops:
        opening = [-(dot(row, a) + b) for row, b in zip(*loops, strict=True)]
        a = [x + y for x, y in zip(a, closure.least_motion(opening), strict=True)]
    # torques between bounds
    constraints = _merge_constraints(implicit)
    sticking: dict[int, Scalar] = {}
    residual: Scalar = 0.0
    if constraints and all(c.rigid for c in constraints):
        free = [x + y * dt for x, y in zip(v, a, strict=True)]
        bounds = {c.dof: (c.lower * dt, c.upper * dt) for c in constraints}
        solution = solve_joint_impulses(damped, factor, free, bounds, closure)
        a = [x + y / dt for x, y in zip(a, solution.change, strict=True)]
        push = [x / dt for x in solution.impulse]
        sticking, residual = solution.inside, solution.residual
    elif constraints:
        rows = _mobility(factor, [c.dof for c in constraints], closure)
        A = [[x * dt for x in row] for row in rows]
        for k, c in enumerate(constraints):
            A[k][k] = A[k][k] + c.compliance
        b = [v[c.dof] + a[c.dof] * dt + c.speed for c in constraints]
        box = [(c.lower, c.upper) for c in constraints]
        torques, residual = _minimise_in_box(A, b, box)
        inside = _inside(torques, box)
        for c, x in zip(constraints, torques, strict=True):
            push[c.dof] = push[c.dof] + x
        sticking = {c.dof: flag for c, flag in zip(constraints, inside, strict=True) if c.rigid}
        carried = closure.remove_force(push) if closure else push
        a = [x + y for x, y in zip(a, solve(factor, carried), strict=True)]
    v_end = [x + y * dt for x, y in zip(v, a, strict=True)]
    torque = [push[k] - offset[k] - slope[k] * v_end[k] for k in n]
    by_gains = zeros(len(v))
    if gains:
        by_gains = [-dot(row, a) * dt for row in gains]
        torque = [t + x for t, x in zip(torque, by_gains, strict=True)]
    return ImplicitTorques(torque, sticking, residual, by_gains, a, v_end)


@dataclass(frozen=True)
class JointImpulses:
    """Impulses on joints and the change of the velocities that they make, both by velocity.

    `inside` is 1 where an impulse is between its bounds, else 0; `residual` is the largest velocity
    by which the optimality conditions are violated.
    """

    impulse: list[Scalar]
    change: list[Scalar]
    inside: dict[int, Scalar]
    residual: Scalar


def solve_joint_impulses(
    M: Matrix,
    factor: Factor,
    v: Vector,
    bounds: Mapping[int, tuple[Scalar, Scalar]],
    closure: ConstraintMobility | None = None,
) -> JointImpulses:
    """Impulses between bounds, by velocity, that leave least kinetic energy after velocities v.

    Where the impulses that oppose v at their bounds leave all velocities in their directions, those
    are it: joints that slide, or that leave their stops. Elsewhere rounds of sweeps and of exact
    minima find it (Silcowitz, Niebe & Erleben 2010), until velocities stop changing.
    """
    box, (L, D) = list(bounds.values()), factor
    if closure:
        # constraints leave a dense mobility
        A, b = _mobility(closure.mass, list(bounds), closure), [v[k] for k in bounds]
        x, residual = _minimise_in_box(A, b, box)
        impulse = _by_velocity(bounds, x, len(v))
        return JointImpulses(
            impulse=impulse,
            change=solve(closure.mass, closure.remove_force(impulse)),
            inside=dict(zip(bounds, _inside(x, box), strict=True)),
            residual=residual,
        )

    def minimise(_: list[Scalar]) -> list[Scalar]:
        return _TreeImpulses.of(M, factor, v, bounds).minimise()

    x = [where(less(0.0, v[k]), low, high) for k, (low, high) in bounds.items()]
    impulse = _by_velocity(bounds, x, len(v))
    change = solve_lower(L, [a / d for a, d in zip(solve_upper(L, impulse), D, strict=True)])
    wrong: Scalar = 0.0
    for k, (low, high) in bounds.items():
        turns = less((v[k] + change[k]) * where(less(0.0, v[k]), 1.0, -1.0), 0.0)
        wrong = where(turns, where(less(low, high), 1.0, wrong), wrong)
    found = run_where(wrong, minimise, [*x, *change, 0.0])
    x, change, residual = found[: len(box)], found[len(box) : -1], found[-1]
    inside = dict(zip(bounds, _inside(x, box), strict=True))
    return JointImpulses(_by_velocity(bounds, x, len(v)), change, inside, residual)


def _by_velocity(dofs: Iterable[int], x: Vector, n: int) -> list[Scalar]:
    """Numbers at some of n velocities, zero at the others."""
    found = zeros(n)
    for k, y in zip(dofs, x, strict=True):
        found[k] = y
    return found


@dataclass(frozen=True)
class _TreeImpulses:
    """Impulses x between bounds on joints of a tree, in y = D⁻¹ L⁻ᵀ x with M = Lᵀ D L.

    By joint, Y has L⁻ᵀ of a unit impulse, Z = D⁻¹ Y, and W the mobility. Sweeps take two products
    along the way to the root, and the exact minimum between bounds comes from M with the joints
    that come to rest left out, which has the zeros of a tree.
    """

    M: Matrix
    factor: Factor
    v: Vector
    bounds: Mapping[int, tuple[Scalar, Scalar]]
    Y: list[list[Scalar]]
    Z: list[list[Scalar]]
    W: list[Scalar]

    @staticmethod
    def of(
        M: Matrix, factor: Factor, v: Vector, bounds: Mapping[int, tuple[Scalar, Scalar]]
    ) -> _TreeImpulses:
        """The problem from M, its factors, and the velocities before the impulses."""
        L, D = factor
        Y = [solve_upper(L, [1.0 if i == k else 0.0 for i in range(len(v))]) for k in bounds]
        Z = [[y / d for y, d in zip(row, D, strict=True)] for row in Y]
        W = [dot(a, b) for a, b in zip(Y, Z, strict=True)]
        return _TreeImpulses(M, factor, v, bounds, Y, Z, W)

    def reduced_impulse(self, x: Vector) -> list[Scalar]:
        """y = D⁻¹ L⁻ᵀ x of impulses x."""
        impulse, (L, D) = _by_velocity(self.bounds, x, len(self.v)), self.factor
        return [a / d for a, d in zip(solve_upper(L, impulse), D, strict=True)]

    def minimise(self) -> list[Scalar]:
        """The impulses, the change of the velocities that they make, and the residual."""
        count, n = len(self.bounds), len(self.v)
        if count == 1:
            _, x, *y = self.sweep([1.0, *zeros(1 + n)])
            return [x, *solve_lower(self.factor[0], y), 0.0]
        # a number that is recorded where others are, and is 1
        going = where(less(self.W[0], 0.0), 0.0, 1.0)
        start = [going, *zeros(count + n), 0.0]
        found = run_while(self._run_round, start, _ROUNDS)
        return [
            *found[1 : 1 + count],
            *solve_lower(self.factor[0], found[1 + count : -1]),
            found[-1],
        ]

    def _run_round(self, state: list[Scalar]) -> list[Scalar]:
        """Sweeps, then a step towards the exact minimum over the impulses between bounds.

        With F the joints between bounds and N all others, M_NN w = M_NF u_F is the velocity that
        the others take on when F comes to rest, and M (u_F − w) the impulse that it takes.
        """
        going, count, L, M = state[0], len(self.bounds), self.factor[0], self.M
        runs = less(0.5, going)
        # which impulses are at a bound
        _, *swept = run_while(self.sweep, state[:-1], _SWEEPS)
        x, y = swept[:count], swept[count:]
        u = [a + b for a, b in zip(self.v, solve_lower(L, y), strict=True)]
        n, box = range(len(u)), list(self.bounds.values())
        rests = dict(zip(self.bounds, _inside(x, box), strict=True))
        free: list[Scalar] = [1.0 - rests[k] if k in rests else 1.0 for k in n]
        others = [
            [where(less(0.5, free[i]), M[i][i], 1.0) if i == j else M[i][j] * free[i] * free[j]
             for j in n]
            for i in n
        ]  # fmt: skip
        # velocities of the others, and impulses, when joints between bounds come to rest
        resting = [u[k] * rests[k] if k in rests else 0.0 for k in n]
        w = solve(factorise(others), [dot(M[k], resting) * free[k] for k in n])
        after = [a - b for a, b in zip(resting, w, strict=True)]
        move = [-dot(M[k], after) * rests[k] for k in self.bounds]
        # the step towards that, cut short at the bounds
        share = _step_length(x, move, box)
        better = [clip(a + share * b, *c) for a, b, c in zip(x, move, box, strict=True)]
        x = [where(runs, a, b) for a, b in zip(better, x, strict=True)]
        y = [where(runs, a, b) for a, b in zip(self.reduced_impulse(x), y, strict=True)]
        # residual of the optimality conditions
        residual: Scalar = 0.0
        for i, (k, (low, high)) in enumerate(self.bounds.items()):
            best = clip(x[i] - (self.v[k] + dot(self.Y[i], y)) / self.W[i], low, high)
            off = x[i] - best
            residual = largest(residual, where(less(off, 0.0), -off, off) * self.W[i])
        residual = where(runs, residual, state[-1])
        return [where(less(_TOLERANCE, residual), going, 0.0), *x, *y, residual]

    def sweep(self, state: list[Scalar]) -> list[Scalar]:
        """Each impulse stops its velocity or is at a bound, where the last sweep changed any."""
        going, count = state[0], len(self.bounds)
        x, y, changed = state[1 : 1 + count], state[1 + count :], 0.0
        for i, (k, (low, high)) in enumerate(self.bounds.items()):
            best = clip(x[i] - (self.v[k] + dot(self.Y[i], y)) / self.W[i], low, high)
            move = where(less(0.5, going), best - x[i], 0.0)
            x[i], y = x[i] + move, [a + b * move for a, b in zip(y, self.Z[i], strict=True)]
            changed = largest(changed, where(less(move, 0.0), -move, move) * self.W[i])
        return [where(less(_TOLERANCE, changed), going, 0.0), *x, *y]


def _mobility(factor: Factor, dofs: Sequence[int], closure: ConstraintMobility | None) -> Matrix:
    """Velocities by unit impulses at these velocities, where constraints hold if there are any."""
    n = range(len(factor[1]))
    rows = [[1.0 if i == k else 0.0 for i in n] for k in dofs]
    if not closure:
        return mobility(factor, rows)
    A = mobility(factor, [closure.remove_force(row) for row in rows])
    # more joints may be held than are free to move: the least of their impulses
    for k in range(len(A)):
        A[k][k] = A[k][k] * (1.0 + _DEPENDENT)
    return A


def largest(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two numbers, a where one is NaN; cheaper than `maximum`, which keeps NaN."""
    return where(less(a, b), b, a)


def clip(x: Scalar, lower: Scalar, upper: Scalar) -> Scalar:
    """x, or the bound that it exceeds."""
    return where(less(x, lower), lower, where(less(upper, x), upper, x))


def _merge_constraints(implicit: Sequence[ImplicitTorque]) -> list[VelocityConstraint]:
    """The constraints, rigid ones at the same velocity as one."""
    rigid: dict[int, VelocityConstraint] = {}
    others = []
    for x in implicit:
        if isinstance(x, VelocityConstraint) and x.rigid:
            before = rigid.get(x.dof, VelocityConstraint(x.dof, 0.0, 0.0))
            bounds = before.lower + x.lower, before.upper + x.upper
            rigid[x.dof] = VelocityConstraint(x.dof, *bounds)
        elif isinstance(x, VelocityConstraint):
            others.append(x)
    return [*rigid.values(), *others]


Bounds = Sequence[tuple[Scalar, Scalar]]


def _minimise_in_box(A: Matrix, b: Vector, bounds: Bounds) -> tuple[list[Scalar], Scalar]:
    """x between bounds with least ½ xᵀ A x + bᵀ x, and the residual, as a velocity.

    Rounds of Gauss–Seidel sweeps, which find the bounds that are active, and of the exact minimum
    over the other coordinates, cut short at the bounds (Silcowitz, Niebe & Erleben 2010). No
    iteration makes the objective larger.
    """
    n, x = range(len(b)), zeros(len(b))
    if len(b) == 1:
        return [clip(-b[0] / A[0][0], *bounds[0])], 0.0

    def best(k: int) -> Scalar:
        """The minimum over x[k] between its bounds, with all others as they are."""
        return clip(x[k] - (dot(A[k], x) + b[k]) / A[k][k], *bounds[k])

    for sweeps in _DENSE_SWEEPS:
        # Gauss–Seidel: which coordinates are at a bound
        for _ in range(sweeps):
            for k in n:
                x[k] = best(k)
        # exact minimum over the coordinates between bounds
        free = _inside(x, bounds)
        face = [
            [where(less(0.5, free[i]), A[i][i], 1.0) if i == j else A[i][j] * free[i] * free[j]
             for j in n]
            for i in n
        ]  # fmt: skip
        slope = [(dot(A[k], x) + b[k]) * free[k] for k in n]
        d = [-y for y in solve(factorise(face), slope)]
        share = _step_length(x, d, bounds)
        x = [clip(x[k] + share * d[k], *bounds[k]) for k in n]
    # residual of the optimality conditions
    residual: Scalar = 0.0
    for k in n:
        off = x[k] - best(k)
        residual = largest(residual, where(less(off, 0.0), -off, off) * A[k][k])
    return x, residual


def _inside(x: Vector, bounds: Bounds) -> list[Scalar]:
    """1 where x is between its bounds, 0 where it is at one."""
    return [
        where(less(low, y), where(less(y, high), 1.0, 0.0), 0.0)
        for y, (low, high) in zip(x, bounds, strict=True)
    ]


def _step_length(x: Vector, d: Vector, bounds: Bounds) -> Scalar:
    """The largest share of a step d, at most 1, that leaves x within bounds."""
    share: Scalar = 1.0
    for k, (low, high) in enumerate(bounds):
        moves = where(less(0.0, d[k]), 1.0, where(less(d[k], 0.0), 1.0, 0.0))
        room = where(less(0.0, d[k]), high - x[k], low - x[k])
        most = room / where(less(0.5, moves), d[k], 1.0)
        share = where(less(0.5, moves), where(less(most, share), most, share), share)
    return share
