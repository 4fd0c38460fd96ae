"""Laws at a frame of the robot: operational space, impedance, admittance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import ReferenceAxes
from qddot.control.law import Gain, Memory, Reference, State, gain
from qddot.errors import UnknownName
from qddot.robot.robot import Robot
from qddot.spatial import so3

__all__ = [
    "STIFFNESS",
    "Admittance",
    "CartesianImpedance",
    "OperationalSpace",
    "TaskInertia",
    "damped_task_inertia",
    "impedance_damping",
    "pose_error",
]

Shapes = Mapping[str, tuple[int, ...]]
ALIGNED: ReferenceAxes = "local_world_aligned"
STIFFNESS = {"soft": 100.0, "medium": 500.0, "stiff": 2000.0}
"""Translational stiffness of the presets (N/m); rotational stiffness is a twentieth (N m/rad)."""
_ROTATION = 0.05


def pose_error(X_ref: Any, X: Any) -> Any:
    """Way (6) from a pose to its reference: [p_ref − p; log(R_ref Rᵀ)], in world axes."""
    return np.concatenate([X_ref[:3, 3] - X[:3, 3], so3.log(X_ref[:3, :3] @ X[:3, :3].T)])


@dataclass(frozen=True)
class TaskInertia:
    """Dynamics of a robot at a frame.

    J (6 × nv) and its rate times v, the mobility Λ⁻¹ = J M⁻¹ Jᵀ + λ 1, the bias C v + g, and the
    damping λ that keeps Λ finite near a singularity.
    """

    J: Any
    drift: Any
    mobility: Any
    bias: Any
    damping: Any

    @property
    def Lambda(self) -> Any:
        """The inertia Λ that is felt at the frame."""
        return np.linalg.inv(self.mobility)

    def force(self, a: Any) -> Any:
        """Λ a, the wrench that accelerates the frame by a; Λ itself is not formed."""
        return np.linalg.solve(self.mobility, a)


def damped_task_inertia(
    robot: Robot, q: Any, v: Any, frame: str, onset: Any = None, most: Any = 1.0
) -> TaskInertia:
    """Dynamics at a frame, with damping where the mobility A = J M⁻¹ Jᵀ comes close to singular.

    √det A measures how far it is; below `onset` the damping rises to `most` (1/kg) as
    (1 − √det A / onset)² (Nakamura & Hanafusa 1986). Without an onset nothing is damped.
    """
    A = robot.task_mobility(q, frame, ALIGNED)
    damping = 0.0 * q[0]
    if onset is not None:
        # the floor keeps the factor real where A is singular to rounding
        floor = 1e-12 * sum(A[k, k] for k in range(6))
        factor = np.linalg.cholesky(A + floor * np.eye(6))
        measure = factor[0, 0]
        for k in range(1, 6):
            measure = measure * factor[k, k]
        near = np.maximum(1.0 - measure / onset, 0.0)
        damping = most * near * near
        A = A + (damping + floor) * np.eye(6)
    return TaskInertia(
        J=robot.frame_jacobian(q, frame, ALIGNED),
        # the acceleration of the frame while the joints do not accelerate
        drift=robot.frame_classical_acceleration(q, v, np.zeros(robot.nv), frame, ALIGNED),
        mobility=A,
        bias=robot.bias(q, v),
        damping=damping,
    )


class _AtFrame:
    """Laws that follow the pose of a frame."""

    frame: str

    def references(self, robot: Robot) -> Shapes:
        """Pose, twist and acceleration of the frame to follow, "local_world_aligned"."""
        return {"X_ref": (4, 4), "V_ref": (6,), "A_ref": (6,)}

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """No wrench."""
        return ()

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Nothing."""
        return {}


