"""Integrators as data: one step of a motion on the configuration manifold, over any scalar.

A step takes a plant (accelerations at a state), a configuration q and velocities w in the charts
of the joints, and returns both after a time dt. Quaternions stay of unit length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from qddot.algorithms.recursion import Vector, zeros
from qddot.errors import UnknownName
from qddot.simulate.implicit import OneStage
from qddot.simulate.motion import (
    ChartState,
    ExplicitPlant,
    ImplicitPlant,
    SolvedState,
    advance,
    displacement_rate,
)
from qddot.simulate.variational import variational_step
from qddot.spatial.scalar import Scalar

__all__ = [
    "DORMAND_PRINCE",
    "INTEGRATORS",
    "ChartState",
    "IntegratedPlant",
    "Integrator",
    "Tableau",
    "find_integrator",
    "weighted_sum",
]


class IntegratedPlant(ImplicitPlant, Protocol):
    """The interface of a plant to all integrators: the model, its rates and loads at a state."""

    def damped_rate(self, q: Vector, w: Vector, dt: Scalar) -> list[Scalar]:
        """The rate with the damping of the joints taken at the end of a step."""


StepFunction = Callable[[IntegratedPlant, Vector, Vector, Scalar], ChartState | SolvedState]
"""From a plant, q, w and dt to q and w after the step, and the residual of one that iterates."""


@dataclass(frozen=True)
class Integrator:
    """A row of the table: its name, order of convergence, stages, and the function of a step.

    A step that iterates returns its residual after the state. `forces_at_start` says that all
    forces are taken at the start of the step, `semi_implicit` that velocities come first and
    positions follow with them, as in the step of contact by complementarity. `damped_step` is the
    form of the step that takes the damping of the joints at its end, `damping_at_end` says that
    `step` does so too. With `amplifies` undamped oscillations grow whatever the step.
    """

    name: str
    order: int
    stages: int
    step: StepFunction
    symplectic: bool = False
    iterates: bool = False
    forces_at_start: bool = False
    semi_implicit: bool = False
    damped_step: StepFunction | None = None
    damping_at_end: bool = False
    amplifies: bool = False


@dataclass(frozen=True)
class Tableau:
    """Coefficients of an explicit Runge–Kutta method; `error` gives its embedded error estimate."""

    a: tuple[tuple[Fraction, ...], ...]
    b: tuple[Fraction, ...]
    error: tuple[Fraction, ...] = ()

    @property
    def c(self) -> tuple[Fraction, ...]:
        """Times of the stages, as shares of the step."""
        return tuple(sum(row, Fraction(0)) for row in self.a)

    def step(self, plant: ExplicitPlant, q: Vector, w: Vector, dt: Scalar) -> ChartState:
        """One step on the manifold (Munthe-Kaas 1999): stages are displacements from the start."""
        moves, rates = self.stages(plant, q, w, dt)
        u, dw = weighted_sum(self.b, moves, dt), weighted_sum(self.b, rates, dt)
        return advance(plant.model, q, u), _sum(w, dw)

    def stages(
        self, plant: ExplicitPlant, q: Vector, w: Vector, dt: Scalar
    ) -> tuple[list[list[Scalar]], list[list[Scalar]]]:
        """Rates of displacement and of velocity at the stages."""
        model = plant.model
        moves: list[list[Scalar]] = []
        rates: list[list[Scalar]] = []
        for row, share in zip(self.a, self.c, strict=True):
            # state of the stage, as a displacement from the start
            u = weighted_sum(row, moves, dt) if moves else zeros(model.nv)
            w_stage = _sum(w, weighted_sum(row, rates, dt)) if rates else list(w)
            q_stage = advance(model, q, u) if moves else q
            # rates there
            moves.append(displacement_rate(model, u, w_stage))
            rates.append(plant.rate(q_stage, w_stage, float(share)))
        return moves, rates


def weighted_sum(weights: Sequence[Fraction], rows: Sequence[Vector], dt: Scalar) -> list[Scalar]:
    """Sum of rows times weights times dt."""
    total = zeros(len(rows[0]))
    for weight, row in zip(weights, rows, strict=False):
        if weight:
            total = [x + y * float(weight) for x, y in zip(total, row, strict=True)]
    return [x * dt for x in total]


def _sum(x: Vector, y: Vector) -> list[Scalar]:
    return [a + b for a, b in zip(x, y, strict=True)]


def _semi_implicit(plant: IntegratedPlant, q: Vector, w: Vector, dt: Scalar) -> ChartState:
    """Velocities first, then positions with the new velocities."""
    w = _sum(w, [x * dt for x in plant.rate(q, w, 0.0)])
    return advance(plant.model, q, [x * dt for x in w]), w


def _implicit_damping(plant: IntegratedPlant, q: Vector, w: Vector, dt: Scalar) -> ChartState:
    """Semi-implicit, with the damping of the joints taken at the new velocities."""
    w = _sum(w, [x * dt for x in plant.damped_rate(q, w, dt)])
    return advance(plant.model, q, [x * dt for x in w]), w


def _rows(*rows: Sequence[str | int]) -> tuple[tuple[Fraction, ...], ...]:
    return tuple(tuple(map(Fraction, row)) for row in rows)


EULER = Tableau(_rows([]), *_rows([1]))
RK4 = Tableau(
    _rows([], ["1/2"], [0, "1/2"], [0, 0, 1]),
    *_rows(["1/6", "1/3", "1/3", "1/6"]),
)
DORMAND_PRINCE = Tableau(
    _rows(
        [],
        ["1/5"],
        ["3/40", "9/40"],
        ["44/45", "-56/15", "32/9"],
        ["19372/6561", "-25360/2187", "64448/6561", "-212/729"],
        ["9017/3168", "-355/33", "46732/5247", "49/176", "-5103/18656"],
        ["35/384", 0, "500/1113", "125/192", "-2187/6784", "11/84"],
    ),
    *_rows(
        ["35/384", 0, "500/1113", "125/192", "-2187/6784", "11/84", 0],
        ["71/57600", 0, "-71/16695", "71/1920", "-17253/339200", "22/525", "-1/40"],
    ),
)

INTEGRATORS: dict[str, Integrator] = {
    row.name: row
    for row in (
        Integrator("euler", 1, 1, EULER.step, forces_at_start=True, amplifies=True),
        Integrator(
            "semi_implicit",
            1,
            1,
            _semi_implicit,
            forces_at_start=True,
            semi_implicit=True,
            damped_step=_implicit_damping,
        ),
        Integrator(
            "implicit_damping",
            1,
            1,
            _implicit_damping,
            forces_at_start=True,
            semi_implicit=True,
            damped_step=_implicit_damping,
            damping_at_end=True,
        ),
        Integrator("backward_euler", 1, 1, OneStage(1.0).step, iterates=True),
        Integrator("implicit_midpoint", 2, 1, OneStage(0.5).step, iterates=True),
        Integrator("variational", 2, 1, variational_step, symplectic=True, iterates=True),
        Integrator("rk4", 4, 4, RK4.step),
        Integrator("dormand_prince", 5, 7, DORMAND_PRINCE.step),
    )
}


def find_integrator(name: str) -> Integrator:
    """The integrator of this name."""
    if not isinstance(name, str) or name not in INTEGRATORS:
        raise UnknownName("integrator", name, INTEGRATORS)
    return INTEGRATORS[name]
