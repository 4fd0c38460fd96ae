"""A motion to be shown: time, configurations, velocities and torques of one robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import DescriptionError, InvalidArgument, ShapeMismatch
from qddot.robot.robot import Robot
from qddot.view.coordinates import start_configuration

__all__ = ["Motion", "as_motion", "read_motion", "sweep_motion"]


@dataclass(frozen=True)
class Motion:
    """Samples of a motion: time (n), q (n, nq), v (n, nv), and torques (n, nv) if known."""

    robot: Robot
    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray | None = None

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the last."""
        return float(self.time[-1] - self.time[0])

    @cached_property
    def positions(self) -> np.ndarray:
        """Displacements (n, nv) from the neutral configuration on the tangent space."""
        return np.asarray(self.robot.call("difference", self.robot.neutral(), self.q))

    def sample(self, times: np.ndarray) -> np.ndarray:
        """Configurations at times from the start, the sample before each."""
        index = np.searchsorted(self.time - self.time[0], np.asarray(times) + 1e-9, side="right")
        return np.asarray(self.q[np.clip(index - 1, 0, len(self.q) - 1)])


def as_motion(given: Any, robot: Robot | None = None) -> Motion:
    """A motion from a rollout, the arrays of a log by name, a log file, or configurations.

    A rollout knows its robot; the others need one. A batch shows its first motion.
    """
    if isinstance(given, Motion):
        return given
    if isinstance(given, str | Path):
        given = read_motion(Path(given))
    if isinstance(given, Mapping):
        fields = {name: given.get(name) for name in ("time", "q", "v", "tau")}
    elif hasattr(given, "q") and hasattr(given, "time"):
        fields = {name: getattr(given, name, None) for name in ("time", "q", "v", "tau")}
        if robot is None and getattr(given, "step", None) is not None:
            robot = Robot(given.step.model)
    else:
        q = np.asarray(given, dtype=float)
        fields = {"time": np.arange(q.shape[-2] if q.ndim > 1 else 1) * 0.02, "q": q}
    if robot is None:
        raise InvalidArgument("robot", None, "a motion that does not know its robot needs one")
    return _check_motion(robot, fields)


def _check_motion(robot: Robot, fields: Mapping[str, Any]) -> Motion:
    """The motion of fields that fit the robot, the first of a batch, up to where it is finite."""
    if fields.get("q") is None or fields.get("time") is None:
        raise InvalidArgument("motion", sorted(fields), "it needs time and q")
    time, q = (np.asarray(fields[name], dtype=float) for name in ("time", "q"))
    q = q[(0,) * (q.ndim - 2)] if q.ndim > 2 else np.atleast_2d(q)
    if q.shape != (len(time), robot.nq):
        raise ShapeMismatch("motion", "q", f"({len(time)}, {robot.nq})", q.shape)
    arrays: list[np.ndarray | None] = []
    for name in ("v", "tau"):
        x = None if fields.get(name) is None else np.asarray(fields[name], dtype=float)
        if x is not None and x.ndim > 2:
            x = x[(0,) * (x.ndim - 2)]
        if x is not None and x.ndim == 1:
            x = np.broadcast_to(x, (len(time), robot.nv))
        # torques are held: there may be one sample less
        if x is not None and len(x) == len(time) - 1 and len(x):
            x = np.concatenate([x, x[-1:]])
        if x is not None and x.shape != (len(time), robot.nv):
            raise ShapeMismatch("motion", name, f"({len(time)}, {robot.nv})", x.shape)
        arrays.append(x)
    finite = np.logical_and.accumulate(np.isfinite(q).all(axis=1))
    if not finite.any():
        raise InvalidArgument("motion", "NaN or inf at the start", "q must be finite")
    v, tau = arrays
    if v is None:
        v = np.zeros((len(time), robot.nv))
        if len(time) > 1:
            steps = np.asarray(robot.call("difference", q[:-1], q[1:]))
            v[:-1] = steps / np.diff(time)[:, None]
            v[-1] = v[-2]
    return Motion(robot, time[finite], q[finite], v[finite], None if tau is None else tau[finite])


def read_motion(file: Path) -> dict[str, np.ndarray]:
    """The arrays time, q, v, tau of an .npz, .mcap or .csv file."""
    if file.suffix == ".csv":
        return _read_csv(file)
    if file.suffix == ".mcap":
        return _read_mcap(file)
    try:
        with np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in ("time", "q", "v", "tau") if name in archive}
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise DescriptionError(file, f"no motion can be read: {error}") from error
    return found


def _read_csv(file: Path) -> dict[str, np.ndarray]:
    """Columns time, q…, v…, tau… by the first word of their names."""
    try:
        table = np.genfromtxt(file, delimiter=",", names=True, dtype=float, deletechars="")
    except (OSError, ValueError) as error:
        raise DescriptionError(file, f"no table can be read: {error}") from error
    names = table.dtype.names or ()
    fields: dict[str, np.ndarray] = {}
    for key, starts in {"time": ("time", "t"), "q": ("q",), "v": ("v",), "tau": ("tau",)}.items():
        columns = [n for n in names if n.split("_")[0].split(".")[0].split("[")[0] in starts]
        if columns:
            rows = np.stack([np.atleast_1d(table[n]) for n in columns], axis=-1)
            fields[key] = rows[:, 0] if key == "time" else rows
    if "q" not in fields or "time" not in fields:
        accepted = "columns are time, q_JOINT…, v_JOINT…, tau_JOINT…"
        raise DescriptionError(file, f"has the columns {', '.join(names)}; {accepted}")
    return fields


def _read_mcap(file: Path) -> dict[str, np.ndarray]:
    """The states of a log that `save_trajectory` wrote."""
    import json

    from mcap.reader import make_reader

    try:
        with file.open("rb") as stream:
            rows = [json.loads(m.data) for _, _, m in make_reader(stream).iter_messages("/state")]
    except Exception as error:  # what a damaged log makes the reader raise is its own affair
        raise DescriptionError(file, f"no log can be read: {error}") from error
    if not rows:
        raise DescriptionError(file, "has no message on /state")
    return {
        name: np.array([row[name] for row in rows], dtype=float)
        for name in ("time", "q", "v", "tau")
    }


def sweep_motion(robot: Robot, seconds: float = 2.0, rate: float = 30.0) -> Motion:
    """Each joint in turn through half its range and back: what there is to see of a robot."""
    start = start_configuration(robot)
    lower, upper = np.maximum(robot.limits.lower, -1.0), np.minimum(robot.limits.upper, 1.0)
    n, rows = max(2, round(seconds * rate)), []
    for body in robot.model.independent:
        for k in range(body.iv.start, body.iv.stop):
            dv = np.zeros((n, robot.nv))
            reach = 0.5
            if body.joint.kind.nv == 1:
                i = body.iq.start
                room = upper[i] - start[i], start[i] - lower[i]
                reach = 0.5 * room[0] if room[0] >= room[1] else -0.5 * room[1]
            dv[:, k] = reach * np.sin(np.linspace(0.0, np.pi, n))
            rows.append(np.asarray(robot.call("integrate", start, dv)))
    q = np.concatenate(rows) if rows else start[None]
    time = np.arange(len(q)) / rate
    return _check_motion(robot, {"time": time, "q": q})
