"""The Coriolis matrix in Christoffel form, for every joint type and coupling."""

from __future__ import annotations

from qddot.algorithms.recursion import (
    Matrix,
    Vector,
    add_block,
    climb,
    inward,
    joint_kinematics,
    subspace_rates,
    velocities,
    zeros,
)
from qddot.model import WORLD, Model

__all__ = ["coriolis_matrix"]


def coriolis_matrix(model: Model, q: Vector, v: Vector) -> Matrix:
    """Coriolis matrix C (nv × nv) in Christoffel form: C v = h − g and Ṁ − 2C skew.

    Echeandia & Wensing 2021, algorithm 1: C = Σ Jᵀ (I J̇ + B J) with composite inertias I and
    composite Coriolis operators B.
    """
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    dS = subspace_rates(S, V)
    inertia = [body.inertia for body in model.bodies]
    B = [body.inertia.coriolis(V[i]) for i, body in enumerate(model.bodies)]
    C: Matrix = zeros(model.nv, model.nv)
    for i, body in inward(model):
        forces = [inertia[i].apply(ds) + B[i].apply(s) for s, ds in zip(S[i], dS[i], strict=True)]
        momenta = [inertia[i].apply(s) for s in S[i]]
        mirrored = [B[i].apply_transpose(s) for s in S[i]]
        for j, F, P, N in climb(model, X, i, forces, momenta, mirrored):
            add_block(model, C, j, i, [[s.dot(f) for f in F] for s in S[j]])
            if j != i:
                block: Matrix = [
                    [ds.dot(p) + s.dot(n) for s, ds in zip(S[j], dS[j], strict=True)]
                    for p, n in zip(P, N, strict=True)
                ]
                add_block(model, C, i, j, block)
        if body.parent != WORLD:
            inertia[body.parent] = inertia[body.parent] + X[i].to_parent(inertia[i])
            B[body.parent] = B[body.parent] + X[i].to_parent(B[i])
    return C
