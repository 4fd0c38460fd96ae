"""Rollouts in files: NumPy archives that continue, and MCAP for viewers of robot logs."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qddot import __version__
from qddot.compile.runtime.memory import require_memory
from qddot.errors import DescriptionError, InvalidArgument, MissingPackage
from qddot.files import fill_whole
from qddot.loaders.arrays import ArrayArchive, check_motion
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.simulate.encoding import decode_step, part_digests
from qddot.simulate.rollout import Rollout
from qddot.simulate.saving import FIELDS, FORM, FORM_VERSION, rollout_facts, write_archive
from qddot.simulate.simulator import Simulator
from qddot.simulate.step import Step

__all__ = ["load", "load_trajectory", "save_trajectory"]

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
_MOST_REPEATED = 2**31
"""Numbers of an array whose rows are repeated."""
_MOST_STEPS = 2**53
"""Steps of a rollout, which are counted exactly up to there."""
_RESAVE = "save it again with this version, or read its arrays with load_trajectory"


def save_trajectory(robot: Robot, rollout: Rollout, file: str | Path) -> None:
    """Write a rollout: .npz (batches too) or .mcap (one trajectory); the file appears whole."""
    target, model = Path(file), robot.model
    writers = {".npz": write_archive, ".mcap": _write_mcap}
    if target.suffix not in writers:
        raise InvalidArgument("file", str(file), "its name ends in .npz or .mcap")
    if target.suffix == ".mcap":
        if importlib.util.find_spec("mcap") is None:
            raise MissingPackage("mcap", "writing MCAP files", "'qddot[log]'")
        if rollout.q.ndim != 2:
            raise InvalidArgument("rollout", rollout.q.shape, "MCAP takes one trajectory; use .npz")
    fill_whole(target, lambda draft: writers[target.suffix](model, rollout, draft), force=True)


def load(file: str | Path, simulator: Simulator | None = None) -> Rollout:
    """The rollout of a file of `Rollout.save`: `resume` continues it bit by bit.

    Robot, effects, law, sensors and contact are in the file, and nothing in it is run. Where one of
    them is of a class of the user's own, `simulator` is the simulator to continue with; it has to
    be made of the same robot and parts.
    """
    header, arrays = _read_npz(file)
    if header is None:
        raise DescriptionError(file, f"has no rollout that could continue: {_RESAVE}")
    if header.get("form") != FORM or header.get("form_version") != FORM_VERSION:
        found = f"{header.get('form')!r}, version {header.get('form_version')!r}"
        reason = f"is {found} of qddot {header.get('qddot')}; this one reads {FORM_VERSION}"
        raise DescriptionError(file, f"{reason}: {_RESAVE}")
    try:
        groups = {
            name: tuple(
                arrays["tau" if (name, k) == ("input", 0) and "input_0" not in arrays else key]
                for k, key in enumerate(f"{name}_{k}" for k in range(count))
            )
            for name, count in header["counts"].items()
        }
        for name in FIELDS:
            groups[name] = (arrays[name],)
        for name, x in ((name, x) for name, xs in groups.items() for x in xs):
            if x.dtype.kind not in "biuf":
                raise ValueError(f"its {name} is of type {x.dtype}, not numbers")
        dt, every = float(header["dt"]), int(header["every"])
        if not 0.0 < dt < math.inf or every < 1 or not abs(arrays["time"][-1]) < _MOST_STEPS * dt:
            raise ValueError(f"its steps of {dt} s, kept every {every}, are none")
        step = _find_step(file, header, groups["input"], simulator)
        if step:
            wanted = (step.model.nq, step.model.nv)
            shapes = step.shapes
            given = len(shapes.sampled) + len(shapes.constants)
            fits = (arrays["q"].shape[-1], arrays["v"].shape[-1]) == wanted
            if not fits or len(groups["input"]) != given:
                raise ValueError("its arrays are not those of its robot and step")
        return Rollout(
            **{name: arrays[name] for name in FIELDS},
            dt=dt,
            integrator=str(header["integrator"]),
            effect_states=groups["state"],
            effect_history=groups["history"],
            step=step,
            inputs=groups["input"],
            residuals=groups["residuals"][0] if groups["residuals"] else None,
            native=bool(header["native"]),
            every=every,
        )
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise DescriptionError(file, f"is damaged ({error})") from error


def _find_step(
    file: str | Path,
    header: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    given: Simulator | None,
) -> Step | None:
    """The step of a file, or that of a simulator that is made of the same parts.

    The last `inputs` of a step are the array parameters of its parts.
    """
    if "parts" not in header:
        return None
    if given is not None:
        digests = part_digests(given.step)
        if digests["model"] != header["parts"].get("model"):
            here, there = given.robot.name, header.get("robot")
            reason = (
                f"is of the robot {there!r} ({str(header.get('digest'))[:12]}), not of the "
                f"simulator's {here!r} ({given.robot.model.digest[:12]})"
            )
            raise DescriptionError(file, reason)
        other = [name for name, x in digests.items() if header["parts"].get(name) != x]
        if other:
            raise DescriptionError(file, f"the simulator has another {', '.join(other)}")
        return given.step
    if "step" not in header:
        reason = f"has a part of the class {header.get('own_class')}, which is not of qddot"
        raise DescriptionError(file, f"{reason}: give a simulator=… that is made with it")
    try:
        count = int(header["step"]["array_count"])
        step = decode_step(header["step"], inputs[len(inputs) - count :])
        changed = [k for k, x in part_digests(step).items() if header["parts"].get(k) != x]
    except Exception as error:  # what damaged data makes a component raise is its own affair
        raise DescriptionError(file, f"its step cannot be made ({error})") from error
    if changed:
        versions = f"qddot {header.get('qddot')}, and this is {__version__}"
        reason = f"its {', '.join(changed)} cannot be made again: it was written by {versions}"
        raise DescriptionError(
            file, f"{reason}; give a simulator=… of the same parts, or {_RESAVE}"
        )
    return step


def _read_npz(file: str | Path) -> tuple[dict[str, Any] | None, dict[str, np.ndarray]]:
    """The header of an archive, if it has one, and its arrays by name, repeated rows restored."""
    try:
        with ArrayArchive(file) as archive:
            size = sum(x.nbytes for x in archive.headers.values())
            require_memory(size, f"the arrays of {file}", "keep fewer samples with every=…")
            found = archive.read_all()
        header = json.loads(found.pop("header").item()) if "header" in found else None
        # repeat rows again along the axes that were cut
        for name, shape in header["shapes"].items() if header else ():
            if found[name].shape != tuple(shape):
                found[name] = _repeat_rows(found[name], tuple(shape))
    except DescriptionError as error:
        raise DescriptionError(file, f"no trajectory: {error.reason}") from error
    except MemoryError:
        raise
    except Exception as error:  # what a damaged header makes its reader raise is its own affair
        raise DescriptionError(file, f"no trajectory ({error})") from error
    if not set(FIELDS) <= set(found):
        raise DescriptionError(file, f"no trajectory: it has {', '.join(found) or 'nothing'}")
    check_motion(file, {name: found[name] for name in FIELDS})
    return header, found


def _repeat_rows(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array whose axes of one row are as long as a shape says, without a copy."""
    if math.prod(shape) > _MOST_REPEATED:
        raise ValueError(f"the shape {shape} has more than {_MOST_REPEATED:,} numbers")
    return np.broadcast_to(x, shape)


def load_trajectory(file: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of `Rollout.save` or `save_trajectory`, by name."""
    return _read_npz(file)[1]


def _write_mcap(model: Model, rollout: Rollout, draft: Path) -> None:
    from mcap.writer import Writer

    writer = Writer(str(draft))
    writer.start(profile="", library="qddot")
    schema = writer.register_schema(
        name="qddot.State", encoding="jsonschema", data=json.dumps(_SCHEMA).encode()
    )
    channel = writer.register_channel(topic="/state", message_encoding="json", schema_id=schema)
    writer.add_metadata("qddot", rollout_facts(model, rollout))
    last = len(rollout.tau) - 1
    for k, t in enumerate(rollout.time):
        tau = rollout.tau[min(k, last)] if last >= 0 else np.zeros(model.nv)
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
