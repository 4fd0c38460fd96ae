"""Contact and joint stops as springs and dampers: effects of a rollout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import Vector, joint_kinematics, velocities
from qddot.errors import InvalidArgument
from qddot.model.model import Body, Model, bodies_with_limits
from qddot.simulate.contact.gaps import (
    Touch,
    find_sites,
    on_disc,
    push_apart,
    slide_velocity,
)
from qddot.simulate.contact.scene import Scene
from qddot.simulate.implicit_torques import largest
from qddot.simulate.plant import StatelessEffect, StepContext
from qddot.spatial.algebra import Force, Vec3
from qddot.spatial.scalar import Scalar, less, where

__all__ = [
    "PRESETS",
    "PenaltyContact",
    "PenaltyForce",
    "PenaltyStops",
    "Preset",
]


@dataclass(frozen=True)
class Preset:
    """Stiffness (N/m) and damping (N s/m) of a contact, and how deep (m) it is meant to give."""

    stiffness: float
    damping: float
    tolerance: float


PRESETS = {"soft": Preset(3e4, 1e2, 5e-3), "hard": Preset(1e7, 1e3, 1e-4)}
"""The two bands in common use: 10⁴–10⁵ N/m with 10–10² N s/m, 10⁶–10⁸ N/m with 10²–10³ N s/m.

