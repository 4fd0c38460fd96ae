"""Logs and saved motions that are mutated: one motion in every format, and what reads them."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import qddot
from qddot import control, identify, simulate
from qddot.pipeline.doctor import examine_log
from qddot.robot import Robot
from qddot.simulate.store import load_trajectory, save_trajectory
from qddot.view.motion import as_motion

__all__ = [
    "HEADER",
    "arm",
    "log_rows",
    "readers",
    "use_log",
    "write_database",
    "write_joint_states",
    "write_logs",
]

HEADER = ("time", "q_1", "q_2", "tau_1", "tau_2")
_JOINTS = ("joint1", "joint2")
_SAMPLES = 160
_ROS_TYPE = "sensor_msgs/msg/JointState"


@lru_cache(maxsize=1)
def arm() -> Robot:
    """The robot of the logs, interpreted, so that nothing is compiled."""
    return Robot(qddot.load("planar_2r").model, native=False)


@lru_cache(maxsize=1)
def log_rows() -> np.ndarray:
    """Rows of time, positions and torques of a motion."""
    t = np.arange(_SAMPLES) * 0.01
    q = np.column_stack([np.sin(3 * t), np.cos(5 * t)])
    v = np.column_stack([3 * np.cos(3 * t), -5 * np.sin(5 * t)])
    tau = arm().inverse_dynamics(q, v, np.gradient(v, t, axis=0))
    return np.column_stack([t, q, tau])


def _text(file: Path, delimiter: str) -> None:
    lines = [delimiter.join(HEADER)]
    lines += [delimiter.join(f"{x:.9g}" for x in row) for row in log_rows()]
    file.write_text("\n".join(lines) + "\n")


def _arrays() -> dict[str, np.ndarray]:
    rows = log_rows()
    return {"time": rows[:, 0], "q": rows[:, 1:3], "tau": rows[:, 3:]}


def _matlab(file: Path) -> None:
    from scipy.io import savemat

    savemat(file, _arrays(), do_compression=True)


def _parquet(file: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(dict(zip(HEADER, log_rows().T, strict=True))), file)


def write_joint_states(file: Path, messages: list[bytes], encoding: str = "json") -> None:
    """An MCAP file with these messages on /joint_states."""
    from mcap.writer import Writer

    with file.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema("sensor_msgs/JointState", "jsonschema", b"{}")
        channel = writer.register_channel("/joint_states", encoding, schema)
        for k, data in enumerate(messages):
            writer.add_message(channel, 10**18 + k * 10**7, data, 10**18 + k * 10**7)
        writer.finish()


def _plain_messages() -> list[bytes]:
    rows = log_rows()
    fields = ({"position": r[1:3].tolist(), "effort": r[3:].tolist()} for r in rows)
    return [json.dumps({"name": _JOINTS, "velocity": [], **x}).encode() for x in fields]


@lru_cache(maxsize=1)
def _ros_messages() -> tuple[bytes, ...]:
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    stamp, header, state = (
        store.types[f"{name}"]
        for name in ("builtin_interfaces/msg/Time", "std_msgs/msg/Header", _ROS_TYPE)
    )
    made = []
    for k, row in enumerate(log_rows()):
        at = header(stamp=stamp(sec=5 + k // 100, nanosec=k % 100 * 10**7), frame_id="")
        message = state(header=at, name=list(_JOINTS), position=row[1:3], velocity=np.zeros(2),
                        effort=row[3:])  # fmt: skip
        made.append(bytes(store.serialize_cdr(message, _ROS_TYPE)))
    return tuple(made)


def write_database(file: Path, *statements: str, messages: bool = True) -> None:
    """A rosbag2 database with the motion, and further statements."""
    connection = sqlite3.connect(file)
    connection.execute("create table topics (id integer primary key, name, type)")
    connection.execute("create table messages (id integer primary key, topic_id, timestamp, data)")
    connection.execute("insert into topics values (1, '/joint_states', ?)", (_ROS_TYPE,))
    rows = [(1, 10**18 + k * 10**7, x) for k, x in enumerate(_ros_messages() if messages else ())]
    connection.executemany(
        "insert into messages (topic_id, timestamp, data) values (?, ?, ?)", rows
    )
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def _trace(file: Path) -> None:
    rows = log_rows()
    events = (control.Event(0.1, "start"),)
    control.Trace(
        rows[:, 0], rows[:, 1:3], 0 * rows[:, 1:3], rows[:, 3:], 0.01, "law", "plant", _JOINTS,
        events=events,
    ).save(file)  # fmt: skip


def _rollout() -> simulate.Rollout:
    return arm().rollout([0.1, 0.2], [0.0, 0.0], dt=1e-3, steps=8)


_WRITERS: dict[str, Callable[[Path], Any]] = {
    "log.csv": lambda f: _text(f, ","),
    "log.tsv": lambda f: _text(f, "\t"),
    "log.txt": lambda f: _text(f, " "),
    "log.npz": lambda f: np.savez(f, **_arrays()),
    "packed.npz": lambda f: np.savez_compressed(f, **_arrays()),
    "log.npy": lambda f: np.save(f, log_rows()),
    "log.mat": _matlab,
    "log.parquet": _parquet,
    "log.mcap": lambda f: write_joint_states(f, _plain_messages()),
    "ros.mcap": lambda f: write_joint_states(f, list(_ros_messages()), "cdr"),
    "log.db3": write_database,
    "motion.npz": lambda f: _rollout().save(f),
    "motion.mcap": lambda f: save_trajectory(arm(), _rollout(), f),
    "trace.npz": _trace,
}


def write_logs(folder: Path) -> list[Path]:
    """A file of every format of logs and saved motions."""
    for name, write in _WRITERS.items():
        write(folder / name)
    return [folder / name for name in _WRITERS]


def use_log(file: Path, rng: random.Random) -> None:
    """Read a file as one of the things that its name may stand for, and use what was read."""
    rng.choice(readers(file))(file)


def readers(file: Path) -> tuple[Callable[[Path], Any], ...]:
    """The functions that may be given a file of this name."""
    by_suffix: dict[str, tuple[Callable[[Path], Any], ...]] = {
        ".npz": (_read_log, _read_motion, _continue, load_trajectory, _read_trace),
        ".mcap": (_read_log, _read_motion),
        ".csv": (_read_log, _read_motion),
    }
    return by_suffix.get(file.suffix, (_read_log,))


def _read_log(file: Path) -> None:
    """A log as `inspect` and the doctor read it."""
    columns = {"t": 0, "q": [1, 2], "tau": [3, 4]} if file.suffix == ".npy" else None
    log = identify.read(file, arm(), columns=columns)
    str(log)
    str(examine_log(arm(), log).inspection)


def _read_motion(file: Path) -> None:
    motion = as_motion(file, arm())
    repr(motion)
    motion.sample(np.linspace(0.0, 1.0, 5))


def _continue(file: Path) -> None:
    rollout = simulate.load(file)
    repr(rollout)
    rollout.resume(steps=2)


def _read_trace(file: Path) -> None:
    repr(control.load_trace(file))
