"""Checks of the inertia of one link, where no correction explains it.

Each hypothesis is a pure function from the evidence on a link to a finding or None. The bounds are
those of docs/audit.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from qddot.verify.audit.evidence import (
    USUAL_SCATTER,
    Evidence,
    disagreement,
    inertia_defect_share,
    log_spread,
    shape_gaps,
)
from qddot.verify.audit.findings import AuditFinding, Severity
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.solids import hull_of, tensor_of, widths_along

__all__ = [
    "LINK_CHECKS",
    "check_against_shapes",
    "check_centre_against_shapes",
    "check_centre_of_mass",
    "check_density",
    "check_radius_of_gyration",
    "not_physical",
    "twin_disagrees",
]

# denser than lead when all is filled; lighter than foam when only the walls of the meshes count
_DENSEST, _LIGHTEST = 11_500.0, 20.0
_DIFFERS, _DIFFERS_MUCH = 0.3, 3.0
# a link is an outlier of its robot beyond this many times the scatter, and these disagreements
_NEAR = 1.1
_OUTLIER, _DIFFERS_SOME, _OFF = 4.0, 1.2, 0.6


def not_physical(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """No distribution of mass has this inertia: a moment is negative or exceeds the other two."""
    name = evidence.link.name
    if not i.is_finite:
        return AuditFinding(name, "not physical", "error", "a value is not a finite number", 20.0)
    if i.mass < 0:
        return AuditFinding(
            name, "not physical", "error", f"the mass {i.mass:g} kg is negative", 15.0
        )
    share = float(inertia_defect_share(i.tensor))
    if share <= 1e-6:
        return None
    moments = np.linalg.eigvalsh(i.tensor)
    moments[np.abs(moments) < 1e-12 * np.abs(moments).max()] = 0.0
    listed = ", ".join(f"{x:.4g}" for x in moments)
    excess = float(moments[2] - moments[0] - moments[1])
    reason = (
        f"{moments[0]:.3g} is negative"
        if moments[0] < 0
        else f"the largest exceeds the sum of the others by {excess / moments[2]:.2%} of itself"
    )
    severity: Severity = "error" if share > 1e-3 else "warning"
    message = f"principal moments {listed} kg m²: {reason}"
    return AuditFinding(name, "not physical", severity, message, 6 + min(4.0, 40 * share))


def check_radius_of_gyration(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """Mass within an interval spreads by no more than half its width."""
    geometry, name = evidence.geometry, evidence.link.name
    severity: Severity
    radius = math.sqrt(max(float(np.linalg.eigvalsh(i.tensor)[2]), 0.0) / i.mass)
    if not geometry.estimates:
        # without shapes: no link is larger than the robot it is part of
        reach = geometry.reach
        if reach < 0.01 or radius <= 0.5 * reach:
            return None
        message = f"radius of gyration {radius:.3g} m, while the whole robot measures {reach:.3g} m"
        severity = "error" if radius > reach else "warning"
        strength = 3 + 2 * math.log(2 * radius / reach)
        return AuditFinding(name, "radius of gyration", severity, message, strength)
    # spread along each principal axis against half the width of the link along it
    squares, axes = np.linalg.eigh(i.spread)
    spreads = np.sqrt(np.maximum(squares, 0.0))
    every = np.concatenate([geometry.points, geometry.anchors])
    # where the shapes are not all of the link, any side may be as long as all of it
    halves = widths_along(every, axes.T) / 2 if geometry.is_complete else np.full(3, geometry.size)
    # a body from a to b with its centre at c spreads by √((c − a)(b − c)) at most
    slack = geometry.shape_tolerance
    bounds = halves + slack
    if geometry.is_complete:
        near = (i.com @ axes - (every @ axes).min(0), (every @ axes).max(0) - i.com @ axes)
        inside = np.minimum(*near) > 0.0
        bounds = np.where(inside, np.sqrt(np.abs((near[0] + slack) * (near[1] + slack))), bounds)
    ratios = spreads / bounds
    k = int(ratios.argmax())
    if ratios[k] <= (1 if bounds[k] >= halves[k] + slack else _NEAR):
        return None
    severity = "info"
    if geometry.is_complete or ratios[k] > 2:
        far = spreads[k] > 2 * (halves[k] + slack)
        severity = "error" if geometry.is_complete and far else "warning"
    message = (
        f"its mass spreads by {spreads[k]:.3g} m along an axis on which the link reaches "
        f"{halves[k]:.3g} m from its middle, {bounds[k]:.3g} m possible with this centre "
        f"(radius of gyration {radius:.3g} m, size of the link {geometry.size:.3g} m)"
    )
    strength = 3 + 2 * math.log(ratios[k])
    return AuditFinding(name, "radius of gyration", severity, message, strength)


def check_centre_of_mass(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """The centre of mass lies in the convex hull of a body."""
    geometry, name = evidence.geometry, evidence.link.name
    hull, size = geometry.hull, geometry.size
    if hull is not None and not geometry.is_complete:
        hull = hull_of(np.concatenate([geometry.points, geometry.anchors]))
    if hull is None:
        # without shapes: it lies near the joints
        distance = float(np.linalg.norm(i.com - geometry.anchors.mean(0)))
        if size < 0.01 or distance < 3 * size:
            return None
        message = (
            f"the centre of mass lies {distance:.3g} m from the middle of the joints of the link, "
            f"which are {size:.3g} m apart"
        )
        strength = 2 + math.log(distance / size)
        return AuditFinding(name, "centre of mass outside", "info", message, strength)
    gap = float(hull.distance_outside(i.com))
    share = gap / max(size, 1e-6)
    if gap < geometry.shape_tolerance or share < 0.05:
        return None
    severity: Severity = "error" if share > 0.4 else "warning"
    if not geometry.is_complete:
        severity = "warning" if share > 0.4 else "info"
    where = ", ".join(f"{x:.4g}" for x in i.com)
    message = (
        f"the centre of mass ({where}) m lies {gap:.3g} m outside the convex hull of its shapes, "
        f"which measure {size:.3g} m"
    )
    strength = 3 + 2 * math.log(share / 0.05)
    return AuditFinding(name, "centre of mass outside", severity, message, strength)


def check_density(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """The mass over the volume of the shapes is that of some material."""
    smallest, largest = evidence.geometry.volume_bounds
    if smallest <= 0:
        return None
    least, most = i.mass / largest, i.mass / smallest
    excess = max(least / _DENSEST, _LIGHTEST / most)
    if excess <= 1:
        return None
    severity: Severity = "error" if excess > 3 else "warning"
    if not evidence.geometry.is_complete:
        severity = "info"
    light = most < _LIGHTEST
    limit = "foam weighs 20" if light else "lead weighs 11 340"
    density, volume = (most, smallest) if light else (least, largest)
    message = f"{i.mass:.4g} kg in {volume * 1e3:.4g} l is {density:.3g} kg/m³; {limit}"
    strength = 3 + 2 * math.log(excess)
    return AuditFinding(evidence.link.name, "density", severity, message, strength)


def check_against_shapes(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """The tensor is near that of its shapes filled with one density."""
    if not evidence.geometry.is_complete:
        return None
    solids = [e.solid for e in evidence.geometry.estimates]
    own = log_spread(i.spread)
    D = float(disagreement(own, log_spread(np.array([s.spread for s in solids]))).min())
    # the estimate whose tensor is nearest, relative to its norm
    uniform = [tensor_of(i.mass, s.spread) for s in solids]
    norms = [float(np.linalg.norm(u)) for u in uniform]
    shares = [float(np.linalg.norm(i.tensor - u)) / n for u, n in zip(uniform, norms, strict=True)]
    k = int(np.argmin(shares))
    if shares[k] <= _DIFFERS:
        return None
    ratio = float(np.linalg.norm(i.tensor)) / norms[k]
    much = f"is {ratio:.2g} times" if not 1 / 3 < ratio < 3 else f"differs by {shares[k]:.0%} from"
    moments = [
        ", ".join(f"{x:.3g}" for x in np.linalg.eigvalsh(tensor))
        for tensor in (i.tensor, uniform[k])
    ]
    message = (
        f"its tensor {much} that of the {evidence.geometry.estimates[k].name} at one density: "
        f"principal moments {moments[0]} kg m² against {moments[1]}"
    )
    scatter = evidence.scatter
    bound = _DIFFERS_MUCH
    if scatter.tensor < USUAL_SCATTER.tensor:
        bound = min(bound, max(_OUTLIER * scatter.tensor, _DIFFERS_SOME))
        message += f"; D {D:.2g}, of the other links mostly below {scatter.tensor:.2g}"
    severity: Severity = "warning" if bound < D else "info"
    return AuditFinding(evidence.link.name, "differs from its shapes", severity, message, D)


def check_centre_against_shapes(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """The centre of mass is about as near that of its shapes as on the robot's other links."""
    geometry, scatter = evidence.geometry, evidence.scatter
    if not geometry.is_complete or scatter.centre >= USUAL_SCATTER.centre:
        return None
    off = float(shape_gaps(geometry, [i])[1][0])
    bound = scatter.centre + _OFF
    if off <= bound:
        return None
    nearest = min(geometry.estimates, key=lambda e: float(np.linalg.norm(i.com - e.solid.com)))
    places = [", ".join(f"{x:.3g}" for x in c) for c in (i.com, nearest.solid.com)]
    message = (
        f"the centre of mass ({places[0]}) m lies {off * geometry.gyration:.3g} m from that of "
        f"the {nearest.name} at one density, ({places[1]}) m: {off:.2g} radii of gyration, on the "
        f"other links mostly below {scatter.centre:.2g}"
    )
    return AuditFinding(
        evidence.link.name, "centre of mass differs", "warning", message, 2 + math.log(off / bound)
    )


