"""Forward dynamics (hybrid dynamics with no joint prescribed), and the inverse of M.

The articulated-body algorithm (ABA) is in `articulated_body.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from qddot.algorithms.hybrid_dynamics import hybrid_dynamics
from qddot.algorithms.kinematics import ReferenceAxes
from qddot.algorithms.linear import factorise, inverse
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Matrix, Vector, zeros
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar

__all__ = ["forward_dynamics", "inverse_mass_matrix"]


def forward_dynamics(
    model: Model,
    q: Vector,
    v: Vector,
    tau: Vector,
    f_ext: Sequence[Vector] | None = None,
    *,
    forces: Sequence[tuple[str, ReferenceAxes]] = (),
    friction: bool = False,
) -> list[Scalar]:
    """Joint accelerations q̈ = M⁻¹ (τ + Jᵀ F − C v − g) (ABA, or M factorised where that is less).

    `f_ext` holds one wrench on the robot for each (frame, reference) in `forces`; with `friction`
    the joint losses are subtracted. Deep trees take the articulated-body algorithm; where joints
    have few others before them, or follow others, factorising M costs fewer operations.
    """
    still = zeros(model.nv)
    return hybrid_dynamics(model, q, v, still, tau, f_ext, forces=forces, friction=friction)[0]


def inverse_mass_matrix(model: Model, q: Vector) -> Matrix:
    """Inverse M⁻¹ of the mass matrix (nv × nv), through its factorisation."""
    return inverse(factorise(mass_matrix(model, q)))
