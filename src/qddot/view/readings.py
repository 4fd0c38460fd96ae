"""Readings of a state on the panel: torques against limits, condition, centre of mass, the tool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from qddot.analysis.constraints.dynamics import inverse_dynamics
from qddot.display.markup import Markup, element
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, QddotError
from qddot.model.model import WORLD
from qddot.robot.robot import Robot

__all__ = ["Dynamics", "Readings", "motor_dofs", "torque_bars"]

_GREEN, _AMBER, _RED, _BLUE, _GHOST = "#5a9e52", "#d98032", "#b5484a", "#3b6fb6", "#8a6fb0"
_AMBER_FROM = 0.7
# one style for all rows: the page is sent with each drawing
_BAR_STYLE = (
    "<style>.qddot-torques{font-size:11px;padding:0 8px;margin-bottom:10px;max-height:260px;"
    "overflow-y:auto}.qddot-torques p{display:flex;align-items:center;gap:6px;height:17px;margin:0}"
    ".qddot-torques span{flex:0 0 34%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}"
    ".qddot-torques b{flex:1;position:relative;height:9px;border-radius:2px;"
    "background:rgba(128,128,128,.18)}.qddot-torques i{position:absolute;top:0;bottom:0}"
    ".qddot-torques u{flex:0 0 30%;text-align:right;white-space:nowrap;text-decoration:none}"
    "</style>"
)


@dataclass(frozen=True, repr=False)
class Readings(Readable):
    """Numbers at a state: torques (nv), condition number of M, centre of mass (3), poses.

    `bodies` are the poses of the moving bodies (nb, 4, 4) in the world.
    """

    torque: np.ndarray
    condition: float
    center_of_mass: np.ndarray
    bodies: np.ndarray


def motor_dofs(robot: Robot) -> list[int]:
    """Velocities that a motor drives: all joints but a floating base.

    In a robot with loops most joints are passive: there those that have an effort limit are driven,
    if there are any.
    """
    driven = [k for b in robot.model.independent if not b.joint.kind.floats for k in b.dofs]
    effort = robot.limits.effort
    limited = [k for k in driven if math.isfinite(effort[k]) and effort[k] > 0.0]
    return limited if robot.model.loops and limited else driven


class Dynamics:
    """Compiled functions of a robot whose inertias are inputs, so that a payload costs nothing."""

    def __init__(self, robot: Robot) -> None:
        self.robot, self._carrying = robot, robot
        self.parameters = robot.inertial_parameters
        self.motors = motor_dofs(robot)
        names = ["mass_matrix", "center_of_mass"] if robot.nv else []
        if robot.nv and not robot.model.loops:
            names.append("inverse_dynamics")
        self._compiled: dict[str, Any] = {
            name: robot.compile(name, parameters="inertia") for name in names
        }
        self._motor_names = tuple(robot.model.velocity_names[k] for k in self.motors)
        if robot.model.loops:
            self._compiled["constrained_inverse_dynamics"] = robot.compile(
                "constrained_inverse_dynamics", parameters="inertia", actuated=self._motor_names
            )

    def set_payload(self, frame: str, mass: float) -> None:
        """Carry a point mass at a frame; zero is none."""
        if self.robot.model.frame(frame).body == WORLD:
            raise InvalidArgument("payload: frame", frame, "it must be on a body that moves")
        self._carrying = self.robot.with_payload(frame, mass) if mass else self.robot
        self.parameters = self._carrying.inertial_parameters

    def torques(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Torques (nv) of a motion; with loops those of the motors, zero at passive joints."""
        if not self.robot.model.loops:
            return np.asarray(self._compiled["inverse_dynamics"](q, v, a, self.parameters))
        tau = self._compiled["constrained_inverse_dynamics"](q, v, a, self.parameters)[0]
        if np.isfinite(tau).all():
            return np.asarray(tau)
        # equations of the loops that depend on each other
        try:
            return inverse_dynamics(self._carrying, q, v, a, self._motor_names).tau
        except QddotError:
            return np.full(self.robot.nv, math.nan)

    def read(
        self,
        q: np.ndarray,
        v: np.ndarray | None = None,
        a: np.ndarray | None = None,
        tau: np.ndarray | None = None,
    ) -> Readings:
        """The readings at a state; torques are those of the motion unless they are given."""
        robot = self.robot
        if not robot.nv:
            return Readings(np.zeros(0), 1.0, np.zeros(3), np.zeros((0, 4, 4)))
        still = np.zeros(robot.nv)
        v, a = (still if x is None else x for x in (v, a))
        if tau is None:
            tau = self.torques(q, v, a)
        M = self._compiled["mass_matrix"](q, self.parameters)
        values = np.linalg.eigvalsh(M) if np.isfinite(M).all() else np.array([0.0, 1.0])
        condition = float(values[-1] / values[0]) if values[0] > 0 else math.inf
        com = self._compiled["center_of_mass"](q, self.parameters)
        return Readings(np.asarray(tau), condition, com, robot.call("body_poses", q))


def torque_bars(
    names: Sequence[str],
    torque: np.ndarray,
    effort: np.ndarray,
    units: Sequence[str],
    ghost: np.ndarray | None = None,
) -> str:
    """An HTML table with a bar a joint: torque as a share of its effort limit, zero in the middle.

    Joints without a limit share the scale of the largest torque among them. `ghost` has the
    torques of a second robot (NaN where it has no such joint), drawn as ticks.
    """
    bounded = np.isfinite(effort) & (effort > 0)
    free = np.abs(torque[~bounded])
    scale = np.where(bounded, effort, max(float(free.max(initial=0.0)), 1e-9))
    rows = []
    for k, name in enumerate(names):
        share = float(torque[k] / scale[k]) if math.isfinite(float(torque[k])) else 0.0
        colour = _GREEN if abs(share) < _AMBER_FROM else _AMBER if abs(share) < 1.0 else _RED
        width = 50.0 * min(abs(share), 1.0)
        start, fill = 50.0 if share >= 0 else 50.0 - width, colour if bounded[k] else _BLUE
        bars = [_middle(), _strip(start, f"{width:.1f}%", fill)]
        if ghost is not None and math.isfinite(float(ghost[k])):
            at = 50.0 + 50.0 * float(np.clip(ghost[k] / scale[k], -1, 1))
            bars.append(_strip(at, "2px", _GHOST))
        limit = f" / {effort[k]:.3g}" if bounded[k] else ""
        value = f"{round(float(torque[k]), 2) + 0.0:.2f}{limit} {units[k]}"
        rows.append(element("p", _label(name), element("b", bars), element("u", value)))
    return f"{_BAR_STYLE}{element('div', rows, class_='qddot-torques')}"


@lru_cache(maxsize=1024)
def _label(name: str) -> Markup:
    return element("span", name, title=name)


@cache
def _middle() -> Markup:
    return _strip(50.0, "1px", "#888")


def _strip(left: float, width: str, colour: str) -> Markup:
    """An upright strip of a bar."""
    return element("i", style=f"left:{left:.1f}%;width:{width};background:{colour}")
