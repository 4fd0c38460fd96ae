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

from qddot.algorithms.constraints import ConstraintMobility
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.linear import dot, factorise, solve
from qddot.algorithms.recursion import Vector, joint_kinematics, velocities, zeros
from qddot.errors import InvalidArgument
from qddot.model.model import Body, Model, bodies_with_limits
from qddot.simulate.batch_parameters import may_be_nonzero
from qddot.simulate.contact.cone import (
    FrictionalContact,
    JointConstraint,
    JointStop,
    Part,
    Roots,
    Row,
    equalise,
    make_contact,
    make_joint_constraint,
)
from qddot.simulate.contact.gaps import (
    Site,
    Touch,
    contact_rows,
    find_sites,
    push_apart,
    slide_velocity,
)
from qddot.simulate.contact.impacts import Impact, least_velocities
from qddot.simulate.contact.scene import Scene
from qddot.simulate.contact.sweeps import initial_sweep_state, sweep
from qddot.simulate.implicit_torques import DampingTorque, VelocityConstraint, largest
from qddot.simulate.motion import advance, align, chart_rate, unalign
from qddot.simulate.plant import RobotPlant, StepContext
from qddot.spatial.algebra import Force, Subspace, Transform, Vec3
from qddot.spatial.regions import run_where
from qddot.spatial.scalar import Scalar, less, maximum, sqrt, where

__all__ = ["ComplementarityContact", "Impulses"]

_APART_SWEEPS = 8
_TOLERANCE = 1e-8
"""Change of velocity (m/s) in a sweep below which no other follows."""
_NEAR = 1e-4
"""Gap (m) within which bodies at rest are in contact."""
_LEVER = 0.05
"""The shortest lever (m) of a contact about a joint with stops."""
_OVERLAP = 1e-12
"""Overlap (m) that is left alone."""
_TINY = 1e-30


@dataclass(frozen=True)
class Impulses:
    """Impulses of the contacts and stops of a step, and the motion with them.

    `contacts` has the impulse on the first body of each touch along its axes (N s), `world` the
    same along those of the world, `stops` that on each joint with stops (N m s), `joints` that of
    each velocity constraint of the effects, such as joint friction (N m s). `a` are the
    accelerations and `v` the velocities at the end, with all of them, `apart` is the displacement
    that separates overlapping shapes, `residual` the largest residual of Coulomb's law (m/s).
    """

    touches: list[Touch]
    contacts: list[list[Scalar]]
    world: list[Vec3]
    stops: list[Scalar]
    joints: list[Scalar]
    a: list[Scalar]
    v: list[Scalar]
    apart: list[Scalar]
    residual: Scalar


