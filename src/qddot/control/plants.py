"""Plants: robots that a law drives, one step at a time.

The plant of our own steps a rollout; the other one is MuJoCo. Both may have joints that no law
drives, such as a table on a spring, and both give the wrench of chosen contacts only.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import JointsDiffer, ShapeMismatch, UnknownName
from qddot.robot.robot import Robot, Wrench
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.scene import Sphere
from qddot.simulate.mujoco_plant import MujocoPlant
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import rollout

__all__ = [
    "MujocoControlPlant",
    "Places",
    "Plant",
    "RolloutPlant",
    "joint_places",
    "require_same_joints",
]

UP = np.array([0.0, 0.0, 1.0])


class Plant(Protocol):
    """A robot that moves under torques, and what can be measured of it."""

    name: str
    robot: Robot

    @property
    def dt(self) -> float:
        """Length of a step."""

    @property
    def q(self) -> np.ndarray:
        """Configuration of the robot."""

    @property
    def v(self) -> np.ndarray:
        """Velocity of the robot."""

    def reset(self, q: ArrayLike, v: ArrayLike | None = None) -> None:
        """Begin anew at a state."""

    def step(self, tau: ArrayLike, pushes: Sequence[Wrench] = ()) -> None:
        """One step under joint torques and external wrenches."""

    def wrench(self, frame: str) -> np.ndarray:
        """Contact wrench on the robot at a frame in the last step, "local_world_aligned"."""


@dataclass(frozen=True)
class Places:
    """Where the coordinates of one robot stand among those of another."""

    q: np.ndarray
    v: np.ndarray


def joint_places(robot: Robot, world: Robot) -> Places:
    """Where the joints of a robot stand in a larger one that has them under the same names."""
    require_same_joints(robot, world, "the plant", partial=True)
    q, v = [], []
    for body in robot.model.independent:
        there = world.model.body_of_joint(body.joint.name)
        q += list(range(there.iq.start, there.iq.stop))
        v += list(range(there.iv.start, there.iv.stop))
    return Places(np.array(q, int), np.array(v, int))


def require_same_joints(robot: Robot, other: Robot, where: str, partial: bool = False) -> None:
    """Refuse two robots whose joints differ by name, order or kind."""
    here, there = robot.joint_names, other.joint_names
    missing = [name for name in here if name not in there]
    more = [] if partial else [name for name in there if name not in here]
    if missing or more:
        hint = "a law runs on a plant with the joints of its robot"
        raise JointsDiffer(where, robot.name, missing, more, hint=hint)
    if not partial and here != there:
        raise JointsDiffer(where, robot.name, reason=f"their order is {here} and {there}")
    for name in here:
        kinds = [r.model.body_of_joint(name).joint.kind.name for r in (robot, other)]
        if kinds[0] != kinds[1]:
            reason = f"{name!r} is {kinds[0]} in {robot.name!r} and {kinds[1]} in {where}"
            raise JointsDiffer(where, robot.name, reason=reason)


class RolloutPlant:
    """A robot in the simulation of our own: exact friction cones, a batch of states at once.

    It has the damping, friction, springs and limits of its description, as `rollout` does; further
    choices are those of `make_simulator`, such as `without` and `integrator`.

    `world` is a robot that has the joints of `robot` and others beside them, which start at `rest`
    ({joint: coordinate}) and feel the torques `passive` ({joint: torque}). `contact` is by
    complementarity; the wrench at the frame of the `tip` is that of the first pair of the scene,
    this sphere on a level surface. `parameters` carry batch axes, as in `rollout`, and so do
    figures of effects and contact.
    """

    name = "own"

    def __init__(
        self,
        robot: Robot,
        *,
        world: Robot | None = None,
        dt: float = 1e-3,
        contact: ComplementarityContact | None = None,
        effects: Sequence[Any] = (),
        parameters: Mapping[str, ArrayLike] | None = None,
        passive: Mapping[str, ArrayLike] | None = None,
        rest: Mapping[str, ArrayLike] | None = None,
        tip: Sphere | None = None,
        **choices: Any,
    ) -> None:
        self.robot, self.world, self.tip = robot, world or robot, tip
        self._rest = dict(rest or {})
        self._places = joint_places(robot, self.world)
        self._passive = dict(passive or {})
        self._choices = {
            "dt": dt,
            "contact": contact,
            "effects": tuple(effects),
            "parameters": dict(parameters or {}),
            **choices,
        }
        self._rollout: Rollout | None = None
        self.reset(robot.neutral())

    @property
    def dt(self) -> float:
        """Length of a step."""
        return float(self._choices["dt"])

    @property
    def q(self) -> np.ndarray:
        """Configuration of the robot (..., nq)."""
        return self._q[..., self._places.q]

    @property
    def v(self) -> np.ndarray:
        """Velocity of the robot (..., nv)."""
        return self._v[..., self._places.v]

    @property
    def world_q(self) -> np.ndarray:
        """Configuration of all joints, also of those that no law drives."""
        return self._q

    def reset(self, q: ArrayLike, v: ArrayLike | None = None) -> None:
        """Begin anew at a state (..., nq), (..., nv)."""
        q = np.asarray(q, float)
        if q.shape[-1:] != (self.robot.nq,):
            raise ShapeMismatch("reset", "q", f"(..., {self.robot.nq})", q.shape)
        v = np.zeros((*q.shape[:-1], self.robot.nv)) if v is None else np.asarray(v, float)
        sizes = [np.shape(x) for x in self._rest.values()]
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], *sizes)
        self._q = np.broadcast_to(self.world.neutral(), (*batch, self.world.nq)).copy()
        self._v = np.zeros((*batch, self.world.nv))
        self._q[..., self._places.q], self._v[..., self._places.v] = q, v
        for name, x in self._rest.items():
            self._q[..., self.world.model.body_of_joint(name).iq.start] = x
        self._rollout = None

    def step(self, tau: ArrayLike, pushes: Sequence[Wrench] = ()) -> None:
        """One step under joint torques and external wrenches."""
        torque = np.zeros_like(self._v)
        torque[..., self._places.v] = tau
        for name, x in self._passive.items():
            torque[..., self.world.model.body_of_joint(name).iv.start] = x
        for push in pushes:
            J = self.robot.frame_jacobian(self.q, push.frame, push.reference)
            value = np.asarray(push.value, float)
            torque[..., self._places.v] += np.einsum("...ij,...i->...j", J, value)
        rows = torque[..., None, :]
        if self._rollout is None:
            found = rollout(self.world, self._q, self._v, rows, steps=1, **self._choices)
        else:
            found = self._rollout.resume(rows, steps=1)
        self._rollout = found
        self._q, self._v = found.q[..., -1, :], found.v[..., -1, :]

    def wrench(self, frame: str) -> np.ndarray:
        """Contact wrench at the frame of the tip in the last step; zero where nothing touches."""
        _require_sensed(self, frame)
        result = np.zeros((*self._v.shape[:-1], 6))
        if self._rollout is None or self.tip is None:
            return result
        result[..., :3] = self._rollout.effect_states[-1][..., :3] / self.dt
        # the point of the sphere that is lowest, seen from the frame
        R = self.robot.frame_pose(self.q, frame)[..., :3, :3]
        arm = R @ np.asarray([*self.tip.offset]) - self.tip.radius * UP
        result[..., 3:] = np.cross(arm, result[..., :3])
        return result


class MujocoControlPlant:
    """MuJoCo as a plant of a law: the wrench is that of the contacts between two named geoms.

    `model` is an MjModel with the joints of the robot; the geoms are the `tip`, by its name, and
    the `surface`.
    """

    name = "mujoco"

    def __init__(
        self,
        robot: Robot,
        model: Any,
        *,
        tip: Sphere | None = None,
        surface: str = "table",
        **choices: Any,
    ) -> None:
        self.robot, self.tip, self.surface = robot, tip, surface
        self.plant = MujocoPlant(model, robot=robot, **choices)
        self._engine = importlib.import_module("mujoco")
        self._read()

    @property
    def dt(self) -> float:
        """Length of a step."""
        return self.plant.dt

    @property
    def q(self) -> np.ndarray:
        """Configuration of the robot."""
        return self._q

    @property
    def v(self) -> np.ndarray:
        """Velocity of the robot."""
        return self._v

    def reset(self, q: ArrayLike, v: ArrayLike | None = None) -> None:
        """Begin anew at a state."""
        self.plant.reset(q, v)
        self._read()

    def step(self, tau: ArrayLike, pushes: Sequence[Wrench] = ()) -> None:
        """One step under joint torques and external wrenches."""
        self.plant.step(tau, pushes)
        self._read()

    def _read(self) -> None:
        """Convert the state once a step."""
        self._q, self._v = self.plant.q, self.plant.v

    def wrench(self, frame: str) -> np.ndarray:
        """Wrench on the robot at the frame of the tip, of tool–surface contacts alone."""
        _require_sensed(self, frame)
        if self.tip is None:
            return np.zeros(6)
        engine, model, data = self._engine, self.plant.model, self.plant.data
        pair = [model.geom(name).id for name in (self.surface, self.tip.name)]
        origin = self.robot.frame_pose(self.q, frame)[:3, 3]
        total, local = np.zeros(6), np.zeros(6)
        for k in range(data.ncon):
            contact = data.contact[k]
            if set(contact.geom) != set(pair):
                continue
            # along the normal from the first geom to the second, and on the second
            engine.mj_contactForce(model, data, k, local)
            axes = np.reshape(contact.frame, (3, 3)).T * (
                1.0 if contact.geom[1] == pair[1] else -1.0
            )
            force, moment = axes @ local[:3], axes @ local[3:]
            total += np.concatenate([force, moment + np.cross(contact.pos - origin, force)])
        return total


def _require_sensed(plant: Any, frame: str) -> None:
    """Refuse a frame that the plant has no sensor at; a plant without a tip has none that touch."""
    known = plant.robot.frame_names if plant.tip is None else (plant.tip.frame,)
    if frame not in known:
        raise UnknownName("sensed frame", frame, known, "the plant")
