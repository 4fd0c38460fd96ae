"""Joint stops without compliance, for every integrator: held while they carry, struck otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from qddot.algorithms.energy import kinetic_energy, potential_energy
from qddot.algorithms.linear import dot, factorise
from qddot.algorithms.mass_matrix import mass_matrix
from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Body, Model
from qddot.simulate.contact.penalty import stopped_bodies
from qddot.simulate.plant import Moment, RobotPlant, Struck
from qddot.simulate.resistance import Grip, hold_joints, largest
from qddot.spatial.scalar import Scalar, less, where

__all__ = ["RigidStops"]

_NEAR = 1e-9
"""How near (rad, m) to its stop a joint stands at it."""
_MOST = 1e12
"""A torque or impulse (N m, N, N s) that no stop gives way to."""


@dataclass(frozen=True)
class RigidStops:
    """Joints that stop at their limits without rebound, whatever the integrator.

    A joint that stands at its stop is held there by a torque that is solved for with friction, and
    never pulls. One that would pass it in a step is put at the stop, and an impulse on the joint
    takes its velocity; impulses of several joints are found together. The energy (J) that stops
    have taken so far is kept.
    """

    recorded: ClassVar[bool] = True

    def memory(self, model: Model) -> int:
        """The energy taken so far."""
        return 1

    def start(self, model: Model) -> list[float]:
        """None is taken before the first step."""
        return [0.0]

    def act(self, at: Moment, memory: Vector) -> tuple[list[Scalar], None]:
        """Torques pass as they are."""
        return at.tau, None

    def renew(self, at: Moment, memory: Vector) -> list[Scalar]:
        """The energy taken, as the impulses left it."""
        return list(memory)

    def resist(self, at: Moment, memory: Vector) -> list[Grip]:
        """Torques that hold the joints at their stops."""
        return [
            Grip(dof, -back * _MOST, ahead * _MOST)
            for dof, (back, ahead) in self.standing(at.model, at.q).items()
        ]

    def standing(self, model: Model, q: Vector) -> dict[int, tuple[Scalar, Scalar]]:
        """By velocity, 1 where a stop can push it backward and where forward, else 0."""
        found: dict[int, tuple[Scalar, Scalar]] = {}
        for body, way, beyond in _stops(model, q):
            back, ahead = found.get(body.iv.start, (0.0, 0.0))
            pushes = where(less(-_NEAR, beyond), 1.0, 0.0)
            found[body.iv.start] = (
                (back, largest(ahead, pushes)) if way > 0.0 else (largest(back, pushes), ahead)
            )
        return found

    def strike(
        self, plant: RobotPlant, q: Vector, q_end: Vector, v_end: Vector, memory: Vector
    ) -> Struck:
        """The end of a step from q with joints at their stops, and impulses on those that hit."""
        model, at_start = plant.model, self.standing(plant.model, q)
        # positions: what passed a stop is put there, and what was held stays
        q1, passed = list(q_end), dict[tuple[int, int, float], Scalar]()
        for body, way, beyond in _stops(model, q_end):
            place = (body.iq.start, body.iv.start, way)
            # of several joints that move together, the one that is farthest beyond counts
            far = largest(beyond, 0.0) * (1.0 / abs(body.joint.ratio))
            passed[place] = largest(passed.get(place, 0.0), far)
        for (k, dof, way), far in passed.items():
            back, ahead = at_start[dof]
            q1[k] = q1[k] + far * way
            q1[k] = where(less(0.0, plant.held[dof] * (ahead - back)), q[k], q1[k])
        # impulses: a torque that held during the step may be taken back, and no more than that
        bounds: dict[int, tuple[Scalar, Scalar]] = {}
        for dof, (back, ahead) in self.standing(model, q1).items():
            held, (was_back, was_ahead) = plant.held[dof] * plant.dt, at_start[dof]
            lower = -_MOST * back - largest(held, 0.0) * was_ahead
            bounds[dof] = lower, _MOST * ahead + largest(-held, 0.0) * was_back
        M = mass_matrix(model, q1)
        found = hold_joints(M, factorise(M), v_end, bounds)
        v1 = [x + y for x, y in zip(v_end, found.change, strict=True)]
        # what the other torques do on the way back to a stop is theirs
        tau, _ = plant.loads(q_end, v_end, 1.0)
        shift = zeros(model.nv)
        for body in stopped_bodies(model):
            shift[body.iv.start] = q1[body.iq.start] - q_end[body.iq.start]
        change = _energy(model, q1, v1) - _energy(model, q_end, v_end)
        taken = memory[0] - (change - dot(tau, shift))
        return Struck(q1, v1, [taken], found.miss)


def _stops(model: Model, q: Vector) -> Iterator[tuple[Body, float, Scalar]]:
    """Each stop: its body, which way it pushes the velocity, and how far the joint is beyond it."""
    for body in stopped_bodies(model):
        (x,), limits = body.joint.displacement(q[body.iq]), body.joint.limits
        way = math.copysign(1.0, body.joint.ratio)
        if math.isfinite(limits.lower):
            yield body, way, limits.lower - x
        if math.isfinite(limits.upper):
            yield body, -way, x - limits.upper


def _energy(model: Model, q: Vector, v: Vector) -> Scalar:
    return kinetic_energy(model, q, v) + potential_energy(model, q)
