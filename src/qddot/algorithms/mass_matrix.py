"""The mass matrix by the composite-rigid-body algorithm (CRBA), and its rate."""

from __future__ import annotations

from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    ancestors_with_forces,
    joint_kinematics,
    leaves_to_root,
    subspace_rates,
    velocities,
    zeros,
)
from qddot.model.model import WORLD, Model

__all__ = ["mass_matrix", "mass_matrix_rate"]


def _add_symmetric(model: Model, M: Matrix, j: int, i: int, block: Matrix) -> None:
    """Add the block of joints j and i, and its mirror image, to a symmetric matrix."""
    # a block on the diagonal is symmetric itself: its upper half is enough
    for a, row in enumerate(model.bodies[j].dofs):
        for b, column in enumerate(model.bodies[i].dofs):
            if j != i or a < b:
                M[row][column] = M[row][column] + block[a][b]
                M[column][row] = M[column][row] + block[a][b]
            elif a == b:
                M[row][row] = M[row][row] + block[a][a]


def mass_matrix(model: Model, q: Vector) -> Matrix:
    """Mass matrix M (nv × nv), reflected inertia included (CRBA).

    Featherstone 2008, table 6.2: the forces that accelerate the composite body beyond a joint, as
    felt by that joint and by each joint before it.
    """
    X, S = joint_kinematics(model, q)
    composite = [body.inertia for body in model.bodies]
    M: Matrix = zeros(model.nv, model.nv)
    # leaves to root: column of each joint, then the composite inertia of its parent
    for i, body in leaves_to_root(model):
        # force that accelerates the composite body, felt by its joint and those before it
        for j, F in ancestors_with_forces(model, X, i, [composite[i].apply(s) for s in S[i]]):
            _add_symmetric(model, M, j, i, [[s.dot(f) for f in F] for s in S[j]])
        # reflected inertia of the rotor
        for dof in body.dofs:
            M[dof][dof] = M[dof][dof] + body.armature
        # composite body of the parent
        if body.parent != WORLD:
            composite[body.parent] = composite[body.parent] + X[i].to_parent(composite[i])
    return M


def mass_matrix_rate(model: Model, q: Vector, v: Vector) -> Matrix:
    """Rate Ṁ of the mass matrix along v, by the product rule through the recursion of M."""
    X, S = joint_kinematics(model, q)
    # root to leaves: velocities and rates of motion subspaces
    V = velocities(model, X, S, v)
    dS = subspace_rates(S, V)
    composite = [body.inertia for body in model.bodies]
    rate = [body.inertia.rate(V[i]) for i, body in enumerate(model.bodies)]
    dM: Matrix = zeros(model.nv, model.nv)
    # leaves to root: as the mass matrix, with the rates of inertias and motion subspaces
    for i, body in leaves_to_root(model):
        forces = [composite[i].apply(s) for s in S[i]]
        rates = [
            rate[i].apply(s) + composite[i].apply(ds) for s, ds in zip(S[i], dS[i], strict=True)
        ]
        for j, F, dF in ancestors_with_forces(model, X, i, forces, rates):
            block = [
                [ds.dot(f) + s.dot(df) for f, df in zip(F, dF, strict=True)]
                for s, ds in zip(S[j], dS[j], strict=True)
            ]
            _add_symmetric(model, dM, j, i, block)
        # composite body of the parent, and its rate
        if body.parent != WORLD:
            composite[body.parent] = composite[body.parent] + X[i].to_parent(composite[i])
            rate[body.parent] = rate[body.parent] + X[i].to_parent(rate[i])
    return dM
