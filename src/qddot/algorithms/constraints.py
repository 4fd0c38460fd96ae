"""Loop closures and contacts: how far they are open, their Jacobian, and the dynamics under them.

A constraint compares two frames, turned so that z is its axis. With r and R the place and the
attitude of the second as the first sees it, its equations are r = 0 along x, y, z and

| kinds | equations about the axes |
| --- | --- |
| revolute, planar | 2 z × R z / (1 + z · R z) = 0 about x and y: the axes z coincide |
| universal | −z · R x = 0 about y: axis z of the first is square to axis x of the second |
| prismatic, weld, surface | 2 tan(angle / 2) times the axis of R = 0: the attitudes are equal |

Where a constraint holds, the rate of an equation is the velocity of the second frame relative to
the first along or about that axis, and its multiplier the force or moment on the second frame. The
first and third have no zero but the true one; frames half a turn apart give infinities or NaN.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from qddot.algorithms.inverse_dynamics import inverse_dynamics
from qddot.algorithms.kinematics import (
    TASK_AXES,
    ReferenceAxes,
    frame_classical_acceleration,
    frame_jacobian,
    frame_jacobian_rate,
)
from qddot.algorithms.linear import Factor, dot, factorise, mobility, solve
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.model.joints import plane_basis
from qddot.model.links import Contact, Loop
from qddot.model.model import WORLD, Body, Frame, Model
from qddot.spatial.algebra import Force, Mat3, Motion, Subspace, Transform, Vec3
from qddot.spatial.dual import Dual, partials_of
from qddot.spatial.regions import run_where
from qddot.spatial.scalar import Scalar, less, maximum, minimum, where

__all__ = [
    "ConstraintMobility",
    "Constraints",
    "add_constraint_forces",
    "constrained_dynamics",
    "constraint_bias",
    "constraint_jacobian",
    "constraint_jacobian_rate",
    "constraint_residual",
    "factorise_definite",
    "impact",
    "independent_rows",
]

Constraint = Loop | Contact
Constraints = Sequence[Constraint] | None
Path = list[tuple[Body, Transform, Subspace]]
Equation = tuple[Scalar, Force]
"""The value of an equation, and the force on the second frame whose power is its rate."""

_X, _Y, _Z = Mat3.identity()
_SINGULAR = 1e-12
"""The share of a row's mobility below which what the rows after it leave of it is rounding."""
_NOTHING = 1e-20
"""The share of the largest mobility below which a row moves nothing."""
_DAMPING, _STEPS, _TINY = 1e-6, 6, 1e-30
"""Share of the largest mobility that damps a singular one, damped steps, and the least size."""


def _align_axes_equations(R: Mat3) -> list[tuple[Scalar, Vec3]]:
    """Axes z coincide: 2 z × R z / (1 + z · R z), about x and y."""
    scale = 1.0 / (1.0 + R.c.z)
    values = (R.b.z * scale * -2.0, R.a.z * scale * 2.0)
    across = (R.b * -2.0, R.a * 2.0)
    return [
        (value, _Z.cross(p - R.c * value) * scale) for value, p in zip(values, across, strict=True)
    ]


def _perpendicular_axes_equations(R: Mat3) -> list[tuple[Scalar, Vec3]]:
    """Axis z of the first frame is square to axis x of the second."""
    return [(0.0, _X), (-R.c.x, R.c.cross(_X))]


def _equal_attitude_equations(R: Mat3) -> list[tuple[Scalar, Vec3]]:
    """Twice the Rodrigues vector of R: 2 tan(angle / 2) times its axis."""
    turn = R.axial_vector() * (2.0 / (1.0 + R.trace()))
    return [
        (value, e + e.cross(turn) * 0.5 + turn * (value * 0.25))
        for value, e in zip(turn, (_X, _Y, _Z), strict=True)
    ]


_TURNS = {
    "revolute": _align_axes_equations,
    "planar": _align_axes_equations,
    "universal": _perpendicular_axes_equations,
}
"""The equations about axes by kind; those that are not named here hold the whole attitude."""


