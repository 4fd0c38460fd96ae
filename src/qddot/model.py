"""The frozen model of a robot: a validated tree of bodies, with everything named.

`Model.from_links` is the one way in: loaders and model edits hand it links (each with the joint that
carries it), it checks that they form a tree, merges links held by fixed joints into the body that
carries them, resolves couplings and numbers the coordinates.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from qddot.errors import InvalidModel, NotUnderstood, UnknownName
from qddot.joints import JOINTS, Joint, JointKind
from qddot.scalar import Scalar
from qddot.spatial import Inertia, Motion, Subspace, Sym3, Transform, Vec3

__all__ = [
    "STANDARD_GRAVITY",
    "WORLD",
    "Body",
    "Coupling",
    "Finding",
    "Frame",
    "FrameDraft",
    "Link",
    "Loop",
    "Model",
    "PolynomialCoupling",
    "inertia_defect",
    "massless_leaves",
]

WORLD = -1
"""Index of the parent of a root body. As the last entry of a list it is where the world's values go."""

STANDARD_GRAVITY = Vec3(0.0, 0.0, -9.81)

_LARGEST = 1e12
_MASSLESS = 1e-12


@dataclass(frozen=True)
class Finding:
    """An entry of a model's health: how bad, what kind, about what, in words."""

    severity: Literal["error", "warning", "info"]
    kind: str
    subject: str
    message: str


@dataclass(frozen=True)
class Link:
    """A link as a description gives it: the joint that carries it, from which parent link, where.

    `placement` is the pose of the joint frame in the parent link (the world when `parent` is None).
    """

    name: str
    parent: str | None
    placement: Transform
    joint: Joint
    inertia: Inertia = field(default_factory=Inertia.zero)


@dataclass(frozen=True)
class FrameDraft:
    """A named frame fixed to a link (to the world when `link` is None)."""

    name: str
    link: str | None
    placement: Transform


@dataclass(frozen=True)
class Coupling:
    """An exact coupling: displacement of the follower = ratio · displacement of the leader + offset.

    Without a leader the follower is held at `offset`.
    """

    follower: str
    leader: str | None
    ratio: float
    offset: float


@dataclass(frozen=True)
class PolynomialCoupling:
    """A coupling kept as a constraint: follower = Σ coefficients[k] leaderᵏ, of displacements."""

    name: str
    follower: str
    leader: str
    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class Loop:
    """A loop closure between two frames of the model: what is held together ("point", "pose")."""

    name: str
    kind: Literal["point", "pose"]
    frame1: str
    frame2: str


@dataclass(frozen=True)
class Frame:
    """A named frame fixed to a body."""

    name: str
    body: int
    placement: Transform


