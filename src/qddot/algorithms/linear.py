"""Linear algebra on lists of scalars: the factorisation that keeps the sparsity of a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from qddot.spatial.scalar import Scalar

__all__ = [
    "Factor",
    "dot",
    "factorise",
    "factorise_unsymmetric",
    "inverse",
    "mobility",
    "solve",
    "solve_columns",
    "solve_lower",
    "solve_unsymmetric",
    "solve_upper",
    "unit_inverse",
]

Factor = tuple[list[list[Scalar]], list[Scalar]]
Rows = Sequence[Sequence[Scalar]]
_K = TypeVar("_K")
_COLUMNS = 16
"""Columns that are solved together: the rows of L⁻¹ that they share stay in the cache."""


def dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Scalar product of two lists."""
    return sum((x * y for x, y in zip(a, b, strict=True)), 0.0)


def factorise(A: Rows, pivot: Callable[[int, Scalar], Scalar] | None = None) -> Factor:
    """L (unit lower triangular) and d with A = Lᵀ diag(d) L.

    Eliminates from the last row to the first: a mass matrix in tree order fills in nothing
    (Featherstone 2008, table 6.3), and d is what each joint feels with all joints after it free.
    `pivot` may replace the pivot of a row, before it is eliminated; an infinite one leaves it out.
    """
    n = len(A)
    L = [list(row) for row in A]
    # last row to first: subtract its share from the rows above, then scale it
    for k in reversed(range(n)):
        if pivot:
            L[k][k] = pivot(k, L[k][k])
        for i in range(k):
            ratio = L[k][i] / L[k][k]
            for j in range(i + 1):
                L[i][j] = L[i][j] - ratio * L[k][j]
        for j in range(k):
            L[k][j] = L[k][j] / L[k][k]
    return L, [L[k][k] for k in range(n)]


def solve_upper(L: Rows, b: Sequence[Any]) -> list[Any]:
    """x with Lᵀ x = b; the entries of b may be scalars or spatial vectors."""
    x = list(b)
    # last to first
    for k in reversed(range(len(x))):
        for i in range(k):
            x[i] = x[i] - x[k] * L[k][i]
    return x


def solve(factor: Factor, b: Sequence[Scalar]) -> list[Scalar]:
    """x with A x = b."""
    L, d = factor
    return solve_lower(L, [y / e for y, e in zip(solve_upper(L, b), d, strict=True)])


def solve_lower(L: Rows, b: Sequence[Scalar]) -> list[Scalar]:
    """x with L x = b."""
    x = list(b)
    # first to last
    for i in range(len(x)):
        for j in range(i):
            x[i] = x[i] - L[i][j] * x[j]
    return x


def unit_inverse(L: Rows) -> list[list[Scalar]]:
    """L⁻¹ of a unit lower triangular L, with the same zeros where a tree has branches."""
    W: list[list[Scalar]] = []
    # row by row: a unit vector less the rows above, each by its entry of L
    for i in range(len(L)):
        row: list[Scalar] = [*[0.0] * i, 1.0, *[0.0] * (len(L) - i - 1)]
        for k in reversed(range(i)):
            for j in range(k + 1):
                row[j] = row[j] - L[i][k] * W[k][j]
        W.append(row)
    return W


def inverse(factor: Factor) -> list[list[Scalar]]:
    """A⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ, symmetric."""
    L, d = factor
    return _weighted_gram_matrix(unit_inverse(L), d)


def solve_columns(
    factor: Factor, columns: Iterable[tuple[_K, Sequence[Scalar]]]
) -> Iterator[tuple[_K, list[Scalar]]]:
    """Solutions A⁻¹ b of named columns b by L⁻¹, whose zeros skip what b has no part in.

    A few columns at a time, row by row, so that they share each row of the factors.
    """
    # A⁻¹ = L⁻¹ (D⁻¹ L⁻ᵀ)
    L, d = factor
    W = unit_inverse(L)
    up = [[w / e for w in row] for row, e in zip(zip(*W, strict=True), d, strict=True)]
    waiting = iter(columns)
    # a few columns at a time
    while some := list(islice(waiting, _COLUMNS)):
        Y = [[dot(row, b) for row in up] for _, b in some]
        rows = [[dot(row, y) for y in Y] for row in W]
        for (name, _), answer in zip(some, zip(*rows, strict=True), strict=True):
            yield name, list(answer)


def mobility(factor: Factor, J: Rows) -> list[list[Scalar]]:
    """J A⁻¹ Jᵀ, symmetric, by half a solve a row: with A = Lᵀ D L it is Y D⁻¹ Yᵀ, Lᵀ Yᵀ = Jᵀ."""
    L, d = factor
    return _weighted_gram_matrix([solve_upper(L, row) for row in J], d)


def _weighted_gram_matrix(Y: Rows, d: Sequence[Scalar]) -> list[list[Scalar]]:
    """Y D⁻¹ Yᵀ, symmetric: the lower half, and mirrored."""
    scaled = [[y / e for y, e in zip(row, d, strict=True)] for row in Y]
    n = range(len(Y))
    lower = [[dot(Y[i], scaled[j]) for j in range(i + 1)] for i in n]
    return [[lower[max(i, j)][min(i, j)] for j in n] for i in n]


def factorise_unsymmetric(A: Rows) -> list[list[Scalar]]:
    """U (unit upper triangular, above the diagonal) and L with A = U L, without pivoting.

    For matrices that need not be symmetric but are near to a mass matrix: like `factorise` it
    eliminates from the last row to the first, and fills in nothing where a tree has branches.
    """
    n = len(A)
    F = [list(row) for row in A]
    # last row and column to first: each entry less the products of those that come before it
    for m in reversed(range(n)):
        for j in range(m + 1):
            for k in reversed(range(m + 1, n)):
                F[m][j] = F[m][j] - F[m][k] * F[k][j]
        for i in range(m):
            for k in reversed(range(m + 1, n)):
                F[i][m] = F[i][m] - F[i][k] * F[k][m]
            F[i][m] = F[i][m] / F[m][m]
    return F


def solve_unsymmetric(F: Rows, b: Sequence[Scalar]) -> list[Scalar]:
    """x with U L x = b."""
    x = list(b)
    # back substitution in U, then forward in L
    for k in reversed(range(len(x))):
        for i in range(k):
            x[i] = x[i] - F[i][k] * x[k]
    for i in range(len(x)):
        x[i] = (x[i] - dot(F[i][:i], x[:i])) / F[i][i]
    return x