def twin_disagrees(evidence: Evidence, i: Inertial) -> AuditFinding | None:
    """The twin on the other side has the same inertia, mirrored."""
    # the size of the link; that of its inertia where neither shapes nor joints tell
    size = max(evidence.geometry.size, 4 * math.sqrt(max(float(np.trace(i.spread)), 1e-8)))
    for twin in evidence.twins:
        if not twin.mirrored:
            continue
        # mass, centre and tensor under the map that fits best
        gaps = []
        for other in twin.inertials:
            D = float(disagreement(log_spread(i.spread), log_spread(other.spread)))
            off = float(np.linalg.norm(i.com - other.com)) / size
            gaps.append((abs(math.log(i.mass / other.mass)), off, D, other))
        mass, off, D, other = min(gaps, key=lambda g: g[0] / 0.05 + g[1] / 0.02 + g[2] / 0.1)
        worst = max(mass / 0.05, off / 0.02, D / 0.15)
        if worst <= 1:
            continue
        words = [
            f"mass {i.mass:.4g} kg against {other.mass:.4g}" if mass > 0.05 else "",
            f"centres of mass {off * size * 1e3:.3g} mm apart" if off > 0.02 else "",
            # a tensor scaled by k as a whole is √3 ln k away
            f"tensors that differ {math.exp(D / math.sqrt(3)):.2g}-fold" if D > 0.15 else "",
        ]
        message = f"mirrored, its twin {twin.name!r} differs: {', '.join(filter(None, words))}"
        severity: Severity = "warning" if worst > 2 else "info"
        strength = 2 + math.log(worst)
        links = (evidence.link.name, twin.name)
        return AuditFinding(links[0], "twin disagrees", severity, message, strength, links=links)
    return None


LINK_CHECKS: dict[str, Callable[[Evidence, Inertial], AuditFinding | None]] = {
    "radius of gyration": check_radius_of_gyration,
    "centre of mass outside": check_centre_of_mass,
    "density": check_density,
    "differs from its shapes": check_against_shapes,
    "centre of mass differs": check_centre_against_shapes,
}
