"""Logs from files: columns by pattern or name, units, gears and torque constants declared once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, UnusableLog
from qddot.identify.log import Log, make_log
from qddot.identify.spill import row_slices
from qddot.identify.tables import TIME, Table, gather_rows, lost_rows_note, open_table, squeeze_name
from qddot.robot.robot import Robot

__all__ = ["PATTERNS", "UNITS", "read"]

UNITS: dict[str, dict[str, float]] = {
    "t": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "q": {"rad": 1.0, "deg": np.pi / 180, "m": 1.0, "mm": 1e-3},
    "v": {"rad/s": 1.0, "deg/s": np.pi / 180, "rpm": np.pi / 30, "m/s": 1.0, "mm/s": 1e-3},
    "tau": {"N m": 1.0, "N": 1.0, "mN m": 1e-3, "A": 1.0, "mA": 1e-3},
}
"""Units of each signal; with "motor " before them they are those of the motor's side of a gear."""
_CURRENTS = ("A", "mA")
PATTERNS: dict[str, tuple[str, ...]] = {
    "t": ("time", "t", "timestamp", "stamp", "seconds", "time_s", "times", "0time"),
    "q": (
        "position_{joint}", "{joint}_position", "pos_{joint}", "{joint}_pos", "q_{joint}",
        "{joint}_q", "{joint}", "q_{i}", "q{i}", "pos_{i}", "position_{i}", "actual_q_{o}",
        "joint_{i}", "j{i}",
    ),
    "v": (
        "velocity_{joint}", "{joint}_velocity", "vel_{joint}", "{joint}_vel", "v_{joint}",
        "qd_{joint}", "qd_{i}", "qd{i}", "dq_{i}", "dq{i}", "v_{i}", "v{i}", "vel_{i}",
        "velocity_{i}", "actual_qd_{o}",
    ),
    "tau": (
        "effort_{joint}", "{joint}_effort", "torque_{joint}", "{joint}_torque", "tau_{joint}",
        "{joint}_tau", "tau_{i}", "tau{i}", "torque_{i}", "torque{i}", "effort_{i}",
        "current_{joint}", "cur_{joint}", "current_{i}", "cur_{i}", "i_{i}", "actual_current_{o}",
    ),
}  # fmt: skip
"""Names of columns that are tried: {joint} is a joint's name, {i} its number from 1, {o} from 0."""
_JOINT_NAMES = ("{joint}", "joint_{i}", "j{i}")
"""Names of columns that say the joint only: positions, or the signal of a file of its own."""
Columns = Mapping[str, str | int | Sequence[str | int]]


