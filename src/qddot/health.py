"""What only the dynamics tell of a model's health: joints without inertia, a bad mass matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from qddot.algorithms.catalogue import function
from qddot.evaluate import interpret
from qddot.joints import Limits
from qddot.model import Body, Model
from qddot.parts import Finding

__all__ = ["dynamic_findings", "random_configurations", "singular_joints"]

_WORST_CONDITION = 1000.0


def random_configurations(
    model: Model, rng: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
    """Configurations drawn uniformly: within the limits where there are any, over all rotations."""
    q = np.empty((*shape, model.nq))
    for body in model.independent:
        kind, limits = body.joint.kind, _shared_limits(model, body)
        if kind.name in ("ball", "free"):
            quaternion = rng.normal(size=(*shape, 4))
            quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
            place = rng.uniform(-1.0, 1.0, (*shape, kind.nq - 4))
            q[..., body.iq] = np.concatenate([place, quaternion], axis=-1)
        else:
            lower, upper = _range(limits, np.where(kind.angular, np.pi, 1.0))
            q[..., body.iq] = rng.uniform(lower, upper, (*shape, kind.nq))
    return q


def _shared_limits(model: Model, body: Body) -> Limits:
    """The limits of a joint and those that its followers imply; its own if nothing is left."""
    own = body.joint.limits
    lower, upper = own.lower, own.upper
    for joint in (b.joint for b in model.bodies if b.joint.leader == body.joint.name):
        if joint.ratio:
            # the limits of a follower are those of its displacement, ratio · q + offset
            ends = [
                (x - joint.offset) / joint.ratio for x in (joint.limits.lower, joint.limits.upper)
            ]
            lower, upper = max(lower, min(ends)), min(upper, max(ends))
    return dataclasses.replace(own, lower=lower, upper=upper) if lower <= upper else own


def _range(limits: Limits, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds to draw from: the limits; where one is missing, about zero or beyond the other."""
    lower, upper = np.broadcast_arrays(limits.lower, limits.upper, reach)[:2]
    low = np.where(np.isfinite(lower), lower, np.minimum(-reach, upper - reach))
    high = np.where(np.isfinite(upper), upper, np.maximum(reach, low + reach))
    return low, high


def singular_joints(model: Model) -> tuple[str, ...]:
    """Joints along which nothing beyond them has inertia, whatever the configuration."""
    states = random_configurations(model, np.random.default_rng(0), (3,))
    M = interpret(function("mass_matrix"), model, [states], {})
    scale = np.abs(np.diagonal(M, axis1=1, axis2=2)).max(axis=0)
    found = []
    for k in reversed(range(model.nv)):
        pivot = M[:, k, k].copy()
        if np.abs(pivot).max() <= 1e-10 * scale[k]:
            found.append(k)
            pivot[:] = np.inf
        column = M[:, k, :k] / pivot[:, None]
        M[:, :k, :k] -= column[:, :, None] * M[:, k, None, :k]
    names = [body.joint.name for body in model.independent for _ in body.dofs]
    return tuple(dict.fromkeys(names[k] for k in reversed(found)))


def dynamic_findings(model: Model, singular: Sequence[str]) -> list[Finding]:
    """Findings that need the mass matrix: singular joints, its condition at neutral."""
    findings = [
        Finding("error", "singular", f"joint {name!r}", "nothing beyond it has inertia along it")
        for name in singular
    ]
    if findings or not model.nv:
        return findings
    outside = [
        b.joint.name
        for b in model.independent
        if b.joint.kind.nq == 1 and not b.joint.limits.lower <= 0.0 <= b.joint.limits.upper
    ]
    if outside:
        message = f"the neutral configuration is outside their limits: {', '.join(outside)}"
        findings.append(Finding("info", "neutral", f"{len(outside)} joint(s)", message))
    condition = float(
        np.linalg.cond(interpret(function("mass_matrix"), model, [model.neutral], {}))
    )
    if condition > _WORST_CONDITION:
        message = f"condition number {condition:.3g} at the neutral configuration (over 1000)"
        findings.append(Finding("warning", "condition", "mass matrix", message))
    return findings