def _constraint_equations(constraint: Constraint, X: Transform) -> list[Equation]:
    """The equations of a constraint at the pose X of its second frame in the first."""
    rows = [TASK_AXES.index(row) for row in constraint.rows]
    none = Vec3.zero()
    found = {k: (x, Force(e, none)) for k, (x, e) in enumerate(zip(X.p, X.R, strict=True))}
    if any(k >= 3 for k in rows):
        turns = _TURNS.get(constraint.kind, _equal_attitude_equations)(X.R)
        found |= {k: (x, Force(none, e)) for k, (x, e) in enumerate(turns, 3)}
    return [found[k] for k in rows]


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Two frames, the ways to them from the last body that both hang on, and X of 2 in 1."""

    path1: Path
    path2: Path
    placement1: Transform
    placement2: Transform
    X: Transform


def _frame_pair(model: Model, q: Vector, constraint: Constraint) -> _Pair:
    """The two frames that a constraint compares, turned so that z is its axis."""
    if isinstance(constraint, Contact):
        frame1 = Frame("world", WORLD, constraint.place or Transform.identity())
        frame2 = model.frame(constraint.frame)
    else:
        frames = (model.frame(constraint.frame1), model.frame(constraint.frame2))
        turn = Transform(Mat3(*plane_basis(Vec3(*constraint.axis))).T, Vec3.zero())
        frame1, frame2 = (
            dataclasses.replace(frame, placement=frame.placement @ turn) for frame in frames
        )
    # joints between both frames and the last body that carries both
    chains = [[*model.ancestors(frame.body), WORLD] for frame in (frame1, frame2)]
    top = next(i for i in chains[0] if i in chains[1])
    between = (reversed(chain[: chain.index(top)]) for chain in chains)
    # each from the root side outward: bodies with their pose in the parent and their subspace
    path1, path2 = (
        [(model.bodies[i], *model.bodies[i].kinematics(q)) for i in chain] for chain in between
    )
    X1, X2 = _end_pose(path1, frame1), _end_pose(path2, frame2)
    return _Pair(path1, path2, frame1.placement, frame2.placement, X1.inverse() @ X2)


def _end_pose(path: Path, frame: Frame) -> Transform:
    X = Transform.identity()
    # root to frame
    for _, X_parent, _ in path:
        X = X @ X_parent
    return X @ frame.placement


def _constraints_or_loops(model: Model, constraints: Constraints) -> Sequence[Constraint]:
    return model.loops if constraints is None else constraints


def _holds_anywhere(constraint: Constraint) -> bool:
    """Whether it is a contact that holds a frame wherever it is."""
    return isinstance(constraint, Contact) and constraint.place is None


def _select_rows(constraint: Constraint, twist: Sequence[Any]) -> list[Any]:
    """The rows of something of six rows that a constraint names."""
    return [twist[TASK_AXES.index(row)] for row in constraint.rows]


def _frame_options(constraint: Constraint) -> dict[str, Any]:
    return {"frame": constraint.name, "reference": "local_world_aligned"}


def constraint_residual(
    model: Model, q: Vector, *, constraints: Constraints = None
) -> list[Scalar]:
    """Residual φ (nc) of loop closures and contacts: zero where they hold.

    The pose of the second frame of a loop as its first one sees it: lengths, and twice the tangent
    of half an angle. Without `constraints`, the loops of the model.
    """
    found: list[Scalar] = []
    # a contact that holds anywhere is never open
    for constraint in _constraints_or_loops(model, constraints):
        if _holds_anywhere(constraint):
            found += zeros(constraint.size)
        else:
            X = _frame_pair(model, q, constraint).X
            found += [value for value, _ in _constraint_equations(constraint, X)]
    return found


def constraint_jacobian(model: Model, q: Vector, *, constraints: Constraints = None) -> Matrix:
    """Jacobian J (nc × nv) of the constraints: J v is the rate of their residual, open or closed.

    Its transpose takes multipliers to joint torques.
    """
    J: Matrix = []
    for constraint in _constraints_or_loops(model, constraints):
        # a contact that holds anywhere has rows of the frame Jacobian
        if _holds_anywhere(constraint):
            J += _select_rows(constraint, frame_jacobian(model, q, **_frame_options(constraint)))
            continue
        pair = _frame_pair(model, q, constraint)
        # the relative velocity by each joint velocity, with the index of the latter
        columns: list[tuple[int, Motion]] = []
        first = pair.placement1 @ pair.X
        for path, X, sign in ((pair.path1, first, -1.0), (pair.path2, pair.placement2, 1.0)):
            for body, X_parent, S in reversed(path):
                columns += [
                    (dof, X.to_child(s) * sign) for dof, s in zip(body.dofs, S, strict=True)
                ]
                X = X_parent @ X
        # a row is the power of the unit force of its equation
        for _, force in _constraint_equations(constraint, pair.X):
            row: list[Scalar] = zeros(model.nv)
            for dof, column in columns:
                row[dof] = row[dof] + column.dot(force)
            J.append(row)
    return J


def constraint_jacobian_rate(
    model: Model, q: Vector, v: Vector, *, constraints: Constraints = None
) -> Matrix:
    """Rate J̇ (nc × nv) of the Jacobian of the constraints along v: it, run on dual numbers."""
    # the configuration with its rate along v, as dual numbers
    moving: list[Scalar] = list(q)
    for body in model.independent:
        rates = body.joint.kind.tangent(q[body.iq])
        for k, rate in zip(range(body.iq.start, body.iq.stop), rates, strict=True):
            moving[k] = Dual(q[k], {0: dot(rate, v[body.iv])})
    # the rows of each constraint: those of its frame, or the dual parts of its own Jacobian
    J: Matrix = []
    for constraint in _constraints_or_loops(model, constraints):
        if _holds_anywhere(constraint):
            J += _select_rows(
                constraint, frame_jacobian_rate(model, q, v, **_frame_options(constraint))
            )
        else:
            rows = constraint_jacobian(model, moving, constraints=[constraint])
            J += [[partials_of(x, 1)[0] for x in row] for row in rows]
    return J


def constraint_bias(
    model: Model, q: Vector, v: Vector, *, constraints: Constraints = None
) -> list[Scalar]:
    """Bias J̇ v (nc): the acceleration of the constraints while that of the joints is zero."""
    found: list[Scalar] = []
    for constraint in _constraints_or_loops(model, constraints):
        if _holds_anywhere(constraint):
            still = zeros(model.nv)
            drift = frame_classical_acceleration(model, q, v, still, **_frame_options(constraint))
            found += _select_rows(constraint, [*drift])
            continue
        # root to either frame: velocity, and its rate at q̈ = 0 with A = X A_parent + V × vJ
        pair = _frame_pair(model, q, constraint)
        ends = []
        for path, placement in ((pair.path1, pair.placement1), (pair.path2, pair.placement2)):
            V, A = Motion.zero(), Motion.zero()
            for body, X, S in path:
                vJ = S * v[body.iv]
                V = X.to_child(V) + vJ
                A = X.to_child(A) + V.cross(vJ)
            ends.append((placement.to_child(V), placement.to_child(A)))
        # velocity of frame 2 relative to frame 1, in coordinates of frame 2, and its rate
        (V1, A1), (V2, A2) = ends
        carried = pair.X.to_child(V1)
        V = V2 - carried
        A = A2 - pair.X.to_child(A1) + V.cross(carried)
        # power of the forces of all equations, and its rate as pose and velocity move on
        R = Mat3(*(_dual_vector(row, row.cross(V.ang)) for row in pair.X.R))
        X = Transform(R, _dual_vector(pair.X.p, pair.X.R.apply(V.lin)))
        moving = Motion(_dual_vector(V.lin, A.lin), _dual_vector(V.ang, A.ang))
        forces = [force for _, force in _constraint_equations(constraint, X)]
        found += [partials_of(moving.dot(force), 1)[0] for force in forces]
    return found


def _dual_vector(x: Vec3, rate: Vec3) -> Vec3:
    """A vector with its rate, as dual numbers."""
    return Vec3(*(Dual(a, {0: b}) for a, b in zip(x, rate, strict=True)))


def independent_rows(model: Model, constraints: Constraints = None) -> list[int]:
    """Indices of the rows of constraints that are not marked as redundant."""
    given = _constraints_or_loops(model, constraints)
    marks = [row in c.redundant for c in given for row in c.rows]
    return [k for k, redundant in enumerate(marks) if not redundant]


def factorise_definite(A: Matrix) -> Factor:
    """The factors of a symmetric matrix; the pivot of a row that others make up is zero.

    Where a row is a combination of those after it, nothing but rounding is left of its pivot.
    """
    L, d = factorise(A)
    whole = [less(A[k][k] * _SINGULAR, d[k]) for k in range(len(d))]
    return L, [where(sound, x, 0.0) for sound, x in zip(whole, d, strict=True)]


def _factorise_semidefinite(A: Matrix, least: float) -> tuple[Factor, Scalar]:
    """The factors of the independent rows of a symmetric matrix, and its least pivot.

    Pivots are measured by the largest entry of the diagonal of A. One that is no more than the
    `least`, or rounding of its own entry, is infinite: a solution is zero in that row.
    """
    size: Scalar = 0.0
    for k in range(len(A)):
        size = maximum(size, A[k][k])
    smallest: Scalar = 1.0

    def pivot(k: int, rest: Scalar) -> Scalar:
        nonlocal smallest
        sound = less(maximum(size * least, A[k][k] * _SINGULAR), rest)
        smallest = minimum(smallest, where(sound, rest / size, 0.0))
        return where(sound, rest, math.inf)

    return factorise(A, pivot), smallest


@dataclasses.dataclass(frozen=True)
class ConstraintMobility:
    """Rows J of constraints, with the factors of M (or another metric) and of J M⁻¹ Jᵀ.

    Rows that others make up are left out: their multipliers are zero. `pivot` is the least pivot
    of J M⁻¹ Jᵀ by its largest entry: 0 where rows are left out, else about the square of the
    distance (rad) from where they are.
    """

    J: Matrix
    mass: Factor
    mobility: Factor
    pivot: Scalar = 1.0

    @staticmethod
    def of(J: Matrix, mass: Factor, least: float = _NOTHING) -> ConstraintMobility:
        """The mobility of rows J, from the factors of M; rows of less than the pivot are out."""
        return ConstraintMobility(J, mass, *_factorise_semidefinite(mobility(mass, J), least))

    def multipliers(self, right: Vector) -> list[Scalar]:
        """λ of (J M⁻¹ Jᵀ) λ = right."""
        return solve(self.mobility, right)

    def least_motion(self, right: Vector) -> list[Scalar]:
        """The motion x = M⁻¹ Jᵀ λ with J x = right, the least in the metric of M."""
        zero = zeros(len(self.mass[1]))
        return solve(self.mass, add_constraint_forces(self.J, self.multipliers(right), zero))

    def remove_force(self, force: Vector) -> list[Scalar]:
        """The force f − Jᵀ λ that accelerates within the constraints: J M⁻¹ (f − Jᵀ λ) = 0."""
        free = solve(self.mass, force)
        multipliers = self.multipliers([-dot(row, free) for row in self.J])
        return add_constraint_forces(self.J, multipliers, force)

    def remove_motion(self, x: Vector) -> list[Scalar]:
        """The motion nearest to x, in the metric of M, that the constraints admit: J x = 0."""
        change = self.least_motion([-dot(row, x) for row in self.J])
        return [a + b for a, b in zip(x, change, strict=True)]


def _solve_multipliers(
    factor: Factor, J: Matrix, right: Vector, kept: Sequence[int]
) -> list[Scalar]:
    """λ of (J M⁻¹ Jᵀ) λ = right by the independent rows; that of a redundant row is zero.

    Where the independent rows depend on each other, the least λ of all rows by least squares.
    """
    held = ConstraintMobility.of([J[k] for k in kept], factor)
    found: list[Scalar] = zeros(len(J))
    for k, x in zip(kept, held.multipliers([right[k] for k in kept]), strict=True):
        found[k] = x
    if not kept:
        return found

    def least(_: list[Scalar]) -> list[Scalar]:
        return _least_multipliers(mobility(factor, J), right)

    return run_where(where(less(0.0, held.pivot), 0.0, 1.0), least, found)


def _least_multipliers(A: Matrix, right: Vector) -> list[Scalar]:
    """Least λ of least |A λ − right|, for a singular mobility A, by damped steps.

    Each is (A + ε)⁻¹ (A (A + ε)⁻¹)² of what is left, which moves nothing where A does not: where
    only rounding δ is left of A, the steps take δ² / ε³ of it.
    """
    n = range(len(A))
    size: Scalar = _TINY
    for k in n:
        size = maximum(size, A[k][k])
    damped = factorise([[A[i][j] + (size * _DAMPING if i == j else 0.0) for j in n] for i in n])
    found: list[Scalar] = zeros(len(A))
    for _ in range(_STEPS):
        left = [b - dot(row, found) for b, row in zip(right, A, strict=True)]
        for _ in range(2):
            inner = solve(damped, left)
            left = [dot(row, inner) for row in A]
        step = solve(damped, left)
        found = [x + dx for x, dx in zip(found, step, strict=True)]
    return found


def add_constraint_forces(J: Matrix, multipliers: Vector, onto: Vector) -> list[Scalar]:
    """Generalised forces with those of multipliers, Jᵀ λ, added."""
    total = list(onto)
    for row, force in zip(J, multipliers, strict=True):
        total = [x + entry * force for x, entry in zip(total, row, strict=True)]
    return total


def constrained_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    tau: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    forces: Sequence[tuple[str, ReferenceAxes]] = (),
    friction: bool = False,
    constraints: Constraints = None,
    stabilisation: float | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Accelerations q̈ and multipliers λ of M q̈ + C v + g = τ + Jᵀ λ with J q̈ + J̇ v = 0.

    Featherstone 2008, section 8.5, with M factorised: (J M⁻¹ Jᵀ) λ = −(J q̈₀ + J̇ v), q̈₀ that of
    the open tree. With `stabilisation` k, a rate in 1/s, the right side is −2 k J v − k² φ, so that
    what is open closes as exp(−k t) (Baumgarte 1972). Rows that others make up wherever the loops
    are closed are left out, which a warning says once: their λ is zero. Where the rows that are
    left depend on each other, λ of all rows are the least ones by least squares.
    """
    J = constraint_jacobian(model, q, constraints=constraints)
    drift = constraint_bias(model, q, v, constraints=constraints)
    # Baumgarte: constraints that are open close at this rate
    if stabilisation is not None:
        phi = constraint_residual(model, q, constraints=constraints)
        k = stabilisation
        drift = [
            d + dot(row, v) * (2.0 * k) + x * (k * k)
            for d, row, x in zip(drift, J, phi, strict=True)
        ]
    # accelerations of the open tree
    h = inverse_dynamics(model, q, v, zeros(model.nv), f_ext, forces=forces, friction=friction)
    push = [t - b for t, b in zip(tau, h, strict=True)]
    factor = factorise(mass_matrix(model, q))
    free = solve(factor, push)
    # multipliers that cancel the acceleration of the constraints
    opening = [-(dot(row, free) + d) for row, d in zip(J, drift, strict=True)]
    multipliers = _solve_multipliers(factor, J, opening, independent_rows(model, constraints))
    return solve(factor, add_constraint_forces(J, multipliers, push)), multipliers


def impact(
    model: Model, q: Vector, v: Vector, restitution: Vector, *, constraints: Constraints = None
) -> tuple[list[Scalar], list[Scalar]]:
    """Velocity v⁺ after an impact and its impulses: J v⁺ = −e J v, with e an equation.

    Featherstone 2008, section 11.7: M (v⁺ − v) = Jᵀ ι. With e = 0 the constraints hold from then
    on; e = 1 keeps the energy. Redundant rows are left out as in `constrained_dynamics`, their e
    with them.
    """
    J = constraint_jacobian(model, q, constraints=constraints)
    factor = factorise(mass_matrix(model, q))
    # impulses that give the rows their velocity after the impact
    closing = [-(dot(row, v) * (e + 1.0)) for row, e in zip(J, restitution, strict=True)]
    impulses = _solve_multipliers(factor, J, closing, independent_rows(model, constraints))
    change = solve(factor, add_constraint_forces(J, impulses, zeros(model.nv)))
    return [x + dx for x, dx in zip(v, change, strict=True)], impulses