@dataclass(frozen=True, eq=False)
class OperationalSpace(_AtFrame):
    """τ = Jᵀ Λ (A_ref + kp e + kd ė − J̇ v) + h + Nᵀ M a₀ (Khatib 1987).

    N = 1 − J̄ J is the dynamically consistent null space: the posture torque M a₀ with
    a₀ = kp_posture (q_ref ⊖ q) − kd_posture v accelerates nothing at the frame. Since
    J̄ᵀ M = Λ J, it is Nᵀ M a₀ = M a₀ − Jᵀ Λ J a₀. Near a singularity Λ is damped, and memory says
    by how much ("damping", 1/kg).
    """

    frame: str
    kp: Gain = gain(6)
    kd: Gain = gain(6)
    kp_posture: Gain = gain("nv", default=0.0)
    kd_posture: Gain = gain("nv", default=0.0)
    onset: Gain = gain(default=None)
    most_damping: Gain = gain(default=1.0)

    def references(self, robot: Robot) -> Shapes:
        """Pose, twist and acceleration of the frame, and the posture to prefer."""
        return {**_AtFrame.references(self, robot), "q_ref": (robot.nq,)}

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The damping in use."""
        return {"damping": 0.0}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        q, v = state.q, state.v
        at = damped_task_inertia(robot, q, v, self.frame, self.onset, self.most_damping)
        # acceleration of the frame that makes its error decay
        e = pose_error(reference["X_ref"], robot.frame_pose(q, self.frame))
        a = reference["A_ref"] + self.kp * e + self.kd * (reference["V_ref"] - at.J @ v)
        # posture, in what the task leaves free: the frame does not feel its acceleration
        pull = self.kp_posture * robot.difference(q, reference["q_ref"]) - self.kd_posture * v
        force = at.force(a - at.drift - at.J @ pull)
        tau = at.J.T @ force + at.bias + robot.mass_matrix(q) @ pull
        return tau, {"damping": at.damping}


def impedance_damping(
    robot: Robot, q: ArrayLike, frame: str, stiffness: ArrayLike, ratio: float = 1.0
) -> np.ndarray:
    """Damping 2 ζ √(k m) of each axis of a frame, m the inertia felt there at a pose.

    Along the axes it is Λᵢᵢ, the inertia with the other axes held. About them it is
    1/(J M⁻¹ Jᵀ)ᵢᵢ, that with the others free: the larger one would need more damping than sampling
    at 1 kHz allows for a light wrist.
    """
    held = np.diag(robot.task_inertia(q, frame, ALIGNED))
    free = 1.0 / np.diag(robot.task_mobility(q, frame, ALIGNED))
    felt = np.concatenate([held[:3], free[3:]])
    return 2.0 * ratio * np.sqrt(np.asarray(stiffness, float) * felt)


@dataclass(frozen=True, eq=False)
class CartesianImpedance(_AtFrame):
    """τ = Jᵀ (K e + D ė) + h: the frame is held by a spring and a damper (Hogan 1985).

    e = [p_ref − p; log(R_ref Rᵀ)]. With `ki` (1/s) the wrench that is measured at the frame must
    balance the spring: ki ∫ (K e + F) takes out the friction of the joints, which no model knows.
    With `inertia` (6, kg and kg m²) the felt inertia is that one too, by the measured wrench.
    """

    frame: str
    stiffness: Gain = gain(6)
    damping: Gain = gain(6)
    ki: Gain = gain(default=None)
    inertia: Gain = gain(6, default=None)

    @staticmethod
    def preset(robot: Robot, name: str, frame: str, q: ArrayLike, ratio: float = 1.0) -> Any:
        """Soft, medium or stiff, with the `impedance_damping` of a pose."""
        if name not in STIFFNESS:
            raise UnknownName("preset", name, tuple(STIFFNESS))
        k = STIFFNESS[name] * np.repeat([1.0, _ROTATION], 3)
        return CartesianImpedance(frame, k, impedance_damping(robot, q, frame, k, ratio))

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """The wrench at the frame, where it is needed."""
        return () if self.ki is None and self.inertia is None else (self.frame,)

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The integral of the imbalance."""
        return {} if self.ki is None else {"imbalance": np.zeros(6)}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        q, v = state.q, state.v
        J = robot.frame_jacobian(q, self.frame, ALIGNED)
        e = pose_error(reference["X_ref"], robot.frame_pose(q, self.frame))
        spring = self.stiffness * e
        force = spring + self.damping * (reference["V_ref"] - J @ v)
        kept: dict[str, Any] = {}
        if self.ki is not None:
            imbalance = (
                memory["imbalance"] + self.ki * (spring + state.wrenches[self.frame]) * state.dt
            )
            force, kept = force + imbalance, {"imbalance": imbalance}
        if self.inertia is not None:
            # the frame accelerates as the wanted inertia would under all forces on it
            at = damped_task_inertia(robot, q, v, self.frame)
            wrench = state.wrenches[self.frame]
            a = reference["A_ref"] + (force + wrench) / self.inertia - at.drift
            force = at.force(a) - wrench
        return J.T @ force + robot.bias(q, v), kept


@dataclass(frozen=True, eq=False)
class Admittance(_AtFrame):
    """The measured wrench moves a virtual mass on a spring, and the frame follows it stiffly.

    inertia δ̈ + damping δ̇ + stiffness δ = F at the frame; the pose followed is that of the reference
    moved by δ. Its own loop is operational space with kp, kd. For joints with much friction.
    """

    frame: str
    inertia: Gain = gain(6)
    damping: Gain = gain(6)
    stiffness: Gain = gain(6)
    kp: Gain = gain(6)
    kd: Gain = gain(6)

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """The wrench at the frame."""
        return (self.frame,)

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The virtual mass: displacement and its rate."""
        return {"offset": np.zeros(6), "rate": np.zeros(6)}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        q, v, dt = state.q, state.v, state.dt
        # the virtual mass, stepped with damping and spring at the end of the step
        push = state.wrenches[self.frame] - self.stiffness * memory["offset"]
        gathered = self.inertia * memory["rate"] + push * dt
        rate = gathered / (self.inertia + self.damping * dt + self.stiffness * dt * dt)
        offset = memory["offset"] + rate * dt
        # the frame follows it
        X_ref, X = reference["X_ref"], robot.frame_pose(q, self.frame)
        shift = X_ref[:3, 3] + offset[:3] - X[:3, 3]
        R = so3.exp(offset[3:]) @ X_ref[:3, :3]
        turned = pose_error(np.concatenate([R, X[:3, 3:]], axis=1), X)
        e = np.concatenate([shift, turned[3:]])
        at = damped_task_inertia(robot, q, v, self.frame)
        speed = reference["V_ref"] + rate - at.J @ v
        a = reference["A_ref"] + self.kp * e + self.kd * speed - at.drift
        return at.J.T @ at.force(a) + at.bias, {"offset": offset, "rate": rate}
