"""External wrenches in the account of a rollout: their generalised forces, and their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qddot.algorithms.inverse_dynamics import gravity, newton_euler
from qddot.algorithms.linear import dot
from qddot.algorithms.recursion import Vector, zeros
from qddot.model.model import Model
from qddot.simulate.layout import columns
from qddot.simulate.motion import align, unalign
from qddot.simulate.plant import RobotPlant
from qddot.simulate.rollout import Rollout
from qddot.simulate.step import StepStart
from qddot.spatial.algebra import Force

__all__ = ["project_forces", "wrench_torques", "wrench_work"]


def project_forces(model: Model, q: Vector, forces: Sequence[Force]) -> list[Any]:
    """Jᵀ F of forces on the bodies."""
    still = zeros(model.nv)
    needed = newton_euler(model, q, still, still, forces)
    return [a - b for a, b in zip(gravity(model, q), needed, strict=True)]


def wrench_torques(plant: RobotPlant, q: Vector) -> list[Any]:
    """Generalised forces of the external wrenches."""
    if not plant.wrenches:
        return zeros(plant.model.nv)
    return project_forces(plant.model, q, plant.external_forces(q))


def wrench_work(rollout: Rollout, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    """Work of the external wrenches from the start, and the error of the account.

    A wrench is constant during a sample, in its own axes; its power is that at both ends.
    """
    step: Any = rollout.step
    start: StepStart = step.begin(*rollout.step_inputs(last=False))
    q1, v1 = (columns(x[..., 1:, :]) for x in (rollout.q, rollout.v))
    before, after = (wrench_torques(start.plant, q) for q in (start.q, q1))
    h, shape = float(rollout.time[1] - rollout.time[0]), rollout.q.shape[:-2]
    shape = (*shape, len(rollout.time) - 1)
    if exact:
        v1 = unalign(step.model, start.q, align(step.model, q1, v1))
        after = before
    powers = dot(before, start.v), dot(after, v1)
    p0, p1 = (np.broadcast_to(np.asarray(p, float), shape) for p in powers)
    change = p1 - p0
    # trapezoid rule: a twelfth of the change of the slope
    error = (
        np.zeros(shape) if exact else h / 12.0 * np.abs(np.diff(change, append=change[..., -1:]))
    )
    zero = np.zeros((*shape[:-1], 1))
    sums = (np.cumsum(x, axis=-1) for x in (0.5 * h * (p0 + p1), error))
    work, errors = (np.concatenate([zero, x], axis=-1) for x in sums)
    return work, errors
