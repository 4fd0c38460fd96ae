"""Which equations of constraints count, and robots that have only those."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from qddot.constraints.closing import assemble
from qddot.constraints.given import (
    DEPENDENT,
    Constraints,
    finite,
    inverse_root,
    jacobian,
    listed,
    row_names,
)
from qddot.errors import NotUnderstood, combination
from qddot.health import dependent_rows
from qddot.parts import Contact, Loop, open_loops
from qddot.robot import Robot

__all__ = ["Rank", "analyse", "independent", "with_loops"]


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
        head = (
            f"{len(self.rows)} equations, {self.rank} independent; freedoms left: {self.freedoms}"
        )
        lines = [f"  {name} {combination(parts)}" for name, parts in self.redundant.items()]
        return "\n".join([head, *lines])


def analyse(robot: Robot, q: ArrayLike, constraints: Constraints = None) -> Rank:
    """Which equations of the constraints are independent at a configuration, which are not.

    Equations count in the order in which they are given: one that those before it make up is
    redundant. Rows are measured by the speeds that a unit of kinetic energy gives.
    """
    given, q = listed(robot, constraints), finite("q", q)
    if q.ndim != 1:
        raise NotUnderstood("q", q.shape, "rank is analysed at one configuration, shape (nq,)")
    names = row_names(given)
    found = dependent_rows(jacobian(robot, q, constraints) @ inverse_root(robot, q), DEPENDENT)
    redundant = {names[k]: {names[i]: x for i, x in parts.items()} for k, parts in found.items()}
    kept, start = [], 0
    for c in given:
        rows = tuple(row for k, row in enumerate(c.rows, start) if k not in found)
        kept += [dataclasses.replace(c, rows=rows)] if rows else []
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


def with_loops(robot: Robot, loops: Iterable[Loop]) -> Robot:
    """The same robot with these loop closures in place of its own."""
    loops, model = tuple(loops), robot.model
    if not all(isinstance(loop, Loop) for loop in loops):
        raise NotUnderstood("loops", loops, "it is a list of Loop")
    health = (*open_loops(loops), *(f for f in model.health if f.kind != "loop"))
    return Robot(dataclasses.replace(model, loops=loops, health=health), robot.native)
