"""Centre of mass, and the momentum of the whole robot about it."""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.linear import dot
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    acceleration_fields,
    jacobian_from_columns,
    joint_kinematics,
    subspace_rates,
    subtree_sums,
    velocities,
)
from qddot.model.model import Model
from qddot.spatial.algebra import Force, Inertia, Mat3, Motion, Transform, Vec3
from qddot.spatial.scalar import Scalar

__all__ = [
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_map",
    "centroidal_map_rate",
    "centroidal_momentum",
    "centroidal_momentum_derivatives",
    "centroidal_momentum_rate",
    "composite_inertia",
]


def _composite_inertias(model: Model, X: Sequence[Transform]) -> list[Inertia]:
    """Inertia of all beyond each joint in body coordinates; the world's entry is the total."""
    return subtree_sums(model, X, (body.inertia for body in model.bodies), Inertia.zero())


def center_of_mass(model: Model, q: Vector) -> Vec3:
    """Centre of mass of the moving bodies, in the world."""
    X, _ = joint_kinematics(model, q)
    return _center_of(_composite_inertias(model, X)[-1])


def _center_of(total: Inertia) -> Vec3:
    """Centre of mass; the origin where nothing that moves has mass."""
    return _per_mass(total.h, total.mass)


def _per_mass(h: Vec3, mass: Scalar) -> Vec3:
    """A first moment or a linear momentum over the mass; zero where there is no mass."""
    massless = isinstance(mass, float) and mass == 0.0
    return Vec3.zero() if massless else h * (1.0 / mass)


def center_of_mass_jacobian(model: Model, q: Vector) -> Matrix:
    """Jacobian (3 × nv) of the centre of mass: linear momentum by velocity, over the mass."""
    mass = sum((body.inertia.mass for body in model.bodies), 0.0)
    # linear momentum of each freedom over the mass
    rows = zip(*centroidal_map(model, q)[:3], strict=True)
    columns = [_per_mass(Vec3(*column), mass) for column in rows]
    return [[getattr(c, axis) for c in columns] for axis in "xyz"]


def centroidal_map(model: Model, q: Vector) -> Matrix:
    """Centroidal map A_G (6 × nv): momentum about the centre of mass, world axes, by velocity.

    Orin & Goswami 2008, each column from the composite body that its joint moves.
    """
    X, S = joint_kinematics(model, q)
    # leaves to root: inertia of all beyond each joint; the total has the centre of mass
    composite = _composite_inertias(model, X)
    poses, c = world_poses(model, X), _center_of(composite[-1])
    columns = []
    # momentum of the composite body of each joint, at the centre of mass
    for i, body in enumerate(model.bodies):
        for dof, s in zip(body.dofs, S[i], strict=True):
            P = poses[i].to_parent(composite[i].apply(s))
            columns.append((dof, Force(P.lin, P.ang - c.cross(P.lin))))
    return jacobian_from_columns(model, columns)


def centroidal_map_rate(model: Model, q: Vector, v: Vector) -> Matrix:
    """Rate Ȧ_G of the centroidal map along v."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    dS = subspace_rates(S, V)
    # leaves to root: inertia of all beyond each joint, and its rate
    composite = _composite_inertias(model, X)
    rates = (body.inertia.rate(V[i]) for i, body in enumerate(model.bodies))
    rate = subtree_sums(model, X, rates, Inertia.zero())
    # centre of mass and its velocity
    poses, c = world_poses(model, X), _center_of(composite[-1])
    dc = _per_mass(rate[-1].h, composite[-1].mass)
    columns = []
    # product rule on the momentum of each composite body and on the centre of mass
    for i, body in enumerate(model.bodies):
        for dof, s, ds in zip(body.dofs, S[i], dS[i], strict=True):
            P = poses[i].to_parent(composite[i].apply(s))
            dP = poses[i].to_parent(rate[i].apply(s) + composite[i].apply(ds))
            moment = dP.ang - c.cross(dP.lin) - dc.cross(P.lin)
            columns.append((dof, Force(dP.lin, moment)))
    return jacobian_from_columns(model, columns)


def centroidal_momentum_derivatives(model: Model, q: Vector, v: Vector) -> tuple[Matrix, Matrix]:
    """∂h/∂q and ∂h/∂v = A_G of the centroidal momentum (each 6 × nv)."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    # leaves to root: inertia and momentum of all beyond each joint
    composite = _composite_inertias(model, X)
    own = (b.inertia.apply(V[i]) for i, b in enumerate(model.bodies))
    momentum = subtree_sums(model, X, own, Force.zero())
    poses, c, total = world_poses(model, X), _center_of(composite[-1]), momentum[-1].lin
    by_q, by_v = [], []
    # a step along s turns the momentum of the subtree and changes its velocities by V × s
    for i, body in enumerate(model.bodies):
        before = X[i].to_child(V[body.parent])
        for dof, s in zip(body.dofs, S[i], strict=True):
            step = composite[i].apply(before.cross(s)) + s.cross_force(momentum[i])
            H, P = poses[i].to_parent(step), poses[i].to_parent(composite[i].apply(s))
            dc = _per_mass(P.lin, composite[-1].mass)
            by_q.append((dof, Force(H.lin, H.ang - dc.cross(total) - c.cross(H.lin))))
            by_v.append((dof, Force(P.lin, P.ang - c.cross(P.lin))))
    return jacobian_from_columns(model, by_q), jacobian_from_columns(model, by_v)


def centroidal_momentum(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Momentum A_G v of the moving bodies about their centre of mass, world axes."""
    return [dot(row, v) for row in centroidal_map(model, q)]


def centroidal_momentum_rate(model: Model, q: Vector, v: Vector, a: Vector) -> Force:
    """Rate ḣ = A_G a + Ȧ_G v of the centroidal momentum: force and moment at the centre of mass.

    The Newton–Euler forces of all bodies, added up at the world's origin and taken to the centre of
    mass. It equals the weight and all wrenches from outside, those on the base included.
    """
    X, S = joint_kinematics(model, q)
    # root to leaves: Newton–Euler forces; leaves to root: their sum at the origin of the world
    fields = acceleration_fields(model, X, S, v, a, Vec3.zero())
    forces = (b.inertia.newton_euler(f) for b, f in zip(model.bodies, fields, strict=True))
    total = subtree_sums(model, X, forces, Force.zero())[-1]
    # moment about the centre of mass
    c = _center_of(_composite_inertias(model, X)[-1])
    return Force(total.lin, total.ang - c.cross(total.lin))


def composite_inertia(model: Model, q: Vector) -> Matrix:
    """Composite inertia I_G (6 × 6): that of the robot with its joints locked, at its centre.

    About the centre of mass of the moving bodies, in world axes: diag(m 1, I_c). I_G⁻¹ A_G v is the
    average velocity of the robot (Orin & Goswami 2008); reflected inertia is no part of it.
    """
    X, _ = joint_kinematics(model, q)
    # inertia of all bodies about the origin of the world, then about their centre of mass
    total = _composite_inertias(model, X)[-1]
    centred = total.to_parent(Transform(Mat3.identity(), -_center_of(total)))
    units = [Motion.of([1.0 if i == k else 0.0 for i in range(6)]) for k in range(6)]
    I = Inertia(centred.mass, Vec3.zero(), centred.I)
    return [[*I.apply(unit)] for unit in units]
