"""The contact ledger: what touched what, with which wrench, at every sample of a rollout.

Forces are those of the step that starts at a sample, found again from what the rollout kept; they
are summed up and held against Newton's law for the whole robot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qddot.algorithms.centroidal import center_of_mass, centroidal_momentum_rate
from qddot.algorithms.hybrid_dynamics import solve_accelerations
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import Vector, joint_kinematics, velocities, zeros
from qddot.errors import InvalidArgument
from qddot.model.model import WORLD, Model
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.gaps import Site, Touch, find_sites, slide_velocity
from qddot.simulate.contact.penalty import PenaltyContact, PenaltyStops
from qddot.simulate.layout import stacked
from qddot.simulate.plan import StepPlan
from qddot.simulate.plant import Moment, RobotPlant
from qddot.simulate.rollout import Rollout
from qddot.spatial.algebra import Force, Vec3
from qddot.spatial.scalar import Scalar

__all__ = ["ContactEntry", "ContactLedger", "contact_ledger"]


@dataclass(frozen=True)
class ContactEntry:
    """One contact at one sample; the wrench is on `body`, at the origin of `frame`, world axes."""

    names: tuple[str, str]
    body: str
    other: str
    frame: str
    gap: float
    wrench: np.ndarray
    normal_force: float
    cone_ratio: float
    slip: float


@dataclass(frozen=True, eq=False)
class ContactLedger:
    """All contacts of a rollout; arrays have the axes batch, time, contact.

    `names` are the two shapes of a contact, `bodies` theirs. The `wrench` (N, N m) is on the first
    body, at the origin of the frame of the first shape, in axes of the world; its opposite is on
    the second body. `point` and `normal` (from the second body to the first) are in the world,
    `gap` is in m and negative where bodies overlap, `slip` is the speed along the surface in m/s.
    `newton` (N, N m) is what Newton's law leaves unexplained: rate of momentum about the centre of
    mass less weight and contacts. It is zero for a robot that only contacts hold; else it is what
    its mounting and other pushes do. `stops` has the torques of joint limits by joint. `residual`
    is the miss of Coulomb's law (m/s), with contact by complementarity.
    """

    time: np.ndarray
    names: tuple[tuple[str, str], ...]
    bodies: tuple[tuple[str, str], ...]
    frames: tuple[str, ...]
    friction: np.ndarray
    gap: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    wrench: np.ndarray
    slip: np.ndarray
    newton: np.ndarray
    stops: Mapping[str, np.ndarray] = field(default_factory=dict)
    residual: np.ndarray | None = None

    @property
    def force(self) -> np.ndarray:
        """Force on the first body of each contact, in axes of the world."""
        return self.wrench[..., :3]

    @property
    def normal_force(self) -> np.ndarray:
        """Its part along the normal."""
        return np.sum(self.force * self.normal, axis=-1)

    @property
    def tangential_force(self) -> np.ndarray:
        """Size of its part along the surface."""
        along = self.force - self.normal * self.normal_force[..., None]
        return np.linalg.norm(along, axis=-1)

    @property
    def cone_ratio(self) -> np.ndarray:
        """‖f_t‖ / (μ f_n): 1 on the friction cone, 0 without force or friction."""
        bound = self.friction * self.normal_force
        held = bound > 0.0
        return np.where(held, self.tangential_force / np.where(held, bound, 1.0), 0.0)

    @property
    def total(self) -> np.ndarray:
        """Force of the world on the robot: the sum over contacts with it."""
        outside = np.array([other == "world" for _, other in self.bodies], float)
        return np.einsum("...nk,n->...k", self.force, outside)

    @property
    def penetration(self) -> float:
        """How deep the deepest contact was."""
        return float(max(0.0, -np.min(self.gap, initial=0.0)))

    def at(self, sample: int = -1, index: Any = ()) -> list[ContactEntry]:
        """The contacts at one sample of one rollout of the batch."""
        key = self._key(sample, index)
        return [
            ContactEntry(
                *(names, *bodies, frame, float(self.gap[key][k]), self.wrench[key][k]),
                float(self.normal_force[key][k]),
                float(self.cone_ratio[key][k]),
                float(self.slip[key][k]),
            )
            for k, (names, bodies, frame) in enumerate(
                zip(self.names, self.bodies, self.frames, strict=True)
            )
        ]

    def table(self, sample: int = -1, index: Any = ()) -> str:
        """The contacts at one sample as text: on which body, and what is left of Newton's law."""
        entries = self.at(sample, index)
        width = max((len(_shown(x)) for x in entries), default=7)
        lines = [
            f"{'contact (body)':{width}}  {'gap':>9}  {'force on the body, world axes':>33}"
            f"  {'ratio':>6}  {'slip':>9}",
            f"{'':{width}}  {'mm':>9}  {'N':>33}  {'':6}  {'mm/s':>9}",
        ]
        for x in entries:
            tail = f"{_numbers(x.wrench[:3])}  {x.cone_ratio:6.3f}  {1e3 * x.slip:9.3f}"
            lines.append(f"{_shown(x):{width}}  {1e3 * x.gap:9.4f}  {tail}")
        key = self._key(sample, index)
        left = np.abs(self.newton[key]).max()
        return "\n".join(
            [
                *lines,
                f"{'sum, from the world':{width}}  {'':9}  {_numbers(self.total[key])}",
                f"rate of momentum less weight and contacts: {left:.1e} N or N m at most",
            ]
        )

    def _key(self, sample: int, index: Any) -> tuple[Any, ...]:
        """The place of a sample in the arrays."""
        key = (*((index,) if isinstance(index, int) else tuple(index)), sample)
        batch = self.gap.shape[:-1]
        if len(key) != len(batch) or not all(-n <= k < n for k, n in zip(key, batch, strict=True)):
            accepted = f"sample and index are within (time, batch) = ({batch[-1]}, {batch[:-1]})"
            raise InvalidArgument("place in the ledger", (sample, index), accepted)
        return key


