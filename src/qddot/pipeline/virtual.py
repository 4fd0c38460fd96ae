"""Virtual hardware: the robot with other masses and friction, in MuJoCo, behind imperfect senses.

It stands where a log of the real robot is missing, so that identification and control have work to
do. Everything that comes from it is called virtual.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.control.gains import joint_gains
from qddot.robot.robot import Robot
from qddot.simulate.function_law import TorqueFunction
from qddot.simulate.mujoco_plant import MujocoPlant

__all__ = [
    "DELAY",
    "ENCODER",
    "RATE",
    "TORQUE_NOISE",
    "VELOCITY_NOISE",
    "Motion",
    "VirtualHardware",
    "VirtualLog",
    "build_hardware",
    "fourier_motion",
    "holding_torques",
    "named_generator",
    "rest_pose",
]

Motion = Callable[[Any], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Positions, velocities and accelerations by time."""
RATE = 1000.0
"""Cycles of control a second."""
DELAY = 1
"""Cycles that a torque takes to act."""
_HEAVIER = (-0.05, 0.25)
"""Share by which bodies are heavier than their files say: motors and harnesses are left out."""
_FRICTION = 0.06
"""Coulomb and viscous friction (at 1 rad/s) as shares of the torque that a joint holds."""
ENCODER = 2.0 * np.pi / 2**20
"""Step of the encoders (rad)."""
VELOCITY_NOISE, TORQUE_NOISE = 1e-3, 0.005
"""Standard deviations: rad/s, and share of the torque that a joint holds."""


def named_generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers of a seed and a name, independent of those of any other name."""
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), "<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *map(int, words)]))


@dataclass(frozen=True)
class VirtualLog:
    """Measurements of virtual hardware: time, encoders, velocities, torques of the motors."""

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
        law: TorqueFunction,
        q0: np.ndarray,
        v0: np.ndarray,
        seconds: float,
        *,
        delay: int | None = None,
        every: int = 1,
        stream: str = "",
    ) -> VirtualLog:
        """A motion under a law of time and measured state; each name of a stream has own noise."""
        import mujoco

        plant = MujocoPlant(self.truth, dt=1.0 / RATE)
        plant.reset(q0, v0)
        data, n = plant.data, self.truth.nv
        # joints of one freedom each: the maps between both engines are constant matrices
        origin = plant.adapter.to_q(np.zeros(n))
        to_q = np.array([plant.adapter.to_q(e) - origin for e in np.eye(n)]).T
        to_v, to_tau = (
            np.array([f(np.zeros(n), e) for e in np.eye(n)]).T
            for f in (plant.adapter.to_v, plant.adapter.to_tau)
        )
        from_q, from_v = np.linalg.inv(to_q), np.linalg.inv(to_v)
        rng = named_generator(self.seed, stream)
        lag = self.delay if delay is None else delay
        waiting: deque[np.ndarray] = deque([self.truth.gravity(q0)] * lag)
        rows: list[tuple[Any, ...]] = []
        for k in range(round(seconds * RATE)):
            place = from_q @ (data.qpos - origin)
            if not np.isfinite(place).all():
                break
            q = np.round(place / self.resolution) * self.resolution
            v = from_v @ data.qvel + self.noise[0] * rng.normal(size=n)
            waiting.append(np.asarray(law(data.time, q, v), float))
            tau = waiting.popleft()
            if k % every == 0:
                rows.append((data.time, q, v, tau + self.noise[1] * rng.normal(size=n)))
            data.qfrc_applied[:] = to_tau @ tau
            mujoco.mj_step(plant.model, data)
        return VirtualLog(*(np.array(column) for column in zip(*rows, strict=True)))

    def controller(self, robot: Robot, motion: Motion, bandwidth: float) -> TorqueFunction:
        """The controller of the maker, who knows the machine: its torques at the pose, and PD.

        Without the dynamics, light arms tumble at the speeds of identification. Gains that suit
        small inertias neither overcome friction nor hold weights up, so both are fed forward.
        """
        gains = joint_gains(robot, bandwidth, q=rest_pose(robot), inertia="free")

        def law(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
            q_ref, v_ref, a_ref = motion(t)
            needed = self.truth.inverse_dynamics(q, v_ref, a_ref, friction=True)
            return needed + gains.kp * (q_ref - q) + gains.kd * (v_ref - v)

        return law


def build_hardware(robot: Robot, seed: int) -> VirtualHardware:
    """Virtual hardware of a robot: other masses, friction of geared drives, senses with noise."""
    rng = np.random.default_rng([seed, 1])
    parameters = robot.inertial_parameters.copy()
    # each body is heavier or lighter as a whole
    for k, row in enumerate(parameters):
        if row[0] > 0.0:
            parameters[k] = row * (1.0 + rng.uniform(*_HEAVIER))
    holds = holding_torques(robot)
    coulomb, viscous = _FRICTION * holds * rng.uniform(0.5, 1.5, (2, robot.nv))
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
        delay=DELAY,
        resolution=ENCODER,
        noise=(VELOCITY_NOISE, TORQUE_NOISE * holds),
        seed=seed,
    )


def holding_torques(robot: Robot, samples: int = 200) -> np.ndarray:
    """Largest torque by joint that gravity or an acceleration of 1 rad/s² asks for."""
    q = robot.random(np.random.default_rng(0), samples)
    inertia = np.diagonal(robot.mass_matrix(q), axis1=1, axis2=2).max(axis=0)
    return np.maximum(np.abs(robot.gravity(q)).max(axis=0), inertia)


def rest_pose(robot: Robot) -> np.ndarray:
    """The middle of the limits where joints have both, bent a little."""
    low, high = robot.limits.lower, robot.limits.upper
    both = np.isfinite(low) & np.isfinite(high)
    middle = 0.5 * (np.where(both, low, 0.0) + np.where(both, high, 0.0))
    bend = 0.3 * (-1.0) ** np.arange(robot.nq)
    reach = np.where(both, 0.1 * np.where(both, high - low, 0.0), np.inf)
    return middle + np.clip(bend, -reach, reach)


def fourier_motion(
    robot: Robot, seed: int, period: float, harmonics: int = 5, speed: float = 1.0
) -> Motion:
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
