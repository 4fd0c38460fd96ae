"""The torque of the joints as a sum of known columns times unknown parameters.

The columns are the ten inertial parameters of each body, then the terms of each joint's drive
(reflected inertia, friction, offset, spring), then those of shafts that several joints turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import InvalidArgument, UnknownName, Unsupported
from qddot.robot.robot import Robot

__all__ = [
    "DRIVE_TERMS",
    "INERTIAL_NAMES",
    "NOT_FRICTION",
    "STANDARD_TERMS",
    "DriveTerm",
    "Shaft",
    "TorqueModel",
    "torque_model",
]

INERTIAL_NAMES = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")


@dataclass(frozen=True)
class DriveTerm:
    """A term of a joint's drive: its kind, and the speed at which it bends, if it has one."""

    kind: str
    speed: float = 0.0

    @property
    def label(self) -> str:
        """The kind, with the speed where there is one."""
        return f"{self.kind}({self.speed:.3g})" if self.speed else self.kind


_Column = Callable[[Any, Any, Any, Any, float], Any]
DRIVE_TERMS: dict[str, tuple[str, _Column]] = {
    "armature": ("reflected inertia · q̈", lambda q, v, a, load, s: a),
    "viscous": ("viscous friction · q̇", lambda q, v, a, load, s: v),
    "coulomb": ("Coulomb friction · tanh(q̇/v₀)", lambda q, v, a, load, s: np.tanh(v / s)),
    "offset": ("constant torque", lambda q, v, a, load, s: np.ones_like(v)),
    "sqrt": ("sign(q̇) √|q̇|", lambda q, v, a, load, s: np.sign(v) * np.sqrt(np.abs(v))),
    "cubic": ("q̇³", lambda q, v, a, load, s: v**3),
    "stribeck": (
        "rise of friction towards rest · tanh(5q̇/v_s)/(1 + (q̇/v_s)²)",
        lambda q, v, a, load, s: np.tanh(5.0 * v / s) / (1.0 + (v / s) ** 2),
    ),
    "load": (
        "friction in proportion to the load · |τ_rigid| tanh(q̇/v₀)",
        lambda q, v, a, load, s: np.abs(load) * np.tanh(v / s),
    ),
    "spring": ("stiffness · q", lambda q, v, a, load, s: q),
}
"""Terms of a drive: what they are, and their column from q, q̇, q̈, the rigid torque, a speed."""
STANDARD_TERMS = ("armature", "viscous", "coulomb", "offset")
NOT_FRICTION = ("armature", "offset", "spring")
"""Terms of a drive that are not friction."""
_NONLINEAR_IN_SPEED = {"coulomb", "stribeck", "load"}


@dataclass(frozen=True)
class Shaft:
    """A shaft that turns with Σ ratio · q̇ of several joints and loads each by its ratio.

    A wrist whose last motor also turns with the joint before it has one. `terms` are those of its
    own inertia and friction.
    """

    name: str
    ratios: dict[str, float]
    terms: tuple[DriveTerm, ...] = (
        DriveTerm("armature"),
        DriveTerm("viscous"),
        DriveTerm("coulomb", 0.01),
    )


