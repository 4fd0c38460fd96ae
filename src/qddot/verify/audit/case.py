"""The case of an audit: a robot with the evidence on each of its links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qddot.display.progress import OnStep
from qddot.verify.audit.evidence import (
    USUAL_SCATTER,
    Evidence,
    ShapeScatter,
    TwinEvidence,
    shape_gaps,
)
from qddot.verify.audit.geometry import Geometry, geometry_of
from qddot.verify.audit.meshes import read_solids
from qddot.verify.audit.records import Inertial, RobotRecord, pose_of
from qddot.verify.audit.solids import Array
from qddot.verify.audit.symmetry import Twin, find_twins

__all__ = ["AuditCase", "gather_evidence"]

# the scatter of a robot: this quantile of the disagreements of its links, no less than this
_QUANTILE, _LEAST_SCATTER = 0.75, 0.2
_LEAST_SHARE = 1e-3
_MOST_SHAPES, _MOST_OF_ALL = 2_000, 20_000
"""Shapes of a role of a link that are measured, and shapes of a robot."""
_MOST_FRAMES = 100
_SAME_ROTATION = 1e-4


@dataclass(frozen=True)
class AuditCase:
    """A robot with the inertias that are taken to be meant, and the evidence on each link."""

    robot: RobotRecord
    geometries: Mapping[str, Geometry]
    twins: Mapping[str, tuple[Twin, ...]]
    frames: Mapping[str, tuple[tuple[str, Array], ...]]

    def evidence(self, name: str) -> Evidence:
        """The evidence on a link, with the inertias of its twins in this case."""
        twins = []
        for twin in self.twins.get(name, ()):
            i = self.robot.links[twin.name].inertial
            if i is None or not i.is_finite or not i.has_mass or not i.has_rotational_inertia:
                continue
            # the inertia of the twin in coordinates of the link, under each map that may hold
            mapped = (Inertial(i.mass, Q @ i.com, np.eye(3), Q @ i.tensor @ Q.T) for Q in twin.maps)
            twins.append(TwinEvidence(twin.name, tuple(mapped), twin.mirrored))
        link, geometry = self.robot.links[name], self.geometries[name]
        return Evidence(link, geometry, tuple(twins), self.frames[name], self._scatter(name))

    @cached_property
    def _gaps(self) -> dict[str, tuple[float, float, float]]:
        """D, distance of centres and log density of the links with whole shapes and some mass."""
        links = [x for x in self.robot.links_with_mass() if x.inertial is not None]
        total = sum(x.inertial.mass for x in links if x.inertial)
        found = {}
        for x in links:
            i, geometry = x.inertial, self.geometries[x.name]
            if i is None or i.source == "shapes" or not i.has_rotational_inertia:
                continue
            if i.mass >= _LEAST_SHARE * total and geometry.is_complete:
                D, off = shape_gaps(geometry, [i])
                density = math.log(i.mass / geometry.filled_volume)
                found[x.name] = (float(D[0]), float(off[0]), density)
        return found

    def _scatter(self, name: str) -> ShapeScatter:
        """The scatter of the other links, that of public robots counted as one more link."""
        usual = USUAL_SCATTER
        others = np.array([gaps for x, gaps in self._gaps.items() if x != name])
        if not len(others) or not math.isfinite(self.geometries[name].filled_volume):
            return usual
        middle = float(np.median(others[:, 2]))
        gaps = np.column_stack([others[:, :2], np.abs(others[:, 2] - middle)])
        rows = [*gaps, (usual.tensor, usual.centre, usual.density)]
        D, off, density = np.quantile(rows, _QUANTILE, axis=0)
        return ShapeScatter(
            tensor=float(np.clip(D, _LEAST_SCATTER, usual.tensor)),
            centre=float(np.clip(off, _LEAST_SCATTER, usual.centre)),
            density=float(np.clip(density, _LEAST_SCATTER, usual.density)),
            log_density=middle,
            links=len(others),
        )

    def with_inertial(self, name: str, inertial: Inertial) -> AuditCase:
        """The case in which a link has another inertia than the file says."""
        return replace(self, robot=self.robot.with_inertial(name, inertial))


def gather_evidence(robot: RobotRecord, on_step: OnStep | None = None) -> AuditCase:
    """The evidence on a robot; reading meshes for the first time takes a while."""
    files = [s.file for x in robot.links.values() for s in x.shapes if s.kind == "mesh" and s.file]
    meshes = read_solids(files)
    geometries = {}
    shapes = sum(len(link.shapes) for link in robot.links.values())
    most = _MOST_SHAPES if shapes <= _MOST_OF_ALL else _MOST_OF_ALL // len(robot.links)
    for k, (name, link) in enumerate(robot.links.items()):
        if on_step:
            on_step(f"shapes of {name}", k, len(robot.links))
        geometries[name] = geometry_of(robot, link, meshes, most)
    # the size of the whole robot, known to every link
    poses = robot.zero_poses()
    places = np.array([pose.p for pose in poses.values()])
    reach = float(np.linalg.norm(np.ptp(places, axis=0))) + max(g.size for g in geometries.values())
    geometries = {name: replace(g, reach=reach) for name, g in geometries.items()}
    # frames other than a link's own, by their rotation in the link; each rotation once
    frames: dict[str, tuple[tuple[str, Array], ...]] = {}
    for name, link in robot.links.items():
        named = [
            ("its parent link", link.pose.R.T),
            ("the whole robot at zero angles", poses[name].R.T),
            *((f"its {s.role} {s.kind}", pose_of(s.placement).R) for s in link.shapes),
        ]
        seen, chosen = np.eye(3)[None], []
        for words, R in named:
            if np.isfinite(R).all() and np.abs(seen - R).max(axis=(1, 2)).min() > _SAME_ROTATION:
                seen = np.concatenate([seen, R[None]])
                chosen.append((words, R))
            if len(chosen) == _MOST_FRAMES:
                break
        frames[name] = tuple(chosen)
    return AuditCase(robot, geometries, find_twins(robot, geometries), frames)
