"""Centre of mass, and the momentum of the whole robot about it."""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    acceleration_fields,
    assembled,
    inward,
    joint_kinematics,
    subspace_rates,
    velocities,
)
from qddot.model import Model
from qddot.scalar import Scalar
from qddot.spatial import Force, Inertia, Mat3, Motion, Transform, Vec3

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


def _composites(model: Model, X: Sequence[Transform], inertias: Sequence[Inertia]) -> list[Inertia]:
    """Sum of the inertias beyond each joint in body coordinates; the world's entry is the total."""
    total = [*inertias, Inertia.zero()]
    for i, body in inward(model):
        total[body.parent] = total[body.parent] + X[i].to_parent(total[i])
    return total


def center_of_mass(model: Model, q: Vector) -> Vec3:
    """Centre of mass of the moving bodies, in the world."""
    X, _ = joint_kinematics(model, q)
    return _center(_composites(model, X, [body.inertia for body in model.bodies])[-1])


def _center(total: Inertia) -> Vec3:
    """Centre of mass; the origin where nothing that moves has mass."""
    massless = isinstance(total.mass, float) and total.mass == 0.0
    return Vec3.zero() if massless else total.h * (1.0 / total.mass)


def center_of_mass_jacobian(model: Model, q: Vector) -> Matrix:
    """Jacobian (3 × nv) of the centre of mass: linear momentum by velocity, over the mass."""
    mass = sum((body.inertia.mass for body in model.bodies), 0.0)
    rows = zip(*centroidal_map(model, q)[:3], strict=True)
    columns = [_center(Inertia(mass, Vec3(*column), Inertia.zero().I)) for column in rows]
    return [[getattr(c, axis) for c in columns] for axis in "xyz"]


def centroidal_map(model: Model, q: Vector) -> Matrix:
    """Centroidal map A_G (6 × nv): momentum about the centre of mass, world axes, by velocity.

    Orin & Goswami 2008, each column from the composite body that its joint moves.
    """
    X, S = joint_kinematics(model, q)
    composite = _composites(model, X, [body.inertia for body in model.bodies])
    poses, c = world_poses(model, X), _center(composite[-1])
    columns = []
    for i, body in enumerate(model.bodies):
        for dof, s in zip(body.dofs, S[i], strict=True):
            P = poses[i].to_parent(composite[i].apply(s))
            columns.append((dof, Force(P.lin, P.ang - c.cross(P.lin))))
    return assembled(model, columns)


def centroidal_map_rate(model: Model, q: Vector, v: Vector) -> Matrix:
    """Rate Ȧ_G of the centroidal map along v."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    dS = subspace_rates(S, V)
    composite = _composites(model, X, [body.inertia for body in model.bodies])
    rate = _composites(model, X, [body.inertia.rate(V[i]) for i, body in enumerate(model.bodies)])
    poses, c = world_poses(model, X), _center(composite[-1])
    dc = _center(Inertia(composite[-1].mass, rate[-1].h, rate[-1].I))
    columns = []
    for i, body in enumerate(model.bodies):
        for dof, s, ds in zip(body.dofs, S[i], dS[i], strict=True):
            P = poses[i].to_parent(composite[i].apply(s))
            dP = poses[i].to_parent(rate[i].apply(s) + composite[i].apply(ds))
            moment = dP.ang - c.cross(dP.lin) - dc.cross(P.lin)
            columns.append((dof, Force(dP.lin, moment)))
    return assembled(model, columns)


def centroidal_momentum_derivatives(model: Model, q: Vector, v: Vector) -> tuple[Matrix, Matrix]:
    """∂h/∂q and ∂h/∂v = A_G of the centroidal momentum (each 6 × nv)."""
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    composite = _composites(model, X, [body.inertia for body in model.bodies])
    momentum = [*(b.inertia.apply(V[i]) for i, b in enumerate(model.bodies)), Force.zero()]
    for i, body in inward(model):
        momentum[body.parent] = momentum[body.parent] + X[i].to_parent(momentum[i])
    poses, c, P = world_poses(model, X), _center(composite[-1]), momentum[-1].lin
    columns = []
    for i, body in enumerate(model.bodies):
        before = X[i].to_child(V[body.parent])
        for dof, s in zip(body.dofs, S[i], strict=True):
            step = composite[i].apply(before.cross(s)) + s.cross_force(momentum[i])
            H, linear = poses[i].to_parent(step), poses[i].to_parent(composite[i].apply(s)).lin
            dc = _center(Inertia(composite[-1].mass, linear, composite[-1].I))
            columns.append((dof, Force(H.lin, H.ang - dc.cross(P) - c.cross(H.lin))))
    return assembled(model, columns), centroidal_map(model, q)


def centroidal_momentum(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Momentum A_G v of the moving bodies about their centre of mass, world axes."""
    return [
        sum((x * y for x, y in zip(row, v, strict=True)), 0.0) for row in centroidal_map(model, q)
    ]


def centroidal_momentum_rate(model: Model, q: Vector, v: Vector, a: Vector) -> Force:
    """Rate ḣ = A_G a + Ȧ_G v of the centroidal momentum: force and moment at the centre of mass.

    The Newton–Euler forces of all bodies, added up at the world's origin and taken to the centre of
    mass. It equals the weight and all wrenches from outside, those on the base included.
    """
    X, S = joint_kinematics(model, q)
    fields = acceleration_fields(model, X, S, v, a, Vec3.zero())
    forces = [b.inertia.newton_euler(f) for b, f in zip(model.bodies, fields, strict=True)]
    forces.append(Force.zero())
    for i, body in inward(model):
        forces[body.parent] = forces[body.parent] + X[i].to_parent(forces[i])
    total = forces[-1]
    return Force(total.lin, total.ang - center_of_mass(model, q).cross(total.lin))


def composite_inertia(model: Model, q: Vector) -> Matrix:
    """Composite inertia I_G (6 × 6): that of the robot with its joints locked, at its centre.

    About the centre of mass of the moving bodies, in world axes: diag(m 1, I_c). I_G⁻¹ A_G v is the
    average velocity of the robot (Orin & Goswami 2008); reflected inertia is no part of it.
    """
    X, _ = joint_kinematics(model, q)
    total = _composites(model, X, [body.inertia for body in model.bodies])[-1]
    centred = total.to_parent(Transform(Mat3.identity(), -_center(total)))
    units = [Motion.of([1.0 if i == k else 0.0 for i in range(6)]) for k in range(6)]
    I = Inertia(centred.mass, Vec3.zero(), centred.I)
    return [[*I.apply(unit)] for unit in units]
