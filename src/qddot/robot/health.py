"""Health of a model by its dynamics: joints without inertia, a badly conditioned mass matrix.

Also random configurations, and rows of a matrix, such as a Jacobian, that depend on others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import function
from qddot.errors import SingularInertia, count_text
from qddot.model.links import Finding
from qddot.model.model import Body, Model
from qddot.robot.interpret import interpret
from qddot.robot.limits import shared_limits

__all__ = [
    "MOST_EXAMINED",
    "coordinate_range",
    "dependent_rows",
    "dynamic_findings",
    "random_configurations",
    "refuse_singular",
    "singular_joints",
]

MOST_EXAMINED = 300
"""Degrees of freedom up to which health examines the mass matrix, which takes their cube."""
_WORST_CONDITION = 1000.0
_NOTHING = 1e-12


def random_configurations(
    model: Model, rng: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
    """Configurations drawn uniformly: within the limits where there are any, over all rotations."""
    q = np.empty((*shape, model.nq))
    for body in model.independent:
        kind = body.joint.kind
        if kind.quaternion is not None:
            quaternion = rng.normal(size=(*shape, 4))
            quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
            place = rng.uniform(-1.0, 1.0, (*shape, kind.nq - 4))
            q[..., body.iq] = np.concatenate([place, quaternion], axis=-1)
        else:
            q[..., body.iq] = rng.uniform(*coordinate_range(model, body), (*shape, kind.nq))
    return q


def coordinate_range(model: Model, body: Body) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each coordinate of a joint: its limits, where it has any.

    For joints whose coordinates are no quaternion.
    """
    limits, reach = shared_limits(model, body), np.where(body.joint.kind.angular, np.pi, 1.0)
    # where a limit is missing: about zero, or beyond the other limit
    lower, upper = np.broadcast_arrays(limits.lower, limits.upper, reach)[:2]
    low = np.where(np.isfinite(lower), lower, np.minimum(-reach, upper - reach))
    high = np.where(np.isfinite(upper), upper, np.maximum(reach, low + reach))
    # NumPy takes the range [0, -0] for empty
    return low + 0.0, high + 0.0


def singular_joints(model: Model) -> tuple[str, ...]:
    """Joints along which nothing beyond them has inertia, whatever the configuration."""
    states = random_configurations(model, np.random.default_rng(0), (3,))
    M = interpret(function("mass_matrix"), model, [states], {})
    scale = np.abs(np.diagonal(M, axis1=1, axis2=2)).max(axis=0)
    found = []
    # leaves to root: eliminate each freedom; a pivot that vanishes at all states has no inertia
    for k in reversed(range(model.nv)):
        pivot = M[:, k, k].copy()
        if np.abs(pivot).max() <= 1e-10 * scale[k]:
            found.append(k)
            pivot[:] = np.inf
        column = M[:, k, :k] / pivot[:, None]
        M[:, :k, :k] -= column[:, :, None] * M[:, k, None, :k]
    names = [body.joint.name for body in model.independent for _ in body.dofs]
    return tuple(dict.fromkeys(names[k] for k in reversed(found)))


def refuse_singular(name: str, singular: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse to invert the mass matrix where a joint without inertia is not prescribed."""
    prescribed = options.get("prescribed", ())
    if left := [joint for joint in singular if joint not in prescribed]:
        raise SingularInertia(name, left)


def dependent_rows(J: np.ndarray, tolerance: float = 1e-6) -> dict[int, dict[int, float]]:
    """Rows of a matrix that rows before them make up, and of what: {row: {other: coefficient}}.

    Gram–Schmidt, row by row: of a row that is made up, less than the tolerance is left. A row that
    is that small by the largest is zero, made of nothing.
    """
    sizes = np.linalg.norm(J, axis=1)
    least = max(tolerance * sizes.max(initial=0.0), _NOTHING)
    basis, kept = np.zeros((0, J.shape[1])), list[int]()
    found: dict[int, dict[int, float]] = {}
    for k, row in enumerate(J):
        # the part of the row that the rows before it do not span, orthogonalised twice
        rest = row - (row @ basis.T) @ basis
        rest = rest - (rest @ basis.T) @ basis
        length = np.linalg.norm(rest)
        if sizes[k] > least and length > tolerance * sizes[k]:
            basis, kept = np.vstack([basis, rest / length]), [*kept, k]
        else:
            # coefficients of what is only rounding are left out
            parts = np.linalg.lstsq(J[kept].T, row, rcond=None)[0] * (sizes[k] > least)
            heavy = np.flatnonzero(np.abs(parts) * sizes[kept] > tolerance * sizes[k])
            found[k] = {kept[i]: float(parts[i]) for i in heavy}
    return found


def dynamic_findings(model: Model, singular: Sequence[str]) -> list[Finding]:
    """Findings that need the mass matrix: singular joints, its condition at neutral."""
    findings = [
        Finding("error", "singular", f"joint {name!r}", "nothing beyond it has inertia along it")
        for name in singular
    ]
    if findings or not model.nv:
        return findings
    # joints whose limits exclude zero
    outside = [
        b.joint.name
        for b in model.independent
        if b.joint.kind.nq == 1 and not b.joint.limits.lower <= 0.0 <= b.joint.limits.upper
    ]
    if outside:
        message = f"the neutral configuration is outside the limits: {', '.join(outside)}"
        findings.append(Finding("info", "neutral", count_text(len(outside), "joint"), message))
    # the mass matrix at the neutral configuration
    condition = float(
        np.linalg.cond(interpret(function("mass_matrix"), model, [model.neutral], {}))
    )
    if condition > _WORST_CONDITION:
        message = f"condition number {condition:.3g} at the neutral configuration (over 1000)"
        findings.append(Finding("warning", "condition", "mass matrix", message))
    return findings