def read(
    file: str | Path | Mapping[str, str | Path],
    robot: Robot,
    columns: Columns | None = None,
    units: Mapping[str, str] | None = None,
    gear: ArrayLike | None = None,
    torque_constant: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    rate: float | None = None,
    topic: str | None = None,
    on_step: OnStep | None = None,
) -> Log:
    """Read a log of a robot: CSV, Parquet, npz, MATLAB, MCAP or rosbag2.

    `file` may be a mapping such as {"q": file, "tau": file} where signals are in files of the same
    length. `columns` says which columns are "t", "q", "v" and "tau": a pattern with {joint} or {i},
    or a list of names or numbers, one a joint. `units` are those of `UNITS`, SI by default;
    currents need `torque_constant` (N m/A a joint). `gear` G, one a joint or a matrix, has motor
    positions = G · joint positions: torques in "A" or "motor N m" become Gᵀ τ, positions in
    "motor rad" G⁻¹ q. `offset` is added to joint positions. `rate` (Hz) replaces a time column.
    """
    given = dict(columns or {})
    wanted = dict(units or {})
    _check_keys("columns", given, ("t", "q", "v", "tau"))
    _check_keys("units", wanted, ("t", "q", "v", "tau"))
    files = dict(file) if isinstance(file, Mapping) else {"all": file}
    if rate is not None and not 0.0 < rate < np.inf:
        raise InvalidArgument("rate", rate, "it is a positive number of Hz")
    # the columns of each signal, file by file
    signals: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for key, source in files.items():
        table = open_table(source, topic)
        asked = ("t", "q", "v", "tau") if key == "all" else ("t", key)
        places = {
            name: found
            for name in asked
            if (found := _find_columns(table, name, given.get(name), robot, alone=name == key))
            is not None
        }
        flat = [k for found in places.values() for k in found]
        if not flat:
            raise UnusableLog(table.source, f"{_no_columns(key, robot)}; {_listing(table)}")
        rows = gather_rows(table, flat, on_step)
        notes += [*table.notes, *filter(None, [lost_rows_note(table)])]
        at = 0
        for name, found in places.items():
            signals.setdefault(name, rows[:, at : at + len(found)])
            at += len(found)
        source_name, last = table.source, table
    for name in ("q", "tau"):
        if name not in signals:
            raise UnusableLog(source_name, f"{_no_columns(name, robot)}; {_listing(last)}")
    lengths = {name: len(x) for name, x in signals.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{k} {n}" for k, n in lengths.items())
        raise UnusableLog(source_name, f"files have different numbers of rows: {listed}")
    # time: evenly spaced at a given rate, or a column
    if rate is not None:
        time = np.arange(len(signals["q"])) / rate
    elif "t" in signals:
        stamps, factor = signals["t"], _unit("t", wanted.get("t", "s"))[0]
        time = np.empty(len(signals["q"]))
        for part in row_slices(stamps):
            time[part] = factor * stamps[part, 0]
    else:
        raise UnusableLog(source_name, f"no column of time ({TIME}, t …); name it, or give rate=")
    made = _to_joint_side(signals, wanted, gear, torque_constant, offset, robot)
    return make_log(robot, time, made["q"], made["tau"], made.get("v"), source_name, notes)


def _check_keys(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise InvalidArgument(what, key, f"signals are {', '.join(known)}")


def _no_columns(name: str, robot: Robot) -> str:
    what = {"q": "positions", "tau": "torques", "v": "velocities"}.get(name, "signals")
    joints = ", ".join(robot.model.velocity_names[:3])
    return f"no columns of {what} found for the joints {joints} …"


def _listing(table: Table) -> str:
    shown = ", ".join(map(repr, table.names[:24]))
    more = " …" if len(table.names) > 24 else ""
    return f"the file has {shown}{more}; say which with columns={{'q': …, 'tau': …}}"


def _find_columns(
    table: Table,
    name: str,
    given: str | int | Sequence[str | int] | None,
    robot: Robot,
    alone: bool,
) -> list[int] | None:
    """Places of the columns of a signal, one a joint (one for time); None if there are none.

    In a file that has it `alone`, columns may be called as the joints.
    """
    joints = robot.model.velocity_names
    if given is None:
        known = {squeeze_name(n): k for k, n in reversed(list(enumerate(table.names)))}
        if name == "t":
            tries: Iterable[list[str]] = ([p] for p in PATTERNS["t"])
        else:
            patterns = (*PATTERNS[name], *(_JOINT_NAMES if alone else ()))
            tries = (_fill(pattern, joints) for pattern in patterns)
        for tried in tries:
            found = [known.get(squeeze_name(n)) for n in tried]
            if None not in found:
                return [k for k in found if k is not None]
        return None
    names: list[str | int]
    if isinstance(given, str) and name != "t":
        if "{" not in given:
            accepted = "a pattern has {joint}, {i} (from 1) or {o} (from 0)"
            raise InvalidArgument(f"columns: {name}", given, accepted)
        names = list(_fill(given, joints))
    else:
        names = [given] if isinstance(given, str | int) else list(given)
    count = 1 if name == "t" else len(joints)
    if len(names) != count:
        raise InvalidArgument(f"columns: {name}", given, f"there are {count} to name")
    places: list[int] = []
    for column in names:
        if isinstance(column, int | np.integer) and -1 < column < len(table.names):
            places.append(int(column))
        elif column in table.names:
            places.append(table.names.index(str(column)))
        else:
            raise UnusableLog(table.source, f"no column {column!r}; {_listing(table)}")
    return places


def _fill(pattern: str, joints: Sequence[str]) -> list[str]:
    """Names of a pattern, one a joint."""
    fields = ({"{joint}": j, "{i}": str(k + 1), "{o}": str(k)} for k, j in enumerate(joints))
    names = []
    for field in fields:
        text = pattern
        for mark, value in field.items():
            text = text.replace(mark, value)
        names.append(text)
    return names


def _unit(name: str, text: str) -> tuple[float, bool, bool]:
    """Factor to SI of a unit, whether it is of the motor's side, and whether it is a current."""
    plain = text.removeprefix("motor ").replace("Nm", "N m")
    if plain not in UNITS[name]:
        known = ", ".join(UNITS[name])
        raise InvalidArgument(f"units: {name}", text, f"known: {known}; 'motor rad' for motors")
    current = plain in _CURRENTS
    return UNITS[name][plain], text.startswith("motor ") or current, current


def _vector(what: str, given: ArrayLike, robot: Robot) -> np.ndarray:
    try:
        x = np.asarray(given, dtype=float)
        return np.broadcast_to(x, (robot.nv,))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(what, given, f"one number, or {robot.nv}") from error


def _to_joint_side(
    signals: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    gear: ArrayLike | None,
    torque_constant: ArrayLike | None,
    offset: ArrayLike | None,
    robot: Robot,
) -> dict[str, np.ndarray]:
    """Positions, velocities and torques of the joints in SI units, in the place of the signals."""
    plain = {"q": "rad", "v": "rad/s", "tau": "N m"}
    made = {}
    for name, x in signals.items():
        if name == "t":
            continue
        factor, of_motor, current = _unit(name, units.get(name, plain[name]))
        matrix = np.eye(robot.nv) * factor
        if current:
            if torque_constant is None:
                accepted = "currents need torque_constant=, in N m/A for each joint"
                raise InvalidArgument("units: tau", units["tau"], accepted)
            matrix = np.diag(_vector("torque_constant", torque_constant, robot)) * factor
        if of_motor and (gear is not None or not current):
            if gear is None:
                raise InvalidArgument(f"units: {name}", units[name], "motor units need gear=")
            G = np.asarray(gear, dtype=float)
            G = G if G.ndim == 2 else np.diag(_vector("gear", G, robot))
            if G.shape != (robot.nv, robot.nv) or not abs(np.linalg.det(G)) > 0.0:
                accepted = f"{robot.nv} ratios, or an invertible matrix of them"
                raise InvalidArgument("gear", gear, accepted)
            matrix = G.T @ matrix if name == "tau" else np.linalg.solve(G, matrix)
        if not np.array_equal(matrix, np.eye(robot.nv)):
            for part in row_slices(x):
                x[part] = x[part] @ matrix.T
        if name == "q" and offset is not None:
            for part in row_slices(x):
                x[part] += _vector("offset", offset, robot)
        made[name] = x
    return made
