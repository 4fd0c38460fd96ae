"""Closed chains: torques of chosen motors, dynamics of independent velocities, projection.

Of the rows of constraints those that are not marked as redundant are used, as in
`constrained_dynamics`.
"""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.configuration import integrate
from qddot.algorithms.constraints import (
    ConstraintMobility,
    Constraints,
    add_constraint_forces,
    constraint_jacobian,
    constraint_jacobian_rate,
    constraint_residual,
    factorise_definite,
    independent_rows,
)
from qddot.algorithms.coriolis import coriolis_matrix
from qddot.algorithms.inverse_dynamics import gravity, inverse_dynamics
from qddot.algorithms.kinematics import ReferenceAxes
from qddot.algorithms.linear import Factor, dot, factorise, mobility, solve
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.errors import InvalidArgument, UnknownName
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar, less, sqrt, where

__all__ = [
    "BALANCED",
    "close_configuration",
    "constrained_inverse_dynamics",
    "constraint_projection",
    "reduced_dynamics",
    "velocity_indices",
]

BALANCED = 1e-6
"""Share of the load below which what nothing carries is rounding, in single precision too."""


def velocity_indices(model: Model, names: Sequence[str] | None, role: str) -> list[int]:
    """Indices of velocities from names of joints or of velocities, in the order of v; None: all."""
    if names is None:
        return list(range(model.nv))
    # a name is that of a velocity, or of a joint with all of its velocities
    velocities = {name: [k] for k, name in enumerate(model.velocity_names)}
    known = velocities | {b.joint.name: list(b.dofs) for b in model.independent}
    found: set[int] = set()
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise UnknownName(f"{role} joint or velocity", name, known, model.name)
        found |= set(known[name])
    return sorted(found)


