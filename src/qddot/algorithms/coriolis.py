"""The Coriolis matrix in Christoffel form, for every joint type and coupling."""

from __future__ import annotations

from itertools import islice

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    add_block,
    ancestors_with_forces,
    joint_kinematics,
    leaves_to_root,
    subspace_rates,
    velocities,
    zeros,
)
from qddot.model.model import WORLD, Model
from qddot.spatial.algebra import Transform, Vec3

__all__ = ["christoffel_symbols", "coriolis_matrix"]


def coriolis_matrix(model: Model, q: Vector, v: Vector) -> Matrix:
    """Coriolis matrix C (nv × nv) in Christoffel form: C v = h − g and Ṁ − 2C skew.

    Echeandia & Wensing 2021, algorithm 1: C = Σ Jᵀ (I J̇ + B J) with composite inertias I and
    composite Coriolis operators B.
    """
    X, S = joint_kinematics(model, q)
    # root to leaves: velocities and rates of motion subspaces
    V = velocities(model, X, S, v)
    dS = subspace_rates(S, V)
    inertia = [body.inertia for body in model.bodies]
    B = [body.inertia.coriolis(V[i]) for i, body in enumerate(model.bodies)]
    C: Matrix = zeros(model.nv, model.nv)
    # leaves to root: column and row of each joint, then the composites of its parent
    for i, body in leaves_to_root(model):
        forces = [inertia[i].apply(ds) + B[i].apply(s) for s, ds in zip(S[i], dS[i], strict=True)]
        momenta = [inertia[i].apply(s) for s in S[i]]
        mirrored = [B[i].apply_transpose(s) for s in S[i]]
        # its column: forces I Ṡ + B S, felt by it and by the joints before it
        for j, F in ancestors_with_forces(model, X, i, forces):
            add_block(model, C, j, i, [[s.dot(f) for f in F] for s in S[j]])
        # its row: how it feels the motion of the joints before it
        for j, P, N in islice(ancestors_with_forces(model, X, i, momenta, mirrored), 1, None):
            block: Matrix = [
                [ds.dot(p) + s.dot(n) for s, ds in zip(S[j], dS[j], strict=True)]
                for p, n in zip(P, N, strict=True)
            ]
            add_block(model, C, i, j, block)
        # inertia and Coriolis operator of the composite body of the parent
        if body.parent != WORLD:
            inertia[body.parent] = inertia[body.parent] + X[i].to_parent(inertia[i])
            B[body.parent] = B[body.parent] + X[i].to_parent(B[i])
    return C


def christoffel_symbols(model: Model, q: Vector) -> list[Matrix]:
    """Christoffel symbols Γ (nv × nv × nv) of the first kind: C_ij = Σ Γ_ijk v_k.

    Freedom d moves all beyond it with a velocity field u_d; a freedom p before it turns that field,
    so that points accelerate by ω_p × u_d. Freedom i feels ∫ u_i · (ω_p × u_d) dm = ω_p · N with
    N = ∫ u_d × u_i dm: one vector for each pair (d, i), of the composite body beyond both, gives
    Γ_idp = Γ_ipd. Freedoms of one joint move in body axes: there Γ_idp is not symmetric in d, p.
    """
    X, S = joint_kinematics(model, q)
    # seen from the root body of each tree: Γ is the same from everywhere
    roots = [body.parent == WORLD for body in model.bodies]
    rooted = [Transform.identity() if root else x for root, x in zip(roots, X, strict=True)]
    poses = world_poses(model, rooted)
    u = [[poses[i].to_parent(s) for s in S[i]] for i in range(model.nb)]
    composite = [poses[i].to_parent(body.inertia) for i, body in enumerate(model.bodies)]
    symbols: list[Matrix] = zeros(model.nv, model.nv, model.nv)

    def add(row: int, d: int, column: int, N: Vec3) -> None:
        for p in model.ancestors(d):
            for k, s in zip(model.bodies[p].dofs, u[p], strict=True):
                felt = s.ang.dot(N)
                symbols[row][column][k] = symbols[row][column][k] + felt
                if p != d:
                    symbols[row][k][column] = symbols[row][k][column] + felt

    # leaves to root: N of each freedom with those before it
    for i, body in leaves_to_root(model):
        for a, s in zip(body.dofs, u[i], strict=True):
            B = composite[i].coriolis(s)
            for j in model.ancestors(i):
                for b, t in zip(model.bodies[j].dofs, u[j], strict=True):
                    if t is s:
                        continue
                    N = B.apply_transpose(t).ang
                    add(b, i, a, N)
                    if j != i:
                        add(a, j, b, -N)
        # composite body of the parent
        if body.parent != WORLD:
            composite[body.parent] = composite[body.parent] + composite[i]
    return symbols
