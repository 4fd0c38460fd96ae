"""The proof of a closed form: its written Python, run against the recursive algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.analysis.lagrange.closed_form import ClosedForm
from qddot.analysis.lagrange.write_python import python_module
from qddot.errors import InvalidArgument
from qddot.robot.robot import Robot

__all__ = ["Proof", "ProofRow", "prove"]

_BOUND = 1e-9
_STEP = 1e-30


@dataclass(frozen=True)
class ProofRow:
    """A term, the function it is compared with, and the largest difference relative to its size."""

    term: str
    against: str
    difference: float


@dataclass(frozen=True)
class Proof:
    """Differences between a closed form and the recursive algorithms at random states."""

    rows: tuple[ProofRow, ...]
    states: int
    seed: int
    bound: float = _BOUND

    @property
    def largest(self) -> float:
        """The largest difference of all terms."""
        return float(np.max([row.difference for row in self.rows]))

    @property
    def holds(self) -> bool:
        """Whether every difference keeps below the bound."""
        return bool(self.largest < self.bound)


def prove(form: ClosedForm, states: int = 20, seed: int = 0) -> Proof:
    """Compare M, C, g and h = C q̇ + g of a closed form's Python module with those of the robot.

    The recursive algorithms share nothing with it but the model: M is by composite bodies, C by
    Coriolis operators, g and the bias h by Newton and Euler. A planar joint's velocities v in body
    axes and its coordinate rates q̇ = N v are related by its tangent map: M_v = Nᵀ M N and
    C_v = Nᵀ (C N + M Ṅ).
    """
    if not isinstance(states, int | np.integer) or states < 1:
        raise InvalidArgument("states", states, "it is a whole number, at least 1")
    module: dict[str, Any] = {}
    exec(python_module(form), module)
    # a few states are interpreted sooner than compiled
    robot, rng = Robot(form.robot.model, native=False), np.random.default_rng(seed)
    q, v = robot.random(rng, states), rng.normal(size=(states, robot.nv))
    # the terms of the closed form, for velocities v with q̇ = N v
    N = _tangent_maps(robot, q)
    rates = np.einsum("sij,sj->si", N, v)
    dN = _tangent_maps(robot, q + 1j * _STEP * rates).imag / _STEP
    M, C = module["mass_matrix"](q), module["coriolis_matrix"](q, rates)
    g = np.einsum("sji,sj->si", N, module["gravity"](q))
    back = N.swapaxes(1, 2)
    C_v = back @ (C @ N + M @ dN)
    h = np.einsum("sij,sj->si", C_v, v) + g
    inertia, speed = np.abs(M).max(), np.abs(v).max()
    weight = np.sqrt(inertia * float(robot.model.mass)) * np.linalg.norm(list(robot.model.gravity))
    # the differences of each term, relative to the size of its parts: the term may vanish
    rows = (
        ("M", "mass_matrix", back @ M @ N, robot.mass_matrix(q), 0.0),
        ("C", "coriolis_matrix", C_v, robot.coriolis_matrix(q, v), inertia * speed),
        ("g", "gravity", g, robot.gravity(q), weight),
        ("h", "bias", h, robot.bias(q, v), inertia * speed**2 + weight),
    )
    results = []
    for term, name, closed, expected, size in rows:
        scale = max(float(np.abs(expected).max(initial=0.0)), size) or 1.0
        difference = float(np.abs(closed - expected).max(initial=0.0)) / scale
        results.append(ProofRow(term, name, difference))
    return Proof(tuple(results), int(states), seed)


def _tangent_maps(robot: Robot, q: np.ndarray) -> np.ndarray:
    """The matrices N of q̇ = N v."""
    N = np.zeros((*q.shape[:-1], robot.nv, robot.nv), q.dtype)
    for body in robot.model.independent:
        columns = [q[..., k] for k in body.dofs]
        for i, row in zip(body.dofs, body.joint.kind.tangent(columns), strict=True):
            for j, x in zip(body.dofs, row, strict=True):
                N[..., i, j] = x
    return N
