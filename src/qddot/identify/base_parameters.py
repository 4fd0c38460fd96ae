"""Base parameters: the combinations of parameters that torques depend on.

Columns of the regressor at random states are scaled to one length; those that are rounding errors
count as zero. A pivoted QR gives the rank, and the columns are then taken in their order: a column
that those before it make up is grouped with them (Gautier 1991).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from qddot.display.text import Readable
from qddot.errors import NotIdentifiable
from qddot.identify.torque_model import TorqueModel

__all__ = ["BaseParameters", "base_parameters", "group_columns"]

_TOLERANCE = 1e-8
"""Part of a scaled column beyond those before it, below which it is made up of them."""
_FLOOR = 1e-11
"""Length of a column relative to the longest, below which it is rounding."""
_ROWS = 3
"""Rows of random states for each parameter."""


@dataclass(frozen=True, repr=False)
class BaseParameters(Readable):
    """Independent columns, and the combinations of parameters that they stand for.

    The base parameters are `mixing` (rank × parameters) times all parameters. `unseen` are
    parameters that no torque depends on.
    """

    names: tuple[str, ...]
    independent: np.ndarray
    mixing: np.ndarray
    unseen: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Number of base parameters."""
        return len(self.independent)

    @property
    def labels(self) -> tuple[str, ...]:
        """Each base parameter as its first parameter."""
        return tuple(self.names[k] for k in self.independent)

    def grouping(self, k: int, most: int = 1000) -> str:
        """A base parameter in words, such as "l1.Izz + j1.armature − 0.05·l3.m"."""
        own = int(self.independent[k])
        parts = [self.names[own]]
        others = [c for c in np.flatnonzero(self.mixing[k]) if c != own]
        for c in others[:most]:
            x = self.mixing[k, c]
            factor = "" if abs(abs(x) - 1.0) < 1e-9 else f"{abs(x):.4g}·"
            parts.append(f"{'−' if x < 0 else '+'} {factor}{self.names[c]}")
        if len(others) > most:
            parts.append(f"+ {len(others) - most} more")
        return " ".join(parts)

    def values(self, parameters: np.ndarray) -> np.ndarray:
        """Base parameters of a full set of parameters."""
        return self.mixing @ parameters


def base_parameters(model: TorqueModel, seed: int = 0) -> BaseParameters:
    """Base parameters of a torque model, from its columns at random states."""
    robot = model.robot
    rng = np.random.default_rng(seed)
    count = int(np.ceil(_ROWS * len(model.names) / max(robot.nv, 1))) + 8
    limits = robot.limits
    q = robot.random(rng, count)
    v = rng.uniform(-1, 1, (count, robot.nv)) * np.where(
        np.isfinite(limits.velocity) & (limits.velocity > 0), limits.velocity, 2.0
    )
    a = rng.normal(size=(count, robot.nv)) * 10.0
    rows = model.regressor(q, v, a).reshape(-1, len(model.names))
    return group_columns(rows, model.names)


def group_columns(rows: np.ndarray, names: tuple[str, ...]) -> BaseParameters:
    """Independent columns of a regressor (rows × parameters), and the groups they stand for."""
    lengths = np.linalg.norm(rows, axis=0)
    seen = np.flatnonzero(lengths > _FLOOR * lengths.max(initial=0.0))
    if not seen.size:
        remedy = "a motion or a robot with moving masses is needed"
        raise NotIdentifiable("the parameters", "no torque depends on any of them", remedy)
    scaled = rows[:, seen] / lengths[seen]
    # the rank by pivoting; the choice of columns by their order
    pivots = np.abs(np.diag(qr(scaled, mode="r", pivoting=True)[0]))
    rank = int((pivots > _TOLERANCE * pivots[0]).sum())
    # a dependent column leaves a row of noise in R, so that each test is made on kept ones only
    triangle = np.asarray(np.linalg.qr(scaled, mode="r"))
    kept: list[int] = []
    basis = np.zeros((triangle.shape[0], 0))
    for k, column in enumerate(triangle.T):
        left = column - basis @ (basis.T @ column)
        left -= basis @ (basis.T @ left)
        length = np.linalg.norm(left)
        if length > _TOLERANCE and len(kept) < rank:
            kept.append(k)
            basis = np.column_stack([basis, left / length])
    chosen = np.array(kept)
    rest = np.setdiff1d(np.arange(len(seen)), chosen)
    R = np.asarray(np.linalg.qr(scaled[:, np.concatenate([chosen, rest])], mode="r"))
    groups = solve_triangular(R[:rank, :rank], R[:rank, rank:])
    # back to unscaled parameters, without rounding
    groups = groups * lengths[seen[rest]] / lengths[seen[chosen], None]
    groups = np.round(groups, 9) + 0.0
    mixing = np.zeros((rank, len(names)))
    mixing[np.arange(rank), seen[chosen]] = 1.0
    mixing[:, seen[rest]] = groups
    unseen = tuple(names[k] for k in np.setdiff1d(np.arange(len(names)), seen))
    return BaseParameters(tuple(names), seen[chosen], mixing, unseen)
