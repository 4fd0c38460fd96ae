"""The Hamiltonian form: momentum p = M v, the energy as a function of q and p, its derivatives.

On motions ṗ = Cᵀ v − g + τ. Where velocities are rates of coordinates Cᵀ v − g is −∂H/∂q; on joints
whose velocities are in body axes (ball, planar, free) the two differ by the gyroscopic torque
that turns the joint's own momentum with its own velocity.
"""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.energy import potential_energy
from qddot.algorithms.inverse_dynamics import gravity
from qddot.algorithms.linear import factorise, solve, solve_upper
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import (
    Vector,
    joint_kinematics,
    subspace_rates,
    subtree_sums,
    velocities,
    zeros,
)
from qddot.model.model import Model
from qddot.spatial.algebra import Force, Motion, Transform
from qddot.spatial.scalar import Scalar

__all__ = ["coriolis_transpose_product", "hamiltonian", "hamiltonian_derivatives", "momentum"]


def _subtree_momenta(model: Model, X: Sequence[Transform], V: Sequence[Motion]) -> list[Force]:
    """Momentum of all that each joint moves, in body coordinates."""
    own = (body.inertia.apply(V[i]) for i, body in enumerate(model.bodies))
    return subtree_sums(model, X, own, Force.zero())


def momentum(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Generalised momentum p = M v, in O(n): momentum of each subtree, projected on its joint."""
    X, S = joint_kinematics(model, q)
    momenta = _subtree_momenta(model, X, velocities(model, X, S, v))
    p = zeros(model.nv)
    # momentum of each subtree felt by its joint, and that of the rotor
    for i, body in enumerate(model.bodies):
        for dof, felt in zip(body.dofs, S[i].project(momenta[i]), strict=True):
            p[dof] = p[dof] + felt + body.armature * v[dof]
    return p


def coriolis_transpose_product(model: Model, q: Vector, v: Vector) -> list[Scalar]:
    """Product Cᵀ v of ṗ = Cᵀ v − g + τ, in O(n): Ṡᵀ times the momentum beyond each joint.

    Momentum observers (De Luca & Mattone 2003) need it; C itself is not formed. The factor B of
    C = Σ Jᵀ (I J̇ + B J) has no power on the motion that makes it, so Cᵀ v = Σ J̇ᵀ I J v.
    """
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    dS, momenta = subspace_rates(S, V), _subtree_momenta(model, X, V)
    product = zeros(model.nv)
    # momentum of each subtree, on the rate of the motion subspace of its joint
    for i, body in enumerate(model.bodies):
        for dof, felt in zip(body.dofs, dS[i].project(momenta[i]), strict=True):
            product[dof] = product[dof] + felt
    return product


def hamiltonian(model: Model, q: Vector, p: Vector) -> Scalar:
    """Hamiltonian H = ½ pᵀ M⁻¹ p + V: the energy by configuration and momentum."""
    # ½ yᵀ D⁻¹ y with Lᵀ y = p
    L, d = factorise(mass_matrix(model, q))
    kinetic = sum((y * y / e for y, e in zip(solve_upper(L, p), d, strict=True)), 0.0) * 0.5
    return kinetic + potential_energy(model, q)


def hamiltonian_derivatives(
    model: Model, q: Vector, p: Vector
) -> tuple[list[Scalar], list[Scalar]]:
    """∂H/∂q at fixed p, on the tangent space, and ∂H/∂p = v of the Hamiltonian (each nv).

    A step along a freedom s changes the velocities beyond it by V × s, V that of the body before
    the joint, so ∂H/∂q = g − (V × s) · momentum beyond. For joints of one freedom that is
    g − Cᵀ v, whose V is the body's own; on ball, planar and free joints it lacks the term of the
    joint's own velocity, which is a gyroscopic torque and no derivative of H.
    """
    v = solve(factorise(mass_matrix(model, q)), p)
    # root to leaves: velocities; leaves to root: momentum of each subtree
    X, S = joint_kinematics(model, q)
    V = velocities(model, X, S, v)
    momenta = _subtree_momenta(model, X, V)
    by_q = gravity(model, q)
    # a step along a freedom changes the velocities beyond it by V × s
    for i, body in enumerate(model.bodies):
        # velocity of the parent, which the joint itself does not change
        before = X[i].to_child(V[body.parent])
        for dof, s in zip(body.dofs, S[i], strict=True):
            by_q[dof] = by_q[dof] - before.cross(s).dot(momenta[i])
    return by_q, v