@dataclass(frozen=True)
class Body:
    """A moving body: its parent, the joint that carries it, its inertia, its slices of q and v."""

    name: str
    parent: int
    placement: Transform
    joint: Joint
    inertia: Inertia
    iq: slice
    iv: slice

    def kinematics(self, q: Sequence[Scalar]) -> tuple[Transform, Subspace]:
        """Pose in the parent body, and the motion subspace in body coordinates."""
        X, S = self.joint.kinematics(q[self.iq])
        return self.placement @ X, S

    def subspace_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Subspace | None:
        """Rate of the motion subspace seen from the body; None where it is constant."""
        return self.joint.subspace_rate(q[self.iq], v[self.iv])

    def bias(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """The acceleration that the changing subspace gives at constant joint velocity."""
        rate = self.subspace_rate(q, v)
        return rate * v[self.iv] if rate else Motion.zero()

    @property
    def dofs(self) -> range:
        """Indices of this body's velocities."""
        return range(self.iv.start, self.iv.stop)

    @property
    def armature(self) -> Scalar:
        """Reflected inertia at the coordinate that drives the joint."""
        return self.joint.drivetrain.reflected_inertia * self.joint.ratio**2


@dataclass(frozen=True)
class Model:
    """A validated tree of bodies. Bodies stand after their parents, depth first in file order."""

    name: str
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...]
    gravity: Vec3 = STANDARD_GRAVITY
    base_inertia: Inertia = field(default_factory=Inertia.zero)
    loops: tuple[Loop, ...] = ()
    polynomial_couplings: tuple[PolynomialCoupling, ...] = ()
    configurations: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    health: tuple[Finding, ...] = ()

    @staticmethod
    def from_links(
        name: str,
        links: Sequence[Link],
        frames: Sequence[FrameDraft] = (),
        couplings: Sequence[Coupling] = (),
        base_inertia: Inertia | None = None,
        **fields: Any,
    ) -> Model:
        """Check, order, merge and number links into a model; further fields are taken as they are."""
        _check_links(links)
        couplings = _settled(couplings)
        links = [_locked(link, couplings) for link in _depth_first(links)]
        resolved = _resolve(links, couplings)
        hosts: dict[str | None, tuple[int, Transform]] = {None: (WORLD, Transform.identity())}
        moving: list[Link] = []
        parents: list[int] = []
        inertias = [base_inertia or Inertia.zero()]
        for link in links:
            host, X_parent = hosts[link.parent]
            X = X_parent @ link.placement
            if link.joint.kind.nv == 0:
                hosts[link.name] = host, X
                inertias[host + 1] = inertias[host + 1] + X.to_parent(link.inertia)
            else:
                hosts[link.name] = len(moving), Transform.identity()
                moving.append(
                    dataclasses.replace(link, placement=X, joint=resolved[link.joint.name])
                )
                parents.append(host)
                inertias.append(link.inertia)
        drafts = [FrameDraft(link.name, link.name, Transform.identity()) for link in links]
        placed = []
        for draft in (*drafts, *frames):
            if draft.link not in hosts:
                raise InvalidModel(
                    f"frame {draft.name!r}", f"its link {draft.link!r} does not exist"
                )
            host, X_parent = hosts[draft.link]
            placed.append(Frame(draft.name, host, X_parent @ draft.placement))
        bodies = tuple(
            Body(link.name, parent, link.placement, link.joint, inertia, iq, iv)
            for link, parent, inertia, (iq, iv) in zip(
                moving, parents, inertias[1:], _slices(moving), strict=True
            )
        )
        return Model(name, bodies, tuple(placed), base_inertia=inertias[0], **fields)

    def __post_init__(self) -> None:
        _check_unique("body", (b.name for b in self.bodies))
        _check_unique("joint", (b.joint.name for b in self.bodies))
        _check_unique("frame", (f.name for f in self.frames))
        for i, body in enumerate(self.bodies):
            if not WORLD <= body.parent < i:
                raise InvalidModel(f"body {body.name!r}", "stands before its parent")
            _check_inertia(f"body {body.name!r}", body.inertia)
        for frame in self.frames:
            _check_numbers(f"frame {frame.name!r}", (x for row in frame.placement for x in row))
        for name, q in self.configurations.items():
            _check_numbers(f"configuration {name!r}", q)
        _check_numbers("gravity", self.gravity)

    @property
    def nb(self) -> int:
        """Number of moving bodies."""
        return len(self.bodies)

    @cached_property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return sum(b.joint.kind.nq for b in self.bodies if b.joint.leader is None)

    @cached_property
    def nv(self) -> int:
        """Number of velocities: the degrees of freedom."""
        return sum(b.joint.kind.nv for b in self.bodies if b.joint.leader is None)

    @property
    def mass(self) -> Scalar:
        """Total mass, that of the base included."""
        return sum((b.inertia.mass for b in self.bodies), self.base_inertia.mass)

    @cached_property
    def independent(self) -> tuple[Body, ...]:
        """Bodies whose joint has coordinates of its own."""
        return tuple(b for b in self.bodies if b.joint.leader is None)

    @property
    def coupled(self) -> bool:
        """Whether any joint follows another."""
        return len(self.independent) < self.nb

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that have coordinates, in the order of q and v."""
        return tuple(b.joint.name for b in self.independent)

    @cached_property
    def velocity_names(self) -> tuple[str, ...]:
        """One name a velocity: the joint's, with a suffix where a joint has several."""
        return tuple(
            f"{b.joint.name}.{suffix}" if suffix else b.joint.name
            for b in self.independent
            for suffix in b.joint.kind.suffixes
        )

    @cached_property
    def neutral(self) -> tuple[float, ...]:
        """The configuration of zeros and identity rotations."""
        return tuple(x for b in self.independent for x in b.joint.kind.neutral)

    @cached_property
    def parameters(self) -> tuple[tuple[Scalar, ...], ...]:
        """The ten inertial parameters of each body: m, m c, I about the body origin."""
        return tuple(tuple(b.inertia) for b in self.bodies)

    @cached_property
    def digest(self) -> str:
        """A digest of everything that the dynamics depend on."""
        content = repr(_plain((self.bodies, self.frames, self.gravity)))
        return hashlib.sha256(content.encode()).hexdigest()

    @cached_property
    def _frame_index(self) -> dict[str, Frame]:
        return {f.name: f for f in self.frames}

    def frame(self, name: str) -> Frame:
        """The frame of this name."""
        try:
            return self._frame_index[name]
        except KeyError:
            raise UnknownName("frame", name, self._frame_index, self.name) from None

    def body_of_joint(self, name: str) -> Body:
        """The body that the joint of this name carries."""
        for body in self.bodies:
            if body.joint.name == name:
                return body
        raise UnknownName("joint", name, (b.joint.name for b in self.bodies), self.name)

    def ancestors(self, body: int) -> list[int]:
        """The body itself, its parent, and so on down to the root."""
        chain = []
        while body != WORLD:
            chain.append(body)
            body = self.bodies[body].parent
        return chain

    def with_parameters(self, parameters: Sequence[Sequence[Scalar]]) -> Model:
        """The same robot with other inertial parameters, ten a body, over any scalar."""
        if len(parameters) != self.nb or any(len(row) != 10 for row in parameters):
            found = [len(row) for row in parameters]
            raise NotUnderstood("with_parameters: rows of", found, f"needs {self.nb} rows of ten")
        bodies = tuple(
            dataclasses.replace(body, inertia=Inertia.of(list(row)))
            for body, row in zip(self.bodies, parameters, strict=True)
        )
        findings = [f for f in self.health if f.kind not in ("inertia", "massless")]
        findings += [d for b in bodies for d in inertia_defect(f"body {b.name!r}", b.inertia)]
        findings += massless_leaves(bodies)
        return dataclasses.replace(self, bodies=bodies, health=tuple(findings))

    def with_payload(
        self,
        frame: str,
        mass: float,
        com: Sequence[float] = (0.0, 0.0, 0.0),
        tensor: Sequence[float] | None = None,
    ) -> Model:
        """The same robot carrying a load at a frame.

        `com` is in coordinates of the frame; `tensor` (xx, xy, yy, xz, yz, zz) is about the
        centre of mass, in the axes of the frame; without it the load is a point.
        """
        moments = [0.0] * 6 if tensor is None else tensor
        (m,), c, sigma = (
            _scalars(f"with_payload: {what}", values, count)
            for what, values, count in (
                ("mass", [mass], 1),
                ("com", com, 3),
                ("tensor", moments, 6),
            )
        )
        load = Inertia.at_com(m, Vec3(*c), Sym3(*sigma))
        place = self.frame(frame)
        added = place.placement.to_parent(load)
        label = f"payload at {frame!r}"
        _check_inertia(label, load)
        health = (*self.health, *inertia_defect(label, load))
        if place.body == WORLD:
            return dataclasses.replace(self, base_inertia=self.base_inertia + added, health=health)
        bodies = list(self.bodies)
        host = bodies[place.body]
        bodies[place.body] = dataclasses.replace(host, inertia=host.inertia + added)
        health = (*(f for f in health if f.kind != "massless"), *massless_leaves(bodies))
        return dataclasses.replace(self, bodies=tuple(bodies), health=health)

    def without_joint(self, name: str, value: float | Sequence[float] | None = None) -> Model:
        """The same robot with a joint locked at a value (neutral by default), followers with it."""
        joint = self.body_of_joint(name).joint
        if joint.leader is not None:
            raise InvalidModel(f"joint {name!r}", f"follows {joint.leader!r}; lock that one")
        given = joint.kind.neutral if value is None else value
        what = f"value of joint {name!r}"
        several = given.ndim > 0 if isinstance(given, np.ndarray) else isinstance(given, Sequence)
        q = _scalars(what, given if several else [given], joint.kind.nq)
        if joint.kind.name in ("ball", "free") and abs(math.hypot(*q[-4:]) - 1.0) > 1e-6:
            raise NotUnderstood(what, value, "its quaternion (x, y, z, w) needs unit length")
        for c in self.polynomial_couplings:
            if name in (c.follower, c.leader):
                raise InvalidModel(f"joint {name!r}", f"is part of the coupling {c.name!r}")
        links, couplings = self._drafts()
        links = [
            _fixed_at(link, q, body.joint) if name in (body.joint.name, body.joint.leader) else link
            for link, body in zip(links, self.bodies, strict=True)
        ]
        kept = [c for c in couplings if c.leader != name]
        iq = self.body_of_joint(name).iq
        configurations = {
            key: (*q[: iq.start], *q[iq.stop :]) for key, q in self.configurations.items()
        }
        return self._rebuilt(links, couplings=kept, configurations=configurations)

    def attach(
        self, other: Model, frame: str, placement: Transform | None = None, prefix: str = ""
    ) -> Model:
        """This robot with another model mounted on a frame; `prefix` goes before the other's names."""
        for body in other.bodies:
            if body.parent == WORLD and body.joint.kind.name == "free":
                raise InvalidModel(
                    f"model {other.name!r}",
                    "has a free base; load it with base='fixed' to attach it",
                )
        if not isinstance(placement, Transform | None):
            raise NotUnderstood("attach: placement", placement, "needs a Transform")
        place = self.frame(frame)
        host = self.bodies[place.body].name if place.body != WORLD else None
        X = place.placement @ (placement or Transform.identity())
        mount = Link(
            f"{prefix}{other.name}_mount",
            host,
            X,
            _fixed_joint(f"{prefix}mount"),
            other.base_inertia,
        )
        renamed = other._prefixed(prefix)
        links, couplings = self._drafts()
        more, more_couplings = renamed._drafts()
        joined = self._rebuilt(
            [*links, mount, *(_mounted(link, mount.name) for link in more)],
            [*self._extra_frames(), *(_mounted(f, mount.name) for f in renamed._extra_frames())],
            [*couplings, *more_couplings],
            loops=self.loops + renamed.loops,
            polynomial_couplings=self.polynomial_couplings + renamed.polynomial_couplings,
        )
        ours, theirs = ([f for f in m.health if f.kind != "massless"] for m in (self, other))
        theirs = [
            dataclasses.replace(f, subject=_prefixed_subject(f.subject, prefix)) for f in theirs
        ]
        health = (*ours, *theirs, *massless_leaves(joined.bodies))
        return dataclasses.replace(joined, health=health)

    def _prefixed(self, prefix: str) -> Model:
        """The same model with every name prefixed."""
        bodies = tuple(
            dataclasses.replace(
                b,
                name=prefix + b.name,
                joint=dataclasses.replace(
                    b.joint,
                    name=prefix + b.joint.name,
                    leader=b.joint.leader and prefix + b.joint.leader,
                ),
            )
            for b in self.bodies
        )
        loops = (
            dataclasses.replace(
                x, name=prefix + x.name, frame1=prefix + x.frame1, frame2=prefix + x.frame2
            )
            for x in self.loops
        )
        polynomials = (
            dataclasses.replace(
                c, name=prefix + c.name, follower=prefix + c.follower, leader=prefix + c.leader
            )
            for c in self.polynomial_couplings
        )
        frames = (dataclasses.replace(f, name=prefix + f.name) for f in self.frames)
        return dataclasses.replace(
            self,
            bodies=bodies,
            frames=tuple(frames),
            loops=tuple(loops),
            polynomial_couplings=tuple(polynomials),
        )

    def _drafts(self) -> tuple[list[Link], list[Coupling]]:
        """Links and couplings from which `from_links` gives this model's bodies again."""
        links, couplings = [], []
        for b in self.bodies:
            parent = self.bodies[b.parent].name if b.parent != WORLD else None
            joint = b.joint
            if joint.leader is not None:
                leader = self.body_of_joint(joint.leader).joint
                offset = joint.offset - joint.ratio * leader.offset
                couplings.append(Coupling(joint.name, leader.name, joint.ratio, offset))
                joint = dataclasses.replace(joint, leader=None, ratio=1.0, offset=0.0)
            links.append(Link(b.name, parent, b.placement, joint, b.inertia))
        return links, couplings

    def _extra_frames(self) -> list[FrameDraft]:
        """The frames that are not those of the bodies themselves."""
        names = {b.name for b in self.bodies}
        return [
            FrameDraft(f.name, self.bodies[f.body].name if f.body != WORLD else None, f.placement)
            for f in self.frames
            if f.name not in names
        ]

    def _rebuilt(
        self,
        links: Sequence[Link],
        frames: Sequence[FrameDraft] | None = None,
        couplings: Sequence[Coupling] = (),
        **changes: Any,
    ) -> Model:
        """This model's own fields around other links."""
        fields = {
            "gravity": self.gravity,
            "loops": self.loops,
            "polynomial_couplings": self.polynomial_couplings,
            "health": self.health,
        }
        frames = self._extra_frames() if frames is None else frames
        return Model.from_links(
            self.name, links, frames, couplings, self.base_inertia, **{**fields, **changes}
        )


