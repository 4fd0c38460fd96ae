"""A virtual robot: logs of a known truth, to try identification on.

The motion is given and followed exactly, so that torques are those of inverse dynamics; encoders
quantise, torque sensors are noisy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from qddot.identify.fourier import FourierMotion
from qddot.identify.log import Log, make_log
from qddot.robot.robot import Robot

__all__ = ["perturb_robot", "virtual_log"]

_CHUNK = 1 << 16


def perturb_robot(
    robot: Robot, share: float = 0.15, seed: int = 0, friction: float = 0.03
) -> Robot:
    """A robot whose bodies differ from the description's, all of them possible, with friction.

    Masses, radii and centres of mass change by up to `share`; Coulomb friction and damping are
    about the share `friction` of the effort limits (of 50 N m without one), armature that of M.
    """
    rng = np.random.default_rng(seed)
    rows = robot.inertial_parameters.copy()
    for row in rows:
        m = row[0]
        if m <= 0.0:
            continue
        c = row[1:4] / m
        tensor = np.zeros((3, 3))
        tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]] = row[4:]
        tensor = tensor + tensor.T - np.diag(np.diag(tensor))
        at_com = tensor - m * (c @ c * np.eye(3) - np.outer(c, c))
        # a body of another mass and size, moved by a share of its radius
        grown, size = rng.uniform(1.0 - share, 1.0 + share, 2)
        radius = np.sqrt(max(np.trace(at_com), 1e-9) / (2.0 * m))
        c = c + share * radius * rng.uniform(-1.0, 1.0, 3)
        m *= grown
        moved = at_com * grown * size**2 + m * (c @ c * np.eye(3) - np.outer(c, c))
        row[:] = [m, *(m * c), *moved[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
    made = robot.with_parameters(rows)
    efforts = robot.limits.effort
    bodies = []
    for j, body in enumerate(made.model.bodies):
        size = friction * (efforts[j] if np.isfinite(efforts[j]) else 50.0)
        drive = replace(
            body.joint.drivetrain,
            friction=float(size * rng.uniform(0.5, 1.5)),
            damping=float(size * rng.uniform(0.5, 1.5)),
            backward_friction=None,
        )
        bodies.append(replace(body, joint=replace(body.joint, drivetrain=drive)))
    return Robot(replace(made.model, bodies=tuple(bodies)), robot.native)


def virtual_log(
    robot: Robot,
    motion: FourierMotion,
    duration: float = 60.0,
    rate: float = 500.0,
    noise: ArrayLike = 0.01,
    resolution: float = 2e-5,
    seed: int = 0,
) -> Log:
    """A log of a robot along a motion: torques with friction and noise, quantised positions.

    `noise` is the deviation of each torque sample as a share of the joint's effort limit (of
    50 N m without one); `resolution` (rad) is that of the encoders.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(int(duration * rate)) / rate
    efforts = np.where(np.isfinite(robot.limits.effort), robot.limits.effort, 50.0)
    spread = np.broadcast_to(np.asarray(noise, dtype=float), (robot.nv,)) * efforts
    q_all, tau_all = (np.empty((len(time), robot.nv)) for _ in range(2))
    for k in range(0, len(time), _CHUNK):
        part = slice(k, k + _CHUNK)
        q, v, a = motion.sample(time[part])
        tau = robot.inverse_dynamics(q, v, a, friction=True)
        tau_all[part] = tau + rng.normal(size=tau.shape) * spread
        q_all[part] = np.round(q / resolution) * resolution if resolution > 0.0 else q
    return make_log(robot, time, q_all, tau_all, source=f"virtual {robot.name}")
