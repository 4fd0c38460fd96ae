"""Virtual hardware: the robot with other masses and friction, in MuJoCo, behind imperfect senses.

It stands where a log of the real robot is missing, so that identification and control have work to
do. Everything that comes from it is called virtual.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.robot.robot import Robot
from qddot.simulate.mujoco_plant import MujocoPlant

__all__ = ["VirtualHardware", "VirtualLog", "build_hardware", "fourier_motion", "rest_pose"]

Law = Callable[[float, np.ndarray, np.ndarray], np.ndarray]
RATE = 1000.0
"""Cycles of control a second."""
_MASS_SPREAD = 0.15
_ENCODER = 2.0 * np.pi / 2**20
_VELOCITY_NOISE, _TORQUE_NOISE = 1e-3, 0.005
"""Standard deviations: rad/s, and share of the torque that a joint holds."""


@dataclass(frozen=True)
class VirtualLog:
    """What virtual hardware reports: time, encoders, velocities, torques of the motors."""

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


@dataclass(frozen=True)
class VirtualHardware:
    """A plant whose masses and friction are not those of the file, with delay, steps and noise.

    `truth` is the robot inside; `delay` is how many cycles a torque takes to act; `resolution` is
    the step of the encoders; `noise` has standard deviations of velocity and of torque by joint.
    """

    truth: Robot
    delay: int
    resolution: float
    noise: tuple[float, np.ndarray]
    seed: int

    def run(
        self,
        law: Law,
        q0: np.ndarray,
        v0: np.ndarray,
        seconds: float,
        *,
        delay: int | None = None,
        every: int = 1,
        stream: int = 0,
    ) -> VirtualLog:
        """A motion under a law of time and measured state; `stream` draws other noise."""
        plant = MujocoPlant(self.truth, dt=1.0 / RATE)
        plant.reset(q0, v0)
        rng = np.random.default_rng([self.seed, stream])
        lag = self.delay if delay is None else delay
        waiting: deque[np.ndarray] = deque([self.truth.gravity(q0)] * lag)
        rows: list[tuple[Any, ...]] = []
        for k in range(round(seconds * RATE)):
            q = np.round(plant.q / self.resolution) * self.resolution
            v = plant.v + self.noise[0] * rng.normal(size=len(q))
            waiting.append(np.asarray(law(plant.time, q, v), float))
            tau = waiting.popleft()
            if k % every == 0:
                sensed = tau + self.noise[1] * rng.normal(size=len(q))
                rows.append((plant.time, q, v, sensed))
            plant.step(tau)
            if not np.isfinite(plant.q).all():
                break
        return VirtualLog(*(np.array(column) for column in zip(*rows, strict=True)))


def build_hardware(robot: Robot, seed: int) -> VirtualHardware:
    """Virtual hardware of a robot: masses ± 15 %, friction of geared drives, senses with noise."""
    rng = np.random.default_rng([seed, 1])
    parameters = robot.inertial_parameters.copy()
    # each body is heavier or lighter as a whole, its mass a little out of place
    for k, row in enumerate(parameters):
        if row[0] > 0.0:
            parameters[k] = row * (1.0 + _MASS_SPREAD * rng.uniform(-1.0, 1.0))
    # Coulomb and viscous friction as shares of the largest torque that gravity asks for
    holds = _holding_torques(robot)
    coulomb = 0.04 * holds * rng.uniform(0.5, 1.5, robot.nv)
    viscous = 0.04 * holds * rng.uniform(0.5, 1.5, robot.nv)
    heavier = robot.with_parameters(parameters).model
    bodies = []
    for body in heavier.bodies:
        k = body.iv.start
        drive = dataclasses.replace(
            body.joint.drivetrain,
            damping=float(viscous[k]),
            friction=float(coulomb[k]),
            backward_friction=None,
        )
        bodies.append(
            dataclasses.replace(body, joint=dataclasses.replace(body.joint, drivetrain=drive))
        )
    truth = Robot(dataclasses.replace(heavier, bodies=tuple(bodies)), robot.native)
    return VirtualHardware(
        truth=truth,
        delay=1,
        resolution=_ENCODER,
        noise=(_VELOCITY_NOISE, _TORQUE_NOISE * holds),
        seed=seed,
    )


def _holding_torques(robot: Robot) -> np.ndarray:
    """Largest torque by joint that gravity or an acceleration of 1 rad/s² asks for."""
    q = robot.random(np.random.default_rng(0), 200)
    inertia = np.diagonal(robot.mass_matrix(q), axis1=1, axis2=2)
    return np.maximum(np.abs(robot.gravity(q)).max(axis=0), 1.0 * inertia.max(axis=0))


def rest_pose(robot: Robot) -> np.ndarray:
    """The middle of the limits where joints have both, bent a little."""
    low, high = robot.limits.lower, robot.limits.upper
    middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), 0.0)
    middle = np.where(np.isfinite(middle), middle, 0.0)
    bend = 0.3 * (-1.0) ** np.arange(robot.nq)
    reach = np.where(np.isfinite(high - low), 0.1 * (high - low), np.inf)
    return middle + np.clip(bend, -reach, reach)


def fourier_motion(
    robot: Robot, seed: int, period: float, harmonics: int = 5, speed: float = 1.0
) -> Callable[[np.ndarray | float], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """A periodic motion about the rest pose within the limits: q, v, a as functions of time.

    It begins and ends at rest: amplitudes of the harmonics sum to zero in velocity.
    """
    rng, n = np.random.default_rng([seed, 2]), robot.nq
    centre = rest_pose(robot)
    low, high = robot.limits.lower, robot.limits.upper
    room = np.minimum(centre - low, high - centre)
    reach = np.minimum(np.where(np.isfinite(room), 0.7 * room, 0.8), 0.8)
    omega = 2.0 * np.pi / period * np.arange(1, harmonics + 1)
    a, b = rng.normal(size=(2, n, harmonics))
    # Σ a_k sin + b_k (cos − 1): velocities vanish at the start where Σ a_k ω_k = 0
    a -= (a @ omega)[:, None] * omega / (omega @ omega)
    grid = np.linspace(0.0, period, 500)

    def shape(t: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        phase = np.multiply.outer(np.asarray(t, float), omega)
        s, c = np.sin(phase), np.cos(phase)
        return (
            s @ a.T + (c - 1.0) @ b.T,
            (c * omega) @ a.T - (s * omega) @ b.T,
            -(s * omega**2) @ a.T - (c * omega**2) @ b.T,
        )

    q, v, _ = shape(grid)
    fastest = robot.limits.velocity
    bound = np.minimum(np.where(np.isfinite(fastest), 0.7 * fastest, speed), speed)
    gain = np.minimum(reach / np.abs(q).max(axis=0), bound / np.abs(v).max(axis=0))

    def motion(t: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, v, a = shape(t)
        return centre + gain * q, gain * v, gain * a

    return motion
