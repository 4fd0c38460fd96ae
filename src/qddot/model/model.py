"""The frozen model of a robot: a validated tree of bodies, with everything named."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from qddot.errors import InvalidModel, UnknownName
from qddot.model.joints import Joint, JointKind
from qddot.model.links import (
    Finding,
    Loop,
    PolynomialCoupling,
    check_inertia,
    check_name,
    check_numbers,
    check_unique,
)
from qddot.spatial.algebra import Inertia, Subspace, Transform, Vec3
from qddot.spatial.scalar import Scalar

__all__ = [
    "STANDARD_GRAVITY",
    "WORLD",
    "Body",
    "Frame",
    "Model",
    "bodies_with_limits",
    "massless_leaves",
]

WORLD = -1
"""The parent of a root body; as an index it reaches the last entry of a list, the world's."""

STANDARD_GRAVITY = Vec3(0.0, 0.0, -9.81)


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
    """A validated tree of bodies. Bodies stand after their parents, depth first in file order.

    `source` is the file that the model was read from, where its shapes are, and `trusted` says
    whether that file may read any other.
    """

    name: str
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...]
    gravity: Vec3 = STANDARD_GRAVITY
    base_inertia: Inertia = field(default_factory=Inertia.zero)
    loops: tuple[Loop, ...] = ()
    polynomial_couplings: tuple[PolynomialCoupling, ...] = ()
    configurations: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    health: tuple[Finding, ...] = ()
    source: Path | None = field(default=None, compare=False)
    trusted: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        check_name("robot", self.name)
        check_unique("body", (b.name for b in self.bodies))
        check_unique("joint", (b.joint.name for b in self.bodies))
        check_unique("frame", (f.name for f in self.frames))
        check_unique("loop", (x.name for x in self.loops))
        # parents stand before their children
        for i, body in enumerate(self.bodies):
            if not WORLD <= body.parent < i:
                raise InvalidModel(f"body {body.name!r}", "stands before its parent")
            check_inertia(f"body {body.name!r}", body.inertia)
        for frame in self.frames:
            check_numbers(f"frame {frame.name!r}", (x for row in frame.placement for x in row))
        for name in (end for loop in self.loops for end in (loop.frame1, loop.frame2)):
            self.frame(name)
        for name, q in self.configurations.items():
            check_name("configuration", name)
            check_numbers(f"configuration {name!r}", q)
        check_numbers("gravity", self.gravity)

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
    def has_couplings(self) -> bool:
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
    def angular(self) -> tuple[bool, ...]:
        """Whether each velocity is that of a rotation."""
        return tuple(turns for b in self.independent for turns in b.joint.kind.angular)

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
        content = repr(_canonical_form((self.bodies, self.frames, self.gravity, self.loops)))
        return hashlib.sha256(content.encode()).hexdigest()

    @cached_property
    def _frame_index(self) -> dict[str, Frame]:
        return {f.name: f for f in self.frames}

    def frame(self, name: str) -> Frame:
        """The frame of this name."""
        try:
            return self._frame_index[name]
        except (KeyError, TypeError):
            raise UnknownName("frame", name, self._frame_index, self.name) from None

    def body_of_joint(self, name: str) -> Body:
        """The body that the joint of this name carries."""
        for body in self.bodies:
            if isinstance(name, str) and body.joint.name == name:
                return body
        raise UnknownName("joint", name, (b.joint.name for b in self.bodies), self.name)

    def ancestors(self, body: int) -> list[int]:
        """The body itself, its parent, and so on down to the root."""
        chain = []
        while body != WORLD:
            chain.append(body)
            body = self.bodies[body].parent
        return chain


def _canonical_form(x: Any) -> Any:
    """Dataclasses as tuples, joint kinds by name: a form whose text is the same everywhere."""
    if isinstance(x, JointKind):
        return x.name
    if dataclasses.is_dataclass(x):
        return tuple(_canonical_form(getattr(x, f.name)) for f in dataclasses.fields(x))
    return tuple(_canonical_form(y) for y in x) if isinstance(x, tuple) else x


def bodies_with_limits(model: Model) -> list[Body]:
    """Bodies whose joint has one coordinate and a stop at one end at least."""
    return [
        body
        for body in model.bodies
        if body.joint.kind.nv == 1
        and (math.isfinite(body.joint.limits.lower) or math.isfinite(body.joint.limits.upper))
    ]


def massless_leaves(bodies: Sequence[Body]) -> list[Finding]:
    """Bodies at the end of a chain that have no mass."""
    parents = {b.parent for b in bodies}
    message = "is the last of its chain and has no mass"
    return [
        Finding("warning", "massless", f"body {b.name!r}", message)
        for i, b in enumerate(bodies)
        if i not in parents and isinstance(b.inertia.mass, float | int) and b.inertia.mass == 0
    ]
