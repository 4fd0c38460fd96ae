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
from qddot.algorithms.linear import Factor, dot, factorise, solve, solve_lower
from qddot.algorithms.recursion import Vector, joint_kinematics, zeros
from qddot.errors import InvalidArgument
from qddot.model.model import Body, Model
from qddot.simulate.batch_parameters import may_be_nonzero
from qddot.simulate.contact.cone import (
    Contact,
    JointStop,
    Part,
    Row,
    make_contact,
    make_joint_constraint,
    make_joint_stop,
    make_row,
    sweep,
)
from qddot.simulate.contact.gaps import Site, Touch, contact_rows, find_sites, push_apart
from qddot.simulate.contact.penalty import stopped_bodies
from qddot.simulate.contact.scene import Scene
from qddot.simulate.implicit_torques import DampingTorque, VelocityConstraint, largest
from qddot.simulate.motion import advance, align, chart_rate, unalign
from qddot.simulate.plant import RobotPlant, StepContext
from qddot.spatial.algebra import Force, Subspace, Transform, Vec3
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["ComplementarityContact", "Impulses"]

_APART_SWEEPS = 4


@dataclass(frozen=True)
class Impulses:
    """Impulses of the contacts and stops of a step, and the motion with them.

    `contacts` has the impulse on the first body of each touch along its axes (N s), `stops` that
    on each joint with stops (N m s). `a` are the accelerations and `v` the velocities at
    the end, with all of them, `apart` is the displacement that separates overlapping shapes,
    `residual` the largest residual of Coulomb's law (m/s).
    """

    touches: list[Touch]
    contacts: list[list[Scalar]]
    stops: list[Scalar]
    a: list[Scalar]
    v: list[Scalar]
    apart: list[Scalar]
    residual: Scalar

    def world_impulses(self) -> list[Scalar]:
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
    away a step. Restitution acts on impacts faster than `threshold` (m/s). Its state are the
    impulses in world axes, those on the stops, the residual of Coulomb's law (m/s) in the step, and
    the largest so far. Joint friction (a VelocityConstraint of an effect) is solved for together
    with contact.
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

    def bodies_with_stops(self, model: Model) -> list[Body]:
        """Bodies whose joint stops at its limits."""
        return stopped_bodies(model) if self.limits else []

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
        worst = largest(state[-1], found.residual)
        after = [*found.world_impulses(), *found.stops, found.residual, worst]
        return q1, unalign(model, q1, w), after

    def solve(
        self, plant: RobotPlant, q: Vector, v: Vector, state: Vector, damped: bool
    ) -> Impulses:
        """The impulses of a step from a state; with `damped` joint damping is that at its end."""
        # motion without impulses
        step = _FreeStep.of(plant, q, v, damped)
        sites, bodies = self.sites(step.model), self.bodies_with_stops(step.model)
        touches = [site.find(step.poses) for site in sites]
        # contacts, stops and joint friction, as rows of one problem
        contacts = [self._contact(step, *pair) for pair in zip(sites, touches, strict=True)]
        stops = [step.stop(body) for body in bodies]
        friction = [
            make_joint_constraint(step.row(step.unit(law.dof)), law, step.dt)
            for law in plant.implicit_torques(q, v)
            if isinstance(law, VelocityConstraint)
        ]
        parts: list[Part] = [*contacts, *stops, *friction]
        # impulses, from those of the step before along the axes of this one
        start: list[list[Scalar]] = []
        for k, (touch, contact) in enumerate(zip(touches, contacts, strict=True)):
            f = Vec3(*state[3 * k : 3 * k + 3])
            start.append([e.dot(f) for e in touch.world_axes[: len(contact.rows)]])
        start += [[x] for x in state[3 * len(sites) : -2]]
        start += [[0.0] for _ in friction]
        y, found = sweep(parts, start, self.sweeps)
        residual: Scalar = 0.0
        for part, x in zip(parts, found, strict=True):
            residual = largest(residual, part.residual(y, x))
        # displacement that separates overlapping shapes
        y = y or zeros(step.model.nv)
        apart = self._separate(step, y, touches, contacts, bodies, stops)
        change, separated = (solve_lower(step.factor[0], x) for x in (y, apart))
        return Impulses(
            touches=touches,
            contacts=found[: len(sites)],
            stops=[x for (x,) in found[len(sites) : len(sites) + len(bodies)]],
            a=[x + c / step.dt for x, c in zip(step.a, change, strict=True)],
            v=[x + c for x, c in zip(step.v, change, strict=True)],
            apart=separated,
            residual=residual,
        )

    def _contact(self, step: _FreeStep, site: Site, touch: Touch) -> Contact:
        """A contact with the least velocity along its normal: to close the gap, or to rebound."""
        directions = touch.axes if may_be_nonzero(site.pair.friction) else touch.axes[:1]
        J = contact_rows(step.model, step.X, step.S, touch, directions)
        rows = [step.row(row) for row in J]
        before = dot(J[0], step.before)
        bound = closing = -largest(touch.gap, 0.0) / step.dt
        restitution: Scalar = site.pair.restitution
        if may_be_nonzero(restitution):
            fast = less(before, -self.threshold)
            rebound = where(fast, -restitution * before, closing)
            hit = where(less(touch.gap + rows[0].free * step.dt, 0.0), rebound, closing)
            bound = where(less(0.0, restitution), hit, closing)
        return make_contact(rows, bound, site.pair.friction)

    def _separate(
        self,
        step: _FreeStep,
        y: Sequence[Scalar],
        touches: Sequence[Touch],
        contacts: Sequence[Contact],
        bodies: Sequence[Body],
        stops: Sequence[JointStop],
    ) -> list[Scalar]:
        """y of the smallest displacement that separates shapes that overlap after the step.

        The same problem with displacements for velocities, and along the normals only.
        """
        parts: list[Part] = []
        for touch, contact in zip(touches, contacts, strict=True):
            normal = contact.rows[0]
            overlap = -(touch.gap + normal.velocity(y) * step.dt)
            parts.append(make_contact([replace(normal, free=0.0)], self._correct(overlap), 0.0))
        for body, stop in zip(bodies, stops, strict=True):
            limits = body.joint.limits
            x = step.displacement(body) + stop.row.velocity(y) * step.dt
            lower = self._correct(limits.lower - x) if math.isfinite(limits.lower) else None
            upper = -self._correct(x - limits.upper) if math.isfinite(limits.upper) else None
            parts.append(make_joint_stop(replace(stop.row, free=0.0), lower, upper))
        start: list[list[Scalar]] = [[0.0] for _ in parts]
        return sweep(parts, start, _APART_SWEEPS)[0] or zeros(step.model.nv)

    def _correct(self, overlap: Scalar) -> Scalar:
        """A share of the overlap where there is one, all of the gap where there is none."""
        return where(less(0.0, overlap), overlap * self.correction, overlap)


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
    factor: Factor
    a: list[Scalar]
    v: list[Scalar]
    held: ConstraintMobility | None

    @staticmethod
    def of(plant: RobotPlant, q: Vector, v: Vector, damped: bool) -> _FreeStep:
        """From the state at its start."""
        model, dt = plant.model, plant.dt
        X, S = joint_kinematics(model, q)
        M, rest = plant.equation_of_motion(q, v, dt if damped else 0.0)
        for law in plant.implicit_torques(q, v):
            if isinstance(law, DampingTorque):
                k = law.dof
                M[k][k] = M[k][k] + law.slope * dt
                rest[k] = rest[k] - law.offset - law.slope * v[k]
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
            factor=factor,
            a=a,
            v=v_free,
            held=held,
        )

    def row(self, J: Vector) -> Row:
        """A row of a Jacobian in this step."""
        # loops are bilateral rows, which are eliminated: they take away mobility
        row = make_row(self.factor, self.held.remove_force(J) if self.held else J, self.v)
        return replace(row, free=dot(J, self.v)) if self.held else row

    def unit(self, dof: int, length: float = 1.0) -> list[Scalar]:
        """A Jacobian with one entry."""
        return [length if k == dof else 0.0 for k in range(self.model.nv)]

    def displacement(self, body: Body) -> Scalar:
        """How far the joint of a body has moved."""
        return body.joint.displacement(self.q[body.iq])[0]

    def stop(self, body: Body) -> JointStop:
        """A joint with stops, and the velocities that reach them within the step."""
        x, limits = self.displacement(body), body.joint.limits
        lower = -largest(x - limits.lower, 0.0) / self.dt if math.isfinite(limits.lower) else None
        upper = largest(limits.upper - x, 0.0) / self.dt if math.isfinite(limits.upper) else None
        return make_joint_stop(self.row(self.unit(body.iv.start, body.joint.ratio)), lower, upper)
