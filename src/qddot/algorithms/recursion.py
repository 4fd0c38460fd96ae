"""The recursions over the tree that the algorithms share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import AccelerationField, Force, Motion, Subspace, Transform, Vec3
from qddot.spatial.scalar import Scalar

__all__ = [
    "Matrix",
    "Vector",
    "acceleration_fields",
    "accelerations",
    "add_block",
    "ancestors_with_forces",
    "jacobian_from_columns",
    "joint_kinematics",
    "leaves_to_root",
    "per_body",
    "subspace_rates",
    "subtree_sums",
    "velocities",
    "zeros",
]

Vector = Sequence[Scalar]
Matrix = list[list[Scalar]]
_T = TypeVar("_T")


def zeros(*shape: int) -> Any:
    """Nested lists of zeros."""
    return [zeros(*shape[1:]) for _ in range(shape[0])] if shape else 0.0


def per_body(model: Model, value: _T) -> list[_T]:
    """One entry a body, and a last one for the world, which the index WORLD reaches."""
    return [value] * (model.nb + 1)


def leaves_to_root(model: Model) -> Iterator[tuple[int, Body]]:
    """Bodies with their index, from the leaves to the root."""
    return reversed(list(enumerate(model.bodies)))


def joint_kinematics(model: Model, q: Vector) -> tuple[list[Transform], list[Subspace]]:
    """Pose of each body in its parent, and its motion subspace in body coordinates."""
    pairs = [body.kinematics(q) for body in model.bodies]
    return [X for X, _ in pairs], [S for _, S in pairs]


def velocities(
    model: Model, X: Sequence[Transform], S: Sequence[Subspace], v: Vector
) -> list[Motion]:
    """Velocity of each body in body coordinates, the world's last."""
    V = per_body(model, Motion.zero())
    # root to leaves
    for i, body in enumerate(model.bodies):
        V[i] = X[i].to_child(V[body.parent]) + S[i] * v[body.iv]
    return V


def accelerations(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    v: Vector,
    a: Vector,
    base: Vec3,
) -> tuple[list[Motion], list[Motion]]:
    """Velocity and acceleration of each body in body coordinates, the world's last.

    `base` is the acceleration of the world: minus gravity where weight is to be felt.
    """
    V = velocities(model, X, S, v)
    A = per_body(model, Motion(base, Vec3.zero()))
    # root to leaves
    for i, body in enumerate(model.bodies):
        A[i] = X[i].to_child(A[body.parent]) + S[i] * a[body.iv]
        A[i] = A[i] + V[i].cross(S[i] * v[body.iv])
    return V, A


def acceleration_fields(
    model: Model,
    X: Sequence[Transform],
    S: Sequence[Subspace],
    v: Vector,
    a: Vector,
    base: Vec3,
) -> Iterator[AccelerationField]:
    """The acceleration field of each body in turn, in body coordinates.

    `base` is the acceleration of the world: minus gravity where weight is to be felt.
    """
    A = per_body(model, AccelerationField.of_translation(base))
    # root to leaves
    for i, body in enumerate(model.bodies):
        A[i] = A[body.parent].to_child(X[i], S[i] * v[body.iv], S[i] * a[body.iv])
        yield A[i]


def subtree_sums(model: Model, X: Sequence[Transform], parts: Iterable[_T], none: _T) -> list[_T]:
    """Sum over the subtree of each body, in its coordinates; the last entry is the total."""
    total: list[Any] = [*parts, none]
    # leaves to root
    for i, body in leaves_to_root(model):
        total[body.parent] = total[body.parent] + X[i].to_parent(total[i])
    return total


def subspace_rates(S: Sequence[Subspace], V: Sequence[Motion]) -> list[Subspace]:
    """Rate V × S of each motion subspace, in body coordinates."""
    return [Subspace(tuple(V[i].cross(s) for s in S[i])) for i in range(len(S))]


def jacobian_from_columns(model: Model, columns: Iterable[tuple[int, Motion | Force]]) -> Matrix:
    """6 × nv matrix from columns with their velocity index; those of coupled joints add up."""
    J: Matrix = zeros(6, model.nv)
    for dof, column in columns:
        for row, x in enumerate(column):
            J[row][dof] = J[row][dof] + x
    return J


def add_block(model: Model, M: Matrix, i: int, j: int, block: Matrix) -> None:
    """Add the block of the rows of joint i and the columns of joint j to a matrix."""
    for row, entries in zip(model.bodies[i].dofs, block, strict=True):
        for column, x in zip(model.bodies[j].dofs, entries, strict=True):
            M[row][column] = M[row][column] + x


def ancestors_with_forces(
    model: Model, X: Sequence[Transform], i: int, *groups: Sequence[Force]
) -> Iterator[tuple[Any, ...]]:
    """Body i and its ancestors, with groups of forces given on i in the coordinates of each."""
    # body to root
    while i != WORLD:
        yield i, *groups
        groups = tuple([X[i].to_parent(f) for f in group] for group in groups)
        i = model.bodies[i].parent