def _numbers(x: np.ndarray) -> str:
    return "".join(f"{c:11.3f}" for c in x)


def _shown(x: ContactEntry) -> str:
    return f"{x.names[0]} on {x.names[1]} ({x.body})"


@dataclass(frozen=True)
class _Reading:
    """Contacts at all samples as lists of scalars: forces and slips in first-body axes."""

    sites: list[Site]
    touches: list[Touch]
    forces: list[Vec3]
    slips: list[Vec3]
    a: list[Scalar]
    stops: dict[str, Scalar]
    residual: Scalar | None = None


def contact_ledger(found: Rollout) -> ContactLedger:
    """The contacts of a rollout at all its samples.

    An entry tells of the step that starts at its sample; the last one has the last torques.
    """
    plan = found.plan
    laws = [] if plan is None else [plan.contact, *plan.effects]
    if plan is None or not any(
        isinstance(x, ComplementarityContact | PenaltyContact) for x in laws
    ):
        accepted = "it needs contact=ComplementarityContact(…) or a PenaltyContact in effects"
        raise InvalidArgument(
            "ledger of a rollout without contact", plan and plan.effects, accepted
        )
    if any(plan.kept) and not found.history:
        raise InvalidArgument(
            "ledger of a rollout that was not recorded",
            plan.effects,
            "its effects keep a memory: record=True",
        )
    with np.errstate(all="ignore"):
        values = found.started(last=True)
        plant, q, v, _, memories, _ = plan.opened(*values)
        reading = _read(plan, plant, q, v, memories)
        first = len(values) - len(plan.shapes.constants) + 2
        model = plan.with_parameters(plan.model, values[first:])
        return _written(found, plant, model, (q, v), reading)


