"""Contact and joint stops by complementarity: a step that solves for impulses.

Velocities without contact are found first; impulses in Coulomb's cone then keep every gap from
closing by more than there is of it (Stewart & Trinkle 1996). Where bodies overlap already, they
are moved apart without any velocity, so that nothing is thrown out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.linear import Factor, dot, factorise, solve, solve_lower
from qddot.algorithms.recursion import Vector, joint_kinematics, zeros
from qddot.errors import InvalidArgument
from qddot.model.model import Body, Model
from qddot.simulate.contact.cone import (
    Contact,
    Part,
    Row,
    Stop,
    make_contact,
    make_hold,
    make_row,
    make_stop,
    sweep,
)
from qddot.simulate.contact.gaps import Site, Touch, contact_rows, find_sites
from qddot.simulate.contact.penalty import stopped_bodies
from qddot.simulate.contact.scene import Scene
from qddot.simulate.lifted import present
from qddot.simulate.motion import advance, align, chart_rate, unalign
from qddot.simulate.plant import RobotPlant
from qddot.simulate.resistance import Drag, Grip, largest
from qddot.spatial.algebra import Subspace, Transform, Vec3
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["ComplementarityContact", "Impulses"]

_APART_SWEEPS = 4


@dataclass(frozen=True)
class Impulses:
    """What the contacts of a step do.

    `contacts` has the impulse on the first body of each touch along its axes (N s), `stops` that
    on each joint with stops (N m s). `a` are the accelerations and `v` the velocities at
    the end, with all of them, `apart` is the displacement that parts what overlaps, `residual` the
    largest miss of Coulomb's law (m/s).
    """

    touches: list[Touch]
    contacts: list[list[Scalar]]
    stops: list[Scalar]
    a: list[Scalar]
    v: list[Scalar]
    apart: list[Scalar]
    residual: Scalar

    def worldly(self) -> list[Scalar]:
        """The impulses of all contacts in world axes."""
        total: list[Scalar] = []
        for touch, impulse in zip(self.touches, self.contacts, strict=True):
            along = Vec3.zero()
            for axis, x in zip(touch.world_axes, impulse, strict=False):
                along = along + axis * x
            total += along
        return total


@dataclass(frozen=True)
class ComplementarityContact:
    """Contact without compliance: exact friction cones, restitution, and joint stops.

    `sweeps` of accelerated Gauss–Seidel are taken a step, from the impulses of the step before.
    `limits` says whether joints stop at their limits. A share `correction` of any overlap is taken
    away a step. Restitution acts on impacts faster than `threshold` (m/s). It keeps the impulses in
    world axes, those on the stops, the miss of Coulomb's law (m/s) in the step, and the largest so
    far. Joint friction that holds (a Grip of an effect) is solved for together with contact.
    """

    scene: Scene
    sweeps: int = 15
    limits: bool = True
    correction: float = 0.5
    threshold: float = 0.01

    def __post_init__(self) -> None:
        if not isinstance(self.scene, Scene):
            raise InvalidArgument("scene", self.scene, "it is a Scene")
        n: Any = self.sweeps
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise InvalidArgument("sweeps", n, "it is a whole number from 1")
        for name, most in (("correction", 1.0), ("threshold", math.inf)):
            x = getattr(self, name)
            if not isinstance(x, int | float) or not 0.0 <= x <= most:
                raise InvalidArgument(name, x, f"it is a number from 0 to {most:g}")

    def sites(self, model: Model) -> list[Site]:
        """The points that can touch."""
        return find_sites(self.scene, model)

    def stopped(self, model: Model) -> list[Body]:
        """Bodies whose joint stops at its limits."""
        return stopped_bodies(model) if self.limits else []

    def memory(self, model: Model) -> int:
        """Three numbers a contact, one a joint with stops, and two misses."""
        return 3 * len(self.sites(model)) + len(self.stopped(model)) + 2

    def start(self, model: Model) -> list[float]:
        """No impulses before the first step."""
        return [0.0] * self.memory(model)

    def step(
        self, plant: RobotPlant, q: Vector, v: Vector, memory: Vector, damped: bool
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Configuration, velocities and memory after a step; see `solve`."""
        model, dt = plant.model, plant.dt
        found = self.solve(plant, q, v, memory, damped)
        w = align(model, q, found.v)
        parted = align(model, q, found.apart)
        q1 = advance(model, q, [x * dt + d for x, d in zip(w, parted, strict=True)])
        worst = largest(memory[-1], found.residual)
        kept = [*found.worldly(), *found.stops, found.residual, worst]
        return q1, unalign(model, q1, w), kept

    def solve(
        self, plant: RobotPlant, q: Vector, v: Vector, memory: Vector, damped: bool
    ) -> Impulses:
        """The impulses of a step from a state; with `damped` joint damping is that at its end."""
        at = _Free.of(plant, q, v, damped)
        sites, bodies = self.sites(at.model), self.stopped(at.model)
        touches = [site.find(at.poses) for site in sites]
        contacts = [self._contact(at, *pair) for pair in zip(sites, touches, strict=True)]
        stops = [_stop(at, body) for body in bodies]
        grips = [x for x in plant.resisting(q, v) if isinstance(x, Grip)]
        holds = [make_hold(at.row(at.unit(grip.dof)), grip, at.dt) for grip in grips]
        parts: list[Part] = [*contacts, *stops, *holds]
        warm = [*_along(touches, contacts, memory), *([x] for x in memory[3 * len(sites) : -2])]
        y, found = sweep(parts, [*warm, *([0.0] for _ in holds)], self.sweeps)
        residual: Scalar = 0.0
        for part, x in zip(parts, found, strict=True):
            residual = largest(residual, part.residual(y, x))
        y = y or zeros(at.model.nv)
        apart = self._apart(at, y, touches, contacts, bodies, stops)
        change, parted = (solve_lower(at.factor[0], x) for x in (y, apart))
        return Impulses(
            touches,
            found[: len(sites)],
            [x for (x,) in found[len(sites) : len(sites) + len(bodies)]],
            [x + c / at.dt for x, c in zip(at.a, change, strict=True)],
            [x + c for x, c in zip(at.v, change, strict=True)],
            parted,
            residual,
        )

    def _contact(self, at: _Free, site: Site, touch: Touch) -> Contact:
        directions = touch.axes if present(site.pair.friction) else touch.axes[:1]
        J = contact_rows(at.model, at.X, at.S, touch, directions)
        rows = [at.row(row) for row in J]
        bound = self._bound(at, site, touch, rows[0].free, dot(J[0], at.before))
        return make_contact(rows, bound, site.pair.friction)

    def _bound(self, at: _Free, site: Site, touch: Touch, free: Scalar, before: Scalar) -> Scalar:
        """The least velocity along the normal: that which closes the gap, or the rebound."""
        closing = -largest(touch.gap, 0.0) / at.dt
        bounce: Scalar = site.pair.restitution
        if not present(bounce):
            return closing
        rebound = where(less(before, -self.threshold), -bounce * before, closing)
        hit = where(less(touch.gap + free * at.dt, 0.0), rebound, closing)
        return where(less(0.0, bounce), hit, closing)

    def _apart(
        self,
        at: _Free,
        y: Sequence[Scalar],
        touches: Sequence[Touch],
        contacts: Sequence[Contact],
        bodies: Sequence[Body],
        stops: Sequence[Stop],
    ) -> list[Scalar]:
        """y of the smallest displacement that parts what still overlaps after the step.

        The same problem with displacements for velocities, and along the normals only.
        """
        parts: list[Part] = []
        for touch, contact in zip(touches, contacts, strict=True):
            normal = contact.rows[0]
            need = -(touch.gap + normal.velocity(y) * at.dt)
            parts.append(make_contact([replace(normal, free=0.0)], self._share(need), 0.0))
        for body, stop in zip(bodies, stops, strict=True):
            limits = body.joint.limits
            x = at.displacement(body) + stop.row.velocity(y) * at.dt
            lower = self._share(limits.lower - x) if math.isfinite(limits.lower) else None
            upper = -self._share(x - limits.upper) if math.isfinite(limits.upper) else None
            parts.append(make_stop(replace(stop.row, free=0.0), lower, upper))
        start: list[list[Scalar]] = [[0.0] for _ in parts]
        return sweep(parts, start, _APART_SWEEPS)[0] or zeros(at.model.nv)

    def _share(self, need: Scalar) -> Scalar:
        """How far to move where so much is needed; all that there is room for where it is not."""
        return where(less(0.0, need), need * self.correction, need)


