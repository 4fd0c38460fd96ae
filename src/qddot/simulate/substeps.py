"""Steps of closed chains in parts, as short as a mechanism needs where it whips round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qddot.algorithms.recursion import Vector
from qddot.model.model import Model
from qddot.simulate.loops import ClosedLoops
from qddot.simulate.motion import ExplicitPlant, align, unalign
from qddot.spatial.regions import run_while
from qddot.spatial.scalar import (
    Scalar,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    sqrt,
    where,
)

__all__ = ["DividedStep", "take_substeps"]

_SAFETY, _SHORTEST, _LONGEST = 0.8, 0.1, 4.0
"""Length of the next part: a share of the one that just keeps the tolerance, bounds by the last."""
_RETRY = 0.5
"""The most that is left of an attempt that is rejected, so that its error falls clearly."""
_NOISE = 1.0 / 2048.0
"""An error that is lost beside 1 after multiplication by this is rounding."""
_STALLED = 0.9
"""An error that falls to no less than this share of that of a longer attempt does not fall."""
_SCATTER = 2.0
"""Rounding of one attempt by that of another."""
_BRIEF = 1e-3
"""The share of a step below which an error that does not fall is rounding, not a long step."""
_TURNING = 16.0 * 2.0**-53
"""An error that is rounding of q, by the pivot of the loops."""
_BRANCH = 1e-4
"""The error of a part that starts at a singular configuration, where shorter ones gain nothing."""
_FINITE = 1e30


@dataclass(frozen=True)
class DividedStep:
    """The end of a step taken in parts, how far (m, rad) loops are open there, and its error.

    The error is the largest of a part, as a share of the speed.
    """

    q: list[Scalar]
    v: list[Scalar]
    violation: Scalar
    error: Scalar


@dataclass(frozen=True)
class _PartialPlant:
    """A plant during a part of a step, `share` of it long, which starts a share `done` after it."""

    plant: ExplicitPlant
    done: Scalar
    share: Scalar

    @property
    def model(self) -> Model:
        """The robot."""
        return self.plant.model

    def rate(self, q: Vector, w: Vector, share: Scalar) -> list[Scalar]:
        """Rate of the chart velocities at a state, a share of the part after its start."""
        return self.plant.rate(q, w, self.done + self.share * share)


def take_substeps(
    plant: ExplicitPlant,
    loops: ClosedLoops,
    integrate: Callable[[Any, Vector, Vector, Scalar], Any],
    q: Vector,
    v: Vector,
    dt: Scalar,
) -> DividedStep:
    """A step of an explicit integrator of fourth order or more, in parts that end on closure.

    The first attempt is the whole step. The end of an attempt is off the closed configurations by
    the error of the integrator, so its projection there is an estimate of that error which costs
    nothing; velocities that the loops do not admit at the start of a part, as after a kick, are no
    part of it, and are removed first. An attempt is kept if its error is within the tolerance of
    the loops; the next is as long as should just keep it (Hairer, Nørsett & Wanner 1993, section
    II.4). An error that does not fall as brief attempts get briefer is rounding, and twice that is
    the tolerance of the rest of the step. When the attempts are used up, all that is left of the
    step is taken at once, with the error that it has.
    """
    model = plant.model

    def attempt(now: list[Scalar]) -> list[Scalar]:
        going, done, share, attempts, error, violation, tolerance, rejected, *before = now
        q, v = before[: model.nq], before[model.nq :]
        # the part, its projection on closure, and its error
        part = _PartialPlant(plant, done, share)
        admitted, pivot = loops.admit(model, q, v)
        w = align(model, q, admitted)
        q1, w1 = integrate(part, q, w, dt * share)
        end = loops.project(model, q, q1, unalign(model, q1, w1), accurate=True)
        estimate = end.correction
        # an error of a brief part as large as that of the longer attempt before is rounding
        runs, branches = less(0.5, going), less_equal(pivot, 0.0)
        same = less(rejected * _STALLED, estimate)
        stalled = logical_and(logical_and(less(share, _BRIEF), same), logical_not(branches))
        tolerance = where(logical_and(runs, stalled), estimate * _SCATTER, tolerance)
        # it is kept if the error is small, or rounding, or if nothing better can be had
        accurate = logical_or(
            less_equal(estimate, tolerance), less_equal(estimate * _NOISE + 1.0, 1.0)
        )
        # near a branch of the mechanism the rounding of q turns v; at it, v says which to follow
        lost = logical_and(less_equal(estimate * pivot, _TURNING), logical_not(branches))
        follows = logical_and(branches, logical_or(less(estimate, _BRANCH), same))
        accurate = logical_or(accurate, logical_or(lost, follows))
        small = minimum(estimate, loops.tolerance)
        counted = where(logical_or(lost, branches), small, estimate)
        finite = less(sum(x * x for x in before), _FINITE)
        last = logical_or(less(loops.attempts - 1.5, attempts), logical_not(finite))
        kept = logical_and(runs, logical_or(accurate, last))
        # the next part; one that nearly ends the step ends it
        root = sqrt(sqrt(loops.tolerance / maximum(estimate, loops.tolerance * 1e-6)))
        factor = minimum(maximum(_SAFETY * root, _SHORTEST), _LONGEST)
        factor = where(less(0.0, root), factor, _SHORTEST)
        # rounding does not depend on the length
        rounding = logical_and(kept, less(loops.tolerance, estimate))
        factor = where(rounding, _LONGEST, where(kept, factor, minimum(factor, _RETRY)))
        after = where(kept, done + share, done)
        left, length = 1.0 - after, share * factor
        ends = logical_or(less(left, length * 1.001), less(loops.attempts - 2.5, attempts))
        return [
            where(logical_and(kept, less(left, 1e-9)), 0.0, going),
            after,
            where(runs, where(ends, left, length), share),
            attempts + going,
            where(kept, maximum(error, counted), error),
            where(kept, end.violation, violation),
            tolerance,
            where(runs, where(kept, _FINITE, estimate), rejected),
            *(where(kept, x, y) for x, y in zip([*end.q, *end.v], before, strict=True)),
        ]

    # a number that is recorded where others are, and is 1
    going = where(less(dt, 0.0), 0.0, 1.0)
    start = [going, 0.0, 1.0, 0.0, 0.0, 0.0, loops.tolerance, _FINITE, *q, *v]
    _, _, _, _, error, violation, _, _, *end = run_while(attempt, start, loops.attempts)
    return DividedStep(end[: model.nq], end[model.nq :], violation, error)