def _read(
    plan: StepPlan, plant: RobotPlant, q: Vector, v: Vector, memories: Sequence[Any]
) -> _Reading:
    """The contacts of the steps that start at given states."""
    model, damped = plant.model, plan.integrator == "implicit_damping"
    if isinstance(plant.contact, ComplementarityContact):
        return _solved(plant.contact, plant, q, v, memories[-1], damped)
    plant = plant.resisted(q, v, damped)
    tau, pushes = plant.loads(q, v, 0.0)
    a, _ = solve_accelerations(model, q, v, zeros(model.nv), tau, pushes)
    at = Moment(model, q, v, tau, plant.dt)
    reading = _Reading([], [], [], [], a, {})
    for effect, memory in zip(plant.effects, memories, strict=False):
        if isinstance(effect, PenaltyContact):
            found = effect.pressed(at, memory)
            reading.sites.extend(find_sites(effect.scene, model))
            reading.touches.extend(x.touch for x in found)
            reading.forces.extend(x.force for x in found)
            reading.slips.extend(x.slip for x in found)
        if isinstance(effect, PenaltyStops):
            reading.stops.update({body.joint.name: x for body, x in effect.torques(at)})
    return reading


def _solved(
    law: ComplementarityContact,
    plant: RobotPlant,
    q: Vector,
    v: Vector,
    memory: Vector,
    damped: bool,
) -> _Reading:
    """Contacts by complementarity: impulses over the length of the step, slip at its end."""
    model = plant.model
    found = law.solve(plant, q, v, memory, damped)
    V = velocities(model, *joint_kinematics(model, q), found.v)
    forces, slips = [], []
    for touch, impulse in zip(found.touches, found.contacts, strict=True):
        f, u = Vec3.zero(), slide_velocity(touch, V)
        for axis, x in zip(touch.axes, impulse, strict=False):
            f = f + axis * (x / plant.dt)
        forces.append(f)
        slips.append(u - touch.normal * touch.normal.dot(u))
    bodies = law.stopped(model)
    stops = {b.joint.name: x / plant.dt for b, x in zip(bodies, found.stops, strict=True)}
    sites = law.sites(model)
    return _Reading(sites, found.touches, forces, slips, found.a, stops, found.residual)


def _written(
    found: Rollout, plant: RobotPlant, model: Model, state: tuple[Vector, Vector], reading: _Reading
) -> ContactLedger:
    """The ledger of a reading, in axes of the world."""
    (q, v), shape, seen = state, found.q.shape[:-1], plant.model
    poses = world_poses(seen, joint_kinematics(seen, q)[0])
    rows, outside = [], Force.zero()
    for k, (site, touch) in enumerate(zip(reading.sites, reading.touches, strict=True)):
        X = poses[touch.first]
        point, f = X.point(touch.point), X.R.apply(reading.forces[k])
        origin = (X @ seen.frame(site.frames[0] or "").placement).p
        slip = np.sqrt(reading.slips[k].dot(reading.slips[k]))
        wrench = Force(f, (point - origin).cross(f))
        rows.append((touch.gap, *point, *X.R.apply(touch.normal), *wrench, slip))
        if touch.second == WORLD:
            outside = outside + Force(f, point.cross(f))
    table = stacked([x for row in rows for x in row], shape).reshape(*shape, len(rows), 14)
    newton = stacked([*_left(model, q, v, reading.a, outside)], shape)
    names = [*(body.name for body in seen.bodies), "world"]
    return ContactLedger(
        found.time,
        tuple(site.names for site in reading.sites),
        tuple((names[t.first], names[t.second]) for t in reading.touches),
        tuple(site.frames[0] or "world" for site in reading.sites),
        stacked([site.pair.friction for site in reading.sites]),
        table[..., 0],
        table[..., 1:4],
        table[..., 4:7],
        table[..., 7:13],
        table[..., 13],
        newton,
        {name: np.broadcast_to(x, shape) for name, x in reading.stops.items()},
        None if reading.residual is None else np.broadcast_to(reading.residual, shape),
    )


def _left(model: Model, q: Vector, v: Vector, a: Vector, outside: Force) -> Force:
    """Rate of momentum at the centre of mass less weight and the wrench of the world."""
    rate, c = centroidal_momentum_rate(model, q, v, a), center_of_mass(model, q)
    mass = sum((body.inertia.mass for body in model.bodies), 0.0)
    return rate - Force(outside.lin + model.gravity * mass, outside.ang - c.cross(outside.lin))