@dataclass(frozen=True)
class _Free:
    """A step as it is without impulses: a and v at its end, `before` at its start."""

    model: Model
    q: Vector
    before: Vector
    dt: Scalar
    X: list[Transform]
    S: list[Subspace]
    poses: list[Transform]
    factor: Factor
    a: list[Scalar]
    v: list[Scalar]

    @staticmethod
    def of(plant: RobotPlant, q: Vector, v: Vector, damped: bool) -> _Free:
        """From the state at its start."""
        model, dt = plant.model, plant.dt
        X, S = joint_kinematics(model, q)
        M, rest = plant.balance(q, v, dt if damped else 0.0)
        for drag in plant.resisting(q, v):
            if isinstance(drag, Drag):
                k = drag.dof
                M[k][k] = M[k][k] + drag.slope * dt
                rest[k] = rest[k] - drag.offset - drag.slope * v[k]
        factor = factorise(M)
        a = solve(factor, rest)
        rates = zip(align(model, q, v), chart_rate(model, q, v, a), strict=True)
        free = unalign(model, q, [w + r * dt for w, r in rates])
        return _Free(model, q, v, dt, X, S, world_poses(model, X), factor, a, free)

    def row(self, J: Vector) -> Row:
        """A row of a Jacobian in this step."""
        return make_row(self.factor, J, self.v)

    def unit(self, dof: int, length: float = 1.0) -> list[Scalar]:
        """A Jacobian with one entry."""
        return [length if k == dof else 0.0 for k in range(self.model.nv)]

    def displacement(self, body: Body) -> Scalar:
        """How far the joint of a body has moved."""
        return body.joint.displacement(self.q[body.iq])[0]


def _stop(at: _Free, body: Body) -> Stop:
    """A joint with stops, and the velocities that lead no further than these."""
    x, limits = at.displacement(body), body.joint.limits
    lower = -largest(x - limits.lower, 0.0) / at.dt if math.isfinite(limits.lower) else None
    upper = largest(limits.upper - x, 0.0) / at.dt if math.isfinite(limits.upper) else None
    return make_stop(at.row(at.unit(body.iv.start, body.joint.ratio)), lower, upper)


def _along(
    touches: Sequence[Touch], contacts: Sequence[Contact], memory: Vector
) -> list[list[Scalar]]:
    """The impulses of the step before along the axes of this one."""
    impulses = []
    for k, (touch, contact) in enumerate(zip(touches, contacts, strict=True)):
        f = Vec3(*memory[3 * k : 3 * k + 3])
        impulses.append([e.dot(f) for e in touch.world_axes[: len(contact.rows)]])
    return impulses
