"""The robot in the browser, with its panel, and on pages that play alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import InvalidArgument
from qddot.files import fill_whole
from qddot.robot.robot import Robot
from qddot.view.client import secure_page
from qddot.view.motion import as_motion, sweep_motion
from qddot.view.panel import Panel
from qddot.view.session import View

__all__ = ["export_page", "open_view", "show_robot"]


def open_view(
    robot: Robot,
    motion: Any = None,
    *,
    ghost: Robot | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
) -> View:
    """A view of a robot with its panel, at `view.url`, playing a motion if one is given."""
    if motion is not None:
        # a motion that cannot be played starts no server
        motion = as_motion(motion, robot, forces=True)
    view = View(robot, ghost=ghost, host=host, port=port)
    view.start(Panel(view))
    if motion is not None:
        view.play(motion)
    return view


def show_robot(
    robot: Robot,
    motion: Any = None,
    *,
    ghost: Robot | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    wait: bool | None = None,
) -> View:
    """Show a robot in the browser, playing a motion if one is given.

    A motion is a rollout, a log file (.npz, .mcap, .csv), or configurations (n, nq). `ghost` is a
    second robot that follows by joint names. The page is for this machine only unless `host` says
    otherwise. A script stays until it is interrupted; interactive sessions go on at once.
    """
    view = open_view(robot, motion, ghost=ghost, host=host, port=port)
    interactive = hasattr(sys, "ps1") or "ipykernel" in sys.modules
    if not interactive if wait is None else wait:
        view.wait()
    return view


def export_page(
    robot: Robot, file: str | Path, motion: Any = None, *, fps: float = 30.0, force: bool = True
) -> Path:
    """Write a page that plays a motion without a server and asks the network for nothing.

    Without a motion each joint moves through its range in turn.
    """
    target = Path(file)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidArgument("file", str(file), "its name ends in .html")
    moved = sweep_motion(robot) if motion is None else as_motion(motion, robot)
    view = View(robot, port=0)
    try:
        recorder = view.server.get_scene_serializer()
        for q in moved.sample(np.arange(0.0, moved.duration + 1e-9, 1.0 / fps)):
            view.scene.move(view.dynamics.read(q).bodies)
            recorder.insert_sleep(1.0 / fps)
        page = recorder.as_html()
    finally:
        view.close()
    page = secure_page(page, robot.name)
    fill_whole(target, lambda draft: draft.write_text(page, encoding="utf-8"), force=force)
    return target