Stiffness is from the middle of its band. Damping is at the upper end: even there it is light.
"""


def _set_number(target: Any, what: str, zero: bool) -> None:
    """Make a field a finite number, above zero or (with `zero`) from it."""
    name = what.split()[0]
    x = getattr(target, name)
    fits = isinstance(x, int | float | np.ndarray) and not isinstance(x, bool)
    if not fits or not np.all((x >= 0.0) & (x < math.inf) & (zero | (x != 0.0))):
        raise InvalidArgument(what, x, f"it is a number {'from' if zero else 'above'} 0")
    object.__setattr__(target, name, x if isinstance(x, np.ndarray) else float(x))


@dataclass(frozen=True)
class PenaltyForce:
    """A contact by penalty: its touch, the force on the first body and the slip, in body axes."""

    touch: Touch
    force: Vec3
    slip: Vec3


@dataclass(frozen=True)
class PenaltyContact:
    """A spring and a damper across each gap that is closed, and the same along the surface.

    The normal force is k d + c ḋ for a depth d, and never pulls. Along the surface the spring grips
    where the bodies meet, and yields where its force exceeds μ times the normal force (Cundall &
    Strack 1979), as does the sum of both: Coulomb's law but for the give of the spring, and a
    contact that sticks does not creep. The stretch of the springs is its state. Restitution comes
    from the damper: that of the scene is not used.
    """

    scene: Scene
    stiffness: Scalar = PRESETS["soft"].stiffness
    damping: Scalar = PRESETS["soft"].damping
    always_recorded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.scene, Scene):
            raise InvalidArgument("scene", self.scene, "it is a Scene")
        _set_number(self, "stiffness of a contact", zero=False)
        _set_number(self, "damping of a contact", zero=True)

    @staticmethod
    def soft(scene: Scene) -> PenaltyContact:
        """Rubber feet: gives 1 to 5 mm, stable with steps of about 1 ms."""
        return PenaltyContact(scene, PRESETS["soft"].stiffness, PRESETS["soft"].damping)

    @staticmethod
    def hard(scene: Scene) -> PenaltyContact:
        """Metal on metal: gives less than 0.1 mm, and needs steps of about 0.1 ms."""
        return PenaltyContact(scene, PRESETS["hard"].stiffness, PRESETS["hard"].damping)

    def largest_step(self, mass: float) -> float:
        """The step (s) up to which the semi-implicit integrator is stable for a mass (kg) on it.

        From Δt² k/m + 2 Δt c/m < 4. What counts is the mass that the contact feels, of a foot
        rather than of the robot: 1 / (J M⁻¹ Jᵀ). Of array parameters, the stiffest counts.
        """
        k, c = self.stiffness, self.damping
        if not isinstance(mass, int | float) or not 0.0 < mass < math.inf:
            raise InvalidArgument("mass", mass, "it is a number of kg above zero")
        return float(np.min((np.sqrt(c * c + 4.0 * k * mass) - c) / k))

    def state_size(self, model: Model) -> int:
        """Three numbers a contact: the stretch along the surface in world axes."""
        return 3 * len(find_sites(self.scene, model))

    def initial_state(self, model: Model) -> list[float]:
        """Springs that are not stretched."""
        return [0.0] * self.state_size(model)

    def act(
        self, context: StepContext, state: Vector
    ) -> tuple[list[Scalar], Sequence[Force] | None]:
        """The torques, unchanged, and the forces of contact on the bodies."""
        return context.tau, self.contact_loads(context, state)

    def contact_loads(self, context: StepContext, state: Vector) -> list[Force]:
        """Forces on the bodies at a state, in body coordinates."""
        found = self.contact_forces(context, state)
        return push_apart(context.model, [x.touch for x in found], [x.force for x in found])

    def contact_forces(self, context: StepContext, state: Vector) -> list[PenaltyForce]:
        """Forces and slips of all contacts at a state."""
        result = []
        for k, (friction, touch, u) in enumerate(self._contact_velocities(context, context.v)):
            n, e1, e2 = touch.axes
            normal = self._normal_force(touch, n.dot(u))
            slip = [e1.dot(u), e2.dot(u)]
            tangential = self._tangential_force(_stretch(touch, state, k), slip, normal * friction)
            force = n * normal + e1 * tangential[0] + e2 * tangential[1]
            result.append(PenaltyForce(touch, force, e1 * slip[0] + e2 * slip[1]))
        return result

    def update(self, context: StepContext, state: Vector) -> list[Scalar]:
        """The stretch after a step: the slip adds to it, up to the friction limit."""
        stretches: list[Scalar] = []
        for k, (friction, touch, u) in enumerate(self._contact_velocities(context, context.v_end)):
            n, e1, e2 = touch.axes
            # spring stretched by the slip, as far as its own force is within the friction limit
            slip = [e1.dot(u), e2.dot(u)]
            drawn = [
                s + x * context.dt for s, x in zip(_stretch(touch, state, k), slip, strict=True)
            ]
            most = self._normal_force(touch, n.dot(u)) * friction
            s1, s2 = on_disc(drawn, most / self.stiffness)
            _, w1, w2 = touch.world_axes
            stretches += w1 * s1 + w2 * s2
        return stretches

    def elastic_energy(self, model: Model, q: Vector, state: Vector) -> Scalar:
        """Energy (J) in the springs: ½ k d² across the gaps and ½ k s² along the surfaces."""
        poses = world_poses(model, joint_kinematics(model, q)[0])
        total: Scalar = 0.0
        for k, site in enumerate(find_sites(self.scene, model)):
            touch = site.find(poses)
            depth, (s1, s2) = largest(-touch.gap, 0.0), _stretch(touch, state, k)
            along = where(less(touch.gap, 0.0), s1 * s1 + s2 * s2, 0.0)
            total = total + 0.5 * self.stiffness * (depth * depth + along)
        return total

    def _contact_velocities(
        self, context: StepContext, v: Vector
    ) -> list[tuple[Scalar, Touch, Vec3]]:
        """Friction coefficient, touch, and relative velocity of the bodies, of all sites."""
        X, S = joint_kinematics(context.model, context.q)
        poses, V = world_poses(context.model, X), velocities(context.model, X, S, v)
        sites = find_sites(self.scene, context.model)
        touches = [site.find(poses) for site in sites]
        return [
            (site.pair.friction, touch, slide_velocity(touch, V))
            for site, touch in zip(sites, touches, strict=True)
        ]

    def _normal_force(self, touch: Touch, rate: Scalar) -> Scalar:
        """The normal force where the gap opens at a rate."""
        contact_forces = largest(-self.stiffness * touch.gap - self.damping * rate, 0.0)
        return where(less(touch.gap, 0.0), contact_forces, 0.0)

    def _tangential_force(
        self, stretch: Sequence[Scalar], slip: Sequence[Scalar], most: Scalar
    ) -> list[Scalar]:
        """The force along the surface, no larger than `most`."""
        pairs = zip(stretch, slip, strict=True)
        return on_disc([-self.stiffness * s - self.damping * x for s, x in pairs], most)


def _stretch(touch: Touch, state: Vector, k: int) -> list[Scalar]:
    """The stretch of a contact along its tangents, from the state."""
    s = Vec3(*state[3 * k : 3 * k + 3])
    return [axis.dot(s) for axis in touch.world_axes[1:]]


@dataclass(frozen=True)
class PenaltyStops(StatelessEffect):
    """Joint limits as cubic springs that begin a margin before the stop.

    With s the share of the margin that is used up, the torque is T s³ (1 + b v), v the speed
    towards the stop, and never pulls. T is the largest effort of the joint (so that its motor just
    reaches the stop), or `torque` (N m, N) where that is given. Margins are 0.05 rad, and
    `slide_margin` (m) for joints that slide. `dissipation` is b (s/rad, s/m).
    """

    torque: Scalar | None = None
    margin: Scalar = 0.05
    slide_margin: Scalar = 0.005
    dissipation: Scalar = 1.0
    in_place_of: ClassVar[tuple[str, ...]] = ("limits",)

    def __post_init__(self) -> None:
        if self.torque is not None:
            _set_number(self, "torque of stops", zero=False)
        for name in ("margin", "slide_margin"):
            _set_number(self, f"{name} of stops", zero=False)
        _set_number(self, "dissipation of stops", zero=True)

    def _torque(self, body: Body) -> Scalar:
        effort = body.joint.limits.effort
        if self.torque is None and not 0.0 < effort < math.inf:
            accepted = "the joint has no effort limit; give torque=… at the stop"
            raise InvalidArgument(f"stops of joint {body.joint.name!r}", None, accepted)
        return effort if self.torque is None else self.torque

    def torques(self, context: StepContext) -> list[tuple[Body, Scalar]]:
        """Bodies with stops, and the torque of the stops on their joints."""
        found = []
        for body in bodies_with_limits(context.model):
            speed = context.v[body.iv.start] * body.joint.ratio
            total: Scalar = 0.0
            for side, share in self._shares(body, context.q):
                closing = largest(1.0 - side * self.dissipation * speed, 0.0)
                total = total + share * share * share * closing * (side * self._torque(body))
            found.append((body, total))
        return found

    def elastic_energy(self, model: Model, q: Vector, state: Vector) -> Scalar:
        """Energy (J) in the springs: ¼ T s⁴ of the margin."""
        total: Scalar = 0.0
        for body in bodies_with_limits(model):
            for _, share in self._shares(body, q):
                square = share * share
                total = total + square * square * (0.25 * self._torque(body) * self._margin(body))
        return total

    def _margin(self, body: Body) -> Scalar:
        return self.margin if body.joint.kind.angular[0] else self.slide_margin

    def _shares(self, body: Body, q: Vector) -> list[tuple[float, Scalar]]:
        """Which way each stop of a joint pushes, and the share of its margin that is used up."""
        (x,), margin = body.joint.displacement(q[body.iq]), self._margin(body)
        return [
            (side, largest((side * (stop - x) + margin) * (1.0 / margin), 0.0))
            for stop, side in zip(body.joint.displacement_limits, (1.0, -1.0), strict=True)
            if math.isfinite(stop)
        ]

    def act(self, context: StepContext, state: Vector) -> tuple[list[Scalar], None]:
        """Torques plus the torques of the stops."""
        tau = list(context.tau)
        for body, torque in self.torques(context):
            k = body.iv.start
            tau[k] = tau[k] + torque * body.joint.ratio
        return tau, None
