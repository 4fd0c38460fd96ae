"""Impulses of a step: Gauss–Seidel sweeps over contacts, stops and joint friction, Newton steps.

A sweep gives each part the impulse that obeys its law with all others as they are, at the cost of
two products a row, and finds out which contacts are closed, stick or slide. A Newton step then
solves the laws of those together (Alart & Curnier 1991), which sweeps alone do slowly where many
contacts share a body or bodies stand on each other. Newton steps alone can repeat in a cycle where
contacts change between sticking and sliding; so a streak of them is followed by a sweep without
one, and there are none after a number of sweeps.

Where contacts are redundant, such as the corners of a face, many impulses give the same motion.
The impulses of a step in which anything changes are those that equal compliances of all contacts
choose as these vanish: the first Newton steps and the sweeps between them solve the laws with a
small compliance, until no contact closes or opens, and those that follow take away what that
compliance let through, by the least changes. So the split depends neither on the order of contacts
nor on the steps before, and a flat face carries evenly. A second solution with another motion may
exist, as a contact with more pressure has more friction; this is the one of even pressure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from qddot.algorithms.linear import dot, factorise_unsymmetric, solve_unsymmetric
from qddot.algorithms.recursion import zeros
from qddot.simulate.batch_parameters import may_be_nonzero
from qddot.simulate.contact.cone import NewtonTerm, Part, take
from qddot.simulate.implicit_torques import largest
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["initial_sweep_state", "sweep"]

_NEWTON_SWEEPS, _NEWTON_STREAK = 40, 3
"""Sweeps within which Newton steps are taken, and how many of them in a row."""
_SPLIT_STEPS = 8
"""The most Newton steps with compliance, which share impulses among redundant contacts."""
_MOST_GIVE = 1e-3
"""Velocity (m/s) through a compliant contact above which its compliance is not small."""


def initial_sweep_state(impulse: Sequence[Scalar], near: Scalar) -> list[Scalar]:
    """An impulse before any sweep, and no slip in it.

    These are numbers of their own where a part is near, so that sweeps can write into each.
    """
    return [*impulse, where(less(0.5, near), 0.0, 1.0)]


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
    n = len(y)
    last = min(_NEWTON_SWEEPS, sweeps - 1)
    going: Scalar = 0.0
    for part in parts:
        going = largest(going, part.near)

    def sweep_once(state: list[Scalar]) -> list[Scalar]:
        # the sweep, over parts that are near where it is not at its end
        numbers = iter(state)
        going, done, streak, soft, changed, *y = take(numbers, 5 + n)
        runs, speed, give = less(0.5, going), 0.0, 0.0
        impulses: list[Scalar] = []
        active: list[Scalar] = []
        for part in parts:
            near, before = where(runs, part.near, 0.0), take(numbers, len(part.rows))
            run = _PartSweep(part, n, soft).run
            found = run_where(near, run, [*y, speed, changed, give, 0.0, *before])
            y, (speed, changed, give) = found[:n], found[n : n + 3]
            active.append(found[n + 3])
            impulses += [*found[n + 4 :], next(numbers)]
        # whether another sweep follows, and a Newton step before it
        moves = where(less(tolerance * tolerance, speed), 1.0, soft)
        going = where(less(0.5, moves), going, 0.0)
        now = [*y, *impulses]
        if newton:
            # with compliance from the first one on, while contacts close or open
            begins = where(less(give, _MOST_GIVE), where(less(0.0, give), going, 0.0), 0.0)
            goes_on = where(less(done, _SPLIT_STEPS - 0.5), -largest(-soft, -changed), 0.0)
            soft = where(less(done, 0.5), begins, goes_on)
            done = done + going
            stays = less(streak, _NEWTON_STREAK - 0.5)
            steps = where(stays, where(less(done, last + 0.5), going, 0.0), 0.0)
            streak = where(stays, streak + going, streak - _NEWTON_STREAK * going)
            flags = [where(less(0.5, steps), x, 0.0) for x in active]
            changed = where(less(0.5, steps), 0.0, changed)
            step = _NewtonStep(parts, flags, n, soft)
            _, changed, *now = run_while(step.run, [steps, changed, *now], 1)
        return [going, done, streak, soft, changed, *now]

    start = [going, *[0.0] * 4, *y, *chain.from_iterable(impulses)]
    numbers = iter(run_while(sweep_once, start, sweeps)[5:])
    y = take(numbers, n)
    return y, [take(numbers, len(impulse))[:-1] for impulse in impulses]


@dataclass(frozen=True)
class _PartSweep:
    """A part in a sweep, with compliance where `soft` is 1."""

    part: Part
    n: int
    soft: Scalar

    def run(self, state: list[Scalar]) -> list[Scalar]:
        """y, then of all parts so far and this one, and the impulse of this one.

        The sum of squares of changes of velocity, 1 where a part became or ceased to be active, the
        largest velocity that compliance would let through, and whether this part is active.
        """
        y, (speed, changed, give, _, *before) = state[: self.n], state[self.n :]
        impulse = self.part.update(y, before, self.soft)
        for row, w, x, b in zip(self.part.rows, self.part.weights, impulse, before, strict=True):
            change = x - b
            y = row.add_impulse(y, change)
            speed = speed + w * w * change * change
        active, gives = self.part.active(impulse), self.part.give(impulse)
        closed = [where(less(0.0, x), 1.0, 0.0) for x in (gives, self.part.give(before))]
        changed = largest(changed, largest(closed[0] - closed[1], closed[1] - closed[0]))
        return [*y, speed, changed, largest(give, gives), active, *impulse]


@dataclass(frozen=True)
class _ActivePart:
    """A part in a Newton step from y: 1 where it is active, its impulse, 1 where that slides.

    `soft` is 1 in a step with compliance.
    """

    part: Part
    active: Scalar
    impulse: list[Scalar]
    slides: Scalar
    y: list[Scalar]
    soft: Scalar

    @property
    def terms(self) -> list[NewtonTerm]:
        """Terms of its law."""
        return self.part.newton_terms(self.y, self.impulse, self.slides, self.soft)

    @property
    def places(self) -> list[int]:
        """Entries of y that the part acts on: those that are not the constant zero."""
        rows = [row.Y for row in self.part.rows]
        return [j for j in range(len(self.y)) if any(may_be_nonzero(Y[j]) for Y in rows)]


@dataclass(frozen=True)
class _NewtonStep:
    """A Newton step of the laws of all parts; `active` is 1 where a part takes part in it.

    The law of each part that is active is linear for small changes: a row Z whose velocity is off
    by u pushes y by −F s (u + Z Δy) with a stiffness s. So (1 + Σ F s Z) Δy = −Σ F s u, and of all
    impulses that would do these are the smallest. F is Z, and with it the friction that follows a
    normal impulse where a contact slides.
    """

    parts: Sequence[Part]
    active: Sequence[Scalar]
    n: int
    soft: Scalar

    def run(self, state: list[Scalar]) -> list[Scalar]:
        """1 where it is run, 1 where a contact opens, then y and the parts after the step.

        Of each part there is its impulse and 1 where that slides. A step with compliance is taken
        as a whole, and impulses that leave their cones are put back on them. Of others, the share
        that is taken ends where a first impulse leaves its cone; an impulse that would slide at the
        end of the whole step slides in the next one in which its part is active. Where no part is
        active, nothing changes.
        """
        numbers = iter(state)
        runs, changed, *y = take(numbers, 2 + self.n)
        parts = [
            _ActivePart(part, flag, take(numbers, len(part.rows)), next(numbers), y, self.soft)
            for part, flag in zip(self.parts, self.active, strict=True)
        ]
        dy = self._solve(parts)
        # impulses of the step, and the share of it with which all stay in their cones
        share: Scalar = 1.0
        steps: list[list[Scalar]] = []
        for one in parts:

            def find_step(now: list[Scalar], one: _ActivePart = one) -> list[Scalar]:
                step: list[Scalar] = zeros(len(one.impulse))
                for term in one.terms:
                    amount = -term.stiffness * (term.off + dot(term.row, dy))
                    step = [x + amount * c for x, c in zip(step, term.step, strict=True)]
                most, slides = one.part.limit_step(one.impulse, step)
                return [-largest(-now[0], -most), slides, *step]

            unknown = [None] * len(one.impulse)
            share, *step = run_where(one.active, find_step, [share, one.slides, *unknown])
            steps.append(step)
        share = where(less(0.5, self.soft), 1.0, share)
        after: list[Scalar] = []
        for one, (slides, *step) in zip(parts, steps, strict=True):

            def advance(
                now: list[Scalar],
                one: _ActivePart = one,
                step: list[Scalar] = step,
                share: Scalar = share,
            ) -> list[Scalar]:
                y, (changed, *before) = now[: self.n], now[self.n :]
                whole = [x + share * d for x, d in zip(before, step, strict=True)]
                inside = one.part.project(before, whole)
                soft = less(0.5, self.soft)
                impulse = [where(soft, a, b) for a, b in zip(inside, whole, strict=True)]
                for row, x, b in zip(one.part.rows, impulse, before, strict=True):
                    y = row.add_impulse(y, x - b)
                opens = where(less(0.0, one.part.give(impulse)), 0.0, one.part.give(before))
                changed = where(less(0.0, opens), 1.0, changed)
                return [*y, changed, *impulse]

            found = run_where(one.active, advance, [*y, changed, *one.impulse])
            y, changed = found[: self.n], found[self.n]
            after += [*found[self.n + 1 :], slides]
        return [runs, changed, *y, *after]

    def _solve(self, parts: Sequence[_ActivePart]) -> list[Scalar]:
        """The step of y."""
        H: list[list[Scalar]] = [[float(i == j) for j in range(self.n)] for i in range(self.n)]
        b: list[Scalar] = zeros(self.n)
        # rows with themselves: the lower half of the matrix, and mirrored
        follows: list[Scalar] = []
        for one in parts:
            at = one.places
            pairs = [(i, j) for i in at for j in at if j <= i]

            def add_rows(
                now: list[Scalar], one: _ActivePart = one, at: list[int] = at
            ) -> list[Scalar]:
                numbers = iter(now)
                runs, flag = take(numbers, 2)
                entries, right = take(numbers, len(at) * (len(at) + 1) // 2), take(numbers, len(at))
                for term in one.terms:
                    row = [_zero_unless(runs, term.row[j]) for j in at]
                    stiffness, off = (_zero_unless(runs, x) for x in (term.stiffness, term.off))
                    push = [x * stiffness for x in row]
                    products = (a * c for k, a in enumerate(push) for c in row[: k + 1])
                    entries = [h + x for h, x in zip(entries, products, strict=True)]
                    right = [x - f * off for x, f in zip(right, push, strict=True)]
                    if term.along is not None:
                        flag = where(less(0.0, term.follows), runs, 0.0)
                return [runs, flag, *entries, *right]

            before = [one.active, 0.0, *(H[i][j] for i, j in pairs), *(b[j] for j in at)]
            _, flag, *found = run_while(add_rows, before, 1)
            follows.append(flag)
            for (i, j), x in zip(pairs, found[: len(pairs)], strict=True):
                H[i][j] = H[j][i] = x
            for j, x in zip(at, found[len(pairs) :], strict=True):
                b[j] = x
        # friction that follows normal impulses
        for one, flag in zip(parts, follows, strict=True):
            at = one.places

            def add_friction(
                now: list[Scalar], one: _ActivePart = one, at: list[int] = at
            ) -> list[Scalar]:
                count = len(at) * len(at)
                runs, entries, right = now[0], now[1 : 1 + count], now[1 + count :]
                for term in one.terms:
                    if term.along is not None:
                        amount = term.follows * term.stiffness
                        drag = [_zero_unless(runs, term.along[j] * amount) for j in at]
                        row = [_zero_unless(runs, term.row[j]) for j in at]
                        off = _zero_unless(runs, term.off)
                        products = (a * c for a in drag for c in row)
                        entries = [h + x for h, x in zip(entries, products, strict=True)]
                        right = [x - f * off for x, f in zip(right, drag, strict=True)]
                return [runs, *entries, *right]

            if may_be_nonzero(flag):
                before = [flag, *(H[i][j] for i in at for j in at), *(b[j] for j in at)]
                entries = iter(run_while(add_friction, before, 1)[1:])
                for i in at:
                    for j in at:
                        H[i][j] = next(entries)
                for j in at:
                    b[j] = next(entries)
        return solve_unsymmetric(factorise_unsymmetric(H), b)


def _zero_unless(flag: Scalar, x: Scalar) -> Scalar:
    """x where the flag is 1, else 0: what is not known there adds nothing."""
    return where(less(0.5, flag), x, 0.0) if may_be_nonzero(x) else 0.0
