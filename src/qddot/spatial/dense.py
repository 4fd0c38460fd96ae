"""Dense linear algebra on lists of scalars, without a branch that depends on a value.

Rows are exchanged by `where`, so one text serves floats, batches and symbols.
"""

from __future__ import annotations

from collections.abc import Sequence

from qddot.spatial.scalar import Scalar, absolute, less, sqrt, where

__all__ = ["cholesky", "determinant", "solve", "solve_definite"]

Rows = Sequence[Sequence[Scalar]]


def solve(A: Rows, B: Rows) -> list[list[Scalar]]:
    """X with A X = B, by Gaussian elimination with partial pivoting."""
    n = len(A)
    rows, _ = _eliminate([[*a, *b] for a, b in zip(A, B, strict=True)])
    # back substitution, last unknown first
    X: list[list[Scalar]] = [[] for _ in range(n)]
    for i in reversed(range(n)):
        rest = rows[i][n:]
        for j in range(i + 1, n):
            rest = [r - rows[i][j] * x for r, x in zip(rest, X[j], strict=True)]
        X[i] = [r / rows[i][i] for r in rest]
    return X


def solve_definite(A: Rows, B: Rows) -> list[list[Scalar]]:
    """X with A X = B for a symmetric positive definite A, by A = L D Lᵀ without pivoting."""
    n = len(A)
    L: list[list[Scalar]] = [[1.0 if i == j else 0.0 for j in range(n)] for i in range(n)]
    d: list[Scalar] = []
    # factors, row by row; the row of L D is kept for the products
    for i in range(n):
        scaled: list[Scalar] = []
        for j in range(i):
            rest = A[i][j]
            for k in range(j):
                rest = rest - scaled[k] * L[j][k]
            scaled.append(rest)
            L[i][j] = rest / d[j]
        pivot = A[i][i]
        for j in range(i):
            pivot = pivot - scaled[j] * L[i][j]
        d.append(pivot)
    # forward in L, then D, then back in Lᵀ
    X = [list(row) for row in B]
    for i in range(n):
        for k in range(i):
            X[i] = [x - L[i][k] * y for x, y in zip(X[i], X[k], strict=True)]
    X = [[x / d[i] for x in row] for i, row in enumerate(X)]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            X[i] = [x - L[k][i] * y for x, y in zip(X[i], X[k], strict=True)]
    return X


def determinant(A: Rows) -> Scalar:
    """det A."""
    rows, product = _eliminate([list(row) for row in A])
    for k, row in enumerate(rows):
        product = product * row[k]
    return product


def cholesky(A: Rows) -> list[list[Scalar]]:
    """L (lower triangular) with A = L Lᵀ; NaN where A is not positive definite."""
    n = len(A)
    L: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for j in range(n):
        for i in range(j, n):
            rest = A[i][j]
            for k in range(j):
                rest = rest - L[i][k] * L[j][k]
            L[i][j] = sqrt(rest) if i == j else rest / L[j][j]
    return L


def _eliminate(rows: list[list[Scalar]]) -> tuple[list[list[Scalar]], Scalar]:
    """Upper triangular rows that span the same, and the sign of the exchanges of rows."""
    n, sign = len(rows), 1.0
    for k in range(n):
        # the largest of the column comes up, by one exchange a row below
        for i in range(k + 1, n):
            larger = less(absolute(rows[k][k]), absolute(rows[i][k]))
            up, down = rows[i], rows[k]
            rows[k] = [where(larger, u, d) for u, d in zip(up, down, strict=True)]
            rows[i] = [where(larger, d, u) for u, d in zip(up, down, strict=True)]
            sign = where(larger, -sign, sign)
        for i in range(k + 1, n):
            ratio = rows[i][k] / rows[k][k]
            pairs = zip(rows[i][k + 1 :], rows[k][k + 1 :], strict=True)
            rows[i] = [*[0.0] * (k + 1), *(x - ratio * y for x, y in pairs)]
    return rows, sign
