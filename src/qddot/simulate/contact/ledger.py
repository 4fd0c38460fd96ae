"""The contact ledger: gap, wrench and slip of every contact, at every sample of a rollout.

Forces are those of the step that starts at a sample, computed again from the recorded states of
effects; their sum is compared with Newton's law for the whole robot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from qddot.algorithms.centroidal import center_of_mass, centroidal_momentum_rate
from qddot.algorithms.hybrid_dynamics import solve_accelerations
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics, velocities, zeros
from qddot.display.text import Tabular
from qddot.errors import InvalidArgument
from qddot.model.model import WORLD, Model
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.gaps import Site, Touch, find_sites, slide_velocity
from qddot.simulate.contact.penalty import PenaltyContact, PenaltyStops
from qddot.simulate.layout import stack_scalars
from qddot.simulate.plant import StepContext
from qddot.simulate.rollout import Rollout
from qddot.simulate.step import StepStart
from qddot.spatial.algebra import Force, Vec3
from qddot.spatial.scalar import Scalar

__all__ = ["ContactEntry", "ContactLedger", "contact_ledger"]


class ContactEntry(NamedTuple):
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


@dataclass(frozen=True, eq=False, repr=False)
class ContactLedger(Tabular):
    """All contacts of a rollout; arrays have the axes batch, time, contact.

    `names` are the two shapes of a contact, `bodies` theirs. The `wrench` (N, N m) is on the first
    body, at the origin of the frame of the first shape, in axes of the world; its opposite is on
    the second body. `point` and `normal` (from the second body to the first) are in the world,
    `gap` is in m and negative where bodies overlap, `slip` is the speed along the surface in m/s.
    `newton` (N, N m) is the residual of Newton's law: rate of momentum about the centre of mass
    less weight and contacts. It is zero for a robot that only contacts support; else it is the
    wrench of its mounting and of other forces. `stops` has the torques of joint limits by joint.
    `residual` is that of Coulomb's law (m/s), with contact by complementarity.
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
                names=names,
                body=bodies[0],
                other=bodies[1],
                frame=frame,
                gap=float(self.gap[key][k]),
                wrench=self.wrench[key][k],
                normal_force=float(self.normal_force[key][k]),
                cone_ratio=float(self.cone_ratio[key][k]),
                slip=float(self.slip[key][k]),
            )
            for k, (names, bodies, frame) in enumerate(
                zip(self.names, self.bodies, self.frames, strict=True)
            )
        ]

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """Contacts in words, and one a line, over all rollouts and samples."""
        samples = f"{self.gap[..., 0].size if self.names else 0} samples"
        axes = tuple(range(self.gap.ndim - 1))
        heads = ["contact (body)", "smallest gap, mm", "mean N", "most N", "most slip, mm/s"]
        force = np.linalg.norm(self.force, axis=-1)
        columns = [
            1e3 * self.gap.min(axis=axes, initial=np.inf),
            force.mean(axis=axes),
            force.max(axis=axes, initial=0.0),
            1e3 * self.slip.max(axis=axes, initial=0.0),
        ]
        shown = self._used_places()
        rows = [
            [
                f"{self.names[k][0]} on {self.names[k][1]} ({self.bodies[k][0]})",
                *(f"{x[k]:.4g}" for x in columns),
            ]
            for k in shown
        ]
        deepest = f"deepest penetration {1e3 * self.penetration:.3g} mm"
        return f"contact ledger: {len(shown)} contacts, {samples}, {deepest}", heads, rows

    def _used_places(self) -> list[int]:
        """The contacts that tables show: of a pair's places those that carried, or the first."""
        carried = np.any(self.force, axis=(*range(self.gap.ndim - 1), -1))
        loaded = {pair for pair, x in zip(self.names, carried, strict=True) if x}
        first = {pair: k for k, pair in reversed([*enumerate(self.names)])}
        return [
            k
            for k, pair in enumerate(self.names)
            if carried[k] or (pair not in loaded and first[pair] == k)
        ]

    def table(self, sample: int = -1, index: Any = ()) -> str:
        """The contacts at one sample as text, with the residual of Newton's law."""
        found = self.at(sample, index)
        entries = [found[k] for k in self._used_places()]
        width = max((len(_label(x)) for x in entries), default=7)
        lines = [
            f"{'contact (body)':{width}}  {'gap':>9}  {'force on the body, world axes':>33}"
            f"  {'ratio':>6}  {'slip':>9}",
            f"{'':{width}}  {'mm':>9}  {'N':>33}  {'':6}  {'mm/s':>9}",
        ]
        for x in entries:
            tail = f"{_numbers(x.wrench[:3])}  {x.cone_ratio:6.3f}  {1e3 * x.slip:9.3f}"
            lines.append(f"{_label(x):{width}}  {1e3 * x.gap:9.4f}  {tail}")
        key = self._key(sample, index)
        residual = np.abs(self.newton[key]).max()
        return "\n".join(
            [
                *lines,
                f"{'sum, from the world':{width}}  {'':9}  {_numbers(self.total[key])}",
                f"rate of momentum less weight and contacts: {residual:.1e} N or N m at most",
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


def _label(x: ContactEntry) -> str:
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


def contact_ledger(rollout: Rollout) -> ContactLedger:
    """The contacts of a rollout at all its samples.

    An entry describes the step that starts at its sample; the last one has the last torques.
    """
    step = rollout.step
    laws = [] if step is None else [step.contact, *step.effects]
    if step is None or not any(
        isinstance(x, ComplementarityContact | PenaltyContact) for x in laws
    ):
        accepted = "it needs contact=ComplementarityContact(…) or a PenaltyContact in effects"
        raise InvalidArgument(
            "ledger of a rollout without contact", step and step.effects, accepted
        )
    if any(step.state_sizes) and not rollout.effect_history:
        raise InvalidArgument(
            "ledger of a rollout that was not recorded",
            step.effects,
            "its effects have a state: record=True",
        )
    with np.errstate(all="ignore"):
        values = rollout.step_inputs(last=True)
        start = step.begin(*values)
        if isinstance(start.plant.contact, ComplementarityContact):
            reading = _read_complementarity(start.plant.contact, start, step.implicit_damping)
        else:
            reading = _read_penalty(start, step.implicit_damping)
        first = len(values) - len(step.shapes.constants) + 2
        model = step.with_parameters(step.model, values[first:])
        return _make_ledger(rollout, start, model, reading)


def _read_penalty(start: StepStart, damped: bool) -> _Reading:
    """Contacts by penalty of the steps that start at given states."""
    q, v, model = start.q, start.v, start.plant.model
    plant = start.plant.with_implicit_torques(q, v, damped)
    tau, forces = plant.loads(q, v, 0.0)
    a, _ = solve_accelerations(model, q, v, zeros(model.nv), tau, forces)
    context = StepContext(model, q, v, tau, plant.dt)
    reading = _Reading(sites=[], touches=[], forces=[], slips=[], a=a, stops={})
    for effect, state in zip(plant.effects, start.states, strict=False):
        if isinstance(effect, PenaltyContact):
            found = effect.contact_forces(context, state)
            reading.sites.extend(find_sites(effect.scene, model))
            reading.touches.extend(x.touch for x in found)
            reading.forces.extend(x.force for x in found)
            reading.slips.extend(x.slip for x in found)
        if isinstance(effect, PenaltyStops):
            reading.stops.update({body.joint.name: x for body, x in effect.torques(context)})
    return reading


def _read_complementarity(law: ComplementarityContact, start: StepStart, damped: bool) -> _Reading:
    """Contacts by complementarity: impulses over the length of the step, slip at its end."""
    plant, model = start.plant, start.plant.model
    found = law.solve(plant, start.q, start.v, start.states[-1], damped)
    V = velocities(model, *joint_kinematics(model, start.q), found.v)
    forces, slips = [], []
    for touch, impulse in zip(found.touches, found.contacts, strict=True):
        f, u = Vec3.zero(), slide_velocity(touch, V)
        for axis, x in zip(touch.axes, impulse, strict=False):
            f = f + axis * (x / plant.dt)
        forces.append(f)
        slips.append(u - touch.normal * touch.normal.dot(u))
    bodies = law.bodies_with_stops(model)
    return _Reading(
        sites=law.sites(model),
        touches=found.touches,
        forces=forces,
        slips=slips,
        a=found.a,
        stops={b.joint.name: x / plant.dt for b, x in zip(bodies, found.stops, strict=True)},
        residual=found.residual,
    )


def _make_ledger(
    rollout: Rollout, start: StepStart, model: Model, reading: _Reading
) -> ContactLedger:
    """The ledger of a reading, in axes of the world."""
    shape, condensed = rollout.q.shape[:-1], start.plant.model
    poses = world_poses(condensed, joint_kinematics(condensed, start.q)[0])
    # contacts: wrenches at the frames, and their sum over contacts with the world
    rows, outside = [], Force.zero()
    for k, (site, touch) in enumerate(zip(reading.sites, reading.touches, strict=True)):
        X = poses[touch.first]
        point, f = X.point(touch.point), X.R.apply(reading.forces[k])
        origin = (X @ condensed.frame(site.frames[0] or "").placement).p
        slip = np.sqrt(reading.slips[k].dot(reading.slips[k]))
        wrench = Force(f, (point - origin).cross(f))
        rows.append((touch.gap, *point, *X.R.apply(touch.normal), *wrench, slip))
        if touch.second == WORLD:
            outside = outside + Force(f, point.cross(f))
    table = stack_scalars([x for row in rows for x in row], shape).reshape(*shape, len(rows), 14)
    # Newton's law at the centre of mass: rate of momentum less weight and contacts
    rate = centroidal_momentum_rate(model, start.q, start.v, reading.a)
    c = center_of_mass(model, start.q)
    mass = sum((body.inertia.mass for body in model.bodies), 0.0)
    external = Force(outside.lin + model.gravity * mass, outside.ang - c.cross(outside.lin))
    names = [*(body.name for body in condensed.bodies), "world"]
    return ContactLedger(
        time=rollout.time,
        names=tuple(site.names for site in reading.sites),
        bodies=tuple((names[t.first], names[t.second]) for t in reading.touches),
        frames=tuple(site.frames[0] or "world" for site in reading.sites),
        friction=stack_scalars([site.pair.friction for site in reading.sites]),
        gap=table[..., 0],
        point=table[..., 1:4],
        normal=table[..., 4:7],
        wrench=table[..., 7:13],
        slip=table[..., 13],
        newton=stack_scalars([*(rate - external)], shape),
        stops={name: np.broadcast_to(x, shape) for name, x in reading.stops.items()},
        residual=None if reading.residual is None else np.broadcast_to(reading.residual, shape),
    )
