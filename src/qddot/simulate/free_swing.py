"""The free swing of a robot: energy and momentum that an integrator should keep.

No torques, damping, friction, springs or limits. A robot that floats swings without gravity, where
its momentum is constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qddot.display.text import Readable
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.simulate.simulator import rollout
from qddot.simulate.trial import rest_configuration

__all__ = ["DURATION", "SWING_SAMPLES", "FreeSwing"]

DURATION, SWING_SAMPLES = 10.0, 200
"""Seconds of the free swing, and samples of its energy."""
_STATES = 4
_WEIGHTLESS = 1e-9
"""Gravity torques, over the weight times a metre, of a robot that gravity does not move."""
_SWING, _SPEED = 0.4, 1.0
"""How far from rest a swing starts, rad or m, and how fast a floating robot moves, rad/s or m/s."""


@dataclass(frozen=True, repr=False)
class FreeSwing(Readable):
    """A robot and the states from which it swings without losses."""

    robot: Robot
    q: np.ndarray
    v: np.ndarray
    floating: bool

    @staticmethod
    def of(robot: Robot, rng: np.random.Generator) -> FreeSwing:
        """Random states about rest; a floating robot moves from random poses."""
        floating = any(b.parent == WORLD and b.joint.kind.floats for b in robot.model.bodies)
        free = robot.with_gravity((0.0, 0.0, 0.0)) if floating else robot
        rest = None if floating else rest_configuration(free, springs=False)
        at = robot.random(rng, (_STATES,)) if rest is None else np.tile(rest, (_STATES, 1))
        q = free.integrate(at, _SWING * rng.uniform(-1.0, 1.0, (_STATES, free.nv)))
        # joints that move across gravity do not swing of themselves
        weight = float(free.model.mass) * math.hypot(*free.model.gravity)
        still = np.abs(free.gravity(q)).max(axis=-1, initial=0.0) <= _WEIGHTLESS * weight
        moves = still[:, None] | floating
        v = _SPEED * rng.uniform(-1.0, 1.0, (_STATES, free.nv)) * moves
        if floating:
            # base velocities with which the centre of mass rests
            bodies = (b for b in free.model.bodies if b.parent == WORLD)
            base = next(b for b in bodies if b.joint.kind.floats)
            linear = slice(base.iv.start, base.iv.start + 3)
            J = free.center_of_mass_jacobian(q)
            v[..., linear] -= np.linalg.solve(J[..., linear], J @ v[..., None])[..., 0]
        return FreeSwing(robot=free, q=q, v=v, floating=floating)

    def drift(self, integrator: str, dt: float) -> tuple[np.ndarray, float, float]:
        """Error of the energy by time, worst state; its slope; the change of the momentum."""
        every = max(1, round(DURATION / dt / SWING_SAMPLES))
        robot, steps = self.robot, every * SWING_SAMPLES
        found = rollout(
            robot,
            self.q,
            self.v,
            dt=DURATION / steps,
            steps=steps,
            every=every,
            integrator=integrator,
            without="passive",
        )
        kinetic = robot.kinetic_energy(found.q, found.v)
        total = kinetic + robot.potential_energy(found.q)
        relative = (total - total[:, :1]) / kinetic.max(axis=-1, keepdims=True)
        worst = relative[np.argmax(np.abs(np.nan_to_num(relative, nan=np.inf)).max(axis=-1))]
        slope = np.polyfit(found.time, worst, 1)[0] if np.isfinite(worst).all() else math.nan
        return worst, float(slope), self._momentum(found.q, found.v)

    def _momentum(self, q: np.ndarray, v: np.ndarray) -> float:
        """Largest change of momentum, angular about a fixed point, as a share of its size.

        The linear momentum is zero; its change is a share of that of a body with the same energy.
        """
        if not self.floating:
            return math.nan
        robot = self.robot
        centre, h = robot.center_of_mass(q), robot.centroidal_momentum(q, v)
        centre = centre - centre[:, :1]
        parts = (h[..., :3], h[..., 3:] + np.cross(centre, h[..., :3]))
        energy = robot.kinetic_energy(self.q, self.v)[:, None]
        sizes = (
            np.sqrt(2.0 * float(robot.model.mass) * energy),
            np.linalg.norm(parts[1][:, :1], axis=-1),
        )
        change = [np.linalg.norm(p - p[:, :1], axis=-1) for p in parts]
        return float(max((c / s).max() for c, s in zip(change, sizes, strict=True)))
