"""The joint table: a row a joint type, of which algorithms and simulation ask the fields.

A row gives the size of a joint's coordinates and velocities, its transform, its motion subspace
(constant in child coordinates) and its configuration manifold. A joint whose subspace turns, such
as the universal joint, is a chain of simpler ones. Names are for those who write a joint otherwise:
files, engines, headers of C. These refuse a joint type that they do not have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qddot.errors import InvalidModel, count_text
from qddot.spatial.algebra import (
    Mat3,
    Motion,
    Subspace,
    Transform,
    Vec3,
    rotation_about,
    rotation_from_quaternion,
)
from qddot.spatial.manifold import (
    advance_pose,
    align_planar,
    align_pose,
    difference_planar,
    difference_pose,
    difference_quaternion,
    integrate_planar,
    integrate_pose,
    integrate_quaternion,
    rate_planar,
    rate_pose,
    tangent_planar,
    tangent_pose,
    tangent_quaternion,
    unalign_planar,
    unalign_pose,
)
from qddot.spatial.scalar import Scalar

__all__ = ["JOINTS", "Chart", "Drivetrain", "Joint", "JointKind", "Limits", "plane_basis"]

_INF = math.inf
_ORIGIN = Vec3.zero()


@dataclass(frozen=True)
class Limits:
    """Bounds of a joint: position by coordinate, speed and effort by magnitude."""

    lower: float = -_INF
    upper: float = _INF
    velocity: float = _INF
    effort: float = _INF


@dataclass(frozen=True)
class Drivetrain:
    """The drivetrain between motor and link: reflected inertia, friction, spring.

    `armature` is inertia on the joint side; a rotor adds `rotor_inertia * gear_ratio**2`. The
    spring pulls towards the displacement `rest` (the neutral one when not given). Coulomb friction
    is `friction` at positive speed, `backward_friction` at negative speed; without the latter it is
    the same in both directions.
    """

    armature: Scalar = 0.0
    rotor_inertia: Scalar = 0.0
    gear_ratio: Scalar = 1.0
    damping: Scalar = 0.0
    friction: Scalar = 0.0
    stiffness: Scalar = 0.0
    rest: tuple[float, ...] | None = None
    backward_friction: Scalar | None = None

    @property
    def friction_levels(self) -> tuple[Scalar, Scalar]:
        """Coulomb friction (not negative) at positive and at negative speed."""
        back = self.backward_friction
        return self.friction, self.friction if back is None else back

    @property
    def reflected_inertia(self) -> Scalar:
        """Armature plus rotor inertia times the gear ratio squared, in kg m² (or kg)."""
        return self.armature + self.rotor_inertia * self.gear_ratio * self.gear_ratio


Coordinates = Sequence[Scalar]
Axes = tuple[Vec3, ...]


def _add_coordinates(q: Coordinates, dv: Coordinates) -> list[Scalar]:
    return [a + b for a, b in zip(q, dv, strict=True)]


def _subtract_coordinates(q0: Coordinates, q1: Coordinates) -> list[Scalar]:
    return [b - a for a, b in zip(q0, q1, strict=True)]


def _same_velocity(q: Coordinates, v: Coordinates) -> list[Scalar]:
    return list(v)


def _same_acceleration(q: Coordinates, v: Coordinates, a: Coordinates) -> list[Scalar]:
    return list(a)


def _identity_tangent(q: Coordinates) -> list[list[Scalar]]:
    return [[1.0 if i == j else 0.0 for j in range(len(q))] for i in range(len(q))]


@dataclass(frozen=True)
class Chart:
    """How a joint moves in time: velocities whose linear parts are along the axes it moves in.

    Such velocities w are constant where a body flies freely, unlike v in axes that turn with it.
    `align` gives w of v, `unalign` v of w, `rate` the derivative of w from v and its derivative,
    `advance` the coordinates after a displacement, `turning` the part of w that turns in space.
    """

    align: Callable[[Coordinates, Coordinates], list[Scalar]] = _same_velocity
    unalign: Callable[[Coordinates, Coordinates], list[Scalar]] = _same_velocity
    rate: Callable[[Coordinates, Coordinates, Coordinates], list[Scalar]] = _same_acceleration
    advance: Callable[[Coordinates, Coordinates], list[Scalar]] = _add_coordinates
    turning: range = range(0)


@dataclass(frozen=True)
class JointKind:
    """A row of the joint table. Functions take the joint (for axes and pitch) and coordinates.

    A kind with a `chain` is taken apart into those kinds, one axis each, when a model is assembled.
    `turns` and `slides` say whether its single axis is that of a rotation or of a translation,
    `floats` whether it leaves all six freedoms, `takes_armature` whether a motor's inertia can be
    reflected to it, `takes_limits` whether its coordinates can be bounded, `has_pitch` whether it
    is a screw; `quaternion` is the place of a unit quaternion among its coordinates.
    """

    name: str
    nq: int
    nv: int
    axes: int
    transform: Callable[[Joint, Coordinates], Transform]
    subspace: Callable[[Joint], Subspace]
    integrate: Callable[[Coordinates, Coordinates], list[Scalar]] = _add_coordinates
    difference: Callable[[Coordinates, Coordinates], list[Scalar]] = _subtract_coordinates
    tangent: Callable[[Coordinates], list[list[Scalar]]] = _identity_tangent
    neutral: tuple[float, ...] = (0.0,)
    angular: tuple[bool, ...] = (True,)
    suffixes: tuple[str, ...] = ("",)
    chain: tuple[str, ...] = ()
    chart: Chart = Chart()
    turns: bool = False
    slides: bool = False
    floats: bool = False
    takes_armature: bool = True
    takes_limits: bool = False
    has_pitch: bool = False
    quaternion: slice | None = None

    def __reduce__(self) -> tuple[Callable[[str], JointKind], tuple[str]]:
        return _joint_kind, (self.name,)


def _joint_kind(name: str) -> JointKind:
    return JOINTS[name]


@dataclass(frozen=True)
class Joint:
    """A joint of a model.

    A joint of one degree of freedom moves by `ratio * q + offset`: a joint coupled to a `leader`
    reads the leader's coordinate that way, and MJCF's reference position is an offset.
    """

    name: str
    kind: JointKind
    axes: Axes = ()
    pitch: Scalar = 0.0
    ratio: float = 1.0
    offset: float = 0.0
    leader: str | None = None
    limits: Limits = field(default_factory=Limits)
    drivetrain: Drivetrain = field(default_factory=Drivetrain)

    def __post_init__(self) -> None:
        if len(self.axes) != self.kind.axes:
            needed = count_text(self.kind.axes, "axis", "axes")
            raise InvalidModel(f"joint {self.name!r}", f"{self.kind.name} needs {needed}")
        if (self.ratio, self.offset, self.leader) != (1.0, 0.0, None) and self.kind.nq != 1:
            raise InvalidModel(
                f"joint {self.name!r}", f"a {self.kind.name} joint cannot be coupled or offset"
            )

    @property
    def rest(self) -> Coordinates:
        """Displacement at which the spring of the joint is relaxed."""
        return self.drivetrain.rest or self.kind.neutral

    def displacement(self, q: Coordinates) -> Coordinates:
        """The displacement of the joint at coordinates q of its leader."""
        return [self.ratio * q[0] + self.offset] if self.kind.nq == 1 else q

    @property
    def displacement_limits(self) -> tuple[float, float]:
        """Lowest and highest displacement of a joint of one degree of freedom.

        The limits of a joint with a coordinate of its own are those of the coordinate; the limits
        of one that follows a leader are those of its displacement.
        """
        lower, upper = self.limits.lower, self.limits.upper
        if self.leader is None:
            lower, upper = sorted(self.ratio * x + self.offset for x in (lower, upper))
        return lower, upper

    @property
    def brackets(self) -> list[list[list[Scalar]]]:
        """The constants c of s_j × s_k = Σ c[j][k][m] s_m: how its velocities turn each other."""
        S = self.kind.subspace(self).columns
        turned = [[list(s.cross(t)) for t in S] for s in S]
        # the columns of a joint of several freedoms are orthonormal
        return [
            [[sum(a * b for a, b in zip(u, x, strict=True)) for u in S] for x in row]
            for row in turned
        ]

    def kinematics(self, q: Coordinates) -> tuple[Transform, Subspace]:
        """Pose of the child in the joint frame, and the motion subspace in child coordinates."""
        x = self.displacement(q)
        S = self.kind.subspace(self)
        if self.ratio != 1.0:
            S = Subspace(tuple(column * self.ratio for column in S))
        return self.kind.transform(self, x), S


def plane_basis(normal: Vec3) -> Axes:
    """Right-handed (e1, e2, normal); the cyclic axes for a normal along x, y or z."""
    x, y, z = Mat3.identity()
    parts = [abs(c) for c in normal]
    across = (y, z, x)[parts.index(max(parts))]
    e1 = across - normal * normal.dot(across)
    e1 = e1 * (1.0 / math.sqrt(e1.dot(e1)))
    return (e1, normal.cross(e1), normal)


def _translation_along(axis: Vec3) -> Motion:
    return Motion(axis, _ORIGIN)


def _rotation_about_axis(axis: Vec3) -> Motion:
    return Motion(_ORIGIN, axis)


def _of_chain(joint: Joint, *_: object) -> Any:
    raise InvalidModel(f"joint {joint.name!r}", "is a chain of joints until a model is assembled")


def _planar_transform(joint: Joint, q: Coordinates) -> Transform:
    e1, e2, normal = joint.axes
    return Transform(rotation_about(normal, q[2]), e1 * q[0] + e2 * q[1])


def _revolute_kind(name: str, takes_limits: bool) -> JointKind:
    return JointKind(
        name, 1, 1, 1,
        lambda j, q: Transform(rotation_about(j.axes[0], q[0]), _ORIGIN),
        lambda j: Subspace((_rotation_about_axis(j.axes[0]),)),
        turns=True, takes_limits=takes_limits,
    )  # fmt: skip


_ROTATIONS = tuple(_rotation_about_axis(e) for e in Mat3.identity())
_TRANSLATIONS = tuple(_translation_along(e) for e in Mat3.identity())

JOINTS: dict[str, JointKind] = {
    row.name: row
    for row in (
        JointKind(
            "fixed", 0, 0, 0,
            lambda j, q: Transform.identity(), lambda j: Subspace(()),
            neutral=(), angular=(), suffixes=(),
        ),
        _revolute_kind("revolute", takes_limits=True),
        _revolute_kind("continuous", takes_limits=False),
        JointKind(
            "prismatic", 1, 1, 1,
            lambda j, q: Transform(Mat3.identity(), j.axes[0] * q[0]),
            lambda j: Subspace((_translation_along(j.axes[0]),)),
            angular=(False,), slides=True, takes_limits=True,
        ),
        JointKind(
            "helical", 1, 1, 1,
            lambda j, q: Transform(rotation_about(j.axes[0], q[0]), j.axes[0] * (j.pitch * q[0])),
            lambda j: Subspace((Motion(j.axes[0] * j.pitch, j.axes[0]),)),
            takes_limits=True, has_pitch=True,
        ),
        JointKind(
            "universal", 2, 2, 2, _of_chain, _of_chain, chain=("revolute", "revolute"),
            neutral=(0.0, 0.0), angular=(True, True), suffixes=("1", "2"), takes_limits=True,
        ),
        JointKind(
            "planar", 3, 3, 3,
            _planar_transform,
            lambda j: Subspace(
                (*map(_translation_along, j.axes[:2]), _rotation_about_axis(j.axes[2]))
            ),
            integrate=integrate_planar, difference=difference_planar, tangent=tangent_planar,
            neutral=(0.0, 0.0, 0.0), angular=(False, False, True), suffixes=("x", "y", "angle"),
            chart=Chart(align_planar, unalign_planar, rate_planar), takes_armature=False,
        ),
        JointKind(
            "ball", 4, 3, 0,
            lambda j, q: Transform(rotation_from_quaternion(*q), _ORIGIN),
            lambda j: Subspace(_ROTATIONS),
            integrate=integrate_quaternion, difference=difference_quaternion,
            tangent=tangent_quaternion,
            neutral=(0.0, 0.0, 0.0, 1.0), angular=(True,) * 3, suffixes=("wx", "wy", "wz"),
            chart=Chart(advance=integrate_quaternion, turning=range(0, 3)), quaternion=slice(0, 4),
        ),
        JointKind(
            "free", 7, 6, 0,
            lambda j, q: Transform(rotation_from_quaternion(*q[3:]), Vec3(*q[:3])),
            lambda j: Subspace(_TRANSLATIONS + _ROTATIONS),
            integrate=integrate_pose, difference=difference_pose, tangent=tangent_pose,
            neutral=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
            angular=(False,) * 3 + (True,) * 3, suffixes=("vx", "vy", "vz", "wx", "wy", "wz"),
            chart=Chart(align_pose, unalign_pose, rate_pose, advance_pose, range(3, 6)),
            floats=True, takes_armature=False, quaternion=slice(3, 7),
        ),
    )
}  # fmt: skip