def _plain(x: Any) -> Any:
    """Dataclasses as tuples, joint kinds by name: a form whose text is the same everywhere."""
    if isinstance(x, JointKind):
        return x.name
    if dataclasses.is_dataclass(x):
        return tuple(_plain(getattr(x, f.name)) for f in dataclasses.fields(x))
    return tuple(_plain(y) for y in x) if isinstance(x, tuple) else x


def inertia_defect(subject: str, inertia: Inertia) -> list[Finding]:
    """What makes an inertia impossible: its pseudo-inertia is not positive semidefinite.

    About the centre of mass that is: no principal moment exceeds the sum of the other two (and
    none is negative). Nothing is said of inertias that are not plain finite numbers.
    """
    if not all(isinstance(x, float | int) and math.isfinite(x) for x in inertia):
        return []
    if inertia.mass <= _MASSLESS:
        moment = max(abs(x) for x in (*inertia.h, *inertia.I))
        if moment <= _MASSLESS:
            return []
        message = f"has rotational inertia or first moment ({moment:.3g}) but no mass"
        return [Finding("error", "inertia", subject, f"impossible inertia: {message}")]
    tensor = np.array([list(row) for row in inertia.tensor_at_com.rows], dtype=float)
    moments = np.linalg.eigvalsh(tensor)
    excess = float(moments[2] - moments[0] - moments[1])
    # what rounding leaves of the moments when they are taken back to the centre of mass
    rounding = 1e-12 * max(abs(x) for x in inertia.I)
    tolerance = 1e-6 * float(np.abs(moments).sum()) + rounding
    if excess <= tolerance and moments[0] >= -rounding:
        return []
    listed = ", ".join(f"{m:.4g}" for m in moments)
    message = f"impossible inertia: principal moments {listed} kg m² about the centre of mass; " + (
        "one is negative"
        if moments[0] < -rounding
        else f"the largest exceeds the other two by {excess:.3g}"
    )
    return [Finding("error", "inertia", subject, message)]


