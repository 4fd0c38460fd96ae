"""Joint stops without compliance, for every integrator: a torque at rest, an impulse on impact.

Contact by complementarity has joint stops of its own (`cone.JointStop`), which are solved for with
its contacts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from qddot.algorithms.configuration import integrate
from qddot.algorithms.constraints import ConstraintMobility
from qddot.algorithms.energy import kinetic_energy, potential_energy
from qddot.algorithms.linear import dot, factorise
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Body, Model, bodies_with_limits
from qddot.simulate.implicit_torques import (
    VelocityConstraint,
    clip,
    largest,
    solve_joint_impulses,
)
from qddot.simulate.plant import AfterImpulses, RobotPlant, StepContext
from qddot.spatial.regions import run_where
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["RigidStops"]

_NEAR = 1e-9
"""How near (rad, m) to its stop a joint stands at it."""
_MOST_RETURN = 0.02
"""How far (rad, m) a joint of a loop is put back to its stop in a step."""
_UNBOUNDED = 1e12
"""Bound (N m, N, N m s, N s) that no torque or impulse of a stop reaches."""


@dataclass(frozen=True)
class RigidStops:
    """Joints that stop at their limits without rebound, whatever the integrator.

    A joint that stands at its stop is held there by a torque that is solved for with friction, and
    never pulls. One that would pass it in a step is put at the stop, and an impulse on the joint
    takes its velocity; impulses of several joints are solved for together. The state is the energy
    (J) that stops have dissipated so far.
    """

    always_recorded: ClassVar[bool] = True
    in_place_of: ClassVar[tuple[str, ...]] = ("limits",)

    def state_size(self, model: Model) -> int:
        """One number, the energy dissipated so far."""
        return 1

    def initial_state(self, model: Model) -> list[float]:
        """No energy dissipated."""
        return [0.0]

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """The torques, unchanged."""
        return context.tau, None

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """The energy after the impulses, unchanged."""
        return list(state)

    def implicit_torques(self, context: StepContext, state: Vector) -> list[VelocityConstraint]:
        """Torques that hold the joints at their stops."""
        return [
            VelocityConstraint(dof, -backward * _UNBOUNDED, forward * _UNBOUNDED)
            for dof, (backward, forward) in self.joints_at_stops(context.model, context.q).items()
        ]

    def joints_at_stops(self, model: Model, q: Vector) -> dict[int, tuple[Scalar, Scalar]]:
        """By velocity, 1 where a stop can push it backward and where forward, else 0."""
        found: dict[int, tuple[Scalar, Scalar]] = {}
        for body, direction, beyond in _stops(model, q):
            backward, forward = found.get(body.iv.start, (0.0, 0.0))
            pushes = where(less(-_NEAR, beyond), 1.0, 0.0)
            found[body.iv.start] = (
                (backward, largest(forward, pushes))
                if direction > 0.0
                else (largest(backward, pushes), forward)
            )
        return found

    def apply_impulses(
        self, plant: RobotPlant, q: Vector, q_end: Vector, v_end: Vector, state: Vector
    ) -> AfterImpulses:
        """The end of a step from q, with joints at their stops after their impulses.

        Where no joint is at a stop at the start or the end, there is nothing to do.
        """
        model, nq = plant.model, plant.model.nq
        at_start, reaches = self.joints_at_stops(model, q), 0.0
        for found in (at_start, self.joints_at_stops(model, q_end)):
            for flags in found.values():
                reaches = largest(reaches, largest(*flags))

        def stop(before: list[Scalar]) -> list[Scalar]:
            end = self._stop_joints(plant, q, at_start, before[:nq], before[nq:-2], before[-2])
            return [*end.q, *end.v, *end.state, end.residual]

        end = run_where(reaches, stop, [*q_end, *v_end, state[0], 0.0])
        return AfterImpulses(end[:nq], end[nq:-2], [end[-2]], end[-1])

    def _stop_joints(
        self,
        plant: RobotPlant,
        q: Vector,
        at_start: Mapping[int, tuple[Scalar, Scalar]],
        q_end: Vector,
        v_end: Vector,
        energy: Scalar,
    ) -> AfterImpulses:
        """The end, from joints at their stops at the start and the energy dissipated so far."""
        model = plant.model
        q1 = self._return_to_stops(plant, q, at_start, q_end)
        reached = self.joints_at_stops(model, q_end)
        # impulses: the torque of a stop during the step may be taken back, and no more than that
        bounds: dict[int, tuple[Scalar, Scalar]] = {}
        for dof, at_end in self.joints_at_stops(model, q1).items():
            # a joint that passed its stop has reached it, though its loops put it a little short
            backward, forward = (largest(a, b) for a, b in zip(at_end, reached[dof], strict=True))
            held, (was_backward, was_forward) = plant.implicit[dof] * plant.dt, at_start[dof]
            lower = -_UNBOUNDED * backward - largest(held, 0.0) * was_forward
            upper = _UNBOUNDED * forward + largest(-held, 0.0) * was_backward
            bounds[dof] = lower, upper
        M = mass_matrix(model, q1)
        factor = factorise(M)
        closure = (
            ConstraintMobility.of(plant.loops.rows(model, q1), factor) if plant.loops else None
        )
        found = solve_joint_impulses(M, factor, v_end, bounds, closure)
        v1 = [x + y for x, y in zip(v_end, found.change, strict=True)]
        # energy: the work of the other torques on the way back to the stop is not dissipated
        tau, _ = plant.loads(q_end, v_end, 1.0)
        shift = zeros(model.nv)
        for body in bodies_with_limits(model):
            shift[body.iv.start] = q1[body.iq.start] - q_end[body.iq.start]
        after = kinetic_energy(model, q1, v1) + potential_energy(model, q1)
        before = kinetic_energy(model, q_end, v_end) + potential_energy(model, q_end)
        dissipated = energy - (after - before - dot(tau, shift))
        return AfterImpulses(q1, v1, [dissipated], found.residual)

    def _return_to_stops(
        self,
        plant: RobotPlant,
        q: Vector,
        at_start: Mapping[int, tuple[Scalar, Scalar]],
        q_end: Vector,
    ) -> list[Scalar]:
        """The end with joints past their stops back at them, and held ones where they were."""
        model = plant.model
        overshoot = dict[tuple[int, int, float], Scalar]()
        for body, direction, beyond in _stops(model, q_end):
            place = (body.iq.start, body.iv.start, direction)
            # of coupled joints, the one that is farthest beyond counts
            far = largest(beyond, 0.0) * (1.0 / abs(body.joint.ratio))
            overshoot[place] = largest(overshoot.get(place, 0.0), far)
        # only a joint that is not past its stop is held where it is
        past: dict[int, Scalar] = {}
        for body, _, beyond in _stops(model, q):
            past[body.iv.start] = largest(past.get(body.iv.start, 0.0), beyond)
        q1, back = list(q_end), zeros(model.nv)
        for (k, dof, direction), far in overshoot.items():
            q1[k], back[dof] = q1[k] + far * direction, back[dof] + far * direction
        reached, forces = self.joints_at_stops(model, q_end), dict[int, tuple[Scalar, Scalar]]()
        for k, dof, _ in overshoot:
            (was_backward, was_forward), (backward, forward) = at_start[dof], reached[dof]
            held = where(less(past[dof], _NEAR), plant.implicit[dof], 0.0)
            stays = less(0.0, held * (was_forward - was_backward))
            q1[k] = where(stays, q[k], q1[k])
            back[dof] = where(stays, q[k] - q_end[k], back[dof])
            forces[dof] = (
                -_UNBOUNDED * where(stays, 1.0, backward),
                _UNBOUNDED * where(stays, 1.0, forward),
            )
        if plant.loops:
            # with all that loops carry: as by forces on these joints, and only while near
            M = mass_matrix(model, q_end)
            factor = factorise(M)
            loops = ConstraintMobility.of(plant.loops.rows(model, q_end), factor)
            ahead = [-clip(x, -_MOST_RETURN, _MOST_RETURN) for x in back]
            motion = solve_joint_impulses(M, factor, ahead, forces, loops).change
            return integrate(model, q_end, motion)
        return q1


def _stops(model: Model, q: Vector) -> Iterator[tuple[Body, float, Scalar]]:
    """Each stop: body, direction (±1) in which it pushes the velocity, distance beyond it."""
    for body in bodies_with_limits(model):
        (x,), (lower, upper) = body.joint.displacement(q[body.iq]), body.joint.displacement_limits
        direction = math.copysign(1.0, body.joint.ratio)
        if math.isfinite(lower):
            yield body, direction, lower - x
        if math.isfinite(upper):
            yield body, -direction, x - upper
