"""Which equations of constraints count, and robots that have only those."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.constraints import Constraints
from qddot.analysis.constraints.arguments import (
    list_constraints,
    require_finite,
    row_names,
)
from qddot.analysis.constraints.linear_algebra import (
    DEPENDENT,
    constraint_jacobian,
    inverse_mass_root,
)
from qddot.analysis.constraints.projection import assemble
from qddot.errors import InvalidArgument, SingularInertia, WrongType, combination, count_text
from qddot.model.links import Contact, Loop, open_loops
from qddot.robot.health import dependent_rows, random_configurations
from qddot.robot.robot import Robot

__all__ = ["Rank", "analyse", "independent", "mark_redundant", "with_loops"]

_SEARCHES = ((0.05, 1e-9, 10), (0.3, 1e-6, 50))
"""How far (rad, m) from named configurations others are drawn, and how they are assembled."""


@dataclass(frozen=True)
class Rank:
    """Which equations of constraints count at a configuration.

    `rows` has the names of all equations, `redundant` those that others make up, each with the
    independent rows that it is a combination of and their coefficients; `independent` has the
    constraints restricted to the rows that are left. `freedoms` is what they leave of nv.
    """

    rows: tuple[str, ...]
    redundant: Mapping[str, Mapping[str, float]]
    independent: tuple[Loop | Contact, ...]
    freedoms: int

    @property
    def rank(self) -> int:
        """Number of independent equations."""
        return len(self.rows) - len(self.redundant)

    def __str__(self) -> str:
        rows = count_text(len(self.rows), "equation")
        head = f"{rows}, {self.rank} independent; freedoms left: {self.freedoms}"
        lines = [f"  {name} {combination(parts)}" for name, parts in self.redundant.items()]
        return "\n".join([head, *lines])


def analyse(robot: Robot, q: ArrayLike, constraints: Constraints = None) -> Rank:
    """Which equations of the constraints are independent at a configuration, which are not.

    Equations count in the order in which they are given: one that those before it make up is
    redundant. Rows are measured by the speeds that a unit of kinetic energy gives.
    """
    given, q = list_constraints(robot, constraints), require_finite("q", q)
    if q.ndim != 1:
        raise InvalidArgument("q", q.shape, "rank is analysed at one configuration, shape (nq,)")
    names = row_names(given)
    found = dependent_rows(
        constraint_jacobian(robot, q, constraints) @ inverse_mass_root(robot, q), DEPENDENT
    )
    redundant = {names[k]: {names[i]: x for i, x in parts.items()} for k, parts in found.items()}
    # each constraint restricted to its independent rows
    kept, start = [], 0
    for c in given:
        rows = tuple(row for k, row in enumerate(c.rows, start) if k not in found)
        kept += [dataclasses.replace(c, rows=rows, redundant=())] if rows else []
        start += c.size
    return Rank(names, redundant, tuple(kept), robot.nv - len(names) + len(found))


def independent(
    robot: Robot, q: ArrayLike | None = None, constraints: Constraints = None
) -> tuple[Loop | Contact, ...]:
    """The constraints restricted to equations that do not depend on each other.

    Without q, at the configuration that `assemble` finds from the neutral one, to the precision
    that a file may have: redundant rows need not agree to more than its digits.
    """
    at = assemble(robot, robot.neutral(), constraints, tolerance=1e-6) if q is None else q
    return analyse(robot, at, constraints).independent


def mark_redundant(robot: Robot, constraints: Constraints = None) -> tuple[Loop | Contact, ...]:
    """The constraints with the rows marked that others make up; a warning names them.

    Rows are judged where the constraints are met, near named configurations or else the neutral
    one: the rows of the most independent of these places stay, in the order in which they are
    given. At single places more rows may depend on each other.
    """
    given = list_constraints(robot, constraints)
    names = row_names(given)
    known = np.array([row in c.redundant for c in given for row in c.rows], dtype=bool)
    if known.all():
        return given
    samples = _closed_jacobians(Robot(robot.model, native=False), given)
    # rows that are marked already count for nothing
    samples[:, known] = 0.0
    first, *others = sorted((dependent_rows(J) for J in samples), key=len)
    found = {names[k]: parts for k, parts in first.items() if not known[k]}
    if not found:
        return given
    # coefficients are named only where they are the same everywhere
    constant = all(
        other.get(k, {}).keys() == parts.keys()
        and all(abs(other[k][i] - x) < 1e-6 * (1.0 + abs(x)) for i, x in parts.items())
        for other in others
        for k, parts in first.items()
    )
    rows = (
        f"{name!r} {combination({names[i]: x if constant else np.nan for i, x in parts.items()})}"
        for name, parts in found.items()
    )
    kept = ", ".join(name for k, name in enumerate(names) if k not in first)
    message = (
        f"constraints of {robot.name!r} are redundant: {'; '.join(rows)}. Their multipliers are "
        f"taken as zero. Independent rows: {kept or 'none'}"
    )
    # the stack level of the first caller outside this package
    depth, frame = 0, sys._getframe()
    # methods of a robot are executed text, which belongs to no module
    while frame.f_back and frame.f_globals.get("__name__", "qddot.").startswith("qddot."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, stacklevel=depth + 1)
    return tuple(
        dataclasses.replace(
            c,
            redundant=(
                *c.redundant,
                *(row for row, name in zip(c.rows, c.row_names, strict=True) if name in found),
            ),
        )
        for c in given
    )


def _closed_jacobians(robot: Robot, given: Sequence[Loop | Contact]) -> np.ndarray:
    """Jacobians at configurations that meet the constraints; at random ones where none is found."""
    rng = np.random.default_rng(0)
    # most files are closed where they name a configuration
    starts = np.array([*robot.configurations.values()][-2:] or [robot.neutral()])
    q = starts[:0]
    for spread, tolerance, iterations in _SEARCHES:
        if not len(q):
            steps = spread * rng.uniform(-1.0, 1.0, (2, len(starts), robot.nv))
            guesses = robot.integrate(starts, steps).reshape(-1, robot.nq)
            try:
                q = assemble(
                    robot, guesses, given, tolerance=tolerance, iterations=iterations, strict=False
                )
            except SingularInertia:
                continue
            q = q[np.isfinite(q).all(axis=-1)]
    q = q if len(q) else random_configurations(robot.model, rng, (3,))
    with np.errstate(all="ignore"):
        J = robot.constraint_jacobian(q, constraints=given)
    return np.nan_to_num(J, nan=0.0, posinf=0.0, neginf=0.0)


def with_loops(robot: Robot, loops: Iterable[Loop]) -> Robot:
    """The same robot with these loop closures in place of its own."""
    loops, model = tuple(loops), robot.model
    if not all(isinstance(loop, Loop) for loop in loops):
        raise WrongType("loops", loops, "it is a list of Loop")
    health = (*open_loops(loops), *(f for f in model.health if f.kind != "loop"))
    return Robot(dataclasses.replace(model, loops=loops, health=health), robot.native)