def massless_leaves(bodies: Sequence[Body]) -> list[Finding]:
    """Bodies at the end of a chain that have no mass."""
    parents = {b.parent for b in bodies}
    message = "is the last of its chain and has no mass"
    return [
        Finding("warning", "massless", f"body {b.name!r}", message)
        for i, b in enumerate(bodies)
        if i not in parents and isinstance(b.inertia.mass, float | int) and b.inertia.mass == 0
    ]


def _scalars(what: str, values: Any, count: int) -> list[Scalar]:
    """So many scalars from a sequence or array, NumPy's own as Python numbers."""
    try:
        single = [isinstance(x, np.generic | np.ndarray) and x.ndim == 0 for x in values]
        scalars = [x.item() if alone else x for x, alone in zip(values, single, strict=True)]
    except TypeError:
        scalars = []
    foreign = (str, bytes, list, tuple, dict, np.ndarray, type(None))
    if len(scalars) != count or any(isinstance(x, foreign) for x in scalars):
        raise NotUnderstood(what, values, f"needs {count} number{'s' if count > 1 else ''}")
    return scalars


def _prefixed_subject(subject: str, prefix: str) -> str:
    """The subject of a finding, such as "joint 'elbow'", with the prefix before the name."""
    kind, quote, name = subject.partition(" '")
    return f"{kind}{quote}{prefix}{name}" if quote else subject