@dataclass(frozen=True)
class ComplementarityContact:
    """Contact without compliance: exact friction cones, restitution, and joint stops.

    At most `sweeps` of Gauss–Seidel with Newton steps between them are taken a step, from the
    impulses of the step before, until velocities change by less than 1e-8 m/s. Contacts that no
    motion of the step can close take no part.
    `limits` says whether joints stop at their limits. A share `correction` of any overlap is taken
    away a step. Restitution acts on impacts faster than `threshold` (m/s). Its state are the
    impulses in world axes, those on the stops, the residual of Coulomb's law (m/s) in the step, and
    the largest so far. Joint friction (a VelocityConstraint of an effect) is solved for together
    with contact.
    """

    scene: Scene
    sweeps: int = 60
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

    def bodies_with_stops(self, model: Model) -> list[Body]:
        """Bodies whose joint stops at its limits."""
        return bodies_with_limits(model) if self.limits else []

    def state_size(self, model: Model) -> int:
        """Three numbers a contact, one a joint with stops, and two residuals."""
        return 3 * len(self.sites(model)) + len(self.bodies_with_stops(model)) + 2

    def initial_state(self, model: Model) -> list[float]:
        """No impulses before the first step."""
        return [0.0] * self.state_size(model)

    def contact_loads(self, context: StepContext, state: Vector) -> list[Force]:
        """Forces on the bodies in the step before, in body coordinates."""
        model = context.model
        poses = world_poses(model, joint_kinematics(model, context.q)[0])
        touches = [site.find(poses) for site in self.sites(model)]
        forces = []
        for k, touch in enumerate(touches):
            force = Vec3(*(x / context.dt for x in state[3 * k : 3 * k + 3]))
            forces.append(poses[touch.first].R.apply_transpose(force))
        return push_apart(model, touches, forces)

    def step(
        self, plant: RobotPlant, q: Vector, v: Vector, state: Vector, damped: bool
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Configuration, velocities and state after a step; see `solve`."""
        model, dt = plant.model, plant.dt
        found = self.solve(plant, q, v, state, damped)
        w = align(model, q, found.v)
        parted = align(model, q, found.apart)
        q1 = advance(model, q, [x * dt + d for x, d in zip(w, parted, strict=True)])
        worst = maximum(state[-1], found.residual)
        world = (x for impulse in found.world for x in impulse)
        after = [*world, *found.stops, found.residual, worst]
        return q1, unalign(model, q1, w), after

    def solve(
        self, plant: RobotPlant, q: Vector, v: Vector, state: Vector, damped: bool
    ) -> Impulses:
        """The impulses of a step from a state; with `damped` joint damping is that at its end."""
        # motion without impulses
        step = _FreeStep.of(plant, q, v, damped)
        sites, bodies = self.sites(step.model), self.bodies_with_stops(step.model)
        touches = [site.find(step.poses) for site in sites]
        reach = step.reach(touches)
        # contacts, stops and joint friction as parts of one problem, from the impulses before
        y = zeros(step.model.nv)
        part_starts: list[_PartStart] = []
        near = [where(less(touch.gap, reach), 1.0, 0.0) for touch in touches]
        rooms = [step.room(body, reach) for body in bodies]
        for k, (site, touch) in enumerate(zip(sites, touches, strict=True)):
            before = Vec3(*state[3 * k : 3 * k + 3])
            part_starts.append(self._begin_contact(step, site, touch, near[k], before, y))
            y = part_starts[-1].y
        part_starts = self._rebound(step, sites, touches, part_starts)
        for body, room, x in zip(bodies, rooms, state[3 * len(sites) : -2], strict=True):
            part_starts.append(step.begin_stop(body, room, x, y))
            y = part_starts[-1].y
        for torque in plant.implicit_torques(q, v):
            if isinstance(torque, VelocityConstraint):
                row = step.row(step.unit(torque.dof))
                part_starts.append(
                    _PartStart(make_joint_constraint(row, torque, step.dt), [0.0] * 2, y)
                )
        parts = equalise([x.part for x in part_starts])
        y, found = sweep(parts, [x.impulse for x in part_starts], y, self.sweeps, _TOLERANCE)
        # residual of the law, impulses in axes of the world, displacement of overlapping shapes
        residual: Scalar = 0.0
        world: list[list[Scalar]] = []
        overlaps = _Overlaps(step, y)
        for k, (one, x) in enumerate(zip(part_starts, found, strict=True)):
            axes = touches[k].world_axes[: len(x)] if k < len(touches) else ()
            residual, *along = overlaps.end_part(one, x, residual, axes)
            world += [along] if axes else []
        world, found = _zero_far_impulses(parts, world), _zero_far_impulses(parts, found)
        change = step.roots.velocity(y)
        return Impulses(
            touches=touches,
            contacts=found[: len(sites)],
            world=[Vec3(*x) for x in world],
            stops=[x for (x,) in found[len(sites) : len(sites) + len(bodies)]],
            joints=[x for (x,) in found[len(sites) + len(bodies) :]],
            a=[x + c / step.dt for x, c in zip(step.a, change, strict=True)],
            v=[x + c for x, c in zip(step.v, change, strict=True)],
            apart=step.roots.velocity(overlaps.separate(self.correction)),
            residual=residual,
        )

    def _begin_contact(
        self,
        step: _FreeStep,
        site: Site,
        touch: Touch,
        near: Scalar,
        before: Vec3,
        y: list[Scalar],
    ) -> _PartStart:
        """Rows, mobility and initial impulse of a contact, computed where it is within reach."""
        directions = touch.axes if may_be_nonzero(site.pair.friction) else touch.axes[:1]
        count, nv = len(directions), step.model.nv

        def begin(y: list[Scalar]) -> list[Scalar]:
            J = contact_rows(step.model, step.X, step.S, touch, directions)
            rows = [step.row(row) for row in J]
            closing = -largest(touch.gap, 0.0) / step.dt
            contact = make_contact(rows, closing, site.pair.friction)
            impulse = [e.dot(before) for e in touch.world_axes[:count]]
            y = y[:nv]
            for row, x in zip(rows, impulse, strict=True):
                y = row.add_impulse(y, x)
            return [
                *y,
                *initial_sweep_state(impulse, near),
                dot(J[0], step.before),
                *contact.numbers,
            ]

        unknown = [None] * (count + 2 + FrictionalContact.count_numbers(count, nv))
        found = run_where(near, begin, [*y, *unknown])
        y, (*start, at_start) = found[:nv], found[nv : nv + count + 2]
        numbers = iter(found[nv + count + 2 :])
        contact = FrictionalContact.from_numbers(numbers, near, site.pair.friction, count, nv)
        return _PartStart(contact, start, y, (touch.gap, None), at_start)

    def _rebound(
        self,
        step: _FreeStep,
        sites: Sequence[Site],
        touches: Sequence[Touch],
        part_starts: list[_PartStart],
    ) -> list[_PartStart]:
        """Contacts with the velocities that impacts leave, where there is restitution."""
        if not any(may_be_nonzero(site.pair.restitution) for site in sites):
            return part_starts
        impacts = [
            Impact(x.part, x.before, touch.gap, site.pair.restitution)
            for x, site, touch in zip(part_starts, sites, touches, strict=True)
            if isinstance(x.part, FrictionalContact)
        ]
        bounds = least_velocities(impacts, self.threshold, step.dt, step.model.nv)
        return [
            replace(x, part=replace(impact.contact, bound=bound))
            for x, impact, bound in zip(part_starts, impacts, bounds, strict=True)
        ]


@dataclass(frozen=True)
class _PartStart:
    """A part of a step: its impulse at the start, and y with those of all parts so far.

    `room` are the distances to its lower and upper bound at the start of the step, if it has any,
    `before` is the velocity of a contact along its normal then.
    """

    part: Part
    impulse: list[Scalar]
    y: list[Scalar]
    room: tuple[Scalar | None, Scalar | None] = (None, None)
    before: Scalar = 0.0


@dataclass(frozen=True)
class _Room:
    """Distances of a joint to its stops, None without one; `near` is 1 where it may reach them."""

    near: Scalar
    below: Scalar | None
    above: Scalar | None


class _Overlaps:
    """Parts at the end of a step, and the displacement that separates those that overlap then."""

    def __init__(self, step: _FreeStep, y: Sequence[Scalar]) -> None:
        self.step, self.y = step, y
        self.largest: Scalar = 0.0
        self.rows: list[tuple[FrictionalContact | JointStop, list[Scalar | None]]] = []

    def end_part(
        self, start: _PartStart, impulse: list[Scalar], residual: Scalar, axes: Sequence[Vec3]
    ) -> list[Scalar]:
        """The largest residual so far, and the impulse in the world; notes the overlap."""
        part, sides = start.part, [x for x in start.room if x is not None]

        def end(state: list[Scalar]) -> list[Scalar]:
            worst, overlap = state[:2]
            moved = part.rows[0].velocity(self.y) * self.step.dt
            deep = [
                -(x + sign * moved)
                for x, sign in zip(start.room, (1.0, -1.0), strict=True)
                if x is not None
            ]
            for x in deep:
                overlap = largest(overlap, x)
            along = Vec3.zero()
            for axis, x in zip(axes, impulse, strict=True) if axes else ():
                along = along + axis * x
            worst = maximum(worst, part.residual(self.y, impulse))
            return [worst, overlap, *(along if axes else ()), *deep]

        unknown = [None] * (len(sides) + (3 if axes else 0))
        residual, self.largest, *rest = run_where(
            part.near, end, [residual, self.largest, *unknown]
        )
        if not isinstance(part, JointConstraint):
            deep = iter(rest[len(rest) - len(sides) :])
            both = [None if x is None else next(deep) for x in start.room]
            self.rows.append((part, both))
        return [residual, *rest[: len(rest) - len(sides)]]

    def separate(self, correction: float) -> list[Scalar]:
        """y of the smallest displacement that separates shapes that overlap after the step.

        The same problem with displacements for velocities, and along the normals only. A share of
        the overlap is taken away where there is one, all of the gap where there is none.
        """

        def correct(x: Scalar | None, sign: float) -> Scalar | None:
            return None if x is None else where(less(0.0, x), x * correction, x) * sign

        def sweep_rows(_: list[Scalar]) -> list[Scalar]:
            stops = [
                JointStop(
                    part.near,
                    replace(part.rows[0], free=0.0),
                    lower=correct(low, 1.0),
                    upper=correct(high, -1.0),
                    W=part.weights[0],
                    mass=part.masses[0],
                )
                for part, (low, high) in self.rows
            ]
            start: list[list[Scalar]] = [[0.0] * 2 for _ in stops]
            return sweep(stops, start, zeros(len(self.y)), _APART_SWEEPS, 0.0, newton=False)[0]

        deep = where(less(_OVERLAP, self.largest), 1.0, 0.0)
        return run_where(deep, sweep_rows, zeros(len(self.y)))


@dataclass(frozen=True)
class _FreeStep:
    """A step without impulses: a and v at its end, `before` the velocity at its start."""

    model: Model
    q: Vector
    before: Vector
    dt: Scalar
    X: list[Transform]
    S: list[Subspace]
    poses: list[Transform]
    roots: Roots
    a: list[Scalar]
    v: list[Scalar]
    held: ConstraintMobility | None

    @staticmethod
    def of(plant: RobotPlant, q: Vector, v: Vector, damped: bool) -> _FreeStep:
        """The free motion of a step from the state at its start."""
        model, dt = plant.model, plant.dt
        X, S = joint_kinematics(model, q)
        M, rest = plant.equation_of_motion(q, v, dt if damped else 0.0)
        for torque in plant.implicit_torques(q, v):
            if isinstance(torque, DampingTorque):
                k = torque.dof
                M[k][k] = M[k][k] + torque.slope * dt
                rest[k] = rest[k] - torque.offset - torque.slope * v[k]
        factor = factorise(M)
        a, held = solve(factor, rest), None
        if plant.loops:
            held = ConstraintMobility.of(plant.loops.rows(model, q), factor)
            a = plant.loops.constrain(model, q, v, held, a)
        rates = zip(align(model, q, v), chart_rate(model, q, v, a), strict=True)
        v_free = unalign(model, q, [w + r * dt for w, r in rates])
        return _FreeStep(
            model,
            q=q,
            before=v,
            dt=dt,
            X=X,
            S=S,
            poses=world_poses(model, X),
            roots=Roots.of(factor),
            a=a,
            v=v_free,
            held=held,
        )

    def row(self, J: Vector) -> Row:
        """A row of a Jacobian in this step."""
        # loops are bilateral rows, which are eliminated: they take away mobility
        return self.roots.make_row(self.held.remove_force(J) if self.held else J, dot(J, self.v))

    def unit(self, dof: int, length: float = 1.0) -> list[Scalar]:
        """A Jacobian with one entry."""
        return [length if k == dof else 0.0 for k in range(self.model.nv)]

    def displacement(self, body: Body) -> Scalar:
        """How far the joint of a body has moved."""
        return body.joint.displacement(self.q[body.iq])[0]

    def reach(self, touches: Sequence[Touch]) -> Scalar:
        """The gap (m) that no contact closes within the step.

        It is the distance at three times the largest velocity of any contact, as impulses may make
        bodies faster, and a margin.
        """
        V = velocities(self.model, self.X, self.S, self.v)
        square: Scalar = 0.0
        for touch in touches:
            u = slide_velocity(touch, V)
            square = largest(square, u.dot(u))
        return sqrt(square) * (3.0 * self.dt) + _NEAR

    def room(self, body: Body, reach: Scalar) -> _Room:
        """How far a joint is from its stops."""
        x, (lower, upper) = self.displacement(body), body.joint.displacement_limits
        below = x - lower if math.isfinite(lower) else None
        above = upper - x if math.isfinite(upper) else None
        # reach of the joint: its own speed, and what contacts of that reach do at a short lever
        u = self.v[body.iv.start] * body.joint.ratio
        most = largest(u, -u) * (3.0 * self.dt) + reach * (1.0 / _LEVER)
        left = below if above is None else above if below is None else -largest(-below, -above)
        return _Room(where(less(left, most), 1.0, 0.0), below, above)

    def begin_stop(self, body: Body, room: _Room, before: Scalar, y: list[Scalar]) -> _PartStart:
        """Rows, mobility and initial impulse of a joint's stops, where they are within reach."""
        dof, nv = body.iv.start, len(y)

        def begin(y: list[Scalar]) -> list[Scalar]:
            row = self.row(self.unit(dof, body.joint.ratio))
            W = row.mobility(row) + _TINY
            y = row.add_impulse(y[:nv], before)
            return [*y, *initial_sweep_state([before], room.near), *row.Y, row.free, W, 1.0 / W]

        found = run_where(room.near, begin, [*y, *[None] * (nv + 5)])
        *Y, free, W, mass = found[nv + 2 :]
        stop = JointStop(
            room.near,
            Row(Y, free),
            lower=None if room.below is None else -largest(room.below, 0.0) / self.dt,
            upper=None if room.above is None else largest(room.above, 0.0) / self.dt,
            W=W,
            mass=mass,
        )
        return _PartStart(stop, found[nv : nv + 2], found[:nv], (room.below, room.above))


def _zero_far_impulses(
    parts: Sequence[Part], impulses: Sequence[Sequence[Scalar]]
) -> list[list[Scalar]]:
    """Impulses of parts, zero where a part is not near."""
    return [
        [where(less(0.5, part.near), x, 0.0) for x in impulse]
        for part, impulse in zip(parts, impulses, strict=False)
    ]
