"""Laws in joint space: PD and its kin, computed torque, Slotine–Li, LQR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.analysis.linearise import linearise
from qddot.analysis.linearise.system import Weights
from qddot.control.law import Gain, Memory, Reference, State, gain
from qddot.robot.robot import Robot

__all__ = ["LQR", "PD", "ComputedTorque", "Feedforward", "GravityCompensation", "SlotineLi"]

Shapes = Mapping[str, tuple[int, ...]]


class _Motion:
    """Laws that follow a motion of the joints and sense no wrench."""

    def references(self, robot: Robot) -> Shapes:
        """Configuration, velocity and acceleration to follow."""
        return {"q_ref": (robot.nq,), "v_ref": (robot.nv,), "a_ref": (robot.nv,)}

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """No wrench."""
        return ()

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Nothing."""
        return {}


@dataclass(frozen=True, eq=False)
class GravityCompensation(_Motion):
    """τ = g(q) − kd v: the arm floats, and comes to rest where it is left."""

    kd: Gain = gain("nv", default=0.0)

    def references(self, robot: Robot) -> Shapes:
        """Nothing to follow."""
        return {}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """Gravity torques less damping."""
        return robot.gravity(state.q) - self.kd * state.v, {}


@dataclass(frozen=True, eq=False)
class PD(_Motion):
    """τ = kp e + kd ė + ki ∫e, with `gravity` also g(q); e = q_ref ⊖ q.

    The integral stops where the torque is beyond `limit` and the error would drive it further
    (conditional integration), so that it does not wind up.
    """

    kp: Gain = gain("nv")
    kd: Gain = gain("nv")
    ki: Gain = gain("nv", default=None)
    gravity: bool = False
    limit: Gain = gain("nv", default=None)

    def references(self, robot: Robot) -> Shapes:
        """Configuration and velocity to follow."""
        return {"q_ref": (robot.nq,), "v_ref": (robot.nv,)}

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """The integral of the error."""
        return {} if self.ki is None else {"integral": np.zeros(robot.nv)}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        e = robot.difference(state.q, reference["q_ref"])
        tau = self.kp * e + self.kd * (reference["v_ref"] - state.v)
        if self.gravity:
            tau = tau + robot.gravity(state.q)
        if self.ki is None:
            return tau, {}
        integral = memory["integral"] + e * state.dt
        if self.limit is not None:
            total = tau + self.ki * integral
            winds = (total > self.limit) & (e > 0.0) | (total < -self.limit) & (e < 0.0)
            integral = np.where(winds, memory["integral"], integral)
        return tau + self.ki * integral, {"integral": integral}


@dataclass(frozen=True, eq=False)
class Feedforward(_Motion):
    """τ = M(q) a_ref + g(q) + kp e + kd ė: the model without the Coriolis term."""

    kp: Gain = gain("nv")
    kd: Gain = gain("nv")

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        e = robot.difference(state.q, reference["q_ref"])
        feedback = self.kp * e + self.kd * (reference["v_ref"] - state.v)
        model = robot.mass_matrix(state.q) @ reference["a_ref"] + robot.gravity(state.q)
        return model + feedback, {}


@dataclass(frozen=True, eq=False)
class ComputedTorque(_Motion):
    """τ = M (a_ref + kp e + kd ė) + C v + g: each joint's error obeys ë + kd ė + kp e = 0.

    Luh, Walker & Paul 1980. kp = ω², kd = 2 ζ ω, the same for all joints if they are numbers.
    """

    kp: Gain = gain("nv")
    kd: Gain = gain("nv")

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        e = robot.difference(state.q, reference["q_ref"])
        rate = reference["v_ref"] - state.v
        a = reference["a_ref"] + self.kp * e + self.kd * rate
        return robot.inverse_dynamics(state.q, state.v, a), {}


@dataclass(frozen=True, eq=False)
class SlotineLi(_Motion):
    """τ = M a_r + C v_r + g + K s with v_r = v_ref + λ e and s = v_r − v (Slotine & Li 1987).

    It cancels nothing: sᵀ M s / 2 falls by sᵀ K s, whatever the gains, since Ṁ − 2 C is skew.
    """

    bandwidth: Gain = gain("nv")
    damping: Gain = gain("nv")

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law; `bandwidth` is λ in 1/s, `damping` is K in N m s/rad."""
        q, v = state.q, state.v
        e = robot.difference(q, reference["q_ref"])
        v_r = reference["v_ref"] + self.bandwidth * e
        a_r = reference["a_ref"] + self.bandwidth * (reference["v_ref"] - v)
        C, g = robot.coriolis_matrix(q, v), robot.gravity(q)
        return robot.mass_matrix(q) @ a_r + C @ v_r + g + self.damping * (v_r - v), {}


@dataclass(frozen=True, eq=False)
class LQR(_Motion):
    """τ = τ₀ − K [q ⊖ q₀; v]: the linear-quadratic regulator about a pose at rest."""

    q0: ArrayLike
    tau0: ArrayLike
    K: ArrayLike

    @staticmethod
    def about(
        robot: Robot,
        q: ArrayLike,
        *,
        friction: bool = True,
        stiffness: Weights = None,
        damping: Weights = None,
        **weights: Any,
    ) -> LQR:
        """The regulator of a robot about a pose; weights are those of `LinearModel.lqr`.

        The gains are those of the plant that the law will drive. Plants have the damping and the
        springs of their description; `friction=False` is for a plant `without="friction"`.
        `stiffness` and `damping` add springs and dampers as in `linearise`.
        """
        model = linearise(robot, q, friction=friction, stiffness=stiffness, damping=damping)
        return LQR(model.q, model.tau, model.lqr(**weights).K)

    def references(self, robot: Robot) -> Shapes:
        """Nothing to follow: the pose is part of the law."""
        return {}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        step = robot.difference(np.asarray(self.q0), state.q)
        return np.asarray(self.tau0) - np.asarray(self.K) @ np.concatenate([step, state.v]), {}
