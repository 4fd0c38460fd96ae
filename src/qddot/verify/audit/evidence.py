"""How well an inertia agrees with all that is known of its link, as a cost in nats.

The cost is a sum of terms. Each is a penalty a log(1 + (x/s)²) on a disagreement x with its usual
scatter s: the negative logarithm of a heavy-tailed (Cauchy) likelihood, so that one bad reference
cannot overrule the others. The scatters are those of public robots (docs/audit.md).

Two tensors disagree by the distance of the matrix logarithms of their second moments per unit mass,
D = ‖log S − log T‖: a factor k on all moments gives D = √3 ln k, whatever the size of the link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qddot.verify.audit.geometry import Geometry
from qddot.verify.audit.records import Inertial, LinkRecord
from qddot.verify.audit.solids import Array, spread_of

__all__ = [
    "USUAL_SCATTER",
    "Evidence",
    "ShapeScatter",
    "TwinEvidence",
    "disagreement",
    "disagreement_cost",
    "inertia_defect_share",
    "is_usual_density",
    "log_spread",
    "shape_gaps",
]

_FLOOR = 0.01
# usual scatter of densities in nats, and of tensors, centres and masses against twins
_DENSITY = 1.0
_TWIN, _TWIN_CENTRE, _TWIN_MASS = 0.1, 0.02, 0.05
_USUAL_DENSITY = (200.0, 5000.0)


@dataclass(frozen=True)
class TwinEvidence:
    """The inertia of a twin in the coordinates of the link, once for each map that may hold."""

    name: str
    inertials: tuple[Inertial, ...]
    mirrored: bool


@dataclass(frozen=True)
class ShapeScatter:
    """The scatter of links against their shapes: tensors (D), centres (radii of gyration), density.

    Densities scatter by `density` nats about a logarithm `log_density`, NaN where it is not known.
    `links` is the number of links that it is measured on; 0 for that of public robots.
    """

    tensor: float
    centre: float
    density: float
    log_density: float = math.nan
    links: int = 0


USUAL_SCATTER = ShapeScatter(tensor=0.8, centre=0.7, density=1.0)


@dataclass(frozen=True)
class Evidence:
    """The evidence on a link besides its inertia: shapes, twins, frames.

    `frames` are others in which its tensor may have been given by mistake: name and rotation.
    `scatter` is that of the robot's other links against their shapes.
    """

    link: LinkRecord
    geometry: Geometry
    twins: tuple[TwinEvidence, ...] = ()
    frames: tuple[tuple[str, Array], ...] = ()
    scatter: ShapeScatter = USUAL_SCATTER


def inertia_defect_share(tensor: Array) -> Array:
    """Defect of a tensor that no body has, as a share of its trace; 0 for a possible one.

    It is possible if its second moment ½ tr(I) 1 − I is positive semidefinite: no principal moment
    is negative or exceeds the sum of the other two. Leading axes are batch.
    """
    least = np.linalg.eigvalsh(spread_of(tensor))[..., 0]
    trace = np.abs(np.trace(tensor, axis1=-2, axis2=-1))
    return np.maximum(0.0, -least) / np.maximum(trace, 1e-30)


def log_spread(spread: Array) -> Array:
    """The matrix logarithm of second moments, those that are not positive lifted to a floor."""
    w, V = np.linalg.eigh(spread)
    most = np.maximum(w.max(-1, keepdims=True), 1e-18)
    w = np.log(np.maximum(w, 0.0) + _FLOOR * most)
    return np.einsum("...ik,...k,...jk->...ij", V, w, V)


def disagreement(a: Array, b: Array) -> Array:
    """The distance D between logarithms of second moments; leading axes broadcast."""
    return np.linalg.norm(a - b, axis=(-2, -1))


def shape_gaps(geometry: Geometry, inertials: Sequence[Inertial]) -> tuple[Array, Array]:
    """Disagreement D and distance of centres (radii of gyration) of inertias from the shapes.

    Each against the estimate that fits best.
    """
    solids = [e.solid for e in geometry.estimates]
    logs = log_spread(np.array([i.spread for i in inertials]))
    shapes = log_spread(np.array([s.spread for s in solids]))
    D = disagreement(logs[:, None], shapes).min(axis=1)
    com = np.array([i.com for i in inertials])
    off = np.min([np.linalg.norm(com - s.com, axis=-1) for s in solids], axis=0)
    return np.asarray(D), np.asarray(off / geometry.gyration)


def _penalty(x: Array, scatter: float) -> Array:
    """Negative log-likelihood of a disagreement x with this scatter, heavy-tailed."""
    return 2.0 * np.log1p((x / scatter) ** 2 / 3.0)


def disagreement_cost(evidence: Evidence, inertials: Sequence[Inertial]) -> Array:
    """The cost of each of these inertias against shapes and twins, if it were the link's."""
    geometry = evidence.geometry
    m = np.array([i.mass for i in inertials])
    com = np.array([i.com for i in inertials])
    tensors = np.array([i.tensor for i in inertials])
    logs = log_spread(spread_of(tensors) / m[:, None, None])
    total = np.zeros(len(m))
    if geometry.estimates:
        # shapes: second moment and centre of mass, against the estimate that fits best
        trust = 1.5 if geometry.is_complete else 0.4
        D, off = shape_gaps(geometry, inertials)
        if geometry.hull is not None:
            off = off + 3 * geometry.hull.distance_outside(com) / geometry.gyration
        scatter = evidence.scatter
        total = trust * (_penalty(D, scatter.tensor) + _penalty(off, scatter.centre))
        # shapes: density outside the usual range, whatever volume the link has of them
        smallest, largest = geometry.volume_bounds
        if smallest > 0:
            low, high = (math.log(x) for x in _USUAL_DENSITY)
            least, most = np.log(m / largest), np.log(m / smallest)
            excess = np.maximum(0.0, np.maximum(low - most, least - high))
            total = total + trust * _penalty(excess, _DENSITY)
        # shapes: density against that of the robot's other links, relative to the mass as written
        written = evidence.link.inertial
        if written is not None and written.mass > 0 and math.isfinite(scatter.log_density):
            masses = np.append(m, written.mass)
            gap = np.abs(np.log(masses / geometry.filled_volume) - scatter.log_density)
            costs = _penalty(gap, scatter.density)
            total = total + trust * (costs[:-1] - costs[-1])
    else:
        # without shapes: radius of gyration against the distance of the joints, or the robot
        known = geometry.size > 0.01
        usual = 0.25 * geometry.size if known else 0.04 * geometry.reach
        if usual >= 1e-4:
            radius = np.exp(np.trace(logs, axis1=-2, axis2=-1) / 6)
            total = _penalty(np.log(radius / usual), 1.2 if known else 1.6)
    # twins: tensor, centre and mass, under the map that fits best
    for twin in evidence.twins:
        each = []
        for other in twin.inertials:
            D = disagreement(logs, log_spread(other.spread))
            off = np.linalg.norm(com - other.com, axis=-1) / max(geometry.size, 1e-6)
            ratio = np.abs(np.log(m / other.mass))
            terms = _penalty(D, _TWIN) + _penalty(off, _TWIN_CENTRE)
            each.append(terms + _penalty(ratio, _TWIN_MASS))
        total = total + (1.0 if twin.mirrored else 0.5) * np.min(each, axis=0)
    return np.asarray(total)


def is_usual_density(geometry: Geometry, mass: float) -> bool:
    """Whether a mass in the shapes of a link may have a density that costs nothing."""
    smallest, largest = geometry.volume_bounds
    low, high = _USUAL_DENSITY
    return smallest <= 0 or (mass >= low * smallest and mass <= high * largest)
