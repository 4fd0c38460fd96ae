"""A robot as its file writes it: inertias in the axes they are given in, shapes, joints.

Unlike a `Model`, nothing is merged, turned or refused: an audit is of what is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from qddot.loaders.formats import FormatName
from qddot.loaders.shapes import Shape
from qddot.spatial.algebra import Transform
from qddot.verify.audit.solids import Array, spread_of

__all__ = [
    "Inertial",
    "JointRecord",
    "LinkRecord",
    "Pose",
    "RobotRecord",
    "identity_pose",
    "pose_of",
    "shapes_by_link",
]

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Pose:
    """Rotation and origin of a frame in another."""

    R: Array
    p: Array

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.R @ other.R, self.p + self.R @ other.p)


def identity_pose() -> Pose:
    """Two frames that coincide."""
    return Pose(np.eye(3), np.zeros(3))


def pose_of(X: Transform) -> Pose:
    """The pose of a transform of plain numbers."""
    return Pose(np.array([list(row) for row in X.R], float), np.array(list(X.p), float))


@dataclass(frozen=True)
class Inertial:
    """Mass, centre of mass, and the tensor about it as written, in inertial axes `R`.

    `diagonal` says that the file gives the tensor by its three principal moments only. `source`
    says whether the file has these numbers, or MuJoCo computes them from shapes, or its compiler
    changes those of the file.
    """

    mass: float
    com: Array
    R: Array
    written: Array
    diagonal: bool = False
    source: Literal["file", "shapes", "compiler"] = "file"

    @cached_property
    def tensor(self) -> Array:
        """The tensor about the centre of mass in the axes of the link."""
        return self.R @ self.written @ self.R.T

    @property
    def spread(self) -> Array:
        """The second moment per unit mass about the centre of mass, in the axes of the link."""
        return spread_of(self.tensor) / self.mass

    @property
    def is_finite(self) -> bool:
        """Whether every number is one."""
        given = (self.mass, *self.com, *self.written.flat, *self.R.flat)
        return all(math.isfinite(x) for x in given)

    @property
    def has_mass(self) -> bool:
        """Whether there is mass."""
        return self.mass > _NEGLIGIBLE

    @property
    def has_rotational_inertia(self) -> bool:
        """Whether there is rotational inertia."""
        return bool(np.abs(self.written).max() > 1e-12)


@dataclass(frozen=True)
class JointRecord:
    """A joint: kind, friction, reflected inertia and limits."""

    name: str
    kind: str
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    effort: float = math.inf
    velocity: float = math.inf


@dataclass(frozen=True)
class LinkRecord:
    """A link: where it stands in its parent, by which joints, its inertia if given, its shapes."""

    name: str
    parent: str | None
    pose: Pose
    joints: tuple[JointRecord, ...]
    inertial: Inertial | None
    shapes: tuple[Shape, ...] = ()
    line: int | None = None

    @property
    def is_moving(self) -> bool:
        """Whether it moves in its parent."""
        return any(joint.kind != "fixed" for joint in self.joints)


@dataclass(frozen=True)
class RobotRecord:
    """A robot as written; `unread` has a line for each shape that cannot be read.

    `text` is the file's own content where values can be changed in place, else None. `sites` are
    named frames by the link they are fixed to. `unknown_mass` are links whose mass is not known, as
    it comes from shapes that cannot be read.
    """

    name: str
    format: FormatName
    file: Path
    links: Mapping[str, LinkRecord]
    text: str | None = None
    unread: tuple[str, ...] = ()
    sites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown_mass: tuple[str, ...] = ()

    def children(self, name: str) -> Iterator[LinkRecord]:
        """Links carried by a link."""
        return iter(self._carried.get(name, ()))

    @cached_property
    def _carried(self) -> dict[str | None, list[LinkRecord]]:
        """Links by the link that carries them, in their order."""
        found: dict[str | None, list[LinkRecord]] = {}
        for link in self.links.values():
            found.setdefault(link.parent, []).append(link)
        return found

    def links_with_mass(self) -> Iterator[LinkRecord]:
        """Links with finite, positive mass."""
        for link in self.links.values():
            if link.inertial and link.inertial.is_finite and link.inertial.has_mass:
                yield link

    def with_inertial(self, name: str, inertial: Inertial) -> RobotRecord:
        """The same robot with another inertia of one link."""
        link = replace(self.links[name], inertial=inertial)
        return replace(self, links={**self.links, name: link})

    def zero_poses(self) -> dict[str, Pose]:
        """The pose of every link in its root when all joints are at zero."""
        found: dict[str, Pose] = {}
        for name in self.links:
            chain = [name]
            # as many steps as there are links reach a root, unless the joints form a cycle
            while chain[-1] not in found and len(chain) <= len(self.links):
                above = self.links[chain[-1]].parent
                if above not in self.links:
                    break
                chain.append(str(above))
            for link in reversed(chain):
                if link not in found:
                    record = self.links[link]
                    found[link] = found.get(record.parent or "", identity_pose()) @ record.pose
        return found


def shapes_by_link(
    links: Mapping[str, LinkRecord], shapes: Iterable[Shape]
) -> dict[str, LinkRecord]:
    """The links, each with the shapes that are fixed to it."""
    found: dict[str, list[Shape]] = {name: [] for name in links}
    for shape in shapes:
        if shape.link in found:
            found[shape.link].append(shape)
    return {name: replace(link, shapes=tuple(found[name])) for name, link in links.items()}
