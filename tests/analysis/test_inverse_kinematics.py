"""Inverse kinematics: what it returns is put through forward kinematics; limits are kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from scipy.spatial.transform import Rotation

import qddot
from qddot.algorithms.inverse_kinematics import rotation_chord
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName, Unsupported
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Mat3, Vec3

TOOL = "panda_hand_tcp"


@pytest.fixture(scope="module")
def panda() -> Robot:
    return Robot(qddot.load("panda").model, native=True)


@pytest.fixture(scope="module")
def arm() -> Robot:
    return Robot(qddot.load("planar_2r").model, native=True)


def test_solutions_reach_their_poses_within_the_limits(panda):
    T = panda.frame_pose(panda.random(1, 300), TOOL)
    found = panda.inverse_kinematics(TOOL, T)
    assert found.converged.mean() > 0.98
    reached = panda.frame_pose(found.q, TOOL)
    assert np.abs(reached - T)[found.converged].max() < 2e-6
    assert (panda.limits.lower <= found.q).all()
    assert (found.q <= panda.limits.upper).all()
    # errors are those of the configurations that are returned, solved or not
    away = np.linalg.norm(reached[:, :3, 3] - T[:, :3, 3], axis=-1)
    turn = Rotation.from_matrix(reached[:, :3, :3].swapaxes(1, 2) @ T[:, :3, :3]).magnitude()
    assert found.position_error == pytest.approx(away, abs=1e-12)
    assert found.orientation_error == pytest.approx(turn, abs=1e-9)
    assert f"{found.converged.sum()} of 300 solved" in str(found)


@pytest.mark.parametrize("task", ["position", "orientation"])
def test_a_part_of_the_pose_can_be_prescribed(panda, task):
    T = panda.frame_pose(panda.random(2, 20), TOOL)
    part = np.s_[..., :3, 3] if task == "position" else np.s_[..., :3, :3]
    found = panda.inverse_kinematics(TOOL, T[part], panda.random(3), task=task)
    assert found.converged.all()
    assert panda.frame_pose(found.q, TOOL)[part] == pytest.approx(T[part], abs=2e-6)
    other = found.orientation_error if task == "position" else found.position_error
    assert not other.any()


def test_both_elbows_of_a_planar_arm(arm):
    tool, q = arm.frame_names[-1], np.array([0.4, 0.9])
    point = arm.frame_pose(q, tool)[:3, 3]
    starts = np.array([[0.3, 0.5], [1.0, -0.5]])
    up, down = arm.inverse_kinematics(tool, point, starts, task="position", restarts=0).q
    # two links: the elbow bends the same way back, the shoulder makes up for it
    first, second = (np.array(arm.frame_pose(q, f)[:3, 3]) for f in ("link2", tool))
    assert up == pytest.approx(q, abs=1e-5)
    assert down[1] == pytest.approx(-q[1], abs=1e-5)
    elbow, reach = np.arctan2(first[2], first[0]), np.arctan2(second[2], second[0])
    if abs(first[2]) + abs(second[2]) < 1e-9:
        elbow, reach = np.arctan2(first[1], first[0]), np.arctan2(second[1], second[0])
    assert abs(down[0] - q[0]) == pytest.approx(2 * abs(reach - elbow), abs=1e-5)


def test_what_is_out_of_reach_is_as_near_as_can_be(arm):
    tool = arm.frame_names[-1]
    straight = arm.frame_pose(np.array([0.7, 0.0]), tool)[:3, 3]
    found = arm.inverse_kinematics(tool, 3.0 * straight, [0.2, 0.4], task="position", restarts=0)
    assert not found.converged
    assert found.position_error == pytest.approx(2.0 * np.linalg.norm(straight), rel=1e-9)


@pytest.mark.parametrize("task", ["position", "pose"])
def test_nothing_is_nearer_to_a_pose_out_of_reach(panda, task):
    rng = np.random.default_rng(0)
    lower, upper = panda.limits.lower, panda.limits.upper
    targets = panda.frame_pose(panda.random(4, 4), TOOL)
    way = targets[:, :3, 3] / np.linalg.norm(targets[:, :3, 3], axis=-1, keepdims=True)
    targets[:, :3, 3] = way * np.array([[1.3], [1.5], [2.0], [3.0]])
    given = targets[:, :3, 3] if task == "position" else targets
    found = panda.inverse_kinematics(TOOL, given, task=task)
    turn = 2.0 * np.sin(0.5 * found.orientation_error)
    cost = found.position_error**2 + turn**2
    assert not found.converged.any()
    assert ((lower <= found.q) & (found.q <= upper)).all()

    def error(q, T):
        pose = panda.frame_pose(q, TOOL)
        if task == "position":
            return pose[:3, 3] - T[:3, 3]
        # the squares of the entries of R − R' add up to twice the square of the chord
        return np.concatenate([pose[:3, 3] - T[:3, 3], (pose - T)[:3, :3].ravel() / np.sqrt(2.0)])

    for k, T in enumerate(targets):
        starts = [found.q[k], *rng.uniform(lower, upper, (3, 7))]
        tried = [
            optimize.least_squares(error, np.clip(x, lower + 1e-9, upper - 1e-9), args=(T,),
                                   bounds=(lower, upper), xtol=1e-14, ftol=1e-14, gtol=1e-12)
            for x in starts
        ]  # fmt: skip
        assert np.sqrt(cost[k]) < np.sqrt(2.0 * min(x.cost for x in tried)) + 1e-6


def test_a_limit_that_is_in_the_way_is_kept(panda):
    # the optimum within the limits: the gradient vanishes, or points into a limit
    q = panda.random(5)
    T = panda.frame_pose(q, TOOL)
    T[0, 3] += 2.0
    found = panda.inverse_kinematics(TOOL, T[:3, 3], q, task="position", restarts=0)
    x, lower, upper = found.q, panda.limits.lower, panda.limits.upper
    J = panda.frame_jacobian(x, TOOL, "local_world_aligned")[:3]
    push = J.T @ (T[:3, 3] - panda.frame_pose(x, TOOL)[:3, 3])
    free = (lower + 1e-9 < x) & (x < upper - 1e-9)
    assert np.abs(push[free]).max(initial=0.0) < 1e-5
    assert (push[x >= upper - 1e-9] >= -1e-5).all()
    assert (push[x <= lower + 1e-9] <= 1e-5).all()
    assert not found.converged


def test_native_and_interpreted_agree(panda):
    T = panda.frame_pose(panda.random(4, 12), TOOL)
    plain = Robot(panda.model, native=False)
    ours, theirs = (
        r.inverse_kinematics(TOOL, T, iterations=20, restarts=2) for r in (panda, plain)
    )
    assert (ours.converged == theirs.converged).all()
    assert ours.q == pytest.approx(theirs.q, abs=1e-7)


def test_targets_and_starts_broadcast(panda):
    T = panda.frame_pose(panda.random(6, 3), TOOL)
    found = panda.inverse_kinematics(TOOL, T[:, None], panda.random(7, 5))
    assert found.q.shape == (3, 5, 7)
    assert found.converged.shape == (3, 5)
    assert panda.inverse_kinematics(TOOL, np.empty((0, 4, 4))).q.shape == (0, 7)


def test_a_free_base_moves_as_a_whole():
    robot = qddot.load("quadrotor")
    frame = robot.frame_names[-1]
    T = robot.frame_pose(robot.random(1), frame)
    found = robot.inverse_kinematics(frame, T, robot.neutral())
    assert found.converged
    assert robot.frame_pose(found.q, frame) == pytest.approx(T, abs=2e-6)
    assert np.linalg.norm(found.q[3:7]) == pytest.approx(1.0)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.5, 2.0, np.pi - 1e-4, np.pi - 1e-7, np.pi])
@pytest.mark.parametrize("axis", [(1, 0, 0), (0, -1, 0), (0.6, 0.0, -0.8), (0.48, 0.64, 0.6)])
def test_chord_of_a_rotation(angle, axis):
    R = Rotation.from_rotvec(np.multiply(angle, axis)).as_matrix()
    chord = np.array(list(rotation_chord(Mat3(*(Vec3(*map(float, row)) for row in R)))))
    expected = 2.0 * np.sin(angle / 2) * np.array(axis)
    if angle > np.pi - 1e-6 and chord @ expected < 0:  # the other way round is as short
        expected = -expected
    assert chord == pytest.approx(expected, abs=1e-7 if angle > 3 else 1e-12)


def test_mistakes_are_named(panda):
    T, nan = np.eye(4), np.full((4, 4), np.nan)
    with pytest.raises(UnknownName, match="panda_hand"):
        panda.inverse_kinematics("panda_hnd", T)
    with pytest.raises(UnknownName, match="orientation"):
        panda.inverse_kinematics(TOOL, T, task="rotation")
    with pytest.raises(ShapeMismatch, match=r"\(\.\.\., 3\)"):
        panda.inverse_kinematics(TOOL, T, task="position")
    with pytest.raises(InvalidArgument, match="finite"):
        panda.inverse_kinematics(TOOL, nan)
    with pytest.raises(InvalidArgument, match="orthonormal"):
        panda.inverse_kinematics(TOOL, 2.0 * T)
    with pytest.raises(Unsupported, match="no joint moves"):
        panda.inverse_kinematics("panda_link0", T)
    with pytest.raises(InvalidArgument, match="whole number"):
        panda.inverse_kinematics(TOOL, T, iterations=0)
    with pytest.raises(InvalidArgument, match="above 0"):
        panda.inverse_kinematics(TOOL, T, tolerance=0.0)