def _check_unique(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidModel(f"{kind} {name!r}", "the name is used twice")
        seen.add(name)


def _check_numbers(element: str, values: Iterable[Scalar]) -> None:
    for x in values:
        if isinstance(x, float | int) and not abs(x) < _LARGEST:
            reason = "is not a finite number" if not math.isfinite(x) else "is absurdly large"
            raise InvalidModel(element, f"{x} {reason}")


def _check_inertia(element: str, inertia: Inertia) -> None:
    _check_numbers(element, inertia)
    if isinstance(inertia.mass, float | int) and inertia.mass < 0:
        raise InvalidModel(element, f"negative mass {inertia.mass}")


def _check_joint(joint: Joint) -> None:
    element = f"joint {joint.name!r}"
    for axis in joint.axes:
        _check_numbers(element, axis)
        if abs(axis.dot(axis) - 1.0) > 1e-9:
            raise InvalidModel(element, "its axis is not a unit vector")
    drive, limits = joint.drivetrain, joint.limits
    losses = (drive.armature, drive.rotor_inertia, drive.damping, drive.friction, drive.stiffness)
    _check_numbers(element, (joint.pitch, joint.ratio, joint.offset, drive.gear_ratio, *losses))
    _check_numbers(element, drive.rest or ())
    for label, value in zip(
        ("armature", "rotor inertia", "damping", "friction"), losses, strict=False
    ):
        if isinstance(value, float | int) and value < 0:
            raise InvalidModel(element, f"negative {label} {value}")
    if math.isnan(limits.lower) or math.isnan(limits.upper) or limits.lower > limits.upper:
        raise InvalidModel(element, f"limits [{limits.lower}, {limits.upper}] are empty")
    if not (limits.velocity >= 0 and limits.effort >= 0):
        raise InvalidModel(element, "negative velocity or effort limit")
    if drive.reflected_inertia != 0 and joint.kind.name in ("free", "planar"):
        raise InvalidModel(element, f"armature has no meaning on a {joint.kind.name} joint")


def _check_links(links: Sequence[Link]) -> None:
    """Names unique, numbers sound."""
    _check_unique("link", (link.name for link in links))
    _check_unique("joint", (link.joint.name for link in links))
    for link in links:
        element = f"link {link.name!r}"
        _check_inertia(element, link.inertia)
        _check_numbers(element, link.placement.p)
        for row in link.placement.R:
            _check_numbers(element, row)
        _check_joint(link.joint)


def _depth_first(links: Sequence[Link]) -> list[Link]:
    """Links after their parents, each subtree together, siblings in the order given."""
    children: dict[str | None, list[Link]] = {}
    names = {link.name for link in links}
    for link in links:
        if link.parent is not None and link.parent not in names:
            raise InvalidModel(f"link {link.name!r}", f"its parent {link.parent!r} does not exist")
        children.setdefault(link.parent, []).append(link)
    ordered: list[Link] = []
    stack = children.get(None, [])[::-1]
    while stack:
        link = stack.pop()
        ordered.append(link)
        stack.extend(reversed(children.get(link.name, [])))
    if len(ordered) < len(links):
        lost = sorted(names - {link.name for link in ordered})
        raise InvalidModel(f"link {lost[0]!r}", "is its own ancestor: the joints form a cycle")
    return ordered


def _fixed_joint(name: str) -> Joint:
    return Joint(name, JOINTS["fixed"])


def _fixed_at(link: Link, q: Sequence[float], joint: Joint | None = None) -> Link:
    """The link held at joint coordinates q."""
    joint = joint or link.joint
    X = link.placement @ joint.kind.transform(joint, joint.displacement(q))
    return dataclasses.replace(link, placement=X, joint=_fixed_joint(joint.name))


def _settled(couplings: Sequence[Coupling]) -> list[Coupling]:
    """The couplings, with those to a joint that is held turned into holding the follower."""
    settled = list(couplings)
    for _ in couplings:
        held = {c.follower: c.offset for c in settled if c.leader is None}
        settled = [
            dataclasses.replace(c, leader=None, offset=c.ratio * held[c.leader] + c.offset)
            if c.leader is not None and c.leader in held
            else c
            for c in settled
        ]
    return settled


def _locked(link: Link, couplings: Sequence[Coupling]) -> Link:
    """The link held where a coupling without a leader holds it."""
    for c in couplings:
        if c.follower == link.joint.name and c.leader is None:
            if link.joint.kind.nq != 1:
                element = f"joint {link.joint.name!r}"
                raise InvalidModel(element, f"a {link.joint.kind.name} joint cannot be coupled")
            return _fixed_at(link, [c.offset], dataclasses.replace(link.joint, offset=0.0))
    return link


def _mounted(draft: Any, mount: str) -> Any:
    """A link or frame of the world, moved to the mount."""
    field = "parent" if isinstance(draft, Link) else "link"
    return dataclasses.replace(draft, **{field: mount}) if getattr(draft, field) is None else draft


def _resolve(links: Sequence[Link], couplings: Sequence[Coupling]) -> dict[str, Joint]:
    """Joints by name, each follower tied to a joint that has coordinates of its own."""
    joints = {link.joint.name: link.joint for link in links}
    by_follower: dict[str, Coupling] = {}
    for c in couplings:
        element = f"joint {c.follower!r}"
        for name in filter(None, (c.follower, c.leader)):
            if name not in joints:
                raise InvalidModel(element, f"is coupled with joint {name!r}, which does not exist")
        if c.follower in by_follower:
            raise InvalidModel(element, "is coupled to two leaders")
        _check_numbers(element, (c.ratio, c.offset))
        by_follower[c.follower] = c
    for follower in by_follower:
        ratio, offset, name, seen = 1.0, 0.0, follower, {follower}
        while name in by_follower and by_follower[name].leader is not None:
            c = by_follower[name]
            ratio, offset, name = ratio * c.ratio, offset + ratio * c.offset, str(c.leader)
            if name in seen:
                raise InvalidModel(f"joint {follower!r}", "is coupled to itself in a circle")
            seen.add(name)
        root = joints[name]
        if by_follower[follower].leader is None:
            continue
        if root.kind.nv == 0:
            raise InvalidModel(f"joint {follower!r}", f"is coupled to the fixed joint {name!r}")
        if root.kind.nq != 1:
            raise InvalidModel(
                f"joint {follower!r}", f"is coupled to {name!r}, a {root.kind.name} joint"
            )
        joints[follower] = dataclasses.replace(
            joints[follower], ratio=ratio, offset=offset + ratio * root.offset, leader=name
        )
    return joints


def _slices(moving: Sequence[Link]) -> list[tuple[slice, slice]]:
    """Slices of q and v for each moving link; a follower has its leader's."""
    slices: dict[str, tuple[slice, slice]] = {}
    nq = nv = 0
    for joint in (link.joint for link in moving if link.joint.leader is None):
        slices[joint.name] = slice(nq, nq + joint.kind.nq), slice(nv, nv + joint.kind.nv)
        nq, nv = nq + joint.kind.nq, nv + joint.kind.nv
    return [slices[link.joint.leader or link.joint.name] for link in moving]