@dataclass(frozen=True)
class TorqueModel:
    """Model of the torques of a robot: its rigid bodies and the drive terms of each joint."""

    robot: Robot
    drives: tuple[tuple[DriveTerm, ...], ...]
    shafts: tuple[Shaft, ...] = ()
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        robot = self.robot
        rigid = [f"{b}.{p}" for b in robot.body_names for p in INERTIAL_NAMES]
        joints = robot.model.velocity_names
        # a kind of term that a joint has several times is told apart by its speed
        own = []
        for joint, terms in zip(joints, self.drives, strict=True):
            kinds = [t.kind for t in terms]
            for t in terms:
                speed = f"@{t.speed:.3g}" if kinds.count(t.kind) > 1 else ""
                own.append(f"{joint}.{t.kind}{speed}")
        shared = [f"{s.name}.{t.kind}" for s in self.shafts for t in s.terms]
        object.__setattr__(self, "names", (*rigid, *own, *shared))

    @property
    def rigid_count(self) -> int:
        """Number of inertial parameters."""
        return 10 * self.robot.model.nb

    @property
    def drive_slices(self) -> list[slice]:
        """Where the drive terms of each joint stand among the parameters."""
        ends = np.cumsum([self.rigid_count, *map(len, self.drives)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @property
    def uses_load(self) -> bool:
        """Whether a term needs the rigid torque."""
        return any(t.kind == "load" for terms in self.drives for t in terms)

    def drive_columns(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray, load: np.ndarray | None
    ) -> np.ndarray:
        """Columns of drives and shafts (samples × joints × parameters after the inertial ones)."""
        first = self.rigid_count
        made = np.zeros((*v.shape, len(self.names) - first))
        loads = v * 0.0 if load is None else load
        for j, (place, terms) in enumerate(zip(self.drive_slices, self.drives, strict=True)):
            for k, term in enumerate(terms, start=place.start - first):
                column = DRIVE_TERMS[term.kind][1]
                made[..., j, k] = column(q[..., j], v[..., j], a[..., j], loads[..., j], term.speed)
        k = sum(map(len, self.drives))
        joints = self.robot.model.velocity_names
        for shaft in self.shafts:
            ratio = np.array([shaft.ratios.get(name, 0.0) for name in joints])
            x, u, w = (signal @ ratio for signal in (q, v, a))
            for term in shaft.terms:
                column = DRIVE_TERMS[term.kind][1](x, u, w, 0.0, term.speed)
                made[..., :, k] = column[..., None] * ratio
                k += 1
        return made

    def regressor(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray, load: np.ndarray | None = None
    ) -> np.ndarray:
        """All columns (samples × joints × parameters)."""
        if load is None and self.uses_load:
            load = self.robot.inverse_dynamics(q, v, a)
        rigid = self.robot.torque_regressor(q, v, a)
        return np.concatenate([rigid, self.drive_columns(q, v, a, load)], axis=-1)

    def prior(self) -> np.ndarray:
        """Parameters of the description, zero where it says nothing.

        The torque of a spring, k (q − rest), is that of the terms "spring" and "offset" together.
        """
        own = []
        for body, terms in zip(self.robot.model.independent, self.drives, strict=True):
            drive, relaxed = body.joint.drivetrain, body.joint.rest[0] - body.joint.offset
            has_spring = any(t.kind == "spring" for t in terms)
            known = {
                "armature": drive.reflected_inertia,
                "viscous": drive.damping,
                "coulomb": drive.friction,
                "spring": drive.stiffness,
                "offset": -drive.stiffness * relaxed if has_spring else 0.0,
            }
            own += [float(known.get(t.kind, 0.0)) for t in terms]
        shared = [0.0 for s in self.shafts for _ in s.terms]
        return np.concatenate([self.robot.inertial_parameters.ravel(), own, shared])

    def with_drives(self, drives: Sequence[Sequence[DriveTerm]]) -> TorqueModel:
        """The same with other drive terms."""
        return replace(self, drives=tuple(map(tuple, drives)))


def torque_model(
    robot: Robot,
    terms: Sequence[str] = STANDARD_TERMS,
    v0: ArrayLike = 0.01,
    shafts: Sequence[Shaft] = (),
) -> TorqueModel:
    """A torque model with the same drive terms at every joint; `v0` for those that bend."""
    model = robot.model
    if robot.nq != robot.nv or model.has_couplings:
        free = [b.joint.name for b in model.independent if b.joint.kind.floats]
        base = f"its base is free (joint {free[0]!r}), and " if free else ""
        accepted = f"{base}identification needs joints of one freedom each, without couplings"
        raise Unsupported("robot", robot.name, accepted)
    for kind in terms:
        if kind not in DRIVE_TERMS:
            raise UnknownName("drive term", kind, DRIVE_TERMS)
    speeds = np.broadcast_to(np.asarray(v0, dtype=float), (robot.nv,))
    if not np.all(speeds > 0.0):
        raise InvalidArgument("v0", v0, "it is a positive speed, one for all or one a joint")
    for shaft in shafts:
        for name in shaft.ratios:
            if name not in model.velocity_names:
                raise UnknownName("joint", name, model.velocity_names, robot.name)
    drives = [
        tuple(DriveTerm(k, float(s) if k in _NONLINEAR_IN_SPEED else 0.0) for k in terms)
        for s in speeds
    ]
    return TorqueModel(robot, tuple(drives), tuple(shafts))
