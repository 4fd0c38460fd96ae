"""Impulses of a step: Gauss–Seidel sweeps over contacts, stops and joint friction, Newton steps.

A sweep gives each part the impulse that obeys its law with all others as they are, at the cost of
two products a row, and finds out which contacts are closed, stick or slide. A Newton step then
solves the laws of those together (Alart & Curnier 1991), which sweeps alone do slowly where many
contacts share a body or bodies stand on each other. Newton steps alone can repeat in a cycle where
contacts change between sticking and sliding; so every fourth sweep goes without one, and all do
after the first 24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from qddot.algorithms.linear import dot, factorise_unsymmetric, solve_unsymmetric
from qddot.algorithms.recursion import zeros
from qddot.simulate.contact.cone import Part, take
from qddot.simulate.implicit_torques import largest
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["initial_sweep_state", "sweep"]

_NEWTON_SWEEPS, _NEWTON_STREAK = 24, 3
"""Sweeps within which Newton steps are taken, and how many of them in a row."""


def initial_sweep_state(impulse: Sequence[Scalar], near: Scalar) -> list[Scalar]:
    """An impulse before any sweep, no Newton step yet, and no slip in it.

    These are numbers of their own where a part is near, so that sweeps can write into each.
    """
    is_near = less(0.5, near)
    return [*impulse, *(where(is_near, 0.0, 1.0) for _ in (*impulse, None))]


def sweep(
    parts: Sequence[Part],
    impulses: Sequence[list[Scalar]],
    y: list[Scalar],
    sweeps: int,
    tolerance: float,
    newton: bool = True,
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """y and the impulses after sweeps over all parts, from initial sweep states and their y.

    Between sweeps the impulses take a Newton step; nothing follows the last sweep, so that all
    impulses are in their cones. It ends when no velocity is changed by more than the tolerance.
    """
    n, counts = len(y), [len(impulse) // 2 for impulse in impulses]
    going: Scalar = 0.0
    for part in parts:
        going = largest(going, part.near)

    def sweep_once(state: list[Scalar]) -> list[Scalar]:
        # the Newton step, unless this sweep goes without one, then the sweep
        numbers = iter(state)
        going, share, done, streak = take(numbers, 4)
        share = where(less(done, _NEWTON_SWEEPS - 0.5), share, 0.0)
        share = where(less(streak, _NEWTON_STREAK - 0.5), share, 0.0)
        done, streak = done + 1.0, where(less(streak, _NEWTON_STREAK - 0.5), streak + 1.0, 0.0)
        y, along = (take(numbers, n) for _ in range(2))
        y = [a + share * d for a, d in zip(y, along, strict=True)]
        speed: Scalar = 0.0
        impulses: list[list[Scalar]] = []
        active: list[Scalar] = []
        sliding: list[Scalar] = []
        for part, count in zip(parts, counts, strict=True):
            sweep_part = _PartSweep(part, going, share, n, count)
            own = take(numbers, 2 * count + 1)
            found = run_where(part.near, sweep_part.run, [*y, speed, 0.0, *own])
            y, speed = found[:n], found[n]
            active.append(found[n + 1])
            impulses.append(found[n + 2 : n + 2 + count])
            sliding.append(found[-1])
        # whether another sweep follows, and the Newton step before it
        going = where(less(tolerance * tolerance, speed), going, 0.0)

        def find_step(_: list[Scalar]) -> list[Scalar]:
            return _newton_step(parts, active, sliding, impulses, y)

        step: list[Scalar] = [0.0] * (n + 1 + sum(counts) + len(counts))
        share, *step = run_where(going, find_step, step) if newton else step
        along, rest = step[:n], iter(step[n:])
        after = [[*x, *take(rest, len(x) + 1)] for x in impulses]
        return [going, share, done, streak, *y, *along, *(x for own in after for x in own)]

    start = [going, 0.0, 0.0, 0.0, *y, *[0.0] * n]
    for impulse in impulses:
        start += impulse
    numbers = iter(run_while(sweep_once, start, sweeps)[4:])
    y = take(numbers, 2 * n)[:n]
    return y, [take(numbers, 2 * count + 1)[:count] for count in counts]


@dataclass(frozen=True)
class _PartSweep:
    """A part in a sweep over states that are `going`, after a share of the Newton step."""

    part: Part
    going: Scalar
    share: Scalar
    n: int
    count: int

    def run(self, state: list[Scalar]) -> list[Scalar]:
        """y, the sum of squares of velocities, whether the part is active, impulse and step."""
        numbers = iter(state)
        y, (speed, _) = take(numbers, self.n), take(numbers, 2)
        before, step = (take(numbers, self.count) for _ in range(2))
        slides = next(numbers)
        moved = [x + self.share * d for x, d in zip(before, step, strict=True)]
        runs = less(0.5, self.going)
        found = [where(runs, x, b) for x, b in zip(self.part.update(y, moved), moved, strict=True)]
        for row, w, x, b in zip(self.part.rows, self.part.weights, found, moved, strict=True):
            change = x - b
            y = row.add_impulse(y, change)
            speed = speed + w * w * change * change
        return [*y, speed, self.part.active(found), *found, *step, slides]


def _newton_step(
    parts: Sequence[Part],
    active: Sequence[Scalar],
    sliding: Sequence[Scalar],
    impulses: Sequence[Sequence[Scalar]],
    y: Sequence[Scalar],
) -> list[Scalar]:
    """The share to take of a Newton step, the step of y, and that of each impulse.

    The law of each part that is active is linear for small changes: a row Z whose velocity is off
    by u pushes y by −F s (u + Z Δy) with a stiffness s. So (1 + Σ F s Z) Δy = −Σ F s u, and of all
    impulses that would do these are the smallest. The share ends where a first one leaves its cone;
    with the step of each comes 1 where it would slide at the end, as it does in the next step.
    """
    n = len(y)
    H: list[list[Scalar]] = [[float(i == j) for j in range(n)] for i in range(n)]
    b: list[Scalar] = zeros(n)
    for part, flag, slides, impulse in zip(parts, active, sliding, impulses, strict=True):
        # entries of y that the part acts on: those that are not the constant zero
        columns = [[row.Y[j] for row in part.rows] for j in range(n)]
        used = [
            j for j, Y in enumerate(columns) if any(not isinstance(x, float) or x != 0.0 for x in Y)
        ]
        before = [*(H[i][j] for i in used for j in used), *(b[j] for j in used)]
        entries = iter(run_where(flag, _TermSum(part, impulse, slides, y, used).add, before))
        for i in used:
            for j in used:
                H[i][j] = next(entries)
        for j in used:
            b[j] = next(entries)
    dy = solve_unsymmetric(factorise_unsymmetric(H), b)
    # impulses of the step, and the share of it with which all stay in their cones
    share: Scalar = 1.0
    steps: list[Scalar] = []
    for part, flag, slides, impulse in zip(parts, active, sliding, impulses, strict=True):

        def find(
            state: list[Scalar],
            part: Part = part,
            slides: Scalar = slides,
            impulse: Sequence[Scalar] = impulse,
        ) -> list[Scalar]:
            step: list[Scalar] = [0.0] * len(impulse)
            for term in part.newton_terms(y, impulse, slides):
                amount = -term.stiffness * (term.off + dot(term.row, dy))
                step = [x + amount * c for x, c in zip(step, term.step, strict=True)]
            most, following = part.limit_step(impulse, step)
            return [-largest(-state[0], -most), *step, following]

        share, *step = run_where(flag, find, [share, *[0.0] * (len(impulse) + 1)])
        steps += step
    return [share, *dy, *steps]


@dataclass(frozen=True)
class _TermSum:
    """The terms of a part, to be added to the entries `used` of the equation of a Newton step."""

    part: Part
    impulse: Sequence[Scalar]
    slides: Scalar
    y: Sequence[Scalar]
    used: Sequence[int]

    def add(self, state: list[Scalar]) -> list[Scalar]:
        """Entries of the matrix row by row, then those of the right side, with the terms."""
        size = len(self.used)
        entries, right = state[: size * size], state[size * size :]
        for term in self.part.newton_terms(self.y, self.impulse, self.slides):
            row = [term.row[j] for j in self.used]
            push = [term.push[i] * term.stiffness for i in self.used]
            entries = [h + f * z for h, (f, z) in zip(entries, product(push, row), strict=True)]
            right = [x - f * term.off for x, f in zip(right, push, strict=True)]
        return [*entries, *right]
