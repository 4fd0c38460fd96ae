"""A motion to be shown: time, configurations, velocities and torques of one robot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.text import Readable
from qddot.errors import (
    DescriptionError,
    InvalidArgument,
    ShapeMismatch,
    UnknownName,
    UnusableLog,
)
from qddot.identify.tables import gather_rows, open_table, parse_apart
from qddot.loaders.arrays import check_regular, read_arrays
from qddot.robot.robot import Robot
from qddot.simulate.contact.ledger import contact_ledger
from qddot.simulate.rollout import Rollout
from qddot.view.coordinates import start_configuration

__all__ = ["RobotMotion", "as_motion", "read_motion", "sweep_motion"]

_MOST_BYTES = 2**30
"""Bytes of a file of a motion that is shown."""
_CONTACTS = ("contact_points", "contact_forces")
_FIELDS = ("time", "q", "v", "tau", *_CONTACTS)


@dataclass(frozen=True, repr=False)
class RobotMotion(Readable):
    """Samples of a motion: time (n), q (n, nq), v (n, nv), and torques (n, nv) if known.

    `contact_points` (m) and `contact_forces` (N) are (n, k, 3) in the world, where they are known:
    the forces on the robot at each of k places.
    """

    robot: Robot
    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray | None = None
    contact_points: np.ndarray | None = None
    contact_forces: np.ndarray | None = None

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the last."""
        return float(self.time[-1] - self.time[0])

    @cached_property
    def positions(self) -> np.ndarray:
        """Displacements (n, nv) from the neutral configuration on the tangent space."""
        return np.asarray(self.robot.call("difference", self.robot.neutral(), self.q))

    def index(self, seconds: float) -> int:
        """The sample before a time from the start."""
        k = int(np.searchsorted(self.time - self.time[0], seconds + 1e-9, side="right"))
        return min(max(k - 1, 0), len(self.time) - 1)

    def sample(self, times: np.ndarray) -> np.ndarray:
        """Configurations at times from the start, the sample before each."""
        index = np.searchsorted(self.time - self.time[0], np.asarray(times) + 1e-9, side="right")
        return np.asarray(self.q[np.clip(index - 1, 0, len(self.q) - 1)])


def as_motion(given: Any, robot: Robot | None = None, *, forces: bool = False) -> RobotMotion:
    """A motion from a rollout, the arrays of a log by name, a log file, or configurations.

    A rollout knows its robot; the others need one. A batch shows its first motion. With `forces`
    the contact forces of a single rollout are computed again.
    """
    if isinstance(given, RobotMotion):
        return given
    if isinstance(given, str | Path):
        given = read_motion(Path(given))
    if isinstance(given, Mapping):
        fields = {name: given.get(name) for name in _FIELDS}
    elif hasattr(given, "q") and hasattr(given, "time"):
        fields = {name: getattr(given, name, None) for name in ("time", "q", "v", "tau")}
        if forces and isinstance(given, Rollout):
            fields |= _contact_fields(given)
        if robot is None and getattr(given, "step", None) is not None:
            robot = Robot(given.step.model)
    else:
        q = _as_numbers("q", given)
        fields = {"time": np.arange(q.shape[-2] if q.ndim > 1 else 1) * 0.02, "q": q}
    if robot is None:
        raise InvalidArgument("robot", None, "a motion that does not know its robot needs one")
    return _check_motion(robot, fields)


def _contact_fields(rollout: Rollout) -> dict[str, np.ndarray]:
    """Points and forces of contacts of one rollout at its samples, where they can be computed."""
    step = rollout.step
    if step is None or rollout.q.ndim != 2 or not len(rollout.tau):
        return {}
    if any(step.state_sizes) and not rollout.effect_history:
        return {}  # they depend on states that were not recorded
    try:
        ledger = contact_ledger(rollout)
    except InvalidArgument:
        return {}  # nothing can touch
    return {"contact_points": ledger.point, "contact_forces": ledger.force}


def _as_numbers(name: str, given: Any) -> np.ndarray:
    """An array of floats."""
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"motion: {name}", given, "it must be rows of numbers") from error


def _first_of_batch(x: np.ndarray, axes: int) -> np.ndarray:
    """The first entry along all axes but the last ones."""
    if x.ndim > axes and not all(x.shape[: x.ndim - axes]):
        raise InvalidArgument("motion", x.shape, "a batch has one motion at least")
    return x[(0,) * max(x.ndim - axes, 0)]


