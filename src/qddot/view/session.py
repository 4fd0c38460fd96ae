"""A robot on a viser server: its state, what moves it, and the thread that draws it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from qddot.display.markup import element
from qddot.errors import InvalidArgument, MissingPackage, ShapeMismatch
from qddot.model.model import WORLD
from qddot.model.tool_frame import tool_frame
from qddot.robot.robot import Robot
from qddot.view.coordinates import coordinates_from_sliders, sliders_of, start_configuration
from qddot.view.gate import LOG, open_server
from qddot.view.motion import RobotMotion, as_motion
from qddot.view.readings import Dynamics, Readings
from qddot.view.scene import RobotScene

__all__ = ["Display", "View"]

_FRAME_TIME = 1.0 / 30.0
_GHOST = 0.3
_BELOW_MOUNT = 0.2
"""How far a fixed robot reaches below its mounting, by its size, before it hangs."""
_MOST_SHADOWS = 20
"""Bodies up to which a robot casts shadows."""
_SETTLES = 1.0
"""Seconds after which a page that connects stands at its first camera."""
_NARROW = 0.8
"""Width over height of a page whose panel is below the robot."""
_FURTHER, _RAISED = 1.9, 0.75
"""Distance of the camera and height of the robot there, by those on a wide page and by its size."""


class Display(Protocol):
    """A display of readings beside the robot, which chooses the torques that are read."""

    full_torque: bool

    def refresh(self, q: np.ndarray, readings: Readings, ghost: np.ndarray | None) -> None:
        """Show a state, and the torques of a second robot."""

    def add_player(self, motion: RobotMotion) -> None:
        """Show controls of a motion."""


class View:
    """A robot in the browser, at `url`; `set_state` moves it, `play` a motion, `close` ends it.

    Sliders, the dragged tool and playback only note what is wanted: one thread draws it, so that
    a slow browser or a fast hand never piles up work.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        ghost: Robot | None = None,
        host: str = "127.0.0.1",
        port: int = 8080,
    ) -> None:
        if not isinstance(robot, Robot):
            raise InvalidArgument("view", robot, "it needs a Robot")
        if importlib.util.find_spec("viser") is None:
            raise MissingPackage("viser", "the view in the browser", "'qddot[view]'")
        self.robot, self.ghost = robot, ghost
        self.server, self.gate = open_server(host, port)
        self.server.gui.configure_theme(
            control_width="large",
            show_logo=False,
            show_share_button=False,
        )
        self.server.gui.main_panel.dock_right()
        self.server.gui.set_panel_label(robot.name)
        self.scene = RobotScene(self.server.scene, robot)
        self.ghost_scene = None
        if ghost is not None:
            self.ghost_scene = RobotScene(
                self.server.scene, ghost, "/ghost", _GHOST, (0.54, 0.44, 0.69)
            )
        self.dynamics = Dynamics(robot)
        self.ghost_dynamics = Dynamics(ghost) if ghost is not None else None
        self.q = start_configuration(robot)
        self.tool = tool_frame(robot.model)
        self.ground = self._ground_height()
        self._add_surroundings()
        self.motion: RobotMotion | None = None
        self.at, self.playing, self.speed, self._in_motion = 0.0, False, 1.0, False
        self.readings: Readings = self.dynamics.read(self.q)
        self.sliders = sliders_of(robot)
        self._lock, self._wanted, self._closed = threading.RLock(), threading.Event(), False
        self.panel: Display | None = None
        self._thread = threading.Thread(target=self._run, name="qddot view", daemon=True)

    def start(self, panel: Display | None = None) -> None:
        """Draw from now on, with the readings on a panel."""
        self.panel = panel
        self.draw()
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the page, with the token without which nothing is served."""
        return self.gate.url

    def _repr_html_(self) -> str:
        return str(element("iframe", src=self.url, width="100%", height=560, style="border:0"))

    def __repr__(self) -> str:
        return f"<View of {self.robot.name!r} at {self.url}>"

    def _ground_height(self) -> float:
        """Height of the floor: below a free robot, and where a fixed one stands unless it hangs."""
        fixed = all(not b.joint.kind.floats for b in self.robot.model.bodies)
        poses = self.dynamics.read(self.q).bodies
        heights = [
            float((part.vertices @ poses[part.body, 2, :3] + poses[part.body, 2, 3]).min())
            for part in self.scene.geometry.parts
            if part.body != WORLD
        ]
        lowest = min(heights, default=0.0)
        # a link that is a little below the mounting is no reason for another floor
        stands = fixed and lowest > -_BELOW_MOUNT * self.scene.size
        return 0.0 if stands else lowest

    def _add_surroundings(self) -> None:
        """Floor, light and a camera that sees the whole robot."""
        size, scene = self.scene.size, self.server.scene
        # shadows draw every body again, which a browser without a graphics card feels
        scene.configure_default_lights(cast_shadow=len(self.robot.body_names) <= _MOST_SHADOWS)
        step = 10.0 ** math.floor(math.log10(size)) / 5
        scene.add_grid(
            "/floor",
            width=5 * size,
            height=5 * size,
            cell_size=step,
            section_size=5 * step,
            cell_color=(225, 228, 232),
            section_color=(200, 204, 210),
            position=(0.0, 0.0, self.ground - 1e-3 * size),
        )
        poses = self.dynamics.read(self.q).bodies
        middle = poses[:, :3, 3].mean(axis=0) if len(poses) else np.zeros(3)
        camera = self.server.initial_camera
        away = size * np.array([0.75, -0.75, 0.45])
        camera.position, camera.look_at = tuple(middle + away), tuple(middle)

        @self.server.on_client_connect
        def _(client: Any) -> None:
            if client.camera.aspect < _NARROW:
                # the page goes to the camera of wide pages first
                time.sleep(_SETTLES)
                # on a phone the panel covers the lower part: from further off, the robot higher up
                raised = middle - np.array([0.0, 0.0, _RAISED * size])
                # a new position takes the point that is looked at along, so that comes last
                client.camera.position = tuple(raised + _FURTHER * away)
                client.camera.look_at = tuple(raised)

    def set_state(self, q: Any) -> None:
        """Show a configuration (nq)."""
        state = np.asarray(q, dtype=float)
        if state.shape != (self.robot.nq,):
            raise ShapeMismatch("view", "q", f"({self.robot.nq},)", state.shape)
        if not np.isfinite(state).all():
            raise InvalidArgument("view: q", "NaN or inf", "it must be finite")
        with self._lock:
            self.q, self._in_motion = state.copy(), False
        self.request_drawing()

    def set_sliders(self, values: Sequence[float]) -> None:
        """Show the configuration of the sliders, which ends playback."""
        self.playing = False
        self.set_state(coordinates_from_sliders(self.sliders, values, self.q))

    def drag_tool(self, wxyz: Any, position: Any, task: str = "pose") -> float:
        """Bring the tool towards a pose, the base of a free robot held; the error in metres."""
        from scipy.spatial.transform import Rotation

        if self.tool is None:
            return 0.0
        target = np.eye(4)
        target[:3, :3] = Rotation.from_quat(np.roll(np.asarray(wxyz, float), -1)).as_matrix()
        target[:3, 3] = position
        held = [b.joint.name for b in self.robot.model.independent if not b.joint.kind.floats]
        self.playing = False
        found = self.robot.inverse_kinematics(
            self.tool,
            target[:3, 3] if task == "position" else target,
            self.q,
            task=task,
            joints=held,
            restarts=0,
            tolerance=1e-5,
        )
        self.set_state(found.q)
        return float(found.position_error)

    def set_payload(self, mass: float) -> None:
        """Carry a point mass (kg) at the tool."""
        if self.tool is not None:
            for dynamics in (self.dynamics, self.ghost_dynamics):
                if dynamics and self.tool in dynamics.robot.frame_names:
                    dynamics.set_payload(self.tool, mass)
        self.request_drawing()

    def play(self, motion: Any) -> None:
        """Play a rollout, a log by name of its file, arrays by name, or configurations (n, nq)."""
        self.motion = as_motion(motion, self.robot, forces=True)
        self.at, self.playing = 0.0, True
        if self.panel:
            self.panel.add_player(self.motion)
        self.seek(0.0)

    def seek(self, seconds: float) -> None:
        """Show the motion at a time from its start."""
        if self.motion is not None:
            self.at = min(max(seconds, 0.0), self.motion.duration)
            self.set_state(self.motion.sample(np.array([self.at]))[0])
            self._in_motion = True

    def request_drawing(self) -> None:
        """Have the thread draw what is wanted."""
        self._wanted.set()

    def draw(self) -> None:
        """Draw the state that is wanted now."""
        with self._lock:
            q = self.q.copy()
        v, tau = self._moving_state()
        self.readings = self.dynamics.read(q, v, tau=tau)
        ghost = self._ghost_state(q)
        with self.server.atomic():
            self.scene.move(self.readings.bodies)
            if ghost is not None and self.ghost_scene and self.ghost_dynamics:
                self.ghost_scene.move(self.ghost_dynamics.read(ghost).bodies)
            if self.panel:
                self.panel.refresh(q, self.readings, self._ghost_torques(ghost))

    def _moving_state(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Velocity and recorded torques of the motion that is shown."""
        full = self._in_motion and self.panel is not None and self.panel.full_torque
        if self.motion is None or not full:
            return None, None
        k = self.motion.index(self.at)
        return self.motion.v[k], None if self.motion.tau is None else self.motion.tau[k]

    @property
    def contacts(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Points and forces (k, 3) of the contacts at the time that is shown, if they are known."""
        motion = self.motion
        if motion is None or motion.contact_points is None or motion.contact_forces is None:
            return None
        k = motion.index(self.at)
        # a state that is no part of the motion has no known forces
        shown = motion.contact_forces[k] * (1.0 if self._in_motion else 0.0)
        return motion.contact_points[k], shown

    def _ghost_state(self, q: np.ndarray) -> np.ndarray | None:
        """The configuration of the second robot: joints of the same name at the same place."""
        if self.ghost is None:
            return None
        mine = {b.joint.name: b for b in self.robot.model.independent}
        state = self.ghost.neutral()
        for body in self.ghost.model.independent:
            same = mine.get(body.joint.name)
            if same is not None and same.joint.kind.nq == body.joint.kind.nq:
                state[body.iq] = q[same.iq]
        return state

    def _ghost_torques(self, state: np.ndarray | None) -> np.ndarray | None:
        """Torques of the second robot in the order of the first, NaN where it has no such joint."""
        if state is None or self.ghost is None or self.ghost_dynamics is None:
            return None
        torque = self.ghost_dynamics.read(state).torque
        known = dict(zip(self.ghost.model.velocity_names, torque, strict=True))
        return np.array([known.get(name, math.nan) for name in self.robot.model.velocity_names])

    def _run(self) -> None:
        """Draw what is wanted, at most thirty times a second, and play."""
        last = time.perf_counter()
        while not self._closed:
            now = time.perf_counter()
            if self.playing and self.motion is not None:
                at = self.at + (now - last) * self.speed
                self.seek(at if at <= self.motion.duration else 0.0)
            last = now
            if self._wanted.wait(_FRAME_TIME):
                self._wanted.clear()
                try:
                    self.draw()
                except Exception as error:
                    # the next state may be drawn again
                    LOG.warning("a state cannot be drawn: %s", error)
                time.sleep(max(0.0, _FRAME_TIME - (time.perf_counter() - now)))

    def wait(self) -> None:
        """Stay until the process is interrupted."""
        while not self._closed:
            time.sleep(0.2)

    def close(self) -> None:
        """End the server."""
        self._closed = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()
