"""Bounds of a robot's coordinates, speeds and efforts, in the order of q and v."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from qddot.display.text import Readable
from qddot.model.joints import Limits
from qddot.model.model import Body, Model

__all__ = ["RobotLimits", "robot_limits", "shared_limits"]


@dataclass(frozen=True, repr=False)
class RobotLimits(Readable):
    """Bounds as arrays: `lower` and `upper` of q (nq), `velocity` and `effort` of v (nv).

    They are ±inf where there are none, as for quaternions. The position limits of followers count
    for the joint that they follow. Speed and effort are magnitudes, in rad/s or m/s, N m or N.
    """

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray


def robot_limits(model: Model) -> RobotLimits:
    """The bounds of a model, read-only."""
    lower, upper = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    velocity, effort = np.full((2, model.nv), np.inf)
    for body in model.independent:
        joint = body.joint
        if joint.kind.quaternion is None:
            shared = shared_limits(model, body)
            lower[body.iq], upper[body.iq] = shared.lower, shared.upper
        velocity[body.iv], effort[body.iv] = joint.limits.velocity, joint.limits.effort
    # shared by all callers
    for x in (lower, upper, velocity, effort):
        x.flags.writeable = False
    return RobotLimits(lower, upper, velocity, effort)


def shared_limits(model: Model, body: Body) -> Limits:
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
