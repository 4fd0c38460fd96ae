"""The evidence on every link of a robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qddot.verify.audit.evidence import Evidence, TwinEvidence
from qddot.verify.audit.geometry import Geometry, geometry_of
from qddot.verify.audit.records import Inertial, LinkRecord, Pose, RobotRecord, pose_of
from qddot.verify.audit.solids import Array
from qddot.verify.audit.twins import Twin, find_twins

__all__ = ["Case", "gather"]


@dataclass(frozen=True)
class Case:
    """A robot as it is thought to be, with what is known of each link."""

    robot: RobotRecord
    geometries: Mapping[str, Geometry]
    twins: Mapping[str, tuple[Twin, ...]]
    frames: Mapping[str, tuple[tuple[str, Array], ...]]

    def evidence(self, name: str) -> Evidence:
        """What is known of a link, its twins as they are thought to be."""
        twins = tuple(self._twin(t) for t in self.twins.get(name, ()))
        sound = tuple(t for t in twins if t is not None)
        return Evidence(self.robot.links[name], self.geometries[name], sound, self.frames[name])

    def _twin(self, twin: Twin) -> TwinEvidence | None:
        i = self.robot.links[twin.name].inertial
        if i is None or not i.finite or not i.weighed or not i.extended:
            return None
        return TwinEvidence(twin.name, tuple(_mapped(i, Q) for Q in twin.maps), twin.mirrored)

    def meant(self, name: str, inertial: Inertial) -> Case:
        """The case in which a link has another inertia than the file says."""
        return replace(self, robot=self.robot.with_inertial(name, inertial))


def gather(robot: RobotRecord, on_step: Callable[[str, int, int], None] | None = None) -> Case:
    """The evidence on a robot; reading meshes for the first time takes a while."""
    geometries = {}
    for k, (name, link) in enumerate(robot.links.items()):
        if on_step:
            on_step(f"shapes of {name}", k, len(robot.links))
        geometries[name] = geometry_of(robot, link)
    poses = robot.at_zero()
    places = np.array([pose.p for pose in poses.values()])
    reach = float(np.linalg.norm(np.ptp(places, axis=0))) + max(g.size for g in geometries.values())
    geometries = {name: replace(g, reach=reach) for name, g in geometries.items()}
    frames = {name: tuple(_frames(link, poses[name])) for name, link in robot.links.items()}
    return Case(robot, geometries, find_twins(robot, geometries), frames)


def _mapped(i: Inertial, Q: Array) -> Inertial:
    """An inertia seen through a rotation or reflection of coordinates."""
    return Inertial(i.mass, Q @ i.com, np.eye(3), Q @ i.tensor @ Q.T)


def _frames(link: LinkRecord, pose: Pose) -> Iterator[tuple[str, Array]]:
    """Frames other than the link's own, with their rotation in the link; each rotation once."""
    seen = [np.eye(3)]
    named = [("its parent link", link.pose.R.T), ("the whole robot at zero angles", pose.R.T)]
    for shape in link.shapes:
        named.append((f"its {shape.role} {shape.kind}", pose_of(shape.placement).R))
    for name, R in named:
        if np.isfinite(R).all() and not any(np.allclose(R, S, atol=1e-4) for S in seen):
            seen.append(R)
            yield name, R
