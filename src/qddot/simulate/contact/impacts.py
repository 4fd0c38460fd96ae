"""Restitution: rebounds of all contacts that close within a step, in phases.

In a phase Newton's law holds for all contacts that close at its start, and for no others; what they
do to others is a matter of the next phase (generalized reflections, Smith, Kaufman, Vouga, Tamstorf
& Grinspun 2012). So bodies that strike at once rebound together, and an impact runs through a row
of balls within a step. Friction and all other forces are left to the solution of the step, for
which the velocities after the last phase are bounds. Where the sweeps do not come to the end of
the phases, as for a light body between heavy ones, nothing rebounds in that step: velocities in
the middle of impacts are no bounds, they may have more energy than the bodies had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qddot.algorithms.recursion import zeros
from qddot.simulate.contact.cone import FrictionalContact, Row, take
from qddot.simulate.implicit_torques import largest
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["Impact", "least_velocities"]

_SWEEPS = 400
"""The most sweeps of all phases of a step."""
_SETTLED = 1e-12
"""Change of velocities (m/s) in a sweep at which a phase ends."""


@dataclass(frozen=True)
class Impact:
    """A contact that may rebound: velocity along its normal at the start of the step, its gap."""

    contact: FrictionalContact
    before: Scalar
    gap: Scalar
    restitution: Scalar

    @property
    def row(self) -> Row:
        """The normal direction, with the velocity at the start of the step."""
        return Row(self.contact.rows[0].Y, self.before)

    def closes(self, u: Scalar, threshold: float, dt: Scalar) -> Scalar:
        """1 where the gap would close within the step, faster than the threshold."""
        ahead = u + (self.contact.rows[0].free - self.before)
        fast = where(less(u, -threshold), 1.0, 0.0)
        return where(less(self.gap + ahead * dt, 0.0), fast, 0.0)


def least_velocities(
    impacts: Sequence[Impact], threshold: float, dt: Scalar, nv: int
) -> list[Scalar]:
    """The least velocity along the normal of each contact at the end of a step.

    It is the velocity that closes the gap, or after an impact the rebound velocity.
    """

    def sweep_once(state: list[Scalar]) -> list[Scalar]:
        # state: going, y, then impulse, rebound, active and struck for each contact
        y, own = state[1 : 1 + nv], iter(state[1 + nv :])
        speed: Scalar = 0.0
        contacts: list[list[Scalar]] = []
        for impact in impacts:

            def push(now: list[Scalar], impact: Impact = impact) -> list[Scalar]:
                y, (speed, impulse, rebound, active, struck) = now[:nv], now[nv:]
                contact, row = impact.contact, impact.row
                missing = (rebound - row.velocity(y)) * contact.masses[0]
                after = where(less(0.5, active), largest(impulse + missing, 0.0), impulse)
                change = after - impulse
                size = contact.weights[0] * change
                y = row.add_impulse(y, change)
                return [*y, speed + size * size, after, rebound, active, struck]

            found = run_where(impact.contact.near, push, [*y, speed, *take(own, 4)])
            y, speed = found[:nv], found[nv]
            contacts.append(found[nv + 1 :])
        # the next phase, where this one has come to its end
        ends = less(speed, _SETTLED * _SETTLED)
        going: Scalar = 0.0
        after: list[Scalar] = []
        for impact, numbers in zip(impacts, contacts, strict=True):

            def begin(
                now: list[Scalar], impact: Impact = impact, y: list[Scalar] = y
            ) -> list[Scalar]:
                going, impulse, rebound, active, struck = now
                u = impact.row.velocity(y)
                closes = impact.closes(u, threshold, dt)
                return [
                    largest(going, closes),
                    where(ends, 0.0, impulse),
                    where(ends, -impact.restitution * u, rebound),
                    where(ends, closes, active),
                    where(ends, largest(struck, closes), struck),
                ]

            going, *numbers = run_where(impact.contact.near, begin, [going, *numbers])
            after += numbers
        return [where(ends, going, 1.0), *y, *after]

    going: Scalar = 0.0
    for impact in impacts:
        going = largest(going, impact.contact.near)
    start = [going, *zeros(nv), *[0.0] * (4 * len(impacts))]
    unfinished, *found = run_while(sweep_once, start, _SWEEPS)
    y, numbers = found[:nv], iter(found[nv:])
    bounds = []
    for impact in impacts:
        *_, struck = take(numbers, 4)
        closing = -largest(impact.gap, 0.0) / dt
        # without restitution the gap closes
        left = where(less(0.0, impact.restitution), impact.row.velocity(y), closing)
        rebounds = where(less(0.5, unfinished), 0.0, struck)
        bounds.append(where(less(0.5, rebounds), largest(left, closing), closing))
    return bounds