def _check_motion(robot: Robot, fields: Mapping[str, Any]) -> RobotMotion:
    """The motion of fields that fit the robot, the first of a batch, up to where it is finite."""
    if fields.get("q") is None or fields.get("time") is None:
        raise InvalidArgument("motion", sorted(fields), "it needs time and q")
    time, q = (_as_numbers(name, fields[name]) for name in ("time", "q"))
    if time.ndim != 1 or not time.size or not q.size:
        raise ShapeMismatch("motion", "time", "(samples,), one at least", time.shape)
    if not (np.isfinite(time).all() and (np.diff(time) >= 0.0).all()):
        raise InvalidArgument("motion", "time", "times are finite and do not decrease")
    q = np.atleast_2d(_first_of_batch(q, 2))
    if q.shape != (len(time), robot.nq):
        raise ShapeMismatch("motion", "q", f"({len(time)}, {robot.nq})", q.shape)
    arrays: list[np.ndarray | None] = []
    for name in ("v", "tau"):
        if fields.get(name) is None:
            arrays.append(None)
            continue
        given = _as_numbers(name, fields[name])
        x = np.atleast_2d(_first_of_batch(given, 2))
        # one row stands for all; torques are held, so there may be one sample less
        if len(x) == 1:
            x = np.broadcast_to(x, (len(time), x.shape[1]))
        elif len(x) == len(time) - 1:
            x = np.concatenate([x, x[-1:]])
        if x.shape != (len(time), robot.nv):
            raise ShapeMismatch("motion", name, f"({len(time)}, {robot.nv})", given.shape)
        arrays.append(None if np.isnan(x).all() else x)
    contacts: list[np.ndarray | None] = [None, None]
    if all(fields.get(name) is not None for name in _CONTACTS):
        for n, name in enumerate(_CONTACTS):
            x = _first_of_batch(_as_numbers(name, fields[name]), 3)
            if x.ndim != 3 or (len(x), x.shape[2]) != (len(time), 3):
                raise ShapeMismatch("motion", name, f"({len(time)}, contacts, 3)", x.shape)
            contacts[n] = np.where(np.isfinite(x), x, 0.0)
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
    kept = [None if x is None else x[finite] for x in (tau, *contacts)]
    return RobotMotion(robot, time[finite], q[finite], v[finite], *kept)


def read_motion(file: Path, trace: str | None = None) -> dict[str, np.ndarray]:
    """The arrays time, q, v, tau of an .npz, .mcap or .csv file.

    An evidence record (.mcap) may have several motions: `trace` names one, else it is the longest.
    """
    readers = {".csv": _read_csv, ".mcap": lambda f: _read_mcap(f, trace)}
    try:
        check_regular(file, _MOST_BYTES)
        found = readers.get(file.suffix, lambda f: read_arrays(f, _FIELDS))(file)
    except UnusableLog as error:
        raise DescriptionError(file, f"no motion can be read: {error.reason}") from error
    except DescriptionError as error:
        raise DescriptionError(file, f"no motion can be read: {error.reason}") from error
    for name, x in found.items():
        if x.dtype.kind not in "biuf" or x.ndim == 0:
            reason = f"{name} is of type {x.dtype} with the shape {x.shape}, not rows of numbers"
            raise DescriptionError(file, reason)
    return found


def _read_csv(file: Path) -> dict[str, np.ndarray]:
    """Columns time, q…, v…, tau… by the first word of their names."""
    table = open_table(file)
    words = [re.split(r"[_.\[ ]", name, maxsplit=1)[0] for name in table.names]
    rows = gather_rows(table, range(len(words)))
    fields: dict[str, np.ndarray] = {}
    for key, starts in {"time": ("time", "t"), "q": ("q",), "v": ("v",), "tau": ("tau",)}.items():
        columns = [k for k, word in enumerate(words) if word in starts]
        if columns:
            fields[key] = rows[:, columns[0] if key == "time" else columns]
    if "q" not in fields or "time" not in fields:
        listed = ", ".join(table.names[:24])
        accepted = "columns are time, q_JOINT…, v_JOINT…, tau_JOINT…"
        raise DescriptionError(file, f"has the columns {listed}; {accepted}")
    return fields


def _read_mcap(file: Path, trace: str | None) -> dict[str, np.ndarray]:
    """The states of a log that `save_trajectory` wrote, or a motion of an evidence record."""
    size = check_regular(file, _MOST_BYTES)
    head, *pieces = parse_apart(
        "recorded_motion", [str(file.absolute())], trace, name=str(file), size=size
    )
    facts = json.loads(head)
    if trace is not None and trace not in facts["motions"]:
        raise UnknownName("trace", trace, facts["motions"], file.name)
    rows = np.frombuffer(b"".join(pieces)).reshape(-1, len(facts["names"]))
    ends = np.cumsum(list(facts["widths"].values()))
    parts = np.split(rows, ends[:-1], axis=1)
    fields = dict(zip(facts["widths"], parts, strict=True))
    return fields | {"time": fields["time"][:, 0]}


def sweep_motion(robot: Robot, seconds: float = 2.0, rate: float = 30.0) -> RobotMotion:
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
