"""The terms of the manipulator equation at a state, with residuals that prove them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qddot.display.text import Readable, latex_matrix

__all__ = ["Terms"]

_MOST_IN_LATEX = 8


@dataclass(frozen=True, repr=False)
class Terms(Readable):
    """The terms of M a + C v + g = τ at a state, with residuals that vanish if they are right.

    `symmetry` is max |M − Mᵀ|, `smallest_eigenvalue` that of M, `skewness` the largest entry of
    the symmetric part of Ṁ − 2C, `consistency` max |C v + g − h|.
    """

    M: np.ndarray
    C: np.ndarray
    g: np.ndarray
    h: np.ndarray
    symmetry: np.ndarray
    smallest_eigenvalue: np.ndarray
    skewness: np.ndarray
    consistency: np.ndarray

    def _repr_latex_(self) -> str | None:
        """M, C and g of one state of a small robot; None leaves it to the table."""
        if self.M.ndim != 2 or len(self.M) > _MOST_IN_LATEX:
            return None
        parts = (f"{name} = {latex_matrix(getattr(self, name))}" for name in ("M", "C", "g"))
        return r"$\displaystyle " + r" \quad ".join(parts) + "$"
