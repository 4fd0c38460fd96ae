"""Trajectories in files: NumPy archives, and MCAP for viewers of robot logs."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import DescriptionError, InvalidArgument, MissingPackage
from qddot.files import fill_whole
from qddot.robot.robot import Robot
from qddot.simulate.rollout import Rollout

__all__ = ["load_trajectory", "save_trajectory"]

_SCHEMA = {
    "type": "object",
    "title": "qddot.State",
    "properties": {
        "time": {"type": "number", "description": "s"},
        **{
            name: {"type": "array", "items": {"type": "number"}, "description": words}
            for name, words in (
                ("q", "configuration, joint by joint; m, rad, quaternions (x, y, z, w)"),
                ("v", "velocity; m/s, rad/s"),
                ("tau", "joint torques given; N, N m"),
            )
        },
    },
}
_FIELDS = ("time", "q", "v", "tau")


def save_trajectory(robot: Robot, rollout: Rollout, file: str | Path) -> None:
    """Write a rollout: .npz (batches too) or .mcap (one trajectory); the file appears whole."""
    target = Path(file)
    writers = {".npz": _write_npz, ".mcap": _write_mcap}
    if target.suffix not in writers:
        raise InvalidArgument("file", str(file), "its name ends in .npz or .mcap")
    if target.suffix == ".mcap":
        if importlib.util.find_spec("mcap") is None:
            raise MissingPackage("mcap", "writing MCAP files", "'qddot[log]'")
        if rollout.q.ndim != 2:
            raise InvalidArgument("rollout", rollout.q.shape, "MCAP takes one trajectory; use .npz")
    fill_whole(target, lambda draft: writers[target.suffix](robot, rollout, draft), force=True)


def _facts(robot: Robot, rollout: Rollout) -> dict[str, str]:
    """Robot, step and status of a trajectory, as text."""
    return {
        "robot": robot.name,
        "digest": robot.model.digest,
        "joints": json.dumps(robot.joint_names),
        "dt": repr(rollout.dt),
        "integrator": rollout.integrator,
        "status": str(rollout.status),
    }


def _write_npz(robot: Robot, rollout: Rollout, draft: Path) -> None:
    facts: dict[str, Any] = {name: np.array(text) for name, text in _facts(robot, rollout).items()}
    facts["joints"] = np.array(robot.joint_names)
    facts |= {name: getattr(rollout, name) for name in _FIELDS}
    facts |= {"label": rollout.status.label, "first_bad_step": rollout.status.step}
    np.savez_compressed(draft, **facts)


def load_trajectory(file: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of `save_trajectory`, by name."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            found = dict(archive)
    except (OSError, ValueError, TypeError) as error:
        raise DescriptionError(file, f"no trajectory ({error})") from error
    if not set(_FIELDS) <= set(found):
        raise DescriptionError(file, f"no trajectory: it has {', '.join(found) or 'nothing'}")
    return found


def _write_mcap(robot: Robot, rollout: Rollout, draft: Path) -> None:
    from mcap.writer import Writer

    writer = Writer(str(draft))
    writer.start(profile="", library="qddot")
    schema = writer.register_schema(
        name="qddot.State", encoding="jsonschema", data=json.dumps(_SCHEMA).encode()
    )
    channel = writer.register_channel(topic="/state", message_encoding="json", schema_id=schema)
    writer.add_metadata("qddot", _facts(robot, rollout))
    last = len(rollout.tau) - 1
    for k, t in enumerate(rollout.time):
        tau = rollout.tau[min(k, last)] if last >= 0 else np.zeros(robot.nv)
        rows = {"q": rollout.q[k], "v": rollout.v[k], "tau": tau}
        # JSON has no NaN and no infinity
        plain = {
            name: [y if math.isfinite(y) else None for y in x.tolist()] for name, x in rows.items()
        }
        message = {"time": float(t), **plain}
        stamp = round(float(t) * 1e9)
        data = json.dumps(message).encode()
        writer.add_message(channel, log_time=stamp, publish_time=stamp, data=data)
    writer.finish()
