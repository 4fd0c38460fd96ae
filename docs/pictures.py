"""Make the pictures of README and docs again: `python docs/pictures.py`, about a minute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import qddot
from qddot.display.plots import new_figure
from qddot.view.coordinates import start_configuration
from qddot.view.pictures import RobotPicture, animate_motion, frame_axes, plot_motion

FOLDER = Path(__file__).parent / "images"
ROBOTS = ("panda", "ur5e", "quadruped", "delta")


def draw_robots() -> None:
    """The built-in robots side by side."""
    figure = new_figure(12.0, 3.4)
    for k, name in enumerate(ROBOTS):
        robot = qddot.load(name)
        axes = figure.add_subplot(1, len(ROBOTS), k + 1, projection="3d")
        axes.view_init(20, -50)
        axes.set_proj_type("ortho")
        axes.set_axis_off()
        triangles = RobotPicture(robot, axes).draw(start_configuration(robot))
        frame_axes(axes, triangles.reshape(-1, 3))
        axes.set_title(name)
    figure.savefig(FOLDER / "robots.png", dpi=90)


def animate_circle() -> None:
    """A Panda whose tool goes round a circle, by inverse kinematics."""
    robot, tool = qddot.load("panda"), "panda_hand_tcp"
    turn = np.linspace(0.0, 2.0 * np.pi, 49)[:-1]
    pose = np.tile(robot.frame_pose(start_configuration(robot), tool), (len(turn), 1, 1))
    pose[:, 1, 3] += 0.22 * np.cos(turn)
    pose[:, 2, 3] += 0.22 * np.sin(turn) - 0.05
    q = [start_configuration(robot)]
    for target in pose:
        q.append(robot.inverse_kinematics(tool, target, q[-1]).q)
    motion = {"time": np.arange(len(turn)) / 16.0, "q": np.array(q[1:])}
    animate_motion(motion, FOLDER / "circle.gif", robot, fps=16, size=3.6)


def draw_swing() -> None:
    """A double pendulum let go, over time."""
    robot = qddot.load("double_pendulum")
    motion = robot.rollout([1.5, 0.3], [0.0, 0.0], dt=1e-3, steps=5000, every=10, integrator="rk4")
    plot_motion(motion, robot).savefig(FOLDER / "swing.png", dpi=80)


def draw_torques() -> None:
    """What `qddot torques` draws."""
    options = ["--to", "0,-1,1,0,0,0.5", "--time", "0.5", "--payload", "2", "--force"]
    file = str(FOLDER / "torques.png")
    command = [sys.executable, "-m", "qddot", "torques", "ur5e", *options, "--plot", file]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for make in (draw_robots, animate_circle, draw_swing, draw_torques):
        make()
