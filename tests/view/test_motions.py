"""Motions as the view takes them: of every file that a command writes, with the torques of laws."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util

import numpy as np
import pytest
from typer.testing import CliRunner

import qddot
from qddot.analysis.constraints.dynamics import inverse_dynamics
from qddot.cli import app
from qddot.control import PD, RolloutPlant, run
from qddot.errors import QddotError
from qddot.simulate import save_trajectory
from qddot.view.motion import as_motion, read_motion
from qddot.view.readings import Dynamics, motor_dofs


def invoke(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(x) for x in arguments])
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.output


@pytest.fixture(scope="module")
def arm():
    return qddot.load("planar_2r")


def swing(arm, **choices):
    """A swing of the arm under a law, by which it is at zero with the torques −kp q."""
    law = choices.pop("feedback", PD(np.array([3.0, 2.0]), np.zeros(2)))
    return arm.rollout(
        [0.3, 0.2], [0.0, 0.0], dt=1e-3, steps=40, every=10, feedback=law, q_ref=np.zeros(2),
        v_ref=np.zeros(2), **choices,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("planar_2r", ".npz"), ("planar_2r", ".csv"), ("planar_2r", ".mcap"), ("quadrotor", ".npz"),
     ("quadrotor", ".csv"), ("delta", ".npz")],
)  # fmt: skip
def test_what_simulate_writes_is_played(name, suffix, tmp_path):
    robot, file = qddot.load(name), tmp_path / f"motion{suffix}"
    if suffix == ".mcap":
        pytest.importorskip("mcap")
    invoke("simulate", name, "--time", 0.01, "--torque", "gravity", "--save", file)
    moved = as_motion(file, robot)
    assert len(moved.time) > 2
    assert moved.q.shape[1] == robot.nq
    # the torque is held at that of gravity at the start
    assert moved.tau is not None
    assert (moved.tau == moved.tau[0]).all()
    assert moved.tau.shape == moved.v.shape
    if name == "planar_2r":
        assert moved.tau[0] == pytest.approx(robot.gravity(moved.q[0]))


@pytest.mark.parametrize("name", ["planar_2r", "quadrotor"])
def test_what_torques_and_records_hold_is_played(name, tmp_path):
    pytest.importorskip("mcap")
    robot, table, record = qddot.load(name), tmp_path / "torques.csv", tmp_path / "run.mcap"
    invoke("torques", name, "--to", "neutral", "--save", table)
    moved = as_motion(table, robot)
    assert moved.tau.shape == moved.v.shape
    assert moved.tau == pytest.approx(
        robot.inverse_dynamics(moved.q, moved.v, np.gradient(moved.v, moved.time, axis=0)),
        abs=1e-2 * np.abs(moved.tau).max(),
    )
    invoke("simulate", name, "--time", 0.01, "--record", record)
    moved = as_motion(read_motion(record, "motion"), robot)
    assert moved.tau.shape == moved.v.shape == (len(moved.time), robot.nv)


def test_what_a_control_loop_saves_is_played(arm, tmp_path):
    plant = RolloutPlant(arm, dt=1e-3)
    plant.reset(np.array([0.3, 0.2]))
    goal = {"q_ref": np.zeros(2), "v_ref": np.zeros(2)}
    trace = run(plant, PD(np.array([3.0, 2.0]), np.zeros(2)), goal, duration=0.01)
    trace.save(tmp_path / "trace.npz")
    for given in (trace, tmp_path / "trace.npz"):
        moved = as_motion(given, arm)
        assert moved.tau == pytest.approx(trace.tau)
        assert moved.tau[0] == pytest.approx([-0.9, -0.4])


@pytest.mark.parametrize("choices", [{}, {"record": True}, {"feedback_at": "stages"}])
def test_a_rollout_has_the_torques_of_its_law(arm, choices, tmp_path):
    motion = swing(arm, tau=np.array([0.5, 0.0]), **choices)
    expected = -np.array([3.0, 2.0]) * motion.q[:-1] + [0.5, 0.0]
    assert motion.tau == pytest.approx(expected)
    # torques are held, so the last sample has those of the one before
    expected = np.concatenate([expected, expected[-1:]])
    motion.save(tmp_path / "motion.npz")
    save_trajectory(arm, motion, tmp_path / "motion.mcap")
    for given in (motion, tmp_path / "motion.npz", tmp_path / "motion.mcap"):
        assert as_motion(given, arm).tau == pytest.approx(expected)
    # what continues is what was given
    again, further = qddot.simulate.load(tmp_path / "motion.npz"), {"steps": 20}
    goal = {"q_ref": np.zeros(2), "v_ref": np.zeros(2)}
    assert again.tau.tolist() == motion.tau.tolist()
    assert again.resume(**further, **goal).q.tolist() == motion.resume(**further, **goal).q.tolist()
    assert again.inputs[0].tolist() == motion.inputs[0].tolist() == [[0.5, 0.0]] * 4


def test_torques_of_a_batch_and_of_rollouts_without_a_law(arm):
    law = PD(np.array([3.0, 2.0]), np.zeros(2))
    q0 = np.array([[0.3, 0.2], [0.1, 0.0], [0.0, 0.4]])
    motion = arm.rollout(
        q0, np.zeros((3, 2)), dt=1e-3, steps=20, every=10, feedback=law, q_ref=np.zeros(2),
        v_ref=np.zeros(2),
    )  # fmt: skip
    assert motion.tau == pytest.approx(-np.array([3.0, 2.0]) * motion.q[:, :-1])
    assert "tau" in dict(motion._shown_fields())
    assert dataclasses.replace(motion, dt=1.0).tau.tolist() == motion.tau.tolist()
    assert copy.copy(motion).tau.tolist() == motion.tau.tolist()
    given = np.array([[1.0, 2.0], [3.0, 4.0]])
    plain = arm.rollout([0.1, 0.2], [0.0, 0.0], given, dt=1e-3, steps=20, every=10)
    assert plain.tau.tolist() == given.tolist()
    assert as_motion(plain).tau.tolist() == [*given.tolist(), given[-1].tolist()]


class Remembering:
    """A law whose torque is a sum over time."""

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {"sum": np.ones(robot.nv)}

    def command(self, robot, state, reference, memory):
        return memory["sum"], {"sum": memory["sum"] + state.q}


def test_torques_that_depend_on_what_was_not_recorded_are_not_known(tmp_path):
    # a robot without limits, whose states are always recorded
    arm = qddot.Robot.from_dh("rods", [{"a": 0.5, "mass": 1.0}, {"a": 0.3, "mass": 1.0}])
    choices = {"dt": 1e-3, "steps": 20, "every": 10, "feedback": Remembering()}
    forgotten = arm.rollout([0.3, 0.2], [0.0, 0.0], **choices)
    known = arm.rollout([0.3, 0.2], [0.0, 0.0], record=True, **choices)
    for motion in (forgotten, known):
        for suffix in (".npz", ".mcap"):
            save_trajectory(arm, motion, tmp_path / f"motion{suffix}")
            for given in (motion, tmp_path / f"motion{suffix}"):
                tau = as_motion(given, arm).tau
                if motion is forgotten:
                    assert tau is None
                else:
                    assert tau[0] == pytest.approx([1.0, 1.0])
                    assert (tau[1:] > 1.5).all()
    assert np.isnan(forgotten.tau).all()


def test_holding_torques_of_a_robot_with_loops_are_those_of_its_motors():
    robot = qddot.load("delta")
    dynamics, q = Dynamics(robot), robot.neutral()
    names = [robot.model.velocity_names[k] for k in motor_dofs(robot)]
    assert names == ["arm1_joint", "arm2_joint", "arm3_joint"]
    torque = dynamics.read(q).torque
    assert torque[dynamics.motors] == pytest.approx([-1.67424] * 3, abs=1e-5)
    assert np.delete(torque, dynamics.motors).tolist() == [0.0] * 9
    # the motion stays where these torques hold it
    a, _ = robot.constrained_dynamics(q, np.zeros(robot.nv), torque)
    assert np.abs(a).max() < 1e-9
    # with a payload, by singular values from the same equations
    dynamics.set_payload("platform", 0.4)
    heavier = inverse_dynamics(
        robot.with_payload("platform", 0.4), q, np.zeros(robot.nv), np.zeros(robot.nv), names
    )
    assert dynamics.read(q).torque == pytest.approx(heavier.tau, abs=1e-9)
    assert (dynamics.read(q).torque[dynamics.motors] < -1.7).all()


def test_a_robot_with_loops_that_depend_on_each_other_has_torques(tmp_path):
    body = """<body name="{0}" pos="{1} 0 0"><joint name="{0}" axis="0 1 0"
      actuatorfrcrange="{2}" actuatorfrclimited="{3}"/><geom type="capsule" size=".02"
      fromto="0 0 0 0 0 1"/>{4}</body>"""
    bar = body.format("bar", 0, "0 1", "false", '<site name="end" pos="1 0 0"/>')
    bar = bar.replace('pos="0 0 0"', 'pos="0 0 1"').replace("0 0 0 0 0 1", "0 0 0 1 0 0")
    parts = body.format("left", 0, "-9 9", "true", bar) + body.format(
        "right", 1, "0 1", "false", '<site name="tip" pos="0 0 1"/>'
    )
    connect = '<connect site1="end" site2="tip"/>'
    file = tmp_path / "bars.xml"
    file.write_text(
        f"<mujoco><worldbody>{parts}</worldbody><equality>{connect * 2}</equality></mujoco>"
    )
    robot = qddot.load(file)
    dynamics = Dynamics(robot)
    assert dynamics.motors == [0]
    # upright it balances, a little aside the bar and both legs pull
    torque = dynamics.read(np.array([0.1, -0.1, 0.1])).torque
    assert np.isfinite(torque).all()
    assert torque[1:].tolist() == [0.0, 0.0]
    assert torque[0] == pytest.approx(-dynamics.read(np.array([-0.1, 0.1, -0.1])).torque[0])
    assert abs(torque[0]) > 0.1


WRONG = {
    "text": {"time": ["a"], "q": [[0.0, 0.0]]},
    "rows of unequal length": {"time": [0.0, 1.0], "q": [[0.0, 0.0], [0.0]]},
    "no samples": {"time": [], "q": np.zeros((0, 2))},
    "one time": {"time": 0.0, "q": [[0.0, 0.0]]},
    "times of rows": {"time": [[0.0], [1.0]], "q": np.zeros((2, 2))},
    "no batch": {"time": [0.0], "q": np.zeros((0, 1, 2))},
    "other torques": {"time": [0.0, 1.0], "q": np.zeros((2, 2)), "tau": np.zeros(3)},
    "five torques for two": {"time": [0.0, 1.0], "q": np.zeros((2, 2)), "tau": np.ones((5, 2))},
    "no torque": {"time": [0.0, 1.0], "q": np.zeros((2, 2)), "tau": np.zeros((0, 3))},
    "speeds in words": {"time": [0.0], "q": np.zeros((1, 2)), "v": "fast"},
    "nothing": {},
    "a word": "motion.xyz",
    "a number": 3,
    "objects": [object()],
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_motion_is_an_error_of_ours(arm, kind):
    with pytest.raises(QddotError):
        as_motion(WRONG[kind], arm)


BROKEN = {
    "empty.csv": b"", "header.csv": b"time,q_joint1,q_joint2\n", "columns.csv": b"a,b\n1,2\n",
    "text.csv": b"time,q_joint1,q_joint2\nx,y,z\n", "bytes.csv": b"\x00\xff\xfe\n\x01",
    "rows.csv": b"time,q_joint1,q_joint2\n0,1\n0,1,2,3,4\n", "empty.npz": b"",
    "zip.npz": b"PK\x03\x04 and no more", "empty.mcap": b"", "cut.mcap": b"\x89MCAP0\r\n\x01\x00",
    "folder.npz": None, "missing.npz": ..., "name.xyz": b"?",
}  # fmt: skip


@pytest.mark.skipif(importlib.util.find_spec("viser") is None, reason="viser is not installed")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_message(name, tmp_path):
    file, content = tmp_path / name, BROKEN[name]
    if content is None:
        file.mkdir()
    elif content is not ...:
        file.write_bytes(content)
    page = tmp_path / "page.html"
    arguments = ["view", "planar_2r", "--play", str(file), "--export", str(page)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    assert not page.exists()
    with pytest.raises(QddotError):
        qddot.load("planar_2r").view(file, wait=False, port=0)
