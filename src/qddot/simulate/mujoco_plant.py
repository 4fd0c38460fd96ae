"""MuJoCo as the plant: its contact geometry, our state, torques, wrenches and sensors."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot import engines
from qddot.display.progress import OnStep
from qddot.errors import DescriptionError, InvalidArgument, ShapeMismatch
from qddot.loaders.formats import detect_format
from qddot.loaders.mjcf import drop_looks
from qddot.loaders.mujoco_checks import mujoco_errors, read_spec
from qddot.loaders.xml import parse_xml, read_file
from qddot.robot.robot import Robot, Wrench, load
from qddot.simulate.arguments import positive_number, real_array, sample_count
from qddot.simulate.contact.ledger import ContactEntry
from qddot.simulate.feedback import Sensor
from qddot.simulate.function_law import TorqueFunction
from qddot.simulate.mujoco_contacts import ContactReader
from qddot.simulate.rollout import Rollout
from qddot.writers import convert
from qddot.writers.source import ShapeChoice

__all__ = ["MujocoPlant"]

Pushes = Sequence[Wrench] | Callable[[float], Sequence[Wrench]]


class MujocoPlant:
    """A robot in MuJoCo, in the coordinates of qddot: torques in, states and contacts out.

    The source is a Robot, an MJCF file, an MjModel or MjSpec, or all else that `qddot.load` takes.
    `robot` names the robot in a scene that has other objects. `ground` adds level ground at z = 0.
    `dt` is the length of a step. Actuators of the model do nothing: torques act on the joints.
    `sensors` stand between the state and `measure`, one after the other.
    """

    def __init__(
        self,
        source: Any,
        *,
        robot: Robot | None = None,
        dt: float | None = None,
        ground: bool = False,
        sensors: Sequence[Sensor] = (),
        names: Mapping[str, str] | None = None,
    ) -> None:
        import mujoco

        self._engine = mujoco
        self.model = _compile_model(source, ground)
        off = mujoco.mjtDisableBit
        self.model.opt.disableflags |= off.mjDSBL_ACTUATION | off.mjDSBL_AUTORESET
        if dt is not None:
            self.model.opt.timestep = positive_number("dt", dt, "a time in seconds,")
        self.robot = robot or (source if isinstance(source, Robot) else load(self.model))
        self.adapter = engines.mujoco(
            self.robot, self.model, names, partial=robot is not None, check=False
        )
        self.data = mujoco.MjData(self.model)
        self._map = self.adapter.state_map
        self._reader: ContactReader | None = None
        # views of the engine's memory, which a step reads and writes
        self._qpos, self._qvel = self.data.qpos, self.data.qvel
        self._forces, self._pushes = self.data.qfrc_applied, self.data.xfrc_applied
        self.sensors = tuple(sensors)
        self.reset(self.robot.neutral())

    @property
    def dt(self) -> float:
        """Length of a step."""
        return float(self.model.opt.timestep)

    @property
    def time(self) -> float:
        """Time since the last reset."""
        return float(self.data.time)

    @property
    def q(self) -> np.ndarray:
        """Configuration."""
        return self._map.from_q(self._qpos) if self._map else self.adapter.from_q(self._qpos)

    @property
    def v(self) -> np.ndarray:
        """Velocity."""
        return self._read_state()[1]

    def _read_state(self) -> tuple[np.ndarray, np.ndarray]:
        """Configuration and velocity."""
        q = self.q
        if self._map:
            return q, self._map.from_v(q, self._qvel)
        return q, self.adapter.from_v(q, self._qvel)

    def reset(self, q: ArrayLike, v: ArrayLike | None = None) -> None:
        """Restart at a state, with the initial states of the sensors."""
        q = _validate_vector("q", q, self.robot.nq)
        v = np.zeros(self.robot.nv) if v is None else _validate_vector("v", v, self.robot.nv)
        self._engine.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self.adapter.to_q(q)
        self.data.qvel[:] = self.adapter.to_v(q, v)
        self._engine.mj_forward(self.model, self.data)
        starts = (np.ravel(s.initial_state(self.robot.model)) for s in self.sensors)
        self._sensor_states: list[Any] = [list(map(float, x)) for x in starts]

    def step(self, tau: ArrayLike | None = None, pushes: Sequence[Wrench] = ()) -> None:
        """One step under joint torques and external wrenches."""
        nv = self.robot.nv
        tau = np.zeros(nv) if tau is None else _validate_vector("tau", tau, nv)
        self._forces[:] = 0.0
        if self._map:
            self._map.write_tau(self.q, tau, self._forces)
        else:
            self._forces[:] = self.adapter.to_tau(self.q, tau)
        self._pushes[:] = self.adapter.to_wrenches(self.q, pushes) if pushes else 0.0
        self._engine.mj_step(self.model, self.data)

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """The measured state; call it once a step, since latency counts the calls."""
        state = self._read_state()
        if not self.sensors:
            return state
        q, v = (x.tolist() for x in state)
        for k, sensor in enumerate(self.sensors):
            before = self._sensor_states[k]
            q, v, self._sensor_states[k] = sensor.read(self.robot.model, q, v, self.dt, before)
        return np.array(q, float), np.array(v, float)

    def contacts(self) -> list[ContactEntry]:
        """The contacts in the last step, or at the state after a reset.

        The first body of a contact is one that moves; the wrench is on it, at the origin of its
        frame, in axes of the world. Gap and slip are those at the start of the step, where MuJoCo
        finds contacts and their forces.
        """
        if self._reader is None:
            self._reader = ContactReader(self.model, self.data, self.robot.native)
        return self._reader.read()

    def rollout(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        tau: ArrayLike | TorqueFunction | None = None,
        *,
        steps: int,
        every: int = 1,
        pushes: Pushes = (),
        on_step: OnStep | None = None,
    ) -> Rollout:
        """Steps from a state, every `every`-th kept.

        `tau` is one row for all times, a row a sample (steps // every, nv), or a law of time and
        measured q and v. `pushes` are wrenches for all times, or a function of time.
        """
        samples, nq, nv = sample_count(steps, every), self.robot.nq, self.robot.nv
        rows = np.zeros(nv)
        if not callable(tau) and tau is not None:
            rows = np.asarray(tau, float)
        if rows.shape not in ((nv,), (steps // every, nv)):
            expected = f"({nv}) or ({steps // every}, {nv})"
            raise ShapeMismatch("rollout", "tau", expected, rows.shape)
        self.reset(q0, v0)
        q, v, torques = (np.empty((samples + 1, n)) for n in (nq, nv, nv))
        q[0], v[0] = self._read_state()
        for k in range(steps):
            measured = self.measure()
            if callable(tau):
                torque = np.asarray(tau(self.time, *measured), float)
            else:
                sample = min(round(self.time / self.dt) // every, len(rows) - 1)
                torque = rows if rows.ndim == 1 else rows[sample]
            now = pushes(self.time) if callable(pushes) else pushes
            self.step(torque, now)
            if k % every == 0:
                torques[k // every] = torque
            if (k + 1) % every == 0:
                q[(k + 1) // every], v[(k + 1) // every] = self._read_state()
            if on_step and k % 1000 == 0:
                on_step("MuJoCo", k, steps)
        time = np.arange(samples + 1) * (every * self.dt)
        return Rollout(time=time, q=q, v=v, tau=torques[:samples], dt=self.dt, integrator="mujoco")


def _validate_vector(name: str, x: ArrayLike, n: int) -> np.ndarray:
    # plain arrays need no copy
    if isinstance(x, np.ndarray) and x.dtype == np.float64:
        array = x
    else:
        array = real_array("MuJoCo plant", name, x, ())
    if array.shape != (n,):
        raise ShapeMismatch("MuJoCo plant", name, f"({n})", array.shape)
    return array


def _compile_model(source: Any, ground: bool) -> Any:
    """A new MjModel of a source, without the shapes whose files are missing."""
    import mujoco

    if isinstance(source, mujoco.MjModel):
        if ground:
            raise InvalidArgument(
                "ground", ground, "an MjModel is complete; give its MjSpec or file"
            )
        return copy.copy(source)
    name = source if isinstance(source, str | Path) else type(source).__name__
    try:
        with mujoco_errors(name):
            spec = _spec(source)
            _add_ground(spec, ground)
            return spec.compile()
    except DescriptionError as error:
        try:
            with mujoco_errors(name):
                spec = _spec(source)
                drop_looks(spec)
                _add_ground(spec, ground)
                return spec.compile()
        except DescriptionError:
            raise error from error.__cause__


def _spec(source: Any) -> Any:
    import mujoco

    if isinstance(source, mujoco.MjSpec):
        return source.copy()
    if isinstance(source, str | Path) and Path(source).is_file():
        path = Path(source)
        if detect_format(parse_xml(read_file(path), str(path))).name == "mjcf":
            return read_spec(path)
    with tempfile.TemporaryDirectory(prefix="qddot-") as folder:
        shapes: ShapeChoice = "none" if isinstance(source, Robot) else "collision"
        text = convert(source, Path(folder) / "robot.xml", shapes=shapes, states=1).text
        return mujoco.MjSpec.from_string(text)


def _add_ground(spec: Any, ground: bool) -> None:
    """Add level ground at z = 0, if `ground`."""
    import mujoco

    if ground:
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        spec.worldbody.add_geom(name="ground", type=plane, size=[0.0, 0.0, 1.0])
