"""Configurations as people type them, and motions as tables for a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from qddot.analysis import constraints
from qddot.cli.terminal import err, style_text
from qddot.errors import InvalidArgument, UnknownName, count_text
from qddot.model.inputs import warn_of_degrees
from qddot.robot.robot import Robot
from qddot.simulate.status import ROUNDED
from qddot.simulate.trial import random_states

__all__ = ["STATE_HELP", "parse_configuration", "start_configuration", "write_motion_table"]

STATE_HELP = "numbers (0,1,-1 …), joints (elbow=0.5,…), neutral, random, or a name of the file"
_GUESSES, _ROUNDS = 32, 20
"""Random configurations of a robot with loops, and how often they are closed within limits."""


def parse_configuration(robot: Robot, option: str, text: str, seed: int = 0) -> np.ndarray:
    """The configuration of a text: numbers, joints by name, "neutral", "random", or a named one."""
    named = {"neutral": robot.neutral(), **robot.configurations}
    if text == "random":
        return robot.random(seed)
    if text in named:
        return np.array(named[text])
    parts = [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
    if parts and all("=" in part for part in parts):
        # the neutral configuration with some joints elsewhere
        q = robot.neutral()
        for part in parts:
            name, _, value = part.partition("=")
            body = robot.model.body_of_joint(name.strip())
            if body.joint.kind.nq != 1 or body.joint.leader is not None:
                raise InvalidArgument(
                    option, part, f"{name} has no coordinate of its own to be set"
                )
            try:
                q[body.iq] = float(value)
            except ValueError:
                raise InvalidArgument(option, part, "it is JOINT=NUMBER") from None
            warn_of_degrees(body.joint, float(value), stacklevel=2)
        if not np.isfinite(q).all():
            raise InvalidArgument(option, ",".join(parts), "numbers must be finite")
        return q
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise UnknownName("state", text, [*named, "random"], robot.name) from None
    if len(numbers) != robot.nq:
        names = ", ".join(robot.joint_names)
        given = f"it has {count_text(len(numbers), 'number')}"
        accepted = f"{given}, {robot.name} has {robot.nq} coordinates: {names}"
        raise InvalidArgument(option, text, accepted)
    if not np.isfinite(numbers).all():
        raise InvalidArgument(option, text, "numbers must be finite")
    for body in robot.model.independent:
        warn_of_degrees(body.joint, numbers[body.iq.start], stacklevel=2)
    return np.array(numbers)


def start_configuration(
    robot: Robot, option: str, text: str, seed: int = 0
) -> tuple[str, np.ndarray]:
    """The configuration of a text, its loops closed, and its name.

    A random one of a robot with loops is within joint limits. Where none is found, one of the file
    or the neutral one takes its place, and a message says so.
    """
    if not robot.model.loops or text != "random":
        q = parse_configuration(robot, option, text, seed)
        return text, constraints.assemble(robot, q) if robot.model.loops else q
    lower, upper = robot.limits.lower, robot.limits.upper

    def inside(q: np.ndarray) -> np.ndarray:
        return ((lower - q <= ROUNDED) & (q - upper <= ROUNDED)).all(axis=-1)

    # put within limits and closed, in turn, until one is both; joints with springs stay if they
    # can, since closing would bend stiff springs of light joints far
    sprung = tuple(b.joint.name for b in robot.model.independent if b.joint.drivetrain.stiffness)
    for fixed in dict.fromkeys((sprung, ())):
        q, _ = random_states(robot, np.random.default_rng(seed), _GUESSES)
        for _ in range(_ROUNDS):
            q = constraints.assemble(robot, q, fixed=fixed, strict=False)
            q = q[np.isfinite(q).all(axis=-1)]
            if inside(q).any():
                return "random", np.array(q[inside(q).argmax()])
            q = np.clip(q, lower, upper)
    for name, guess in {**robot.configurations, "neutral": robot.neutral()}.items():
        q = constraints.assemble(robot, guess, strict=False)
        if inside(q):
            words = f" no random one closes the loops within limits: state {name!r} takes its place"
            err.print(style_text(("start:", "yellow"), words), soft_wrap=True)
            return name, q
    accepted = f"none of {_GUESSES} random configurations closes its loops within joint limits"
    raise InvalidArgument(option, "random", f"{accepted}: name a state, or try another --seed")


def write_motion_table(robot: Robot, file: Path, **columns: Any) -> None:
    """Write a motion as CSV: time, then q, v, tau and so on with the names of coordinates.

    Each array has a row a sample; None is left out, and one sample less repeats the last.
    """
    time = np.asarray(columns.pop("time"), dtype=float)
    # one name a coordinate: the joint's, with a number where it has several
    coordinates = [
        body.joint.name if body.joint.kind.nq == 1 else f"{body.joint.name}.{k}"
        for body in robot.model.independent
        for k in range(body.joint.kind.nq)
    ]
    heads, blocks = ["time"], [time[:, None]]
    for name, values in columns.items():
        if values is None:
            continue
        rows = np.asarray(values, dtype=float)
        if len(rows) == len(time) - 1:
            rows = np.concatenate([rows, rows[-1:]]) if len(rows) else np.zeros((1, rows.shape[1]))
        names = coordinates if name == "q" else robot.model.velocity_names
        heads += [f"{name}_{x}" for x in names]
        blocks.append(rows)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(heads)
        writer.writerows(np.concatenate(blocks, axis=1).tolist())