def constrained_inverse_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    a: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    actuated: Sequence[str] | None = None,
    forces: Sequence[tuple[str, ReferenceAxes]] = (),
    friction: bool = False,
    constraints: Constraints = None,
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Motor torques τ, multipliers λ and the remaining force: M a + h = B τ + Jᵀ λ + rest.

    `actuated` names joints or velocities with a motor, all if None. Where motors are more than the
    freedoms that the constraints leave, τ is the least (Nakamura & Ghodoussi 1989); where they are
    fewer, the rest is the least in the metric of M⁻¹. A rest below a millionth of the load is zero.
    Infinite or NaN where rows, or motors, depend on each other.
    """
    # load M a + h, and the independent rows of the constraints
    load = inverse_dynamics(model, q, v, a, f_ext, forces=forces, friction=friction)
    rows = constraint_jacobian(model, q, constraints=constraints)
    kept = independent_rows(model, constraints)
    J, driven = [rows[k] for k in kept], velocity_indices(model, actuated, "actuated")
    # motors are fewer than the freedoms that are left, or more
    if len(driven) <= model.nv - len(J):
        tau, multipliers = _torques_of_least_rest(model, q, load, J, driven)
    else:
        tau, multipliers = _least_torques(model.nv, load, J, driven)
    # multipliers of all rows, and what is left of the load
    lam: list[Scalar] = zeros(len(rows))
    for k, x in zip(kept, multipliers, strict=True):
        lam[k] = x
    carried = add_constraint_forces(J, multipliers, tau)
    rest = [x - y for x, y in zip(load, carried, strict=True)]
    rounding = dot(load, load) * (BALANCED * BALANCED)
    return tau, lam, [where(less(x * x, rounding), 0.0, x) for x in rest]


def _torques_of_least_rest(
    model: Model, q: Vector, load: Vector, J: Matrix, driven: Sequence[int]
) -> tuple[list[Scalar], list[Scalar]]:
    """τ and λ of at most as many motors as freedoms, by their mobility under the constraints.

    What is left of the load is least in the metric of M⁻¹: W τ is the acceleration that the load
    would make along the motors, W the mobility of these while the constraints hold.
    """
    # motions that unit torques of the motors make while the constraints hold
    held = _definite_mobility(J, factorise(mass_matrix(model, q)))
    units = [[1.0 if i == k else 0.0 for i in range(model.nv)] for k in driven]
    motions = [held.remove_motion(solve(held.mass, unit)) for unit in units]
    W = [[motion[k] for k in driven] for motion in motions]
    # W τ is the acceleration that the load would make along the motors
    tau = zeros(model.nv)
    torques = solve(factorise_definite(W), [dot(motion, load) for motion in motions])
    for k, x in zip(driven, torques, strict=True):
        tau[k] = x
    # multipliers of what the motors leave of the load
    free = solve(held.mass, [x - t for x, t in zip(load, tau, strict=True)])
    return tau, held.multipliers([dot(row, free) for row in J])


def _definite_mobility(J: Matrix, mass: Factor) -> ConstraintMobility:
    """The mobility of independent rows; infinite or NaN where they depend on each other."""
    return ConstraintMobility(J, mass, factorise_definite(mobility(mass, J)))


def _least_torques(
    nv: int, load: Vector, J: Matrix, driven: Sequence[int]
) -> tuple[list[Scalar], list[Scalar]]:
    """τ and λ of more motors than freedoms: B τ + Jᵀ λ = load with least |τ|.

    Least torques are τ = Bᵀ x with J x = 0. So the metric B Bᵀ of x may take a share of Jᵀ J, with
    which it is definite wherever motors and constraints carry any load.
    """
    # metric B Bᵀ with a share of Jᵀ J
    metric: Matrix = [[float(i == k and k in driven) for k in range(nv)] for i in range(nv)]
    for row in J:
        scaled = [x / dot(row, row) for x in row]
        metric = [
            [m + y * x for m, x in zip(line, row, strict=True)]
            for line, y in zip(metric, scaled, strict=True)
        ]
    # motion of the load in that metric, and what the constraints take of it
    held = _definite_mobility(J, factorise_definite(metric))
    free = solve(held.mass, load)
    multipliers = held.multipliers([dot(row, free) for row in J])
    x = held.remove_motion(free)
    return [x[k] if k in driven else 0.0 for k in range(nv)], multipliers


def reduced_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    *,
    independent: Sequence[str],
    constraints: Constraints = None,
) -> tuple[Matrix, Matrix, Matrix, Matrix, list[Scalar]]:
    """T, Ṫ, M̄, C̄ and ḡ of M̄ u̇ + C̄ u + ḡ = Tᵀ τ, u the independent velocities and v = T u.

    With J_d the columns of the other velocities, T = −J_d⁻¹ J_i and Ṫ = −J_d⁻¹ J̇ T there; M̄ =
    Tᵀ M T, C̄ = Tᵀ (C T + M Ṫ), ḡ = Tᵀ g. Infinite or NaN where J_d is singular. J_d is square:
    as many velocities are independent as the constraints leave.
    """
    # as many velocities depend as there are independent rows
    own = velocity_indices(model, independent, "independent")
    rest = [k for k in range(model.nv) if k not in own]
    kept = independent_rows(model, constraints)
    if len(rest) != len(kept):
        accepted = f"{len(kept)} independent rows leave {model.nv - len(kept)} of {model.nv}"
        raise InvalidArgument("independent", tuple(independent), accepted)
    # J_d: columns of the dependent velocities
    rows = constraint_jacobian(model, q, constraints=constraints)
    rates = constraint_jacobian_rate(model, q, v, constraints=constraints)
    J, dJ = [rows[k] for k in kept], [rates[k] for k in kept]
    square = [[row[k] for k in rest] for row in J]
    # the scale 1 / |row| of each row of a square matrix, and the factors of Â Âᵀ of such rows
    scales = [1.0 / sqrt(dot(row, row)) for row in square]
    rows = [[x * s for x in row] for row, s in zip(square, scales, strict=True)]
    factor = scales, factorise_definite([[dot(a, b) for b in rows] for a in rows])

    def dependent(right: Sequence[Scalar]) -> list[Scalar]:
        """A column of T or Ṫ from its part in the rows: zero at the independent velocities."""
        column = zeros(model.nv)
        for k, x in zip(rest, _solve_rows(square, factor, right), strict=True):
            column[k] = x
        return column

    # columns of T and of its rate
    T = [dependent([-row[k] for row in J]) for k in own]
    for k, column in zip(own, T, strict=True):
        column[k] = 1.0
    dT = [dependent([-dot(row, column) for row in dJ]) for column in T]
    # projection of M, C and g
    M, C, g = mass_matrix(model, q), coriolis_matrix(model, q, v), gravity(model, q)
    MT = [[dot(row, column) for row in M] for column in T]
    forces = [
        [dot(c, x) + dot(m, y) for c, m in zip(C, M, strict=True)]
        for x, y in zip(T, dT, strict=True)
    ]
    projected, reduced = ([[dot(x, y) for y in columns] for x in T] for columns in (MT, forces))
    rows_of_T, rows_of_dT = ([list(row) for row in zip(*A, strict=True)] for A in (T, dT))
    return rows_of_T, rows_of_dT, projected, reduced, [dot(x, g) for x in T]


def _solve_rows(A: Matrix, factor: tuple[list[Scalar], Factor], b: Vector) -> list[Scalar]:
    """x with A x = b for a square A, by its normal equations and one step of refinement.

    No pivots depend on numbers, and the step takes away the error that squaring A makes.
    """
    scales, gram = factor
    x: list[Scalar] = zeros(len(b))
    # normal equations, then once more on the residual
    for _ in range(2):
        left = [(y - dot(row, x)) * s for y, row, s in zip(b, A, scales, strict=True)]
        weights = [y * s for y, s in zip(solve(gram, left), scales, strict=True)]
        x = add_constraint_forces(A, weights, x)
    return x


def constraint_projection(
    model: Model, q: Vector, v: Vector, *, constraints: Constraints = None, iterations: int = 3
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """The nearest q and v that meet the constraints, by distances of M, and the residual φ left.

    Newton steps of the configuration, each the least in the metric of M at the given q; then v
    loses what M-orthogonal projection on J v = 0 takes away, which changes energy only in second
    order.
    """
    mass = factorise(mass_matrix(model, q))
    q1 = close_configuration(model, q, mass, constraints=constraints, iterations=iterations)
    # velocity without the part that the constraints do not admit
    rows = constraint_jacobian(model, q1, constraints=constraints)
    J = [rows[k] for k in independent_rows(model, constraints)]
    held = ConstraintMobility.of(J, factorise(mass_matrix(model, q1)))
    return q1, held.remove_motion(v), constraint_residual(model, q1, constraints=constraints)


def close_configuration(
    model: Model, q: Vector, mass: Factor, *, constraints: Constraints = None, iterations: int
) -> list[Scalar]:
    """The configuration after Newton steps towards φ = 0, each the least in the metric of M."""
    kept = independent_rows(model, constraints)
    q1 = list(q)
    # Newton steps with the metric of the first configuration
    for _ in range(iterations):
        phi = constraint_residual(model, q1, constraints=constraints)
        rows = constraint_jacobian(model, q1, constraints=constraints)
        held = ConstraintMobility.of([rows[k] for k in kept], mass)
        q1 = integrate(model, q1, held.least_motion([-phi[k] for k in kept]))
    return q1
